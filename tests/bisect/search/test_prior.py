"""What a commit touches guides the search, and has no say in what is claimed."""

import doctest
import random
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.bisect.search import belief
from precision_bisect.bisect.search.belief import Knowledge, Observation, Outcome, prior_weights
from precision_bisect.bisect.search.graph import CommitGraph, Floats
from precision_bisect.bisect.search.halving import FoundCulprit, Probe, next_step
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates
from tests.bisect.search.search_histories import graphs, line, search, truth
from tests.support.quick import examples

AREAS = ["rms_norm", "softmax", "paged_attention", "rope", "layout", "tiling", "quantize", "reshape"]


def number_of_tests(graph: CommitGraph, culprit: int, weights: Floats | None) -> int:
    knowledge, tests = Knowledge.start(graph), 0
    test = truth(graph, culprit, set())
    while isinstance(step := next_step(knowledge, weights=weights), Probe):
        knowledge = knowledge.observe(Observation(step.commit, test(step.commit)))
        tests += 1
    assert step == FoundCulprit(culprit)
    return tests


def test_its_example_runs():
    assert doctest.testmod(belief).failed == 0


def test_words_are_found_whichever_way_they_are_joined():
    files = [["src/RmsNorm.cpp"], ["src/rms-norm.md"], ["src/other.cpp"], ["src/another.py"]]
    weights = prior_weights(files, ["kernels/aiv/rms_norm_kernel"])
    assert weights is not None
    assert weights.tolist() == [8, 8, 1, 1]


def test_a_word_that_all_touch_says_nothing_and_a_rare_one_more_than_a_common_one():
    files = [["ops/add.py"], ["ops/mul.py"], ["ops/mul.py"], ["ops/x.py"]]
    weights = prior_weights(files, ["ops/test_add_mul.py"])
    assert weights is not None
    assert weights[0] == 8 > weights[1] == weights[2] > weights[3] == 1
    assert prior_weights([["ops/a.py"], ["ops/b.py"]], ["ops"]) is None


def test_nothing_is_known_without_a_name_or_a_word_in_common():
    assert prior_weights([["a.py"], ["b.py"]], []) is None
    assert prior_weights([["alpha.py"], ["beta.py"]], ["gamma"]) is None
    assert prior_weights([[], []], ["gamma"]) is None


def test_a_culprit_near_the_case_is_found_in_fewer_tests_and_any_other_at_one_more_at_most():
    """Each commit touches one of eight areas; the case is of one of them."""
    n = 256
    graph = CommitGraph(line(n))
    near: list[int] = []
    far: list[int] = []
    for seed in range(3):
        rng = random.Random(seed)
        areas = [rng.choice(AREAS) for _ in range(n)]
        weights = prior_weights([[f"python/ops/{area}.py"] for area in areas], [f"tests/test_{AREAS[0]}.py"])
        for culprit in range(0, n, 3):
            taken = number_of_tests(graph, culprit, weights)
            (near if areas[culprit] == AREAS[0] else far).append(taken)
    assert np.mean(near) < log2(n) - 0.5
    assert max(far) <= log2(n) + 1
    assert np.mean(far) < log2(n) + 0.7


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(1, 60), st.data())
def test_no_weights_cost_a_line_more_than_one_test(n: int, data: st.DataObject):
    weights = np.array(data.draw(st.lists(st.floats(1e-6, 1e6), min_size=n, max_size=n)))
    graph, culprit = CommitGraph(line(n)), data.draw(st.integers(0, n - 1))
    assert number_of_tests(graph, culprit, weights) <= ceil(log2(n)) + 1


@settings(deadline=None, max_examples=examples(60))
@given(graphs(), st.data())
def test_equal_weights_are_none_and_any_weights_find_the_culprit(graph: CommitGraph, data: st.DataObject):
    culprit = data.draw(st.integers(0, graph.bad))
    _, tested = search(graph, truth(graph, culprit, set()))
    assert number_of_tests(graph, culprit, np.full(len(graph), 3.0)) == len(tested)
    weights = np.array(data.draw(st.lists(st.floats(1, 8), min_size=len(graph), max_size=len(graph))))
    number_of_tests(graph, culprit, weights)


def test_weights_guide_what_is_run_and_not_what_is_claimed():
    graph = CommitGraph(line(8))
    weights = np.array([1.0] * 6 + [8.0, 1.0])
    seen = [Observation(GOOD_END, Outcome.GOOD), Observation(7, Outcome.BAD)] * 3
    posterior = Posterior.start(graph, Rates.unknown(), weights=weights, observations=seen)
    plain = Posterior.start(graph, Rates.unknown(), observations=seen)
    assert posterior.belief.commits.tolist() == plain.belief.commits.tolist()
    assert posterior.guess.commits[6] == pytest.approx(8 * posterior.guess.commits[0])
    assert posterior.guess.commits.sum() == pytest.approx(posterior.belief.commits.sum())
    with pytest.raises(ValueError, match="positive prior weights"):
        Posterior.start(graph, Rates.unknown(), weights=np.zeros(8))
