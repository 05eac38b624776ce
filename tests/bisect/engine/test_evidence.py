"""What probes tell of a range: of its own candidates, and what those of an outer range tell of its ends."""

import random

import pytest

from precision_bisect.bisect.engine.runs import (
    RangeEvidence,
    earlier_failures,
    failing_end,
    find_target,
    new_end,
    old_end,
    passing_end,
)
from precision_bisect.bisect.history.range import LoadedRange, search_outcome
from precision_bisect.bisect.search.belief import Observation, Outcome
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates
from precision_bisect.store.vocabulary import Judgement, Phase, Seeks
from tests.bisect.engine.planted import PlantedStack, broken_line
from tests.bisect.engine.simulated import loaded_range
from tests.bisect.engine.stepping import B, G, S, about, about_stack, shown
from tests.bisect.search.search_histories import branching, line


def loaded_stack(stack: PlantedStack, seeks: Seeks = Seeks.REGRESSION) -> LoadedRange:
    loaded = stack.load(stack.range(seeks=seeks))
    assert loaded is not None
    return loaded


def outer_range(seed: int) -> LoadedRange:
    """Of 20 commits with branches, each of its own content."""
    graph = CommitGraph(branching(20, 0.2, random.Random(seed)))
    return loaded_range([f"outer-{node}" for node in range(20)], graph, "outer-good")


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_probes_of_an_outer_range_tell_of_the_ends_what_is_true_of_them(seed: int, flipped: bool) -> None:
    """The culprit moves a pin: what builds on it does as with the new one, all else as with the old one."""
    rng = random.Random(seed)
    outer = outer_range(seed)
    inner = loaded_range(["inner-0", "inner-1"], CommitGraph(line(2)), "inner-good")
    culprit = rng.randrange(20)
    ends = {True: GOOD_END, False: inner.graph.bad} if flipped else {True: inner.graph.bad, False: GOOD_END}
    seeks = Seeks.FIX if flipped else Seeks.REGRESSION
    known, expected = about(outer), list[Observation]()
    for node in rng.choices([GOOD_END, *range(20)], k=30):
        content = "outer-good" if node == GOOD_END else f"outer-{node}"
        changed = node != GOOD_END and bool(outer.graph.ancestors(node)[culprit])
        told = S if rng.random() < 0.2 else B if changed else G
        known = shown(known, content, told)
        expected.append(Observation(ends[changed], search_outcome(told, seeks)))
    evidence = RangeEvidence.from_range(inner).inherit(
        RangeEvidence.from_range(outer), known.log, culprit=culprit, ends=ends, flipped=flipped
    )
    assert evidence.inherited == tuple(expected)
    assert evidence.observations(known.log) == expected


def test_a_failure_that_the_culprit_does_not_explain_and_what_the_range_has_itself_are_not_inherited() -> (
    None
):
    outer = outer_range(0)
    inner = loaded_range(["inner-0", "outer-19"], CommitGraph(line(2)), "inner-good")
    known = shown(shown(shown(about(outer), "outer-0", B), "outer-19", B), "outer-0", G)
    evidence = RangeEvidence.from_range(inner).inherit(
        RangeEvidence.from_range(outer), known.log, culprit=19, ends={True: 1, False: GOOD_END}, flipped=False
    )
    assert evidence.inherited == (Observation(GOOD_END, Outcome.GOOD),)
    assert evidence.observations(known.log) == [
        Observation(GOOD_END, Outcome.GOOD),
        Observation(1, Outcome.BAD),
    ]


def test_a_pin_that_is_no_end_tells_nothing() -> None:
    outer = outer_range(0)
    inner = loaded_range(["inner-0"], CommitGraph(line(1)), "inner-good")
    known = shown(shown(about(outer), "outer-0", G), "outer-19", B)
    evidence = RangeEvidence.from_range(inner).inherit(
        RangeEvidence.from_range(outer),
        known.log,
        culprit=19,
        ends={True: None, False: GOOD_END},
        flipped=False,
    )
    assert evidence.inherited == (Observation(GOOD_END, Outcome.GOOD),)


def test_one_probe_speaks_for_all_candidates_of_its_content_and_what_pins_nothing_is_a_skip() -> None:
    graph = CommitGraph(line(4))
    evidence = RangeEvidence(
        graph=graph, contents=["same", None, "same", "new"], old_content="same", seeks=Seeks.REGRESSION
    )
    known = shown(about(loaded_range(list("abcd"), graph, "good")), "same", G)
    known = shown(shown(known, "elsewhere", B), "new", B, phase=Phase.CONFIRM)
    good = [Observation(node, Outcome.GOOD, commit_count=3) for node in (GOOD_END, 0, 2)]
    bad = Observation(3, Outcome.BAD)
    observations = evidence.observations(known.log)
    assert observations == [Observation(1, Outcome.SKIP), *good, bad]
    # It is one run all the same.
    assert Posterior.start(graph, Rates.unknown(), observations=observations).run_totals == pytest.approx(
        (1, 1)
    )


@pytest.mark.parametrize(("seeks", "passes", "fails"), [(Seeks.REGRESSION, "0", "8"), (Seeks.FIX, "8", "0")])
def test_which_end_passes_follows_from_what_is_sought(seeks: Seeks, passes: str, fails: str) -> None:
    loaded = loaded_stack(broken_line(9, 5), seeks)
    assert (old_end(loaded).commit, new_end(loaded).commit) == ("0", "8")
    assert (passing_end(loaded).commit, failing_end(loaded).commit) == (passes, fails)
    assert find_target(loaded, GOOD_END) == old_end(loaded)
    assert find_target(loaded, loaded.graph.bad) == new_end(loaded)
    seen = RangeEvidence.from_range(loaded).observations(
        shown(about_stack(broken_line(9, 5)), f"{fails} lib-0", B).log
    )
    assert seen == [
        Observation(7, Outcome.BAD) if seeks is Seeks.REGRESSION else Observation(GOOD_END, Outcome.GOOD)
    ]


def test_what_pins_nothing_cannot_be_built() -> None:
    stack = PlantedStack(outcome=lambda line, lib: G, pins=["lib-0"] * 4, unbuildable={2})
    with pytest.raises(ValueError, match="2: expected a commit that can be built"):
        find_target(loaded_stack(stack), 1)


@pytest.mark.parametrize(
    ("parents", "shown_at", "began"),
    [
        pytest.param(line(8), {1: B, 2: B, 3: B, 4: G, 6: B}, (1,), id="it lasted for three commits"),
        pytest.param(line(8), {1: B, 2: G, 3: B, 4: G, 6: B}, (1, 3), id="it was fixed and came back"),
        pytest.param(
            [[], [0], [0], [1, 2], [3], [4], [5]],
            {1: B, 2: G, 3: B, 4: G, 5: B},
            (1,),
            id="a branch passes beside it",
        ),
    ],
)
def test_only_the_commits_where_an_earlier_failure_began_are_named(
    parents: list[list[int]], shown_at: dict[int, Judgement], began: tuple[int, ...]
) -> None:
    graph = CommitGraph(parents)
    loaded = loaded_range([str(node) for node in range(len(graph))], graph, "good")
    known = about(loaded)
    for node, judgement in shown_at.items():
        known = shown(known, str(node), judgement)
    culprit = max(shown_at)
    assert earlier_failures(RangeEvidence.from_range(loaded), known.log, culprit=culprit) == began
