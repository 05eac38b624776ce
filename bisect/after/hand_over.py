"""The last step: the culprit's build, and its parent's as reference, handed to `reduce` in a process of its own.

Whatever comes of it, the bisection's answer stands: this says what was found, or why nothing was.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.orm import Session, sessionmaker

from ...runner.case.case import RunOptions
from ...runner.case.golden import FrozenGolden, thaw
from ...runner.errors import UserError
from ...runner.localization.answer import Localization
from ...runner.localization.compared import ComparedBuild, ComparedBuilds
from ...runner.localization.job import BuildToRun, LocalizationJob
from ...runner.probe.probe import Prober
from ...runner.probe.records import ProbeRequest
from ...runner.process.interrupt import InterruptedWorkError
from ...runner.workspace.home import Home
from ..report.model.compared import ComparedProbe, NothingToCompareError, compared_pair, is_scene_test
from ..report.model.rows import Rows, load_rows
from ..report.plain_text import one_line
from .job_process import JobProcess, left_out
from .pass_dumps import build_with_passes, compiled_differently
from .reducible import compared_builds
from .scenes import localize_scenes
from .two_slots import two_slots

_LONGEST = 4 * 3600.0
"""Seconds, where the bisection has no budget."""


def localize_culprit(
    sessions: sessionmaker[Session],
    name: str,
    *,
    home: Home,
    reduce: bool,
    seconds: float | None,
    say: Callable[[str], None],
) -> Localization:
    """Localize, and reduce if asked, within `seconds`. Raises nothing but what stops the process itself."""
    deadline = time.monotonic() + (_LONGEST if seconds is None else seconds)
    try:
        with sessions() as session:
            rows = load_rows(session, name)
        localize = localize_scenes if is_scene_test(rows.request) else _localize
        return localize(rows, home=home, reduce=reduce, deadline=deadline, say=say)
    except KeyboardInterrupt:
        return left_out("interrupted")
    except InterruptedWorkError:
        return left_out("the budget was spent before the toolchains were ready")
    except (NothingToCompareError, UserError) as error:
        return left_out(one_line(str(error)))
    except Exception as error:  # the answer stands, whatever this step meets
        return left_out(repr(error))


@dataclass(frozen=True, kw_only=True)
class _HandOver:
    """What all steps need. `deadline` is a moment of `time.monotonic`."""

    rows: Rows
    culprit: ComparedProbe
    parent: ComparedProbe
    builds: ComparedBuilds
    golden: FrozenGolden
    folder: Path
    deadline: float
    reduce: bool
    say: Callable[[str], None]

    def prepare(self, compared: ComparedBuild, prober: Prober) -> BuildToRun:
        """The build with the toolchain of its own commit, in the prober's slot."""
        self.say(
            f"localizing: preparing the toolchain of the {compared.role}, {compared.repository} {compared.commit[:12]}"
        )
        return self.builds.prepare(compared, prober, golden=self.golden, logs=self.folder / compared.role)

    def with_passes(self, compared: ComparedProbe, prober: Prober, ready: BuildToRun) -> BuildToRun:
        """The build compiled once more, with the program as it is after each pass; as it was where that fails."""
        self.say(
            f"localizing: compiling with the {compared.role} once more, to see the program after each pass"
        )
        left = min(self.builds.timeout, max(1.0, self.deadline - time.monotonic()))
        request = self._request(compared, f"{compared.role}-passes", left)
        dumped = build_with_passes(prober, request, compared.probe.verdict)
        return ready.model_copy(update={"build": dumped or compared.build})

    def job(self, failing: BuildToRun, reference: BuildToRun) -> LocalizationJob:
        """What is handed over."""
        builds = self.builds
        return LocalizationJob(
            failing=failing,
            reference=reference,
            platform=builds.platform,
            device=builds.device,
            golden_data=self.golden.directory,
            timeout=builds.timeout,
            rtol=builds.rtol,
            atol=builds.atol,
            output=self.folder / "found",
            reduce_to=self.rows.request.output / "reduced" if self.reduce else None,
        )

    def _request(self, compared: ComparedProbe, name: str, timeout: float) -> ProbeRequest:
        request = self.rows.request
        return ProbeRequest(
            revisions=compared.side.revisions,
            case=request.script,
            platform=request.platform,
            device=request.device,
            golden=self.golden,
            bad_when=None,
            options=RunOptions(golden_data=self.golden.directory),
            timeout=timeout,
            directory=self.folder / name,
        )


def _localize(
    rows: Rows, *, home: Home, reduce: bool, deadline: float, say: Callable[[str], None]
) -> Localization:
    request = rows.request
    pair = compared_pair(rows)
    culprit, parent = pair.culprit, pair.parent
    golden = thaw(pair.golden, home.golden)
    folder = home.bisections / rows.bisection.name / "localized"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    step = _HandOver(
        rows=rows,
        culprit=culprit,
        parent=parent,
        builds=compared_builds(rows, pair),
        golden=golden,
        folder=folder,
        deadline=deadline,
        reduce=reduce,
        say=say,
    )
    with two_slots(request.stack, home, deadline=deadline) as (ours, theirs):
        failing, reference = (
            step.prepare(step.builds.failing, ours),
            step.prepare(step.builds.reference, theirs),
        )
        if request.frozen_runtime_dir is None and compiled_differently([culprit.build, parent.build]):
            failing = step.with_passes(culprit, ours, failing)
            reference = step.with_passes(parent, theirs, reference)
        process = JobProcess(
            job=step.job(failing, reference),
            folder=folder,
            output=request.output,
            deadline=deadline,
            say=say,
        )
        return process.answer(
            (ours, theirs),
            compared=what_is_compared(culprit.side.commit, parent.side.commit, request.stack.case.after),
        )


def what_is_compared(culprit: str, parent: str, after: Sequence[str]) -> str:
    """Which builds, and how they ran. after: what runs before the case in its process, but not before a build alone.

    >>> what_is_compared("a" * 40, "b" * 40, ["y.py"]).partition("; ")[2]
    'both ran alone, without y.py before them'
    """
    alone = f"; both ran alone, without {', '.join(after)} before them" if after else ""
    return f"the build of {culprit[:12]} against that of {parent[:12]}, on the frozen data{alone}"
