"""`reduce`: from its options to a localization or a reduction, and from errors to exit codes."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ..runner.build_output.files.errors import BuildOutputError
from ..runner.compare.statistics.statistics import Tolerance
from ..runner.errors import UsageError, UserError
from ..runner.localization.divergence import DIVERGENCE, Divergence
from ..runner.process.fork_servers import ForkServers
from ..runner.stack.file import load_stack
from ..runner.stack.overrides import read_overrides
from .localize.pipeline import localize
from .localize.references.builds import GoodBuild, SameBuild
from .localize.references.reference import Reference
from .localize.references.values import GoldenOutputs, RecordedValues
from .localize.report.summary import print_summary
from .localize.request import LocalizationRequest
from .options import ReduceOptions
from .replay.toolchain import Toolchain
from .scene.build import build_of
from .scene.test import wrap
from .shrink.oracle.failure import Printed
from .shrink.oracle.script import CONVENTION, Script
from .shrink.pipeline import ShrinkRequest, shrink

FOUND, ERROR, NOTHING_DIVERGES, STOPPED, INTERRUPTED = 0, 1, 3, 6, 130
_WRAPPED = 1e-5
"""Tolerance of a scene test that is written where none is asked for."""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class _Builds:
    """The failing build and what it is compared with: None where recorded values or the golden data are."""

    failing: Path
    reference: Path | None
    failing_toolchain: Toolchain
    reference_toolchain: Toolchain


def reduce(options: ReduceOptions) -> int:
    """Localize, reduce or wrap, and print the result; the tool's exit code."""
    progress = Console(stderr=True)

    def say(text: str) -> None:
        progress.print(text, style="dim", markup=False, highlight=False)

    try:
        if options.wrap_only:
            print(wrap(options.failing_build, options.golden_data, _tolerance(options, default=_WRAPPED)))
            return FOUND
        with ForkServers(on_refusal=say) as servers:
            builds = _open_builds(options, servers, say)
            return _localize(options, builds, say) if options.localize_only else _shrink(options, builds, say)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except (BuildOutputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR
    except KeyboardInterrupt:
        how = "begins anew" if options.localize_only else "with --resume goes on and repeats no test"
        print(f"interrupted; the same command {how}", file=sys.stderr)
        return INTERRUPTED


def _open_builds(options: ReduceOptions, servers: ForkServers, say: Say) -> _Builds:
    """The builds with their toolchains; a scene test's script is written as a build directory beside the output."""
    stack = _checked_stack(options)
    overrides = read_overrides(options.repository)

    def toolchain(name: str, python: Path) -> Toolchain:
        loaded = load_stack(name, overrides=overrides)
        return Toolchain.of(
            loaded, python=python, platform=options.platform, device=options.device, servers=servers
        )

    def build(path: Path, side: Toolchain, name: str) -> Path:
        written = options.output.absolute().with_name(f"{options.output.name}-builds") / name
        return build_of(path, options.scene_case, side, written, reuse=options.resume, on_progress=say)

    interpreter = options.python or Path(sys.executable)
    ours = toolchain(stack, interpreter)
    theirs = toolchain(options.reference_stack or stack, options.reference_python or interpreter)
    failing = build(options.failing_build, ours, "failing")
    reference = failing if options.has_twin else None
    if options.reference is not None:
        reference = build(options.reference, theirs, "reference")
    if options.against is not None:
        theirs = theirs.on(options.against)
    if options.against_schedule is not None:
        theirs = theirs.under(options.against_schedule)
    return _Builds(failing=failing, reference=reference, failing_toolchain=ours, reference_toolchain=theirs)


def _checked_stack(options: ReduceOptions) -> str:
    """The stack's name or file, of options that say what the failing build is compared with."""
    if options.stack is None:
        raise UsageError("expected --stack with a stack file, or the name of one")
    if options.references > 1:
        raise UsageError(
            "expected one reference: --reference with a good build, or --against with another target, or "
            "--against-schedule with a schedule of the stack file, or --reference-data with recorded values"
        )
    if options.reference_data is not None and not options.localize_only:
        raise UsageError("--reference-data: expected --localize-only beside it")
    if options.localize_only and not options.has_twin and not options.has_tolerance:
        raise UsageError(
            "without --reference values are compared by their closeness: expected the case's own --rtol and --atol"
        )
    return options.stack


def _tolerance(options: ReduceOptions, *, default: float = 0.0) -> Tolerance:
    return Tolerance(rtol=options.rtol or default, atol=options.atol or default)


def _localize(options: ReduceOptions, builds: _Builds, say: Say) -> int:
    divergence = localize(
        LocalizationRequest(
            failing=builds.failing,
            toolchain=builds.failing_toolchain,
            reference=_reference(options, builds),
            golden_data=options.golden_data,
            tolerance=_tolerance(options),
            budget=options.dump_budget,
            attempts=options.attempts,
            timeout=options.timeout,
            output=options.output.absolute(),
        ),
        on_progress=say,
    )
    return _print_divergence(divergence, options.output)


def _reference(options: ReduceOptions, builds: _Builds) -> Reference:
    """What a localization compares the failing build with."""
    if options.reference_data is not None:
        return RecordedValues(folder=options.reference_data)
    if builds.reference is None:
        return GoldenOutputs(folder=options.golden_data or builds.failing / "data")
    toolchain = builds.reference_toolchain
    if builds.reference.resolve() == builds.failing.resolve():
        return SameBuild(path=builds.reference, toolchain=toolchain, schedule=options.against_schedule)
    return GoodBuild(path=builds.reference, toolchain=toolchain)


def _print_divergence(divergence: Divergence, output: Path) -> int:
    print_summary(divergence, Console())
    print(output / DIVERGENCE)
    return FOUND if divergence.first_divergent or divergence.stall else NOTHING_DIVERGES


def _shrink(options: ReduceOptions, builds: _Builds, say: Say) -> int:
    printed, script = _judge(options)
    if script is not None:
        say(f"{script} {CONVENTION}")
    request = ShrinkRequest(
        failing=builds.failing,
        reference=builds.reference,
        failing_toolchain=builds.failing_toolchain,
        reference_toolchain=builds.reference_toolchain,
        golden_data=options.golden_data,
        tolerance=_tolerance(options),
        output=options.output.absolute(),
        jobs=options.jobs,
        budget=options.budget,
        most_tests=options.max_tests,
        resume=options.resume,
        timeout=options.timeout,
        printed=printed,
        interesting=script,
        external=_external(options),
    )
    result = shrink(request, on_progress=say)
    print(f"tasks {result.tasks.before} -> {result.tasks.after}: {', '.join(result.kept_tasks)}")
    print(
        f"kernels {result.kernels.before} -> {result.kernels.after}, bytes {result.bytes.before} -> "
        f"{result.bytes.after}"
    )
    print(
        f"{result.oracle_calls} tests; verified: failed {result.verified.failures} of {result.verified.runs} runs"
    )
    print(request.output / "result")
    return STOPPED if result.stopped == "budget" else FOUND


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
