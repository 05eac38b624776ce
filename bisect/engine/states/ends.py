"""Both ends are run before anything else: do they differ, how often does each fail, what does a probe take?"""

from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from ....runner.errors import EndsError
from ....store.vocabulary import Judgement, Phase, Seeks
from ...result import EndRate
from ...search.evidence.calibration import ends_differ, next_end
from ..evidence import failing_end, new_end, old_end, passing_end
from ..known import Known
from ..log import ProbeLog
from ..needs import Needs
from ..priority.circumstances import Circumstances
from ..probes import Target, WantedProbe
from ..range_search import RangeSearch
from .answer.enclosing import Enclosing
from .judging import has_shown, one_probe, require_judged
from .state import Advance, BeforeEnds, Enter, Wait


@dataclass(frozen=True, kw_only=True)
class MeasuringEnds(BeforeEnds):
    """The ends are run until they differ with the asked confidence. `before` is how many probes had ended when it
    began."""

    before: int

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        return self._shown(known) or self._in_turns(known, around) or self._measured(known, around)

    def _shown(self, known: Known) -> Wait | None:
        """Wait until each end has once shown what it stands for, the good one first."""
        log, loaded = known.log, self.range_search.loaded
        good, bad = passing_end(loaded), failing_end(loaded)
        try:
            if not has_shown(log, good, Judgement.GOOD):
                return self._run(known, good)
        except EndsError:
            probes = log.of(bad.content)
            if not probes:
                return self._run(known, bad)
            if probes[0].judgement is Judgement.GOOD:
                raise _swapped(self.range_search) from None
            raise
        return None if has_shown(log, bad, Judgement.BAD) else self._run(known, bad)

    def _run(self, known: Known, end: Target) -> Wait:
        wanted = WantedProbe(target=end, phase=Phase.ENDPOINT, range=self.range_search.ordinal)
        return one_probe(known, wanted)

    def _in_turns(self, known: Known, around: Circumstances) -> Wait | None:
        """Wait until the ends have run often enough; with several workers both run at once."""
        loaded = self.range_search.loaded
        for end in (old_end(loaded), new_end(loaded)):
            # A resume does not stumble over an end that once could not be judged.
            fresh = {probe.number for probe in known.log.ended[self.before :]}
            for probe in known.log.of(end.content):
                if probe.number in fresh:
                    require_judged(probe, end)
        posterior = self.range_search.posterior(known, around)
        in_flight = self.range_search.in_flight(known)
        nodes = list(in_flight)
        while len(nodes) < around.workers:
            end = next_end(posterior, in_flight=nodes, confidence=self.range_search.confidence)
            if end is None:
                break
            nodes.append(end)
        start = tuple(self.range_search.wanted(node, Phase.ENDPOINT) for node in nodes[len(in_flight) :])
        return Wait(Needs(start=start)) if nodes else None

    def _measured(self, known: Known, around: Circumstances) -> Advance:
        """Go on to the search. Raises `EndsError` where the ends do not differ."""
        loaded = self.range_search.loaded
        good, bad = passing_end(loaded), failing_end(loaded)
        rates = _rate(known.log, "good", good), _rate(known.log, "bad", bad)
        if not ends_differ(
            self.range_search.posterior(known, around), confidence=self.range_search.confidence
        ):
            raise EndsError(
                f"expected good {good.commit[:12]} and bad {bad.commit[:12]} to differ, found that they fail "
                f"{rates[0].failures} of {rates[0].runs} and {rates[1].failures} of {rates[1].runs} times; "
                "name ends that differ, or say what is bad with --bad-when"
            )
        return Enter(self.range_search, Enclosing(rates=rates, good=good, bad=bad))


def _swapped(search: RangeSearch) -> EndsError:
    loaded = search.loaded
    old, new = old_end(loaded).commit[:12], new_end(loaded).commit[:12]
    good, bad = passing_end(loaded).commit[:12], failing_end(loaded).commit[:12]
    ends = f"good {good} fails and bad {bad} passes"
    if loaded.range.seeks is Seeks.REGRESSION:
        return EndsError(f"{ends}: did you mean --find-fix, with --bad {old} --good {new}?")
    return EndsError(f"{ends}: did you mean --good {old} --bad {new}, without --find-fix?")


def _rate(log: ProbeLog, end: Literal["good", "bad"], target: Target) -> EndRate:
    tally = log.tally(target.content)
    return EndRate(
        end=end,
        commit=target.commit,
        runs=tally[Judgement.GOOD] + tally[Judgement.BAD],
        failures=tally[Judgement.BAD],
    )
