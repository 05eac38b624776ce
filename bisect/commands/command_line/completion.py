"""What a shell completes the name of a bisection with: those of the store, without the modules that open one."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click

from ....store.option_groups import Completion
from ....store.options import STORE_VARIABLE

_FILE = "sqlite:///"
_MOST = 100
"""Names that are looked at, the newest ones."""
_PATIENCE = 0.2
"""Seconds to wait for a store that another process writes."""
_ALL = "SELECT name FROM bisections ORDER BY id DESC LIMIT ?"
_UNFINISHED = (
    "SELECT name FROM bisections WHERE outcome IS NULL OR outcome = 'budget' ORDER BY id DESC LIMIT ?"
)


def bisections(*, unfinished: bool = False) -> Completion:
    """The names of bisections, the newest first; all, or those that can be gone on with."""
    query = _UNFINISHED if unfinished else _ALL
    return Completion(lambda ctx: _names(_file(ctx), query))


def _names(file: Path, query: str) -> Iterator[str]:
    import sqlite3  # which, as what else only a shell needs that asks, `--help` does without

    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)) as store:
        yield from (name for (name,) in store.execute(query, (_MOST,)))


def _file(ctx: click.Context) -> Path:
    """The file of the store that the command would use. Raises `ValueError` where it is in none."""
    url = ctx.params.get("store") or os.environ.get(STORE_VARIABLE) or _configured()
    if url is None:
        from ....runner.workspace.home import user_home

        return user_home().store
    if not url.startswith(_FILE):
        raise ValueError(url)
    return Path(url.removeprefix(_FILE).partition("?")[0]).absolute()


def _configured() -> str | None:
    """The store that the checkout around the current folder names."""
    from ....runner.stack.defaults import read_defaults

    return read_defaults(Path.cwd())[0].store
