"""Runs in one place share its trouble: a bad slot makes nobody a culprit."""

import random
from collections.abc import Sequence

import pytest

from precision_bisect.bisect.search.belief import Observation, Outcome
from precision_bisect.bisect.search.decision import Answer, Round, next_round
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.halving import FoundCulprit
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import (
    Posterior,
    fresh_runs,
    is_compared_in_one_place,
    shared_trouble,
)
from precision_bisect.bisect.search.rates import Rates
from tests.bisect.search.search_histories import line, see_ends

GOOD, BAD = Outcome.GOOD, Outcome.BAD


def runs(commit: int, place: str | None, outcomes: Sequence[Outcome]) -> list[Observation]:
    return [Observation(commit, outcome, place) for outcome in outcomes]


def test_a_single_place_is_trusted_however_the_runs_differ():
    assert shared_trouble(runs(3, "a", [BAD, GOOD] * 20)) == 0
    assert shared_trouble(runs(3, None, [BAD, GOOD] * 20)) == 0


def test_places_that_fail_alike_are_trusted():
    rng = random.Random(0)
    for rate in (0, 0.1, 0.5, 1):
        seen = [
            Observation(commit, BAD if rng.random() < rate else GOOD, rng.choice("abc"))
            for _ in range(60)
            for commit in (3, 4)
        ]
        assert shared_trouble(seen) == 0


def test_places_that_fail_otherwise_are_not():
    assert shared_trouble(runs(3, "a", [BAD] * 8) + runs(3, "b", [GOOD] * 8)) == 1
    few = shared_trouble(runs(3, "a", [BAD] * 3) + runs(3, "b", [GOOD] * 3))
    assert 0 < few < 1


def test_reruns_count_for_less_the_more_they_share():
    assert [fresh_runs(runs, 0) for runs in (0, 1, 4)] == [0, 1, 4]
    assert [fresh_runs(runs, 1) for runs in (0, 1, 4)] == [0, 1, 1]
    assert 1 < fresh_runs(4, 0.5) < 4


def test_a_place_seen_to_differ_has_one_vote_a_commit():
    graph = CommitGraph(line(8))
    rates = Rates.from_values(good=0.2, bad=0.8)
    differ = [
        *runs(7, "b", [GOOD] * 6 + [BAD] * 2),
        *runs(7, "a", [BAD] * 6 + [GOOD] * 2),
    ]
    assert Posterior.start(graph, rates, observations=differ).shared > 0

    def first_half(more: list[Observation]) -> float:
        commits = Posterior.start(graph, rates, observations=[*differ, *more]).belief.commits
        return float(commits[:4].sum() / commits.sum())

    once, often = first_half(runs(3, "a", [BAD])), first_half(runs(3, "a", [BAD] * 6))
    assert once < often < first_half([Observation(3, BAD, place) for place in "abcdef"])


def test_counting_once_more_after_places_were_seen_to_differ_is_counting_all_anew():
    graph = CommitGraph(line(8))
    seen = [
        *runs(GOOD_END, "a", [GOOD] * 3),
        *runs(7, "a", [BAD] * 3),
        *runs(4, "b", [GOOD] * 2),
        # What shows both is not broken.
        *runs(6, "b", [BAD]),
        *runs(4, "a", [BAD] * 2),
    ]
    grown = Posterior.start(graph, Rates.unknown())
    for observation in seen:
        grown = grown.observe(observation)
    assert grown.shared > 0
    assert grown.belief.commits == pytest.approx(
        Posterior.start(graph, Rates.unknown(), observations=seen).belief.commits
    )
    total = grown.belief.commits.sum() + grown.belief.no_culprit + grown.belief.environment
    assert total == pytest.approx(1)


@pytest.mark.parametrize(
    ("culprit", "parent", "compared"),
    [
        (["a"], ["a"], True),
        (["a"], ["b"], False),
        (["a", "b"], ["c"], False),
        (["a", "b"], ["b"], True),
        (["a", "b"], ["c", "d"], True),
        ([None], ["b"], True),
    ],
)
def test_culprit_and_parent_are_compared_in_one_place(
    culprit: list[str | None], parent: list[str | None], compared: bool
):
    seen = [Observation(5, BAD, place) for place in culprit]
    seen += [Observation(4, GOOD, place) for place in parent]
    posterior = Posterior.start(CommitGraph(line(8)), Rates.unknown(), observations=seen)
    assert is_compared_in_one_place(posterior, 5) is compared


def test_a_culprit_that_failed_elsewhere_than_its_parent_passed_is_run_on():
    ends = [*runs(GOOD_END, "a", [GOOD] * 5), *runs(7, "a", [BAD] * 5)]
    ends = [seen for pair in zip(ends[:5], ends[5:], strict=True) for seen in pair]
    turns = zip(runs(5, "a", [BAD] * 9), runs(4, "b", [GOOD] * 9), strict=True)
    fresh = [seen for pair in turns for seen in pair]
    posterior = Posterior.start(CommitGraph(line(8)), Rates.unknown(), observations=[*ends, *fresh])
    assert posterior.belief.commits[5] > 0.95
    assert isinstance(next_round(posterior, confidence=0.95), Round)
    again = runs(4, "a", [GOOD])
    assert next_round(posterior.observe(again[0]), confidence=0.95) == FoundCulprit(5)


class Slots:
    """Slots of which some fail whatever runs there; a commit comes back to the slot that has it built, mostly."""

    def __init__(self, n: int, culprit: int, *, slots: int, bad_slots: int, told: bool, seed: int) -> None:
        self.rng = random.Random(seed)
        self.n, self.culprit, self.slots, self.bad_slots, self.told = n, culprit, slots, bad_slots, told
        self.built: dict[int, int] = {}

    def run(self, commit: int) -> Observation:
        slot = self.built.get(commit)
        if slot is None or self.rng.random() > 0.8:
            slot = self.rng.randrange(self.slots)
        self.built[commit] = slot
        bad = commit >= self.culprit or slot < self.bad_slots
        return Observation(commit, BAD if bad else GOOD, str(slot) if self.told else None)

    def search(self) -> Answer | None:
        """None: it takes too long."""
        posterior = Posterior.start(CommitGraph(line(self.n)), Rates.unknown())
        posterior = see_ends(posterior, self.run)
        while len(posterior.observations) < 400:
            step = next_round(posterior)
            if not isinstance(step, Round):
                return step
            posterior = posterior.observe(self.run(step.start[0]))
        return None


def accused(*, told: bool, slots: int, bad_slots: int, seeds: int) -> tuple[int, int]:
    """How many searches named the culprit, and how many another commit."""
    right = wrong = 0
    for seed in range(seeds):
        culprit = random.Random(seed).randrange(1, 32)
        answer = Slots(32, culprit, slots=slots, bad_slots=bad_slots, told=told, seed=seed).search()
        if isinstance(answer, FoundCulprit):
            right += answer.culprit == culprit
            wrong += answer.culprit != culprit
    return right, wrong


@pytest.mark.long
def test_a_bad_slot_makes_nobody_a_culprit_once_places_are_told():
    right, wrong = accused(told=True, slots=8, bad_slots=1, seeds=12)
    assert wrong == 0
    assert right >= 6


def test_good_slots_cost_nothing():
    assert accused(told=True, slots=4, bad_slots=0, seeds=8) == (8, 0)
    assert accused(told=True, slots=1, bad_slots=0, seeds=8) == (8, 0)
