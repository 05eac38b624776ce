import random
from functools import cache
from itertools import product
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.bisect.search.belief import Knowledge, Observation, Outcome
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.halving import (
    FoundCulprit,
    OnlySkipped,
    Probe,
    expected_steps,
    next_step,
    total_steps,
)
from precision_bisect.bisect.search.testability import RepeatedError, skip_probability
from tests.bisect.search.search_histories import (
    branching,
    count_by_culprit,
    graphs,
    line,
    search,
    truth,
    untestable,
)


@cache
def fewest_tests_on_a_line(n: int) -> tuple[int, int]:
    """By dynamic programming: the fewest tests summed over the culprits, and the fewest in the worst case."""
    if n == 1:
        return 0, 0
    splits = [(fewest_tests_on_a_line(k), fewest_tests_on_a_line(n - k)) for k in range(1, n)]
    total = n + min(old[0] + new[0] for old, new in splits)
    return total, 1 + min(max(old[1], new[1]) for old, new in splits)


@cache
def fewest_tests_with_skips(n: int, skipped: tuple[int, ...], chance: float) -> float:
    """The same sum, expected, where each commit but the last is untestable with that chance."""
    choices = [commit for commit in range(n - 1) if commit not in skipped]
    if not choices:
        return 0.0

    def after(commit: int) -> float:
        old = fewest_tests_with_skips(commit + 1, tuple(s for s in skipped if s < commit), chance)
        new = fewest_tests_with_skips(
            n - commit - 1, tuple(s - commit - 1 for s in skipped if s > commit), chance
        )
        both = fewest_tests_with_skips(n, tuple(sorted((*skipped, commit))), chance)
        return n + (1 - chance) * (old + new) + chance * both

    return min(map(after, choices))


@pytest.mark.parametrize("n", range(1, 150))
def test_a_line_takes_the_fewest_tests_in_sum_and_at_worst(n: int):
    taken = count_by_culprit(CommitGraph(line(n)), skips=set())
    assert (sum(taken), max(taken)) == fewest_tests_on_a_line(n)
    assert max(taken) == ceil(log2(n))
    assert sum(taken) == total_steps(n)


@pytest.mark.parametrize("n", [4096, 4100, 5000, 8191, 8192])
def test_a_long_line_never_takes_more_than_log2_tests(n: int):
    graph = CommitGraph(line(n))
    for culprit in (0, 1, n // 2 - 3, n // 2, n // 2 + 3, n - 1):
        answer, tested = search(graph, truth(graph, culprit, set()))
        assert answer == FoundCulprit(culprit)
        assert len(tested) <= ceil(log2(n))


@given(graphs(), st.data())
def test_the_answer_is_what_the_tests_tell_and_leaves_no_suspect_untried(
    graph: CommitGraph, data: st.DataObject
):
    culprit = data.draw(st.integers(0, graph.bad))
    skips = data.draw(st.sets(st.integers(0, graph.bad))) - {graph.bad}
    test = truth(graph, culprit, skips)
    answer, tested = search(graph, test)

    candidates = {answer.culprit} if isinstance(answer, FoundCulprit) else set(answer.candidates)
    assert culprit in candidates
    agreeing = {
        other for other in range(len(graph)) if all(truth(graph, other, skips)(c) is test(c) for c in tested)
    }
    assert candidates == agreeing
    if isinstance(answer, OnlySkipped):
        # As with git, one candidate was seen failing and every other one was found untestable.
        assert len(candidates - skips) == 1
        assert candidates & skips <= set(tested)


@pytest.mark.parametrize("chance", [0.1, 0.3])
@pytest.mark.parametrize("n", [4, 6, 8])
def test_independent_skips_cost_hardly_more_than_the_optimum(n: int, chance: float):
    graph = CommitGraph(line(n))
    expected = 0.0
    for pattern in product((False, True), repeat=n - 1):
        skips = {commit for commit, skip in enumerate(pattern) if skip}
        probability = chance ** len(skips) * (1 - chance) ** (n - 1 - len(skips))
        expected += probability * sum(count_by_culprit(graph, skips))
    best = fewest_tests_with_skips(n, (), chance)
    assert best - 1e-9 <= expected <= 1.05 * best


def test_a_cluster_of_skips_is_left_in_few_strides():
    n = 1024
    graph = CommitGraph(line(n))
    stretch = set(range(412, 612))
    for culprit, tests_in_it in ((5, 1), (200, 1), (411, 8), (613, 12), (800, 1), (1023, 1)):
        answer, tested = search(graph, truth(graph, culprit, stretch))
        assert answer == FoundCulprit(culprit)
        assert len(stretch & set(tested)) <= tests_in_it
        assert len(tested) <= 11 + tests_in_it


@pytest.mark.parametrize(
    "others",
    [
        {8, 9, 10, 14, 15, 23, 24, 25},
        {3, 4, 6, 7, 8, 9, 11, 15, 20, 27},
        {10, 11, 12, 14, 15, 16, 20, 21, 22},
        {4, 5, 6, 13, 14, 15, 16, 17, 20},
    ],
)
def test_an_error_that_comes_and_goes_hides_no_culprit(others: set[int]):
    """The four ranges of a newcomer. The error names no file, and all commits between two of its own may fail so."""
    culprit, known = 18, Knowledge.start(CommitGraph(line(30)))
    while isinstance(step := next_step(known), Probe):
        outcome = Outcome.BAD if step.commit >= culprit else Outcome.GOOD
        is_other = step.commit + 1 in others
        seen = Observation(
            step.commit,
            Outcome.SKIP if is_other else outcome,
            blamed=(RepeatedError("FAIL: layout is wrong"),) if is_other else (),
        )
        known = known.observe(seen)
    assert step == FoundCulprit(culprit)


def test_an_error_that_is_seen_eight_times_leaves_the_commits_between_untried():
    known, wall, culprit = Knowledge.start(CommitGraph(line(400))), range(100, 300), 200
    while isinstance(step := next_step(known), Probe):
        outcome = Outcome.BAD if step.commit >= culprit else Outcome.GOOD
        causes = (RepeatedError("no such package"),) if step.commit in wall else ()
        known = known.observe(Observation(step.commit, Outcome.SKIP if causes else outcome, blamed=causes))
    assert isinstance(step, OnlySkipped)
    assert step.candidates == tuple(range(100, 301))
    assert len(known.skipped_commits) == 8


def test_what_can_be_named_is_divided_first():
    """Of 64 suspects 16 are left that are not known to be untestable: these are halved, as nearly as is safe."""
    skips = [Observation(commit, Outcome.SKIP) for commit in range(16, 63)]
    step = next_step(Knowledge.start(CommitGraph(line(64)), skips))
    assert isinstance(step, Probe)
    assert 4 <= step.commit <= 8


def test_only_skipped_commits_and_the_fail_above_them_are_candidates():
    graph = CommitGraph(line(12))
    answer, _ = search(graph, truth(graph, 6, {4, 5, 6, 7}))
    assert answer == OnlySkipped((4, 5, 6, 7, 8))


def test_a_range_of_one_commit_needs_no_test():
    assert next_step(Knowledge.start(CommitGraph([[]]))) == FoundCulprit(0)


def test_a_suspect_that_cannot_be_tested_is_not_called_found():
    # Both branches fail, so their fork is to blame, but nothing was ever seen there.
    graph = CommitGraph([[], [0], [0], [1, 2]])
    outcomes = {1: Outcome.BAD, 2: Outcome.BAD, 0: Outcome.SKIP}
    knowledge = Knowledge.start(graph, [Observation(commit, outcome) for commit, outcome in outcomes.items()])
    assert next_step(knowledge) == OnlySkipped((0,))


def test_fails_on_parallel_branches_are_followed_below_both():
    # A trunk of six, two branches from its end, both seen failing.
    graph = CommitGraph([*line(6), [5], [5], [6, 7]])
    knowledge = Knowledge.start(graph, [Observation(6, Outcome.BAD), Observation(7, Outcome.BAD)])
    step = next_step(knowledge)
    assert isinstance(step, Probe)
    assert step.commit == 2


def test_expected_steps_are_those_of_the_suspects_that_can_be_tested():
    knowledge = Knowledge.start(CommitGraph(line(8)))
    step = next_step(knowledge)
    assert isinstance(step, Probe)
    assert step.expected_steps == 3.0
    skipped = next_step(knowledge.observe(Observation(step.commit, Outcome.SKIP)))
    assert isinstance(skipped, Probe)
    assert skipped.expected_steps == expected_steps(7)


@given(graphs(), st.data())
def test_skip_probabilities_are_probabilities_and_certain_where_tried(
    graph: CommitGraph, data: st.DataObject
):
    tried = data.draw(st.dictionaries(st.integers(0, graph.bad), st.booleans(), max_size=6)) | {
        graph.bad: False
    }
    chance = skip_probability(graph, tried)
    assert ((chance >= 0) & (chance <= 1)).all()
    assert {commit: chance[commit] for commit in tried} == tried


def test_skips_make_their_neighbours_doubtful():
    graph = CommitGraph(line(200))
    one = skip_probability(graph, {100: True, 199: False})
    assert one[101] > one[110] > one[150]
    cluster = skip_probability(graph, {100: True, 110: True, 120: True, 199: False})
    assert cluster[115] > one[115]
    assert cluster[124] > one[104]
    tested = skip_probability(graph, {100: True, 104: False, 199: False})
    assert tested[102] < one[102]
    assert tested[110] < one[110]


def test_skip_probabilities_come_true():
    """Where a fourth of all commits is untestable, in half of the ranges in stretches, and a few were tried."""
    n, rng = 128, random.Random(5)
    graph = CommitGraph(line(n))
    said: dict[str, list[float]] = {"near": [], "beside": [], "far": []}
    came: dict[str, list[float]] = {"near": [], "beside": [], "far": []}
    for _ in range(400):
        skips = untestable(n, 0.25, rng.choice([1, 1, 10, 20]), rng)
        tried = {commit: commit in skips for commit in (*rng.sample(range(n - 1), 5), n - 1)}
        chance = skip_probability(graph, tried)
        for commit in set(range(n)) - set(tried):
            away = min((abs(commit - other) for other in tried if tried[other]), default=n)
            where = "near" if away <= 3 else "beside" if away <= 12 else "far" if away > 24 else None
            if where is not None:
                said[where].append(float(chance[commit]))
                came[where].append(commit in skips)
    for where in said:
        assert abs(np.mean(said[where]) - np.mean(came[where])) < 0.12, where


def test_skips_on_one_branch_say_less_of_another_once_that_was_seen():
    """Two branches of 40 with interleaved dates; one is broken throughout, the other was tested twice."""
    parents = [[], *([max(0, commit - 2)] for commit in range(1, 81)), [79, 80]]
    graph = CommitGraph(parents)
    tried = {commit: commit % 2 == 1 for commit in (20, 21, 30, 31, 40, 41, 50, 51, 60, 61)} | {81: False}
    chance = skip_probability(graph, tried)
    assert chance[35] > 0.7
    assert chance[36] < 0.3


def test_planning_is_deterministic():
    rng = random.Random(3)
    parents = branching(60, 0.2, rng)
    skips = untestable(60, 0.3, 5, rng)
    runs = {tuple(count_by_culprit(CommitGraph(parents), skips)) for _ in range(2)}
    assert len(runs) == 1


@pytest.mark.long
def test_a_hundred_thousand_commits_are_planned_with_skips():
    graph = CommitGraph(branching(100_000, 0.1, random.Random(1)))
    first = next_step(Knowledge.start(graph))
    assert isinstance(first, Probe)
    share = graph.ancestors(first.commit).mean()
    assert 0.4 < share < 0.6
    second = next_step(Knowledge.start(graph, [Observation(first.commit, Outcome.SKIP)]))
    assert isinstance(second, Probe)
    assert 0.3 < graph.ancestors(second.commit).mean() < 0.7
    assert np.abs(second.commit - first.commit) > 100
