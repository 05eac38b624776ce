"""The folder that a localization writes to: results, the page of the graph, and `work/` with logs and dumps."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..runner.errors import UsageError
from ..runner.localization.divergence import DIVERGENCE, TASK_GRAPH, Divergence

_WORK = "work"


class LocalizationResult(Protocol):
    """What a localization has come to, ready to be written down."""

    def document(self) -> Divergence:
        """What `divergence.json` holds."""
        ...

    def page(self) -> str | None:
        """The page of the task graph; None where none was recorded."""
        ...


@dataclass(frozen=True)
class OutputFolder:
    """A folder that may hold the results of an earlier localization."""

    path: Path

    def open(self, *, apart_from: Sequence[Path]) -> Path:
        """An empty folder of our own below it.

        Raises `UsageError` where that lies in one of the others, or around it.
        """
        for other in apart_from:
            inside = self.path.resolve().is_relative_to(other.resolve())
            if inside or other.resolve().is_relative_to(self.path.resolve() / _WORK):
                raise UsageError(f"-o {self.path}: expected a folder outside of {other}")
        work = self.path / _WORK
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        return work

    def write(self, result: LocalizationResult) -> Divergence:
        """Write the page and the document, and give the document back."""
        document, page = result.document(), result.page()
        if page is not None:
            (self.path / TASK_GRAPH).write_text(page, encoding="utf-8")
        text = document.model_dump_json(indent=2, by_alias=True)
        (self.path / DIVERGENCE).write_text(f"{text}\n", encoding="utf-8")
        return document
