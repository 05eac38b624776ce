"""What is expected of the probes of a range before they are made: which commits are suspect, what probes take."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...commits.range import LoadedRange
from ...search.evidence.posterior import Posterior
from ...search.evidence.prior import prior_weights
from ...search.evidence.sharing import suspected_too
from ...search.graph.graph import Floats
from ..log import ProbeLog
from .build_costs import build_seconds
from .circumstances import Circumstances
from .costs import Timings
from .promise import Promise

_ALL_EQUAL = Timings(run=1.0, anew=0.0, again=0.0)
"""Before anything was timed."""


def kernels_of(log: ProbeLog, failing_content: str) -> tuple[str, ...]:
    """The names of the kernels that the failing end's build holds; empty before it was built."""
    return next((probe.kernels for probe in log.of(failing_content) if probe.kernels), ())


def commit_weights(
    loaded: LoadedRange,
    *,
    case: str | None,
    kernels: Sequence[str],
    suspicions: Sequence[Mapping[str, float]],
) -> Floats | None:
    """How likely each candidate is to blame beforehand, in any unit; shape [n]; None if equally.

    By what it touches (words of the case's name, and of those of the kernels), and by what other bisections suspect.
    """
    nodes = loaded.collapsed.nodes
    names = [*kernels, *filter(None, [case])]
    own = prior_weights([node.commit.files for node in nodes], names)
    rows = [row for row in (_on_nodes(loaded, suspicion) for suspicion in suspicions) if row.any()]
    return suspected_too(own, rows, commits=len(nodes))


def _on_nodes(loaded: LoadedRange, suspicion: Mapping[str, float]) -> Floats:
    """Probabilities of commits as those of the candidates that stand for them. Shape [n]."""
    nodes = loaded.collapsed.nodes
    node_of = {member.sha: place for place, node in enumerate(nodes) for member in node.members}
    row = np.zeros(len(nodes))
    for sha, probability in suspicion.items():
        if sha in node_of:
            row[node_of[sha]] += probability
    return row


def builds_there(loaded: LoadedRange, log: ProbeLog, others: Iterable[str] = ()) -> set[str]:
    """The builds that need not be made any more: of earlier bisections, of this one, and of other contents."""
    own = (probe.content for probe in log.ended if probe.times.was_built)
    return {*loaded.built_earlier, *map(loaded.build_of, (*own, *others))}


def promise_of(
    loaded: LoadedRange,
    posterior: Posterior,
    *,
    log: ProbeLog,
    around: Circumstances,
    confidence: float,
    in_flight: Sequence[int],
    before: int,
) -> Promise:
    """What a further probe of a range promises, and takes. `before` is how many probes come before the first one."""
    own = Timings.of((probe.times for probe in log.ended), earlier=loaded.earlier_seconds)
    timings = own or around.timings or _ALL_EQUAL
    contents = [*loaded.candidate_contents, loaded.old_content]
    return Promise(
        repository=loaded.range.repository,
        commits=loaded.candidates,
        posterior=posterior,
        confidence=confidence,
        in_flight=in_flight,
        contents=contents,
        runs=timings.run * (1 + before),
        builds=timings.builds(
            [None if content is None else loaded.build_of(content) for content in contents],
            builds_there(loaded, log, around.built),
            forecast=None if timings is _ALL_EQUAL else build_seconds(loaded, log),
        ),
        ends_differ=not before,
    )
