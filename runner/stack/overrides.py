"""Where the checkouts of a stack lie on this machine, as the command line says it."""

from collections.abc import Iterable
from pathlib import Path

from ..errors import UsageError


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
