"""A build that stalls: run again before it is believed, its stuck tasks mapped to kernels and orchestration lines."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from ....runner.build_output.build_directory import BuildDirectory
from ....runner.build_output.task_id import format_task_id
from ....runner.localization.stall import Stall, StalledTask
from ....store.vocabulary import Verdict
from ...graph.tensor_names import submit_lines
from ...replay.replay import Ran
from ...replay.runnable_build import RunnableBuild
from ..experiments.experiment import RunOnce, Steps, Tell
from .log import OpenTask, StallLog, read_stall

_MOST_LINES = 1_000_000
RUNS_OF_A_STALL = 2


def examine_stall(failing: RunnableBuild, control: RunnableBuild | None) -> Steps[Stall]:
    """Run a build that has stalled once again, nothing else of ours beside it, and the reference, as a control, after
    it, where that is run.

    The stall is believed where every run stops at the same tasks and the reference does not stall: on a machine that is
    too slow for the runtime's time limit, it would too.

    Raises:
        UserError: a build cannot be run.
        BuildOutputError: a part of it cannot be read.
    """
    runs: list[Ran] = []
    for number in range(1, RUNS_OF_A_STALL + 1):
        yield from Tell(f"it stalled: running it again, {number} of {RUNS_OF_A_STALL}")
        runs += [(yield from RunOnce(build=failing, name=f"stall/again-{number}"))]
    beside: Verdict | None = None
    if control is not None:
        yield from Tell("running the reference, which should not stall")
        beside = (yield from RunOnce(build=control, name="stall/control")).classification.verdict
    stalled = [ran for ran in runs if ran.classification.verdict is Verdict.STALL]
    logs = [log for ran in stalled if (log := read_stall(_lines(ran.log))) is not None]
    believed, reason = _belief(len(stalled), logs, beside)
    build = BuildDirectory.open(failing.path)
    last = logs[-1] if logs else None
    return Stall(
        believed=believed,
        reason=reason,
        completed=last.completed if last else 0,
        total=last.total if last else 0,
        tasks=tuple(_described(task, build) for task in (last.stuck if last else ())),
    )


def _belief(stalled: int, logs: Sequence[StallLog], control: Verdict | None) -> tuple[bool, str]:
    """Whether it is the build that stalls, and why: of the further runs, how many `stalled` and what those said of it,
    and how the reference ended, None where none was run."""
    places = {tuple(task.task_id for task in log.stuck) for log in logs}
    if stalled < RUNS_OF_A_STALL:
        return False, f"only {stalled} of {RUNS_OF_A_STALL} further runs stalled"
    if len(logs) < RUNS_OF_A_STALL:
        return False, f"{RUNS_OF_A_STALL} further runs stalled, but not all say which tasks are stuck"
    if len(places) > 1:
        return False, "further runs stalled at other tasks"
    if control is Verdict.STALL:
        return False, "the reference stalls here too: the machine, or the time limit"
    if control is None:
        return False, (
            f"{RUNS_OF_A_STALL} further runs stopped at the same tasks; no good build was run beside them: the "
            "machine, or the time limit, may be at fault"
        )
    return True, f"{RUNS_OF_A_STALL} further runs stopped at the same tasks; the reference: {control.value}"


def _lines(log: Path) -> Iterator[str]:
    with gzip.open(log, "rt", encoding="utf-8", errors="replace") as lines:
        yield from itertools.islice(lines, _MOST_LINES)


def _described(task: OpenTask, build: BuildDirectory) -> StalledTask:
    config, orchestration = build.kernel_config(), build.orchestration()
    kernels = [config.kernels[number] for number in task.kernels if number in config.kernels]
    submits = [
        submit
        for submit in orchestration.submits
        if tuple(kernel.func_id for kernel in submit.kernels if kernel.func_id != -1) == task.kernels
    ]
    return StalledTask(
        task_id=format_task_id(task.task_id),
        kernel="+".join(kernel.name for kernel in kernels),
        kernel_sources=tuple(str(kernel.source) for kernel in kernels),
        orchestration_source=str(config.orchestration.source),
        orchestration_lines=submit_lines(orchestration, submits),
        state=task.state,
        cores=task.cores,
        dependencies_met=task.met,
        dependencies=task.dependencies,
    )
