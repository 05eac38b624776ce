"""A probe is a build and a run of the case at one commit. This module holds it as wanted, running and finished."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...runner.verdict.rules import CompilerError
from ...runner.verdict.symptoms import Symptoms
from ...store.vocabulary import BuildSource, Judgement, Phase, Verdict, VerdictSource
from ..history.range import SlotBuild


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a probe builds and runs: one commit of a repository, with other repositories held at fixed commits.

    content: the key of all that can change the result; targets of equal content are the same.
    """

    repository: str
    commit: str
    held: Mapping[str, str]
    content: str


@dataclass(frozen=True, kw_only=True)
class WantedProbe:
    """One more run of a target, and why it is made.

    range: the ordinal of the range for which it is made, from 1. node: the candidate of that range, or its good end,
    that is probed; None where the target is neither. save_golden: whether it saves the data that it makes. avoid: the
    places where it is not made as long as there is another.
    """

    target: Target
    phase: Phase
    range: int
    node: int | None = None
    save_golden: bool = False
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class RunningProbe:
    """A probe that was started, by the number that its driver gave it, and has neither finished nor been cancelled."""

    number: int
    wanted: WantedProbe


@dataclass(frozen=True, kw_only=True)
class ProbeTimes:
    """What a probe took, in seconds of wall time, and where its build came from."""

    build_source: BuildSource
    build_seconds: float
    run_seconds: float

    @property
    def was_built(self) -> bool:
        """Return whether the probe got as far as a build."""
        return self.build_source is not BuildSource.NONE


@dataclass(frozen=True, kw_only=True)
class FinishedProbe:
    """The result of a probe.

    number: in the order of the starts. evidence: the lines that say most of it. place: the host and the slot on it
    where it was made, and so the worktree, the virtual environment and the board behind it. It is None where that is
    not known. kernels: the names of the kernels that its build directory holds. errors: those of a compiler that made
    it a skip.
    """

    number: int
    content: str
    phase: Phase
    judgement: Judgement
    verdict: Verdict
    verdict_source: VerdictSource = VerdictSource.OUTPUT
    signature: str | None = None
    evidence: tuple[str, ...] = ()
    metrics: Mapping[str, Mapping[str, float]]
    place: str | None = None
    kernels: tuple[str, ...] = ()
    errors: tuple[CompilerError, ...] = ()
    symptoms: Symptoms | None = None
    """What a command showed of its failure. None where it is not judged by that."""
    likeness: float = 1.0
    """The chance that a failed probe shows the failure of the failing end."""
    times: ProbeTimes

    @property
    def may_be_machine(self) -> bool:
        """Return whether the probe says nothing of its commit, because the machine may have failed."""
        judges_commit = self.verdict.traits.judges_commit
        return not judges_commit or (self.symptoms is not None and self.symptoms.may_be_machine)


def slot_build(content: str, place: str | None, times: ProbeTimes) -> SlotBuild | None:
    """Return what stands in a slot after a probe. Return None where it was not built, or where its place is not
    known."""
    if place is None or not times.was_built:
        return None
    is_new = times.build_source is BuildSource.BUILT and times.build_seconds > 0
    return SlotBuild(content, place, times.build_seconds if is_new else None)
