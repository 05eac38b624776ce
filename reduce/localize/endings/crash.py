"""A build that crashes: with how many of its tasks it does, and which task that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....runner.build_output.build_directory import BuildDirectory
from ....runner.build_output.files.errors import BuildOutputError
from ....runner.build_output.orchestration.model import Submit, Usage
from ....runner.build_output.orchestration.orchestration import Orchestration
from ....runner.errors import UserError
from ....runner.localization.crash import CrashedTask, Fault
from ....store.vocabulary import Verdict
from ...graph.tensor_names import submit_lines, tensor_name
from ...replay.replay import Ran
from ...replay.runnable_build import RunnableBuild
from ...replay.working_copy import WorkingCopy
from ...rewrite.fault_address import read_fault, with_fault_address
from ...rewrite.first_submits import submits_of_kernels, with_first_submits
from ..experiments.experiment import MakeBuild, RunOnce, Steps, Tell
from .fault import fault_by_buffers, fault_in_words

_MOST_TASKS = 2**16
"""With so many of its tasks a build that crashes does so, or it comes and goes."""


@dataclass(frozen=True, kw_only=True)
class CrashingTask:
    """The first task with which a build crashes; `runs` of the build were made to find it."""

    task: CrashedTask
    runs: int

    def in_words(self) -> str:
        """A sentence."""
        task = self.task
        named = f" {task.kernel}" if task.kernel else ""
        return (
            f"it crashes once task {task.position}{named} is submitted (line {task.orchestration_line} of the "
            "orchestration), and not with the tasks before it alone"
            + ("" if task.fault is None else f"; it touches {fault_in_words(task.fault)}")
        )


class _NotToldError(UserError):
    """A run that is neither a crash nor gets to its outputs says nothing of the task that crashes."""


def crashing_task(failing: RunnableBuild) -> Steps[CrashingTask | None]:
    """Let a build that crashes submit fewer tasks, twice as many until it does and then halving how many, and then let
    fewer statements submit the last of them. None where they cannot be counted, it crashes before its first task, or a
    run does not tell."""
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
        task = _told(build, suspected[0], passes)
        fault = yield from _fault(failing, task, orchestration)
        return CrashingTask(task=task.model_copy(update={"fault": fault}), runs=runs + 1)
    except (UserError, BuildOutputError) as error:
        yield from Tell(f"the task that crashes is not known: {error}")
        return None


def _told(build: BuildDirectory, submit: Submit, ordinal: int) -> CrashedTask:
    config, orchestration = build.kernel_config(), build.orchestration()
    numbers = [kernel.func_id for kernel in submit.kernels if kernel.func_id is not None]
    kernels = [config.kernels[number] for number in numbers if number in config.kernels]
    return CrashedTask(
        position=ordinal,
        kernel="+".join(kernel.name for kernel in kernels),
        kernel_sources=tuple(str(kernel.source) for kernel in kernels),
        orchestration_source=str(config.orchestration.source),
        orchestration_line=submit_lines(orchestration, [submit])[0],
        tensor=_written(orchestration, submit),
    )


def _written(orchestration: Orchestration, submit: Submit) -> str | None:
    """The tensor that a task writes, where it is the only one."""
    written = [
        index
        for index, argument in enumerate(submit.tensor_arguments)
        if argument.usage in (Usage.OUTPUT, Usage.INOUT)
    ]
    return tensor_name(orchestration, [submit], written[0]) if len(written) == 1 else None


def _crashes(failing: RunnableBuild, count: int, one_less: Sequence[Submit] = ()) -> Steps[bool]:
    """Whether it does with so many of its tasks; with one fewer, where one of some statements submits the last one."""
    yield from Tell(
        f"it crashed: running it with its first {count} tasks"
        + (f", the last one not of {len(one_less)} of its statements" if one_less else "")
    )
    name = f"crash/first-{count}" + "".join(f"-{submit.statement.start}" for submit in one_less[:1])
    name += f"-{len(one_less)}" if one_less else ""

    ran = yield from _run(
        failing, name, lambda original: with_first_submits(original, count, one_less=one_less)
    )
    verdict = ran.classification.verdict
    if verdict not in (Verdict.CRASH, Verdict.PASS, Verdict.MISMATCH):
        raise _NotToldError(f"expected its first {count} tasks to crash or to end, found {verdict.value}")
    return verdict is Verdict.CRASH


def _fault(failing: RunnableBuild, task: CrashedTask, orchestration: Orchestration) -> Steps[Fault | None]:
    """The address at which it crashes with its tasks up to that one; None where the run does not tell it."""
    yield from Tell("it crashed: running it with a handler that tells the address")
    count = task.position + 1
    ran = yield from _run(failing, "crash/address", lambda original: with_fault_address(original, count))
    told = read_fault(ran.lines()) if ran.classification.verdict is Verdict.CRASH else None
    return None if told is None else fault_by_buffers(told, task.position, orchestration)


def _run(failing: RunnableBuild, name: str, edited: Callable[[Orchestration], bytes]) -> Steps[Ran]:
    """Run it with its orchestration edited."""

    def make(folder: Path) -> RunnableBuild:
        copy = WorkingCopy.of(failing.path, folder)
        copy.write_orchestration(edited(copy.orchestration()))
        return RunnableBuild(path=copy.path, toolchain=failing.toolchain)

    build = yield from MakeBuild(make=make, name=f"{name}/made")
    return (yield from RunOnce(build=build, name=f"{name}/run"))
