"""Dumps tasks, a few a run, until it is known which of them diverge first."""

from __future__ import annotations

from collections.abc import Callable

from ....runner.errors import UserError
from ...replay.comparison import NotWholeError
from .choice import BudgetTooSmallError, next_tasks
from .observations import Observations

Look = Callable[[tuple[int, ...]], None]
OnProgress = Callable[[str], None]


def observe_until_settled(
    observations: Observations, budget: int, look: Look, on_progress: OnProgress
) -> None:
    """`look` dumps the results of some nodes in one run and notes in `observations` which diverge; it raises
    `NotWholeError` where not all was dumped, and then fewer are tried. `budget` is bytes a run.

    Raises:
        UserError: the budget holds no task, a task is not dumped whole by itself, or a run fails.
    """
    dag, most = observations.dag, budget
    while True:
        try:
            nodes = next_tasks(observations, most)
        except BudgetTooSmallError as error:
            raise UserError(_too_small(error.needed, budget, most)) from error
        if not nodes:
            return
        on_progress(f"dumping the results of {len(nodes)} of {len(dag)} tasks")
        try:
            look(nodes)
        except NotWholeError as error:
            if len(nodes) == 1:
                raise UserError(f"expected a task's results dumped whole, found: {error}") from error
            most = min(most, sum(dag.sizes[node] for node in nodes)) // 2
            on_progress(f"not all was dumped ({error}): trying with {most} bytes")


def _too_small(needed: int, budget: int, most: int) -> str:
    if most < budget:
        return (
            "expected the results of tasks dumped whole, found records dropped or cut short even in a run that "
            f"was to dump {2 * most} bytes; enlarge the runtime's dump buffers"
        )
    return f"--dump-budget: expected at least {needed} bytes, the results of one task, found {budget}"
