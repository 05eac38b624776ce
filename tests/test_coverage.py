"""What no test would notice: long modules that no test of their room imports, and options that no test types."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from precision_bisect.bisect.cli import main as bisect_precision
from precision_bisect.reduce.reduce_cli import main as reduce
from precision_bisect.runner.compare.diff_cli import main as diff_tensors

ROOT = Path(__file__).parents[1]
ROOMS = ("bisect", "configs", "demo", "reduce", "runner", "store")
LONG = 100
"""Lines; a shorter module may be tested through its callers."""


def long_modules(room: str) -> Iterator[str]:
    """Dotted names of a room's modules of more than `LONG` lines; migrations run whenever a store is opened."""
    for path in sorted((ROOT / room).rglob("*.py")):
        name = path.relative_to(ROOT).with_suffix("")
        if name.is_relative_to("demo/trees") or name.is_relative_to("store/versions"):
            continue
        if len(path.read_text(encoding="utf-8").splitlines()) > LONG:
            yield ".".join(("precision_bisect", *name.parts)).removesuffix(".__init__")


def imported(file: Path) -> Iterator[str]:
    """Dotted names of the modules, and of what is in them, that a file imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("room", ROOMS)
def test_every_long_module_is_imported_by_a_test_of_its_room(room: str) -> None:
    tests = {name for file in (ROOT / "tests" / room).rglob("*.py") for name in imported(file)}
    assert [module for module in long_modules(room) if module not in tests] == []


def options(command: click.Command, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The spellings of each option, of subcommands too."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            assert sub is not None
            yield from options(sub, f"{path} {name}")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield path, (*parameter.opts, *parameter.secondary_opts)


@cache
def typed() -> frozenset[str]:
    """Words of tests that look like options."""
    files = (ROOT / "tests").rglob("*.py")
    return frozenset(
        word for file in files for word in re.findall(r"(?<!\w)--?[a-z][\w-]*", file.read_text("utf-8"))
    )


@pytest.mark.parametrize(
    ("name", "command"),
    [("bisect-precision", bisect_precision), ("reduce", reduce), ("diff-tensors", diff_tensors)],
)
def test_every_option_is_typed_by_a_test(name: str, command: click.Command) -> None:
    assert [
        f"{path}: {'/'.join(words)}" for path, words in options(command, name) if not typed() & {*words}
    ] == []
