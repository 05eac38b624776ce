"""Examines builds that end without outputs: they crash, stall, or fail in the device or the compiler.

`confirm_ending` checks that a failing build ends in the same way again, and that the good build does not.
`find_crashing_task` finds the first task with which a build crashes, and the tensor next to the address of the crash.
`examine_stall` runs a stalled build again, and finds its stuck tasks in the runtime's log (`read_stall`).
"""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...runner.build_output.args_dump import format_task_id
from ...runner.build_output.directory import BuildDirectory
from ...runner.build_output.files import BuildOutputError
from ...runner.build_output.orchestration import Orchestration, Submit, Usage
from ...runner.errors import UserError
from ...runner.localization import CrashedTask, Fault, NearBuffer, Stall, StalledTask
from ...store.vocabulary import Verdict, plural
from ..graph.submits import (
    ReportedBuffer,
    ReportedFault,
    insert_fault_report,
    keep_first_submits,
    read_fault,
    submit_lines,
    submits_of_kernels,
    tensor_name,
)
from ..replay.replay import FailedRunError, FinishedRun, RunnableBuild, WorkingCopy
from .experiments import MakeBuild, RunOnce, Steps, Tell


class NotConfirmedError(FailedRunError):
    """The ending of a build cannot be blamed on its differences from the good build."""


_MAX_RERUNS = 3
"""The failing build runs at most this many times to confirm its ending. A flaky ending does not show in every run."""


def confirm_ending(failing: RunnableBuild, good: RunnableBuild, verdict: Verdict) -> Steps[int]:
    """Check that the failing build ends with `verdict` again, and the good build does not.

    A machine that is too slow, or short of memory, may end any run. Returns the number of runs of the failing build.

    Raises:
        NotConfirmedError: the failing build never ends with `verdict` again, or the good build does.
        UserError: a build cannot be run.
    """
    yield from Tell(f"it ended with {verdict.value}: running it again, and the good build")
    found: list[Verdict] = []
    while verdict not in found:
        if len(found) == _MAX_RERUNS:
            raise NotConfirmedError(
                f"{failing.path}: expected it to end with {verdict.value} again, found in {_MAX_RERUNS} further runs: "
                f"{', '.join(each.value for each in found)}; nothing is blamed for that: is the machine too busy, or "
                "--timeout too short?"
            )
        run = yield from RunOnce(build=failing, name=f"ending/again-{len(found) + 1}")
        found.append(run.classification.verdict)
    control = yield from RunOnce(build=good, name="ending/good")
    if control.classification.verdict is verdict:
        raise NotConfirmedError(
            f"{good.path}: expected a good build, found that it ends with {verdict.value} as the failing one does: "
            f"{control.reason[:200]}; nothing in which they differ is blamed; see {control.log}",
            reason=control.reason,
        )
    return len(found)


_NULL_PAGE_END = 1 << 16
"""An access below this address is one by a null pointer, because no system maps a page there."""
_MAX_OFFSET = 1 << 34
"""An index of 32 bits reaches this many bytes. An address farther from a buffer was not computed from it."""

_Extent = tuple[int, int]
"""The address of a buffer and its size in bytes."""


def fault_by_buffers(fault: ReportedFault, position: int, orchestration: Orchestration) -> Fault:
    """Return the buffers around the address at which the task at `position` crashes.

    These are the buffers that contain the address. If there are none, they are the task's own buffers within
    `_MAX_OFFSET`, the nearest first.
    """
    uses: dict[_Extent, list[ReportedBuffer]] = {}
    for buffer in fault.buffers:
        uses.setdefault((buffer.address, buffer.size), []).append(buffer)

    def distance(extent: _Extent) -> int:
        return _distance(fault.address, extent)

    extents = [(start, size) for start, size in uses if start <= fault.address < start + size]
    if not extents and fault.address >= _NULL_PAGE_END:
        own = [extent for extent, users in uses.items() if any(user.task == position for user in users)]
        extents = sorted((extent for extent in own if distance(extent) <= _MAX_OFFSET), key=distance)
    return Fault(
        address=hex(fault.address),
        buffers=tuple(
            NearBuffer(
                tensor=_buffer_name(uses[start, size], position, orchestration),
                size=size,
                offset=fault.address - start,
                tasks=tuple(sorted({user.task for user in uses[start, size]})),
            )
            for start, size in extents
        ),
    )


def describe_fault(fault: Fault) -> str:
    """Return the address of a fault in words, relative to the nearest buffer."""
    if int(fault.address, 16) < _NULL_PAGE_END:
        return f"address {fault.address}, by a null pointer"
    if not fault.buffers:
        return f"address {fault.address}, far from all of its tensors"
    near = fault.buffers[0]
    name = near.tensor or "a tensor"
    tasks = f"task{'s' if len(near.tasks) > 1 else ''} {', '.join(map(str, near.tasks))}"
    if 0 <= near.offset < near.size:
        return f"byte {near.offset} of {name}, which {tasks} may touch"
    beyond = (
        f"{plural(-near.offset, 'byte')} before the first"
        if near.offset < 0
        else f"{plural(near.offset - near.size + 1, 'byte')} past the last"
    )
    return f"an address {beyond} of the {near.size} of {name} (of {tasks}), the nearest of its tensors"


def _distance(address: int, extent: _Extent) -> int:
    """Return the number of bytes between a buffer and an address outside of it."""
    start, size = extent
    return start - address if address < start else address - (start + size) + 1


def _buffer_name(users: list[ReportedBuffer], position: int, orchestration: Orchestration) -> str | None:
    """Return the name of a buffer in the task at `position`, or else in the first task that uses it."""
    user = next((each for each in users if each.task == position), users[0])
    submits = submits_of_kernels(orchestration)
    return tensor_name(orchestration, [submits[user.submit]], user.argument)


_MAX_TASKS = 2**16
"""If a build does not crash with this many tasks, its crash is flaky, and the search gives up."""


@dataclass(frozen=True, kw_only=True)
class CrashingTask:
    """The first task with which a build crashes. `runs` is the number of runs that found it."""

    task: CrashedTask
    runs: int

    def describe(self) -> str:
        """Return in words which task crashes."""
        task = self.task
        kernel = f" {task.kernel}" if task.kernel else ""
        fault = "" if task.fault is None else f"; it touches {describe_fault(task.fault)}"
        return (
            f"it crashes once task {task.position}{kernel} is submitted (line {task.orchestration_line} of the "
            f"orchestration), and not with the tasks before it alone{fault}"
        )


class _InconclusiveRunError(UserError):
    """A run neither crashes nor compares its outputs."""


def find_crashing_task(failing: RunnableBuild) -> Steps[CrashingTask | None]:
    """Find the first task with which a build crashes.

    The number of submitted tasks doubles until the build crashes. Then that number is bisected, and afterwards the
    statements that may submit the last task. Returns None if tasks cannot be counted, if the build crashes before its
    first task, or if a run is inconclusive.
    """
    try:
        if (yield from _crashes(failing, 0)):
            return None
        passes, crashes, runs = 0, 1, 2
        while not (yield from _crashes(failing, crashes)):
            if crashes >= _MAX_TASKS:
                return None
            passes, crashes, runs = crashes, 2 * crashes, runs + 1
        while crashes - passes > 1:
            count = (passes + crashes) // 2
            runs += 1
            passes, crashes = (passes, count) if (yield from _crashes(failing, count)) else (count, crashes)
        build = BuildDirectory.open(failing.path)
        orchestration = build.orchestration()
        suspected = [*submits_of_kernels(orchestration)]
        while len(suspected) > 1:
            some, others = suspected[: len(suspected) // 2], suspected[len(suspected) // 2 :]
            runs += 1
            suspected = others if (yield from _crashes(failing, crashes, some)) else some
        task = _crashed_task(build, suspected[0], passes)
        fault = yield from _fault(failing, task, orchestration)
        return CrashingTask(task=task.model_copy(update={"fault": fault}), runs=runs + 1)
    except (UserError, BuildOutputError) as error:
        yield from Tell(f"the task that crashes is not known: {error}")
        return None


def _crashed_task(build: BuildDirectory, submit: Submit, ordinal: int) -> CrashedTask:
    config, orchestration = build.kernel_config(), build.orchestration()
    numbers = [kernel.func_id for kernel in submit.kernels if kernel.func_id is not None]
    kernels = [config.kernels[number] for number in numbers if number in config.kernels]
    return CrashedTask(
        position=ordinal,
        kernel="+".join(kernel.name for kernel in kernels),
        kernel_sources=tuple(str(kernel.source) for kernel in kernels),
        orchestration_source=str(config.orchestration.source),
        orchestration_line=submit_lines(orchestration, [submit])[0],
        tensor=_written_tensor(orchestration, submit),
    )


def _written_tensor(orchestration: Orchestration, submit: Submit) -> str | None:
    """Return the tensor that a task writes, or None if it writes several."""
    written = [
        index
        for index, argument in enumerate(submit.tensor_arguments)
        if argument.usage in (Usage.OUTPUT, Usage.INOUT)
    ]
    return tensor_name(orchestration, [submit], written[0]) if len(written) == 1 else None


def _crashes(failing: RunnableBuild, count: int, stop_before: Sequence[Submit] = ()) -> Steps[bool]:
    """Return whether the build crashes with its first `count` tasks.

    The last of these tasks is not submitted if one of the statements `stop_before` submits it.
    """
    name, note = f"crash/first-{count}", ""
    if stop_before:
        name += f"-{stop_before[0].statement.start}-{len(stop_before)}"
        note = f", the last one not of {len(stop_before)} of its statements"
    yield from Tell(f"it crashed: running it with its first {count} tasks{note}")
    run = yield from _run(
        failing, name, lambda original: keep_first_submits(original, count, stop_before=stop_before)
    )
    verdict = run.classification.verdict
    if verdict is not Verdict.CRASH and not verdict.traits.compares_outputs:
        raise _InconclusiveRunError(
            f"expected its first {count} tasks to crash or to end, found {verdict.value}"
        )
    return verdict is Verdict.CRASH


def _fault(failing: RunnableBuild, task: CrashedTask, orchestration: Orchestration) -> Steps[Fault | None]:
    """Return where the build crashes with its tasks up to `task`. None if the run does not report an address."""
    yield from Tell("it crashed: running it with a handler that tells the address")
    count = task.position + 1
    run = yield from _run(failing, "crash/address", lambda original: insert_fault_report(original, count))
    fault = read_fault(run.lines()) if run.classification.verdict is Verdict.CRASH else None
    return None if fault is None else fault_by_buffers(fault, task.position, orchestration)


def _run(failing: RunnableBuild, name: str, edit: Callable[[Orchestration], bytes]) -> Steps[FinishedRun]:
    """Run the build with an edited orchestration."""

    def make(folder: Path) -> RunnableBuild:
        copy = WorkingCopy.create(failing.path, folder)
        copy.write_orchestration(edit(copy.orchestration()))
        return RunnableBuild(path=copy.path, toolchain=failing.toolchain)

    build = yield from MakeBuild(make=make, name=f"{name}/made")
    return (yield from RunOnce(build=build, name=f"{name}/run"))


_TASK = re.compile(
    r"\[STALL [^\]]*\bidle_iterations=(?P<round>\d+)\] TASK ring=(?P<ring>\d+) task_id=(?P<task>\d+) "
    r"state=(?P<state>[A-Z]+)\s+fanin_refcount=(?P<met>\d+)/(?P<dependencies>\d+)"
    r"(?: kernels=\[aic:(?P<aic>-?\d+) aiv0:(?P<aiv0>-?\d+) aiv1:(?P<aiv1>-?\d+)\])?"
)
_CORES = re.compile(r"\bcore=(\d+)\(")
_SUMMARY = re.compile(
    r"\[STALL [^\]]*\bidle_iterations=(?P<round>\d+)\] SUMMARY completed=(?P<completed>\d+)/(?P<total>\d+)"
)
_MAX_STALL_TASKS = 10_000
"""At most this many open tasks of a diagnosis are kept in memory."""


@dataclass(frozen=True, kw_only=True)
class OpenTask:
    """A task that has not ended. `state` is RUNNING, READY or WAIT.

    `kernels` are function ids, and `cores` are the runtime's numbers. `met` is the number of its `dependencies` that
    have ended.
    """

    task_id: int
    state: str
    kernels: tuple[int, ...]
    cores: tuple[int, ...]
    met: int
    dependencies: int


@dataclass(frozen=True, kw_only=True)
class StallLog:
    """The last round of the runtime's diagnosis. `completed` and `total` count tasks and allocations."""

    completed: int
    total: int
    tasks: tuple[OpenTask, ...]

    @property
    def stuck(self) -> tuple[OpenTask, ...]:
        """Return the running tasks, or all open tasks if none runs."""
        return tuple(task for task in self.tasks if task.state == "RUNNING") or self.tasks


def read_stall(lines: Iterable[str]) -> StallLog | None:
    """Return the last round of the diagnosis in a log, or None if the log has no diagnosis.

    Earlier rounds are progress reports of a slow run.
    """
    tasks_by_round: dict[int, list[OpenTask]] = {}
    counts_by_round: dict[int, tuple[int, int]] = {}
    last = None
    for line in lines:
        if (match := _TASK.search(line)) is not None:
            last = int(match["round"])
            tasks = tasks_by_round.setdefault(last, [])
            if len(tasks) < _MAX_STALL_TASKS:
                tasks.append(_open_task(match, line))
        elif (match := _SUMMARY.search(line)) is not None:
            last = int(match["round"])
            counts_by_round[last] = int(match["completed"]), int(match["total"])
    if last is None:
        return None
    tasks = sorted(tasks_by_round.get(last, ()), key=lambda task: task.task_id)
    completed, total = counts_by_round.get(last, (0, len(tasks)))
    return StallLog(completed=completed, total=total, tasks=tuple(tasks))


def _open_task(match: re.Match[str], line: str) -> OpenTask:
    number = int(match["task"])
    # Some runtimes print the whole id, others only its lower half.
    task_id = number if number >> 32 else int(match["ring"]) << 32 | number
    kernels = [int(match[slot]) for slot in ("aic", "aiv0", "aiv1") if match[slot] is not None]
    return OpenTask(
        task_id=task_id,
        state=match["state"],
        kernels=tuple(kernel for kernel in kernels if kernel >= 0),
        cores=tuple(map(int, _CORES.findall(line))),
        met=int(match["met"]),
        dependencies=int(match["dependencies"]),
    )


_MAX_LINES = 1_000_000
"""At most this many lines of a log are read, because a hanging run may print without end."""
STALL_RERUNS = 2
"""A stalled build runs again this many times. A single run might stall at the same tasks by chance."""


def examine_stall(failing: RunnableBuild, control: RunnableBuild | None) -> Steps[Stall]:
    """Run a stalled build again, and then the reference build as a control, if there is one.

    The build itself is blamed if all runs stop at the same tasks and the control does not stall. A machine that is too
    slow for the runtime's time limit stalls the control too.

    Raises:
        UserError: a build cannot be run.
        BuildOutputError: a part of a build cannot be read.
    """
    runs: list[FinishedRun] = []
    for number in range(1, STALL_RERUNS + 1):
        yield from Tell(f"it stalled: running it again, {number} of {STALL_RERUNS}")
        runs += [(yield from RunOnce(build=failing, name=f"stall/again-{number}"))]
    control_verdict: Verdict | None = None
    if control is not None:
        yield from Tell("running the reference, which should not stall")
        control_verdict = (yield from RunOnce(build=control, name="stall/control")).classification.verdict
    stalled = [run for run in runs if run.classification.verdict is Verdict.STALL]
    logs = [log for run in stalled if (log := read_stall(_lines(run.log))) is not None]
    believed, reason = _judge_stall(len(stalled), logs, control_verdict)
    build = BuildDirectory.open(failing.path)
    last = logs[-1] if logs else None
    return Stall(
        believed=believed,
        reason=reason,
        completed=last.completed if last else 0,
        total=last.total if last else 0,
        tasks=tuple(_stalled_task(task, build) for task in (last.stuck if last else ())),
    )


def _judge_stall(stalled: int, logs: Sequence[StallLog], control: Verdict | None) -> tuple[bool, str]:
    """Return whether the build itself is to blame for a stall, and the reason in words.

    `stalled` is the number of repeated runs that stalled, and `logs` are their diagnoses. `control` is the verdict of
    the reference, or None if it did not run.
    """
    places = {tuple(task.task_id for task in log.stuck) for log in logs}
    if stalled < STALL_RERUNS:
        return False, f"only {stalled} of {STALL_RERUNS} further runs stalled"
    if len(logs) < STALL_RERUNS:
        return False, f"{STALL_RERUNS} further runs stalled, but not all say which tasks are stuck"
    if len(places) > 1:
        return False, "further runs stalled at other tasks"
    if control is Verdict.STALL:
        return False, "the reference stalls here too: the machine, or the time limit"
    if control is None:
        return False, (
            f"{STALL_RERUNS} further runs stopped at the same tasks; no good build was run beside them: the "
            "machine, or the time limit, may be at fault"
        )
    good = "passes" if control is Verdict.PASS else f"ends differently ({control.value})"
    return True, f"{STALL_RERUNS} further runs stopped at the same tasks; the good build {good}"


def _lines(log: Path) -> Iterator[str]:
    with gzip.open(log, "rt", encoding="utf-8", errors="replace") as lines:
        yield from itertools.islice(lines, _MAX_LINES)


def _stalled_task(task: OpenTask, build: BuildDirectory) -> StalledTask:
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
