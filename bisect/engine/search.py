"""The search of a range, and the check of a culprit's parents.

`CulpritSearch` probes next what tells most, until one hypothesis has the requested confidence. It may first read
failures in another way, or search under a perturbation. `ParentCheck` then runs those parents of the culprit that lie
outside of the range, or that were assumed to do as another commit does. A line that was forked before the range began
may lack a fix that the good end has. Then the line's first commit fails without being to blame, and the search goes on
without the line.

Of a flaky failure, perturbations of the case are tried at both ends, to find one that makes the failure certain. The
range is then searched under that perturbation, and its answer is only where the search without one begins. A
perturbation may show another commit's fault. So its answer counts as a prior, beside a rest for every commit alike.
"""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from typing_extensions import override

from ...runner.case.case import PERTURBATION_KEY
from ...runner.errors import EndsError, UserError
from ...runner.verdict.symptoms import Symptoms
from ...store.vocabulary import BisectionOutcome, Judgement, Phase, Seeks, plural
from ..history.questions import AskTarget, OfferedPerturbation
from ..history.range import Target, candidates_on_line, remove_candidates, search_outcome
from ..search.belief import Outcome, Prior
from ..search.decision import Answer, EnvironmentMoved, Round, Undecided, next_round, runs_expected
from ..search.halving import FoundCulprit, OnlySkipped
from ..search.hypotheses import GOOD_END
from ..search.posterior import Posterior
from ..search.rates import Rates, fit
from .answer import (
    Advance,
    Conclusion,
    ConfirmedCulprit,
    CulpritState,
    EnclosingRanges,
    Enter,
    FinalState,
    Move,
    RangeState,
    Wait,
    await_probe,
    conclusion_without_culprit,
    load_all,
    mix_readings,
    named_commit,
)
from .culprit import PinTests, add_patches, patch_questions
from .failures import Reading, is_unsure, passing_symptoms, rerun_end, run_of_end, shares_of_readings
from .range_search import Context, ExpectedGain, PerturbedAnswer, RangeSearch, probe_costs
from .runs import (
    BisectionKnowledge,
    ConfirmationProgress,
    FinishedProbe,
    Needs,
    Note,
    Notice,
    ProbeLog,
    RangeEvidence,
    SearchProgress,
    WantedProbe,
    earlier_failures,
    failing_end,
    passing_end,
)
from .trouble import (
    cherry_pick_questions,
    environment_changed,
    should_recheck_end,
    unjudgeable_runs,
    untestable_stretch_advice,
)
from .trouble import describe_unjudgeable as told_of_unjudged

_DECISION_ODDS = 99.0
"""A parent counts as passing or failing at these odds, which are those of 99 %."""

_MOST_RUNS = 24
"""A content that has told nothing after this many runs is skipped. A bad end that passes is waited for as many."""
_LEAST_RATE = 0.01
"""A rate keeps at least this distance from 0 and from 1, since no rate is surely 0 or 1."""


@dataclass(frozen=True)
class ParentCheck(CulpritState):
    """A culprit is confirmed by the commits of the range. Its other parents are run."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        where = self.search.loaded.range
        asked = [
            AskTarget(repository=where.repository, commit=parent, held=where.held)
            for parent in self._outside_parents()
        ]
        if wait := load_all(known, *asked):
            return wait
        for question in asked:
            target = known.answer(question)
            outcome = Outcome.SKIP if target is None else self._outcome(known, target)
            if outcome is None and target is not None:
                return self._run(known, target)
            if outcome is Outcome.BAD:
                elsewhere = question.commit in self.search.loaded.elsewhere
                return (self._conclude_outside_paths if elsewhere else self._drop_line)(question.commit)
            if outcome is not Outcome.GOOD:
                return self._conclude_suspect(question.commit)
        return Move(PinTests(self.culprit))

    def _outside_parents(self) -> list[str]:
        """Return the parents of the culprit that no runs of the range tell of. The old end of the range is not among
        them."""
        loaded = self.search.loaded
        inside = {commit.sha for commit in loaded.commits} - loaded.elsewhere | {loaded.range.old}
        commit = loaded.collapsed.nodes[self.culprit.node].commit
        parents = commit.parents[:1] if loaded.range.first_parent else commit.parents
        return [parent for parent in parents if parent not in inside]

    def _outcome(self, known: BisectionKnowledge, parent: Target) -> Outcome | None:
        """Return the outcome of a parent, or None where one more run has to tell."""
        loaded = self.search.loaded
        if parent.content == loaded.old_content:
            return Outcome.GOOD
        ends = passing_end(loaded).content, failing_end(loaded).content
        judgement = judge_by_end_rates(self.search.log(known), parent.content, good=ends[0], bad=ends[1])
        return None if judgement is None else search_outcome(judgement, loaded.range.seeks)

    def _run(self, known: BisectionKnowledge, parent: Target) -> Wait:
        wanted = WantedProbe(target=parent, phase=Phase.CONFIRM, range=self.search.ordinal)
        return await_probe(known, wanted)

    def _drop_line(self, parent: str) -> Advance:
        """Go on without the line of the culprit. The line does the same before its first commit."""
        search, named = self.search, self.culprit.named
        line = candidates_on_line(search.loaded.graph, self.culprit.node)
        if search.loaded.graph.bad in line:
            # In a pinned repository the commit that moves the pin stays named. A parent on a line that was left out is
            # no ancestor of the good end.
            if search.ordinal > 1 or parent in search.loaded.left_out:
                return self._conclude_suspect(parent)
            raise self._earlier_fix_error(parent)
        loaded = remove_candidates(search.loaded, line)
        text = (
            f"{named.commit[:12]} is not to blame: its parent {parent[:12]}, from before the range, does the same. "
            f"Its line lacks what the good end has; {plural(len(line), 'commit')} of it left out"
        )
        bad = {search.loaded.graph.bad: loaded.graph.bad}
        inherited = (
            replace(seen, commit=bad.get(seen.commit, seen.commit)) for seen in search.evidence.inherited
        )
        evidence = RangeEvidence.from_range(loaded, inherited=tuple(inherited))
        narrower = RangeSearch(
            ordinal=search.ordinal,
            loaded=loaded,
            evidence=evidence,
            confidence=search.confidence,
            case=search.case,
            reading=search.reading,
        )
        return Enter(narrower, self.culprit.enclosing, (Notice(text),))

    def _earlier_fix_error(self, parent: str) -> EndsError:
        """Return an error: what the newer end does came before the range, and was undone on the way to the older
        end."""
        where = self.search.loaded.range
        regression = where.seeks is Seeks.REGRESSION
        other = next(iter(where.also_old), where.old)
        old, new, does, what = (
            ("good", "bad", "fails", "fixed") if regression else ("bad", "good", "passes", "introduced")
        )
        ends = f"--find-fix --bad {parent} --good {other}" if regression else f"--good {parent} --bad {other}"
        return EndsError(
            f"{parent[:12]}, which both {old} {other[:12]} and {new} {where.new[:12]} build on, {does} too: it was "
            f"{what} on the way to {other[:12]}, and {new} {where.new[:12]} has no commit that does so; to find by "
            f"which commit, ask with {ends}"
        )

    def _conclude_outside_paths(self, parent: str) -> Advance:
        """Conclude that the change lies in commits that touch none of the paths that the search was limited to."""
        loaded, named = self.search.loaded, self.culprit.named
        nodes = loaded.collapsed.nodes
        node = next((node for node in nodes if any(each.sha == parent for each in node.members)), None)
        before = loaded.range.old if node is None else node.commit.sha
        conclusion = Conclusion(
            outcome=BisectionOutcome.NO_CULPRIT,
            message=(
                f"no commit of {named.repository} that touches --path {' or '.join(loaded.range.paths)} explains the "
                f"runs: the change lies between {before[:12]} and {parent[:12]}, which touch none of it; ask there "
                "without --path"
            ),
            earlier_failures=self.culprit.earlier_failures,
        )
        return Move(FinalState(self.search, conclusion, self.culprit.enclosing))

    def _conclude_suspect(self, parent: str) -> Advance:
        """Conclude that the commit is only a suspect: its parent tells nothing, so nothing is proven."""
        named = self.culprit.named
        conclusion = Conclusion(
            outcome=BisectionOutcome.SUSPECT,
            message=(
                f"{named.repository} {named.commit} is the suspect: its parent {parent[:12]} could not be told "
                "from it"
            ),
            suspects=(named.model_copy(update={"confidence": None}),),
            earlier_failures=self.culprit.earlier_failures,
        )
        return Move(FinalState(self.search, conclusion, self.culprit.enclosing))


def judge_by_end_rates(log: ProbeLog, content: str, *, good: str, bad: str) -> Judgement | None:
    """Return whether a content fails as often as the bad end's or as the good one's. Return None where one more run has
    to tell.

    The test is Wald's sequential probability ratio test (Sequential Analysis, 1947) between the rates of both ends, at
    odds of 99. The content is a skip where a run cannot be judged, or where too many runs told nothing.
    """
    tally = log.tally(content)
    fails, passes = tally[Judgement.BAD], tally[Judgement.GOOD]
    rates = _fail_rates(log.tally(good), log.tally(bad))
    evidence = fails * math.log(rates[1] / rates[0]) + passes * math.log((1 - rates[1]) / (1 - rates[0]))
    if evidence >= math.log(_DECISION_ODDS):
        return Judgement.BAD
    if evidence <= -math.log(_DECISION_ODDS):
        return Judgement.GOOD
    return Judgement.SKIP if tally[Judgement.SKIP] or fails + passes >= _MOST_RUNS else None


def _fail_rates(good: Counter[Judgement], bad: Counter[Judgement]) -> tuple[float, float]:
    """Return the expected fail rates of the ends, as the search assumes them. Neither is surely 0 or 1."""
    fitted = fit(
        Rates.unknown(),
        good_fails=np.array([float(good[Judgement.BAD])]),
        good_passes=np.array([float(good[Judgement.GOOD])]),
        bad_fails=np.array([float(bad[Judgement.BAD])]),
        bad_passes=np.array([float(bad[Judgement.GOOD])]),
    )
    return max(_LEAST_RATE, float(fitted.good[0])), min(1 - _LEAST_RATE, float(fitted.bad[0]))


_SHORTER, _LONGER = 0.5, 5.0
"""Most searches whose runs contradict each other end between these multiples of a prediction. The prediction assumes
that each run tells as much as the next one. It held for 8 of 10 searches at rates from 0 and 0.3 to 0.2 and 1, of 16
and 64 commits."""


@dataclass(frozen=True)
class CulpritSearch(RangeState):
    """A range whose ends differ is searched."""

    enclosing: EnclosingRanges

    @override
    def expected_gain(self, known: BisectionKnowledge, context: Context) -> ExpectedGain | None:
        return self.range_search.expected_gain(self.range_search.posterior(known, context), known, context)

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        search = self.range_search
        if wait := load_all(known, *search.blame_questions(known)):
            return wait
        posterior = search.posterior(known, context)
        if (elsewhere := self._alternative_search(posterior, known, context)) is not None:
            return elsewhere
        decision = self._decide(posterior, known, context)
        if isinstance(decision, OnlySkipped | Undecided):
            # Where nothing else is left, try what other bisections could not build, and what the machine may have
            # failed: it may be testable now.
            posterior = search.posterior(known, context, last_resort=True)
            decision = self._decide(posterior, known, context)
        numbers = [probe.number for probe in known.log.running]
        if self._is_answer(decision) and (surely := self._restrict_to_sure(known)) is not None:
            return surely
        if isinstance(decision, Round):
            start = self._start(decision)
            cancel = tuple(numbers[place] for place in decision.cancel)
            return Wait(
                Needs(start=start, cancel=cancel, notes=(_progress_note(decision, posterior, search),))
            )
        if numbers:
            return Wait(Needs(cancel=tuple(numbers)))
        if search.unperturbed is not None:
            culprit = decision.culprit if isinstance(decision, FoundCulprit) else None
            return Enter(unperturbed_search(search, posterior, culprit=culprit), self.enclosing)
        return self._finish(decision, posterior, known, context)

    def _rerun_passing_end(self, known: BisectionKnowledge, *, is_answer: bool = False) -> Wait | None:
        """Run the end that passed again, where nothing can be judged any more. Raises `UserError` where that end cannot
        be judged either."""
        if unjudged := unjudgeable_runs(known.log.ended):
            raise UserError(told_of_unjudged(unjudged))
        if not should_recheck_end(known.log, is_answer=is_answer):
            return None
        passing = passing_end(self.range_search.loaded)
        return await_probe(
            known, WantedProbe(target=passing, phase=Phase.ENDPOINT, range=self.range_search.ordinal)
        )

    def _alternative_search(
        self, posterior: Posterior, known: BisectionKnowledge, context: Context
    ) -> Advance | None:
        """Return the other way in which the range is searched first, by what the runs have shown. Return None without
        one."""
        search = self.range_search
        if (again := self._rerun_passing_end(known)) is not None:
            return again
        if posterior.certain is None and self._has_unsure_failures(known):
            sure = search.with_reading(Reading.SURE)
            if sure.posterior(known, context).certain is not None:
                return self._restrict_to_sure(known)
        if should_try_perturbations(search, known, posterior):
            return Wait(Needs()) if known.log.running else Move(PerturbationTrials(search, self.enclosing))
        if search.unperturbed is not None and posterior.certain is None and not known.log.running:
            # The failure is flaky under the perturbation too.
            return Enter(unperturbed_search(search, posterior), self.enclosing)
        return None

    @staticmethod
    def _is_answer(decision: Round | Answer) -> bool:
        """Return whether the decision would confirm or name a commit, or name commits that cannot be tested."""
        return isinstance(decision, FoundCulprit | OnlySkipped) or (
            isinstance(decision, Round) and decision.confirming is not None
        )

    def _has_unsure_failures(self, known: BisectionKnowledge) -> bool:
        """Return whether failures count that may not be the end's.

        Where a fix is sought, they do not matter: the first commit that passes is the answer, whatever failed before.
        """
        search = self.range_search
        may_differ = search.unperturbed is None and search.loaded.range.seeks is Seeks.REGRESSION
        return may_differ and any(map(is_unsure, search.log(known).ended))

    def _restrict_to_sure(self, known: BisectionKnowledge) -> Advance | None:
        """Go on with only the failures that surely are the end's. Return None where no other failure counts.

        Exit codes alone may tell failures apart. Then the end is run first, until its exit codes are known.
        """
        search = self.range_search
        if search.unperturbed is None and rerun_end(known, search.failing_target.content):
            return await_probe(known, search.make_probe(search.loaded.graph.bad, Phase.CONFIRM))
        if not self._has_unsure_failures(known):
            return None
        if known.log.running:
            return Wait(Needs(cancel=tuple(probe.number for probe in known.log.running)))
        return Enter(search.with_reading(Reading.SURE), self.enclosing, (_unsure_notice(known, search),))

    def _finish(
        self, decision: Answer, posterior: Posterior, known: BisectionKnowledge, context: Context
    ) -> Advance:
        """Draw the answer, as nothing is left to run here. Where suspects could not be judged, run again first what was
        judged before."""
        search = self.range_search
        if isinstance(decision, OnlySkipped) and (again := self._rerun_passing_end(known, is_answer=True)):
            return again
        if isinstance(decision, OnlySkipped) and (
            wait := load_all(known, *cherry_pick_questions(search, known, decision.candidates))
        ):
            return wait
        nodes = search.loaded.collapsed.nodes
        culprit = decision.culprit if isinstance(decision, FoundCulprit) else None
        earlier = tuple(
            nodes[node].commit.sha
            for node in earlier_failures(search.evidence, search.log(known), culprit=culprit)
        )
        if isinstance(decision, FoundCulprit):
            return self._confirm(decision.culprit, posterior, known, earlier)
        wall = (
            untestable_stretch_advice(search, known, decision.candidates)
            if isinstance(decision, OnlySkipped)
            else ""
        )
        conclusion = conclusion_without_culprit(
            search.loaded, decision, earlier, posterior=posterior, log=known.log, wall=wall
        )
        if wait := load_all(known, *patch_questions(known, conclusion.suspects)):
            return wait
        conclusion = add_patches(known, search.loaded, conclusion)
        return Move(FinalState(search, self._mix_readings(conclusion, known, context), self.enclosing))

    def _mix_readings(
        self, conclusion: Conclusion, known: BisectionKnowledge, context: Context
    ) -> Conclusion:
        """Return the conclusion without a culprit.

        Where failures may be the end's or others, it weighs what each reading leads to by the share of that reading.
        """
        search = self.range_search
        unsure = [probe for probe in known.log.ended if is_unsure(probe)]
        if not unsure or not conclusion.suspects:
            return conclusion
        beliefs = {
            reading: search.with_reading(reading).posterior(known, context).belief.commits
            for reading in (Reading.ANY, Reading.LIKELY, Reading.SURE)
        }
        return mix_readings(
            conclusion,
            search.loaded,
            beliefs,
            shares_of_readings(known.log),
            unsure=unsure[-1],
            at_end=run_of_end(known.log, search.failing_target.content),
        )

    def _confirm(
        self, node: int, posterior: Posterior, known: BisectionKnowledge, earlier: tuple[str, ...]
    ) -> Move:
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
        return Move(ParentCheck(culprit), notes)

    def _decide(self, posterior: Posterior, known: BisectionKnowledge, context: Context) -> Round | Answer:
        search = self.range_search
        if environment_changed(search.loaded, search.log(known), workers=context.workers):
            return EnvironmentMoved()
        return next_round(
            posterior,
            in_flight=search.nodes_in_flight(known),
            workers=context.workers,
            confidence=search.confidence,
            costs=probe_costs(search.expected_gain(posterior, known, context), context.rivals),
            windows=search.loaded.windows,
            # Other bisections may have a better use for workers.
            ahead=context.rivals is None,
        )

    def _start(self, decision: Round) -> tuple[WantedProbe, ...]:
        phase = Phase.SEARCH if decision.confirming is None else Phase.CONFIRM
        return tuple(self.range_search.make_probe(node, phase) for node in decision.start)


def _unsure_notice(known: BisectionKnowledge, search: RangeSearch) -> Notice:
    """Return the notice that says that, and why, the search goes on for the end's failure alone."""
    unsure = next(probe for probe in search.log(known).ended if is_unsure(probe))
    at_end = run_of_end(known.log, search.failing_target.content)
    here, there = _differing_words(unsure, at_end, passing_symptoms(known.log))
    return Notice(
        f"run {unsure.number} fails with {here}, the failing end {search.failing_target.commit[:12]} with "
        f"{there}: with "
        f"{unsure.likeness:.0%} this is one failure; the search goes on with the runs that surely show the end's"
    )


def _differing_words(
    unsure: FinishedProbe, at_end: FinishedProbe | None, passing: Collection[Symptoms]
) -> tuple[str, str]:
    """Return what two failures print that differs: their errors, the values in them, or the places in the source."""
    here, there = unsure.signature or "its own failure", "its own failure"
    if at_end is None or at_end.signature is None:
        return here, there
    there = at_end.signature
    if here != there or unsure.symptoms is None or at_end.symptoms is None:
        return here, there
    values = unsure.symptoms.values_without(passing), at_end.symptoms.values_without(passing)
    for error in values[0].keys() & values[1].keys():
        if values[0][error] != values[1][error]:
            return f'"{values[0][error]}"', f'"{values[1][error]}"'
    places = unsure.symptoms.places, at_end.symptoms.places
    return (f"{here} at `{places[0][0]}`", f"{there} at `{places[1][0]}`") if all(places) else (here, there)


def _progress_note(decision: Round, posterior: Posterior, search: RangeSearch) -> Note:
    if (node := decision.confirming) is not None:
        return ConfirmationProgress(
            commit=search.loaded.collapsed.nodes[node].commit.sha,
            confidence=float(posterior.belief.commits[node]),
            wanted=search.confidence,
            runs=_runs_to_come(decision.least_runs, least=1),
        )
    return SearchProgress(
        _suspect_count(posterior), decision.expected_steps, _runs_to_come(decision.least_runs)
    )


def _runs_to_come(steps: float | None, *, least: int | None = None) -> tuple[int, int] | None:
    """Return the least and the most runs after which a search mostly ends whose runs contradict each other.

    least: the least number, if so few may be enough.
    """
    if steps is None:
        return None
    return least or max(1, ceil(_SHORTER * steps)), max(1, ceil(_LONGER * steps))


def _suspect_count(posterior: Posterior) -> int:
    """Return how many candidates are left.

    As long as no two probes contradict each other, these are the ones that may be to blame. Then they are the ones with
    at least a hundredth of the likeliest one's probability.
    """
    certain = posterior.certain
    if certain is not None:
        return int(certain.suspects.sum())
    commits = posterior.belief.commits
    return int(np.sum(commits >= commits.max() / 100))


_TRUST = 0.9
"""A perturbation shows the searched fault and no other with this chance. Under it the bad end must always fail as
without it, and the good end never."""
_HELP_CHANCE = 0.25
"""A perturbation that was not tried yet is assumed to make a failure certain with this chance. Most do not help."""

_FALSE_POSITIVE_RATE = 0.05
"""A perturbation without effect is taken with at most this chance for one that makes the failure certain."""

_FAILURES_REQUIRED = (3, 8)
"""The bad end must fail this often before a perturbation is used. The rate of failures without it decides between the
two."""

_PASSES_REQUIRED = 2
"""The good end must pass this often before a perturbation is used: it must not make every commit fail."""

_MIN_COMMIT_CHANCE = 0.5
"""Some commit must be to blame with at least this chance. Below it the search under a perturbation is ignored."""
_CONFIRMATION_RUNS = 3.0
"""Where the failure is certain, this many runs confirm an answer: those of the culprit and its parent, after those that
halve."""


def should_try_perturbations(search: RangeSearch, known: BisectionKnowledge, posterior: Posterior) -> bool:
    """Return whether to try perturbations now.

    They are tried once runs contradict each other, if none was tried before and it pays. A trial that was begun before
    a resume goes on.
    """
    offered = known.question.perturbations
    if (
        not offered
        or search.perturbations_tried
        or search.unperturbed is not None
        or posterior.certain is not None
    ):
        return False
    begun = any(known.log.probes_for(each.content(search.failing_target.content)) for each in offered)
    return begun or _is_worth_trying(search, known, posterior)


def _is_worth_trying(search: RangeSearch, known: BisectionKnowledge, posterior: Posterior) -> bool:
    """Return whether one more perturbation is expected to save more runs than its trial takes."""
    rate = _rate(known)
    unperturbed_runs, runs_if_certain = runs_expected(posterior, confidence=search.confidence)
    # Without a perturbation the culprit fails once, and its parent passes until a failure would have shown.
    rest = (1 - _TRUST) / 2
    confirmed = 1 / rate + math.log(rest / (1 - search.confidence)) / -math.log(1 - rate)
    under = runs_if_certain + _CONFIRMATION_RUNS + confirmed + _failures_needed(known) + _PASSES_REQUIRED
    return _HELP_CHANCE * (unperturbed_runs - under) > 1 / (1 - rate)


def _rate(known: BisectionKnowledge) -> float:
    """Return how often a bad commit fails."""
    failures, runs = known.log.failures_where_bad()
    return (failures + 0.5) / (runs + 1)


def _failures_needed(known: BisectionKnowledge) -> int:
    """Return how many failures in a row show that the bad end always fails.

    It would hardly have so many by chance. Its runs so far are all that is known of its rate.
    """
    failures, runs = known.log.failures_where_bad()
    least, most = _FAILURES_REQUIRED
    chance, needed = 1.0, 0
    while needed < least or (chance > _FALSE_POSITIVE_RATE and needed < most):
        chance *= (failures + 0.5 + needed) / (runs + 1 + needed)
        needed += 1
    return needed


@dataclass(frozen=True)
class PerturbationTrials(RangeState):
    """The ends are run under one perturbation after another, until one makes the failure certain."""

    enclosing: EnclosingRanges

    @override
    def failing_end(self, known: BisectionKnowledge) -> Target | None:
        """Return None: a perturbation may change the size of an error."""
        return None

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        search = self.range_search
        running = [probe.number for probe in known.log.running]
        wanted: list[WantedProbe] = []
        for offered in known.question.perturbations:
            trial = _Trial(search.perturb(offered), known)
            if trial.is_passed:
                if running:
                    return Wait(Needs(cancel=tuple(running)))
                return Enter(trial.under, self.enclosing, (Notice(trial.notice_text(offered)),))
            wanted += trial.probes_to_start()
            if len(wanted) + len(running) >= context.workers:
                break
        if wanted or running:
            return Wait(Needs(start=tuple(wanted[: max(0, context.workers - len(running))])))
        names = ", ".join(offered.name for offered in known.question.perturbations)
        notice = Notice(f"the failure comes and goes under each perturbation that was tried, too: {names}")
        return Enter(search.finish_perturbations(None), self.enclosing, (notice,))


class _Trial:
    """What both ends did so far under one perturbation."""

    def __init__(self, under: RangeSearch, known: BisectionKnowledge) -> None:
        self.under = under
        self._known = known
        loaded, log = under.loaded, known.log
        self._failing, self._passing = failing_end(loaded), passing_end(loaded)
        of_failing = log.probes_for(self._failing.content)
        self._failures = sum(probe.judgement is Judgement.BAD for probe in of_failing)
        self._passes = log.tally(self._passing.content)[Judgement.GOOD]
        unperturbed_failures = {
            (probe.verdict, probe.signature)
            for probe in log.probes_for(under.unperturbed.failing_target.content if under.unperturbed else "")
            if probe.judgement is Judgement.BAD
        }
        self._failed = any(
            probe.judgement is not Judgement.BAD
            or (probe.verdict, probe.signature) not in unperturbed_failures
            for probe in of_failing
        ) or any(probe.judgement is not Judgement.GOOD for probe in log.probes_for(self._passing.content))

    @property
    def is_passed(self) -> bool:
        """Return whether the failure is certain under the perturbation."""
        return not self._failed and self._missing_runs() == (0, 0)

    def _missing_runs(self) -> tuple[int, int]:
        """Return how many more runs of the failing and of the passing end the trial takes."""
        return (
            max(0, _failures_needed(self._known) - self._failures),
            max(0, _PASSES_REQUIRED - self._passes),
        )

    def probes_to_start(self) -> list[WantedProbe]:
        """Return the runs that are still to be started, those of the failing end first."""
        if self._failed:
            return []
        loaded = self.under.loaded
        nodes = (loaded.graph.bad, GOOD_END)
        if loaded.range.seeks is Seeks.FIX:
            nodes = nodes[::-1]
        running = [probe.wanted.target.content for probe in self._known.log.running]
        ends = zip(nodes, (self._failing, self._passing), self._missing_runs(), strict=True)
        return [
            self.under.make_probe(node, Phase.PERTURBED)
            for node, end, missing in ends
            for _ in range(missing - running.count(end.content))
        ]

    def notice_text(self, offered: OfferedPerturbation) -> str:
        """Return the notice that the range is searched under the perturbation."""
        bad, good = self._failing.commit[:12], self._passing.commit[:12]
        return (
            f"the failure comes and goes, but under {offered.name} ({offered.description}) bad {bad} failed in all "
            f"{plural(self._failures, 'run')} and good {good} in none of {self._passes}: the range is "
            "searched under it, and what it names is confirmed without it"
        )


def unperturbed_search(
    under: RangeSearch, posterior: Posterior, *, culprit: int | None = None
) -> RangeSearch:
    """Return the search of the range without a perturbation, after one under a perturbation.

    `posterior` is that of the search under the perturbation, and `culprit` what it named.
    """
    assert under.unperturbed is not None
    chances, size = posterior.belief.commits, len(posterior.graph)
    total = float(chances.sum())
    if total < _MIN_COMMIT_CHANCE:
        return under.unperturbed.finish_perturbations(None)
    prior = Prior(_TRUST * chances / total + (1 - _TRUST) / size, others=1 - _TRUST)
    name = under.loaded.range.held[PERTURBATION_KEY]
    return under.unperturbed.finish_perturbations(
        PerturbedAnswer(perturbation=name, prior=prior, culprit=culprit)
    )
