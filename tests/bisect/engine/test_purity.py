"""The engine knows what was asked, probed and answered: no path, process, clock or database."""

import ast
import subprocess
import sys
from pathlib import Path

IMPURE = {"os", "pathlib", "subprocess", "time", "datetime", "sqlalchemy", "git", "random", "socket", "torch"}
ENGINE = Path(__file__).parents[3] / "bisect" / "engine"


def imported(module: Path) -> set[str]:
    """The names of the packages that a module imports absolutely."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return names


def test_no_module_of_the_engine_imports_what_has_effects() -> None:
    modules = [*ENGINE.rglob("*.py")]
    assert len(modules) > 5
    for module in modules:
        assert not imported(module) & IMPURE, module


def test_importing_the_engine_loads_no_database_no_git_and_nothing_that_starts_processes() -> None:
    code = (
        "import sys, importlib, pkgutil\n"
        "import precision_bisect.bisect.engine as engine\n"
        "for module in pkgutil.walk_packages(engine.__path__, engine.__name__ + '.'):\n"
        "    importlib.import_module(module.name)\n"
        "for name, module in sorted(sys.modules.items()):\n"
        "    print(name, getattr(module, '__file__', None) or '')\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    loaded = dict(line.split(" ", 1) for line in printed.splitlines())
    assert not {"sqlalchemy", "alembic", "git", "torch"} & loaded.keys()
    ours = {name: file for name, file in loaded.items() if name.startswith("precision_bisect.") and file}
    assert len(ours) > 20
    effects = {"subprocess", "multiprocessing", "socket", "sqlite3"}
    assert [name for name, file in ours.items() if imported(Path(file)) & effects] == []
