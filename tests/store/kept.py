"""A store and documents as f499ad2 wrote them, kept as text.

They came from a bisection of a demo stack that was localized and reduced (`LOCALIZED`), one that was killed (`KILLED`),
a night with an incident, and a killed bisection of a small repository with a command of its own (`COUNTER`). All
paths begin with `@FOLDER@`, and of the heat maps of tensors only the first of each bisection is kept.
"""

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from precision_bisect.store.database import sqlite_url

KEPT = Path(__file__).parent / "f499ad2"
LOCALIZED, KILLED = "20261122-072439-288a", "20261122-072857-8db0"
OF_THE_NIGHT, COUNTER = "20261122-073040-f5dc", "20261122-080522-b7cb"
NAMES = (COUNTER, OF_THE_NIGHT, KILLED, LOCALIZED)
"""The newest first."""
COUNTER_CULPRIT = "Count to 11"


def kept_store(folder: Path) -> str:
    """The URL of the store, made in a folder that all its paths lie below."""
    file = folder / "store.sqlite"
    text = (KEPT / "store.sql").read_text(encoding="utf-8").replace("@FOLDER@", str(folder))
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(text)
    return sqlite_url(file)


def kept_document(name: str) -> Any:
    """One of the documents as its JSON values."""
    return json.loads((KEPT / name).read_text(encoding="utf-8"))


def make_counter(folder: Path) -> None:
    """Make the repository that `COUNTER` searches: its commits are those that the store knows."""
    repository = folder / "counter"
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "main", str(repository)], check=True)
    history = (KEPT / "counter.fast-export").read_bytes()
    subprocess.run(["git", "-C", str(repository), "fast-import", "--quiet"], input=history, check=True)
    subprocess.run(["git", "-C", str(repository), "reset", "--quiet", "--hard", "main"], check=True)
