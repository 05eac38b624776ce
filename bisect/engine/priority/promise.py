"""What one more probe of a bisection promises, by which several bisections are served in turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from ...search.choose.batch import best_rate
from ...search.choose.decision import next_run
from ...search.choose.expectation import expected_bits
from ...search.choose.planner import Probe
from ...search.evidence.posterior import Posterior
from ...search.graph.graph import Floats

_LEAST_SUSPICION = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class Promise:
    """What one more probe of each candidate of a range and, last, of its good end promises, and takes. Arrays have
    shape [n + 1].

    commits: the candidates. in_flight: the candidates (or the good end) that are being probed. contents: what is built
    for each; None where it pins nothing that can be had. runs: seconds of a run, and of what has to be run before the
    first one. builds: seconds until each is there to be run. ends_differ: whether the ends are known to differ.
    """

    repository: str
    commits: Sequence[str]
    posterior: Posterior
    confidence: float
    in_flight: Sequence[int]
    contents: Sequence[str | None]
    runs: float
    builds: Floats
    ends_differ: bool

    @cached_property
    def bits(self) -> Floats:
        """The information of each probe."""
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
        """How probable it is that each candidate is to blame, by this bisection's probes alone."""
        probabilities = self.posterior.belief.commits.tolist()
        return {
            sha: probability
            for sha, probability in zip(self.commits, probabilities, strict=True)
            if probability > _LEAST_SUSPICION
        }

    def rate(self, costs: Floats) -> float:
        """The information by cost of the best probe; infinite where the search is over and its answer is to be
        confirmed: then it is soon known, and tells the others where to look. `costs` has shape [n + 1]."""
        certain = self.posterior.certain
        if certain is not None and certain.suspects.sum() == 1:
            return inf
        step = next_run(self.posterior, confidence=self.confidence, costs=costs)
        if not isinstance(step, Probe):
            return inf
        return best_rate(self.posterior, costs=costs, in_flight=self.in_flight)
