"""A reduction as a job: a failing build and a good one in, a minimal pair of build directories out."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..runner.build_output.build_directory import BuildDirectory
from ..runner.errors import UsageError, UserError
from ..runner.golden import FrozenGolden, freeze
from ..runner.tensors.statistics import Tolerance
from ..store.vocabulary import Verdict
from .driver import MOST_RUNS, Driver
from .edits.collapse_kernels import CollapseKernels
from .edits.drop_tasks import DropTasks
from .edits.suspects import suspects
from .generated import compare_generated
from .journal import Journal
from .minimize.outcome import Outcome
from .minimize.patience import passes_to_reject
from .oracle import Differential
from .program.candidate import Folder, Pair
from .program.model import Reduction
from .program.recording import Recorder, Recording
from .reduction import Baseline, ReductionResult, Size, Substituted, Verified
from .reproducer import Reproducer
from .toolchain import Toolchain

RESULT = "reduction.json"
_WORK = "work"


@dataclass(frozen=True, kw_only=True)
class ReduceRequest:
    """`budget` is seconds of searching, `timeout` seconds a run; None: no limit."""

    failing: Path
    reference: Path
    failing_toolchain: Toolchain
    reference_toolchain: Toolchain
    golden_data: Path | None
    tolerance: Tolerance
    output: Path
    jobs: int
    budget: float | None
    most_tests: int | None
    resume: bool
    timeout: float


def reduce_build(request: ReduceRequest, *, on_progress: Callable[[str], None]) -> ReductionResult:
    """Reduce, and write `result/` and `reduction.json` to the output folder.

    Raises:
        UserError: an input cannot be used, the failure does not show, or the result cannot be verified.
        BuildOutputError: a part of a build cannot be read.
    """
    work = _work(request)
    golden = freeze(request.golden_data or request.failing / "data", work / "golden")
    pair = _recorded(request, golden, work, on_progress)
    program = pair.failing.program
    differing = _differing_kernels(request, pair)
    reproducer = Reproducer(
        pair=pair, output=request.output, tolerance=request.tolerance, reason=_reason(pair)
    )
    oracle = Differential(pair=pair, tolerance=request.tolerance, timeout=request.timeout)
    driver = Driver(
        oracle=oracle,
        journal=Journal.open(work / "tests.jsonl"),
        folder=work / "candidates",
        jobs=request.jobs,
        budget=request.budget,
        most_tests=request.most_tests,
        on_progress=on_progress,
        on_better=lambda reduction: _better(reproducer, reduction, len(program.tasks), on_progress),
    )
    shutil.rmtree(driver.folder, ignore_errors=True)
    on_progress("running the whole program, straight-line")
    runs, failures = driver.baseline(Reduction(tuple(range(len(program.tasks)))))
    driver.guess([Reduction(tasks) for tasks in suspects(pair)])
    driver.run(DropTasks(len(program.tasks)))
    used = {name for one in driver.best.tasks for name in program.tasks[one].kernels}
    driver.run(CollapseKernels(tuple(name for name in differing if name in used)))
    ours, theirs = reproducer.write(driver.best)
    on_progress("verifying the result")
    verified, signature = _verify(oracle, ours, theirs, work / "verify", passes_to_reject(driver.rate, 0.01))
    outcomes = list(driver.journal.outcomes.values())
    left = {name for one in driver.best.tasks for name in program.tasks[one].kernels}
    result = ReductionResult(
        failing_build=str(request.failing),
        reference=str(request.reference),
        stopped="budget" if driver.stopped else "done",
        signature=f"mismatch {signature}",
        kept_tasks=tuple(f"{one}: {program.tasks[one].name}" for one in driver.best.tasks),
        kernels_of_failing_build=tuple(sorted(set(differing) & left - set(driver.best.collapsed))),
        tasks=Size(before=len(program.tasks), after=len(driver.best.tasks)),
        kernels=Size(before=len(program.config.kernels), after=len(left)),
        bytes=Size(
            before=pair.failing_cut(Reduction(tuple(range(len(program.tasks))))).bytes, after=ours.cut.bytes
        ),
        baseline=Baseline(runs=runs, failures=failures),
        oracle_calls=driver.calls,
        cached=driver.cached,
        invalid=outcomes.count(Outcome.INVALID),
        slipped=outcomes.count(Outcome.SLIPPED),
        substituted=tuple(Substituted(**vars(one)) for one in ours.cut.boundaries),
        verified=verified,
    )
    partial = request.output / f"{RESULT}.partial"
    partial.write_text(result.model_dump_json(indent=2) + "\n", encoding="utf-8")
    partial.replace(request.output / RESULT)
    return result


def _work(request: ReduceRequest) -> Path:
    """The folder for what is not the result; one of an earlier call only with `--resume`, and of the same builds."""
    work, output = request.output / _WORK, request.output.resolve()
    for build in (request.failing.resolve(), request.reference.resolve()):
        if output.is_relative_to(build) or build.is_relative_to(output):
            raise UsageError(f"-o {request.output}: expected a folder outside of {build}")
    marker = request.output / "reduce-of"
    text = "\n".join(
        [
            _digest(request.failing),
            _digest(request.reference),
            str(request.tolerance),
            str(request.golden_data),
        ]
    )
    if request.output.exists() and any(request.output.iterdir()):
        if not marker.exists():
            raise UsageError(f"-o {request.output}: expected a new or empty folder, found other files in it")
        if request.resume and marker.read_text() != text:
            raise UsageError(
                f"--resume: expected a reduction of the same builds in {request.output}, found another"
            )
        if not request.resume:
            raise UsageError(
                f"-o {request.output}: a reduction is there already; go on with --resume, or name another"
            )
    work.mkdir(parents=True, exist_ok=True)
    marker.write_text(text)
    return work


def _digest(build: Path) -> str:
    """Names a build by the content of its sources."""
    opened = BuildDirectory.open(build)
    config = opened.kernel_config()
    digest = hashlib.sha256(opened.orchestration().source)
    for kernel in config.kernels.values():
        if not kernel.external:
            digest.update(opened.folder.locate(kernel.source).read_bytes())
    return f"{build.resolve()} {digest.hexdigest()}"


def _recorded(
    request: ReduceRequest, golden: FrozenGolden, work: Path, on_progress: Callable[[str], None]
) -> Pair:
    def recorder(build: Path, toolchain: Toolchain, name: str) -> Recorder:
        return Recorder(
            build=build.resolve(),
            data=golden.directory,
            toolchain=toolchain,
            folder=work / name,
            timeout=request.timeout,
        )

    on_progress("recording the reference")
    reference = recorder(request.reference, request.reference_toolchain, "reference").record()
    failing = recorder(request.failing, request.failing_toolchain, "failing")
    for attempt in range(MOST_RUNS):
        on_progress(f"recording the failing build (attempt {attempt + 1})")
        pair = Pair(failing=failing.record(attempt), reference=reference)
        if pair.diverged:
            return pair
    raise UserError(
        f"{request.failing}: expected a run that differs from the reference, found {MOST_RUNS} that do not"
    )


def _differing_kernels(request: ReduceRequest, pair: Pair) -> tuple[str, ...]:
    different = compare_generated(
        BuildDirectory.open(request.failing), BuildDirectory.open(request.reference)
    )
    config: Recording = pair.failing
    return tuple(
        kernel.name
        for kernel in config.program.config.kernels.values()
        if str(kernel.source) in different.differing
    )


def _reason(pair: Pair) -> str:
    first = pair.diverged[0]
    return (
        f"The first task whose results differ from the good build's is task {first} "
        f"(`{pair.failing.program.tasks[first].name}`)."
    )


def _better(
    reproducer: Reproducer, reduction: Reduction, before: int, on_progress: Callable[[str], None]
) -> None:
    reproducer.write(reduction)
    on_progress(f"tasks {before} -> {len(reduction.tasks)}")


def _verify(
    oracle: Differential, ours: Folder, theirs: Folder, folder: Path, runs: int
) -> tuple[Verified, str]:
    """Runs of the result itself, each in a process of its own.

    Raises:
        UserError: it never fails, or the twin does not pass each time.
    """
    shutil.rmtree(folder, ignore_errors=True)
    failures, passes, signature = 0, 0, ""
    for number in range(runs):
        found = oracle.run(ours, oracle.pair.failing.toolchain, folder / f"failing-{number}").classification
        twin = oracle.run(
            theirs, oracle.pair.reference.toolchain, folder / f"passing-{number}"
        ).classification
        if found.verdict is Verdict.MISMATCH:
            failures, signature = failures + 1, found.signature or ""
        passes += twin.verdict is Verdict.PASS
    if not failures or passes < runs:
        raise UserError(
            f"{ours.path}: expected the result to fail and its twin to pass, found {failures} failures and {passes} "
            f"passes in {runs} runs each"
        )
    return Verified(runs=runs, failures=failures, passes=passes), signature
