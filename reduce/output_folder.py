"""The folder that a localization writes to: results, the page of the graph, and `work/` with logs and dumps."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ..runner.errors import UsageError
from ..runner.localization.divergence import Divergence

RESULT = "divergence.json"
PAGE = "task_graph.html"
_WORK = "work"


def fresh_work(output: Path, others: Sequence[Path]) -> Path:
    """An empty folder of our own below `output`.

    Raises `UsageError` where that lies in one of `others`, or around it.
    """
    for other in others:
        inside = output.resolve().is_relative_to(other.resolve())
        if inside or other.resolve().is_relative_to(output.resolve() / _WORK):
            raise UsageError(f"-o {output}: expected a folder outside of {other}")
    work = output / _WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work


def save(result: Divergence, page: str | None, output: Path) -> Divergence:
    """Writes both, and gives the result back."""
    if page is not None:
        (output / PAGE).write_text(page, encoding="utf-8")
    text = result.model_dump_json(indent=2, by_alias=True)
    (output / RESULT).write_text(f"{text}\n", encoding="utf-8")
    return result
