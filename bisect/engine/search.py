"""The search of a range, the check of a culprit's parents, and perturbations of a flaky failure.

`CulpritSearch` runs the most informative probes, until one hypothesis has the requested confidence. `ParentCheck` then
runs those parents of the culprit that lie outside of the range. `PerturbationTrials` looks for a perturbation that
makes a flaky failure certain. The range is then searched under it, and `unperturbed_search` begins from that answer.
"""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from math import ceil

import numpy as np
from typing_extensions import override

from ...runner.case.case import PERTURBATION_KEY
from ...runner.errors import UserError
from ...runner.verdict.symptoms import Symptoms
from ...store.vocabulary import BisectionOutcome, Judgement, Phase, Seeks, percent, plural
from ..history.questions import AskRange, AskTarget, AskUndone, OfferedPerturbation
from ..history.range import (
    LoadedRange,
    Target,
    candidates_on_line,
    is_long,
    remove_candidates,
    search_outcome,
)
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
    SearchProgress,
    WantedProbe,
    earlier_failures,
    failing_end,
    passing_end,
)
from .trouble import (
    cherry_pick_questions,
    describe_unjudgeable,
    environment_changed,
    should_recheck_end,
    unjudgeable_runs,
    untestable_stretch_advice,
)

_DECISION_ODDS = 99.0
"""A parent counts as passing or failing at these odds. They are those of 99 %."""
_MAX_RUNS = 24
"""A content that is not decided after this many runs is a skip."""
_MIN_RATE = 0.01
"""A rate keeps this distance from 0 and from 1, because no rate is surely 0 or 1."""


@dataclass(frozen=True)
class ParentCheck(CulpritState):
    """Runs those parents of a culprit that lie outside of the range.

    A line that was forked before the range began may lack a fix that the good end has. Then its first commit fails
    without being to blame, and the search goes on without the line. The same holds for a history of its own, whose
    first commit has no parent: it may lack what the case needs.
    """

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        search_range = self.search.loaded.range
        if not self.search.loaded.commit_range.nodes[self.culprit.node].commit.parents:
            return self._drop_line(None, known)
        questions = [
            AskTarget(repository=search_range.repository, commit=parent, held=search_range.held)
            for parent in self._outside_parents()
        ]
        if wait := load_all(known, *questions):
            return wait
        for question in questions:
            target = known.answer(question)
            if target is None:
                return self._conclude_suspect(question.commit)
            match self._outcome(known, target):
                case None:
                    return self._run(known, target)
                case Outcome.SKIP:
                    return self._conclude_suspect(question.commit)
                case Outcome.BAD if question.commit in self.search.loaded.unrelated:
                    return self._conclude_outside_paths(question.commit)
                case Outcome.BAD:
                    return self._drop_line(question.commit, known)
                case Outcome.GOOD:
                    continue
        return Move(PinTests(self.culprit))

    def _outside_parents(self) -> list[str]:
        """Return the parents of the culprit that are neither candidates nor the old end of the range."""
        loaded = self.search.loaded
        inside = {commit.sha for commit in loaded.commits} - loaded.unrelated | {loaded.range.old}
        commit = loaded.commit_range.nodes[self.culprit.node].commit
        return [parent for parent in loaded.range.followed_parents(commit) if parent not in inside]

    def _outcome(self, known: BisectionKnowledge, parent: Target) -> Outcome | None:
        """Return the outcome of a parent. Return None where one more run has to decide."""
        loaded = self.search.loaded
        if parent.content == loaded.old_content:
            return Outcome.GOOD
        judgement = judge_by_end_rates(
            self.search.log(known),
            parent.content,
            good=passing_end(loaded).content,
            bad=failing_end(loaded).content,
        )
        return None if judgement is None else search_outcome(judgement, loaded.range.seeks)

    def _run(self, known: BisectionKnowledge, parent: Target) -> Wait:
        wanted = WantedProbe(target=parent, phase=Phase.CONFIRM, range=self.search.ordinal)
        return await_probe(known, wanted)

    def _drop_line(self, parent: str | None, known: BisectionKnowledge) -> Advance:
        """Go on without the culprit's line. The parent of its first commit has the same result, or there is none."""
        search, named = self.search, self.culprit.named
        if search.loaded.unread:
            return read_on(search, self.culprit.enclosing, known)
        line = candidates_on_line(
            search.loaded.graph, self.culprit.node, joined=search.loaded.merges_of_old_end
        )
        if search.loaded.graph.bad in line:
            # In a pinned repository the commit that moves the pin is the answer. A parent on a line that was left out
            # is no ancestor of the good end.
            if search.ordinal > 1 or parent is None or parent in search.loaded.left_out:
                return self._conclude_suspect(parent)
            searched = search.loaded.range
            old = next(iter(searched.also_old), searched.old)
            raise searched.other_side_error(parent, role="common ancestor", old=old)
        loaded = remove_candidates(search.loaded, line)
        why = (
            "it has no parent"
            if parent is None
            else f"its parent {parent[:12]}, from before the range, has the same result"
        )
        text = (
            f"{named.commit[:12]} is not to blame: {why}. "
            f"Its line lacks what the good end has, so the search leaves out {plural(len(line), 'commit')} of it"
        )
        return Enter(search.replace_range(loaded), self.culprit.enclosing, (Notice(text),))

    def _conclude_outside_paths(self, parent: str) -> Advance:
        """Conclude that the change lies in commits outside of the paths to which the search was limited."""
        loaded, named = self.search.loaded, self.culprit.named
        nodes = loaded.commit_range.nodes
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

    def _conclude_suspect(self, parent: str | None) -> Advance:
        """Conclude that the commit is only a suspect, because its parent could not be judged, or it has none."""
        named = self.culprit.named
        why = (
            "it has no parent"
            if parent is None
            else f"its parent {parent[:12]} could not be distinguished from it"
        )
        conclusion = Conclusion(
            outcome=BisectionOutcome.SUSPECT,
            message=f"{named.repository} {named.commit} is the suspect: {why}",
            suspects=(named.model_copy(update={"confidence": None}),),
            earlier_failures=self.culprit.earlier_failures,
        )
        return Move(FinalState(self.search, conclusion, self.culprit.enclosing))


def judge_by_end_rates(log: ProbeLog, content: str, *, good: str, bad: str) -> Judgement | None:
    """Return BAD or GOOD, by the end whose failure rate a content has. Return None where another run has to decide.

    The test is Wald's sequential probability ratio test (Sequential Analysis, 1947) between the rates of both ends, at
    odds of 99. The content is a skip where a run could not be judged, or where too many runs decided nothing.
    """
    tally = log.tally(content)
    fails, passes = tally[Judgement.BAD], tally[Judgement.GOOD]
    good_rate, bad_rate = _fail_rates(log.tally(good), log.tally(bad))
    evidence = fails * math.log(bad_rate / good_rate) + passes * math.log((1 - bad_rate) / (1 - good_rate))
    if evidence >= math.log(_DECISION_ODDS):
        return Judgement.BAD
    if evidence <= -math.log(_DECISION_ODDS):
        return Judgement.GOOD
    return Judgement.SKIP if tally[Judgement.SKIP] or fails + passes >= _MAX_RUNS else None


def _fail_rates(good: Counter[Judgement], bad: Counter[Judgement]) -> tuple[float, float]:
    """Return the expected fail rates of the good and the bad end, as the search assumes them."""
    fitted = fit(
        Rates.unknown(),
        good_fails=np.array([float(good[Judgement.BAD])]),
        good_passes=np.array([float(good[Judgement.GOOD])]),
        bad_fails=np.array([float(bad[Judgement.BAD])]),
        bad_passes=np.array([float(bad[Judgement.GOOD])]),
    )
    return max(_MIN_RATE, float(fitted.good[0])), min(1 - _MIN_RATE, float(fitted.bad[0]))


_SHORTER, _LONGER = 0.5, 5.0
"""Most searches for a flaky failure end between these multiples of the predicted runs. The prediction assumes that all
runs are equally informative. At rates from 0 and 0.3 to 0.2 and 1, of 16 and 64 commits, 80 % of the searches did."""


@dataclass(frozen=True)
class CulpritSearch(RangeState):
    """Searches a range whose ends differ, in rounds of those runs that tell most for their cost."""

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
        if (more := self._read_unread(posterior, known, context)) is not None:
            return more
        if (detour := self._detour(posterior, known, context)) is not None:
            return detour
        decision = self._decide(posterior, known, context)
        if search.loaded.unread and not isinstance(decision, Round | FoundCulprit):
            return read_on(search, self.enclosing, known)
        if isinstance(decision, OnlySkipped | Undecided):
            # As a last resort, run what other bisections could not build, and what the machine may have failed.
            posterior = search.posterior(known, context, last_resort=True)
            decision = self._decide(posterior, known, context)
        if _is_answer(decision) and (sure := self._restrict_to_sure(known)) is not None:
            return sure
        if isinstance(decision, Round):
            return Wait(self._round_needs(decision, posterior, known))
        if known.log.running:
            return _cancel_running(known)
        if search.unperturbed_search is not None:
            culprit = decision.culprit if isinstance(decision, FoundCulprit) else None
            return Enter(unperturbed_search(search, posterior, culprit=culprit), self.enclosing)
        return self._conclude(decision, posterior, known, context)

    def _read_unread(
        self, posterior: Posterior, known: BisectionKnowledge, context: Context
    ) -> Advance | None:
        """Return the step that reads more of a long range. Return None where what was read is enough.

        While the runs agree, the one stretch that is suspect is opened. Several workers need as many places to run, so
        stretches are cut for them. Runs that contradict each other concern all commits, and so does each answer that
        is not one culprit.
        """
        search = self.range_search
        loaded, certain = search.loaded, posterior.certain
        if not loaded.unread:
            return None
        if certain is None or loaded.unread_counts[[*posterior.skipped_commits]].any():
            return read_on(search, self.enclosing, known)
        suspects = np.flatnonzero(certain.suspects)
        longest = int(suspects[np.argmax(loaded.unread_counts[suspects])])
        unread = int(loaded.unread_counts[longest])
        is_alone = len(suspects) == 1 and unread
        may_divide = len(suspects) <= context.workers and is_long(unread + 1) and not known.log.running
        if not (is_alone or may_divide):
            return None
        return read_on(search, self.enclosing, known, stretch=loaded.candidates[longest])

    def _rerun_passing_end(self, known: BisectionKnowledge, *, is_answer: bool = False) -> Wait | None:
        """Return a wait for a further run of the passing end, if perhaps nothing can be judged any more.

        Return None otherwise. `is_answer` says that the next answer names untestable suspects. Raises `UserError` where
        it is proven that nothing can be judged.
        """
        if unjudged := unjudgeable_runs(known.log.ended):
            raise UserError(describe_unjudgeable(unjudged))
        if not should_recheck_end(known.log, is_answer=is_answer):
            return None
        passing = passing_end(self.range_search.loaded)
        return await_probe(
            known, WantedProbe(target=passing, phase=Phase.ENDPOINT, range=self.range_search.ordinal)
        )

    def _detour(self, posterior: Posterior, known: BisectionKnowledge, context: Context) -> Advance | None:
        """Return the step that the runs so far require before the next round. Return None where they require none."""
        search = self.range_search
        if (again := self._rerun_passing_end(known)) is not None:
            return again
        if posterior.certain is None and self._has_unsure_failures(known):
            sure = search.with_reading(Reading.SURE)
            if sure.posterior(known, context).certain is not None:
                return self._restrict_to_sure(known)
        if should_try_perturbations(search, known, posterior):
            return Wait(Needs()) if known.log.running else Move(PerturbationTrials(search, self.enclosing))
        if search.unperturbed_search is not None and posterior.certain is None and not known.log.running:
            # The failure is flaky under the perturbation too.
            return Enter(unperturbed_search(search, posterior), self.enclosing)
        return None

    def _has_unsure_failures(self, known: BisectionKnowledge) -> bool:
        """Return whether the search counts failures that may differ from the failing end's.

        They do not matter where a fix is sought, because its commit is the first that passes.
        """
        search = self.range_search
        matters = search.unperturbed_search is None and search.loaded.range.seeks is Seeks.REGRESSION
        return matters and any(map(is_unsure, search.log(known).ended))

    def _restrict_to_sure(self, known: BisectionKnowledge) -> Advance | None:
        """Go on with only the failures that are surely the failing end's. Return None where no others are counted.

        Where failures differ in nothing but exit codes, the end is run first, until its exit codes are known.
        """
        search = self.range_search
        if search.unperturbed_search is None and rerun_end(known, search.failing_target.content):
            return await_probe(known, search.make_probe(search.loaded.graph.bad, Phase.CONFIRM))
        if not self._has_unsure_failures(known):
            return None
        if known.log.running:
            return _cancel_running(known)
        return Enter(search.with_reading(Reading.SURE), self.enclosing, (_unsure_notice(known, search),))

    def _conclude(
        self, decision: Answer, posterior: Posterior, known: BisectionKnowledge, context: Context
    ) -> Advance:
        """Draw the conclusion from an answer, once nothing runs any more."""
        search, advice = self.range_search, None
        if isinstance(decision, OnlySkipped):
            if (again := self._rerun_passing_end(known, is_answer=True)) is not None:
                return again
            if wait := load_all(known, *cherry_pick_questions(search, known, decision.candidates)):
                return wait
            advice = untestable_stretch_advice(search, known, decision.candidates)
        nodes = search.loaded.commit_range.nodes
        culprit = decision.culprit if isinstance(decision, FoundCulprit) else None
        earlier = tuple(
            nodes[node].commit.sha
            for node in earlier_failures(search.evidence, search.log(known), culprit=culprit)
        )
        if isinstance(decision, FoundCulprit):
            if search.loaded.unread:
                undone = AskUndone(ordinal=search.ordinal, commit=nodes[decision.culprit].commit.sha)
                if wait := load_all(known, undone):
                    return wait
                if known.answer(undone):
                    return read_on(search, self.enclosing, known)
            return self._confirm(decision.culprit, posterior, earlier)
        conclusion = conclusion_without_culprit(
            search, decision, earlier, posterior=posterior, known=known, advice=advice
        )
        if wait := load_all(known, *patch_questions(known, conclusion.suspects)):
            return wait
        conclusion = add_patches(known, search.loaded, conclusion)
        return Move(FinalState(search, self._mix_readings(conclusion, known, context), self.enclosing))

    def _mix_readings(
        self, conclusion: Conclusion, known: BisectionKnowledge, context: Context
    ) -> Conclusion:
        """Return the conclusion with the chances of its suspects over all readings of unsure failures."""
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

    def _confirm(self, node: int, posterior: Posterior, earlier: tuple[str, ...]) -> Move:
        search = self.range_search
        named = named_commit(search.loaded, node, float(posterior.belief.commits[node]))
        under, notes = search.found_under, tuple[Notice, ...]()
        if under is not None and under.culprit == node:
            named = named.model_copy(update={"under": under.perturbation})
        elif under is not None and under.culprit is not None:
            shown = search.loaded.candidates[under.culprit]
            text = (
                f"{under.perturbation} shows another fault, since {shown[:12]}: without it, another commit is to "
                "blame"
            )
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
            costs=probe_costs(search.expected_gain(posterior, known, context), context.cost_sharers),
            windows=search.loaded.windows,
            # Other bisections may have a better use for workers. Before a stretch is read, little can be confirmed.
            ahead=context.cost_sharers is None and not search.loaded.unread,
        )

    def _round_needs(self, decision: Round, posterior: Posterior, known: BisectionKnowledge) -> Needs:
        phase = Phase.SEARCH if decision.confirming is None else Phase.CONFIRM
        return Needs(
            start=tuple(self.range_search.make_probe(node, phase) for node in decision.start),
            cancel=tuple(known.log.running[place].number for place in decision.cancel),
            notes=(_progress_note(decision, posterior, self.range_search),),
        )


def read_on(
    search: RangeSearch, enclosing: EnclosingRanges, known: BisectionKnowledge, *, stretch: str | None = None
) -> Advance:
    """Go on with more of a long range read: a stretch, by its last commit, or all commits."""
    if known.log.running:
        return _cancel_running(known)
    loaded = search.loaded
    question = AskRange(
        ordinal=search.ordinal,
        range=loaded.range,
        opened=() if stretch is None else (*loaded.opened, stretch),
        whole=stretch is None,
    )
    if wait := load_all(known, question):
        return wait
    more = known.answer(question)
    assert more is not None
    return Enter(search.replace_range(more), enclosing)


def _is_answer(decision: Round | Answer) -> bool:
    """Return whether a decision confirms or names a commit, or names commits that cannot be tested."""
    if isinstance(decision, Round):
        return decision.confirming is not None
    return isinstance(decision, FoundCulprit | OnlySkipped)


def _cancel_running(known: BisectionKnowledge) -> Wait:
    return Wait(Needs(cancel=tuple(probe.number for probe in known.log.running)))


def _unsure_notice(known: BisectionKnowledge, search: RangeSearch) -> Notice:
    """Return the notice that the search goes on with only the failures that are surely the failing end's."""
    unsure = next(probe for probe in search.log(known).ended if is_unsure(probe))
    at_end = run_of_end(known.log, search.failing_target.content)
    words, end_words = _differing_words(unsure, at_end, passing_symptoms(known.log))
    return Notice(
        f"run {unsure.number} fails with {words}, the failing end {search.failing_target.commit[:12]} with "
        f"{end_words}: they are the same failure with a probability of {percent(unsure.likeness)}; the search "
        "now counts only failures that are surely the end's"
    )


def _differing_words(
    unsure: FinishedProbe, at_end: FinishedProbe | None, passing: Collection[Symptoms]
) -> tuple[str, str]:
    """Return words for two failures that differ: their errors, values in these, or also their places in the source."""
    words = unsure.signature or "its own failure"
    if at_end is None or at_end.signature is None:
        return words, "its own failure"
    end_words = at_end.signature
    if words != end_words or unsure.symptoms is None or at_end.symptoms is None:
        return words, end_words
    values = unsure.symptoms.unusual_values(passing), at_end.symptoms.unusual_values(passing)
    for error in values[0].keys() & values[1].keys():
        if values[0][error] != values[1][error]:
            return f'"{values[0][error]}"', f'"{values[1][error]}"'
    only = [
        next((value for error, value in mine.items() if error not in others), "")
        for mine, others in (values, values[::-1])
    ]
    if all(only):
        return f'"{only[0]}"', f'"{only[1]}"'
    places = unsure.symptoms.places, at_end.symptoms.places
    if not all(places):
        return words, end_words
    return f"{words} at `{places[0][0]}`", f"{end_words} at `{places[1][0]}`"


def _progress_note(decision: Round, posterior: Posterior, search: RangeSearch) -> Note:
    if (node := decision.confirming) is not None:
        return ConfirmationProgress(
            commit=search.loaded.commit_range.nodes[node].commit.sha,
            confidence=float(posterior.belief.commits[node]),
            wanted=search.confidence,
            runs=_runs_to_come(decision.min_runs, least=1),
        )
    return SearchProgress(
        _suspect_count(posterior, search.loaded), decision.expected_steps, _runs_to_come(decision.min_runs)
    )


def _runs_to_come(steps: float | None, *, least: int | None = None) -> tuple[int, int] | None:
    """Return the least and the most runs after which most searches for a flaky failure end.

    `steps` is the predicted number. `least` replaces the least one.
    """
    if steps is None:
        return None
    return least or max(1, ceil(_SHORTER * steps)), max(1, ceil(_LONGER * steps))


def _suspect_count(posterior: Posterior, loaded: LoadedRange) -> int:
    """Return how many candidates are left, those that were not read included.

    These are the ones that may be to blame, as long as no two runs contradict each other. After that, they are the ones
    with at least a hundredth of the likeliest one's probability.
    """
    certain = posterior.certain
    if certain is not None:
        return loaded.count_candidates(certain.suspects)
    commits = posterior.belief.commits
    return loaded.count_candidates(commits >= commits.max() / 100)


_TRUST = 0.9
"""After its trial, a perturbation shows the searched fault with this chance. Else it shows another commit's fault."""
_HELP_CHANCE = 0.25
"""An untried perturbation is assumed to make a failure certain with this chance. Most do not help."""

_FALSE_POSITIVE_RATE = 0.05
"""The chance, at most, that a perturbation without effect passes its trial."""

_FAILURES_REQUIRED = (3, 8)
"""The least and the most failures of the bad end that a trial needs. The rate without a perturbation decides."""

_PASSES_REQUIRED = 2
"""The passes of the good end that a trial needs, because a perturbation may make every commit fail."""

_MIN_COMMIT_CHANCE = 0.5
"""The search under a perturbation is ignored where it gives all commits together a smaller chance to be to blame."""
_CONFIRMATION_RUNS = 3.0
"""Where the failure is certain, this many runs of the culprit and its parent confirm an answer."""


def should_try_perturbations(search: RangeSearch, known: BisectionKnowledge, posterior: Posterior) -> bool:
    """Return whether to try perturbations now.

    They are tried once, after runs have contradicted each other, if that pays. A trial that was begun before a resume
    goes on.
    """
    offered = known.question.perturbations
    may_try = bool(offered) and search.unperturbed_search is None and not search.perturbations_tried
    if not may_try or posterior.certain is not None:
        return False
    begun = any(known.log.probes_for(each.content(search.failing_target.content)) for each in offered)
    return begun or _is_worth_trying(search, known, posterior)


def _is_worth_trying(search: RangeSearch, known: BisectionKnowledge, posterior: Posterior) -> bool:
    """Return whether one more perturbation is expected to save more runs than its trial takes."""
    failures, runs = known.log.failures_where_bad()
    fail_rate = (failures + 0.5) / (runs + 1)
    runs_without, runs_to_halve = runs_expected(posterior, confidence=search.confidence)
    # Afterwards the culprit has to fail once without a perturbation, and its parent to pass until a failure would have
    # shown.
    doubt = (1 - _TRUST) / 2
    passes_of_parent = math.log(doubt / (1 - search.confidence)) / -math.log(1 - fail_rate)
    runs_under = runs_to_halve + _CONFIRMATION_RUNS + _failures_needed(known) + _PASSES_REQUIRED
    saved = runs_without - (runs_under + 1 / fail_rate + passes_of_parent)
    # A perturbation that does not help costs runs of the failing end until one passes.
    return _HELP_CHANCE * saved > 1 / (1 - fail_rate)


def _failures_needed(known: BisectionKnowledge) -> int:
    """Return how many failures in a row show that the bad end always fails under a perturbation.

    At its rate so far, it would have so many by chance with at most `_FALSE_POSITIVE_RATE`.
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
    """Runs both ends under one perturbation after another, until one makes the failure certain."""

    enclosing: EnclosingRanges

    @override
    def failing_end(self, known: BisectionKnowledge) -> Target | None:
        """Return None: a perturbation may change the size of an error."""
        return None

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        search = self.range_search
        running = known.log.running
        wanted: list[WantedProbe] = []
        for offered in known.question.perturbations:
            trial = _Trial(search.perturb(offered), known)
            if trial.is_passed:
                if running:
                    return _cancel_running(known)
                return Enter(trial.perturbed_search, self.enclosing, (Notice(trial.notice_text(offered)),))
            wanted += trial.probes_to_start()
            if len(wanted) + len(running) >= context.workers:
                break
        if wanted or running:
            return Wait(Needs(start=tuple(wanted[: max(0, context.workers - len(running))])))
        names = ", ".join(offered.name for offered in known.question.perturbations)
        notice = Notice(f"the failure is flaky under each perturbation that was tried, too: {names}")
        return Enter(search.end_perturbations(None), self.enclosing, (notice,))


@dataclass(frozen=True)
class _Trial:
    """The trial of one perturbation, by the runs of both ends under it."""

    perturbed_search: RangeSearch
    known: BisectionKnowledge

    @property
    def is_passed(self) -> bool:
        """Return whether the failure is certain under the perturbation."""
        return not self._is_failed and self._missing_runs == (0, 0)

    @property
    def _failing_runs(self) -> list[FinishedProbe]:
        """Return the runs of the failing end."""
        return self.known.log.probes_for(failing_end(self.perturbed_search.loaded).content)

    @property
    def _passing_runs(self) -> list[FinishedProbe]:
        """Return the runs of the passing end."""
        return self.known.log.probes_for(passing_end(self.perturbed_search.loaded).content)

    @property
    def _is_failed(self) -> bool:
        """Return whether a run of the passing end failed, or one of the failing end did not fail as unperturbed."""
        assert self.perturbed_search.unperturbed_search is not None
        unperturbed_failures = {
            (probe.verdict, probe.signature)
            for probe in self.known.log.probes_for(
                self.perturbed_search.unperturbed_search.failing_target.content
            )
            if probe.judgement is Judgement.BAD
        }
        return any(
            probe.judgement is not Judgement.BAD
            or (probe.verdict, probe.signature) not in unperturbed_failures
            for probe in self._failing_runs
        ) or any(probe.judgement is not Judgement.GOOD for probe in self._passing_runs)

    @property
    def _missing_runs(self) -> tuple[int, int]:
        """Return how many more runs of the failing and of the passing end the trial takes, if it does not fail."""
        return (
            max(0, _failures_needed(self.known) - len(self._failing_runs)),
            max(0, _PASSES_REQUIRED - len(self._passing_runs)),
        )

    def probes_to_start(self) -> list[WantedProbe]:
        """Return the runs that are still to be started, those of the failing end first."""
        if self._is_failed:
            return []
        loaded = self.perturbed_search.loaded
        nodes = (loaded.graph.bad, GOOD_END)
        if loaded.range.seeks is Seeks.FIX:
            nodes = nodes[::-1]
        running = [probe.wanted.target.content for probe in self.known.log.running]
        ends = zip(nodes, (failing_end(loaded), passing_end(loaded)), self._missing_runs, strict=True)
        return [
            self.perturbed_search.make_probe(node, Phase.PERTURBED)
            for node, end, missing in ends
            for _ in range(missing - running.count(end.content))
        ]

    def notice_text(self, offered: OfferedPerturbation) -> str:
        """Return the notice that the range is searched under the perturbation."""
        bad, good = (
            failing_end(self.perturbed_search.loaded).commit[:12],
            passing_end(self.perturbed_search.loaded).commit[:12],
        )
        return (
            f"the failure is flaky, but under {offered.name} ({offered.description}) bad {bad} failed in all "
            f"{plural(len(self._failing_runs), 'run')} and good {good} in none of {len(self._passing_runs)}: the range "
            "is searched under it, and what it names is confirmed without it"
        )


def unperturbed_search(
    under: RangeSearch, posterior: Posterior, *, culprit: int | None = None
) -> RangeSearch:
    """Return the search of the range without a perturbation, which begins from the answer under one.

    `posterior` is that of the search under the perturbation, and `culprit` the candidate that it named.
    """
    assert under.unperturbed_search is not None
    chances, size = posterior.belief.commits, len(posterior.graph)
    total = float(chances.sum())
    if total < _MIN_COMMIT_CHANCE:
        return under.unperturbed_search.end_perturbations(None)
    # The perturbation may show another commit's fault, so each candidate keeps a share.
    prior = Prior(_TRUST * chances / total + (1 - _TRUST) / size, others=1 - _TRUST)
    name = under.loaded.range.held[PERTURBATION_KEY]
    return under.unperturbed_search.end_perturbations(
        PerturbedAnswer(perturbation=name, prior=prior, culprit=culprit)
    )
