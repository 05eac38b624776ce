"""The bisection itself, and its states until a search begins.

`Bisection` is a value. It takes one event after another, and `next` moves through the states until one waits or ends.

The first states follow it. `GoodEndSearch` looks for a good end that nobody named: it goes back from the bad end along
first parents, 1, 2, 4, ... commits at a time, until the case passes. `RangeOpening` reads the commits, and `StartWait`
lets other bisections go first. `DataFreeze` freezes the golden data that all probes share: those that were named, or
those that the good end made. `EndMeasurement` runs both ends until each has once shown what it stands for. More runs
of an end are the search's choice, as of any commit."""

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
from ..search.decision import worth_waiting
from ..search.graph import CommitGraph
from ..search.halving import GallopTo, NothingPasses, Passes, gallop
from ..search.hypotheses import GOOD_END
from ..search.posterior import Posterior
from .answer import (
    Advance,
    BisectionState,
    Conclusion,
    EnclosingRanges,
    Enter,
    Finish,
    Move,
    UnmeasuredRangeState,
    Wait,
    await_probe,
    budget_conclusion,
    load_all,
)
from .failures import (
    EndFailure,
    ErrorScale,
    end_failure,
    end_may_be_disturbed,
    judge_failures,
    judge_target,
    judged_runs,
    never_shown_error,
    require_judged,
    require_pass,
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
from .search import CulpritSearch, unperturbed_search


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
    """A bisection, as far as it has come. `start` makes the first one. Each event, and each call of `next`, makes
    another."""

    known: BisectionKnowledge
    state: BisectionState
    broken: frozenset[str] = frozenset()
    """The places whose runs end alike, whatever commit runs there."""
    announced: frozenset[str] = frozenset()
    """The broken places that a notice has named. Later runs may have acquitted some of them since."""

    @classmethod
    def start(
        cls, question: BisectionQuestion, *, log: ProbeLog | None = None, frozen: bool = False
    ) -> "Bisection":
        """Return a new bisection, or one that goes on. `log` holds its finished probes, and `frozen` says whether its
        data are frozen."""
        known = BisectionKnowledge(question=question, log=log or ProbeLog(), frozen=frozen)
        state = GoodEndSearch() if question.gallop else RangeOpening()
        return cls(known=known, state=state)

    def apply_event(self, happened: BisectionEvent) -> "Bisection":
        """Return the bisection that knows of this event too."""
        known = self.known
        match happened:
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
        """Return what is known, with a command's failures judged by those of its failing end."""
        return judge_failures(self.known)

    def next(self, context: Context) -> "tuple[Bisection, Needs | Conclusion]":
        """Return what is needed now, or the conclusion, with the bisection in the state that says so.

        Raises `EndsError` where the ends do not differ, `UserError` where an end cannot be judged.
        """
        state, notes, known = self.state, tuple[Note, ...](), self._judged_knowledge
        while True:
            advance = state.advance(known, context)
            if isinstance(advance, Move):
                state, notes = advance.state, (*notes, *advance.notes)
                continue
            if isinstance(advance, Enter):
                state, notes = CulpritSearch(advance.search, advance.enclosing), (*notes, *advance.notes)
                continue
            if isinstance(advance, Finish):
                places = tuple(sorted(self.broken))
                return replace(self, state=state), advance.conclusion.model_copy(
                    update={"broken_places": places}
                )
            broken = self._broken_places(state, context)
            told = tuple(
                _broken_place_notice(self.known.log, place) for place in sorted(broken - self.announced)
            )
            here = replace(self, state=state, broken=broken, announced=self.announced | broken)
            start = tuple(replace(wanted, avoid=wanted.avoid | broken) for wanted in advance.needs.start)
            return here, replace(advance.needs, start=start, notes=(*notes, *told, *advance.needs.notes))

    def _broken_places(self, state: BisectionState, context: Context) -> frozenset[str]:
        """Return the places whose runs end alike, whatever commit runs there."""
        return state.search.posterior(self._judged_knowledge, context).broken if state.search else self.broken

    def expected_gain(self, context: Context) -> ExpectedGain | None:
        """Return what a further probe promises. Return None where the bisection goes on at once, whatever others
        promise."""
        return self.state.expected_gain(self._judged_knowledge, context)

    def conclude_on_budget(self, why: str, context: Context) -> Conclusion:
        """Return the conclusion from what is known, where no probe may start any more."""
        search, known = self.state.search, self._judged_knowledge
        if search is None:
            return Conclusion(outcome=BisectionOutcome.BUDGET, message=why)
        if search.unperturbed is not None:
            search = unperturbed_search(search, search.posterior(known, context))
        posterior = search.posterior(known, context)
        return budget_conclusion(search.loaded, posterior, confidence=search.confidence, why=why)

    def end_failure(self) -> tuple[EndFailure, str] | None:
        """Return what the failing end of a command shows, and that end's content.

        Return None before the end was seen to fail, or where its failure does not decide.
        """
        end = self.state.failing_end(self.known)
        if end is None or not self.known.question.by_likeness:
            return None
        failure = end_failure(self.known.log, end.content)
        return None if failure is None else (failure, end.content)

    def _failures_of(self, end: Target) -> list[FinishedProbe]:
        """Return the failures of an end from the runs that measured it as an end, perturbed or not."""
        return [
            probe
            for probe in self.known.log.probes_for(end.content)
            if probe.phase in (Phase.ENDPOINT, Phase.PERTURBED) and probe.judgement is Judgement.BAD
        ]

    def error_scale(self) -> tuple[ErrorScale, str] | None:
        """Return the size of the failing end's errors, and that end's content. The size tells other failures from the
        end's.

        Return None before the end was measured, or where errors have no size.
        """
        end = self.state.failing_end(self.known)
        if end is None or not self.known.question.mismatch:
            return None
        scale = ErrorScale.from_runs([probe.metrics for probe in self._failures_of(end)])
        return None if scale is None else (scale, end.content)


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
    """Nobody named a good end. It is looked for along the first parents of the bad one."""

    @override
    def failing_end(self, known: BisectionKnowledge) -> Target | None:
        asked = self._target_question(known, known.question.range.new)
        bad = known.answer(asked) if known.has_answer(asked) else None
        return bad if bad is not None and known.log.tally(bad.content)[Judgement.BAD] else None

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        question = known.question
        line_asked = AskFirstParents(repository=question.range.repository, commit=question.range.new)
        bad_asked = self._target_question(known, question.range.new)
        if wait := load_all(known, line_asked, bad_asked):
            return wait
        if wait := await_frozen_data(known, None, ordinal=1):
            return wait
        bad = known.answer(bad_asked)
        if bad is None:
            raise EndsError(
                f"bad {question.range.new[:12]}: expected a commit that can be built, found one that pins nothing"
            )
        if not known.log.tally(bad.content)[Judgement.BAD]:
            _require_worth_waiting(known, bad)
            return self._run(known, bad)
        return self._gallop(known, known.answer(line_asked), bad)

    def _gallop(self, known: BisectionKnowledge, line: FirstParents, bad: Target) -> Advance:
        """Test one commit after another, as far as their outcomes are known."""
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
        """Return the outcome of a commit, or what has to happen before it is known."""
        asked = self._target_question(known, commit)
        if wait := load_all(known, asked):
            return wait
        target = known.answer(asked)
        if target is None:
            return Outcome.SKIP
        tally = known.log.tally(target.content)
        if not tally:
            return self._run(known, target)
        if not tally[Judgement.GOOD]:
            judgement = judge_target(known.log, target)
            return self._run(known, target) if judgement is None else _OUTCOMES[judgement]
        if wait := await_frozen_data(known, target, ordinal=1):
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
        where = known.question.range
        return AskTarget(repository=where.repository, commit=commit, held=where.held)


def _require_worth_waiting(known: BisectionKnowledge, bad: Target) -> None:
    """Raise `EndsError` where one more run of a bad end that never failed is not worth it.

    The posterior of a range that holds only this commit decides.
    """
    require_judged(known.log.probes_for(bad.content), bad, by_command=known.question.by_command)
    probes = judged_runs(known.log, bad)
    passes = [Observation(GOOD_END, Outcome.GOOD), *[Observation(0, Outcome.GOOD)] * len(probes)]
    posterior = Posterior.start(CommitGraph([[]]), known.question.rates, observations=passes)
    if probes and not worth_waiting(posterior, bad=True, for_failure=True):
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
"""Ends are taken for swapped after this many runs of each showed the opposite. After one run of each, 4 % of ranges
whose rates are 0.2 and 0.8 would be taken for swapped."""
_DISTURBED_END_RUNS = 2
"""A disturbed end gets this many judged runs: it may not have got as far as its check. A disturbance that is flaky
shows once in most searches, and twice in few."""
_MAX_RUNS_IN_ONE_PLACE = 8
"""After this many runs of an end in one place, no other place is requested any more: there is none."""


@dataclass(frozen=True, kw_only=True)
class RangeOpening(BisectionState):
    """The commits between the ends are read."""

    good: str | None = None
    """The good end, where the bisection had to look for it."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        where = known.question.range if self.good is None else replace(known.question.range, old=self.good)
        asked = AskRange(ordinal=1, range=where)
        if wait := load_all(known, asked):
            return wait
        loaded = known.answer(asked)
        if loaded is None:
            raise EndsError(
                f"{where.old[:12]}..{where.new[:12]}: expected a commit that can change the result, "
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
    """Other bisections whose probes promise more go first."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        return Move(DataFreeze(self.range_search))

    @override
    def expected_gain(self, known: BisectionKnowledge, context: Context) -> ExpectedGain:
        loaded = self.range_search.loaded
        runs = [len(known.log.probes_for(end.content)) for end in (old_end(loaded), new_end(loaded))]
        missing = runs.count(0)
        posterior = self.range_search.posterior(known, context)
        return self.range_search.expected_gain(posterior, known, context, before=missing)


@dataclass(frozen=True)
class DataFreeze(UnmeasuredRangeState):
    """The golden data are frozen. Where none were named, the good end makes them first."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        wait = await_frozen_data(
            known, passing_end(self.range_search.loaded), ordinal=self.range_search.ordinal
        )
        return wait or Move(EndMeasurement(range_search=self.range_search, before=len(known.log.ended)))


def await_frozen_data(known: BisectionKnowledge, good: Target | None, *, ordinal: int) -> Wait | None:
    """Wait until the data are frozen. Return None once they are, and where there are none.

    Return None too where a good end that is not known yet has to make them. Raises `UserError` where the good end does
    not make any.
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
    require_pass(known.log.probes_for(good.content), good, by_command=known.question.by_command)
    probes = judged_runs(known.log, good)
    if not probes:
        saving = WantedProbe(target=good, phase=Phase.ENDPOINT, range=ordinal, save_golden=True)
        return Wait(Needs(start=(saving,)))
    return Wait(Needs(freeze=SavedData(probe=probes[0].number, commit=good.commit)))


@dataclass(frozen=True, kw_only=True)
class EndMeasurement(UnmeasuredRangeState):
    """Each end is run until it has once shown what it stands for.

    It is run as long as the posterior says that this is worth the runs. A flaky failure is awaited longer than a flaky
    pass. `before` is how many probes had ended when the state began.
    """

    before: int

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
            require(counted, end, by_command=known.question.by_command)

    def _ends_in_one_place(
        self, known: BisectionKnowledge, shown: tuple[bool, bool], *, workers: int
    ) -> dict[str, frozenset[str]]:
        """Return where each end was run, by its content, if the place alone may explain its runs.

        Such an end has several runs and has not shown what it stands for. All its runs were made in one place, and
        there may be another.
        """
        loaded, found = self.range_search.loaded, dict[str, frozenset[str]]()
        for end, was_shown in zip((passing_end(loaded), failing_end(loaded)), shown, strict=True):
            probes = known.log.probes_for(end.content)
            places = frozenset(probe.place for probe in probes if probe.place is not None)
            if (
                workers > 1
                and not was_shown
                and 1 < len(probes) <= _MAX_RUNS_IN_ONE_PLACE
                and len(places) == 1
            ):
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
        """Return the ends to start now, the good one first: alone with one worker, then in turns.

        While neither end has shown what it stands for, each is run until it is clear that they are swapped. An end that
        is `in_one_place` is run longer.
        """
        loaded = self.range_search.loaded
        least = dict.fromkeys((GOOD_END, loaded.graph.bad), 1)
        ends = (passing_end(loaded), failing_end(loaded))
        failing = failing_end(loaded).content
        nodes = {old_end(loaded).content: GOOD_END, new_end(loaded).content: loaded.graph.bad}
        if known.question.by_likeness and end_may_be_disturbed(known.log, failing):
            least[nodes[failing]] = max(_DISTURBED_END_RUNS, least[nodes[failing]])
        started = {
            nodes[end.content]: len(judged_runs(known.log, end)) + in_flight.count(nodes[end.content])
            for end in ends
        }
        unshown = {
            nodes[end.content]
            for end, has in zip(ends, shown, strict=True)
            if not has
            and (any(shown) or started[nodes[end.content]] < _SWAPPED_END_RUNS or end.content in in_one_place)
        }
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
        """Return whether to stop running an end that has not shown what it stands for.

        More runs are not worth it if they are expected to take longer than a search.
        """
        loaded = self.range_search.loaded
        runs = [len(judged_runs(known.log, end)) for end in (old_end(loaded), new_end(loaded))]
        if min(runs) == 0:
            return False
        if not any(shown):
            return min(runs) >= _SWAPPED_END_RUNS
        posterior = self.range_search.posterior(known, context)
        _, new_was_shown = shown if loaded.range.seeks is Seeks.REGRESSION else shown[::-1]
        return not worth_waiting(posterior, bad=not new_was_shown, for_failure=shown[0])

    def _give_up(self, known: BisectionKnowledge) -> NoReturn:
        """Raise `EndsError`: as far as the runs tell, the ends do not differ, or are swapped."""
        loaded, log = self.range_search.loaded, known.log
        good, bad = passing_end(loaded), failing_end(loaded)
        tallies = log.tally(good.content), log.tally(bad.content)
        if not tallies[0][Judgement.GOOD]:
            if not tallies[1][Judgement.BAD]:
                raise _swapped_ends_error(self.range_search)
            raise never_shown_error(good, Judgement.GOOD, tallies[0][Judgement.BAD])
        raise never_shown_error(bad, Judgement.BAD, tallies[1][Judgement.GOOD])


def _swapped_ends_error(search: RangeSearch) -> EndsError:
    loaded = search.loaded
    old, new = old_end(loaded).commit[:12], new_end(loaded).commit[:12]
    good, bad = passing_end(loaded).commit[:12], failing_end(loaded).commit[:12]
    ends = f"good {good} fails and bad {bad} passes"
    if loaded.range.seeks is Seeks.REGRESSION:
        return EndsError(f"{ends}: did you mean --find-fix, with --bad {old} --good {new}?")
    return EndsError(f"{ends}: did you mean --good {old} --bad {new}, without --find-fix?")
