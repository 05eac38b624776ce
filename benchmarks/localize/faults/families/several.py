"""Two changes at once: two faults, or a fault beside one that does no harm."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from ..fault import Ending, Fault, Kind, in_a_kernel
from ..sources import InapplicableError, Sources
from . import accumulation, arguments, arithmetic, bounds, harmless

_IN_KERNELS = {**bounds.KINDS, **arithmetic.KINDS, **accumulation.KINDS}


def _both(first: Mapping[str, Kind], second: Mapping[str, Kind]) -> Kind:
    """A fault of the first kinds, and one of the second in another kernel."""

    def kind(sources: Sources, rng: random.Random) -> Fault:
        one = first[rng.choice(sorted(first))](sources, rng)
        other = second[rng.choice(sorted(second))](sources, rng)
        if _changed(sources, one) & _changed(sources, other):
            raise InapplicableError
        causes = [replace(cause, alone=fault.sources) for fault in (one, other) for cause in fault.causes]
        return Fault(
            _merged(sources, one.sources, other.sources),
            tuple(causes),
            by_chance=one.by_chance or other.by_chance,
        )

    return kind


def _changed(sources: Sources, fault: Fault) -> set[str]:
    return {name for name, text in fault.sources.kernels.items() if text != sources.kernels[name]}


def _merged(sources: Sources, one: Sources, other: Sources) -> Sources:
    kernels = {
        name: one.kernels[name] if one.kernels[name] != text else other.kernels[name]
        for name, text in sources.kernels.items()
    }
    changed = one.orchestration != sources.orchestration
    return Sources(one.orchestration if changed else other.orchestration, kernels)


_ROUNDING = {name: in_a_kernel(edit, ending=Ending.PASS) for name, edit in harmless.ROUNDING.items()}
_DEAD = {name: in_a_kernel(edit, ending=Ending.PASS) for name, edit in harmless.DEAD.items()}

KINDS: Mapping[str, Kind] = {
    "two kernels": _both(_IN_KERNELS, _IN_KERNELS),
    "a kernel and an argument": _both(_IN_KERNELS, arguments.KINDS),
    "a kernel beside rounding": _both(_IN_KERNELS, _ROUNDING),
    "a kernel beside a dead change": _both(_IN_KERNELS, _DEAD),
    "an argument beside rounding": _both(arguments.KINDS, _ROUNDING),
}
