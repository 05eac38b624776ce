"""What the runtime says of a stall: the tasks that are not done, and the cores that they sit on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TASK = re.compile(
    r"\[STALL [^\]]*\bidle_iterations=(?P<round>\d+)\] TASK ring=(?P<ring>\d+) task_id=(?P<task>\d+) "
    r"state=(?P<state>[A-Z]+)\s+fanin_refcount=(?P<met>\d+)/(?P<dependencies>\d+)"
    r"(?: kernels=\[aic:(?P<aic>-?\d+) aiv0:(?P<aiv0>-?\d+) aiv1:(?P<aiv1>-?\d+)\])?"
)
_CORES = re.compile(r"\bcore=(\d+)\(")
_SUMMARY = re.compile(
    r"\[STALL [^\]]*\bidle_iterations=(?P<round>\d+)\] SUMMARY completed=(?P<completed>\d+)/(?P<total>\d+)"
)
_MOST = 10_000


@dataclass(frozen=True, kw_only=True)
class OpenTask:
    """A task that was not done. `state` is RUNNING, READY or WAIT; `kernels` are function ids, `cores` the runtime's
    numbers; of its `dependencies`, `met` were."""

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
        """The running tasks, the last one dispatched at the end; where none runs, those that wait."""
        return tuple(task for task in self.tasks if task.state == "RUNNING") or self.tasks


def read_stall(lines: Iterable[str]) -> StallLog | None:
    """None where the lines tell of no stall. Earlier rounds than the last are progress reports of a slow run."""
    rounds: dict[int, list[OpenTask]] = {}
    summary: dict[int, tuple[int, int]] = {}
    last = None
    for line in lines:
        if (match := _TASK.search(line)) is not None:
            last = int(match["round"])
            known = rounds.setdefault(last, [])
            if len(known) < _MOST:
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
