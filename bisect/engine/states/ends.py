"""Both ends are seen once before anything else; more runs of them are the search's choice, as those of any commit."""

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import NoReturn

from typing_extensions import override

from ....runner.errors import EndsError
from ....store.vocabulary import Judgement, Phase, Seeks
from ...search.choose.bound import worth_waiting
from ...search.model.groups import GOOD_END
from ..evidence import failing_end, new_end, old_end, passing_end
from ..known import Known
from ..needs import Needs
from ..priority.circumstances import Circumstances
from ..probes import Target
from ..range_search import RangeSearch
from .answer.enclosing import Enclosing
from .judging import judged_runs, never_shown, require_judged, require_pass
from .state import Advance, BeforeEnds, Enter, Wait

_RUNS_OF_SWAPPED = 2
"""So many runs of each end that show the opposite. After one run of each, 4 % of ranges whose rates are 0.2 and 0.8
would be taken for swapped."""
_MOST_IN_ONE_PLACE = 8
"""So many runs of an end in one place, though another was asked for, and there is no other."""


@dataclass(frozen=True, kw_only=True)
class MeasuringEnds(BeforeEnds):
    """Each end is run until it has once shown what it stands for, as long as the posterior says that this is worth its
    runs: for a failure that comes and goes longer than for a pass that does. `before` is how many probes had ended when
    it began."""

    before: int

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        loaded = self.range_search.loaded
        good, bad = passing_end(loaded), failing_end(loaded)
        self._require_judged(known, good, bad)
        shown = (
            known.log.tally(good.content)[Judgement.GOOD] > 0,
            known.log.tally(bad.content)[Judgement.BAD] > 0,
        )
        in_flight = self.range_search.in_flight(known)
        one_place = self._one_place(known, shown, workers=around.workers)
        if not all(shown) and not in_flight and not one_place and self._given_up(known, around, shown):
            self._give_up(known)
        wanted = self._wanted(known, shown, in_flight, {*one_place}, workers=around.workers)
        if wanted or in_flight:
            start = [self.range_search.wanted(node, Phase.ENDPOINT) for node in wanted]
            avoided = [replace(each, avoid=one_place.get(each.target.content, frozenset())) for each in start]
            return Wait(Needs(start=tuple(avoided)))
        return Enter(self.range_search, Enclosing(good=good, bad=bad))

    def _require_judged(self, known: Known, good: Target, bad: Target) -> None:
        # A resume does not stumble over an end that once could not be judged.
        fresh = {probe.number for probe in known.log.ended[self.before :]}
        for end in (good, bad):
            probes = known.log.of(end.content)
            counted = [probe for place, probe in enumerate(probes) if place == 0 or probe.number in fresh]
            require = require_pass if end is good else require_judged
            require(counted, end, by_exit_code=known.question.by_exit_code)

    def _one_place(
        self, known: Known, shown: tuple[bool, bool], *, workers: int
    ) -> dict[str, frozenset[str]]:
        """Where each end was run, by its content, if it has not shown what it stands for in several runs, which were
        all made in that one place, and there may be another: it may be the place."""
        loaded, found = self.range_search.loaded, dict[str, frozenset[str]]()
        for end, has in zip((passing_end(loaded), failing_end(loaded)), shown, strict=True):
            probes = known.log.of(end.content)
            places = frozenset(probe.place for probe in probes if probe.place is not None)
            if workers > 1 and not has and 1 < len(probes) <= _MOST_IN_ONE_PLACE and len(places) == 1:
                found[end.content] = places
        return found

    def _wanted(
        self,
        known: Known,
        shown: tuple[bool, bool],
        in_flight: list[int],
        in_one_place: Set[str],
        *,
        workers: int,
    ) -> list[int]:
        """The ends to start now, the good one first: alone with one worker, then in turns. While neither has shown what
        it stands for, each is run until that tells that they are swapped, and longer if it is `in_one_place`."""
        loaded = self.range_search.loaded
        least = known.question.end_runs or 1
        ends = (passing_end(loaded), failing_end(loaded))
        nodes = {old_end(loaded).content: GOOD_END, new_end(loaded).content: loaded.graph.bad}
        started = {
            nodes[end.content]: len(judged_runs(known.log, end)) + in_flight.count(nodes[end.content])
            for end in ends
        }
        unshown = {
            nodes[end.content]
            for end, has in zip(ends, shown, strict=True)
            if not has
            and (any(shown) or started[nodes[end.content]] < _RUNS_OF_SWAPPED or end.content in in_one_place)
        }
        wanted: list[int] = []
        while len(wanted) + len(in_flight) < workers:
            open_to = [
                node
                for node in started
                if started[node] < least or (node in unshown and node not in (*in_flight, *wanted))
            ]
            if not open_to:
                break
            node = min(open_to, key=lambda node: started[node])
            wanted.append(node)
            started[node] += 1
        return wanted

    def _given_up(self, known: Known, around: Circumstances, shown: tuple[bool, bool]) -> bool:
        """Whether more runs of an end that has not shown what it stands for are not worth it: they would be expected to
        take longer than a search."""
        loaded = self.range_search.loaded
        runs = [len(judged_runs(known.log, end)) for end in (old_end(loaded), new_end(loaded))]
        if min(runs) == 0:
            return False
        if known.question.end_runs is not None:
            return min(runs) >= known.question.end_runs
        if not any(shown):
            return min(runs) >= _RUNS_OF_SWAPPED
        posterior = self.range_search.posterior(known, around)
        _, of_new = shown if loaded.range.seeks is Seeks.REGRESSION else shown[::-1]
        return not worth_waiting(posterior, bad=not of_new, for_failure=shown[0])

    def _give_up(self, known: Known) -> NoReturn:
        """Raises `EndsError`: as far as the runs tell, the ends do not differ, or are swapped."""
        loaded, log = self.range_search.loaded, known.log
        good, bad = passing_end(loaded), failing_end(loaded)
        tallies = log.tally(good.content), log.tally(bad.content)
        if not tallies[0][Judgement.GOOD]:
            if not tallies[1][Judgement.BAD]:
                raise _swapped(self.range_search)
            raise never_shown(good, Judgement.GOOD, tallies[0][Judgement.BAD])
        raise never_shown(bad, Judgement.BAD, tallies[1][Judgement.GOOD])


def _swapped(search: RangeSearch) -> EndsError:
    loaded = search.loaded
    old, new = old_end(loaded).commit[:12], new_end(loaded).commit[:12]
    good, bad = passing_end(loaded).commit[:12], failing_end(loaded).commit[:12]
    ends = f"good {good} fails and bad {bad} passes"
    if loaded.range.seeks is Seeks.REGRESSION:
        return EndsError(f"{ends}: did you mean --find-fix, with --bad {old} --good {new}?")
    return EndsError(f"{ends}: did you mean --good {old} --bad {new}, without --find-fix?")
