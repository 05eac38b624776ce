"""What builds will take, by how much of each has to be compiled again: learned from the builds that were timed.

A build takes a time that is always the same, and one for each object that it compiles again:
seconds = fixed + each * objects. Both are at least zero, and the least squares of the relative errors. One more build
is taken to have been seen, which compiled nothing again and took a part of the mean (`_EMPTY`): what is forecast before
two builds of unlike sizes were timed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...commits.range import LoadedRange
from ...commits.recompiled import Recompiled, SlotBuild
from ...search.graph.graph import Floats
from ..log import ProbeLog
from ..probes import slot_build

_EMPTY = 0.5
"""Between a quarter, about what is left where nothing has to be compiled, and all, where nothing is kept from one build
to the next. Which of them it is, is soon told (`benchmarks/builds`)."""


@dataclass(frozen=True)
class BuildLine:
    """What a build takes that compiles nothing again, and what each object takes besides."""

    fixed: float
    each: float

    @classmethod
    def through(cls, objects: Sequence[float], seconds: Sequence[float]) -> "BuildLine":
        """The line by some builds, at least one."""
        mean = float(np.mean(seconds))
        count, took = np.array([0.0, *objects]), np.array([_EMPTY * mean, *seconds])
        weight = 1.0 / np.array([mean, *seconds]) ** 2
        middle, height = np.average(count, weights=weight), np.average(took, weights=weight)
        spread = weight @ (count - middle) ** 2
        slope = weight @ ((count - middle) * (took - height)) / spread if spread > 0 else 0.0
        if slope <= 0:
            return cls(fixed=float(height), each=0.0)
        if slope * middle > height:
            return cls(fixed=0.0, each=float(weight @ (count * took) / (weight @ count**2)))
        return cls(fixed=float(height - slope * middle), each=float(slope))

    def seconds(self, objects: Floats) -> Floats:
        """What builds take that compile so many objects again."""
        return self.fixed + self.each * objects

    def misses(self, objects: Sequence[float], seconds: Sequence[float]) -> float:
        """The sum of the squares of the relative errors."""
        took = np.array(seconds)
        return float((((self.seconds(np.array(objects)) - took) / took) ** 2).sum())


@dataclass(frozen=True)
class _Timed:
    """A build that was timed: objects that were compiled again after what stood in its slot, and after the nearest of
    all that had been built."""

    in_slot: float
    of_all: float
    seconds: float


def build_seconds(loaded: LoadedRange, log: ProbeLog) -> Floats | None:
    """What a new build of each candidate and, last, of the good end will take. Shape [n + 1]. None where nothing tells
    them apart: none was built in this bisection or timed in any, or nothing is known of what builds compile.

    A slot goes on from what stands in it; a compiler cache, or a stack that keeps objects by content, from all that was
    built. Which it is, is what the builds that were timed fit better.
    """
    again = loaded.recompiled
    if again is None:
        return None
    own = _history(loaded, again, _builds_of(log))
    earlier = [_history(loaded, again, builds) for builds in loaded.earlier_builds]
    timed = [each for history in (*earlier, own) for each in history.timed]
    if not timed or not own.standing:
        return None
    seconds = [each.seconds for each in timed]
    in_slot, of_all = [each.in_slot for each in timed], [each.of_all for each in timed]
    by_slot, by_all = BuildLine.through(in_slot, seconds), BuildLine.through(of_all, seconds)
    if by_all.misses(of_all, seconds) < by_slot.misses(in_slot, seconds):
        return by_all.seconds(again.objects_after(own.built))
    # Which slot a probe will be made in is not known.
    return np.mean([by_slot.seconds(again.objects_from(node)) for node in own.standing.values()], axis=0)


@dataclass
class _History:
    """The builds of a bisection that were timed, what stands in each place, and all that was built: candidates, or the
    good end."""

    timed: list[_Timed] = field(default_factory=list[_Timed])
    standing: dict[str, int] = field(default_factory=dict[str, int])
    built: list[int] = field(default_factory=list[int])


def _history(loaded: LoadedRange, again: Recompiled, builds: Iterable[SlotBuild]) -> _History:
    history = _History()
    for build in builds:
        node = loaded.node_of_content.get(build.content)
        if node is None:
            history.standing.pop(build.place, None)
            continue
        if build.seconds is not None:
            # A slot's first build is taken to compile all: where it did not, objects seem cheaper than they are, and
            # builds more alike.
            in_slot = of_all = float(again.objects)
            if build.place in history.standing:
                in_slot = float(again.objects_from(history.standing[build.place])[node])
            if history.built:
                of_all = float(again.objects_after(history.built)[node])
            history.timed.append(_Timed(in_slot=in_slot, of_all=of_all, seconds=build.seconds))
        history.standing[build.place] = node
        history.built.append(node)
    return history


def _builds_of(log: ProbeLog) -> Iterator[SlotBuild]:
    """What came to stand in slots, in the order of the starts."""
    for probe in sorted(log.ended, key=lambda probe: probe.number):
        if (build := slot_build(probe.content, probe.place, probe.times)) is not None:
            yield build
