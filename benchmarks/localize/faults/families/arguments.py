"""Orchestrations that hand a task other tensors, regions or scalars."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..fault import Cause, Change, Fault, Kind
from ..sources import InapplicableError, Sources, Submission, tensor
from .submissions import drawn

_VIEW_SHAPE = re.compile(r"uint32_t (?P<view>\w+_view\w*)_shapes\[2\] = \{(?P<rows>\d+), (?P<columns>\d+)\};")
_VIEW_OFFSET = re.compile(r"uint32_t (?P<view>\w+_view\w*)_offsets\[2\] = \{(?P<row>.+), (?P<column>.+)\};")
_SCALAR = re.compile(r"to_u64\((?P<value>[-+.e\d]+)f\)")


def _changed(sources: Sources, one: Submission, text: str, change: Change, *names: str) -> Fault:
    tensors = one.written | {tensor(name) for name in names}
    return Fault(sources.with_submission(one, text), (Cause(frozenset({one.kernel}), tensors, change),))


def _swapped(sources: Sources, rng: random.Random) -> Fault:
    one = drawn(sources, rng)
    inputs = [name for usage, name in one.arguments if usage == "input"]
    if len(inputs) < 2:
        raise InapplicableError
    first, second = rng.sample(inputs, 2)
    text = re.sub(
        rf"add_input\(({first}|{second})\)",
        lambda found: f"add_input({second if found[1] == first else first})",
        one.text,
    )
    return _changed(sources, one, text, Change.ARGUMENT, first, second)


def _another_tensor(sources: Sources, rng: random.Random) -> Fault:
    """An input of an earlier task in place of one of this task's."""
    one = drawn(sources, rng)
    own = {name for _, name in one.arguments}
    inputs = [name for usage, name in one.arguments if usage == "input"]
    others = sorted(
        {
            name
            for other in sources.submissions
            for usage, name in other.arguments
            if usage != "scalar" and name not in own
        }
    )
    if not inputs or not others:
        raise InapplicableError
    name, other = rng.choice(inputs), rng.choice(others)
    text = one.text.replace(f"add_input({name})", f"add_input({other})")
    return _changed(sources, one, text, Change.ARGUMENT, name, other)


def _view(edit: Callable[[re.Match[str], random.Random], str], pattern: re.Pattern[str]) -> Kind:
    """Changes the declaration of a view, for all tasks that get it."""

    def kind(sources: Sources, rng: random.Random) -> Fault:
        found = rng.choice(list(pattern.finditer(sources.orchestration)))
        text = sources.orchestration
        changed = text[: found.start()] + edit(found, rng) + text[found.end() :]
        users = [one for one in sources.submissions if found["view"] in (name for _, name in one.arguments)]
        if changed == text or not users:
            raise InapplicableError
        cause = Cause(
            frozenset(one.kernel for one in users),
            frozenset({tensor(found["view"])}).union(*(one.written for one in users)),
            Change.ARGUMENT,
        )
        return Fault(replace(sources, orchestration=changed), (cause,))

    return kind


def _shifted(found: re.Match[str], rng: random.Random) -> str:
    row, column = found["row"], found["column"]
    if rng.random() < 0.5:
        row = f"static_cast<uint32_t>({row} + 1)"
    else:
        column = f"static_cast<uint32_t>({column} + 1)"
    return f"uint32_t {found['view']}_offsets[2] = {{{row}, {column}}};"


def _backwards(found: re.Match[str], rng: random.Random) -> str:
    """Only where the offset grows in a loop, and not in its first pass."""
    counted = re.search(r"(\w+)\)\Z", found["row"])
    if counted is None:
        return found[0]
    row = f"static_cast<uint32_t>({found['row']} > 0 ? {found['row']} - 1 : 0)"
    return f"uint32_t {found['view']}_offsets[2] = {{{row}, {found['column']}}};"


def _narrowed(found: re.Match[str], rng: random.Random) -> str:
    rows, columns = int(found["rows"]), int(found["columns"])
    if rng.random() < 0.5 and rows > 1:
        rows -= rng.choice((1, rows // 2))
    else:
        columns -= rng.choice((1, columns // 2))
    return f"uint32_t {found['view']}_shapes[2] = {{{max(1, rows)}, {max(1, columns)}}};"


def _same_in_all_passes(found: re.Match[str], rng: random.Random) -> str:
    return f"uint32_t {found['view']}_offsets[2] = {{0, {found['column']}}};"


def _transposed(sources: Sources, rng: random.Random) -> Fault:
    text = sources.orchestration
    declared = re.findall(r"const ChipTensor (\w+) = .*;", text)
    name = rng.choice(declared)
    found = re.search(rf"const ChipTensor {name} = (.*);", text)
    assert found is not None
    chain = found[1]
    turned = (
        chain.removesuffix(".transpose(0, 1)")
        if chain.endswith(".transpose(0, 1)")
        else chain + ".transpose(0, 1)"
    )
    users = [one for one in sources.submissions if name in (argument for _, argument in one.arguments)]
    if not users or any(tensor(name) in one.written for one in users):
        raise InapplicableError  # a task would write outside of the buffer
    cause = Cause(
        frozenset(one.kernel for one in users),
        frozenset({tensor(name)}).union(*(one.written for one in users)),
        Change.ARGUMENT,
    )
    changed = text.replace(found[0], f"const ChipTensor {name} = {turned};")
    return Fault(replace(sources, orchestration=changed), (cause,))


def _scalar(sources: Sources, rng: random.Random) -> Fault:
    given = [(one, found) for one in sources.submissions if (found := _SCALAR.search(one.text)) is not None]
    if not given:
        raise InapplicableError
    one, found = rng.choice(given)
    value = float(found["value"]) * rng.choice((0.5, 2.0, 1.001, -1.0))
    text = one.text.replace(found[0], f"to_u64({value!r}f)", 1)
    return _changed(sources, one, text, Change.SCALAR)


def _scalars_swapped(sources: Sources, rng: random.Random) -> Fault:
    given = [
        (one, scalars)
        for one in sources.submissions
        if len(scalars := [name for usage, name in one.arguments if usage == "scalar"]) > 1
    ]
    if not given:
        raise InapplicableError
    one, scalars = rng.choice(given)
    first, second = rng.sample(scalars, 2)
    text = one.text.replace(first, "@").replace(second, first).replace("@", second)
    return _changed(sources, one, text, Change.SCALAR)


KINDS: Mapping[str, Kind] = {
    "inputs swapped": _swapped,
    "another tensor": _another_tensor,
    "view shifted": _view(_shifted, _VIEW_OFFSET),
    "view one row back": _view(_backwards, _VIEW_OFFSET),
    "view narrowed": _view(_narrowed, _VIEW_SHAPE),
    "view the same in all passes": _view(_same_in_all_passes, _VIEW_OFFSET),
    "view transposed": _transposed,
    "scalar changed": _scalar,
    "scalars swapped": _scalars_swapped,
}
