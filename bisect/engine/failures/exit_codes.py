"""Which failures of a command are the failing end's: they are told apart by their exit codes."""

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from ....store.vocabulary import Judgement
from ..log import ProbeLog
from ..probes import FinishedProbe

_T = TypeVar("_T")
Failures = frozenset[str]
"""Exit codes, as signatures begin with them."""
_TOO_MANY = 3
"""So many exit codes are a count of what failed, or chance: they tell no failures apart."""


def failures_at(log: ProbeLog, content: str) -> Failures:
    """How a content fails; empty where it was not seen to, or nothing says how."""
    return frozenset(failure_of(probe.signature) for probe in log.of(content) if _tells(probe))


def failures_of_end(log: ProbeLog, end: str) -> Failures:
    """How the failing end fails; every way in which anything does where these are too many.

    A commit in between that fails in two ways tells nothing of the end: two faults may meet there, of which one was
    mended before the end.
    """
    every = Failures().union(
        *(failures_at(log, content) for content in {probe.content for probe in log.ended})
    )
    return every if len(every) >= _TOO_MANY else failures_at(log, end)


def with_faces(failures: frozenset[_T], at_commits: Collection[frozenset[_T]]) -> frozenset[_T]:
    """Some failures, and those that a commit shows in turns with them: one failure with several faces.

    >>> sorted(with_faces(frozenset({1}), [frozenset({3, 2}), frozenset({1, 2}), frozenset({4})]))
    [1, 2, 3]
    """
    known = frozenset[_T]()
    while failures != known:
        known = failures
        failures = known.union(*(each for each in at_commits if each & known))
    return failures


def counting_only(log: ProbeLog, failures: Failures) -> ProbeLog:
    """The log, in which runs that fail otherwise tell nothing: what they failed for may hide these failures."""
    ended = (
        replace(probe, judgement=Judgement.SKIP)
        if fails_otherwise(probe.judgement, probe.signature, failures)
        else probe
        for probe in log.ended
    )
    return replace(log, ended=tuple(ended))


def fails_otherwise(judgement: Judgement | None, signature: str | None, failures: Collection[str]) -> bool:
    """Whether a run is known to fail otherwise than what is searched for."""
    return judgement is Judgement.BAD and signature is not None and failure_of(signature) not in failures


def failure_of(signature: str | None) -> str:
    """What is told apart of a signature: the exit code alone, not what a compiler said."""
    return (signature or "").partition(": ")[0]


def _tells(probe: FinishedProbe) -> bool:
    return probe.judgement is Judgement.BAD and probe.signature is not None
