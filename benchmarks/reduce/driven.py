"""A reduction by the product's own driver, journal and joblib threads, of tasks that only sleep."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reduce.world import World
from precision_bisect.reduce.shrink.driver import Driver
from precision_bisect.reduce.shrink.journal import TestJournal
from precision_bisect.reduce.shrink.minimize.answer import Answer, Subset, Trial
from precision_bisect.reduce.shrink.minimize.phases import minimize
from precision_bisect.reduce.shrink.minimize.state import MinimizerState
from precision_bisect.reduce.shrink.program.candidate import Candidate


@dataclass(frozen=True)
class Tasks:
    """Drops tasks with their dependents."""

    world: World
    name: str = "tasks"

    def start(self, reduction: Candidate, rate: float) -> MinimizerState[Subset]:
        """Below the reduction's own tasks."""
        return minimize(self.world.graph, best=frozenset(reduction.tasks), rate=rate)

    def apply(self, reduction: Candidate, kept: Subset) -> Candidate:
        """Only the tasks `kept`."""
        return Candidate(tuple(sorted(kept)))


@dataclass(frozen=True)
class Sleeper:
    """Notes in `begun` what it starts, then sleeps for the world's seconds times `scale`."""

    world: World
    begun: Path
    scale: float

    def judge(self, reduction: Candidate, folder: Path) -> Answer:
        """The world's outcome; runs of a flaky candidate are numbered as they begin."""
        number = started(self.begun).count(reduction.key)
        with self.begun.open("ab") as file:
            file.write(json.dumps(reduction.key).encode() + b"\n")
        run = Trial(frozenset(reduction.tasks), number)
        time.sleep(self.scale * self.world.seconds(run))
        return self.world.outcome(run)


def started(path: Path) -> list[str]:
    """Keys of the runs that were begun, in their order."""
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def reduce_tasks(world: World, folder: Path, *, workers: int, scale: float) -> Driver:
    """Begins, or goes on with what an earlier call left in `folder`; the driver knows the result."""
    folder.mkdir(parents=True, exist_ok=True)
    driver = Driver(
        oracle=Sleeper(world, folder / "begun", scale),
        journal=TestJournal.open(folder / "tests.jsonl"),
        folder=folder,
        jobs=workers,
        budget=None,
        most_tests=None,
        on_progress=lambda _: None,
        on_better=lambda _: None,
        rate=world.cell.rate,
        best=Candidate(tuple(range(world.cell.n))),
    )
    driver.run(Tasks(world))
    return driver
