"""Lines for logs and pipes: each run is told once, when it starts, and its verdict below it; nothing is wrapped."""

import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console
from typing_extensions import override

from ....runner.probe.records import ProbeResult
from ....store.words import duration
from ...engine.bisection import Bisection
from ...engine.needs import Confirming, Narrowed
from .estimate import estimate_of
from .picture import RangePicture, describe_ends
from .progress import Progress, StartedProbe
from .words import (
    CANCELLED,
    describe_commit,
    describe_confidence,
    describe_estimate,
    describe_reason,
    describe_remaining,
    describe_result,
    describe_run,
    describe_stage,
    told_of_end,
)

EVERY = 60.0
"""Seconds after which a run that is still going on is told of, again and again."""
_WIDEST = 100
"""Columns of a picture, in a log that has no width."""


@dataclass
class _Run:
    probe: StartedProbe
    told: float = field(default_factory=time.monotonic)
    begun: float = field(default_factory=time.monotonic)
    activity: str = "waiting for a worker"


class PlainProgress(Progress):
    """A line an event."""

    def __init__(self, console: Console, *, builds: bool = True) -> None:
        self._console = console
        self._builds = builds
        self._runs: dict[int, _Run] = {}
        self._last: int | None = None
        self._standing: Bisection | None = None
        self._left: Narrowed | None = None
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
        while not self._over.wait(EVERY / 4):
            self.tell_of_running(time.monotonic())

    def tell_of_running(self, now: float) -> None:
        """Tell of each run of which nothing was told for a minute; `now` is a time of `time.monotonic`."""
        for ordinal, run in [*self._runs.items()]:
            if now - run.told >= EVERY:
                run.told = now
                self._print(f"run {ordinal:<3} {run.activity}, {duration(now - run.begun)} so far")
                self._last = None

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _print_about(self, ordinal: int, text: str) -> None:
        """A line below the run's own, or with its number where others were told of since."""
        start = " " * 7 if self._last == ordinal else f"run {ordinal:<3}"
        self._print(f"{start} {text}")
        self._last = None

    @override
    def standing(self, bisection: Bisection) -> None:
        self._standing = bisection

    @override
    def stage(self, repository: str, *, commits: int, candidates: int) -> None:
        self._print(describe_stage(repository, commits=commits, candidates=candidates))

    @override
    def remaining(self, left: Narrowed) -> None:
        if left == self._left:
            return  # nothing ended since
        self._left = left
        self._print(describe_remaining(left))
        search = None if self._standing is None else self._standing.state.search
        if self._standing is None or search is None:
            return
        known = self._standing.known
        self._print(f"        {RangePicture.of(search, known).line(_WIDEST)}")
        estimate = estimate_of(self._standing, builds=self._builds)
        coming = "" if estimate is None else f"; {describe_estimate(estimate)}"
        self._print(f"        {describe_ends(search, known)}{coming}")

    @override
    def confirming(self, left: Confirming) -> None:
        self._print(describe_confidence(left))

    @override
    def probe_started(self, probe: StartedProbe) -> None:
        self._runs[probe.ordinal] = _Run(probe)
        parts = (describe_run(probe), describe_commit(probe), describe_reason(probe))
        self._print(" ".join(filter(None, parts)))
        self._last = probe.ordinal

    @override
    def activity(self, ordinal: int, where: str, text: str) -> None:
        self._runs[ordinal].activity = text

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        self._left = None
        run = self._runs.pop(ordinal)
        self._print_about(ordinal, describe_result(result))
        for line in told_of_end(self._standing, run.probe, result):
            self._print(line)

    @override
    def probe_cancelled(self, ordinal: int) -> None:
        self._runs.pop(ordinal, None)
        self._print_about(ordinal, CANCELLED)

    @override
    def notice(self, text: str) -> None:
        self._print(f"note: {text}")
        self._last = None
