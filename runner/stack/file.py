"""Reading stack files: those that come with the tool by name, others by path."""

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from ..errors import UsageError
from .stack import Stack

_NIGHTLY_EXAMPLE = "nightly.toml"
"""The file in `configs/` that is no stack, but a nightly job's."""


def load_stack(name_or_path: str, *, overrides: Mapping[str, Path] | None = None) -> Stack:
    """Read a stack by the name of a file in `configs/` or by path.

    Relative repository paths count from the stack file's folder; for a named stack from the current folder.
    `overrides` replaces the path of single repositories. Raises `UsageError`.
    """
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.is_file():
        text, where, base = _read(path), str(path), path.absolute().parent
    else:
        source = resources.files("precision_bisect.configs").joinpath(f"{name_or_path}.toml")
        if name_or_path not in named_stacks():
            raise UsageError(
                f"expected a stack file or one of {named_stacks()}, found {name_or_path!r} (--stack)"
            )
        text, where, base = source.read_text(encoding="utf-8"), f"configs/{name_or_path}.toml", Path.cwd()
    stack = parse_stack(text, where=where)
    return _with_paths(stack, base=base, overrides=overrides or {})


def named_stacks() -> list[str]:
    """The stacks that come with the tool."""
    folder = resources.files("precision_bisect.configs")
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml") and entry.name != _NIGHTLY_EXAMPLE
    )


def stack_of_checkout(directory: Path) -> str | None:
    """The name of the stack whose searched repository this is, by its marks."""
    for name in named_stacks():
        text = (
            resources.files("precision_bisect.configs").joinpath(f"{name}.toml").read_text(encoding="utf-8")
        )
        marks = parse_stack(text, where=f"configs/{name}.toml").marks
        if marks and all((directory / mark).exists() for mark in marks):
            return name
    return None


def parse_stack(text: str, *, where: str) -> Stack:
    """Validate the text of a stack file. Raises `UsageError` that names file, key and what was expected."""
    try:
        return Stack.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: expected TOML: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{where}: {first_error(error)}") from error


def first_error(error: ValidationError) -> str:
    """The most helpful complaint about a file: key, what was expected, what was found."""
    # A misspelt key is also a missing one; its spelling is what helps.
    details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    first = details[0]
    key = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "unknown key; remove it or correct its spelling"
    elif first["type"] == "missing":
        message = "this key is required"
    elif isinstance(first["input"], (str, int, float, bool)):
        message += f", found {first['input']!r}"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{key}: {message}{more}" if key else f"{message}{more}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: expected a readable stack file: {error}") from error


def _with_paths(stack: Stack, *, base: Path, overrides: Mapping[str, Path]) -> Stack:
    for name in overrides:
        if name not in stack.repositories:
            raise UsageError(
                f"--repository {name}=...: expected one of {sorted(stack.repositories)}, found {name!r}"
            )
    repositories = {
        name: repository.model_copy(
            update={"path": (base / overrides.get(name, repository.path).expanduser()).resolve()}
        )
        for name, repository in stack.repositories.items()
    }
    return stack.model_copy(update={"repositories": repositories})
