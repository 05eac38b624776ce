"""The last step of a bisection whose case is a scene test: the script at the culprit against the script at its parent.

Such a test leaves no build directory and has no frozen data. Both are drawn and written anew, from one seed, in slots
that hold the two commits.
"""

import gzip
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from ...runner.case.case import RunOptions
from ...runner.localization.answer import Localization
from ...runner.localization.job import BuildToRun, LocalizationJob, SceneCase
from ...runner.probe.probe import Prober
from ...runner.probe.records import ProbeRequest
from ...runner.workspace.home import Home
from ...store.tables.bisections import ProbeRow
from ..report.model.compared import ComparedSide, compared_sides
from ..report.model.rows import Rows
from .job_process import JobProcess
from .reducible import closest, longest_run
from .two_slots import two_slots

_FAILED = re.compile(r"^\s*(\w+::\S+) (?:\.\.\. )?FAILED\b")
"""How the runtime's own runner of scene tests names the case that failed, in all eras."""


def localize_scenes(
    rows: Rows, *, home: Home, reduce: bool, deadline: float, say: Callable[[str], None]
) -> Localization:
    """Localize until `deadline`, a moment of `time.monotonic`.

    Raises:
        NothingToCompareError: there are no two runs to compare.
        UserError: a commit cannot be built again.
        InterruptedWorkError: the time was over before both were.
    """
    request = rows.request
    culprit, parent = compared_sides(rows)
    folder = home.bisections / rows.bisection.name / "localized"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with two_slots(request.stack, home, deadline=deadline) as (ours, theirs):
        process = JobProcess(
            job=_job(
                rows,
                _prepared(rows, culprit, ours, folder, say),
                _prepared(rows, parent, theirs, folder, say),
                failed=culprit.probe,
                output=folder / "found",
                reduce=reduce,
            ),
            folder=folder,
            output=request.output,
            deadline=deadline,
            say=say,
        )
        return process.answer(
            (ours, theirs),
            compared=f"the scene test at {culprit.side.commit[:12]} against that at {parent.side.commit[:12]}, on data "
            "drawn from one seed",
        )


def _prepared(
    rows: Rows, compared: ComparedSide, prober: Prober, folder: Path, say: Callable[[str], None]
) -> BuildToRun:
    """The script in the prober's slot, where all that it needs is built."""
    request, side = rows.request, compared.side
    script = request.script
    assert script is not None, "a scene test has one"
    say(f"localizing: preparing the toolchain of the {compared.role}, {side.repository} {side.commit[:12]}")
    toolchain = prober.prepare(
        ProbeRequest(
            revisions=side.revisions,
            case=script,
            platform=request.platform,
            device=request.device,
            golden=None,
            bad_when=None,
            options=RunOptions(),
            timeout=longest_run(request, compared.probe),
            directory=folder / compared.role,
        ),
        of=f"{compared.role} {side.commit[:12]}",
    )
    slot = prober.slot
    return BuildToRun(
        build=toolchain.repositories[toolchain.case.repository].path / script.path,
        stack=toolchain,
        python=slot.python,
        slot=slot.directory,
    )


def _job(
    rows: Rows, failing: BuildToRun, reference: BuildToRun, *, failed: ProbeRow, output: Path, reduce: bool
) -> LocalizationJob:
    request, metrics = rows.request, failed.metrics or {}
    assert request.script is not None, "a scene test has one"
    return LocalizationJob(
        failing=failing,
        reference=reference,
        platform=request.platform,
        device=request.device,
        golden_data=None,
        scene=SceneCase(arguments=request.script.arguments, failed=failed_case(failed)),
        timeout=longest_run(request, failed),
        rtol=closest(metrics, "rtol"),
        atol=closest(metrics, "atol"),
        output=output,
        reduce_to=request.output / "reduced" if reduce else None,
    )


def failed_case(probe: ProbeRow) -> str | None:
    """`CLASS::NAME` of the first case that the run's log says failed; None where it names none, or is gone."""
    for log in (Path(one.path) for one in probe.artifacts if one.kind == "log"):
        if log.is_file():
            with gzip.open(log, "rt", encoding="utf-8", errors="replace") as lines:
                found = next((match for line in lines if (match := _FAILED.match(line))), None)
            return None if found is None else found[1]
    return None
