"""Lines of a stall, as the runtime prints them."""

from __future__ import annotations

from precision_bisect.reduce.localize.endings import read_stall

HEAD = "[mono_ns=12][T0x1][INFO_V9] log_stall_diagnostics: "


def test_the_last_round_counts_and_running_tasks_are_stuck() -> None:
    found = read_stall(
        [
            "[RUN] runtime ...",
            f"{HEAD}[STALL thread=0 idle_iterations=100] TASK ring=0 task_id=1 state=RUNNING fanin_refcount=1/1 "
            "kernels=[aic:-1 aiv0:0 aiv1:-1] running_on=[owner_thread=0 cores=[core=3(aiv0)]]",
            f"{HEAD}[STALL thread=0 idle_iterations=100] SUMMARY completed=1/6 scan_ready=0",
            f"{HEAD}[STALL thread=0 idle_iterations=200] TASK ring=2 task_id=8589934597 state=RUNNING "
            "fanin_refcount=2/2 kernels=[aic:4 aiv0:5 aiv1:-1] "
            "running_on=[owner_thread=1 cores=[core=0(aic) core=24(aiv0)]]",
            f"{HEAD}[STALL thread=0 idle_iterations=200] TASK ring=2 task_id=8589934598 state=WAIT    "
            "fanin_refcount=0/1 kernels=[aic:-1 aiv0:7 aiv1:-1] missing_deps=1",
            f"{HEAD}[STALL thread=0 idle_iterations=200] SUMMARY completed=4/6 last_progress_iteration=9",
            f"{HEAD}[STALL thread=0 idle_iterations=200] CLUSTER cluster_id=0 aic=busy aiv0=busy aiv1=idle",
        ]
    )
    assert found is not None
    assert (found.completed, found.total) == (4, 6)
    (stuck,) = found.stuck
    assert (stuck.task_id, stuck.kernels, stuck.cores) == (2 << 32 | 5, (4, 5), (0, 24))
    assert [task.state for task in found.tasks] == ["RUNNING", "WAIT"]


def test_where_nothing_runs_those_that_wait_are_stuck() -> None:
    found = read_stall(
        [
            "[STALL thread=0 idle_iterations=5] TASK ring=1 task_id=7 state=WAIT fanin_refcount=1/2 "
            "kernels=[aic:2 aiv0:-1 aiv1:-1]"
        ]
    )
    assert found is not None
    assert [(task.task_id, task.met, task.dependencies, task.cores) for task in found.stuck] == [
        (1 << 32 | 7, 1, 2, ())
    ]


def test_other_output_is_no_stall() -> None:
    assert read_stall(["[RUN] PASS (0.1s)", "TASK ring=0 task_id=1 state=RUNNING"]) is None
