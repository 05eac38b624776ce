from dataclasses import replace
from itertools import product
from math import log, log2, prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from precision_bisect.bisect.search.belief import (
    JointInformation,
    Observation,
    Outcome,
    entropy,
    information_gain,
)
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates, fit
from tests.bisect.search.search_histories import ancestors, graphs, line
from tests.support.quick import examples

GOOD, BAD, SKIP = Outcome.GOOD, Outcome.BAD, Outcome.SKIP


@st.composite
def observed(draw: st.DrawFn, rates: Rates) -> Posterior:
    graph = draw(graphs(max_size=8))
    runs = draw(
        st.lists(
            st.builds(Observation, st.integers(GOOD_END, graph.bad), st.sampled_from(Outcome)), max_size=12
        )
    )
    return Posterior.start(graph, rates, observations=runs)


def one_rate_evidence(fails: int, passes: int) -> float:
    """Beta(1/2, 1/2) evidence as a product of predictions (the Krichevsky-Trofimov estimator)."""
    evidence, seen = 1.0, [0, 0]
    for outcome in [0] * fails + [1] * passes:
        evidence *= (seen[outcome] + 0.5) / (sum(seen) + 1)
        seen[outcome] += 1
    return evidence


@given(observed(Rates.from_values(good=0.1, bad=0.7)))
def test_with_known_rates_it_is_bayes_rule_run_by_run(posterior: Posterior):
    graph = posterior.graph
    runs = [(seen.commit, seen.outcome is BAD) for seen in posterior.observations if seen.outcome is not SKIP]

    failed_at = {commit for commit, failed in runs if failed and commit != GOOD_END}
    good_end_failed = (GOOD_END, True) in runs
    # Where no single commit explains all failures, two changes are thought of too.
    one_explains = not failed_at or any(
        all(culprit in ancestors(graph.parents, commit) for commit in failed_at)
        for culprit in range(len(graph))
    )
    assume(one_explains and not good_end_failed)

    def likelihood(culprit: int, some: list[tuple[int, bool]]) -> float:
        rates = [
            0.7 if commit != GOOD_END and culprit in ancestors(graph.parents, commit) else 0.1
            for commit, _ in some
        ]
        return prod(rate if failed else 1 - rate for rate, (_, failed) in zip(rates, some, strict=True))

    def likelihood_of_all(some: list[tuple[int, bool]]) -> float:
        return sum(likelihood(culprit, some) for culprit in range(len(graph))) / len(graph)

    def one_rate(some: list[tuple[int, bool]]) -> float:
        fails = sum(failed for _, failed in some)
        return one_rate_evidence(fails, len(some) - fails)

    def moved(some: list[tuple[int, bool]]) -> float:
        alike = len({failed for _, failed in some}) <= 1
        return 0.5 * one_rate(some) + 0.25 * alike

    moments = [likelihood_of_all(runs[:at]) * moved(runs[at:]) for at in range(len(runs))] or [1.0]
    outcomes = {failed for _, failed in runs}
    alike = 0.03 * (True not in outcomes) + 0.1 * (False not in outcomes)
    weights = [0.828 / len(graph) * likelihood(culprit, runs) for culprit in range(len(graph))]
    weights += [0.04 * one_rate(runs) + alike, 0.002 * sum(moments) / len(moments)]
    belief = posterior.belief
    found = [*belief.commits, belief.no_culprit, belief.environment]
    assert found == pytest.approx([weight / sum(weights) for weight in weights], rel=1e-9)


@pytest.mark.parametrize("counts", [(0, 5, 5, 0), (1, 9, 6, 2), (3, 30, 40, 10), (0, 0, 0, 0), (2, 3, 2, 3)])
def test_unknown_rates_are_integrated_out(counts: tuple[int, int, int, int]):
    """Against a midpoint rule in the angle, in which Beta(1/2, 1/2) is flat."""
    n = 4000
    nodes = np.sin((np.arange(n) + 0.5) * np.pi / (2 * n)) ** 2
    good_fails, good_passes, bad_fails, bad_passes = counts
    of_good = nodes**good_fails * (1 - nodes) ** good_passes
    of_bad = nodes**bad_fails * (1 - nodes) ** bad_passes
    sure_good, sure_bad = float(good_fails == 0), float(bad_passes == 0)
    # Both rates unknown: a is below r in half of the square.
    above = np.cumsum(of_bad[::-1])[::-1] * 2 / n**2
    above_mean = np.cumsum((of_bad * nodes)[::-1])[::-1] * 2 / n**2
    always, never, both = 0.08 * sure_bad, 0.2 * sure_good, 0.6 * sure_good * sure_bad
    general = 1 - 0.6 - 0.2 - 0.08
    evidence = both + never * of_bad.mean() + always * of_good.mean() + general * (of_good @ above)
    of_a = always * (of_good * nodes).mean() + general * ((of_good * nodes) @ above)
    of_r = both + never * (of_bad * nodes).mean() + always * of_good.mean() + general * (of_good @ above_mean)

    fitted = fit(
        Rates.unknown(),
        good_fails=np.array([good_fails], dtype=float),
        good_passes=np.array([good_passes], dtype=float),
        bad_fails=np.array([bad_fails], dtype=float),
        bad_passes=np.array([bad_passes], dtype=float),
    )
    assert fitted.log_evidence[0] == pytest.approx(log(evidence), abs=0.02)
    assert fitted.good[0] == pytest.approx(of_a / evidence, abs=0.003)
    assert fitted.bad[0] == pytest.approx(of_r / evidence, abs=0.003)


def test_many_runs_neither_overflow_nor_underflow():
    counts = {
        "good_fails": np.array([10.0]),
        "good_passes": np.array([90_000.0]),
        "bad_fails": np.array([70_000.0]),
        "bad_passes": np.array([30_000.0]),
    }
    fitted = fit(Rates.unknown(), **counts)
    assert np.isfinite(fitted.log_evidence[0])
    assert fitted.bad[0] == pytest.approx(0.7, abs=0.01)


def test_impossible_counts_have_no_evidence():
    counts = {"good_passes": np.zeros(1), "bad_fails": np.zeros(1), "bad_passes": np.zeros(1)}
    assert np.isneginf(fit(Rates.from_values(good=0, bad=1), good_fails=np.ones(1), **counts).log_evidence[0])


@given(observed(Rates.unknown()))
def test_beliefs_are_a_distribution_and_rates_are_ordered(posterior: Posterior):
    belief = posterior.belief
    assert belief.commits.sum() + belief.no_culprit + belief.environment == pytest.approx(1)
    assert (belief.commits >= 0).all()
    assert (belief.fail_if_bad >= belief.fail_if_good).all()


@given(observed(Rates.unknown()), st.data())
def test_information_is_the_mutual_information_of_hypothesis_and_run(
    posterior: Posterior, data: st.DataObject
):
    """Against the definition, with and without another run pending."""
    graph, belief = posterior.graph, replace(posterior.belief, reruns=None)
    pending = data.draw(st.lists(st.integers(GOOD_END, graph.bad), max_size=2))
    commits = [*range(len(graph)), GOOD_END]
    gains = JointInformation.from_belief(graph, belief, commits).added_information(pending)
    assert information_gain(graph, belief) == pytest.approx(
        JointInformation.from_belief(graph, belief, commits).added_information([]), abs=1e-9
    )
    weights = [*belief.commits, belief.no_culprit, belief.environment]

    def fail_chances(commit: int) -> list[float]:
        below = set() if commit == GOOD_END else ancestors(graph.parents, commit)
        of_commits = [
            (belief.fail_if_bad if c in below else belief.fail_if_good)[c] for c in range(len(graph))
        ]
        return [*of_commits, belief.fail_if_no_culprit, belief.fail_if_environment]

    def outcome_entropy(commits: list[int]) -> float:
        total = 0.0
        chances = [fail_chances(commit) for commit in commits]
        for outcomes in product((True, False), repeat=len(commits)):
            joint = sum(
                weight
                * prod(of[h] if failed else 1 - of[h] for of, failed in zip(chances, outcomes, strict=True))
                for h, weight in enumerate(weights)
            )
            total -= joint * log2(joint) if joint > 0 else 0
        return total

    for place, commit in enumerate(commits):
        inherent = np.array(weights) @ entropy(np.array(fail_chances(commit)))
        expected = outcome_entropy([*pending, commit]) - outcome_entropy(pending) - inherent
        assert gains[place] == pytest.approx(max(expected, 0), abs=0.02 if pending else 1e-9)


def test_ends_that_fail_alike_speak_against_any_culprit():
    graph = CommitGraph(line(16))
    alike = [
        Observation(end, outcome) for _ in range(10) for end in (GOOD_END, 15) for outcome in (BAD, GOOD)
    ]
    belief = Posterior.start(graph, Rates.unknown(), observations=alike).belief
    assert belief.no_culprit > belief.commits.sum()
    apart = [Observation(GOOD_END, GOOD), Observation(15, BAD)] * 5
    assert Posterior.start(graph, Rates.unknown(), observations=apart).belief.commits.sum() > 0.99


def test_a_changed_environment_is_told_from_a_culprit():
    graph = CommitGraph(line(64))
    ends = [Observation(GOOD_END, GOOD), Observation(63, BAD)] * 5
    moved = [Observation(commit, BAD) for commit in (31, 15, 7, 3, 1, 0, 0)] + [
        Observation(GOOD_END, BAD)
    ] * 6
    belief = Posterior.start(graph, Rates.unknown(), observations=ends + moved).belief
    assert belief.commits.max() < 0.5
    assert belief.environment > 0.3


@settings(max_examples=examples(30))
@given(observed(Rates.unknown()))
def test_skips_change_no_belief(posterior: Posterior):
    without = [seen for seen in posterior.observations if seen.outcome is not SKIP]
    again = Posterior.start(posterior.graph, posterior.rates, observations=without)
    assert again.belief.commits.tolist() == posterior.belief.commits.tolist()
