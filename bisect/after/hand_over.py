"""The last step: the culprit's build, and its parent's as reference, handed to `reduce` in a process of its own.

Whatever comes of it, the bisection's answer stands: this says what was found, or why nothing was.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sqlalchemy.orm import Session, sessionmaker

from ...runner.case.case import RunOptions
from ...runner.case.golden import FrozenGolden, thaw
from ...runner.errors import UserError
from ...runner.localization.answer import Localization, read_divergence, read_reduction
from ...runner.localization.divergence import DIVERGENCE, TASK_GRAPH
from ...runner.localization.job import BuildToRun, LocalizationJob
from ...runner.probe.builder import FailedBuild
from ...runner.probe.preparation import OF_ANOTHER_PYTHON
from ...runner.probe.probe import Prober
from ...runner.probe.records import ProbeRequest
from ...runner.process.execute import Command, execute
from ...runner.workspace.content import StackContent
from ...runner.workspace.home import Home
from ...runner.workspace.workspace import Workspace
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Verdict
from ..report.model.model import Side
from ..report.model.rows import Rows, load_rows
from ..report.model.sides import both_sides
from ..report.plain_text import one_line
from .pass_dumps import build_with_passes, compiled_differently

_LEAST_TIMEOUT = 60.0
_TIMES_THE_RUN = 10
_LONGEST = 4 * 3600.0
"""Seconds, where the bisection has no budget."""
_TELLING = (Verdict.MISMATCH, Verdict.STALL)
_NOTHING_DIVERGES = 3


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
    try:
        with sessions() as session:
            rows = load_rows(session, name)
        return _localize(rows, home=home, reduce=reduce, deadline=_deadline(seconds), say=say)
    except KeyboardInterrupt:
        return _left_out("interrupted")
    except Exception as error:  # the answer stands, whatever this step meets
        return _left_out(one_line(str(error)) if isinstance(error, UserError) else repr(error))


def _deadline(seconds: float | None) -> float:
    return time.monotonic() + (_LONGEST if seconds is None else seconds)


def _localize(
    rows: Rows, *, home: Home, reduce: bool, deadline: float, say: Callable[[str], None]
) -> Localization:
    request = rows.request
    if request.bad_when is None or not request.stack.case.harness:
        return _left_out("the case is a command of its own, without tensors to compare")
    sides = both_sides(rows)
    if sides.bad is None or sides.good is None:
        return _left_out("there is no run of the culprit beside one of a commit that passes")
    if sides.bad.verdict not in _TELLING:
        return _left_out(f"a {sides.bad.verdict} leaves no values to compare")
    if rows.bisection.golden is None:
        return _left_out("the runs had no frozen data")
    golden = thaw(rows.bisection.golden, home.golden)
    bad, good = _shown(rows, sides.bad), _shown(rows, sides.good)
    builds = [build for probe in (bad, good) if (build := _build(probe)) is not None]
    if len(builds) < 2:
        return _left_out("a build directory of the culprit's or its parent's runs is not there any more")
    folder = home.bisections / rows.bisection.name / "localized"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    workspace = Workspace(request.stack, home)
    content = StackContent(request.stack, workspace)
    timeout = request.timeout or max(_LEAST_TIMEOUT, _TIMES_THE_RUN * (bad.run_seconds or 0.0))

    def prober() -> Prober:
        return Prober(workspace, content, home, on_activity=lambda _text: None)

    # Two slots at once: each build is run by the toolchain of its own commit.
    with prober() as failing, prober() as reference:
        both = (
            (sides.bad, bad, failing, builds[0], "culprit"),
            (sides.good, good, reference, builds[1], "parent"),
        )
        ready: list[BuildToRun] = []
        for side, _, slot, build, word in both:
            say(f"localizing: preparing the toolchain of the {word}, {side.repository} {side.commit[:12]}")
            made = slot.prepare(_probe_request(rows, side, golden, folder / word, timeout))
            if isinstance(made, FailedBuild):
                return _left_out(f"step {made.step} failed for the {word}")
            ready.append(
                BuildToRun(build=build, stack=made, python=slot.slot.python, slot=slot.slot.directory)
            )
        if request.frozen_runtime_dir is None and compiled_differently(builds):
            for index, (side, probe, slot, build, word) in enumerate(both):
                say(f"localizing: compiling with the {word} once more, to see the program after each pass")
                left = min(timeout, max(1.0, deadline - time.monotonic()))
                again = _probe_request(rows, side, golden, folder / f"{word}-passes", left)
                dumped = build_with_passes(slot, again, probe.verdict)
                ready[index] = ready[index].model_copy(update={"build": dumped or build})
        job = LocalizationJob(
            failing=ready[0],
            reference=ready[1],
            platform=request.platform,
            device=request.device,
            golden_data=golden.directory,
            timeout=timeout,
            rtol=closest(bad.metrics or {}, "rtol"),
            atol=closest(bad.metrics or {}, "atol"),
            output=folder / "found",
            reduce_to=request.output / "reduced" if reduce else None,
        )
        (folder / "job.json").write_text(job.model_dump_json(indent=2), encoding="utf-8")
        said: list[str] = []
        finished = execute(
            Command(
                argv=[sys.executable, "-m", "precision_bisect.reduce.handover", str(folder / "job.json")],
                cwd=folder,
                environment={k: v for k, v in os.environ.items() if k not in OF_ANOTHER_PYTHON},
                timeout=max(1.0, deadline - time.monotonic()),
                holds=(failing.slot.lock, reference.slot.lock),
            ),
            log=folder / "localize.log.gz",
            on_line=lambda _stream, line: _hear(line, said, say),
        )
    code = finished.ending.exit_code
    divergence = read_divergence(job.output)
    if divergence is None or code is None:
        why = said[-1] if said and code == 1 else str(finished.ending)
        return _left_out(f"{why}; see {folder / 'localize.log.gz'}")
    request.output.mkdir(parents=True, exist_ok=True)
    for file in (DIVERGENCE, TASK_GRAPH):
        if (job.output / file).is_file():
            shutil.copyfile(job.output / file, request.output / file)
    shutil.rmtree(job.output / "work", ignore_errors=True)
    compared = (
        f"the build of {sides.bad.commit[:12]} against that of {sides.good.commit[:12]}, on the frozen data"
    )
    reduction = read_reduction(job.reduce_to) if job.reduce_to else None
    failed = (
        f"; not reduced: {said[-1]}" if job.reduce_to and reduction is None and code == 1 and said else ""
    )
    return Localization(
        status="nothing" if code == _NOTHING_DIVERGES else "found",
        message=f"{compared}{failed}",
        divergence=divergence,
        reduction=reduction,
        reduced=job.reduce_to if reduction else None,
    )


def closest(metrics: Mapping[str, Mapping[str, float]], name: str) -> float | None:
    """The smallest tolerance of that name that the harness told of an output; None where it told none."""
    told = (measures[name] for measures in metrics.values() if name in measures)
    return min((value for value in told if value >= 0), default=None)


def _left_out(why: str) -> Localization:
    return Localization(status="left out", message=why)


def _hear(line: str, said: list[str], say: Callable[[str], None]) -> None:
    text = one_line(line)
    said[:] = [text.removeprefix("error: ")]
    say(f"localizing: {text}")


def _shown(rows: Rows, side: Side) -> ProbeRow:
    return next(probe for probe in rows.probes if probe.ordinal == side.shown)


def _build(probe: ProbeRow) -> Path | None:
    paths: Sequence[Path] = [Path(one.path) for one in probe.artifacts if one.kind == "build_directory"]
    return next((path for path in paths if path.is_dir()), None)


def _probe_request(
    rows: Rows, side: Side, golden: FrozenGolden, directory: Path, timeout: float
) -> ProbeRequest:
    request = rows.request
    return ProbeRequest(
        revisions=side.revisions,
        case=request.script,
        platform=request.platform,
        device=request.device,
        golden=golden,
        bad_when=None,
        options=RunOptions(golden_data=golden.directory),
        timeout=timeout,
        directory=directory,
    )
