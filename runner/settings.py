"""Settings that take the place of typed options: those of a checkout, and what the command line overrides.

A checkout may have `precision-bisect.toml`, or the table `[tool.precision-bisect]` in its `pyproject.toml`. These
settings, and the stack file that they name, have no effect before a person trusts them. An empty file in the home
records each trusted file. Its name is the digest of the file's path and of the content that is used. A file that was
changed or moved has to be trusted again.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import Field, ValidationError

from ..store.durable_files import read_text_file, write_whole
from .errors import UsageError, reason
from .stack import Model, first_error
from .stack_file import TomlError, checkout_root, expand_home, named_stacks, parse_toml
from .workspace.home import command_line, user_home


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
