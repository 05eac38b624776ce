"""The failing build and the reference that are reduced together, and what a candidate makes of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from ....runner.build_output.golden_data import GoldenData
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.tensor.view import TensorView
from ...graph.alignment import Alignment, align
from ...replay.comparison import TaskValues, differs
from .both import BothPrograms, in_one_numbering
from .candidate import Candidate, Plain
from .cut.cut import Cut, Deviations
from .cut.found import found_in_place, right_in_place
from .cut.walk import cut
from .extract.recording import Recording, same_bits
from .kernel_texts import KernelTexts
from .made_build import MadeBuild, edit_kernels, make_build, take_kernel
from .model import Program, ProgramTask, results_of
from .order import CandidateOrder, TaskSize
from .render.blocks import with_blocks
from .render.plain_values import with_plain_values
from .render.statements import KernelText
from .shapes import narrow, shrink


@dataclass(frozen=True, kw_only=True)
class _FailingValues:
    """The reference's values for the failing build's tasks: of what they leave, and of what they read in the same place
    as there. Its own for tasks without a counterpart, and for results of another shape."""

    pair: BuildPair

    def of(self, ordinal: int) -> TaskValues:
        pair, both = self.pair, self.pair.both
        if ordinal in both.missing:
            return pair.reference_values(ordinal)
        own = pair.failing.values(ordinal)
        if ordinal not in both.in_reference:
            return own
        task, reference = pair.tasks[ordinal], pair.reference_values(ordinal)
        return replace(
            reference,
            before={index: view for index, view in reference.before.items() if both.stays(task, index)},
            after={
                argument.index: view
                if view is not None and view.shape == argument.region.shape
                else own.after[argument.index]
                for argument in results_of(task, both.moved)
                for view in [reference.after.get(argument.index)]
            },
        )

    def read(self, ordinal: int) -> Mapping[int, TensorView]:
        return self.pair.failing.values(ordinal).before

    def run_of(self, ordinal: int) -> str:
        return "failing" if ordinal not in self.pair.both.in_reference else "reference"


@dataclass(frozen=True, kw_only=True)
class _ReferenceValues:
    pair: BuildPair

    def of(self, ordinal: int) -> TaskValues:
        return self.pair.reference.values(self.pair.both.in_reference[ordinal])

    def read(self, ordinal: int) -> Mapping[int, TensorView]:
        return self.of(ordinal).before

    def run_of(self, ordinal: int) -> str:
        return "reference"


@dataclass(frozen=True, kw_only=True)
class BuildPair:
    """The two builds that are reduced together. Tasks go by the ordinals of the failing build, and those that only the
    reference submits by numbers behind these.

    With `golden`, there is no reference, and both are the failing one: its outputs are judged by the case's golden
    data with that tolerance, and values recorded in its own run are the only ones there are.
    """

    failing: Recording
    reference: Recording
    golden: Tolerance | None = None

    @property
    def has_twin(self) -> bool:
        """Whether there is a reference to run."""
        return self.golden is None

    @cached_property
    def alignment(self) -> Alignment:
        """Which tasks of the two builds correspond."""
        entries = _entries_used(self.failing.program), _entries_used(self.reference.program)
        return align(self.failing.tasks, self.reference.tasks, uses=entries)

    @cached_property
    def both(self) -> BothPrograms:
        """Their programs, with one numbering of tasks and buffers."""
        return in_one_numbering(self.failing.program, self.reference.program, self.alignment)

    @property
    def missing(self) -> frozenset[int]:
        """The tasks that the failing build does not submit, and the reference does."""
        return self.both.missing

    @cached_property
    def tasks(self) -> Mapping[int, ProgramTask]:
        """All tasks of the failing build, and the missing ones, by their numbers."""
        return {task.ordinal: task for task in self.both.failing.tasks}

    def named(self, ordinal: int) -> str:
        """A task as people are told of it, by the number that it has in its build."""
        name = self.tasks[ordinal].name
        if ordinal in self.missing:
            return f"task {self.both.in_reference[ordinal]} of the good build (`{name}`)"
        return f"task {ordinal} (`{name}`)"

    def submitted(self, candidate: Candidate) -> tuple[int, ...]:
        """The tasks of a candidate that its failing build submits."""
        return tuple(task for task in candidate.tasks if task not in self.missing)

    def submitted_by_reference(self, candidate: Candidate) -> tuple[int, ...]:
        """The tasks of a candidate that its twin submits; without a reference, all."""
        return tuple(task for task in candidate.tasks if task in self.both.in_reference)

    @cached_property
    def diverged(self) -> tuple[int, ...]:
        """Tasks that left something else than in the reference, or (without one) a wrong output; and missing ones in
        whose place something else was found. In the order of the program."""
        if self.golden is not None:
            return self._wrong_writers(self.golden)
        return tuple(task for task in self.tasks if not same_bits(self.left(task), self.belonging(task)))

    def left(self, ordinal: int) -> Mapping[int, TensorView]:
        """What was in the failing run where a task's results belong, whether it had left them there or not; of a task
        that the reference does not submit, what it wrote over."""
        if ordinal in self.both.extra:
            after = self.failing.values(ordinal).after
            return {index: after[index] for index in self._overwritten[ordinal]}
        return self._found[ordinal] if ordinal in self._found else self.failing.values(ordinal).after

    def belonging(self, ordinal: int) -> Mapping[int, TensorView]:
        """What belongs there."""
        if ordinal in self.both.extra:
            return self._overwritten[ordinal]
        return self.reference_values(ordinal).after

    @cached_property
    def _found(self) -> Mapping[int, Mapping[int, TensorView]]:
        return found_in_place(self.both, self.failing)

    @cached_property
    def _overwritten(self) -> Mapping[int, Mapping[int, TensorView]]:
        return right_in_place(self.both, _FailingValues(pair=self).of, _given(self.failing.data))

    def _wrong_writers(self, tolerance: Tolerance) -> tuple[int, ...]:
        everything = set(self.tasks)
        given, values = _given(self.failing.data), _ReferenceValues(pair=self)
        left, right = (
            cut(self.failing.program, everything, values, given, golden)
            for golden in (None, _golden(self.failing.data))
        )
        writers_of_wrong: set[int] = set()
        for tensor, golden_tensor in zip(left.tensors, right.tensors, strict=True):
            if tensor.expected is None or golden_tensor.expected is None or not golden_tensor.writers:
                continue
            writers_of_wrong |= {
                writer
                for writer in golden_tensor.writers
                if differs(
                    tensor.part(tensor.expected, writer),
                    tensor.part(golden_tensor.expected, writer),
                    tolerance,
                )
            }
        return tuple(sorted(writers_of_wrong))

    @property
    def first_wrong(self) -> int | None:
        """The first of them that reads nothing wrong."""
        wrong = set(self.diverged)
        return next((task for task in self.diverged if not self.above(task) & wrong), None)

    def above(self, ordinal: int) -> frozenset[int]:
        """The tasks whose results a task reads, and the missing ones whose results it should."""
        own = frozenset[int]() if ordinal in self.missing else self.failing.tasks.predecessors[ordinal]
        counterpart = self.both.in_reference.get(ordinal)
        if not self.missing or counterpart is None:
            return own
        there = {self.both.number_of[task] for task in self.reference.tasks.predecessors[counterpart]}
        return own | (there if ordinal in self.missing else there & self.missing)

    @property
    def first_unfinished(self) -> int | None:
        """The first task that did not end in the failing run, though all that it reads was there."""
        open_tasks = [
            task.ordinal for task in self.failing.tasks.tasks if not self.failing.finished(task.ordinal)
        ]
        above = self.failing.tasks.predecessors
        return next((task for task in open_tasks if not above[task] & set(open_tasks)), None)

    def reference_values(self, ordinal: int) -> TaskValues:
        """The reference's values for a task, in the types that it has in the failing build."""
        task = self.tasks[ordinal]
        dtypes = {
            argument.index: argument.region.dtype
            for argument in (*task.arguments, *results_of(task, self.both.moved))
            if argument.region.dtype is not None
        }
        return self.reference.values(self.both.in_reference[ordinal]).in_types(dtypes)

    @cached_property
    def order(self) -> CandidateOrder:
        """The order on the candidates that are made of the two programs."""
        program = self.both.failing
        return CandidateOrder(
            tasks=tuple(TaskSize.of(program, self.tasks[task]) for task in range(len(self.tasks))),
            merged_bytes=cache(self._texts.merged_bytes),
        )

    @property
    def blocks(self) -> dict[int, int]:
        """Numbers of blocks by ordinal, of the tasks that run in several, and in as many in the reference."""
        reference = {task.ordinal: task.blocks for task in self.both.reference.tasks}
        return {
            number: task.blocks
            for number, task in self.tasks.items()
            if task.blocks is not None and task.blocks > 1 and reference.get(number) == task.blocks
        }

    def varied_inputs(self, candidate: Candidate) -> tuple[str, ...]:
        """Inputs of the candidate that were recorded with several values, in the order of its arguments."""
        return tuple(
            tensor.buffer.name
            for tensor in self.failing_cut(replace(candidate, plain=())).tensors
            if tensor.initial is not None
            and tensor.initial.size
            and bool((tensor.initial != tensor.initial[0]).any())
        )

    def kernel_texts(self, candidate: Candidate) -> tuple[KernelText, ...]:
        """Both builds' sources of the kernels that are left and lie in the builds, with all their statements; of a
        kernel that is taken from the reference, its source twice."""
        return self._texts.of(candidate, self.order.kernels(candidate))

    def reduced_texts(self, candidate: Candidate) -> tuple[KernelText, ...]:
        """The same sources without the statements that were dropped."""
        return self._texts.reduced(candidate, self.order.kernels(candidate))

    @property
    def _texts(self) -> KernelTexts:
        return KernelTexts(failing=self.failing.copy, reference=self.reference.copy)

    def failing_cut(self, candidate: Candidate) -> Cut:
        """The reduced failing program; `UnfitCutError` where the tasks cannot be taken alone."""
        made = cut(
            self.both.failing,
            set(candidate.tasks),
            _FailingValues(pair=self),
            _given(self.failing.data),
            None if self.golden is None else _golden(self.failing.data),
            Deviations(moved=self.both.moved, extra=self.both.extra, found=self._found)
            if self.has_twin
            else None,
        )
        return _edited(candidate, made).without(self.missing)

    def reference_cut(self, candidate: Candidate) -> Cut:
        """The reduced reference: the tasks that correspond to those left of the failing program."""
        made = cut(
            self.both.reference,
            set(self.submitted_by_reference(candidate)),
            _ReferenceValues(pair=self),
            _given(self.reference.data),
            deviations=Deviations(found=self._found),
        )
        return _edited(candidate, made)

    def make_failing(self, candidate: Candidate, folder: Path) -> MadeBuild:
        """The failing build of a candidate, in the new folder `folder`."""
        made = self.failing_cut(candidate)
        copy = make_build(self.failing.copy, made, folder)
        for name in candidate.collapsed:
            take_kernel(name, self.reference.copy, copy)
        edit_kernels(copy, candidate, fails=True)
        return MadeBuild(path=folder, cut=made)

    def make_narrowed_reference(self, candidate: Candidate, folder: Path) -> MadeBuild:
        """The reference's build with smaller shapes in buffers that kept their sizes."""
        extents = dict(candidate.extents)
        made = narrow(self.reference_cut(replace(candidate, extents=())), extents)
        edit_kernels(make_build(self.reference.copy, made, folder), candidate, fails=False)
        return MadeBuild(path=folder, cut=made)

    def make_reference(self, candidate: Candidate, folder: Path) -> MadeBuild:
        """The reference's build of a candidate, in the new folder `folder`."""
        made = self.reference_cut(candidate)
        edit_kernels(make_build(self.reference.copy, made, folder), candidate, fails=False)
        return MadeBuild(path=folder, cut=made)

    def make_whole_reference(self, folder: Path, *, without: frozenset[int]) -> MadeBuild:
        """The whole reference, straight-line, with some tasks left out."""
        made = self.reference_cut(self.order.whole).without(without)
        make_build(self.reference.copy, made, folder)
        return MadeBuild(path=folder, cut=made)


def _edited(candidate: Candidate, made: Cut) -> Cut:
    plain = {name: Plain(kind) for name, kind in candidate.plain}
    return with_plain_values(
        with_blocks(shrink(made, dict(candidate.extents)), dict(candidate.blocks)), plain
    )


def _entries_used(program: Program) -> list[tuple[str, ...]]:
    """The case's own arguments among those of each task; other buffers have no names that two builds agree on."""
    names = {buffer.number: buffer.name if buffer.is_entry else "" for buffer in program.buffers}
    return [tuple(names[argument.buffer] for argument in task.arguments) for task in program.tasks]


def _given(data: GoldenData) -> Mapping[str, TensorView]:
    return {name: data.inputs.tensor(name) for name in data.inputs.names}


def _golden(data: GoldenData) -> Mapping[str, TensorView]:
    return {name: data.outputs.tensor(name) for name in data.outputs.names}
