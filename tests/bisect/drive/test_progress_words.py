"""The phrases of the view."""

from dataclasses import replace

import pytest

from precision_bisect.bisect.drive.progress import (
    StartedProbe,
    describe_commit,
    describe_reason,
    describe_result,
    first_words,
    represented_end,
    rerun_reason,
    unexpected_end_notice,
    wrap_text,
)
from precision_bisect.bisect.engine.bisection import Bisection
from precision_bisect.bisect.engine.runs import (
    BisectionKnowledge,
    BisectionQuestion,
    WantedProbe,
)
from precision_bisect.bisect.history.range import Target
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.probe.probe import ProbeResult
from precision_bisect.store.vocabulary import BuildSource, Judgement, Phase, Seeks, Verdict
from tests.bisect.drive.shown import COMMIT, result, started
from tests.bisect.engine.simulated import loaded_range
from tests.bisect.engine.stepping import about, search_of, shown


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (result(), "bad: mismatch (out: 3/512 differ), built in 2.0 s, run 0.5 s"),
        (
            result(judgement=Judgement.GOOD, verdict=Verdict.PASS, signature=None, source=BuildSource.NONE),
            "good: pass, run 0.5 s",
        ),
        (
            result(signature=None, metrics={"a": {"max_diff": 0.5}, "b": {"max_diff": 2.0}}),
            "bad: mismatch, max diff 2, built in 2.0 s, run 0.5 s",
        ),
        (
            replace(result(signature="exit code 1"), likeness=0.15),
            "perhaps another failure: mismatch (exit code 1), built in 2.0 s, run 0.5 s",
        ),
        (
            replace(result(judgement=Judgement.SKIP, signature="exit code 1"), likeness=0.001),
            "another failure: mismatch (exit code 1), built in 2.0 s, run 0.5 s",
        ),
    ],
)
def test_a_result_says_its_verdict_its_error_and_what_it_took(shown: ProbeResult, text: str) -> None:
    assert describe_result(shown) == text


def test_a_commit_is_told_by_its_day_and_subject_and_nothing_drives_the_terminal() -> None:
    assert describe_commit(started(1)).startswith("2026-03-31 One rounding mode")
    assert describe_reason(started(1, again="again: why")) == "(again: why)"
    assert describe_reason(started(1)) == ""
    hostile = StartedProbe(
        ordinal=1, phase=Phase.SEARCH, repository="tool", commit="0" * 40, subject="a\x1b[2Jb"
    )
    assert describe_commit(hostile) == "a [2Jb"


def test_nothing_is_broken_within_a_word() -> None:
    words = "bad: mismatch (out), relative_l2 0.0019, build from the cache in 0.0 s"
    for width in (10, 20, 60):
        lines = wrap_text(words, width, indent=2)
        assert " ".join(" ".join(lines).split()) == words
        assert all(len(line) <= max(width, 14) for line in lines)
    assert first_words("One rounding mode", 14) == "One rounding …"


A = Target(repository="line", commit="a", held={}, content="a")


def test_why_a_commit_is_run_again() -> None:
    loaded = loaded_range(["a", "b"], CommitGraph([[], [0]]), "good")
    known = about(loaded)

    def why(phase: Phase, *judgements: Judgement, about: BisectionKnowledge = known) -> str | None:
        wanted = WantedProbe(target=A, phase=phase, range=1)
        return rerun_reason(shown(about, "a", *judgements), wanted)

    good, bad, skip = Judgement.GOOD, Judgement.BAD, Judgement.SKIP
    assert why(Phase.SEARCH) is None
    assert why(Phase.ENDPOINT, *[good] * 14) == (
        "again: 14 runs of this end passed, but a failure in up to 28 % of its runs is still possible"
    )
    assert why(Phase.ENDPOINT, bad) == (
        "again: 1 run of this end failed, but a pass in up to 99 % of its runs is still possible"
    )
    assert why(Phase.CONFIRM, bad) == "again: to see whether it always fails"
    assert why(Phase.SEARCH, bad) == "again: it failed in its one run, which may be chance"
    assert why(Phase.SEARCH, *[good] * 10) == (
        "again: it passed in all 10 runs, and may still fail now and then"
    )
    assert why(Phase.SEARCH, bad, good) == "again: its runs contradict each other"
    assert why(Phase.SEARCH, skip) == "again: it could not be judged"
    assert why(Phase.ENDPOINT, good, skip) == "again: to see whether it can still be judged"


def test_the_end_is_told_that_is_run_by_another_commit_with_its_content() -> None:
    loaded = loaded_range(["a", "b"], CommitGraph([[], [0]]), "good")
    as_a = replace(loaded, range=replace(loaded.range, new="c" * 40), new_content="a")
    endpoint = WantedProbe(target=A, phase=Phase.ENDPOINT, range=1)
    assert represented_end(search_of(as_a), endpoint) == "c" * 40
    assert represented_end(search_of(as_a), replace(endpoint, phase=Phase.SEARCH)) is None
    itself = replace(as_a, range=replace(as_a.range, new="a"))
    assert represented_end(search_of(itself), endpoint) is None
    shown_instead = replace(started(1, phase=Phase.ENDPOINT), stands_for="c" * 40)
    assert describe_reason(shown_instead) == f"(for {'c' * 12}, which reads the same)"
    asked = BisectionQuestion(range=as_a.range, confidence=0.99, repositories=frozenset({"line"}))
    told = unexpected_end_notice(Bisection.start(asked), shown_instead, result(judgement=Judgement.GOOD))
    assert told[0].startswith("the bad end passes")


def test_an_end_that_does_otherwise_is_told_of_with_its_log_at_once() -> None:
    graph = CommitGraph([[]])
    for seeks, old, new in ((Seeks.REGRESSION, "good", "bad"), (Seeks.FIX, "bad", "good")):
        loaded = loaded_range([COMMIT], graph, "old")
        asked = replace(loaded.range, old="old", new=COMMIT, seeks=seeks)
        whole = Bisection.start(
            BisectionQuestion(range=asked, confidence=0.99, repositories=frozenset({"line"}))
        )
        unlike = {"good": Judgement.BAD, "bad": Judgement.GOOD}
        for end, commit in ((old, "old"), (new, COMMIT)):
            probe = replace(started(1, phase=Phase.ENDPOINT), commit=commit)
            first, advice, log = unexpected_end_notice(whole, probe, result(judgement=unlike[end]))
            assert first.startswith(f"the {end} end {'fails' if end == 'good' else 'passes'}")
            assert "stop here" in advice
            assert log == "run.log.gz"
            likewise = Judgement.GOOD if end == "good" else Judgement.BAD
            assert unexpected_end_notice(whole, probe, result(judgement=likewise)) == ()
            again = replace(probe, rerun_reason="again: to see")
            assert unexpected_end_notice(whole, again, result(judgement=unlike[end])) == ()


@pytest.mark.parametrize(("seeks", "does"), [(Seeks.REGRESSION, "fails"), (Seeks.FIX, "passes")])
def test_a_merge_base_is_told_of_as_one(seeks: Seeks, does: str) -> None:
    loaded = loaded_range([COMMIT], CommitGraph([[]]), "old")
    asked = replace(loaded.range, old="base", new=COMMIT, seeks=seeks)
    whole = Bisection.start(
        BisectionQuestion(
            range=asked, confidence=0.99, repositories=frozenset({"line"}), starts_at_merge_base=True
        )
    )
    bad, good = (
        (Judgement.BAD, Judgement.GOOD) if seeks is Seeks.REGRESSION else (Judgement.GOOD, Judgement.BAD)
    )
    probe = started(1, phase=Phase.ENDPOINT)
    assert unexpected_end_notice(whole, replace(probe, commit="base"), result(judgement=bad))[0].startswith(
        f"the merge base {does} too"
    )
    of_other = unexpected_end_notice(whole, replace(probe, commit=COMMIT), result(judgement=good))[0]
    assert "merge base" not in of_other
