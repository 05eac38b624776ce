"""The task graph as one HTML page that needs no network: layers of tasks, coloured by their error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib import resources

from ..runner.build_output.task_id import format_task_id
from ..runner.tensors.diff_text import printable
from .localize import Localization
from .task_list import TaskList

_PLACE = "/*GRAPH*/null"


def page(tasks: TaskList, found: Localization) -> str:
    """The page of the failing build's graph."""
    template = resources.files("precision_bisect.reduce").joinpath("task_graph.html").read_text("utf-8")
    # Inside of a script element, only "<" could end it or open a comment.
    text = json.dumps(graph(tasks, found), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return template.replace(_PLACE, text)


def graph(tasks: TaskList, found: Localization) -> Mapping[str, object]:
    """Nodes in submission order and edges between their numbers.

    A node has its layer (longest path from a task that reads no other's results), its state, and its relative L2 error,
    null where that is infinite or was not looked at. States: `first` divergence, `divergent`, `clean`, `downstream` of
    a first divergence and not looked at, `unaligned` without counterpart, `unseen`.
    """
    layers: list[int] = []
    reached: set[int] = set()
    firsts = {one.failing.ordinal for one in found.divergences}
    for task, above in enumerate(tasks.predecessors):
        layers.append(1 + max((layers[one] for one in above), default=-1))
        if task in firsts or reached & above:
            reached.add(task)
    return {
        "nodes": [
            {
                "name": printable(task.name),
                "id": format_task_id(task.task.task_id),
                "layer": layers[task.ordinal],
                "state": _state(task.ordinal, found, firsts, reached),
                "error": _error(found.seen.get(task.ordinal)),
            }
            for task in tasks.tasks
        ],
        "edges": [[one, task] for task, above in enumerate(tasks.predecessors) for one in sorted(above)],
    }


def _state(ordinal: int, found: Localization, firsts: set[int], reached: set[int]) -> str:
    if ordinal in firsts:
        return "first"
    if ordinal in found.seen:
        return "divergent" if found.seen[ordinal] else "clean"
    if ordinal not in found.alignment.reference_of:
        return "unaligned"
    return "downstream" if ordinal in reached else "unseen"


def _error(error: float | None) -> float | None:
    return error if error is not None and math.isfinite(error) else None
