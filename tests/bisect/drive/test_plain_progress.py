"""Plain lines: one run is told once, nothing is wrapped, and a build that goes on is told of."""

import io
import threading

import pytest
from rich.console import Console

from precision_bisect.bisect.drive.progress import REPORT_INTERVAL, PlainProgress
from precision_bisect.bisect.engine.runs import ConfirmationProgress, SearchProgress
from precision_bisect.store.vocabulary import Phase
from tests.bisect.drive.shown import COMMIT, SUBJECT, result, started

TITLE = f"run 7   search    tool {COMMIT[:12]} 2026-03-31 {SUBJECT}"


def console_to(text: io.StringIO) -> Console:
    return Console(file=text, width=60, color_system=None, legacy_windows=False)


def test_a_line_an_event_however_long_and_markup_is_text() -> None:
    written = io.StringIO()
    with PlainProgress(console_to(written)) as progress:
        progress.show_range("tool", commits=9, candidates=4)
        progress.show_remaining(SearchProgress(4, 2.0))
        progress.show_remaining(SearchProgress(4, 2.0))
        progress.probe_started(started(7))
        progress.show_activity(7, "slot 0", "builds")
        progress.probe_finished(7, result(signature="[red]out[/red] " + "x" * 80))
        progress.probe_started(started(8, phase=Phase.CONFIRM, again="again: to be sure"))
        progress.probe_cancelled(8)
        progress.show_confirmation(ConfirmationProgress(commit="c", confidence=0.98765, wanted=0.99))
        progress.notice("[bold]mind[/bold] this")
    assert written.getvalue().splitlines() == [
        "tool: 9 commits in the range, 4 that can change the result",
        "4 commits left, about 2 steps",
        TITLE,
        f"        bad: mismatch ([red]out[/red] {'x' * 80}), built in 2.0 s, run 0.5 s",
        f"run 8   confirm   tool {COMMIT[:12]} 2026-03-31 {SUBJECT} (again: to be sure)",
        "        stopped: its result is not waited for any more",
        "1 commit left, confidence 98.76 % (99 % is asked)",
        "note: [bold]mind[/bold] this",
    ]


def test_with_several_workers_a_verdict_names_its_run() -> None:
    written = io.StringIO()
    progress = PlainProgress(console_to(written))
    for ordinal in (7, 8):
        progress.probe_started(started(ordinal))
    progress.probe_finished(7, result())
    progress.probe_finished(8, result())
    lines = written.getvalue().splitlines()
    assert lines[2].startswith("run 7   bad: mismatch")
    assert lines[3].startswith("run 8   bad: mismatch")


def test_a_build_that_goes_on_is_told_of_once_a_minute() -> None:
    written = io.StringIO()
    progress = PlainProgress(console_to(written))
    progress.probe_started(started(7))
    progress.show_activity(7, "slot 0", "building runtime")
    begun = progress._runs[7].start_time
    for seconds in (REPORT_INTERVAL - 1, REPORT_INTERVAL + 1, REPORT_INTERVAL + 30, 2 * REPORT_INTERVAL + 2):
        progress.print_running(begun + seconds)
    assert written.getvalue().splitlines()[1:] == [
        "run 7   building runtime, 1 min 1 s so far",
        "run 7   building runtime, 2 min 2 s so far",
    ]
    progress.probe_finished(7, result())
    progress.print_running(begun + 10 * REPORT_INTERVAL)
    assert written.getvalue().splitlines()[-1].startswith("run 7   bad: mismatch")


def test_it_tells_so_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a build goes on, nothing else happens that could make it."""
    told = threading.Event()

    class Written(io.StringIO):
        def write(self, text: str, /) -> int:
            if "building runtime, " in text:
                told.set()
            return super().write(text)

    monkeypatch.setattr("precision_bisect.bisect.drive.progress.REPORT_INTERVAL", 0.01)
    with PlainProgress(console_to(written := Written())) as progress:
        progress.probe_started(started(7))
        progress.show_activity(7, "slot 0", "building runtime")
        assert told.wait(60), written.getvalue()
    assert "run 7   building runtime, 0 s so far\n" in written.getvalue()
