"""All kinds of edits that make a program smaller, for the two builds that are reduced together.

A kind of edit is a search among smaller programs. It proposes candidates and never runs them. A search need not be
clever. The gate makes its candidates canonical and skips those that are not smaller than the best. The memory knows
what was asked before. The schedule repeats all kinds until none finds anything.

To add a kind, write a class with `search` here, and list it in `edit_kinds`.

There are two forms of search. `Subsets` looks for a smallest set of numbered elements, as a search among the programs
that keep them. `Choices` tries one alternative after the other, at one place of the program after the other.
`BuildPair` holds the failing build and the reference, and makes the two builds of a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

from ...runner.build_output.directory import GoldenData
from ...runner.compare.statistics import Tolerance
from ...runner.tensor import TensorView
from ..graph.tasks import Alignment, align, missing_edges
from ..replay.replay import TaskValues, differs
from .cut import actual_contents, cut, expected_contents
from .extract import Recording, same_bits
from .minimize import (
    REJECTION_ERROR,
    Answer,
    DependencyGraph,
    MinimizerState,
    Query,
    Subset,
    minimize,
    passes_to_reject,
    sweep,
)
from .program import (
    Candidate,
    CandidateOrder,
    Cut,
    Deviations,
    PlainValue,
    Program,
    ProgramPair,
    ProgramTask,
    TaskSize,
    align_programs,
    narrow,
    results_of,
    shrink,
)
from .program_text import (
    CandidateBuild,
    KernelText,
    KernelTexts,
    drop_statements,
    list_statements,
    make_build,
    set_blocks,
    set_plain_values,
    take_kernel,
)

Place = Callable[[Candidate], Sequence[Candidate]]
"""Gives the alternatives to try at one place of a program, the smallest first."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """A search that takes, at each place, the first alternative that is interesting.

    `options` are the alternatives left at the current place. `places` are the places that follow.
    """

    best: Candidate
    options: tuple[Candidate, ...]
    places: tuple[Place, ...]
    runs: int

    @staticmethod
    def search(best: Candidate, places: Iterable[Place], *, rate: float) -> Choices:
        """Begin at the first place. `rate` determines how many passing runs reject an option."""
        runs = passes_to_reject(rate, REJECTION_ERROR)
        return Choices(best=best, options=(), places=tuple(places), runs=runs)._skip_to_options()

    @property
    def query(self) -> Query[Candidate] | None:
        """Asks for the next option."""
        return Query(self.options[0], self.runs) if self.options else None

    @property
    def chance(self) -> float:
        """An alternative is about as likely to be interesting as not."""
        return 0.5

    def next_state(self, answer: Answer) -> Choices:
        """Take the option and go to the next place, or go to the next option."""
        if answer is Answer.INTERESTING:
            return replace(self, best=self.options[0], options=())._skip_to_options()
        return replace(self, options=self.options[1:])._skip_to_options()

    def _skip_to_options(self) -> Choices:
        """Move to the next place that has options, or to the end."""
        best, options, places = self.best, self.options, self.places
        while places and not options:
            options, places = tuple(places[0](best)), places[1:]
        return replace(self, options=options, places=places)


@dataclass(frozen=True, kw_only=True)
class Subsets:
    """A search among subsets of elements. `keep` gives the program with the elements of a subset."""

    state: MinimizerState[Subset]
    keep: Callable[[Subset], Candidate]

    @staticmethod
    def search(
        graph: DependencyGraph,
        kept: Subset,
        keep: Callable[[Subset], Candidate],
        *,
        rate: float,
        again: bool,
        targets: Subset | None = None,
    ) -> Subsets:
        """The search for what of `kept` can go. With `again`, it only tries each element alone. `targets` wrote what
        fails."""
        if again:
            return Subsets(state=sweep(graph, kept, rate=rate), keep=keep)
        return Subsets(state=minimize(graph, best=kept, targets=targets, rate=rate), keep=keep)

    @property
    def best(self) -> Candidate:
        """Return the program with the smallest subset found interesting."""
        return self.keep(self.state.best)

    @property
    def query(self) -> Query[Candidate] | None:
        """Return the program with the subset that is asked next."""
        query = self.state.query
        return None if query is None else Query(self.keep(query.candidate), query.runs)

    @property
    def chance(self) -> float:
        """Return the chance that the subset is interesting."""
        return self.state.chance

    def next_state(self, answer: Answer) -> Subsets:
        """The search after its query was answered."""
        return replace(self, state=self.state.next_state(answer))


@dataclass(frozen=True)
class CollapseKernels:
    """Takes kernels from the reference, to see which of the failing build's kernels the failure needs.

    Elements are kernels that differ between the builds, by name. Kept elements stay the failing build's. `used` gives
    the kernels that a candidate's tasks use.
    """

    kernels: tuple[str, ...]
    used: Callable[[Candidate], Set[str]]
    name: str = "kernels"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Subsets:
        """Search the kernels in use that are not collapsed yet."""
        left = [name for name in self.kernels if name in self.used(best) and name not in best.collapsed]
        return Subsets.search(
            DependencyGraph.without_edges(len(left)),
            frozenset(range(len(left))),
            lambda kept: replace(
                best,
                collapsed=(*best.collapsed, *(name for i, name in enumerate(left) if i not in kept)),
            ),
            rate=rate,
            again=again,
        )


DroppedStatement = tuple[str, str, int]
"""A dropped statement is named by its kernel, its text, and which occurrence of that text is meant."""


@dataclass(frozen=True)
class DropStatements:
    """Drops statements from the remaining kernels, the same in both builds. What is expected is computed anew.

    Elements are the statements that both sources of a kernel have. No statement is dropped while another one needs it.
    `texts` gives the sources of a candidate's kernels, with all their statements.
    """

    texts: Callable[[Candidate], Sequence[KernelText]]
    name: str = "statements"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Subsets:
        """Search the statements that are left."""
        statements, graph = droppable_statements(self.texts(best))
        others = tuple(statement for statement in best.statements if statement not in statements)

        def keep(kept: Subset) -> Candidate:
            dropped = (statement for place, statement in enumerate(statements) if place not in kept)
            return replace(best, statements=(*others, *dropped))

        left = frozenset(
            place for place, statement in enumerate(statements) if statement not in best.statements
        )
        return Subsets.search(graph, left, keep, rate=rate, again=again)


def droppable_statements(
    texts: Sequence[KernelText],
) -> tuple[tuple[DroppedStatement, ...], DependencyGraph]:
    """The statements that may be dropped from these kernels, and the statements that each of them needs."""
    statements: list[DroppedStatement] = []
    above: list[tuple[int, ...]] = []
    for text in texts:
        shared = {statement.name for statement in list_statements(text.reference)}
        in_kernel = list_statements(text.failing)
        stay: set[int] = set()
        for position in reversed(range(len(in_kernel))):
            statement = in_kernel[position]
            if statement.stays or statement.name not in shared or position in stay:
                stay |= {position, *statement.needs}
        places: dict[int, int] = {}
        for position, statement in enumerate(in_kernel):
            if position not in stay:
                places[position] = len(statements)
                statements.append((text.kernel, statement.name.text, statement.name.occurrence))
                above.append(tuple(sorted(places[place] for place in statement.needs if place in places)))
    return tuple(statements), DependencyGraph(tuple(above))


@dataclass(frozen=True)
class DropTasks:
    """Drops tasks.

    If recorded values can replace the results of dropped tasks, `graph` has no edges, and any set of tasks may go.
    Otherwise tasks go with their dependents. Elements are ordinals of all tasks, and a candidate lists those that are
    left. `targets` wrote what fails.
    """

    graph: DependencyGraph
    targets: Subset | None = None
    name: str = "tasks"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Subsets:
        """Search the tasks that are left."""
        return Subsets.search(
            self.graph,
            frozenset(best.tasks),
            lambda kept: replace(best, tasks=tuple(sorted(kept))),
            rate=rate,
            again=again,
            targets=self.targets,
        )


@dataclass(frozen=True)
class FewerBlocks:
    """Runs tasks in fewer blocks, one task after another.

    `blocks` gives the number of blocks by ordinal, for tasks that run in several blocks and in as many in the
    reference.
    """

    blocks: Mapping[int, int]
    name: str = "blocks"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """Try smaller numbers of blocks at each task that is left."""
        places = [partial(self._alternatives, task) for task in best.tasks if task in self.blocks]
        return Choices.search(best, places, rate=rate)

    def _alternatives(self, task: int, best: Candidate) -> Sequence[Candidate]:
        return [
            replace(best, blocks=tuple({**dict(best.blocks), task: fewer}.items()))
            for fewer in smaller_counts(self.blocks[task])
        ]


def smaller_counts(blocks: int) -> Sequence[int]:
    """The powers of two below a number of blocks.

    >>> smaller_counts(24), smaller_counts(4), smaller_counts(1)
    ([1, 2, 4, 8, 16], [1, 2], [])
    """
    return [1 << power for power in range((blocks - 1).bit_length())]


class EditKind(Protocol):
    """A kind of edit. It proposes candidates."""

    @property
    def name(self) -> str:
        """Return the name of the kind on the screen."""
        ...

    def search(self, best: Candidate, *, rate: float, again: bool) -> MinimizerState[Candidate]:
        """The search for what of `best` can go. It starts with `best`, and ends where no single edit of this kind is
        left to try.

        Args:
            best: a candidate that is interesting.
            rate: how often an interesting candidate fails.
            again: whether this kind has searched before, and other kinds have made the program smaller since then. It
                is likely to find little, so that it is enough to try each edit alone.
        """
        ...


@dataclass(frozen=True)
class PlainData:
    """Gives plain values to one input after another.

    `inputs` gives the names of a candidate's inputs that were recorded with several values.
    """

    inputs: Callable[[Candidate], Sequence[str]]
    name: str = "data"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """Try each kind of plain values at each input, the plainest first."""
        places = [partial(_plain_alternatives, name) for name in self.inputs(best)]
        return Choices.search(best, places, rate=rate)


def _plain_alternatives(name: str, best: Candidate) -> Sequence[Candidate]:
    return [replace(best, plain=tuple({**dict(best.plain), name: kind.value}.items())) for kind in PlainValue]


_TILES = (8, 16, 32, 64)
"""Tiles have these sizes, in elements. Shapes shrink to sizes with the same remainder, because faults often lie in the
last tile."""


@dataclass(frozen=True)
class SmallerShapes:
    """Makes shapes smaller: one size after another, in all dimensions that have it.

    `extents` gives the sizes that a candidate's tensors have in the whole program, the largest first.
    """

    extents: Callable[[Candidate], Sequence[int]]
    name: str = "shapes"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """Try smaller sizes for each size, the smallest first."""
        places = [partial(_alternatives, size) for size in self.extents(best)]
        return Choices.search(best, places, rate=rate)


def _alternatives(size: int, best: Candidate) -> Sequence[Candidate]:
    return [
        replace(best, extents=tuple({**dict(best.extents), size: smaller}.items()))
        for smaller in smaller_sizes(size)
    ]


def smaller_sizes(size: int) -> Sequence[int]:
    """1, and sizes that leave the same remainder as `size` when cut in tiles, alone and after one full tile.

    >>> list(smaller_sizes(72)), list(smaller_sizes(64)), list(smaller_sizes(2))
    ([1, 8, 24, 40], [1, 8, 16, 32], [1])
    """
    return sorted({smaller for smaller in _candidates(size) if 0 < smaller < size})


def _candidates(size: int) -> Iterator[int]:
    yield 1
    for tile in _TILES:
        yield size % tile
        yield tile + size % tile


@dataclass(frozen=True, kw_only=True)
class _FailingValues:
    """Values for the failing build's tasks.

    They are the reference's, for what a task leaves and for what it reads in the same place as there. They are the
    failing build's own for tasks without a counterpart, and for results of another shape.
    """

    pair: BuildPair

    def task_values(self, ordinal: int) -> TaskValues:
        pair, both = self.pair, self.pair.both
        if ordinal in both.missing:
            return pair.reference_values(ordinal)
        own = pair.failing.values(ordinal)
        if ordinal not in both.in_reference:
            return own
        task, reference = pair.tasks[ordinal], pair.reference_values(ordinal)
        return replace(
            reference,
            before={
                index: view for index, view in reference.before.items() if both.is_same_place(task, index)
            },
            after={
                argument.index: view
                if view is not None and view.shape == argument.region.shape
                else own.after[argument.index]
                for argument in results_of(task, both.moved_results)
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

    def task_values(self, ordinal: int) -> TaskValues:
        return self.pair.reference.values(self.pair.both.in_reference[ordinal])

    def read(self, ordinal: int) -> Mapping[int, TensorView]:
        return self.task_values(ordinal).before

    def run_of(self, ordinal: int) -> str:
        return "reference"


@dataclass(frozen=True, kw_only=True)
class BuildPair:
    """The two builds that are reduced together.

    Tasks have the ordinals of the failing build. Tasks that only the reference submits have the numbers after these.

    With `golden` there is no reference, and both builds are the failing one. The case's golden data with that tolerance
    judge its outputs then. The only recorded values are those of its own run.
    """

    failing: Recording
    reference: Recording
    golden: Tolerance | None = None

    @property
    def has_reference(self) -> bool:
        """Return whether there is a reference to run."""
        return self.golden is None

    @cached_property
    def alignment(self) -> Alignment:
        """Return which tasks of the two builds correspond."""
        entries = _entries_used(self.failing.program), _entries_used(self.reference.program)
        return align(self.failing.tasks, self.reference.tasks, extra_keys=entries)

    @cached_property
    def both(self) -> ProgramPair:
        """Return the programs of both builds, with one numbering of tasks and buffers."""
        return align_programs(self.failing.program, self.reference.program, self.alignment)

    @property
    def missing(self) -> frozenset[int]:
        """Return the tasks that the reference submits and the failing build does not."""
        return self.both.missing

    @cached_property
    def tasks(self) -> Mapping[int, ProgramTask]:
        """Return all tasks of the failing build, and the missing ones, by their numbers."""
        return {task.ordinal: task for task in self.both.failing.tasks}

    def describe_task(self, ordinal: int) -> str:
        """A description of a task for people, with the number that it has in its build."""
        name = self.tasks[ordinal].name
        if ordinal in self.missing:
            return f"task {self.both.in_reference[ordinal]} of the good build (`{name}`)"
        return f"task {ordinal} (`{name}`)"

    def submitted_tasks(self, candidate: Candidate) -> tuple[int, ...]:
        """The tasks of a candidate that its failing build submits."""
        return tuple(task for task in candidate.tasks if task not in self.missing)

    def reference_tasks(self, candidate: Candidate) -> tuple[int, ...]:
        """The tasks of a candidate that its reference submits. Without a reference, all of them."""
        return tuple(task for task in candidate.tasks if task in self.both.in_reference)

    @cached_property
    def divergent_tasks(self) -> tuple[int, ...]:
        """Return the tasks that went wrong, in the order of the program.

        They left something else than in the reference or, without one, a wrong output. A missing task counts if
        something else was found in place of its results.
        """
        if self.golden is not None:
            return self._wrong_writers(self.golden)
        return tuple(
            task for task in self.tasks if not same_bits(self.actual_values(task), self.expected_values(task))
        )

    def actual_values(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return what the failing run held where a task's results belong, even if the task did not leave them there.

        For a task that the reference does not submit, these are the values that it wrote over other contents.
        """
        if ordinal in self.both.extra_tasks:
            after = self.failing.values(ordinal).after
            return {index: after[index] for index in self._expected_contents[ordinal]}
        return (
            self._actual_contents[ordinal]
            if ordinal in self._actual_contents
            else self.failing.values(ordinal).after
        )

    def expected_values(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return what belongs in the places of `left`."""
        if ordinal in self.both.extra_tasks:
            return self._expected_contents[ordinal]
        return self.reference_values(ordinal).after

    @cached_property
    def _actual_contents(self) -> Mapping[int, Mapping[int, TensorView]]:
        return actual_contents(self.both, self.failing)

    @cached_property
    def _expected_contents(self) -> Mapping[int, Mapping[int, TensorView]]:
        return expected_contents(
            self.both, _FailingValues(pair=self).task_values, _inputs_by_name(self.failing.data)
        )

    def _wrong_writers(self, tolerance: Tolerance) -> tuple[int, ...]:
        everything = set(self.tasks)
        given, values = _inputs_by_name(self.failing.data), _ReferenceValues(pair=self)
        left, right = (
            cut(self.failing.program, everything, values, given, golden)
            for golden in (None, _outputs_by_name(self.failing.data))
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
    def first_wrong_task(self) -> int | None:
        """Return the first of the tasks that went wrong that reads no result of another such task."""
        wrong = set(self.divergent_tasks)
        return next((task for task in self.divergent_tasks if not self.predecessors(task) & wrong), None)

    def predecessors(self, ordinal: int) -> frozenset[int]:
        """The tasks whose results a task reads, and the missing ones whose results it should read."""
        own = frozenset[int]() if ordinal in self.missing else self.failing.tasks.predecessors[ordinal]
        counterpart = self.both.in_reference.get(ordinal)
        if not self.missing or counterpart is None:
            return own
        there = {self.both.number_of[task] for task in self.reference.tasks.predecessors[counterpart]}
        return own | (there if ordinal in self.missing else there & self.missing)

    @property
    def first_unfinished(self) -> int | None:
        """Return the first task that did not end in the failing run although all its inputs were there."""
        open_tasks = [
            task.ordinal for task in self.failing.tasks.tasks if not self.failing.has_finished(task.ordinal)
        ]
        above = self.failing.tasks.predecessors
        return next((task for task in open_tasks if not above[task] & set(open_tasks)), None)

    def reference_values(self, ordinal: int) -> TaskValues:
        """The reference's values for a task, in the types that it has in the failing build."""
        task = self.tasks[ordinal]
        dtypes = {
            argument.index: argument.region.dtype
            for argument in (*task.arguments, *results_of(task, self.both.moved_results))
            if argument.region.dtype is not None
        }
        return self.reference.values(self.both.in_reference[ordinal]).to_dtypes(dtypes)

    @cached_property
    def order(self) -> CandidateOrder:
        """Return the order on the candidates that are made of the two programs."""
        program = self.both.failing
        return CandidateOrder(
            tasks=tuple(TaskSize.from_task(program, self.tasks[task]) for task in range(len(self.tasks))),
        )

    @property
    def blocks(self) -> dict[int, int]:
        """Return numbers of blocks by ordinal, for tasks that run in several blocks and in as many in the reference."""
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
        """Both builds' sources of the remaining kernels that lie in the builds, with all their statements. A kernel
        that is taken from the reference has the reference's source twice."""
        texts = KernelTexts(failing=self.failing.copy, reference=self.reference.copy)
        return texts.full_texts(candidate, self.order.kernels(candidate))

    def failing_cut(self, candidate: Candidate) -> Cut:
        """The reduced failing program.

        Raises:
            UnfitCutError: the tasks cannot be taken alone.
        """
        made = cut(
            self.both.failing,
            set(candidate.tasks),
            _FailingValues(pair=self),
            _inputs_by_name(self.failing.data),
            None if self.golden is None else _outputs_by_name(self.failing.data),
            Deviations(
                moved=self.both.moved_results, extra=self.both.extra_tasks, found=self._actual_contents
            )
            if self.has_reference
            else None,
        )
        return _apply_edits(candidate, made).drop_tasks(self.missing)

    def reference_cut(self, candidate: Candidate) -> Cut:
        """The reduced reference: the tasks that correspond to those left of the failing program."""
        made = cut(
            self.both.reference,
            set(self.reference_tasks(candidate)),
            _ReferenceValues(pair=self),
            _inputs_by_name(self.reference.data),
            deviations=Deviations(found=self._actual_contents),
        )
        return _apply_edits(candidate, made)

    def make_failing(self, candidate: Candidate, folder: Path) -> CandidateBuild:
        """Make the failing build of a candidate, in the new folder `folder`."""
        made = self.failing_cut(candidate)
        copy = make_build(self.failing.copy, made, folder)
        for name in candidate.collapsed:
            take_kernel(name, self.reference.copy, copy)
        drop_statements(copy, candidate)
        return CandidateBuild(path=folder, cut=made)

    def make_narrowed_reference(self, candidate: Candidate, folder: Path) -> CandidateBuild:
        """Make the reference's build with smaller shapes in buffers that keep their sizes."""
        extents = dict(candidate.extents)
        made = narrow(self.reference_cut(replace(candidate, extents=())), extents)
        drop_statements(make_build(self.reference.copy, made, folder), candidate)
        return CandidateBuild(path=folder, cut=made)

    def make_reference(self, candidate: Candidate, folder: Path) -> CandidateBuild:
        """Make the reference's build of a candidate, in the new folder `folder`."""
        made = self.reference_cut(candidate)
        drop_statements(make_build(self.reference.copy, made, folder), candidate)
        return CandidateBuild(path=folder, cut=made)

    def make_whole_reference(self, folder: Path, *, without: frozenset[int]) -> CandidateBuild:
        """Make the whole reference as a straight-line program, without the tasks in `without`."""
        made = self.reference_cut(self.order.whole).drop_tasks(without)
        make_build(self.reference.copy, made, folder)
        return CandidateBuild(path=folder, cut=made)


def _apply_edits(candidate: Candidate, made: Cut) -> Cut:
    plain = {name: PlainValue(kind) for name, kind in candidate.plain}
    return set_plain_values(set_blocks(shrink(made, dict(candidate.extents)), dict(candidate.blocks)), plain)


def _entries_used(program: Program) -> list[tuple[str, ...]]:
    """The names of the case's own arguments that each task uses. Other buffers have no names that two builds agree
    on."""
    names = {buffer.number: buffer.name if buffer.is_entry else "" for buffer in program.buffers}
    return [tuple(names[argument.buffer] for argument in task.arguments) for task in program.tasks]


def _inputs_by_name(data: GoldenData) -> Mapping[str, TensorView]:
    return {name: data.inputs.tensor(name) for name in data.inputs.names}


def _outputs_by_name(data: GoldenData) -> Mapping[str, TensorView]:
    return {name: data.outputs.tensor(name) for name in data.outputs.names}


@dataclass(frozen=True)
class KeepSuspects:
    """Keeps only a few tasks that are likely to fail alone. This is a guess that is tested like any other.

    `suspects` are sets of tasks by ordinal. The first set that fails alone is taken.
    """

    suspects: tuple[tuple[int, ...], ...]
    name: str = "suspects"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """Try the suspects that are proper parts of what is left."""
        return Choices.search(best, [self._alternatives], rate=rate)

    def _alternatives(self, best: Candidate) -> Sequence[Candidate]:
        left = set(best.tasks)
        return [replace(best, tasks=tasks) for tasks in self.suspects if left > set(tasks)]


def suspects(pair: BuildPair, first: int | None, differing: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Set of task ordinals that are likely to fail alone.

    They come in this order:

    1. The task that went wrong first, alone.
    2. For each kernel that differs between the builds, the first task of it that went wrong.
    3. The first wrong task, with each task that a missing edge leaves it unordered to.
    4. The first wrong task, with the tasks whose results it reads.

    If the first wrong task is missing, set 1 joins it with a task that reads its results, or else with another task. If
    `first` is not known, there is only the first task of each such kernel.
    """
    submitted = [task for task in pair.tasks.values() if task.ordinal not in pair.missing]
    wrong = (
        submitted if first is None else [task for task in submitted if task.ordinal in pair.divergent_tasks]
    )
    if first in pair.missing:
        readers = [task for task in submitted if first in pair.predecessors(task.ordinal)]
        yield from [(task.ordinal, first) for task in (readers or submitted)[:1]]
    elif first is not None:
        yield (first,)
    for kernel in differing:
        yield from [(task.ordinal,) for task in wrong if kernel in task.kernels][:1]
    if first is None:
        return
    for edge in missing_edges(pair.failing.tasks):
        if first in (edge.before.ordinal, edge.after.ordinal):
            yield (edge.before.ordinal, edge.after.ordinal)
    yield tuple(sorted({first, *pair.predecessors(first)}))


def edit_kinds(pair: BuildPair, first_wrong: int | None, differing: Sequence[str]) -> list[EditKind]:
    """The kinds of edits in the order of their turns.

    Without a reference there is only `DropTasks`, because other kinds need a reference to compute what is expected.
    `first_wrong` is the first task that went wrong, where it is known. `differing` are the kernels whose sources differ
    in the reference.
    """
    if not pair.has_reference:
        above = DependencyGraph(tuple(tuple(sorted(tasks)) for tasks in pair.failing.tasks.predecessors))
        return [DropTasks(above, targets=frozenset(pair.divergent_tasks) or None)]
    return [
        KeepSuspects(tuple(suspects(pair, first_wrong, differing))),
        DropTasks(DependencyGraph.without_edges(len(pair.order.tasks))),
        CollapseKernels(tuple(differing), pair.order.kernels),
        FewerBlocks(pair.blocks),
        SmallerShapes(pair.order.extents),
        PlainData(pair.varied_inputs),
        DropStatements(pair.kernel_texts),
    ]


@dataclass(frozen=True)
class EditSchedule:
    """Which kind of edit searches next.

    The kinds take turns in their order, round after round. The schedule ends when each has searched the same best
    program without success. No single edit of any kind makes it smaller then. The memory answers what they ask a second
    time.

    `turns` counts searches that have ended. `in_vain` counts the latest searches that found nothing.

    >>> schedule = EditSchedule(2)
    >>> for better in (True, False, False):
    ...     schedule = schedule.next_turn(better=better)
    >>> schedule.is_done
    True
    """

    kinds: int
    turns: int = 0
    in_vain: int = 0

    @property
    def is_done(self) -> bool:
        """Return whether all kinds have searched without success since the last success."""
        return self.in_vain >= self.kinds

    @property
    def kind(self) -> int:
        """Return the index of the kind whose turn it is."""
        return self.turns % self.kinds

    @property
    def is_repeat(self) -> bool:
        """Return whether that kind has searched before."""
        return self.turns >= self.kinds

    def next_turn(self, *, better: bool) -> EditSchedule:
        """The next turn. `better` says whether this one made the program smaller."""
        return replace(self, turns=self.turns + 1, in_vain=0 if better else self.in_vain + 1)
