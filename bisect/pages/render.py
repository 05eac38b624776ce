"""Fills the templates of pages, and computes what the page of a bisection shows in addition to its report.

`render` fills a template. Jinja escapes all text that other people wrote, and the policy of a page allows only one
script. `bisection_view` computes the plots and the grid of each range. `bars` and `curve` return coordinates, which
templates draw. `bisection_address` and its like return the address of a page, relative to the root of the site. Names
that other people chose become plain file names there, without slash or dot.
"""

import base64
import hashlib
import math
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from statistics import median
from typing import Any, cast
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ...runner.compare import diff_report
from ...runner.compare.diff_report import HeatPicture, heat_svg
from ...runner.localization import Divergence, ErrorMap, read_divergence
from ...store.tables import ProbeRow, now
from ...store.vocabulary import (
    BisectionOutcome,
    CaseStatus,
    Judgement,
    duration,
    indented_line,
    one_line,
    percent,
    plural,
    shorten,
    verdict_phrase,
)
from ..listing import state_text
from ..report import phrases
from ..report.advice import EndSummary, advice_for_bisection, end_summaries, has_unjudged_end
from ..report.basis import Rows, SearchedRange
from ..report.model import ExplanationReport, PassResult, Report
from ..report.phrases import MAX_OWN_SENTENCE, PASS_MARKS, pass_mark
from ..report.report_builder import make_report
from .views import (
    RangeBelief,
    command_text,
    range_beliefs,
    reduced_files,
    submission_tone,
    task_graph,
)

PLOT_WIDTH, PLOT_HEIGHT = 720, 170
"""The size of a plot's view box. A page scales it to its own width."""
_MARGIN = 10
"""A plot leaves this space around its bars and curves, in units of the view box."""
_SCALE_WIDTH = 96
"""A curve leaves this space on its left for the numbers of its scale."""

_MAX_BARS = 180
"""A plot has at most this many bars. At 720 units each then has about 4, and thinner ones cannot be seen."""
_VISIBLE_PROBABILITY = 0.01
"""A bar counts as visible from this probability on. Lower bars are as high as one for almost nothing."""
_LIMIT_SPAN = 1000.0
"""A curve with a limit reaches down to the limit divided by this number. Errors of right passes are 0, or near it."""
_LOG_SPAN = 50.0
"""A curve has a logarithmic scale where its highest value is more than this many times its lowest. Otherwise the lower
values would be flat."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar for one or more neighbouring commits, with the sum of their probabilities.

    Lengths are in units of the view box.
    """

    x: float
    y: float
    width: float
    height: float
    probability: float
    first: str
    last: str
    commits: int


def bars(commits: Sequence[tuple[str, float]]) -> tuple[Bar, ...]:
    """Return bars for commits from old to new, on a scale from 0 to 1. Neighbours share bars where there are many."""
    if not commits:
        return ()
    each = math.ceil(len(commits) / _MAX_BARS)
    groups = [commits[start : start + each] for start in range(0, len(commits), each)]
    step = (PLOT_WIDTH - 2 * _MARGIN) / len(groups)
    width = min(step * 0.82, 36.0)
    found: list[Bar] = []
    for index, group in enumerate(groups):
        probability = min(1.0, sum(share for _, share in group))
        # A commit that is possible stays visible.
        height = max(1.5, probability * (PLOT_HEIGHT - 2 * _MARGIN))
        found.append(
            Bar(
                x=_round_length(_MARGIN + index * step + (step - width) / 2),
                y=_round_length(PLOT_HEIGHT - _MARGIN - height),
                width=_round_length(width),
                height=_round_length(height),
                probability=probability,
                first=group[0][0],
                last=group[-1][0],
                commits=len(group),
            )
        )
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run of one commit, or the program after one pass.

    index: the place of the commit in the range, where the oldest is 0, or that of the pass among the passes.
    label: the short name of the commit or pass.
    words: what was measured, in words.
    value: the measured number; it may be NaN or infinite. None where nothing was measured.
    """

    index: int
    label: str
    words: str
    judgement: Judgement
    value: float | None


def commit_point(index: int, commit: str, judgement: Judgement, value: float) -> Point:
    """Return the point of one run of a commit."""
    words = f"{_number(value)}, {_JUDGEMENT_WORDS[judgement.value]}"
    return Point(index=index, label=_short(commit), words=words, judgement=judgement, value=value)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point with the place at which it is drawn."""

    x: float
    y: float
    point: Point


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A measured number over commits or passes.

    line: the coordinates of the medians.
    lowest, highest: the ends of the scale, which are equal where there is only one value.
    limit: the height of the largest value that is allowed, if one is drawn.
    named: the mark whose name is written into the plot, if there is one.
    """

    name: str
    marks: tuple[Mark, ...]
    line: str
    lowest: float
    highest: float
    logarithmic: bool
    limit: float | None = None
    named: Mark | None = None


def curve(name: str, points: Sequence[Point], *, places: int, limit: float | None = None) -> Curve | None:
    """Return the curve of points over `places` commits or passes. None where only one has points, or none is finite.

    `limit` is a positive value to draw a line at. Values far below it are drawn as low as the lowest on the scale.
    """
    finite = [point.value for point in points if point.value is not None and math.isfinite(point.value)]
    if not finite or len({point.index for point in points}) < 2:
        return None
    lowest, highest = min(finite), max(finite)
    if limit is not None:
        lowest, highest = max(min(lowest, limit), limit / _LIMIT_SPAN), max(highest, limit)
    logarithmic = lowest > 0 and highest / lowest > _LOG_SPAN

    def height(value: float | None) -> float:
        if value is None:
            return PLOT_HEIGHT - _MARGIN
        if math.isnan(value) or value == math.inf:
            return _MARGIN / 2
        if value == -math.inf:
            return PLOT_HEIGHT - _MARGIN / 2
        low, high, at = (
            (math.log(lowest), math.log(highest), math.log(max(value, lowest)))
            if logarithmic
            else (lowest, highest, value)
        )
        share = (at - low) / (high - low) if high - low > 0 else 0.5
        return _round_length(PLOT_HEIGHT - 2 * _MARGIN - share * (PLOT_HEIGHT - 4 * _MARGIN))

    step = (PLOT_WIDTH - _SCALE_WIDTH - _MARGIN) / max(1, places)

    def x_position(index: int) -> float:
        return _round_length(_SCALE_WIDTH + (index + 0.5) * step)

    by_index: dict[int, list[float]] = {}
    for point in points:
        if point.value is not None and math.isfinite(point.value):
            by_index.setdefault(point.index, []).append(point.value)
    return Curve(
        name=name,
        marks=tuple(Mark(x=x_position(point.index), y=height(point.value), point=point) for point in points),
        line=" ".join(f"{x_position(index)},{height(median(by_index[index]))}" for index in sorted(by_index)),
        lowest=lowest,
        highest=highest,
        logarithmic=logarithmic,
        limit=None if limit is None else height(limit),
    )


def ladder(found: ExplanationReport) -> Curve | None:
    """Return the error after each pass, in tolerances, with the first wrong pass named.

    None where no pass was executed, or there is only one.
    """
    points = [_pass_point(index, each) for index, each in enumerate(found.passes)]
    drawn = curve("error", points, places=len(points), limit=1.0)
    if drawn is None:
        return None
    return replace(
        drawn, named=next((mark for mark in drawn.marks if mark.point.label == found.first_bad), None)
    )


def _pass_point(index: int, found: PassResult) -> Point:
    mark = pass_mark(found)
    value = None if found.error is None else float(found.error)
    error = "" if value is None else f"{_number(value)} tolerances, "
    return Point(
        index=index,
        label=f"{found.order:02} {found.name}",
        words=f"{error}{PASS_MARKS[mark]}",
        judgement={"+": Judgement.GOOD, "?": Judgement.SKIP}.get(mark, Judgement.BAD),
        value=value,
    )


def is_informative(bars: Sequence[Bar]) -> bool:
    """Return whether a chart of these bars is worth showing: more than one bar is high enough to be seen."""
    return sum(bar.probability >= _VISIBLE_PROBABILITY for bar in bars) > 1


def _round_length(length: float) -> float:
    return round(length, 2)


_PACKAGE = "precision_bisect.bisect.pages"
GLYPHS: Mapping[str, str] = {"good": "✓", "bad": "✕", "skip": "?"}
STATUS_GLYPHS: Mapping[str, str] = {
    "passed": "✓",
    "flaky": "~",
    "new": "+",
    "regressed": "✕",
    "known": "✕",
    "infrastructure": "!",
    "untested": "?",
}
STATUS_TONES: Mapping[str, str] = {
    "passed": "good",
    "flaky": "skip",
    "new": "bad",
    "regressed": "bad",
    "known": "bad",
    "infrastructure": "none",
    "untested": "none",
}
_JUDGEMENT_WORDS: Mapping[str, str] = {
    "good": "passed",
    "bad": "failed as asked",
    "skip": "could not be judged",
}
_TONES: Mapping[str, str] = {"culprit": "good", "suspect": "skip", "unfinished": "none", "error": "skip"}


@cache
def _environment() -> Environment:
    """Return the environment of all templates, with the words and functions that they use."""
    environment = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words: dict[str, Any] = {
        "BISECTIONS": BISECTIONS,
        "INDEX": INDEX,
        "bisection_address": bisection_address,
        "script_address": script_address,
        "task_graph_address": task_graph_address,
        "reduced_build_address": reduced_build_address,
        "commit_address": commit_address,
        "job_address": job_address,
        "month_address": month_address,
        "case_address": case_address,
        "incident_address": incident_address,
        "breakable": _breakable,
        "duration": duration,
        "glyphs": GLYPHS,
        "heat_svg": _heat_svg,
        "host": _host,
        "indented": indented_line,
        "live_policy": security_policy(live=True),
        "max_own_sentence": MAX_OWN_SENTENCE,
        "live_script": Markup(_script("queue.js")),
        "ladder": ladder,
        "number": _number,
        "percent": percent,
        "phrases": phrases,
        "is_informative": is_informative,
        "plot_height": PLOT_HEIGHT,
        "plot_width": PLOT_WIDTH,
        "plural": plural,
        "policy": security_policy(),
        "script": Markup(_script("page.js")),
        "range_of": range,
        "short": _short,
        "command_text": command_text,
        "state_text": state_text,
        "submission_tone": submission_tone,
        "shown": shorten,
        "status_glyph": STATUS_GLYPHS,
        "status_tone": STATUS_TONES,
        "statuses": [each.value for each in CaseStatus],
        "style": Markup(_style()),
        "tone": _tone,
        "verdict_phrase": verdict_phrase,
    }
    cast(dict[str, Any], environment.globals).update(words)
    return environment


def security_policy(*, live: bool = False) -> str:
    """Return the content security policy of a page.

    It allows the page's own style and script, pictures of this site, and nothing else. A `live` page may also connect
    to its server.
    """
    script = _digest(_script("queue.js" if live else "page.js"))
    connect = "connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; style-src '{_digest(_style())}'; script-src '{script}'; "
        f"img-src 'self' data:; {connect}base-uri 'none'; form-action 'none'"
    )


def render(template: str, here: str, sections: tuple[tuple[str, str], ...], **values: Any) -> bytes:
    """Return the page at address `here`, as bytes."""
    text = render_part(template, here, sections=sections, generated=now(), **values)
    return text.encode("utf-8", "backslashreplace")


def render_part(template: str, here: str, **values: Any) -> str:
    """Return the text of one template, as it stands on the page at address `here`."""
    above = posixpath.dirname(here)

    def link(place: str) -> str:
        return posixpath.relpath(place, above or ".")

    return _environment().get_template(template).render(here=here, link=link, **values)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _style() -> str:
    own = resources.files(_PACKAGE).joinpath("static", "style.css").read_text(encoding="utf-8").strip()
    return f"{diff_report.style()}\n{own}"


@cache
def _script(name: str) -> str:
    return resources.files(_PACKAGE).joinpath("static", name).read_text(encoding="utf-8").strip()


def _breakable(text: str, most: int) -> Markup:
    """Return at most `most` characters of a path or a name. Narrow places may break it after "/" and "_"."""
    return Markup("<wbr>").join(re.split(r"(?<=[/_])", shorten(text, most)))


def _heat_svg(heat: ErrorMap, name: str) -> Markup:
    """Return an error map as the picture of `diff-tensors` draws it. `heat_svg` escapes the name."""
    picture = HeatPicture(
        rows=heat.rows,
        columns=heat.columns,
        row_step=heat.row_step,
        column_step=heat.column_step,
        share=heat.wrong,
        wild=heat.wild,
    )
    return Markup(heat_svg(name, picture))


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _short(sha: str) -> str:
    return one_line(sha)[:10]


def _number(value: float) -> str:
    return f"{value:.4g}"


def _tone(outcome: str) -> str:
    return _TONES.get(outcome, "none")


_MAX_CURVES = 6
"""A page shows at most this many curves, those that vary most. More would hide the one that matters."""


@dataclass(frozen=True, kw_only=True)
class TestedCommit:
    """A row of the grid: a commit, or the good end, with its runs and their judgements."""

    repository: str
    commit: str
    subject: str | None
    runs: Sequence[tuple[ProbeRow, Judgement]]
    """The runs that were made at this commit."""
    same_as: str | None
    """The commit of equal content that was run in its place; None where this commit was run itself."""
    named: str | None
    """What it is in the answer, such as the culprit; None where the answer does not name it."""


@dataclass(frozen=True, kw_only=True)
class RangeView:
    """What the page shows of one searched range."""

    repository: str
    old: str
    new: str
    commits: int
    candidates: int
    belief: RangeBelief | None
    bars: tuple[Bar, ...]
    likeliest: tuple[tuple[str, str | None, float], ...]
    """The five likeliest commits, each with id, subject and probability."""
    tested: tuple[TestedCommit, ...]
    max_runs: int
    curves: tuple[Curve, ...]


@dataclass(frozen=True, kw_only=True)
class BisectionView:
    """What the page of one bisection shows."""

    report: Report
    ranges: tuple[RangeView, ...]
    divergence: Divergence | None
    task_graph: bool
    reduced: bool
    """Whether a reduced build can be downloaded. `task_graph` says so of the task graph."""
    ends: tuple[EndSummary, ...]
    """The last output of both ends, where they do not differ or one could not be judged; otherwise empty."""
    to_check: tuple[str, ...]
    """Advice on such ends; otherwise empty."""


def bisection_view(rows: Rows) -> BisectionView:
    """Return what the page of a loaded bisection shows."""
    report = make_report(rows)
    named = {each.commit: phrases.answer_noun(report) for each in report.culprits}
    if report.through is not None:
        named[report.through.commit] = "brought it in"
    if report.lost is not None:
        named[report.lost.commit] = f"the {phrases.removed_commit_noun(report)} taken away"
    beliefs = range_beliefs(rows)
    shows_ends = report.outcome == BisectionOutcome.ENDS_DO_NOT_DIFFER or (
        report.outcome == BisectionOutcome.ERROR and has_unjudged_end(rows)
    )
    return BisectionView(
        report=report,
        ranges=tuple(
            _range(rows, searched, belief, named)
            for searched, belief in zip(rows.ranges, beliefs, strict=True)
        ),
        divergence=read_divergence(rows.request.output),
        task_graph=task_graph(rows.request.output) is not None,
        reduced=bool(reduced_files(rows.request.output)),
        ends=tuple(end_summaries(rows)) if shows_ends else (),
        to_check=tuple(advice_for_bisection(rows)) if shows_ends else (),
    )


def _range(
    rows: Rows, searched: SearchedRange, belief: RangeBelief | None, named: Mapping[str, str]
) -> RangeView:
    """Return a searched range as its page shows it. `named` says what some commits are in the answer."""
    stage = searched.stage
    order = [sha for sha in searched.members if sha in searched]
    outside = [sha for sha in searched.runs if sha not in searched]
    index_of = {sha: index for index, sha in enumerate([*outside, *order])}
    made = searched.own_runs
    tested = [sha for sha in index_of if sha in searched.runs]
    likeliest = sorted(belief.commits, key=lambda each: -each[1])[:5] if belief else []

    def subject_of(sha: str) -> str:
        others = searched.size(sha) - 1
        before = f", and {plural(others, 'commit')} before it that were not read" if others else ""
        return (rows.subject(stage.repository, sha) or "") + before

    return RangeView(
        repository=stage.repository,
        old=stage.old,
        new=stage.new,
        commits=searched.commit_count,
        candidates=searched.candidate_count,
        belief=belief,
        bars=bars(belief.commits) if belief else (),
        likeliest=tuple((sha, subject_of(sha), share) for sha, share in likeliest),
        tested=tuple(
            TestedCommit(
                repository=stage.repository,
                commit=sha,
                subject=rows.subject(stage.repository, sha),
                runs=tuple((probe, rows.judgement(probe) or Judgement.SKIP) for probe in made.get(sha, ())),
                same_as=None if sha in made else searched.runs[sha][0].commit,
                named=named.get(sha),
            )
            for sha in tested
        ),
        max_runs=max(map(len, made.values()), default=0),
        curves=_curves(rows, searched, index_of),
    )


def _curves(rows: Rows, searched: SearchedRange, index_of: dict[str, int]) -> tuple[Curve, ...]:
    """Return a curve over the commits of a range for each measured number that varies, widest spread first."""
    points: dict[tuple[str, str], list[Point]] = {}
    for sha, probes in searched.own_runs.items():
        for probe in probes:
            if not probe.phase.is_unmodified:
                continue
            for output, values in (probe.metrics or {}).items():
                for name, value in values.items():
                    points.setdefault((output, name), []).append(
                        commit_point(
                            index_of[sha], sha, rows.judgement(probe) or Judgement.SKIP, float(value)
                        )
                    )
    moving = [key for key, each in points.items() if len({point.value for point in each}) > 1]
    ranked = sorted(moving, key=lambda key: (-_spread(points[key]), key))[:_MAX_CURVES]
    drawn = (curve(" ".join(key), points[key], places=len(index_of)) for key in ranked)
    return tuple(each for each in drawn if each is not None)


def _spread(points: Sequence[Point]) -> float:
    """Return the difference of the largest and the smallest absolute value, relative to the largest."""
    values = [abs(point.value) for point in points if point.value is not None]
    finite = [value for value in values if math.isfinite(value)]
    return (max(finite) - min(finite)) / max(finite) if finite and max(finite) > 0 else 0.0


_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_READABLE_LENGTH = 48
"""An address keeps this many characters of a name. With the digest it stays below the 255 bytes of a file name."""
_DIGEST_LENGTH = 10
"""An address has this many digits of a digest. With 40 bits, two names of one site do not meet by chance."""

INDEX = "index.html"
BISECTIONS = "bisections.html"
QUEUE = "queue.html"
QUEUE_EVENTS = "queue-events"
"""A server sends each change of the queue as a stream of events at this address."""
QUEUE_ENTRIES = "queue.json"
"""A server alone has the queue for machines at this address. One submission is `queue/ID.json`."""


def slug(text: str) -> str:
    """Return a unique file name for a text, which begins with the readable part of the text.

    >>> slug("../../etc/passwd")
    'etc-passwd-3754d6cb3a'
    """
    readable = _UNSAFE.sub("-", text).strip("-")[:_MAX_READABLE_LENGTH].rstrip("-")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{readable}-{digest}" if readable else digest


def bisection_address(name: str) -> str:
    """Return the address of the page of a bisection."""
    return f"bisections/{slug(name)}.html"


def script_address(name: str, side: str) -> str:
    """Return the address of the script that reproduces one side (`good` or `bad`) of a bisection's answer."""
    return f"bisections/{slug(name)}-reproduce-{side}.sh"


def task_graph_address(name: str) -> str:
    """Return the address of the task graph of a bisection's culprit."""
    return f"bisections/{slug(name)}-tasks.html"


def reduced_build_address(name: str) -> str:
    """Return the address of the archive with the reduced build of a bisection's culprit."""
    return f"bisections/{slug(name)}-reduced.tar.gz"


def commit_address(repository: str, sha: str) -> str:
    """Return the address of the page of a commit."""
    return f"commits/{slug(repository)}/{slug(sha)}.html"


def job_address(name: str) -> str:
    """Return the address of the overview of a nightly job."""
    return f"jobs/{slug(name)}.html"


def month_address(name: str, when: str) -> str:
    """Return the address of the nights of a job in one month, such as `2026-03`."""
    return f"jobs/{slug(name)}-{when}.html"


def case_address(name: str, cell: int) -> str:
    """Return the address of the page of a job's cell, which is a case on a platform."""
    return f"jobs/{slug(name)}/case-{cell}.html"


def incident_address(name: str, ordinal: int) -> str:
    """Return the address of the page of a job's incident."""
    return f"jobs/{slug(name)}/incident-{ordinal}.html"
