"""What a method makes of one range."""

from dataclasses import dataclass

from benchmarks.outsider.world import Bench, Ending

CONFIDENCE = 0.99
"""What every method that knows a confidence is asked for."""
MAX_RUNS = 1_500
"""A search that has made so many is counted as not ended."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """runs: all that a user waits for, of ends, search and confirmation. seconds: from the first to the last of them,
    on all workers; 0 where nothing is timed."""

    ending: Ending
    runs: int
    seconds: float = 0.0


def answer(bench: Bench, named: int | None, *, ended: bool = True) -> Answer:
    """The answer of a method that names one commit, or none."""
    if named is None:
        ending = Ending.NONE if ended else Ending.UNENDED
    else:
        ending = Ending.RIGHT if named in bench.world.answers else Ending.WRONG
    return Answer(ending=ending, runs=len(bench.runs))
