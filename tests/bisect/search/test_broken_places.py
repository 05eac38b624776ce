"""A place that shows the same whatever commit runs there is told from a fault, and its runs count for nothing."""

import random

import pytest

from precision_bisect.bisect.search.belief import Observation, Outcome
from precision_bisect.bisect.search.decision import Round, next_round
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.halving import FoundCulprit
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import Posterior, broken_places
from precision_bisect.bisect.search.rates import Rates
from tests.bisect.search.search_histories import line

GOOD, BAD, SKIP = Outcome.GOOD, Outcome.BAD, Outcome.SKIP
GRAPH = CommitGraph(line(16))


def broken(seen: list[Observation]) -> frozenset[str]:
    return broken_places(GRAPH, Rates.unknown(), seen, no_culprit=0.04)


def shown(commit: int, place: str, *, culprit: int = 9) -> Observation:
    """What a commit shows where nothing is broken."""
    return Observation(commit, BAD if commit >= culprit else GOOD, place)


def test_a_place_that_fails_at_commits_that_pass_elsewhere_is_broken():
    seen = [shown(commit, "a") for commit in (GOOD_END, 15, 3, 8, 9, 8, 9)]
    failed = [Observation(commit, BAD, "b") for commit in (GOOD_END, 3, 8, 3)]
    assert broken([*seen, *failed[:1]]) == frozenset()
    assert broken([*seen, *failed]) == {"b"}


def test_a_place_that_passes_at_commits_that_fail_elsewhere_is_broken():
    seen = [shown(commit, "a") for commit in (GOOD_END, 15, 3, 8, 9)]
    seen += [shown(commit, "c") for commit in (15, 8, 9)]
    seen += [Observation(commit, GOOD, "b") for commit in (15, 9, 12, 15, 9, 12)]
    assert broken(seen) == {"b"}


def test_one_of_two_is_told_by_the_others():
    seen = [shown(commit, place) for commit in (GOOD_END, 15, 8, 9, 3) for place in "ab"]
    seen += [Observation(commit, BAD, place) for commit in (GOOD_END, 8, 3, 5) for place in "cd"]
    assert broken(seen) == {"c", "d"}


def test_skips_break_no_place():
    seen = [shown(commit, "a") for commit in (GOOD_END, 15, 3, 8, 9)]
    assert broken([*seen, *[Observation(commit, SKIP, "b") for commit in (3, 8, 9, 10)]]) == frozenset()


@pytest.mark.parametrize("rate", [0.3, 0.6, 1.0])
def test_a_failure_that_comes_and_goes_breaks_no_place(rate: float):
    rng = random.Random(str(rate))
    found = 0
    for _ in range(25):
        commits = [rng.choice([GOOD_END, 7, 8, 9, 10, 15]) for _ in range(30)]
        seen = [
            Observation(commit, BAD if commit >= 9 and rng.random() < rate else GOOD, rng.choice("abc"))
            for commit in commits
        ]
        found += bool(broken(seen))
    assert found <= 1


def test_what_ran_in_a_broken_place_counts_for_nothing():
    seen = [shown(commit, "a") for commit in (GOOD_END, 15, 3, 8, 9)]
    failed = [Observation(commit, BAD, "b") for commit in (GOOD_END, 3, 8, 5)]
    with_it = Posterior.start(GRAPH, Rates.unknown(), observations=[*seen, *failed])
    without = Posterior.start(GRAPH, Rates.unknown(), observations=seen)
    assert with_it.broken == {"b"}
    assert with_it.counted_observations == tuple(seen)
    assert with_it.belief.commits == pytest.approx(without.belief.commits)
    assert with_it.skipped_commits == without.skipped_commits == frozenset()


def test_a_culprit_is_named_beside_a_broken_place():
    named = 0
    for seed in range(6):
        rng = random.Random(seed)
        culprit = rng.randrange(1, 16)
        posterior = Posterior.start(GRAPH, Rates.unknown())
        step = Round(start=(GOOD_END, 15))
        while isinstance(step, Round):
            for commit in step.start:
                places = [place for place in "abcd" if place not in posterior.broken]
                place = rng.choice(places)
                bad = place == "c" or commit >= culprit
                posterior = posterior.observe(Observation(commit, BAD if bad else GOOD, place))
            step = next_round(posterior)
        assert step == FoundCulprit(culprit) or not isinstance(step, FoundCulprit)
        named += isinstance(step, FoundCulprit)
    assert named >= 5
