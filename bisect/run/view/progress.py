"""What whoever shows a bisection is told while it runs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ....runner.probe.records import ProbeResult
from ....store.vocabulary import Phase
from ...engine.bisection import Bisection
from ...engine.needs import Confirming, Narrowed


@dataclass(frozen=True, kw_only=True)
class StartedProbe:
    """A probe that starts. subject, date: of its commit. again: why what ran before runs once more. stands_for:
    the end that is run by it, where that is another commit with the same content."""

    ordinal: int
    phase: Phase
    repository: str
    commit: str
    subject: str | None = None
    date: datetime | None = None
    again: str | None = None
    stands_for: str | None = None


class Progress(Protocol):
    """Told by the driver what happens."""

    def standing(self, bisection: Bisection) -> None:
        """How far it has come, before anything else is told that follows from it."""
        ...

    def stage(self, repository: str, *, commits: int, candidates: int) -> None:
        """A range is going to be searched: `candidates` of its `commits` are left after the collapse."""
        ...

    def remaining(self, left: Narrowed) -> None:
        """The search has narrowed the range, or begins."""
        ...

    def confirming(self, left: Confirming) -> None:
        """One commit is left, and is run beside its parent until the asked confidence is reached."""
        ...

    def probe_started(self, probe: StartedProbe) -> None:
        """A probe starts."""
        ...

    def activity(self, ordinal: int, where: str, text: str) -> None:
        """What is done for a probe now, and where: in which slot, on a farm of which machine."""
        ...

    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        """A probe is finished and stored."""
        ...

    def probe_cancelled(self, ordinal: int) -> None:
        """A probe was stopped, for it had lost its value."""
        ...

    def notice(self, text: str) -> None:
        """A warning."""
        ...
