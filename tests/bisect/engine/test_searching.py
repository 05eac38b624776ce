"""A range is searched: true culprits are named, whatever cannot be tested, was broken before, or is cancelled."""

import itertools
import re
from dataclasses import replace

import pytest

from precision_bisect.bisect.engine.answer import (
    Advance,
    FinalState,
    Move,
    Wait,
    conclusion_without_culprit,
)
from precision_bisect.bisect.engine.range_search import Context
from precision_bisect.bisect.engine.runs import (
    BisectionKnowledge,
    ConfirmationProgress,
    FinishedProbe,
    Needs,
    Note,
    ProbeLog,
    SearchProgress,
)
from precision_bisect.bisect.engine.search import CulpritSearch, ParentCheck
from precision_bisect.bisect.history.questions import AskApplies
from precision_bisect.bisect.search.decision import NoCulprit
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase, Verdict
from tests.bisect.engine import simulated
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line, drive, planted_task
from tests.bisect.engine.simulated import equal_times, loaded_range, simulated_probe
from tests.bisect.engine.stepping import (
    B,
    G,
    S,
    about,
    about_stack,
    enclosing,
    running,
    search_of,
    shown,
    started,
)
from tests.bisect.search.search_histories import line
from tests.support.quick import quick_first


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_culprit_of_a_line_is_named_and_confirmed(jobs: int) -> None:
    for culprit in range(1, 17):
        task = bisect(broken_line(17, culprit), jobs=jobs, seed=culprit)
        assert task.culprit == str(culprit)
        log = task.simulated.bisection.known.log
        assert any(probe.phase is Phase.CONFIRM for probe in log.ended)
        assert log.tally(f"{culprit} lib-0")[Judgement.BAD]
        assert log.tally(f"{culprit - 1} lib-0")[Judgement.GOOD]
        named = task.conclusion.culprits[0] if task.conclusion is not None else None
        assert named is not None
        assert named.confidence is not None
        assert named.confidence >= 0.99
        assert named.parent == str(culprit - 1)


def test_one_worker_needs_no_more_runs_than_halving_takes() -> None:
    for culprit in range(1, 17):
        task = bisect(broken_line(17, culprit))
        search = [probe for probe in task.simulated.bisection.known.log.ended if probe.phase is Phase.SEARCH]
        assert len(search) <= 4


def test_what_is_left_narrows_and_then_is_confirmed() -> None:
    task = planted_task(broken_line(33, 20))
    told: list[SearchProgress | ConfirmationProgress] = []

    def watch(needs: Needs) -> None:
        told.extend(note for note in needs.notes if isinstance(note, SearchProgress | ConfirmationProgress))

    task.simulated.on_needs = watch
    drive(task)
    narrowed = [note for note in told if isinstance(note, SearchProgress)]
    assert [note.candidates for note in narrowed] == [32, 16, 8, 4, 2]
    confirmed = told[len(narrowed) :]
    assert confirmed
    assert all(isinstance(note, ConfirmationProgress) and note.commit == "20" for note in confirmed)


@pytest.mark.parametrize(("then", "did"), [(B, "failed"), (G, "passed")])
@pytest.mark.parametrize("moved_at", [4, 6])
def test_where_all_runs_show_one_thing_from_some_run_on_nobody_is_named_and_that_is_said(
    then: Judgement, did: str, moved_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of failures with what the newest one printed last."""
    monkeypatch.setattr(
        simulated,
        "simulated_probe",
        lambda *words, **named: replace(
            simulated_probe(*words, **named), evidence=("exit code 1", "no licence")
        ),
    )
    stack, shown_so_far = broken_line(33, 8), itertools.count()
    moved = PlantedStack(
        outcome=lambda line, lib: stack.outcome(line, lib) if next(shown_so_far) < moved_at else then,
        pins=stack.pins,
    )
    task = bisect(moved)
    assert task.conclusion is not None
    assert task.conclusion.outcome in {BisectionOutcome.NO_CULPRIT, BisectionOutcome.SUSPECT}
    runs = len(task.simulated.started)
    told = re.search(r"; the last (\d+) runs all (\w+), of \d+ commits(.*)$", task.conclusion.message)
    assert told is not None
    assert told[2] == did
    assert told[3] == ('; the newest one says "no licence"' if then is B else "")
    assert runs - moved_at <= int(told[1]) < runs


def test_a_row_of_equal_runs_counts_each_run_once_however_many_commits_read_the_same() -> None:
    loaded = replace(
        loaded_range(list("abc"), CommitGraph(line(3)), "good"),
        contents={"a": "same", "b": "other", "c": "same"},
        new_content="same",
    )
    known = shown(shown(about(loaded), "other", B, B), "same", *[G] * 20)
    search = search_of(loaded)
    conclusion = conclusion_without_culprit(
        search, NoCulprit(), (), posterior=search.posterior(known, Context()), known=known
    )
    assert conclusion.message.endswith("; the last 20 runs all passed, of 1 commit")


@pytest.mark.parametrize("jobs", quick_first([1, 3]))
def test_every_set_of_untestable_commits_leaves_a_true_answer(jobs: int) -> None:
    size, inner = 6, range(1, 5)
    for culprit in range(1, size):
        for count in range(len(inner) + 1):
            for skips in itertools.combinations(inner, count):
                task = bisect(broken_line(size, culprit, skips=skips), jobs=jobs)
                assert task.conclusion is not None
                conclusion = task.conclusion
                if culprit in skips or culprit - 1 in skips:
                    suspects = {suspect.commit for suspect in conclusion.suspects}
                    assert conclusion.outcome in {BisectionOutcome.ONLY_SKIPPED, BisectionOutcome.SUSPECT}
                    assert 0.98 < sum(suspect.confidence or 0.0 for suspect in conclusion.suspects) <= 1
                    assert suspects.isdisjoint(conclusion.earlier_failures)
                    assert str(culprit) in suspects
                    assert not conclusion.culprits
                elif task.culprit is None:
                    # Too few could be tested to tell a culprit from a commit that fails for a reason of its own.
                    assert str(culprit) in {suspect.commit for suspect in conclusion.suspects}
                    assert len(skips) >= 2
                else:
                    assert task.culprit == str(culprit)


def broken_twice(size: int, broken: int, mended: int, again: int) -> PlantedStack:
    fails = {*range(broken, mended), *range(again, size)}
    return PlantedStack(
        outcome=lambda line, lib: Judgement.BAD if line in fails else Judgement.GOOD, pins=["lib-0"] * size
    )


@pytest.mark.long
@pytest.mark.parametrize("jobs", quick_first([1, 3]))
def test_a_range_that_broke_twice_ends_at_one_of_both(jobs: int) -> None:
    named = 0
    drawn = [*itertools.combinations(range(1, 9), 3)]
    for broken, mended, again in drawn:
        task = bisect(broken_twice(9, broken, mended, again), jobs=jobs)
        assert task.culprit in {None, str(broken), str(again)}, (broken, mended, again)
        assert task.conclusion is not None
        suspects = {suspect.commit for suspect in task.conclusion.suspects}
        assert task.culprit is not None or suspects & {str(broken), str(again)}
        named += task.culprit is not None
    assert named >= 0.7 * len(drawn)


@pytest.mark.long
@pytest.mark.parametrize("jobs", quick_first([1, 3]))
def test_what_failed_before_a_mending_is_told_beside_the_culprit(jobs: int) -> None:
    told = 0
    for broken, mended, again in itertools.combinations(range(1, 9), 3):
        stack = broken_twice(9, broken, mended, again)
        seen = [
            simulated_probe(
                number, f"{line} lib-0", Phase.SEARCH, stack.judge(f"{line} lib-0"), times=equal_times("")
            )
            for number, line in enumerate((broken, mended), 1)
        ]
        task = drive(planted_task(stack, jobs=jobs, log=ProbeLog(tuple(seen))))
        assert task.culprit in {None, str(broken), str(again)}, (broken, mended, again)
        assert task.conclusion is not None
        assert {*map(int, task.conclusion.earlier_failures)} <= {*range(broken, mended)}
        if task.culprit == str(again):
            assert str(broken) in task.conclusion.earlier_failures
            told += 1
    assert told >= 5


def test_a_contradiction_that_does_not_stand_is_noise() -> None:
    """The pass that contradicts an earlier fail is followed by a fail: nothing was broken twice."""
    lucky = iter([Judgement.GOOD])
    planted = broken_line(9, 3)

    def outcome(line: int, lib: str) -> Judgement:
        return next(lucky, Judgement.BAD) if line == 6 else planted.outcome(line, lib)

    stack = PlantedStack(outcome=outcome, pins=planted.pins)
    seen = [
        simulated_probe(
            number, f"{line} lib-0", Phase.SEARCH, stack.judge(f"{line} lib-0"), times=equal_times("")
        )
        for number, line in enumerate((4, 6), 1)
    ]
    task = drive(planted_task(stack, log=ProbeLog(tuple(seen))))
    assert task.culprit == "3"
    assert task.conclusion is not None
    assert task.conclusion.earlier_failures == ()


def test_probes_that_lose_their_value_are_cancelled_and_never_count() -> None:
    cancelled = 0
    for seed in range(12):
        task = planted_task(broken_line(40, 3 * seed + 1), jobs=4, seed=seed)
        numbers: list[int] = []
        task.simulated.on_needs = lambda needs, numbers=numbers: numbers.extend(needs.cancel)
        drive(task)
        log = task.simulated.bisection.known.log
        assert task.culprit == str(3 * seed + 1)
        assert not log.running
        assert not {probe.number for probe in log.ended} & {*numbers}
        assert len(log.ended) + len(numbers) == len(task.simulated.started)
        cancelled += len(numbers)
    assert cancelled > 0


def searching(stack: PlantedStack) -> CulpritSearch:
    search = search_of(stack.load(stack.range()))
    return CulpritSearch(search, enclosing(search.loaded))


def measured(stack: PlantedStack) -> BisectionKnowledge:
    """Both ends were run five times each."""
    last = len(stack.pins) - 1
    return shown(shown(about_stack(stack), "0 lib-0", *[G] * 5), f"{last} lib-0", *[B] * 5)


def after(stack: PlantedStack, known: BisectionKnowledge, *, workers: int = 1) -> Advance:
    return searching(stack).advance(known, Context(workers=workers))


def notes_of(advance: Advance) -> tuple[Note, ...]:
    assert isinstance(advance, Wait)
    return advance.needs.notes


def test_one_worker_halves_and_says_how_many_commits_are_left() -> None:
    stack = broken_line(9, 3)
    known = measured(stack)
    for commit, judgement, left in (("4", B, 8), ("2", G, 4), ("3", B, 2)):
        advance = after(stack, known)
        (wanted,) = started(advance)
        assert (wanted.target.commit, wanted.phase, wanted.range) == (commit, Phase.SEARCH, 1)
        (note,) = notes_of(advance)
        assert isinstance(note, SearchProgress)
        assert note.candidates == left
        known = shown(known, f"{commit} lib-0", judgement)
    (note,) = notes_of(after(stack, known))
    assert isinstance(note, ConfirmationProgress)
    assert note.commit == "3"


def test_several_workers_cut_the_range_into_equal_parts() -> None:
    stack = broken_line(9, 3)
    wanted = started(after(stack, measured(stack), workers=3))
    assert sorted(int(probe.target.commit) for probe in wanted) == [2, 4, 6]


def test_a_probe_that_cannot_tell_any_more_is_cancelled() -> None:
    stack = broken_line(17, 3)
    known = measured(stack)
    wanted = started(after(stack, known, workers=3))
    known = running(known, *wanted)
    numbers = {probe.wanted.target.commit: probe.number for probe in known.log.running}
    assert {*numbers} == {"4", "8", "12"}
    ended = replace(known, log=known.log.with_cancelled([numbers["4"]]))
    advance = after(stack, shown(ended, "4 lib-0", B), workers=3)
    assert isinstance(advance, Wait)
    assert {*advance.needs.cancel} == {numbers["8"], numbers["12"]}
    assert {int(probe.target.commit) for probe in advance.needs.start} == {1, 2, 3}


def test_a_confirmed_culprit_goes_on_to_its_parents() -> None:
    stack = broken_line(3, 2)
    known = measured(stack)
    for _ in range(40):
        advance = after(stack, known)
        if not isinstance(advance, Wait):
            break
        for probe in started(advance):
            known = shown(known, probe.target.content, stack.judge(probe.target.content), phase=probe.phase)
    else:
        raise AssertionError("no end in sight")
    assert isinstance(advance, Move)
    assert isinstance(advance.state, ParentCheck)
    assert advance.state.culprit.named.commit == "2"
    assert advance.state.culprit.named.confidence is not None
    assert advance.state.culprit.named.confidence >= 0.99


def test_where_all_between_the_ends_are_skips_the_suspects_are_concluded() -> None:
    stack = broken_line(4, 2, skips={1, 2})
    known = shown(shown(measured(stack), "1 lib-0", S), "2 lib-0", S)
    again = after(stack, known)
    assert isinstance(again, Wait)
    assert [wanted.target.content for wanted in again.needs.start] == ["0 lib-0"]
    known = shown(known, "0 lib-0", G)
    # The first behind them that can be tested, whose change may mend them.
    trial = AskApplies(repository="line", change="3", commits=("1", "2"))
    wait = after(stack, known)
    assert isinstance(wait, Wait)
    assert wait.needs == Needs(load=(trial,))
    advance = after(stack, known.with_answer(trial, ("1", "2")))
    assert isinstance(advance, Move)
    assert isinstance(advance.state, FinalState)
    assert {suspect.commit for suspect in advance.state.inner.suspects} == {"1", "2", "3"}


def test_a_spent_budget_leaves_as_many_commits_as_the_search_told_last() -> None:
    """And says how many hold the change as surely as was asked, if some run was by chance."""
    task = planted_task(broken_line(33, 20), most=6)
    told: list[int] = []
    task.simulated.on_needs = lambda needs: told.extend(
        note.candidates for note in needs.notes if isinstance(note, SearchProgress)
    )
    drive(task)
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.BUDGET
    left = re.match(
        r"(\d+) commits of line are left if no run was by chance, (\d+) hold the change with [\d.]+ %: enough$",
        task.conclusion.message,
    )
    assert left is not None
    assert [int(left[1]), int(left[2])] == [told[-1], len(task.conclusion.suspects)]
    assert int(left[1]) < int(left[2])


@pytest.mark.parametrize("fails_always", [False, True])
def test_a_suspect_that_the_machine_failed_once_is_tried_once_more_before_a_list(
    fails_always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, or a network that is away, says nothing of the commit."""
    task = planted_task(broken_line(17, 9))
    shows, failed = task.simulated.outcome, "8 lib-0"
    monkeypatch.setattr(simulated, "simulated_probe", _skips_by_machine)

    def outcome(content: str) -> Judgement:
        is_first = task.simulated.started.count(content) == 1
        return Judgement.SKIP if content == failed and (is_first or fails_always) else shows(content)

    task.simulated.outcome = outcome
    drive(task)
    assert task.conclusion is not None
    assert task.simulated.started.count(failed) == 2 + (not fails_always)
    if fails_always:
        assert {each.commit for each in task.conclusion.suspects} == {"8", "9"}
    else:
        assert task.culprit == "9"


def _skips_by_machine(*words: object, **named: object) -> FinishedProbe:
    probe = simulated_probe(*words, **named)  # pyright: ignore[reportArgumentType]
    return replace(
        probe, verdict=Verdict.ENVIRONMENT_ERROR if probe.judgement is Judgement.SKIP else probe.verdict
    )
