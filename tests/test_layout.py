"""The shape of the house: two levels, imports that go one way, one meaning for each name of a module or a class."""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("bisect", "configs", "demo", "meaning", "reduce", "runner", "store")
TREES = ROOT / "demo" / "trees"
"""The demo stack's own repositories, laid out as the real ones are."""
MAX_LINES = 60


def modules(*rooms: str) -> Iterator[Path]:
    """Every module of the rooms."""
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            if not path.is_relative_to(TREES):
                yield path


def imported_at_once(module: Path) -> Iterator[Path]:
    """What a module imports from ours when it is imported itself, without suffix."""
    statements = [*ast.parse(module.read_text(encoding="utf-8")).body]
    for node in statements:
        if isinstance(node, ast.Try):
            statements += node.body
        if isinstance(node, ast.ImportFrom) and node.level:
            target = module.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            yield target
            yield from (target / alias.name for alias in node.names)


def product_modules() -> list[Path]:
    """Those of the rooms that make the product."""
    return [
        module
        for module in modules("bisect", "meaning", "reduce", "runner", "store")
        if module.name != "__init__.py"
    ]


def modules_of_tests() -> list[Path]:
    """All modules below `tests/`. `conftest.py` has its name from pytest, and `fake_simpler` from a real package."""
    return [
        module
        for module in modules("tests")
        if module.name not in ("__init__.py", "conftest.py") and "fake_simpler" not in module.parts
    ]


def test_modules_stand_in_two_levels() -> None:
    deeper = [module for module in product_modules() if len(module.relative_to(ROOT).parts) > 3]
    assert deeper == []
    assert [
        module for module in modules_of_tests() if len(module.relative_to(ROOT / "tests").parts) > 3
    ] == []


@pytest.mark.parametrize("listed", [product_modules, modules_of_tests])
def test_each_module_has_a_name_of_its_own(listed: Callable[[], list[Path]]) -> None:
    places: defaultdict[str, list[Path]] = defaultdict(list)
    for module in listed():
        places[module.name].append(module.relative_to(ROOT))
    assert places
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("room", ["bisect", "reduce", "runner", "store"])
def test_folders_of_tests_are_called_as_what_they_test(room: str) -> None:
    """As a folder of the room, or as the first word of its modules: `tests/store/queue` tests `store/queue.py`."""
    known = {path.stem for path in (ROOT / room).iterdir() if path.is_dir() or path.suffix == ".py"}
    words = known | {name.partition("_")[0] for name in known}
    folders = {module.parent.name for module in modules_of_tests() if module.parts[-3] == room}
    assert folders
    assert folders - words == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    """What a function imports when it is called does not count: the module is there by then."""
    known = {module.with_suffix("") for module in modules(*ROOMS)}
    uses = {module.with_suffix(""): {*imported_at_once(module)} & known for module in product_modules()}
    TopologicalSorter(uses).prepare()


def test_reports_are_written_without_the_room_that_drives_bisections() -> None:
    """A reader of a stored bisection needs its facts and the engine's words, and no workers, clones or views."""
    report = {module for module in product_modules() if module.is_relative_to(ROOT / "bisect" / "report")}
    assert report
    drive = ROOT / "bisect" / "drive"
    assert [
        module for module in report if any(each.is_relative_to(drive) for each in imported_at_once(module))
    ] == []


def test_no_module_imports_what_is_private_to_another() -> None:
    private = {
        f"{module.relative_to(ROOT)}: {alias.name}"
        for module in product_modules()
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
        if alias.name.startswith("_")
    }
    assert private == set()


def test_no_two_public_classes_share_a_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules(*ROOMS):
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(module.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_function_is_longer_than_sixty_lines() -> None:
    """ruff counts statements and branches; this counts what a reader sees."""
    long = {
        f"{module.relative_to(ROOT)}: {node.name}": lines
        for module in modules(*ROOMS)
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_LINES
    }
    assert long == {}
