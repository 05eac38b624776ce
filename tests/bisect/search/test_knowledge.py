import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.bisect.search.belief import Knowledge, Observation, Outcome
from precision_bisect.bisect.search.graph import CommitGraph
from tests.bisect.search.search_histories import ancestors, graphs, line, truth

GOOD, BAD, SKIP = Outcome.GOOD, Outcome.BAD, Outcome.SKIP


def suspects(knowledge: Knowledge) -> set[int]:
    return set(np.flatnonzero(knowledge.suspects).tolist())


def told(graph: CommitGraph, **outcomes: Outcome) -> Knowledge:
    return Knowledge.start(graph, [Observation(int(name[1:]), outcome) for name, outcome in outcomes.items()])


@given(graphs(), st.data())
def test_suspects_are_the_culprits_that_agree_with_every_observation(graph: CommitGraph, data: st.DataObject):
    commits = st.sampled_from(range(len(graph)))
    skips = data.draw(st.sets(commits)) - {graph.bad}
    outcome = truth(graph, data.draw(commits), skips)
    tested = data.draw(st.lists(commits, unique=True))
    knowledge = Knowledge.start(graph, [Observation(commit, outcome(commit)) for commit in tested])

    agreeing = {
        culprit
        for culprit in range(len(graph))
        if all(outcome(commit) is truth(graph, culprit, skips)(commit) for commit in tested)
    }
    assert suspects(knowledge) == agreeing
    assert knowledge.skipped_commits == skips & set(tested)
    assert knowledge.unexplained_fails == ()


@given(graphs(), st.data())
def test_any_outcomes_leave_suspects_and_their_order_does_not_matter(graph: CommitGraph, data: st.DataObject):
    outcomes = data.draw(
        st.dictionaries(st.integers(0, max(0, graph.bad - 1)), st.sampled_from(Outcome), max_size=6)
    )
    outcomes.pop(graph.bad, None)
    observations = [Observation(commit, outcome) for commit, outcome in outcomes.items()]
    shuffled = data.draw(st.permutations(observations))
    one_by_one = Knowledge.start(graph)
    for observation in shuffled:
        one_by_one = one_by_one.observe(observation)
    at_once = Knowledge.start(graph, observations)
    assert suspects(one_by_one) == suspects(at_once) != set()
    assert one_by_one.unexplained_fails == at_once.unexplained_fails
    cleared = set().union(*(ancestors(graph.parents, c) for c, o in outcomes.items() if o is GOOD))
    assert not suspects(at_once) & cleared


def test_fixed_and_broken_again_searches_the_latest_change():
    knowledge = told(CommitGraph(line(10)), c2=BAD, c5=GOOD, c8=BAD)
    assert suspects(knowledge) == {6, 7, 8}
    assert knowledge.unexplained_fails == (2,)


def test_fails_without_a_common_ancestor_are_not_forced_on_one_culprit():
    # 0 and 1 are separate branches from the good end, merged by 2.
    knowledge = told(CommitGraph([[], [], [0, 1]]), c0=BAD, c1=BAD)
    assert suspects(knowledge) == {1}
    assert knowledge.unexplained_fails == (0,)


def test_fails_on_two_branches_point_below_both():
    graph = CommitGraph([[], [0], [0], [1, 2]])
    assert suspects(told(graph, c1=BAD, c2=BAD)) == {0}


def test_a_later_verdict_replaces_a_skip_and_a_later_skip_changes_nothing():
    graph = CommitGraph(line(4))
    skipped = Knowledge.start(graph, [Observation(1, SKIP)])
    assert skipped.skipped_commits == {1}
    passed = skipped.observe(Observation(1, GOOD))
    assert passed.skipped_commits == frozenset()
    assert suspects(passed) == suspects(passed.observe(Observation(1, SKIP))) == {2, 3}


@pytest.mark.parametrize(("first", "second"), [(GOOD, BAD), (BAD, GOOD)])
def test_one_commit_cannot_pass_and_fail(first: Outcome, second: Outcome):
    knowledge = Knowledge.start(CommitGraph(line(4)), [Observation(1, first)])
    with pytest.raises(ValueError, match=f"commit 1: expected {first.value} .* found {second.value}"):
        knowledge.observe(Observation(1, second))


def test_the_bad_end_cannot_pass():
    with pytest.raises(ValueError, match="commit 3: expected bad"):
        told(CommitGraph(line(4)), c3=GOOD)


def test_observing_leaves_the_earlier_state_alone():
    before = Knowledge.start(CommitGraph(line(8)))
    rng = random.Random(0)
    for commit in rng.sample(range(7), 7):
        before.observe(Observation(commit, rng.choice(list(Outcome))))
    assert suspects(before) == set(range(8))
    assert before.outcomes == {7: BAD}
