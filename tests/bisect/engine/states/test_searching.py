"""A range is searched: true culprits are named, whatever cannot be tested, was broken before, or is cancelled."""

import itertools

import pytest

from precision_bisect.bisect.engine.log import ProbeLog
from precision_bisect.bisect.engine.needs import Confirming, Narrowed, Needs
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line, drive, planted_task
from tests.bisect.engine.simulated import equal_times, simulated_probe


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_culprit_of_a_line_is_named_and_confirmed(jobs: int) -> None:
    for culprit in range(1, 17):
        task = bisect(broken_line(17, culprit), jobs=jobs, seed=culprit)
        assert task.culprit == str(culprit)
        confirming = [
            probe.content
            for probe in task.simulated.bisection.known.log.ended
            if probe.phase is Phase.CONFIRM
        ]
        assert {f"{culprit} lib-0", f"{culprit - 1} lib-0"} <= {*confirming}
        named = task.conclusion.culprits[0] if task.conclusion is not None else None
        assert named is not None
        assert named.confidence is not None
        assert named.confidence >= 0.999
        assert named.parent == str(culprit - 1)


def test_one_worker_needs_no_more_runs_than_halving_takes() -> None:
    for culprit in range(1, 17):
        task = bisect(broken_line(17, culprit))
        search = [probe for probe in task.simulated.bisection.known.log.ended if probe.phase is Phase.SEARCH]
        assert len(search) <= 4


def test_what_is_left_narrows_and_then_is_confirmed() -> None:
    task = planted_task(broken_line(33, 20))
    told: list[Narrowed | Confirming] = []

    def watch(needs: Needs) -> None:
        told.extend(note for note in needs.notes if isinstance(note, Narrowed | Confirming))

    task.simulated.on_needs = watch
    drive(task)
    narrowed = [note for note in told if isinstance(note, Narrowed)]
    assert [note.candidates for note in narrowed] == [32, 16, 8, 4, 2]
    confirmed = told[len(narrowed) :]
    assert confirmed
    assert all(isinstance(note, Confirming) and note.commit == "20" for note in confirmed)


@pytest.mark.parametrize("jobs", [1, 3])
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
                    assert conclusion.outcome is BisectionOutcome.ONLY_SKIPPED
                    assert str(culprit) in suspects
                    assert not conclusion.culprits
                else:
                    assert task.culprit == str(culprit)


def broken_twice(size: int, broken: int, mended: int, again: int) -> PlantedStack:
    fails = {*range(broken, mended), *range(again, size)}
    return PlantedStack(
        outcome=lambda line, lib: Judgement.BAD if line in fails else Judgement.GOOD, pins=["lib-0"] * size
    )


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_range_that_broke_twice_ends_at_one_of_both(jobs: int) -> None:
    for broken, mended, again in itertools.combinations(range(1, 9), 3):
        task = bisect(broken_twice(9, broken, mended, again), jobs=jobs)
        assert task.culprit in {str(broken), str(again)}, (broken, mended, again)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_pass_after_a_fail_is_believed_after_three_runs_of_each_and_the_latest_change_named(
    jobs: int,
) -> None:
    for broken, mended, again in itertools.combinations(range(1, 9), 3):
        stack = broken_twice(9, broken, mended, again)
        seen = [
            simulated_probe(
                number, f"{line} lib-0", Phase.SEARCH, stack.judge(f"{line} lib-0"), times=equal_times("")
            )
            for number, line in enumerate((broken, mended), 1)
        ]
        task = drive(planted_task(stack, jobs=jobs, log=ProbeLog(tuple(seen))))
        assert task.culprit == str(again), (broken, mended, again)
        assert task.conclusion is not None
        assert str(broken) in task.conclusion.earlier_failures
        assert {*map(int, task.conclusion.earlier_failures)} <= {*range(broken, mended)}
        log = task.simulated.bisection.known.log
        assert all(len(log.of(f"{line} lib-0")) >= 3 for line in (broken, mended))


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
