"""Worlds some of whose commits cannot be tested."""

from collections.abc import Collection
from random import Random

from benchmarks.outsider.history import GOOD, History, any_history, line, size
from benchmarks.outsider.world import Ending, Run, Shown, World, one_culprit


def around_the_culprit(rng: Random) -> World:
    """Some commits in a row do not build, the culprit among them; what mends the build is behind it."""
    history, culprit = _line_and_culprit(rng)
    before, after = rng.randint(0, 3), rng.randint(1, 4)
    return _unbuilt(rng, history, culprit, range(culprit - before, min(history.end, culprit + after)))


def before_the_culprit(rng: Random) -> World:
    """Some commits in a row do not build; the culprit is the next."""
    history, culprit = _line_and_culprit(rng)
    return _unbuilt(rng, history, culprit, range(max(0, culprit - rng.randint(2, 6)), culprit))


def one_in_three(rng: Random) -> World:
    """Of all commits, 35 % do not build, here and there."""
    history = any_history(rng, 12)
    culprit = rng.randrange(len(history))
    return _unbuilt(rng, history, culprit, [each for each in range(history.end) if rng.random() < 0.35])


def half_the_range(rng: Random) -> World:
    """Half of the range, in a row, does not build; the culprit does, and its parents do."""
    history = any_history(rng, 16)
    begin = rng.randrange(len(history) // 2)
    culprit = rng.randrange(len(history))
    spared = {culprit, *history.parents[culprit]}
    return _unbuilt(rng, history, culprit, {*range(begin, begin + len(history) // 2)} - spared)


def nothing_builds(rng: Random) -> World:
    """Nothing between the ends builds."""
    history = any_history(rng, 8, 60)
    return _unbuilt(rng, history, rng.randrange(len(history)), range(history.end))


def device_errors(rng: Random, *, ends: bool) -> World:
    """Three of ten runs end in an error of the device, whatever they run; those of the ends are spared at times."""
    history = any_history(rng)
    bad, answers = one_culprit(rng, history)

    def shows(run: Run) -> Shown:
        if (ends or run.commit not in (GOOD, history.end)) and run.chance.random() < 0.3:
            return Shown.DEVICE
        return run.fails(0.9 if run.commit in bad else 0.05)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def rather_crashes(rng: Random, *, ends: bool) -> World:
    """Of the runs of bad commits half crash, four in ten fail, one passes; good ones pass. The bad end is spared at
    times, and always fails."""
    history = any_history(rng)
    bad, answers = one_culprit(rng, history)

    def shows(run: Run) -> Shown:
        if run.commit not in bad:
            return Shown.PASS
        if not ends and run.commit == history.end:
            return Shown.FAIL
        draw = run.chance.random()
        return Shown.CRASH if draw < 0.5 else Shown.FAIL if draw < 0.9 else Shown.PASS

    return World(history=history, shows=shows, bad=bad, answers=answers)


def _line_and_culprit(rng: Random) -> tuple[History, int]:
    history = line(size(rng, 12))
    return history, rng.randrange(1, history.end - 1)


def _unbuilt(rng: Random, history: History, culprit: int, unbuilt: Collection[int]) -> World:
    """A world without chance, some of whose commits never build."""
    bad, answers = one_culprit(rng, history, culprit)
    skipped = {*unbuilt} - {history.end}

    def shows(run: Run) -> Shown:
        if run.commit in skipped:
            return Shown.SKIP
        return Shown.FAIL if run.commit in bad else Shown.PASS

    undecidable = bool(skipped & {culprit, *history.parents[culprit]})
    return World(
        history=history,
        shows=shows,
        bad=bad,
        answers=answers,
        fine=(Ending.GAVE_UP,) if undecidable else (),
    )
