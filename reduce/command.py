"""`reduce`: from its options to a localization or a reduction, and from errors to exit codes."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ..runner.build_output.files.errors import BuildOutputError
from ..runner.compare.report.summary_lines import SummaryLines
from ..runner.compare.statistics.statistics import Tolerance
from ..runner.errors import UsageError, UserError
from ..runner.localization.divergence import DIVERGENCE, Divergence
from ..runner.localization.footprints import FOOTPRINTS
from ..runner.process.alarm import OutOfTimeInterrupt, interrupted_after
from ..runner.process.fork_servers import ForkServers
from ..runner.process.output import outlive_readers
from ..store.words import plural
from .localize.footprinting import FootprintRequest, footprints
from .localize.footprints.summary import print_footprints
from .localize.pipeline import localize
from .localize.references.builds import GoodBuild, SameBuild
from .localize.references.reference import Reference
from .localize.references.request import LocalizationRequest
from .localize.references.values import GoldenOutputs, RecordedValues
from .localize.report.summary import print_summary
from .opened import OpenedBuilds, failing_build, open_builds
from .options import ReduceOptions
from .output_folder import check_output
from .replay.runnable_build import RunnableBuild
from .scene.test import wrap
from .shrink.oracle.failure import Printed
from .shrink.oracle.script import CONVENTION, Script
from .shrink.output import check_unused
from .shrink.pipeline import shrink
from .shrink.request import ShrinkRequest
from .shrink.result.reduction import ReductionResult

FOUND, ERROR, NOTHING_DIVERGES, STOPPED, INTERRUPTED = 0, 1, 3, 6, 130
_LEAST_LEFT = 1.0
"""Seconds of a budget, so that what there is to say is said."""
_WRAPPED = 1e-5
"""Tolerance of a scene test that is written where none is asked for."""

Say = Callable[[str], None]


def reduce(options: ReduceOptions) -> int:
    """Localize, reduce or wrap, and print the result; the tool's exit code."""
    outlive_readers()
    progress = Console(stderr=True, quiet=options.quiet)

    def say(text: str) -> None:
        progress.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)

    begun = time.monotonic()
    try:
        if options.wrap_only:
            print(wrap(failing_build(options), options.golden_data, _tolerance(options, default=_WRAPPED)))
            return FOUND
        _check(options)
        with ForkServers(on_refusal=say) as servers, ExitStack() as limit:
            limit.enter_context(interrupted_after(options.budget))
            with open_builds(options, servers, say) as builds:
                if options.footprints:
                    return _footprints(options, builds, say)
                if options.localize_only:
                    return _localize(options, builds, say)
                if options.budget is not None:
                    # A reduction ends by itself, with the best that is known. Toolchains may have been built before.
                    limit.close()
                    left = max(_LEAST_LEFT, options.budget - (time.monotonic() - begun))
                    options = replace(options, budget=left)
                return _shrink(options, builds, say)
    except UserError as error:
        print(f"error: {error}{_interpreter_hint(str(error), options)}", file=sys.stderr)
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
    """Before builds are opened, whose toolchains may take minutes. Raises `UsageError`."""
    check_output(options.output)
    if not (options.localize_only or options.footprints):
        check_unused(options.output, resume=options.resume)
    if options.interesting is not None:
        Script.checked(options.interesting)


def _interpreter_hint(error: str, options: ReduceOptions) -> str:
    """What to do where a run lacked a module, as builds that were named are run with interpreters that are."""
    if options.bisection is not None or "No module named" not in error:
        return ""
    return "; name an interpreter that has it with --python, and the reference's with --reference-python"


def _tolerance(options: ReduceOptions, *, default: float = 0.0) -> Tolerance:
    return Tolerance(rtol=options.rtol or default, atol=options.atol or default)


def _case_tolerance(options: ReduceOptions, builds: OpenedBuilds) -> Tolerance | None:
    """The case's own: as it was given, else as the bisection was told; None where neither says."""
    return _tolerance(options) if options.has_tolerance else builds.harness


def _localize(options: ReduceOptions, builds: OpenedBuilds, say: Say) -> int:
    builds.check_data()
    # Against a good build, any difference of a task counts, and the case's own tolerance tells what fails.
    told = _tolerance(options)
    divergence = localize(
        LocalizationRequest(
            failing=builds.failing,
            toolchain=builds.failing_toolchain,
            reference=_reference(options, builds),
            golden_data=builds.golden_data,
            tolerance=Tolerance() if options.has_twin else told,
            harness=_case_tolerance(options, builds) if options.has_twin else None,
            budget=options.dump_budget,
            attempts=options.attempts,
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
            budget=options.dump_budget,
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
    """What a localization compares the failing build with."""
    if options.reference_data is not None:
        return RecordedValues(folder=options.reference_data)
    if builds.reference is None:
        return GoldenOutputs(folder=builds.golden_data or builds.failing / "data")
    toolchain = builds.reference_toolchain
    if builds.reference.resolve() == builds.failing.resolve():
        return SameBuild(path=builds.reference, toolchain=toolchain, schedule=options.against_schedule)
    return GoodBuild(path=builds.reference, toolchain=toolchain)


def _print_divergence(divergence: Divergence, options: ReduceOptions) -> int:
    if options.as_json:
        print(divergence.model_dump_json(indent=2, by_alias=True))
    else:
        print_summary(divergence, _lines(options))
        print(options.output / DIVERGENCE)
    return FOUND if divergence.explained else NOTHING_DIVERGES


def _shrink(options: ReduceOptions, builds: OpenedBuilds, say: Say) -> int:
    printed, script = _judge(options)
    if script is not None:
        say(f"{script} {CONVENTION}")
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
        most_tests=options.max_tests,
        resume=options.resume,
        timeout=builds.timeout,
        printed=printed,
        interesting=script,
        external=_external(options),
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


def _judge(options: ReduceOptions) -> tuple[Printed | None, Path | None]:
    """What a run prints where it fails, or the script that judges it, where the failure that was seen does not."""
    printed = _printed(options)
    if options.interesting is not None and printed is not None:
        raise UsageError("expected --interesting, or --fail-regex and --fail-code, found both")
    judged = options.interesting is not None or printed is not None
    if not judged and not options.has_twin and not options.has_tolerance:
        raise UsageError(
            "without --reference the golden data alone judge: expected the case's own --rtol and --atol"
        )
    return printed, None if options.interesting is None else Script.checked(options.interesting)


def _printed(options: ReduceOptions) -> Printed | None:
    pattern, code = options.fail_regex, options.fail_code
    if pattern is None and code is None:
        return None
    try:
        return Printed(code=code, pattern=None if pattern is None else re.compile(pattern))
    except re.error as error:
        raise UsageError(
            f"--fail-regex: expected a regular expression, found {pattern!r}: {error}"
        ) from error


def _external(options: ReduceOptions) -> str | None:
    command = options.external
    if command is None:
        return None
    if not options.has_twin:
        raise UsageError(
            "--with: expected a reference, whose kernels' texts become smaller alike, found none"
        )
    words = shlex.split(command)
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--with {command}: expected a program that can be run")
    return command
