"""What is shown of a running bisection.

A driver calls `Progress` for each event. `PlainProgress` prints lines for logs and pipes. `LiveProgress` draws a
picture on a terminal. The `describe_*` functions give the phrases that both share; what is still to come is said by
`engine/estimate.py`.
"""

import textwrap
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text
from typing_extensions import override

from ...runner.cli_options import STYLES
from ...runner.probe.probe import ProbeResult
from ...runner.verdict.likeness import SURE_LIKENESS
from ...runner.verdict.rules import error_size
from ...store.vocabulary import (
    BuildSource,
    Judgement,
    Phase,
    Seeks,
    Verdict,
    build_phrase,
    duration,
    plural,
    verdict_phrase,
    wrap_text,
)
from ..engine.bisection import Bisection
from ..engine.estimate import (
    Estimate,
    describe_confidence,
    describe_estimate,
    describe_remaining,
    describe_wait,
    estimate_rest,
)
from ..engine.failures import highest_rate
from ..engine.range_search import RangeSearch
from ..engine.runs import (
    BisectionKnowledge,
    ConfirmationProgress,
    SearchProgress,
    WantedProbe,
)
from ..history.range import describe_stage


@dataclass(frozen=True, kw_only=True)
class StartedProbe:
    """A probe that starts, as it is shown."""

    ordinal: int
    phase: Phase
    repository: str
    commit: str
    subject: str | None = None
    """The first line of the commit's message."""
    date: datetime | None = None
    """The date of the commit."""
    rerun_reason: str | None = None
    """Why the commit is run once more. None for its first run."""
    stands_for: str | None = None
    """The end that the commit represents, where that is another commit with the same content."""


class Progress(Protocol):
    """Shows what happens in a bisection. Its driver calls one method for each event."""

    def show_state(self, bisection: Bisection) -> None:
        """Show how far the bisection has come. This call comes before any other that follows from that state."""
        ...

    def show_range(self, repository: str, *, commits: int, candidates: int) -> None:
        """Show a range that will be searched. `candidates` of its `commits` can change the result."""
        ...

    def show_remaining(self, left: SearchProgress) -> None:
        """Show how much of a search is left, when it begins and each time that it has narrowed the range."""
        ...

    def show_confirmation(self, left: ConfirmationProgress) -> None:
        """Show how sure the search is of the one commit that is left."""
        ...

    def probe_started(self, probe: StartedProbe) -> None:
        """Show that a probe starts."""
        ...

    def show_activity(self, ordinal: int, place: str, text: str) -> None:
        """Show what a worker does for a probe. `place` is a slot; on a farm it also names the machine."""
        ...

    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        """Show the result of a probe, which is stored."""
        ...

    def probe_cancelled(self, ordinal: int) -> None:
        """Show that a probe was stopped because its result is no longer needed."""
        ...

    def notice(self, text: str) -> None:
        """Show a warning."""
        ...


@dataclass(kw_only=True)
class _ShownRun:
    """A running probe in a view. Times are of `time.monotonic`."""

    probe: StartedProbe
    start_time: float
    report_time: float
    """When a line about the run was printed last."""
    place: str | None = None
    activity: str = "waiting for a worker"

    @classmethod
    def start(cls, probe: StartedProbe) -> Self:
        now = time.monotonic()
        return cls(probe=probe, start_time=now, report_time=now)


REPORT_INTERVAL = 60.0
"""A run that is still going on gets a line each time this many seconds have passed. More lines would fill a log."""


CANCELLED = "stopped: its result is not waited for any more"


class PlainProgress(Progress):
    """Prints lines for logs and pipes: one for each event. None of them is wrapped."""

    def __init__(self, console: Console, *, builds: bool = True) -> None:
        self._console = console
        self._builds = builds
        self._runs: dict[int, _ShownRun] = {}
        self._last: int | None = None
        """The number of the run that the last printed line started."""
        self._bisection: Bisection | None = None
        self._left: SearchProgress | None = None
        """What was left of the search when that was printed last. None once a run has ended since."""
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._ticker is not None:
            self._ticker.join()

    def _tick(self) -> None:
        while not self._over.wait(REPORT_INTERVAL / 4):
            self.print_running(time.monotonic())

    def print_running(self, now: float) -> None:
        """Print a line for each run that has had none for `REPORT_INTERVAL`. `now` is a time of `time.monotonic`."""
        for ordinal, run in [*self._runs.items()]:
            if now - run.report_time >= REPORT_INTERVAL:
                run.report_time = now
                self._print(f"run {ordinal:<3} {run.activity}, {duration(now - run.start_time)} so far")
                self._last = None

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def _print_about_run(self, ordinal: int, text: str) -> None:
        """Print a line about a run. It has the run's number, unless it stands right below the run's own line."""
        start = " " * 7 if self._last == ordinal else f"run {ordinal:<3}"
        self._print(f"{start} {text}")
        self._last = None

    @override
    def show_state(self, bisection: Bisection) -> None:
        self._bisection = bisection

    @override
    def show_range(self, repository: str, *, commits: int, candidates: int) -> None:
        self._print(describe_stage(repository, commits=commits, candidates=candidates))

    @override
    def show_remaining(self, left: SearchProgress) -> None:
        if left == self._left:
            return  # no run has ended since
        self._left = left
        self._print(describe_remaining(left, self._estimate()))

    def _estimate(self) -> Estimate | None:
        return None if self._bisection is None else estimate_rest(self._bisection, builds=self._builds)

    @override
    def show_confirmation(self, left: ConfirmationProgress) -> None:
        self._print(describe_confidence(left, self._estimate()))

    @override
    def probe_started(self, probe: StartedProbe) -> None:
        self._runs[probe.ordinal] = _ShownRun.start(probe)
        parts = (describe_run(probe), describe_commit(probe), describe_reason(probe))
        self._print(" ".join(filter(None, parts)))
        self._last = probe.ordinal

    @override
    def show_activity(self, ordinal: int, place: str, text: str) -> None:
        self._runs[ordinal].activity = text

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        self._left = None
        run = self._runs.pop(ordinal)
        self._print_about_run(ordinal, describe_result(result))
        for line in unexpected_end_notice(self._bisection, run.probe, result):
            self._print(line)

    @override
    def probe_cancelled(self, ordinal: int) -> None:
        self._runs.pop(ordinal, None)
        self._print_about_run(ordinal, CANCELLED)

    @override
    def notice(self, text: str) -> None:
        self._print(f"note: {text}")
        self._last = None


_INDENT_COLUMNS = 8
"""Lines below a run's own are indented by this many columns."""


class LiveProgress(Progress):
    """Draws a picture on a terminal: the range, what is still to come, and what each slot does.

    A line for each run that has ended stays above the picture. No line is wider than the terminal, and none is broken
    within a word.
    """

    def __init__(self, console: Console, *, builds: bool = True) -> None:
        self._builds = builds
        self._bisection: Bisection | None = None
        self._stage = ""
        self._left: SearchProgress | ConfirmationProgress | None = None
        self._picture: RangePicture | None = None
        self._estimate: Estimate | None = None
        self._estimated_at = -1
        """The number of ended runs at the time of the estimate."""
        self._runs: dict[int, _ShownRun] = {}
        self._begun = time.monotonic()
        self._console = console
        self._live = Live(self, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Group(*self._lines(options.max_width))

    def _lines(self, width: int) -> Iterator[Text]:
        yield from _picture_lines(self._stage, width, style="bold")
        if self._picture is not None:
            yield Text(self._picture.line(width), no_wrap=True)
            yield from _picture_lines(LEGEND, width, style="dim")
        elapsed = f"{duration(time.monotonic() - self._begun)} so far"
        yield from _picture_lines("; ".join(filter(None, (self._describe_left(), elapsed))), width)
        for run in [*self._runs.values()]:
            place = "" if run.place is None else f"{run.place}: "
            elapsed = duration(time.monotonic() - run.start_time)
            yield from _picture_lines(f"{place}{describe_run(run.probe)}, {run.activity}, {elapsed}", width)
            if text := f"{describe_reason(run.probe)} {describe_commit(run.probe)}".strip():
                yield Text(
                    " " * _INDENT_COLUMNS + first_words(text, width - _INDENT_COLUMNS),
                    style="dim",
                    no_wrap=True,
                )

    def _describe_left(self) -> str:
        match self._left:
            case SearchProgress() as left:
                return describe_remaining(left, self._estimate)
            case ConfirmationProgress() as left:
                return describe_confidence(left, self._estimate)
            case None:
                return "" if self._estimate is None else describe_estimate(self._estimate)

    @override
    def show_state(self, bisection: Bisection) -> None:
        self._bisection = bisection
        search = bisection.state.search
        if search is None:
            return
        self._picture = RangePicture.from_search(search, bisection.known)
        ended = len(bisection.known.log.ended)
        if self._estimate is None or ended != self._estimated_at:
            self._estimate, self._estimated_at = estimate_rest(bisection, builds=self._builds), ended

    @override
    def show_range(self, repository: str, *, commits: int, candidates: int) -> None:
        self._stage = describe_stage(repository, commits=commits, candidates=candidates)
        self._left = None

    @override
    def show_remaining(self, left: SearchProgress) -> None:
        self._left = left

    @override
    def show_confirmation(self, left: ConfirmationProgress) -> None:
        self._left = left

    @override
    def probe_started(self, probe: StartedProbe) -> None:
        self._runs[probe.ordinal] = _ShownRun.start(probe)

    @override
    def show_activity(self, ordinal: int, place: str, text: str) -> None:
        self._runs[ordinal].place = place
        self._runs[ordinal].activity = text

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        probe = self._runs[ordinal].probe
        self._print_result(ordinal, describe_result(result), style=STYLES[result.judgement])
        if notice := unexpected_end_notice(self._bisection, probe, result):
            *sentences, log = notice
            for sentence in sentences:
                for part in wrap_text(sentence, self._console.width):
                    self._print(Text(part))
            self._print(Text(log))

    @override
    def probe_cancelled(self, ordinal: int) -> None:
        self._print_result(ordinal, CANCELLED, style="dim")

    def _print_result(self, ordinal: int, text: str, *, style: str) -> None:
        """Print the run, its commit, its result and, as far as there is room, why it was made or what the commit is."""
        probe, width = self._runs.pop(ordinal).probe, self._console.width
        title = f"run {probe.ordinal:<3} {probe.repository} {probe.commit[:12]}"
        first, *rest = wrap_text(f"{title} {text}", width, indent=_INDENT_COLUMNS)
        line = Text(title, no_wrap=True).append(first.removeprefix(title), style=style)
        room = width - len(first) - 2
        if not rest and room > _INDENT_COLUMNS:
            line.append(
                f"  {first_words(describe_reason(probe) or describe_commit(probe), room)}", style="dim"
            )
        self._print(line)
        for part in rest:
            self._print(Text(part, style=style, no_wrap=True))

    def _print(self, line: Text) -> None:
        # A path or a long word is not broken, so that it can be copied.
        self._console.print(line, soft_wrap=True)

    @override
    def notice(self, text: str) -> None:
        for part in wrap_text(f"note: {text}", self._console.width, indent=len("note: ")):
            self._print(Text(part, style="yellow", no_wrap=True))


def _picture_lines(text: str, width: int, *, style: str = "") -> Iterator[Text]:
    """Yield a text of the picture in lines of at most `width` columns, broken between words.

    A longer word is cut, because the height of the picture has to be known.
    """
    if text:
        for part in wrap_text(text, width, indent=2):
            yield Text(part, style=style, no_wrap=True, overflow="ellipsis")


def first_words(text: str, width: int) -> str:
    """Return as many of the first words as fit, with an ellipsis where some do not.

    >>> first_words("one rounding mode", 12), first_words("one", 12)
    ('one …', 'one')
    """
    return textwrap.shorten(text, max(2, width), placeholder=" …")


NOT_RUN, PASSED, FAILED, SKIPPED, RUNNING = ".", "o", "x", "?", "*"

LEGEND = "o passes  x fails  ? skipped  * running  . not run"
_MARK_PRIORITY = (RUNNING, FAILED, PASSED, SKIPPED, NOT_RUN)
"""Of several commits that share a place of the picture, the first of these marks is shown."""


@dataclass(frozen=True, kw_only=True)
class RangePicture:
    """A mark for each candidate, from the old end to the new one. `ends` are the words for the two ends."""

    ends: tuple[str, str]
    marks: str

    @classmethod
    def from_search(cls, search: RangeSearch, known: BisectionKnowledge) -> "RangePicture":
        """Return the picture of what the probes show so far, running ones included."""
        marks = "".join(_marks(search.loaded.candidate_contents, known))
        regression = search.loaded.range.seeks is Seeks.REGRESSION
        return cls(ends=("good", "bad") if regression else ("bad", "good"), marks=marks)

    def line(self, width: int) -> str:
        """Return the picture in one line of at most `width` columns. Neighbours share a place where these are too few.

        >>> RangePicture(ends=("good", "bad"), marks="..x.o.").line(60)
        'good ..x.o. bad'
        >>> RangePicture(ends=("good", "bad"), marks="..x.o.").line(12)
        'good .xo bad'
        """
        old, new = self.ends
        places = max(1, min(len(self.marks), width - len(old) - len(new) - 2))
        bounds = [place * len(self.marks) // places for place in range(places + 1)]
        shared = (self.marks[start:end] for start, end in pairwise(bounds))
        drawn = "".join(next(mark for mark in _MARK_PRIORITY if mark in group) for group in shared if group)
        return f"{old} {drawn} {new}"


def _marks(contents: Iterable[str | None], known: BisectionKnowledge) -> Iterator[str]:
    running = {probe.wanted.target.content for probe in known.log.running}
    for content in contents:
        tally = known.log.tally(content or "")
        if content in running:
            yield RUNNING
        elif tally[Judgement.BAD]:
            yield FAILED
        elif tally[Judgement.GOOD]:
            yield PASSED
        else:
            yield SKIPPED if content is None or tally[Judgement.SKIP] else NOT_RUN


def describe_run(probe: StartedProbe) -> str:
    """Return the number and the phase of a run, and its commit."""
    return f"run {probe.ordinal:<3} {probe.phase.value:<9} {probe.repository} {probe.commit[:12]}"


def describe_commit(probe: StartedProbe) -> str:
    """Return the date and the subject of a commit. The text is empty where both are unknown."""
    day = "" if probe.date is None else f"{probe.date:%Y-%m-%d}"
    subject = "".join(letter if letter.isprintable() else " " for letter in probe.subject or "")
    return " ".join(filter(None, (day, subject)))


def describe_reason(probe: StartedProbe) -> str:
    """Return in brackets why a commit is run again, or in place of an end. The text is empty where it is neither."""
    if probe.rerun_reason:
        return f"({probe.rerun_reason})"
    return f"(for {probe.stands_for[:12]}, which reads the same)" if probe.stands_for else ""


def represented_end(search: RangeSearch | None, wanted: WantedProbe) -> str | None:
    """Return the end of the range in whose place a target with the same content is run. Return None elsewhere."""
    if search is None or wanted.phase is not Phase.ENDPOINT:
        return None
    loaded, target = search.loaded, wanted.target
    ends = ((loaded.old_content, loaded.range.old), (loaded.new_content, loaded.range.new))
    return next((end for content, end in ends if content == target.content and end != target.commit), None)


def rerun_reason(known: BisectionKnowledge, wanted: WantedProbe) -> str | None:
    """Return why a target is run once more. Return None before its first run has ended."""
    earlier = known.log.probes_for(wanted.target.content)
    if not earlier:
        return None
    if all(probe.judgement is Judgement.SKIP for probe in earlier):
        return "again: it could not be judged"
    if wanted.phase is Phase.ENDPOINT and known.log.ended[-1].judgement is Judgement.SKIP:
        return "again: to see whether it can still be judged"
    if len({probe.judgement for probe in earlier} - {Judgement.SKIP}) > 1:
        return "again: its runs contradict each other"
    always = "fails" if earlier[-1].judgement is Judgement.BAD else "passes"
    runs = sum(probe.judgement is not Judgement.SKIP for probe in earlier)
    match wanted.phase:
        case Phase.ENDPOINT:
            done, rare = ("failed", "pass") if always == "fails" else ("passed", "failure")
            rate = f"a {rare} in up to {round(100 * highest_rate(runs))} % of its runs is still possible"
            return f"again: {plural(runs, 'run')} of this end {done}, but {rate}"
        case Phase.CONFIRM:
            return f"again: to see whether it always {always}"
        case _:
            done, rare = ("failed", "pass") if always == "fails" else ("passed", "fail")
            if runs == 1:
                return f"again: it {done} in its one run, which may be chance"
            return f"again: it {done} in all {runs} runs, and may still {rare} now and then"


def describe_result(result: ProbeResult) -> str:
    """Return a verdict with its signature, and the time that the run took."""
    found = result.classification
    verdict = verdict_phrase(found.verdict, found.signature, found.source)
    if found.verdict is Verdict.PASS and result.judgement is Judgement.BAD:
        verdict = f"what --bad-when asks for was seen, verdict {verdict}"
    size = error_size(found.metrics)
    error = f"{size}, " if size else ""
    built = result.build_source is BuildSource.BUILT
    build = f"{build_phrase(result.build_source, result.build_seconds)}, " if built else ""
    return f"{_judgement_phrase(result)}: {verdict}, {error}{build}run {result.run_seconds:.1f} s"


def _judgement_phrase(result: ProbeResult) -> str:
    """Return the judgement of a run. A failure that is not, or may not be, the failing end's has words of its own."""
    if result.likeness is None or result.likeness >= SURE_LIKENESS or result.judgement is Judgement.GOOD:
        return result.judgement.value
    return "perhaps another failure" if result.judgement is Judgement.BAD else "another failure"


def unexpected_end_notice(
    bisection: Bisection | None, probe: StartedProbe, result: ProbeResult
) -> Sequence[str]:
    """Return lines about an end whose first run does not show what it stands for. There are none for any other run.

    They say what the end does and how many reruns it gets. The last line is the path of the log. A reader can stop the
    bisection before these reruns.
    """
    if (
        bisection is None
        or probe.phase is not Phase.ENDPOINT
        or probe.rerun_reason
        or result.manual_run is not None
        or (result.symptoms is not None and result.symptoms.missing_test is not None)
    ):
        return ()
    question = bisection.known.question
    regression = question.range.seeks is Seeks.REGRESSION
    good, bad = (question.range.old, question.range.new)[:: 1 if regression else -1]
    end = probe.stands_for or probe.commit
    if end == good and result.judgement is Judgement.BAD and not question.gallop:
        notice, wanted = "the good end fails", Judgement.GOOD
    elif end == bad and result.judgement is Judgement.GOOD:
        notice, wanted = "the bad end passes", Judgement.BAD
    else:
        return ()
    if question.starts_at_merge_base and end == question.range.old:
        notice = f"the merge base {'fails' if regression else 'passes'} too"
    wait = describe_wait(bisection, wanted)
    notice = notice if wait is None else f"{notice}, and {wait}"
    return notice, "if that is not as you meant it, stop here and see", str(result.log)
