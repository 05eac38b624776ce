"""The one way of a localization, whatever the failing build is compared with.

    LocalizationRequest -> RecordedBuild -> ExpectedValues -> Findings -> divergence.json

The investigation decides and runs nothing: it asks for experiments, which the executor makes. A good build, the same
build run otherwise, recorded values and golden outputs alone are references: opened, each tells what the failing
build's tasks should leave, and none of the steps behind asks which it is.
"""

from __future__ import annotations

from collections.abc import Callable

from ...runner.case.golden import freeze
from ...runner.localization.divergence import Divergence
from ..output_folder import OutputFolder
from .executor import Executor
from .investigation.investigation import investigate
from .references.request import LocalizationRequest


def localize(request: LocalizationRequest, *, on_progress: Callable[[str], None]) -> Divergence:
    """Find the first divergent tensors and write `divergence.json` and `task_graph.html` to the output folder,
    which keeps logs and dumps below `work/` until the end, or after an error. Nothing else is written to.

    Raises:
        UserError: an input cannot be used, or a build cannot be run.
        BuildOutputError: a part of a build, a recorded tensor, or what a run recorded cannot be read.
    """
    output = OutputFolder(request.output)
    with output.open(apart_from=(request.failing, *request.reference.folders)) as work:
        executor = Executor(
            data=freeze(request.data, work / "golden").directory,
            folder=work,
            timeout=request.timeout,
            on_progress=on_progress,
        )
        findings = executor.execute(investigate(request))
        document = findings.document()
        output.write(document, findings.page())
    return document
