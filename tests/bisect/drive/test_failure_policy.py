"""How long a run may take, by what the runs before it took."""

from dataclasses import replace

import pytest

from precision_bisect.bisect.drive.driven import run_timeout
from precision_bisect.bisect.engine.runs import FinishedProbe, ProbeTimes
from precision_bisect.store.vocabulary import BuildSource, Judgement, Phase, Verdict
from tests.bisect.engine.simulated import simulated_probe


def run(
    seconds: float,
    phase: Phase = Phase.ENDPOINT,
    judgement: Judgement = Judgement.GOOD,
    verdict: Verdict | None = None,
) -> FinishedProbe:
    times = ProbeTimes(build_source=BuildSource.BUILT, build_seconds=0, run_seconds=seconds)
    probe = simulated_probe(1, "c", phase, judgement, times=times)
    return replace(probe, verdict=verdict or probe.verdict)


@pytest.mark.parametrize(
    ("finished", "asked", "seconds"),
    [
        ([], None, 3600),
        ([], 5, 5),
        ([run(0)], None, 3600),
        ([run(2), run(1)], None, 60),
        ([run(20), run(1)], None, 200),
        ([run(20), run(100, Phase.SEARCH)], None, 1000),
        ([run(20), run(100, Phase.SEARCH, Judgement.BAD)], None, 1000),
        ([run(20), run(100, Phase.SEARCH, Judgement.BAD, Verdict.TIMEOUT)], None, 200),
        ([run(20), run(200, Phase.SEARCH, Judgement.SKIP, Verdict.TIMEOUT)], None, 200),
        ([run(3600, verdict=Verdict.TIMEOUT, judgement=Judgement.BAD)], None, 3600),
        ([run(20), run(3600, verdict=Verdict.TIMEOUT, judgement=Judgement.BAD)], None, 200),
        ([run(20), run(100, verdict=Verdict.STALL, judgement=Judgement.BAD)], None, 1000),
        ([run(20)], 5, 5),
    ],
)
def test_a_run_may_take_ten_times_the_longest_run_that_ended(
    finished: list[FinishedProbe], asked: float | None, seconds: float
) -> None:
    assert run_timeout(finished, asked=asked, default=3600) == seconds
