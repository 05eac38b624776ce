"""Two failures in one range: the commit is named that brought the failing end's."""

import itertools
import random
from dataclasses import replace

import pytest

from precision_bisect.bisect.engine.failures.apart import named
from precision_bisect.bisect.engine.failures.exit_codes import counting_only, failures_at, failures_of_end
from precision_bisect.bisect.engine.log import ProbeLog
from precision_bisect.bisect.engine.needs import Needs, Notice
from precision_bisect.bisect.engine.probes import FinishedProbe
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement
from tests.bisect.engine.planted import PlantedStack, drive, planted_task, question
from tests.bisect.engine.simulated import SimulatedTask
from tests.bisect.engine.stepping import B, G, about_stack, shown

SIZE, END = 41, "exit code 1"


def searched(codes: dict[int, str], *, jobs: int = 1, by_exit_code: bool = True) -> SimulatedTask:
    """A line whose commits fail with these exit codes, the newest too, and pass elsewhere."""
    stack = PlantedStack(
        outcome=lambda line, lib: B if line in codes else G, pins=["lib-0"] * (1 + max(codes))
    )
    task = planted_task(stack, question(stack, by_exit_code=by_exit_code), jobs=jobs)
    task.simulated.signature = lambda content: codes[int(content.split()[0])]

    def keep(needs: Needs) -> None:
        task.simulated.notices += [note.text for note in needs.notes if isinstance(note, Notice)]

    task.simulated.on_needs = keep
    return drive(task)


def line(first: tuple[int, int], since: int, other: str = "exit code 2") -> dict[int, str]:
    """Another failure in a stretch, the failing end's from `since` on where the other does not hide it."""
    return {**dict.fromkeys(range(since, SIZE), END), **dict.fromkeys(range(*first), other)}


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize(("first", "since"), [((15, 22), 23), ((2, 20), 21), ((15, 22), 40), ((19, 21), 39)])
def test_the_commit_is_named_that_brought_the_end_s_failure(
    first: tuple[int, int], since: int, jobs: int
) -> None:
    task = searched(line(first, since), jobs=jobs)
    assert task.culprit == str(since)
    assert task.conclusion is not None
    assert task.conclusion.failures == (END,)
    assert task.conclusion.message == f"line {since} introduced it"
    assert task.conclusion.earlier_failures == ()
    (note,) = task.simulated.notices
    other, _, rest = note.partition(" ")
    assert int(other) in range(*first)
    assert rest.startswith("fails with exit code 2, the failing end 40 with exit code 1: ")


@pytest.mark.parametrize("since", [16, 23, 27])
def test_what_another_failure_may_hide_is_not_guessed(since: int) -> None:
    """The commit that mends the other failure was named: the end's shows from there on."""
    task = searched(line((15, 28), since))
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.ONLY_SKIPPED
    assert [each.commit for each in task.conclusion.suspects] == [str(commit) for commit in range(15, 29)]


def test_a_failure_that_comes_and_goes_and_is_hidden_at_times_is_not_guessed_either() -> None:
    """The other one comes first, and in four of five runs."""
    chance = random.Random(3)
    shown: dict[int, str] = {}

    def outcome(line: int, lib: str) -> Judgement:
        hides = 12 <= line < 33 and chance.random() < 0.8
        fails = line >= 18 and chance.random() < 0.8
        shown[line] = "exit code 2" if hides else END if fails else ""
        return B if hides or fails else G

    task = planted_task(
        stack := PlantedStack(outcome=outcome, pins=["lib-0"] * SIZE), question(stack, by_exit_code=True)
    )
    task.simulated.signature = lambda content: shown[int(content.split()[0])]
    drive(task)
    assert task.conclusion is not None
    assert task.culprit in (None, "18")


def test_another_compiler_message_under_one_exit_code_is_no_second_failure() -> None:
    task = searched({n: f"{END}: no type" if n < 23 else END for n in range(15, SIZE)})
    assert task.culprit == "15"
    assert not task.simulated.notices


def test_signatures_of_a_stack_are_not_exit_codes() -> None:
    assert searched(line((15, 22), 22), by_exit_code=False).culprit == "15"


@pytest.mark.parametrize("seed", range(6))
def test_a_failure_with_two_faces_is_one(seed: int) -> None:
    """Each run ends with one code or the other: what looked like a second failure is not believed in for long. Where
    the end shows but one in six runs, which is rare, the rest tells nothing: the commit is among the suspects."""
    chance = random.Random(seed)
    stack = PlantedStack(outcome=lambda line, lib: B if line >= 15 else G, pins=["lib-0"] * SIZE)
    task = planted_task(stack, question(stack, by_exit_code=True))
    task.simulated.signature = lambda content: f"exit code {chance.choice((1, 2))}"
    drive(task)
    assert task.conclusion is not None
    if seed:
        assert task.culprit == "15"
    else:
        assert "15" in [each.commit for each in task.conclusion.suspects]


@pytest.mark.parametrize("seed", range(8))
def test_two_faults_that_meet_at_commits_are_two(seed: int) -> None:
    """Another fault, which comes and goes, begins before the failing end's and is mended behind its commit: commits
    between fail with either code. It was named, with the end's failure as its other face."""
    chance = random.Random(seed)
    culprit = chance.randrange(14, 20)
    begins, mended = chance.randrange(8, culprit), chance.randrange(culprit + 3, 30)
    shown: dict[int, str] = {}

    def outcome(line: int, lib: str) -> Judgement:
        faults = ["exit code 2"] * (begins <= line < mended and chance.random() < 0.5)
        faults += [END] * (line >= culprit and chance.random() < 0.8)
        shown[line] = chance.choice(faults) if faults else ""
        return B if faults else G

    stack = PlantedStack(outcome=outcome, pins=["lib-0"] * SIZE)
    task = planted_task(stack, question(stack, by_exit_code=True))
    task.simulated.signature = lambda content: shown[int(content.split()[0])]
    drive(task)
    assert task.conclusion is not None
    if task.conclusion.outcome is BisectionOutcome.CULPRIT:
        assert task.culprit == str(culprit)
    else:
        assert str(culprit) in [each.commit for each in task.conclusion.suspects]


def test_the_end_is_run_until_its_codes_are_known_before_failures_are_told_apart() -> None:
    task = searched(line((15, 22), 23))
    assert task.simulated.started.count("40 lib-0") == 6


@pytest.mark.parametrize("seed", range(4))
def test_exit_codes_that_count_failures_tell_none_apart(seed: int) -> None:
    """Each commit has a code of its own, the same in each run."""
    chance = random.Random(seed)
    task = searched({n: f"exit code {chance.randint(1, 5)}" for n in range(22, SIZE)})
    assert task.culprit == "22"
    assert task.conclusion is not None
    assert task.conclusion.failures == ()
    assert len(task.simulated.started) <= 20


@pytest.mark.parametrize(("second", "third"), [(25, 45), (15, 30), (35, 50)])
def test_three_codes_in_stretches_may_be_three_failures(second: int, third: int) -> None:
    """One that is not the failing end's was named."""
    codes = {n: f"exit code {1 + (n >= second) + (n >= third)}" for n in range(10, 61)}
    task = searched(codes)
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.SUSPECT
    assert [each.commit for each in task.conclusion.suspects] == ["10"]
    assert "since 10 it fails, there with exit code 1, at the failing end with exit code 3; " in (
        task.conclusion.message
    )


@pytest.mark.parametrize("culprit", [8, 11])
def test_a_pass_between_two_failures_contradicts_nothing(culprit: int) -> None:
    """Taken for one failure, it would be one that comes and goes."""
    task = searched(
        {**dict.fromkeys(range(5, culprit - 1), "exit code 2"), **dict.fromkeys(range(culprit, 17), END)}
    )
    assert task.culprit == str(culprit)
    assert len(task.simulated.started) <= 40


def test_a_single_failure_takes_no_run_more() -> None:
    for culprit in (1, 7, 23, 40):
        codes = dict.fromkeys(range(culprit, SIZE), END)
        alike, told = (searched(codes, by_exit_code=each).simulated.started for each in (False, True))
        assert alike == told


def test_a_stretch_that_the_search_does_not_meet_costs_nothing() -> None:
    for first, length in itertools.product((3, 6, 12), (1, 2)):
        task = searched(line((first, first + length), 30))
        assert task.culprit == "30"


def test_failures_are_named_in_one_order() -> None:
    assert named(frozenset({"exit code 2", END})) == "exit code 1 or exit code 2"


def test_a_log_counts_what_fails_otherwise_as_it_is_told() -> None:
    stack = PlantedStack(outcome=lambda line, lib: B, pins=["lib-0"] * 3)
    log = shown(shown(about_stack(stack), "a", B, G), "b", B).log
    codes = {"a": END, "b": "exit code 2: no type"}
    log = ProbeLog(tuple(_coded(probe, codes[probe.content]) for probe in log.ended))
    assert failures_at(log, "b") == {"exit code 2"}
    assert failures_of_end(log, "a") == {END}
    counted = counting_only(log, frozenset({END}))
    assert [probe.judgement for probe in counted.ended] == [B, G, Judgement.SKIP]


def _coded(probe: FinishedProbe, signature: str) -> FinishedProbe:
    return replace(probe, signature=signature)
