"""The files that configure a command: stack files, and settings that take the place of typed options.

A stack file comes with the tool and has a name, or has a path. It may extend one that comes with the tool. Somebody
else may have written it, so everything that is wrong with its TOML is one kind of error, `TomlError`. The module also
finds the checkout around a folder and expands paths as they stand in words and files.

A checkout may have `precision-bisect.toml`, or the table `[tool.precision-bisect]` in its `pyproject.toml`. These
settings, and the stack file that they name, have no effect before a person trusts them. An empty file in the home
records each trusted file. Its name is the digest of the file's path and of the content that is used. A file that was
changed or moved has to be trusted again. What the command line overrides of a stack file is read here too.
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, cast

from pydantic import Field, ValidationError

from ..store.durable_files import read_text_file, write_whole
from .errors import UsageError, reason
from .stack import Model, Repository, Stack, first_error, suggestion
from .workspace.home import command_line, user_home


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
    precision_bisect.runner.settings.TomlError: nesting too deep
    >>> parse_toml("a" + 100_000 * ".a" + " = 1")
    Traceback (most recent call last):
        ...
    precision_bisect.runner.settings.TomlError: line 1: expected at most 1,000 dots, found 100,000
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


def check_trusted(file: Path, used: bytes) -> None:
    """Raise `UsageError` where nobody has trusted `used`, which was read from a file that was found, not typed."""
    if not _mark(file, used).is_file():
        trust = command_line(["bisect-precision", "trust", str(file.resolve())])
        raise UsageError(
            f"{file}: expected a file that was trusted, for it was found here and not typed, found it new or changed; "
            f"read it, then run: {trust}"
        )


def trust(file: Path, used: bytes) -> None:
    """Trust a file as long as `used` is what is read from it. Raises `OSError`."""
    user_home().make()
    mark = _mark(file, used)
    mark.parent.mkdir(exist_ok=True)
    write_whole(mark, "")


def read_whole(file: Path) -> bytes:
    """Return the content of a stack file. Raises `UsageError`."""
    try:
        return read_text_file(file).encode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: expected a file that can be read: {reason(error)}") from error


def _mark(file: Path, used: bytes) -> Path:
    digest = hashlib.sha256(bytes(file.resolve()) + b"\0" + used)
    return user_home().trust_marks / digest.hexdigest()


OWN_FILE, SHARED_FILE, TABLE = "precision-bisect.toml", "pyproject.toml", "precision-bisect"


class OptionDefaults(Model):
    """The defaults of options, by their names. Typed options win. Relative paths count from the file's folder."""

    stack: str | None = None
    repository: Mapping[str, Path] = {}
    """The checkouts of the stack's repositories, by their names."""
    platform: str | None = None
    device: int | None = None
    store: str | None = None
    jobs: int | None = Field(default=None, ge=1)
    backend: str | None = None
    build_store: str | None = Field(default=None, alias="build-store")
    budget: str | None = None
    timeout: float | None = Field(default=None, gt=0)
    confidence: float | None = Field(default=None, ge=0.5, lt=1)

    def for_stack(self, typed: str | None) -> "OptionDefaults":
        """Return the defaults that apply where this stack was typed.

        Repositories, platform and device belong to the stack of the file, and do not apply to another one.
        """
        if typed is None or self.stack is None:
            return self
        if typed == self.stack:
            return self.model_copy(update={"stack": None})
        return self.model_copy(update={"stack": None, "repository": {}, "platform": None, "device": None})

    def for_existing_bisection(self) -> "OptionDefaults":
        """Return the defaults that apply beside the name of a bisection, which has its own settings for the rest."""
        return OptionDefaults(store=self.store, jobs=self.jobs, budget=self.budget)

    def stack_file(self, folder: Path) -> Path | None:
        """Return the stack's file; None where the stack comes with the tool."""
        return None if self.stack is None or self.stack in named_stacks() else folder / self.stack

    def by_option(self, folder: Path) -> dict[str, Any]:
        """Return the values by the options' names, as `click` takes them.

        Raises `UsageError` where the stack is a file that was not trusted.
        """
        values = {
            name: value
            for name, value in self.model_dump().items()
            if value is not None and name != "repository"
        }
        if (file := self.stack_file(folder)) is not None:
            check_trusted(file, read_whole(file))
            values["stack"] = str(file)
        values["repository"] = [
            f"{name}={folder / expand_home(path)}" for name, path in self.repository.items()
        ]
        return values


def read_defaults(folder: Path) -> tuple[OptionDefaults, Path]:
    """Return the defaults of the checkout around a folder, and the folder of their file.

    Raises:
        UsageError: a file is no TOML, has a key or value that no option takes, or was not trusted.
    """
    file = settings_file(folder)
    if file is None:
        return OptionDefaults(), checkout_root(folder)
    table = _table(file)
    check_trusted(file, _canonical_bytes(table))
    return _parse_table(file, table), file.parent


def settings_file(folder: Path) -> Path | None:
    """Return the nearest file with defaults in the checkout around a folder. Raises `UsageError`."""
    root = checkout_root(folder)
    for place in (folder, *folder.parents):
        for file in (place / OWN_FILE, place / SHARED_FILE):
            if file.is_file() and _table(file) is not None:
                return file
        if place == root:
            break
    return None


def read_settings(file: Path) -> OptionDefaults:
    """Return the settings in a file, trusted or not. Raises `UsageError`."""
    return _parse_table(file, _table(file))


def trust_file(file: Path) -> None:
    """Trust a file from now on: the settings in a settings file, or the whole of a stack file.

    Raises `UsageError`, `OSError`.
    """
    is_settings = file.name in (OWN_FILE, SHARED_FILE)
    trust(file, _canonical_bytes(_table(file)) if is_settings else read_whole(file))


def _canonical_bytes(table: object) -> bytes:
    return json.dumps(table, sort_keys=True, default=str).encode()


def _table(file: Path) -> object:
    """Return the settings of a file, of whatever type they are; None where a `pyproject.toml` has no table of ours."""
    try:
        text = read_text_file(file)
        if file.name == SHARED_FILE and TABLE not in text:
            return None
        document = parse_toml(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: expected a file that can be read: {reason(error)}") from error
    except TomlError as error:
        raise UsageError(f"{file}: expected TOML: {error}") from error
    if file.name == OWN_FILE:
        return document
    tools = document.get("tool")
    return cast(dict[str, Any], tools).get(TABLE) if isinstance(tools, dict) else None


def _parse_table(file: Path, table: object) -> OptionDefaults:
    where = str(file) if file.name == OWN_FILE else f"{file}: tool.{TABLE}"
    try:
        return OptionDefaults.model_validate(table)
    except ValidationError as error:
        raise UsageError(f"{where}: {first_error(error, OptionDefaults)}") from error


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_overrides(texts: Iterable[str]) -> dict[str, Path]:
    """Return the paths of `--repository NAME=PATH` options by repository. Relative ones count from the current folder.

    Raises:
        UsageError: a name or a path is missing.
    """
    paths: dict[str, Path] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not (name and path):
            raise UsageError(f"--repository {text}: expected NAME=PATH")
        paths[name] = expand_home(Path(path)).absolute()
    return paths


def read_variables(texts: Iterable[str]) -> dict[str, str]:
    """Return the values of `--env NAME=VALUE` options by name; a value may be empty.

    Raises:
        UsageError: an option has no `=`, its name is no name of a variable, or it is given twice.
    """
    variables: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or _VARIABLE.fullmatch(name) is None:
            raise UsageError(f"--env {text}: expected NAME=VALUE")
        if name in variables:
            raise UsageError(f"--env {text}: expected each name once, found {name} twice")
        variables[name] = value
    return variables
