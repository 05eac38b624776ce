"""Memory reuse: a new intermediate takes over the buffer of a dead one of the same shape and type.

Tasks run in parallel, so a tensor is dead only when every task that uses it has surely finished, that is, when
the writer of the new one depends on it through data. The runtime makes readers wait for writers, never a writer
for earlier readers: a wrong decision here is a race or a corrupted value, not a delay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..ir import Program, Region, Scope, Stage, Statement, Task, Tensor, leaves, rewrite_bodies
from ..types import ArgDirection


def reuse_memory(program: Program) -> Program:
    """Share buffers within each scope."""

    def share(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(_share(statement) if isinstance(statement, Scope) else statement for statement in body)

    return replace(program, body=rewrite_bodies(program.body, share))


@dataclass(frozen=True)
class _Use:
    """A task, and which statement of the scope holds it: tasks of one loop take turns, so they never count as over."""

    task: Task
    statement: int


class _Liveness:
    """Which tasks of a scope have finished when another starts."""

    def __init__(self, scope: Scope) -> None:
        uses = [
            _Use(task=leaf, statement=position)
            for position, statement in enumerate(scope.body)
            for leaf in leaves((statement,))
            if isinstance(leaf, Task)
        ]
        self._users: dict[str, set[_Use]] = {}
        self._writers: dict[str, set[_Use]] = {}
        self._before: dict[_Use, set[_Use]] = {}
        for use in uses:
            self._before[use] = self._waits_for(use)
            for argument in use.task.arguments:
                name = argument.region.tensor.name
                self._users.setdefault(name, set()).add(use)
                if argument.direction is not ArgDirection.IN:
                    self._writers.setdefault(name, set()).add(use)

    def _waits_for(self, use: _Use) -> set[_Use]:
        """The tasks before `use`: only a read of a whole tensor waits for every iteration that writes it."""
        before: set[_Use] = set()
        for argument in use.task.arguments:
            if argument.direction is not ArgDirection.OUT and argument.region.is_whole:
                for writer in self._writers.get(argument.region.tensor.name, ()):
                    before |= {writer} | self._before[writer]
        return before

    def is_over(self, tensor: Tensor, successor: Tensor) -> bool:
        """Whether nobody uses `tensor` any more once `successor` is written."""
        return all(
            user in self._before[writer] and user.statement < writer.statement
            for writer in self._writers[successor.name]
            for user in self._users[tensor.name]
        )


def _share(scope: Scope) -> Scope:
    liveness = _Liveness(scope)
    tenants: list[Tensor] = []  # the newest tenant of each buffer, the most recently used buffer last
    buffers: dict[str, str] = {}
    for tensor in scope.allocations:
        for tenant in reversed(tenants):
            same_type = (tenant.shape, tenant.dtype) == (tensor.shape, tensor.dtype)
            if same_type and liveness.is_over(tenant, tensor):
                buffers[tensor.name] = buffers.get(tenant.name, tenant.name)
                tenants.remove(tenant)
                break
        tenants.append(tensor)
    return _move(scope, buffers)


def _move(scope: Scope, buffers: dict[str, str]) -> Scope:
    def moved(tensor: Tensor) -> Tensor:
        return replace(tensor, buffer=buffers[tensor.name]) if tensor.name in buffers else tensor

    def on_buffer(region: Region) -> Region:
        return region.on(moved(region.tensor))

    def rewrite(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(_move_task(x, on_buffer) if isinstance(x, Task) else x for x in body)

    return Scope(
        allocations=tuple(moved(tensor) for tensor in scope.allocations),
        body=rewrite_bodies(scope.body, rewrite),
    )


def _move_task(task: Task, change: Callable[[Region], Region]) -> Task:
    stage: Stage = task.stage.map_regions(change)
    arguments = tuple(replace(argument, region=change(argument.region)) for argument in task.arguments)
    return Task(stage=stage, arguments=arguments)
