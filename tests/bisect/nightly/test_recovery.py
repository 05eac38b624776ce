"""Recovery: a regression that is not fixed is seldom judged to be, whatever its rate; one that is fixed, soon."""

import numpy as np
import pytest

from precision_bisect.bisect.engine.runs import FinishedProbe, ProbeTimes
from precision_bisect.bisect.history.range import Target
from precision_bisect.bisect.nightly.regressions import Recovery, judge_recovery, min_passes
from precision_bisect.bisect.search.rates import Rates
from precision_bisect.store.vocabulary import BuildSource, Judgement, Phase, Verdict
from tests.support.quick import quick_first

_VERDICTS = {"F": Verdict.MISMATCH, "P": Verdict.PASS, "S": Verdict.ENVIRONMENT_ERROR}
_JUDGEMENTS = {"F": Judgement.BAD, "P": Judgement.GOOD, "S": Judgement.SKIP}


def runs(*nights: str) -> list[FinishedProbe]:
    """Each night is the name of a content and what was shown there: `a FFF`."""
    shown = [(content, letter) for content, letters in map(str.split, nights) for letter in letters]
    return [
        FinishedProbe(
            number=number,
            content=content,
            phase=Phase.ENDPOINT,
            judgement=_JUDGEMENTS[letter],
            verdict=_VERDICTS[letter],
            metrics={},
            times=ProbeTimes(build_source=BuildSource.BUILT, build_seconds=1.0, run_seconds=1.0),
        )
        for number, (content, letter) in enumerate(shown, 1)
    ]


def judge(*nights: str, bad_end: tuple[int, int] = (0, 0), confidence: float = 0.99) -> Recovery:
    """What the runs say of the last content."""
    content = nights[-1].split()[0]
    target = Target(repository="compiler", commit=content * 40, held={}, content=content)
    return judge_recovery(runs(*nights), target, bad_end=bad_end, confidence=confidence)


def test_one_pass_is_not_enough_where_few_runs_were_seen() -> None:
    after_one = judge("a FFF", "b P")
    assert after_one == Recovery(judgement=None, passes=1, needed_passes=4)
    assert judge("a FFF", "b PPPP").judgement is Judgement.GOOD


def test_what_the_bisection_measured_counts() -> None:
    assert judge("a FFF", "b P", bad_end=(5, 5)).needed_passes < judge("a FFF", "b P").needed_passes
    assert judge("a FFF", "b P", bad_end=(10, 20)).needed_passes > judge("a FFF", "b P").needed_passes


def test_a_failure_is_enough_and_what_failed_before_cannot_recover() -> None:
    assert judge("a FFF", "b PPF").judgement is Judgement.BAD
    assert judge("a FFF", "b P", "a P").judgement is Judgement.BAD


def test_passes_of_several_nights_count_together() -> None:
    assert judge("a FFF", "b PP", "c P").passes == 3
    assert judge("a FFF", "b PP", "c PP").judgement is Judgement.GOOD
    # A pass where it failed before was chance; it does not speak for what follows.
    assert judge("a FFF", "a PP", "c P").passes == 1


def test_what_could_not_be_judged_tells_nothing() -> None:
    assert judge("a FFF", "b PSPSPP") == judge("a FFF", "b PPPP")


def test_what_failed_behind_a_pass_asks_for_more_passes() -> None:
    nights = ["b PF", "c PF", "d PF", "e PF"]
    needed = [judge("a FFF", *nights[:count], "z P").needed_passes for count in range(5)]
    assert needed[1] > 2 * needed[0]
    assert needed == sorted(needed)


@pytest.mark.parametrize("error", [0.05, 0.01, 0.002])
def test_the_fewest_passes_are_those_that_a_bad_commit_shows_that_seldom(error: float) -> None:
    random = np.random.default_rng(5)
    prior = Rates.cautious()
    rate = random.choice(prior.bad, size=1_000_000, p=prior.weight.sum(axis=0))
    for failures, number in ((1, 1), (3, 3), (8, 8), (3, 6)):
        alike = rate[random.binomial(number, rate) == failures]
        passes = min_passes(failures=failures, runs=number, error=error)
        assert np.mean((1 - alike) ** passes) <= error * 1.1
        assert np.mean((1 - alike) ** (passes - 1)) > error * 0.9


def measured_bad_end(rate: float, random: np.random.Generator) -> tuple[int, int]:
    """As a bisection measures it: in five runs, in twenty where it passes too."""
    failures = int(random.binomial(5, rate))
    return (failures, 5) if failures == 5 else (failures + int(random.binomial(15, rate)), 20)


def declared_fixed(
    rate: float, random: np.random.Generator, *, confidence: float, nights: int
) -> bool | None:
    """Whether a case that is never fixed, and fails at that rate, is judged to have recovered in any of so many nights,
    each of a content of its own. None where no regression is opened, for it passes one of its first three runs."""
    if (random.random(3) >= rate).any():
        return None
    bad_end = measured_bad_end(rate, random)
    history = ["a FFF"]
    for night in range(nights):
        passes = int(random.geometric(rate)) - 1
        shown = f"n{night} {'P' * passes}F"
        if passes:
            needed = judge(*history, f"n{night} P", bad_end=bad_end, confidence=confidence).needed_passes
            if passes >= needed:
                recovered = judge(
                    *history, f"n{night} {'P' * needed}", bad_end=bad_end, confidence=confidence
                )
                assert recovered.judgement is Judgement.GOOD
                return True
        history.append(shown)
    return False


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_what_is_never_fixed_is_seldom_declared_fixed_in_all_nights_together(confidence: float) -> None:
    random = np.random.default_rng(8)
    prior = Rates.cautious()
    rates = random.choice(prior.bad, size=4000, p=prior.weight.sum(axis=0))
    errors = [
        error
        for rate in rates
        if (error := declared_fixed(float(rate), random, confidence=confidence, nights=12)) is not None
    ]
    assert len(errors) > 1000
    assert 0 < np.mean(errors) <= 1 - confidence


@pytest.mark.parametrize("rate", quick_first([0.5, 0.3, 0.8, 0.95]))
def test_at_any_rate_one_in_twenty_at_most_is_declared_fixed_in_a_month(rate: float) -> None:
    random = np.random.default_rng(13)
    errors: list[bool] = []
    while len(errors) < 200:
        error = declared_fixed(rate, random, confidence=0.99, nights=30)
        if error is not None:
            errors.append(error)
    assert np.mean(errors) <= 0.05
