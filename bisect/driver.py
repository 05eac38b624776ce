"""The one loop that owns effects: measure the ends, search, confirm, descend, conclude."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..runner.content import StackContent
from ..runner.errors import EndsError
from ..runner.git import GitRepository
from ..runner.golden import FrozenGolden
from ..runner.home import Home
from ..runner.revisions import NoPinError, Revisions
from ..store.journal import Journal
from ..store.schema import Judgement, Outcome, Phase
from .conclusion import Conclusion, Counterfactual, EndRate, NamedCommit
from .ends import measure_ends, prepare_golden
from .experiments import Experiment, Experiments
from .pins import MovedLink, moved_links
from .progress import Progress
from .request import BisectRequest
from .search.knowledge import Knowledge, Observation
from .search.knowledge import Outcome as Tested
from .search.planner import Found, OnlySkipped, next_step
from .search.planner import Probe as ProbeStep
from .stage import Range, Stage, load_stage, note_stage

_CONFIRMING_RUNS = 2
_MISSED_FAILURE = 0.002
"""Chance, at most, that a bad commit of a failure that comes and goes is taken for a good one."""
_BLAME: Mapping[
    tuple[Judgement, Judgement], Literal["submodule", "superproject", "interaction", "either"]
] = {
    (Judgement.GOOD, Judgement.BAD): "submodule",
    (Judgement.BAD, Judgement.GOOD): "superproject",
    (Judgement.GOOD, Judgement.GOOD): "interaction",
    (Judgement.BAD, Judgement.BAD): "either",
}
_TESTED = {Judgement.GOOD: Tested.GOOD, Judgement.BAD: Tested.BAD, Judgement.SKIP: Tested.SKIP}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the search of one stage ended with."""

    stage: Stage
    ordinal: int
    culprit: int | None
    suspects: tuple[int, ...]
    earlier_failures: tuple[str, ...]


class Driver:
    """Runs one bisection to its conclusion. Killed at any instant and run again, it goes on where it was."""

    def __init__(
        self,
        *,
        request: BisectRequest,
        journal: Journal,
        experiments: Experiments,
        repositories: Mapping[str, GitRepository],
        content: StackContent,
        revisions: Revisions,
        home: Home,
        progress: Progress,
    ) -> None:
        self._request = request
        self._journal = journal
        self._experiments = experiments
        self._repositories = repositories
        self._content = content
        self._revisions = revisions
        self._home = home
        self._progress = progress
        self._stages = 0

    def run(self) -> Conclusion:
        """Find the culprit. Raises `UserError` where the question cannot be answered at all."""
        request = self._request
        where = Range(repository=request.repository, good=request.good, bad=request.bad, held={})
        stage, stage_id = self._open(where)
        if stage is None:
            raise EndsError(
                f"{where.good[:12]}..{where.bad[:12]}: expected a commit that can change the result, "
                "found only changes in ignored paths (repositories.*.ignore in the stack file)"
            )
        good = self._experiments.at(stage_id, where.repository, where.good, {})
        bad = self._experiments.at(stage_id, where.repository, where.bad, {})
        golden = prepare_golden(
            request, journal=self._journal, experiments=self._experiments, good=good, store=self._home.golden
        )
        self._use(golden)
        rates = measure_ends(self._experiments, good=good, bad=bad)
        answer = self._search(stage, stage_id)
        return self._conclude(answer, rates)

    def _use(self, golden: FrozenGolden | None) -> None:
        if golden is not None:
            self._experiments.use_golden(golden)

    def _open(self, where: Range) -> tuple[Stage | None, int]:
        """Load a range and note it in the store."""
        stage = load_stage(
            where,
            repository=self._repositories[where.repository],
            content=self._content,
            revisions=self._revisions,
        )
        if stage is None:
            return None, 0
        self._stages += 1
        self._progress.stage(
            where.repository, commits=len(stage.commits), candidates=len(stage.collapsed.nodes)
        )
        return stage, note_stage(self._journal, stage, self._stages)

    def _search(self, stage: Stage, stage_id: int) -> Answer:
        """Narrow a stage until one candidate is confirmed, or no test can tell more."""
        while True:
            knowledge = self._knowledge(stage, stage_id)
            earlier = tuple(stage.collapsed.nodes[node].commit.sha for node in knowledge.unexplained_fails)
            match next_step(knowledge):
                case ProbeStep(commit=node, expected_steps=steps):
                    self._progress.remaining(int(knowledge.suspects.sum()), steps)
                    self._judge(self._at_node(stage, stage_id, node), Phase.SEARCH)
                case OnlySkipped(candidates=candidates):
                    return Answer(
                        stage=stage,
                        ordinal=stage_id,
                        culprit=None,
                        suspects=candidates,
                        earlier_failures=earlier,
                    )
                case Found(culprit=node):
                    if self._confirm(stage, stage_id, node):
                        return Answer(
                            stage=stage,
                            ordinal=stage_id,
                            culprit=node,
                            suspects=(),
                            earlier_failures=earlier,
                        )

    def _knowledge(self, stage: Stage, stage_id: int) -> Knowledge:
        """What all finished runs say about a stage, whichever stage they were made for."""
        observations: list[Observation] = []
        for node in range(len(stage.graph)):
            try:
                judged = self._judged(self._at_node(stage, stage_id, node))
            except NoPinError:
                judged = Judgement.SKIP
            if judged is not None and node != stage.collapsed.bad:
                observations.append(Observation(node, _TESTED[judged]))
        return Knowledge.start(stage.graph, observations)

    def _at_node(self, stage: Stage, stage_id: int, node: int) -> Experiment:
        commit = stage.collapsed.nodes[node].commit.sha
        return self._experiments.at(stage_id, stage.range.repository, commit, stage.range.held)

    def _judged(self, experiment: Experiment) -> Judgement | None:
        """What the runs of an experiment amount to; None while more are needed.

        One failure makes it bad. A pass makes it good where the failure has been the same in every run so far; where it
        comes and goes, as many passes are asked as make a missed failure unlikely.
        """
        tally = self._experiments.tally(experiment.content)
        if tally[Judgement.BAD]:
            return Judgement.BAD
        if tally[Judgement.GOOD] >= self._passes_needed():
            return Judgement.GOOD
        return Judgement.SKIP if tally[Judgement.SKIP] else None

    def _passes_needed(self) -> int:
        failures, runs = self._experiments.failures_where_bad()
        if failures == runs:
            return 1
        misses = 1 - (failures + 0.5) / (runs + 1)
        return math.ceil(math.log(_MISSED_FAILURE) / math.log(misses))

    def _judge(self, experiment: Experiment, phase: Phase) -> Judgement:
        while (judged := self._judged(experiment)) is None:
            self._experiments.run(experiment, phase)
        return judged

    def _confirm(self, stage: Stage, stage_id: int, node: int) -> bool:
        """Run the culprit and its parent side by side. False where that changes what is known."""
        commit = stage.collapsed.nodes[node].commit
        culprit = self._at_node(stage, stage_id, node)
        parent = self._experiments.at(stage_id, stage.range.repository, commit.parents[0], stage.range.held)
        passes = max(_CONFIRMING_RUNS, self._passes_needed())
        while True:
            good, bad = self._experiments.tally(parent.content), self._experiments.tally(culprit.content)
            if good[Judgement.BAD]:
                return False
            lacking = [
                experiment
                for experiment, enough in (
                    (parent, good[Judgement.GOOD] >= passes or good[Judgement.SKIP]),
                    (culprit, bad[Judgement.BAD] >= _CONFIRMING_RUNS),
                )
                if not enough
            ]
            if not lacking:
                return True
            for experiment in lacking:
                self._experiments.run(experiment, Phase.CONFIRM)

    def _conclude(self, answer: Answer, rates: tuple[EndRate, ...]) -> Conclusion:
        stage = answer.stage
        if answer.culprit is None:
            suspects = tuple(self._named(stage, node) for node in answer.suspects)
            return Conclusion(
                outcome=Outcome.ONLY_SKIPPED,
                message=f"the culprit is one of {len(suspects)} commits, of which not enough could be tested",
                suspects=suspects,
                earlier_failures=answer.earlier_failures,
                rates=rates,
            )
        named = self._named(stage, answer.culprit)
        counterfactuals: list[Counterfactual] = []
        for moved in self._moved(named):
            finding = self._counterfactual(answer, named, moved)
            counterfactuals.append(finding)
            if finding.blame == "submodule":
                inner = self._descend(named, moved)
                if inner is not None:
                    return self._conclude_inner(answer, named, inner, counterfactuals, rates)
        return Conclusion(
            outcome=Outcome.CULPRIT,
            message=f"{named.repository} {named.commit} introduced it",
            culprits=(named,),
            earlier_failures=answer.earlier_failures,
            counterfactuals=tuple(counterfactuals),
            rates=rates,
        )

    def _conclude_inner(
        self,
        outer: Answer,
        through: NamedCommit,
        inner: Answer,
        counterfactuals: list[Counterfactual],
        rates: tuple[EndRate, ...],
    ) -> Conclusion:
        """The culprit lies in a submodule whose pin the outer culprit moves."""
        if inner.culprit is None:
            suspects = tuple(self._named(inner.stage, node) for node in inner.suspects)
            return Conclusion(
                outcome=Outcome.ONLY_SKIPPED,
                message=f"{through.repository} {through.commit} brought it in from {inner.stage.range.repository}, "
                f"where the culprit is one of {len(suspects)} commits, of which not enough could be tested",
                through=through,
                suspects=suspects,
                earlier_failures=outer.earlier_failures,
                counterfactuals=tuple(counterfactuals),
                rates=rates,
            )
        named = self._named(inner.stage, inner.culprit)
        return Conclusion(
            outcome=Outcome.CULPRIT,
            message=f"{named.repository} {named.commit} introduced it; "
            f"{through.repository} {through.commit} brought it in",
            culprits=(named,),
            through=through,
            earlier_failures=outer.earlier_failures,
            counterfactuals=tuple(counterfactuals),
            rates=rates,
        )

    def _named(self, stage: Stage, node: int) -> NamedCommit:
        commit = stage.collapsed.nodes[node].commit
        return NamedCommit(
            repository=stage.range.repository,
            commit=commit.sha,
            parent=commit.parents[0] if commit.parents else None,
            confidence=None,
            merge=len(commit.parents) > 1,
        )

    def _moved(self, named: NamedCommit) -> list[MovedLink]:
        if named.parent is None:
            return []
        return moved_links(
            self._request.stack,
            self._revisions,
            repository=named.repository,
            old=named.parent,
            new=named.commit,
        )

    def _counterfactual(self, answer: Answer, named: NamedCommit, moved: MovedLink) -> Counterfactual:
        """Which of the two is to blame: the superproject's own change, or the submodule's move?"""
        target = moved.pin.target
        assert named.parent is not None
        with_old = self._experiments.at(
            answer.ordinal, named.repository, named.commit, {**answer.stage.range.held, target: moved.old}
        )
        with_new = self._experiments.at(
            answer.ordinal, named.repository, named.parent, {**answer.stage.range.held, target: moved.new}
        )
        old_target = self._judge(with_old, Phase.COUNTERFACTUAL)
        new_target = self._judge(with_new, Phase.COUNTERFACTUAL)
        return Counterfactual(
            pin=moved.pin.path,
            repository=target,
            old=moved.old,
            new=moved.new,
            new_holder_old_target=old_target,
            old_holder_new_target=new_target,
            blame=_BLAME.get((old_target, new_target), "unknown"),
        )

    def _descend(self, through: NamedCommit, moved: MovedLink) -> Answer | None:
        """Search the submodule between the two pins, the superproject held at the culprit. None where the old pin is no
        ancestor of the new one, or nothing between them can change the result."""
        target = moved.pin.target
        repository = self._repositories[target]
        if not (repository.has_commit(moved.old) and repository.has_commit(moved.new)):
            return None
        if not repository.is_ancestor(moved.old, moved.new):
            self._progress.notice(
                f"{target} moves from {moved.old[:12]} to {moved.new[:12]}, which does not follow it"
            )
            return None
        stage, stage_id = self._open(
            Range(repository=target, good=moved.old, bad=moved.new, held={through.repository: through.commit})
        )
        return None if stage is None else self._search(stage, stage_id)
