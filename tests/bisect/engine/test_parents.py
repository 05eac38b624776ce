"""Parents of a culprit from before the range: told by Wald's test to be like the good end, like the bad one, or
neither."""

from dataclasses import replace

import pytest

from precision_bisect.bisect.engine import culprit
from precision_bisect.bisect.engine.answer import Advance, Enter, FinalState, Move, Wait
from precision_bisect.bisect.engine.runs import BisectionKnowledge, Needs
from precision_bisect.bisect.engine.search import ParentCheck
from precision_bisect.bisect.history.questions import AskTarget, HistoryAnswer, HistoryQuestion
from precision_bisect.bisect.history.range import LoadedRange, Target
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.errors import EndsError
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase
from tests.bisect.engine.simulated import loaded_range
from tests.bisect.engine.stepping import B, G, S, about, confirmed, running, shown, started, step

FORKED = 2
"""The first commit of a line that was forked before the range began."""


def two_lines() -> LoadedRange:
    """Commits 0 and 1 on the line of the good end, 2 and 3 on one that builds on `fork`; 4 merges both."""
    graph = CommitGraph([[], [0], [], [FORKED], [1, 3]])
    return loaded_range([str(node) for node in range(5)], graph, "good", forked={FORKED: "fork"})


def as_named(asked: HistoryQuestion) -> HistoryAnswer:
    assert isinstance(asked, AskTarget)
    return Target(repository=asked.repository, commit=asked.commit, held=asked.held, content=asked.commit)


def after(known: BisectionKnowledge, loaded: LoadedRange, node: int = FORKED) -> Advance:
    return step(ParentCheck(confirmed(loaded, node)), known, as_named)[1]


def measured(loaded: LoadedRange, good: list[Judgement], bad: list[Judgement]) -> BisectionKnowledge:
    """Both ends were run."""
    return shown(shown(about(loaded), "good", *good), loaded.new_content, *bad)


def runs_until_told(
    loaded: LoadedRange, known: BisectionKnowledge, judgement: Judgement
) -> tuple[int, Advance]:
    """How many runs of the parent, which all show the same, are asked for; and what follows."""
    for runs in range(40):
        advance = after(known, loaded)
        if not isinstance(advance, Wait):
            return runs, advance
        (wanted,) = advance.needs.start
        assert (wanted.target.commit, wanted.phase, wanted.node) == ("fork", Phase.CONFIRM, None)
        known = shown(known, "fork", judgement)
    raise AssertionError("no end in sight")


@pytest.mark.parametrize(
    ("good", "bad", "judgement", "runs"),
    [
        # Both sides are all but certain: one run tells.
        ([G] * 5, [B] * 5, B, 1),
        ([G] * 5, [B] * 5, G, 2),
        # A good commit hardly ever fails, a bad one now and then passes: so a failure tells more than a pass.
        ([G] * 5, [B] * 3 + [G] * 2, B, 2),
        ([G] * 5, [B] * 3 + [G] * 2, G, 6),
    ],
)
def test_a_parent_is_run_until_the_odds_are_99_to_1(
    good: list[Judgement], bad: list[Judgement], judgement: Judgement, runs: int
) -> None:
    loaded = two_lines()
    asked, advance = runs_until_told(loaded, measured(loaded, good, bad), judgement)
    assert asked == runs
    if judgement is G:
        assert isinstance(advance, Move)
        assert isinstance(advance.state, culprit.PinTests)
    else:
        assert isinstance(advance, Enter)


def test_without_the_line_of_a_parent_that_fails_the_rest_is_searched() -> None:
    loaded = two_lines()
    advance = after(shown(measured(loaded, [G] * 5, [B] * 5), "fork", B, B), loaded)
    assert isinstance(advance, Enter)
    assert advance.search.loaded.candidates == ("0", "1", "4")
    assert advance.search.ordinal == 1
    (note,) = advance.notes
    assert "leaves out 2 commits of it" in str(note)


def test_a_line_that_the_bad_end_is_on_cannot_be_left_out() -> None:
    loaded = loaded_range(["0", "1"], CommitGraph([[], [0]]), "good", forked={0: "fork"})
    known = shown(measured(loaded, [G] * 5, [B] * 5), "fork", B, B)
    with pytest.raises(
        EndsError,
        match="the common ancestor fork of good good and bad 1 fails too: the failure was fixed on the side of good",
    ) as told:
        after(known, loaded, node=0)
    assert str(told.value).endswith("ask with --find-fix --bad fork --good good")
    named = confirmed(loaded, 0)
    inner = ParentCheck(replace(named, search=replace(named.search, ordinal=2)))
    advance = step(inner, known, as_named)[1]
    assert isinstance(advance, Move)
    assert isinstance(advance.state, FinalState)
    assert advance.state.inner.outcome is BisectionOutcome.SUSPECT


def without_parents(loaded: LoadedRange, node: int) -> LoadedRange:
    """The candidate has no parent."""
    nodes = [*loaded.commit_range.nodes]
    nodes[node] = replace(nodes[node], members=(replace(nodes[node].commit, parents=()),))
    return replace(loaded, commit_range=replace(loaded.commit_range, nodes=tuple(nodes)))


def test_a_history_of_its_own_that_fails_from_its_first_commit_on_is_left_out() -> None:
    loaded = without_parents(two_lines(), FORKED)
    advance = after(measured(loaded, [G] * 5, [B] * 5), loaded)
    assert isinstance(advance, Enter)
    assert advance.search.loaded.candidates == ("0", "1", "4")
    assert "it has no parent" in str(advance.notes[0])
    alone = without_parents(loaded_range(["0", "1"], CommitGraph([[], [0]]), "good"), 0)
    told = after(measured(alone, [G] * 5, [B] * 5), alone, node=0)
    assert isinstance(told, Move)
    assert isinstance(told.state, FinalState)
    assert told.state.inner.outcome is BisectionOutcome.SUSPECT


def test_a_merge_into_the_good_end_is_on_no_line_that_was_forked_before() -> None:
    loaded = loaded_range(["0", "1", "2"], CommitGraph([[], [0], [1]]), "good", forked={0: "fork"})
    nodes = [*loaded.commit_range.nodes]
    nodes[1] = replace(nodes[1], members=(replace(nodes[1].commit, parents=("good", "0")),))
    loaded = replace(loaded, commit_range=replace(loaded.commit_range, nodes=tuple(nodes)))
    advance = after(shown(measured(loaded, [G] * 5, [B] * 5), "fork", B, B), loaded, node=0)
    assert isinstance(advance, Enter)
    assert advance.search.loaded.candidates == ("1", "2")


@pytest.mark.parametrize("told", [[S], [G, B] * 12])
def test_a_parent_that_tells_nothing_leaves_a_suspect(told: list[Judgement]) -> None:
    loaded = two_lines()
    advance = after(shown(measured(loaded, [G] * 5, [B] * 5), "fork", *told), loaded)
    assert isinstance(advance, Move)
    assert isinstance(advance.state, FinalState)
    conclusion = advance.state.inner
    assert conclusion.outcome is BisectionOutcome.SUSPECT
    assert [suspect.commit for suspect in conclusion.suspects] == [str(FORKED)]


def test_a_parent_is_not_run_twice_at_once() -> None:
    loaded = two_lines()
    known = measured(loaded, [G] * 5, [B] * 5)
    (wanted,) = started(after(known, loaded))
    assert after(running(known, wanted), loaded) == Wait(Needs())


def test_parents_within_the_range_and_its_good_end_are_not_run_again() -> None:
    loaded = two_lines()
    for node in (0, 1, 3, 4):
        advance = after(measured(loaded, [G] * 5, [B] * 5), loaded, node)
        assert isinstance(advance, Move)
        assert isinstance(advance.state, culprit.PinTests)


def test_of_a_merge_only_the_first_parent_counts_where_branches_are_left_alone() -> None:
    loaded = two_lines()
    merge = replace(loaded.commit_range.nodes[4].commit, parents=("1", "fork"))
    nodes = (*loaded.commit_range.nodes[:4], replace(loaded.commit_range.nodes[4], members=(merge,)))
    both = replace(loaded, commit_range=replace(loaded.commit_range, nodes=nodes))
    known = measured(both, [G] * 5, [B] * 5)
    assert [probe.target.commit for probe in started(after(known, both, 4))] == ["fork"]
    first = replace(both, range=replace(both.range, first_parent=True))
    assert isinstance(after(known, first, 4), Move)
