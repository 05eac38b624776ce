"""A build that stalls: run again before it is believed, its stuck tasks mapped to kernels and orchestration lines."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from ....runner.build_output.build_directory import BuildDirectory
from ....runner.build_output.golden_data import GoldenData
from ....runner.build_output.task_id import format_task_id
from ....runner.case.entry_arguments import entry_arguments
from ....runner.localization.stall import Stall, StalledTask
from ....store.vocabulary import Verdict
from ...graph.tensor_names import submit_lines
from ...replay.replay import Ran, Replayer
from ...replay.toolchain import Toolchain
from ...replay.working_copy import WorkingCopy
from .log import OpenTask, read_stall

_MOST_LINES = 1_000_000
RUNS_OF_A_STALL = 2


def examine_stall(
    failing: Path,
    reference: Path,
    *,
    data: Path,
    toolchains: tuple[Toolchain, Toolchain],
    folder: Path,
    timeout: float,
    on_progress: Callable[[str], None],
) -> Stall:
    """Run a build that has stalled again, nothing else of ours beside it, and the reference after it.

    It is believed where every run stops at the same tasks and the reference does not stall: on a machine that is too
    slow for the runtime's time limit, it would too.

    Raises:
        UserError: a build cannot be run.
        BuildOutputError: a part of it cannot be read.
    """
    runs: list[Ran] = []
    for number in range(1, RUNS_OF_A_STALL + 1):
        on_progress(f"it stalled: running it again, {number} of {RUNS_OF_A_STALL}")
        runs.append(_run(failing, data, toolchains[0], folder / f"again-{number}", timeout))
    on_progress("running the reference, which should not stall")
    control = _run(reference, data, toolchains[1], folder / "control", timeout).classification.verdict
    stalled = [ran for ran in runs if ran.classification.verdict is Verdict.STALL]
    seen = [log for ran in stalled if (log := read_stall(_lines(ran.log))) is not None]
    places = {tuple(task.task_id for task in log.stuck) for log in seen}
    if len(stalled) < RUNS_OF_A_STALL:
        why = f"only {len(stalled)} of {RUNS_OF_A_STALL} further runs stalled"
    elif len(seen) < RUNS_OF_A_STALL:
        why = f"{RUNS_OF_A_STALL} further runs stalled, but not all say which tasks are stuck"
    elif len(places) > 1:
        why = "further runs stalled at other tasks"
    elif control is Verdict.STALL:
        why = "the reference stalls here too: the machine, or the time limit"
    else:
        why = f"{RUNS_OF_A_STALL} further runs stopped at the same tasks; the reference: {control.value}"
    believed = len(seen) == RUNS_OF_A_STALL and len(places) == 1 and control is not Verdict.STALL
    build = BuildDirectory.open(failing)
    last = seen[-1] if seen else None
    return Stall(
        believed=believed,
        reason=why,
        completed=last.completed if last else 0,
        total=last.total if last else 0,
        tasks=tuple(_described(task, build) for task in (last.stuck if last else ())),
    )


def _run(build: Path, data: Path, toolchain: Toolchain, folder: Path, timeout: float) -> Ran:
    copy = WorkingCopy.of(build, folder / "build")
    arguments = entry_arguments(copy.build(), GoldenData.open(data))
    return Replayer(copy=copy, toolchain=toolchain, folder=folder / "runs", timeout=timeout).classify(
        arguments, data=data
    )


def _lines(log: Path) -> Iterator[str]:
    with gzip.open(log, "rt", encoding="utf-8", errors="replace") as lines:
        yield from itertools.islice(lines, _MOST_LINES)


def _described(task: OpenTask, build: BuildDirectory) -> StalledTask:
    config, orchestration = build.kernel_config(), build.orchestration()
    kernels = [config.kernels[one] for one in task.kernels if one in config.kernels]
    submits = [
        submit
        for submit in orchestration.submits
        if tuple(one.func_id for one in submit.kernels if one.func_id != -1) == task.kernels
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
