"""What is shown of a bisection on a console of 60 columns: plain lines, and the live picture."""

import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from precision_bisect.bisect.run.progress import (
    LiveProgress,
    PlainProgress,
    describe_remaining,
    describe_result,
    describe_stage,
)
from precision_bisect.runner.probe.builder import BuiltToolchain
from precision_bisect.runner.probe.records import ProbeResult
from precision_bisect.runner.verdict.ending import Ending
from precision_bisect.runner.verdict.verdict import Classification
from precision_bisect.store.vocabulary import BuildSource, Judgement, Phase, Verdict

COLUMNS = 60
TITLE = "run 7   search    tool 0123456789ab"


def console_to(text: io.StringIO, *, terminal: bool = False) -> Console:
    return Console(file=text, width=COLUMNS, force_terminal=terminal, color_system=None, legacy_windows=False)


def result(
    *,
    judgement: Judgement = Judgement.BAD,
    verdict: Verdict = Verdict.MISMATCH,
    signature: str | None = "out: 3/512 differ",
    metrics: Mapping[str, Mapping[str, float]] | None = None,
    source: BuildSource = BuildSource.BUILT,
) -> ProbeResult:
    toolchain = BuiltToolchain(key="0" * 64, source=source, seconds=2.0, step_seconds={})
    return ProbeResult(
        classification=Classification(
            verdict=verdict, signature=signature, evidence=(), metrics=metrics or {}
        ),
        judgement=judgement,
        ending=Ending(exit_code=1, signal=None, timed_out=False, cancelled=False),
        command=(),
        missing_options=(),
        toolchain=None if source is BuildSource.NONE else toolchain,
        build_seconds=2.0,
        run_seconds=0.5,
        surroundings={},
        slot=0,
        host="machine",
        log=Path("run.log.gz"),
        build_directory=None,
    )


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (result(), "bad: mismatch (out: 3/512 differ), build built 2.0 s, run 0.5 s"),
        (
            result(judgement=Judgement.GOOD, verdict=Verdict.PASS, signature=None, source=BuildSource.NONE),
            "good: pass, run 0.5 s",
        ),
        (
            result(signature=None, metrics={"a": {"max_diff": 0.5}, "b": {"max_diff": 2.0}}),
            "bad: mismatch, max diff 2, build built 2.0 s, run 0.5 s",
        ),
    ],
)
def test_a_result_says_its_verdict_its_error_and_what_it_took(shown: ProbeResult, text: str) -> None:
    assert describe_result(shown) == text


def test_counts_are_told_in_words() -> None:
    assert describe_stage("tool", commits=1, candidates=1) == "tool: 1 commit in the range"
    assert describe_stage("tool", commits=9, candidates=4) == (
        "tool: 9 commits in the range, 4 that can change the result"
    )
    assert describe_remaining(1, 0.2) == "1 commit left, about 1 step"
    assert describe_remaining(4, 2.0) == "4 commits left, about 2 steps"


def test_plain_lines_are_one_an_event_however_long_and_markup_is_text() -> None:
    written = io.StringIO()
    with PlainProgress(console_to(written)) as progress:
        progress.stage("tool", commits=9, candidates=4)
        progress.remaining(4, 2.0)
        progress.probe_started(7, Phase.SEARCH, "tool", "0123456789abcdef")
        progress.activity(7, 0, "builds")
        progress.probe_finished(7, result(signature="[red]out[/red] " + "x" * 80))
        progress.probe_started(8, Phase.CONFIRM, "tool", "fedcba9876543210")
        progress.probe_cancelled(8)
        progress.confirming(0.98765, 0.999)
        progress.notice("[bold]mind[/bold] this")
    assert written.getvalue().splitlines() == [
        "tool: 9 commits in the range, 4 that can change the result",
        "4 commits left, about 2 steps",
        TITLE,
        f"{TITLE}  bad: mismatch ([red]out[/red] {'x' * 80}), build built 2.0 s, run 0.5 s",
        "run 8   confirm   tool fedcba987654",
        "run 8   confirm   tool fedcba987654  stopped: its result has become worthless",
        "1 commit left, confirming it beside its parent: confidence 0.9877, until 0.999",
        "note: [bold]mind[/bold] this",
    ]


def picture(progress: LiveProgress) -> list[str]:
    """The live picture as it is drawn now."""
    written = io.StringIO()
    console_to(written).print(progress)
    return [line.rstrip() for line in written.getvalue().splitlines()]


def test_the_picture_shows_what_is_left_and_what_each_slot_does() -> None:
    progress = LiveProgress(console_to(io.StringIO(), terminal=True))
    progress.stage("tool", commits=9, candidates=8)
    progress.probe_started(7, Phase.SEARCH, "tool", "0123456789abcdef")
    stage, left, *slots = picture(progress)
    assert stage == "tool: 9 commits in the range, 8 that can change the result"
    assert left == "8 commits left, about 3 steps"
    assert "waiting for" in " ".join(slots)
    progress.activity(7, 1, "builds")
    slots = picture(progress)[2:]
    assert slots[0].startswith(f"slot 1  {TITLE}")
    assert "builds, 0 s" in " ".join(slots)
    progress.confirming(0.9, 0.999)
    assert picture(progress)[1].startswith("1 commit left, confirming it beside its parent:")


def test_the_time_that_is_left_follows_from_the_probes_so_far() -> None:
    progress = LiveProgress(console_to(io.StringIO(), terminal=True))
    progress.stage("tool", commits=8, candidates=8)
    for ordinal, seconds in ((1, 30.0), (2, 50.0)):
        progress.probe_started(ordinal, Phase.SEARCH, "tool", "0123456789abcdef")
        progress._runs[ordinal].begun -= seconds
        progress.probe_finished(ordinal, result())
    progress.remaining(4, 2.0)
    assert picture(progress)[1] == "4 commits left, about 2 steps, about 1 min 20 s"


def test_above_the_picture_each_verdict_stays_whole() -> None:
    written = io.StringIO()
    with LiveProgress(console_to(written, terminal=True)) as progress:
        progress.stage("tool", commits=9, candidates=8)
        for ordinal in (7, 8):
            progress.probe_started(ordinal, Phase.SEARCH, "tool", "0123456789abcdef")
        progress.probe_finished(7, result())
        progress.probe_cancelled(8)
        progress.notice("[bold]mind[/bold] this")
    output = " ".join(written.getvalue().split())
    title = " ".join(TITLE.split())
    assert f"{title} bad: mismatch (out: 3/512 differ), build built 2.0 s, run 0.5 s" in output
    assert f"{title.replace('7', '8', 1)} stopped: its result has become worthless" in output
    assert "note: [bold]mind[/bold] this" in output
