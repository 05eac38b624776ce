"""python -m benchmarks.search.natural [OUT] (from the root of the repository).

Searches each recorded range with every commit in turn as culprit that can be told, by the tool's own engine and by the
real git, and writes what both took.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from benchmarks.search.natural.contenders import Git, Taken, ours
from benchmarks.search.natural.real_range import RealRange
from benchmarks.search.natural.recorded import RecordedRange

RANGES = Path(__file__).parent / "ranges"
_OUT = Path(__file__).parents[1] / "results" / "natural.md"
_MOST_SHARE, _MOST_MORE = 1 / 3, 6
"""Of git's untestable commits met, and of runs above git's."""


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
        few = _mean(self.ours, "untestable") <= _MOST_SHARE * _mean(self.git, "untestable")
        return few, _mean(self.ours, "runs") <= _mean(self.git, "runs") + _MOST_MORE

    def line(self) -> str:
        """As a line of the table."""
        figures = [
            f"{_mean(taken, name):.1f} ({max(getattr(each, name) for each in taken)})"
            for name in ("untestable", "runs")
            for taken in (self.ours, self.git)
        ]
        right = f"{sum(each.right for each in self.ours)} of {len(self.ours)}"
        met = ", ".join("yes" if each else "NO" for each in self.as_asked)
        cells = [self.name, self.commits, self.candidates, self.untestable, *figures, right, met]
        return f"| {' | '.join(map(str, cells))} |"


def _mean(taken: Sequence[Taken], name: str) -> float:
    return fmean(getattr(each, name) for each in taken)


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


def markdown(rows: Sequence[tuple[Row, str]]) -> str:
    """The page."""
    lines = [
        "# Real ranges, recorded",
        "",
        "Means over all culprits that can be told (they and their parents can be tested), the largest in brackets. All",
        "runs of the tool are counted, of the ends and to confirm too; git runs no end and confirms nothing. The tool",
        "folds commits that read the same, git does not. Asked: at most a third of git's",
        "untestable commits, and at most git's runs and 6.",
        "",
        "| range | commits | candidates | of them untestable | met by the tool | met by git | runs of the tool "
        "| runs of git | named | as asked |",
        "|" + " --- |" * 10,
        *(row.line() for row, _ in rows),
        "",
        *(f"- `{row.name}`: {about}" for row, about in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Searches all recorded ranges, and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, nargs="?", default=_OUT)
    out = parser.parse_args().out
    rows: list[tuple[Row, str]] = []
    for path in sorted(RANGES.glob("*.json")):
        recorded = RecordedRange.read(path)
        rows.append((compare(path.stem, recorded), recorded.about))
        print(rows[-1][0].line(), flush=True)
    out.write_text(markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
