"""The tool's own bisection and the real git, each asked for a culprit planted in a recorded range."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.search.natural.real_range import RealRange
from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.history.questions import AskBlamedFile
from precision_bisect.store.vocabulary import Judgement
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask, untimed
from tests.bisect.search.git_bisect import GitBisect

_MAX_RUNS = 2_000


@dataclass(frozen=True)
class Taken:
    """What a search took: all its runs, those of commits that cannot be tested, and whether it named the culprit."""

    runs: int
    untestable: int
    right: bool


@dataclass(eq=False)
class _Truth:
    """What each run shows where one candidate is to blame."""

    real: RealRange
    culprit: int
    untestable: int = 0
    runs: int = 0
    places: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.places = {sha: node for node, sha in enumerate(self.real.loaded.candidates)}

    def judge(self, content: str) -> Judgement:
        """A run of a candidate, or of the good end. Raises `RuntimeError` where a search has no end."""
        self.runs += 1
        if self.runs > _MAX_RUNS:
            raise RuntimeError(f"expected an end of the search of {self.culprit}, found none")
        node = self.places.get(content)
        if node is None:
            return Judgement.GOOD
        if node in self.real.untestable:
            self.untestable += 1
            return Judgement.SKIP
        return Judgement.BAD if self.real.loaded.graph.ancestors(node)[self.culprit] else Judgement.GOOD


def ours(real: RealRange, culprit: int) -> Taken:
    """The tool's loop and bisection, on a simulated worker; runs of the ends and all that confirms are counted."""
    truth = _Truth(real, culprit)
    task = SimulatedTask(
        simulated=SimulatedBisection(
            loaded=real.loaded,
            outcome=truth.judge,
            machine=Machine(),
            errors=real.errors,
            answers={AskBlamedFile: real.blamed_file},
            times=untimed,
        ),
        timings=None,
    )
    Loop(task.simulated.machine).run([task])
    return Taken(truth.runs, truth.untestable, task.culprit == real.loaded.candidates[culprit])


@dataclass(frozen=True)
class Git:
    """The real git on a recorded range; what it chooses in a state is asked for once."""

    real: RealRange
    choose: Callable[[int, frozenset[int], frozenset[int]], int | None]

    @classmethod
    def of(cls, real: RealRange, folder: Path) -> "Git":
        """A repository with the history of a range."""
        graph = real.loaded.graph
        parents, times = [*map(list, graph.parents)], [int(time) for time in graph.times]
        return cls(real, cache(GitBisect(folder / "history", parents, times).choice))

    def bisect(self, culprit: int) -> Taken:
        """`git bisect run` with a script that knows what cannot be tested; it runs neither end."""
        graph, truth = self.real.loaded.graph, _Truth(self.real, culprit)
        bad, goods, skips = graph.bad, frozenset[int](), frozenset[int]()
        while self._left(bad, goods) > 1 and (commit := self.choose(bad, goods, skips)) is not None:
            match truth.judge(self.real.loaded.candidates[commit]):
                case Judgement.SKIP:
                    skips |= {commit}
                case Judgement.BAD:
                    bad = commit
                case Judgement.GOOD:
                    goods |= {commit}
        return Taken(truth.runs, truth.untestable, bad == culprit and self._left(bad, goods) == 1)

    def _left(self, bad: int, goods: frozenset[int]) -> int:
        graph = self.real.loaded.graph
        cleared = np.zeros(len(graph), dtype=np.bool_)
        for good in goods:
            cleared |= graph.ancestors(good)
        return int((graph.ancestors(bad) & ~cleared).sum())
