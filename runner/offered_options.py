"""The options that a case offers, asked for once where what decides them is the same."""

import json
import os
from pathlib import Path


class OfferedOptions:
    """A folder with one file a content key, as for builds: a later bisection need not ask again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> frozenset[str] | None:
        """What was put there; None if nothing was."""
        try:
            return frozenset(json.loads((self._folder / key).read_text()))
        except (OSError, ValueError):
            return None

    def put(self, key: str, options: frozenset[str]) -> None:
        """Keep them. Raises `OSError` where there is no room."""
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f"{key}.{os.getpid()}"
        temporary.write_text(json.dumps(sorted(options)))
        temporary.replace(self._folder / key)
