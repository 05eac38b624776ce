"""A good end is looked for along first parents: 1, 2, 4, ... commits behind the bad one."""

import itertools

import pytest

from precision_bisect.bisect.engine.answer import Move, Wait
from precision_bisect.bisect.engine.bisection import GoodEndSearch, RangeOpening, _no_pass_message
from precision_bisect.bisect.engine.range_search import Context
from precision_bisect.bisect.engine.runs import BisectionKnowledge, GivenData, GoodEnd, Needs, SavedData
from precision_bisect.bisect.history.questions import FirstParents
from precision_bisect.runner.errors import EndsError
from precision_bisect.store.vocabulary import Judgement
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line, planted_task, question
from tests.bisect.engine.simulated import SimulatedTask
from tests.bisect.engine.stepping import B, G, S, about_stack, answers_of, running, shown, started, step
from tests.bisect.engine.test_data import saving

JUDGEMENTS = {"g": Judgement.GOOD, "b": Judgement.BAD, "s": Judgement.SKIP}


def gallop(stack: PlantedStack, *, golden: str = "none", jobs: int = 1, seed: int = 0) -> SimulatedTask:
    return bisect(stack, question(stack, gallop=True, golden=golden), jobs=jobs, seed=seed)


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("culprit", range(1, 20))
def test_every_culprit_of_a_line_is_found_without_a_good_end(culprit: int, jobs: int) -> None:
    task = gallop(broken_line(20, culprit), jobs=jobs)
    assert task.culprit == str(culprit)
    tested = [*dict.fromkeys(content.split()[0] for content in task.simulated.started)]
    behind = [str(max(0, 19 - distance)) for distance in (1, 2, 4, 8, 16, 19)]
    good = next(place for place, commit in enumerate(behind) if int(commit) < culprit)
    assert tested[: good + 2] == ["19", *behind[: good + 1]]


def test_every_short_line_ends_in_a_true_answer() -> None:
    """All lines of good and bad commits, with one that cannot be tested, that end in a bad one."""
    for line in itertools.product("gbs", repeat=4):
        truth = [JUDGEMENTS[letter] for letter in (*line, "b")]
        if truth.count(Judgement.SKIP) > 1:
            continue
        stack = PlantedStack(outcome=lambda line, lib, truth=truth: truth[line], pins=["lib-0"] * 5)
        task = gallop(stack)
        if Judgement.GOOD not in truth:
            assert isinstance(task.error, EndsError), (line, task.conclusion)
        elif task.culprit is not None:
            named = int(task.culprit)
            assert truth[named] is Judgement.BAD, line
            assert truth[named - 1] is Judgement.GOOD, line


@pytest.mark.parametrize("jobs", [1, 3])
def test_where_nothing_passes_that_is_said(jobs: int) -> None:
    task = gallop(PlantedStack(outcome=lambda line, lib: Judgement.BAD, pins=["lib-0"] * 20), jobs=jobs)
    assert isinstance(task.error, EndsError)
    assert "found none back to the root 0 (19 commits along first parents" in str(task.error)


def test_a_shallow_clone_s_end_is_no_root() -> None:
    line = FirstParents(commits=("5", "4"), is_whole=False)
    said = _no_pass_message(line)
    assert "found none back to the end of a shallow clone, 4 (1 commit along" in said
    assert said.endswith("ask again after git fetch --deepen=200, or --unshallow, in the checkout")


def test_a_bad_end_that_pins_nothing_is_refused() -> None:
    stack = PlantedStack(outcome=lambda line, lib: Judgement.BAD, pins=["lib-0"] * 5, unbuildable={4})
    whole = broken_line(5, 3)
    task = planted_task(whole, question(stack, gallop=True))
    task.simulated.answers = stack.answers
    with pytest.raises(EndsError, match="found one that pins nothing"):
        task.simulated.settle(task.simulated.last)


def test_commits_that_pin_nothing_are_stepped_over() -> None:
    truth = broken_line(20, 5)
    stack = PlantedStack(outcome=truth.outcome, pins=truth.pins, unbuildable={18, 17, 15})
    assert gallop(stack).culprit == "5"


@pytest.mark.parametrize("jobs", [1, 3])
def test_given_data_are_frozen_first_and_captured_ones_at_the_pass(jobs: int) -> None:
    stack = broken_line(20, 14)
    assert gallop(stack, golden="given", jobs=jobs).simulated.freezes == [GivenData()]
    task = planted_task(stack, question(stack, gallop=True, golden="captured"), jobs=jobs)
    saved = saving(task)
    (frozen,) = task.simulated.freezes
    assert isinstance(frozen, SavedData)
    assert frozen.commit == "11"
    ended = {probe.number: probe for probe in task.simulated.bisection.known.log.ended}
    assert ended[frozen.probe].content == "11 lib-0"
    assert ended[frozen.probe].judgement is Judgement.GOOD
    assert saved == task.simulated.started[: frozen.probe], (
        "every run before the data are frozen makes its own"
    )
    assert task.culprit == "14"


def wanted_commit(stack: PlantedStack, known: BisectionKnowledge) -> str:
    (wanted,) = started(step(GoodEndSearch(), known, answers_of(stack))[1])
    return wanted.target.commit


def test_each_step_of_the_gallop_follows_from_what_is_known() -> None:
    stack = broken_line(20, 12)
    known = about_stack(stack, gallop=True)
    assert wanted_commit(stack, known) == "19"
    known = shown(known, "19 lib-0", B)
    assert wanted_commit(stack, known) == "18"
    known = shown(known, "18 lib-0", B)
    assert wanted_commit(stack, known) == "17"
    # One that cannot be tested: the next one behind it stands for it.
    known = shown(known, "17 lib-0", S)
    assert wanted_commit(stack, known) == "16"
    known = shown(known, "16 lib-0", B)
    assert wanted_commit(stack, known) == "15"


def test_a_pass_counts_once_the_failure_is_seen_to_come_always() -> None:
    stack = broken_line(20, 19)
    known = shown(about_stack(stack, gallop=True), "19 lib-0", G, B)
    assert wanted_commit(stack, shown(known, "18 lib-0", G)) == "18"
    known = shown(about_stack(stack, gallop=True), "19 lib-0", B)
    _, advance = step(GoodEndSearch(), shown(known, "18 lib-0", G), answers_of(stack))
    assert isinstance(advance, Move)
    assert advance.state == RangeOpening(good="18")
    assert advance.notes[0] == GoodEnd("18")


def test_a_commit_is_not_run_twice_at_once() -> None:
    stack = broken_line(20, 12)
    known, advance = step(GoodEndSearch(), about_stack(stack, gallop=True), answers_of(stack))
    assert GoodEndSearch().advance(running(known, *started(advance)), Context()) == Wait(Needs())


def test_the_bad_end_has_a_failing_end_once_it_failed() -> None:
    stack = broken_line(20, 12)
    known, _ = step(GoodEndSearch(), about_stack(stack, gallop=True), answers_of(stack))
    assert GoodEndSearch().failing_end(known) is None
    failing = GoodEndSearch().failing_end(shown(known, "19 lib-0", B))
    assert failing is not None
    assert failing.commit == "19"
