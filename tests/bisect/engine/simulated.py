"""Bisections of planted truths, without git, processes or a store: what the loop drives, and what probes are made by.

A `SimulatedRange` is a graph of commits with a truth; a `SimulatedBisection` is what the loop sees of a real one; the
`Machine` makes its probes in no time, and says how long they would have taken.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from precision_bisect.bisect.drive.loop import ProbeInFlight
from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.bisect.engine.bisection import (
    Bisection,
    DataFrozen,
    ProbeFinished,
    ProbesCancelled,
    ProbeStarted,
    QuestionAnswered,
)
from precision_bisect.bisect.engine.range_search import Context, Timings
from precision_bisect.bisect.engine.runs import (
    BisectionQuestion,
    FinishedProbe,
    GivenData,
    Needs,
    ProbeLog,
    ProbeTimes,
    RunningProbe,
    SavedData,
    WantedProbe,
)
from precision_bisect.bisect.history.questions import (
    AskApplies,
    AskMovedPins,
    AskPins,
    AskRange,
    AskTarget,
    HistoryAnswer,
    HistoryQuestion,
)
from precision_bisect.bisect.history.range import CommitRange, LoadedRange, Node, Range, Target
from precision_bisect.bisect.search.graph import NO_WINDOWS, CommitGraph
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.rates import Rates
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.probe.judge import describe_failure
from precision_bisect.runner.probe.pool import Event, ProbeDone
from precision_bisect.runner.probe.probe import ProbeRequest, ProbeResult
from precision_bisect.runner.verdict.rules import CompilerError
from precision_bisect.runner.verdict.symptoms import Symptoms
from precision_bisect.store.vocabulary import BuildSource, Commit, Judgement, Phase, Verdict

BUILD, RUN = 10.0, 1.0
TIMINGS = Timings(run=RUN, full_build=BUILD, rebuild=0.0)
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def commit(name: str, parents: Sequence[str]) -> Commit:
    """A commit as git would describe it."""
    return Commit(
        sha=name, parents=tuple(parents), author="a", email="a@b", date=_WHEN, subject=name, changes=()
    )


def loaded_range(
    names: Sequence[str],
    graph: CommitGraph,
    good: str,
    *,
    forked: Mapping[int, str] | None = None,
) -> LoadedRange:
    """A range of commits called `names`, each of its own content, that builds on `good`; candidates in `forked` build
    on another commit from before the range."""
    forks = forked or {}
    commits = tuple(
        commit(name, [names[parent] for parent in graph.parents[place]] or [forks.get(place, good)])
        for place, name in enumerate(names)
    )
    return LoadedRange(
        range=Range(repository="line", old=good, new=names[graph.bad], held={}),
        commits=commits,
        contents={name: name for name in names},
        old_content=good,
        new_content=names[graph.bad],
        commit_range=CommitRange(
            nodes=tuple(Node(members=(each,)) for each in commits),
            parents=tuple(tuple(parents) for parents in graph.parents),
            bad=graph.bad,
            good_side=(),
        ),
        graph=graph,
        windows=NO_WINDOWS,
    )


@dataclass
class Machine:
    """Workers that build and run in no time, and say how much they would have taken."""

    jobs: int = 1
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    builds: int = 0
    runs: int = 0
    most_at_once: int = 0
    flying: list[int] = field(default_factory=list[int])
    built: set[str] = field(default_factory=set[str])

    def begin(self, request: ProbeRequest) -> int:
        content = asked(request).target.content
        self.builds += content not in self.built
        self.built.add(content)
        self.runs += 1
        self.flying.append(self.runs)
        self.most_at_once = max(self.most_at_once, len(self.flying))
        return self.runs

    def cancel(self, number: int) -> None:
        self.flying.remove(number)

    def next_event(self, *, timeout: float | None) -> Event:
        assert timeout is None
        number = self.flying.pop(self.chance.randrange(len(self.flying)))
        return finished_simulation(number)

    @property
    def seconds(self) -> float:
        """What all of it would have taken, one after the other."""
        return BUILD * self.builds + RUN * self.runs


class _Simulated:
    """In place of a probe's result: it was built."""

    build_source = BuildSource.BUILT


_SIMULATED = _Simulated()


def finished_simulation(number: int) -> ProbeDone:
    """News of a probe that is finished; what it shows is asked of the bisection's `outcome`."""
    return ProbeDone(number, cast(ProbeResult, _SIMULATED))


def asked(request: ProbeRequest) -> WantedProbe:
    """What a worker of a simulated bisection is asked for: the probe as the bisection wants it."""
    return cast(WantedProbe, request)


def equal_times(content: str) -> ProbeTimes:
    """What every probe takes."""
    return ProbeTimes(build_source=BuildSource.BUILT, build_seconds=BUILD, run_seconds=RUN)


UNTIMED = ProbeTimes(build_source=BuildSource.NONE, build_seconds=0.0, run_seconds=0.0)


def untimed(content: str) -> ProbeTimes:
    """No times: where runs are what is counted, all cost the same."""
    return UNTIMED


def simulated_probe(
    number: int, content: str, phase: Phase, judgement: Judgement, *, times: ProbeTimes
) -> FinishedProbe:
    """A finished probe that showed a judgement."""
    verdicts = {
        Judgement.GOOD: Verdict.PASS,
        Judgement.BAD: Verdict.MISMATCH,
        Judgement.SKIP: Verdict.BUILD_ERROR,
    }
    return FinishedProbe(
        number=number,
        content=content,
        phase=phase,
        judgement=judgement,
        verdict=verdicts[judgement],
        metrics={},
        times=times,
    )


def ignore(about: object) -> None:
    """Do nothing."""


@dataclass(eq=False, kw_only=True)
class SimulatedBisection:
    """A bisection of a loaded range. `outcome` tells what a run of a content shows, `times` what it takes, `errors` why
    it cannot be tested. `log` has its probes so far, where it goes on, and `frozen` tells whether its data are frozen.
    `question` is asked in place of one about the whole range."""

    loaded: LoadedRange
    outcome: Callable[[str], Judgement]
    machine: Machine
    confidence: float = 0.99
    rates: Rates = field(default_factory=Rates.unknown)
    question: BisectionQuestion | None = None
    log: ProbeLog = field(default_factory=ProbeLog)
    frozen: bool = False
    freezes: list[GivenData | SavedData] = field(default_factory=list[GivenData | SavedData])
    """What was frozen on the way."""
    times: Callable[[str], ProbeTimes] = equal_times
    errors: Callable[[str], tuple[CompilerError, ...]] = lambda content: ()
    symptoms: Callable[[str], Symptoms | None] = lambda content: None
    on_needs: Callable[[Needs], None] = ignore
    on_start: Callable[["SimulatedBisection", WantedProbe], None] = lambda simulated, wanted: None
    answers: Mapping[type, Callable[[Any], HistoryAnswer]] = field(default_factory=dict[type, Any])
    notices: list[str] = field(default_factory=list[str])
    started: list[str] = field(default_factory=list[str])
    """The contents of all probes, in the order of their starts."""
    bisection: Bisection = field(init=False)
    last: Context = field(default_factory=Context)

    def __post_init__(self) -> None:
        self._first = 1 + max((probe.number for probe in self.log.ended), default=0)
        self.bisection = Bisection.start(
            self.question
            or BisectionQuestion(
                range=self.loaded.range,
                confidence=self.confidence,
                repositories=frozenset({"line"}),
                rates=self.rates,
            ),
            log=self.log,
            frozen=self.frozen,
        )

    def settle(self, context: Context) -> Needs | Conclusion:
        self.last = context
        while True:
            self.bisection, needs = self.bisection.next(context)
            if isinstance(needs, Conclusion):
                return needs
            self.on_needs(needs)
            if needs.freeze is not None:
                self.freezes.append(needs.freeze)
                self.bisection = self.bisection.apply_event(DataFrozen())
            elif not needs.load:
                return needs
            for question in needs.load:
                self.bisection = self.bisection.apply_event(
                    QuestionAnswered(question, self._answer(question))
                )

    def _answer(self, question: HistoryQuestion) -> HistoryAnswer:
        if type(question) in self.answers:
            return self.answers[type(question)](question)
        if isinstance(question, AskRange):
            return self.loaded
        if isinstance(question, AskTarget):
            return Target(
                repository=question.repository,
                commit=question.commit,
                held=question.held,
                content=question.commit,
            )
        if isinstance(question, AskApplies):
            return question.commits
        assert isinstance(question, AskPins | AskMovedPins), question
        return ()

    def record_start(self, wanted: WantedProbe) -> ProbeInFlight:
        self.on_start(self, wanted)
        self.started.append(wanted.target.content)
        running = RunningProbe(number=self._first + len(self.started) - 1, wanted=wanted)
        self.bisection = self.bisection.apply_event(ProbeStarted(running))
        return ProbeInFlight(running=running, request=cast(ProbeRequest, wanted))

    def record_round(self, bisection: Bisection, needs: Needs, started: Sequence[ProbeInFlight]) -> None:
        return None

    def build_request(self, probe: ProbeInFlight, target: Target) -> ProbeRequest:
        return cast(ProbeRequest, replace(probe.running.wanted, target=target))

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def show_wait(self, why: str) -> None:
        self.notices.append(why)

    def record_restart(self, probe: ProbeInFlight, why: str) -> None:
        return None

    def finish(self, probe: ProbeInFlight, result: ProbeResult) -> None:
        wanted = probe.running.wanted
        self.bisection = self.bisection.apply_event(
            ProbeFinished(self.finished(probe.running.number, wanted))
        )

    def finished(self, number: int, wanted: WantedProbe) -> FinishedProbe:
        """What a probe shows."""
        times = self.times(wanted.target.content)
        judgement = self.outcome(wanted.target.content)
        probe = simulated_probe(number, wanted.target.content, wanted.phase, judgement, times=times)
        if judgement is Judgement.BAD and (shown := self.symptoms(wanted.target.content)) is not None:
            return replace(probe, symptoms=shown, signature=describe_failure(shown))
        return replace(
            probe, errors=self.errors(wanted.target.content) if judgement is Judgement.SKIP else ()
        )

    def cancel(self, probe: ProbeInFlight) -> None:
        self.bisection = self.bisection.apply_event(ProbesCancelled((probe.running.number,)))

    def show_activity(self, probe: ProbeInFlight, place: str, text: str) -> None:
        return None


@dataclass(eq=False, kw_only=True)
class SimulatedTask:
    """A simulated bisection as the loop takes it up."""

    simulated: SimulatedBisection
    on_check_budget: Callable[[], None] = lambda: None
    timings: Timings | None = TIMINGS
    deadline: float | None = None
    conclusion: Conclusion | None = None
    error: UserError | None = None
    released: bool = False

    def open(self, resources: ExitStack) -> SimulatedBisection:
        resources.callback(self._release)
        return self.simulated

    def _release(self) -> None:
        self.released = True

    def check_budget(self) -> None:
        self.on_check_budget()

    def conclude(self, conclusion: Conclusion) -> None:
        self.conclusion = conclusion

    def fail(self, error: UserError) -> None:
        self.error = error

    @property
    def culprit(self) -> str | None:
        """The commit that was named."""
        named = self.conclusion.culprits if self.conclusion else ()
        return named[0].commit if named else None


def node_name(loaded: LoadedRange, node: int) -> str:
    """The name of a candidate, or of the good end."""
    return loaded.range.old if node == GOOD_END else loaded.commit_range.nodes[node].commit.sha
