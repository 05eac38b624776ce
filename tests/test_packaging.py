"""The shape of the package: rooms, floors, and a root folder in which Python still works."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = {"store": 1, "runner": 2, "meaning": 2, "bisect": 3, "reduce": 3}
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
                assert module == ROOT / "bisect" / "commands.py", f"{module} knows of the demo stack"
            elif other != "configs":
                assert FLOORS[other] < FLOORS[room], f"{module} imports {other}"


def test_the_demo_imports_no_room() -> None:
    for module in modules("demo"):
        assert imported_rooms(module, "demo") <= {"configs"}, module


@pytest.mark.parametrize("place", ["bisect/search", "reduce/shrink/minimize.py"])
def test_algorithms_are_pure(place: str) -> None:
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
    found = ROOT / place
    for module in [found] if found.is_file() else found.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
                assert node.level <= len(module.relative_to(found).parts), f"{module} leaves its folder"
            assert not {name.partition(".")[0] for name in names} & impure, f"{module} imports {names}"


def test_every_folder_of_modules_is_packaged() -> None:
    code = "from distutils.core import run_setup; print(*run_setup('setup.py', stop_after='init').packages)"
    done = subprocess.run(
        [sys.executable, "-c", f"import setuptools; {code}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    listed = {*done.stdout.split()}
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
        "from precision_bisect.bisect.drive import session\n"
        "from precision_bisect.runner.settings import named_stacks\n"
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


PIP = """\
#!/bin/sh
# Stands in for pip: the programs of what is installed from this repository, without the hours of its dependencies.
bin=$(dirname "$0")
case "$*" in *"-m pip install"*{root})
    for program in bisect-precision reduce diff-tensors; do
        printf '#!/bin/sh\\necho %s of %s\\n' $program "$bin" > "$bin/$program"
        chmod +x "$bin/$program"
    done ;;
esac
"""


def make(goal: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """A goal of the Makefile, with an interpreter whose virtual environments have a pip that takes no time."""
    (folder / "pip.sh").write_text(PIP.format(root=ROOT))
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nmkdir -p "$3/bin" && cp {folder}/pip.sh "$3/bin/python" && chmod +x "$3/bin/python"\n'
    )
    python.chmod(0o755)
    words = ["make", "--no-print-directory", goal, f"PREFIX={folder}/prefix", f"PYTHON={python}"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_install_links_the_programs_and_an_uninstall_takes_them_away(tmp_path: Path) -> None:
    programs = tmp_path / "prefix" / "bin"
    for _ in range(2):
        done = make("install", tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"put {programs} into PATH" in done.stdout
        for name in ("bisect-precision", "reduce", "diff-tensors"):
            found = subprocess.run([programs / name], capture_output=True, text=True, check=True).stdout
            assert found == f"{name} of {tmp_path}/prefix/share/precision-bisect/bin\n"
    (programs / "mine").write_text("")
    assert make("uninstall", tmp_path).returncode == 0
    assert [each.name for each in programs.iterdir()] == ["mine"]
    assert not (tmp_path / "prefix" / "share" / "precision-bisect").exists()


def test_an_install_replaces_no_program_of_another_s(tmp_path: Path) -> None:
    taken = tmp_path / "prefix" / "bin" / "reduce"
    taken.parent.mkdir(parents=True)
    taken.write_text("another's")
    done = make("install", tmp_path)
    assert done.returncode == 2
    assert f"{taken}: expected nothing, or a link of an earlier install, found another program" in done.stderr
    make("uninstall", tmp_path)
    assert taken.read_text() == "another's"
    assert [each.name for each in taken.parent.iterdir()] == ["reduce"]
