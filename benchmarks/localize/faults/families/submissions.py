"""Orchestrations that submit other tasks, or in another order."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace

from ..fault import Cause, Change, Fault, Kind
from ..sources import InapplicableError, Sources, Submission

_LOOP = re.compile(r"for \(int64_t (\w+) = (\d+); \1 < (\d+); \1 \+= (\d+)\) \{\n")


def drawn(sources: Sources, rng: random.Random) -> Submission:
    """One place that submits a task."""
    return rng.choice(sources.submissions)


def _cause(change: Change, *submissions: Submission) -> tuple[Cause, ...]:
    written = frozenset[str]().union(*(one.written for one in submissions))
    return (Cause(frozenset(one.kernel for one in submissions), written, change),)


def _loop(sources: Sources, rng: random.Random, *, start: int, stop: int) -> Fault:
    """A loop that begins or ends so many steps later."""
    text = sources.orchestration
    found = rng.choice(list(_LOOP.finditer(text)))
    name, first, last, step = found[1], int(found[2]), int(found[3]), int(found[4])
    first, last = first + start * step, last + stop * step
    header = f"for (int64_t {name} = {first}; {name} < {last}; {name} += {step}) {{\n"
    changed = text[: found.start()] + header + text[found.end() :]
    body = _body(text, found.end())
    inside = [one for one in sources.submissions if one.text in body]
    return Fault(
        replace(sources, orchestration=changed),
        _cause(Change.MISSING_TASK if start > 0 or stop < 0 else Change.EXTRA_TASK, *inside),
    )


def _body(text: str, start: int) -> str:
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start:place]
    raise InapplicableError


def _missing(sources: Sources, rng: random.Random) -> Fault:
    one = drawn(sources, rng)
    return Fault(sources.with_submission(one, ""), _cause(Change.MISSING_TASK, one))


def _twice(sources: Sources, rng: random.Random) -> Fault:
    adding = [one for one in sources.submissions if "inout" in (usage for usage, _ in one.arguments)]
    if not adding:
        raise InapplicableError
    one = rng.choice(adding)
    line = one.text.rstrip("\n").rpartition("\n")[2]
    return Fault(sources.with_submission(one, one.text + line + "\n"), _cause(Change.EXTRA_TASK, one))


def _other_kernel(sources: Sources, rng: random.Random) -> Fault:
    one = drawn(sources, rng)
    others = [
        other
        for other in sources.submissions
        if other.kernel != one.kernel
        and [usage for usage, _ in other.arguments] == [usage for usage, _ in one.arguments]
    ]
    if not others:
        raise InapplicableError
    other = rng.choice(others)
    text = one.text.replace(f"_task({one.kernel_id},", f"_task({other.kernel_id},")
    cause = Cause(frozenset({one.kernel, other.kernel}), one.written, Change.KERNEL_ID)
    return Fault(sources.with_submission(one, text), (cause,))


def _too_early(sources: Sources, rng: random.Random) -> Fault:
    """A task submitted before the one right above it, whose result it reads."""
    pairs = [
        (above, below)
        for above, below in zip(sources.submissions, sources.submissions[1:], strict=False)
        if above.written & below.read
        and re.search(re.escape(above.text) + r"\s*" + re.escape(below.text), sources.orchestration)
    ]
    if not pairs:
        raise InapplicableError
    above, below = rng.choice(pairs)
    changed = sources.with_submission(below, "").with_submission(above, below.text + " " * 16 + above.text)
    return Fault(changed, _cause(Change.ORDER, above, below), by_chance=True)


KINDS: Mapping[str, Kind] = {
    "loop ends one early": lambda sources, rng: _loop(sources, rng, start=0, stop=-1),
    "loop begins one late": lambda sources, rng: _loop(sources, rng, start=1, stop=0),
    "submission missing": _missing,
    "submitted twice": _twice,
    "wrong kernel id": _other_kernel,
    "submitted too early": _too_early,
}
