"""The forecast of builds is learned from those that were timed, and says nothing before."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from precision_bisect.bisect.engine.range_search import BuildLine, build_seconds
from precision_bisect.bisect.engine.runs import ProbeLog, ProbeTimes
from precision_bisect.bisect.history.range import LoadedRange, SlotBuild
from precision_bisect.bisect.search.graph import CommitGraph, Floats
from precision_bisect.store.vocabulary import BuildSource, Judgement, Phase, TreeChange
from tests.bisect.engine.simulated import loaded_range, simulated_probe

OBJECTS = 400
"""Of a whole build."""
EACH = 10
"""Objects of each commit of `line_of`, all others than those of the commits before it."""


def line_of(commits: int) -> LoadedRange:
    """Commits that change a file each."""
    names = [str(place) for place in range(commits)]
    loaded = loaded_range(names, CommitGraph([[each - 1] if each else [] for each in range(commits)]), "good")
    nodes = tuple(
        replace(node, members=(replace(node.commit, changes=(TreeChange(name, "1", "1", "1", "2"),)),))
        for name, node in zip(names, loaded.commit_range.nodes, strict=True)
    )
    objects = {name: ((1 << EACH) - 1) << EACH * place for place, name in enumerate(names)}
    whole = {"whole": (1 << OBJECTS) - 1}
    return replace(loaded, commit_range=replace(loaded.commit_range, nodes=nodes), objects=objects | whole)


def log_of(builds: Sequence[tuple[str, str, float]]) -> ProbeLog:
    """Builds one after the other: the content, the place, and what it took."""
    probes = [
        replace(
            simulated_probe(
                number,
                content,
                Phase.SEARCH,
                Judgement.GOOD,
                times=ProbeTimes(build_source=BuildSource.BUILT, build_seconds=seconds, run_seconds=5),
            ),
            place=place,
        )
        for number, (content, place, seconds) in enumerate(builds, 1)
    ]
    return ProbeLog(tuple(probes))


def forecast(loaded: LoadedRange, builds: Sequence[tuple[str, str, float]]) -> Floats:
    seconds = build_seconds(loaded, log_of(builds))
    assert seconds is not None
    return seconds


def test_nothing_is_forecast_where_nothing_is_known() -> None:
    loaded = line_of(8)
    assert build_seconds(loaded, ProbeLog()) is None
    assert build_seconds(replace(loaded, objects={}), log_of([("good", "a", 100.0)])) is None
    assert build_seconds(loaded, log_of([("elsewhere", "a", 100.0)])) is None


def test_where_all_builds_take_as_long_all_are_forecast_to() -> None:
    builds = [("good", "a", 600.0), ("7", "a", 600.0), ("3", "a", 600.0), ("5", "a", 600.0)]
    seconds = forecast(line_of(8), builds)
    assert seconds == pytest.approx(np.full(9, 600.0), rel=0.2)
    assert seconds.max() < 1.05 * seconds.min()


def test_builds_next_to_what_stands_in_the_slot_are_cheap() -> None:
    """10 s, and a second for each object."""
    builds = [
        ("good", "a", 410.0),
        ("19", "a", 210.0),
        ("9", "a", 110.0),
        ("14", "a", 60.0),
        ("12", "a", 30.0),
    ]
    loaded = line_of(20)
    seconds = forecast(loaded, builds)
    truth = np.array([10.0 + EACH * abs(place - 12) for place in range(20)])
    assert seconds[10:15] == pytest.approx(truth[10:15], abs=25)
    assert seconds[[0, 19]] == pytest.approx(truth[[0, 19]], rel=0.3)
    assert np.argmin(seconds) == 12


def test_where_objects_are_kept_by_content_all_that_was_built_is_near() -> None:
    # From 19 to 10 lies 9 commits, which another build shares with the good end only for the first ones.
    builds = [("good", "a", 410.0), ("19", "a", 210.0), ("2", "a", 40.0), ("17", "a", 30.0), ("4", "a", 30.0)]
    seconds = forecast(line_of(20), builds)
    assert seconds[16] == pytest.approx(seconds[3], rel=0.01)
    assert seconds[10] > 1.5 * seconds[16]


def test_what_other_bisections_built_tells_of_this_one_too() -> None:
    """10 s, and a second for each object; what stands in a slot after a commit of another range is not known."""
    loaded, first = line_of(20), [("good", "a", 410.0)]
    builds = [("good", 410.0), ("19", 210.0), ("9", 110.0), ("elsewhere", 1.0), ("14", 410.0), ("12", 30.0)]
    known = replace(
        loaded, earlier_builds=(tuple(SlotBuild(content, "x", seconds) for content, seconds in builds),)
    )
    alone, beside = forecast(loaded, first), forecast(known, first)
    truth = np.array([*(20.0 + EACH * place for place in range(20)), 10.0])
    assert np.abs(beside - truth).mean() < 0.3 * np.abs(alone - truth).mean()
    assert build_seconds(known, ProbeLog()) is None


def test_a_slot_that_is_not_known_is_each_in_the_mean() -> None:
    builds = [
        ("good", "a", 410.0),
        ("19", "b", 410.0),
        ("8", "a", 100.0),
        ("14", "b", 60.0),
        ("3", "a", 60.0),
        ("5", "b", 100.0),
        ("12", "a", 100.0),
    ]
    seconds = forecast(line_of(20), builds)
    assert seconds[[5, 8, 12]] == pytest.approx(seconds[8], rel=0.02)
    assert seconds[19] > seconds[8]


def test_what_was_taken_up_again_is_no_build_but_stands_in_its_slot() -> None:
    log = log_of([("good", "a", 410.0), ("19", "a", 210.0), ("9", "a", 110.0), ("good", "a", 1.0)])
    again = replace(
        log.ended[-1], times=ProbeTimes(build_source=BuildSource.CACHED, build_seconds=1.0, run_seconds=5.0)
    )
    seconds = build_seconds(line_of(20), ProbeLog((*log.ended[:-1], again)))
    assert seconds is not None
    assert np.argmin(seconds) == 20
    assert seconds[0] < seconds[5]


def test_a_line_never_falls_and_never_begins_below_zero() -> None:
    falling = BuildLine.fit([10.0, 100.0], [300.0, 100.0])
    assert falling.seconds_per_object == 0
    steep = BuildLine.fit([50.0, 100.0, 100.0, 100.0], [1.0, 100.0, 100.0, 100.0])
    assert steep.base_seconds >= 0
    assert steep.seconds_per_object > 0
