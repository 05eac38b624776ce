"""Runs `reduce`: turns its options into a localization or a reduction, and errors into exit codes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ..runner.build_output.files import BuildOutputError
from ..runner.compare.diff_report import SummaryLines
from ..runner.compare.statistics import Tolerance
from ..runner.errors import UsageError, UserError
from ..runner.localization import DIVERGENCE, Divergence
from ..runner.localization_job import FOOTPRINTS
from ..runner.process.entry import INTERRUPTED
from ..runner.process.fork_servers import ForkServers
from ..runner.process.signals import OutOfTimeInterrupt, interruptible_work, outlive_readers, time_limit
from ..store.vocabulary import plural
from .builds import OpenedBuilds, open_builds
from .localize.causes import LocalizationRequest
from .localize.footprints import FootprintRequest, footprints, print_footprints
from .localize.investigate import localize
from .localize.localization_text import print_summary
from .localize.reference import GoldenOutputs, GoodBuild, RecordedValues, Reference, SameBuild
from .reduce_cli import ReduceOptions, check_output
from .replay.replay import FailedRunError, RunnableBuild
from .shrink.oracle import SCRIPT_CONTRACT, Script
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
        progress.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)

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
        print(f"error: {error}{_interpreter_hint(error, options)}", file=sys.stderr)
        return error.exit_code
    except (BuildOutputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR
    except OutOfTimeInterrupt:
        print(
            "the budget was spent before anything was found; the same command with a larger one begins anew",
            file=sys.stderr,
        )
        return STOPPED
    except KeyboardInterrupt:
        how = (
            "begins anew"
            if options.localize_only or options.footprints
            else "with --resume goes on and repeats no test"
        )
        print(f"interrupted; the same command {how}", file=sys.stderr)
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
        Script.resolve_path(options.interesting)


def _interpreter_hint(error: UserError, options: ReduceOptions) -> str:
    """Advice for a run that lacked a module. Builds that the user names run with interpreters that the user names."""
    if options.bisection is not None or not (isinstance(error, FailedRunError) and error.lacks_module):
        return ""
    return "; name an interpreter that has it with --python, and the reference's with --reference-python"


def _tolerance(options: ReduceOptions) -> Tolerance:
    return Tolerance(rtol=options.rtol or 0.0, atol=options.atol or 0.0)


def _case_tolerance(options: ReduceOptions, builds: OpenedBuilds) -> Tolerance | None:
    """The case's own tolerance: the one that was given, or else the bisection's. None where neither has one."""
    return _tolerance(options) if options.has_tolerance else builds.harness


def _localize(options: ReduceOptions, builds: OpenedBuilds, say: Say) -> int:
    builds.check_data()
    # Against a good build, any difference of a task counts. The case's own tolerance says which differences fail.
    told = _tolerance(options)
    divergence = localize(
        LocalizationRequest(
            failing=builds.failing,
            toolchain=builds.failing_toolchain,
            reference=_reference(options, builds),
            golden_data=builds.golden_data,
            tolerance=Tolerance() if options.has_reference_run else told,
            case_tolerance=_case_tolerance(options, builds) if options.has_reference_run else None,
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
    else:
        print_summary(divergence, _lines(options))
        print(options.output / DIVERGENCE)
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
    print(f"tasks {result.tasks.before} -> {result.tasks.after}: {', '.join(result.kept_tasks)}{missing}")
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
        return Script.resolve_path(options.interesting)
    if not options.has_reference_run and not options.has_tolerance:
        raise UsageError(
            "without --reference the golden data alone judge: expected the case's own --rtol and --atol"
        )
    return None
