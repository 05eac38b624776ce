"""One reduction by one contender: measured, and kept in a file as soon as it is known."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.reduce.contenders import NAMES, run
from benchmarks.reduce.world import Cell, draw
from precision_bisect.reduce.shrink.minimize import Answer, Trial


@dataclass(frozen=True, kw_only=True)
class Result:
    """One reduction.

    Attributes:
        graph: the contender was told which tasks depend on which; otherwise it got a plain list.
        calls: fresh calls of the oracle, with one worker.
        invalid: how many of the calls asked of a candidate that used what it had dropped.
        slipped: how many of the calls met another failure than the one that is reduced.
        size: elements that are left, divided by those of the optimum.
        failing: what is left fails as the whole did.
        seconds_1, seconds_2: simulated seconds from the first call to the last, with 1 and 2 workers; None where
            it was not measured: without the graph, and for picire, which makes processes of its own.
    """

    kind: str
    n: int
    rate: float
    seed: int
    method: str
    graph: bool
    calls: int
    invalid: int
    slipped: int
    size: float
    failing: bool
    seconds_1: float
    seconds_2: float | None

    @property
    def cell(self) -> Cell:
        """What was reduced, but for the seed."""
        return Cell(kind=self.kind, n=self.n, rate=self.rate)


def measure(cell: Cell, seed: int, adapted: bool) -> list[Result]:
    """All contenders, with the graph or raw, on one and the same reduction."""
    world = draw(cell, seed)
    results = list[Result]()
    for name in NAMES:
        answer = run(name, world, adapted=adapted, workers=1)
        twice = adapted and name != "picire"
        second = run(name, world, adapted=adapted, workers=2) if twice else None
        outcomes = [outcome for _, outcome in answer.runs]
        results.append(
            Result(
                **asdict(cell),
                seed=seed,
                method=name,
                graph=adapted,
                calls=len(outcomes),
                invalid=outcomes.count(Answer.INVALID),
                slipped=outcomes.count(Answer.SLIPPED),
                size=len(answer.best) / len(world.minimum),
                failing=world.outcome(Trial(answer.best, 0), rate=1) is Answer.INTERESTING,
                seconds_1=answer.seconds,
                seconds_2=second.seconds if second else None,
            )
        )
    return results


def read(path: Path) -> Iterator[Result]:
    """Those that an earlier call left; a line that a kill left half written is not one."""
    text = path.read_text() if path.exists() else ""
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            yield Result(**json.loads(line))


def append(path: Path, results: list[Result]) -> None:
    """Writes them to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("".join(json.dumps(asdict(one)) + "\n" for one in results))
