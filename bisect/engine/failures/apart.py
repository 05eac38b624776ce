"""A search goes on for the failing end's own failure, where what it came upon fails otherwise: two failures."""

from itertools import groupby

from ....store.vocabulary import Judgement, Seeks
from ..evidence import target_at
from ..known import Known
from ..needs import Notice
from ..priority.circumstances import Circumstances
from ..range_search import RangeSearch
from .exit_codes import Failures, failures_at, failures_of_end

_SEEN_FAILURES, _MOST_RUNS = 6, 24
"""So often the failing end has to fail, or so many runs are made of it at most: of a failure that ends with either of
two exit codes as often, 6 runs show both with 97 %."""
_STRETCHES = 3


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
    return _is_seldom_seen(known, search.failing.content)


def _is_seldom_seen(known: Known, content: str) -> bool:
    tally = known.log.tally(content)
    return tally[Judgement.BAD] < _SEEN_FAILURES and tally.total() < _MOST_RUNS


def fails_as_the_end_never_does(search: RangeSearch, known: Known, node: int) -> Failures:
    """How a candidate fails, where the failing end was not seen to fail so though three exit codes count as one
    failure, and each was seen in a stretch of its own: these may be three. Codes that come and go, or are still more,
    count what failed, or are chance. Empty where that is not so."""
    if not _can_tell_apart(search, known):
        return Failures()
    found, at_end = _failures_at(search, known, node), failures_at(known.log, search.failing.content)
    return found if at_end and not found & at_end and _are_three_stretches(search, known) else Failures()


def _are_three_stretches(search: RangeSearch, known: Known) -> bool:
    shown = [_failures_at(search, known, each) for each in range(len(search.loaded.candidates))]
    stretches = [codes for codes, _ in groupby(filter(None, shown))]
    return (
        len(stretches) == _STRETCHES
        and all(len(codes) == 1 for codes in stretches)
        and len({*stretches}) == _STRETCHES
    )


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


def to_run_again(search: RangeSearch, known: Known, node: int) -> int | None:
    """What has to be run again before a candidate is named that fails as the failing end never did: that end, or the
    candidate, which did not fail often enough to know that. None where nothing has."""
    if not fails_as_the_end_never_does(search, known, node):
        return None
    return next(
        (
            each
            for each in (search.loaded.graph.bad, node)
            if _is_seldom_seen(known, target_at(search.loaded, each).content)
        ),
        None,
    )
