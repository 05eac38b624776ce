"""A failure comes and goes: perturbations of the case are tried at both ends, and the range is searched under the one
that makes the failure certain. What is found there is where the search of the range as it is begins, and no more: it
names a commit by the runs that were asked for.

A perturbation may show another fault, of another commit, that looks like the one that is searched for. Therefore its
answer counts as a prior of the search without it, beside a rest for every commit alike: where the commit does not fail
as the bad end does, or its parent fails too, the rest outweighs it after a few runs.
"""

import math
from dataclasses import dataclass

from typing_extensions import override

from ....runner.workspace.perturbations import UNDER
from ....store.vocabulary import Judgement, Phase, Seeks
from ....store.words import plural
from ...commits.perturbed import OfferedPerturbation
from ...search.choose.expectation import runs_expected
from ...search.evidence.belief import Prior
from ...search.evidence.posterior import Posterior
from ...search.model.groups import GOOD_END
from ..evidence import failing_end, passing_end
from ..known import Known
from ..needs import Needs, Notice
from ..priority.circumstances import Circumstances
from ..probes import Target, WantedProbe
from ..range_search import FoundUnder, RangeSearch
from .answer.enclosing import Enclosing
from .state import Advance, Enter, OfRange, Wait

_TRUST = 0.9
"""The chance that a perturbation under which the bad end always fails as it does without it, and the good end never
does, shows the fault that is searched for, and no other."""
_HELPS = 0.25
"""The chance that a perturbation makes a failure certain, before it was tried."""
_BY_CHANCE = 0.05
"""The chance, at most, that a perturbation without effect is taken for one that makes the failure certain."""
_FAILURES = (3, 8)
"""Of the bad end, at least and at most, before a perturbation is taken."""
_PASSES = 2
"""Of the good end."""
_SOME_COMMIT = 0.5
"""The chance, at least, that some commit is to blame, for the search under a perturbation to have a say."""
_CONFIRMING = 3.0
"""Runs that tell where the failure is certain: those of the culprit and its parent behind those that halve."""


def to_try(search: RangeSearch, known: Known, posterior: Posterior) -> bool:
    """Whether perturbations are to be tried now: runs contradict each other, no perturbation was tried, and it pays.
    One that was begun before a resume is gone on with."""
    offered = known.question.perturbations
    if (
        not offered
        or search.perturbations_tried
        or search.natural is not None
        or posterior.certain is not None
    ):
        return False
    begun = any(known.log.of(each.content(search.failing.content)) for each in offered)
    return begun or _pays(search, known, posterior)


def _pays(search: RangeSearch, known: Known, posterior: Posterior) -> bool:
    """Whether one more perturbation is expected to save more runs than its trial takes."""
    rate = _rate(known)
    natural, certain = runs_expected(posterior, confidence=search.confidence)
    # The culprit fails once as it is, and its parent passes until a failure would have shown.
    rest = (1 - _TRUST) / 2
    confirmed = 1 / rate + math.log(rest / (1 - search.confidence)) / -math.log(1 - rate)
    under = certain + _CONFIRMING + confirmed + _failures_needed(known) + _PASSES
    return _HELPS * (natural - under) > 1 / (1 - rate)


def _rate(known: Known) -> float:
    """How often a bad commit fails."""
    failures, runs = known.log.failures_where_bad()
    return (failures + 0.5) / (runs + 1)


def _failures_needed(known: Known) -> int:
    """How many failures in a row of the bad end show that it always fails: as many as it would hardly have by chance,
    at a rate of which its runs so far are all that is known."""
    failures, runs = known.log.failures_where_bad()
    least, most = _FAILURES
    chance, needed = 1.0, 0
    while needed < least or (chance > _BY_CHANCE and needed < most):
        chance *= (failures + 0.5 + needed) / (runs + 1 + needed)
        needed += 1
    return needed


@dataclass(frozen=True)
class TryingPerturbations(OfRange):
    """The ends are run under one perturbation after the other, until one makes the failure certain."""

    enclosing: Enclosing

    @override
    def failing_end(self, known: Known) -> Target | None:
        """None: what a perturbation does to the size of an error is its own."""
        return None

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        search = self.range_search
        running = [probe.number for probe in known.log.running]
        wanted: list[WantedProbe] = []
        for offered in known.question.perturbations:
            trial = _Trial(search.under(offered), known)
            if trial.is_passed:
                if running:
                    return Wait(Needs(cancel=tuple(running)))
                return Enter(trial.under, self.enclosing, (Notice(trial.told(offered)),))
            wanted += trial.wanted()
            if len(wanted) + len(running) >= around.workers:
                break
        if wanted or running:
            return Wait(Needs(start=tuple(wanted[: max(0, around.workers - len(running))])))
        names = ", ".join(offered.name for offered in known.question.perturbations)
        notice = Notice(f"the failure comes and goes under each perturbation that was tried, too: {names}")
        return Enter(search.after_perturbations(None), self.enclosing, (notice,))


class _Trial:
    """What both ends did so far under one perturbation."""

    def __init__(self, under: RangeSearch, known: Known) -> None:
        self.under = under
        self._known = known
        loaded, log = under.loaded, known.log
        self._failing, self._passing = failing_end(loaded), passing_end(loaded)
        of_failing = log.of(self._failing.content)
        self._failures = sum(probe.judgement is Judgement.BAD for probe in of_failing)
        self._passes = log.tally(self._passing.content)[Judgement.GOOD]
        natural = {
            (probe.verdict, probe.signature)
            for probe in log.of(under.natural.failing.content if under.natural else "")
            if probe.judgement is Judgement.BAD
        }
        self._failed = any(
            probe.judgement is not Judgement.BAD or (probe.verdict, probe.signature) not in natural
            for probe in of_failing
        ) or any(probe.judgement is not Judgement.GOOD for probe in log.of(self._passing.content))

    @property
    def is_passed(self) -> bool:
        """Whether the failure is certain under it."""
        return not self._failed and self._missing() == (0, 0)

    def _missing(self) -> tuple[int, int]:
        """How many more runs of the failing and of the passing end it takes."""
        return (
            max(0, _failures_needed(self._known) - self._failures),
            max(0, _PASSES - self._passes),
        )

    def wanted(self) -> list[WantedProbe]:
        """The runs that are still to be started, of the failing end first."""
        if self._failed:
            return []
        loaded = self.under.loaded
        nodes = (loaded.graph.bad, GOOD_END)
        if loaded.range.seeks is Seeks.FIX:
            nodes = nodes[::-1]
        running = [probe.wanted.target.content for probe in self._known.log.running]
        ends = zip(nodes, (self._failing, self._passing), self._missing(), strict=True)
        return [
            self.under.wanted(node, Phase.PERTURBED)
            for node, end, missing in ends
            for _ in range(missing - running.count(end.content))
        ]

    def told(self, offered: OfferedPerturbation) -> str:
        """That the range is searched under it."""
        bad, good = self._failing.commit[:12], self._passing.commit[:12]
        return (
            f"the failure comes and goes, but under {offered.name} ({offered.told}) bad {bad} failed in all "
            f"{plural(self._failures, 'run')} and good {good} in none of {self._passes}: the range is "
            "searched under it, and what it names is confirmed without it"
        )


def as_it_is(under: RangeSearch, posterior: Posterior, *, culprit: int | None = None) -> RangeSearch:
    """The search of the range as it is, behind one under a perturbation with this posterior, which named `culprit`."""
    assert under.natural is not None
    chances, size = posterior.belief.commits, len(posterior.graph)
    total = float(chances.sum())
    if total < _SOME_COMMIT:
        return under.natural.after_perturbations(None)
    prior = Prior(_TRUST * chances / total + (1 - _TRUST) / size, others=1 - _TRUST)
    name = under.loaded.range.held[UNDER]
    return under.natural.after_perturbations(FoundUnder(perturbation=name, prior=prior, culprit=culprit))
