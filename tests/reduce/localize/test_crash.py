"""Which task crashes: by runs of fewer tasks that are simulated, and by one that is real."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from precision_bisect.reduce.graph.submits import UncountableTasksError, keep_first_submits
from precision_bisect.reduce.localize.endings import CrashingTask, find_crashing_task
from precision_bisect.reduce.localize.experiments import Executor, RunOnce
from precision_bisect.reduce.localize.investigate import localize
from precision_bisect.reduce.localize.localization_text import print_summary
from precision_bisect.reduce.localize.reference import GoldenOutputs
from precision_bisect.reduce.replay.replay import RunnableBuild
from precision_bisect.runner.build_output.directory import BuildDirectory
from precision_bisect.runner.build_output.orchestration import Orchestration
from precision_bisect.runner.compare.diff_report import SummaryLines
from precision_bisect.store.vocabulary import Verdict
from tests.reduce.demo_builds import Trees, Twins
from tests.reduce.localize.simulated_build import TASKS, executor_in
from tests.reduce.small_builds import CRASH, SHIFT, small_build

GUARD = "if (precision_bisect_submitted++ >= "
FAR = 1 << 46
"""An address far from all tensors."""
MIDDLE = 1
"""The place in the text of the one submit of `middle`."""


def submitted(build: Path) -> int:
    """How many tasks a build submits, each submit of which makes one task."""
    parts = BuildDirectory.open(build).orchestration().source.decode().split(GUARD)[1:]
    guards = [int(part.partition(")")[0]) for part in parts]
    return next((place for place, most in enumerate(guards) if place >= most), len(guards))


def found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, crashes_from: int, ends: Verdict = Verdict.MISMATCH
) -> tuple[CrashingTask | None, int]:
    """The task, and how many runs were asked for, of a build that crashes with so many tasks."""
    asked: list[int] = []

    def run(_self: object, experiment: RunOnce) -> Any:
        asked.append(submitted(experiment.build.path))
        verdict = Verdict.CRASH if asked[-1] >= crashes_from else ends
        lines = [f"precision-bisect: fault at {FAR}"]
        return SimpleNamespace(classification=SimpleNamespace(verdict=verdict), lines=lambda: lines)

    monkeypatch.setattr(Executor, "_run_once", run)
    runnable = RunnableBuild(path=small_build(folder / "build", SHIFT), toolchain=cast("Any", None))
    return executor_in(folder).execute(find_crashing_task(runnable)), len(asked)


@pytest.mark.parametrize("ordinal", range(len(TASKS)))
def test_the_first_task_that_crashes_is_named_with_its_line(
    ordinal: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashing, asked = found(tmp_path, monkeypatch, ordinal + 1)
    assert crashing is not None
    task = crashing.task
    assert (task.position, task.kernel) == (ordinal, "middle" if ordinal == MIDDLE else "scale")
    assert crashing.runs == asked <= 11
    assert crashing.describe().endswith(f"it touches address {FAR:#x}, far from all of its tensors")
    assert task.tensor == ("a", "b", "x1", "c", "x2")[ordinal]
    source = (tmp_path / "build" / task.orchestration_source).read_text()
    assert f", p{ordinal});" in source.splitlines()[task.orchestration_line - 1]
    (kernel,) = task.kernel_sources
    assert (tmp_path / "build" / kernel).is_file()
    assert f"task {ordinal} {task.kernel} is submitted (line {task.orchestration_line}" in crashing.describe()


@pytest.mark.parametrize(("crashes_from", "ends"), [(0, Verdict.PASS), (6, Verdict.PASS), (3, Verdict.STALL)])
def test_what_runs_do_not_tell_is_not_said(
    crashes_from: int, ends: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(tmp_path, monkeypatch, crashes_from, ends)[0] is None


def test_a_crash_is_told_without_a_good_build(tmp_path: Path, good_trees: Trees) -> None:
    bad = small_build(tmp_path / "bad", CRASH)
    twins = Twins(good=bad, bad=bad, good_trees=good_trees, bad_trees=good_trees)
    request = replace(twins.request(tmp_path / "out"), reference=GoldenOutputs(folder=bad / "data"))
    divergence = localize(request, on_progress=lambda _text: None)
    assert divergence.crash is not None
    assert (divergence.crash.position, divergence.crash.kernel, divergence.crash.tensor) == (1, "middle", "b")
    assert divergence.has_findings
    assert (divergence.causes, divergence.reference_runs) == ((), 0)
    assert divergence.crash.fault is not None
    assert divergence.crash.fault.address == "0x0"
    printed = io.StringIO()
    print_summary(divergence, SummaryLines(console=Console(file=printed, width=200)))
    assert "it crashes once task 1 middle is submitted" in printed.getvalue()
    assert "no task was seen" not in printed.getvalue()


def test_a_write_far_past_a_tensor_is_told_with_that_tensor(tmp_path: Path, good_trees: Trees) -> None:
    beyond = 3 << 30
    bad = small_build(
        tmp_path / "bad", f"store(1, i, load(0, i)); store_f32(args.tensors[1], {beyond}, 1.0f);"
    )
    twins = Twins(good=bad, bad=bad, good_trees=good_trees, bad_trees=good_trees)
    request = replace(twins.request(tmp_path / "out"), reference=GoldenOutputs(folder=bad / "data"))
    crash = localize(request, on_progress=lambda _text: None).crash
    assert crash is not None
    assert crash.fault is not None
    by_name = {buffer.tensor: buffer for buffer in crash.fault.buffers}
    assert set(by_name) == {"a", "b"}
    assert (by_name["b"].offset, by_name["b"].size, by_name["b"].tasks) == (4 * beyond, 32, (1,))
    assert by_name["a"].tasks == (0, 1)


@pytest.mark.long
def test_a_kernel_that_crashes_where_it_should_not_run_is_named(tmp_path: Path, good_trees: Trees) -> None:
    bad = small_build(tmp_path / "bad", CRASH)
    good = small_build(tmp_path / "good", CRASH)
    (source,) = (good / "orchestration").glob("*.cpp")
    source.write_text(source.read_text().replace("rt_submit_aiv_task(1, p1)", "rt_submit_aiv_task(0, p1)"))
    twins = Twins(good=good, bad=bad, good_trees=good_trees, bad_trees=good_trees)
    divergence = localize(twins.request(tmp_path / "out"), on_progress=lambda _text: None)
    (cause,) = divergence.causes
    assert (cause.kind, cause.kernel, cause.position, cause.tensor) == ("orchestration", "middle", 1, "b")
    assert "it crashes once task 1 middle is submitted" in (divergence.ended or "")


def test_an_orchestration_returns_before_one_task_more(tmp_path: Path) -> None:
    orchestration = BuildDirectory.open(small_build(tmp_path / "build", SHIFT)).orchestration()
    source = keep_first_submits(orchestration, 3).decode()
    assert source.count(f"{GUARD}3) return; rt_submit_aiv_task(") == len(TASKS)
    assert source.count("int precision_bisect_submitted = 0;") == 1


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("if (x) rt_submit_aiv_task(0, p);", 3),
        # The comment ends as a statement before the submit would.
        ("if (x)\n    // else rt_submit_aiv_task(1, p);\n    rt_submit_aiv_task(0, p);", 5),
        ("auto submit = [&]() { rt_submit_aiv_task(0, p); }; submit();", 3),
    ],
)
def test_tasks_that_cannot_be_counted_are_refused_with_their_line(body: str, line: int) -> None:
    text = f"void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {{\n    CoreTaskArgs p;\n    {body}\n}}\n"
    with pytest.raises(UncountableTasksError, match=f"line {line}"):
        keep_first_submits(Orchestration.parse(text.encode()), 1)
