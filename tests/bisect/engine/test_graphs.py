"""Histories that are no line with one fault: the same fault on two lines, and lines that lack a fix of the good end.

Every truth is drawn at random, and what may be named is worked out from it by brute force.
"""

import random
from collections.abc import Sequence

import pytest

from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.engine.runs import WantedProbe
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask, loaded_range
from tests.bisect.search.search_histories import branching
from tests.support.quick import quick_first

MAX_PROBES = 150


def limited(simulated: SimulatedBisection, wanted: WantedProbe) -> None:
    assert len(simulated.started) < MAX_PROBES, "no end in sight"


def drive(
    graph: CommitGraph, fails: Sequence[bool], *, forked: dict[int, str] | None = None, jobs: int = 1
) -> SimulatedTask:
    """Drive a bisection of a range whose commits fail as told; what lies before it fails where it is called "bug"."""
    names = [str(node) for node in range(len(graph))]

    def outcome(content: str) -> Judgement:
        bad = fails[int(content)] if content in names else content == "bug"
        return Judgement.BAD if bad else Judgement.GOOD

    loaded = loaded_range(names, graph, "good", forked=forked)
    simulated = SimulatedBisection(
        loaded=loaded, outcome=outcome, machine=Machine(jobs=jobs), on_start=limited
    )
    task = SimulatedTask(simulated=simulated)
    Loop(simulated.machine).run([task])
    return task


def failing(graph: CommitGraph, faults: set[int]) -> list[bool]:
    """Which commits fail where a fault stays in all that builds on it."""
    return [bool(graph.ancestors(node)[[*faults]].any()) for node in range(len(graph))]


def test_the_same_fault_on_two_lines_of_a_small_range() -> None:
    """A cherry-pick: 7 commits, of which two bring the fault in."""
    graph = CommitGraph([[], [0], [1], [0], [3], [2, 4], [5]])
    for left in (1, 2):
        for right in (3, 4):
            task = drive(graph, failing(graph, {left, right}))
            assert task.conclusion is not None
            suspects = {suspect.commit for suspect in task.conclusion.suspects}
            assert {str(left), str(right)} & {task.culprit, *suspects}
            assert task.culprit in {None, str(left), str(right)}


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("size", quick_first([20, 60]))
def test_two_culprits_on_lines_beside_each_other(size: int, jobs: int) -> None:
    named = drawn = 0
    for seed in range(60):
        rng = random.Random(seed)
        graph = CommitGraph(branching(size, 0.3, rng))
        left, right = rng.sample(range(size - 1), 2)
        if graph.ancestors(left)[right] or graph.ancestors(right)[left]:
            continue
        drawn += 1
        task = drive(graph, failing(graph, {left, right}), jobs=jobs)
        assert task.conclusion is not None
        assert task.culprit in {None, str(left), str(right)}, (seed, task.conclusion)
        named += task.culprit is not None
    assert drawn > 10
    assert named >= 0.8 * drawn


def lacking_line(rng: random.Random, size: int) -> tuple[CommitGraph, list[bool], int, int]:
    """A trunk, and a line that was forked before a fix that the good end has: where the line begins, and the culprit.

    Commits of the line fail until it is merged; what is merged has the fix from the trunk.
    """
    length = rng.randrange(2, size // 3)
    merge_at = rng.randrange(1, size - length - 1)
    parents: list[list[int]] = []
    trunk: list[int] = []
    line: list[int] = []
    while len(parents) < size:
        node = len(parents)
        if len(line) < length and (rng.random() < 0.5 or len(trunk) > merge_at):
            parents.append([line[-1]] if line else [])
            line.append(node)
        elif len(line) == length and len(trunk) > merge_at and line[-1] >= 0 and not _merged(parents, line):
            parents.append([trunk[-1], line[-1]])
            trunk.append(node)
        else:
            parents.append([trunk[-1]] if trunk else [])
            trunk.append(node)
    culprit = rng.choice(trunk)
    graph = CommitGraph(parents)
    fails = [bool(graph.ancestors(node)[culprit]) or node in line for node in range(size)]
    return graph, fails, line[0], culprit


def _merged(parents: list[list[int]], line: list[int]) -> bool:
    return any(len(of) > 1 and line[-1] in of for of in parents)


@pytest.mark.parametrize("size", quick_first([20, 60]))
def test_the_first_commit_of_a_line_that_lacks_a_fix_is_not_to_blame(size: int) -> None:
    right = 0
    for seed in range(40):
        rng = random.Random(seed)
        graph, fails, first, culprit = lacking_line(rng, size)
        if not _is_joined(graph):
            continue
        task = drive(graph, fails, forked={first: "bug"})
        assert task.conclusion is not None
        assert task.culprit in {None, str(culprit)}, (seed, first, culprit, task.conclusion)
        right += task.culprit == str(culprit)
    assert right >= 25


def _is_joined(graph: CommitGraph) -> bool:
    return bool(graph.ancestors(graph.bad).all())


def test_a_parent_that_cannot_be_told_leaves_a_suspect() -> None:
    graph = CommitGraph([[], [0]])
    names = ["0", "1"]
    loaded = loaded_range(names, graph, "good", forked={0: "broken"})

    def outcome(content: str) -> Judgement:
        return {"good": Judgement.GOOD, "broken": Judgement.SKIP}.get(content, Judgement.BAD)

    task = SimulatedTask(simulated=SimulatedBisection(loaded=loaded, outcome=outcome, machine=Machine()))
    Loop(task.simulated.machine).run([task])
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.SUSPECT
    assert [suspect.commit for suspect in task.conclusion.suspects] == ["0"]
    assert "broken" in task.conclusion.message
