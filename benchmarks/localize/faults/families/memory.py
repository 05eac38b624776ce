"""Writes into a neighbour, reads of what is stale, buffers that two live tensors share."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace

from ..fault import Cause, Change, Fault, Kind, cause_in_kernel, in_a_kernel
from ..sources import InapplicableError, Sources, substituted

_SLOT = re.compile(r"const ChipTensor& (\w+) = (alloc_\d+)\.get_ref\((\d+)\);")
_STORE = r"(store_f32\((\w+), element_offset\(\2, row, column\), (\w+)\);)"


def _beside(where: str, condition: str) -> Kind:
    """Also writes where a neighbour of the tensor's buffer is: `where` and `condition` over {0}."""

    def kind(sources: Sources, rng: random.Random) -> Fault:
        viewed = {
            one.kernel
            for one in sources.submissions
            if any(usage == "output" and "_view" in name for usage, name in one.arguments)
        }
        if not viewed:
            raise InapplicableError
        name = rng.choice(sorted(viewed))

        def beside(found: re.Match[str]) -> str:
            target = found[2]
            return (
                f"{found[1]}\n            if ({condition.format(target)}) "
                f"store_f32({target}, {where.format(target)}, 0.5f * {found[3]});"
            )

        text = substituted(_STORE, beside, sources.kernels[name], rng)
        return Fault(sources.with_kernel(name, text), (cause_in_kernel(sources, name),), by_chance=True)

    return kind


def _overlap(sources: Sources, rng: random.Random) -> Fault:
    """A tensor handed the slot of another one of the same batch."""
    found = list(_SLOT.finditer(sources.orchestration))
    sizes = dict(re.findall(r"uint32_t (\w+)_ci_shapes\[2\] = (\{.*\});", sources.orchestration))
    pairs = [
        (one, other)
        for one in found
        for other in found
        if one[2] == other[2]
        and one[3] != other[3]
        and one[1] in sizes
        and sizes[one[1]] == sizes.get(other[1])
    ]
    if not pairs:
        raise InapplicableError
    one, other = rng.choice(pairs)
    text = sources.orchestration.replace(
        one[0], f"const ChipTensor& {one[1]} = {one[2]}.get_ref({other[3]});"
    )
    names = {one[1], other[1]}
    users = [
        submission for submission in sources.submissions if (submission.written | submission.read) & names
    ]
    cause = Cause(
        frozenset(submission.kernel for submission in users),
        frozenset(names).union(*(submission.written for submission in users)),
        Change.BUFFER,
    )
    return Fault(replace(sources, orchestration=text), (cause,), by_chance=True)


def _stale(text: str, rng: random.Random) -> str:
    return substituted(
        r"store_f32\((\w+), (element_offset\(\1, row, (?:column|0)\)), (\w+)\);",
        r"store_f32(\1, \2, \3 + load_f32(\1, \2));",
        text,
        rng,
    )


KINDS: Mapping[str, Kind] = {
    "writes past its end": _beside(
        "element_offset({0}, row + 1, column)", "{0}.start_offset == 0 && row + 1 == {0}.shape[0]"
    ),
    "writes before its start": _beside(
        "element_offset({0}, row, column) - {0}.strides[0]", "{0}.start_offset >= {0}.strides[0] && row == 0"
    ),
    "adds what was there before": in_a_kernel(_stale),
    "live buffers overlap": _overlap,
}
