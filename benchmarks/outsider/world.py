"""What a world is: a history, what its runs show, and the truth about it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from benchmarks.outsider.history import History


class Shown(StrEnum):
    """What a run shows."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "does not build"
    CRASH = "crash"
    DEVICE = "device error"


class Ending(StrEnum):
    """How a search ended."""

    RIGHT = "right"
    WRONG = "wrong"
    WITH = "suspects, the truth among them"
    WITHOUT = "suspects, without the truth"
    REFUSED = "ends do not differ"
    NONE = "no commit explains it"
    GAVE_UP = "gave up"
    UNENDED = "not ended"
    CRASHED = "crashed"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as a world sees it: the `nth` of this commit and the run `now` of all, both from 0; `slot` of the machine;
    and what ran before it."""

    commit: int
    nth: int
    now: int
    slot: int
    previous: int | None
    previous_failed: bool
    chance: Random

    def fails(self, rate: float) -> Shown:
        """A failure with this probability."""
        return Shown.FAIL if self.chance.random() < rate else Shown.PASS


Shows = Callable[[Run], Shown]


@dataclass(frozen=True, kw_only=True)
class World:
    """bad: the commits that truly have the fault. answers: those that may be named. fine: endings that are right as
    well. slots: how many runs are made at once."""

    history: History
    shows: Shows
    bad: frozenset[int]
    answers: frozenset[int]
    fine: Collection[Ending] = ()
    slots: int = 1


@dataclass
class Bench:
    """Makes the runs of a world, and remembers them."""

    world: World
    chance: Random
    runs: list[tuple[int, Shown]] = field(default_factory=list[tuple[int, Shown]])
    counts: dict[int, int] = field(default_factory=dict[int, int])

    def run(self, commit: int, slot: int = 0) -> Shown:
        """Make a run."""
        previous = self.runs[-1] if self.runs else None
        nth = self.counts.get(commit, 0)
        self.counts[commit] = nth + 1
        shown = self.world.shows(
            Run(
                commit=commit,
                nth=nth,
                now=len(self.runs),
                slot=slot,
                previous=previous[0] if previous else None,
                previous_failed=previous is not None and previous[1] is Shown.FAIL,
                chance=self.chance,
            )
        )
        self.runs.append((commit, shown))
        return shown


def by_rates(good: float, bad: float, faulty: Collection[int]) -> Shows:
    """Chance alone, with one rate of the good commits and one of the bad ones."""
    return lambda run: run.fails(bad if run.commit in faulty else good)


def one_culprit(
    rng: Random, history: History, culprit: int | None = None
) -> tuple[frozenset[int], frozenset[int]]:
    """The bad commits and the answers, where one commit is to blame."""
    blamed = rng.randrange(len(history)) if culprit is None else culprit
    return history.below(blamed), frozenset({blamed})
