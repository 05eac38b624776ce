"""What builds and runs will take, from what they took so far."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Self

import numpy as np

from ....store.vocabulary import BuildSource
from ...search.evidence.sharing import shared_costs, shared_rates
from ...search.graph.graph import Floats
from ..probes import ProbeTimes
from .promise import Promise

_LEAST_SECONDS = 0.01


@dataclass(frozen=True)
class Timings:
    """Mean seconds of a run, of a build that is really made, and of taking up one that was made before."""

    run: float
    anew: float
    again: float

    @classmethod
    def of(cls, probes: Iterable[ProbeTimes], *, earlier: Iterable[float] = ()) -> Self | None:
        """Means over finished probes; None before anything was built and run.

        `earlier` are seconds of builds that others made: they count as long as none of `probes` made one.
        """
        built = [times for times in probes if times.was_built]
        runs = [times.run_seconds for times in built if times.run_seconds]
        anew = [times.build_seconds for times in built if times.build_source is BuildSource.BUILT] or [
            *earlier
        ]
        again = [times.build_seconds for times in built if times.build_source is not BuildSource.BUILT]
        if not runs or not anew:
            return None
        return cls(max(_LEAST_SECONDS, fmean(runs)), fmean(anew), fmean(again) if again else 0.0)

    def builds(
        self, builds: Sequence[str | None], built: Collection[str], *, forecast: Floats | None = None
    ) -> Floats:
        """Seconds until each of `builds` is there to be run; `built` are there. Shape [len(builds)].

        `forecast` is what each takes to be built; the mean by default.
        """
        there = np.array([build in built for build in builds])
        # Builds that were taken up again are no dearer than new ones, whatever a busy machine made of them.
        anew = np.maximum(self.again, self.anew if forecast is None else forecast)
        return np.where(there, self.again, anew)


def costs_beside(promise: Promise, rivals: Sequence[Promise] | None) -> Floats:
    """What a probe of each candidate and, last, of the good end costs a bisection, in seconds. Shape [n + 1].

    `rivals` are what the other bisections promise that want a worker now: those that are worth it pay for a build
    together (`evidence.sharing`). None where there can be no other.
    """
    if rivals is None:
        return promise.runs + promise.builds
    everyone = [*rivals, promise]
    bits = np.array(
        [[each.bits_by_content.get(content or "", 0.0) for content in promise.contents] for each in everyone]
    )
    runs = np.array([[each.runs] * len(promise.contents) for each in everyone])
    rates = shared_rates(promise.builds, bits, runs)
    return shared_costs(rates, bits[-1], runs[-1], promise.builds)
