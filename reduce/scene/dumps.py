"""Two runs' dumps of all arguments, compared task by task: what can be told of a program whose tasks no graph lists.

A task that was given the same in both runs and left something else is where a difference begins, whatever order the
tasks ran in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...runner.build_output.args.dump import ArgsDump
from ...runner.build_output.args.records import ArgRecord, ArgumentRole, DumpStage, Kind
from ...runner.build_output.kernel_config import Kernel, KernelConfig
from ...runner.build_output.task_id import format_task_id
from ...runner.compare.statistics.statistics import Tolerance
from ...runner.localization.divergence import Divergence, NamedTask, ReferenceUsed
from ...runner.localization.tensors import FirstDivergent
from ...runner.tensor.view import TensorView
from ..localize.report.divergent_tensors import best_pattern, tensor_statistics
from ..replay.comparison import differs

_MOST_NOT_COMPARED = 20
_EXACT = Tolerance()


@dataclass(frozen=True, kw_only=True)
class DumpedRun:
    """One run's dump; `kernels` are names by function id, `folder` is what the run left. `config` is its kernel list,
    where it could be written down."""

    folder: Path
    dump: ArgsDump
    kernels: Mapping[int, str]
    config: KernelConfig | None = None

    @cached_property
    def tasks(self) -> Mapping[int, DumpedTask]:
        """By task id, ascending."""
        return {task_id: DumpedTask(run=self, task_id=task_id) for task_id in self.dump.task_ids()}


@dataclass(frozen=True, kw_only=True)
class DumpedTask:
    """The records of one task."""

    run: DumpedRun
    task_id: int

    @cached_property
    def given(self) -> Mapping[int, ArgRecord]:
        """What it was given, by argument index: tensors and scalars."""
        return self._at(DumpStage.BEFORE_DISPATCH)

    @cached_property
    def left(self) -> Mapping[int, ArgRecord]:
        """The tensors that it left, by argument index."""
        return self._at(DumpStage.AFTER_COMPLETION)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The function ids of its kernels; a prepared graph may not tell them."""
        records = (*self.given.values(), *self.left.values())
        return tuple(dict.fromkeys(number for record in records for number in record.kernels if number >= 0))

    @property
    def kernel(self) -> str:
        """The names of its kernels."""
        names = self.run.kernels
        return "+".join(names.get(number, f"kernel {number}") for number in self.numbers) or "unnamed"

    @property
    def sources(self) -> tuple[str, ...]:
        """The files of its kernels, as far as they are known."""
        listed: Mapping[int, Kernel] = {} if self.run.config is None else self.run.config.kernels
        return tuple(str(listed[number].source) for number in self.numbers if number in listed)

    @property
    def named(self) -> NamedTask:
        """As documents name it."""
        return NamedTask(task_id=format_task_id(self.task_id), kernel=self.kernel)

    def _at(self, stage: DumpStage) -> Mapping[int, ArgRecord]:
        return {each.arg_index: each for each in self.run.dump.find(task_id=self.task_id, stage=stage)}


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """A task of the failing run, and the one of the same id of the reference's."""

    failing: DumpedTask
    reference: DumpedTask

    @property
    def is_aligned(self) -> bool:
        """Whether both are the same kernels with arguments that correspond."""
        return self.failing.kernel == self.reference.kernel and all(
            [(number, each.kind, each.dtype, each.shape) for number, each in sorted(ours.items())]
            == [(number, each.kind, each.dtype, each.shape) for number, each in sorted(theirs.items())]
            for ours, theirs in self._stages
        )

    @cached_property
    def flawed(self) -> tuple[str, ...]:
        """Its records that no dump holds whole."""
        return tuple(
            f"{each.name}: {each.flaw.value}"
            for stage in (*self._stages[0], *self._stages[1])
            for each in stage.values()
            if each.flaw is not None
        )

    def given_otherwise(self) -> str | None:
        """The first scalar or place of a tensor that the task is submitted with otherwise; None: there is none."""
        for index, ours in sorted(self.failing.given.items()):
            theirs = self.reference.given[index]
            if ours.kind is Kind.SCALAR:
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

    def wrong(self, stage: DumpStage, tolerance: Tolerance) -> tuple[int, ...]:
        """The tensors, by argument index, that differ at that moment."""
        return tuple(index for index, ours, theirs in self.tensors(stage) if differs(ours, theirs, tolerance))

    def tensors(self, stage: DumpStage) -> Iterator[tuple[int, TensorView, TensorView]]:
        """Argument index, and the tensor in either run."""
        ours, theirs = self._stages[stage is DumpStage.AFTER_COMPLETION]
        for index, record in sorted(ours.items()):
            if record.kind is Kind.TENSOR:
                yield (
                    index,
                    self.failing.run.dump.tensor(record),
                    self.reference.run.dump.tensor(theirs[index]),
                )

    @property
    def _stages(self) -> Sequence[tuple[Mapping[int, ArgRecord], Mapping[int, ArgRecord]]]:
        return (self.failing.given, self.reference.given), (self.failing.left, self.reference.left)


@dataclass(frozen=True, kw_only=True)
class _Divergent:
    """A task that leaves other values in the arguments `results`, and how sure it is that this begins there."""

    pair: _Pair
    results: tuple[int, ...]
    doubt: int
    """0: it begins there; 1: what it reads and writes differs before it, as memory that nobody cleared may; 2: what
    it reads differs."""
    reason: str


def compare_dumps(
    failing: DumpedRun, reference: DumpedRun, *, platform: str, tolerance: Tolerance | None
) -> Divergence:
    """The tasks at which the failing run begins to differ. `tolerance` is the case's own: where all that begins to
    differ is within it, that is rounding, and what is over it comes first.

    Raises:
        BuildOutputError: a payload cannot be read.
    """
    pairs = [
        _Pair(failing=task, reference=reference.tasks[task_id])
        for task_id, task in failing.tasks.items()
        if task_id in reference.tasks
    ]
    aligned = [pair for pair in pairs if pair.is_aligned]
    whole = [pair for pair in aligned if not pair.flawed]
    compared_ids = {pair.failing.task_id for pair in aligned}
    first, used, rounding = _first(whole, tolerance)
    flaws = [flaw for pair in aligned for flaw in pair.flawed]
    more = [f"and {len(flaws) - _MOST_NOT_COMPARED} more"] if len(flaws) > _MOST_NOT_COMPARED else []
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
        not_compared=(*flaws[:_MOST_NOT_COMPARED], *more),
        rounding=tuple(each.pair.failing.named for each in rounding),
        unaligned=tuple(task.named for number, task in failing.tasks.items() if number not in compared_ids),
        unaligned_reference=tuple(
            task.named for number, task in reference.tasks.items() if number not in compared_ids
        ),
    )


def _first(
    pairs: Sequence[_Pair], tolerance: Tolerance | None
) -> tuple[Sequence[_Divergent], Tolerance, Sequence[_Divergent]]:
    """The tasks at which it begins, the tolerance that they were compared with, and those that are rounding."""
    exact = _beginning(pairs, _EXACT)
    if tolerance is None or any(each.pair.wrong(DumpStage.AFTER_COMPLETION, tolerance) for each in exact):
        return exact, _EXACT, ()
    beyond = _beginning(pairs, tolerance)
    return (beyond, tolerance, exact) if beyond else (exact, _EXACT, ())


def _beginning(pairs: Sequence[_Pair], tolerance: Tolerance) -> Sequence[_Divergent]:
    """Tasks that leave a difference which they were not given; where there are none, the first of the least doubt."""
    divergent = [found for pair in pairs if (found := _divergent(pair, tolerance)) is not None]
    beginning = [each for each in divergent if each.doubt == 0]
    return beginning or sorted(divergent, key=lambda each: each.doubt)[:1]


def _divergent(pair: _Pair, tolerance: Tolerance) -> _Divergent | None:
    """None where the task leaves the same."""
    results = pair.wrong(DumpStage.AFTER_COMPLETION, tolerance)
    if not results:
        return None
    otherwise = pair.given_otherwise()
    if otherwise is not None:
        return _Divergent(
            pair=pair, results=results, doubt=0, reason=f"it is submitted otherwise: {otherwise}"
        )
    inputs = pair.wrong(DumpStage.BEFORE_DISPATCH, tolerance)
    if not inputs:
        same = "the same" if tolerance == _EXACT else "the same within the case's tolerance"
        return _Divergent(
            pair=pair, results=results, doubt=0, reason=f"all that it was given is {same} in both runs"
        )
    given = ", ".join(f"argument {index}" for index in inputs)
    only_written = all(pair.failing.given[index].role is ArgumentRole.INOUT for index in inputs)
    return _Divergent(
        pair=pair,
        results=results,
        doubt=1 if only_written else 2,
        reason=f"{given} is not the same before it runs, and no dumped task is seen to begin it: the case's own data, "
        "memory that nobody cleared, a write outside of what a task declares, or an order may be why",
    )


def _entries(divergent: _Divergent, tolerance: Tolerance) -> Iterator[FirstDivergent]:
    """One entry a tensor that the task left otherwise."""
    pair, task = divergent.pair, divergent.pair.failing
    config = task.run.config
    read = [theirs for _, _, theirs in pair.tensors(DumpStage.BEFORE_DISPATCH)]
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
            pattern=best_pattern(ours, theirs, tolerance, read),
            statistics=tensor_statistics(ours, theirs, tolerance),
        )
