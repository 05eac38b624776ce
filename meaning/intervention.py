"""Finds the first value that a pass changed, and the change of the pass that causes a failure.

`first_changed_value` runs the dumps before and after a pass, and pairs the values of variables by their names in the
source of the case. The first one that differs is a suspect, not yet the cause.

`Mixture` pairs the statements of two dumps, before a pass and after it, function by function. What it cannot pair is a
`PassChange`: statements that the pass rewrote, the head of a function, or tiles that it moved.
`undo` makes the program after the pass without some of its changes, so that no compiler is needed.

`intervene` searches the cause among the changes. Three runs prove a cause:

1. Without any change the program is right. So mixed programs mean what the dumps mean.
2. Without the cause, the program is right.
3. With the cause alone, the program is wrong. If it does not run, other changes may be kept that do no harm alone.

Names of variables differ between the two dumps, because passes add suffixes. So statements are paired by their names in
the source of the case, and an undone statement gets the other dump's names. A tile whose move is undone is kept outside
of the memory that tiles share.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import SequenceMatcher
from enum import Enum
from functools import cached_property, reduce
from operator import add
from typing import Any, cast

import torch

from .arithmetic import ArithmeticMode
from .execution import Execution, Frame
from .ir import (
    Assign,
    Call,
    Definition,
    DumpLine,
    Evaluate,
    For,
    Function,
    If,
    IrProgram,
    MemoryReference,
    Scope,
    Statement,
    TileType,
    Variable,
    While,
    calls,
    source_name,
    walk,
)
from .values import Array, Value

MAX_RUNS, MAX_SECONDS = 40, 20.0
"""A search ends after this many runs, or this long. Halving finds one change among a thousand in ten runs."""

MAX_PAIRS = 1 << 22
"""Two bodies with more pairs of statements are one change. A hostile dump may repeat one statement without end."""

_NAME_FIELDS = frozenset({"variable", "carried", "task"})
"""Fields of loops and scopes that hold names of variables."""

_Nested = For | While | If | Scope


@dataclass(frozen=True, kw_only=True)
class PassChange:
    """A change of a pass at one place of a function.

    It has the statements before and after the pass, or the moved tiles. Without either, the function's head changed.
    """

    function: str
    before: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()
    tiles: tuple[str, ...] = ()
    places: frozenset[DumpLine] = frozenset()
    """The lines of the statements after the pass, and of the new functions that they call."""


class State(Enum):
    """Says whether a program's result is right, if that is known."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_EXECUTED = "not executed"


@dataclass(frozen=True, kw_only=True)
class PassIntervention:
    """The result of a search for a cause.

    `cause` are the changes that are proven to make the result wrong. `refuted` are suspects that do not. Without a
    cause, `problem` says why. The pass made `count` changes. The cause runs only with `context` of them.
    """

    count: int
    runs: int
    context: int = 0
    cause: tuple[PassChange, ...] = ()
    refuted: tuple[PassChange, ...] = ()
    problem: str = ""


class _NoAnswerError(Exception):
    """A search ends without a cause. The message says why."""


# Names


def _parts(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the named parts of a node, but not its place in the dump or in memory."""
    for each in fields(node):
        if each.name not in ("place", "reference"):
            yield each.name, getattr(node, each.name)


def _is_name(node: Any, part: str) -> bool:
    return part in _NAME_FIELDS or (part == "name" and isinstance(node, (Variable, Definition)))


def _names(node: Any) -> Iterator[str]:
    """Yield the variables of a node, in an order that is the same for nodes of one `_key`."""
    if isinstance(node, (tuple, Mapping)):
        values = cast("Collection[Any]", node.values() if isinstance(node, Mapping) else node)
        for value in values:
            yield from _names(value)
    elif is_dataclass(node):
        for part, value in _parts(node):
            if not _is_name(node, part):
                yield from _names(value)
            elif value is not None:
                yield from (value,) if isinstance(value, str) else value


def _key(node: Any, name: Callable[[str], str] = source_name) -> Hashable:
    """Return a node without its places, with other names of its variables, to compare it with other nodes."""
    if isinstance(node, tuple):
        return tuple(_key(value, name) for value in cast("tuple[Any, ...]", node))
    if isinstance(node, Mapping):
        return tuple((word, _key(value, name)) for word, value in cast("Mapping[str, Any]", node).items())
    if not is_dataclass(node):
        return (type(node).__name__, cast("Hashable", node))
    parts: list[Hashable] = [type(node).__name__]
    for part, value in _parts(node):
        if not _is_name(node, part):
            parts.append(_key(value, name))
        elif value is None or isinstance(value, str):
            parts.append(value and name(value))
        else:
            parts.append(tuple(map(name, value)))
    return tuple(parts)


def _rewrite(
    node: Any, name: Callable[[str], str], place: Callable[[Definition], MemoryReference | None]
) -> Any:
    """Return the node with other names, and with other places of its definitions."""
    if isinstance(node, tuple):
        return tuple(_rewrite(value, name, place) for value in cast("tuple[Any, ...]", node))
    if isinstance(node, Mapping):
        items = cast("Mapping[str, Any]", node).items()
        return {key: _rewrite(value, name, place) for key, value in items}
    if not is_dataclass(node) or isinstance(node, type):
        return node
    parts: dict[str, Any] = {}
    for part, value in _parts(node):
        if not _is_name(node, part):
            parts[part] = _rewrite(value, name, place)
        elif value is not None:
            parts[part] = name(value) if isinstance(value, str) else tuple(map(name, value))
    copy: Any = replace(node, **parts)
    if isinstance(copy, Definition) and isinstance(copy.type, TileType):
        return replace(copy, type=replace(copy.type, reference=place(copy)))
    return copy


def _bodies(statement: _Nested) -> Mapping[str, tuple[Statement, ...]]:
    if isinstance(statement, If):
        return {"then": statement.then, "otherwise": statement.otherwise}
    return {"body": statement.body}


def _head(statement: _Nested) -> _Nested:
    """Return a loop, branch or scope without its statements."""
    return replace(statement, **dict.fromkeys(_bodies(statement), ()))


def _definitions(statements: Sequence[Statement]) -> list[Definition]:
    """Return the variables that statements define, in order."""
    return [target for statement in walk(tuple(statements)) for target in getattr(statement, "targets", ())]


def _is_allocation(statement: Statement) -> bool:
    """Return whether a statement allocates memory. Such a statement belongs to the places of tiles."""
    value = statement.value if isinstance(statement, (Assign, Evaluate)) else None
    return isinstance(value, Call) and value.name.endswith(".alloc")


# Pairs of statements


@dataclass(frozen=True)
class _ChangedBlock:
    """A loop, branch or scope whose head the pass kept, and whose statements it changed."""

    statement: _Nested
    bodies: Mapping[str, Sequence[_Item]]


_Item = Statement | int | _ChangedBlock
"""A part of a body after a pass: an equal statement, the index of a change, or a statement with changes inside."""


@dataclass
class _Pairing:
    """Pairs the statements of one function. `names` maps the variables before the pass to those after it.

    Variables in `common` have the same name in both dumps. Others are paired by their names in the source of the case.
    """

    function: str
    changes: list[PassChange]
    names: dict[str, str]
    common: Container[str]

    def align(self, before: Sequence[Statement], after: Sequence[Statement]) -> list[_Item]:
        """Return the body after the pass as equal and changed parts."""
        items: list[_Item] = []
        before = [each for each in before if not _is_allocation(each)]
        for is_equal, olds, news in _blocks(before, after, lambda each: _key(each, self._name)):
            if is_equal:
                for old, new in zip(olds, news, strict=True):
                    items += [new] if self._unify(old, new) else self._change([old], [new])
                continue
            for has_same_role, some_olds, some_news in _blocks(olds, news, self._role):
                if not has_same_role:
                    items += self._change(some_olds, some_news)
                    continue
                for old, new in zip(some_olds, some_news, strict=True):
                    items += self._pair(old, new)
        return items

    def _name(self, name: str) -> str:
        return name if name in self.common else source_name(name)

    def _role(self, statement: Statement) -> Hashable:
        """Return a key for the purpose of a statement: the variables that it sets, or the head of its block."""
        if isinstance(statement, _Nested):
            return _key(_head(statement), self._name)
        if isinstance(statement, Evaluate) and isinstance(statement.value, Call):
            return statement.value.name
        return (type(statement).__name__, *(self._name(each.name) for each in _definitions([statement])))

    def _pair(self, old: Statement, new: Statement) -> list[_Item]:
        if isinstance(old, _Nested) and isinstance(new, _Nested) and self._unify(_head(old), _head(new)):
            inner = {part: self.align(body, _bodies(new)[part]) for part, body in _bodies(old).items()}
            return [_ChangedBlock(new, inner)]
        return self._change([old], [new])

    def _unify(self, old: Any, new: Any) -> bool:
        """Return whether the variables of two nodes with one key correspond. New variables become pairs."""
        pairs = list(zip(_names(old), _names(new), strict=True))
        if any(self.names.get(old_name, new_name) != new_name for old_name, new_name in pairs):
            return False
        self.names.update(pairs)
        return True

    def _change(self, olds: Sequence[Statement], news: Sequence[Statement]) -> list[_Item]:
        allocations: list[_Item] = [each for each in news if _is_allocation(each)]
        news = [each for each in news if not _is_allocation(each)]
        if not olds and not news:
            return allocations
        old_definitions, new_definitions = _definitions(olds), _definitions(news)
        if len(old_definitions) == len(new_definitions) == 1:
            self.names.setdefault(old_definitions[0].name, new_definitions[0].name)
        else:
            last = {source_name(each.name): each.name for each in new_definitions}
            for each in old_definitions:
                self.names.setdefault(each.name, last.get(source_name(each.name), each.name))
        self.changes.append(PassChange(function=self.function, before=tuple(olds), after=tuple(news)))
        return [*allocations, len(self.changes) - 1]


def _blocks(
    before: Sequence[Statement], after: Sequence[Statement], key: Callable[[Statement], Hashable]
) -> Iterator[tuple[bool, Sequence[Statement], Sequence[Statement]]]:
    """Yield the stretches of two bodies in order, and whether their keys are equal."""
    if len(before) * len(after) > MAX_PAIRS:
        yield False, before, after
        return
    keys = [key(each) for each in before], [key(each) for each in after]
    matcher = SequenceMatcher(None, *keys, autojunk=False)
    for tag, first, end, new_first, new_end in matcher.get_opcodes():
        yield tag == "equal", before[first:end], after[new_first:new_end]


# Mixed programs


@dataclass(frozen=True, kw_only=True)
class _MixedFunction:
    """A function of both dumps. `head` is the index of the change of its head, and `moves` those of its tiles' places.

    `names` maps the variables before the pass to those after it.
    """

    before: Function
    after: Function
    items: Sequence[_Item]
    head: int | None
    names: Mapping[str, str]
    moves: Mapping[str, int]

    @cached_property
    def references(self) -> Mapping[str, MemoryReference | None]:
        """Return where tiles lie after the pass."""
        return {each.name: _reference(each) for each in _definitions(self.after.body)}

    def undo(self, undone: Collection[int], changes: Sequence[PassChange]) -> Function:
        """Return the function after the pass without the changes of these indices."""
        function = replace(self.after, body=tuple(self._build(self.items, undone, changes)))
        if self.head not in undone:
            return function
        parameters = zip(self.before.parameters, self.after.parameters, strict=True)
        return replace(
            function,
            role=self.before.role,
            attributes=self.before.attributes,
            parameters=tuple(replace(old, name=new.name) for old, new in parameters),
        )

    def _build(
        self, items: Sequence[_Item], undone: Collection[int], changes: Sequence[PassChange]
    ) -> Iterator[Statement]:
        known = {*self.names.values()}

        def place(definition: Definition) -> MemoryReference | None:
            is_undone = self.moves.get(definition.name) in undone
            return None if is_undone else self.references.get(definition.name)

        def rename(name: str) -> str:
            # A variable that only undone statements have must not take the name of another one.
            return self.names.get(name) or (f"{name}__undone" if name in known else name)

        for item in items:
            if isinstance(item, _ChangedBlock):
                head: Any = _rewrite(_head(item.statement), str, place)
                bodies = item.bodies.items()
                yield replace(
                    head, **{part: tuple(self._build(body, undone, changes)) for part, body in bodies}
                )
            elif not isinstance(item, int):
                yield _rewrite(item, str, place)
            elif item in undone:
                yield from _rewrite(changes[item].before, rename, place)
            else:
                yield from _rewrite(changes[item].after, str, place)


class Mixture:
    """The changes between two dumps, and the programs with some of them undone."""

    def __init__(self, before: IrProgram, after: IrProgram) -> None:
        self._before, self._after = before, after
        changes: list[PassChange] = []
        self._functions = {
            name: _mix(before.functions[name], function, changes)
            for name, function in after.functions.items()
            if name in before.functions
        }
        self.changes = tuple(replace(change, places=self._lines(change.after)) for change in changes)

    def _lines(self, statements: tuple[Statement, ...]) -> frozenset[DumpLine]:
        values = (each.value for each in walk(statements) if isinstance(each, (Assign, Evaluate)))
        called = {call.name for value in values for call in calls(value)} - self._before.functions.keys()
        bodies = [self._after.functions[name].body for name in called & self._after.functions.keys()]
        return frozenset(each.place for body in (statements, *bodies) for each in walk(body))

    def undo(self, undone: Collection[int]) -> IrProgram:
        """Return the program after the pass without the changes of these indices."""
        functions: dict[str, Function] = {}
        if undone:
            functions |= self._before.functions  # those that the pass removed are called again
        for name, function in self._after.functions.items():
            mixed = self._functions.get(name)
            functions.pop(name, None)
            if isinstance(mixed, _MixedFunction):
                functions[name] = mixed.undo(undone, self.changes)
            else:
                functions[name] = self._before.functions[name] if mixed in undone else function
        return replace(self._after, functions=functions)


def _mix(before: Function, after: Function, changes: list[PassChange]) -> _MixedFunction | int:
    """Pair two functions of one name, and add their changes to `changes`.

    Functions with different parameters are one change. Then its index is returned.
    """
    olds, news = ([source_name(each.name) for each in function.parameters] for function in (before, after))
    if olds != news or before.problem is not None or after.problem is not None:
        changes.append(PassChange(function=after.name, before=before.body, after=after.body))
        return len(changes) - 1
    head = None
    old_head, new_head = ((each.role, each.parameters, each.attributes) for each in (before, after))
    if _key(old_head) != _key(new_head):
        changes.append(PassChange(function=after.name))
        head = len(changes) - 1
    names = {old.name: new.name for old, new in zip(before.parameters, after.parameters, strict=True)}
    old_names, new_names = ({each.name for each in _definitions(side.body)} for side in (before, after))
    items = _Pairing(after.name, changes, names, common=old_names & new_names).align(before.body, after.body)
    moves: dict[str, int] = {}
    for tiles in _moved_tiles(before, after, names):
        changes.append(PassChange(function=after.name, tiles=tiles))
        moves |= dict.fromkeys(tiles, len(changes) - 1)
    return _MixedFunction(before=before, after=after, items=items, head=head, names=names, moves=moves)


def _reference(definition: Definition) -> MemoryReference | None:
    return definition.type.reference if isinstance(definition.type, TileType) else None


def _moved_tiles(before: Function, after: Function, names: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield groups of tiles that a pass moved. A group shares an allocation before the pass, or else after it."""
    earlier = {
        names.get(each.name, each.name): reference
        for each in _definitions(before.body)
        if (reference := _reference(each)) is not None
    }
    groups: defaultdict[Hashable, list[str]] = defaultdict(list)
    moved: set[Hashable] = set()
    for each in _definitions(after.body):
        reference = _reference(each)
        if reference is None:
            continue
        old = earlier.get(each.name)
        base = (old or reference).base
        group: Hashable = (old is None, base or source_name(each.name))
        groups[group].append(each.name)
        if old is None or _key(old) != _key(reference):
            moved.add(group)
    for group, members in groups.items():
        if group in moved:
            yield tuple(dict.fromkeys(members))


# The search


class _Search:
    """Runs mixed programs, each once, within a budget."""

    def __init__(self, mixture: Mixture, run: Callable[[IrProgram], State]) -> None:
        self._mixture = mixture
        self._run = run
        self._end = time.perf_counter() + MAX_SECONDS
        self.known: dict[frozenset[int], State] = {}

    def run_without(self, undone: Collection[int]) -> State:
        """Run the program without these changes. Raises `_NoAnswerError` if the budget is used up."""
        key = frozenset(undone)
        if key not in self.known:
            if len(self.known) == MAX_RUNS or time.perf_counter() > self._end:
                raise _NoAnswerError(f"the search ended after {len(self.known)} runs")
            self.known[key] = self._run(self._mixture.undo(key))
        return self.known[key]

    def find_smallest(
        self, start: Sequence[int], order: Sequence[int], is_enough: Callable[[list[int]], bool]
    ) -> list[int]:
        """Return changes that are enough together: those of `start`, and others of which none can be left out.

        Halving finds the last change in the order that is needed beside those found before.
        """
        found = list(start)
        rest = [index for index in order if index not in found]
        while not is_enough(found):
            # The first `low` of the rest are not enough, the first `high` are.
            low, high = 0, len(rest)
            if not is_enough([*found, *rest]):
                raise _NoAnswerError("no smallest set of changes was found")
            while high - low > 1:
                middle = (low + high) // 2
                if is_enough([*found, *rest[:middle]]):
                    high = middle
                else:
                    low = middle
            found.append(rest[high - 1])
            rest = rest[: high - 1]
        return sorted(found)


def intervene(
    before: IrProgram,
    after: IrProgram,
    run: Callable[[IrProgram], State],
    suspects: Callable[[Sequence[PassChange]], Sequence[int]],
) -> PassIntervention:
    """Search the cause among a pass's changes. Each suspect is tried first, alone.

    The program before the pass is known to be right, and the one after it to be wrong. A suspect is refuted if the
    program is wrong without it, and right with it alone.
    """
    mixture = Mixture(before, after)
    search = _Search(mixture, run)
    count = len(mixture.changes)
    everything = frozenset(range(count))
    refuted: list[int] = []

    def answer(
        *, cause: Sequence[int] = (), context: Sequence[int] = (), problem: str = ""
    ) -> PassIntervention:
        return PassIntervention(
            count=count,
            runs=len(search.known),
            cause=tuple(mixture.changes[index] for index in cause),
            context=len(context),
            refuted=tuple(mixture.changes[index] for index in refuted if index not in cause),
            problem=problem,
        )

    try:
        if search.run_without(everything) is not State.RIGHT:
            return answer(problem="the dump after the pass with all changes undone is not right")
        first = list(dict.fromkeys(suspects(mixture.changes)))
        order = [*first, *(everything - {*first})]
        needed: list[int] = []
        for index in first:
            if search.run_without({index}) is State.RIGHT:
                needed = [index]
                break
            if (
                search.run_without({index}) is State.WRONG
                and search.run_without(everything - {index}) is State.RIGHT
            ):
                refuted.append(index)
        needed = search.find_smallest(needed, order, lambda undone: search.run_without(undone) is State.RIGHT)
        # If two changes do harm only together, it is enough to undo one of them.
        cause = search.find_smallest(
            needed, order, lambda kept: search.run_without(everything - {*kept}) is State.WRONG
        )
        context = sorted({*cause} - {*needed})
        # Some changes do no harm, but the program does not run with the cause without them.
        runs_alone = search.run_without(everything - {*needed}) is not State.NOT_EXECUTED
        if runs_alone and search.run_without(cause) is State.RIGHT:
            return answer(cause=cause)
        if not runs_alone and search.run_without(everything - {*context}) is State.RIGHT:
            return answer(cause=needed, context=context)
    except _NoAnswerError as error:
        return answer(problem=str(error))
    return answer(problem="no changes were found that make the result wrong alone, and right when undone")


# The first value that differs


@dataclass(frozen=True)
class ChangedValue:
    """The first statement whose value differs. `before` is its counterpart before the pass, if there is one."""

    variable: str
    after: DumpLine
    before: DumpLine | None


def first_changed_value(
    before: IrProgram,
    after: IrProgram,
    inputs: Mapping[str, torch.Tensor],
    within: Container[DumpLine] | None = None,
    tolerance: float = 1e-5,
) -> ChangedValue | None:
    """Return the first statement of `after` with a value that no statement of `before` has. None if there is none.

    If `within` is given, only statements on these lines count. A variable is compared with those of its name that have
    as many elements in all, however they are cut into tiles. Raises a `MeaningError`.
    """
    right, wrong = _trace(before, inputs), _trace(after, inputs)
    differences: list[tuple[_StatementValues, _StatementValues | None]] = []
    for name in dict.fromkeys(each.name for each in wrong):
        for count in dict.fromkeys(each.sketch.count for each in wrong if each.name == name):
            olds, news = (
                [each for each in side if (each.name, each.sketch.count) == (name, count)]
                for side in (right, wrong)
            )
            differences += _differences(olds, news, tolerance)
    if not differences:
        new = [each for each in wrong if not any(each.is_near(other, tolerance) for other in right)]
        differences = [(each, None) for each in new]
    if within is not None:
        differences = [pair for pair in differences if pair[0].place in within]
    if not differences:
        return None
    changed, counterpart = min(differences, key=lambda pair: pair[0].first)
    return ChangedValue(changed.name, changed.place, None if counterpart is None else counterpart.place)


@dataclass(frozen=True)
class _Sketch:
    """A value in a few numbers: its count, its sum, the sum of its magnitudes, and a weighted sum."""

    count: int
    total: float
    magnitude: float
    weighted: float

    def __add__(self, other: _Sketch) -> _Sketch:
        return _Sketch(
            self.count + other.count,
            self.total + other.total,
            self.magnitude + other.magnitude,
            self.weighted + other.weighted,
        )


@dataclass(frozen=True)
class _StatementValues:
    """The values that a statement gave its variable, one for each time that it ran. `first` orders first runs."""

    name: str
    place: DumpLine
    first: int
    lengths: tuple[int, ...]
    sketch: _Sketch

    def is_near(self, other: _StatementValues, tolerance: float) -> bool:
        """Return whether both can be the same elements, up to roundings. The order counts only for equal tiles."""
        mine, theirs = self.sketch, other.sketch
        allowed = tolerance * max(mine.magnitude, theirs.magnitude) + 1e-30
        pairs = [(mine.total, theirs.total), (mine.magnitude, theirs.magnitude)]
        if self.lengths == other.lengths:
            pairs.append((mine.weighted, theirs.weighted))
        return mine.count == theirs.count and all(
            one == another or abs(one - another) <= allowed or (one != one and another != another)
            for one, another in pairs
        )


class _Trace(Execution):
    """An execution that notes each tensor and tile that a variable gets."""

    def __init__(self, program: IrProgram) -> None:
        super().__init__(program, ArithmeticMode.STATED)
        self.records: list[tuple[str, DumpLine, _Sketch]] = []
        # The keys are the `id` of targets, which live as long as this. Several statements may name one variable.
        self._places = {
            id(target): statement.place
            for function in program.functions.values()
            for statement in walk(function.body)
            if isinstance(statement, Assign) and not _is_creation(statement)
            for target in statement.targets
        }

    def coerce(self, value: Value, target: Definition, frame: Frame) -> Value:
        """Note the value that is about to get a name."""
        stated = super().coerce(value, target, frame)
        place = self._places.get(id(target))
        if isinstance(stated, Array) and place is not None:
            self.records.append((source_name(target.name), place, _sketch(stated)))
        return stated


def _sketch(array: Array) -> _Sketch:
    window = tuple(slice(0, length) for length in array.valid)
    values = array.numbers.centre[window].to(torch.float64).reshape(-1)
    # No transposition or shift leaves the pattern of these weights as it is.
    weights = torch.arange(1, values.numel() + 1, dtype=torch.float64).mul(0.6180339887498949).frac()
    return _Sketch(values.numel(), float(values.sum()), float(values.abs().sum()), float(values @ weights))


def _is_creation(statement: Assign) -> bool:
    """Return whether a statement only gives a variable memory, its own or that of another variable."""
    value = statement.value
    return isinstance(value, Variable) or (isinstance(value, Call) and value.name.endswith(".create"))


def _differences(
    before: Sequence[_StatementValues], after: Sequence[_StatementValues], tolerance: float
) -> list[tuple[_StatementValues, _StatementValues]]:
    """Return the values of one variable that differ, each with its counterpart.

    If a pass split one statement into several, one of them must have the value. The others may have parts of it.
    """
    if len(before) == len(after):
        pairs = zip(after, before, strict=True)
        return [(new, old) for new, old in pairs if not new.is_near(old, tolerance)]
    lost = [each for each in before if not any(each.is_near(other, tolerance) for other in after)]
    added = [each for each in after if not any(each.is_near(other, tolerance) for other in before)]
    return [(added[0], lost[0])] if lost and added else []


def _trace(program: IrProgram, inputs: Mapping[str, torch.Tensor]) -> list[_StatementValues]:
    trace = _Trace(program)
    trace.run(inputs)
    by_statement: defaultdict[tuple[str, DumpLine], list[tuple[int, _Sketch]]] = defaultdict(list)
    for index, (name, place, sketch) in enumerate(trace.records):
        by_statement[name, place].append((index, sketch))
    return [
        _StatementValues(
            name=name,
            place=place,
            first=values[0][0],
            lengths=tuple(sketch.count for _, sketch in values),
            sketch=reduce(add, (sketch for _, sketch in values)),
        )
        for (name, place), values in by_statement.items()
    ]
