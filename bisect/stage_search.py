"""Search one range: ask the posterior what to run next, run it, until one hypothesis has the asked confidence."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from ..store.schema import Judgement, Phase, Probe
from .experiments import Experiment, Experiments
from .progress import Progress
from .search.decision import EnvironmentMoved, NoCulprit, Undecided, as_if_certain, next_run
from .search.knowledge import Knowledge, Observation, Outcome
from .search.planner import Found as FoundCommit
from .search.planner import OnlySkipped, next_step
from .search.planner import Probe as RunCommit
from .search.posterior import GOOD_END, Posterior
from .search.rates import Rates
from .search.windows import sidestep, undoing
from .stage import Stage

_VERIFYING_RUNS = 3
"""Of two commits whose verdicts contradict each other, before the range counts as broken twice."""

_FEWEST_CONFIRMING_RUNS = 2
_OUTCOMES = {Judgement.GOOD: Outcome.GOOD, Judgement.BAD: Outcome.BAD, Judgement.SKIP: Outcome.SKIP}


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

    def __post_init__(self) -> None:
        nodes: dict[str, tuple[int, ...]] = {self.good.content: (GOOD_END,)}
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
    def good(self) -> Experiment:
        """The good end."""
        where = self.stage.range
        return self.experiments.at(self.stage_id, where.repository, where.good, where.held)

    @property
    def bad(self) -> Experiment:
        """The bad end."""
        where = self.stage.range
        return self.experiments.at(self.stage_id, where.repository, where.bad, where.held)

    def at(self, node: int) -> Experiment:
        """A candidate, or the good end."""
        if node == GOOD_END:
            return self.good
        where = self.stage.range
        commit = self.stage.collapsed.nodes[node].commit.sha
        return self.experiments.at(self.stage_id, where.repository, commit, where.held)

    def inherit(self, outer: "StageSearch", culprit: int) -> None:
        """Take over what the runs of an outer range tell of this one's ends, now that its culprit is known: commits
        from the culprit on are bad, the others good."""
        inherited: list[Observation] = []
        ancestors = outer.stage.graph.ancestors
        for probe in outer.experiments.in_order():
            for seen in outer.of_probe(probe):
                bad = seen.commit != GOOD_END and bool(ancestors(seen.commit)[culprit])
                broken_before = seen.outcome is Outcome.BAD and not bad
                if probe.content not in self._nodes and not broken_before:
                    inherited.append(replace(seen, commit=self.stage.graph.bad if bad else GOOD_END))
        self._inherited = tuple(inherited)

    def observations(self) -> list[Observation]:
        """Every run that tells something of this range, in the order of the runs."""
        skips = [Observation(node, Outcome.SKIP) for node in self._unpinned]
        return [
            *self._inherited,
            *skips,
            *chain.from_iterable(map(self.of_probe, self.experiments.in_order())),
        ]

    def of_probe(self, probe: Probe) -> Iterable[Observation]:
        """What a run tells of this range: of each commit that has its content."""
        if probe.judgement is not None:
            for node in self._nodes.get(probe.content, ()):
                yield Observation(node, _OUTCOMES[probe.judgement])

    def posterior(self, without: Iterable[int] = ()) -> Posterior:
        """What the runs say, those of some commits set aside."""
        aside = set(without)
        observations = [seen for seen in self.observations() if seen.commit not in aside]
        return Posterior.start(self.stage.graph, Rates.unknown(), observations=observations)

    def search(self) -> Answer:
        """Run what tells most until an answer has the asked confidence."""
        while True:
            broken_before = self._broken_before()
            earlier = tuple(self.stage.collapsed.nodes[node].commit.sha for node in broken_before)
            posterior = self.posterior(without=broken_before)
            knowledge = as_if_certain(posterior)
            certain = knowledge is not None
            answer = self._step(knowledge, posterior) if certain else self._step_under_noise(posterior)
            if answer is not None:
                return replace(answer, earlier_failures=earlier)

    def _step(self, knowledge: Knowledge, posterior: Posterior) -> Answer | None:
        """One step while no two runs contradict each other: halve the range, then confirm what is left."""
        match next_step(knowledge):
            case RunCommit(commit=node, expected_steps=steps):
                self.progress.remaining(int(knowledge.suspects.sum()), steps)
                chosen = sidestep(knowledge, node, self.stage.windows)
                self.experiments.run(self.at(chosen), Phase.SEARCH)
                return None
            case OnlySkipped(candidates=suspects):
                return Answer(suspects=suspects, only_skipped=True)
            case FoundCommit(culprit=node):
                end = undoing(self.stage.windows, knowledge, node)
                if end is None:
                    return self._confirm(node, posterior)
                self.experiments.run(self.at(end), Phase.SEARCH)
                return None

    def _confirm(self, culprit: int, posterior: Posterior) -> Answer | None:
        """Run culprit and parent in turns until the posterior is sure enough."""
        confidence = float(posterior.belief.commits[culprit])
        parent = self._parent(culprit, posterior)
        runs = {node: len(self.experiments.finished(self.at(node).content)) for node in (parent, culprit)}
        if confidence >= self.confidence and min(runs.values()) >= _FEWEST_CONFIRMING_RUNS:
            return Answer(culprit=culprit, confidence=confidence)
        self.progress.confirming(confidence, self.confidence)
        self.experiments.run(self.at(min(runs, key=runs.__getitem__)), Phase.CONFIRM)
        return None

    def _parent(self, culprit: int, posterior: Posterior) -> int:
        """The commit to confirm the culprit against: its first testable parent, or the good end."""
        testable = [node for node in self.stage.graph.parents[culprit] if node not in posterior.skipped]
        return testable[0] if testable else GOOD_END

    def _step_under_noise(self, posterior: Posterior) -> Answer | None:
        """One step once runs have contradicted each other: by information, whatever commit that is."""
        match next_run(posterior, confidence=self.confidence):
            case RunCommit(commit=node, expected_steps=steps):
                self.progress.remaining(self._in_play(posterior), steps)
                self.experiments.run(self.at(node), Phase.SEARCH)
                return None
            case FoundCommit(culprit=node):
                return Answer(culprit=node, confidence=float(posterior.belief.commits[node]))
            case OnlySkipped(candidates=suspects):
                return Answer(suspects=suspects, only_skipped=True)
            case Undecided(suspects=suspects):
                return Answer(suspects=suspects)
            case NoCulprit():
                return Answer(no_culprit=True)
            case EnvironmentMoved():
                return Answer(environment_moved=True)

    def _broken_before(self) -> tuple[int, ...]:
        """Commits that fail although a later one passes, every time: broken, mended, and broken again.

        Both sides of each contradiction are rerun before it is believed.
        """
        good = [seen for seen in self.observations() if seen.commit != GOOD_END]
        try:
            fails = Knowledge.start(self.stage.graph, good).unexplained_fails
        except ValueError:
            return ()
        for node in self._contradicting(fails, good):
            experiment = self.at(node)
            outcome = self.experiments.finished(experiment.content)[-1].judgement
            for runs in range(1, _VERIFYING_RUNS + 1):
                if self.experiments.ensure(experiment, Phase.CONFIRM, runs=runs)[-1].judgement != outcome:
                    return ()
        return fails

    def _contradicting(self, fails: tuple[int, ...], seen: Iterable[Observation]) -> list[int]:
        """The first commit that passes after a fail, and the last fail before it: if both stand, the rest follows."""
        ancestors = self.stage.graph.ancestors
        passing = sorted({each.commit for each in seen if each.outcome is Outcome.GOOD})
        for commit in passing:
            before = [fail for fail in fails if ancestors(commit)[fail]]
            if before:
                return [commit, max(before)]
        return []

    def _in_play(self, posterior: Posterior) -> int:
        """How many commits are left: those with at least a hundredth of the likeliest one's probability."""
        commits = posterior.belief.commits
        return int(np.sum(commits >= commits.max() / 100))
