"""How a culprit is named, and what is known of one."""

from dataclasses import dataclass, field

from ....commits.range import LoadedRange
from ....result import Counterfactual, MovedLayers, NamedCommit
from ...range_search import RangeSearch
from .enclosing import Enclosing


@dataclass(frozen=True, kw_only=True)
class ConfirmedCulprit:
    """A candidate of a range that was confirmed. node: the candidate. tested: the pin that it moves; layers: the pins
    where it moves several."""

    search: RangeSearch
    enclosing: Enclosing
    node: int
    named: NamedCommit
    earlier_failures: tuple[str, ...]
    tested: tuple[Counterfactual, ...] = field(default=())
    layers: tuple[MovedLayers, ...] = field(default=())


def named_commit(loaded: LoadedRange, node: int, confidence: float | None) -> NamedCommit:
    """A candidate as it is reported."""
    commit = loaded.collapsed.nodes[node].commit
    return NamedCommit(
        repository=loaded.range.repository,
        commit=commit.sha,
        parent=commit.parents[0] if commit.parents else None,
        confidence=confidence,
        merge=len(commit.parents) > 1,
        version=loaded.versions.get(commit.sha),
    )
