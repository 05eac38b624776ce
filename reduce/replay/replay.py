"""Runs copies of a build directory through the stack's own golden harness, and opens what they recorded.

A `WorkingCopy` may be edited and run, and the original is only read. A `Replayer` runs one copy again and again. A
`RecordedBuild` is a copy with its task graph, and can dump chosen tasks. Functions at the top compare what tasks left
in two runs.

A runtime compiles a source again if the source is newer than its object. The runs of one localization edit the
orchestration again and again, mostly with the same text in both builds and mostly with equal kernels. `CompiledObjects`
therefore keeps objects by the content of their sources, for later runs of equal sources.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np

from ...runner.build_output.args_dump import ArgsDump, ArgumentKind, DumpStage
from ...runner.build_output.directory import (
    KERNEL_CONFIG_FILE,
    BuildDirectory,
    Direction,
    GoldenData,
    KernelConfig,
    TensorFolder,
    kernel_names,
)
from ...runner.build_output.files import IncompleteRecordError, MalformedFileError
from ...runner.build_output.orchestration import Orchestration
from ...runner.build_output.task_graph import TaskGraph
from ...runner.case.case import CaseName, RunOptions, case_command
from ...runner.case.preflight import COMPILED, REPLAY_CASE, EntryArgument, entry_arguments, write_specs
from ...runner.compare.statistics import IncomparableError, Tolerance, have_same_bytes, measure
from ...runner.errors import UserError
from ...runner.probe.probe import lease
from ...runner.process.run import Command, FinishedCommand, RunningCommand, Secrets, execute
from ...runner.stack import fill
from ...runner.tensor import DType, Storage, TensorView, decode
from ...runner.verdict.classify import Classification, Classifier, read_harness_outcome
from ...runner.verdict.rules import Ending, VerdictRule
from ...runner.verdict.symptoms import Family, exception_family
from ...store.durable_files import create_folder, entries_below, try_remove_tree
from ...store.vocabulary import Verdict
from ..graph.submits import ArgumentNames, insert_dump_markers
from ..graph.tasks import KernelTask, MissingEdge, TaskList, missing_edges
from .toolchain import Toolchain, UnknownLayoutError, read_tolerance, select_kernels, set_signature


@dataclass(frozen=True)
class TaskValues:
    """The arguments of one task by their index: tensors before and after the task, and scalars."""

    before: Mapping[int, TensorView]
    after: Mapping[int, TensorView]
    scalars: Mapping[int, int | float | bool | None]

    def to_dtypes(self, dtypes: Mapping[int, DType]) -> TaskValues:
        """Return the same values, with the arguments in `dtypes` in these types. Rounds to nearest even."""
        before, after = (
            {index: to_dtype(view, dtypes.get(index, view.dtype)) for index, view in views.items()}
            for views in (self.before, self.after)
        )
        return TaskValues(before, after, self.scalars)


class IncompleteDumpError(Exception):
    """A part of a requested dump is missing, cut short or overwritten."""


def results_of(dump: ArgsDump, task: KernelTask) -> dict[int, TensorView]:
    """Return the tensors that a task left, by argument index.

    Raises:
        IncompleteDumpError: a tensor was not dumped completely.
    """
    return _values(dump, task, DumpStage.AFTER_COMPLETION)


def values_of(dump: ArgsDump, task: KernelTask) -> TaskValues:
    """Return all tensors and scalars of a task.

    Raises:
        IncompleteDumpError: a tensor was not dumped completely.
    """
    records = dump.find(task_id=task.task.task_id, stage=DumpStage.BEFORE_DISPATCH)
    return TaskValues(
        before=_values(dump, task, DumpStage.BEFORE_DISPATCH),
        after=_values(dump, task, DumpStage.AFTER_COMPLETION),
        scalars={record.arg_index: record.value for record in records if record.kind is ArgumentKind.SCALAR},
    )


def _values(dump: ArgsDump, task: KernelTask, stage: DumpStage) -> dict[int, TensorView]:
    after = stage is DumpStage.AFTER_COMPLETION
    wanted = {
        argument.index
        for argument in task.task.arguments
        if (argument.type.may_write if after else argument.type.may_read)
    }
    values: dict[int, TensorView] = {}
    for record in dump.find(task_id=task.task.task_id, stage=stage):
        if record.arg_index in wanted:
            try:
                values[record.arg_index] = dump.tensor(record)
            except IncompleteRecordError as error:
                raise IncompleteDumpError(str(error)) from error
    if values.keys() != wanted:
        raise IncompleteDumpError(
            f"arguments {sorted(wanted - values.keys())} of task {task.ordinal} ({task.name})"
        )
    return values


def same_outputs(first: TensorFolder | None, second: TensorFolder | None) -> bool:
    """Return whether the outputs of two runs are equal bit by bit. False if the outputs of one run are not known."""
    return (
        first is not None
        and second is not None
        and first.names == second.names
        and all(_same_bits(first.tensor(name), second.tensor(name)) for name in first.names)
    )


def _same_bits(first: TensorView, second: TensorView) -> bool:
    return (first.dtype, first.shape) == (second.dtype, second.shape) and have_same_bytes(first, second)


def differs(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> bool:
    """Return whether an element is not close, or the tensors cannot be compared.

    Tensors of different floating types are compared by their values.
    """
    try:
        return measure(*promote_tensors(actual, expected), tolerance).over > 0
    except IncomparableError:
        return True


_NON_FINITE_ONLY = Tolerance(atol=math.inf)
SIGN_ONLY_DISTANCE = math.ulp(0.0)
"""Tensors that differ only in the sign of zeros have this distance. It is above 0 and below any other distance."""


def distance(actual: TensorView, expected: TensorView, *, signed_zeros: bool = False) -> float:
    """Return the relative L2 error ||actual - expected|| / ||expected||. Infinite if NaN or Inf differ anywhere.

    With `signed_zeros`, tensors that differ only in the sign of zeros have the distance `SIGN_ONLY_DISTANCE`. Otherwise
    they have the distance 0.
    """
    pair = promote_tensors(actual, expected)
    try:
        measured = measure(*pair, Tolerance(signed_zeros=signed_zeros))
    except IncomparableError:
        return math.inf
    if measured.unequal == 0:
        return SIGN_ONLY_DISTANCE if measured.over else 0.0
    if measured.finite < measured.numel and measure(*pair, _NON_FINITE_ONLY).over:
        return math.inf
    return math.inf if math.isnan(measured.relative_l2) else measured.relative_l2


def promote_tensors(actual: TensorView, expected: TensorView) -> tuple[TensorView, TensorView]:
    """Return the tensors in a common type, if their floating types differ: float64 if one has it, else float32."""
    if actual.dtype is expected.dtype or not (actual.dtype.is_floating and expected.dtype.is_floating):
        return actual, expected
    wide = DType.FLOAT64 if DType.FLOAT64 in (actual.dtype, expected.dtype) else DType.FLOAT32
    return _cast(actual, wide), _cast(expected, wide)


def _cast(view: TensorView, dtype: DType) -> TensorView:
    values = decode(view.dtype, np.ravel(view.contiguous())).astype(dtype.storage)
    return TensorView.from_contiguous(view.name, dtype, view.shape, values)


def to_dtype(view: TensorView, dtype: DType) -> TensorView:
    """Return the tensor with its elements converted to another type."""
    import torch

    if view.dtype is dtype:
        return view
    converted = view.torch().to(getattr(torch, dtype.torch_name)).contiguous()
    raw: Storage = converted.reshape(-1).view(torch.uint8).numpy()  # pyright: ignore[reportUnknownMemberType]
    return TensorView.from_contiguous(view.name, dtype, view.shape, raw.view(dtype.storage))


# A run finds data elsewhere, writes dfx_outputs itself, and has no use for the others.
_IGNORED_FOLDERS = ("data", "dfx_outputs", "passes_dump", "report")


@dataclass(frozen=True)
class WorkingCopy:
    """A copy of a build directory to edit. Binaries keep their times, so only edited sources are compiled again."""

    path: Path

    @classmethod
    def create(cls, build: Path, path: Path) -> WorkingCopy:
        """Copy `build` to the new folder `path`.

        Links are copied as links, never followed. Pipes and sockets that a run has left are not copied.
        """

        def ignored_names(folder: str, names: list[str]) -> Sequence[str]:
            here = Path(folder)
            return [
                name
                for name in names
                if (here == build and name in _IGNORED_FOLDERS) or not _may_be_copied(here / name)
            ]

        shutil.copytree(build, path, symlinks=True, ignore=ignored_names)
        return cls(path)

    def build(self) -> BuildDirectory:
        """Return the parts of the copy."""
        return BuildDirectory.open(self.path)

    def orchestration(self) -> Orchestration:
        """Return the orchestration of the copy, with all edits so far."""
        return self.build().orchestration()

    def write_orchestration(self, source: bytes) -> None:
        """Replace the orchestration's source. An equal source is not written: it would be compiled again."""
        build = self.build()
        file = build.folder.locate(build.kernel_config().orchestration.source)
        if file.read_bytes() != source:
            file.write_bytes(source)

    def write_signature(self, directions: Sequence[Direction]) -> None:
        """Replace the directions of the orchestration's tensors in the kernel list. Lists before July 2026 have none.

        Raises:
            MalformedFileError: the list gives them in a way that is not understood.
        """
        build = self.build()
        if build.kernel_config().orchestration.signature is None:
            return
        file = build.folder.locate(KERNEL_CONFIG_FILE)
        try:
            file.write_bytes(set_signature(file.read_bytes(), directions))
        except UnknownLayoutError as error:
            raise MalformedFileError(
                path=file, expected=error.expected, found=error.found, remedy="build it anew"
            ) from error

    def keep_kernels(self, names: Set[str]) -> None:
        """Keep only the kernels `names` in the kernel list, and remove the files of the others.

        Raises:
            MalformedFileError: the list is not a plain list of entries.
        """
        build = self.build()
        path = build.folder.locate(KERNEL_CONFIG_FILE)
        kernels = list(build.kernel_config().kernels.values())
        try:
            source = select_kernels(
                path.read_bytes(), len(kernels), lambda place: kernels[place].name in names
            )
        except UnknownLayoutError as error:
            raise MalformedFileError(
                path=path, expected=error.expected, found=error.found, remedy="build it anew"
            ) from error
        kept = {kernel.source for kernel in kernels if kernel.name in names}
        for kernel in kernels:
            if kernel.source not in kept and not kernel.external:
                file = build.folder.locate(kernel.source)
                for made in file.parent.glob(f"{file.stem}.*"):
                    made.unlink()
        path.write_bytes(source)

    def discard(self) -> None:
        """Remove the whole copy, if there is one."""
        try_remove_tree(self.path)

    def clear_records(self) -> None:
        """Remove the records of an earlier run."""
        try_remove_tree(self.path / "dfx_outputs")


def _may_be_copied(path: Path) -> bool:
    return path.is_symlink() or path.is_file() or path.is_dir()


Stamps = Mapping[Path, int]
"""Each object has the time at which it was last written, in nanoseconds."""

_INCLUDES_A_SOURCE = re.compile(rb'#\s*include\s*["<][^">]*\.(c|cc|cpp|cxx)[">]')
_RUN_FOLDERS = ("data", "dfx_outputs")


@dataclass(frozen=True)
class CompiledObjects:
    """Objects that runs have compiled, kept below `folder`.

    Objects that came with a build are not kept, because they may have been compiled in another way.
    """

    folder: Path

    def put_into(self, copy: WorkingCopy, toolchain: Toolchain) -> Stamps:
        """Put objects beside the sources of a build, and return when each was last written, for `keep`.

        It does so only if objects of all sources are kept here, and an object of the build is missing or older than its
        source.

        Raises:
            BuildOutputError: the build's parts cannot be read.
        """
        kept_folders = {source: self.folder / key for source, key in _keys(copy, toolchain)}
        if all(folder.is_dir() for folder in kept_folders.values()) and any(map(_is_stale, kept_folders)):
            for source, folder in kept_folders.items():
                for compiled in folder.iterdir():
                    shutil.copyfile(compiled, source.with_suffix(compiled.suffix))
        return _stamps(kept_folders)

    def keep(self, copy: WorkingCopy, toolchain: Toolchain, before: Stamps) -> None:
        """Keep what a run has compiled since `before`. Raises the same errors as `put_into`."""
        for source, key in _keys(copy, toolchain):
            kept_folder = self.folder / key
            written = [path for path, stamp in _stamps([source]).items() if before.get(path) != stamp]
            # An object that is older than its source is from an earlier text. The run failed to compile this text.
            if written and not _is_stale(source) and not kept_folder.exists():
                with create_folder(kept_folder) as partial:
                    partial.mkdir()
                    for path in written:
                        shutil.copyfile(path, partial / f"object{path.suffix}")


def _keys(copy: WorkingCopy, toolchain: Toolchain) -> Iterator[tuple[Path, str]]:
    """Yield each source of a build, with a key of all that its object depends on.

    Yields nothing if a source lies outside of the build or includes another source: the key would be incomplete.
    """
    build = copy.build()
    config = build.kernel_config()
    kinds = {kernel.source: (kernel.core_type, kernel.include_dirs) for kernel in config.kernels.values()}
    sources = {
        relative: build.folder.locate(relative)
        for relative in (config.orchestration.source, *kinds)
        if not relative.is_absolute()
    }
    texts = {relative: source.read_bytes() for relative, source in sources.items()}
    if any(kernel.external for kernel in config.kernels.values()) or any(
        map(_INCLUDES_A_SOURCE.search, texts.values())
    ):
        return
    settings = repr((toolchain.compile_settings, sorted(config.runtime.items()))).encode()
    common = _digest(settings, *_other_files(copy.path, set(sources.values())))
    for relative, source in sources.items():
        named = f"{common} {relative} {kinds.get(relative)}"
        yield source, _digest(named.encode(), texts[relative])


def _other_files(build: Path, sources: set[Path]) -> Iterator[bytes]:
    """Yield the names and contents of the other files of a build, which sources may include."""
    for file in sorted(path for path in entries_below(build) if path.is_symlink() or path.is_file()):
        relative = file.relative_to(build)
        has_own_key = (
            file.resolve() in sources or file.suffix in COMPILED or relative == Path(KERNEL_CONFIG_FILE)
        )
        if not has_own_key and relative.parts[0] not in _RUN_FOLDERS:
            yield str(relative).encode()
            yield os.path.realpath(file).encode() if file.is_symlink() else file.read_bytes()


def _objects(source: Path) -> Iterator[Path]:
    return (path for suffix in sorted(COMPILED) if (path := source.with_suffix(suffix)).is_file())


def _stamps(sources: Iterable[Path]) -> Stamps:
    return {path: path.stat().st_mtime_ns for source in sources for path in _objects(source)}


def _is_stale(source: Path) -> bool:
    """Return whether a source has no object, or one that is older."""
    stamps = [*_stamps([source]).values()]
    return not stamps or min(stamps) < source.stat().st_mtime_ns


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


# The process exits as soon as its standard input is closed, so it never outlives its parent, even a killed one.
_SPIN = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    pass
"""


@contextmanager
def keep_processors_busy() -> Generator[None]:
    """Run one spinning process for each processor, until the end of the block or of this process.

    Under load, threads are interleaved in ways that never happen on an idle machine.
    """
    processes = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", _SPIN], stdin=subprocess.PIPE)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


OUTPUTS = "outputs"
"""This subfolder of a run's folder holds the run's outputs, where they were saved."""


class FailedRunError(UserError):
    """A run cannot be used. `reason` is the line that decided how the run ended."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        kind, _, text = reason.partition(": ")
        self.lacks_module = exception_family(kind, text) is Family.IMPORT
        """Whether the interpreter did not find a module."""


class ReplayError(FailedRunError):
    """A run did not get to a comparison of its outputs.

    `verdict` says how the run ended. `found` says so in words, without the paths of files that are deleted later.
    """

    def __init__(self, message: str, verdict: Verdict, *, found: str, reason: str = "") -> None:
        super().__init__(message, reason=reason)
        self.verdict, self.found = verdict, found


@dataclass(frozen=True, kw_only=True)
class Replay:
    """One run whose outputs were compared, with what it recorded.

    `dump` and `graph` are None unless they were asked for. `outputs` is None where the harness at this revision does
    not pass them to a comparator.
    """

    classification: Classification
    dump: ArgsDump | None
    graph: TaskGraph | None
    outputs: TensorFolder | None
    tolerance: Tolerance | None
    """The harness's own tolerance, where it is known."""
    seconds: float
    log: Path

    @property
    def dumped_bytes(self) -> int:
        """Return the bytes of all payloads."""
        return 0 if self.dump is None else self.dump.payload_bytes


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """One run, whatever its verdict, with its log in `folder`."""

    classification: Classification
    ending: Ending
    seconds: float
    folder: Path

    @property
    def log(self) -> Path:
        """Return the file of what the run printed, compressed."""
        return self.folder / "run.log.gz"

    def lines(self) -> Iterator[str]:
        """Yield the lines that the run printed."""
        with gzip.open(self.log, "rt", encoding="utf-8", errors="replace") as log:
            yield from (line.rstrip("\n") for line in log)

    @property
    def outputs(self) -> TensorFolder | None:
        """Return the outputs of the run, where they were saved."""
        folder = self.folder / OUTPUTS
        return TensorFolder.open(folder) if folder.is_dir() else None

    @property
    def reason(self) -> str:
        """Return the line that decided the verdict, or the last line if a traceback did: its error stands there."""
        decided = next((line.text for line in self.classification.evidence if line.stream != "ending"), "")
        if decided and not decided.startswith("Traceback"):
            return decided
        return next((line for line in reversed([*self.lines()]) if line.strip()), decided)


@dataclass
class Replayer:
    """Runs one working copy again and again, each time in a numbered folder of its own below `folder`.

    `objects` are what runs of this and other copies have compiled. With None, each copy compiles for itself. `timeout`
    is in seconds.
    """

    copy: WorkingCopy
    toolchain: Toolchain
    folder: Path
    timeout: float
    objects: CompiledObjects | None = None
    runs: int = 0
    dumped_bytes: int = 0

    def run(
        self,
        arguments: Sequence[EntryArgument],
        *,
        data: Path,
        dump_level: int = 0,
        dep_gen: bool = False,
        schedule: str | None = None,
    ) -> Replay:
        """Run the copy in its present state on the frozen data in `data`, and keep what it records.

        `dep_gen` asks for the task graph. `schedule` names a schedule of the stack file, for this run alone.

        Raises:
            ReplayError: the run crashed, stalled, ran into `timeout` (seconds), or could not be compiled.
            BuildOutputError: what the run recorded cannot be read.
        """
        run = self.classify(
            arguments,
            data=data,
            dump_level=dump_level,
            dep_gen=dep_gen,
            schedule=schedule,
            save_outputs=True,
        )
        if not run.classification.verdict.traits.compares_outputs:
            found = _describe_ending(run)
            raise ReplayError(
                f"{self.copy.path}: expected its outputs compared, found {found}; see {run.log}",
                run.classification.verdict,
                found=found,
                reason=run.reason,
            )
        replay = self._open(run, dump_level=dump_level, dep_gen=dep_gen)
        self.dumped_bytes += replay.dumped_bytes
        return replay

    def classify(
        self,
        arguments: Sequence[EntryArgument],
        *,
        data: Path,
        dump_level: int = 0,
        dep_gen: bool = False,
        schedule: str | None = None,
        save_outputs: bool = False,
        tolerance: Tolerance | None = None,
    ) -> FinishedRun:
        """Run the copy in its present state, whatever the verdict. What it records stays in the copy.

        The outputs are compared by `tolerance`, which is the harness's own default unless given. With `save_outputs`
        they are saved too.
        """
        self.runs += 1
        folder = self.folder / f"{self.runs:03}"
        folder.mkdir(parents=True)
        self.copy.clear_records()
        specs = folder / "specs.json"
        write_specs(arguments, specs)
        stack = self.toolchain.stack
        toolchain = self.toolchain if schedule is None else self.toolchain.with_schedule(schedule)
        values = self.toolchain.values(case=REPLAY_CASE, folder=folder)
        outcome = folder / "outcome.json"
        command = case_command(
            stack,
            _replay_case(specs, outputs=folder / OUTPUTS if save_outputs else None, tolerance=tolerance),
            RunOptions(golden_data=data, dump_level=dump_level, dep_gen=dep_gen, runtime_dir=self.copy.path),
            offered=frozenset(),
            outcome=outcome,
            values=values,
        )
        classifier = Classifier(stack.verdicts)
        finished = self._execute(
            Command(
                argv=command.argv,
                cwd=Path(fill(stack.case.cwd, values)),
                environment=toolchain.environment,
                timeout=self.timeout,
                announces_end=_stall_detector(stack.verdicts),
            ),
            start=toolchain.start,
            log=folder / "run.log.gz",
            classifier=classifier,
        )
        kernels = kernel_names(self.copy.path)
        classification = classifier.finish(
            finished.ending,
            read_harness_outcome(outcome, hide=Secrets(toolchain.environment).hide),
            kernels=kernels,
        )
        return FinishedRun(
            classification=classification, ending=finished.ending, seconds=finished.seconds, folder=folder
        )

    def _execute(
        self,
        command: Command,
        *,
        start: Callable[[Command], RunningCommand],
        log: Path,
        classifier: Classifier,
    ) -> FinishedCommand:
        """Run the case once the device is free."""
        compiled = None if self.objects is None else self.objects.put_into(self.copy, self.toolchain)
        platform = self.toolchain.platform
        with lease(
            platform,
            self.toolchain.stack.platforms[platform],
            self.toolchain.device,
            on_wait=lambda _message: None,
        ):
            finished = execute(
                command,
                log=log,
                on_line=classifier.feed,
                start=start,
            )
        if self.objects is not None and compiled is not None:
            self.objects.keep(self.copy, self.toolchain, compiled)
        return finished

    def keep_records(self, run: FinishedRun) -> None:
        """Move the records out of the copy. The next run would overwrite them while they are mapped."""
        records = self.copy.path / "dfx_outputs"
        if records.is_dir() and not records.is_symlink():
            shutil.move(records, run.folder / "dfx_outputs")

    def _open(self, run: FinishedRun, *, dump_level: int, dep_gen: bool) -> Replay:
        self.keep_records(run)
        kept = WorkingCopy(run.folder)
        return Replay(
            classification=run.classification,
            dump=kept.build().args_dump() if dump_level else None,
            graph=kept.build().task_graph() if dep_gen else None,
            outputs=run.outputs,
            tolerance=read_tolerance(run.folder / OUTPUTS),
            seconds=run.seconds,
            log=run.log,
        )


def _stall_detector(rules: Sequence[VerdictRule]) -> Callable[[str], bool]:
    """Return a function that says whether the runtime gave up with this line.

    A kernel that never returns can keep the process alive after that.
    """
    patterns = [
        rule.pattern
        for rule in rules
        if rule.verdict is Verdict.STALL and {"exit", "timeout"} <= set(rule.endings)
    ]
    return lambda line: any(pattern.search(line) for pattern in patterns)


def _describe_ending(run: FinishedRun) -> str:
    classification = run.classification
    signature = f" ({classification.signature})" if classification.signature else ""
    return f"{classification.verdict.value}{signature}: {run.reason[:200]}"


def _replay_case(specs: Path, *, outputs: Path | None, tolerance: Tolerance | None) -> CaseName:
    """Return the script that runs a build under the harness, which compares the outputs by `tolerance`.

    The script also saves them to the folder `outputs`, if one is given.
    """
    arguments = ["--specs", str(specs)]
    if outputs is not None:
        arguments += ["--outputs", str(outputs)]
    if tolerance is not None:
        arguments += ["--rtol", repr(tolerance.rtol), "--atol", repr(tolerance.atol)]
    return CaseName(path=PurePosixPath(REPLAY_CASE.name), arguments=tuple(arguments))


@dataclass(frozen=True, kw_only=True)
class RecordedBuild:
    """A build that was copied and run once for its task graph. It can be run again with dump markers."""

    build: Path
    data: Path
    copy: WorkingCopy
    replayer: Replayer
    config: KernelConfig
    orchestration: Orchestration
    arguments: tuple[EntryArgument, ...]
    tasks: TaskList
    outputs: TensorFolder | None
    """The outputs of the run that recorded the graph. None if the harness does not give them."""
    tolerance: Tolerance | None
    """The tolerance with which the harness compared that run. None if the harness does not give it."""

    @classmethod
    def open(
        cls,
        build: Path,
        *,
        data: Path,
        toolchain: Toolchain,
        folder: Path,
        timeout: float,
        objects: CompiledObjects | None = None,
    ) -> RecordedBuild:
        """Copy `build` below `folder`, and record its graph on the frozen `data`. `objects` is as in `Replayer`.

        Raises:
            UserError: it cannot be run.
            BuildOutputError: a part of it cannot be read.
        """
        copy = WorkingCopy.create(build, folder / "build")
        replayer = Replayer(
            copy=copy, toolchain=toolchain, folder=folder / "runs", timeout=timeout, objects=objects
        )
        parts = copy.build()
        config = parts.kernel_config()
        arguments = entry_arguments(parts, GoldenData.open(data))
        first = replayer.run(arguments, data=data, dep_gen=True)
        graph = first.graph
        assert graph is not None
        if not graph.annotated or any(task.kernels is None for task in graph.tasks.values()):
            raise UserError(
                f"{build}: expected a task graph with kernels and arguments, found one of a runtime before June 2026; "
                "replay the build with a later runtime"
            )
        tasks = TaskList.from_graph(graph, config)
        if not tasks.tasks:
            raise UserError(f"{build}: expected a task graph with kernels, found one without")
        return cls(
            build=build,
            data=data,
            copy=copy,
            replayer=replayer,
            config=config,
            orchestration=parts.orchestration(),
            arguments=arguments,
            tasks=tasks,
            outputs=first.outputs,
            tolerance=first.tolerance,
        )

    def dump(self, *, results: Set[int], whole: Set[int], schedule: str | None = None) -> ArgsDump:
        """Run again. Tasks in `results` (ordinals) dump what they write, and tasks in `whole` all their arguments.

        `schedule` names one of the stack file. None keeps the toolchain's. Raises the same errors as `Replayer.run`.
        """
        self.copy.write_orchestration(insert_dump_markers(self.orchestration, results=results, whole=whole))
        return self._run(dump_level=1, schedule=schedule)

    def dump_everything(self, *, schedule: str | None = None) -> ArgsDump:
        """Run the unedited build, and dump all arguments of all tasks. `schedule` and errors are those of `dump`."""
        self.restore()
        return self._run(dump_level=2, schedule=schedule)

    @cached_property
    def missing_edges(self) -> tuple[MissingEdge, ...]:
        """Return pairs of tasks that touch the same elements and do not wait for each other."""
        return missing_edges(self.tasks)

    @cached_property
    def argument_names(self) -> ArgumentNames:
        """Return what the orchestration calls the tensors of the tasks."""
        return ArgumentNames(self.orchestration, self.tasks)

    def restore(self) -> None:
        """Remove all markers from the copy."""
        self.copy.write_orchestration(self.orchestration.source)

    def run(self, *, schedule: str | None) -> Replay:
        """Run the copy in its present state without a dump. `schedule` names a schedule of the stack file, or is None.

        Raises:
            ReplayError: the run did not get to a comparison of its outputs.
        """
        return self.replayer.run(self.arguments, data=self.data, schedule=schedule)

    def _run(self, *, dump_level: int, schedule: str | None) -> ArgsDump:
        run = self.replayer.run(self.arguments, data=self.data, dump_level=dump_level, schedule=schedule)
        assert run.dump is not None
        return run.dump


@dataclass(frozen=True, kw_only=True)
class RunnableBuild:
    """A build directory that has not been copied or run yet."""

    path: Path
    toolchain: Toolchain
