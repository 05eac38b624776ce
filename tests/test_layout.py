"""The shape of the house: small folders, imports that go one way, one meaning for each public class name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("bisect", "configs", "demo", "reduce", "runner", "store")
CHECKED = (*ROOMS, "benchmarks", "docs", "tests")
TREES = ROOT / "demo" / "trees"
"""The demo stack's own repositories, laid out as the real ones are."""
MOST_ENTRIES = 12
MOST_LINES = 60


def folders() -> Iterator[Path]:
    """Every folder that holds code of ours."""
    for name in CHECKED:
        for folder in (ROOT / name, *(ROOT / name).rglob("*/")):
            if folder.name != "__pycache__" and not folder.is_relative_to(TREES):
                yield folder


def modules(*rooms: str) -> Iterator[Path]:
    """Every module of the rooms."""
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            if not path.is_relative_to(TREES):
                yield path


def entries(folder: Path) -> list[str]:
    """What is in a folder, but for what makes it a typed package; recorded data (no code in it) has no limit."""
    found = [path for path in folder.iterdir() if path.name not in ("__pycache__", "__init__.py", "py.typed")]
    if not any(path.suffix == ".py" or path.is_dir() for path in found):
        return [path.name for path in found if path.suffix in (".j2", ".css", ".js", ".html", ".toml", ".md")]
    return [path.name for path in found]


def imported(module: Path) -> Iterator[Path]:
    """The files and folders of ours that a module imports from."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = module.parents[node.level - 1]
        elif (node.module or "").split(".")[0] in ("precision_bisect", "tests", "benchmarks"):
            base = ROOT
        else:
            continue
        parts = (node.module or "").removeprefix("precision_bisect").strip(".")
        target = base.joinpath(*parts.split(".")) if parts else base
        if target.is_dir():
            yield from (target / alias.name for alias in node.names)
        else:
            yield target


def test_no_folder_has_more_than_twelve_entries() -> None:
    crowded = {str(folder.relative_to(ROOT)): len(entries(folder)) for folder in folders()}
    assert {name: count for name, count in crowded.items() if count > MOST_ENTRIES} == {}


def test_no_two_sibling_folders_import_each_other() -> None:
    uses: set[tuple[Path, Path]] = set()
    for module in modules(*ROOMS, "tests"):
        for target in imported(module):
            common = next(parent for parent in module.parents if target.is_relative_to(parent))
            here, there = module.relative_to(common), target.relative_to(common)
            if len(here.parts) > 1 and there.parts and (common / there.parts[0]).is_dir():
                uses.add((common / here.parts[0], common / there.parts[0]))
    both = [(a, b) for a, b in uses if (b, a) in uses and a < b]
    assert [f"{a.relative_to(ROOT)} and {b.relative_to(ROOT)}" for a, b in both] == []


def test_no_two_public_classes_share_a_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules(*ROOMS):
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(module.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_function_is_longer_than_sixty_lines() -> None:
    """ruff counts statements and branches; this counts what a reader sees. Migrations list what a schema was."""
    long = {
        f"{module.relative_to(ROOT)}: {node.name}": lines
        for module in modules(*ROOMS)
        if not module.is_relative_to(ROOT / "store" / "migrations")
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MOST_LINES
    }
    assert long == {}
