"""What a choice depends on beside the bisection itself."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from .costs import Timings
from .promise import Promise

Suspicion: TypeAlias = Mapping[str, float]
"""How probable it is that commits are to blame."""


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """As they are when a bisection is asked what it needs.

    workers: how many probes of this bisection may run at once. timings: what probes are expected to take before any
    of its own was timed. built: contents that were built, for whomever. suspicions: for each repository what other
    bisections know: a row each, how probable they take its commits to be to blame. rivals: what the other bisections
    that want a worker now promise: a build is paid for together. None where there can be no other.
    """

    workers: int = 1
    timings: Timings | None = None
    built: Collection[str] = frozenset()
    suspicions: Mapping[str, Sequence[Suspicion]] = field(default_factory=dict[str, Sequence[Suspicion]])
    rivals: Sequence[Promise] | None = None
