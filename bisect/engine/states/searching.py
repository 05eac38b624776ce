"""A range is searched, and its culprit confirmed: what tells most is probed next, until one hypothesis has the asked
confidence."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from ....store.vocabulary import Phase
from ...search.choose.confirmation import confirmed_at
from ...search.choose.decision import Undecided, as_if_certain
from ...search.choose.planner import Found, OnlySkipped
from ...search.choose.rounds import Answer, Round, next_round
from ...search.evidence.posterior import Posterior
from ..contradiction import Contradiction
from ..known import Known
from ..needs import Confirming, Narrowed, Needs, Note
from ..priority.circumstances import Circumstances
from ..priority.costs import costs_beside
from ..priority.promise import Promise
from ..probes import WantedProbe
from ..range_search import RangeSearch
from .answer.concluding import Concluding, without_culprit
from .answer.enclosing import Enclosing
from .answer.naming import ConfirmedCulprit, named_commit
from .answer.wall import wall_between
from .parents import CheckingParents
from .state import Advance, BisectionState, Move, Wait, load_all


@dataclass(frozen=True)
class Searching(BisectionState):
    """A range whose ends differ."""

    range_search: RangeSearch
    enclosing: Enclosing

    @property
    def search(self) -> RangeSearch:
        """The range."""
        return self.range_search

    @override
    def promise(self, known: Known, around: Circumstances) -> Promise | None:
        contradiction = Contradiction.of(self.range_search.evidence, known.log)
        if contradiction.verifying:
            return None
        posterior = _posterior(self.range_search, contradiction, known, around)
        return self.range_search.promise(posterior, known, around)

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        search = self.range_search
        if wait := load_all(known, *search.blamed_files(known)):
            return wait
        contradiction = Contradiction.of(search.evidence, known.log)
        in_flight = search.in_flight(known)
        if contradiction.verifying:
            return Wait(Needs(start=self._verify(contradiction.verifying, in_flight, around.workers)))
        posterior = _posterior(search, contradiction, known, around)
        decision = self._decide(posterior, known, around)
        if isinstance(decision, OnlySkipped | Undecided) and search.loaded.earlier_skips:
            # What others could not build may do now, where nothing else is left.
            posterior = _posterior(search, contradiction, known, around, earlier=False)
            decision = self._decide(posterior, known, around)
        numbers = [probe.number for probe in known.log.running]
        if isinstance(decision, Round):
            start = self._start(decision)
            cancel = tuple(numbers[place] for place in decision.cancel)
            return Wait(Needs(start=start, cancel=cancel, notes=(_told(decision, posterior, search),)))
        if numbers:
            return Wait(Needs(cancel=tuple(numbers)))
        nodes = search.loaded.collapsed.nodes
        earlier = tuple(nodes[node].commit.sha for node in contradiction.broken_before)
        if isinstance(decision, Found):
            confidence = float(posterior.belief.commits[decision.culprit])
            named = named_commit(search.loaded, decision.culprit, confidence)
            return Move(
                CheckingParents(
                    ConfirmedCulprit(
                        search=search,
                        enclosing=self.enclosing,
                        node=decision.culprit,
                        named=named,
                        earlier_failures=earlier,
                    )
                )
            )
        wall = wall_between(search, known, decision.candidates) if isinstance(decision, OnlySkipped) else ""
        conclusion = without_culprit(search.loaded, decision, earlier, wall=wall)
        return Move(Concluding(conclusion, self.enclosing, search))

    def _decide(self, posterior: Posterior, known: Known, around: Circumstances) -> Round | Answer:
        search = self.range_search
        return next_round(
            posterior,
            confirming=search.evidence.confirming(known.log),
            in_flight=search.in_flight(known),
            workers=around.workers,
            confidence=search.confidence,
            costs=costs_beside(search.promise(posterior, known, around), around.rivals),
            windows=search.loaded.windows,
        )

    def _start(self, decision: Round) -> tuple[WantedProbe, ...]:
        phase = Phase.SEARCH if decision.confirming is None else Phase.CONFIRM
        return tuple(self.range_search.wanted(node, phase) for node in decision.start)

    def _verify(
        self, verifying: Sequence[int], in_flight: Iterable[int], workers: int
    ) -> tuple[WantedProbe, ...]:
        """Probe those again, as often as they are named, less what is in flight; what else is in flight goes on."""
        flying = list(in_flight)
        wanted = Counter(verifying)
        wanted.subtract(flying)
        free = max(0, workers - len(flying))
        return tuple(self.range_search.wanted(node, Phase.CONFIRM) for node in [*wanted.elements()][:free])


def _posterior(
    search: RangeSearch,
    contradiction: Contradiction,
    known: Known,
    around: Circumstances,
    *,
    earlier: bool = True,
) -> Posterior:
    """What the probes say of the change that is searched for. What failed on another line is not probed again, nor is,
    with `earlier`, what other bisections could not build."""
    return search.posterior(
        known,
        around,
        without=contradiction.broken_before,
        never=contradiction.on_other_lines,
        earlier=earlier,
    )


def _told(decision: Round, posterior: Posterior, search: RangeSearch) -> Note:
    if (node := decision.confirming) is not None:
        return Confirming(
            commit=search.loaded.collapsed.nodes[node].commit.sha,
            confidence=float(posterior.belief.commits[node]),
            wanted=confirmed_at(search.confidence),
        )
    return Narrowed(_in_play(posterior), decision.expected_steps)


def _in_play(posterior: Posterior) -> int:
    """How many candidates are left: those that may be to blame as long as no two probes contradict each other; then
    those with at least a hundredth of the likeliest one's probability."""
    certain = as_if_certain(posterior)
    if certain is not None:
        return int(certain.suspects.sum())
    commits = posterior.belief.commits
    return int(np.sum(commits >= commits.max() / 100))
