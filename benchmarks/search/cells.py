"""The kinds of ranges that are searched: plain ones, flaky ones, and some that no model of the search describes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Literal

from benchmarks.outsider.first import by_commit, by_shape, by_time, plain
from benchmarks.outsider.history import History, feature_branches, line
from benchmarks.outsider.world import Shown, World, by_rates

Shape = Literal["line", "graph", "fork"]
Part = Literal["plain", "known case", "flaky", "rare", "no culprit", "misfit", "two branches", "workers"]

_HISTORIES = 5
"""Graphs of one size: each is used by many seeds, so that what git is asked for once serves again."""
_PLAIN_SIZES = (8, 10, 60, 120, 1000, 2000)
_FLAKY_SIZES = (16, 128, 1024)
_FLAKY = ((0.05, 1.0), (0.2, 1.0), (0.0, 0.5), (0.0, 0.2), (0.1, 0.9), (0.2, 0.8))
_RARE = ((0.0, 0.1), (0.0, 0.05))
_MISFIT_SIZES = (8, 60, 400, 2000)

Misfit = Callable[[Random, History], World]

_MISFITS: dict[str, Misfit] = {
    "10 % of commits show the opposite": lambda rng, of: by_commit.flipped_both(rng, 0.1, of),
    "a rate for each commit": by_commit.own_rates,
    "rate grows 0.05 to 1": by_commit.growing,
    "bursts in time": lambda rng, of: by_time.storms(rng, 0.0, 1.0, of),
    "a bad slot of 4": lambda rng, of: by_time.bad_slot(rng, 1.0, of),
    "the environment moves": lambda rng, of: by_time.moves(rng, Shown.FAIL, None, of),
}
_MISFITS_OF_LINES: dict[str, Misfit] = {
    "two culprits, 0, 0.3, 1": by_commit.two_steps,
    "regress, fix, regress": lambda rng, of: by_shape.toggled(rng, 0.0, 1.0, times=1, history=of),
}
_MISFITS_OF_GRAPHS: dict[str, Misfit] = {"regress, fix, regress": by_shape.mended_elsewhere}
_FORKS: dict[str, Callable[[Random, int], World]] = {
    "one bug on two branches": lambda rng, most: by_shape.picked_twice(rng, 0.0, 1.0, most=most),
    "a branch without a fix": lambda rng, most: by_shape.unfixed_branch(rng, most=most),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One kind of range. n: its commits; of a fork, at most. rates: P(fail | good) and P(fail | bad), where these are
    all that chance depends on. known_case: whether the store knows the case. seeds: ranges at most."""

    part: Part
    name: str
    shape: Shape
    n: int
    world: Callable[[Random, int], World]
    """Makes the world of a seed."""
    rates: tuple[float, float] | None = None
    known_case: bool = False
    workers: int = 1
    seeds: int = 300

    @property
    def key(self) -> str:
        """What tells it from all other cells."""
        return f"{self.part}, {self.name}, {self.shape}, {self.n}, {self.workers}"

    def made(self, seed: int) -> World:
        """The range of a seed: the same for all methods."""
        return self.world(Random(f"{self.name} {self.shape} {self.n} {seed}"), seed)


@lru_cache(maxsize=2 * _HISTORIES)
def _graph(n: int, number: int) -> History:
    return feature_branches(Random(f"graph {n} {number}"), n)


def _on(shape: Shape, n: int, misfit: Misfit) -> Callable[[Random, int], World]:
    """A kind of world on a line, or on one of some graphs."""
    return lambda rng, seed: misfit(rng, line(n) if shape == "line" else _graph(n, seed % _HISTORIES))


def _rates(part: Part, shape: Shape, n: int, rates: tuple[float, float], **asked: int) -> Cell:
    good, bad = rates
    return Cell(
        part=part,
        name=f"{good:g}/{bad:g}",
        shape=shape,
        n=n,
        world=_on(shape, n, lambda rng, of: plain.rates(rng, good, bad, of)),
        rates=rates,
        known_case=part == "known case",
        **asked,
    )


def _misfit(name: str, shape: Shape, n: int, misfit: Misfit) -> Cell:
    return Cell(
        part="misfit",
        name=name,
        shape=shape,
        n=n,
        world=_on(shape, n, misfit),
        seeds=30 if n < max(_MISFIT_SIZES) else 10,
    )


def _fork(name: str, n: int, make: Callable[[Random, int], World]) -> Cell:
    return Cell(part="misfit", name=name, shape="fork", n=n, world=lambda rng, _: make(rng, n // 3), seeds=30)


def _two_branches(rng: Random, history: History) -> World:
    """Two commits of which neither holds the other break it, each alone."""
    while True:
        one, other = rng.sample(range(len(history)), 2)
        if other not in history.below(one) and one not in history.below(other):
            break
    bad = history.below(one, other)
    return World(history=history, shows=by_rates(0.0, 1.0, bad), bad=bad, answers=frozenset({one, other}))


def _nothing_broke(rate: float) -> Misfit:
    return lambda rng, of: plain.nothing_broke(rng, (rate,), of)


def all_cells() -> list[Cell]:
    """All cells, in the order of the table."""
    shapes: tuple[Shape, ...] = ("line", "graph")
    both: tuple[Part, ...] = ("plain", "known case")
    cells = [_rates(part, shape, n, (0, 1)) for part in both for shape in shapes for n in _PLAIN_SIZES]
    cells += [
        _rates("flaky", "line", n, rates, seeds=100 if n < 1024 else 40)
        for n in _FLAKY_SIZES
        for rates in _FLAKY
    ]
    cells += [_rates("flaky", "graph", n, (0.1, 0.9), seeds=60) for n in _FLAKY_SIZES]
    cells += [_rates("rare", "line", n, rates, seeds=30) for n in (16, 128) for rates in _RARE]
    cells += [
        Cell(
            part="no culprit",
            name=f"{rate:g}/{rate:g}",
            shape="line",
            n=120,
            world=_on("line", 120, _nothing_broke(rate)),
            seeds=60,
        )
        for rate in (0.05, 0.3)
    ]
    for n in _MISFIT_SIZES:
        cells += [_misfit(name, shape, n, misfit) for shape in shapes for name, misfit in _MISFITS.items()]
        cells += [_misfit(name, "line", n, misfit) for name, misfit in _MISFITS_OF_LINES.items()]
        if n > 8:
            cells += [_misfit(name, "graph", n, misfit) for name, misfit in _MISFITS_OF_GRAPHS.items()]
            cells += [_fork(name, n, make) for name, make in _FORKS.items()]
    cells += [
        Cell(
            part="two branches",
            name="either breaks it",
            shape="graph",
            n=n,
            world=_on("graph", n, _two_branches),
            seeds=200,
        )
        for n in (20, 60)
    ]
    cells += [
        _rates("workers", "line", 1024, rates, workers=workers, seeds=20)
        for rates in ((0.0, 1.0), (0.1, 0.9))
        for workers in (1, 4)
    ]
    return cells
