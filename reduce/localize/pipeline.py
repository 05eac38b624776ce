"""The one way of a localization, whatever the failing build is compared with.

    LocalizationRequest -> RecordedBuild -> ExpectedValues -> Findings -> divergence.json

A good build, the same build run otherwise, recorded values and golden outputs alone are references: opened, each tells
what the failing build's tasks should leave, and none of the stages behind asks which it is.
"""

from __future__ import annotations

from pathlib import Path

from ...runner.case.golden import freeze
from ...runner.localization.divergence import Divergence
from ...store.vocabulary import Verdict
from ..output_folder import LocalizationResult, OutputFolder, working_in
from ..replay.recorded_build import RecordedBuild
from ..replay.replay import ReplayError
from ..replay.runnable_build import RunnableBuild
from .investigation import Investigation
from .references.reference import OnProgress
from .report.findings import StallFindings
from .request import LocalizationRequest
from .stalls.stall import StallExamination


def localize(request: LocalizationRequest, *, on_progress: OnProgress) -> Divergence:
    """Find the first divergent tensors and write `divergence.json` and `task_graph.html` to the output folder,
    which keeps logs and dumps below `work/` until the end, or after an error. Nothing else is written to.

    Raises:
        UserError: an input cannot be used, or a build cannot be run.
        BuildOutputError: a part of a build, a recorded tensor, or what a run recorded cannot be read.
    """
    output = OutputFolder(request.output)
    work = output.open(apart_from=(request.failing, *request.reference.folders))
    with working_in(work):
        return output.write(_result(request, work, on_progress))


def _result(request: LocalizationRequest, work: Path, on_progress: OnProgress) -> LocalizationResult:
    data = freeze(request.data, work / "golden").directory
    on_progress("recording the task graph of the failing build")
    try:
        failing = RecordedBuild.open(
            request.failing.resolve(),
            data=data,
            toolchain=request.toolchain,
            folder=work / "failing",
            timeout=request.timeout,
        )
    except ReplayError as error:
        control = request.reference.build
        if error.verdict is not Verdict.STALL or control is None:
            raise
        examination = StallExamination(
            failing=RunnableBuild(path=request.failing, toolchain=request.toolchain),
            control=control,
            data=data,
            folder=work / "stall",
            timeout=request.timeout,
            on_progress=on_progress,
        )
        return StallFindings(request=request, stall=examination.run())
    expected = request.reference.open(
        failing, folder=work / "reference", timeout=request.timeout, on_progress=on_progress
    )
    investigation = Investigation(
        request=request, failing=failing, expected=expected, folder=work / "alone", on_progress=on_progress
    )
    return investigation.run()
