"""When a stall is believed: by further runs that are simulated, and by what they print."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from precision_bisect.reduce.localize.endings import STALL_RERUNS, examine_stall
from precision_bisect.reduce.localize.experiments import Executor, RunOnce
from precision_bisect.reduce.replay.replay import RunnableBuild
from precision_bisect.store.vocabulary import Verdict
from tests.reduce.localize.simulated_build import executor_in
from tests.reduce.small_builds import SHIFT, small_build

_LINE = (
    "[STALL thread=0 idle_iterations=9] TASK ring=0 task_id={task} state=RUNNING fanin_refcount=1/1 "
    "kernels=[aic:-1 aiv0:1 aiv1:-1] core=3(aiv)\n"
    "[STALL thread=0 idle_iterations=9] SUMMARY completed=3/5\n"
)
STALL, PASS = Verdict.STALL, Verdict.PASS


def examined(
    folder: Path, monkeypatch: pytest.MonkeyPatch, runs: list[tuple[Verdict, str]], control: Verdict | None
) -> Any:
    """The verdict on a build whose further runs end so and print that."""
    left = [*runs] if control is None else [*runs, (control, "")]

    def run(_self: object, asked: RunOnce) -> Any:
        verdict, text = left.pop(0)
        place = folder / asked.name
        place.mkdir(parents=True)
        log = place / "run.log.gz"
        log.write_bytes(gzip.compress(text.encode()))
        return SimpleNamespace(classification=SimpleNamespace(verdict=verdict), log=log)

    monkeypatch.setattr(Executor, "_run_once", run)
    toolchain = cast("Any", None)
    build = small_build(folder / "build", SHIFT)
    runnable = RunnableBuild(path=build, toolchain=toolchain)
    return executor_in(folder).execute(examine_stall(runnable, None if control is None else runnable))


def line(task: int) -> str:
    return _LINE.format(task=task)


def test_two_stalls_at_one_task_are_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = examined(tmp_path, monkeypatch, [(STALL, line(2))] * STALL_RERUNS, PASS)
    assert found.believed, found.reason
    assert (found.completed, found.total) == (3, 5)
    (task,) = found.tasks
    assert (task.kernel, task.state, task.cores) == ("middle", "RUNNING", (3,))
    assert task.orchestration_lines


@pytest.mark.parametrize(
    ("runs", "control", "reason"),
    [
        ([(STALL, line(2)), (PASS, "")], PASS, "only 1 of 2 further runs stalled"),
        ([(STALL, line(2)), (STALL, "")], PASS, "not all say which tasks"),
        ([(STALL, line(2)), (STALL, line(3))], PASS, "at other tasks"),
        ([(STALL, line(2)), (STALL, line(2))], STALL, "the reference stalls here too"),
        ([(STALL, line(2)), (STALL, line(2))], None, "no good build was run beside them"),
    ],
)
def test_what_makes_a_stall_doubtful(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runs: list[tuple[Verdict, str]],
    control: Verdict | None,
    reason: str,
) -> None:
    found = examined(tmp_path, monkeypatch, runs, control)
    assert not found.believed
    assert reason in found.reason
