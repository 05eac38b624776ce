"""A search goes on for the failing end's own failure, where what it came upon fails otherwise: two failures."""

from ....store.vocabulary import Judgement, Seeks
from ..evidence import target_at
from ..known import Known
from ..needs import Notice
from ..priority.circumstances import Circumstances
from ..range_search import RangeSearch
from .exit_codes import Failures, failures_at, failures_of_end

_FAILURES_OF_END, _RUNS_OF_END = 6, 24
"""So often the failing end has to fail, or so many runs are made of it at most: of a failure that ends with either of
two exit codes as often, 6 runs show both with 97 %."""
_SEEN_OTHERWISE = 2
"""Runs of a parent that fails otherwise, at least: one may have met something else."""


def another_failure(search: RangeSearch, known: Known) -> int | None:
    """The first candidate that fails otherwise than the failing end; None where none does, or failures were told apart
    already. Where a fix is sought, the first commit that passes is the answer, whatever failed before."""
    if not _can_tell_apart(search, known):
        return None
    at_end = failures_of_end(known.log, search.failing.content)
    nodes = range(len(search.loaded.candidates))
    return next((node for node in nodes if at_end and _failures_at(search, known, node) - at_end), None)


def contradicts_only_another(search: RangeSearch, known: Known, around: Circumstances) -> bool:
    """Whether runs that contradict each other do not any more where what fails otherwise than the failing end is
    another failure."""
    return only_of_the_end(search, known).posterior(known, around).certain is not None


def is_end_seldom_seen(search: RangeSearch, known: Known) -> bool:
    """Whether the failing end did not fail often enough to know in how many ways it does."""
    tally = known.log.tally(search.failing.content)
    return tally[Judgement.BAD] < _FAILURES_OF_END and tally.total() < _RUNS_OF_END


def _can_tell_apart(search: RangeSearch, known: Known) -> bool:
    is_as_asked = search.natural is None and search.loaded.range.seeks is Seeks.REGRESSION
    return known.question.by_exit_code and search.failures is None and is_as_asked


def _failures_at(search: RangeSearch, known: Known, node: int) -> Failures:
    content = search.loaded.candidate_contents[node]
    return Failures() if content is None else failures_at(known.log, content)


def only_of_the_end(search: RangeSearch, known: Known) -> RangeSearch:
    """The search for the failing end's failure alone."""
    return search.of_failures(failures_of_end(known.log, search.failing.content))


def has_more_faces(search: RangeSearch, known: Known) -> bool:
    """Whether runs since have shown that the failing end's failure is another one too: by both at that
    end, or by too many exit codes."""
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
