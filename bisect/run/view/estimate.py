"""What is still to come, by the engine itself: it goes on where every run tells the truth, to a confirmed culprit.

No number of runs stands here. What the ends, the search and the confirmation take is what the engine asks for.
"""

from collections import Counter
from dataclasses import replace
from statistics import fmean

import numpy as np

from ....runner.errors import UserError
from ....store.vocabulary import BuildSource, Judgement, Phase, Seeks, Verdict
from ...commits.range import LoadedRange
from ...engine.bisection import (
    Bisection,
    DataFrozen,
    ProbeFinished,
    ProbesCancelled,
    ProbeStarted,
    QuestionAnswered,
)
from ...engine.history import AskRange, HistoryQuestion
from ...engine.known import BisectionQuestion
from ...engine.log import ProbeLog
from ...engine.needs import Needs
from ...engine.priority.circumstances import Circumstances
from ...engine.priority.costs import Timings
from ...engine.probes import FinishedProbe, ProbeTimes, RunningProbe, WantedProbe
from ...engine.range_search import RangeSearch
from ...result import Conclusion
from ...search.model.groups import GOOD_END
from .words import Estimate

_MOST_STEPS = 400
_ALONE = Circumstances()
_COUNTED = (Phase.ENDPOINT, Phase.SEARCH, Phase.CONFIRM)


def estimate_of(bisection: Bisection, *, builds: bool = True) -> Estimate | None:
    """What is to come of a bisection whose range is open; None where that cannot be said, as where runs contradict each
    other. `builds`: the stack has steps, which build something."""
    search = bisection.state.search
    if search is None or search.posterior(bisection.known, _ALONE).certain is None:
        return None
    foreseen = _Rehearsal(bisection, search).run()
    return foreseen if builds or foreseen is None else replace(foreseen, builds=0)


def estimate_before(
    question: BisectionQuestion, loaded: LoadedRange, *, builds: bool = True
) -> Estimate | None:
    """What is to come before anything was run; `builds` as in `estimate_of`."""
    opened = Bisection.start(question).after(
        QuestionAnswered(AskRange(ordinal=1, range=question.range), loaded)
    )
    try:
        opened, needs = opened.next(_ALONE)
        if isinstance(needs, Needs) and needs.freeze is not None:
            opened, _ = opened.after(DataFrozen()).next(_ALONE)
    except UserError:
        return None
    return estimate_of(opened, builds=builds)


class _Rehearsal:
    """A bisection that goes on with made-up results: one candidate is to blame, and every run says so."""

    def __init__(self, bisection: Bisection, search: RangeSearch) -> None:
        self._bisection = bisection
        self._search = search
        belief = search.posterior(bisection.known, _ALONE).belief.commits
        # In the middle of what is left: no luck, good or bad.
        middle = int(np.argmax(np.cumsum(belief) >= belief.sum() / 2))
        self._culprit = min(middle, len(belief) - 1)
        self._runs: Counter[Phase] = Counter()
        self._contents: set[str] = set()

    def run(self) -> Estimate | None:
        log = self._bisection.known.log
        for probe in log.running:
            self._finish(probe)
        try:
            self._go_on()
        except UserError:
            return None
        unbuilt = sum(not any(seen.times.was_built for seen in log.of(each)) for each in self._contents)
        if any(seen.times.run_seconds and not seen.times.was_built for seen in log.ended):
            unbuilt = 0  # the stack has nothing to build
        return Estimate(
            ends=self._runs[Phase.ENDPOINT],
            search=self._runs[Phase.SEARCH],
            confirm=self._runs[Phase.CONFIRM],
            builds=unbuilt,
            seconds=_seconds(log, runs=self._runs.total(), builds=unbuilt),
        )

    def _go_on(self) -> None:
        """To the confirmed culprit: what comes behind it is asked of git, and not foreseen."""
        for _ in range(_MOST_STEPS):
            self._bisection, needs = self._bisection.next(_ALONE)
            if isinstance(needs, Conclusion) or any(map(_is_behind, needs.load)):
                return
            if any(wanted.phase not in _COUNTED for wanted in needs.start):
                return
            if needs.freeze is not None:
                self._bisection = self._bisection.after(DataFrozen())
            if needs.cancel:
                self._bisection = self._bisection.after(ProbesCancelled(needs.cancel))
            for wanted in needs.start:
                self._start(wanted)

    def _start(self, wanted: WantedProbe) -> None:
        number = 1 + max((probe.number for probe in self._bisection.known.log.ended), default=0)
        running = RunningProbe(number=number, wanted=wanted)
        self._bisection = self._bisection.after(ProbeStarted(running))
        self._finish(running)

    def _finish(self, running: RunningProbe) -> None:
        target = running.wanted.target
        self._runs[running.wanted.phase] += 1
        self._contents.add(target.content)
        fails = self._fails(target.content)
        finished = FinishedProbe(
            number=running.number,
            content=target.content,
            phase=running.wanted.phase,
            judgement=Judgement.BAD if fails else Judgement.GOOD,
            verdict=Verdict.MISMATCH if fails else Verdict.PASS,
            metrics={},
            times=ProbeTimes(build_source=BuildSource.NONE, build_seconds=0.0, run_seconds=0.0),
        )
        self._bisection = self._bisection.after(ProbeFinished(finished))

    def _fails(self, content: str) -> bool:
        evidence = self._search.evidence
        nodes = [node for node in evidence.nodes_of(content) if node != GOOD_END]
        changed = bool(nodes) and bool(evidence.graph.ancestors(nodes[0])[self._culprit])
        return changed == (self._search.loaded.range.seeks is Seeks.REGRESSION)


def _is_behind(question: HistoryQuestion) -> bool:
    return not isinstance(question, AskRange)


def _seconds(log: ProbeLog, *, runs: int, builds: int) -> float | None:
    """What runs and builds take, by what they took so far."""
    timings = Timings.of(probe.times for probe in log.ended)
    if timings is not None:
        return runs * timings.run + builds * max(timings.anew, timings.again)
    took = [probe.times.run_seconds for probe in log.ended if probe.times.run_seconds]
    return runs * fmean(took) if took else None
