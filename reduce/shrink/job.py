"""A reduction as a job: a failing build and a good one in, a minimal pair of build directories out."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...runner.build_output.build_directory import BuildDirectory
from ...runner.build_output.generated_sources import compare_generated
from ...runner.case.golden import freeze
from ...runner.compare.statistics.statistics import Tolerance
from ...runner.errors import UsageError, UserError
from ...store.files import is_partial, write_whole
from ..replay.toolchain import Toolchain
from .driver import Driver
from .edits.collapse_kernels import CollapseKernels
from .edits.drop_statements import DropStatements
from .edits.drop_tasks import DropTasks
from .edits.fewer_blocks import FewerBlocks
from .edits.plain_data import PlainData
from .edits.smaller_shapes import SmallerShapes
from .edits.suspects import suspects
from .external.external import ExternalReducer
from .journal import TestJournal
from .minimize.answer import Answer
from .minimize.graph import DependencyGraph
from .minimize.patience import passes_to_reject
from .oracle.expected import Expected
from .oracle.failure import Printed
from .oracle.maker import Maker
from .oracle.oracle import Differential
from .oracle.running import BuildRunner
from .oracle.script import Script
from .program.candidate import Candidate
from .program.pair import BuildPair, MadeBuild
from .recordings import PairRecorder, RecordedPair
from .result.reduction import Baseline, ReductionResult, Size, Substituted, Verified
from .result.reproducer import Reproducer
from .result.verify import Verifier

RESULT = "reduction.json"
_WORK = "work"
_LEAST_TIMEOUT, _TIMES_THE_RUN = 60.0, 10


@dataclass(frozen=True, kw_only=True)
class ReduceRequest:
    """`budget` is seconds of searching, `timeout` seconds a run; None: no limit.

    Without a `reference`, the golden data alone tell what is right. It may be the failing build itself, if its
    toolchain is another one: another target, or another schedule. `printed` or `interesting` say what counts as the
    failure, in place of what the whole build's run shows. `external` is a command that reduces texts of kernels.
    """

    failing: Path
    reference: Path | None
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
    printed: Printed | None = None
    interesting: Path | None = None
    external: str | None = None


def reduce_build(request: ReduceRequest, *, on_progress: Callable[[str], None]) -> ReductionResult:
    """Reduce, and write `result/` and `reduction.json` to the output folder.

    Raises:
        UserError: an input cannot be used, the failure does not show, or the result cannot be verified.
        BuildOutputError: a part of a build cannot be read.
    """
    work = _work(request)
    recorded = _record(request, work, on_progress)
    pair, program = recorded.pair, recorded.pair.failing.program
    whole = Candidate(tuple(range(len(program.tasks))))
    differing = _differing_kernels(request, recorded) if pair.has_twin else ()
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
    oracle: Differential | Script = Differential(
        pair=pair, failure=recorded.failure, maker=maker, runner=runner
    )
    if request.interesting is not None:
        kept = request.output / "kept"
        oracle = Script(path=request.interesting, pair=pair, make=reproducer.make, runner=runner, kept=kept)
    driver = Driver(
        oracle=oracle,
        journal=TestJournal.open(work / "tests.jsonl"),
        folder=work / "candidates",
        jobs=request.jobs,
        budget=request.budget,
        most_tests=request.most_tests,
        on_progress=on_progress,
        on_better=lambda reduction: _better(reproducer, reduction, len(program.tasks), on_progress),
    )
    shutil.rmtree(driver.folder, ignore_errors=True)
    on_progress("running the whole program, straight-line")
    runs, failures = driver.baseline(whole)
    on_progress("running no task at all")
    if driver.is_interesting(Candidate(())):
        raise UserError(
            f"{request.failing}: expected a program without tasks not to fail, found that it does: {oracle.text}; "
            "what fails is outside of the tasks"
        )
    if pair.has_twin:
        guesses = suspects(pair, recorded.first_wrong, differing)
        driver.guess([Candidate(tasks) for tasks in guesses])
    driver.run(_task_edit(recorded))
    used = {name for one in driver.best.tasks for name in program.tasks[one].kernels}
    driver.run(CollapseKernels(tuple(name for name in differing if name in used)))
    external = ExternalReducer(command=request.external, folder=work) if request.external else None
    stages = [driver.best, *(_smaller(driver, pair, external) if pair.has_twin else ())]
    verifier = Verifier(
        oracle=oracle, pair=pair, runs=passes_to_reject(driver.rate, 0.01), folder=work / "verify"
    )
    best, ours, verified, signature = _verified(stages, reproducer, verifier, on_progress)
    reproducer.explain(best, ours, verifier.worst_rows(ours))
    outcomes = list(driver.journal.outcomes.values())
    left = {name for one in best.tasks for name in program.tasks[one].kernels}
    result = ReductionResult(
        failing_build=str(request.failing),
        reference=str(request.reference) if request.reference is not None else None,
        stopped="budget" if driver.stopped else "done",
        failure=oracle.text,
        signature=signature,
        extents=best.extents,
        blocks=best.blocks,
        plain_inputs=best.plain,
        statements_dropped=len(best.statements),
        rewritten_kernels=tuple(name for name, _ in best.rewritten),
        kept_tasks=tuple(f"{one}: {program.tasks[one].name}" for one in best.tasks),
        kernels_of_failing_build=tuple(sorted(set(differing) & left - set(best.collapsed))),
        tasks=Size(before=len(program.tasks), after=len(best.tasks)),
        kernels=Size(before=len(program.config.kernels), after=len(left)),
        bytes=Size(before=pair.failing_cut(whole).bytes, after=ours.cut.bytes),
        baseline=Baseline(runs=runs, failures=failures),
        oracle_calls=driver.calls,
        cached=driver.cached,
        invalid=outcomes.count(Answer.INVALID),
        slipped=outcomes.count(Answer.SLIPPED),
        preloaded=request.failing_toolchain.preloaded,
        substituted=tuple(Substituted(**vars(one)) for one in ours.cut.boundaries),
        verified=verified,
    )
    write_whole(request.output / RESULT, result.model_dump_json(indent=2) + "\n")
    return result


def _record(request: ReduceRequest, work: Path, on_progress: Callable[[str], None]) -> RecordedPair:
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


def _smaller(driver: Driver, pair: BuildPair, external: ExternalReducer | None) -> Iterator[Candidate]:
    """Fewer blocks, smaller shapes, plain inputs, fewer statements; what the reference makes of them is what is
    expected. The best after each."""
    blocks, shapes, data = FewerBlocks(pair), SmallerShapes(pair), PlainData(pair)
    for task in blocks.tasks(driver.best):
        driver.guess(blocks.alternatives(driver.best, task))
    yield driver.best
    for size in shapes.sizes(driver.best):
        driver.guess(shapes.alternatives(driver.best, size))
    yield driver.best
    for name in data.inputs(driver.best):
        driver.guess(data.alternatives(driver.best, name))
    yield driver.best
    statements = DropStatements(pair.kernel_texts(driver.best))
    if statements.count:
        driver.run(statements)
    yield driver.best
    if external is not None:
        for text in pair.kernel_texts(driver.best):
            external.reduce(driver, text)
            yield driver.best


def _verified(
    stages: Sequence[Candidate],
    reproducer: Reproducer,
    verifier: Verifier,
    on_progress: Callable[[str], None],
) -> tuple[Candidate, MadeBuild, Verified, str]:
    """The last stage that fails again, and passes again in the reference; what a chance has made smaller does not.

    Raises:
        UserError: not even the first stage does.
    """
    distinct = list(dict.fromkeys(stages))
    while True:
        best = distinct.pop()
        ours, theirs = reproducer.write(best)
        on_progress("verifying the result")
        try:
            return best, ours, *verifier.verify(ours, theirs)
        except UserError as error:
            if not distinct:
                raise
            on_progress(f"not verified, going back to what was left before the last kind of edit: {error}")


def _task_edit(recorded: RecordedPair) -> DropTasks:
    pair = recorded.pair
    if pair.has_twin:
        return DropTasks(DependencyGraph.free(len(pair.failing.program.tasks)))
    graph = DependencyGraph(tuple(tuple(sorted(above)) for above in pair.failing.tasks.predecessors))
    return DropTasks(graph, targets=frozenset(pair.diverged) or None)


def _work(request: ReduceRequest) -> Path:
    """The folder for what is not the result; one of an earlier call only with `--resume`, and of the same builds."""
    work, output = request.output / _WORK, request.output.resolve()
    builds = [one.resolve() for one in (request.failing, request.reference) if one is not None]
    for build in builds:
        if output.is_relative_to(build) or build.is_relative_to(output):
            raise UsageError(f"-o {request.output}: expected a folder outside of {build}")
    marker = request.output / "reduce-of"
    text = "\n".join(
        [
            *map(_digest, builds),
            str(request.tolerance),
            str(request.golden_data),
            str(request.printed),
            str(request.interesting),
            *(
                f"{one.platform} {dict(one.variables)} {one.schedule}"
                for one in (request.failing_toolchain, request.reference_toolchain)
            ),
        ]
    )
    # A kill may leave the half of a marker, and nothing else.
    if request.output.exists() and not all(is_partial(entry) for entry in request.output.iterdir()):
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
    request.output.mkdir(parents=True, exist_ok=True)
    write_whole(marker, text)
    work.mkdir(exist_ok=True)
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


def _differing_kernels(request: ReduceRequest, recorded: RecordedPair) -> tuple[str, ...]:
    assert request.reference is not None
    different = compare_generated(
        BuildDirectory.open(request.failing), BuildDirectory.open(request.reference)
    )
    return tuple(
        kernel.name
        for kernel in recorded.pair.failing.program.config.kernels.values()
        if str(kernel.source) in different.differing
    )


def _better(
    reproducer: Reproducer, reduction: Candidate, before: int, on_progress: Callable[[str], None]
) -> None:
    reproducer.write(reduction)
    changed = [f"{one} to {other}" for one, other in (*reduction.extents, *reduction.plain)]
    changed += [f"task {one} in {count}" for one, count in reduction.blocks]
    on_progress(f"tasks {before} -> {len(reduction.tasks)}{''.join(f', {one}' for one in changed)}")
