"""Which task crashes: by runs of fewer tasks that are simulated, and by one that is real."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from precision_bisect.reduce.localize.endings.crash import CrashingTask, crashing_task
from precision_bisect.reduce.localize.executor import Executor
from precision_bisect.reduce.localize.experiments.experiment import RunOnce
from precision_bisect.reduce.localize.pipeline import localize
from precision_bisect.reduce.replay.runnable_build import RunnableBuild
from precision_bisect.reduce.rewrite.first_submits import FirstSubmitsError, with_first_submits
from precision_bisect.runner.build_output.build_directory import BuildDirectory
from precision_bisect.runner.build_output.orchestration.orchestration import Orchestration
from precision_bisect.store.vocabulary import Verdict
from tests.reduce.demo_builds import Trees, Twins
from tests.reduce.localize.simulated_build import TASKS, executor_in
from tests.reduce.small_builds import CRASH, SHIFT, small_build

GUARD = "if (precision_bisect_submitted++ >= "
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
        return SimpleNamespace(classification=SimpleNamespace(verdict=verdict))

    monkeypatch.setattr(Executor, "_run_once", run)
    monkeypatch.setattr(Executor, "_record", lambda *_: SimpleNamespace(tasks=TASKS))
    runnable = RunnableBuild(path=small_build(folder / "build", SHIFT), toolchain=cast("Any", None))
    return executor_in(folder).execute(crashing_task(runnable, runnable)), len(asked)


@pytest.mark.parametrize("ordinal", range(len(TASKS)))
def test_the_first_task_that_crashes_is_named_with_its_line(
    ordinal: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, asked = found(tmp_path, monkeypatch, ordinal + 1)
    assert task is not None
    assert (task.ordinal, task.kernel) == (ordinal, "middle" if ordinal == MIDDLE else "scale")
    assert task.runs == asked <= 9
    assert task.tensor == ("a", "b", "x1", "c", "x2")[ordinal]
    source = BuildDirectory.open(tmp_path / "build").orchestration().source.decode()
    assert f", p{ordinal});" in source.splitlines()[task.line - 1]
    assert f"task {ordinal} {task.kernel} is submitted (line {task.line}" in task.in_words()


@pytest.mark.parametrize(("crashes_from", "ends"), [(0, Verdict.PASS), (6, Verdict.PASS), (3, Verdict.STALL)])
def test_what_runs_do_not_tell_is_not_said(
    crashes_from: int, ends: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(tmp_path, monkeypatch, crashes_from, ends)[0] is None


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
    source = with_first_submits(orchestration, 3).decode()
    assert source.count(f"{GUARD}3) return; rt_submit_aiv_task(") == len(TASKS)
    assert source.count("int precision_bisect_submitted = 0;") == 1


@pytest.mark.parametrize(
    "body",
    [
        "if (x) rt_submit_aiv_task(0, p);",
        "auto submit = [&]() { rt_submit_aiv_task(0, p); }; submit();",
    ],
)
def test_tasks_that_cannot_be_counted_are_refused_with_their_line(body: str) -> None:
    text = f"void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {{\n    CoreTaskArgs p;\n    {body}\n}}\n"
    with pytest.raises(FirstSubmitsError, match="line 3"):
        with_first_submits(Orchestration.parse(text.encode()), 1)
