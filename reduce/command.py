"""The body of the command: from options to a job, from errors to exit codes."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from ..runner.build_output.files.errors import BuildOutputError
from ..runner.compare.statistics.statistics import Tolerance
from ..runner.errors import UsageError, UserError
from ..runner.localization.divergence import Divergence
from ..runner.process.fork_servers import ForkServers
from ..runner.stack.file import load_stack
from ..runner.stack.overrides import read_overrides
from .localize.job import localize
from .localize.report.summary import print_summary
from .localize.request import LocalizeRequest, ValuesRequest
from .localize.values.job import localize_by_values
from .output_folder import RESULT
from .replay.toolchain import Toolchain
from .scene.build import build_of
from .scene.test import wrap
from .shrink.job import ReduceRequest, reduce_build
from .shrink.oracle.failure import Printed
from .shrink.oracle.script import CONVENTION, Script

FOUND, ERROR, NOTHING_DIVERGES, STOPPED, INTERRUPTED = 0, 1, 3, 6, 130


def run_cli_job(
    *,
    failing_build: Path,
    localize_only: bool,
    wrap_only: bool,
    reference: Path | None,
    reference_data: Path | None,
    scene_case: str | None,
    against: str | None,
    against_schedule: str | None,
    stack: str | None,
    overrides: tuple[str, ...],
    python: Path | None,
    reference_stack: str | None,
    reference_python: Path | None,
    platform: str | None,
    device: int,
    golden_data: Path | None,
    dump_budget: int,
    rtol: float | None,
    atol: float | None,
    attempts: int,
    timeout: float,
    jobs: int,
    budget: float | None,
    max_tests: int | None,
    interesting: Path | None,
    fail_regex: str | None,
    fail_code: int | None,
    external: str | None,
    resume: bool,
    output: Path,
) -> int:
    """Localize, reduce or wrap, and print; the exit code."""
    progress = Console(stderr=True)
    interpreter = python or Path(sys.executable)
    tolerance = Tolerance(rtol=rtol or 0.0, atol=atol or 0.0)

    def toolchain(name: str, python: Path) -> Toolchain:
        loaded = load_stack(name, overrides=read_overrides(overrides))
        return Toolchain.of(loaded, python=python, platform=platform, device=device, servers=servers)

    def say(text: str) -> None:
        progress.print(text, style="dim", markup=False, highlight=False)

    servers = ForkServers(on_refusal=say)
    try:
        if wrap_only:
            print(wrap(failing_build, golden_data, Tolerance(rtol=rtol or 1e-5, atol=atol or 1e-5)))
            return FOUND
        if stack is None:
            raise UsageError("expected --stack with a stack file, or the name of one")
        references = sum(one is not None for one in (reference, against, against_schedule, reference_data))
        if references > 1:
            raise UsageError(
                "expected one reference: --reference with a good build, or --against with another target, or "
                "--against-schedule with a schedule of the stack file, or --reference-data with recorded values"
            )
        if reference_data is not None and not localize_only:
            raise UsageError("--reference-data: expected --localize-only beside it")
        by_values = reference_data is not None or (localize_only and not references)
        if by_values and rtol is None and atol is None:
            raise UsageError(
                "without --reference values are compared by their closeness: expected the case's own --rtol and --atol"
            )
        ours = toolchain(stack, interpreter)
        theirs = toolchain(reference_stack or stack, reference_python or interpreter)
        written = output.absolute().with_name(f"{output.name}-builds")
        failing_build = build_of(
            failing_build, scene_case, ours, written / "failing", reuse=resume, on_progress=say
        )
        if reference is not None:
            reference = build_of(
                reference, scene_case, theirs, written / "reference", reuse=resume, on_progress=say
            )
        if against is not None:
            theirs = theirs.on(against)
        if against_schedule is not None:
            theirs = theirs.under(against_schedule)
        if not localize_only:
            printed = _printed(fail_regex, fail_code)
            if interesting is not None and printed is not None:
                raise UsageError("expected --interesting, or --fail-regex and --fail-code, found both")
            if not references and interesting is None and printed is None and rtol is None and atol is None:
                raise UsageError(
                    "without --reference the golden data alone judge: expected the case's own --rtol and --atol"
                )
            script = None if interesting is None else Script.checked(interesting)
            if script is not None:
                say(f"{script} {CONVENTION}")
            return _reduce(
                ReduceRequest(
                    failing=failing_build,
                    reference=reference or (failing_build if references else None),
                    failing_toolchain=ours,
                    reference_toolchain=theirs,
                    golden_data=golden_data,
                    tolerance=tolerance,
                    output=output.absolute(),
                    jobs=jobs,
                    budget=budget,
                    most_tests=max_tests,
                    resume=resume,
                    timeout=timeout,
                    printed=printed,
                    interesting=script,
                    external=_external(external, has_twin=bool(references)),
                ),
                say,
            )
        if by_values:
            found = localize_by_values(
                ValuesRequest(
                    failing=failing_build,
                    toolchain=ours,
                    reference_data=reference_data,
                    golden_data=golden_data,
                    tolerance=tolerance,
                    budget=dump_budget,
                    attempts=attempts,
                    timeout=timeout,
                    output=output.absolute(),
                ),
                on_progress=say,
            )
            return _told(found, output)
        found = localize(
            LocalizeRequest(
                failing=failing_build,
                reference=reference or failing_build,
                failing_toolchain=ours,
                reference_toolchain=theirs,
                schedule=against_schedule,
                golden_data=golden_data,
                tolerance=tolerance,
                harness=None,
                budget=dump_budget,
                attempts=attempts,
                timeout=timeout,
                output=output.absolute(),
            ),
            on_progress=say,
        )
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except (BuildOutputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR
    except KeyboardInterrupt:
        how = "begins anew" if localize_only else "with --resume goes on and repeats no test"
        print(f"interrupted; the same command {how}", file=sys.stderr)
        return INTERRUPTED
    finally:
        servers.close()
    return _told(found, output)


def _told(found: Divergence, output: Path) -> int:
    print_summary(found, Console())
    print(output / RESULT)
    return FOUND if found.first_divergent or found.stall else NOTHING_DIVERGES


def _external(command: str | None, *, has_twin: bool) -> str | None:
    if command is None:
        return None
    if not has_twin:
        raise UsageError(
            "--with: expected a reference, whose kernels' texts become smaller alike, found none"
        )
    words = shlex.split(command)
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--with {command}: expected a program that can be run")
    return command


def _printed(pattern: str | None, code: int | None) -> Printed | None:
    if pattern is None and code is None:
        return None
    try:
        return Printed(code=code, pattern=None if pattern is None else re.compile(pattern))
    except re.error as error:
        raise UsageError(
            f"--fail-regex: expected a regular expression, found {pattern!r}: {error}"
        ) from error


def _reduce(request: ReduceRequest, say: Callable[[str], None]) -> int:
    found = reduce_build(request, on_progress=say)
    print(f"tasks {found.tasks.before} -> {found.tasks.after}: {', '.join(found.kept_tasks)}")
    print(
        f"kernels {found.kernels.before} -> {found.kernels.after}, bytes {found.bytes.before} -> {found.bytes.after}"
    )
    print(
        f"{found.oracle_calls} tests; verified: failed {found.verified.failures} of {found.verified.runs} runs"
    )
    print(request.output / "result")
    return STOPPED if found.stopped == "budget" else FOUND
