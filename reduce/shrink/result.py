"""A reduction from end to end: a failing build and a good one in, a minimal pair of build directories out.

`shrink` records the two builds and finds out what the failure is. It searches for the smallest candidate, verifies the
result on disk in fresh processes, and writes the document that sums it up. `open_output` opens the output folder, and
decides whether an earlier reduction there can be continued.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...runner.build_output.directory import BuildDirectory, TensorFolder, compare_generated
from ...runner.case.case import FrozenGolden, freeze
from ...runner.compare.statistics import Tolerance
from ...runner.errors import UsageError, UserError
from ...runner.process.signals import time_limit
from ...store.durable_files import IGNORE, is_partial, make_ignored_folder, write_whole
from ...store.vocabulary import Verdict
from ..reduce_cli import MARK, work_folder
from ..replay.replay import FailedRunError, WorkingCopy
from ..replay.toolchain import Toolchain
from .edits import BuildPair, edit_kinds
from .extract import Attempt, Recorder, Recording
from .minimize import REJECTION_ERROR, Answer, passes_to_reject
from .oracle import (
    BrokenRun,
    BuildRunner,
    DifferentialOracle,
    ExpectedFailure,
    Failure,
    KernelSwap,
    Maker,
    Oracle,
    Script,
    TrialJournal,
    WrongValues,
)
from .program import Candidate
from .program_text import CandidateBuild, take_kernel
from .reproducer import (
    Baseline,
    ReductionResult,
    Reproducer,
    Size,
    Substituted,
    Verified,
    WorstRow,
    worst_rows,
)
from .shrinker import MOST_RUNS, Gate, Shrinker

_WORK = "work"
JOURNAL = "tests.jsonl"
"""This file is the journal of all tests. A reduction that is continued repeats none of them."""


def open_output(output: Path, builds: Sequence[Path], options: Sequence[str], *, resume: bool) -> Path:
    """Open the folder below `output` for everything but the result.

    The folder of an earlier reduction is opened only with `resume`, and only for the same builds with the same options.

    Raises:
        UsageError: the output lies in a build or around it, or holds something else.
        BuildOutputError: a build's sources cannot be read.
    """
    resolved = [build.resolve() for build in builds]
    for build in resolved:
        if output.resolve().is_relative_to(build) or build.is_relative_to(output.resolve()):
            raise UsageError(f"-o {output}: expected a folder outside of {build}")
    check_unused(output, resume=resume)
    marker = output / MARK
    text = "\n".join([*map(_digest, resolved), *options])
    if _is_used(output) and marker.read_text() != text:
        raise UsageError(f"--resume: expected a reduction of the same builds in {output}, found another")
    make_ignored_folder(output)
    write_whole(marker, text)
    work = output / _WORK
    work.mkdir(exist_ok=True)
    return work


def check_unused(output: Path, *, resume: bool) -> None:
    """Check that the folder can be used for a reduction.

    Raises:
        UsageError: it holds other files, or a reduction that is not to be continued.
    """
    if not _is_used(output):
        return
    if not (output / MARK).exists():
        raise UsageError(f"-o {output}: expected a new or empty folder, found other files in it")
    if not resume:
        raise UsageError(f"-o {output}: a reduction is there already; go on with --resume, or name another")


def _is_used(output: Path) -> bool:
    # A kill may leave an incomplete marker, and nothing else of a reduction.
    return output.exists() and not all(is_partial(path) or path.name == IGNORE for path in output.iterdir())


def _digest(build: Path) -> str:
    """A name for a build by the content of its sources."""
    opened = BuildDirectory.open(build)
    digest = hashlib.sha256(opened.orchestration().source)
    for kernel in opened.kernel_config().kernels.values():
        if not kernel.external:
            digest.update(opened.source(kernel.source))
    return f"{build} {digest.hexdigest()}"


_MIN_REPLAY_TIMEOUT, _GOOD_RUN_FACTOR = 60.0, 10
"""Minimum timeout of a failing run in seconds, and minimum multiple of the good build's time. A kernel that exceeds
both is taken to never return."""


@dataclass(frozen=True, kw_only=True)
class RecordedPair:
    """The two recorded builds, and the failure. `first_wrong` is the first task of the failing run that went wrong,
    where that is known."""

    pair: BuildPair
    failure: Failure
    first_wrong: int | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class PairRecorder:
    """Records both builds below `folder`, and finds out what the failure is.

    `any_failure` says that a script decides. `timeout` limits a run, in seconds.
    """

    failing: Path
    reference: Path | None
    failing_toolchain: Toolchain
    reference_toolchain: Toolchain
    golden: FrozenGolden
    folder: Path
    timeout: float
    tolerance: Tolerance
    any_failure: bool
    on_progress: Callable[[str], None]

    def record(self) -> RecordedPair:
        """Run both builds, the failing one until it fails.

        Raises:
            UserError: a build cannot be run, or the failing one does not fail.
            BuildOutputError: a part of a build, or what it recorded, cannot be read.
        """
        if self.reference is None:
            return self._record_golden()
        self.on_progress("recording the reference")
        reference = self._recorder(self.reference, "reference").record()
        limit = min(self.timeout, max(_MIN_REPLAY_TIMEOUT, _GOOD_RUN_FACTOR * reference.seconds))
        for attempt, copy in self._attempts(limit):
            if not attempt.is_compared:
                return self._record_broken(attempt, reference, copy)
            assert attempt.recording is not None
            pair = BuildPair(failing=attempt.recording, reference=reference)
            if pair.divergent_tasks or self.any_failure:
                return _wrong_values_pair(pair, "the good build's")
        raise UserError(
            f"{self.failing}: expected a run in which a task leaves other values than in the reference, found "
            f"{self._attempts_text} in which none does"
        )

    def _record_golden(self) -> RecordedPair:
        for attempt, _ in self._attempts(self.timeout):
            if attempt.recording is None or not attempt.is_compared:
                raise FailedRunError(
                    f"{self.failing}: expected its outputs compared, found {attempt.verdict.value}: "
                    f"{attempt.why[:200]}; such a failure is reduced against a good build only (--reference)",
                    reason=attempt.why,
                )
            pair = BuildPair(failing=attempt.recording, reference=attempt.recording, golden=self.tolerance)
            if pair.divergent_tasks or self.any_failure:
                return _wrong_values_pair(pair, "the golden data")
        raise UserError(
            f"{self.failing}: expected a run whose outputs miss the golden data, "
            f"found {self._attempts_text} that do not"
        )

    def _attempts(self, timeout: float) -> Iterator[tuple[Attempt, WorkingCopy]]:
        """Runs of the failing build, each with the build's copy.

        First it runs unchanged. If none of these runs fails, there is one run under each schedule of the stack, unless
        the user asked for one. A run that is recorded under a schedule is also reduced under it.
        """
        failing = replace(self._recorder(self.failing, "failing"), timeout=timeout)
        for number in range(MOST_RUNS):
            self.on_progress(f"recording the failing build (attempt {number + 1})")
            yield failing.attempt(number), failing.copy
        for number, schedule in enumerate(self._schedules, start=MOST_RUNS):
            self.on_progress(f"recording the failing build under schedule {schedule}")
            ordered = replace(failing, toolchain=failing.toolchain.with_schedule(schedule))
            yield ordered.attempt(number), ordered.copy

    @property
    def _schedules(self) -> Sequence[str]:
        """Return the further schedules under which the failing build is tried."""
        asked = self.failing_toolchain.schedule is not None
        return () if asked else tuple(self.failing_toolchain.stack.schedules)

    @property
    def _attempts_text(self) -> str:
        """Return a description of the runs that were made."""
        ordered = f", and one under each of {', '.join(self._schedules)}," if self._schedules else ""
        return f"{MOST_RUNS}{ordered}"

    def _record_broken(self, attempt: Attempt, reference: Recording, copy: WorkingCopy) -> RecordedPair:
        if not self.any_failure and not attempt.verdict.traits.ends_early:
            raise UserError(
                f"{self.failing}: expected a failure of the build, found {attempt.verdict.value}: "
                f"{attempt.why[:200]}; say what counts with --interesting"
            )
        failure = BrokenRun(attempt.verdict, attempt.signature)
        if attempt.recording is not None:
            pair = BuildPair(failing=attempt.recording, reference=reference)
            first = pair.first_unfinished
            where = (
                "" if first is None else f" The first task that did not end is {pair.describe_task(first)}."
            )
            return RecordedPair(
                pair=pair, failure=failure, first_wrong=first, reason=f"It ends with {failure.text}.{where}"
            )
        # The tasks that the failing build submits are not known. Its kernels are put into the reference's program.
        pair = BuildPair(failing=self._hybrid(reference, copy), reference=reference)
        return RecordedPair(
            pair=pair,
            failure=failure,
            first_wrong=None,
            reason=f"It ends with {failure.text}, as the good build's tasks do with the failing build's kernels.",
        )

    def _hybrid(self, reference: Recording, copy: WorkingCopy) -> Recording:
        path = self.folder / "failing" / "hybrid"
        WorkingCopy(path).discard()
        hybrid = WorkingCopy.create(reference.copy.path, path)
        for kernel in copy.build().kernel_config().kernels.values():
            take_kernel(kernel.name, copy, hybrid)
        return replace(reference, copy=hybrid, toolchain=self.failing_toolchain)

    def _recorder(self, build: Path, name: str) -> Recorder:
        return Recorder(
            build=build.resolve(),
            data=self.golden.directory,
            toolchain=self.failing_toolchain if name == "failing" else self.reference_toolchain,
            folder=self.folder / name,
            timeout=self.timeout,
        )


def _wrong_values_pair(pair: BuildPair, what: str) -> RecordedPair:
    first = pair.first_wrong_task
    if first is None:
        reason = "No value is known to be wrong."
    elif first in pair.missing:
        reason = f"It does not submit {pair.describe_task(first)}."
    elif first in pair.both.extra_tasks:
        reason = f"The good build does not submit {pair.describe_task(first)}."
    elif first in pair.both.moved_results:
        task = pair.describe_task(first)
        reason = f"The first task that leaves its results elsewhere than in the good build is {task}."
    else:
        reason = f"The first task whose results differ from {what} is {pair.describe_task(first)}."
    return RecordedPair(pair=pair, failure=WrongValues(pair), first_wrong=first, reason=reason)


@dataclass(frozen=True, kw_only=True)
class ShrinkRequest:
    """What a reduction is asked for.

    `budget` limits the whole reduction with its recordings, and `timeout` limits one run, both in seconds. A budget of
    None is no limit. Without a `reference`, the golden data alone tell what is right. The reference may be the failing
    build itself, if its toolchain differs, as by another schedule. The script `interesting` says
    what counts as the failure, in place of what the whole build's run shows.
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


@dataclass(frozen=True, kw_only=True)
class VerifiedCandidate:
    """A verified result: its failing build, how often that failed, and the failure's signature."""

    candidate: Candidate
    failing: CandidateBuild
    verified: Verified
    signature: str


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """Verifies a result by `runs` runs of its build and of its twin. `folder` is for the logs."""

    oracle: DifferentialOracle | Script
    pair: BuildPair
    runs: int
    folder: Path

    def verify(
        self, candidate: Candidate, failing: CandidateBuild, passing: CandidateBuild | None
    ) -> VerifiedCandidate:
        """Run a candidate's build and its twin.

        Raises:
            UserError: the build never fails, or the twin does not pass each time.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        failures, passes, signature = 0, 0, self.oracle.text
        for number in range(self.runs):
            answer, shown = self._run_failing(failing, self.folder / f"failing-{number}")
            if answer is Answer.INTERESTING:
                failures, signature = failures + 1, shown
            if passing is not None:
                twin = self.oracle.runner.run(
                    passing,
                    self.pair.reference.toolchain.without_fork_servers,
                    self.folder / f"passing-{number}",
                )
                passes += twin.classification.verdict is Verdict.PASS
        wanted = 0 if passing is None or isinstance(self.oracle, Script) else self.runs
        if not failures or passes < wanted:
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
        """The worst rows of one more run. None are returned if it passes, or does not run to its end."""
        folder = self.folder / "worst"
        ran = self.oracle.runner.run(
            failing, self.pair.failing.toolchain.without_fork_servers, folder, save_outputs=True
        )
        if ran.outputs is None:
            return []
        return worst_rows(ran.outputs, TensorFolder.open(failing.path / "data" / "out"))

    def _run_failing(self, failing: CandidateBuild, folder: Path) -> tuple[Answer, str]:
        if isinstance(self.oracle, Script):
            folder.mkdir(parents=True)
            return self.oracle.ask(failing, folder / "script.log.gz", "result"), self.oracle.text
        ran = self.oracle.runner.run(failing, self.pair.failing.toolchain.without_fork_servers, folder)
        shown = ran.classification
        signature = f"{shown.verdict.value} {shown.signature or ''}".strip()
        return self.oracle.failure.outcome(ran, failing), signature


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
    """The result of a search that has ended with `chosen`. `differing` are the kernels whose sources differ in the
    reference. `failure` describes what was looked for."""
    best = chosen.candidate
    kept = pair.submitted_tasks(best)
    left = pair.order.kernels(best)
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
        kept_tasks=tuple(f"{task}: {pair.tasks[task].name}" for task in kept),
        missing_tasks=tuple(
            f"{pair.both.in_reference[task]}: {pair.tasks[task].name}"
            for task in best.tasks
            if task in pair.missing
        ),
        kernels_of_failing_build=tuple(sorted(left.intersection(differing).difference(best.collapsed))),
        tasks=Size(before=len(pair.submitted_tasks(pair.order.whole)), after=len(kept)),
        kernels=Size(before=len(pair.both.failing.config.kernels), after=len(left)),
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


RESULT = "reduction.json"
_MIN_TIMEOUT, _RUN_FACTOR = 60.0, 10
"""A candidate has at least the first number of seconds, or the second times as long as the whole program usually takes.
A longer run counts as a hang."""
_MIN_VERIFY_RUNS = 4
"""At least this many runs verify a result, even if the whole program failed each time. A result that fails in only
three of ten runs passes at least once in them with a chance of 99 %."""


def shrink(request: ShrinkRequest, *, on_progress: Callable[[str], None]) -> ReductionResult:
    """Reduce, and write `result/` and `reduction.json` to the output folder.

    Raises:
        UserError: an input cannot be used, the failure does not show, or the result cannot be verified.
        BuildOutputError: a part of a build cannot be read.
    """
    work = _open_work(request)
    with work_folder(work):
        return _run_reduction(request, work, on_progress)


def _run_reduction(request: ShrinkRequest, work: Path, on_progress: Callable[[str], None]) -> ReductionResult:
    """Record both builds, check that the whole program fails, and shrink it within the budget."""
    begun = time.monotonic()
    with time_limit(request.budget):
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
    shrinker.shrink(edit_kinds(recorded.pair, recorded.first_wrong, difference.kernels))
    times = max(_MIN_VERIFY_RUNS, passes_to_reject(shrinker.rate, REJECTION_ERROR))
    verifier = Verifier(oracle=oracle, pair=pair, runs=times, folder=work / "verify")
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


def _open_work(request: ShrinkRequest) -> Path:
    options = [
        str(request.tolerance),
        str(request.golden_data),
        "None",  # The place of an option that went. Reductions of earlier versions go on.
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
        any_failure=request.interesting is not None,
        on_progress=on_progress,
    ).record()


@dataclass(frozen=True)
class _Difference:
    """How the two builds differ.

    `kernels` are the failing build's kernels whose sources differ in the reference. `elsewhere` says whether the builds
    differ in more than kernels and orchestration, or run in different toolchains.
    """

    kernels: tuple[str, ...] = ()
    elsewhere: bool = True


def _difference(request: ShrinkRequest, pair: BuildPair) -> _Difference:
    if request.reference is None or not pair.has_reference:
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
) -> tuple[DifferentialOracle | Script, Reproducer]:
    """The oracle that judges candidates, and the reproducer that writes the best of them."""
    pair = recorded.pair
    # A candidate may never end, so that its timeout is close to the usual time.
    usual = max(pair.failing.seconds, pair.reference.seconds)
    timeout = min(request.timeout, max(_MIN_TIMEOUT, _RUN_FACTOR * usual))
    runner = BuildRunner(tolerance=request.tolerance, timeout=timeout)
    maker = Maker(pair=pair, runner=runner, computed=work / "computed")
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
    if request.interesting is None:
        swap = KernelSwap(
            pair=pair,
            differing=difference.kernels,
            differ_elsewhere=difference.elsewhere,
            tolerance=request.tolerance,
            folder=work / "swapped",
            timeout=timeout,
        )
        by_value = pair.has_reference and isinstance(recorded.failure, WrongValues)
        oracle = DifferentialOracle(
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


def _verify_stages(
    stages: Sequence[Candidate],
    reproducer: Reproducer,
    verifier: Verifier,
    on_progress: Callable[[str], None],
) -> VerifiedCandidate:
    """Verify the last stage whose failing build fails again while the reference passes again. A stage that only chance
    has made smaller is not verified.

    Raises:
        UserError: not even the first stage is verified.
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
        left = (
            f"tasks {len(pair.submitted_tasks(pair.order.whole))} -> {len(pair.submitted_tasks(candidate))}"
        )
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
        on_progress=on_progress,
    )
