"""What the command line says in place of the stack file: where checkouts lie, and variables of the case."""

import re
from collections.abc import Iterable
from pathlib import Path

from ..errors import UsageError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_overrides(texts: Iterable[str]) -> dict[str, Path]:
    """The paths of `--repository NAME=PATH` options by repository. Relative ones count from the current folder.

    Raises:
        UsageError: a name or a path is missing.
    """
    paths: dict[str, Path] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not (name and path):
            raise UsageError(f"--repository {text}: expected NAME=PATH")
        paths[name] = Path(path).expanduser().absolute()
    return paths


def read_variables(texts: Iterable[str]) -> dict[str, str]:
    """The values of `--env NAME=VALUE` options by name; a value may be empty.

    Raises:
        UsageError: no `=`, a name that is none of a variable, or one that is given twice.
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
