"""Reads stack files: those that come with the tool by name, and others by path.

A stack file may extend one that comes with the tool. Somebody else may have written it, so everything that is wrong
with its TOML is one kind of error, `TomlError`. The module also finds the checkout around a folder and expands paths as
they stand in words and files.
"""

import os
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from ..store.durable_files import read_text_file
from .errors import UsageError, reason
from .stack import Repository, Stack, first_error, suggestion


def checkout_root(folder: Path) -> Path:
    """Return the root of the git checkout around a folder, or the folder itself where there is none.

    A submodule is a checkout of its own.
    """
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return folder


def expand_home(path: Path) -> Path:
    """Return the path with its leading `~` or `~user` expanded. It stays unchanged where there is no such user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 (pathlib's raises where there is no such user)


def is_file(path: Path) -> bool:
    """Return whether there is a file at a path, which may be any text. A text too long for a path is no file."""
    return os.path.isfile(path)  # noqa: PTH113 (pathlib's raises where the text is too long)


def is_folder(path: Path) -> bool:
    """Return whether there is a folder at a path, which may be any text."""
    return os.path.isdir(path)  # noqa: PTH112 (as above)


_MOST_DOTS = 1_000
"""A line has at most this many dots, so that no key has more parts. `tomllib` takes minutes for a key of 100,000
parts."""


class TomlError(ValueError):
    """A text is no TOML that can be read. The message says where."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text. Raises `TomlError`, also for NUL, which no path or command can hold.

    >>> parse_toml("a = " + "[" * 10_000)
    Traceback (most recent call last):
        ...
    precision_bisect.runner.stack_file.TomlError: nesting too deep
    >>> parse_toml("a" + 100_000 * ".a" + " = 1")
    Traceback (most recent call last):
        ...
    precision_bisect.runner.stack_file.TomlError: line 1: expected at most 1,000 dots, found 100,000
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if (dots := line.count(".")) > _MOST_DOTS:
            raise TomlError(f"line {number}: expected at most {_MOST_DOTS:,} dots, found {dots:,}")
    try:
        document = tomllib.loads(text)
        _refuse_nul(document, "")
    except RecursionError as error:
        raise TomlError("nesting too deep") from error
    except ValueError as error:  # This is `TOMLDecodeError`, or the error about a number of too many digits.
        raise TomlError(str(error)) from error
    return document


def _refuse_nul(value: object, place: str) -> None:
    if isinstance(value, dict):
        for key, inner in cast(dict[str, object], value).items():
            _refuse_nul(key, place)
            _refuse_nul(inner, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for inner in cast(list[object], value):
            _refuse_nul(inner, place)
    elif isinstance(value, str) and "\0" in value:
        raise ValueError(f"{place}: expected a text without NUL")


_DEMO = "demo"
_UNLISTED_FILES = frozenset({"nightly.toml", f"{_DEMO}.toml"})
"""These files in `configs/` are no stacks by themselves.

One is a nightly job's. The other is the demo's, whose repositories are made when the demo is."""


def load_stack(name_or_path: str, *, overrides: Mapping[str, Path] | None = None) -> Stack:
    """Read a stack by the name of a file in `configs/` or by path. Raises `UsageError`.

    A file that has `extends = "NAME"` has the tables of that stack below its own. Relative repository paths count from
    the stack file's folder. Those of a named stack count from the root of the checkout around the current folder, or
    from that folder where there is none. `overrides` replaces the path of single repositories.
    """
    path = Path(name_or_path)
    if path.suffix == ".toml" or (name_or_path not in named_stacks() and is_file(path)):
        text, where, base = _read(path), str(path), path.absolute().parent
    else:
        text = _read_named_stack(name_or_path)
        where, base = f"configs/{name_or_path}.toml", checkout_root(Path.cwd())
    stack = parse_stack(text, where=where)
    return _resolve_paths(stack, base=base, overrides=overrides or {})


def _read_named_stack(name: str) -> str:
    """Return the file's text of a stack that comes with the tool."""
    if name == _DEMO:
        raise UsageError(
            f"--stack {name}: expected a stack that is there; make it with: bisect-precision demo DIR, then name "
            "--stack DIR/stack.toml"
        )
    known = named_stacks()
    if name not in known and is_folder(Path(name)):
        files = [*Path(name).glob("*.toml")]
        hint = f"; name the file in it: --stack {files[0]}" if len(files) == 1 else ""
        raise UsageError(f"--stack {name}: expected a stack file, found a folder{hint}")
    if name not in known:
        hint = suggestion(name, known) or f"; expected a stack file or one of {', '.join(known)}"
        raise UsageError(f"--stack {name}: no such stack{hint}")
    return resources.files("precision_bisect.configs").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def named_stacks() -> list[str]:
    """Return the names of the stacks that come with the tool."""
    folder = resources.files("precision_bisect.configs")
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml") and entry.name not in _UNLISTED_FILES
    )


def stack_of_checkout(directory: Path) -> str | None:
    """Return the name of the stack whose searched repository this is, by its marks."""
    for name in named_stacks():
        marks = parse_stack(_read_named_stack(name), where=f"configs/{name}.toml").marks
        if marks and all((directory / mark).exists() for mark in marks):
            return name
    return None


def parse_stack(text: str, *, where: str) -> Stack:
    """Validate the text of a stack file. Raises `UsageError` that names file, key and what was expected."""
    try:
        return Stack.model_validate(_extend(parse_toml(text), where=where))
    except TomlError as error:
        raise UsageError(f"{where}: expected TOML: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{where}: {first_error(error, Stack)}") from error


def _extend(table: Mapping[str, Any], *, where: str) -> Mapping[str, Any]:
    """Return a stack file's tables over those of the stack that it `extends`, if it does."""
    base = table.get("extends")
    if base is None:
        return table
    if base not in named_stacks():
        raise UsageError(f"{where}: extends: expected one of {', '.join(named_stacks())}, found {base!r}")
    return _merge_tables(
        parse_toml(_read_named_stack(base)), {key: table[key] for key in table if key != "extends"}
    )


def _merge_tables(base: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table over another one: tables in them are merged too, and any other value replaces the old one.

    >>> _merge_tables({"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"y": 3}, "b": [2]})
    {'a': {'x': 1, 'y': 3}, 'b': [2]}
    """
    merged = dict(base)
    for key, value in table.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = (
            _merge_tables(cast(Mapping[str, Any], below), cast(Mapping[str, Any], value)) if both else value
        )
    return merged


def _read(path: Path) -> str:
    try:
        return read_text_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: expected a readable stack file: {reason(error)}") from error


def _resolve_paths(stack: Stack, *, base: Path, overrides: Mapping[str, Path]) -> Stack:
    for name in overrides:
        if name not in stack.repositories:
            raise UsageError(
                f"--repository {name}=...: expected one of {', '.join(sorted(stack.repositories))}, found {name!r}"
            )
    repositories = {
        name: _resolve_path(name, repository, base=base, override=overrides.get(name))
        for name, repository in stack.repositories.items()
    }
    return stack.model_copy(update={"repositories": repositories})


def _resolve_path(name: str, repository: Repository, *, base: Path, override: Path | None) -> Repository:
    """Return a repository with its path on this machine; for releases, with the path of their folder."""
    if repository.releases is None:
        path = (base / expand_home(override or repository.path)).resolve()
        return repository.model_copy(update={"path": path})
    folder = override or repository.releases.folder
    if folder is None:
        return repository
    if repository.releases.folder is None:
        raise UsageError(
            f"--repository {name}={override}: expected a repository with a checkout or a folder of releases; that of "
            f"{name} is made of releases which the stack file tells"
        )
    releases = repository.releases.model_copy(update={"folder": (base / expand_home(folder)).resolve()})
    return repository.model_copy(update={"releases": releases})
