"""The shape of the package: rooms, floors, and a root folder in which Python still works."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = {"store": 1, "runner": 2, "bisect": 3, "reduce": 3}
SKIPPED = {ROOT / "demo" / "trees"}


def modules(room: str) -> list[Path]:
    return [
        path
        for path in sorted((ROOT / room).rglob("*.py"))
        if not any(path.is_relative_to(skipped) for skipped in SKIPPED)
    ]


def imported_rooms(module: Path, room: str) -> set[str]:
    """The other rooms that a module imports, by relative import or by the package's name."""
    depth = len(module.relative_to(ROOT / room).parts)
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.level == depth + 1:
            names = [node.module] if node.module else [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = (
                [node.module.removeprefix("precision_bisect.")] if "precision_bisect" in node.module else []
            )
        elif isinstance(node, ast.Import):
            names = [
                alias.name.removeprefix("precision_bisect.")
                for alias in node.names
                if alias.name.startswith("precision_bisect")
            ]
        rooms |= {name.partition(".")[0] for name in names} - {room}
    return rooms


@pytest.mark.parametrize("room", FLOORS)
def test_imports_run_one_way(room: str) -> None:
    for module in modules(room):
        for other in imported_rooms(module, room):
            if other == "demo":
                assert module == ROOT / "bisect" / "commands" / "demo.py", f"{module} knows of the demo stack"
            elif other != "configs":
                assert FLOORS[other] < FLOORS[room], f"{module} imports {other}"


def test_the_demo_imports_no_room() -> None:
    for module in modules("demo"):
        assert imported_rooms(module, "demo") <= {"configs"}, module


@pytest.mark.parametrize("folder", ["bisect/search", "reduce/shrink/minimize"])
def test_algorithms_are_pure(folder: str) -> None:
    """No path, process, clock or database where candidates are chosen."""
    impure = {
        "os",
        "pathlib",
        "subprocess",
        "time",
        "datetime",
        "sqlalchemy",
        "git",
        "random",
        "socket",
        "torch",
    }
    for module in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
                assert node.level <= len(module.relative_to(ROOT / folder).parts), (
                    f"{module} leaves its folder"
                )
            assert not {name.partition(".")[0] for name in names} & impure, f"{module} imports {names}"


def test_every_folder_of_modules_is_packaged() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    rooms = [room for room in (*FLOORS, "demo", "configs") if (ROOT / room).is_dir()]
    folders = {module.parent.relative_to(ROOT) for room in rooms for module in modules(room)}
    assert listed == {".".join(("precision_bisect", *folder.parts)) for folder in folders}


def test_bisect_does_not_hide_the_standard_library() -> None:
    assert not (ROOT / "bisect" / "__init__.py").exists()
    code = "import random, bisect; print(bisect.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert Path(found.strip()).parent == Path(ast.__file__).parent


def test_pytest_as_a_module_collects_from_the_root() -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "--quiet",
            "-p",
            "no:cacheprovider",
            "tests/store",
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )


def test_an_installed_wheel_works(tmp_path: Path) -> None:
    """The wheel alone, outside of the checkout: rooms import each other, data files are there, `bisect` is Python's."""
    copy = tmp_path / "source"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(copy)],
        check=True,
        capture_output=True,
    )
    wheel = next(tmp_path.glob("precision_bisect-*.whl"))
    target = tmp_path / "installed"
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True, capture_output=True
    )
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r})\n"
        "import random, bisect\n"
        "from precision_bisect.bisect.run import session\n"
        "from precision_bisect.runner.stack.file import named_stacks\n"
        "from precision_bisect.store.database import open_store\n"
        "from precision_bisect.demo import make\n"
        f"open_store('sqlite:///{tmp_path}/store.sqlite')\n"
        "print(session.__file__, 'pypto' in named_stacks(), hasattr(bisect, 'bisect_left'))"
    )
    found = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.split()
    assert found[0].startswith(str(target))
    for room in (*FLOORS, "demo", "configs"):
        assert (target / "precision_bisect" / room / "py.typed").is_file()
    assert found[1:] == ["True", "True"]


def test_help_is_quick_because_it_imports_little() -> None:
    code = (
        "import sys\n"
        "from precision_bisect.bisect.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print([name for name in ('torch', 'numpy', 'sqlalchemy', 'pydantic', 'git', 'rich') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.strip().endswith("[]")
