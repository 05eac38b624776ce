"""The kinds of edits that make a program smaller, and the pair of builds that they edit.

An `EditKind` is a search among smaller programs, which proposes candidates and never runs them. It has one of two
forms: `Subsets` searches for a smallest set of elements to keep, and `Choices` tries alternatives place by place. To
add a kind, write a class with `search` here, and list it in `edit_kinds`. `BuildPair` makes the two builds of a
candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol, TypeVar

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
    DroppedStatement,
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


def edit_kinds(pair: BuildPair, first_wrong: int | None, differing: Sequence[str]) -> list[EditKind]:
    """Return the kinds of edits in the order of their turns.

    Other kinds than `DropTasks` need a reference, which computes the expected values.

    Args:
        first_wrong: the task that went wrong first, or None if it is not known.
        differing: the kernels with another source in the reference.
    """
    if not pair.has_reference:
        above = DependencyGraph(tuple(tuple(sorted(tasks)) for tasks in pair.failing.tasks.predecessors))
        return [DropTasks(above, targets=frozenset(pair.divergent_tasks) or None)]
    return [
        KeepSuspects(tuple(suspects(pair, first_wrong, differing))),
        DropTasks(DependencyGraph.edgeless(len(pair.order.tasks))),
        CollapseKernels(tuple(differing), pair.order.kernels),
        FewerBlocks(pair.blocks),
        SmallerShapes(pair.order.extents),
        PlainData(pair.varied_inputs),
        DropStatements(pair.kernel_texts),
    ]


class EditKind(Protocol):
    """A kind of edit, as a search among smaller programs."""

    @property
    def name(self) -> str:
        """Return the name of the kind on the screen."""
        ...

    def search(self, best: Candidate, *, rate: float, again: bool) -> MinimizerState[Candidate]:
        """Return the first state of a search for a smaller program.

        The search may propose any candidate: the gate makes it canonical, and skips it unless it is smaller. At the end
        no single edit of this kind may be left to try.

        Args:
            best: the interesting candidate to start from.
            rate: how often an interesting candidate fails.
            again: whether this kind has searched before. It will probably find little, so that it is enough to try
                single edits.
        """
        ...


@dataclass(frozen=True)
class EditSchedule:
    """Says which kind of edit searches next.

    The kinds take turns. The schedule ends when every kind has searched the same program without success. No single
    edit of any kind makes this program smaller.

    `turns` is the number of searches so far. `failed_turns` is the number of searches since the last success.

    >>> schedule = EditSchedule(2)
    >>> for better in (True, False, False):
    ...     schedule = schedule.next_turn(better=better)
    >>> schedule.is_done
    True
    """

    kinds: int
    turns: int = 0
    failed_turns: int = 0

    @property
    def is_done(self) -> bool:
        """Return whether all kinds have searched without success since the last success."""
        return self.failed_turns >= self.kinds

    @property
    def kind(self) -> int:
        """Return the index of the kind that searches next."""
        return self.turns % self.kinds

    @property
    def is_repeat(self) -> bool:
        """Return whether that kind has searched before."""
        return self.turns >= self.kinds

    def next_turn(self, *, better: bool) -> EditSchedule:
        """Return the schedule after a search. `better` says whether it made the program smaller."""
        return replace(self, turns=self.turns + 1, failed_turns=0 if better else self.failed_turns + 1)


@dataclass(frozen=True, kw_only=True)
class Subsets:
    """A search among subsets of numbered elements. `keep` makes the program that keeps a subset."""

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
        """Return a search that starts from the elements `kept`. With `again`, it only drops single elements.

        `targets` are the elements that wrote the failing output, if they are known.
        """
        state = (
            sweep(graph, kept, rate=rate) if again else minimize(graph, best=kept, targets=targets, rate=rate)
        )
        return Subsets(state=state, keep=keep)

    @property
    def best(self) -> Candidate:
        """Return the program with the smallest subset that was interesting."""
        return self.keep(self.state.best)

    @property
    def query(self) -> Query[Candidate] | None:
        """Return the query for the program with the next subset."""
        query = self.state.query
        return None if query is None else Query(self.keep(query.candidate), query.runs)

    @property
    def chance(self) -> float:
        """Return the chance that the subset is interesting."""
        return self.state.chance

    def next_state(self, answer: Answer) -> Subsets:
        """Return the state after the query got this answer."""
        return replace(self, state=self.state.next_state(answer))


Place = Callable[[Candidate], Sequence[Candidate]]
"""A place of a program returns its alternatives, the smallest first."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """A search that takes the first interesting alternative at each place.

    `options` are the alternatives that are left at the current place. `places` are the following places.
    """

    best: Candidate
    options: tuple[Candidate, ...]
    places: tuple[Place, ...]
    runs: int

    @staticmethod
    def search(best: Candidate, places: Iterable[Place], *, rate: float) -> Choices:
        """Return the state at the first place. `rate` determines how many passing runs reject an option."""
        runs = passes_to_reject(rate, REJECTION_ERROR)
        return Choices(best=best, options=(), places=tuple(places), runs=runs)._skip_to_options()

    @property
    def query(self) -> Query[Candidate] | None:
        """Return the query for the next option."""
        return Query(self.options[0], self.runs) if self.options else None

    @property
    def chance(self) -> float:
        """Return 0.5, because not much is known about an alternative."""
        return 0.5

    def next_state(self, answer: Answer) -> Choices:
        """Take the option and go to the next place, or reject the option."""
        if answer is Answer.INTERESTING:
            return replace(self, best=self.options[0], options=())._skip_to_options()
        return replace(self, options=self.options[1:])._skip_to_options()

    def _skip_to_options(self) -> Choices:
        """Move on to the next place with options, or to the end."""
        best, options, places = self.best, self.options, self.places
        while places and not options:
            options, places = tuple(places[0](best)), places[1:]
        return replace(self, options=options, places=places)


def suspects(pair: BuildPair, first: int | None, differing: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Yield sets of tasks that are likely to fail alone, by ordinal.

    1. The task `first` that went wrong first.
    2. For each kernel that differs between the builds, its first task that went wrong.
    3. The first wrong task, with each task that shares memory with it and is not ordered to it.
    4. The first wrong task, with the tasks whose results it reads.

    If the failing build does not submit the first wrong task, set 1 also has a task that reads its results, or any
    other task. If `first` is None, there is only the first task of each kernel that differs.
    """
    submitted = [task for task in pair.tasks.values() if task.ordinal not in pair.missing]
    wrong = submitted
    if first is not None:
        wrong = [task for task in submitted if task.ordinal in pair.divergent_tasks]
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


@dataclass(frozen=True)
class KeepSuspects:
    """Keeps only a few tasks that are likely to fail alone.

    `suspects` are sets of tasks, by ordinal. The first set that fails alone is taken.
    """

    suspects: tuple[tuple[int, ...], ...]
    name: str = "suspects"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """Try each set of suspects that is a proper subset of the tasks left."""
        return Choices.search(best, [self._alternatives], rate=rate)

    def _alternatives(self, best: Candidate) -> Sequence[Candidate]:
        left = set(best.tasks)
        return [replace(best, tasks=tasks) for tasks in self.suspects if left > set(tasks)]


@dataclass(frozen=True)
class DropTasks:
    """Drops tasks. Elements are the ordinals of tasks.

    `graph` has no edges if recorded values can replace the results of dropped tasks. `targets` are the tasks that wrote
    the failing output, if they are known.
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
class CollapseKernels:
    """Replaces kernels of the failing build by those of the reference.

    `kernels` are the names of the kernels that differ between the builds. `used` returns the kernels that a candidate's
    tasks use. Elements are the kernels that stay the failing build's.
    """

    kernels: tuple[str, ...]
    used: Callable[[Candidate], Set[str]]
    name: str = "kernels"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Subsets:
        """Search the used kernels that still are the failing build's."""
        used = self.used(best)
        left = [name for name in self.kernels if name in used and name not in best.collapsed]

        def keep(kept: Subset) -> Candidate:
            replaced = (name for number, name in enumerate(left) if number not in kept)
            return replace(best, collapsed=(*best.collapsed, *replaced))

        graph = DependencyGraph.edgeless(len(left))
        return Subsets.search(graph, graph.all_elements, keep, rate=rate, again=again)


@dataclass(frozen=True)
class FewerBlocks:
    """Runs tasks in fewer blocks.

    `blocks` has the number of blocks of each task that runs in several blocks, and in as many in the reference.
    """

    blocks: Mapping[int, int]
    name: str = "blocks"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """Try smaller numbers of blocks for each task that is left."""
        places = [partial(self._alternatives, task) for task in best.tasks if task in self.blocks]
        return Choices.search(best, places, rate=rate)

    def _alternatives(self, task: int, best: Candidate) -> Sequence[Candidate]:
        return [
            replace(best, blocks=_with_pair(best.blocks, task, count))
            for count in smaller_counts(self.blocks[task])
        ]


K = TypeVar("K")
V = TypeVar("V")


def _with_pair(pairs: Sequence[tuple[K, V]], key: K, value: V) -> tuple[tuple[K, V], ...]:
    """Return the pairs with another value for a key."""
    return tuple({**dict(pairs), key: value}.items())


def smaller_counts(blocks: int) -> Sequence[int]:
    """Return the powers of two below a number of blocks.

    >>> smaller_counts(24), smaller_counts(4), smaller_counts(1)
    ([1, 2, 4, 8, 16], [1, 2], [])
    """
    return [1 << power for power in range((blocks - 1).bit_length())]


_TILES = (8, 16, 32, 64)
"""Common sizes of tiles, in elements. Smaller shapes keep the remainder, because faults often are in the last tile."""


@dataclass(frozen=True)
class SmallerShapes:
    """Makes shapes smaller. A size changes in all dimensions that have it.

    `extents` returns the sizes that a candidate's tensors have in the whole program, the largest first.
    """

    extents: Callable[[Candidate], Sequence[int]]
    name: str = "shapes"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """Try smaller sizes for each size."""
        places = [partial(self._alternatives, size) for size in self.extents(best)]
        return Choices.search(best, places, rate=rate)

    @staticmethod
    def _alternatives(size: int, best: Candidate) -> Sequence[Candidate]:
        return [
            replace(best, extents=_with_pair(best.extents, size, smaller)) for smaller in smaller_sizes(size)
        ]


def smaller_sizes(size: int) -> Sequence[int]:
    """Return the smaller sizes to try: 1, the remainder of each size of tiles, and one tile with the remainder.

    >>> list(smaller_sizes(72)), list(smaller_sizes(64)), list(smaller_sizes(2))
    ([1, 8, 24, 40], [1, 8, 16, 32], [1])
    """
    sizes = {1}
    for tile in _TILES:
        sizes |= {size % tile, tile + size % tile}
    return sorted(smaller for smaller in sizes if 0 < smaller < size)


@dataclass(frozen=True)
class PlainData:
    """Replaces all values of an input by one plain value.

    `inputs` returns the names of a candidate's inputs that have several different values.
    """

    inputs: Callable[[Candidate], Sequence[str]]
    name: str = "data"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """Try each plain value for each input, the plainest first."""
        places = [partial(self._alternatives, name) for name in self.inputs(best)]
        return Choices.search(best, places, rate=rate)

    @staticmethod
    def _alternatives(name: str, best: Candidate) -> Sequence[Candidate]:
        return [replace(best, plain=_with_pair(best.plain, name, kind.value)) for kind in PlainValue]


@dataclass(frozen=True)
class DropStatements:
    """Drops the same statements from the kernels of both builds.

    `texts` returns the sources of a candidate's kernels, with all their statements. Elements are the statements that
    both sources of a kernel have.
    """

    texts: Callable[[Candidate], Sequence[KernelText]]
    name: str = "statements"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Subsets:
        """Search the statements that are left."""
        statements, graph = droppable_statements(self.texts(best))
        dropped_before = tuple(statement for statement in best.statements if statement not in statements)

        def keep(kept: Subset) -> Candidate:
            dropped = (statement for number, statement in enumerate(statements) if number not in kept)
            return replace(best, statements=(*dropped_before, *dropped))

        left = frozenset(
            number for number, statement in enumerate(statements) if statement not in best.statements
        )
        return Subsets.search(graph, left, keep, rate=rate, again=again)


def droppable_statements(
    texts: Sequence[KernelText],
) -> tuple[tuple[DroppedStatement, ...], DependencyGraph]:
    """Return the statements that may be dropped from these kernels, and a graph of what each of them needs."""
    statements: list[DroppedStatement] = []
    predecessors: list[tuple[int, ...]] = []
    for text in texts:
        shared = {statement.name for statement in list_statements(text.reference)}
        in_kernel = list_statements(text.failing)
        # A statement must stay if one that stays needs it.
        staying: set[int] = set()
        for position in reversed(range(len(in_kernel))):
            statement = in_kernel[position]
            if statement.stays or statement.name not in shared or position in staying:
                staying |= {position, *statement.needs}
        numbers: dict[int, int] = {}
        for position, statement in enumerate(in_kernel):
            if position not in staying:
                numbers[position] = len(statements)
                statements.append((text.kernel, statement.name.text, statement.name.occurrence))
                needed = (numbers[place] for place in statement.needs if place in numbers)
                predecessors.append(tuple(sorted(needed)))
    return tuple(statements), DependencyGraph(tuple(predecessors))


@dataclass(frozen=True, kw_only=True)
class BuildPair:
    """The two builds that are reduced together, with one numbering of their tasks (`ProgramPair`).

    With the tolerance `golden`, there is no reference, and both builds are the failing one. Then the golden data are
    the right outputs.
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
    def programs(self) -> ProgramPair:
        """Return the programs of both builds, with one numbering."""
        return align_programs(self.failing.program, self.reference.program, self.alignment)

    @property
    def missing(self) -> frozenset[int]:
        """Return the tasks that the reference submits and the failing build does not."""
        return self.programs.missing

    @cached_property
    def tasks(self) -> Mapping[int, ProgramTask]:
        """Return all tasks of the failing build and the missing ones, by their numbers."""
        return {task.ordinal: task for task in self.programs.failing.tasks}

    def describe_task(self, ordinal: int) -> str:
        """Return a description of a task with its ordinal in the build that submits it."""
        name = self.tasks[ordinal].name
        if ordinal in self.missing:
            return f"task {self.programs.in_reference[ordinal]} of the good build (`{name}`)"
        return f"task {ordinal} (`{name}`)"

    def submitted_tasks(self, candidate: Candidate) -> tuple[int, ...]:
        """Return the tasks of a candidate that its failing build submits."""
        return tuple(task for task in candidate.tasks if task not in self.missing)

    def reference_tasks(self, candidate: Candidate) -> tuple[int, ...]:
        """Return the tasks of a candidate that its reference submits."""
        return tuple(task for task in candidate.tasks if task in self.programs.in_reference)

    @cached_property
    def divergent_tasks(self) -> tuple[int, ...]:
        """Return the tasks that went wrong, in the order of the program.

        Their results differ from those in the reference. Without a reference, they wrote wrong outputs last. A missing
        task counts if the memory for its results holds other values.
        """
        if self.golden is not None:
            return self._wrong_writers(self.golden)
        actual, expected = self.actual_values, self.expected_values
        return tuple(task for task in self.tasks if not same_bits(actual(task), expected(task)))

    def actual_values(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return what the failing run held where the results of a task belong, by argument.

        For a task that only the failing build submits, these are its results in place of other values.
        """
        if ordinal in self.programs.extra_tasks:
            after = self.failing.values(ordinal).after
            return {index: after[index] for index in self._expected_contents[ordinal]}
        if ordinal in self._actual_contents:
            return self._actual_contents[ordinal]
        return self.failing.values(ordinal).after

    def expected_values(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return the right values for the places of `actual_values`."""
        if ordinal in self.programs.extra_tasks:
            return self._expected_contents[ordinal]
        return self.reference_values(ordinal).after

    @cached_property
    def _actual_contents(self) -> Mapping[int, Mapping[int, TensorView]]:
        return actual_contents(self.programs, self.failing)

    @cached_property
    def _expected_contents(self) -> Mapping[int, Mapping[int, TensorView]]:
        return expected_contents(
            self.programs, _FailingValues(pair=self).task_values, _inputs_by_name(self.failing.data)
        )

    def _wrong_writers(self, tolerance: Tolerance) -> tuple[int, ...]:
        """Return the tasks whose elements of an output miss the golden data."""
        inputs, values = _inputs_by_name(self.failing.data), _ReferenceValues(pair=self)
        actual, golden = (
            cut(self.failing.program, set(self.tasks), values, inputs, outputs)
            for outputs in (None, _outputs_by_name(self.failing.data))
        )
        wrong: set[int] = set()
        for tensor, golden_tensor in zip(actual.tensors, golden.tensors, strict=True):
            if tensor.expected is None or golden_tensor.expected is None:
                continue
            for writer in golden_tensor.writers:
                written = tensor.part(tensor.expected, writer)
                if differs(written, tensor.part(golden_tensor.expected, writer), tolerance):
                    wrong.add(writer)
        return tuple(sorted(wrong))

    @property
    def first_wrong_task(self) -> int | None:
        """Return the first task that went wrong and reads no result of another task that went wrong."""
        wrong = set(self.divergent_tasks)
        return next((task for task in self.divergent_tasks if not self.predecessors(task) & wrong), None)

    def predecessors(self, ordinal: int) -> frozenset[int]:
        """Return the tasks whose results a task reads, and the missing tasks whose results it should read."""
        own = frozenset[int]() if ordinal in self.missing else self.failing.tasks.predecessors[ordinal]
        counterpart = self.programs.in_reference.get(ordinal)
        if not self.missing or counterpart is None:
            return own
        numbers = self.programs.number_of
        in_reference = {numbers[task] for task in self.reference.tasks.predecessors[counterpart]}
        return own | (in_reference if ordinal in self.missing else in_reference & self.missing)

    @property
    def first_unfinished(self) -> int | None:
        """Return the first task of the failing run that did not end although its predecessors did."""
        ordinals = (task.ordinal for task in self.failing.tasks.tasks)
        unfinished = {ordinal for ordinal in ordinals if not self.failing.has_finished(ordinal)}
        predecessors = self.failing.tasks.predecessors
        return next((task for task in sorted(unfinished) if not predecessors[task] & unfinished), None)

    def reference_values(self, ordinal: int) -> TaskValues:
        """Return the reference's values of a task, in the element types that it has in the failing build."""
        task = self.tasks[ordinal]
        dtypes = {
            argument.index: argument.region.dtype
            for argument in (*task.arguments, *results_of(task, self.programs.moved_results))
            if argument.region.dtype is not None
        }
        return self.reference.values(self.programs.in_reference[ordinal]).to_dtypes(dtypes)

    @cached_property
    def order(self) -> CandidateOrder:
        """Return the order of the candidates."""
        program = self.programs.failing
        sizes = (TaskSize.from_task(program, self.tasks[task]) for task in range(len(self.tasks)))
        return CandidateOrder(tasks=tuple(sizes))

    @property
    def blocks(self) -> dict[int, int]:
        """Return the number of blocks of each task that runs in several blocks, and in as many in the reference."""
        reference = {task.ordinal: task.blocks for task in self.programs.reference.tasks}
        return {
            number: task.blocks
            for number, task in self.tasks.items()
            if task.blocks is not None and task.blocks > 1 and reference.get(number) == task.blocks
        }

    def varied_inputs(self, candidate: Candidate) -> tuple[str, ...]:
        """Return the names of a candidate's inputs that have several different recorded values."""
        tensors = self.failing_cut(replace(candidate, plain=())).tensors
        initials = [(tensor.buffer.name, tensor.initial) for tensor in tensors if tensor.initial is not None]
        return tuple(
            name for name, initial in initials if initial.size and bool((initial != initial[0]).any())
        )

    def kernel_texts(self, candidate: Candidate) -> tuple[KernelText, ...]:
        """Return both builds' sources of a candidate's kernels, with all their statements.

        A kernel that is taken from the reference has the reference's source twice. External kernels have no source.
        """
        texts = KernelTexts(failing=self.failing.copy, reference=self.reference.copy)
        return texts.full_texts(candidate, self.order.kernels(candidate))

    def failing_cut(self, candidate: Candidate) -> Cut:
        """Return the reduced program of the failing build.

        Raises:
            UnfitCutError: the tasks cannot be taken alone.
        """
        golden_outputs = deviations = None
        if self.golden is not None:
            golden_outputs = _outputs_by_name(self.failing.data)
        else:
            moved, extra = self.programs.moved_results, self.programs.extra_tasks
            deviations = Deviations(moved=moved, extra=extra, found=self._actual_contents)
        made = cut(
            self.programs.failing,
            set(candidate.tasks),
            _FailingValues(pair=self),
            _inputs_by_name(self.failing.data),
            golden_outputs,
            deviations,
        )
        return _apply_edits(candidate, made).drop_tasks(self.missing)

    def reference_cut(self, candidate: Candidate) -> Cut:
        """Return the reduced program of the reference, with the counterparts of the candidate's tasks."""
        made = cut(
            self.programs.reference,
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
        """Make the reference's build of a candidate, but with smaller shapes in buffers that keep their sizes."""
        extents = dict(candidate.extents)
        made = narrow(self.reference_cut(replace(candidate, extents=())), extents)
        return self._make_reference_build(candidate, made, folder)

    def make_reference(self, candidate: Candidate, folder: Path) -> CandidateBuild:
        """Make the reference's build of a candidate, in the new folder `folder`."""
        return self._make_reference_build(candidate, self.reference_cut(candidate), folder)

    def _make_reference_build(self, candidate: Candidate, made: Cut, folder: Path) -> CandidateBuild:
        drop_statements(make_build(self.reference.copy, made, folder), candidate)
        return CandidateBuild(path=folder, cut=made)

    def make_whole_reference(self, folder: Path, *, without: frozenset[int]) -> CandidateBuild:
        """Make the whole reference as a straight-line program without some tasks."""
        made = self.reference_cut(self.order.whole).drop_tasks(without)
        make_build(self.reference.copy, made, folder)
        return CandidateBuild(path=folder, cut=made)


@dataclass(frozen=True, kw_only=True)
class _FailingValues:
    """The trusted values (`TrustedValues`) of the failing build's tasks.

    Results, and inputs from the same place as in the reference, have the reference's values. Results of another shape,
    and all values of a task without a counterpart, are the failing build's own.
    """

    pair: BuildPair

    def task_values(self, ordinal: int) -> TaskValues:
        pair, programs = self.pair, self.pair.programs
        if ordinal in programs.missing:
            return pair.reference_values(ordinal)
        own = pair.failing.values(ordinal)
        if ordinal not in programs.in_reference:
            return own
        task, reference = pair.tasks[ordinal], pair.reference_values(ordinal)
        return replace(
            reference,
            before={
                index: view for index, view in reference.before.items() if programs.is_same_place(task, index)
            },
            after={
                argument.index: view
                if view is not None and view.shape == argument.region.shape
                else own.after[argument.index]
                for argument in results_of(task, programs.moved_results)
                for view in [reference.after.get(argument.index)]
            },
        )

    def inputs(self, ordinal: int) -> Mapping[int, TensorView]:
        return self.pair.failing.values(ordinal).before

    def source_run(self, ordinal: int) -> str:
        return "failing" if ordinal not in self.pair.programs.in_reference else "reference"


@dataclass(frozen=True, kw_only=True)
class _ReferenceValues:
    """The trusted values of the reference's tasks: its own."""

    pair: BuildPair

    def task_values(self, ordinal: int) -> TaskValues:
        return self.pair.reference.values(self.pair.programs.in_reference[ordinal])

    def inputs(self, ordinal: int) -> Mapping[int, TensorView]:
        return self.task_values(ordinal).before

    def source_run(self, ordinal: int) -> str:
        return "reference"


def _apply_edits(candidate: Candidate, made: Cut) -> Cut:
    """Return the cut with the candidate's smaller shapes, fewer blocks and plain values."""
    plain = {name: PlainValue(kind) for name, kind in candidate.plain}
    return set_plain_values(set_blocks(shrink(made, dict(candidate.extents)), dict(candidate.blocks)), plain)


def _entries_used(program: Program) -> list[tuple[str, ...]]:
    """Return the names of the case's arguments that each task uses. Names of other buffers may differ in two builds."""
    names = {buffer.number: buffer.name if buffer.is_entry else "" for buffer in program.buffers}
    return [tuple(names[argument.buffer] for argument in task.arguments) for task in program.tasks]


def _inputs_by_name(data: GoldenData) -> Mapping[str, TensorView]:
    return {name: data.inputs.tensor(name) for name in data.inputs.names}


def _outputs_by_name(data: GoldenData) -> Mapping[str, TensorView]:
    return {name: data.outputs.tensor(name) for name in data.outputs.names}
