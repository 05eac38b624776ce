"""Runs `reduce`: turns its options, or a job, into a localization or a reduction, and errors into exit codes.

Both open two builds, each with the toolchain that runs it. The user names the builds, or a bisection has left them.

`python -m precision_bisect.reduce.reduce_command JOB.json` does a job that `bisect-precision` hands over. The job is a
`runner.localization_job.LocalizationJob`. Progress goes to standard error, and results go to the job's folders. The
exit codes are 0 found, 1 error and 3 nothing diverges, or the build is not to blame."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ..runner.build_output.directory import BuildDirectory, KernelConfig
from ..runner.build_output.files import BuildOutputError
from ..runner.case.case import load_frozen
from ..runner.cli_options import break_line, print_error, print_json_error
from ..runner.compare.diff_report import SummaryLines
from ..runner.compare.statistics import Tolerance
from ..runner.errors import UsageError, UserError
from ..runner.localization import DIVERGENCE, TASK_GRAPH, Divergence, read_divergence
from ..runner.localization_job import (
    FOOTPRINTS,
    LocalizationJob,
    OutputFolder,
    SceneCase,
    check_output,
    read_compared_builds,
)
from ..runner.probe.probe import Prober
from ..runner.process.entry import INTERRUPTED
from ..runner.process.signals import OutOfTimeInterrupt, interruptible_work, outlive_readers, time_limit
from ..runner.releases import add_releases
from ..runner.settings import load_stack, read_overrides
from ..runner.workspace.content import StackContent
from ..runner.workspace.home import user_home
from ..runner.workspace.slot import Workspace
from ..store.durable_files import DocumentError, make_ignored_folder, read_document
from ..store.vocabulary import one_line, plural
from .localize.footprints import FootprintRequest, footprints, print_footprints
from .localize.investigate import localize
from .localize.localization_text import headline, print_summary
from .localize.reference import (
    GoldenOutputs,
    GoodBuild,
    LocalizationRequest,
    RecordedValues,
    Reference,
    SameBuild,
)
from .reduce_cli import ReduceOptions
from .replay.replay import FailedRunError, RunnableBuild
from .replay.toolchain import ForkServers, Toolchain
from .scene import (
    CheckChangedError,
    DumpedRun,
    SceneBuilds,
    SceneTestRun,
    compare_dumps,
    export_scene_builds,
    export_script_as_build,
)
from .shrink.oracle import SCRIPT_CONTRACT, resolve_script
from .shrink.reproducer import ReductionResult
from .shrink.result import ShrinkRequest, check_unused, shrink

FOUND, ERROR, NOTHING_DIVERGES, STOPPED = 0, 1, 3, 6
"""These are the exit codes of `reduce`, as its `--help` lists them."""
_MIN_SECONDS_LEFT = 1.0
"""A reduction gets at least this many seconds of the budget, so that it can still report what it knows."""

Say = Callable[[str], None]


def reduce(options: ReduceOptions) -> int:
    """Localize or reduce, and print the result. Return the tool's exit code."""
    outlive_readers()
    progress = Console(stderr=True, quiet=options.quiet)

    def say(text: str) -> None:
        lines = break_line(text, progress, indent=2)
        progress.print(Text("\n".join(lines)), style="dim", soft_wrap=True)

    begun = time.monotonic()
    try:
        _check(options)
        with interruptible_work(), ForkServers(on_refusal=say) as servers, ExitStack() as limit:
            limit.enter_context(time_limit(options.budget))
            with open_builds(options, servers, say) as builds:
                if options.footprints:
                    return _footprints(options, builds, say)
                if options.localize_only:
                    return _localize(options, builds, say)
                if options.budget is not None:
                    # A reduction ends by itself, with the best result so far. Opening the builds may have used up some
                    # of the budget.
                    limit.close()
                    left = max(_MIN_SECONDS_LEFT, options.budget - (time.monotonic() - begun))
                    options = replace(options, budget=left)
                return _shrink(options, builds, say)
    except UserError as error:
        message = f"{error}{_interpreter_hint(error, options)}"
        return print_error(message, error.exit_code, as_json=options.as_json)
    except (BuildOutputError, OSError) as error:
        return print_error(str(error), ERROR, as_json=options.as_json)
    except OutOfTimeInterrupt:
        message = (
            "the budget was spent before anything was found; the same command with a larger one begins anew"
        )
        return print_error(message, STOPPED, as_json=options.as_json)
    except KeyboardInterrupt:
        how = (
            "begins anew"
            if options.localize_only or options.footprints
            else "with --resume goes on and repeats no test"
        )
        message = f"interrupted; the same command {how}"
        print(message, file=sys.stderr)
        if options.as_json:
            print_json_error(message, INTERRUPTED)
        return INTERRUPTED


def _check(options: ReduceOptions) -> None:
    """Check options before builds are opened, because building their toolchains may take minutes.

    Raises:
        UsageError: the output folder or the script cannot be used.
    """
    check_output(options.output)
    if not (options.localize_only or options.footprints):
        check_unused(options.output, resume=options.resume)
    if options.interesting is not None:
        resolve_script(options.interesting)


def _interpreter_hint(error: UserError, options: ReduceOptions) -> str:
    """Advice for a run that lacked a module. Builds that the user names run with interpreters that the user names."""
    if options.bisection is not None or not (isinstance(error, FailedRunError) and error.lacks_module):
        return ""
    return "; name an interpreter that has it with --python, and the reference's with --reference-python"


def _case_tolerance(options: ReduceOptions, builds: OpenedBuilds) -> Tolerance | None:
    """Return the case's own tolerance: each value that was given, or else the bisection's. None where neither has one.

    Raises `UsageError` where one value was given, and nothing tells the other.
    """
    if not options.has_tolerance:
        return builds.case_tolerance
    known = builds.case_tolerance
    rtol = known.rtol if known is not None and options.rtol is None else options.rtol
    atol = known.atol if known is not None and options.atol is None else options.atol
    if rtol is None or atol is None:
        given, missing = ("--atol", "--rtol") if rtol is None else ("--rtol", "--atol")
        raise UsageError(
            f"{given}: expected {missing} with it, because this build has no tolerance of a bisection"
        )
    return Tolerance(rtol=rtol, atol=atol)


def _localize(options: ReduceOptions, builds: OpenedBuilds, say: Say) -> int:
    builds.check_data()
    # Against a good build, any difference of a task counts. The case's own tolerance says which differences fail.
    case_tolerance = _case_tolerance(options, builds)
    divergence = localize(
        LocalizationRequest(
            failing=builds.failing,
            toolchain=builds.failing_toolchain,
            reference=_reference(options, builds),
            golden_data=builds.golden_data,
            tolerance=Tolerance() if options.has_reference_run else case_tolerance or Tolerance(),
            case_tolerance=case_tolerance,
            timeout=builds.timeout,
            output=options.output.absolute(),
        ),
        on_progress=say,
    )
    return _print_divergence(divergence, options)


def _footprints(options: ReduceOptions, builds: OpenedBuilds, say: Say) -> int:
    found = footprints(
        FootprintRequest(
            build=RunnableBuild(path=builds.failing, toolchain=builds.failing_toolchain),
            golden_data=builds.golden_data,
            timeout=builds.timeout,
            output=options.output.absolute(),
        ),
        on_progress=say,
    )
    if options.as_json:
        print(found.model_dump_json(indent=2))
    else:
        print_footprints(found, _lines(options))
        print(options.output / FOOTPRINTS)
    return FOUND if found.found else NOTHING_DIVERGES


def _lines(options: ReduceOptions) -> SummaryLines:
    return SummaryLines(console=Console(), whole=options.verbose)


def _reference(options: ReduceOptions, builds: OpenedBuilds) -> Reference:
    """Return what a localization compares the failing build with."""
    if options.reference_data is not None:
        return RecordedValues(folder=options.reference_data)
    if builds.reference is None:
        return GoldenOutputs(folder=builds.golden_data or builds.failing / "data")
    toolchain = builds.reference_toolchain
    if options.against_schedule is not None:
        return SameBuild(path=builds.reference, toolchain=toolchain, schedule=options.against_schedule)
    return GoodBuild(path=builds.reference, toolchain=toolchain)


def _print_divergence(divergence: Divergence, options: ReduceOptions) -> int:
    if options.as_json:
        print(divergence.model_dump_json(indent=2, by_alias=True))
    elif options.quiet:
        print(f"{one_line(headline(divergence))}; see {options.output / DIVERGENCE}")
    else:
        print_summary(divergence, _lines(options))
        for file in (DIVERGENCE, TASK_GRAPH) if divergence.has_task_graph else (DIVERGENCE,):
            print(options.output / file)
    return FOUND if divergence.has_findings else NOTHING_DIVERGES


def _shrink(options: ReduceOptions, builds: OpenedBuilds, say: Say) -> int:
    script = _script(options)
    if script is not None:
        say(f"{script} {SCRIPT_CONTRACT}")
    request = ShrinkRequest(
        failing=builds.failing,
        reference=builds.reference,
        failing_toolchain=builds.failing_toolchain,
        reference_toolchain=builds.reference_toolchain,
        golden_data=builds.golden_data,
        tolerance=_case_tolerance(options, builds) or Tolerance(),
        output=options.output.absolute(),
        jobs=options.jobs,
        budget=options.budget,
        resume=options.resume,
        timeout=builds.timeout,
        interesting=script,
    )
    builds.check_data()
    result = shrink(request, on_progress=say)
    _print_reduction(result, request.output, options)
    return STOPPED if result.stopped == "budget" else FOUND


def _print_reduction(result: ReductionResult, output: Path, options: ReduceOptions) -> None:
    if options.as_json:
        print(result.model_dump_json(indent=2, by_alias=True))
        return
    missing = f"; not submitted: {', '.join(result.missing_tasks)}" if result.missing_tasks else ""
    kept = ", ".join("task {} ({})".format(*task.split(": ", 1)) for task in result.kept_tasks)
    print(f"tasks {result.tasks.before} -> {result.tasks.after}, left: {kept}{missing}")
    print(
        f"kernels {result.kernels.before} -> {result.kernels.after}, bytes {result.bytes.before} -> "
        f"{result.bytes.after}"
    )
    print(
        f"{plural(result.oracle_calls, 'test')}; verified: failed {result.verified.failures} of "
        f"{plural(result.verified.runs, 'run')}"
    )
    if options.verbose:
        print((output / "result" / "why.md").read_text(encoding="utf-8"))
    print(output / "result")


def _script(options: ReduceOptions) -> Path | None:
    """The script that recognizes the failure. None where the failure that was seen is looked for."""
    if options.interesting is not None:
        return resolve_script(options.interesting)
    if not options.has_reference_run and not options.has_tolerance:
        raise UsageError(
            "without --reference the golden data alone judge: expected the case's own --rtol and --atol"
        )
    return None


_EXACT = Tolerance()


def main(file: Path) -> int:
    """Do the job. Returns 0 if a divergence was found, 1 on an error and 3 if the build is not to blame."""
    try:
        job = read_document(LocalizationJob, json.loads(file.read_bytes()))
        with ForkServers(on_refusal=_say) as servers:
            return _run(job, servers)
    except (UserError, DocumentError, BuildOutputError, OSError) as error:
        return print_error(str(error), ERROR, as_json=False)


def _run(job: LocalizationJob, servers: ForkServers) -> int:
    """Do a job. The builds of a scene test are exported first. Return the exit code."""
    failing, reference = (
        RunnableBuild(
            path=side.build, toolchain=Toolchain.from_build(side, job.platform, job.device, servers)
        )
        for side in (job.failing, job.reference)
    )
    if job.scene is None:
        return _compare_builds(job, failing, reference, job.golden_data)
    sides = failing.toolchain, reference.toolchain
    try:
        builds = export_scene_builds(
            failing,
            reference,
            job.scene,
            folder=job.output.with_name("scenes"),
            on_progress=lambda text: _say(f"localizing: {text}"),
        )
        code = _compare_builds(
            job, replace(failing, path=builds.failing), replace(reference, path=builds.reference), builds.data
        )
    except CheckChangedError:
        raise
    except (UserError, BuildOutputError) as error:
        # The script may not parse as a program, or its graph may list no tasks. Its dumps can be compared all the same.
        _say(f"localizing: {error}")
        return _write_divergence(job, _dump_and_compare(job, job.scene, *sides))
    found = read_divergence(job.output)
    if found is not None and found.causes and not found.first_divergent and found.stall is None:
        _add_dumped_tensors(job, job.scene, found, builds, *sides)
    return code


def _add_dumped_tensors(
    job: LocalizationJob,
    scene: SceneCase,
    found: Divergence,
    builds: SceneBuilds,
    failing: Toolchain,
    reference: Toolchain,
) -> None:
    """Add the tensors that dumps show, where causes are known but no tensor was compared. A prepared graph may not be
    dumped as a build directory."""
    configs = tuple(BuildDirectory.open(each).kernel_config() for each in (builds.failing, builds.reference))
    try:
        dumped = _dump_and_compare(job, scene, failing, reference, configs=configs)
    except (UserError, BuildOutputError) as error:
        _say(f"localizing: {error}")
        return
    only = 1 if len(found.causes) == 1 else None
    tensors = tuple(each.model_copy(update={"cause": only}) for each in dumped.first_divergent)
    OutputFolder(job.output).replace_document(found.model_copy(update={"first_divergent": tensors}))


def _compare_builds(
    job: LocalizationJob, failing: RunnableBuild, reference: RunnableBuild, data: Path | None
) -> int:
    """Localize where two builds diverge, and reduce the failure if that is asked for. Return the exit code."""
    divergence = localize(
        LocalizationRequest(
            failing=failing.path,
            toolchain=failing.toolchain,
            reference=GoodBuild(path=reference.path, toolchain=reference.toolchain),
            golden_data=data,
            tolerance=_EXACT,
            case_tolerance=_tolerance_of_job(job),
            timeout=job.timeout,
            output=job.output,
            by_hand=job.scene is not None,
        ),
        on_progress=lambda text: _say(f"localizing: {text}"),
    )
    if not divergence.has_findings:
        return NOTHING_DIVERGES
    if job.reduce_to is not None and divergence.stall is None:
        shrink(
            ShrinkRequest(
                failing=failing.path,
                reference=reference.path,
                failing_toolchain=failing.toolchain,
                reference_toolchain=reference.toolchain,
                golden_data=data,
                tolerance=_tolerance_of_job(job) or _EXACT,
                output=job.reduce_to,
                jobs=2,
                budget=None,
                resume=False,
                timeout=job.timeout,
            ),
            on_progress=lambda text: _say(f"reducing: {text}"),
        )
    return FOUND


def _dump_and_compare(
    job: LocalizationJob,
    scene: SceneCase,
    failing: Toolchain,
    reference: Toolchain,
    *,
    configs: Sequence[KernelConfig | None] = (None, None),
) -> Divergence:
    """Dump both scripts' own runs and compare them task by task. `configs` are their kernel lists, where they are
    known."""
    runs: list[DumpedRun] = []
    sides = (job.failing, failing, "failing"), (job.reference, reference, "reference")
    with OutputFolder(job.output).make_work_folder(apart_from=()) as work:
        for (side, toolchain, role), config in zip(sides, configs, strict=True):
            _say(f"localizing: dumping all arguments of the {role} scene test's tasks")
            own = SceneTestRun(
                side=side,
                toolchain=toolchain,
                scene=scene,
                timeout=job.timeout,
                folder=work / role,
                config=config,
            )
            runs.append(own.dump())
        return compare_dumps(runs[0], runs[1], platform=job.platform, tolerance=_tolerance_of_job(job))


def _write_divergence(job: LocalizationJob, divergence: Divergence) -> int:
    make_ignored_folder(job.output)
    OutputFolder(job.output).write(divergence, None)
    return FOUND if divergence.has_findings else NOTHING_DIVERGES


def _tolerance_of_job(job: LocalizationJob) -> Tolerance | None:
    return None if job.rtol is None or job.atol is None else Tolerance(rtol=job.rtol, atol=job.atol)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


_TIMEOUT = 600.0
"""A run of a build is stopped after this many seconds, where the user gave no limit. A hung run must not last for
ever."""


@dataclass(frozen=True, kw_only=True)
class OpenedBuilds:
    """The failing build and the build that it is compared with.

    `reference` is None where recorded values or the golden data take its place. `golden_data` None stands for the
    failing build's own data. `case_tolerance` is the tolerance that the bisection was given, if any. `timeout` limits
    one run, in seconds.
    """

    failing: Path
    reference: Path | None
    failing_toolchain: Toolchain
    reference_toolchain: Toolchain
    golden_data: Path | None
    case_tolerance: Tolerance | None = None
    timeout: float

    def check_data(self) -> None:
        """Check that there is frozen data to replay.

        Raises:
            UsageError: none was named, and the failing build has none of its own. A build that a bisection left has
                none.
        """
        if self.golden_data is not None or (self.failing / "data").is_dir():
            return
        bisections, failing = user_home().bisections.resolve(), self.failing.resolve()
        alike = ""
        if bisections in failing.parents:
            name = failing.relative_to(bisections).parts[0]
            alike = f", or take its builds, data and interpreters with --bisection {name}"
        raise UsageError(
            f"{self.failing}: expected frozen data in its data/, found none; name them with --golden-data DIR{alike}"
        )


@contextmanager
def open_builds(options: ReduceOptions, servers: ForkServers, say: Say) -> Generator[OpenedBuilds]:
    """Open the builds that the options name. Slots that run the builds of a bisection are held meanwhile.

    Raises:
        UserError: the builds cannot be opened.
    """
    if options.bisection is None:
        yield _open_named_builds(options, servers, say)
        return
    with _open_bisection_builds(options, options.bisection, servers, say) as builds:
        yield builds


def _open_named_builds(options: ReduceOptions, servers: ForkServers, say: Say) -> OpenedBuilds:
    """Open the builds of the command line. A scene test's script is written as a build directory beside the output."""
    failing_build, stack = _require_failing_build(options), _require_stack(options)
    overrides = read_overrides(options.repository)

    def toolchain(name: str, python: Path) -> Toolchain:
        loaded = add_releases(load_stack(name, overrides=overrides), user_home().releases)
        return Toolchain.create(
            loaded, python=python, platform=options.platform, device=options.device or 0, servers=servers
        )

    def build(path: Path, side: Toolchain, name: str) -> Path:
        if path.is_dir():
            return path
        written = options.output.absolute().with_name(f"{options.output.name}-builds") / name
        return export_script_as_build(
            path, options.scene_case, side, written, reuse=options.resume, on_progress=say
        )

    interpreter = options.python or Path(sys.executable)
    failing_toolchain = toolchain(stack, interpreter)
    reference_toolchain = toolchain(options.reference_stack or stack, options.reference_python or interpreter)
    failing = build(failing_build, failing_toolchain, "failing")
    reference = failing if options.has_reference_run else None
    if options.reference is not None:
        reference = build(options.reference, reference_toolchain, "reference")
    if options.against_schedule is not None:
        reference_toolchain = reference_toolchain.with_schedule(options.against_schedule)
    return OpenedBuilds(
        failing=failing,
        reference=reference,
        failing_toolchain=failing_toolchain,
        reference_toolchain=reference_toolchain,
        golden_data=options.golden_data,
        timeout=options.timeout or _TIMEOUT,
    )


def _require_failing_build(options: ReduceOptions) -> Path:
    """Return the failing build that was named. Toolchains and runs take long, so all paths are checked before them.

    Raises:
        UsageError: no failing build was named, a path does not exist, or `--scene-case` stands beside a folder.
    """
    if options.failing_build is None:
        raise UsageError("expected FAILING_BUILD, or --bisection NAME, found neither")
    builds = {str(options.failing_build): options.failing_build}
    if options.reference is not None:
        builds[f"--reference {options.reference}"] = options.reference
    for named, path in builds.items():
        if not path.exists():
            raise UsageError(
                f"{named}: expected a build directory or the script of a scene test, found none; check the path"
            )
        if options.scene_case is not None and path.is_dir():
            raise UsageError(
                f"--scene-case {options.scene_case}: expected the script of a scene test, found {path}"
            )
    if options.reference_data is not None and not options.reference_data.is_dir():
        raise UsageError(
            f"--reference-data {options.reference_data}: expected a folder of recorded tensors, found none; "
            "check the path"
        )
    return options.failing_build


def _require_stack(options: ReduceOptions) -> str:
    """Return the name or file of the stack, after a check of what the failing build is compared with.

    Raises:
        UsageError: no stack was named, or not one reference, or a tolerance is missing.
    """
    if options.stack is None:
        raise UsageError("expected --stack with a stack file, or the name of one")
    if options.reference_count > 1:
        raise UsageError(
            "expected one reference: --reference with a good build, or --against-schedule with a schedule of the "
            "stack file, or --reference-data with recorded values"
        )
    if options.reference_data is not None and not options.localize_only:
        raise UsageError("--reference-data: expected --localize-only beside it")
    if options.localize_only and not options.has_reference_run and not options.has_tolerance:
        raise UsageError(
            "without --reference values are compared by their closeness: expected the case's own --rtol and --atol"
        )
    return options.stack


@contextmanager
def _open_bisection_builds(
    options: ReduceOptions, name: str, servers: ForkServers, say: Say
) -> Generator[OpenedBuilds]:
    """Open the culprit's build and its parent's, each in a slot with the toolchain of its own commit."""
    if options.options_set_by_bisection:
        raise UsageError(
            f"--bisection {name}: expected nothing beside it that the bisection says, found "
            f"{', '.join(options.options_set_by_bisection)}"
        )
    home = user_home()
    compared = read_compared_builds(name, home)
    golden = load_frozen(compared.golden, home.golden)
    workspace = Workspace(compared.stack, home)
    content = StackContent(compared.stack, workspace)
    logs = home.bisections / name / "reduced"

    def prober() -> Prober:
        return Prober(workspace, content, home, on_activity=lambda _text: None)

    # Both slots are open at once, because each build needs the toolchain of its own commit.
    with prober() as failing, prober() as reference:
        toolchains: list[Toolchain] = []
        for build, slot in ((compared.failing, failing), (compared.reference, reference)):
            say(f"preparing the toolchain of the {build.role}, {build.repository} {build.commit[:12]}")
            side = compared.prepare(build, slot, golden=golden, logs=logs / build.role)
            toolchains.append(Toolchain.from_build(side, compared.platform, compared.device, servers))
        rtol, atol = compared.rtol, compared.atol
        yield OpenedBuilds(
            failing=compared.failing.build,
            reference=compared.reference.build,
            failing_toolchain=toolchains[0],
            reference_toolchain=toolchains[1],
            golden_data=golden.directory,
            case_tolerance=None if rtol is None or atol is None else Tolerance(rtol=rtol, atol=atol),
            timeout=options.timeout or compared.timeout,
        )


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
