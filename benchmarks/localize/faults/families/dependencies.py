"""Orchestrations in which a task does not wait for another one that it must wait for."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace

from ..fault import Cause, Change, Fault, Kind
from ..sources import InapplicableError, Sources, Submission, tensor


def _declared(old: str, new: str) -> Kind:
    """An argument declared as `new` where `old` belongs."""

    def kind(sources: Sources, rng: random.Random) -> Fault:
        places = [(one, name) for one in sources.submissions for usage, name in one.arguments if usage == old]
        if not places:
            raise InapplicableError
        one, name = rng.choice(places)
        text = one.text.replace(f"add_{old}({name})", f"add_{new}({name})")
        cause = _unordered(sources, one, tensor(name))
        return Fault(sources.with_submission(one, text), (cause,), by_chance=True)

    return kind


def _unordered(sources: Sources, one: Submission, name: str) -> Cause:
    """The cause is right if any of the tasks that touch the tensor is named: they are no longer in order."""
    touching = [other for other in sources.submissions if name in other.written | other.read]
    return Cause(
        frozenset({one.kernel, *(other.kernel for other in touching)}),
        frozenset({name}).union(*(other.written for other in touching)),
        Change.DIRECTION,
    )


def _manual_scope(sources: Sources, rng: random.Random) -> Fault:
    text = sources.orchestration
    found = rng.choice(list(re.finditer(r"PTO2_SCOPE\(\) \{", text)))
    depth, end = 0, found.end() - 1
    for end in range(found.end() - 1, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            break
    body = text[found.end() : end]
    inside = [one for one in sources.submissions if one.text in body]
    if "PTO2_SCOPE" in body and len(inside) == len(sources.submissions):
        raise InapplicableError
    read = frozenset[str]().union(*(one.read for one in inside))
    below = [
        one for one in sources.submissions if one.read & frozenset[str]().union(*(o.written for o in inside))
    ]
    above = [one for one in sources.submissions if one.written & read]
    concerned = [*inside, *below, *above]
    cause = Cause(
        frozenset(one.kernel for one in concerned),
        frozenset[str]().union(*(one.written for one in concerned)),
        Change.ORDER,
    )
    changed = text[: found.start()] + "PTO2_SCOPE(PTO2ScopeMode::MANUAL) {" + text[found.end() :]
    return Fault(replace(sources, orchestration=changed), (cause,), by_chance=True)


KINDS: Mapping[str, Kind] = {
    "in-out declared output": _declared("inout", "output"),
    "in-out declared input": _declared("inout", "input"),
    "output declared input": _declared("output", "input"),
    "input declared output": _declared("input", "output"),
    "manual scope": _manual_scope,
}
