"""The states before a search: a range is opened, its data are frozen, and its ends are measured.

`GoodEndSearch` comes first where nobody named a good end: it goes back from the bad end along first parents until the
case passes. `RangeOpening` reads the commits, and `StartWait` lets other bisections go first. `DataFreeze`
freezes the golden data that all probes share: those that were named, or those that the good end made. `EndMeasurement`
runs both ends until each has once shown what it stands for. More runs of an end are the search's choice, as with any
commit. The functions above them judge single targets, ends and counterfactuals, outside a search.
"""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import NoReturn

from typing_extensions import override

from ...runner.errors import EndsError, UserError
from ...store.vocabulary import Judgement, Phase, Seeks, Verdict, VerdictSource, plural, verdict_words
from ..history.questions import AskFirstParents, AskRange, AskTarget, FirstParents
from ..search.belief import Observation, Outcome
from ..search.decision import worth_waiting
from ..search.graph import CommitGraph
from ..search.halving import GallopTo, NothingPasses, Passes, gallop
from ..search.hypotheses import GOOD_END
from ..search.posterior import Posterior
from .answer import (
    Advance,
    BisectionState,
    EnclosingRanges,
    Enter,
    Move,
    UnmeasuredRangeState,
    Wait,
    load_all,
)
from .costs import Context, ExpectedGain
from .failures import end_may_be_disturbed
from .probes import FinishedProbe, Target, WantedProbe
from .range_search import RangeSearch
from .runs import (
    BisectionKnowledge,
    GivenData,
    GoodEnd,
    Needs,
    Notice,
    ProbeLog,
    RangeEvidence,
    SavedData,
    failing_end,
    new_end,
    old_end,
    passing_end,
)

_SURE = 0.99
HANG_ADVICE = "if to hang is the failure, -- timeout SECONDS COMMAND ends it with exit code 124, which is bad"
"""The advice that says how to ask about a command that does not end."""
_MAX_LOST_RUNS = 3
"""An end is given up once its lost runs exceed its judged runs by this many. Until then what is flaky may have lost
them."""
_MISSED_FAILURE = 0.002
"""The chance, at most, to take a bad commit for a good one because its failure is flaky."""


def passes_needed(log: ProbeLog, *, least: int = 1) -> int:
    """Return how many passes make a target good.

    That is `least` where bad targets have failed in every run so far. Where they fail now and then, it is as many as
    make a missed failure unlikely.
    """
    failures, runs = log.failures_where_bad()
    if failures == runs:
        return least
    misses = 1 - (failures + 0.5) / (runs + 1)
    return max(least, math.ceil(math.log(_MISSED_FAILURE) / math.log(misses)))


def judge_target(log: ProbeLog, target: Target, *, passes: int = 1) -> Judgement | None:
    """Return the judgement of a target, or None where one more run has to tell.

    One failure makes it bad, and at least `passes` passes make it good (`passes_needed`). A run that neither passes nor
    fails makes it a skip.
    """
    tally = log.tally(target.content)
    if tally[Judgement.BAD]:
        return Judgement.BAD
    if tally[Judgement.GOOD] >= passes_needed(log, least=passes):
        return Judgement.GOOD
    return Judgement.SKIP if tally[Judgement.SKIP] else None


def await_probe(known: BisectionKnowledge, wanted: WantedProbe) -> Wait:
    """Wait for one more probe of a target. The probe is started unless one of the target is running."""
    running = known.log.is_running(wanted.target.content)
    return Wait(Needs() if running else Needs(start=(wanted,)))


def counterfactuals(
    known: BisectionKnowledge, asked: Sequence[AskTarget], search: RangeSearch
) -> tuple[Judgement, ...] | Wait:
    """Return the judgements of targets, or what has to happen before these are known.

    A target need not be a commit of the history. It is a skip where it cannot be had, or where it fails in another way
    than the searched failure.
    """
    if wait := load_all(known, *asked):
        return wait
    judgements: list[Judgement] = []
    for question in asked:
        target = known.answer(question)
        judgement = Judgement.SKIP if target is None else judge_target(search.log(known), target)
        if judgement is None and target is not None:
            return await_probe(
                known, WantedProbe(target=target, phase=Phase.COUNTERFACTUAL, range=search.ordinal)
            )
        judgements.append(judgement or Judgement.SKIP)
    return tuple(judgements)


def highest_rate(runs: int) -> float:
    """Return the highest rate of an event that none of so many runs showed, with 99 % confidence.

    It is 1 - 0.01^(1 / n) (Clopper and Pearson, 1934).

    >>> round(highest_rate(1), 2), round(highest_rate(24), 3)
    (0.99, 0.175)
    """
    return 1 - (1 - _SURE) ** (1 / runs)


def runs_excluding(rate: float) -> int:
    """Return how many runs in a row must not show an event of this rate, to exclude it with 99 %.

    >>> runs_excluding(0.5), runs_excluding(0.05)
    (7, 90)
    """
    return math.ceil(math.log(1 - _SURE) / math.log(1 - rate))


def never_shown_error(end: Target, wanted: Judgement, runs: int) -> EndsError:
    """Return the error of an end that showed the other side in so many runs. It names the rate that these cannot
    exclude."""
    shown, verb = ("failure", "passes") if wanted is Judgement.GOOD else ("pass", "fails")
    return EndsError(
        f"{wanted.value} {end.commit[:12]}: expected a commit where the case {verb}, "
        f"found {plural(runs, shown)} in a row, of which one would have been otherwise if it {verb} in "
        f"{highest_rate(runs):.0%} of its runs or more (99 %); if it {verb} more seldom, have each run repeat the "
        "case, by a command behind --"
    )


def judged_runs(log: ProbeLog, target: Target) -> list[FinishedProbe]:
    """Return the finished probes of a target that could be judged."""
    return [probe for probe in log.probes_for(target.content) if probe.judgement is not Judgement.SKIP]


def require_pass(probes: Sequence[FinishedProbe], good: Target, *, by_command: bool) -> None:
    """Raise `UserError` where probes of the good end could not be judged, and one more is not worth it.

    by_command: whether a command says what is bad.
    """
    for probe in probes:
        if probe.verdict is Verdict.NOT_VALIDATED:
            raise UserError(
                f"good {good.commit[:12]}: expected a validated pass, found {describe_probe(probe)}: nothing was "
                "compared, so it proves nothing; give the case a golden_fn, or --golden-data DIR"
            )
    if lost := _lost_probes(probes):
        advice = "mend that first, then resume, or name another good commit"
        if lost[-1].verdict_source is VerdictSource.PERSON or (
            by_command and lost[-1].verdict is Verdict.TIMEOUT
        ):
            advice = _end_advice(lost[-1], by_command=by_command)
        raise UserError(
            f"good {good.commit[:12]}: expected a validated pass, found {_describe_lost(lost)}; {advice}"
        )


def require_judged(probes: Sequence[FinishedProbe], bad: Target, *, by_command: bool) -> None:
    """Raise `UserError` where probes of the bad end are skips, and one more is not worth it.

    by_command: whether a command says what is bad.
    """
    if lost := _lost_probes(probes):
        raise UserError(
            f"bad {bad.commit[:12]}: expected a run that passes or fails as asked, found {_describe_lost(lost)}; "
            f"{_end_advice(lost[-1], by_command=by_command)}"
        )


def _lost_probes(probes: Sequence[FinishedProbe]) -> Sequence[FinishedProbe]:
    """Return the unjudged probes of an end if another run would not help; otherwise nothing.

    Another run may help after a crash, a device error, or a failure other than the searched one.
    """
    lost = [probe for probe in probes if probe.judgement is Judgement.SKIP]
    permanent = [probe for probe in lost if not _is_flaky(probe)]
    too_many = len(lost) >= _MAX_LOST_RUNS + len(probes) - len(lost)
    return permanent or (lost if too_many else ())


def _is_flaky(probe: FinishedProbe) -> bool:
    """Return whether another run may be judged although this one was not.

    The run crashed, its device failed, or it showed another failure.
    """
    return probe.verdict.traits.is_intermittent or probe.likeness < 1


def _describe_lost(lost: Sequence[FinishedProbe]) -> str:
    """Return a description of the last lost run, and how many there are."""
    return describe_probe(lost[-1]) + (
        f", {plural(len(lost), 'run')} could not be judged" if len(lost) > 1 else ""
    )


def _end_advice(probe: FinishedProbe, *, by_command: bool) -> str:
    """Return what to do about an end that cannot be judged."""
    verdict = probe.verdict
    if not verdict.traits.judges_commit:
        return "mend the environment, then resume: what could not be judged is run again"
    if probe.verdict_source is VerdictSource.PERSON:
        return "resume to be asked again, or name another end"
    if by_command and verdict is Verdict.TIMEOUT:
        return f"{HANG_ADVICE}; or give it longer: --timeout"
    if by_command or not verdict.traits.can_be_bad:
        return "mend it and resume, or name another end"
    return f"say what is bad with --bad-when (for instance --bad-when {verdict}), or mend it and resume"


def describe_probe(probe: FinishedProbe) -> str:
    """Return a verdict with its signature, and the evidence that these do not repeat."""
    words = verdict_words(probe.verdict, probe.signature, probe.verdict_source)
    return words + "".join(f": {text[:300]}" for text in probe.evidence if text not in words)


_SWAPPED_END_RUNS = 2
"""Ends are taken for swapped after this many runs of each showed the opposite. After one run of each, 4 % of ranges
whose rates are 0.2 and 0.8 would be taken for swapped."""
_DISTURBED_END_RUNS = 2
"""A disturbed end gets this many judged runs: it may not have got as far as its check. A disturbance that is flaky
shows once in most searches, and twice in few."""
_MAX_RUNS_IN_ONE_PLACE = 8
"""After this many runs of an end in one place, no other place is requested any more: there is none."""


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
