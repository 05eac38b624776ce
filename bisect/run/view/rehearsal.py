"""A bisection that goes on with made-up results, to see what the engine itself would ask for."""

from collections import Counter
from collections.abc import Callable

from ....store.vocabulary import BuildSource, Judgement, Phase, Verdict
from ...engine.bisection import Bisection, DataFrozen, ProbeFinished, ProbesCancelled, ProbeStarted
from ...engine.history import AskBlamedFile, AskRange, HistoryQuestion
from ...engine.needs import Needs
from ...engine.priority.circumstances import Circumstances
from ...engine.probes import FinishedProbe, ProbeTimes, RunningProbe, WantedProbe
from ...result import Conclusion

_MOST_STEPS = 400
_ALONE = Circumstances()
_COUNTED = (Phase.ENDPOINT, Phase.SEARCH, Phase.CONFIRM)


class Rehearsal:
    """Goes on with a bisection on one worker, where a content fails if `fails` says so. `runs` counts what was made up
    for each phase, `contents` holds what was run."""

    def __init__(self, bisection: Bisection, fails: Callable[[str], bool]) -> None:
        self.bisection = bisection
        self.runs: Counter[Phase] = Counter()
        self.contents: set[str] = set()
        self._fails = fails
        for probe in bisection.known.log.running:
            self._finish(probe)

    def go_on(self) -> bool:
        """To the confirmed culprit: what comes behind it is asked of git, and not foreseen. Whether it came there,
        which it does not where git is asked first what an error blames.

        Raises `UserError` where the bisection would.
        """
        for _ in range(_MOST_STEPS):
            self.bisection, needs = self.bisection.next(_ALONE)
            if isinstance(needs, Conclusion) or any(wanted.phase not in _COUNTED for wanted in needs.start):
                return True
            if any(isinstance(question, AskBlamedFile) for question in needs.load):
                return False
            if any(map(_is_behind, needs.load)):
                return True
            self._give(needs)
        return False

    def next_wanted(self, around: Circumstances) -> WantedProbe | None:
        """The first run that it asks for; None where it has come to its end, or what is asked of git decides.

        Raises `UserError` where the bisection would.
        """
        self.bisection, needs = self.bisection.next(around)
        if isinstance(needs, Needs) and needs.freeze is not None:
            self.bisection, needs = self.bisection.after(DataFrozen()).next(around)
        return needs.start[0] if isinstance(needs, Needs) and needs.start else None

    def _give(self, needs: Needs) -> None:
        if needs.freeze is not None:
            self.bisection = self.bisection.after(DataFrozen())
        if needs.cancel:
            self.bisection = self.bisection.after(ProbesCancelled(needs.cancel))
        for wanted in needs.start:
            self._start(wanted)

    def _start(self, wanted: WantedProbe) -> None:
        number = 1 + max((probe.number for probe in self.bisection.known.log.ended), default=0)
        running = RunningProbe(number=number, wanted=wanted)
        self.bisection = self.bisection.after(ProbeStarted(running))
        self._finish(running)

    def _finish(self, running: RunningProbe) -> None:
        target = running.wanted.target
        self.runs[running.wanted.phase] += 1
        self.contents.add(target.content)
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
        self.bisection = self.bisection.after(ProbeFinished(finished))


def _is_behind(question: HistoryQuestion) -> bool:
    return not isinstance(question, AskRange)
