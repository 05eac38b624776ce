"""A fault that came, was undone without a word of it, and came back: what fails at the bad end is the last of these.

Every placement on a line is asked; what undoes what is told by the contents of one file, as `undone` finds it.
"""

import itertools
from dataclasses import replace

import pytest

from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.search.graph import CommitGraph, Window, Windows
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask, loaded_range
from tests.support.quick import quick_first


def drive(size: int, broken: int, mended: int, again: int, *, back: str, jobs: int) -> SimulatedTask:
    """The fault is in one file, which commit `again` changes to what is in `back`; all others change files of their
    own, so that commits of equal files are one experiment."""
    files, others, contents = "sound", 0, list[str]()
    for node in range(size):
        files = {broken: "fault", mended: "sound", again: back}.get(node, files)
        others += node not in {broken, mended, again}
        contents.append(f"{others} {files}")
    names = [str(node) for node in range(size)]
    windows = [Window(broken, mended)]
    if back == "fault":
        windows.append(Window(mended, again))
    graph = CommitGraph([[node - 1] if node else [] for node in range(size)])
    loaded = replace(
        loaded_range(names, graph, "good"),
        contents=dict(zip(names, contents, strict=True)),
        old_content="0 sound",
        new_content=contents[-1],
        windows=Windows(windows),
    )
    simulated = SimulatedBisection(
        loaded=loaded,
        outcome=lambda content: Judgement.GOOD if content.endswith("sound") else Judgement.BAD,
        machine=Machine(jobs=jobs),
    )
    task = SimulatedTask(simulated=simulated)
    Loop(simulated.machine).run([task])
    return task


@pytest.mark.parametrize("jobs", quick_first([1, 3]))
@pytest.mark.parametrize("size", quick_first([6, 9]))
@pytest.mark.parametrize("back", ["fault", "another fault"])
def test_a_fault_that_was_mended_and_came_back_is_named_where_it_came_back(
    size: int, back: str, jobs: int
) -> None:
    named = 0
    placements = [*itertools.combinations(range(size), 3)]
    for placement in placements:
        task = drive(size, *placement, back=back, jobs=jobs)
        assert task.conclusion is not None
        again = str(placement[2])
        suspects = {suspect.commit for suspect in task.conclusion.suspects}
        assert task.culprit == again or (task.culprit is None and again in suspects), (
            placement,
            task.conclusion,
        )
        assert task.conclusion.outcome in {BisectionOutcome.CULPRIT, BisectionOutcome.SUSPECT}
        named += task.culprit == again
    assert named >= 0.4 * len(placements)
