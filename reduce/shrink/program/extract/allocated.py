"""Which buffer the runtime allocated for which output of a task.

A graph names such a buffer only where a later task uses it. It says who made it by an edge from the maker to that task,
but a pair of tasks gets no second edge for a second buffer. Which output is meant, the orchestration's text tells: a
use of `outs.get_ref(1)` is the second output of the task that was last submitted as `outs`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .....runner.build_output.orchestration.model import Origin, Submit
from .....runner.build_output.orchestration.orchestration import Orchestration
from ....graph.task_list import TaskList

_REFERENCE = re.compile(r"(\w+)\.get_ref\(\s*(\d+)\s*\)")


def allocated_buffers(
    orchestration: Orchestration, tasks: TaskList, submits: Mapping[int, Sequence[Submit]]
) -> dict[tuple[int, int], int]:
    """Buffer ids by the ordinal of the task they were allocated for, and the place among its allocated outputs.

    `submits` are those that may have made each task; where they do not agree, nothing is said.
    """
    allocated: dict[tuple[int, int], int] = {}
    submitted: dict[str, int] = {}
    for task in tasks.tasks:
        for argument in task.task.arguments:
            uses = {_output(orchestration, submit, argument.index) for submit in submits[task.ordinal]}
            use = uses.pop() if len(uses) == 1 else None
            if use is not None and argument.tensor_id is not None and use[0] in submitted:
                allocated.setdefault((submitted[use[0]], use[1]), argument.tensor_id)
        results = {submit.result for submit in submits[task.ordinal]}
        for name in results - {None}:
            # One of several names: what it stands for from here on is not known.
            submitted.pop(str(name), None)
        if len(results) == 1 and (name := results.pop()) is not None:
            submitted[name] = task.ordinal
    return allocated


def _output(orchestration: Orchestration, submit: Submit, argument: int) -> tuple[str, int] | None:
    """The submit's variable and the place of the output that a tensor argument is, or is a view of."""
    if argument >= len(submit.tensor_arguments):
        return None
    bound = {tensor.name: tensor for tensor in orchestration.tensors}
    text, seen = submit.tensor_arguments[argument].text, set[str]()
    while (tensor := bound.get(text)) is not None and text not in seen:
        seen.add(text)
        if tensor.origin is Origin.TASK_OUTPUT and tensor.index is not None:
            return tensor.base, tensor.index
        if tensor.origin not in (Origin.VIEW, Origin.ALIAS):
            return None
        # A view of a view is spelled `tensor.view(...).transpose(...)`.
        text = tensor.base.partition(".")[0].strip()
    reference = _REFERENCE.match(text)
    return None if reference is None else (reference[1], int(reference[2]))
