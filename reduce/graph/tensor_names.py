"""The name that the orchestration has for an argument of a task, and the lines that may have submitted it."""

from __future__ import annotations

from collections.abc import Sequence

from ...runner.build_output.orchestration.model import Origin, Submit
from ...runner.build_output.orchestration.orchestration import Orchestration

_PREFIX = "ext_"


def submit_lines(orchestration: Orchestration, submits: Sequence[Submit]) -> tuple[int, ...]:
    """Line numbers, from 1."""
    return tuple(orchestration.source.count(b"\n", 0, submit.statement.start) + 1 for submit in submits)


def tensor_name(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> str | None:
    """The tensor that argument `argument` is, or is a view of; None where the submits do not agree on one."""
    names = tensor_names(orchestration, submits, argument)
    return names.pop() if len(names) == 1 else None


def tensor_names(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> set[str]:
    """The tensors that argument `argument` may be, or be a view of: each by one of the submits."""
    return {
        _root(orchestration, submit.tensor_arguments[argument].text)
        for submit in submits
        if argument < len(submit.tensor_arguments)
    }


def entry_tensor(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> str | None:
    """As `tensor_name`, where that is an argument of the orchestration; None where it is not, or not surely so."""
    spelled = [tensor.name for tensor in orchestration.tensors]
    entries = {
        tensor.name.removeprefix(_PREFIX)
        for tensor in orchestration.entry_tensors
        if spelled.count(tensor.name) == 1
        and tensor.name.removeprefix(_PREFIX) not in set(spelled) - {tensor.name}
    }
    name = tensor_name(orchestration, submits, argument)
    return name if name in entries else None


def _root(orchestration: Orchestration, text: str) -> str:
    """The tensor behind views and other names; without the prefix of generated code for entry arguments."""
    bound = {tensor.name: tensor for tensor in orchestration.tensors}
    seen: set[str] = set()
    while text in bound and text not in seen and bound[text].origin in (Origin.VIEW, Origin.ALIAS):
        seen.add(text)
        # A view of a view is spelled `tensor.view(...).transpose(...)`.
        text = bound[text].base.partition(".")[0].strip()
    return text.removeprefix(_PREFIX) if text in bound and bound[text].origin is Origin.ENTRY else text
