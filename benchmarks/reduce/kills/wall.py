"""Real seconds with one and with two workers: the product's loop, and picire in parallel as it comes."""

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.reduce.contenders import ERROR
from benchmarks.reduce.driven import reduce_tasks
from benchmarks.reduce.world import Cell, World, draw
from precision_bisect.reduce.shrink.minimize import Answer, Trial, passes_to_reject

SCALE = 0.05  # of the simulated seconds: a test takes 0.05 to 0.25


@dataclass(frozen=True, kw_only=True)
class Wall:
    """Seconds of one reduction. picire makes a process for each test, and may wait up to a second for its end."""

    kind: str
    n: int
    rate: float
    ours_1: float
    ours_2: float
    picire_1: float
    picire_2: float


def wall(cell: Cell, seed: int) -> Wall:
    """Both with the graph."""
    world = draw(cell, seed)
    return Wall(
        **asdict(cell),
        ours_1=_ours(world, 1),
        ours_2=_ours(world, 2),
        picire_1=_picire(world, 1),
        picire_2=_picire(world, 2),
    )


def _ours(world: World, workers: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        reduce_tasks(world, Path(folder), workers=workers, scale=SCALE)
        return time.monotonic() - began


def _picire(world: World, workers: int) -> float:
    import picire

    runs = passes_to_reject(world.cell.rate, ERROR)

    def test(config: list[int], _config_id: object) -> picire.Outcome:
        candidate = world.graph.closed_subset(config)
        for number in range(runs):
            asked = Trial(candidate, number)
            time.sleep(SCALE * world.seconds(asked))
            if world.outcome(asked) is Answer.INTERESTING:
                return picire.Outcome.FAIL
        return picire.Outcome.PASS

    cache = picire.ConfigCache()
    began = time.monotonic()
    if workers == 1:
        picire.DD(test, cache=cache)(list(range(world.cell.n)))
    else:
        picire.ParallelDD(test, cache=cache, proc_num=workers)(list(range(world.cell.n)))
    return time.monotonic() - began
