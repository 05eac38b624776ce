"""A range with its posterior: what is set aside, what is remembered, and what is in flight."""

import numpy as np
import pytest

from precision_bisect.bisect.engine.range_search import Context, RangeSearch, early_failing_end
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.store.vocabulary import Phase
from tests.bisect.engine.planted import PlantedStack, broken_line
from tests.bisect.engine.stepping import B, G, S, about_stack, running, search_of, shown

STACK = broken_line(9, 5)
AROUND = Context()


def search(stack: PlantedStack = STACK) -> RangeSearch:
    return search_of(stack.load(stack.range()))


def test_a_posterior_after_one_more_probe_is_that_of_all_probes_at_once() -> None:
    grown, known = search(), about_stack(STACK)
    for content, judgement in (
        ("0 lib-0", G),
        ("8 lib-0", B),
        ("4 lib-0", G),
        ("6 lib-0", S),
        ("7 lib-0", B),
        ("4 lib-0", B),
    ):
        known = shown(known, content, judgement)
        posterior, anew = grown.posterior(known, AROUND), search().posterior(known, AROUND)
        assert posterior.observations == anew.observations
        np.testing.assert_allclose(posterior.belief.commits, anew.belief.commits, rtol=1e-12)


def test_what_others_suspect_weighs_more_and_is_weighed_anew_when_it_changes() -> None:
    searched, known = search(), about_stack(STACK)
    suspecting = Context(suspicions={"line": [{"6": 0.9}]})
    weights = searched.weights(known, suspecting)
    assert weights is not None
    assert int(np.argmax(weights)) == 5
    assert searched.weights(known, suspecting) is weights
    assert int(np.argmax(searched.posterior(known, suspecting).guess.commits)) == 5
    elsewhere = Context(suspicions={"line": [{"2": 0.9}]})
    moved = searched.weights(known, elsewhere)
    assert moved is not None
    assert int(np.argmax(moved)) == 1
    assert int(np.argmax(searched.posterior(known, elsewhere).guess.commits)) == 1


def test_what_is_in_flight_is_told_in_the_order_of_the_starts() -> None:
    searched = search()
    nodes = [4, GOOD_END, 2]
    wanted = [searched.make_probe(node, Phase.SEARCH) for node in nodes]
    assert [probe.target.commit for probe in wanted] == ["5", "0", "3"]
    assert searched.nodes_in_flight(running(about_stack(STACK), *wanted)) == nodes


@pytest.mark.parametrize(("gallop", "commit"), [(False, None), (True, "8")])
def test_a_failing_end_is_known_before_the_ends_are_measured_where_the_good_one_was_looked_for(
    gallop: bool, commit: str | None
) -> None:
    target = early_failing_end(about_stack(STACK, gallop=gallop), search())
    assert (None if target is None else target.commit) == commit
