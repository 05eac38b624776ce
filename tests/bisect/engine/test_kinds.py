"""Two failures in one range: the commit is named that brought the failing end's, or what is known is said."""

import itertools
import random
import re
from dataclasses import replace

import pytest

from precision_bisect.bisect.engine import failures
from precision_bisect.bisect.engine.failures import (
    Reading,
    shares_of_readings,
    skip_uncounted,
    uncounted_failures,
)
from precision_bisect.bisect.engine.runs import Needs, Notice, ProbeLog
from precision_bisect.runner.verdict.symptoms import Family, Symptom, Symptoms
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement
from tests.bisect.engine.planted import PlantedStack, drive, planted_task, question
from tests.bisect.engine.simulated import SimulatedTask
from tests.bisect.engine.stepping import B, G

SIZE = 41


def code(number: int) -> Symptoms:
    """What a run shows that prints nothing."""
    return Symptoms(exit_code=number)


def raised(family: Family, name: str, text: str) -> Symptoms:
    """What a run shows that ends with an error."""
    return Symptoms(exit_code=1, shown=(Symptom(family, name, text),))


END, OTHER = code(1), code(2)
WRONG = raised(Family.ASSERTION, "AssertionError", "error # > #")
BROKEN = raised(Family.IMPORT, "ImportError", "cannot import name cosine")
UNSURE = raised(Family.EXCEPTION, "ValueError", "shapes do not match")


def searched(shows: dict[int, Symptoms], *, jobs: int = 1, by_likeness: bool = True) -> SimulatedTask:
    """A line whose commits fail with these exit codes, the newest too, and pass elsewhere."""
    stack = PlantedStack(
        outcome=lambda line, lib: B if line in shows else G, pins=["lib-0"] * (1 + max(shows))
    )
    task = planted_task(stack, question(stack, compares_failures=by_likeness), jobs=jobs)
    task.simulated.symptoms = lambda content: shows[int(content.split()[0])]

    def keep(needs: Needs) -> None:
        task.simulated.notices += [note.text for note in needs.notes if isinstance(note, Notice)]

    task.simulated.on_needs = keep
    return drive(task)


def line(first: tuple[int, int], since: int, other: Symptoms = OTHER) -> dict[int, Symptoms]:
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
    assert task.conclusion.failures == ("exit code 1",)
    assert task.conclusion.message == f"line {since} introduced it"
    assert task.conclusion.earlier_failures == ()
    (note,) = task.simulated.notices
    assert (
        "fails with exit code 2, the failing end 40 with exit code 1: they are the same failure with a probability of "
        "50 %" in note
    )


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
    shown: dict[int, Symptoms] = {}

    def outcome(line: int, lib: str) -> Judgement:
        hides = 12 <= line < 33 and chance.random() < 0.8
        fails = line >= 18 and chance.random() < 0.8
        shown[line] = OTHER if hides else END
        return B if hides or fails else G

    task = planted_task(
        stack := PlantedStack(outcome=outcome, pins=["lib-0"] * SIZE), question(stack, compares_failures=True)
    )
    task.simulated.symptoms = lambda content: shown[int(content.split()[0])]
    drive(task)
    assert task.conclusion is not None
    assert task.culprit in (None, "18")


@pytest.mark.parametrize("seed", range(6))
def test_a_failure_with_two_faces_is_one(seed: int) -> None:
    """Each run ends with one code or the other: what looked like a second failure is not believed in for long. Where
    the end shows but one in six runs, which is rare, the rest tells nothing: the commit is among the suspects."""
    chance = random.Random(seed)
    stack = PlantedStack(outcome=lambda line, lib: B if line >= 15 else G, pins=["lib-0"] * SIZE)
    task = planted_task(stack, question(stack, compares_failures=True))
    task.simulated.symptoms = lambda content: code(chance.choice((1, 2)))
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
    shown: dict[int, Symptoms] = {}

    def outcome(line: int, lib: str) -> Judgement:
        faults = [OTHER] * (begins <= line < mended and chance.random() < 0.5)
        faults += [END] * (line >= culprit and chance.random() < 0.8)
        shown[line] = chance.choice(faults or [END])
        return B if faults else G

    stack = PlantedStack(outcome=outcome, pins=["lib-0"] * SIZE)
    task = planted_task(stack, question(stack, compares_failures=True))
    task.simulated.symptoms = lambda content: shown[int(content.split()[0])]
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
    task = searched({n: code(chance.randint(1, 5)) for n in range(22, SIZE)})
    assert task.culprit == "22"
    assert task.conclusion is not None
    assert task.conclusion.failures == ()
    assert len(task.simulated.started) <= 26


@pytest.mark.parametrize(("second", "third"), [(25, 45), (15, 30), (35, 50)])
def test_three_codes_in_stretches_may_be_three_failures(second: int, third: int) -> None:
    """One that is not the failing end's was named."""
    codes = {n: code(1 + (n >= second) + (n >= third)) for n in range(10, 61)}
    task = searched(codes)
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.ONLY_SKIPPED
    assert {"10", str(second), str(third)} <= {each.commit for each in task.conclusion.suspects}
    assert " shows the same failure (" in task.conclusion.message


@pytest.mark.parametrize("culprit", [8, 11])
def test_a_pass_between_two_failures_contradicts_nothing(culprit: int) -> None:
    """Taken for one failure, it would be one that comes and goes."""
    task = searched({**dict.fromkeys(range(5, culprit - 1), OTHER), **dict.fromkeys(range(culprit, 17), END)})
    assert task.culprit == str(culprit)
    assert len(task.simulated.started) <= 40


def test_a_single_failure_takes_no_run_more() -> None:
    for culprit in (1, 7, 23, 40):
        codes = dict.fromkeys(range(culprit, SIZE), END)
        alike, told = (searched(codes, by_likeness=each).simulated.started for each in (False, True))
        assert alike == told


def test_a_stretch_that_the_search_does_not_meet_costs_nothing() -> None:
    for first, length in itertools.product((3, 6, 12), (1, 2)):
        task = searched(line((first, first + length), 30))
        assert task.culprit == "30"


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize(("first", "since"), [((20, 26), 30), ((5, 12), 17), ((30, 36), 20), ((22, 40), 10)])
def test_what_does_not_get_to_the_check_is_a_skip(first: tuple[int, int], since: int, jobs: int) -> None:
    shows = {**dict.fromkeys(range(since, SIZE), WRONG), **dict.fromkeys(range(*first), BROKEN)}
    task = searched(shows, jobs=jobs)
    if first[0] <= since <= first[1]:
        assert task.conclusion.outcome is BisectionOutcome.ONLY_SKIPPED
        assert str(since) in [each.commit for each in task.conclusion.suspects]
    else:
        assert task.culprit == str(since)
    assert len(task.simulated.started) <= 21


@pytest.mark.parametrize(("first", "since"), [((20, 34), 26), ((10, 20), 20), ((1, 40), 40)])
def test_the_first_commit_of_another_failure_is_never_named(first: tuple[int, int], since: int) -> None:
    shows = {**dict.fromkeys(range(since, SIZE), WRONG), **dict.fromkeys(range(*first), BROKEN)}
    task = searched(shows)
    assert task.culprit is None
    assert task.conclusion.outcome is BisectionOutcome.ONLY_SKIPPED
    assert str(since) in [each.commit for each in task.conclusion.suspects]
    assert task.conclusion.fail_otherwise


def test_a_failure_that_may_be_the_end_s_leaves_both_readings_with_their_shares() -> None:
    shows = {**dict.fromkeys(range(30, SIZE), WRONG), **dict.fromkeys(range(20, 30), UNSURE)}
    task = searched(shows)
    assert task.culprit is None
    chances = {each.commit: each.confidence or 0.0 for each in task.conclusion.suspects}
    assert {"20", "30"} <= chances.keys()
    assert sum(chances.values()) == pytest.approx(1, abs=0.02)
    assert re.fullmatch(
        r"the culprit is one of .*, whose runs do not tell them apart; if run \d+ \(exit code 1: ValueError: shapes do "
        r"not match\) shows the same failure \(.* %\), it is 20; if not, ask with --bad-when exception:AssertionError; "
        r"see docs/how-to/two-failures.md",
        task.conclusion.message,
    )


def test_a_failure_that_may_be_another_does_not_hide_a_commit_whose_parent_passes() -> None:
    shows = {**dict.fromkeys(range(30, SIZE), WRONG), **dict.fromkeys(range(12, 20), UNSURE)}
    assert searched(shows).culprit == "30"
    after = {**dict.fromkeys(range(10, SIZE), WRONG), **dict.fromkeys(range(20, 30), UNSURE)}
    assert searched(after).culprit == "10"


def test_an_end_that_crashes_is_searched_for_its_crash() -> None:
    crash = raised(Family.SIGNAL, "SIGSEGV", "")
    shows = {**dict.fromkeys(range(30, SIZE), crash), **dict.fromkeys(range(12, 20), WRONG)}
    assert searched(shows).culprit == "30"


@pytest.mark.parametrize("seed", range(6))
def test_a_disturbance_that_comes_and_goes_everywhere_is_not_what_is_searched_for(seed: int) -> None:
    """Where the end showed it first, the search went for it, and ended nowhere."""
    chance = random.Random(seed)
    disturbed: dict[int, bool] = {}

    def outcome(line: int, lib: str) -> Judgement:
        disturbed[line] = chance.random() < 0.3 or (line == SIZE - 1 and line not in disturbed)
        return B if disturbed[line] or line >= 20 else G

    stack = PlantedStack(outcome=outcome, pins=["lib-0"] * SIZE)
    task = planted_task(stack, question(stack, compares_failures=True))
    task.simulated.symptoms = lambda content: BROKEN if disturbed[int(content.split()[0])] else WRONG
    drive(task)
    assert task.culprit == "20" or "20" in [each.commit for each in task.conclusion.suspects]
    assert len(task.simulated.started) <= 60


def test_readings_share_one_and_count_what_is_like_enough() -> None:
    task = searched({**dict.fromkeys(range(30, SIZE), WRONG), **dict.fromkeys(range(20, 30), UNSURE)})
    log = failures.judge_by_likeness(task.simulated.bisection.known).log
    shares = shares_of_readings(log)
    assert sum(shares.values()) == pytest.approx(1)
    unsure = [probe.number for probe in log.ended if failures.is_unsure(probe)]
    assert unsure
    by_reading = {reading: _bad(skip_uncounted(log, reading)) for reading in Reading}
    assert by_reading[Reading.ANY] - by_reading[Reading.SURE] == {*unsure}
    assert uncounted_failures(log, Reading.SURE) == tuple(unsure)


def _bad(log: ProbeLog) -> set[int]:
    return {probe.number for probe in log.ended if probe.judgement is B}


def value(number: float) -> Symptoms:
    """A run of the end's check that fails with some value."""
    return replace(WRONG, values=(f"AssertionError: error {number} > 0.01",))


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize(("first", "since"), [((10, 22), 29), ((2, 24), 26), ((15, 22), 39), ((18, 21), 33)])
def test_a_check_that_failed_with_another_value_and_passed_again_is_not_blamed(
    first: tuple[int, int], since: int, jobs: int
) -> None:
    shows = dict.fromkeys(range(since, SIZE), value(0.5)) | dict.fromkeys(range(*first), value(14.0))
    task = searched(shows, jobs=jobs)
    assert task.culprit == str(since)


@pytest.mark.parametrize(("since", "changes"), [((10), (25,)), (5, (12, 30)), (20, (21,)), (3, (39,))])
def test_a_check_that_never_passes_in_between_is_one_failure(since: int, changes: tuple[int, ...]) -> None:
    """Commits that only change by how much it fails are not blamed, and the search takes few runs more."""
    shows = {at: value(float(sum(at >= each for each in changes))) for at in range(since, SIZE)}
    task = searched(shows)
    assert task.culprit == str(since)
    steady = searched(dict.fromkeys(range(since, SIZE), value(0.5)))
    assert len(task.simulated.started) <= len(steady.simulated.started) + 8 * len(changes)


@pytest.mark.parametrize("seed", range(4))
def test_values_that_change_by_themselves_cost_nothing(seed: int) -> None:
    chance = random.Random(seed)
    steady = searched(dict.fromkeys(range(15, SIZE), value(0.5)))
    task = searched({at: value(chance.random()) for at in range(15, SIZE)})
    assert task.culprit == "15"
    assert len(task.simulated.started) <= len(steady.simulated.started) + 1
    back_and_forth = searched({at: value(float(at % 2)) for at in range(15, SIZE)})
    assert back_and_forth.culprit == "15"


def test_the_notice_quotes_what_differs() -> None:
    shows = dict.fromkeys(range(29, SIZE), value(0.5)) | dict.fromkeys(range(10, 22), value(14.0))
    (note,) = searched(shows).simulated.notices
    assert '"AssertionError: error 14.0 > 0.01"' in note
    assert '"AssertionError: error 0.5 > 0.01": they are the same failure with a probability of 98 %' in note


def test_the_notice_quotes_the_lines_of_failures_without_a_name() -> None:
    end, other = (
        Symptoms(exit_code=1, last_lines=(line,), values=(line,))
        for line in ("do not compare types, use is or isinstance()", "do not compare types, use isinstance()")
    )
    shows = dict.fromkeys(range(29, SIZE), end) | dict.fromkeys(range(10, 22), other)
    (note,) = searched(shows).simulated.notices
    assert 'fails with "do not compare types, use isinstance()", the failing end' in note
    assert 'with "do not compare types, use is or isinstance()": they are the same failure' in note


def test_another_test_that_fails_beside_the_end_s_is_no_other_value() -> None:
    beside = replace(WRONG, shown=(*WRONG.shown, Symptom(Family.TEST, "t.py::test_b", "assert #")))
    both = replace(beside, values=("AssertionError: error 0.5 > 0.01", "FAILED t.py::test_b - assert 3"))
    shows = dict.fromkeys(range(10, SIZE), value(0.5)) | dict.fromkeys(range(14, 30), both)
    task = searched(shows)
    assert task.culprit == "10"
    assert task.simulated.notices == []
