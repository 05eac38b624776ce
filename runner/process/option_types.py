"""Types of options' values that refuse what `click`'s own let through."""

import math
import os
from pathlib import Path
from typing import Any

import click
from typing_extensions import override


class NumberType(click.FloatRange):
    """An option's value that is a number of a range, neither NaN nor infinite, which no comparison would refuse."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error where it is none, or out of range."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"expected a number, found {value!r}", param, ctx)
        return number


class PathType(click.Path):
    """A path. An empty one, which a shell makes of a variable that is not set, would be the current folder."""

    def __init__(self, *, file_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay)

    @override
    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """The path; a usage error where it is empty, or a file where a folder is expected."""
        if not os.fspath(value):
            self.fail("expected a path, found an empty one", param, ctx)
        return super().convert(value, param, ctx)
