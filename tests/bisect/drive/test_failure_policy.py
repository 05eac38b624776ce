"""How long a run may take, by what the ends took."""

import pytest

from precision_bisect.bisect.drive.driven import run_timeout
from precision_bisect.bisect.engine.runs import FinishedProbe, ProbeTimes
from precision_bisect.store.vocabulary import BuildSource, Judgement, Phase
from tests.bisect.engine.simulated import simulated_probe


def run(seconds: float, phase: Phase = Phase.ENDPOINT) -> FinishedProbe:
    times = ProbeTimes(build_source=BuildSource.BUILT, build_seconds=0, run_seconds=seconds)
    return simulated_probe(1, "c", phase, Judgement.GOOD, times=times)


@pytest.mark.parametrize(
    ("finished", "asked", "seconds"),
    [
        ([], None, 3600),
        ([], 5, 5),
        ([run(0)], None, 3600),
        ([run(2), run(1)], None, 60),
        ([run(20), run(1)], None, 200),
        ([run(20), run(100, Phase.SEARCH)], None, 200),
        ([run(20)], 5, 5),
    ],
)
def test_a_run_may_take_ten_times_the_longest_of_the_ends(
    finished: list[FinishedProbe], asked: float | None, seconds: float
) -> None:
    assert run_timeout(finished, asked=asked, at_most=3600) == seconds
