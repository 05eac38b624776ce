"""Worlds in which the machine remembers, tires, changes or takes turns."""

from random import Random

from benchmarks.outsider.history import any_history
from benchmarks.outsider.world import Ending, Run, Shown, World, one_culprit

UNSEEN = (Ending.NONE, Ending.REFUSED)


def maintenance(rng: Random) -> World:
    """For a while in the middle of the search the machine is busy and nearly everything fails; then it is as before."""
    history = any_history(rng, 12, 200)
    bad, answers = one_culprit(rng, history)
    begin, length = rng.randint(3, 30), rng.randint(8, 30)
    fault, busy = rng.uniform(0.5, 1), rng.uniform(0.7, 1)

    def shows(run: Run) -> Shown:
        extra = busy if begin <= run.now < begin + length else 0
        return run.fails(max(extra, fault if run.commit in bad else 0.01))

    return World(history=history, shows=shows, bad=bad, answers=answers)


def failures_in_pairs(rng: Random) -> World:
    """A run that failed leaves the device in a state in which the next one mostly fails too, whatever it runs."""
    history = any_history(rng, 12, 200)
    bad, answers = one_culprit(rng, history)
    good, fault, again = rng.uniform(0, 0.04), rng.uniform(0.3, 0.7), rng.uniform(0.4, 0.75)

    def shows(run: Run) -> Shown:
        return run.fails(max(fault if run.commit in bad else good, again if run.previous_failed else 0))

    return World(history=history, shows=shows, bad=bad, answers=answers)


def memory_of_the_last_run(rng: Random) -> World:
    """Memory is not cleared: a run often reads what the commit before left there, be that right or wrong."""
    history = any_history(rng, 12, 200)
    bad, answers = one_culprit(rng, history)
    reads = rng.uniform(0.2, 0.45)

    def shows(run: Run) -> Shown:
        old = run.previous is not None and run.chance.random() < reads
        return Shown.FAIL if (run.previous if old else run.commit) in bad else Shown.PASS

    return World(history=history, shows=shows, bad=bad, answers=answers)


def passes_when_new(rng: Random) -> World:
    """The first run of a commit fills a cache and passes; the fault shows only in the ones that read it."""
    history = any_history(rng, 8, 150)
    bad, answers = one_culprit(rng, history)
    rate = rng.uniform(0.7, 1)

    def shows(run: Run) -> Shown:
        return run.fails(rate if run.commit in bad and run.nth > 0 else 0)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def each_third_run(rng: Random) -> World:
    """A ring of three buffers is carried on between runs of a commit: the fault shows in each third of them."""
    history = any_history(rng, 8, 100)
    bad, answers = one_culprit(rng, history)

    def shows(run: Run) -> Shown:
        return run.fails(1 if run.commit in bad and run.nth % 3 == 2 else 0)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def boards_in_turn(rng: Random) -> World:
    """Behind one name there are two boards that take turns, and the fault shows on one of them alone."""
    history = any_history(rng, 8, 200)
    bad, answers = one_culprit(rng, history)
    side, rate = rng.randrange(2), rng.uniform(0.9, 1)

    def shows(run: Run) -> Shown:
        return run.fails(rate if run.commit in bad and run.now % 2 == side else 0)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def inputs_in_turn(rng: Random) -> World:
    """The case takes the next of a few inputs in each run: one shows the fault, another has always been flaky."""
    history = any_history(rng, 8, 150)
    bad, answers = one_culprit(rng, history)
    inputs = rng.randint(3, 5)
    tells, flaky = rng.sample(range(inputs), 2)
    flake = rng.uniform(0.1, 0.4)

    def shows(run: Run) -> Shown:
        turn = run.now % inputs
        return run.fails(1 if turn == tells and run.commit in bad else flake if turn == flaky else 0)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def tame_when_repeated(rng: Random) -> World:
    """The fault shows when the board was just loaded with another build, and hardly ever when the run is repeated."""
    history = any_history(rng, 8, 200)
    bad, answers = one_culprit(rng, history)
    loaded, repeated, good = rng.uniform(0.7, 1), rng.uniform(0, 0.1), rng.uniform(0, 0.04)

    def shows(run: Run) -> Shown:
        fault = repeated if run.previous == run.commit else loaded
        return run.fails(fault if run.commit in bad else good)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def warm_and_cold_hours(rng: Random) -> World:
    """The room is warm or cold for some runs each: warm, good commits fail too; cold, bad ones hardly do."""
    history = any_history(rng, 12, 150)
    bad, answers = one_culprit(rng, history)
    turns, warm_good, cold_bad = rng.uniform(0.05, 0.2), rng.uniform(0.15, 0.4), rng.uniform(0.05, 0.2)
    warm = [False]

    def shows(run: Run) -> Shown:
        if run.now == 0:
            warm[0] = run.chance.random() < 0.5
        elif run.chance.random() < turns:
            warm[0] = not warm[0]
        rates = (warm_good, 0.95) if warm[0] else (0.0, cold_bad)
        return run.fails(rates[run.commit in bad])

    return World(history=history, shows=shows, bad=bad, answers=answers)


def mended_by_firmware(rng: Random) -> World:
    """During the search somebody updates the firmware, and from then on the fault does not show any more."""
    history = any_history(rng, 12, 200)
    bad, answers = one_culprit(rng, history)
    updated, rate = rng.randint(3, 40), rng.uniform(0.5, 1)

    def shows(run: Run) -> Shown:
        return run.fails(rate if run.commit in bad and run.now < updated else 0)

    return World(history=history, shows=shows, bad=bad, answers=answers, fine=UNSEEN)


def board_dies_at_the_start(rng: Random) -> World:
    """Nothing broke: after the first runs the board dies, and from then on whatever runs there fails."""
    history = any_history(rng, 8, 200)
    dies, rate = rng.randint(1, 5), rng.uniform(0.85, 1)

    def shows(run: Run) -> Shown:
        return run.fails(rate if run.now >= dies else 0)

    return World(
        history=history, shows=shows, bad=frozenset(), answers=frozenset(), fine=(*UNSEEN, Ending.GAVE_UP)
    )


def deaf_and_shaky_boards(rng: Random) -> World:
    """Of three boards one never shows the fault, and another fails at times with good commits too."""
    history = any_history(rng, 12, 200)
    bad, answers = one_culprit(rng, history)
    deaf, shaky = rng.sample(range(3), 2)
    fault, shakes = rng.uniform(0.6, 1), rng.uniform(0.15, 0.3)

    def shows(run: Run) -> Shown:
        seen = fault if run.commit in bad and run.slot % 3 != deaf else 0
        return run.fails(max(seen, shakes if run.slot % 3 == shaky else 0))

    return World(history=history, shows=shows, bad=bad, answers=answers, slots=3)
