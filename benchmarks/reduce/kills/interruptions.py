"""The minimizer and its journal in processes that are killed at a random instant, and resumed.

`kills` does it to the whole command.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from benchmarks.reduce.contenders import run
from benchmarks.reduce.driven import reduce_tasks, started
from benchmarks.reduce.world import Cell, World, draw
from precision_bisect.reduce.shrink.minimize import Subset
from precision_bisect.reduce.shrink.shrinker import TrialJournal

CELLS = [Cell(kind=kind, n=64) for kind in ("edge", "scattered", "value", "trap")]
FLAKY = Cell(kind="one", n=64, rate=0.6)
WORKERS = 2
SCALE = 0.001  # of the simulated seconds


@dataclass(frozen=True, kw_only=True)
class Killed:
    """known: tests in the journal at the kill; repeated: those of them that the resumed call made again; made: by both
    calls. same: the results of a reduction that was never killed, and of this one."""

    cell: Cell
    finished: bool
    known: int
    repeated: int
    made: int
    same: bool


def kill_and_resume(instants: int, folder: Path, *, seed: int) -> Iterator[Killed]:
    """Each a new reduction of its own, killed up to 5 ms after a random one of its tests began."""
    rng = random.Random(seed)
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    for number in range(instants):
        world = draw([*CELLS, FLAKY][number % 5], seed + number)
        whole = run("ours", world, adapted=True, workers=WORKERS)
        tests, delay = rng.randrange(1, len(list(whole.runs)) + 1), rng.uniform(0, 5 * SCALE)
        process = context.Process(target=_reduce, args=(world, folder / str(number)))
        process.start()
        while len(started(folder / str(number) / "begun")) < tests and process.is_alive():
            time.sleep(SCALE)
        process.join(delay)
        finished = process.exitcode is not None
        process.kill()
        process.join()
        yield _resumed(world, folder / str(number), finished=finished, expected=whole.best)


def _reduce(world: World, folder: Path) -> None:
    reduce_tasks(world, folder, workers=WORKERS, scale=SCALE)


def _resumed(world: World, folder: Path, *, finished: bool, expected: Subset) -> Killed:
    known = Counter(key for key, _ in TrialJournal.open(folder / "tests.jsonl").answers)
    before = Counter(started(folder / "begun"))
    best = reduce_tasks(world, folder, workers=WORKERS, scale=SCALE).best
    after = Counter(started(folder / "begun")) - before
    lines = (folder / "tests.jsonl").read_bytes().splitlines()
    in_all = Counter(json.loads(line)["candidate"] for line in lines)
    # The journal has every test once, and the resumed call made what it adds to it, and no more.
    repeated = after - (in_all - known)
    distinct = {(entry["candidate"], entry["run"]) for entry in map(json.loads, lines)}
    return Killed(
        cell=world.cell,
        finished=finished,
        known=known.total(),
        repeated=repeated.total() + len(lines) - len(distinct),
        made=len(lines),
        same=frozenset(best.tasks) == expected,
    )
