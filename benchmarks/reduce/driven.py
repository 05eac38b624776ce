"""A reduction by the product's own loop, journal and joblib threads, of tasks that only sleep."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reduce.world import World
from precision_bisect.reduce.shrink.edits import DropTasks
from precision_bisect.reduce.shrink.minimize import Answer, Trial
from precision_bisect.reduce.shrink.program import Candidate, CandidateOrder, TaskSize
from precision_bisect.reduce.shrink.shrinker import Gate, Shrinker, TrialJournal


@dataclass(frozen=True)
class Sleeper:
    """Notes in `begun` what it starts, then sleeps for the world's seconds times `scale`."""

    world: World
    begun: Path
    scale: float

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        """The world's outcome; runs of a flaky candidate are numbered as they begin."""
        number = started(self.begun).count(candidate.key)
        with self.begun.open("ab") as file:
            file.write(json.dumps(candidate.key).encode() + b"\n")
        run = Trial(frozenset(candidate.tasks), number)
        time.sleep(self.scale * self.world.seconds(run))
        return self.world.outcome(run)


def started(path: Path) -> list[str]:
    """Keys of the runs that were begun, in their order."""
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def reduce_tasks(world: World, folder: Path, *, workers: int, scale: float) -> Shrinker:
    """Begins, or goes on with what an earlier call left in `folder`; the shrinker knows the result."""
    folder.mkdir(parents=True, exist_ok=True)
    task = TaskSize(kernels=(), blocks=1, shapes=(), inputs=frozenset())
    order = CandidateOrder(tasks=(task,) * world.cell.n)
    shrinker = Shrinker(
        oracle=Sleeper(world, folder / "begun", scale),
        journal=TrialJournal.open(folder / "tests.jsonl"),
        gate=Gate(order=order, best=order.whole, on_better=lambda _: None),
        folder=folder,
        jobs=workers,
        budget=None,
        on_progress=lambda _: None,
        rate=world.cell.rate,
    )
    shrinker.shrink([DropTasks(world.graph)])
    return shrinker
