"""What the search is to reach, and what a run of the benchmark found."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, log2

from benchmarks.search.natural.compare import Row as NaturalRow
from benchmarks.search.table import Row

_ASKED_SIZES = (10, 60, 120, 1000)


@dataclass(frozen=True)
class Criterion:
    """asked: in plain words. found: the figure, where it is worst."""

    asked: str
    found: str
    met: bool

    def line(self) -> str:
        """A row of the table."""
        return f"| {self.asked} | {self.found} | {'met' if self.met else '**not met**'} |"


def criteria(rows: Sequence[Row], natural: Sequence[NaturalRow]) -> list[Criterion]:
    """Each line over all ranges that it speaks of; those whose ranges were not searched are left out."""
    ours = [each for each in rows if each.method == "ours"]

    def part(name: str) -> list[Row]:
        return [each for each in ours if each.part == name]

    def plain(name: str) -> list[Row]:
        return [each for each in part(name) if each.n in _ASKED_SIZES]

    parallel, misfits = part("two branches"), part("misfit")
    found = [
        _worst(
            "deterministic, n = 10, 60, 120, 1,000, empty store: mean runs at most ceil(log2 n) + 6",
            plain("plain"),
            lambda each: each.runs - ceil(log2(each.n)) - 6,
        ),
        _all_right("deterministic, empty store: right in all ranges", plain("plain")),
        _worst(
            "the same with a store that knows the case: at most ceil(log2 n) + 3",
            plain("known case"),
            lambda each: each.runs - ceil(log2(each.n)) - 3,
        ),
        _all_right("the same: right in all ranges", plain("known case")),
        _worst(
            "flaky: the culprit named in at least 99 % of each cell",
            part("flaky"),
            lambda each: 0.99 - each.right / each.ranges,
            shown=lambda each: f"{each.right} of {each.ranges}",
        ),
        _worst(
            "flaky: mean runs at most those of git_bayesect, in every cell",
            part("flaky"),
            lambda each: max(
                (each.runs - other.runs for other in _beside(rows, each, "git_bayesect")), default=-each.runs
            ),
            shown=lambda each: _runs_beside(rows, each, "git_bayesect"),
        ),
        _worst(
            "flaky: mean runs at most 1.6 x the bound + 6, in every cell",
            part("flaky"),
            lambda each: each.runs - 1.6 * each.bound - 6,
        ),
        _worst(
            "rates 0/0.1 and 0/0.05: named, suspects, or given up; never 'the ends do not differ'",
            part("rare"),
            lambda each: each.refused + each.wrong + each.not_ended,
            shown=lambda each: f"{each.refused} refused, {each.wrong} wrong of {each.ranges}",
        ),
        _wrong("misfit, lines and graphs: wrong in at most 2 % of all ranges", misfits, 0.02),
        _worst(
            "all searches end",
            ours,
            lambda each: each.not_ended,
            shown=lambda each: f"{each.not_ended} of {each.ranges} not ended",
        ),
        _worst(
            "two culprits on parallel branches: either one named in at least 98 %",
            parallel,
            lambda each: 0.98 - each.right / each.ranges,
            shown=lambda each: f"{each.right} of {each.ranges}",
        ),
        _worst(
            "the same: mean runs at most 2 x git's + 8",
            parallel,
            lambda each: max(
                (each.runs - 2 * git.runs - 8 for git in _beside(rows, each, "git x1")), default=0
            ),
            shown=lambda each: _runs_beside(rows, each, "git x1"),
        ),
        *_of_natural(natural),
        *_makespan(part("workers")),
    ]
    return [each for each in found if each is not None]


def _beside(rows: Iterable[Row], of: Row, method: str) -> list[Row]:
    return [each for each in rows if each.method == method and each.of_range == of.of_range]


def _runs_beside(rows: Iterable[Row], of: Row, method: str) -> str:
    return "".join(
        [f"{of.runs:.1f}", *(f", {method} {other.runs:.1f}" for other in _beside(rows, of, method))]
    )


def _worst(
    asked: str,
    rows: Sequence[Row],
    over: Callable[[Row], float],
    *,
    shown: Callable[[Row], str] = lambda each: f"{each.runs:.2f}",
) -> Criterion | None:
    """The row that is farthest over what is asked."""
    if not rows:
        return None
    worst = max(rows, key=over)
    missed = sum(over(each) > 1e-9 for each in rows)
    where = f"{shown(worst)} ({worst.shape}, n {worst.n}, {worst.name})"
    return Criterion(
        asked, where + (f"; {missed} of {len(rows)} cells miss it" if missed else ""), not missed
    )


def _all_right(asked: str, rows: Sequence[Row]) -> Criterion | None:
    if not rows:
        return None
    right, ranges = sum(each.right for each in rows), sum(each.ranges for each in rows)
    return Criterion(asked, f"{right} of {ranges}", right == ranges)


def _wrong(asked: str, rows: Sequence[Row], most: float) -> Criterion | None:
    if not rows:
        return None
    wrong, ranges = sum(each.wrong for each in rows), sum(each.ranges for each in rows)
    return Criterion(asked, f"{wrong} of {ranges} ({wrong / ranges:.1%})", wrong <= most * ranges)


def _of_natural(natural: Sequence[NaturalRow]) -> list[Criterion]:
    if not natural:
        return []
    skips = max(
        natural, key=lambda each: each.mean("ours", "untestable") - each.mean("git", "untestable") / 3
    )
    runs = max(natural, key=lambda each: each.mean("ours", "runs") - each.mean("git", "runs"))
    return [
        Criterion(
            "recorded real ranges: untestable commits met at most a third of git's",
            f"{skips.mean('ours', 'untestable'):.1f}, git {skips.mean('git', 'untestable'):.1f} ({skips.name})",
            all(each.as_asked[0] for each in natural),
        ),
        Criterion(
            "recorded real ranges: mean runs at most git's + 6",
            f"{runs.mean('ours', 'runs'):.1f}, git {runs.mean('git', 'runs'):.1f} ({runs.name}); "
            f"{sum(not each.as_asked[1] for each in natural)} of {len(natural)} ranges miss it",
            all(each.as_asked[1] for each in natural),
        ),
    ]


def _makespan(rows: Sequence[Row]) -> list[Criterion]:
    """Of four workers by that of one, where nothing is flaky."""
    seconds = {each.workers: each.seconds for each in rows if each.name == "0/1"}
    if not {1, 4} <= seconds.keys():
        return []
    ratio = seconds[4] / seconds[1]
    asked = "n = 1,024, builds of 600 s: makespan of 4 workers at most half of one's"
    return [Criterion(asked, f"{ratio:.2f}", ratio <= 0.5)]
