"""The states before a search: a range is opened, its data are frozen, and its ends are measured.

`RangeOpening` reads the commits, and `StartWait` lets other bisections go first. `DataFreeze` freezes the golden data
that all probes share: those that were named, or those that the good end made. `EndMeasurement` runs both ends until
each has once shown what it stands for. More runs of an end are the search's choice, as with any commit.
"""

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import NoReturn

from typing_extensions import override

from ...runner.errors import EndsError
from ...store.vocabulary import Judgement, Phase, Seeks
from ..history.questions import AskRange
from ..search.decision import worth_waiting
from ..search.hypotheses import GOOD_END
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
from .probes import Target, WantedProbe
from .range_search import RangeSearch
from .runs import (
    BisectionKnowledge,
    GivenData,
    Needs,
    RangeEvidence,
    SavedData,
    failing_end,
    new_end,
    old_end,
    passing_end,
)
from .target_judgement import judged_runs, never_shown_error, require_judged, require_pass

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
