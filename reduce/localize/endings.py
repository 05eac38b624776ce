"""Builds that do not get to their outputs: they crash, stall, or end with an error of the device or the compiler.

A machine that is too slow, or short of memory, ends any run. So `confirm_ending` first checks that the failing build
ends so again, and that the good one does not. `find_crashing_task` finds the first task with which a build crashes, and
`fault_by_buffers` the tensor by which the address of the crash lies. `examine_stall` runs a stalled build again, and
`read_stall` reads which tasks the runtime says are stuck, and on which cores.
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
    """It is not known that the way a build ended is due to what differs from the good build."""


_MAX_RERUNS = 3
"""A flaky ending may take this many runs to show itself again."""


def confirm_ending(failing: RunnableBuild, good: RunnableBuild, verdict: Verdict) -> Steps[int]:
    """Run the failing build until it ends with `verdict` again, and the good one once.

    This comes before anything in which the two differ is blamed. Return how many runs of the failing build it took.

    Raises:
        NotConfirmedError: the failing build ends otherwise each time, or the good one ends so too.
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
        ran = yield from RunOnce(build=failing, name=f"ending/again-{len(found) + 1}")
        found.append(ran.classification.verdict)
    beside = yield from RunOnce(build=good, name="ending/good")
    if beside.classification.verdict is verdict:
        raise NotConfirmedError(
            f"{good.path}: expected a good build, found that it ends with {verdict.value} as the failing one does: "
            f"{beside.reason[:200]}; nothing in which they differ is blamed; see {beside.log}",
            reason=beside.reason,
        )
    return len(found)


_NULL_PAGE_END = 1 << 16
"""Addresses below this one belong to a null pointer: no system maps a page there."""
_MAX_OFFSET = 1 << 34
"""An index of 32 bits reaches this many bytes. An address farther away was not computed from the buffer's."""


def fault_by_buffers(told: ReportedFault, position: int, orchestration: Orchestration) -> Fault:
    """Return where the address lies at which the task at `position` crashes."""
    uses: dict[tuple[int, int], list[ReportedBuffer]] = {}
    for buffer in told.buffers:
        uses.setdefault((buffer.address, buffer.size), []).append(buffer)
    holding = [place for place in uses if place[0] <= told.address < sum(place)]
    own = [place for place, users in uses.items() if any(user.task == position for user in users)]
    near = [place for place in own if _distance(told.address, place) <= _MAX_OFFSET]
    if told.address < _NULL_PAGE_END:
        near = []
    return Fault(
        address=hex(told.address),
        buffers=tuple(
            NearBuffer(
                tensor=_name(uses[place], position, orchestration),
                size=place[1],
                offset=told.address - place[0],
                tasks=tuple(sorted({user.task for user in uses[place]})),
            )
            for place in holding or sorted(near, key=lambda place: _distance(told.address, place))
        ),
    )


def describe_fault(fault: Fault) -> str:
    """The address, with the nearest of the buffers."""
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


def _distance(address: int, place: tuple[int, int]) -> int:
    """Bytes from a buffer, given as its address and size, to an address outside of it."""
    start, size = place
    return start - address if address < start else address - (start + size) + 1


def _name(users: list[ReportedBuffer], position: int, orchestration: Orchestration) -> str | None:
    user = next((each for each in users if each.task == position), users[0])
    submits = submits_of_kernels(orchestration)
    return tensor_name(orchestration, [submits[user.submit]], user.argument)


_MOST_TASKS = 2**16
"""A build that does not crash with so many of its tasks has a flaky crash, and the search gives up."""


@dataclass(frozen=True, kw_only=True)
class CrashingTask:
    """The first task with which a build crashes; `runs` of the build were made to find it."""

    task: CrashedTask
    runs: int

    def describe(self) -> str:
        """One sentence that says which task crashes."""
        task = self.task
        named = f" {task.kernel}" if task.kernel else ""
        return (
            f"it crashes once task {task.position}{named} is submitted (line {task.orchestration_line} of the "
            "orchestration), and not with the tasks before it alone"
            + ("" if task.fault is None else f"; it touches {describe_fault(task.fault)}")
        )


class _InconclusiveRunError(UserError):
    """A run that neither crashes nor gets to its outputs says nothing about the task that crashes."""


def find_crashing_task(failing: RunnableBuild) -> Steps[CrashingTask | None]:
    """Find the first task with which a build crashes.

    The build submits twice as many tasks each time until it crashes. Then the count is bisected, and after that the
    statements that submit the last task. None where tasks cannot be counted, the build crashes before its first task,
    or a run is inconclusive.
    """
    try:
        if (yield from _crashes(failing, 0)):
            return None
        passes, crashes, runs = 0, 1, 2
        while not (yield from _crashes(failing, crashes)):
            if crashes >= _MOST_TASKS:
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
    """The tensor that a task writes, where it is the only one."""
    written = [
        index
        for index, argument in enumerate(submit.tensor_arguments)
        if argument.usage in (Usage.OUTPUT, Usage.INOUT)
    ]
    return tensor_name(orchestration, [submit], written[0]) if len(written) == 1 else None


def _crashes(failing: RunnableBuild, count: int, stop_before: Sequence[Submit] = ()) -> Steps[bool]:
    """Return whether the build crashes with its first `count` tasks.

    If one of the statements `stop_before` submits the last of these tasks, that task is left out.
    """
    yield from Tell(
        f"it crashed: running it with its first {count} tasks"
        + (f", the last one not of {len(stop_before)} of its statements" if stop_before else "")
    )
    name = f"crash/first-{count}" + "".join(f"-{submit.statement.start}" for submit in stop_before[:1])
    name += f"-{len(stop_before)}" if stop_before else ""

    ran = yield from _run(
        failing, name, lambda original: keep_first_submits(original, count, stop_before=stop_before)
    )
    verdict = ran.classification.verdict
    if verdict is not Verdict.CRASH and not verdict.traits.compares_outputs:
        raise _InconclusiveRunError(
            f"expected its first {count} tasks to crash or to end, found {verdict.value}"
        )
    return verdict is Verdict.CRASH


def _fault(failing: RunnableBuild, task: CrashedTask, orchestration: Orchestration) -> Steps[Fault | None]:
    """The address at which the build crashes with its tasks up to `task`; None where the run does not report it."""
    yield from Tell("it crashed: running it with a handler that tells the address")
    count = task.position + 1
    ran = yield from _run(failing, "crash/address", lambda original: insert_fault_report(original, count))
    told = read_fault(ran.lines()) if ran.classification.verdict is Verdict.CRASH else None
    return None if told is None else fault_by_buffers(told, task.position, orchestration)


def _run(failing: RunnableBuild, name: str, edited: Callable[[Orchestration], bytes]) -> Steps[FinishedRun]:
    """Run the build with an edited orchestration."""

    def make(folder: Path) -> RunnableBuild:
        copy = WorkingCopy.create(failing.path, folder)
        copy.write_orchestration(edited(copy.orchestration()))
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
"""At most this many open tasks of a diagnosis are kept. A log may be of any length, and memory is not."""


@dataclass(frozen=True, kw_only=True)
class OpenTask:
    """A task that was not done. `state` is RUNNING, READY or WAIT.

    `kernels` are function ids, and `cores` are the runtime's numbers. `met` of its `dependencies` were met.
    """

    task_id: int
    state: str
    kernels: tuple[int, ...]
    cores: tuple[int, ...]
    met: int
    dependencies: int


@dataclass(frozen=True, kw_only=True)
class StallLog:
    """The last round of the runtime's diagnosis; `completed` and `total` count tasks, allocations included."""

    completed: int
    total: int
    tasks: tuple[OpenTask, ...]

    @property
    def stuck(self) -> tuple[OpenTask, ...]:
        """Return the running tasks, the last one dispatched at the end; where none runs, those that wait."""
        return tuple(task for task in self.tasks if task.state == "RUNNING") or self.tasks


def read_stall(lines: Iterable[str]) -> StallLog | None:
    """The stall that the lines report; None where they report none.

    Rounds before the last one are progress reports of a slow run.
    """
    rounds: dict[int, list[OpenTask]] = {}
    summary: dict[int, tuple[int, int]] = {}
    last = None
    for line in lines:
        if (match := _TASK.search(line)) is not None:
            last = int(match["round"])
            known = rounds.setdefault(last, [])
            if len(known) < _MAX_STALL_TASKS:
                known.append(_task(match, line))
        elif (match := _SUMMARY.search(line)) is not None:
            last = int(match["round"])
            summary[last] = int(match["completed"]), int(match["total"])
    if last is None:
        return None
    tasks = sorted(rounds.get(last, ()), key=lambda task: task.task_id)
    completed, total = summary.get(last, (0, len(tasks)))
    return StallLog(completed=completed, total=total, tasks=tuple(tasks))


def _task(match: re.Match[str], line: str) -> OpenTask:
    number = int(match["task"])
    # Some runtimes print the whole id, others its lower half.
    task_id = number if number >> 32 else int(match["ring"]) << 32 | number
    slots = [int(match[slot]) for slot in ("aic", "aiv0", "aiv1") if match[slot] is not None]
    return OpenTask(
        task_id=task_id,
        state=match["state"],
        kernels=tuple(slot for slot in slots if slot >= 0),
        cores=tuple(map(int, _CORES.findall(line))),
        met=int(match["met"]),
        dependencies=int(match["dependencies"]),
    )


_MOST_LINES = 1_000_000
"""At most this many lines of a log are read, because a run that hangs may print without end."""
RUNS_OF_A_STALL = 2
"""A stalled build runs this many times more. One more run might stall at the same tasks by chance."""


def examine_stall(failing: RunnableBuild, control: RunnableBuild | None) -> Steps[Stall]:
    """Run a stalled build again, with no other process of ours at the same time, and then the reference as a control.

    The reference is run only where it is a build. The stall is believed where every run stops at the same tasks and the
    reference does not stall. On a machine that is too slow for the runtime's time limit, the reference would stall too.

    Raises:
        UserError: a build cannot be run.
        BuildOutputError: a part of it cannot be read.
    """
    runs: list[FinishedRun] = []
    for number in range(1, RUNS_OF_A_STALL + 1):
        yield from Tell(f"it stalled: running it again, {number} of {RUNS_OF_A_STALL}")
        runs += [(yield from RunOnce(build=failing, name=f"stall/again-{number}"))]
    beside: Verdict | None = None
    if control is not None:
        yield from Tell("running the reference, which should not stall")
        beside = (yield from RunOnce(build=control, name="stall/control")).classification.verdict
    stalled = [ran for ran in runs if ran.classification.verdict is Verdict.STALL]
    logs = [log for ran in stalled if (log := read_stall(_lines(ran.log))) is not None]
    believed, reason = _judge_stall(len(stalled), logs, beside)
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
    """Return whether the build itself stalls, and why.

    `stalled` counts the further runs that stalled, and `logs` is what those reported. `control` is how the reference
    ended; None where it was not run.
    """
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
    good = "passes" if control is Verdict.PASS else f"ends otherwise ({control.value})"
    return True, f"{RUNS_OF_A_STALL} further runs stopped at the same tasks; the good build {good}"


def _lines(log: Path) -> Iterator[str]:
    with gzip.open(log, "rt", encoding="utf-8", errors="replace") as lines:
        yield from itertools.islice(lines, _MOST_LINES)


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
