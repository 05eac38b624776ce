"""What a checkout says of options that need not be typed then: `precision-bisect.toml`, or the table
`[tool.precision-bisect]` of its `pyproject.toml`."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import Field, ValidationError

from ..errors import UsageError, reason
from .checkout import checkout_root
from .complaints import first_error
from .parts import Model

OWN_FILE, SHARED_FILE, TABLE = "precision-bisect.toml", "pyproject.toml", "precision-bisect"


class OptionDefaults(Model):
    """Each key is an option's name; options that are typed win. Relative paths count from the file's folder."""

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
        """What counts where this stack was typed: repositories and platform belong to the stack of the file."""
        if typed is None or self.stack in (None, typed):
            return self
        return self.model_copy(update={"repository": {}, "platform": None, "device": None})

    def beside_bisection(self) -> "OptionDefaults":
        """What counts beside the name of a bisection, which says itself what it ran with."""
        return OptionDefaults(store=self.store, jobs=self.jobs, budget=self.budget)

    def by_option(self, folder: Path) -> dict[str, Any]:
        """The values by the options' names, as `click` takes them."""
        values = {
            name: value
            for name, value in self.model_dump().items()
            if value is not None and name != "repository"
        }
        if self.stack is not None and (folder / self.stack).is_file():
            values["stack"] = str(folder / self.stack)
        values["repository"] = [
            f"{name}={folder / path.expanduser()}" for name, path in self.repository.items()
        ]
        return values


def read_defaults(folder: Path) -> tuple[OptionDefaults, Path]:
    """The defaults of the checkout around a folder, and where their file lies. The nearest file counts.

    Raises:
        UsageError: a file is no TOML, or says what no option takes.
    """
    root = checkout_root(folder)
    for place in (folder, *folder.parents):
        for file in (place / OWN_FILE, place / SHARED_FILE):
            if file.is_file() and (table := _table(file)) is not None:
                return _parsed(file, table), place
        if place == root:
            break
    return OptionDefaults(), root


def _table(file: Path) -> Mapping[str, Any] | None:
    """The settings of a file; None where a `pyproject.toml` has none of ours."""
    try:
        text = file.read_text(encoding="utf-8")
        if file.name == SHARED_FILE and TABLE not in text:
            return None
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: expected a file that can be read: {reason(error)}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: expected TOML: {error}") from error
    if file.name == OWN_FILE:
        return document
    tools = document.get("tool")
    return cast(dict[str, Any], tools).get(TABLE) if isinstance(tools, dict) else None


def _parsed(file: Path, table: Mapping[str, Any]) -> OptionDefaults:
    where = str(file) if file.name == OWN_FILE else f"{file}: tool.{TABLE}"
    try:
        return OptionDefaults.model_validate(table)
    except ValidationError as error:
        raise UsageError(f"{where}: {first_error(error, OptionDefaults)}") from error
