"""How probable each commit of a bisection's ranges is after all its runs, by the search's evidence and posterior."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ....store.vocabulary import Seeks
from ...commits.lines import candidates_on_line
from ...commits.range import outcome_of
from ...engine.evidence import RangeEvidence
from ...engine.failures.exit_codes import counting_only
from ...engine.log import ProbeLog
from ...engine.states.parents import like_an_end
from ...report.model.rows import Rows
from ...report.model.standing import Standing
from ...run.records import finished_probe, in_order_of_ends
from ...search.evidence.knowledge import Outcome
from ...search.evidence.posterior import Posterior
from ...search.graph.graph import CommitGraph
from ...search.model.groups import GOOD_END


@dataclass(frozen=True, kw_only=True)
class RangeBelief:
    """Probabilities of the hypotheses about one range; all sum to 1.

    `commits` are those that can differ in result, parents before children; `left_out` counts those of lines from before
    the range that fail there already.
    """

    commits: tuple[tuple[str, float], ...]
    no_culprit: float
    environment: float
    left_out: int = 0


def range_beliefs(rows: Rows) -> tuple[RangeBelief | None, ...]:
    """One for each range; None where no commit can differ, or it was made in a way this graph cannot hold."""
    log = ProbeLog(tuple(map(finished_probe, in_order_of_ends(rows.probes))))
    if rows.conclusion is not None and rows.conclusion.failures:
        log = counting_only(log, frozenset(rows.conclusion.failures))
    beliefs: list[RangeBelief | None] = []
    outer: _StoredRange | None = None
    for standing in rows.ranges:
        stored = _StoredRange(standing, log)
        beliefs.append(_belief(rows, stored, outer, log))
        outer = stored
    return tuple(beliefs)


def _belief(
    rows: Rows, stored: "_StoredRange", outer: "_StoredRange | None", log: ProbeLog
) -> RangeBelief | None:
    try:
        evidence = stored.evidence
        if outer is not None:
            evidence = _inheriting(stored, outer, log)
    except ValueError:
        return None
    belief = Posterior.start(
        evidence.graph, rows.request.rates, observations=evidence.observations(log)
    ).belief
    return RangeBelief(
        commits=tuple(zip(stored.places, belief.commits.tolist(), strict=True)),
        no_culprit=belief.no_culprit,
        environment=belief.environment,
        left_out=stored.left_out,
    )


class _StoredRange:
    """A range of the store, as evidence speaks of it: without the lines that the search left out of it."""

    def __init__(self, standing: Standing, log: ProbeLog) -> None:
        self.standing = standing
        self._log = log

    @cached_property
    def places(self) -> dict[str, int]:
        """The commits that can differ in result, each with its place among them."""
        gone = self._left_out
        every = self._every
        return {sha: place for place, sha in enumerate(sha for sha in every if every[sha] not in gone)}

    @cached_property
    def _every(self) -> dict[str, int]:
        """Those of the whole range."""
        standing = self.standing
        return {sha: place for place, sha in enumerate(sha for sha in standing.members if sha in standing)}

    @cached_property
    def _left_out(self) -> frozenset[int]:
        """Candidates on lines from before the range that fail there already, as the search tells them.

        Raises `ValueError` where the commits are no graph.
        """
        graph = CommitGraph(self._parents(self._every))
        newest = self._every.get(self.standing.of(self.standing.stage.new))
        gone: set[int] = set()
        for sha, node in self._every.items():
            if node not in gone and any(map(self._does_the_same, self._parents_outside(sha))):
                line = candidates_on_line(graph, node)
                gone |= set() if newest in line else line
        return frozenset(gone)

    @property
    def left_out(self) -> int:
        """How many candidates were left out."""
        return len(self._left_out)

    def _parents_outside(self, sha: str) -> list[str]:
        """The parents of a commit that are neither commits of the range nor its old end."""
        standing = self.standing
        return [
            parent
            for parent in standing.parents(sha)
            if parent not in standing and parent != standing.stage.old
        ]

    def _does_the_same(self, parent: str) -> bool:
        """Whether a parent from before the range was run, and is like the new end."""
        standing, log = self.standing, self._log
        seeks = standing.stage.seeks
        newest = standing.stage.new
        old, new = standing.old_content, standing.content(newest) if newest in standing else None
        if new is None:
            return False
        good, bad = (old, new) if seeks is Seeks.REGRESSION else (new, old)
        contents = {probe.content for probe in standing.runs.get(parent, ()) if probe.commit == parent}
        judgements = (like_an_end(log, content, good=good, bad=bad) for content in contents)
        return any(
            judgement is not None and outcome_of(judgement, seeks) is Outcome.BAD for judgement in judgements
        )

    def _parents(self, places: Mapping[str, int]) -> list[list[int]]:
        standing = self.standing
        return [
            sorted({places[of] for of in map(standing.of, standing.parents(sha)) if of in places})
            for sha in places
        ]

    @cached_property
    def evidence(self) -> RangeEvidence:
        """The candidates with their contents, nothing inherited. Raises `ValueError` where they are no graph."""
        standing = self.standing
        return RangeEvidence(
            graph=CommitGraph(self._parents(self.places)),
            contents=[standing.content(sha) for sha in self.places],
            old_content=standing.old_content,
            seeks=standing.stage.seeks,
        )


def _inheriting(inner: _StoredRange, outer: _StoredRange, log: ProbeLog) -> RangeEvidence:
    """With what the runs of the outer range tell of the ends of the inner one, now that its culprit is known."""
    repository = outer.standing.stage.repository
    culprit = inner.standing.stage.held.get(repository)
    if culprit is None:
        return inner.evidence
    stage = inner.standing.stage
    ends = {stage.old: GOOD_END, stage.new: inner.evidence.graph.bad}
    pins = _pins(outer.standing, stage.repository, culprit)
    return inner.evidence.inherit(
        outer.evidence,
        log,
        culprit=outer.places[outer.standing.of(culprit)],
        ends={changed: ends.get(pins.get(changed, "")) for changed in (True, False)},
        flipped=stage.seeks is not outer.standing.stage.seeks,
    )


def _pins(outer: Standing, pinned: str, culprit: str) -> dict[bool, str]:
    """What the culprit (True) and its parent (False) pin, as far as they ran with their own pins."""
    pins: dict[bool, str] = {}
    for changed, sha in ((True, culprit), (False, outer.parents(culprit)[0])):
        for probe in outer.runs_of(sha):
            if probe.stage_id == outer.stage.id and probe.phase.is_as_asked:
                pins[changed] = probe.revisions[pinned]
    return pins
