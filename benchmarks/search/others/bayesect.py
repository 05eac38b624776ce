"""The search of git_bayesect (PyPI), asked for its choices one by one; where it is not installed it has no rows."""

from importlib.util import find_spec

import numpy as np

from benchmarks.outsider.history import GOOD
from benchmarks.outsider.world import Bench, Shown
from benchmarks.search.answer import CONFIDENCE, Answer, answer

INSTALLED = find_spec("git_bayesect") is not None
_MAX_RUNS = 1_000


def search(bench: Bench) -> Answer:
    """As its `run` does: select, record, until one commit has the confidence. A history is taken as a line.

    Number 0 is the newest commit, the last one the good end.
    """
    from git_bayesect import Bisector

    n = len(bench.world.history)
    bisector = Bisector(np.ones(n + 1))
    while bisector.distribution.max() < CONFIDENCE and len(bench.runs) < _MAX_RUNS:
        number = bisector.select()
        shown = bench.run(GOOD if number == n else n - 1 - number)
        bisector.record(number, shown is Shown.FAIL)
    best = int(np.argmax(bisector.distribution))
    sure = bool(bisector.distribution[best] >= CONFIDENCE)
    return answer(bench, n - 1 - best if sure and best < n else None, ended=sure)
