"""The live picture on terminals of all sizes: no line is too wide, and none is broken within a word."""

import io
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from precision_bisect.bisect.drive.progress import LiveProgress
from precision_bisect.bisect.engine.bisection import Bisection, ProbeFinished, QuestionAnswered
from precision_bisect.bisect.engine.range_search import Context
from precision_bisect.bisect.engine.runs import BisectionQuestion, SearchProgress
from precision_bisect.bisect.history.questions import AskRange
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.store.vocabulary import Judgement, Phase, Verdict
from tests.bisect.drive.shown import SUBJECT, result, started
from tests.bisect.engine.simulated import equal_times, loaded_range, simulated_probe

WIDTHS = [60, 80, 120]


def console_to(text: io.StringIO, width: int) -> Console:
    return Console(file=text, width=width, force_terminal=True, color_system=None, legacy_windows=False)


def picture(progress: LiveProgress, width: int) -> list[str]:
    """The live picture as it is drawn now."""
    written = io.StringIO()
    console_to(written, width).print(progress)
    return [line.rstrip() for line in written.getvalue().splitlines()]


def bisection(commits: int) -> Bisection:
    """One whose good end has passed once."""
    names = [f"c{place}" for place in range(commits)]
    graph = CommitGraph([[place - 1] if place else [] for place in range(commits)])
    loaded = loaded_range(names, graph, "good")
    question = BisectionQuestion(range=loaded.range, confidence=0.99, repositories=frozenset({"line"}))
    opened = Bisection.start(question).apply_event(
        QuestionAnswered(AskRange(ordinal=1, range=loaded.range), loaded)
    )
    probe = simulated_probe(1, "good", Phase.ENDPOINT, Judgement.GOOD, times=equal_times("good"))
    return opened.apply_event(ProbeFinished(probe)).next(Context())[0]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_picture_shows_the_range_what_is_to_come_and_what_each_slot_does(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    progress = LiveProgress(console_to(io.StringIO(), width))
    progress.show_range("tool", commits=90, candidates=80)
    progress.show_state(bisection(200))
    progress.show_remaining(SearchProgress(80, 6.3))
    progress.probe_started(started(7, again="again: to see whether it always fails"))
    progress.show_activity(7, "slot 1", "building runtime")
    lines = picture(progress, width)
    assert all(len(line) <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    assert any(line.startswith("good ....") and line.endswith(" bad") for line in lines)
    assert "80 commits left, about " in text
    assert "of the ends" in text
    assert "to confirm" in text
    assert "0 s so far" in text
    assert "slot 1: run 7 search tool 0123456789ab, building runtime, 0 s" in text
    words = {*f"2026-03-31 {SUBJECT} (again: to see whether it always fails) …".split()}
    told = lines[-1].split()
    assert set(told) <= words, "nothing is cut within a word"


@pytest.mark.parametrize("width", WIDTHS)
def test_verdicts_stay_above_it_whole_and_within_the_width(width: int) -> None:
    written = io.StringIO()
    console = console_to(written, width)
    progress = LiveProgress(console)
    for ordinal in (7, 8):
        progress.probe_started(started(ordinal, again="again: to see whether it always fails"))
    progress.probe_finished(7, result())
    progress.probe_cancelled(8)
    progress.notice("[bold]mind[/bold] this " + "and that " * 20)
    lines = [line.rstrip() for line in written.getvalue().splitlines()]
    assert all(len(line) <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    assert "bad: mismatch (out: 3/512 differ), built in 2.0 s, run 0.5 s" in text
    assert ("(again: to see" in text) is (width > 80)
    assert "stopped: its result is not waited for any more" in text
    assert "note: [bold]mind[/bold] this" in text
    assert lines[0].startswith("run 7   tool 0123456789ab bad: mismatch")


@pytest.mark.parametrize("width", WIDTHS)
def test_an_end_that_does_otherwise_is_told_within_the_width_with_its_log_whole(width: int) -> None:
    written = io.StringIO()
    progress = LiveProgress(console_to(written, width))
    standing = bisection(9)
    progress.show_state(standing)
    bad_end = replace(
        started(2, phase=Phase.ENDPOINT), repository="line", commit=standing.known.question.range.new
    )
    progress.probe_started(bad_end)
    log = Path("/" + "long/" * 40 + "run.log.gz")
    progress.probe_finished(2, replace(result(judgement=Judgement.GOOD, verdict=Verdict.PASS), log=log))
    *lines, last = [line.rstrip() for line in written.getvalue().splitlines()]
    assert last == str(log)
    assert all(len(line) <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    assert "the bad end passes, and is run until it fails, at most 24 times" in text


def test_what_has_no_range_yet_shows_what_runs() -> None:
    progress = LiveProgress(console_to(io.StringIO(), 60))
    progress.probe_started(started(1))
    assert any("waiting for" in line for line in picture(progress, 60))
