"""Who in a build writes where it should not, for a task whose memory is not what the tasks before it left."""

from __future__ import annotations

from collections.abc import Sequence

from ....runner.localization.footprints import TaskFootprint, UndeclaredWrite
from ....store.words import plural
from ...graph.task_list import KernelTask

_MOST_NAMED = 3


def writers_into(found: Sequence[TaskFootprint], victim: KernelTask) -> str:
    """In words, the tasks that write outside of their tensors; of a kernel one, and those first whose writes reach the
    victim's memory. Empty where none does."""
    at_victim = f"task {victim.ordinal} ({victim.name})"
    named: dict[str, tuple[bool, str]] = {}
    for footprint in found:
        for write in footprint.writes:
            hits = at_victim in write.into
            known = named.get(footprint.kernel)
            if known is None or (hits and not known[0]):
                named[footprint.kernel] = hits, _words(footprint, write)
    ranked = sorted(named.values(), key=lambda each: not each[0])
    return "; ".join(text for _, text in ranked[:_MOST_NAMED])


def _words(footprint: TaskFootprint, write: UndeclaredWrite) -> str:
    return (
        f"task {footprint.position} ({footprint.kernel}), argument {write.argument} ({write.tensor}), writes "
        f"{plural(write.bytes, 'byte')} {write.where}, into {write.into}"
    )
