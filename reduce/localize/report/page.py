"""The task graph as one HTML page that needs no network: layers of tasks, coloured by their error."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Mapping, Set
from datetime import UTC, datetime
from importlib import resources

from ....runner.build_output.task_id import format_task_id
from ....runner.compare.report.design import style
from ....runner.compare.report.diff_text import printable
from ...graph.task_list import TaskList

_PLACE, _STYLE, _WHEN = "/*GRAPH*/null", "/*STYLE*/", "<!--WHEN-->"


def page(tasks: TaskList, *, firsts: Set[int], seen: Mapping[int, float], compared: Container[int]) -> str:
    """The page of a graph; `graph` says of what."""
    template = (
        resources.files("precision_bisect.reduce.localize.report")
        .joinpath("task_graph.html")
        .read_text("utf-8")
    )
    # Inside of a script element, only "<" could end it or open a comment.
    text = json.dumps(graph(tasks, firsts, seen, compared), allow_nan=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    generated = f"Generated {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return template.replace(_STYLE, style()).replace(_WHEN, generated).replace(_PLACE, text)


def graph(
    tasks: TaskList, firsts: Set[int], seen: Mapping[int, float], compared: Container[int]
) -> Mapping[str, object]:
    """Nodes in submission order and edges between their numbers; from the ordinals of the first divergent tasks, the
    errors of those that were looked at, and the ordinals of those that could be.

    A node has its layer (longest path from a task that reads no other's results), its state, and its relative L2 error,
    null where that is infinite or was not looked at. States: `first` divergence, `divergent`, `clean`, `downstream` of
    a first divergence and not looked at, `unaligned` without counterpart, `unseen`.
    """
    layers: list[int] = []
    reached: set[int] = set()
    for task, above in enumerate(tasks.predecessors):
        layers.append(1 + max((layers[before] for before in above), default=-1))
        if task in firsts or reached & above:
            reached.add(task)
    return {
        "nodes": [
            {
                "name": printable(task.name),
                "id": format_task_id(task.task.task_id),
                "layer": layers[task.ordinal],
                "state": _state(task.ordinal, firsts, seen, compared, reached),
                "error": _error(seen.get(task.ordinal)),
            }
            for task in tasks.tasks
        ],
        "edges": [
            [before, task] for task, above in enumerate(tasks.predecessors) for before in sorted(above)
        ],
    }


def _state(
    ordinal: int, firsts: Set[int], seen: Mapping[int, float], compared: Container[int], reached: Set[int]
) -> str:
    if ordinal in firsts:
        return "first"
    if ordinal in seen:
        return "divergent" if seen[ordinal] else "clean"
    if ordinal not in compared:
        return "unaligned"
    return "downstream" if ordinal in reached else "unseen"


def _error(error: float | None) -> float | None:
    return error if error is not None and math.isfinite(error) else None
