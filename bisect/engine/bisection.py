"""The bisection itself, and its states until a search begins.

`Bisection` is a value. It takes one event after another, and `next` moves through the states until one waits or ends.

`GoodEndSearch` looks for a good end where nobody named one. `RangeOpening` reads the commits, and `StartWait` lets
other bisections go first. `DataFreeze` freezes the golden data that all probes share. `EndMeasurement` runs both ends
until each has once shown what it stands for.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn, TypeAlias

from typing_extensions import override

from ...runner.errors import EndsError
from ...store.vocabulary import BisectionOutcome, Judgement, Phase, Seeks, plural
from ..history.questions import (
    AskFirstParents,
    AskRange,
    AskTarget,
    FirstParents,
    HistoryAnswer,
    HistoryQuestion,
)
from ..history.range import Target
from ..search.belief import Observation, Outcome
from ..search.decision import is_worth_waiting
from ..search.graph import CommitGraph
from ..search.halving import GallopTo, NothingPasses, Passes, gallop
from ..search.hypotheses import GOOD_END
from ..search.posterior import Posterior
from .answer import (
    Advance,
    BisectionState,
    Conclusion,
    CulpritState,
    EnclosingRanges,
    Enter,
    FinalState,
    Move,
    UnmeasuredRangeState,
    Wait,
    add_failures,
    await_probe,
    budget_conclusion,
    load_all,
)
from .failures import (
    EndFailure,
    ErrorScale,
    end_failure,
    end_may_be_disturbed,
    judge_by_likeness,
    judge_target,
    judged_runs,
    never_shown_error,
    require_judged,
    require_pass,
    require_test,
)
from .range_search import Context, ExpectedGain, RangeSearch
from .runs import (
    BisectionKnowledge,
    BisectionQuestion,
    FinishedProbe,
    GivenData,
    GoodEnd,
    Needs,
    Note,
    Notice,
    ProbeLog,
    RangeEvidence,
    RunningProbe,
    SavedData,
    WantedProbe,
    failing_end,
    new_end,
    old_end,
    passing_end,
)
from .search import CulpritSearch, PerturbationTrials, unperturbed_search


@dataclass(frozen=True)
class ProbeStarted:
    """A probe was started."""

    probe: RunningProbe


@dataclass(frozen=True)
class ProbeFinished:
    """A probe is finished."""

    probe: FinishedProbe


@dataclass(frozen=True)
class ProbesCancelled:
    """Probes were stopped. They never count."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class QuestionAnswered:
    """A question to a repository's history was answered."""

    question: HistoryQuestion
    answer: HistoryAnswer


@dataclass(frozen=True)
class DataFrozen:
    """The golden data were frozen."""


BisectionEvent: TypeAlias = ProbeStarted | ProbeFinished | ProbesCancelled | QuestionAnswered | DataFrozen


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """A bisection at one moment. Each event, and each call of `next`, makes another one."""

    known: BisectionKnowledge
    state: BisectionState
    broken: frozenset[str] = frozenset()
    """The places whose runs all end the same, whatever commit runs there."""
    announced_places: frozenset[str] = frozenset()
    """The broken places that a notice has named. By later runs, some of them may no longer count as broken."""

    @classmethod
    def start(
        cls, question: BisectionQuestion, *, log: ProbeLog | None = None, frozen: bool = False
    ) -> "Bisection":
        """Return a bisection with the finished probes of `log`. `frozen` says that its data are frozen."""
        known = BisectionKnowledge(question=question, log=log or ProbeLog(), frozen=frozen)
        state = GoodEndSearch() if question.gallop else RangeOpening()
        return cls(known=known, state=state)

    def apply_event(self, event: BisectionEvent) -> "Bisection":
        """Return the bisection after an event."""
        known = self.known
        match event:
            case ProbeStarted(probe=probe):
                known = replace(known, log=known.log.with_started(probe))
            case ProbeFinished(probe=finished):
                known = replace(known, log=known.log.with_finished(finished))
            case ProbesCancelled(numbers=numbers):
                known = replace(known, log=known.log.with_cancelled(numbers))
            case QuestionAnswered(question=question, answer=answer):
                known = known.with_answer(question, answer)
            case DataFrozen():
                known = replace(known, frozen=True)
        return replace(self, known=known)

    @cached_property
    def _judged_knowledge(self) -> BisectionKnowledge:
        """Return what is known, with each failure of a command judged by its likeness to the failing end's."""
        return judge_by_likeness(self.known)

    def next(self, context: Context) -> "tuple[Bisection, Needs | Conclusion]":
        """Return what is needed now, or the conclusion, with the bisection in the state that says so.

        Raises `EndsError` where the ends do not differ, and `UserError` where an end cannot be judged.
        """
        state, notes = self.state, tuple[Note, ...]()
        while True:
            match state.advance(self._judged_knowledge, context):
                case Move(state=state, notes=more):
                    notes += more
                case Enter(search=search, enclosing=enclosing, notes=more):
                    state, notes = CulpritSearch(search, enclosing), notes + more
                case Conclusion() as conclusion:
                    places = tuple(sorted(self.broken))
                    return replace(self, state=state), conclusion.model_copy(update={"broken_places": places})
                case Wait(needs=needs):
                    return self._wait(state, needs, notes, context)

    def _wait(
        self, state: BisectionState, needs: Needs, notes: tuple[Note, ...], context: Context
    ) -> "tuple[Bisection, Needs]":
        """Return the bisection in a state that waits, with needs that avoid broken places."""
        broken = self._broken_places(state, context)
        notices = [
            _broken_place_notice(self.known.log, place) for place in sorted(broken - self.announced_places)
        ]
        start = tuple(replace(wanted, avoid=wanted.avoid | broken) for wanted in needs.start)
        return (
            replace(self, state=state, broken=broken, announced_places=self.announced_places | broken),
            replace(needs, start=start, notes=(*notes, *notices, *needs.notes)),
        )

    def _broken_places(self, state: BisectionState, context: Context) -> frozenset[str]:
        return state.search.posterior(self._judged_knowledge, context).broken if state.search else self.broken

    def expected_gain(self, context: Context) -> ExpectedGain | None:
        """Return the gain of a further probe. Return None where the bisection goes on at once, before all others."""
        return self.state.expected_gain(self._judged_knowledge, context)

    def conclude_on_budget(self, why: str, context: Context) -> Conclusion:
        """Return the conclusion where no probe may start any more. `why` says so."""
        search, known = self.state.search, self._judged_knowledge
        if search is None:
            return Conclusion(outcome=BisectionOutcome.BUDGET, message=why)
        if search.unperturbed_search is not None:
            search = unperturbed_search(search, search.posterior(known, context))
        posterior = search.posterior(known, context)
        conclusion = budget_conclusion(search.loaded, posterior, confidence=search.confidence, why=why)
        if (enclosing := _enclosing_ranges(self.state)) is not None:
            conclusion = enclosing.complete(conclusion)
        places = tuple(sorted(self.broken))
        return add_failures(conclusion, search, known).model_copy(update={"broken_places": places})

    def end_failure(self) -> tuple[EndFailure, str] | None:
        """Return what the failing end of a command shows, and that end's content.

        Return None before the end was seen to fail, or where its failure does not decide.
        """
        end = self.state.failing_end(self.known)
        if end is None or not self.known.question.compares_failures:
            return None
        failure = end_failure(self.known.log, end.content)
        return None if failure is None else (failure, end.content)

    def _failures_of(self, end: Target) -> list[FinishedProbe]:
        """Return the failures of an end in its runs as an end, perturbed or not."""
        return [
            probe
            for probe in self.known.log.probes_for(end.content)
            if probe.phase in (Phase.ENDPOINT, Phase.PERTURBED) and probe.judgement is Judgement.BAD
        ]

    def error_scale(self) -> tuple[ErrorScale, str] | None:
        """Return the size of the failing end's errors, and that end's content.

        Return None before the end was measured, or where errors have no size.
        """
        end = self.state.failing_end(self.known)
        if end is None or not self.known.question.mismatch:
            return None
        scale = ErrorScale.from_runs([probe.metrics for probe in self._failures_of(end)])
        return None if scale is None else (scale, end.content)


def _enclosing_ranges(state: BisectionState) -> EnclosingRanges | None:
    """Return the ranges around the searched one. Return None before its ends are measured."""
    match state:
        case CulpritState(culprit=culprit):
            return culprit.enclosing
        case CulpritSearch() | PerturbationTrials() | FinalState():
            return state.enclosing
        case _:
            return None


def _broken_place_notice(log: ProbeLog, place: str) -> Notice:
    judged = [probe.judgement for probe in log.ended if probe.place == place]
    failures, passes = judged.count(Judgement.BAD), judged.count(Judgement.GOOD)
    return Notice(
        f"{place} is likely broken: {failures} of {plural(failures + passes, 'run')} failed there, whatever the "
        "commit; they count for nothing, and as long as there is another place no more are made there"
    )


_OUTCOMES: Mapping[Judgement, Outcome] = {
    Judgement.GOOD: Outcome.GOOD,
    Judgement.BAD: Outcome.BAD,
    Judgement.SKIP: Outcome.SKIP,
}


@dataclass(frozen=True)
class GoodEndSearch(BisectionState):
    """A good end that nobody named is looked for along the first parents of the bad end.

    The 1st, 2nd, 4th, ... of them is run, until one passes.
    """

    @override
    def failing_end(self, known: BisectionKnowledge) -> Target | None:
        question = self._target_question(known, known.question.range.new)
        bad = known.answer(question) if known.has_answer(question) else None
        return bad if bad is not None and known.log.tally(bad.content)[Judgement.BAD] else None

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        search_range = known.question.range
        line_question = AskFirstParents(repository=search_range.repository, commit=search_range.new)
        bad_question = self._target_question(known, search_range.new)
        if wait := load_all(known, line_question, bad_question):
            return wait
        if wait := await_frozen_data(known, None, ordinal=1):
            return wait
        bad = known.answer(bad_question)
        if bad is None:
            raise EndsError(
                f"bad {search_range.new[:12]}: expected a commit that can be built, found one that pins nothing"
            )
        require_test(known.log.probes_for(bad.content), "bad", bad)
        if not known.log.tally(bad.content)[Judgement.BAD]:
            _require_worth_waiting(known, bad)
            return self._run(known, bad)
        return self._gallop(known, known.answer(line_question), bad)

    def _gallop(self, known: BisectionKnowledge, line: FirstParents, bad: Target) -> Advance:
        """Go back from one commit to the next, as far as their outcomes are known."""
        outcomes: dict[int, Outcome] = {}
        while True:
            step = gallop(len(line.commits), outcomes)
            match step:
                case NothingPasses():
                    raise EndsError(_no_pass_message(line))
                case Passes(commit=place):
                    return _open_from_good_end(line, place)
                case GallopTo(commit=place):
                    outcome = self._test(known, line.commits[place], bad)
                    if isinstance(outcome, Wait):
                        return outcome
                    outcomes[place] = outcome

    def _test(self, known: BisectionKnowledge, commit: str, bad: Target) -> Outcome | Wait:
        """Return the outcome of a commit, or a wait until it is known."""
        question = self._target_question(known, commit)
        if wait := load_all(known, question):
            return wait
        target = known.answer(question)
        if target is None:
            return Outcome.SKIP
        passes = known.log.tally(target.content)[Judgement.GOOD] > 0
        if passes and (wait := await_frozen_data(known, target, ordinal=1)):
            text = f"the data are frozen as {commit[:12]} had them; the runs before its own made data of their own"
            return Wait(Needs(start=wait.needs.start, freeze=wait.needs.freeze, notes=(Notice(text),)))
        # Where the failure is flaky, one pass proves nothing.
        judgement = judge_target(known.log, target)
        return self._run(known, target) if judgement is None else _OUTCOMES[judgement]

    def _run(self, known: BisectionKnowledge, target: Target) -> Wait:
        saves = not known.frozen and known.question.golden == "captured"
        wanted = WantedProbe(target=target, phase=Phase.ENDPOINT, range=1, save_golden=saves)
        return await_probe(known, wanted)

    def _target_question(self, known: BisectionKnowledge, commit: str) -> AskTarget:
        search_range = known.question.range
        return AskTarget(repository=search_range.repository, commit=commit, held=search_range.held)


def _require_worth_waiting(known: BisectionKnowledge, bad: Target) -> None:
    """Raise `EndsError` where one more run is not worth it of a bad end that never failed.

    The posterior of a range that holds only this commit decides. Raises `UserError` where the end cannot be judged.
    """
    require_judged(known.log.probes_for(bad.content), bad, by_command=known.question.has_command)
    probes = judged_runs(known.log, bad)
    passes = [Observation(GOOD_END, Outcome.GOOD), *[Observation(0, Outcome.GOOD)] * len(probes)]
    posterior = Posterior.start(CommitGraph([[]]), known.question.rates, observations=passes)
    confidence = known.question.confidence
    if probes and not is_worth_waiting(posterior, bad=True, for_failure=True, confidence=confidence):
        raise never_shown_error(bad, Judgement.BAD, len(probes))


def _open_from_good_end(line: FirstParents, place: int) -> Move:
    commit = line.commits[place]
    text = f"good end: {commit[:12]} passes, {plural(place, 'commit')} before the bad one"
    return Move(RangeOpening(good=commit), (GoodEnd(commit), Notice(text)))


def _no_pass_message(line: FirstParents) -> str:
    end, advice = (
        (
            "the root",
            "it may never have passed; name a commit of another branch with --good, or check the case",
        )
        if line.is_whole
        else (
            "the end of a shallow clone,",
            "ask again after git fetch --deepen=200, or --unshallow, in the checkout",
        )
    )
    return (
        f"expected a pass of the case somewhere before bad {line.commits[0][:12]}, found none back to {end} "
        f"{line.commits[-1][:12]} ({plural(len(line.commits) - 1, 'commit')} along first parents, "
        f"1, 2, 4, ... of them run): {advice}"
    )


_SWAPPED_END_RUNS = 2
"""Ends count as swapped after this many runs of each showed the opposite. After one run of each, chance would swap 4 %
of ranges whose rates are 0.2 and 0.8."""
_DISTURBED_END_RUNS = 2
"""A failing end gets this many judged runs where it may not have got as far as its check. A flaky disturbance seldom
shows twice."""
_MAX_RUNS_IN_ONE_PLACE = 8
"""After this many runs of an end in one place, there is no other place, and none is requested any more."""


@dataclass(frozen=True, kw_only=True)
class RangeOpening(BisectionState):
    """The commits between the ends are read."""

    good: str | None = None
    """The good end that the bisection found. None where the question names one."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        search_range = (
            known.question.range if self.good is None else replace(known.question.range, old=self.good)
        )
        question = AskRange(ordinal=1, range=search_range)
        if wait := load_all(known, question):
            return wait
        loaded = known.answer(question)
        if loaded is None:
            raise EndsError(
                f"{search_range.old[:12]}..{search_range.new[:12]}: expected a commit that can change the result, "
                "found only changes in ignored paths (repositories.*.ignore in the stack file), or none of --path"
            )
        search = RangeSearch(
            ordinal=1,
            loaded=loaded,
            evidence=RangeEvidence.from_range(loaded),
            confidence=known.question.confidence,
            case=known.question.case,
        )
        return Move(StartWait(search))


@dataclass(frozen=True)
class StartWait(UnmeasuredRangeState):
    """The bisection waits here while the probes of others have a higher expected gain."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        return Move(DataFreeze(self.range_search))

    @override
    def expected_gain(self, known: BisectionKnowledge, context: Context) -> ExpectedGain:
        loaded = self.range_search.loaded
        ends = (old_end(loaded), new_end(loaded))
        missing = sum(not known.log.probes_for(end.content) for end in ends)
        posterior = self.range_search.posterior(known, context)
        return self.range_search.expected_gain(posterior, known, context, before=missing)


@dataclass(frozen=True)
class DataFreeze(UnmeasuredRangeState):
    """The golden data are frozen: those that the user named, or those that the good end makes."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        wait = await_frozen_data(
            known, passing_end(self.range_search.loaded), ordinal=self.range_search.ordinal
        )
        return wait or Move(EndMeasurement(range_search=self.range_search, before=len(known.log.ended)))


def await_frozen_data(known: BisectionKnowledge, good: Target | None, *, ordinal: int) -> Wait | None:
    """Return a wait until the data are frozen. Return None once they are, and where there are none.

    Return None also where the good end has to make them and is not known yet. Raises `UserError` where the good end
    does not pass.
    """
    source = known.question.golden
    if known.frozen or source == "none":
        return None
    if source == "given":
        return Wait(Needs(freeze=GivenData()))
    if good is None:
        return None
    if known.log.is_running(good.content):
        return Wait(Needs())
    require_pass(known.log.probes_for(good.content), good, by_command=known.question.has_command)
    probes = judged_runs(known.log, good)
    if not probes:
        saving = WantedProbe(target=good, phase=Phase.ENDPOINT, range=ordinal, save_golden=True)
        return Wait(Needs(start=(saving,)))
    return Wait(Needs(freeze=SavedData(probe=probes[0].number, commit=good.commit)))


@dataclass(frozen=True, kw_only=True)
class EndMeasurement(UnmeasuredRangeState):
    """Each end is run until it has once shown what it stands for, or until more runs are not worth it.

    A flaky failure is awaited longer than a flaky pass. Further runs of an end are chosen by the search.
    """

    before: int
    """The number of probes that had ended when the state began."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        loaded = self.range_search.loaded
        good, bad = passing_end(loaded), failing_end(loaded)
        self._require_judged(known, good, bad)
        shown = (
            known.log.tally(good.content)[Judgement.GOOD] > 0,
            known.log.tally(bad.content)[Judgement.BAD] > 0,
        )
        in_flight = self.range_search.nodes_in_flight(known)
        one_place = self._ends_in_one_place(known, shown, workers=context.workers)
        if not all(shown) and not in_flight and not one_place and self._should_give_up(known, context, shown):
            self._give_up(known)
        wanted = self._ends_to_start(known, shown, in_flight, {*one_place}, workers=context.workers)
        if wanted or in_flight:
            start = [self.range_search.make_probe(node, Phase.ENDPOINT) for node in wanted]
            avoided = [replace(each, avoid=one_place.get(each.target.content, frozenset())) for each in start]
            return Wait(Needs(start=tuple(avoided)))
        return Enter(self.range_search, EnclosingRanges(good=good, bad=bad))

    def _require_judged(self, known: BisectionKnowledge, good: Target, bad: Target) -> None:
        # A resume does not fail because of an end that once could not be judged.
        fresh = {probe.number for probe in known.log.ended[self.before :]}
        for end in (good, bad):
            probes = known.log.probes_for(end.content)
            counted = [probe for place, probe in enumerate(probes) if place == 0 or probe.number in fresh]
            require = require_pass if end is good else require_judged
            require(counted, end, by_command=known.question.has_command)

    def _ends_in_one_place(
        self, known: BisectionKnowledge, shown: tuple[bool, bool], *, workers: int
    ) -> dict[str, frozenset[str]]:
        """Return the one place of each end whose place alone may explain its runs, by the end's content.

        Such an end has several runs, has not shown what it stands for, and may be run in another place.
        """
        if workers == 1:
            return {}
        loaded, found = self.range_search.loaded, dict[str, frozenset[str]]()
        for end, was_shown in zip((passing_end(loaded), failing_end(loaded)), shown, strict=True):
            probes = known.log.probes_for(end.content)
            places = frozenset(probe.place for probe in probes if probe.place is not None)
            is_limited = len(places) == 1 and 1 < len(probes) <= _MAX_RUNS_IN_ONE_PLACE
            if is_limited and not was_shown:
                found[end.content] = places
        return found

    def _ends_to_start(
        self,
        known: BisectionKnowledge,
        shown: tuple[bool, bool],
        in_flight: list[int],
        in_one_place: Set[str],
        *,
        workers: int,
    ) -> list[int]:
        """Return the ends to start now, those with the fewest runs first.

        An end that has shown what it stands for is run once. While neither end has, each is run until it is clear that
        they are swapped. An end that is `in_one_place` is run longer.
        """
        loaded = self.range_search.loaded
        node_of = {old_end(loaded).content: GOOD_END, new_end(loaded).content: loaded.graph.bad}
        good, bad = passing_end(loaded), failing_end(loaded)
        started: dict[int, int] = {}
        unshown: set[int] = set()
        for end, was_shown in ((good, shown[0]), (bad, shown[1])):
            node = node_of[end.content]
            started[node] = len(judged_runs(known.log, end)) + in_flight.count(node)
            may_show = any(shown) or started[node] < _SWAPPED_END_RUNS or end.content in in_one_place
            if not was_shown and may_show:
                unshown.add(node)
        least = dict.fromkeys(started, 1)
        if known.question.compares_failures and end_may_be_disturbed(known.log, bad.content):
            least[node_of[bad.content]] = _DISTURBED_END_RUNS
        wanted: list[int] = []
        while len(wanted) + len(in_flight) < workers:
            open_to = [
                node
                for node in started
                if started[node] < least[node] or (node in unshown and node not in (*in_flight, *wanted))
            ]
            if not open_to:
                break
            node = min(open_to, key=lambda node: started[node])
            wanted.append(node)
            started[node] += 1
        return wanted

    def _should_give_up(self, known: BisectionKnowledge, context: Context, shown: tuple[bool, bool]) -> bool:
        """Return whether to stop running an end that has not shown what it stands for."""
        loaded = self.range_search.loaded
        runs = [len(judged_runs(known.log, end)) for end in (old_end(loaded), new_end(loaded))]
        if min(runs) == 0:
            return False
        if not any(shown):
            return min(runs) >= _SWAPPED_END_RUNS
        posterior = self.range_search.posterior(known, context)
        _, new_was_shown = shown if loaded.range.seeks is Seeks.REGRESSION else shown[::-1]
        return not is_worth_waiting(
            posterior,
            bad=not new_was_shown,
            for_failure=shown[0],
            confidence=self.range_search.confidence,
        )

    def _give_up(self, known: BisectionKnowledge) -> NoReturn:
        """Raise `EndsError`: by their runs, the ends do not differ, or are swapped."""
        loaded, log = self.range_search.loaded, known.log
        good, bad = passing_end(loaded), failing_end(loaded)
        good_tally, bad_tally = log.tally(good.content), log.tally(bad.content)
        if good_tally[Judgement.GOOD]:
            raise never_shown_error(bad, Judgement.BAD, bad_tally[Judgement.GOOD])
        if bad_tally[Judgement.BAD]:
            raise never_shown_error(good, Judgement.GOOD, good_tally[Judgement.BAD])
        raise _swapped_ends_error(self.range_search)


def _swapped_ends_error(search: RangeSearch) -> EndsError:
    loaded = search.loaded
    old, new = old_end(loaded).commit[:12], new_end(loaded).commit[:12]
    good, bad = passing_end(loaded).commit[:12], failing_end(loaded).commit[:12]
    ends = f"good {good} fails and bad {bad} passes"
    if loaded.range.seeks is Seeks.REGRESSION:
        return EndsError(f"{ends}: did you mean --find-fix, with --bad {old} --good {new}?")
    return EndsError(f"{ends}: did you mean --good {old} --bad {new}, without --find-fix?")
