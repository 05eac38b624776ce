"""`reduce --footprints`: a build's tasks, each alone, without any good build to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...runner.case.golden import freeze
from ...runner.localization.footprints import FOOTPRINTS, Footprints
from ...store.files import write_whole
from ..output_folder import OutputFolder
from ..replay.runnable_build import RunnableBuild
from .executor import Executor
from .experiments.experiment import Record, Steps, Tell
from .footprints.choice import representatives
from .footprints.examine import examine


@dataclass(frozen=True, kw_only=True)
class FootprintRequest:
    """What is asked. `golden_data` None: the build's own; `budget` bytes a run may dump; `timeout` seconds of a run."""

    build: RunnableBuild
    golden_data: Path | None
    budget: int
    timeout: float
    output: Path


def footprints(request: FootprintRequest, *, on_progress: Callable[[str], None]) -> Footprints:
    """Find what tasks touch that they were not declared to, and write `footprints.json` to the output folder.

    Raises:
        UserError: the build cannot be run.
        BuildOutputError: a part of it, or what a run recorded, cannot be read.
    """
    output = OutputFolder(request.output)
    with output.open(apart_from=(request.build.path,)) as work:
        data = request.golden_data or request.build.path / "data"
        executor = Executor(
            data=freeze(data, work / "golden").directory,
            folder=work,
            timeout=request.timeout,
            on_progress=on_progress,
        )
        document = executor.execute(_examined(request))
        write_whole(output.path / FOOTPRINTS, document.model_dump_json(indent=2) + "\n")
    return document


def _examined(request: FootprintRequest) -> Steps[Footprints]:
    yield from Tell("recording the task graph of the build")
    build = yield from Record(build=request.build, name="build")
    chosen = representatives(build.tasks.tasks)
    examination = yield from examine(build, chosen, budget=request.budget)
    return Footprints(
        build=str(request.build.path),
        tasks=len(build.tasks),
        examined=len(chosen) - len(examination.not_examined),
        found=tuple(examination.found),
        not_examined=tuple(examination.not_examined),
    )
