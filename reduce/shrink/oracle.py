"""Judges candidates: whether a candidate fails as the whole build did.

`DifferentialOracle` makes a candidate on disk: the failing build, its twin from the reference, and expected values,
which are computed anew where necessary. It runs both builds. A `Failure` says what counts as the failure that is looked
for, and what is another one. An error must be about as large as in the whole run. `KernelSwap` also tests whether the
candidate's kernels, or the tasks that it lacks, make the whole good build fail in the same way.

`Script` asks a script of the user's in place of that, as iree-reduce does. `TrialJournal` writes every run to disk
before its result is used, so that a later call repeats none. `ExpectedFailure` is what `check.sh` of a result asks of
the failing run: an exit code, and a line in which a pattern is found.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Literal, Protocol

import numpy as np

from ...runner.build_output.directory import TensorFolder
from ...runner.build_output.task_graph import Region
from ...runner.compare.statistics import Tolerance
from ...runner.errors import UsageError, UserError
from ...runner.git import inherited_environment
from ...runner.process.run import Command, execute
from ...runner.stack import Stack
from ...runner.tensor import TensorView, decode
from ...store.durable_files import Document, DocumentError, read_document
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

MAX_ERROR_RATIO = 100.0
"""Two errors of one failure have at most this ratio.

A rounding error and the error that a case fails for differ by more: in float32 by 1e3 or more. Smaller shapes and plain
data change an error by less."""


def is_similar_error(error: float, whole: Iterable[float]) -> bool:
    """Return whether a relative L2 error is about as large as one of the whole run's, within `MAX_ERROR_RATIO`.

    An infinite error (NaN or infinity where there should be none) only matches an infinite one.

    >>> is_similar_error(0.5, [0.01]), is_similar_error(1e-7, [0.01]), is_similar_error(0.1, [math.inf])
    (True, False, False)
    """
    return any(
        error == other
        if math.inf in (error, other)
        else other / MAX_ERROR_RATIO <= error <= other * MAX_ERROR_RATIO
        for other in whole
    )


_OUTPUT = re.compile(r"(?P<name>[^,\[\]]+)(?:\[(?P<marks>[^\]]*)\])?")


class Failure(Protocol):
    """One kind of failure."""

    @property
    def text(self) -> str:
        """Return the name of the failure on the screen and in the result."""
        ...

    def outcome(self, ran: FinishedRun, made: CandidateBuild) -> Answer:
        """The answer for one run of a candidate. It depends only on the candidate's side, and not on its twin."""
        ...


@dataclass(frozen=True)
class WrongValues:
    """Outputs differ from the expected values where the whole run was wrong too.

    These rules say which outputs may be wrong:

    - An output may be wrong if one of its last writers left something wrong in the whole run, or was not submitted
      there.
    - It may hold NaN or infinity only if one was found there.
    - If no race is possible, nothing else may be wrong. The relative error is then that of such a writer in the whole
      run, within `MAX_ERROR_RATIO`.
    - A task may reach out of a tensor if the tensor has another shape than in the reference. An error may be larger
      then, and not finite, because the surrounding memory differs from run to run.
    """

    pair: BuildPair

    @property
    def text(self) -> str:
        """Return the name of the verdict."""
        return "mismatch"

    def outcome(self, ran: FinishedRun, made: CandidateBuild) -> Answer:
        """Judge a run by the names of the outputs in its signature."""
        found = ran.classification
        if found.verdict is Verdict.PASS:
            return Answer.NOT
        if found.verdict is not Verdict.MISMATCH:
            return Answer.SLIPPED if found.verdict.traits.fails_in_run else Answer.INVALID
        wrong = set(self.pair.divergent_tasks)
        may_reach_out = any(task.ordinal in self.pair.both.reshaped_tasks for task in made.cut.tasks)
        writers = {tensor.buffer.name: tensor.writers & wrong for tensor in made.cut.tensors}
        matching = [
            self._matches_whole_run(
                writers.get(name, frozenset()),
                marks,
                found.metrics.get(name, {}),
                may_be_larger=may_reach_out,
            )
            for name, marks in parse_outputs(found.signature).items()
        ]
        return Answer.INTERESTING if any(matching) and (all(matching) or self._may_race) else Answer.SLIPPED

    def _matches_whole_run(
        self,
        writers: frozenset[int],
        marks: frozenset[str],
        measured: Mapping[str, float],
        *,
        may_be_larger: bool,
    ) -> bool:
        """Return whether an output that these tasks wrote last is as wrong as one of them was in the whole run."""
        known = frozenset[str]().union(*(self._marks[task] for task in writers))
        if not writers or not (may_be_larger or marks <= known):
            return False
        error = measured.get("relative_l2")
        # No relative error is known if the expected values are zeros, or if the harness gave none.
        if (
            self._may_race
            or not self.pair.has_reference
            or (error is None and not measured.get("not_finite"))
        ):
            return True
        size, errors = math.inf if error is None else error, [self._errors[task] for task in writers]
        return is_similar_error(size, errors) or (may_be_larger and size > max(errors))

    @cached_property
    def _errors(self) -> dict[int, float]:
        """For each task that went wrong, the largest relative error of a tensor that it left."""
        return {
            task: max(
                (
                    distance(view, belonging[index])
                    for index, view in self.pair.actual_values(task).items()
                    if index in belonging
                ),
                default=math.inf,
            )
            for task in self.pair.divergent_tasks
            for belonging in [self.pair.expected_values(task)]
        }

    @cached_property
    def _marks(self) -> dict[int, frozenset[str]]:
        return {
            task: frozenset[str]().union(*map(_non_finite_marks, self.pair.actual_values(task).values()))
            for task in self.pair.divergent_tasks
        }

    @cached_property
    def _may_race(self) -> bool:
        return bool(missing_edges(self.pair.failing.tasks))


@dataclass(frozen=True)
class BrokenRun:
    """The run does not get to a comparison: it crashes, stalls or does not compile, with the same signature."""

    verdict: Verdict
    signature: str | None

    @property
    def text(self) -> str:
        """Return the verdict and its signature."""
        return f"{self.verdict.value} {self.signature}" if self.signature else self.verdict.value

    def outcome(self, ran: FinishedRun, made: CandidateBuild) -> Answer:
        """A run with the same verdict and signature is interesting."""
        found = ran.classification
        if (found.verdict, found.signature) == (self.verdict, self.signature):
            return Answer.INTERESTING
        if found.verdict is Verdict.PASS:
            return Answer.NOT
        is_other = found.verdict.traits.ends_early or found.verdict.traits.compares_outputs
        return Answer.SLIPPED if is_other else Answer.INVALID


def parse_outputs(signature: str | None) -> dict[str, frozenset[str]]:
    """The outputs that a mismatch's signature names, and the marks of each.

    >>> parse_outputs("k[nan,inf],out") == {"k": frozenset({"nan", "inf"}), "out": frozenset()}
    True
    """
    return {
        match["name"]: frozenset(filter(None, (match["marks"] or "").split(",")))
        for match in _OUTPUT.finditer(signature or "")
    }


def _non_finite_marks(view: TensorView) -> frozenset[str]:
    if not view.dtype.is_floating:
        return frozenset()
    values = decode(view.dtype, np.ravel(view.contiguous()))
    presence = {"nan": bool(np.isnan(values).any()), "inf": bool(np.isinf(values).any())}
    return frozenset(name for name, present in presence.items() if present)


_TIMEOUT_EXIT_CODE = 124
"""A command that timeout(1) stopped has this exit code."""


@dataclass(frozen=True, kw_only=True)
class ExpectedFailure:
    """What identifies a failing run. `code` is the exit code as a shell sees it, and None allows any. Without
    patterns, any text will do."""

    code: int | None
    patterns: tuple[str, ...]

    @classmethod
    def from_failure(cls, failure: Failure, stack: Stack) -> ExpectedFailure:
        """Return what identifies a failure.

        For a timeout or a signal, this is the exit code. For other failures, it is the stack's patterns for them.
        """
        verdict = failure.verdict if isinstance(failure, BrokenRun) else Verdict.MISMATCH
        code = _TIMEOUT_EXIT_CODE if verdict is Verdict.TIMEOUT else None
        signal_sent = (
            signal.Signals.__members__.get(failure.signature or "")
            if isinstance(failure, BrokenRun)
            else None
        )
        if verdict is Verdict.CRASH and signal_sent is not None:
            code = 128 + signal_sent.value
        rules = [rule.pattern.pattern for rule in stack.verdicts if rule.verdict is verdict]
        return cls(code=code, patterns=tuple(rules) if code is None else ())


Key = tuple[str, int]
"""A candidate's `Candidate.key`, and the number of the run."""


class JournaledRun(Document):
    """One run of a candidate, as a line of the journal."""

    schema_version: Literal[1] = 1
    candidate: str
    """The candidate's key."""
    run: int
    """The number of the run of this candidate."""
    outcome: Answer


@dataclass
class TrialJournal:
    """The journal of all runs, with one `JournaledRun` on each line of `path`. A line that a kill left incomplete is
    dropped."""

    path: Path
    answers: dict[Key, Answer] = field(default_factory=dict[Key, Answer])

    @classmethod
    def open(cls, path: Path) -> TrialJournal:
        """Open the journal of an earlier call, or a new one.

        Raises:
            UserError: this version of the tool cannot read a line.
        """
        journal = cls(path)
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        for line in whole.splitlines():
            try:
                run = read_document(JournaledRun, json.loads(line))
            except (DocumentError, ValueError) as error:
                raise UserError(f"{path}: {error}") from error
            journal.answers[run.candidate, run.run] = run.outcome
        if whole != text:
            os.truncate(path, len(whole))
        return journal

    def record(self, key: Key, answer: Answer) -> None:
        """Record one run, and wait until it is on disk."""
        run = JournaledRun(candidate=key[0], run=key[1], outcome=answer)
        with self.path.open("ab") as file:
            file.write(f"{run.model_dump_json()}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        self.answers[key] = answer


@dataclass(frozen=True)
class _Differences:
    """Names of kernels whose sources differ, and tasks that only the good build submits."""

    kernels: frozenset[str] = frozenset()
    missing: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class KernelSwap:
    """Distinguishes candidates that fail for a harmless difference from those that fail as the case does.

    Suppose the program of a candidate is the same in both builds except for missing tasks. Then the builds differ only
    in the candidate's kernels and in these tasks. The kernels are put into the whole good build, and the tasks are left
    out of it. The result is run once for each set of kernels and tasks. If no wrong output is then about as wrong as in
    the failing build, these kernels and tasks do not explain the failure.

    `differing` are names of the kernels whose sources differ. `differ_elsewhere` says whether the builds differ in more
    than kernels and orchestration, or run in different toolchains. `tolerance` is the case's own, or zeros if it is not
    known. `folder` is for the builds, which are all removed. `timeout` limits each run, in seconds.
    """

    pair: BuildPair
    differing: Collection[str]
    differ_elsewhere: bool
    tolerance: Tolerance
    folder: Path
    timeout: float
    _answers: dict[_Differences, bool] = field(default_factory=dict[_Differences, bool])
    _lock: Lock = field(default_factory=Lock)

    def may_explain(self, candidate: Candidate) -> bool:
        """Return whether the candidate's differences make the whole good build fail as the failing one does.

        Also true where that cannot be found out. Where neither kernels nor tasks differ, only a difference elsewhere
        can explain the failure, so the answer is `differ_elsewhere`. Without one, the failure is chance, such as a race
        in both builds.
        """
        kernels = self.pair.order.kernels(Candidate(self.pair.submitted_tasks(candidate)))
        found = _Differences(
            kernels=kernels.intersection(self.differing).difference(candidate.collapsed),
            missing=self.pair.missing.intersection(candidate.tasks),
        )
        wrong = self._wrong_outputs
        if not wrong or not self._same_program(candidate):
            return True
        if found == _Differences():
            return self.differ_elsewhere
        everything = _Differences(frozenset(self.differing), self.pair.missing)
        if found == everything and self._same_program(self.pair.order.whole):
            return True
        with self._lock:
            if found not in self._answers:
                self._answers[found] = self._reproduces_failure(found, wrong)
            return self._answers[found]

    def _same_program(self, candidate: Candidate) -> bool:
        plain = Candidate(candidate.tasks)
        cuts = self.pair.failing_cut(plain), self.pair.reference_cut(plain).drop_tasks(self.pair.missing)
        failing_source, reference_source = map(orchestration_source, cuts)
        return failing_source == reference_source

    @cached_property
    def _wrong_outputs(self) -> dict[str, float]:
        """Return the failing run's outputs that differ from the good one's by more than the tolerance, with their
        errors.

        Where no tolerance is known, the outputs that are about as wrong as the worst one.
        """
        wrong, right = self.pair.failing.outputs, self.pair.reference.outputs
        if wrong is None or right is None:
            return {}
        errors = {name: error for name, error in _errors(wrong, right).items() if error > 0}
        if self.tolerance != Tolerance():
            return {
                name: error
                for name, error in errors.items()
                if differs(wrong.tensor(name), right.tensor(name), self.tolerance)
            }
        return {
            name: error for name, error in errors.items() if is_similar_error(error, [max(errors.values())])
        }

    def _reproduces_failure(self, found: _Differences, wrong: dict[str, float]) -> bool:
        reference, failing = self.pair.reference, self.pair.failing
        assert reference.outputs is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            build = Path(name) / "build"
            if found.missing:
                made = self.pair.make_whole_reference(build, without=found.missing)
                arguments, data = made.arguments, build / "data"
            else:
                WorkingCopy.create(reference.copy.path, build)
                arguments, data = reference.arguments, reference.data.inputs.folder.root.parent
            swapped = WorkingCopy(build)
            for kernel in found.kernels:
                take_kernel(kernel, failing.copy, swapped)
            ran = Replayer(
                copy=swapped, toolchain=failing.toolchain, folder=Path(name) / "runs", timeout=self.timeout
            ).classify(arguments, data=data, save_outputs=True)
            if ran.outputs is None:
                return True
            errors = _errors(ran.outputs, reference.outputs)
            return any(is_similar_error(errors.get(name, 0.0), [error]) for name, error in wrong.items())


def _errors(ours: TensorFolder, theirs: TensorFolder) -> dict[str, float]:
    return {
        name: distance(ours.tensor(name), theirs.tensor(name)) for name in ours.names if name in theirs.names
    }


@dataclass(frozen=True, kw_only=True)
class BuildRunner:
    """Runs a build that was made, with the toolchain of its side. `timeout` is in seconds."""

    tolerance: Tolerance
    timeout: float

    def run(
        self, made: CandidateBuild, toolchain: Toolchain, folder: Path, *, save_outputs: bool = False
    ) -> FinishedRun:
        """Make one run, recorded in the new folder `folder`."""
        replayer = Replayer(
            copy=WorkingCopy(made.path), toolchain=toolchain, folder=folder, timeout=self.timeout
        )
        return replayer.classify(
            made.arguments,
            data=made.path / "data",
            tolerance=self.tolerance,
            save_outputs=save_outputs,
        )


@dataclass(frozen=True, kw_only=True)
class Maker:
    """Makes the builds of candidates. The folder `computed` keeps the reference's outputs by candidate, also for later
    processes."""

    pair: BuildPair
    runner: BuildRunner
    computed: Path

    def make(self, candidate: Candidate, folder: Path) -> tuple[CandidateBuild, CandidateBuild | None]:
        """Make both builds below the new folder `folder`. Without a reference there is no twin.

        Raises:
            UnfitCutError: the tasks cannot be taken alone, or the reference does not run on the changed inputs.
            IncompleteDumpError: a value was not recorded whole.
        """
        failing = self.pair.make_failing(candidate, folder / "failing")
        if not self.pair.has_reference:
            return failing, None
        passing = self.pair.make_reference(candidate, folder / "passing")
        if candidate.needs_new_expected_values:
            outputs = self._computed_outputs(candidate, passing, folder / "runs-computing")
            for made in (failing, passing):
                _write_expected(made, outputs)
        return failing, passing

    def _computed_outputs(self, candidate: Candidate, passing: CandidateBuild, folder: Path) -> TensorFolder:
        kept = self.computed / candidate.digest
        if not kept.exists():
            narrowed = self._narrowed_outputs(candidate, folder) if candidate.extents else None
            outputs = self._outputs(passing, folder / "runs")
            if narrowed is not None and not _equal(narrowed, outputs):
                raise UnfitCutError("a kernel of the reference depends on what lies around its tensors")
            copy_atomically(outputs.folder.root, kept)
        return TensorFolder.open(kept)

    def _outputs(self, made: CandidateBuild, folder: Path) -> TensorFolder:
        ran = self.runner.run(made, self.pair.reference.toolchain, folder, save_outputs=True)
        if not ran.classification.verdict.traits.compares_outputs or ran.outputs is None:
            raise UnfitCutError("the reference does not run on the changed inputs")
        return ran.outputs

    def _narrowed_outputs(self, candidate: Candidate, folder: Path) -> dict[str, Array]:
        """Run the reference on buffers of full size, and return the flat values of the candidate's regions.

        Only the regions are smaller. Kernels with compiled shapes would access memory beyond a smaller buffer.
        """
        made = self.pair.make_narrowed_reference(candidate, folder / "narrowed")
        outputs = self._outputs(made, folder / "runs-narrowed")
        whole = _regions(self.pair.reference_cut(replace(candidate, extents=())))
        narrowed: dict[str, Array] = {}
        for tensor in made.cut.tensors:
            if tensor.expected is None:
                continue
            final = np.ravel(outputs.tensor(tensor.buffer.name).contiguous())
            region = _regions(made.cut)[tensor.buffer.number]
            if region == whole[tensor.buffer.number]:
                narrowed[tensor.buffer.name] = final
                continue
            places = flat_indices(region)
            around = np.ones(final.size, np.bool_)
            around[places] = False
            before = np.zeros_like(final) if tensor.initial is None else tensor.initial
            if bool((final[around] != before[around]).any()):
                raise UnfitCutError(f"a kernel of the reference writes around its {tensor.buffer.name}")
            narrowed[tensor.buffer.name] = final[places]
        return narrowed


def copy_atomically(folder: Path, kept: Path) -> None:
    """Copy a folder to `kept`, completely or not at all. Several runs of one candidate may do so at the same time."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        partial = Path(name) / kept.name
        shutil.copytree(folder, partial)
        try:
            partial.replace(kept)
        except OSError:
            if not kept.exists():
                raise


def _regions(cut: Cut) -> dict[int, Region]:
    """The region of each buffer that tasks use.

    All uses of a buffer that shrinks share one region. For other buffers, it is the region of the last use.
    """
    return {argument.buffer: argument.region for task in cut.tasks for argument in task.arguments}


def _equal(narrowed: dict[str, Array], outputs: TensorFolder) -> bool:
    return all(
        name in outputs.names and np.array_equal(values, np.ravel(outputs.tensor(name).contiguous()))
        for name, values in narrowed.items()
    )


def _write_expected(made: CandidateBuild, outputs: TensorFolder) -> None:
    for tensor in made.cut.tensors:
        if tensor.expected is None:
            continue
        name = tensor.buffer.name
        if name in outputs.names:
            view = to_dtype(outputs.tensor(name), tensor.buffer.dtype)
        elif tensor.initial is not None:
            # What no task of the reference writes stays as it is.
            view = tensor.view(tensor.initial)
        else:
            raise UnfitCutError(f"the reference has no output {name}")
        values = decode(view.dtype, np.ravel(view.contiguous()))
        if view.dtype.is_floating and not np.isfinite(values).all():
            raise UnfitCutError(f"the reference's {name} is not finite on the changed inputs")
        save(view, made.path / "data" / "out" / f"{name}.pt")


class Oracle(Protocol):
    """Judges candidates. Several threads may ask at once, each with a folder of its own."""

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        """Judge one run of a candidate, made in the new folder `folder`. The oracle removes the folder."""
        ...


@dataclass(frozen=True, kw_only=True)
class DifferentialOracle:
    """Compares the failing build with the reference.

    A candidate is interesting if three things hold:

    1. The failing build fails as the whole did.
    2. The same tasks of the reference pass.
    3. The differences make the whole reference fail in the same way.

    Where 2 or 3 does not hold, this is a different failure (`SLIPPED`). `swap` tests 3. It is None unless the failure
    looked for is wrong values.
    """

    pair: BuildPair
    failure: Failure
    maker: Maker
    runner: BuildRunner
    swap: KernelSwap | None = None

    @property
    def text(self) -> str:
        """Return the name of the failure that is looked for, on the screen and in the result."""
        return self.failure.text

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        """Run the twin only if the candidate fails as it should. Without a reference there is no twin."""
        both_run = self.pair.submitted_tasks(candidate) and self.pair.reference_tasks(candidate)
        if not both_run and isinstance(self.failure, WrongValues):
            # If the failing build has no tasks, no value can be wrong. If the reference has none, the twin proves
            # nothing. The real runtime's simulator would wait for a first task forever.
            return Answer.NOT
        with candidate_folder(folder):
            try:
                failing, passing = self.maker.make(candidate, folder)
            except (UnfitCutError, IncompleteDumpError):
                return Answer.INVALID
            ran = self.runner.run(failing, self.pair.failing.toolchain, folder / "runs-failing")
            outcome = self.failure.outcome(ran, failing)
            if outcome is not Answer.INTERESTING or passing is None:
                return outcome
            twin = self.runner.run(passing, self.pair.reference.toolchain, folder / "runs-passing")
            passed = twin.classification.verdict is Verdict.PASS
            explains = passed and (self.swap is None or self.swap.may_explain(candidate))
            return Answer.INTERESTING if explains else Answer.SLIPPED


@contextmanager
def candidate_folder(folder: Path) -> Generator[None]:
    """Remove the folder of a candidate at the end."""
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


SCRIPT_CONTRACT = (
    "runs in the candidate's folder, a build directory (./run.sh runs it; ../passing is its twin): "
    "0 interesting, 1 not, 125 cannot tell, 101 keep a copy but go on"
)
KEEP = 101
"""A script says with this exit code that a copy of the candidate is kept and that the search goes on."""
_OUTCOMES = {0: Answer.INTERESTING, 1: Answer.NOT, 125: Answer.INVALID, KEEP: Answer.NOT}


@dataclass(frozen=True, kw_only=True)
class Script:
    """Asks a script about candidates that `make` makes below a new folder, each with its `run.sh`.

    Copies that the script wants to keep go to folders below `kept`. The script has the runner's timeout.
    """

    path: Path
    pair: BuildPair
    make: Callable[[Candidate, Path], tuple[CandidateBuild, CandidateBuild | None]]
    runner: BuildRunner
    kept: Path

    @staticmethod
    def resolve_path(path: Path) -> Path:
        """The script with its full path.

        Raises:
            UsageError: the script cannot be run.
        """
        if not path.is_file():
            found = "no file" if path.exists() else "none"
            raise UsageError(
                f"--interesting {path}: expected a script, found {found}; name one that is there"
            )
        if not os.access(path, os.X_OK):
            raise UsageError(
                f"--interesting {path}: expected a script that can be executed, found one that may not; chmod +x it"
            )
        return path.resolve()

    @property
    def text(self) -> str:
        """Return the name of the failure that is looked for, on the screen and in the result."""
        return f"what {self.path.name} finds interesting"

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        """Let the script judge one run of a candidate.

        Raises:
            UserError: the script's exit code is outside of the convention.
        """
        with candidate_folder(folder):
            try:
                made = self.make(candidate, folder)[0]
            except (UnfitCutError, IncompleteDumpError):
                return Answer.INVALID
            return self.ask(made, folder / "script.log.gz", candidate.digest)

    def ask(self, made: CandidateBuild, log: Path, name: str) -> Answer:
        """Run the script on a build. If it asks for that, a copy of the build is kept under `name`."""
        finished = execute(
            Command(
                argv=[str(self.path)],
                cwd=made.path,
                environment=inherited_environment(),
                timeout=self.runner.timeout,
            ),
            log=log,
            on_line=lambda _stream, _line: None,
        )
        code = finished.ending.exit_code
        if finished.ending.timed_out:
            return Answer.INVALID
        if code not in _OUTCOMES:
            raise UserError(
                f"--interesting {self.path}: expected exit code {', '.join(map(str, _OUTCOMES))}, found "
                f"{finished.ending}; it {SCRIPT_CONTRACT}"
            )
        if code == KEEP:
            shutil.copytree(made.path, self.kept / name, symlinks=True, dirs_exist_ok=True)
        return _OUTCOMES[code]
