"""What is still to come, by the engine itself: it goes on where every run tells the truth, to a confirmed culprit.

No number of runs stands here. What the ends, the search and the confirmation take is what the engine asks for.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from ....runner.errors import UserError
from ....store.vocabulary import Phase, Seeks
from ...commits.range import LoadedRange
from ...engine.bisection import Bisection, DataFrozen, QuestionAnswered
from ...engine.history import AskRange
from ...engine.known import BisectionQuestion
from ...engine.log import ProbeLog
from ...engine.needs import Needs
from ...engine.priority.circumstances import Circumstances
from ...engine.priority.costs import Timings
from ...engine.priority.forecast import builds_there
from ...engine.probes import Target
from ...engine.range_search import RangeSearch
from ...search.evidence.posterior import Posterior
from ...search.graph.graph import Floats
from ...search.model.groups import GOOD_END
from .rehearsal import Rehearsal
from .words import Estimate

_ALONE = Circumstances()


def estimate_of(bisection: Bisection, *, builds: bool = True) -> Estimate | None:
    """What is to come of a bisection whose range is open; None where that cannot be said, as where runs contradict each
    other, or under a perturbation. `builds`: the stack has steps, which build something."""
    search = bisection.state.search
    if (
        search is None
        or search.natural is not None
        or search.posterior(bisection.known, _ALONE).certain is None
    ):
        return None
    foreseen = _foreseen(bisection, search)
    return foreseen if builds or foreseen is None else replace(foreseen, builds=0)


def next_build(bisection: Bisection, around: Circumstances) -> Target | None:
    """What has probably to be built next, once the runs in flight have ended; None where it is built, or where that
    cannot be said."""
    search = bisection.state.search
    if search is None:
        return None
    try:
        wanted = Rehearsal(bisection, _one_to_blame(bisection, search)).next_wanted(around)
    except UserError:
        return None
    if wanted is None:
        return None
    log = bisection.known.log
    running = (probe.wanted.target.content for probe in log.running)
    there = builds_there(search.loaded, log, (*around.built, *running))
    return None if search.loaded.build_of(wanted.target.content) in there else wanted.target


def opened(question: BisectionQuestion, loaded: LoadedRange) -> Bisection | None:
    """The bisection before its first run; None where it ends before that."""
    bisection = Bisection.start(question).after(
        QuestionAnswered(AskRange(ordinal=1, range=question.range), loaded)
    )
    try:
        bisection, needs = bisection.next(_ALONE)
        if isinstance(needs, Needs) and needs.freeze is not None:
            bisection, _ = bisection.after(DataFrozen()).next(_ALONE)
    except UserError:
        return None
    return bisection


def _foreseen(bisection: Bisection, search: RangeSearch) -> Estimate | None:
    log = bisection.known.log
    rehearsal = Rehearsal(bisection, _one_to_blame(bisection, search))
    try:
        if not rehearsal.go_on():
            return None
    except UserError:
        return None
    loaded = search.loaded
    unbuilt = len({*map(loaded.build_of, rehearsal.contents)} - builds_there(loaded, log))
    if any(seen.times.run_seconds and not seen.times.was_built for seen in log.ended):
        unbuilt = 0  # the stack has nothing to build
    return Estimate(
        ends=rehearsal.runs[Phase.ENDPOINT],
        search=rehearsal.runs[Phase.SEARCH],
        confirm=rehearsal.runs[Phase.CONFIRM],
        builds=unbuilt,
        seconds=_seconds(
            log,
            runs=rehearsal.runs.total(),
            builds=unbuilt,
            earlier=loaded.earlier_seconds,
        ),
    )


def _one_to_blame(bisection: Bisection, search: RangeSearch) -> Callable[[str], bool]:
    """Which contents fail where one candidate is to blame, in the middle of what is left: no luck, good or bad."""
    posterior = search.posterior(bisection.known, _ALONE)
    belief = _to_be_named(posterior)
    middle = int(np.argmax(np.cumsum(belief) >= belief.sum() / 2))
    culprit = min(middle, len(belief) - 1)
    evidence = search.evidence

    def fails(content: str) -> bool:
        nodes = [node for node in evidence.nodes_of(content) if node != GOOD_END]
        changed = bool(nodes) and bool(evidence.graph.ancestors(nodes[0])[culprit])
        return changed == (search.loaded.range.seeks is Seeks.REGRESSION)

    return fails


def _to_be_named(posterior: Posterior) -> Floats:
    """The belief in each candidate that no run so far speaks against, and that is not bad luck: beside a skipped commit
    none can be named alone. Shape [n]."""
    belief = posterior.belief.commits
    if posterior.certain is not None:
        belief = np.where(posterior.certain.suspects, belief, 0.0)
    apart = belief.copy()
    apart[[*posterior.graph.with_children(posterior.skipped)]] = 0.0
    return apart if apart.any() else belief


def _seconds(log: ProbeLog, *, runs: int, builds: int, earlier: Sequence[float]) -> float | None:
    """What runs and builds take, by what they took so far, builds also in `earlier` bisections."""
    timings = Timings.of((probe.times for probe in log.ended), earlier=earlier)
    if timings is not None:
        return runs * timings.run + builds * max(timings.anew, timings.again)
    took = [probe.times.run_seconds for probe in log.ended if probe.times.run_seconds]
    return runs * fmean(took) if took else None
