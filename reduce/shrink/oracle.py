"""Judges whether a candidate fails as the whole build did.

An oracle makes a candidate's two builds on disk: the failing build, and its twin from the reference.
`DifferentialOracle` runs both, and compares the outcome with the wanted `Failure`. `KernelSwap` tests whether the
candidate's differences alone explain the failure. `ScriptOracle` asks a script of the user instead, as iree-reduce
does.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np

from ...runner.build_output.directory import TensorFolder
from ...runner.build_output.task_graph import Region
from ...runner.compare.statistics import Tolerance
from ...runner.errors import UsageError, UserError
from ...runner.git import inherited_environment
from ...runner.process.run import Command, execute
from ...runner.tensor import TensorView, decode
from ...store.durable_files import try_remove_tree
from ...store.vocabulary import Verdict
from ..graph.tasks import missing_edges
from ..replay.replay import (
    FinishedRun,
    IncompleteDumpError,
    Replayer,
    WorkingCopy,
    differs,
    distance,
    to_dtype,
)
from ..replay.task_replay import flat_indices
from ..replay.toolchain import Toolchain
from .edits import BuildPair
from .minimize import Answer
from .program import Array, Candidate, Cut, UnfitCutError
from .program_text import CandidateBuild, orchestration_source, save, take_kernel


class Oracle(Protocol):
    """Judges candidates. Several threads may call it at once, each with its own folder."""

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        """Make a candidate in the new folder `folder`, judge one run of it, and remove the folder."""
        ...


@dataclass(frozen=True, kw_only=True)
class DifferentialOracle:
    """Compares a candidate's failing build with its twin.

    A candidate is interesting if three things hold:

    1. The failing build fails as the whole build did.
    2. The twin passes.
    3. The candidate's differences make the whole reference fail in the same way.

    If only 1 holds, the candidate has a different failure (`SLIPPED`). `swap` tests 3, for wrong values only. If the
    machine fails in one of these runs, the candidate is `INVALID`.
    """

    pair: BuildPair
    failure: Failure
    maker: BuildMaker
    swap: KernelSwap | None = None

    @property
    def text(self) -> str:
        """Return the name of the failure that is looked for, on the screen and in the result."""
        return self.failure.text

    @property
    def twin_must_pass(self) -> bool:
        """Return whether the twin of a result has to pass."""
        return True

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        """Run the failing build, and then its twin if the failure is the wanted one."""
        both_run = self.pair.submitted_tasks(candidate) and self.pair.reference_tasks(candidate)
        if not both_run and isinstance(self.failure, WrongValues):
            # If the failing build has no tasks, no value can be wrong. If the reference has none, the twin proves
            # nothing. The real runtime's simulator would wait for a first task forever.
            return Answer.PASSED
        with candidate_folder(folder):
            try:
                failing, passing = self.maker.make(candidate, folder)
            except (UnfitCutError, IncompleteDumpError):
                return Answer.INVALID
            runner = self.maker.runner
            run = runner.run(failing, self.pair.failing.toolchain, folder / "runs-failing")
            answer = self.failure.judge(run, failing)
            if answer is not Answer.INTERESTING or passing is None:
                return answer
            twin = runner.run(passing, self.pair.reference.toolchain, folder / "runs-passing")
            verdict = twin.classification.verdict
            if not verdict.traits.judges_commit:
                return Answer.INVALID
            is_explained = verdict is Verdict.PASS and (self.swap is None or self.swap.may_explain(candidate))
            if is_explained is None:
                return Answer.INVALID
            return Answer.INTERESTING if is_explained else Answer.SLIPPED

    def judge_result(self, failing: CandidateBuild, folder: Path) -> tuple[Answer, str]:
        """Judge one run of a result's failing build, in new processes. Also returns the signature of its failure."""
        run = self.maker.runner.run(failing, self.pair.failing.toolchain.without_fork_servers, folder)
        classification = run.classification
        signature = f"{classification.verdict.value} {classification.signature or ''}".strip()
        return self.failure.judge(run, failing), signature


SCRIPT_CONTRACT = (
    "runs in the candidate's folder, a build directory (./run.sh runs it; ../passing is its twin): "
    "0 interesting, 1 not, 125 cannot tell, 101 keep a copy but go on"
)


_KEEP_CODE = 101
"""With this exit code, a script asks to keep a copy of the candidate, and rejects it."""
_ANSWERS = {0: Answer.INTERESTING, 1: Answer.PASSED, 125: Answer.INVALID, _KEEP_CODE: Answer.PASSED}
"""The answer for each exit code of a script."""


def resolve_script(path: Path) -> Path:
    """Return the full path of a user's script.

    Raises:
        UsageError: the script cannot be run.
    """
    if not path.is_file():
        found = "no file" if path.exists() else "none"
        raise UsageError(f"--interesting {path}: expected a script, found {found}; name one that is there")
    if not os.access(path, os.X_OK):
        raise UsageError(
            f"--interesting {path}: expected a script that can be executed, found one that may not; chmod +x it"
        )
    return path.resolve()


@dataclass(frozen=True, kw_only=True)
class ScriptOracle:
    """Asks the user's script at `path`.

    `make` makes a candidate's builds below a new folder, each with its `run.sh`. Copies that the script wants to keep
    go to folders below `kept`. `timeout` limits the script, in seconds.
    """

    path: Path
    make: Callable[[Candidate, Path], tuple[CandidateBuild, CandidateBuild | None]]
    kept: Path
    timeout: float

    @property
    def text(self) -> str:
        """Return the name of the failure that is looked for, on the screen and in the result."""
        return f"what {self.path.name} finds interesting"

    @property
    def twin_must_pass(self) -> bool:
        """Return whether the twin of a result has to pass. The script alone judges it."""
        return False

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        """Let the script judge one run of a candidate.

        Raises:
            UserError: the exit code is none of the script's contract.
        """
        with candidate_folder(folder):
            try:
                failing, _ = self.make(candidate, folder)
            except (UnfitCutError, IncompleteDumpError):
                return Answer.INVALID
            return self._run(failing, folder / "script.log.gz", candidate.digest)

    def judge_result(self, failing: CandidateBuild, folder: Path) -> tuple[Answer, str]:
        """Let the script judge one run of a result's failing build. Its log goes into the new folder `folder`.

        Raises:
            UserError: the exit code is none of the script's contract.
        """
        folder.mkdir(parents=True)
        return self._run(failing, folder / "script.log.gz", "result"), self.text

    def _run(self, build: CandidateBuild, log: Path, name: str) -> Answer:
        """Run the script on a build. If the script wants to keep a copy, the copy gets the name `name`."""
        command = Command(
            argv=[str(self.path)], cwd=build.path, environment=inherited_environment(), timeout=self.timeout
        )
        ending = execute(command, log=log, on_line=lambda _stream, _line: None).ending
        if ending.timed_out:
            return Answer.INVALID
        if ending.exit_code not in _ANSWERS:
            raise UserError(
                f"--interesting {self.path}: expected exit code {', '.join(map(str, _ANSWERS))}, found "
                f"{ending}; it {SCRIPT_CONTRACT}"
            )
        if ending.exit_code == _KEEP_CODE:
            shutil.copytree(build.path, self.kept / name, symlinks=True, dirs_exist_ok=True)
        return _ANSWERS[ending.exit_code]


@contextmanager
def candidate_folder(folder: Path) -> Generator[None]:
    """Remove a candidate's folder at the end."""
    try:
        yield
    finally:
        try_remove_tree(folder)


class Failure(Protocol):
    """The failure that a candidate must show."""

    @property
    def text(self) -> str:
        """Return the name of the failure on the screen and in the result."""
        ...

    def judge(self, run: FinishedRun, build: CandidateBuild) -> Answer:
        """Compare a run of a candidate's failing build with this failure. The twin does not count."""
        ...


@dataclass(frozen=True)
class BrokenRun:
    """A run that ends before its outputs are compared: it crashes, stalls or does not compile."""

    verdict: Verdict
    signature: str | None

    @property
    def text(self) -> str:
        """Return the verdict and its signature."""
        return f"{self.verdict.value} {self.signature}" if self.signature else self.verdict.value

    def judge(self, run: FinishedRun, build: CandidateBuild) -> Answer:
        """Accept a run with the same verdict and signature."""
        verdict, signature = run.classification.verdict, run.classification.signature
        if (verdict, signature) == (self.verdict, self.signature):
            return Answer.INTERESTING
        if verdict is Verdict.PASS:
            return Answer.PASSED
        is_other_failure = verdict.traits.ends_early or verdict.traits.compares_outputs
        return Answer.SLIPPED if is_other_failure else Answer.INVALID


@dataclass(frozen=True)
class WrongValues:
    """Outputs that miss their expected values by about as much as in the whole run, that of the unreduced build.

    These rules say which outputs may be wrong:

    - One of the tasks that wrote the output last must have gone wrong in the whole run.
    - The output may hold NaN or infinity only if results of such tasks did so in the whole run.
    - Its relative error must be similar to the error of such a task in the whole run (`is_similar_error`). This rule
      does not hold if tasks may race.
    - If tasks may race, other outputs may be wrong too.
    - If a tensor's shape differs from the reference's, a task may access memory outside of it, which differs from run
      to run. Then the error may be larger, and not finite.
    """

    pair: BuildPair

    @property
    def text(self) -> str:
        """Return the name of the verdict."""
        return "mismatch"

    def judge(self, run: FinishedRun, build: CandidateBuild) -> Answer:
        """Judge a run by the names of the outputs in its signature."""
        classification = run.classification
        if classification.verdict is Verdict.PASS:
            return Answer.PASSED
        if classification.verdict is not Verdict.MISMATCH:
            return Answer.SLIPPED if classification.verdict.traits.fails_in_run else Answer.INVALID
        wrong = set(self.pair.divergent_tasks)
        may_be_larger = any(task.ordinal in self.pair.programs.reshaped_tasks for task in build.cut.tasks)
        writers = {tensor.buffer.name: tensor.writers & wrong for tensor in build.cut.tensors}
        matches = [
            self._matches_whole_run(
                writers.get(name, frozenset()),
                marks,
                classification.metrics.get(name, {}),
                may_be_larger=may_be_larger,
            )
            for name, marks in parse_outputs(classification.signature).items()
        ]
        is_interesting = any(matches) and (all(matches) or self._may_race)
        return Answer.INTERESTING if is_interesting else Answer.SLIPPED

    def _matches_whole_run(
        self,
        writers: frozenset[int],
        marks: frozenset[str],
        metrics: Mapping[str, float],
        *,
        may_be_larger: bool,
    ) -> bool:
        """Return whether an output is about as wrong as `writers` were in the whole run.

        `writers` are the tasks that wrote it last and went wrong in the whole run. `marks` and `metrics` are the
        harness's marks and metrics of the output.
        """
        if not writers:
            return False
        marks_in_whole_run = frozenset[str]().union(*(self._marks[task] for task in writers))
        if not (may_be_larger or marks <= marks_in_whole_run):
            return False
        if self._may_race or not self.pair.has_reference:
            return True
        error = metrics.get("relative_l2")
        if error is None:
            if not metrics.get("not_finite"):
                # The expected values are zeros, or the harness does not measure.
                return True
            error = math.inf
        errors = [self._errors[task] for task in writers]
        return is_similar_error(error, errors) or (may_be_larger and error > max(errors))

    @cached_property
    def _errors(self) -> dict[int, float]:
        """Return the largest relative error of a result of each task that went wrong."""
        return {task: self._largest_error(task) for task in self.pair.divergent_tasks}

    def _largest_error(self, task: int) -> float:
        actual, expected = self.pair.actual_values(task), self.pair.expected_values(task)
        shared = actual.keys() & expected.keys()
        return max((distance(actual[index], expected[index]) for index in shared), default=math.inf)

    @cached_property
    def _marks(self) -> dict[int, frozenset[str]]:
        """Return the marks of the results of each task that went wrong."""
        return {
            task: frozenset[str]().union(*map(_non_finite_marks, self.pair.actual_values(task).values()))
            for task in self.pair.divergent_tasks
        }

    @cached_property
    def _may_race(self) -> bool:
        """Return whether two tasks that share memory are not ordered in the failing run."""
        return bool(missing_edges(self.pair.failing.tasks))


MAX_ERROR_RATIO = 100.0
"""Two errors of one failure have at most this ratio.

In float32, a rounding error is smaller than an error that fails a case, by 1e3 or more. Smaller shapes and simpler data
change an error by less than this ratio."""


def is_similar_error(error: float, whole_run_errors: Iterable[float]) -> bool:
    """Return whether a relative L2 error is within `MAX_ERROR_RATIO` of one of the whole run's.

    An infinite error stands for a wrong NaN or infinity. It is only similar to another infinite one.

    >>> is_similar_error(0.5, [0.01]), is_similar_error(1e-7, [0.01]), is_similar_error(0.1, [math.inf])
    (True, False, False)
    """
    return any(
        error == other
        if math.inf in (error, other)
        else other / MAX_ERROR_RATIO <= error <= other * MAX_ERROR_RATIO
        for other in whole_run_errors
    )


_OUTPUT = re.compile(r"(?P<name>[^,\[\]]+)(?:\[(?P<marks>[^\]]*)\])?")
_MORE = re.compile(r",\+\d+ #[0-9a-f]+$")
"""The end of a signature that does not name all outputs."""


def parse_outputs(signature: str | None) -> dict[str, frozenset[str]]:
    """Return the outputs that a mismatch's signature names, each with its marks.

    >>> parse_outputs("k[nan,inf],out") == {"k": frozenset({"nan", "inf"}), "out": frozenset()}
    True
    """
    return {
        match["name"]: frozenset(filter(None, (match["marks"] or "").split(",")))
        for match in _OUTPUT.finditer(_MORE.sub("", signature or ""))
    }


def _non_finite_marks(view: TensorView) -> frozenset[str]:
    if not view.dtype.is_floating:
        return frozenset()
    values = decode(view.dtype, np.ravel(view.contiguous()))
    presence = {"nan": bool(np.isnan(values).any()), "inf": bool(np.isinf(values).any())}
    return frozenset(name for name, present in presence.items() if present)


@dataclass(frozen=True)
class _BuildDifferences:
    """Kernels whose sources differ between the builds, and tasks that only the good build submits."""

    kernels: frozenset[str] = frozenset()
    missing: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class KernelSwap:
    """Tests whether a candidate's differences make the whole good build fail.

    A candidate may fail by a harmless difference, such as rounding. So the whole good build runs with the candidate's
    kernels, and without the tasks that the failing build does not submit. Then some output must be about as wrong as in
    the whole failing build. Each set of kernels and missing tasks is run once.

    The test applies to candidates whose program is the same in both builds, except for missing tasks.

    Attributes:
        differing: names of the kernels whose sources differ between the builds.
        differ_elsewhere: whether the builds differ in more than kernels and orchestration, or in their toolchains.
        tolerance: the case's own, or zeros if it is not known.
        folder: where the builds are made. They are all removed.
        timeout: the limit of each run, in seconds.
    """

    pair: BuildPair
    differing: Collection[str]
    differ_elsewhere: bool
    tolerance: Tolerance
    folder: Path
    timeout: float
    _answers: dict[_BuildDifferences, bool] = field(default_factory=dict[_BuildDifferences, bool])
    _lock: Lock = field(default_factory=Lock)

    def may_explain(self, candidate: Candidate) -> bool | None:
        """Return whether the candidate's differences make the whole good build fail as the failing one does.

        The answer is also true if the test does not apply, and None if the machine failed in its run. If neither
        kernels nor tasks differ, the answer is `differ_elsewhere`: without any difference, the failure is chance, such
        as a race in both builds.
        """
        if not self._wrong_outputs or not self._same_program(candidate):
            return True
        kernels = self.pair.order.kernels(Candidate(self.pair.submitted_tasks(candidate)))
        differences = _BuildDifferences(
            kernels=kernels.intersection(self.differing).difference(candidate.collapsed),
            missing=self.pair.missing.intersection(candidate.tasks),
        )
        if differences == _BuildDifferences():
            return self.differ_elsewhere
        everything = _BuildDifferences(frozenset(self.differing), self.pair.missing)
        if differences == everything and self._same_program(self.pair.order.whole):
            return True
        with self._lock:
            if differences not in self._answers:
                answer = self._reproduces_failure(differences)
                if answer is None:
                    return None  # The next candidate with these differences asks again.
                self._answers[differences] = answer
            return self._answers[differences]

    def _same_program(self, candidate: Candidate) -> bool:
        """Return whether both builds submit the candidate's tasks in the same way, except for missing tasks."""
        plain = Candidate(candidate.tasks)
        cuts = self.pair.failing_cut(plain), self.pair.reference_cut(plain).drop_tasks(self.pair.missing)
        failing_source, reference_source = map(orchestration_source, cuts)
        return failing_source == reference_source

    @cached_property
    def _wrong_outputs(self) -> dict[str, float]:
        """Return the whole failing run's wrong outputs, with their relative errors.

        An output is wrong if it misses the good run's by more than the tolerance. If no tolerance is known, an output
        is wrong if its error is similar to the largest one.
        """
        actual, expected = self.pair.failing.outputs, self.pair.reference.outputs
        if actual is None or expected is None:
            return {}
        errors = {name: error for name, error in _relative_errors(actual, expected).items() if error > 0}
        if self.tolerance == Tolerance():
            largest = max(errors.values(), default=0.0)
            return {name: error for name, error in errors.items() if is_similar_error(error, [largest])}
        return {
            name: error
            for name, error in errors.items()
            if differs(actual.tensor(name), expected.tensor(name), self.tolerance)
        }

    def _reproduces_failure(self, differences: _BuildDifferences) -> bool | None:
        """Run the whole good build with these differences. Also true if the run leaves no outputs.

        None if the machine alone failed.
        """
        reference, failing = self.pair.reference, self.pair.failing
        assert reference.outputs is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            path = Path(folder) / "build"
            if differences.missing:
                build = self.pair.make_whole_reference(path, without=differences.missing)
                arguments, data = build.arguments, path / "data"
            else:
                WorkingCopy.create(reference.copy.path, path)
                arguments, data = reference.arguments, reference.data.inputs.folder.root.parent
            copy = WorkingCopy(path)
            for kernel in differences.kernels:
                take_kernel(kernel, failing.copy, copy)
            run = Replayer(
                copy=copy, toolchain=failing.toolchain, folder=Path(folder) / "runs", timeout=self.timeout
            ).classify(arguments, data=data, save_outputs=True)
            if not run.classification.verdict.traits.judges_commit:
                return None
            if run.outputs is None:
                return True
            errors = _relative_errors(run.outputs, reference.outputs)
            return any(
                is_similar_error(errors.get(name, 0.0), [error])
                for name, error in self._wrong_outputs.items()
            )


def _relative_errors(actual: TensorFolder, expected: TensorFolder) -> dict[str, float]:
    """Return the relative L2 error of each tensor that both folders hold."""
    shared = [name for name in actual.names if name in expected.names]
    return {name: distance(actual.tensor(name), expected.tensor(name)) for name in shared}


@dataclass(frozen=True, kw_only=True)
class BuildRunner:
    """Runs builds of candidates. `timeout` limits a run, in seconds."""

    tolerance: Tolerance
    timeout: float

    def run(
        self, build: CandidateBuild, toolchain: Toolchain, folder: Path, *, save_outputs: bool = False
    ) -> FinishedRun:
        """Run a build once, and record the run in the new folder `folder`."""
        replayer = Replayer(
            copy=WorkingCopy(build.path), toolchain=toolchain, folder=folder, timeout=self.timeout
        )
        return replayer.classify(
            build.arguments,
            data=build.path / "data",
            tolerance=self.tolerance,
            save_outputs=save_outputs,
        )


@dataclass(frozen=True, kw_only=True)
class BuildMaker:
    """Makes the builds of candidates.

    The folder `computed` caches outputs of the reference by candidate. It outlives the process.
    """

    pair: BuildPair
    runner: BuildRunner
    computed: Path

    def make(self, candidate: Candidate, folder: Path) -> tuple[CandidateBuild, CandidateBuild | None]:
        """Make the failing build and its twin below the new folder `folder`. Without a reference there is no twin.

        Raises:
            UnfitCutError: the tasks cannot be taken alone, or the reference does not run on the changed inputs.
            IncompleteDumpError: the dump of a value is incomplete.
        """
        failing = self.pair.make_failing(candidate, folder / "failing")
        if not self.pair.has_reference:
            return failing, None
        passing = self.pair.make_reference(candidate, folder / "passing")
        if candidate.needs_new_expected_values:
            outputs = self._reference_outputs(candidate, passing, folder / "runs-computing")
            for build in (failing, passing):
                _write_expected(build, outputs)
        return failing, passing

    def _reference_outputs(self, candidate: Candidate, passing: CandidateBuild, folder: Path) -> TensorFolder:
        """Return what the reference computes on the candidate's inputs, from the cache or from new runs."""
        cached = self.computed / candidate.digest
        if not cached.exists():
            narrowed = self._narrowed_outputs(candidate, folder) if candidate.extents else None
            outputs = self._run_reference(passing, folder / "runs")
            if narrowed is not None and not _equal(narrowed, outputs):
                raise UnfitCutError("a kernel of the reference depends on what lies around its tensors")
            copy_atomically(outputs.folder.root, cached)
        return TensorFolder.open(cached)

    def _run_reference(self, build: CandidateBuild, folder: Path) -> TensorFolder:
        run = self.runner.run(build, self.pair.reference.toolchain, folder, save_outputs=True)
        if not run.classification.verdict.traits.compares_outputs or run.outputs is None:
            raise UnfitCutError("the reference does not run on the changed inputs")
        return run.outputs

    def _narrowed_outputs(self, candidate: Candidate, folder: Path) -> dict[str, Array]:
        """Run the reference on buffers of full size, and return the flat values of the candidate's regions.

        Only the regions are smaller. A kernel with a compiled shape would access memory beyond a smaller buffer.
        """
        build = self.pair.make_narrowed_reference(candidate, folder / "narrowed")
        outputs = self._run_reference(build, folder / "runs-narrowed")
        regions = _last_regions(build.cut)
        whole_regions = _last_regions(self.pair.reference_cut(replace(candidate, extents=())))
        narrowed: dict[str, Array] = {}
        for tensor in build.cut.tensors:
            if tensor.expected is None:
                continue
            buffer = tensor.buffer
            final = np.ravel(outputs.tensor(buffer.name).contiguous())
            if regions[buffer.number] == whole_regions[buffer.number]:
                narrowed[buffer.name] = final
                continue
            places = flat_indices(regions[buffer.number])
            is_outside = np.ones(final.size, np.bool_)
            is_outside[places] = False
            before = np.zeros_like(final) if tensor.initial is None else tensor.initial
            if bool((final[is_outside] != before[is_outside]).any()):
                raise UnfitCutError(f"a kernel of the reference writes around its {buffer.name}")
            narrowed[buffer.name] = final[places]
        return narrowed


def _last_regions(cut: Cut) -> dict[int, Region]:
    """Return the region of the last use of each buffer. All uses of a smaller buffer have the same region."""
    return {argument.buffer: argument.region for task in cut.tasks for argument in task.arguments}


def _equal(narrowed: dict[str, Array], outputs: TensorFolder) -> bool:
    return all(
        name in outputs.names and np.array_equal(values, np.ravel(outputs.tensor(name).contiguous()))
        for name, values in narrowed.items()
    )


def _write_expected(build: CandidateBuild, outputs: TensorFolder) -> None:
    """Write the outputs of the reference as the expected values of a build.

    Raises:
        UnfitCutError: an output is missing or not finite.
    """
    for tensor in build.cut.tensors:
        if tensor.expected is None:
            continue
        name = tensor.buffer.name
        if name in outputs.names:
            view = to_dtype(outputs.tensor(name), tensor.buffer.dtype)
        elif tensor.initial is not None:
            # No task of the reference writes this tensor.
            view = tensor.view(tensor.initial)
        else:
            raise UnfitCutError(f"the reference has no output {name}")
        values = decode(view.dtype, np.ravel(view.contiguous()))
        if view.dtype.is_floating and not np.isfinite(values).all():
            raise UnfitCutError(f"the reference's {name} is not finite on the changed inputs")
        save(view, build.path / "data" / "out" / f"{name}.pt")


def copy_atomically(source: Path, target: Path) -> None:
    """Copy a folder, completely or not at all. Several callers may copy to one target at the same time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        partial = Path(name) / target.name
        shutil.copytree(source, partial)
        try:
            partial.replace(target)
        except OSError:
            if not target.exists():
                raise
