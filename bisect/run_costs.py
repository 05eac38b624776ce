"""What the next run of a commit will take, from what runs took so far."""

from collections.abc import Collection, Iterable, Sequence
from statistics import fmean

import numpy as np

from ..store.schema import BuildSource, Probe
from .search.graph import Floats
from .shared_builds import SharedBuilds

_LEAST_SECONDS = 0.01


def run_costs(
    contents: Sequence[str | None], probes: Collection[Probe], shared: SharedBuilds
) -> Floats | None:
    """Seconds of the next run of each of `contents`, shape [len(contents)]; None before anything was built and run.

    A content that was built once, by whomever, is there already or in the cache, so that a run of it takes what such
    builds took, and the run. Any other takes the run, and what builds took that were really made, divided by all that
    may use the build. Means over all `probes`.
    """
    runs = [probe.run_seconds for probe in probes if probe.run_seconds and _built(probe)]
    anew = _build_seconds(probes, {BuildSource.BUILT})
    if not runs or not anew:
        return None
    again = _build_seconds(probes, {BuildSource.CACHED, BuildSource.PRESENT})
    built = shared.built | {probe.content for probe in probes if _built(probe)}
    run = max(_LEAST_SECONDS, fmean(runs))
    of_built = run + (fmean(again) if again else 0.0)
    # Builds that were taken up again are no dearer than new ones, whatever a busy machine made of them.
    return np.array(
        [
            of_built if content in built else max(of_built, run + fmean(anew) / shared.sharers(content))
            for content in contents
        ]
    )


def _built(probe: Probe) -> bool:
    return probe.build_source is not None and probe.build_source is not BuildSource.NONE


def _build_seconds(probes: Iterable[Probe], sources: Collection[BuildSource]) -> list[float]:
    return [probe.build_seconds or 0.0 for probe in probes if probe.build_source in sources]
