"""The search of git_bayesect (PyPI), asked for its choices one by one; where it is not installed it has no rows."""

from importlib.util import find_spec

import numpy as np

from benchmarks.search.ours import CONFIDENCE, Answer
from benchmarks.search.world import World
from precision_bisect.bisect.search.evidence.knowledge import Outcome
from precision_bisect.bisect.search.model.groups import GOOD_END

INSTALLED = find_spec("git_bayesect") is not None
_MOST_PROBES = 1_000


def search(world: World) -> Answer:
    """As its `run` does: select, record, until one commit has the confidence. A history is taken as a line.

    Number 0 is the newest commit, the last one the good end.
    """
    from git_bayesect import Bisector

    n = world.cell.n
    bisector = Bisector(np.ones(n + 1))
    seconds = 0.0
    while bisector.distribution.max() < CONFIDENCE and world.probes + world.end_runs < _MOST_PROBES:
        number = bisector.select()
        commit = GOOD_END if number == n else n - 1 - number
        seconds += world.seconds(commit)
        outcome = world.run(commit)
        bisector.record(number, outcome is Outcome.BAD)
    best = int(np.argmax(bisector.distribution))
    claimed = float(bisector.distribution[best])
    return Answer(
        culprit=n - 1 - best if claimed >= CONFIDENCE and best < n else None,
        claimed=claimed,
        probes=world.probes,
        end_runs=world.end_runs,
        builds=len(world.built),
        seconds=seconds,
    )
