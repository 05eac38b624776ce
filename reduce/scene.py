"""Converts between scene tests and build directories, and runs the script of a scene test.

A case of a scene test can be written as a build directory, which can be localized and reduced. For a culprit and its
parent, both are written, with the data of the one that passes. In the other direction, `test_reduced.py` runs a build
directory and its frozen data as a scene test of the runtime.

If no graph lists the tasks of a program, the script itself runs. It dumps all task arguments, before and after each
task. `compare_dumps` compares two such runs task by task. A difference begins at a task that has the same inputs in
both runs and leaves other results. The order in which the tasks ran does not matter.
"""

from __future__ import annotations

import gzip
import pprint
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel

from ..runner.build_output.args_dump import (
    ArgRecord,
    ArgsDump,
    ArgumentKind,
    ArgumentRole,
    DumpStage,
    format_task_id,
)
from ..runner.build_output.directory import KERNEL_CONFIG_FILE as KERNEL_CONFIG
from ..runner.build_output.directory import (
    BuildDirectory,
    Direction,
    Kernel,
    KernelConfig,
    TensorFolder,
)
from ..runner.build_output.files import Folder
from ..runner.build_output.orchestration import Orchestration, Usage
from ..runner.case.case import options_in_help
from ..runner.case.preflight import (
    EXPORT,
    EntryArgument,
    EntryScalar,
    EntryTensor,
    argument_names,
)
from ..runner.compare.statistics import Tolerance
from ..runner.errors import UsageError, UserError
from ..runner.localization import Divergence, FirstDivergent, NamedTask, ReferenceUsed
from ..runner.localization_job import BuildToRun, SceneCase
from ..runner.probe.probe import lease
from ..runner.process.run import Command, FinishedCommand, execute
from ..runner.stack import fill
from ..runner.tensor import TensorView
from ..store.durable_files import create_folder, try_remove_tree
from .localize.document import best_pattern, tensor_statistics
from .replay.replay import RunnableBuild, differs
from .replay.toolchain import Toolchain

_DIRECTIONS = {
    Usage.INPUT: Direction.IN,
    Usage.OUTPUT: Direction.OUT,
    Usage.INOUT: Direction.INOUT,
    Usage.NO_DEPENDENCY: Direction.IN,
}


class _Source(BaseModel):
    source: str
    signature: list[Direction]


class _Entry(_Source):
    function_name: str


class _Kernel(_Source):
    func_id: int
    name: str
    core_type: str
    extra_include_dirs: list[str]


class _Scene(BaseModel):
    """The description that `export.py` writes."""

    runtime_config: dict[str, Any]
    orchestration: _Entry
    kernels: list[_Kernel]


def export_script_as_build(
    script: Path,
    case: str | None,
    toolchain: Toolchain,
    folder: Path,
    *,
    reuse: bool,
    on_progress: Callable[[str], None],
) -> Path:
    """Write the script of a scene test to `folder` as a build directory. Return the folder.

    The script runs under the toolchain's interpreter and draws its data from a fixed seed. `reuse` takes a folder that
    an earlier call wrote.

    Raises:
        UserError: the stack has no scene tests, there is no such case, or it cannot be written as one build directory.
        BuildOutputError: what was written cannot be read.
    """
    if not toolchain.stack.case.scene_tests:
        raise UsageError(f"{script}: expected a build directory, found a file")
    if reuse and folder.is_dir():
        return folder
    on_progress(f"writing {script.name} as the build directory {folder}")
    with create_folder(folder) as partial:
        _export(script, case, toolchain, partial)
        _complete(partial)
        try_remove_tree(folder)
    return folder


def _export(script: Path, case: str | None, toolchain: Toolchain, folder: Path) -> None:
    """Let the scene test's script write itself as a build directory. Its data files have numbers as names."""
    argv = [str(toolchain.python), str(EXPORT), str(script.resolve())]
    argv += ["-p", toolchain.platform, "--output", str(folder)]
    finished = subprocess.run(
        argv if case is None else [*argv, "--case", case],
        env=toolchain.environment,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if finished.returncode:
        errors = [line for line in finished.stderr.splitlines() if line.strip()]
        raise UserError(
            errors[-1]
            if errors
            else f"{script}: expected a scene test, found exit code {finished.returncode}"
        )


def _complete(folder: Path) -> None:
    """Write the kernel list, and rename the numbered data files to the orchestration's argument names."""
    description = folder / "scene.json"
    scene = _Scene.model_validate_json(description.read_bytes())
    orchestration = Orchestration.open(
        Folder.open(folder, expected="a build directory"),
        scene.orchestration.source,
        entry_function=scene.orchestration.function_name,
    )
    (folder / KERNEL_CONFIG).write_text(_kernel_config(scene, orchestration), encoding="utf-8")
    description.unlink()
    for number, name in enumerate(argument_names(folder, orchestration)):
        for kind in ("in", "out"):
            file = folder / "data" / kind / f"{number}.pt"
            if file.exists():
                file.rename(file.with_name(f"{name}.pt"))


def _kernel_config(scene: _Scene, orchestration: Orchestration) -> str:
    entry = scene.orchestration
    lines = [
        "from pathlib import Path",
        "",
        "from simpler.task_interface import ArgDirection as _D",
        "",
        "_ROOT_DIR = Path(__file__).parent",
        f"RUNTIME_CONFIG = {scene.runtime_config!r}",
        "ORCHESTRATION = {",
        f'    "source": {_source(entry)},',
        f'    "function_name": {entry.function_name!r},',
        f'    "signature": {_signature(entry.signature)},',
        "}",
        "KERNELS = [",
    ]
    for kernel in scene.kernels:
        folders = (
            f', "extra_include_dirs": {kernel.extra_include_dirs!r}' if kernel.extra_include_dirs else ""
        )
        lines.append(
            f'    {{"func_id": {kernel.func_id}, "name": {kernel.name!r}, "source": {_source(kernel)}, '
            f'"core_type": {kernel.core_type!r}, '
            f'"signature": {_signature(_full_signature(kernel, orchestration))}{folders}}},'
        )
    return "\n".join([*lines, "]", ""])


def _source(kernel: _Source) -> str:
    return f"str(_ROOT_DIR / {' / '.join(map(repr, PurePosixPath(kernel.source).parts))})"


def _signature(directions: Sequence[Direction]) -> str:
    return f"[{', '.join(f'_D.{direction.value}' for direction in directions)}]"


def _full_signature(kernel: _Kernel, orchestration: Orchestration) -> list[Direction]:
    """Return the kernel's signature with its last tensors, which some scripts omit. The runtime would not dump them."""
    submits = [
        [_DIRECTIONS[argument.usage] for argument in submit.tensor_arguments]
        for submit in orchestration.submits
        if kernel.func_id in [submitted.func_id for submitted in submit.kernels]
    ]
    longest = sorted(submits, key=len)[-1] if submits else []
    return [*kernel.signature, *longest[len(kernel.signature) :]]


class CheckChangedError(UserError):
    """The case expects other results for the same inputs, so the case itself changed."""


@dataclass(frozen=True, kw_only=True)
class SceneBuilds:
    """Both scene tests as build directories. `data` holds the inputs and results of the reference."""

    failing: Path
    reference: Path
    data: Path


def export_scene_builds(
    failing: RunnableBuild,
    reference: RunnableBuild,
    scene: SceneCase,
    *,
    folder: Path,
    on_progress: Callable[[str], None],
) -> SceneBuilds:
    """Write both scripts below `folder`, each under its own toolchain and from the same seed.

    Raises:
        CheckChangedError: the inputs are the same, and the expected results differ.
        UserError: a script cannot be written as a build directory.
        BuildOutputError: what was written cannot be read.
    """
    paths = [
        export_script_as_build(
            side.path, scene.failed, side.toolchain, folder / name, reuse=False, on_progress=on_progress
        )
        for name, side in (("failing", failing), ("reference", reference))
    ]
    ours, theirs = (BuildDirectory.open(path).golden_data() for path in paths)
    expected = _differing_tensors(ours.outputs, theirs.outputs)
    if expected and not _differing_tensors(ours.inputs, theirs.inputs):
        raise CheckChangedError(
            f"the yardstick moved: of the same inputs {scene.failed or failing.path.name} expects other results at the "
            f"culprit than at its parent ({', '.join(expected)})"
        )
    return SceneBuilds(failing=paths[0], reference=paths[1], data=paths[1] / "data")


def _differing_tensors(ours: TensorFolder, theirs: TensorFolder) -> list[str]:
    """Return the names of tensors that are missing in one folder or differ between the two."""
    names = sorted({*ours.names, *theirs.names})
    return [
        name
        for name in names
        if name not in ours.names
        or name not in theirs.names
        or differs(ours.tensor(name), theirs.tensor(name), Tolerance())
    ]


_MAX_NOT_COMPARED = 20
"""At most this many tensors that could not be compared are listed. A broken dump has thousands."""
_EXACT = Tolerance()


@dataclass(frozen=True, kw_only=True)
class DumpedRun:
    """The dump of one run in `folder`. `kernels` maps function ids to names. `config` is the kernel list, if known."""

    folder: Path
    dump: ArgsDump
    kernels: Mapping[int, str]
    config: KernelConfig | None = None

    @cached_property
    def tasks(self) -> Mapping[int, DumpedTask]:
        """Return the tasks by task id, ascending."""
        return {task_id: DumpedTask(run=self, task_id=task_id) for task_id in self.dump.task_ids()}


@dataclass(frozen=True, kw_only=True)
class DumpedTask:
    """The records of one task."""

    run: DumpedRun
    task_id: int

    @cached_property
    def records_before(self) -> Mapping[int, ArgRecord]:
        """Return the tensors and scalars that the task was given, by argument index."""
        return self._records(DumpStage.BEFORE_DISPATCH)

    @cached_property
    def records_after(self) -> Mapping[int, ArgRecord]:
        """Return the tensors that the task left, by argument index."""
        return self._records(DumpStage.AFTER_COMPLETION)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Return the function ids of the task's kernels. A prepared graph may not report them."""
        records = (*self.records_before.values(), *self.records_after.values())
        return tuple(dict.fromkeys(number for record in records for number in record.kernels if number >= 0))

    @property
    def kernel(self) -> str:
        """Return the names of the task's kernels, joined by `+`."""
        names = self.run.kernels
        return "+".join(names.get(number, f"kernel {number}") for number in self.numbers) or "unnamed"

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the source files of the task's kernels, as far as they are known."""
        listed: Mapping[int, Kernel] = {} if self.run.config is None else self.run.config.kernels
        return tuple(str(listed[number].source) for number in self.numbers if number in listed)

    @property
    def named_task(self) -> NamedTask:
        """Return the task as documents name it."""
        return NamedTask(task_id=format_task_id(self.task_id), kernel=self.kernel)

    def _records(self, stage: DumpStage) -> Mapping[int, ArgRecord]:
        return {each.arg_index: each for each in self.run.dump.find(task_id=self.task_id, stage=stage)}


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """A task of the failing run, and the task of the same id in the reference's run."""

    failing: DumpedTask
    reference: DumpedTask

    @property
    def is_aligned(self) -> bool:
        """Return whether both tasks run the same kernels with corresponding arguments."""
        return self.failing.kernel == self.reference.kernel and all(
            [(number, each.kind, each.dtype, each.shape) for number, each in sorted(ours.items())]
            == [(number, each.kind, each.dtype, each.shape) for number, each in sorted(theirs.items())]
            for ours, theirs in self._stages
        )

    @cached_property
    def flaws(self) -> tuple[str, ...]:
        """Return a text for each record that the dump does not hold completely."""
        return tuple(
            f"{each.name}: {each.flaw.value}"
            for stage in (*self._stages[0], *self._stages[1])
            for each in stage.values()
            if each.flaw is not None
        )

    def submit_difference(self) -> str | None:
        """Return the first difference of a scalar or of a tensor's place. None if the tasks are submitted alike."""
        for index, ours in sorted(self.failing.records_before.items()):
            theirs = self.reference.records_before[index]
            if ours.kind is ArgumentKind.SCALAR:
                if ours.value != theirs.value and not (
                    ours.value != ours.value and theirs.value != theirs.value
                ):
                    return f"scalar argument {index} is {ours.value}, in the good run {theirs.value}"
            elif (ours.start_offset, ours.strides) != (theirs.start_offset, theirs.strides):
                return (
                    f"argument {index} begins at element {ours.start_offset} with strides {list(ours.strides)}, in the "
                    f"good run at {theirs.start_offset} with {list(theirs.strides)}"
                )
        return None

    def differing_tensors(self, stage: DumpStage, tolerance: Tolerance) -> tuple[int, ...]:
        """Return the argument indices of tensors that differ at that stage."""
        return tuple(index for index, ours, theirs in self.tensors(stage) if differs(ours, theirs, tolerance))

    def tensors(self, stage: DumpStage) -> Iterator[tuple[int, TensorView, TensorView]]:
        """Yield the argument index, the failing run's tensor and the reference's, for each tensor."""
        ours, theirs = self._stages[stage is DumpStage.AFTER_COMPLETION]
        for index, record in sorted(ours.items()):
            if record.kind is ArgumentKind.TENSOR:
                yield (
                    index,
                    self.failing.run.dump.tensor(record),
                    self.reference.run.dump.tensor(theirs[index]),
                )

    @property
    def _stages(self) -> Sequence[tuple[Mapping[int, ArgRecord], Mapping[int, ArgRecord]]]:
        return (self.failing.records_before, self.reference.records_before), (
            self.failing.records_after,
            self.reference.records_after,
        )


@dataclass(frozen=True, kw_only=True)
class _Divergent:
    """A task that leaves other values in the arguments `results`."""

    pair: _Pair
    results: tuple[int, ...]
    doubt: int
    """The doubt whether the difference begins here.

    With 0, it begins here. With 1, arguments that the task both reads and writes differ before it, as uninitialized
    memory may. With 2, arguments that it only reads differ.
    """
    reason: str


def compare_dumps(
    failing: DumpedRun, reference: DumpedRun, *, platform: str, tolerance: Tolerance | None
) -> Divergence:
    """Return the tasks at which the failing run begins to differ.

    `tolerance` is the case's own. If all first differences are within it, they are rounding. Then the first tasks with
    larger differences are returned, if there are any.

    Raises:
        BuildOutputError: a payload cannot be read.
    """
    pairs = [
        _Pair(failing=task, reference=reference.tasks[task_id])
        for task_id, task in failing.tasks.items()
        if task_id in reference.tasks
    ]
    aligned = [pair for pair in pairs if pair.is_aligned]
    whole = [pair for pair in aligned if not pair.flaws]
    compared_ids = {pair.failing.task_id for pair in aligned}
    first, used, rounding = _separate_rounding(whole, tolerance)
    flaws = [flaw for pair in aligned for flaw in pair.flaws]
    more = [f"and {len(flaws) - _MAX_NOT_COMPARED} more"] if len(flaws) > _MAX_NOT_COMPARED else []
    return Divergence(
        failing_build=str(failing.folder),
        reference=ReferenceUsed(kind="good build", path=str(reference.folder), platform=platform),
        rtol=used.rtol,
        atol=used.atol,
        tasks=len(failing.tasks),
        runs=1,
        reference_runs=1,
        bytes_dumped=failing.dump.payload_bytes,
        first_divergent=tuple(entry for each in first for entry in _entries(each, used)),
        not_compared=(*flaws[:_MAX_NOT_COMPARED], *more),
        rounding=tuple(each.pair.failing.named_task for each in rounding),
        unaligned=tuple(
            task.named_task for number, task in failing.tasks.items() if number not in compared_ids
        ),
        unaligned_reference=tuple(
            task.named_task for number, task in reference.tasks.items() if number not in compared_ids
        ),
    )


def _separate_rounding(
    pairs: Sequence[_Pair], tolerance: Tolerance | None
) -> tuple[Sequence[_Divergent], Tolerance, Sequence[_Divergent]]:
    """Return the tasks at which the difference begins, the tolerance that shows it, and the tasks that round only."""
    exact = _origins(pairs, _EXACT)
    after = DumpStage.AFTER_COMPLETION
    if tolerance is None or any(each.pair.differing_tensors(after, tolerance) for each in exact):
        return exact, _EXACT, ()
    beyond = _origins(pairs, tolerance)
    return (beyond, tolerance, exact) if beyond else (exact, _EXACT, ())


def _origins(pairs: Sequence[_Pair], tolerance: Tolerance) -> Sequence[_Divergent]:
    """Return the tasks whose results differ although their inputs do not, or else the first task of least doubt."""
    divergent = [found for pair in pairs if (found := _divergent(pair, tolerance)) is not None]
    sure = [each for each in divergent if each.doubt == 0]
    return sure or sorted(divergent, key=lambda each: each.doubt)[:1]


def _divergent(pair: _Pair, tolerance: Tolerance) -> _Divergent | None:
    """Return how the task diverges. None if it leaves the same values."""
    results = pair.differing_tensors(DumpStage.AFTER_COMPLETION, tolerance)
    if not results:
        return None
    difference = pair.submit_difference()
    if difference is not None:
        return _Divergent(
            pair=pair, results=results, doubt=0, reason=f"it is submitted differently: {difference}"
        )
    inputs = pair.differing_tensors(DumpStage.BEFORE_DISPATCH, tolerance)
    if not inputs:
        same = "the same" if tolerance == _EXACT else "the same within the case's tolerance"
        return _Divergent(
            pair=pair, results=results, doubt=0, reason=f"all that it was given is {same} in both runs"
        )
    names = ", ".join(f"argument {index}" for index in inputs)
    all_inout = all(pair.failing.records_before[index].role is ArgumentRole.INOUT for index in inputs)
    return _Divergent(
        pair=pair,
        results=results,
        doubt=1 if all_inout else 2,
        reason=f"{names} is not the same before it runs, and no dumped task is seen to begin it: the case's own data, "
        "memory that nobody cleared, a write outside of what a task declares, or an order may be why",
    )


def _entries(divergent: _Divergent, tolerance: Tolerance) -> Iterator[FirstDivergent]:
    """Yield an entry for each result that differs."""
    pair, task = divergent.pair, divergent.pair.failing
    config = task.run.config
    inputs = [theirs for _, _, theirs in pair.tensors(DumpStage.BEFORE_DISPATCH)]
    for index, ours, theirs in pair.tensors(DumpStage.AFTER_COMPLETION):
        if index not in divergent.results:
            continue
        yield FirstDivergent(
            task_id=format_task_id(task.task_id),
            kernel=task.kernel,
            kernel_sources=task.sources,
            reference_kernel=pair.reference.kernel,
            reference_task_id=format_task_id(task.task_id),
            orchestration_source="" if config is None else str(config.orchestration.source),
            argument=index,
            task_class="introduced" if divergent.doubt == 0 else "unknown",
            reason=divergent.reason,
            pattern=best_pattern(ours, theirs, tolerance, inputs),
            statistics=tensor_statistics(ours, theirs, tolerance),
        )


_DUMP_EVERYTHING = "2"
"""At this level the runtime dumps every argument of every task."""
_HELP_TIMEOUT = 120.0
"""A case's `--help` is stopped after this many seconds. It may import a large library first, and must not hang."""
_NOT_NAME_CHARACTER = re.compile(r"[^\w.-]")


@dataclass(frozen=True, kw_only=True)
class SceneTestRun:
    """A run of a scene test's script in the slot of its commit.

    `timeout` is in seconds. `folder` takes the logs. `config` is the kernel list, if known.
    """

    side: BuildToRun
    toolchain: Toolchain
    scene: SceneCase
    timeout: float
    folder: Path
    config: KernelConfig | None = None

    def dump(self) -> DumpedRun:
        """Run the script from a fixed seed, and read its dump. The verdict of the run does not matter.

        Raises:
            UserError: the script cannot dump at this revision, or left no dump.
            BuildOutputError: the dump cannot be read.
        """
        self.folder.mkdir(parents=True)
        outputs, spelling = self._outputs, self._dump_option()
        before = set(outputs.iterdir()) if outputs.is_dir() else set[Path]()
        log = self.folder / "run.log.gz"
        finished = self._execute(self._command(spelling), timeout=self.timeout, log=log)
        new = sorted(set(outputs.iterdir()) - before) if outputs.is_dir() else []
        dumps = [each for each in new if self._is_of_case(each.name) and any(each.glob("*_dump*"))]
        if len(dumps) != 1:
            raise UserError(
                f"{self.side.build.name}: expected one dump of {self.scene.failed or 'its case'} in {outputs}, found "
                f"{len(dumps)}: the run ended with {finished.ending}; see {log}"
            )
        found = BuildDirectory.open(dumps[0])
        listed: Mapping[int, Kernel] = {} if self.config is None else self.config.kernels
        kernels = {number: kernel.name for number, kernel in listed.items()} | found.read_name_maps()
        return DumpedRun(
            folder=found.folder.root, dump=found.args_dump(), kernels=kernels, config=self.config
        )

    @property
    def _outputs(self) -> Path:
        folder = self.side.stack.case.build_output
        if folder is None:
            raise UserError(f"stack {self.side.stack.name}: expected case.build_output, found none")
        return self.side.slot / folder

    @property
    def _values(self) -> Mapping[str, str]:
        return self.toolchain.values(case=self.side.build, folder=self.side.slot)

    def _is_of_case(self, name: str) -> bool:
        """Return whether a folder of this name holds the records of the case that failed."""
        failed = self.scene.failed
        return failed is None or name.startswith(
            _NOT_NAME_CHARACTER.sub("_", failed.replace("::", "_")) + "_"
        )

    def _command(self, spelling: str) -> Sequence[str]:
        """Return the stack's command, with `export.py --run` before the script, which fixes the seed."""
        argv: list[str] = []
        for word in self.side.stack.case.command:
            argv += (
                [str(EXPORT), "--run", str(self.side.build)]
                if word == "{case}"
                else [fill(word, self._values)]
            )
        only = self.scene.failed
        chosen = ["--case", only] if only is not None and "--case" not in self.scene.arguments else []
        return [*argv, *self.scene.arguments, *chosen, spelling, _DUMP_EVERYTHING]

    def _dump_option(self) -> str:
        """Return the option that asks for a dump at this revision."""
        case = self.side.stack.case
        log = self.folder / "help.log.gz"
        self._execute([fill(word, self._values) for word in case.help], timeout=_HELP_TIMEOUT, log=log)
        with gzip.open(log, "rt", encoding="utf-8", errors="replace") as text:
            offered = options_in_help(text.read())
        spelling = next((each for each in case.flags.dump if each in offered), None)
        if spelling is None:
            raise UserError(
                f"{self.side.build.name}: expected an option of {', '.join(case.flags.dump) or 'case.flags.dump'} at "
                f"this revision, found none; see {log}"
            )
        return spelling

    def _execute(self, argv: Sequence[str], *, timeout: float, log: Path) -> FinishedCommand:
        stack, platform = self.side.stack, self.toolchain.platform
        command = Command(
            argv=argv,
            cwd=Path(fill(stack.case.cwd, self._values)),
            environment=self.toolchain.environment,
            timeout=timeout,
        )
        with lease(platform, stack.platforms[platform], self.toolchain.device, on_wait=lambda _message: None):
            return execute(command, log=log, on_line=lambda _stream, _line: None)


FILE_NAME = "test_reduced.py"

_FIRST_LINE = '"""A build directory as a scene test: python test_reduced.py -p a2a3sim"""'
_TEXT = """
from pathlib import Path

import simpler_setup
import torch
from simpler.task_interface import ArgDirection as D
from simpler_setup import Scalar, SceneTestCase, TaskArgsBuilder, scene_test

# It was called Tensor before it was called TensorArg.
TensorArg = getattr(simpler_setup, "TensorArg", None) or simpler_setup.Tensor
DATA = Path(__file__).resolve().parent / "data"
TENSORS = @TENSORS@
SCALARS = @SCALARS@


def load(kind, name):
    return torch.load(DATA / kind / f"{name}.pt", weights_only=True)


@scene_test(level=2, runtime=@RUNTIME@)
class TestReduced(SceneTestCase):
    RTOL = @RTOL@
    ATOL = @ATOL@
    CALLABLE = @CALLABLE@
    CASES = [{"name": "default", "platforms": ["a2a3sim", "a2a3", "a5sim", "a5"], "config": @CONFIG@, "params": {}}]

    def generate_args(self, params):
        specs = []
        for name, shape, dtype, has_input, _ in TENSORS:
            value = load("in", name) if has_input else torch.zeros(shape, dtype=getattr(torch, dtype))
            specs.append(TensorArg(name, value.share_memory_()))
        return TaskArgsBuilder(*specs, *(Scalar(name, load("in", name).item()) for name in SCALARS))

    def compute_golden(self, args, params):
        for name, _, _, _, is_output in TENSORS:
            if is_output:
                getattr(args, name)[:] = load("out", name)


if __name__ == "__main__":
    SceneTestCase.run_module(__name__)
"""


def write_scene_test(build: Path, arguments: Sequence[EntryArgument], tolerance: Tolerance) -> Path:
    """Write the scene test of a build directory with frozen data, and return its path.

    Raises:
        BuildOutputError: the kernel list cannot be read.
    """
    config = BuildDirectory.open(build).kernel_config()
    entry = config.orchestration
    tensors = [argument for argument in arguments if not isinstance(argument, EntryScalar)]
    incores = [
        {
            "func_id": kernel.func_id,
            "source": str(kernel.source),
            "core_type": kernel.core_type.value,
            "signature": list(map(_Name, kernel.signature or ())),
            **({"extra_include_dirs": list(kernel.include_dirs)} if kernel.include_dirs else {}),
        }
        for kernel in config.kernels.values()
    ]
    description = {
        "orchestration": {
            "source": str(entry.source),
            "function_name": entry.function_name,
            "signature": list(map(_Name, entry.signature or map(_direction, tensors))),
        },
        "incores": incores,
    }
    specs = [
        (tensor.name, tensor.shape, tensor.dtype, tensor.has_input, tensor.is_output) for tensor in tensors
    ]
    runtime = config.runtime.get("runtime", "tensormap_and_ringbuffer")
    texts = {
        "TENSORS": pprint.pformat(specs, width=100),
        "SCALARS": repr([argument.name for argument in arguments if isinstance(argument, EntryScalar)]),
        "RUNTIME": repr(runtime),
        "RTOL": repr(tolerance.rtol),
        "ATOL": repr(tolerance.atol),
        "CALLABLE": pprint.pformat(description, width=100, sort_dicts=False),
        "CONFIG": repr({key: value for key, value in config.runtime.items() if key != "runtime"}),
    }
    text = f"{_FIRST_LINE}\n{_TEXT}"
    for name, value in texts.items():
        text = text.replace(f"@{name}@", value)
    path = build / FILE_NAME
    path.write_text(text, encoding="utf-8")
    return path


def _direction(tensor: EntryTensor) -> Direction:
    """Return the direction that the frozen data show. Kernel lists from before July 2026 have none."""
    if not tensor.is_output:
        return Direction.IN
    return Direction.INOUT if tensor.has_input else Direction.OUT


class _Name:
    """A direction that prints as the member of the runtime's own enumeration."""

    def __init__(self, direction: Direction) -> None:
        self._direction = direction

    def __repr__(self) -> str:
        return f"D.{self._direction.value}"
