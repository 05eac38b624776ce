"""What the page of one bisection shows beside its report: the plots and the grid of each range."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....runner.localization.answer import read_divergence
from ....runner.localization.divergence import Divergence
from ....store.tables.bisections import ProbeRow
from ....store.vocabulary import BisectionOutcome, Judgement
from ...report.ends import ToldEnd, is_about_an_end, to_check, told_ends
from ...report.model.build import report_of_rows
from ...report.model.model import Report
from ...report.model.rows import Rows
from ...report.model.standing import Standing
from .. import plots
from ..report_files import reduced_files, task_graph
from .belief import RangeBelief, range_beliefs

_MOST_CURVES = 6


@dataclass(frozen=True, kw_only=True)
class TestedCommit:
    """A row of the grid: a commit (or the good end) with its runs, and what each counts as."""

    repository: str
    commit: str
    subject: str | None
    runs: Sequence[tuple[ProbeRow, Judgement]]
    """Those that were made at it."""
    same_as: str | None
    """The commit of equal content that was run in place of it; None where it was run itself."""
    named: bool
    """It is a culprit, or the commit that brought one in, or what a culprit took away."""


@dataclass(frozen=True, kw_only=True)
class RangeView:
    """One range that was searched."""

    repository: str
    old: str
    new: str
    commits: int
    candidates: int
    belief: RangeBelief | None
    bars: tuple[plots.Bar, ...]
    likeliest: tuple[tuple[str, str | None, float], ...]
    """The five likeliest commits: id, subject, probability."""
    tested: tuple[TestedCommit, ...]
    most_runs: int
    curves: tuple[plots.Curve, ...]


@dataclass(frozen=True, kw_only=True)
class BisectionView:
    """All of one page."""

    report: Report
    ranges: tuple[RangeView, ...]
    divergence: Divergence | None
    task_graph: bool
    reduced: bool
    """Whether there are such files to look at."""
    ends: tuple[ToldEnd, ...]
    """Where these do not differ, or one could not be judged: what both showed last."""
    to_check: tuple[str, ...]
    """What usually explains that; empty else."""


def bisection_view(rows: Rows) -> BisectionView:
    """The view of a bisection that is read."""
    report = report_of_rows(rows)
    answers = (*report.culprits, *filter(None, (report.through, report.lost)))
    named = {each.commit for each in answers}
    beliefs = range_beliefs(rows)
    of_ends = report.outcome == BisectionOutcome.ENDS_DO_NOT_DIFFER or (
        report.outcome == BisectionOutcome.ERROR and is_about_an_end(rows)
    )
    return BisectionView(
        report=report,
        ranges=tuple(
            _range(rows, standing, belief, named)
            for standing, belief in zip(rows.ranges, beliefs, strict=True)
        ),
        divergence=read_divergence(rows.request.output),
        task_graph=task_graph(rows.request.output) is not None,
        reduced=bool(reduced_files(rows.request.output)),
        ends=tuple(told_ends(rows)) if of_ends else (),
        to_check=tuple(to_check(rows)) if of_ends else (),
    )


def _range(rows: Rows, standing: Standing, belief: RangeBelief | None, named: set[str]) -> RangeView:
    stage = standing.stage
    order = [sha for sha in standing.members if sha in standing]
    outside = [sha for sha in standing.runs if sha not in standing]
    index_of = {sha: index for index, sha in enumerate([*outside, *order])}
    made = standing.runs_where_made
    tested = [sha for sha in index_of if sha in standing.runs]
    likeliest = sorted(belief.commits, key=lambda each: -each[1])[:5] if belief else []
    return RangeView(
        repository=stage.repository,
        old=stage.old,
        new=stage.new,
        commits=len(stage.candidates),
        candidates=len(order),
        belief=belief,
        bars=plots.bars(belief.commits) if belief else (),
        likeliest=tuple((sha, rows.subject(stage.repository, sha), share) for sha, share in likeliest),
        tested=tuple(
            TestedCommit(
                repository=stage.repository,
                commit=sha,
                subject=rows.subject(stage.repository, sha),
                runs=tuple((probe, rows.judgement(probe) or Judgement.SKIP) for probe in made.get(sha, ())),
                same_as=None if sha in made else standing.runs[sha][0].commit,
                named=sha in named,
            )
            for sha in tested
        ),
        most_runs=max(map(len, made.values()), default=0),
        curves=_curves(rows, standing, index_of),
    )


def _curves(rows: Rows, standing: Standing, index_of: dict[str, int]) -> tuple[plots.Curve, ...]:
    """Each measured number that is not the same in all runs, over the commits of a range; what moved most first."""
    points: dict[tuple[str, str], list[plots.Point]] = {}
    for sha, probes in standing.runs_where_made.items():
        for probe in probes:
            if not probe.phase.is_as_asked:
                continue
            for output, values in (probe.metrics or {}).items():
                for name, value in values.items():
                    points.setdefault((output, name), []).append(
                        plots.Point(
                            index=index_of[sha],
                            commit=sha,
                            judgement=rows.judgement(probe) or Judgement.SKIP,
                            value=float(value),
                        )
                    )
    moving = [key for key, each in points.items() if len({point.value for point in each}) > 1]
    ranked = sorted(moving, key=lambda key: (-_spread(points[key]), key))[:_MOST_CURVES]
    drawn = (plots.curve(" ".join(key), points[key], commits=len(index_of)) for key in ranked)
    return tuple(each for each in drawn if each is not None)


def _spread(points: Sequence[plots.Point]) -> float:
    """How far the values lie apart, relative to the largest."""
    finite = [abs(point.value) for point in points if math.isfinite(point.value)]
    return (max(finite) - min(finite)) / max(finite) if finite and max(finite) > 0 else 0.0
