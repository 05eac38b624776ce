"""What is expected of the runs of a range before they are made: which commits are suspect, what runs take."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...store.tables.bisections import ProbeRow
from ..commits.stage import Stage
from ..search.evidence.posterior import Posterior
from ..search.evidence.prior import prior_weights
from ..search.evidence.sharing import suspected_too
from ..search.graph.graph import Floats
from .company import Outlook
from .costs import Timings
from .experiments import Experiments

_ALL_ALIKE = Timings(run=1.0, anew=0.0, again=0.0)
"""Before anything was timed."""


class _Weighed(NamedTuple):
    """Prior weights, and what they follow from."""

    kernels: tuple[str, ...]
    others: Sequence[Mapping[str, float]]
    weights: Floats | None


class Forecast:
    """Of one range, for the choice of its runs."""

    def __init__(self, stage: Stage, experiments: Experiments, *, old: str, failing: str) -> None:
        """With the contents of the old end, and of the one that fails."""
        self._stage = stage
        self._experiments = experiments
        self._contents = [*(stage.contents[node.commit.sha] for node in stage.collapsed.nodes), old]
        self._failing = failing
        self._kernels: tuple[str, ...] = ()
        self._weighed: _Weighed | None = None

    def outlook(
        self,
        posterior: Posterior,
        *,
        finished: Collection[ProbeRow],
        confidence: float,
        in_flight: Sequence[int],
        before: int,
    ) -> Outlook:
        """What further runs promise, and take, after those that are `finished`. `before` is how many runs have to be
        made before the first one."""
        company = self._experiments.company
        timings = Timings.of(finished) or company.timings or _ALL_ALIKE
        return Outlook(
            repository=self._stage.range.repository,
            commits=[node.commit.sha for node in self._stage.collapsed.nodes],
            posterior=posterior,
            confidence=confidence,
            in_flight=in_flight,
            contents=self._contents,
            runs=timings.run * (1 + before),
            builds=timings.builds(self._contents, company.built),
            begun=not before,
        )

    def weights(self) -> Floats | None:
        """How likely each candidate is to blame beforehand: by what it touches (words of the case's name, and of those
        of the kernels that the failing end made), and by what is known of other failures."""
        nodes = self._stage.collapsed.nodes
        others = self._experiments.company.suspicions(self._stage.range.repository)
        self._kernels = self._kernels or self._kernels_of_failing_end()
        known = self._weighed
        if known is None or known.kernels != self._kernels or known.others != others:
            names = [*self._kernels, *filter(None, [self._experiments.case])]
            own = prior_weights([node.commit.files for node in nodes], names)
            suspicions = [each for each in map(self._on_nodes, others) if each.any()]
            weights = suspected_too(own, suspicions, commits=len(nodes))
            known = self._weighed = _Weighed(self._kernels, others, weights)
        return known.weights

    def _kernels_of_failing_end(self) -> tuple[str, ...]:
        builds = map(self._experiments.build_directory, self._experiments.finished(self._failing))
        build = next(filter(None, builds), None)
        return () if build is None else tuple(path.stem for path in sorted(build.glob("kernels/*/*.cpp")))

    def _on_nodes(self, suspicion: Mapping[str, float]) -> Floats:
        """Probabilities of commits as those of the candidates that stand for them."""
        found = np.zeros(len(self._stage.collapsed.nodes))
        for sha, probability in suspicion.items():
            if sha in self._node_of:
                found[self._node_of[sha]] += probability
        return found

    @cached_property
    def _node_of(self) -> Mapping[str, int]:
        nodes = self._stage.collapsed.nodes
        return {member.sha: place for place, node in enumerate(nodes) for member in node.members}
