"""Search one range: ask the posterior what to run next, run it, until one hypothesis has the asked confidence."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Phase, Seeks
from ..commits.stage import Stage, outcome_of, place_of
from ..search.choose.confirmation import confirmed_at
from ..search.choose.decision import EnvironmentMoved, NoCulprit, Undecided, as_if_certain
from ..search.choose.planner import Found, OnlySkipped
from ..search.choose.rounds import Answer as Decided
from ..search.choose.rounds import Round, next_round
from ..search.evidence.calibration import FEWEST_RUNS
from ..search.evidence.knowledge import Knowledge, Observation, Outcome
from ..search.evidence.posterior import GOOD_END, Posterior
from ..search.evidence.rates import Rates
from .company import Outlook
from .experiments import Experiment, Experiments, Flight
from .forecast import Forecast
from .progress import Progress

_VERIFYING_RUNS = 3
"""Of two commits whose verdicts contradict each other, before the range counts as broken twice."""
_FLIPPED = {Outcome.GOOD: Outcome.BAD, Outcome.BAD: Outcome.GOOD, Outcome.SKIP: Outcome.SKIP}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the search of a range ended with; at most one of the four is said.

    `confidence` is that of the culprit. `suspects` could not be told apart: they hold the culprit, but too few of them
    could be tested (`only_skipped`), or no run promised to tell more.
    """

    culprit: int | None = None
    confidence: float | None = None
    suspects: tuple[int, ...] = ()
    only_skipped: bool = False
    no_culprit: bool = False
    environment_moved: bool = False
    earlier_failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """A run of a candidate, or of `GOOD_END`."""

    node: int
    phase: Phase


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Start and cancel these, `cancel` being places in the runs in flight. With nothing in flight then, it is over."""

    answer: Answer | None = None
    start: tuple[Run, ...] = ()
    cancel: tuple[int, ...] = ()


@dataclass
class StageSearch:
    """A range, its place in the store, and where each run belongs in it."""

    stage: Stage
    stage_id: int
    experiments: Experiments
    progress: Progress
    confidence: float
    _inherited: tuple[Observation, ...] = ()
    _nodes: dict[str, tuple[int, ...]] = field(init=False)
    _unpinned: tuple[int, ...] = field(init=False)
    _posterior: Posterior | None = field(init=False, default=None)
    _forecast: Forecast = field(init=False)

    def __post_init__(self) -> None:
        self._forecast = Forecast(
            self.stage, self.experiments, old=self.old.content, failing=self.failing.content
        )
        nodes: dict[str, tuple[int, ...]] = {self.old.content: (GOOD_END,)}
        unpinned: list[int] = []
        for index, node in enumerate(self.stage.collapsed.nodes):
            content = self.stage.contents[node.commit.sha]
            if content is None:
                unpinned.append(index)
            else:
                nodes[content] = (*nodes.get(content, ()), index)
        self._nodes = nodes
        self._unpinned = tuple(unpinned)

    @property
    def old(self) -> Experiment:
        """The old end, which is good where a regression is sought."""
        where = self.stage.range
        return self.experiments.at(self.stage_id, where.repository, where.old, where.held)

    @property
    def new(self) -> Experiment:
        """The new end."""
        where = self.stage.range
        return self.experiments.at(self.stage_id, where.repository, where.new, where.held)

    @property
    def passing(self) -> Experiment:
        """The end at which the case passes."""
        return self.old if self.stage.range.seeks is Seeks.REGRESSION else self.new

    @property
    def failing(self) -> Experiment:
        """The end at which it fails."""
        return self.new if self.stage.range.seeks is Seeks.REGRESSION else self.old

    def at(self, node: int) -> Experiment:
        """A candidate, or the old end."""
        if node == GOOD_END:
            return self.old
        where = self.stage.range
        commit = self.stage.collapsed.nodes[node].commit.sha
        return self.experiments.at(self.stage_id, where.repository, commit, where.held)

    def inherit(self, outer: "StageSearch", culprit: int, *, old_pin: str, new_pin: str) -> None:
        """Take over what the runs of an outer range tell of this one's ends, now that its culprit is known: commits
        from the culprit on do as with its new pin, the others as with its old one."""
        inherited: list[Observation] = []
        ancestors = outer.stage.graph.ancestors
        ends = {self.stage.range.old: GOOD_END, self.stage.range.new: self.stage.graph.bad}
        flipped = outer.stage.range.seeks is not self.stage.range.seeks
        for probe in outer.experiments.in_order():
            for seen in outer.of_probe(probe):
                bad = seen.commit != GOOD_END and bool(ancestors(seen.commit)[culprit])
                broken_before = seen.outcome is Outcome.BAD and not bad
                end = ends.get(new_pin if bad else old_pin)
                if probe.content not in self._nodes and not broken_before and end is not None:
                    outcome = _FLIPPED[seen.outcome] if flipped else seen.outcome
                    inherited.append(replace(seen, commit=end, outcome=outcome))
        self._inherited = tuple(inherited)

    def observations(self) -> list[Observation]:
        """Every run that tells something of this range, in the order in which they ended."""
        skips = [Observation(node, Outcome.SKIP) for node in self._unpinned]
        return [
            *self._inherited,
            *skips,
            *chain.from_iterable(map(self.of_probe, self._finished())),
        ]

    def of_probe(self, probe: ProbeRow) -> Iterable[Observation]:
        """What a run tells of this range: of each commit that has its content."""
        if probe.judgement is not None:
            for node in self._nodes.get(probe.content, ()):
                yield Observation(node, outcome_of(probe.judgement, self.stage.range.seeks), place_of(probe))

    def posterior(self, without: Iterable[int] = ()) -> Posterior:
        """What the runs say, those of some commits set aside."""
        aside = set(without)
        observations = [seen for seen in self.observations() if seen.commit not in aside]
        known, weights = self._posterior, self._forecast.weights()
        if known is None or known.observations != tuple(observations[: len(known.observations)]):
            known = Posterior.start(self.stage.graph, Rates.unknown(), weights=weights)
        elif known.weights is not weights:
            known = replace(known, weights=weights)
        for seen in observations[len(known.observations) :]:
            known = known.observe(seen)
        self._posterior = known
        return known

    def wait_to_begin(self) -> None:
        """Let others go first whose runs promise more."""
        ends = [len(self.experiments.finished(end.content)) for end in (self.old, self.new)]
        missing = sum(max(0, FEWEST_RUNS - runs) for runs in ends)
        self.experiments.company.turn(lambda: self._outlook(self.posterior(), before=missing))

    def search(self) -> Answer:
        """Run what tells most until an answer has the asked confidence. Raises `BudgetSpentError`."""
        answer = self.conduct(self._propose).answer
        assert answer is not None
        return answer

    def conduct(self, propose: Callable[[Sequence[Run]], Proposal]) -> Proposal:
        """Start and cancel runs as `propose(in flight)` says, asked at first and whenever a run is finished
        and stored; the proposal after which nothing is in flight. Raises `BudgetSpentError`."""
        flying: list[tuple[Run, Flight]] = []
        while True:
            proposal = propose([run for run, _ in flying])
            for place in proposal.cancel:
                self.experiments.cancel(flying[place][1])
            flying = [each for place, each in enumerate(flying) if place not in proposal.cancel]
            flying += [(run, self.experiments.begin(self.at(run.node), run.phase)) for run in proposal.start]
            if not flying:
                return proposal
            done = self.experiments.wait()
            flying = [(run, flight) for run, flight in flying if flight.ordinal != done.ordinal]

    def _propose(self, in_flight: Sequence[Run]) -> Proposal:
        """What tells most beside the runs in flight; or the answer."""
        broken_before, doubted = self._broken_before()
        if doubted:
            return self._verify(doubted, in_flight)
        flying, company = [run.node for run in in_flight], self.experiments.company
        if not company.turn(lambda: self._outlook(self.posterior(without=broken_before), flying)):
            return Proposal()
        posterior = self.posterior(without=broken_before)
        decision = next_round(
            posterior,
            confirming=self._confirming(),
            in_flight=flying,
            workers=self.experiments.workers,
            confidence=self.confidence,
            costs=company.costs(self._outlook(posterior, flying)),
            windows=self.stage.windows,
        )
        if not isinstance(decision, Round):
            earlier = tuple(self.stage.collapsed.nodes[node].commit.sha for node in broken_before)
            return Proposal(
                answer=replace(_answer(decision, posterior), earlier_failures=earlier),
                cancel=tuple(range(len(in_flight))),
            )
        if decision.confirming is not None:
            self.progress.confirming(
                float(posterior.belief.commits[decision.confirming]), confirmed_at(self.confidence)
            )
        else:
            self.progress.remaining(_in_play(posterior), decision.expected_steps)
        phase = Phase.SEARCH if decision.confirming is None else Phase.CONFIRM
        return Proposal(start=tuple(Run(node, phase) for node in decision.start), cancel=decision.cancel)

    def _outlook(self, posterior: Posterior, in_flight: Sequence[int] = (), *, before: int = 0) -> Outlook:
        return self._forecast.outlook(
            posterior,
            finished=self._finished(),
            confidence=self.confidence,
            in_flight=in_flight,
            before=before,
        )

    def _confirming(self) -> list[Observation]:
        """The runs that were made to confirm."""
        runs = (probe for probe in self._finished() if probe.phase is Phase.CONFIRM)
        return [*chain.from_iterable(map(self.of_probe, runs))]

    def _finished(self) -> list[ProbeRow]:
        """All finished runs as they ended: with several workers not as they were started."""
        return sorted(self.experiments.in_order(), key=lambda probe: probe.finished or probe.started)

    def _broken_before(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Commits that fail although a later one passes, every time: broken, mended, and broken again.

        And those on both sides of a contradiction that must run again before it is believed.
        """
        good = [seen for seen in self.observations() if seen.commit != GOOD_END]
        try:
            fails = Knowledge.start(self.stage.graph, good).unexplained_fails
        except ValueError:
            return (), ()
        doubted: list[int] = []
        for node in self._contradicting(fails, good):
            runs = self.experiments.finished(self.at(node).content)[:_VERIFYING_RUNS]
            if len({probe.judgement for probe in runs}) > 1:
                return (), ()
            doubted += [node] * (_VERIFYING_RUNS - len(runs))
        return fails, tuple(doubted)

    def _verify(self, doubted: tuple[int, ...], in_flight: Sequence[Run]) -> Proposal:
        """Run those again, as often as they are named, less the runs in flight; what else is in flight goes on."""
        wanted = Counter(doubted)
        wanted.subtract(run.node for run in in_flight)
        free = max(0, self.experiments.workers - len(in_flight))
        return Proposal(start=tuple(Run(node, Phase.CONFIRM) for node in [*wanted.elements()][:free]))

    def _contradicting(self, fails: tuple[int, ...], seen: Iterable[Observation]) -> list[int]:
        """The first commit that passes after a fail, and the last fail before it: if both stand, the rest follows."""
        ancestors = self.stage.graph.ancestors
        passing = sorted({each.commit for each in seen if each.outcome is Outcome.GOOD})
        for commit in passing:
            before = [fail for fail in fails if ancestors(commit)[fail]]
            if before:
                return [commit, max(before)]
        return []


def _answer(decision: Decided, posterior: Posterior) -> Answer:
    match decision:
        case Found(culprit=node):
            return Answer(culprit=node, confidence=float(posterior.belief.commits[node]))
        case OnlySkipped(candidates=suspects):
            return Answer(suspects=suspects, only_skipped=True)
        case Undecided(suspects=suspects):
            return Answer(suspects=suspects)
        case NoCulprit():
            return Answer(no_culprit=True)
        case EnvironmentMoved():
            return Answer(environment_moved=True)


def _in_play(posterior: Posterior) -> int:
    """How many commits are left: those that may be to blame as long as no two runs contradict each other; then those
    with at least a hundredth of the likeliest one's probability."""
    certain = as_if_certain(posterior)
    if certain is not None:
        return int(certain.suspects.sum())
    commits = posterior.belief.commits
    return int(np.sum(commits >= commits.max() / 100))
