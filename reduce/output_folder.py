"""The folder that a localization writes to: results, the page of the graph, and meanwhile `work/`: logs and dumps."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..runner.errors import UsageError
from ..runner.localization.divergence import DIVERGENCE, TASK_GRAPH, Divergence
from ..store.files import IGNORE, is_writable, make_ignored_folder, nearest_existing

_WORK = "work"
MARK = "reduce-of"
"""The file that says which reduction a folder is of."""


@contextmanager
def working_in(work: Path) -> Generator[None]:
    """Remove the folder at the end. It stays after an error, whose message may name a log in it."""
    failed = False
    try:
        yield
    except Exception:
        failed = True
        raise
    finally:
        if not failed or next(work.rglob("*.log.gz"), None) is None:
            shutil.rmtree(work, ignore_errors=True)
            _remove_unused(work.parent)


def _remove_unused(output: Path) -> None:
    """Remove the folder where nothing but the mark of its use is in it: a reduction that has not begun."""
    if {path.name for path in output.iterdir()} <= {MARK, IGNORE}:
        shutil.rmtree(output)


def check_output(output: Path) -> None:
    """Raises `UsageError` where no folder can be made for results; to be called before anything is built or run for
    them."""
    there = nearest_existing(output.absolute())
    if not is_writable(there):
        raise UsageError(
            f"-o {output}: expected a place for the results, found {there}, which is no folder that can be written; "
            "name another one"
        )


@dataclass(frozen=True)
class OutputFolder:
    """A folder that may hold the results of an earlier localization."""

    path: Path

    @contextmanager
    def open(self, *, apart_from: Sequence[Path]) -> Generator[Path]:
        """An empty folder of our own below it, which goes with the end of the block, as `working_in` says.

        Raises `UsageError` where that lies in one of the others, or around it.
        """
        for other in apart_from:
            inside = self.path.resolve().is_relative_to(other.resolve())
            if inside or other.resolve().is_relative_to(self.path.resolve() / _WORK):
                raise UsageError(f"-o {self.path}: expected a folder outside of {other}")
        work = self.path / _WORK
        shutil.rmtree(work, ignore_errors=True)
        make_ignored_folder(self.path)
        work.mkdir()
        with working_in(work):
            yield work

    def write(self, document: Divergence, page: str | None) -> None:
        """Write the document, and the page of the task graph where one was recorded."""
        if page is not None:
            (self.path / TASK_GRAPH).write_text(page, encoding="utf-8")
        text = document.model_dump_json(indent=2, by_alias=True)
        (self.path / DIVERGENCE).write_text(f"{text}\n", encoding="utf-8")
