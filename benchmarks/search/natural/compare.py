"""A recorded range, searched for each culprit that can be told, by the tool and by git."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Literal

from benchmarks.search.natural.contenders import Git, Taken, ours
from benchmarks.search.natural.real_range import RealRange
from benchmarks.search.natural.recorded import RecordedRange

RANGES = Path(__file__).parent / "ranges"
_MAX_SHARE, _MAX_MORE = 1 / 3, 6
"""Of git's untestable commits met, and of runs above git's."""


_Method = Literal["ours", "git"]
_What = Literal["untestable", "runs"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What both took on one range, for the same culprits."""

    name: str
    commits: int
    candidates: int
    untestable: int
    ours: Sequence[Taken]
    git: Sequence[Taken]

    @property
    def as_asked(self) -> tuple[bool, bool]:
        """Whether as few untestable commits are met, and as few runs made, as asked."""
        few = self.mean("ours", "untestable") <= _MAX_SHARE * self.mean("git", "untestable")
        return few, self.mean("ours", "runs") <= self.mean("git", "runs") + _MAX_MORE

    def mean(self, method: _Method, what: _What) -> float:
        """Over all culprits."""
        return fmean(getattr(each, what) for each in getattr(self, method))

    def line(self) -> str:
        """As a line of the table."""
        methods: tuple[_Method, ...] = ("ours", "git")
        whats: tuple[_What, ...] = ("untestable", "runs")
        figures = [
            f"{self.mean(method, what):.1f} ({max(getattr(each, what) for each in getattr(self, method))})"
            for what in whats
            for method in methods
        ]
        right = f"{sum(each.right for each in self.ours)} of {len(self.ours)}"
        met = ", ".join("yes" if each else "NO" for each in self.as_asked)
        cells = [self.name, self.commits, self.candidates, self.untestable, *figures, right, met]
        return f"| {' | '.join(map(str, cells))} |"


def compare(name: str, recorded: RecordedRange) -> Row:
    """Search one range for each of its culprits."""
    folded, whole = RealRange(recorded), RealRange(recorded, folded=False)
    number = {sha: node for node, sha in enumerate(whole.loaded.candidates)}
    with TemporaryDirectory(prefix="bench-natural-") as folder:
        git = Git.of(whole, Path(folder))
        return Row(
            name=name,
            commits=len(recorded.commits),
            candidates=len(folded.loaded.graph),
            untestable=len(folded.untestable),
            ours=[ours(folded, culprit) for culprit in folded.culprits],
            git=[git.bisect(number[folded.loaded.candidates[culprit]]) for culprit in folded.culprits],
        )
