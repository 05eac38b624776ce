"""python -m precision_bisect.reduce.handover JOB.json: what `bisect-precision` hands over, with its exit codes.

The job is a `runner.localization.job.LocalizationJob`. Progress goes to standard error, results to the job's folders.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..runner.build_output.build_directory import BuildDirectory
from ..runner.build_output.files.errors import BuildOutputError
from ..runner.build_output.kernel_config import KernelConfig
from ..runner.compare.statistics.statistics import Tolerance
from ..runner.errors import UserError
from ..runner.localization.answer import read_divergence
from ..runner.localization.divergence import Divergence
from ..runner.localization.job import LocalizationJob, SceneCase
from ..runner.process.fork_servers import ForkServers
from ..store.documents.document import read_document
from ..store.documents.versions import DocumentError
from ..store.files import make_ignored_folder
from .localize.pipeline import localize
from .localize.references.builds import GoodBuild
from .localize.references.request import LocalizationRequest
from .output_folder import OutputFolder
from .replay.runnable_build import RunnableBuild
from .replay.toolchain import Toolchain
from .scene.as_builds import SceneBuilds, YardstickMovedError, scenes_as_builds
from .scene.dumps import DumpedRun, compare_dumps
from .scene.own_run import OwnRun
from .shrink.pipeline import shrink
from .shrink.request import ShrinkRequest

FOUND, ERROR, NOTHING_DIVERGES = 0, 1, 3
_BUDGET = 256 << 20
_ATTEMPTS = 8
_EXACT = Tolerance()


def main(file: Path) -> int:
    """Do the job; 0 found, 1 error, 3 nothing diverges."""
    try:
        job = read_document(LocalizationJob, json.loads(file.read_bytes()))
        with ForkServers(on_refusal=_say) as servers:
            return _run(job, servers)
    except (UserError, DocumentError, BuildOutputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR


def _run(job: LocalizationJob, servers: ForkServers) -> int:
    failing, reference = (
        RunnableBuild(path=side.build, toolchain=Toolchain.of_build(side, job.platform, job.device, servers))
        for side in (job.failing, job.reference)
    )
    if job.scene is None:
        return _compare_builds(job, failing, reference, job.golden_data)
    sides = failing.toolchain, reference.toolchain
    try:
        builds = scenes_as_builds(
            failing,
            reference,
            job.scene,
            folder=job.output.with_name("scenes"),
            on_progress=lambda text: _say(f"localizing: {text}"),
        )
        code = _compare_builds(
            job, replace(failing, path=builds.failing), replace(reference, path=builds.reference), builds.data
        )
    except YardstickMovedError:
        raise
    except (UserError, BuildOutputError) as error:
        # It may not be understood as a program, or its graph list no tasks: what it dumps is compared all the same.
        _say(f"localizing: {error}")
        return _write_dumped(job, _compared_dumps(job, job.scene, *sides))
    found = read_divergence(job.output)
    if found is not None and found.causes and not found.first_divergent and found.stall is None:
        _add_dumped(job, job.scene, found, builds, *sides)
    return code


def _add_dumped(
    job: LocalizationJob,
    scene: SceneCase,
    found: Divergence,
    builds: SceneBuilds,
    failing: Toolchain,
    reference: Toolchain,
) -> None:
    """Where causes are known, and no tensor was compared: a prepared graph may not be dumped as a build directory."""
    configs = tuple(BuildDirectory.open(each).kernel_config() for each in (builds.failing, builds.reference))
    try:
        dumped = _compared_dumps(job, scene, failing, reference, configs=configs)
    except (UserError, BuildOutputError) as error:
        _say(f"localizing: {error}")
        return
    only = 1 if len(found.causes) == 1 else None
    tensors = tuple(each.model_copy(update={"cause": only}) for each in dumped.first_divergent)
    _write_dumped(job, found.model_copy(update={"first_divergent": tensors}))


def _compare_builds(
    job: LocalizationJob, failing: RunnableBuild, reference: RunnableBuild, data: Path | None
) -> int:
    divergence = localize(
        LocalizationRequest(
            failing=failing.path,
            toolchain=failing.toolchain,
            reference=GoodBuild(path=reference.path, toolchain=reference.toolchain),
            golden_data=data,
            tolerance=_EXACT,
            harness=_case_tolerance(job),
            budget=_BUDGET,
            attempts=_ATTEMPTS,
            timeout=job.timeout,
            output=job.output,
            by_hand=job.scene is not None,
        ),
        on_progress=lambda text: _say(f"localizing: {text}"),
    )
    if not divergence.explained:
        return NOTHING_DIVERGES
    if job.reduce_to is not None and divergence.stall is None:
        shrink(
            ShrinkRequest(
                failing=failing.path,
                reference=reference.path,
                failing_toolchain=failing.toolchain,
                reference_toolchain=reference.toolchain,
                golden_data=data,
                tolerance=_EXACT,
                output=job.reduce_to,
                jobs=2,
                budget=None,
                most_tests=None,
                resume=False,
                timeout=job.timeout,
            ),
            on_progress=lambda text: _say(f"reducing: {text}"),
        )
    return FOUND


def _compared_dumps(
    job: LocalizationJob,
    scene: SceneCase,
    failing: Toolchain,
    reference: Toolchain,
    *,
    configs: Sequence[KernelConfig | None] = (None, None),
) -> Divergence:
    """The dumps of both scripts' own runs, task by task; `configs` are their kernel lists, where they are known."""
    runs: list[DumpedRun] = []
    sides = (job.failing, failing, "failing"), (job.reference, reference, "reference")
    with OutputFolder(job.output).open(apart_from=()) as work:
        for (side, toolchain, role), config in zip(sides, configs, strict=True):
            _say(f"localizing: dumping all arguments of the {role} scene test's tasks")
            own = OwnRun(
                side=side,
                toolchain=toolchain,
                scene=scene,
                timeout=job.timeout,
                folder=work / role,
                config=config,
            )
            runs.append(own.dumped())
        return compare_dumps(runs[0], runs[1], platform=job.platform, tolerance=_case_tolerance(job))


def _write_dumped(job: LocalizationJob, divergence: Divergence) -> int:
    make_ignored_folder(job.output)
    OutputFolder(job.output).write(divergence, None)
    return FOUND if divergence.explained else NOTHING_DIVERGES


def _case_tolerance(job: LocalizationJob) -> Tolerance | None:
    return None if job.rtol is None or job.atol is None else Tolerance(rtol=job.rtol, atol=job.atol)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
