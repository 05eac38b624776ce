"""Worlds in which outcomes, or their rates, belong to the commit."""

from collections.abc import Callable
from random import Random

from benchmarks.outsider.history import GOOD, History, any_history, line, size
from benchmarks.outsider.world import Run, Shown, World, one_culprit


def hidden_once(rng: Random) -> World:
    """One bad commit always passes."""
    return _flipped(rng, lambda bad, middle: _one(rng, [commit for commit in middle if commit in bad]))


def unlucky_once(rng: Random) -> World:
    """One good commit always fails."""
    return _flipped(rng, lambda bad, middle: _one(rng, [commit for commit in middle if commit not in bad]))


def hidden_often(rng: Random, share: float) -> World:
    """Of the bad commits, this share always passes: memory layout hides the fault."""
    return _flipped(
        rng, lambda bad, middle: {each for each in middle if each in bad and rng.random() < share}
    )


def unlucky_often(rng: Random, share: float) -> World:
    """Of the good commits, this share always fails."""
    return _flipped(
        rng, lambda bad, middle: {each for each in middle if each not in bad and rng.random() < share}
    )


def flipped_both(rng: Random, share: float, history: History | None = None) -> World:
    """Of all commits, this share shows the opposite, always."""
    return _flipped(rng, lambda bad, middle: {each for each in middle if rng.random() < share}, history)


def own_rates(rng: Random, history: History | None = None) -> World:
    """Each commit has a rate of its own: good ones 0.06 in the mean, bad ones 0.7."""
    return _rated(
        rng,
        history or any_history(rng),
        lambda bad: rng.betavariate(4, 1.7) if bad else rng.betavariate(1, 15),
    )


def flaky_good_ones(rng: Random) -> World:
    """Bad commits always fail; of the good ones 15 % fail in 4 of 10 runs, the others never."""
    return _rated(rng, any_history(rng), lambda bad: 1.0 if bad else 0.4 * (rng.random() < 0.15))


def rare_or_always(rng: Random) -> World:
    """A bad commit fails always, or in one of ten runs; good ones never."""
    return _rated(rng, any_history(rng), lambda bad: rng.choice([0.1, 1.0]) if bad else 0.0)


def lucky_good_end(rng: Random) -> World:
    """The good end never fails, other good commits in 2 of 10 runs, bad ones in 9."""
    history = any_history(rng)
    bad, answers = one_culprit(rng, history)

    def shows(run: Run) -> Shown:
        return run.fails(0.9 if run.commit in bad else 0.0 if run.commit == GOOD else 0.2)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def loud_bad_end(rng: Random) -> World:
    """The bad end always fails, other bad commits in 3 of 10 runs, good ones never."""
    history = any_history(rng)
    bad, answers = one_culprit(rng, history)

    def shows(run: Run) -> Shown:
        return run.fails(0.0 if run.commit not in bad else 1.0 if run.commit == history.end else 0.3)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def growing(rng: Random, history: History | None = None) -> World:
    """The rate grows from 0.05 at the culprit to 1 at the bad end."""
    return _sloped(rng, 0.05, 1.0, history)


def mended_by_and_by(rng: Random) -> World:
    """The rate falls from 1 at the culprit to 0.3 at the bad end."""
    return _sloped(rng, 1.0, 0.3)


def latent(rng: Random) -> World:
    """One commit makes a fault that shows in 3 of 100 runs; a later one makes it show in 9 of 10."""
    return _stairs(rng, (0.03, 0.9))


def two_steps(rng: Random, history: History | None = None) -> World:
    """Two culprits in line: 0, 0.3, 1."""
    return _stairs(rng, (0.3, 1.0), history=history)


def three_steps(rng: Random) -> World:
    """Three culprits in line: 0.02, 0.3, 0.6, 1."""
    return _stairs(rng, (0.3, 0.6, 1.0), good=0.02)


def _one(rng: Random, commits: list[int]) -> set[int]:
    return {rng.choice(commits)} if commits else set()


def _flipped(
    rng: Random, flips: Callable[[frozenset[int], list[int]], set[int]], history: History | None = None
) -> World:
    """A world without chance, some of whose commits show the opposite; never the ends, the culprit or its parents."""
    history = history or any_history(rng, 12)
    bad, answers = one_culprit(rng, history)
    spared = {history.end, *answers} | {parent for each in answers for parent in history.parents[each]}
    flipped = flips(bad, [commit for commit in range(len(history)) if commit not in spared])
    failing = bad ^ flipped

    def shows(run: Run) -> Shown:
        return Shown.FAIL if run.commit in failing else Shown.PASS

    return World(history=history, shows=shows, bad=bad, answers=answers)


def _rated(rng: Random, history: History, rate: Callable[[bool], float]) -> World:
    """Each commit has the rate that is drawn for it; the bad end fails in at least half of its runs."""
    bad, answers = one_culprit(rng, history)
    rates = {commit: rate(commit in bad) for commit in range(GOOD, len(history))}
    rates[history.end] = max(rates[history.end], 0.5)
    return World(history=history, shows=lambda run: run.fails(rates[run.commit]), bad=bad, answers=answers)


def _sloped(rng: Random, first: float, last: float, history: History | None = None) -> World:
    history = history or line(size(rng, 12, 100))
    culprit = rng.randrange(history.end)
    bad, answers = one_culprit(rng, history, culprit)

    def shows(run: Run) -> Shown:
        way = (run.commit - culprit) / (history.end - culprit)
        return run.fails(first + (last - first) * way if run.commit in bad else 0.0)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def _stairs(
    rng: Random, steps: tuple[float, ...], good: float = 0.0, history: History | None = None
) -> World:
    """Each of some culprits in line raises the rate."""
    history = history or line(size(rng, 12))
    culprits = sorted(rng.sample(range(len(history)), len(steps)))

    def shows(run: Run) -> Shown:
        above = sum(culprit <= run.commit for culprit in culprits)
        return run.fails(steps[above - 1] if above else good)

    return World(history=history, shows=shows, bad=history.below(*culprits), answers=frozenset(culprits))
