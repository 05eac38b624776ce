"""Worlds in which outcomes depend on when, where and after what a run is made."""

import math
from collections.abc import Callable
from random import Random

from benchmarks.outsider.history import History, any_history
from benchmarks.outsider.world import Ending, Run, Shown, World, one_culprit

_Truth = frozenset[int]


def storms(rng: Random, good: float, bad: float, history: History | None = None) -> World:
    """At times, for some 8 of 50 runs, everything fails in 8 of 10 runs."""
    storm = _spells(rng, calm=42, rough=8)
    return _world(
        rng,
        lambda run, faulty: run.fails(0.8 if storm(run.now) else bad if run.commit in faulty else good),
        history=history,
    )


def nothing_broke_storms(rng: Random) -> World:
    """No commit has a fault; for some 10 of 30 runs, nine of ten fail."""
    storm = _spells(rng, calm=20, rough=10)
    return World(
        history=any_history(rng),
        shows=lambda run: run.fails(0.9 if storm(run.now) else 0.0),
        bad=frozenset(),
        answers=frozenset(),
        fine=(Ending.REFUSED, Ending.NONE),
    )


def busy_hours(rng: Random) -> World:
    """The fault shows while the machine is busy, in spells of some 15 runs; nearly never else."""
    busy = _spells(rng, calm=15, rough=15)
    return _world(
        rng, lambda run, bad: run.fails((0.95 if busy(run.now) else 0.05) if run.commit in bad else 0.0)
    )


def daily(rng: Random) -> World:
    """The rate of bad commits goes up and down, 0 to 1, every 24 runs; good ones fail in 2 of 100."""
    start = rng.randrange(24)

    def shows(run: Run, bad: _Truth) -> Shown:
        return run.fails(
            0.5 + 0.5 * math.sin((run.now + start) * math.tau / 24) if run.commit in bad else 0.02
        )

    return _world(rng, shows)


def moves(rng: Random, then: Shown, lasting: int | None = None, history: History | None = None) -> World:
    """From some run on, for so many runs or for good, all runs show the same."""
    begin = rng.randrange(10, 40)
    fine = () if lasting else (Ending.NONE, Ending.REFUSED)

    def shows(run: Run, bad: _Truth) -> Shown:
        if run.now >= begin and (lasting is None or run.now < begin + lasting):
            return then
        return Shown.FAIL if run.commit in bad else Shown.PASS

    return _world(rng, shows, fine=fine, history=history)


def drifts(rng: Random) -> World:
    """Good commits fail more and more often, up to 4 of 10 after 150 runs; bad ones fail in 9 of 10."""
    return _world(
        rng, lambda run, bad: run.fails(0.9 if run.commit in bad else min(0.4, 0.4 * run.now / 150))
    )


def poison(rng: Random) -> World:
    """A run that fails leaves the device dirty: the next one fails with probability 0.6, whatever it runs."""

    def shows(run: Run, bad: _Truth) -> Shown:
        return Shown.FAIL if run.commit in bad else run.fails(0.6 if run.previous_failed else 0.0)

    return _world(rng, shows)


def stale_memory(rng: Random) -> World:
    """A bad commit reads memory that it did not write. What a good run has left there is right in 8 of 10 runs."""

    def shows(run: Run, bad: _Truth) -> Shown:
        if run.commit not in bad:
            return Shown.PASS
        return run.fails(0.2 if run.previous is not None and run.previous not in bad else 1.0)

    return _world(rng, shows)


def fault_on_one_board(rng: Random) -> World:
    """Runs go to two boards in turns, unseen. The fault shows on one of them only."""
    board = rng.randrange(2)

    def shows(run: Run, bad: _Truth) -> Shown:
        return Shown.FAIL if run.commit in bad and run.now % 2 == board else Shown.PASS

    return _world(rng, shows, fine=(Ending.REFUSED,))


def first_run_shows(rng: Random, shown: Shown) -> World:
    """The first run of each commit always shows the same (a cold cache, a tuner's first choice); later ones
    the truth."""

    def shows(run: Run, bad: _Truth) -> Shown:
        if run.nth == 0:
            return shown
        return Shown.FAIL if run.commit in bad else Shown.PASS

    return _world(rng, shows)


def bad_slot(rng: Random, rate: float, history: History | None = None) -> World:
    """Four runs at once; in one slot all fails. Bad commits fail with a rate elsewhere."""
    slot = rng.randrange(4)
    return _world(
        rng,
        lambda run, bad: Shown.FAIL if run.slot == slot else run.fails(rate if run.commit in bad else 0.0),
        slots=4,
        history=history,
    )


def blind_slot(rng: Random) -> World:
    """Three runs at once; in one slot all passes."""
    slot = rng.randrange(3)
    return _world(
        rng, lambda run, bad: Shown.FAIL if run.commit in bad and run.slot != slot else Shown.PASS, slots=3
    )


def _world(
    rng: Random,
    shows: Callable[[Run, _Truth], Shown],
    *,
    slots: int = 1,
    fine: tuple[Ending, ...] = (),
    history: History | None = None,
) -> World:
    history = history or any_history(rng)
    bad, answers = one_culprit(rng, history)
    return World(
        history=history, shows=lambda run: shows(run, bad), bad=bad, answers=answers, slots=slots, fine=fine
    )


def _spells(rng: Random, *, calm: float, rough: float) -> Callable[[int], bool]:
    """Whether a run falls into a rough spell; calm and rough ones take turns, so long in the mean."""
    rough_runs = list[bool]()
    state = rng.random() < rough / (calm + rough)
    while len(rough_runs) < 600:
        rough_runs.append(state)
        if rng.random() < 1 / (rough if state else calm):
            state = not state
    return lambda now: rough_runs[now % len(rough_runs)]
