"""How probable each commit of a bisection's ranges is after all its runs, by the search's own posterior."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ....store.tables.bisections import ProbeRow
from ....store.vocabulary import Phase
from ...commits.range import outcome_of
from ...report.model.rows import Rows
from ...report.model.standing import Standing
from ...search.evidence.knowledge import Observation, Outcome
from ...search.evidence.posterior import GOOD_END, Posterior
from ...search.evidence.rates import Rates
from ...search.graph.graph import CommitGraph


@dataclass(frozen=True, kw_only=True)
class RangeBelief:
    """Probabilities of the hypotheses about one range; all sum to 1.

    `commits` are those that can differ in result, parents before children.
    """

    commits: tuple[tuple[str, float], ...]
    no_culprit: float
    environment: float


def range_beliefs(rows: Rows) -> tuple[RangeBelief | None, ...]:
    """One for each range; None where no commit can differ, or it was made in a way this graph cannot hold."""
    return tuple(_belief(rows, index) for index in range(len(rows.ranges)))


def _belief(rows: Rows, index: int) -> RangeBelief | None:
    standing = rows.ranges[index]
    nodes = [sha for sha in standing.members if sha in standing]
    places = {sha: place for place, sha in enumerate(nodes)}
    parents = [
        sorted({places[of] for of in map(standing.of, standing.parents(sha)) if of in places})
        for sha in nodes
    ]
    try:
        graph = CommitGraph(parents)
    except ValueError:
        return None
    mended = set(rows.conclusion.earlier_failures) if rows.conclusion else set[str]()
    aside = {places[sha] for sha in map(standing.of, mended) if sha in places}
    observations = [seen for seen in _observations(rows, index, graph, places) if seen.commit not in aside]
    belief = Posterior.start(graph, Rates.unknown(), observations=observations).belief
    return RangeBelief(
        commits=tuple(zip(nodes, belief.commits.tolist(), strict=True)),
        no_culprit=belief.no_culprit,
        environment=belief.environment,
    )


def _observations(rows: Rows, index: int, graph: CommitGraph, places: dict[str, int]) -> list[Observation]:
    """All that tells something of a range: its commits that cannot be tested, what an outer range says of its ends,
    and its runs."""
    standing = rows.ranges[index]
    of_content = _contents(standing, places)
    seen = [Observation(places[sha], Outcome.SKIP) for sha in standing.untestable if sha in places]
    if index:
        seen += _inherited(rows.ranges[index - 1], standing, rows.probes, of_content.keys(), graph)
    for probe in rows.probes:
        if probe.judgement is not None:
            seen += [
                Observation(place, outcome_of(probe.judgement, standing.stage.seeks), _place_of(probe))
                for place in of_content.get(probe.content, ())
            ]
    return seen


def _contents(standing: Standing, places: dict[str, int]) -> dict[str, list[int]]:
    """The places of a range by the content that was run there; the good end's too."""
    found: dict[str, list[int]] = {}
    for sha, probes in standing.runs.items():
        place = places.get(sha, GOOD_END)
        for content in dict.fromkeys(probe.content for probe in probes):
            found.setdefault(content, []).append(place)
    return found


def _inherited(
    outer: Standing, inner: Standing, probes: Sequence[ProbeRow], known: Collection[str], graph: CommitGraph
) -> list[Observation]:
    """Runs of the outer range, now that its culprit is known: from the culprit on they speak for the end of the inner
    range that it pins, before it for the one that its parent pins."""
    culprit = inner.stage.held.get(outer.stage.repository)
    if culprit is None:
        return []
    contents = {
        content: sha
        for sha, of_commit in outer.runs.items()
        for content in dict.fromkeys(probe.content for probe in of_commit)
    }
    inherited: list[Observation] = []
    ends = {inner.stage.old: GOOD_END, inner.stage.new: graph.bad}
    sides = {side: ends.get(pin) for side, pin in _pins(outer, inner, culprit).items()}
    for probe in probes:
        sha = contents.get(probe.content)
        if sha is None or probe.judgement is None or probe.content in known:
            continue
        changed = outer.of(culprit) in outer.ancestors(sha)
        end = sides.get(changed)
        contradicts = not changed and outcome_of(probe.judgement, outer.stage.seeks) is Outcome.BAD
        if end is not None and not contradicts:
            inherited.append(
                Observation(end, outcome_of(probe.judgement, inner.stage.seeks), _place_of(probe))
            )
    return inherited


def _pins(outer: Standing, inner: Standing, culprit: str) -> dict[bool, str]:
    """What the culprit (True) and its parent (False) pin, as far as they ran with their own pins."""
    pins: dict[bool, str] = {}
    for changed, sha in ((True, culprit), (False, outer.parents(culprit)[0])):
        for probe in outer.runs.get(outer.of(sha), ()):
            if probe.stage_id == outer.stage.id and probe.phase is not Phase.COUNTERFACTUAL:
                pins[changed] = probe.revisions[inner.stage.repository]
    return pins


def _place_of(probe: ProbeRow) -> str | None:
    return None if probe.slot is None else f"{probe.host or ''} {probe.slot}"
