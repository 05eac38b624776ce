"""What builds and runs will take, from what they took so far."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Self

import numpy as np

from ...store.tables.bisections import ProbeRow
from ...store.tables.nights import CaseRunRow
from ...store.vocabulary import BuildSource
from ..search.graph.graph import Floats

_LEAST_SECONDS = 0.01


@dataclass(frozen=True)
class Timings:
    """Mean seconds of a run, of a build that is really made, and of taking up one that was made before."""

    run: float
    anew: float
    again: float

    @classmethod
    def of(cls, finished: Iterable[ProbeRow | CaseRunRow]) -> Self | None:
        """Means over finished runs; None before anything was built and run."""
        built = [each for each in finished if was_built(each)]
        runs = [each.run_seconds for each in built if each.run_seconds]
        anew = [each.build_seconds or 0.0 for each in built if each.build_source == BuildSource.BUILT]
        again = [each.build_seconds or 0.0 for each in built if each.build_source != BuildSource.BUILT]
        if not runs or not anew:
            return None
        return cls(max(_LEAST_SECONDS, fmean(runs)), fmean(anew), fmean(again) if again else 0.0)

    def builds(self, contents: Sequence[str | None], built: Collection[str]) -> Floats:
        """Seconds until each of `contents` is there to be run. Shape [len(contents)]."""
        # Builds that were taken up again are no dearer than new ones, whatever a busy machine made of them.
        anew = max(self.again, self.anew)
        return np.array([self.again if content in built else anew for content in contents])


def was_built(finished: ProbeRow | CaseRunRow) -> bool:
    """Whether the run got as far as a build."""
    return finished.build_source is not None and finished.build_source != BuildSource.NONE
