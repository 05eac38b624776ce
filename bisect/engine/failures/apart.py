"""A search goes on for the failing end's own failure, where what it came upon fails otherwise: two failures."""

from collections.abc import Iterable

from ....store.vocabulary import Seeks
from ..evidence import target_at
from ..known import Known
from ..needs import Notice
from ..priority.circumstances import Circumstances
from ..range_search import RangeSearch
from .exit_codes import Failures, failures_at, failures_of_end

_SEEN_OTHERWISE = 2
"""Runs of a parent that fails otherwise, at least: one may have met something else."""


def another_failure(search: RangeSearch, known: Known, nodes: Iterable[int]) -> Failures:
    """How some candidates fail, of which none fails as the failing end does; empty where one does, or none fails, that
    is not known, or failures were told apart already. Where a fix is sought, the first commit that passes is the
    answer, whatever failed before."""
    if not _can_tell_apart(search, known):
        return Failures()
    found = Failures().union(*(_failures_at(search, known, node) for node in nodes))
    return found if _is_another(found, failures_of_end(known.log, search.failing.content)) else Failures()


def first_of_another(search: RangeSearch, known: Known, around: Circumstances) -> int | None:
    """Of runs that contradict each other, but do not where what fails otherwise than the failing end is another
    failure: the first candidate that does. None where that is not so."""
    if not _can_tell_apart(search, known):
        return None
    at_end = failures_of_end(known.log, search.failing.content)
    nodes = range(len(search.loaded.candidates))
    first = next((node for node in nodes if _is_another(_failures_at(search, known, node), at_end)), None)
    # Last, for the runs are read anew for it.
    if first is None or only_of_the_end(search, known).posterior(known, around).certain is None:
        return None
    return first


def _can_tell_apart(search: RangeSearch, known: Known) -> bool:
    is_as_asked = search.natural is None and search.loaded.range.seeks is Seeks.REGRESSION
    return known.question.by_exit_code and search.failures is None and is_as_asked


def _is_another(found: Failures, at_end: Failures) -> bool:
    return bool(found and at_end) and not found & at_end


def _failures_at(search: RangeSearch, known: Known, node: int) -> Failures:
    content = search.loaded.candidate_contents[node]
    return Failures() if content is None else failures_at(known.log, content)


def only_of_the_end(search: RangeSearch, known: Known) -> RangeSearch:
    """The search for the failing end's failure alone."""
    return search.of_failures(failures_of_end(known.log, search.failing.content))


def has_more_faces(search: RangeSearch, known: Known) -> bool:
    """Whether runs since have shown that the failing end's failure is another one too: by both at one
    commit, or by too many exit codes."""
    return search.failures is not None and not (
        failures_of_end(known.log, search.failing.content) <= search.failures
    )


def told_of_another(search: RangeSearch, known: Known, node: int) -> Notice:
    """That the search goes on for the failing end's failure alone, and why. `node` fails otherwise."""
    at_end, other = failures_of_end(known.log, search.failing.content), _failures_at(search, known, node)
    return Notice(
        f"{search.loaded.candidates[node][:12]} fails with {named(other)}, the failing end "
        f"{search.failing.commit[:12]} with {named(at_end)}: taken for another failure, and searched on for the "
        "commit that brought the end's; if both are one, let the command exit with one code for them"
    )


def named(failures: Failures) -> str:
    """Failures as people read them."""
    return " or ".join(sorted(failures))


def others_before(search: RangeSearch, known: Known, node: int) -> Failures:
    """How the parents of a candidate fail, of what is not searched for."""
    return Failures().union(
        *(_others_at(search, known, parent) for parent in search.loaded.graph.parents[node])
    )


def parent_to_run_again(search: RangeSearch, known: Known, node: int) -> int | None:
    """A parent of a candidate that failed otherwise, and too seldom to know that it always does; None without one."""
    return next(
        (
            parent
            for parent in search.loaded.graph.parents[node]
            if _others_at(search, known, parent)
            and len(known.log.of(target_at(search.loaded, parent).content)) < _SEEN_OTHERWISE
        ),
        None,
    )


def _others_at(search: RangeSearch, known: Known, node: int) -> Failures:
    return Failures() if search.failures is None else _failures_at(search, known, node) - search.failures
