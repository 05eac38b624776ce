"""What probes tell of the candidates of one range."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...store.vocabulary import Seeks
from ..commits.range import LoadedRange, outcome_of
from ..search.evidence.blamed_file import BlamedFile
from ..search.evidence.knowledge import Observation, Outcome
from ..search.graph.graph import CommitGraph
from ..search.model.groups import GOOD_END
from .log import ProbeLog
from .probes import FinishedProbe, Target

_FLIPPED = {Outcome.GOOD: Outcome.BAD, Outcome.BAD: Outcome.GOOD, Outcome.SKIP: Outcome.SKIP}


@dataclass(frozen=True, kw_only=True)
class RangeEvidence:
    """A range, and how probes speak for its candidates.

    graph: its candidates. contents: the content of each; None where it pins nothing that can be had. old_content: that
    of the old end. inherited: what probes of an outer range tell of this one's ends.
    """

    graph: CommitGraph
    contents: Sequence[str | None]
    old_content: str
    seeks: Seeks
    inherited: tuple[Observation, ...] = ()

    @classmethod
    def of(cls, loaded: LoadedRange, *, inherited: tuple[Observation, ...] = ()) -> "RangeEvidence":
        """The evidence for a range that was loaded. `inherited` speaks of its ends alone, by their numbers in it."""
        return cls(
            graph=loaded.graph,
            contents=loaded.candidate_contents,
            old_content=loaded.old_content,
            seeks=loaded.range.seeks,
            inherited=inherited,
        )

    @cached_property
    def _nodes(self) -> Mapping[str, tuple[int, ...]]:
        """The candidates, or the good end, that have some content."""
        nodes: dict[str, tuple[int, ...]] = {self.old_content: (GOOD_END,)}
        for index, content in enumerate(self.contents):
            if content is not None:
                nodes[content] = (*nodes.get(content, ()), index)
        return nodes

    @cached_property
    def _unpinned(self) -> tuple[Observation, ...]:
        """The candidates that cannot be tested, for they pin nothing that can be had."""
        return tuple(
            Observation(node, Outcome.SKIP) for node, content in enumerate(self.contents) if content is None
        )

    def nodes_of(self, content: str) -> tuple[int, ...]:
        """The candidates, or the good end, for which a probe of some content speaks."""
        return self._nodes.get(content, ())

    def observations(
        self, log: ProbeLog, blamed: Mapping[str, tuple[BlamedFile, ...]] | None = None
    ) -> list[Observation]:
        """All that tells something of this range, in the order in which the probes ended. `blamed` are the files that
        the errors of untestable contents name."""
        seen = [*self.inherited, *self._unpinned]
        for probe in log.ended:
            files = (blamed or {}).get(probe.content, ())
            seen += [replace(each, blamed=files) for each in self.of_probe(probe)]
        return seen

    def of_probe(self, probe: FinishedProbe) -> Iterable[Observation]:
        """What a probe tells of this range: of each candidate that has its content."""
        nodes = self.nodes_of(probe.content)
        for node in nodes:
            yield Observation(node, outcome_of(probe.judgement, self.seeks), probe.place, alike=len(nodes))

    def inherit(
        self,
        outer: "RangeEvidence",
        log: ProbeLog,
        *,
        culprit: int,
        ends: Mapping[bool, int | None],
        flipped: bool,
    ) -> "RangeEvidence":
        """With what the probes of an outer range tell of this one's ends, now that its culprit is known.

        Commits from the culprit on do as with its new pin, the others as with its old one. ends: the end of this range
        that the new pin (True) and the old one (False) is; None where it is neither. flipped: whether this range seeks
        the opposite of what the outer one does.
        """
        inherited: list[Observation] = []
        for probe in sorted(log.ended, key=lambda probe: probe.number):
            for seen in outer.of_probe(probe):
                changed = seen.commit != GOOD_END and bool(outer.graph.ancestors(seen.commit)[culprit])
                contradicts = seen.outcome is Outcome.BAD and not changed
                end = ends[changed]
                if probe.content not in self._nodes and not contradicts and end is not None:
                    outcome = _FLIPPED[seen.outcome] if flipped else seen.outcome
                    inherited.append(replace(seen, commit=end, outcome=outcome))
        return replace(self, inherited=tuple(inherited))


def target_at(loaded: LoadedRange, node: int) -> Target:
    """What is built for a candidate of a range, or for its good end. Raises `ValueError` where it pins nothing."""
    if node == GOOD_END:
        return old_end(loaded)
    where = loaded.range
    commit = loaded.collapsed.nodes[node].commit.sha
    content = loaded.contents[commit]
    if content is None:
        raise ValueError(
            f"{commit}: expected a commit that can be built, found one that pins nothing that can be had"
        )
    return Target(repository=where.repository, commit=commit, held=where.held, content=content)


def old_end(loaded: LoadedRange) -> Target:
    """The old end of a range, which is good where a regression is sought."""
    where = loaded.range
    return Target(repository=where.repository, commit=where.old, held=where.held, content=loaded.old_content)


def new_end(loaded: LoadedRange) -> Target:
    """The new end of a range."""
    where = loaded.range
    return Target(repository=where.repository, commit=where.new, held=where.held, content=loaded.new_content)


def passing_end(loaded: LoadedRange) -> Target:
    """The end at which the case passes."""
    return old_end(loaded) if loaded.range.seeks is Seeks.REGRESSION else new_end(loaded)


def failing_end(loaded: LoadedRange) -> Target:
    """The end at which it fails."""
    return new_end(loaded) if loaded.range.seeks is Seeks.REGRESSION else old_end(loaded)
