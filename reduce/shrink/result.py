"""Reduces a failing build and a good one to a minimal pair of builds, from end to end.

`shrink` makes the whole reduction. `PairRecorder` records the two builds and their failure. A `Shrinker` searches for
the smallest candidate, and `Verifier` runs the result in new processes. `open_output` opens the output folder, which
may hold an earlier reduction.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ...runner.build_output.directory import BuildDirectory, TensorFolder, compare_generated
from ...runner.case.case import FrozenGolden, freeze
from ...runner.compare.statistics import Tolerance
from ...runner.errors import UsageError, UserError
from ...runner.localization_job import OWNER_FILE, work_folder
from ...runner.process.signals import time_limit
from ...store.durable_files import IGNORE, is_partial, try_remove_tree, write_whole
from ...store.vocabulary import Verdict
from ..replay.replay import FailedRunError, WorkingCopy
from ..replay.toolchain import Toolchain
from .edits import BuildPair, edit_kinds
from .extract import Attempt, Recorder, Recording
from .minimize import REJECTION_ERROR, Answer, passes_to_reject
from .oracle import (
    BrokenRun,
    BuildMaker,
    BuildRunner,
    DifferentialOracle,
    Failure,
    KernelSwap,
    Oracle,
    ScriptOracle,
    WrongValues,
)
from .program import Candidate
from .program_text import CandidateBuild, take_kernel
from .reproducer import (
    Baseline,
    ExpectedFailure,
    ReductionResult,
    Reproducer,
    Size,
    Substituted,
    Verified,
    WorstRow,
    worst_rows,
)
from .shrinker import MAX_RUNS, Gate, Shrinker, TrialJournal

RESULT = "reduction.json"


JOURNAL = "tests.jsonl"
_MIN_TIMEOUT = 60.0
"""A run that took less than this many seconds did not hang."""
_HANG_FACTOR = 10
"""A run hangs if it takes more than this many times as long as usual, and more than `_MIN_TIMEOUT`."""
_MIN_VERIFY_RUNS = 4
"""At least this many runs verify a result, even if the whole program failed each time.

A result that fails in only three of ten runs passes at least once in them with a chance of 99 %."""


@dataclass(frozen=True, kw_only=True)
class ShrinkRequest:
    """The inputs of a reduction.

    Attributes:
        reference: a good build, or the failing build itself with another toolchain. If it is None, the golden data
            have the right outputs.
        golden_data: the folder of the golden data, or None for the failing build's own.
        jobs: the number of runs at once.
        budget: the limit of the whole reduction with its recordings, in seconds. None is no limit.
        timeout: the limit of one run, in seconds.
        interesting: a script that decides what counts as the failure. None takes the failure of the whole build.
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
    resume: bool
    timeout: float
    interesting: Path | None = None


def shrink(request: ShrinkRequest, *, on_progress: Callable[[str], None]) -> ReductionResult:
    """Reduce a failing build, and write `result/` and `reduction.json` to the output folder.

    Raises:
        UserError: an input cannot be used, the build does not fail, or the result cannot be verified.
        BuildOutputError: a part of a build cannot be read.
    """
    with _open_work(request) as work:
        return _run_reduction(request, work, on_progress)


def _run_reduction(request: ShrinkRequest, work: Path, on_progress: Callable[[str], None]) -> ReductionResult:
    start = time.monotonic()
    with time_limit(request.budget):
        golden = freeze(request.golden_data or request.failing / "data", work / "golden")
        recorder = PairRecorder(request=request, golden=golden, folder=work, on_progress=on_progress)
        recorded = recorder.record()
    if request.budget is not None:
        request = replace(request, budget=max(0.0, request.budget - (time.monotonic() - start)))
    pair = recorded.pair
    difference = _compare_builds(request, pair)
    # A candidate may hang, so its timeout is close to the usual time.
    usual_seconds = max(pair.failing.seconds, pair.reference.seconds)
    timeout = _timeout_for_hangs(usual_seconds, limit=request.timeout)
    runner = BuildRunner(tolerance=request.tolerance, timeout=timeout)
    maker = BuildMaker(pair=pair, runner=runner, computed=work / "computed")
    reproducer = Reproducer(
        pair=pair,
        maker=maker,
        output=request.output,
        tolerance=request.tolerance,
        reason=recorded.reason,
        expected=ExpectedFailure.from_failure(recorded.failure, request.failing_toolchain.stack),
        script=request.interesting,
        timeout=request.timeout,
    )
    oracle = _make_oracle(request, recorded, difference, maker, reproducer, work)
    shrinker = _make_shrinker(
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
    shrinker.shrink(edit_kinds(pair, recorded.first_wrong, difference.kernels))
    verifier = Verifier(
        oracle=oracle,
        runner=runner,
        pair=pair,
        runs=max(_MIN_VERIFY_RUNS, passes_to_reject(shrinker.rate, REJECTION_ERROR)),
        folder=work / "verify",
    )
    chosen = _verify_stages(shrinker.stages or [shrinker.best], reproducer, verifier, on_progress)
    reproducer.explain(chosen.candidate, chosen.failing, verifier.worst_rows(chosen.failing))
    reproducer.write_check_runs(chosen.failing, chosen.verified)
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


def _open_work(request: ShrinkRequest) -> AbstractContextManager[Path]:
    options = [
        str(request.tolerance),
        str(request.golden_data),
        "None",  # In place of a removed option, so that the markers of earlier versions still match.
        str(request.interesting),
        *(
            f"{toolchain.platform} {dict(toolchain.variables)} {toolchain.schedule}"
            for toolchain in (request.failing_toolchain, request.reference_toolchain)
        ),
    ]
    builds = [build for build in (request.failing, request.reference) if build is not None]
    return open_output(request.output, builds, options, resume=request.resume)


@contextmanager
def open_output(
    output: Path, builds: Sequence[Path], options: Sequence[str], *, resume: bool
) -> Generator[Path]:
    """Open an output folder, and yield the `work_folder` below it for everything but the result.

    An earlier reduction is continued only with `resume`, and only for the same builds with the same options.

    Raises:
        UsageError: the output lies in a build, contains one, or holds something else.
        BuildOutputError: a build's sources cannot be read.
    """
    resolved = [build.resolve() for build in builds]
    for build in resolved:
        if output.resolve().is_relative_to(build) or build.is_relative_to(output.resolve()):
            raise UsageError(f"-o {output}: expected a folder outside of {build}")
    check_unused(output, resume=resume)
    marker = output / OWNER_FILE
    text = "\n".join([*map(_digest, resolved), *options])
    if _is_used(output) and marker.read_text() != text:
        raise UsageError(f"--resume: expected a reduction of the same builds in {output}, found another")
    with work_folder(output) as work:
        write_whole(marker, text)
        yield work


def check_unused(output: Path, *, resume: bool) -> None:
    """Check that a folder can be used for a reduction.

    Raises:
        UsageError: the folder holds other files, or a reduction although `resume` is false.
    """
    if not _is_used(output):
        return
    if not (output / OWNER_FILE).exists():
        raise UsageError(f"-o {output}: expected a new or empty folder, found other files in it")
    if not resume:
        raise UsageError(f"-o {output}: a reduction is there already; go on with --resume, or name another")


def _is_used(output: Path) -> bool:
    # A killed process may leave nothing but an incomplete marker.
    return output.exists() and not all(is_partial(path) or path.name == IGNORE for path in output.iterdir())


def _digest(build: Path) -> str:
    """Return the path of a build and a hash of its sources."""
    opened = BuildDirectory.open(build)
    digest = hashlib.sha256(opened.orchestration().source)
    for kernel in opened.kernel_config().kernels.values():
        if not kernel.external:
            digest.update(opened.source(kernel.source))
    return f"{build} {digest.hexdigest()}"


def _timeout_for_hangs(usual_seconds: float, *, limit: float) -> float:
    """Return the timeout in seconds after which a run counts as hanging."""
    return min(limit, max(_MIN_TIMEOUT, _HANG_FACTOR * usual_seconds))


@dataclass(frozen=True, kw_only=True)
class RecordedPair:
    """The two recorded builds and their failure, with a sentence that describes it.

    `first_wrong` is the task of the failing run that went wrong first, or None if it is not known.
    """

    pair: BuildPair
    failure: Failure
    first_wrong: int | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class PairRecorder:
    """Records both builds and their failure below `folder`."""

    request: ShrinkRequest
    golden: FrozenGolden
    folder: Path
    on_progress: Callable[[str], None]

    def record(self) -> RecordedPair:
        """Run both builds, the failing one until it fails.

        Raises:
            UserError: a build cannot be run, or the failing one does not fail.
            BuildOutputError: a part of a build, or its records, cannot be read.
        """
        if self.request.reference is None:
            return self._record_without_reference()
        self.on_progress("recording the reference")
        reference = self._make_recorder(self.request.reference, "reference").record()
        for attempt in self._attempts(_timeout_for_hangs(reference.seconds, limit=self.request.timeout)):
            if not attempt.is_compared:
                return self._broken_pair(attempt, reference)
            assert attempt.recording is not None
            pair = BuildPair(failing=attempt.recording, reference=reference)
            if pair.divergent_tasks or self._accepts_any_failure:
                return _wrong_values_pair(pair, "the good build's")
        raise UserError(
            f"{self.request.failing}: expected a run in which a task leaves other values than in the reference, found "
            f"{self._attempts_text} in which none does"
        )

    def _record_without_reference(self) -> RecordedPair:
        for attempt in self._attempts(self.request.timeout):
            if attempt.recording is None or not attempt.is_compared:
                raise FailedRunError(
                    f"{self.request.failing}: expected its outputs compared, found {attempt.verdict.value}: "
                    f"{attempt.why[:200]}; such a failure is reduced against a good build only (--reference)",
                    reason=attempt.why,
                )
            pair = BuildPair(
                failing=attempt.recording, reference=attempt.recording, golden=self.request.tolerance
            )
            if pair.divergent_tasks or self._accepts_any_failure:
                return _wrong_values_pair(pair, "the golden data")
        raise UserError(
            f"{self.request.failing}: expected a run whose outputs miss the golden data, "
            f"found {self._attempts_text} that do not"
        )

    def _attempts(self, timeout: float) -> Iterator[Attempt]:
        """Run the failing build, and yield each run.

        The build first runs unchanged. Afterwards it runs once under each schedule of the stack, unless the user chose
        a schedule. The recording of a run under a schedule has that schedule in its toolchain.
        """
        recorder = replace(self._failing_recorder, timeout=timeout)
        for number in range(MAX_RUNS):
            self.on_progress(f"recording the failing build (attempt {number + 1})")
            yield recorder.attempt(number)
        for number, schedule in enumerate(self._schedules, start=MAX_RUNS):
            self.on_progress(f"recording the failing build under schedule {schedule}")
            yield replace(recorder, toolchain=recorder.toolchain.with_schedule(schedule)).attempt(number)

    @property
    def _accepts_any_failure(self) -> bool:
        """Return whether every run is recorded, because a script decides later what counts as the failure."""
        return self.request.interesting is not None

    @property
    def _schedules(self) -> Sequence[str]:
        """Return the schedules under which the failing build runs if it does not fail unchanged."""
        chosen = self.request.failing_toolchain.schedule is not None
        return () if chosen else tuple(self.request.failing_toolchain.stack.schedules)

    @property
    def _attempts_text(self) -> str:
        """Return the number of all attempts, in words."""
        under_schedules = f", and one under each of {', '.join(self._schedules)}," if self._schedules else ""
        return f"{MAX_RUNS}{under_schedules}"

    def _broken_pair(self, attempt: Attempt, reference: Recording) -> RecordedPair:
        """Return the pair for a failing run that ended before its outputs were compared."""
        if not self._accepts_any_failure and not attempt.verdict.traits.ends_early:
            raise UserError(
                f"{self.request.failing}: expected a failure of the build, found {attempt.verdict.value}: "
                f"{attempt.why[:200]}; say what counts with --interesting"
            )
        failure = BrokenRun(attempt.verdict, attempt.signature)
        if attempt.recording is not None:
            pair = BuildPair(failing=attempt.recording, reference=reference)
            first = pair.first_unfinished
            reason = f"It ends with {failure.text}."
            if first is not None:
                reason += f" The first task that did not end is {pair.describe_task(first)}."
            return RecordedPair(pair=pair, failure=failure, first_wrong=first, reason=reason)
        pair = BuildPair(failing=self._make_hybrid(reference), reference=reference)
        return RecordedPair(
            pair=pair,
            failure=failure,
            first_wrong=None,
            reason=f"It ends with {failure.text}, as the good build's tasks do with the failing build's kernels.",
        )

    def _make_hybrid(self, reference: Recording) -> Recording:
        """Return the reference's program with the failing build's kernels.

        It stands for the failing run, if that left no records and its tasks are not known.
        """
        failing = self._failing_recorder.open_copy()
        path = self.folder / "failing" / "hybrid"
        WorkingCopy(path).discard()
        hybrid = WorkingCopy.create(reference.copy.path, path)
        for kernel in failing.build().kernel_config().kernels.values():
            take_kernel(kernel.name, failing, hybrid)
        return replace(reference, copy=hybrid, toolchain=self.request.failing_toolchain)

    @property
    def _failing_recorder(self) -> Recorder:
        return self._make_recorder(self.request.failing, "failing")

    def _make_recorder(self, build: Path, name: str) -> Recorder:
        return Recorder(
            build=build.resolve(),
            data=self.golden.directory,
            toolchain=self.request.failing_toolchain
            if name == "failing"
            else self.request.reference_toolchain,
            folder=self.folder / name,
            timeout=self.request.timeout,
        )


def _wrong_values_pair(pair: BuildPair, expected: str) -> RecordedPair:
    """Return the pair for a failing run with wrong values. `expected` is a phrase for the right values."""
    first = pair.first_wrong_task
    if first is None:
        reason = "No value is known to be wrong."
    elif first in pair.missing:
        reason = f"It does not submit {pair.describe_task(first)}."
    elif first in pair.programs.extra_tasks:
        reason = f"The good build does not submit {pair.describe_task(first)}."
    elif first in pair.programs.moved_results:
        task = pair.describe_task(first)
        reason = f"The first task that leaves its results elsewhere than in the good build is {task}."
    else:
        reason = f"The first task whose results differ from {expected} is {pair.describe_task(first)}."
    return RecordedPair(pair=pair, failure=WrongValues(pair), first_wrong=first, reason=reason)


@dataclass(frozen=True)
class _Difference:
    """How the two builds differ. `kernels` are the failing build's kernels with another source in the reference.

    `elsewhere` says whether the builds differ in more than kernels and orchestration, or in their toolchains.
    """

    kernels: tuple[str, ...] = ()
    elsewhere: bool = True


def _compare_builds(request: ShrinkRequest, pair: BuildPair) -> _Difference:
    if request.reference is None or not pair.has_reference:
        return _Difference()
    generated = compare_generated(
        BuildDirectory.open(request.failing), BuildDirectory.open(request.reference)
    )
    sides = (pair.failing.program.config, pair.reference.program.config)
    sources = {str(kernel.source) for config in sides for kernel in config.kernels.values()}
    sources |= {str(config.orchestration.source) for config in sides}
    files = {*generated.differing, *generated.only_failing, *generated.only_reference}
    return _Difference(
        kernels=tuple(
            kernel.name
            for kernel in pair.failing.program.config.kernels.values()
            if str(kernel.source) in generated.differing
        ),
        elsewhere=request.failing_toolchain != request.reference_toolchain or not files <= sources,
    )


def _make_oracle(
    request: ShrinkRequest,
    recorded: RecordedPair,
    difference: _Difference,
    maker: BuildMaker,
    reproducer: Reproducer,
    work: Path,
) -> DifferentialOracle | ScriptOracle:
    if request.interesting is not None:
        return ScriptOracle(
            path=request.interesting,
            make=reproducer.make,
            kept=request.output / "kept",
            timeout=maker.runner.timeout,
        )
    swap = None
    if recorded.pair.has_reference and isinstance(recorded.failure, WrongValues):
        swap = KernelSwap(
            pair=recorded.pair,
            differing=difference.kernels,
            differ_elsewhere=difference.elsewhere,
            tolerance=request.tolerance,
            folder=work / "swapped",
            timeout=maker.runner.timeout,
        )
    return DifferentialOracle(pair=recorded.pair, failure=recorded.failure, maker=maker, swap=swap)


def _make_shrinker(
    *,
    request: ShrinkRequest,
    pair: BuildPair,
    oracle: Oracle,
    reproducer: Reproducer,
    work: Path,
    on_progress: Callable[[str], None],
) -> Shrinker:
    task_count = len(pair.submitted_tasks(pair.order.whole))

    def on_better(candidate: Candidate) -> None:
        reproducer.write(candidate)
        on_progress(
            ", ".join(
                [
                    f"tasks {task_count} -> {len(pair.submitted_tasks(candidate))}",
                    *(f"{before} to {after}" for before, after in (*candidate.extents, *candidate.plain)),
                    *(f"task {task} in {count}" for task, count in candidate.blocks),
                ]
            )
        )

    candidates = work / "candidates"
    try_remove_tree(candidates)
    return Shrinker(
        oracle=oracle,
        journal=TrialJournal.open(request.output / JOURNAL),
        gate=Gate(order=pair.order, best=pair.order.whole, on_better=on_better),
        folder=candidates,
        jobs=request.jobs,
        budget=request.budget,
        on_progress=on_progress,
    )


def _verify_stages(
    stages: Sequence[Candidate],
    reproducer: Reproducer,
    verifier: Verifier,
    on_progress: Callable[[str], None],
) -> VerifiedCandidate:
    """Verify the last stage. If it does not fail again, go back to the stage before.

    Raises:
        UserError: not even the first stage is verified.
    """
    remaining = list(stages)
    while True:
        candidate = remaining.pop()
        failing, passing = reproducer.write(candidate)
        on_progress("verifying the result")
        try:
            return verifier.verify(candidate, failing, passing)
        except UserError as error:
            if not remaining:
                raise
            on_progress(f"not verified, going back to what was left before the last kind of edit: {error}")


@dataclass(frozen=True, kw_only=True)
class VerifiedCandidate:
    """A candidate whose builds were verified. `signature` is that of the failing build's failure."""

    candidate: Candidate
    failing: CandidateBuild
    verified: Verified
    signature: str


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """Verifies a result by `runs` runs of its failing build and of its twin. `folder` is for the logs.

    All runs are in new processes, without fork servers.
    """

    oracle: DifferentialOracle | ScriptOracle
    runner: BuildRunner
    pair: BuildPair
    runs: int
    folder: Path

    def verify(
        self, candidate: Candidate, failing: CandidateBuild, passing: CandidateBuild | None
    ) -> VerifiedCandidate:
        """Run a candidate's failing build and its twin.

        Raises:
            UserError: no run of the failing build fails, or a run of the twin does not pass.
        """
        try_remove_tree(self.folder)
        failures, passes, signature = 0, 0, self.oracle.text
        for number in range(self.runs):
            answer, run_signature = self.oracle.judge_result(failing, self.folder / f"failing-{number}")
            if answer is Answer.INTERESTING:
                failures, signature = failures + 1, run_signature
            if passing is not None:
                twin = self.runner.run(
                    passing,
                    self.pair.reference.toolchain.without_fork_servers,
                    self.folder / f"passing-{number}",
                )
                passes += twin.classification.verdict is Verdict.PASS
        twin_fails = passing is not None and self.oracle.twin_must_pass and passes < self.runs
        if not failures or twin_fails:
            raise UserError(
                f"{failing.path}: expected the result to fail and its twin to pass, found {failures} failures and "
                f"{passes} passes in {self.runs} runs each"
            )
        return VerifiedCandidate(
            candidate=candidate,
            failing=failing,
            verified=Verified(
                runs=self.runs, failures=failures, passes=passes if passing is not None else None
            ),
            signature=signature,
        )

    def worst_rows(self, failing: CandidateBuild) -> list[WorstRow]:
        """Return the worst rows of one more run. The list is empty if the run passes, or leaves no outputs."""
        folder = self.folder / "worst"
        run = self.runner.run(
            failing, self.pair.failing.toolchain.without_fork_servers, folder, save_outputs=True
        )
        if run.outputs is None:
            return []
        return worst_rows(run.outputs, TensorFolder.open(failing.path / "data" / "out"))


def summarize(
    *,
    request: ShrinkRequest,
    pair: BuildPair,
    differing: Sequence[str],
    shrinker: Shrinker,
    baseline: Baseline,
    failure: str,
    chosen: VerifiedCandidate,
) -> ReductionResult:
    """Return the document of a search that has ended with `chosen`.

    `differing` are the failing build's kernels with another source in the reference. `failure` is the text of the
    failure that was looked for.
    """
    best = chosen.candidate
    tasks, kernels = pair.submitted_tasks(best), pair.order.kernels(best)
    answers = list(shrinker.journal.answers.values())
    return ReductionResult(
        failing_build=str(request.failing),
        reference=str(request.reference) if request.reference is not None else None,
        stopped="budget" if shrinker.budget_spent else "done",
        failure=failure,
        signature=chosen.signature,
        extents=best.extents,
        blocks=best.blocks,
        plain_inputs=best.plain,
        statements_dropped=len(best.statements),
        kept_tasks=tuple(f"{task}: {pair.tasks[task].name}" for task in tasks),
        missing_tasks=tuple(
            f"{pair.programs.in_reference[task]}: {pair.tasks[task].name}"
            for task in best.tasks
            if task in pair.missing
        ),
        kernels_of_failing_build=tuple(sorted(kernels.intersection(differing).difference(best.collapsed))),
        tasks=Size(before=len(pair.submitted_tasks(pair.order.whole)), after=len(tasks)),
        kernels=Size(before=len(pair.programs.failing.config.kernels), after=len(kernels)),
        bytes=Size(before=pair.failing_cut(pair.order.whole).bytes, after=chosen.failing.cut.bytes),
        baseline=baseline,
        oracle_calls=shrinker.calls,
        cached=shrinker.cached,
        invalid=answers.count(Answer.INVALID),
        slipped=answers.count(Answer.SLIPPED),
        preloaded=request.failing_toolchain.preload_modules,
        substituted=tuple(Substituted(**vars(boundary)) for boundary in chosen.failing.cut.boundaries),
        verified=chosen.verified,
    )
