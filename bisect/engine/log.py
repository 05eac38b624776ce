"""The log of probes: what is finished counts, what is running is known, nothing is made twice."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...store.vocabulary import Judgement, Phase
from .probes import FinishedProbe, RunningProbe


@dataclass(frozen=True)
class ProbeLog:
    """All probes of one bisection. `ended` are the finished ones in the order in which they ended, which with several
    workers is not that of their starts; `running` are in the order of their starts."""

    ended: tuple[FinishedProbe, ...] = ()
    running: tuple[RunningProbe, ...] = field(default=())

    def with_started(self, probe: RunningProbe) -> "ProbeLog":
        """With a probe that has just been started."""
        return replace(self, running=(*self.running, probe))

    def with_finished(self, probe: FinishedProbe) -> "ProbeLog":
        """With a result. Raises `ValueError` where the probe counts already."""
        if any(known.number == probe.number for known in self.ended):
            raise ValueError(f"probe {probe.number}: expected one result, found a second one")
        return ProbeLog((*self.ended, probe), self._without({probe.number}))

    def with_cancelled(self, numbers: Iterable[int]) -> "ProbeLog":
        """With some running probes stopped; they never count."""
        return replace(self, running=self._without({*numbers}))

    def _without(self, numbers: set[int]) -> tuple[RunningProbe, ...]:
        return tuple(probe for probe in self.running if probe.number not in numbers)

    @cached_property
    def _by_content(self) -> dict[str, list[FinishedProbe]]:
        contents: dict[str, list[FinishedProbe]] = {}
        for probe in sorted(self.ended, key=lambda probe: probe.number):
            contents.setdefault(probe.content, []).append(probe)
        return contents

    def of(self, content: str) -> list[FinishedProbe]:
        """The finished probes of some content, in the order of their starts."""
        return self._by_content.get(content, [])

    def is_running(self, content: str) -> bool:
        """Whether a probe of some content is running."""
        return any(probe.wanted.target.content == content for probe in self.running)

    def tally(self, content: str) -> Counter[Judgement]:
        """How often some content was good, bad, and could not be judged."""
        return Counter(probe.judgement for probe in self.of(content))

    def failures_where_bad(self) -> tuple[int, int]:
        """Failures and judged runs, over all contents that failed at least once: how surely a bad commit fails. What
        ran under a perturbation tells nothing of that."""
        tallies = [
            self.tally(content)
            for content, probes in self._by_content.items()
            if probes[0].phase is not Phase.PERTURBED
        ]
        bad = [tally for tally in tallies if tally[Judgement.BAD]]
        failures = sum(tally[Judgement.BAD] for tally in bad)
        return failures, failures + sum(tally[Judgement.GOOD] for tally in bad)
