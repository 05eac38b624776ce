"""One bisection among others: what each promises, and what it sees of the rest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Protocol

from ...runner.probe.records import ProbeRequest
from ...runner.probe.workers.pool import Event
from ..search.choose.batch import best_rate
from ..search.choose.decision import next_run
from ..search.choose.expectation import expected_bits
from ..search.choose.planner import Probe
from ..search.evidence.posterior import Posterior
from ..search.graph.graph import Floats
from .costs import Timings

_LEAST_SUSPICION = 1e-6


class BudgetSpentError(Exception):
    """No run may start any more; the text says why, and how it goes on. Nothing is in flight then."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Outlook:
    """What one more run of each candidate of a range and, last, of its good end promises, and takes. Arrays have shape
    [n + 1]."""

    repository: str
    commits: Sequence[str]
    """The candidates."""
    posterior: Posterior
    confidence: float
    in_flight: Sequence[int]
    contents: Sequence[str | None]
    """What is built for each; None where it pins no submodule."""
    runs: float
    """Seconds of a run, and of what has to be run before the first one."""
    builds: Floats
    """Seconds until each is there to be run."""
    begun: bool
    """Whether the ends are known to differ."""

    @cached_property
    def bits(self) -> Floats:
        """The information of each run."""
        return expected_bits(self.posterior)

    @cached_property
    def bits_by_content(self) -> Mapping[str, float]:
        """Where the information lies."""
        return {
            content: float(bits)
            for content, bits in zip(self.contents, self.bits, strict=True)
            if content is not None and bits > 0
        }

    @cached_property
    def suspects(self) -> Mapping[str, float]:
        """How probable it is that each candidate is to blame, by what was run alone."""
        probabilities = self.posterior.belief.commits.tolist()
        return {
            sha: probability
            for sha, probability in zip(self.commits, probabilities, strict=True)
            if probability > _LEAST_SUSPICION
        }

    def rate(self, costs: Floats) -> float:
        """The information by cost of the best run; without bounds where the search is over, and its answer is to be
        confirmed: then it is soon known, and tells the others where to look."""
        step = next_run(self.posterior, confidence=self.confidence, costs=costs)
        if not isinstance(step, Probe):
            return inf
        return best_rate(self.posterior, costs=costs, in_flight=self.in_flight)


class Workers(Protocol):
    """Who makes probes; as `WorkerPool`."""

    @property
    def jobs(self) -> int: ...
    def begin(self, request: ProbeRequest) -> int: ...
    def cancel(self, number: int) -> None: ...
    def next_event(self, *, timeout: float | None) -> Event | None: ...


class Company(Protocol):
    """The other bisections that are driven beside one."""

    @property
    def timings(self) -> Timings | None:
        """What is expected before anything was built and run."""
        ...

    @property
    def built(self) -> set[str]:
        """Contents that were built, for whomever: added to as runs end."""
        ...

    def permit(self) -> None:
        """Asked before each run. Raises `BudgetSpentError`."""
        ...

    def turn(self, look: Callable[[], Outlook]) -> bool:
        """Wait until no other promises more. False: a run of one's own has ended before that."""
        ...

    def costs(self, outlook: Outlook) -> Floats:
        """What each run costs, of which others may pay a part."""
        ...

    def suspicions(self, repository: str) -> Sequence[Mapping[str, float]]:
        """What others know: for each how probable it takes commits to be to blame."""
        ...


class Alone:
    """No others."""

    timings: Timings | None = None

    def __init__(self) -> None:
        self.built = set[str]()

    def permit(self) -> None:
        return None

    def turn(self, look: Callable[[], Outlook]) -> bool:
        return True

    def costs(self, outlook: Outlook) -> Floats:
        return outlook.runs + outlook.builds

    def suspicions(self, repository: str) -> Sequence[Mapping[str, float]]:
        return ()
