"""Faults whose rate grows: thought of where no single step explains the runs, and worked out as they are defined."""

import math

import numpy as np
import pytest

from precision_bisect.bisect.search.evidence.knowledge import Observation, Outcome
from precision_bisect.bisect.search.evidence.posterior import Posterior
from precision_bisect.bisect.search.graph.graph import CommitGraph
from precision_bisect.bisect.search.model.groups import GOOD_END, Groups
from precision_bisect.bisect.search.model.growing import Growing, growing
from precision_bisect.bisect.search.model.rates import Rates

LINE = CommitGraph([[commit - 1] if commit else [] for commit in range(10)])
GROWS = {GOOD_END: (0, 4), 2: (0, 6), 4: (1, 3), 6: (2, 2), 8: (3, 1), 9: (4, 0)}
"""Fails and passes of commits that fail more and more often."""


def explained(runs: dict[int, tuple[int, int]], rates: Rates) -> tuple[Groups, Growing | None]:
    groups = Groups.start(LINE)
    for commit in runs:
        groups = groups.split(LINE, commit)
    _, bad, _ = groups.sides(LINE)
    fails, passes = np.array([runs[commit] for commit in groups.below], dtype=np.float64).T
    return groups, growing(LINE, groups, bad, fails, passes, rates)


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
    prior = 0.05 * 0.75
    log_evidence = found.log_evidence[groups.of_commit[culprit]]
    assert log_evidence == pytest.approx(math.log(prior) + math.log(expected), abs=1e-6)


def test_one_step_is_no_growth() -> None:
    steps = {GOOD_END: (0, 1), 2: (0, 2), 5: (2, 0), 9: (1, 0)}
    assert explained(steps, Rates.unknown())[1] is None
    assert explained({**steps, 5: (2, 1)}, Rates.unknown())[1] is not None


def test_what_always_fails_does_not_grow_nor_does_what_has_known_rates() -> None:
    always = Rates(np.array([0.0, 0.1]), np.array([0.5, 1.0]), np.array([[0.0, 0.5], [0.0, 0.5]]))
    assert explained(GROWS, always)[1] is None
    assert explained(GROWS, Rates.known(good=0.1, bad=0.9))[1] is None


def test_a_commit_half_way_up_is_not_named_for_a_fault_that_grows() -> None:
    """Without growth the step between commits that pass and those that fail would be the culprit's."""
    posterior = Posterior.start(LINE, Rates.unknown())
    for commit, (fails, passes) in GROWS.items():
        for outcome in [Outcome.BAD] * fails + [Outcome.GOOD] * passes:
            posterior = posterior.observe(Observation(commit, outcome))
    assert posterior.belief.commits.max() < 0.9
    assert posterior.belief.commits[:5].sum() > posterior.belief.commits[5:].sum()
    chances = [posterior.chance_to_fail(commit) for commit in (2, 4, 6, 9)]
    assert chances == sorted(chances)
