"""The shape of a history: a commit graph whose slots say what each commit is for, before any has content.

The shape depends on the number of commits and the seed, never on the scenario: each scenario finds its
place in the same graph, so that all of them have equal trees outside their fault.
"""

import random
from dataclasses import dataclass
from enum import StrEnum, auto
from itertools import zip_longest


class CommitRole(StrEnum):
    """What the commit at a place of the graph is for."""

    ROOT = auto()
    CODE = auto()
    QUIET = auto()  # documentation, tests or CI files only
    MERGE = auto()
    BUMP = auto()  # moves the submodule pointer
    BREAK = auto()  # first of the commits that do not build
    REPAIR = auto()
    CRASH = auto()  # builds, but no case gets past the compiler
    RECOVER = auto()
    RENAME = auto()  # a command line flag takes its newest spelling
    RESPELL = auto()  # generated orchestration takes its newest spelling


HARMLESS = frozenset({CommitRole.CODE, CommitRole.QUIET})


@dataclass(frozen=True)
class GraphSlot:
    """One commit to be: its role, and its parents as indices of earlier slots, first parent first."""

    role: CommitRole
    parents: tuple[int, ...]
    on_side: bool = False


@dataclass(frozen=True)
class Unit:
    """Commits in a row on the first-parent line; if `side` is not empty, a merge of that branch follows."""

    main: tuple[CommitRole, ...]
    side: tuple[CommitRole, ...] = ()

    @property
    def size(self) -> int:
        """How many commits the unit has, its merge included."""
        return len(self.main) + len(self.side) + (1 if self.side else 0)


class Graph:
    """A commit graph under construction; every unit is put on the tip of the first-parent line."""

    def __init__(self) -> None:
        self.slots: list[GraphSlot] = []

    @property
    def tip(self) -> int:
        """Index of the newest slot."""
        return len(self.slots) - 1

    def add(self, unit: Unit) -> range:
        """Append a unit; returns the indices of its slots."""
        start = len(self.slots)
        main = side = self.tip
        for main_role, side_role in zip_longest(unit.main, unit.side):
            if main_role is not None:
                main = self._slot(main_role, (main,) if main >= 0 else (), on_side=False)
            if side_role is not None:
                side = self._slot(side_role, (side,), on_side=True)
        if unit.side:
            self._slot(CommitRole.MERGE, (main, side), on_side=False)
        return range(start, len(self.slots))

    def _slot(self, role: CommitRole, parents: tuple[int, ...], *, on_side: bool) -> int:
        self.slots.append(GraphSlot(role, parents, on_side))
        return self.tip


@dataclass(frozen=True)
class CompilerLayout:
    """Shape of the searched repository. Indices are into `slots`."""

    slots: tuple[GraphSlot, ...]
    good: int
    culprit: int  # of the scenarios with one fault in this repository
    relapse: tuple[int, int, int]  # regressed, fixed, regressed again; all on the first-parent line
    bumps: tuple[int, ...]
    wide_bump: int  # position in `bumps` of the one that may carry a fault

    @property
    def bad(self) -> int:
        """Index of the slot at the bad end."""
        return len(self.slots) - 1


@dataclass(frozen=True)
class RuntimeLayout:
    """Shape of the submodule's repository; `pointers` are the slots that the superproject records."""

    slots: tuple[GraphSlot, ...]
    pointers: tuple[int, ...]
    culprit: int


MIN_COMMITS = 24  # room for one of everything, with places left for three faults


def compiler_layout(*, commits: int, seed: int) -> CompilerLayout:
    """Lay out a history with `commits` commits, MIN_COMMITS or more, after its good end."""
    rng = random.Random(f"compiler/{commits}/{seed}")
    bumps = max(2, round(commits / 20))
    broken = 2 if commits < 40 else rng.randint(2, 4)
    special = [
        Unit((CommitRole.BREAK, *[CommitRole.CODE] * (broken - 1), CommitRole.REPAIR)),
        Unit((CommitRole.CRASH, CommitRole.RECOVER)),
        *[Unit((CommitRole.BUMP,))] * bumps,
    ]
    midway = [Unit((CommitRole.RENAME,)), Unit((CommitRole.RESPELL,))]
    ends = [Unit((CommitRole.CODE,)), Unit((CommitRole.CODE,))]
    harmless = _harmless_units(
        rng,
        total=commits - sum(unit.size for unit in special + midway + ends),
        merges=round(commits / 10),
        quiet=round(commits / 4),
        code_singles=3,
    )
    inner = [*special, *harmless]
    rng.shuffle(inner)
    for unit in midway:
        inner.insert(rng.randint(len(inner) // 3, 2 * len(inner) // 3), unit)

    graph = Graph()
    graph.add(
        Unit(
            (
                CommitRole.ROOT,
                CommitRole.CODE,
                CommitRole.QUIET,
                CommitRole.QUIET,
                CommitRole.CODE,
                CommitRole.QUIET,
            )
        )
    )
    good = graph.tip
    graph.add(ends[0])
    placed = [(unit, graph.add(unit)) for unit in inner]
    graph.add(ends[1])

    movable = [(unit, at) for unit, at in placed if HARMLESS.issuperset(unit.main)]
    places = [i for _, at in movable for i in at if graph.slots[i].role is CommitRole.CODE]
    singles = [at[0] for unit, at in movable if unit == Unit((CommitRole.CODE,))]
    draws = [sorted(rng.sample(singles, 3)) for _ in range(8)]
    first, second, third = max(draws, key=lambda at: min(at[1] - at[0], at[2] - at[1]))  # well apart
    return CompilerLayout(
        slots=tuple(graph.slots),
        good=good,
        culprit=rng.choice(places),
        relapse=(first, second, third),
        bumps=tuple(i for i, slot in enumerate(graph.slots) if slot.role is CommitRole.BUMP),
        wide_bump=rng.randrange(bumps),
    )


def runtime_layout(*, bumps: int, wide_bump: int, seed: int) -> RuntimeLayout:
    """Lay out the submodule's history so that the superproject's pointer moves `bumps` times.

    Bump number `wide_bump` rolls over 5 to 40 commits, a fault's place among them; the others over 1 to 8.
    """
    rng = random.Random(f"runtime/{bumps}/{wide_bump}/{seed}")
    graph = Graph()
    graph.add(Unit((CommitRole.ROOT, CommitRole.CODE, CommitRole.QUIET, CommitRole.CODE)))
    pointers = [graph.tip]
    culprit = 0
    for bump in range(bumps):
        width = rng.randint(5, 40) if bump == wide_bump else rng.randint(1, 8)
        units = _harmless_units(rng, total=width, merges=round(width / 8), quiet=width // 4, code_singles=1)
        rng.shuffle(units)
        start = len(graph.slots)
        for unit in units:
            graph.add(unit)
        if bump == wide_bump:
            culprit = rng.choice(
                [i for i in range(start, graph.tip + 1) if graph.slots[i].role is CommitRole.CODE]
            )
        pointers.append(graph.tip)
    return RuntimeLayout(slots=tuple(graph.slots), pointers=tuple(pointers), culprit=culprit)


def _harmless_units(
    rng: random.Random, *, total: int, merges: int, quiet: int, code_singles: int
) -> list[Unit]:
    """Units of exactly `total` commits: at most `merges` merges, `quiet` commits that change no code.

    `code_singles` of the units are lone code commits whatever the draw.
    """
    room = total - code_singles
    shapes: list[tuple[int, int]] = []
    for left in range(merges, 0, -1):
        share = room // left
        if share < 2:
            continue
        side = rng.randint(1, min(4, share - 1))
        main = rng.randint(0, min(2, share - 1 - side))
        shapes.append((main, side))
        room -= main + side + 1
    shapes += [(1, 0)] * room

    places = sum(main + side for main, side in shapes)
    quiet = min(quiet, places)
    roles = [CommitRole.QUIET] * quiet + [CommitRole.CODE] * (places - quiet)
    rng.shuffle(roles)
    draw = iter(roles)
    units = [Unit((CommitRole.CODE,))] * code_singles
    for main, side in shapes:
        units.append(Unit(tuple(next(draw) for _ in range(main)), tuple(next(draw) for _ in range(side))))
    return units
