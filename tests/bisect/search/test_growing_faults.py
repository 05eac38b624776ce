"""Faults whose rate grows: thought of from the first run on, and worked out as they are defined."""

import math
from dataclasses import replace

import numpy as np
import pytest

from precision_bisect.bisect.search.belief import Observation, Outcome
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.hypotheses import GOOD_END, Groups, GrowingFault, explain_growing_faults
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates

LINE = CommitGraph([[commit - 1] if commit else [] for commit in range(10)])
GROWS = {GOOD_END: (0, 4), 2: (0, 6), 4: (1, 3), 6: (2, 2), 8: (3, 1), 9: (4, 0)}
"""Fails and passes of commits that fail more and more often."""


ONE_STEP = replace(Rates.unknown(), grows=0.0)


def observed(runs: dict[int, tuple[int, int]]) -> list[Observation]:
    return [
        Observation(commit, outcome)
        for commit, (fails, passes) in runs.items()
        for outcome in [Outcome.BAD] * fails + [Outcome.GOOD] * passes
    ]


def explained(runs: dict[int, tuple[int, int]], rates: Rates) -> tuple[Groups, GrowingFault | None]:
    groups = Groups.start(LINE)
    for commit in runs:
        groups = groups.split(LINE, commit)
    _, bad, _ = groups.sides(LINE)
    fails, passes = np.array([runs[commit] for commit in groups.ancestor_masks], dtype=np.float64).T
    return groups, explain_growing_faults(LINE, groups, bad, fails, passes, rates)


def test_the_evidence_is_that_of_rates_which_grow_with_the_way() -> None:
    """By brute force, for the group of one commit, with one pair of rates and a little of another that fails always."""
    rates = Rates(np.array([0.05]), np.array([0.8, 1.0]), np.array([[0.75, 0.25]]))
    groups, found = explained(GROWS, rates)
    assert found is not None
    culprit = 4
    expected = 0.0
    for weight, last in ((0.75, 0.8), (0.25, 1.0)):
        for begins, power in ((0.05, 1.0), (0.05, 0.5), (0.3, 1.0)):
            chance = weight / 3
            for commit, (fails, passes) in GROWS.items():
                way = (
                    begins + (1 - begins) * ((commit - culprit) / (9 - culprit)) ** power
                    if commit >= culprit
                    else 0.0
                )
                rate = 0.05 + (last - 0.05) * way
                chance *= rate**fails * (1 - rate) ** passes
            expected += chance
    # 5 commits follow it, one after another, to the bad end.
    prior = 0.05 * 0.75 * 5 / (5 + 2)
    log_evidence = found.log_evidence[groups.group_of_commit[culprit]]
    assert log_evidence == pytest.approx(math.log(prior) + math.log(expected), abs=1e-6)


def test_growth_is_thought_of_though_one_step_explains_all_runs() -> None:
    """Commits before the step may fail too, more seldom: by that much the step proves less."""
    steps = {GOOD_END: (0, 1), 2: (0, 2), 5: (2, 0), 9: (1, 0)}
    posterior, known = (
        Posterior.start(LINE, rates, observations=observed(steps)) for rates in (Rates.unknown(), ONE_STEP)
    )
    assert posterior.belief.commits[2] > 1.5 * known.belief.commits[2]


def test_of_the_parents_of_the_bad_end_each_is_the_less_likely_to_grow_the_more_there_are() -> None:
    """So that a merge of many lines that fails alone can be told from a fault that any of them may have begun."""
    two, eight = (
        explain_growing_faults(
            merge,
            groups := Groups.start(merge).split(merge, merge.bad),
            groups.sides(merge)[1],
            np.array([1.0]),
            np.array([0.0]),
            Rates.unknown(),
        )
        for merge in (CommitGraph([*([] for _ in range(lines)), [*range(lines)]]) for lines in (2, 8))
    )
    assert two is not None
    assert eight is not None
    assert two.log_evidence[0] - eight.log_evidence[0] == pytest.approx(math.log(4), abs=0.2)


def test_what_always_fails_does_not_grow_nor_does_what_has_known_rates() -> None:
    always = Rates(np.array([0.0, 0.1]), np.array([0.5, 1.0]), np.array([[0.0, 0.5], [0.0, 0.5]]))
    assert explained(GROWS, always)[1] is None
    assert explained(GROWS, Rates.from_values(good=0.1, bad=0.9))[1] is None


def test_a_commit_half_way_up_is_not_named_for_a_fault_that_grows() -> None:
    """Without growth the step between commits that pass and those that fail would be the culprit's."""
    posterior = Posterior.start(LINE, Rates.unknown(), observations=observed(GROWS))
    assert posterior.belief.commits.max() < 0.9
    assert posterior.belief.commits[:5].sum() > posterior.belief.commits[5:].sum()
    chances = [posterior.chance_to_fail(commit) for commit in (2, 4, 6, 9)]
    assert chances == sorted(chances)
