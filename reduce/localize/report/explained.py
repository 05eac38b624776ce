"""The answer of a localization: the causes of the failure first, then the tensors that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....runner.localization.causes import CaseFailure
from ....runner.localization.divergence import Divergence, Generated, NamedTask
from ....runner.localization.tensors import FirstDivergent
from ..causes.changes import ChangedPart
from ..causes.explanation import Cause, FailureExplanation
from ..references.request import LocalizationRequest
from .cause_document import CauseInTasks, case_failure, changed_part, told_cause
from .findings import Findings


@dataclass(frozen=True, kw_only=True)
class ExplainedFindings:
    """What was found of each of the causes, in their order; where there is none, of the failing build as a whole.

    `explanation` is None where no harness tells what a run puts out.
    """

    request: LocalizationRequest
    explanation: FailureExplanation | None
    parts: tuple[Findings, ...]
    failing_runs: int
    """Of the failing build until the failure was explained."""

    def document(self) -> Divergence:
        """What `divergence.json` holds."""
        explanation, whole = self.explanation, self.parts[0]
        document = whole.document()
        if explanation is None:
            return document
        failure = case_failure(explanation)
        if explanation.passes and not self._failed_in_some_order(document):
            return _of_passing(document, failure)
        if not explanation.causes:
            update = {"failure": failure, "generated": _not_settled(document)}
            return document.model_copy(update=update)
        return self._of_causes(document, explanation, failure)

    def page(self) -> str:
        """The page of the task graph of the build that has the first cause."""
        return self.parts[0].page()

    def _failed_in_some_order(self, document: Divergence) -> bool:
        # Once the good build was run in other orders, what the failing one does in them counts by `schedule` alone.
        compared = any(trial.reference_runs for trial in document.tried)
        return document.schedule is not None or (
            document.race is not None and not compared and any(trial.failed for trial in document.race.trials)
        )

    def _of_causes(
        self, document: Divergence, explanation: FailureExplanation, failure: CaseFailure
    ) -> Divergence:
        shown = [
            (cause, part, part.document())
            for cause, part in zip(explanation.causes, self.parts, strict=False)
        ]
        in_tasks = [
            CauseInTasks.of(
                cause, part.failing, part.expected.good, [divergent for divergent, _ in part.attributed.pairs]
            )
            for cause, part, _ in shown
        ]
        causes = [
            told_cause(
                cause,
                each,
                found.first_divergent,
                unwritten=explanation.unwritten,
                identical=explanation.identical,
                beside=part.beside,
            )
            for (cause, part, found), each in zip(shown, in_tasks, strict=True)
        ]
        tensors: list[FirstDivergent] = []
        for number, ((_, _, found), each) in enumerate(zip(shown, in_tasks, strict=True), start=1):
            tensors += [
                tensor.model_copy(update={"cause": number})
                for tensor in each.classified(found.first_divergent)
            ]
        others = explanation.causes[len(shown) :]
        return document.model_copy(
            update={
                "failure": failure,
                "generated": _due_to(document.generated, explanation.causes[0]),
                "causes": (*causes, *(told_cause(cause, None, ()) for cause in others)),
                "cleared": tuple(changed_part(change) for change in explanation.cleared),
                "first_divergent": tuple(tensors),
                "not_shown": tuple(task for _, _, found in shown for task in found.not_shown),
                "downstream": tuple(task for _, _, found in shown for task in found.downstream),
                "runs": self._runs(explanation.causes[: len(shown)], [found for _, _, found in shown]),
            }
        )

    def _runs(self, causes: Sequence[Cause], documents: Sequence[Divergence]) -> int:
        """Of the failing build, and of the good one with changes of it."""
        explanation = self.explanation
        assert explanation is not None
        made = {id(cause.subject) for cause in causes}
        others = sum(1 for trial in explanation.made if trial.build is None or id(trial.build) not in made)
        searched = sum(document.runs for document in documents)
        failing_apart = all(
            cause.subject is None or cause.subject.build != self.request.failing.resolve() for cause in causes
        )
        return searched + others + (self.failing_runs if failing_apart else 0)


def _not_settled(document: Divergence) -> Generated | None:
    """That sources differ settles nothing where the good build fails too."""
    if document.generated is None or document.in_turns is None or not document.in_turns.may_be_of_both:
        return document.generated
    shown = "the good build was not shown not to fail in this order too"
    return document.generated.model_copy(update={"origin": None, "shown": shown})


def _due_to(generated: Generated | None, cause: Cause) -> Generated | None:
    """Who is at fault, as the first cause shows it."""
    if generated is None or not cause.shown:
        return generated
    runtime = any(change.part is ChangedPart.RUNTIME for change in cause.changes)
    sources = ", ".join(dict.fromkeys(change.file for change in cause.changes if change.file))
    shown = (
        "the good build's sources fail when the failing build's runtime runs them"
        if runtime
        else f"put alone into the good build, what was generated differently in {sources} makes it fail"
    )
    return generated.model_copy(update={"origin": "runtime" if runtime else "compiler", "shown": shown})


def _of_passing(document: Divergence, failure: CaseFailure) -> Divergence:
    """Nobody is blamed: what differs is within the tolerance."""
    differing = (
        NamedTask(task_id=tensor.task_id, kernel=tensor.kernel) for tensor in document.first_divergent
    )
    return document.model_copy(
        update={
            "failure": failure,
            "first_divergent": (),
            "not_shown": (),
            "downstream": (),
            "rounding": tuple(dict.fromkeys((*document.rounding, *differing, *document.not_shown))),
        }
    )
