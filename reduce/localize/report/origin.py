"""Whether compiler or runtime is at fault: what was generated differently, beside what the kernels did alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ....runner.build_output.generated_sources import GeneratedDifference
from ....runner.localization.divergence import DivergentPass, Generated
from ....runner.localization.tensors import FirstDivergent


def origin_of_fault(difference: GeneratedDifference, firsts: Sequence[FirstDivergent]) -> Generated:
    """What the compiler made differently, and whether that settles who is at fault.

    That two builds have equal sources says nothing of the runtime by itself: frozen data, the machine or a race may be
    behind the failure. A kernel that was seen to leave other results alone, on the same inputs, does.
    """
    first = difference.first_pass
    changed = {*difference.differing, *difference.only_failing, *difference.only_reference}
    makers = {source for tensor in firsts for source in tensor.kernel_sources}
    orchestrations = {tensor.orchestration_source for tensor in firsts}
    introduced = any(tensor.task_class == "introduced" for tensor in firsts)
    interaction = any(tensor.task_class == "interaction" for tensor in firsts)
    origin: Literal["compiler", "runtime"] | None = None
    if introduced and changed & makers:
        origin, shown = "compiler", "the source of the kernel that is wrong alone was generated differently"
    elif introduced and difference.is_empty:
        origin = "runtime"
        shown = "all generated sources are the same, and yet the kernel alone leaves other results on the same inputs"
    elif interaction and changed & orchestrations:
        origin, shown = (
            "compiler",
            "the orchestration of the task that is right alone was generated differently",
        )
    elif difference.is_empty:
        shown = "all generated sources are the same; whether the runtime is at fault was not shown"
    else:
        shown = "generated sources differ, but not shown to be those that make the difference"
    return Generated(
        differing=difference.differing,
        only_failing=difference.only_failing,
        only_reference=difference.only_reference,
        first_pass=None
        if first is None
        else DivergentPass(number=first.number, name=first.name, diff=first.diff),
        origin=origin,
        shown=shown,
    )
