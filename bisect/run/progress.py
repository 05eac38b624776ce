"""What the user sees while a bisection runs: a live picture on a terminal, plain lines elsewhere."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from ...runner.probe.records import ProbeResult
from ...store.vocabulary import BuildSource, Judgement, Phase
from ...store.words import duration, plural
from ..engine.error_scale import error_size

STYLES: Mapping[Judgement, str] = {Judgement.GOOD: "green", Judgement.BAD: "red", Judgement.SKIP: "yellow"}

CANCELLED = "stopped: its result has become worthless"


class Progress(Protocol):
    """Told by the driver what happens."""

    def stage(self, repository: str, *, commits: int, candidates: int) -> None:
        """A range is going to be searched: `candidates` of its `commits` are left after the collapse."""
        ...

    def remaining(self, candidates: int, expected_steps: float) -> None:
        """The search has narrowed the range, or begins."""
        ...

    def confirming(self, confidence: float, wanted: float) -> None:
        """One commit is left, and is run beside its parent until the wanted confidence is reached."""
        ...

    def probe_started(self, ordinal: int, phase: Phase, repository: str, commit: str) -> None:
        """A probe starts."""
        ...

    def activity(self, ordinal: int, slot: int, text: str) -> None:
        """What is done for a probe now, and in which slot."""
        ...

    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        """A probe is finished and stored."""
        ...

    def probe_cancelled(self, ordinal: int) -> None:
        """A probe was stopped, for it had lost its value."""
        ...

    def notice(self, text: str) -> None:
        """A warning."""
        ...


class PlainProgress(Progress):
    """A line an event, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._titles: dict[int, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @override
    def stage(self, repository: str, *, commits: int, candidates: int) -> None:
        self._print(describe_stage(repository, commits=commits, candidates=candidates))

    @override
    def remaining(self, candidates: int, expected_steps: float) -> None:
        self._print(describe_remaining(candidates, expected_steps))

    @override
    def confirming(self, confidence: float, wanted: float) -> None:
        self._print(describe_confidence(confidence, wanted))

    @override
    def probe_started(self, ordinal: int, phase: Phase, repository: str, commit: str) -> None:
        self._titles[ordinal] = describe_run(ordinal, phase, repository, commit)
        self._print(self._titles[ordinal])

    @override
    def activity(self, ordinal: int, slot: int, text: str) -> None:
        return None

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        self._print(f"{self._titles[ordinal]}  {describe_result(result)}")

    @override
    def probe_cancelled(self, ordinal: int) -> None:
        self._print(f"{self._titles[ordinal]}  {CANCELLED}")

    @override
    def notice(self, text: str) -> None:
        self._print(f"note: {text}")


@dataclass
class _Run:
    title: str
    begun: float = field(default_factory=time.monotonic)
    slot: int | None = None
    activity: str = "waiting for a worker"


class LiveProgress(Progress):
    """A line a verdict, which stays, above a picture that is drawn over: what is left, what each slot does."""

    def __init__(self, console: Console) -> None:
        self._stage = ""
        self._left = ""
        self._expected_steps = 0.0
        self._runs: dict[int, _Run] = {}
        self._durations: list[float] = []
        self._console = console
        self._live = Live(self, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __rich__(self) -> RenderableType:
        slots = Table.grid(padding=(0, 2))
        for run in list(self._runs.values()):
            elapsed = time.monotonic() - run.begun
            slot = "" if run.slot is None else f"slot {run.slot}"
            slots.add_row(slot, Text(run.title), Text(f"{run.activity}, {elapsed:.0f} s"))
        return Group(
            Text(self._stage, style="bold", overflow="ellipsis", no_wrap=True),
            Text(f"{self._left}{self._time_left()}"),
            slots,
        )

    def _time_left(self) -> str:
        if not self._durations or not self._expected_steps:
            return ""
        mean = sum(self._durations) / len(self._durations)
        return f", about {duration(mean * self._expected_steps)}"

    @override
    def stage(self, repository: str, *, commits: int, candidates: int) -> None:
        self._stage = describe_stage(repository, commits=commits, candidates=candidates)
        self.remaining(candidates, math.log2(candidates))

    @override
    def remaining(self, candidates: int, expected_steps: float) -> None:
        self._left = describe_remaining(candidates, expected_steps)
        self._expected_steps = expected_steps

    @override
    def confirming(self, confidence: float, wanted: float) -> None:
        self._left = describe_confidence(confidence, wanted)
        self._expected_steps = 0.0

    @override
    def probe_started(self, ordinal: int, phase: Phase, repository: str, commit: str) -> None:
        self._runs[ordinal] = _Run(describe_run(ordinal, phase, repository, commit))

    @override
    def activity(self, ordinal: int, slot: int, text: str) -> None:
        self._runs[ordinal].slot = slot
        self._runs[ordinal].activity = text

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        run = self._runs.pop(ordinal)
        self._durations.append(time.monotonic() - run.begun)
        line = Text(f"{run.title}  ", overflow="ellipsis", no_wrap=True)
        self._console.print(line.append(describe_result(result), style=STYLES[result.judgement]))

    @override
    def probe_cancelled(self, ordinal: int) -> None:
        self._console.print(Text(f"{self._runs.pop(ordinal).title}  {CANCELLED}", style="dim"))

    @override
    def notice(self, text: str) -> None:
        self._console.print(Text(f"note: {text}", style="yellow"))


def describe_stage(repository: str, *, commits: int, candidates: int) -> str:
    """The range in one line."""
    text = f"{repository}: {plural(commits, 'commit')} in the range"
    return text if candidates == commits else f"{text}, {candidates} that can change the result"


def describe_run(ordinal: int, phase: Phase, repository: str, commit: str) -> str:
    """Which run of which commit, and why."""
    return f"run {ordinal:<3} {phase.value:<9} {repository} {commit[:12]}"


def describe_remaining(candidates: int, expected_steps: float) -> str:
    """How much of the search is left."""
    return f"{plural(candidates, 'commit')} left, about {plural(math.ceil(expected_steps), 'step')}"


def describe_confidence(confidence: float, wanted: float) -> str:
    """How sure the search is of the one commit that is left."""
    return f"1 commit left, confirming it beside its parent: confidence {confidence:.4f}, until {wanted:g}"


def describe_result(result: ProbeResult) -> str:
    """A verdict with its signature and what it took."""
    found = result.classification
    signature = f" ({found.signature})" if found.signature else ""
    built = result.build_source is not BuildSource.NONE
    size = error_size(found.metrics)
    error = f"{size}, " if size else ""
    build = f"build {result.build_source.value} {result.build_seconds:.1f} s, " if built else ""
    return f"{result.judgement.value}: {found.verdict.value}{signature}, {error}{build}run {result.run_seconds:.1f} s"
