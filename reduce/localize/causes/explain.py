"""The steps from a failing run to what makes it fail: its outputs first, then the changes that can be told apart."""

from __future__ import annotations

from typing import Protocol

from ....runner.build_output.golden_data import GoldenData, TensorFolder
from ....store.vocabulary import Verdict
from ....store.words import plural
from ...replay.recorded_build import RecordedBuild
from ...replay.runnable_build import RunnableBuild
from ..experiments.experiment import Steps, Tell
from ..references.reference import ExpectedValues
from ..references.request import LocalizationRequest
from .changes import BuildChanges, Change
from .coverage import last_writers, unwritten
from .data_changes import data_changes
from .explanation import Cause, FailureExplanation
from .failure import OutputJudge, WrongOutputs
from .interventions import OnEnding, OnOutputs
from .suspicion import reached_from, suspected

_SAME_FAILURE = 0.5
"""A build that shows more than this share of a failure fails alike."""


class JudgedRun(Protocol):
    """A run of the failing build with its outputs, None where no harness tells them."""

    @property
    def build(self) -> RecordedBuild:
        """The build that was run."""
        ...

    @property
    def judge(self) -> OutputJudge:
        """What tells which outputs are wrong."""
        ...

    @property
    def outputs(self) -> TensorFolder | None:
        """What the run put out."""
        ...

    @property
    def schedule(self) -> str | None:
        """The schedule of the stack file that it ran under."""
        ...

    @property
    def may_be_of_both(self) -> bool:
        """Whether the good build fails in this order too, or was not shown not to."""
        ...

    @property
    def passes_that_tell(self) -> int:
        """How often a build has to pass until it is taken for one without the failure."""
        ...


def explain(
    request: LocalizationRequest, run: JudgedRun, expected: ExpectedValues
) -> Steps[FailureExplanation | None]:
    """Judge the outputs; where a good build tells what else could be, find the changes that make the failure. None
    where no harness tells what a run puts out.

    Raises:
        BuildOutputError: a source, or an expected output, cannot be read.
    """
    if run.outputs is None:
        return None
    failing, judge = run.build, run.judge
    failure = judge.failure(run.outputs)
    if not failure:
        return FailureExplanation(judge=judge, failure=failure)
    yield from Tell(_in_words(failure))
    good = expected.good
    uncovered = unwritten(failure, failing, good)
    if good is None or request.reference.build is None:
        return FailureExplanation(judge=judge, failure=failure, unwritten=uncovered)
    if data := _data_at_fault(request, judge, failure, good):
        cause = Cause(changes=data, effect=1.0, subject=failing, shown=True)
        return FailureExplanation(judge=judge, failure=failure, causes=(cause,), unwritten=uncovered)
    if run.may_be_of_both:
        return FailureExplanation(judge=judge, failure=failure, unwritten=uncovered)
    changes = _changes(request, request.reference.build)
    interventions = OnOutputs(
        changes=changes,
        passes=run.passes_that_tell,
        schedule=run.schedule,
        failing=failing,
        good=good,
        outputs=run.outputs,
        failure=failure,
        judge=judge,
    )
    sets = suspected(changes.changes, failing.tasks, good.tasks, _reaching(failure, failing))
    causes = yield from interventions.causes(sets)
    blamed = {change for cause in causes for change in cause.changes}
    return FailureExplanation(
        judge=judge,
        failure=failure,
        causes=causes,
        cleared=tuple(change for change in changes.changes if change not in blamed),
        made=tuple(interventions.made.values()),
        unwritten=uncovered,
        identical=not changes.of_sources,
    )


def explain_ending(
    request: LocalizationRequest, reference: RunnableBuild, verdict: Verdict
) -> Steps[tuple[Cause, ...]]:
    """The changes that make the good build end as the failing one does, by `verdict`, before it gets to its outputs.

    Raises `BuildOutputError` where a source cannot be read.
    """
    changes = _changes(request, reference)
    interventions = OnEnding(changes=changes, verdict=verdict)
    return (yield from interventions.causes([frozenset({change}) for change in changes.changes]))


def _changes(request: LocalizationRequest, reference: RunnableBuild) -> BuildChanges:
    return BuildChanges.of(RunnableBuild(path=request.failing, toolchain=request.toolchain), reference)


def _data_at_fault(
    request: LocalizationRequest, judge: OutputJudge, failure: WrongOutputs, good: RecordedBuild
) -> tuple[Change, ...]:
    """Frozen data that the good build has otherwise, where it shows the same failure on the failing build's."""
    if request.golden_data is not None or good.outputs is None:
        return ()
    data = data_changes(request.failing / "data", good.build / "data")
    return data if data and failure.share_in(judge.failure(good.outputs)) > _SAME_FAILURE else ()


def judge_of(request: LocalizationRequest, failing: RecordedBuild, expected: ExpectedValues) -> OutputJudge:
    """What tells which outputs of a run are wrong. Raises `BuildOutputError` where an expected one cannot be read.

    The tolerance is not fitted to a good build whose frozen data are others: what it is off by is theirs.
    """
    good = expected.good
    other_data = (
        good is not None
        and request.golden_data is None
        and bool(data_changes(request.failing / "data", good.build / "data"))
    )
    compared = request.tolerance if request.tolerance.rtol or request.tolerance.atol else None
    return OutputJudge.of(
        GoldenData.open(failing.data).outputs,
        request.harness or compared,
        expected.outputs if expected.runs and not other_data else None,
        default=failing.tolerance,
    )


def _reaching(failure: WrongOutputs, failing: RecordedBuild) -> set[int]:
    """The tasks whose results reach a wrong element; none where not all writers are known."""
    writers = last_writers(failing, {name: each.wrong for name, each in failure.outputs.items()})
    if writers.keys() != failure.outputs.keys() or any(each.unwritten.any() for each in writers.values()):
        return set()
    return reached_from(failing.tasks, {ordinal for each in writers.values() for ordinal in each.ordinals})


def _in_words(failure: WrongOutputs) -> str:
    outputs = ", ".join(
        f"{output.name} ({output.elements} of {plural(output.wrong.size, 'element')})"
        for output in failure.outputs.values()
    )
    return f"the case fails in {outputs}"
