"""Which store a command uses."""

from ....runner.workspace.home import user_home
from ....store.database import sqlite_url


def store_url(store: str | None) -> str:
    """The store that `--store` names, else the user's own."""
    return store or sqlite_url(user_home().store)
