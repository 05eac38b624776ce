"""What was found out of why a build fails: its failure, and the changes that make it."""

from __future__ import annotations

from dataclasses import dataclass

from ....store.vocabulary import Verdict
from ...replay.recorded_build import RecordedBuild
from .changes import Change
from .coverage import Unwritten
from .failure import OutputJudge, WrongOutputs


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """The good build with some of the changes, run: what is wrong in its outputs.

    `build` is None where the run did not get to its outputs: `ended` says how it ended, None where that is not known.
    """

    changes: frozenset[Change]
    build: RecordedBuild | None
    failure: WrongOutputs
    ended: Verdict | None = None

    @property
    def fails(self) -> bool:
        """Whether outputs were compared, and are wrong."""
        return bool(self.failure)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Changes that make the good build fail, and no fewer of them do.

    `effect` is the share of the failing build's wrong elements that they make wrong. `subject` is the build that has
    these changes alone; the failing one itself, where there are no others; None where it does not get to its outputs.
    `shown` says that a run showed it: else they are all that differs, and no run tells them apart.
    """

    changes: tuple[Change, ...]
    effect: float
    subject: RecordedBuild | None
    shown: bool


@dataclass(frozen=True, kw_only=True)
class FailureExplanation:
    """Why a build fails, as far as outputs tell.

    `causes` are ranked by their effect, `cleared` are changes that are none. `made` are the builds that were run for
    it. `identical` says that all sources are the same in both builds.
    """

    judge: OutputJudge
    failure: WrongOutputs
    causes: tuple[Cause, ...] = ()
    cleared: tuple[Change, ...] = ()
    made: tuple[Intervention, ...] = ()
    unwritten: tuple[Unwritten, ...] = ()
    identical: bool = False

    @property
    def passes(self) -> bool:
        """Whether there is nothing to explain."""
        return not self.failure
