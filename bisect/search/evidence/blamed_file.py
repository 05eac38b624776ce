"""A file that the error of an untestable commit names, and which commits fail alike because of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np

from ..graph.graph import CommitGraph, Floats, Integers, Mask
from .stretches import Stretches, by_date, by_descent, by_place

# How likely beforehand the line that the error points at tells which commits fail alike; else the version of the file;
# and else the file is only where the error shows, and only nearness tells.
_LINE, _VERSION, _NEARNESS = 0.55, 0.35, 0.1
_EXCEPTION = 0.03
"""How often a commit is an exception to what the line, or the version, tells of it."""
_SHARES = (0.15, 0.35, 0.6)
_LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, eq=False)
class BlamedFile:
    """A file that an error names, over the commits of a graph and, last, the good end; arrays have shape [n + 1].

    versions: which version of the file each holds, as any numbers. fails: whether that version has the line that the
    error points at, or lacks the whole file where that is the error; None where the error points at no line.
    """

    path: str
    versions: Integers
    fails: Mask | None = None

    def same_cause(self, other: "BlamedFile") -> bool:
        """Whether both tell the same of every commit."""
        if self.path != other.path or (self.fails is None) != (other.fails is None):
            return False
        return self.fails is None or other.fails is None or np.array_equal(self.fails, other.fails)

    @cached_property
    def places(self) -> Integers:
        """For each commit and, last, the good end: the place of its version in the order in which versions came up,
        that of the good end first. Shape [n + 1]."""
        _, first, place = np.unique(np.roll(self.versions, 1), return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return np.roll(rank[place], -1)


def skipped_because(graph: CommitGraph, file: BlamedFile, tried: Mapping[int, bool]) -> Floats:
    """For each commit, the chance that what the error says of `file` makes it untestable. Shape [n].

    `tried` says of commits whether this was so: of those that were skipped with such an error, and of those that could
    be tested, the bad end among them. Three explanations are averaged over, weighted by how well each explains them:
    the line, the version of the file (neighbouring versions are alike, as commits are), and nearness alone.
    """
    explanations = [*_by_version(file, tried), *_by_nearness(graph, tried)]
    if file.fails is not None:
        explanations.append(_by_line(file, file.fails, tried))
    evidence = np.array([log_evidence for log_evidence, _ in explanations])
    weights = np.exp(evidence - evidence.max())
    return np.average([chance for _, chance in explanations], axis=0, weights=weights)


def _by_line(file: BlamedFile, fails: Mask, tried: Mapping[int, bool]) -> tuple[float, Floats]:
    """Log evidence and chances, where those commits fail that have the line."""
    exceptions = int(fails[-1]) + sum(bool(fails[commit]) != skipped for commit, skipped in tried.items())
    evidence = exceptions * log(_EXCEPTION) + (len(tried) + 1 - exceptions) * log(1 - _EXCEPTION)
    return log(_LINE) + evidence, np.where(fails[:-1], 1 - _EXCEPTION, _EXCEPTION)


def _by_version(file: BlamedFile, tried: Mapping[int, bool]) -> Iterable[tuple[float, Floats]]:
    """Log evidence and chances, where versions of a file fail in stretches of neighbouring ones."""
    seen: dict[int, list[bool]] = {int(file.places[-1]): [False]}
    for commit, skipped in tried.items():
        seen.setdefault(int(file.places[commit]), []).append(skipped)
    states = {place: all(found) for place, found in seen.items() if len({*found}) == 1}
    exceptions = sum(min(found.count(True), found.count(False)) for found in seen.values()) * log(_EXCEPTION)
    count = int(file.places.max()) + 1
    far = 2 * int(max(_LENGTHS))
    near = by_place(np.arange(count), states, ends=(-far, count + far))
    known = np.array(sorted(states), dtype=np.int64)
    skipped = np.array([states[int(place)] for place in known], dtype=np.bool_)
    models = [Stretches(length, share) for length in _LENGTHS if length <= max(1, count) for share in _SHARES]
    for model in models:
        evidence = model.log_evidence(near.distance_before[known], near.skipped_before[known], skipped)
        chance = 1 - model.tested_between(near)
        chance[known] = np.where(skipped, 1 - _EXCEPTION, _EXCEPTION)
        yield log(_VERSION / len(models)) + exceptions + evidence, chance[file.places[:-1]]


def _by_nearness(graph: CommitGraph, tried: Mapping[int, bool]) -> Iterable[tuple[float, Floats]]:
    """Log evidence and chances, where commits fail in stretches, whatever they hold."""
    commits = np.array(sorted(tried), dtype=np.int64)
    skipped = np.array([tried[int(commit)] for commit in commits], dtype=np.bool_)
    lines = by_descent(graph, tried), by_date(graph, tried)
    length = max(8.0, len(graph) / 8)
    for near in lines:
        model = Stretches(length, _SHARES[0])
        evidence = model.log_evidence(near.distance_before[commits], near.skipped_before[commits], skipped)
        yield log(_NEARNESS / len(lines)) + evidence, 1 - model.tested_between(near)
