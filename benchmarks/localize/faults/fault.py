"""What a fault is: changed sources, and the truth about them, known because the fault was planted."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from .sources import InapplicableError, Sources

_STORED = re.compile(
    r"store_f32\((?P<target>\w+), (?P<offset>offset|element_offset\([^()]*\)), (?P<value>.+)\);"
    r"|elements<int32_t>\((?P<integers>\w+)\)\[offset\] = "
)


class Ending(Enum):
    """How the case ends with the build, by its own tolerance."""

    MISMATCH = "mismatch"
    PASS = "pass"
    STALL = "stall"
    CRASH = "crash"
    BROKEN = "broken"
    """Otherwise: it does not compile, or the runtime refuses it. No fault is intended to end so."""


class Change(Enum):
    """What differs between the two programs, and is to be named."""

    KERNEL = "kernel"
    ARGUMENT = "argument"
    SCALAR = "scalar"
    KERNEL_ID = "kernel id"
    MISSING_TASK = "missing task"
    EXTRA_TASK = "extra task"
    ORDER = "order"
    DIRECTION = "direction"
    BUFFER = "buffer"


@dataclass(frozen=True)
class Cause:
    """One thing that is wrong. Who names it names one of the kernels, one of the tensors, the class and the change."""

    kernels: frozenset[str]
    tensors: frozenset[str]
    change: Change
    alone: Sources | None = None
    """The good sources with nothing but this, where a fault has several causes."""

    @property
    def classes(self) -> frozenset[str]:
        """The classes of error that are right for its tasks."""
        if self.change is Change.KERNEL:
            return frozenset({"introduced"})
        return frozenset({"interaction", "inherited", "introduced", "unknown"})


@dataclass(frozen=True)
class Fault:
    """Changed sources, the causes (none: nothing may be blamed), and how the case is to end with them.

    by_chance: that the outcome depends on the order of tasks, so that some runs may end otherwise.
    """

    sources: Sources
    causes: tuple[Cause, ...]
    ending: Ending = Ending.MISMATCH
    by_chance: bool = False


Kind = Callable[[Sources, random.Random], Fault]
"""Plants a fault at a place that the generator draws. Raises `InapplicableError` where there is none."""


def in_a_kernel(edit: Callable[[str, random.Random], str], *, ending: Ending = Ending.MISMATCH) -> Kind:
    """A kind that changes one kernel's text, the first of a drawn order to which the edit applies."""

    def kind(sources: Sources, rng: random.Random) -> Fault:
        names = sorted(sources.kernels)
        for name in rng.sample(names, len(names)):
            try:
                text = edit(sources.kernels[name], rng)
            except InapplicableError:
                continue
            return Fault(
                sources.with_kernel(name, text),
                () if ending is Ending.PASS else (cause_in_kernel(sources, name),),
                ending,
            )
        raise InapplicableError

    return kind


def cause_in_kernel(sources: Sources, name: str) -> Cause:
    """That a kernel computes something else."""
    stored = {found["target"] or found["integers"] for found in _STORED.finditer(sources.kernels[name])}
    return Cause(frozenset({name}), frozenset(stored), Change.KERNEL)


def storing(expression: str) -> Callable[[str, random.Random], str]:
    """An edit that stores another value: `expression` with {value} and {target}, at one of a kernel's stores of
    floats."""

    def edit(text: str, rng: random.Random) -> str:
        stores = [found for found in _STORED.finditer(text) if found["value"]]
        if not stores:
            raise InapplicableError
        found = rng.choice(stores)
        value = expression.format(value=f"({found['value']})", target=found["target"])
        return text[: found.start("value")] + value + text[found.end("value") :]

    return edit
