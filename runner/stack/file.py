"""Reading stack files: those that come with the tool by name, others by path."""

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from ..errors import UsageError, reason
from .checkout import checkout_root
from .complaints import first_error, suggestion
from .parts import Repository
from .stack import Stack

_DEMO = "demo"
_NOT_NAMED = frozenset({"nightly.toml", f"{_DEMO}.toml"})
"""Files in `configs/` that are no stack by themselves: a nightly job's, and the demo's, whose repositories are made."""


def load_stack(name_or_path: str, *, overrides: Mapping[str, Path] | None = None) -> Stack:
    """Read a stack by the name of a file in `configs/` or by path.

    A file that says `extends = "NAME"` has the tables of that one below its own.
    Relative repository paths count from the stack file's folder; for a named stack from the root of the checkout around
    the current folder, or from that folder where there is none.
    `overrides` replaces the path of single repositories. Raises `UsageError`.
    """
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.is_file():
        text, where, base = _read(path), str(path), path.absolute().parent
    else:
        text = _named_text(name_or_path)
        where, base = f"configs/{name_or_path}.toml", checkout_root(Path.cwd())
    stack = parse_stack(text, where=where)
    return _with_paths(stack, base=base, overrides=overrides or {})


def _named_text(name: str) -> str:
    """The file of a stack that comes with the tool."""
    if name == _DEMO:
        raise UsageError(
            f"--stack {name}: expected a stack that is there; make it with: bisect-precision demo DIR, then name "
            "--stack DIR/stack.toml"
        )
    known = named_stacks()
    if name not in known and Path(name).is_dir():
        files = [*Path(name).glob("*.toml")]
        hint = f"; name the file in it: --stack {files[0]}" if len(files) == 1 else ""
        raise UsageError(f"--stack {name}: expected a stack file, found a folder{hint}")
    if name not in known:
        hint = suggestion(name, known) or f"; expected a stack file or one of {', '.join(known)}"
        raise UsageError(f"--stack {name}: no such stack{hint}")
    return resources.files("precision_bisect.configs").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def named_stacks() -> list[str]:
    """The stacks that come with the tool."""
    folder = resources.files("precision_bisect.configs")
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml") and entry.name not in _NOT_NAMED
    )


def stack_of_checkout(directory: Path) -> str | None:
    """The name of the stack whose searched repository this is, by its marks."""
    for name in named_stacks():
        marks = parse_stack(_named_text(name), where=f"configs/{name}.toml").marks
        if marks and all((directory / mark).exists() for mark in marks):
            return name
    return None


def parse_stack(text: str, *, where: str) -> Stack:
    """Validate the text of a stack file. Raises `UsageError` that names file, key and what was expected."""
    try:
        return Stack.model_validate(_extended(tomllib.loads(text), where=where))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: expected TOML: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{where}: {first_error(error, Stack)}") from error


def _extended(table: Mapping[str, Any], *, where: str) -> Mapping[str, Any]:
    """A stack file's tables over those of the stack that it `extends`, if it does."""
    base = table.get("extends")
    if base is None:
        return table
    if base not in named_stacks():
        raise UsageError(f"{where}: extends: expected one of {', '.join(named_stacks())}, found {base!r}")
    return _laid_over(
        tomllib.loads(_named_text(base)), {key: table[key] for key in table if key != "extends"}
    )


def _laid_over(base: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """A table over another: tables in them are laid over each other too, any other value replaces what was there.

    >>> _laid_over({"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"y": 3}, "b": [2]})
    {'a': {'x': 1, 'y': 3}, 'b': [2]}
    """
    merged = dict(base)
    for key, value in table.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = (
            _laid_over(cast(Mapping[str, Any], below), cast(Mapping[str, Any], value)) if both else value
        )
    return merged


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: expected a readable stack file: {reason(error)}") from error


def _with_paths(stack: Stack, *, base: Path, overrides: Mapping[str, Path]) -> Stack:
    for name in overrides:
        if name not in stack.repositories:
            raise UsageError(
                f"--repository {name}=...: expected one of {', '.join(sorted(stack.repositories))}, found {name!r}"
            )
    repositories = {
        name: _with_path(name, repository, base=base, override=overrides.get(name))
        for name, repository in stack.repositories.items()
    }
    return stack.model_copy(update={"repositories": repositories})


def _with_path(name: str, repository: Repository, *, base: Path, override: Path | None) -> Repository:
    """A repository where it lies on this machine; of releases, where their folder lies."""
    if repository.releases is None:
        path = (base / (override or repository.path).expanduser()).resolve()
        return repository.model_copy(update={"path": path})
    folder = override or repository.releases.folder
    if folder is None:
        return repository
    if repository.releases.folder is None:
        raise UsageError(
            f"--repository {name}={override}: expected a repository with a checkout or a folder of releases; that of "
            f"{name} is made of releases which the stack file tells"
        )
    releases = repository.releases.model_copy(update={"folder": (base / folder.expanduser()).resolve()})
    return repository.model_copy(update={"releases": releases})
