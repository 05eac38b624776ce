"""A range is searched, and its culprit confirmed: what tells most is probed next, until one hypothesis has the asked
confidence."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from typing_extensions import override

from ....runner.errors import UserError
from ....store.vocabulary import Phase
from ...search.choose.decision import EnvironmentMoved, Undecided
from ...search.choose.planner import Found, OnlySkipped
from ...search.choose.rounds import Answer, Round, next_round
from ...search.evidence.posterior import Posterior
from ..earlier_failures import earlier_failures
from ..evidence import passing_end
from ..failures.apart import (
    another_failure,
    contradicts_only_another,
    fails_as_the_end_never_does,
    has_more_faces,
    is_end_seldom_seen,
    only_of_the_end,
    to_run_again,
    told_of_another,
)
from ..failures.exit_codes import failures_at
from ..known import Known
from ..needs import Confirming, Narrowed, Needs, Note, Notice
from ..priority.circumstances import Circumstances
from ..priority.costs import costs_beside
from ..priority.promise import Promise
from ..probes import WantedProbe
from ..range_search import RangeSearch
from .answer.concluding import Concluding, of_other_codes, without_culprit
from .answer.enclosing import Enclosing
from .answer.judged_no_more import judged_no_more, may_judge_no_more
from .answer.judged_no_more import told as told_of_unjudged
from .answer.naming import ConfirmedCulprit, named_commit
from .answer.turned_end import is_turned_for_good
from .answer.wall import trial_of_mending, wall_between
from .judging import one_probe
from .parents import CheckingParents
from .perturbing import TryingPerturbations, as_it_is, to_try
from .state import Advance, Enter, Move, OfRange, Wait, load_all

_SHORTER, _LONGER = 0.5, 5.0
"""Between these multiples of what it would be if each run told as much as the next one does end most searches whose
runs contradict each other: 8 of 10 at rates from 0 and 0.3 to 0.2 and 1, of 16 and 64 commits."""


@dataclass(frozen=True)
class Searching(OfRange):
    """A range whose ends differ."""

    enclosing: Enclosing

    @override
    def promise(self, known: Known, around: Circumstances) -> Promise | None:
        return self.range_search.promise(self.range_search.posterior(known, around), known, around)

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        search = self.range_search
        if wait := load_all(known, *search.blamed_files(known)):
            return wait
        posterior = search.posterior(known, around)
        if (elsewhere := self._searched_otherwise(posterior, known, around)) is not None:
            return elsewhere
        decision = self._decide(posterior, known, around)
        if isinstance(decision, OnlySkipped | Undecided) and search.loaded.earlier_skips:
            # What others could not build may do now, where nothing else is left.
            posterior = search.posterior(known, around, earlier=False)
            decision = self._decide(posterior, known, around)
        numbers = [probe.number for probe in known.log.running]
        if self._is_answer(decision) and (apart := self._for_the_end(known)) is not None:
            return apart
        if isinstance(decision, Round):
            start = self._start(decision)
            cancel = tuple(numbers[place] for place in decision.cancel)
            return Wait(Needs(start=start, cancel=cancel, notes=(_told(decision, posterior, search),)))
        if isinstance(decision, Found):
            again = to_run_again(search, known, decision.culprit)
            if again is not None:
                return one_probe(known, search.wanted(again, Phase.CONFIRM))
        if numbers:
            return Wait(Needs(cancel=tuple(numbers)))
        if search.natural is not None:
            culprit = decision.culprit if isinstance(decision, Found) else None
            return Enter(as_it_is(search, posterior, culprit=culprit), self.enclosing)
        return self._answered(decision, posterior, known)

    def _judged_before(self, known: Known, *, is_answer: bool = False) -> Wait | None:
        """The end that passed is run again where nothing can be judged any more. Raises `UserError` where it cannot be
        judged either."""
        if unjudged := judged_no_more(known.log.ended):
            raise UserError(told_of_unjudged(unjudged))
        if not may_judge_no_more(known.log, is_answer=is_answer):
            return None
        passing = passing_end(self.range_search.loaded)
        return one_probe(
            known, WantedProbe(target=passing, phase=Phase.ENDPOINT, range=self.range_search.ordinal)
        )

    def _searched_otherwise(
        self, posterior: Posterior, known: Known, around: Circumstances
    ) -> Advance | None:
        """The range is searched in another way first, by what the runs have shown; None where it is not."""
        search = self.range_search
        if (again := self._judged_before(known)) is not None:
            return again
        if (
            posterior.certain is None
            and another_failure(search, known) is not None
            and contradicts_only_another(search, known, around)
        ):
            return self._for_the_end(known)
        if to_try(search, known, posterior):
            return Wait(Needs()) if known.log.running else Move(TryingPerturbations(search, self.enclosing))
        if search.natural is not None and posterior.certain is None and not known.log.running:
            # Under the perturbation, too, it comes and goes.
            return Enter(as_it_is(search, posterior), self.enclosing)
        if has_more_faces(search, known):
            text = (
                "exit codes do not tell failures apart here, as the failing end shows two, or commits show three: all "
                "count as one, and any is searched for again"
            )
            return Enter(search.of_failures(None), self.enclosing, (Notice(text),))
        return None

    @staticmethod
    def _is_answer(decision: Round | Answer) -> bool:
        """Whether a commit, or commits that cannot be tested, would be confirmed or named."""
        return isinstance(decision, Found | OnlySkipped) or (
            isinstance(decision, Round) and decision.confirming is not None
        )

    def _for_the_end(self, known: Known) -> Advance | None:
        """The search goes on for the failing end's own failure, where something fails otherwise; before that the end is
        run until it is known in how many ways it fails. None where nothing does."""
        search = self.range_search
        node = another_failure(search, known)
        if node is None:
            return None
        if is_end_seldom_seen(search, known):
            return one_probe(known, search.wanted(search.loaded.graph.bad, Phase.CONFIRM))
        if known.log.running:
            return Wait(Needs(cancel=tuple(probe.number for probe in known.log.running)))
        note = told_of_another(search, known, node)
        return Enter(only_of_the_end(search, known), self.enclosing, (note,))

    def _answered(self, decision: Answer, posterior: Posterior, known: Known) -> Advance:
        """Nothing is left to be run here, but what was judged before, where suspects could not be."""
        search = self.range_search
        if isinstance(decision, OnlySkipped) and (again := self._judged_before(known, is_answer=True)):
            return again
        if isinstance(decision, OnlySkipped) and (
            wait := load_all(known, *trial_of_mending(search, known, decision.candidates))
        ):
            return wait
        nodes = search.loaded.collapsed.nodes
        culprit = decision.culprit if isinstance(decision, Found) else None
        earlier = tuple(
            nodes[node].commit.sha
            for node in earlier_failures(search.evidence, search.log(known), culprit=culprit)
        )
        if isinstance(decision, Found):
            if found := fails_as_the_end_never_does(search, known, decision.culprit):
                at_end = failures_at(known.log, search.failing.content)
                confidence = float(posterior.belief.commits[decision.culprit])
                conclusion = of_other_codes(
                    search.loaded, decision.culprit, confidence, found=found, at_end=at_end, earlier=earlier
                )
                return Move(Concluding(search, conclusion, self.enclosing))
            return self._confirmed(decision.culprit, posterior, known, earlier)
        wall = wall_between(search, known, decision.candidates) if isinstance(decision, OnlySkipped) else ""
        conclusion = without_culprit(
            search.loaded, decision, earlier, posterior=posterior, log=known.log, wall=wall
        )
        return Move(Concluding(search, conclusion, self.enclosing))

    def _confirmed(self, node: int, posterior: Posterior, known: Known, earlier: tuple[str, ...]) -> Move:
        search = self.range_search
        named = named_commit(search.loaded, node, float(posterior.belief.commits[node]))
        under, notes = search.found_under, tuple[Notice, ...]()
        if under is not None and under.culprit == node:
            named = named.model_copy(update={"under": under.perturbation})
        elif under is not None and under.culprit is not None:
            shown = search.loaded.candidates[under.culprit]
            text = f"{under.perturbation} shows another fault, since {shown[:12]}: without it the failure is not of it"
            notes = (Notice(text),)
        culprit = ConfirmedCulprit(
            search=search,
            enclosing=self.enclosing,
            node=node,
            named=named,
            earlier_failures=earlier,
        )
        return Move(CheckingParents(culprit), notes)

    def _decide(self, posterior: Posterior, known: Known, around: Circumstances) -> Round | Answer:
        search = self.range_search
        if is_turned_for_good(search.loaded, search.log(known), workers=around.workers):
            return EnvironmentMoved()
        return next_round(
            posterior,
            in_flight=search.in_flight(known),
            workers=around.workers,
            confidence=search.confidence,
            costs=costs_beside(search.promise(posterior, known, around), around.rivals),
            windows=search.loaded.windows,
            # Other bisections may have a better use for workers.
            ahead=around.rivals is None,
        )

    def _start(self, decision: Round) -> tuple[WantedProbe, ...]:
        phase = Phase.SEARCH if decision.confirming is None else Phase.CONFIRM
        return tuple(self.range_search.wanted(node, phase) for node in decision.start)


def _told(decision: Round, posterior: Posterior, search: RangeSearch) -> Note:
    if (node := decision.confirming) is not None:
        return Confirming(
            commit=search.loaded.collapsed.nodes[node].commit.sha,
            confidence=float(posterior.belief.commits[node]),
            wanted=search.confidence,
            runs=_runs_to_come(decision.least_runs, least=1),
        )
    return Narrowed(_in_play(posterior), decision.expected_steps, _runs_to_come(decision.least_runs))


def _runs_to_come(steps: float | None, *, least: int | None = None) -> tuple[int, int] | None:
    """Between which numbers of runs a search mostly ends whose runs contradict each other; `least`, if so few
    may be enough."""
    if steps is None:
        return None
    return least or max(1, ceil(_SHORTER * steps)), max(1, ceil(_LONGER * steps))


def _in_play(posterior: Posterior) -> int:
    """How many candidates are left: those that may be to blame as long as no two probes contradict each other; then
    those with at least a hundredth of the likeliest one's probability."""
    certain = posterior.certain
    if certain is not None:
        return int(certain.suspects.sum())
    commits = posterior.belief.commits
    return int(np.sum(commits >= commits.max() / 100))
