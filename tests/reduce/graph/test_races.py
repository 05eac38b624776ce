"""Tasks that touch the same elements with nothing that orders them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from precision_bisect.reduce.graph.tasks import Hazard, TaskList, missing_edges
from precision_bisect.runner.build_output.task_graph import Edge, TaskGraph
from tests.reduce.localize.simulated_build import SimulatedBuild, graph


def edge(before: int, after: int) -> Edge:
    return Edge(
        predecessor=before,
        successor=after,
        argument=None,
        source=None,
        tensor_id=None,
    )


def hazards(tasks: TaskGraph, folder: Path) -> list[tuple[int, int, Hazard]]:
    build = SimulatedBuild.of(folder)
    found = missing_edges(TaskList.from_graph(tasks, build.config))
    return [(each.before.ordinal, each.after.ordinal, each.hazard) for each in found]


def test_all_three_hazards_are_told(tmp_path: Path) -> None:
    tasks = graph(((0, "x0", "a"), (1, "a", "b"), (0, "x0", "a")))
    assert hazards(tasks, tmp_path / "build") == [
        (0, 1, Hazard.READ_AFTER_WRITE),
        (0, 2, Hazard.WRITE_AFTER_WRITE),
        (1, 2, Hazard.WRITE_AFTER_READ),
    ]


def test_a_path_of_edges_orders_two_tasks(tmp_path: Path) -> None:
    tasks = graph(((0, "x0", "a"), (1, "a", "b"), (0, "x0", "a")))
    ordered = replace(tasks, edges=(edge(0, 1), edge(1, 2)))
    assert hazards(ordered, tmp_path / "build") == []


def test_a_graph_of_pairs_alone_tells_nothing(tmp_path: Path) -> None:
    assert hazards(replace(graph(), annotated=False), tmp_path / "build") == []


def test_a_manual_scope_is_named_as_the_cause(tmp_path: Path) -> None:
    tasks = graph(((0, "x0", "a"), (1, "a", "b")))
    manual = {number: replace(task, in_manual_scope=True) for number, task in tasks.tasks.items()}
    build = SimulatedBuild.of(tmp_path / "build")
    (found,) = missing_edges(TaskList.from_graph(replace(tasks, tasks=manual), build.config))
    assert "set_dependencies" in found.cause
