"""A reduction from end to end: a failing build and a good one in, a minimal pair of build directories out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...runner.build_output.build_directory import BuildDirectory
from ...runner.build_output.generated_sources import compare_generated
from ...runner.case.golden import freeze
from ...runner.errors import UserError
from ...runner.process.alarm import interrupted_after
from ...store.files import write_whole
from ..output_folder import working_in
from .edits.kinds import kinds_of
from .external.reducer import ExternalReducer
from .gate import Gate
from .minimize.patience import passes_to_reject
from .minimize.phases import ERROR
from .oracle.expected import Expected
from .oracle.failure import WrongValues
from .oracle.journal import TrialJournal
from .oracle.kernel_swap import KernelSwap
from .oracle.maker import Maker
from .oracle.oracle import Differential, Oracle
from .oracle.running import BuildRunner
from .oracle.script import Script
from .output import JOURNAL, open_output
from .program.candidate import Candidate
from .program.pair import BuildPair
from .recordings import PairRecorder, RecordedPair
from .request import ShrinkRequest
from .result.reduction import Baseline, ReductionResult
from .result.reproducer import Reproducer
from .result.summarize import summarize
from .result.verify import VerifiedCandidate, Verifier
from .shrinker import Shrinker

RESULT = "reduction.json"
_LEAST_TIMEOUT, _TIMES_THE_RUN = 60.0, 10
_LEAST_TO_VERIFY = 4
"""Runs of a result, though the whole program failed each time: what fails in three of ten shows that with 99 %."""


def shrink(request: ShrinkRequest, *, on_progress: Callable[[str], None]) -> ReductionResult:
    """Reduce, and write `result/` and `reduction.json` to the output folder.

    Raises:
        UserError: an input cannot be used, the failure does not show, or the result cannot be verified.
        BuildOutputError: a part of a build cannot be read.
    """
    work = _work(request)
    with working_in(work):
        return _shrunk(request, work, on_progress)


def _shrunk(request: ShrinkRequest, work: Path, on_progress: Callable[[str], None]) -> ReductionResult:
    begun = time.monotonic()
    with interrupted_after(request.budget):
        recorded = _record(request, work, on_progress)
    if request.budget is not None:
        request = replace(request, budget=max(0.0, request.budget - (time.monotonic() - begun)))
    pair = recorded.pair
    difference = _difference(request, pair)
    oracle, reproducer = _oracle(request, recorded, difference, work)
    shrinker = _shrinker(
        request=request, pair=pair, oracle=oracle, reproducer=reproducer, work=work, on_progress=on_progress
    )
    on_progress("running the whole program, straight-line")
    runs, failures = shrinker.baseline()
    reproducer.write(shrinker.best)
    on_progress("running no task at all")
    if shrinker.fails(Candidate(())):
        raise UserError(
            f"{request.failing}: expected a program without tasks not to fail, found that it does: {oracle.text}; "
            "what fails is outside of the tasks"
        )
    external = None
    if request.external is not None and pair.has_twin:
        external = ExternalReducer(
            command=request.external, folder=work, texts=pair.reduced_texts, on_progress=on_progress
        ).reduce
    shrinker.shrink(kinds_of(recorded.pair, recorded.first_wrong, difference.kernels), external)
    times = max(_LEAST_TO_VERIFY, passes_to_reject(shrinker.rate, ERROR))
    verifier = Verifier(oracle=oracle, pair=pair, runs=times, folder=work / "verify")
    chosen = _verified(shrinker.stages or [shrinker.best], reproducer, verifier, on_progress)
    reproducer.explain(chosen.candidate, chosen.failing, verifier.worst_rows(chosen.failing))
    reproducer.tell_rate(chosen.failing, chosen.verified)
    result = summarize(
        request=request,
        pair=pair,
        differing=difference.kernels,
        shrinker=shrinker,
        baseline=Baseline(runs=runs, failures=failures),
        failure=oracle.text,
        chosen=chosen,
    )
    write_whole(request.output / RESULT, result.model_dump_json(indent=2) + "\n")
    return result


def _work(request: ShrinkRequest) -> Path:
    options = [
        str(request.tolerance),
        str(request.golden_data),
        str(request.printed),
        str(request.interesting),
        *(
            f"{toolchain.platform} {dict(toolchain.variables)} {toolchain.schedule}"
            for toolchain in (request.failing_toolchain, request.reference_toolchain)
        ),
    ]
    builds = [build for build in (request.failing, request.reference) if build is not None]
    return open_output(request.output, builds, options, resume=request.resume)


def _record(request: ShrinkRequest, work: Path, on_progress: Callable[[str], None]) -> RecordedPair:
    golden = freeze(request.golden_data or request.failing / "data", work / "golden")
    return PairRecorder(
        failing=request.failing,
        reference=request.reference,
        failing_toolchain=request.failing_toolchain,
        reference_toolchain=request.reference_toolchain,
        golden=golden,
        folder=work,
        timeout=request.timeout,
        tolerance=request.tolerance,
        printed=request.printed,
        any_failure=request.interesting is not None,
        on_progress=on_progress,
    ).record()


@dataclass(frozen=True)
class _Difference:
    """Names of the failing build's kernels whose sources differ in the reference, and whether the two differ in more
    than kernels and orchestration, or run in toolchains that differ."""

    kernels: tuple[str, ...] = ()
    elsewhere: bool = True


def _difference(request: ShrinkRequest, pair: BuildPair) -> _Difference:
    if request.reference is None or not pair.has_twin:
        return _Difference()
    different = compare_generated(
        BuildDirectory.open(request.failing), BuildDirectory.open(request.reference)
    )
    sides = (pair.failing.program.config, pair.reference.program.config)
    sources = {str(kernel.source) for config in sides for kernel in config.kernels.values()}
    sources |= {str(config.orchestration.source) for config in sides}
    files = {*different.differing, *different.only_failing, *different.only_reference}
    return _Difference(
        kernels=tuple(
            kernel.name
            for kernel in pair.failing.program.config.kernels.values()
            if str(kernel.source) in different.differing
        ),
        elsewhere=request.failing_toolchain != request.reference_toolchain or not files <= sources,
    )


def _oracle(
    request: ShrinkRequest, recorded: RecordedPair, difference: _Difference, work: Path
) -> tuple[Differential | Script, Reproducer]:
    """What judges candidates, and what writes the best of them down."""
    pair = recorded.pair
    # A candidate may go on for ever, and nobody wants to wait long for it.
    usual = max(pair.failing.seconds, pair.reference.seconds)
    timeout = min(request.timeout, max(_LEAST_TIMEOUT, _TIMES_THE_RUN * usual))
    runner = BuildRunner(tolerance=request.tolerance, timeout=timeout)
    maker = Maker(pair=pair, runner=runner, computed=work / "computed")
    reproducer = Reproducer(
        pair=pair,
        maker=maker,
        output=request.output,
        tolerance=request.tolerance,
        reason=recorded.reason,
        expected=Expected.of(recorded.failure, request.failing_toolchain.stack),
        script=request.interesting,
        timeout=request.timeout,
    )
    if request.interesting is None:
        swap = KernelSwap(
            pair=pair,
            differing=difference.kernels,
            elsewhere=difference.elsewhere,
            tolerance=request.tolerance,
            folder=work / "swapped",
            timeout=timeout,
        )
        by_value = pair.has_twin and isinstance(recorded.failure, WrongValues)
        oracle = Differential(
            pair=pair,
            failure=recorded.failure,
            maker=maker,
            runner=runner,
            swap=swap if by_value else None,
        )
        return oracle, reproducer
    kept = request.output / "kept"
    script = Script(path=request.interesting, pair=pair, make=reproducer.make, runner=runner, kept=kept)
    return script, reproducer


def _verified(
    stages: Sequence[Candidate],
    reproducer: Reproducer,
    verifier: Verifier,
    on_progress: Callable[[str], None],
) -> VerifiedCandidate:
    """The last stage that fails again, and passes again in the reference; what a chance has made smaller does not.

    Raises:
        UserError: not even the first stage does.
    """
    left = list(stages)
    while True:
        candidate = left.pop()
        failing, passing = reproducer.write(candidate)
        on_progress("verifying the result")
        try:
            return verifier.verify(candidate, failing, passing)
        except UserError as error:
            if not left:
                raise
            on_progress(f"not verified, going back to what was left before the last kind of edit: {error}")


def _shrinker(
    *,
    request: ShrinkRequest,
    pair: BuildPair,
    oracle: Oracle,
    reproducer: Reproducer,
    work: Path,
    on_progress: Callable[[str], None],
) -> Shrinker:
    def on_better(candidate: Candidate) -> None:
        reproducer.write(candidate)
        changed = [f"{before} to {after}" for before, after in (*candidate.extents, *candidate.plain)]
        changed += [f"task {task} in {count}" for task, count in candidate.blocks]
        left = f"tasks {len(pair.submitted(pair.order.whole))} -> {len(pair.submitted(candidate))}"
        on_progress(", ".join([left, *changed]))

    candidates = work / "candidates"
    shutil.rmtree(candidates, ignore_errors=True)
    return Shrinker(
        oracle=oracle,
        journal=TrialJournal.open(request.output / JOURNAL),
        gate=Gate(order=pair.order, best=pair.order.whole, on_better=on_better),
        folder=candidates,
        jobs=request.jobs,
        budget=request.budget,
        most_tests=request.most_tests,
        on_progress=on_progress,
    )
