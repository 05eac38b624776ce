"""The one loop that owns effects: measure the ends, search, confirm, descend, conclude."""

from collections.abc import Mapping, Sequence

import numpy as np

from ...runner.errors import EndsError
from ...runner.git.cherry_picks import patches_in
from ...runner.git.revisions import Revisions
from ...runner.workspace.content import StackContent
from ...runner.workspace.home import Home
from ...runner.workspace.workspace import Workspace
from ...store.journal import Journal
from ...store.vocabulary import BisectionOutcome, Judgement, Phase, Seeks
from ..commits.descent import descent
from ..commits.stage import Range, Stage, load_stage, note_stage, outcome_of
from ..plan.pins import MovedPin, moved_pins, pin_records
from ..plan.request import BisectRequest
from ..result import Blame, Conclusion, Counterfactual, NamedCommit
from ..search.evidence.knowledge import Outcome as Shown
from .company import BudgetSpentError
from .ends import measure_ends, prepare_golden
from .experiments import Experiments
from .good_end import GoodEndSearch
from .judging import judge
from .progress import Progress
from .stage_search import Answer, StageSearch

_BLAME: Mapping[tuple[Shown, Shown], Blame] = {
    (Shown.GOOD, Shown.BAD): "submodule",
    (Shown.BAD, Shown.GOOD): "superproject",
    (Shown.GOOD, Shown.GOOD): "interaction",
    (Shown.BAD, Shown.BAD): "either",
}


class Driver:
    """Runs one bisection to its conclusion. Killed at any instant and run again, it goes on where it was."""

    def __init__(
        self,
        *,
        request: BisectRequest,
        journal: Journal,
        experiments: Experiments,
        workspace: Workspace,
        content: StackContent,
        revisions: Revisions,
        home: Home,
        progress: Progress,
    ) -> None:
        self._request = request
        self._journal = journal
        self._experiments = experiments
        self._workspace = workspace
        self._content = content
        self._revisions = revisions
        self._home = home
        self._progress = progress
        self._stages = 0
        self._searched: StageSearch | None = None
        """The innermost range so far."""

    def run(self) -> Conclusion:
        """Find the culprit, or what is known of it when the budget is spent. Raises `UserError` where the question
        cannot be answered at all."""
        try:
            return self._run()
        except BudgetSpentError as error:
            return _budget_spent(self._searched, str(error))

    def _run(self) -> Conclusion:
        request = self._request
        old, new = self._good_end(), request.bad
        if request.seeks is Seeks.FIX:
            old, new = new, old
        where = Range(
            repository=request.repository,
            old=old,
            new=new,
            held=request.frozen,
            seeks=request.seeks,
            first_parent=request.first_parent,
        )
        clone = self._workspace.clones[request.repository]
        picked = (clone.commit(pick.commit) for pick in request.cherry_picks)
        self._journal.add_commits(request.repository, picked)
        search = self._open(where)
        if search is None:
            raise EndsError(
                f"{where.old[:12]}..{where.new[:12]}: expected a commit that can change the result, "
                "found only changes in ignored paths (repositories.*.ignore in the stack file)"
            )
        search.wait_to_begin()
        golden = prepare_golden(
            request,
            journal=self._journal,
            experiments=self._experiments,
            good=search.passing,
            store=self._home.golden,
        )
        if golden is not None:
            self._experiments.use_golden(golden)
        rates = measure_ends(search)
        self._experiments.use_error_scale(search.failing)
        conclusion = self._conclude(search, search.search())
        pins = pin_records(
            request.stack,
            self._revisions.pins,
            good=search.passing.revisions,
            bad=search.failing.revisions,
            frozen=request.frozen,
        )
        return conclusion.model_copy(update={"rates": rates, "pins": pins})

    def _good_end(self) -> str:
        request = self._request
        if request.gallop is None:
            return request.good
        repository = self._workspace.clones[request.repository]
        self._journal.add_commits(request.repository, [repository.commit(request.bad)])
        stage = self._journal.stage(
            ordinal=1,
            repository=request.repository,
            seeks=request.seeks,
            old=request.good,
            new=request.bad,
            held=request.frozen,
            candidates=(),
        )
        good = GoodEndSearch(
            request,
            journal=self._journal,
            experiments=self._experiments,
            repository=repository,
            golden_store=self._home.golden,
            progress=self._progress,
        ).find(stage)
        self._journal.set_good(good)
        return good

    def _open(self, where: Range) -> StageSearch | None:
        """Load a range and note it in the store. None where nothing in it can change a result."""
        stage = load_stage(
            where,
            repository=self._workspace.clones[where.repository],
            content=self._content,
            revisions=self._revisions,
        )
        if stage is None:
            return None
        self._stages += 1
        clone = self._workspace.clones[where.repository]
        ends = [clone.commit(sha) for sha in (where.old, where.new)]
        self._journal.add_commits(where.repository, ends)
        self._progress.stage(
            where.repository, commits=len(stage.commits), candidates=len(stage.collapsed.nodes)
        )
        self._searched = StageSearch(
            stage=stage,
            stage_id=note_stage(self._journal, stage, self._stages),
            experiments=self._experiments,
            progress=self._progress,
            confidence=self._request.confidence,
        )
        return self._searched

    def _conclude(self, search: StageSearch, answer: Answer) -> Conclusion:
        if answer.culprit is None:
            return _without_culprit(search.stage, answer)
        named = named_commit(search.stage, answer.culprit, answer.confidence)
        counterfactuals: list[Counterfactual] = []
        for moved in self._moved(named):
            finding = self._counterfactual(search, named, moved)
            counterfactuals.append(finding)
            if finding.blame == "submodule":
                inner = self._descend(search, answer, named, moved)
                if inner is not None:
                    return inner.model_copy(
                        update={
                            "counterfactuals": (*counterfactuals, *inner.counterfactuals),
                            "earlier_failures": (*inner.earlier_failures, *answer.earlier_failures),
                        }
                    )
        self._doubt_patches(named)
        return Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message=f"{_did(named, search.stage.range.seeks)}{_by_pins(counterfactuals)}",
            culprits=(named,),
            earlier_failures=answer.earlier_failures,
            counterfactuals=tuple(counterfactuals),
        )

    def _doubt_patches(self, named: NamedCommit) -> None:
        """Say so where a commit and its parent were not tested with the same patches."""
        if named.repository != self._request.repository or named.parent is None:
            return
        patches = [
            patches_in(self._revisions.complete({named.repository: sha}), named.repository)
            for sha in (named.commit, named.parent)
        ]
        if patches[0] != patches[1]:
            sides = (", ".join(sha[:12] for sha in picked) or "none" for picked in patches)
            text = f"cherry-picked on top of {named.commit[:12]}: {{}}; of its parent: {{}}".format(*sides)
            text += ". The patch may be what changes the result between them"
            self._journal.add_notice(text)
            self._progress.notice(text)

    def _moved(self, named: NamedCommit) -> list[MovedPin]:
        if named.parent is None:
            return []
        return moved_pins(
            self._request.stack,
            self._revisions.pins,
            repository=named.repository,
            old=named.parent,
            new=named.commit,
        )

    def _counterfactual(self, search: StageSearch, named: NamedCommit, moved: MovedPin) -> Counterfactual:
        """Which of the two is to blame: the superproject's own change, or the pin's move?"""
        target, held = moved.held_name, search.stage.range.held
        assert named.parent is not None
        judged: list[Judgement] = []
        for commit, pinned in ((named.commit, moved.old), (named.parent, moved.new)):
            experiment = self._experiments.at(
                search.stage_id, named.repository, commit, {**held, target: pinned}
            )
            judged.append(judge(self._experiments, experiment, Phase.COUNTERFACTUAL))
        old_target, new_target = judged
        seeks = search.stage.range.seeks
        blame: Blame = _BLAME.get((outcome_of(old_target, seeks), outcome_of(new_target, seeks)), "unknown")
        if blame == "submodule" and target not in self._request.stack.repositories:
            blame = "version"
        return Counterfactual(
            pin=moved.path,
            repository=target,
            old=moved.old,
            new=moved.new,
            new_holder_old_target=old_target,
            old_holder_new_target=new_target,
            blame=blame,
        )

    def _descend(
        self, outer: StageSearch, answer: Answer, named: NamedCommit, moved: MovedPin
    ) -> Conclusion | None:
        """Search the pinned repository for what the pin's move brought in or took away, with the commit that moves it
        held. None where there is nothing to search."""
        target, above = moved.held_name, outer.stage.range
        for sha in (moved.old, moved.new):
            self._workspace.ensure_commit(target, sha)
        held = {**above.held, named.repository: named.commit}

        def judged(sha: str) -> Judgement:
            swapped = self._experiments.at(
                outer.stage_id, named.repository, named.commit, {**above.held, target: sha}
            )
            return judge(self._experiments, swapped, Phase.COUNTERFACTUAL)

        found = descent(
            self._workspace.clones[target],
            target=target,
            old=moved.old,
            new=moved.new,
            held=held,
            seeks=above.seeks,
            judge=judged,
        )
        if isinstance(found, str):
            text = f"{target} moves from {moved.old[:12]} to {moved.new[:12]}, {found}: not searched"
            self._journal.add_notice(text)
            self._progress.notice(text)
            return None
        search = self._open(found.range)
        if search is None:
            return None
        assert answer.culprit is not None
        search.inherit(outer, answer.culprit, old_pin=moved.old, new_pin=moved.new)
        inner = self._conclude(search, search.search())
        if found.range.seeks is above.seeks:
            return inner.model_copy(update={"through": inner.through or named})
        return _took_away(named, moved, inner, above.seeks, diverged=found.base is not None)


def _did(named: NamedCommit, seeks: Seeks) -> str:
    """What the commit that is named did."""
    verb = "introduced" if seeks is Seeks.REGRESSION else "fixed"
    return f"{named.repository} {named.commit} {verb} it"


def _took_away(
    named: NamedCommit, moved: MovedPin, inner: Conclusion, seeks: Seeks, *, diverged: bool
) -> Conclusion:
    """The answer where a pin's move took away what `inner` found: nothing in the pinned repository did it."""
    how = "to another line" if diverged else "back"
    what = "fix" if seeks is Seeks.REGRESSION else "fault"
    move = f"by moving {moved.held_name} {how}, from {moved.old[:12]} to {moved.new[:12]}"
    lost = next(iter(inner.culprits), None)
    which = f"the {what} {lost.repository} {lost.commit}" if lost else f"a {what} that could not be named"
    return Conclusion(
        outcome=BisectionOutcome.CULPRIT,
        message=f"{_did(named, seeks)} {move}, which takes away {which}",
        culprits=(named,),
        lost=lost,
        counterfactuals=inner.counterfactuals,
    )


def _by_pins(findings: Sequence[Counterfactual]) -> str:
    """What the pins that the culprit moves have to do with it, behind the sentence that names it."""
    said = {
        "submodule": "by moving {0}",
        "version": "by moving {0}",
        "superproject": "by its own change, not by moving {0}",
        "interaction": "by its own change and moving {0} together, neither of which does it alone",
        "either": "by its own change, and by moving {0}: each does it alone",
        "unknown": "by its own change, or by moving {0}: they could not be told apart",
    }
    parts = [
        said[each.blame].format(f"{each.repository} from {each.old[:12]} to {each.new[:12]}")
        for each in findings
    ]
    return f", {'; '.join(parts)}" if parts else ""


def named_commit(stage: Stage, node: int, confidence: float | None) -> NamedCommit:
    """A candidate as it is reported."""
    commit = stage.collapsed.nodes[node].commit
    return NamedCommit(
        repository=stage.range.repository,
        commit=commit.sha,
        parent=commit.parents[0] if commit.parents else None,
        confidence=confidence,
        merge=len(commit.parents) > 1,
    )


def _without_culprit(stage: Stage, answer: Answer) -> Conclusion:
    """What is said where no commit is named."""
    repository = stage.range.repository
    what = "culprit" if stage.range.seeks is Seeks.REGRESSION else "fix"
    suspects = tuple(named_commit(stage, node, None) for node in answer.suspects)
    if answer.environment_moved:
        outcome, message = (
            BisectionOutcome.NO_CULPRIT,
            "the environment moved while it was searched: no commit explains the runs",
        )
    elif answer.no_culprit:
        outcome, message = (
            BisectionOutcome.NO_CULPRIT,
            f"no commit of {repository} in the range explains the runs",
        )
    elif answer.only_skipped:
        outcome = BisectionOutcome.ONLY_SKIPPED
        message = (
            f"the {what} is one of {len(suspects)} commits of {repository}, of which too few could be tested"
        )
    else:
        outcome = BisectionOutcome.SUSPECT
        message = f"the {what} is probably one of {len(suspects)} commits of {repository}"
    return Conclusion(
        outcome=outcome, message=message, suspects=suspects, earlier_failures=answer.earlier_failures
    )


def _budget_spent(search: StageSearch | None, why: str) -> Conclusion:
    """What is known when no run may start: the fewest candidates that hold the culprit with the asked confidence."""
    if search is None:
        return Conclusion(outcome=BisectionOutcome.BUDGET, message=why)
    chances = search.posterior().belief.commits
    order = np.argsort(-chances, kind="stable")
    reached = np.cumsum(chances[order]) >= search.confidence
    credible = order[: int(np.argmax(reached)) + 1] if reached.any() else order
    suspects = tuple(named_commit(search.stage, int(node), float(chances[node])) for node in credible)
    return Conclusion(
        outcome=BisectionOutcome.BUDGET,
        message=f"{len(suspects)} commits of {search.stage.range.repository} are left: {why}",
        suspects=suspects,
    )
