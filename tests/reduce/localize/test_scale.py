"""Four times as many tasks take at most some four times as many steps: a loop over all tasks for each task fails.

Steps are lines of Python that run, and turns of loops in one line. They are counted, so that no load on the machine
matters.
"""

from __future__ import annotations

import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from precision_bisect.reduce.graph.differences import program_differences
from precision_bisect.reduce.graph.submits import ArgumentNames
from precision_bisect.reduce.graph.tasks import Dag, align, missing_edges, shared_graph
from precision_bisect.reduce.localize.attribute import Attribution, TaskClass
from precision_bisect.reduce.localize.document import first_divergent
from precision_bisect.reduce.localize.first_divergence import DivergenceSearch, Observations, next_tasks
from precision_bisect.reduce.localize.reference import ReferenceRuns, last_writes
from precision_bisect.runner.build_output.orchestration import Orchestration
from precision_bisect.runner.compare.statistics import Tolerance
from tests.demo.minirt_support import orchestration
from tests.reduce.graph.small_graphs import Call, name_of, task_list
from tests.reduce.localize.simulated_build import SimulatedBuild, add, double, executor_in, graph

_ROOT = Path(__file__).parents[3]
_COUNTED = (str(_ROOT / "reduce"), str(_ROOT / "runner" / "build_output"), __file__)
"""The many steps that compare two tensors do not depend on the tasks, and would hide others."""
FEW, MANY = 40, 160
MAX_GROWTH = 1.5 * MANY / FEW
"""Far from the growth of a quadratic loop, which is 16, and above that of what is sorted or searched by halves."""


def steps_of(work: Callable[[], object]) -> int:
    """The lines and turns of loops that run in `_COUNTED`."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Callable[..., Any] | None:
        nonlocal count
        if not frame.f_code.co_filename.startswith(_COUNTED):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def growth(work_of: Callable[[int], Callable[[], object]]) -> float:
    """How many times as many steps the work on many tasks takes as that on few."""
    work_of(8)()  # what is made once for all is made by now
    few = steps_of(work_of(FEW))
    return steps_of(work_of(MANY)) / few


def tiles(count: int) -> list[Call]:
    """Three tasks for each tile of one input and one output; all tiles share a scratch buffer."""
    return [
        call
        for tile in range(count)
        for call in (
            Call("wide", reads=[("x", 8 * tile)], writes=[(f"w{tile}", 0)]),
            Call("peak", reads=[(f"w{tile}", 0)], writes=[("scratch", 0)], waits_for=(3 * tile,)),
            Call("share", reads=[("scratch", 0)], writes=[("y", 8 * tile)], waits_for=(3 * tile + 1,)),
        )
    ]


def test_steps_are_counted_in_loops_of_one_line() -> None:
    assert growth(lambda count: lambda: [task + 1 for task in range(count)]) == pytest.approx(4, rel=0.2)
    assert growth(lambda count: lambda: [0 for _ in range(count) if any(n < 0 for n in range(count))]) > 12


def test_graphs() -> None:
    def work(count: int) -> Callable[[], object]:
        calls = tiles(count)
        failing, reference = task_list(calls), task_list(calls, first_id=1)
        names = name_of(calls)

        def compare() -> None:
            shared_graph(failing, reference, align(failing, reference).reference_of)
            program_differences(failing, reference, name_of=names, reference_name_of=names)

        return compare

    assert growth(work) < MAX_GROWTH


def test_missing_edges() -> None:
    """Without the scratch buffer: whoever uses it has to be compared with all others."""

    def work(count: int) -> Callable[[], object]:
        tasks = task_list([call for call in tiles(count) if "scratch" not in str(call)])
        return lambda: missing_edges(tasks)

    assert growth(work) < MAX_GROWTH


def submits(count: int) -> Iterator[str]:
    for number in range(count):
        yield f"CoreTaskArgs p{number}; p{number}.add_input(x0); p{number}.add_output(x1);\n"
        yield f"rt_submit_aiv_task(0, p{number});\n"


@pytest.mark.parametrize("loop", [True, False])
def test_names(loop: bool) -> None:
    """One submit in a loop makes all tasks, or each has its own."""

    def work(count: int) -> Callable[[], object]:
        text = "".join(submits(1 if loop else count))
        body = f"for (int i = 0; i < {count}; ++i) {{ {text} }}" if loop else text
        parsed = Orchestration.parse(orchestration(body, 2).encode())
        tasks = task_list([Call("k", reads=[("x0", 0)], writes=[("x1", 0)])] * count)
        names = ArgumentNames(parsed, tasks)
        return lambda: [names.name_of(task, 1) for task in tasks.tasks]

    assert growth(work) < MAX_GROWTH


@pytest.mark.parametrize("lanes", [1, 10])
def test_choice_of_dumps(lanes: int) -> None:
    """The budget holds the same number of tasks, whatever there are."""

    def work(count: int) -> Callable[[], object]:
        tasks = 5 * count
        dag = Dag(
            predecessors=tuple((task - lanes,) if task >= lanes else () for task in range(tasks)),
            sizes=(1,) * tasks,
        )
        observations = Observations(dag)
        observations.observe({tasks - 1: True})
        chosen = next_tasks(observations, 10)
        assert len(chosen) == 10
        return lambda: next_tasks(observations, 10)

    assert growth(work) < MAX_GROWTH


def test_the_choice_needs_few_bits_for_each_pair_of_tasks() -> None:
    """Matrices of numbers for tasks and classes took 4 bytes and more for each pair."""
    tasks = 2000
    rng = random.Random(1)
    dag = Dag(
        predecessors=tuple((task - 1,) if task else () for task in range(tasks)),
        sizes=tuple(rng.choice((1, 2, 4)) for _ in range(tasks)),
    )
    observations = Observations(dag)
    observations.observe({tasks - 1: True})
    tracemalloc.start()
    try:
        assert len(next_tasks(observations, sum(dag.sizes) // 10)) > 100
        assert tracemalloc.get_traced_memory()[1] < tasks * tasks
    finally:
        tracemalloc.stop()


def test_first_divergences_and_their_entries(tmp_path: Path) -> None:
    """Every task diverges, and none reads what another wrote."""

    def work(count: int) -> Callable[[], object]:
        tasks = graph(((0, "x0", "a"),) * count)
        failing, reference = (
            SimulatedBuild.of(
                tmp_path / f"{side}-{count}",
                dict.fromkeys(range(count), kernel),
                task_graph=tasks,
            )
            for side, kernel in (("bad", add(1.5)), ("good", double))
        )
        expected = ReferenceRuns.align(failing.recorded, reference.recorded)
        search = DivergenceSearch(
            failing=failing.recorded,
            expected=expected,
            tolerance=Tolerance(),
            budget=2**20,
            attempts=1,
        )
        executor = executor_in(failing.build)
        verdict = Attribution.unmeasured(TaskClass.UNKNOWN, "not asked")

        def localize() -> None:
            found = executor.execute(search.first_divergences())
            entries = [
                entry
                for divergent in found.divergent
                for entry in first_divergent(divergent, verdict, failing.recorded, Tolerance())
            ]
            assert len(entries) == count
            assert last_writes(failing.recorded, lambda *_: "a").keys() == {(count - 1, 1)}

        return localize

    assert growth(work) < MAX_GROWTH
