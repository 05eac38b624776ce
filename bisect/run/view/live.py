"""The live picture on a terminal: the range, what is to come, what each slot does; verdicts stay above it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text
from typing_extensions import override

from ....runner.probe.records import ProbeResult
from ....store.words import duration
from ...engine.bisection import Bisection
from ...engine.needs import Confirming, Narrowed
from .estimate import estimate_of
from .picture import LEGEND, RangePicture, describe_ends
from .progress import Progress, StartedProbe
from .words import (
    CANCELLED,
    STYLES,
    Estimate,
    describe_commit,
    describe_confidence,
    describe_estimate,
    describe_reason,
    describe_remaining,
    describe_result,
    describe_run,
    describe_stage,
    first_words,
    fitted,
    told_of_end,
)

_INDENT = 8


@dataclass
class _Run:
    probe: StartedProbe
    begun: float
    where: str | None = None
    activity: str = "waiting for a worker"


class LiveProgress(Progress):
    """Lines for each verdict, which stay, above a picture that is drawn over. No line is wider than the terminal, and
    none is broken within a word."""

    def __init__(self, console: Console, *, builds: bool = True) -> None:
        self._builds = builds
        self._standing: Bisection | None = None
        self._stage = ""
        self._left = ""
        self._ends = ""
        self._picture: RangePicture | None = None
        self._estimate: Estimate | None = None
        self._foreseen_at = -1
        self._runs: dict[int, _Run] = {}
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
        yield from _texts(self._stage, width, style="bold")
        if self._picture is not None:
            yield Text(self._picture.line(width), no_wrap=True)
            yield from _texts(LEGEND, width, style="dim")
        yield from _texts("; ".join(filter(None, (self._left, self._ends))), width)
        coming = [] if self._estimate is None else [describe_estimate(self._estimate)]
        yield from _texts("; ".join([*coming, f"{duration(time.monotonic() - self._begun)} so far"]), width)
        for run in [*self._runs.values()]:
            where = "" if run.where is None else f"{run.where}: "
            elapsed = duration(time.monotonic() - run.begun)
            yield from _texts(f"{where}{describe_run(run.probe)}, {run.activity}, {elapsed}", width)
            if told := f"{describe_reason(run.probe)} {describe_commit(run.probe)}".strip():
                yield Text(" " * _INDENT + first_words(told, width - _INDENT), style="dim", no_wrap=True)

    @override
    def standing(self, bisection: Bisection) -> None:
        self._standing = bisection
        search = bisection.state.search
        if search is None:
            return
        self._picture = RangePicture.of(search, bisection.known)
        self._ends = describe_ends(search, bisection.known)
        ended = len(bisection.known.log.ended)
        if self._estimate is None or ended != self._foreseen_at:
            self._estimate, self._foreseen_at = estimate_of(bisection, builds=self._builds), ended

    @override
    def stage(self, repository: str, *, commits: int, candidates: int) -> None:
        self._stage = describe_stage(repository, commits=commits, candidates=candidates)
        self._left = ""

    @override
    def remaining(self, left: Narrowed) -> None:
        self._left = describe_remaining(left)

    @override
    def confirming(self, left: Confirming) -> None:
        self._left = describe_confidence(left)

    @override
    def probe_started(self, probe: StartedProbe) -> None:
        self._runs[probe.ordinal] = _Run(probe, begun=time.monotonic())

    @override
    def activity(self, ordinal: int, where: str, text: str) -> None:
        self._runs[ordinal].where = where
        self._runs[ordinal].activity = text

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        probe = self._runs[ordinal].probe
        self._stay(ordinal, describe_result(result), style=STYLES[result.judgement])
        if told := told_of_end(self._standing, probe, result):
            *sentences, log = told
            for sentence in sentences:
                for part in fitted(sentence, self._console.width):
                    self._print(Text(part))
            self._print(Text(log))

    @override
    def probe_cancelled(self, ordinal: int) -> None:
        self._stay(ordinal, CANCELLED, style="dim")

    def _stay(self, ordinal: int, text: str, *, style: str) -> None:
        """Print which run it was, with its commit, and what came of it below."""
        probe, width = self._runs.pop(ordinal).probe, self._console.width
        title, commit = describe_run(probe), describe_commit(probe)
        room = width - len(title) - 1
        line = Text(title, no_wrap=True)
        if commit and room > _INDENT:
            line.append(f" {first_words(commit, room)}", style="dim")
        self._print(line)
        told = f"{text} {describe_reason(probe)}".rstrip()
        for part in fitted(f"{'':{_INDENT}}{told}", width, indent=_INDENT):
            self._print(Text(part, style=style, no_wrap=True))

    def _print(self, line: Text) -> None:
        # What does not fit stands as a whole, for whoever copies it: a path, or one long word.
        self._console.print(line, soft_wrap=True)

    @override
    def notice(self, text: str) -> None:
        for part in fitted(f"note: {text}", self._console.width, indent=len("note: ")):
            self._print(Text(part, style="yellow", no_wrap=True))


def _texts(text: str, width: int, *, style: str = "") -> Iterator[Text]:
    """Lines of the picture, broken between words; what is wider than the terminal is cut, for the picture's height has
    to be known."""
    if text:
        for part in fitted(text, width, indent=2):
            yield Text(part, style=style, no_wrap=True, overflow="ellipsis")
