"""Runs a program on given inputs, statement by statement.

A tensor in device memory changes in place: a kernel that stores into an output changes its caller's tensor. A tile is a
value: an operation makes a new one.

Functions run as coroutines. A cube kernel and vector kernels pause while they wait for tiles of each other. A call
whose callee pauses is left open (`Pending`). The next calls of the same function run with the same pipes, until one of
them lets it continue. A vector kernel that is split runs once for each of its two lanes.

A dump does not bound its own run: steps, sizes and the depth of calls have limits here.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, cast

import torch

from .arithmetic import ArithmeticMode, BorrowedNumbers, Numbers, borrow_numbers, round_to, tensor_numbers
from .ir import (
    ArrayType,
    Assign,
    Call,
    Cast,
    Constant,
    Definition,
    DumpLine,
    ElementType,
    Evaluate,
    Expression,
    For,
    Function,
    If,
    IrProgram,
    ItemList,
    Jump,
    MeaningError,
    MemoryReference,
    NamedConstant,
    Operator,
    Return,
    Scope,
    Statement,
    Subscript,
    Variable,
    While,
    Yield,
    calls,
    shorten_to_known,
)
from .operations import NO_EFFECT, Operation, find_operation
from .values import (
    PIPE_OPERATIONS,
    Array,
    Invocation,
    OperationError,
    Pending,
    Pipes,
    Result,
    Value,
    WrongDumpError,
    apply_operator,
    cast_scalar,
    core_list,
    half,
    lane_count,
    require_integers,
    split_mode,
    truth,
)

MAX_STEPS = 2_000_000
"""A run ends with an error after this many statements and iterations, because a wrong dump may loop for ever."""

_MAX_LANES = 8
"""A region runs on at most this many lanes. The cores that we know have two."""

MAX_CALLS = 50
"""Calls of functions may nest this deep. A dump may call itself, and Python's own stack ends soon after."""

MAX_BYTES = 1 << 30
"""The values of a program may take 1 GiB at once, because a hostile dump may double a tensor again and again.

One value may take a quarter, because an operation copies its operands and its result."""

_SMALL_BYTES = 1 << 20
"""Smaller tensors are not counted: even a thousand of them are less than the bound."""

_UNREAD = frozenset({"arg_directions", "dump_vars", "dumps", "deps", "pipeline_membership"})
"""These attributes are not evaluated. They only order tasks, and may name variables that no statement defines."""

_WAITING = PIPE_OPERATIONS | {"aic_gather"}
"""These operations move tiles between cores, and may wait for another core."""

_OWN_OPERATIONS = NO_EFFECT | {"get_block_idx", "get_block_num", "get_subblock_idx", "aiv_shard"}
_OWN_AREAS = ("system", "array")
"""An execution computes these operations itself. The others have a row in the table of operations."""

_COMPUTATION_ERRORS = (RuntimeError, ValueError, LookupError, TypeError, ArithmeticError)
"""Torch raises these errors if a hostile or wrong dump asks for something that it cannot compute."""


def _is_unread(attribute: str) -> bool:
    # The compiler's own marks begin with two underscores.
    return attribute in _UNREAD or attribute.startswith("__")


Steps = Generator[None, None, Value]
"""A part of a program that runs. It yields where it waits for another part, and returns its value."""


@dataclass(frozen=True)
class _BlockEnd:
    """The statement that ended a block: `yield`, `return`, `break` or `continue`, with its values."""

    word: str
    values: tuple[Value, ...] = ()


@dataclass(eq=False)
class Frame:
    """A function that runs: its variables, lane and block."""

    function: Function
    variables: dict[str, Value]
    pipes: Pipes
    """The pipes between this function and the functions beside it."""
    inner: Pipes = field(default_factory=Pipes)
    """The pipes between the functions that this one calls."""
    open_calls: list[Pending] = field(default_factory=list[Pending])
    depth: int = 0
    lane: int = 0
    lanes: int = 1
    block: int = 0
    blocks: int = 1
    gathers: int = 0
    unfit: dict[str, WrongDumpError] = field(default_factory=dict[str, WrongDumpError])  # no value fits them


_Evaluator = Callable[[Frame, DumpLine | None], Value]
"""Returns the value of an expression in a frame. The line is that of its statement."""


@dataclass(frozen=True, kw_only=True)
class _CallParts:
    """A call that was prepared. `constants` are the values of its attributes if none of them can change."""

    operands: tuple[_Evaluator, ...]
    attributes: Mapping[str, _Evaluator]
    constants: Mapping[str, Value] | None
    is_in_table: bool


class CaseInputs:
    """The tensors that programs run on. All runs use them as they are where they can, and copies where they write."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.tensors = tensors
        self._lent: dict[tuple[str, ElementType], BorrowedNumbers] = {}

    def numbers(self, name: str, dtype: ElementType, arithmetic: ArithmeticMode) -> Numbers:
        """Return the numbers of a tensor, which no run has changed. A run may change them."""
        lent = self._lent.get((name, dtype)) or borrow_numbers(self.tensors[name], dtype)
        if lent is None or arithmetic is not ArithmeticMode.STATED:
            return _convert_input(self.tensors[name], dtype, arithmetic)
        self._lent[name, dtype] = lent
        lent.forget_writes()
        return lent


def _convert_input(tensor: torch.Tensor, dtype: ElementType, arithmetic: ArithmeticMode) -> Numbers:
    """Return a tensor's elements as their type holds them, in memory of their own."""
    numbers = round_to(tensor_numbers(tensor.detach(), dtype, arithmetic), dtype, arithmetic)
    if numbers.centre.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
        numbers = numbers.copy()
    if numbers.radius is not None:
        numbers.radius.zero_()
    return numbers


class Execution:
    """Runs one program. The subclass `MemoryExecution` keeps tiles in bytes."""

    def __init__(self, program: IrProgram, arithmetic: ArithmeticMode = ArithmeticMode.STATED) -> None:
        self.program = program
        self.arithmetic = arithmetic
        self._steps = 0
        self._live_bytes: dict[int, int] = {}
        """The bytes of the large tensors that are alive, by their address."""
        self._dimensions: dict[str, Value] = {}
        self._results: dict[int, Result] = {}
        """The constant results, by the `id` of their type. The program's types live as long as this object."""
        self._pauses: dict[int, bool] = {}
        """Whether an expression may pause, by its `id`."""
        self._evaluators: dict[int, _Evaluator] = {}
        self._parts: dict[int, _CallParts] = {}
        """Expressions and calls that were prepared, by their `id`."""

    def run(self, inputs: Mapping[str, torch.Tensor] | CaseInputs) -> dict[str, Numbers]:
        """Return the entry's tensors after the run, by the names of `inputs`. Raises a `MeaningError`.

        The next run on the same `CaseInputs` may overwrite what this one returns.
        """
        shared = inputs if isinstance(inputs, CaseInputs) else CaseInputs(inputs)
        inputs = shared.tensors
        entry = self.program.entry
        arguments: list[Value] = []
        tensors: dict[str, Array] = {}
        for parameter in entry.parameters:
            name = shorten_to_known(parameter.name, inputs)
            if name is None:
                if parameter.name.startswith("_"):
                    arguments.append(None)
                    continue
                raise MeaningError(
                    entry.place, f"expected a value for the parameter {parameter.name!r}, found none"
                )
            tensor = inputs[name]
            if isinstance(parameter.type, ArrayType):
                numbers = shared.numbers(name, parameter.type.dtype, self.arithmetic)
                tensors[name] = Array(numbers, parameter.type.dtype, tuple(tensor.shape))
                # A dump cannot make the case's own tensors larger, so they do not count.
                self._live_bytes |= {each.untyped_storage().data_ptr(): 0 for each in numbers.held}
                arguments.append(tensors[name])
            elif tensor.numel() == 1:
                arguments.append(tensor.item())
            else:
                raise MeaningError(
                    entry.place,
                    f"expected a scalar for the parameter {parameter.name!r}, found {tensor.numel()} elements",
                )
        steps = self._call(entry, tuple(arguments), Frame(entry, {}, Pipes()))
        try:
            for _ in steps:
                raise MeaningError(
                    entry.place,
                    "expected the program to end, found it waiting for a tile that nothing pushes",
                )
        except RecursionError:
            raise MeaningError(entry.place, "expected fewer nested statements") from None
        return {name: array.numbers for name, array in tensors.items()}

    # Calls of functions

    def _call(
        self, function: Function, arguments: tuple[Value, ...], caller: Frame, blocks: int = 1
    ) -> Steps:
        if function.problem is not None:
            raise function.problem
        if caller.depth >= MAX_CALLS:
            raise MeaningError(function.place, f"expected at most {MAX_CALLS} nested calls, found more")
        if function.role == "Spmd" and "core_num" in function.attributes:
            # Its expression names variables of the caller.
            blocks = self._integer(function.attributes["core_num"], caller)
        result: Value = None
        for block in range(blocks):
            self._take_step(function.place)
            lanes = lane_count(function)
            frames = [self._frame(function, arguments, caller, lane, lanes) for lane in range(lanes)]
            for frame in frames:
                if blocks > 1:
                    frame.block, frame.blocks = block, blocks
            result = yield from self._interleave(frames, caller.inner, function.place)
        return result

    def _frame(
        self, function: Function, arguments: tuple[Value, ...], caller: Frame, lane: int, lanes: int
    ) -> Frame:
        variables: dict[str, Value] = {}
        if len(arguments) > len(function.parameters):
            raise MeaningError(
                function.place,
                f"expected at most {len(function.parameters)} arguments of {function.name}, found {len(arguments)}",
            )
        for parameter, argument in zip(function.parameters, arguments, strict=False):
            variables[parameter.name] = argument
            if isinstance(parameter.type, ArrayType) and isinstance(argument, Array):
                for dimension, length in zip(parameter.type.shape, argument.shape, strict=False):
                    if isinstance(dimension, Variable) and dimension.name not in variables:
                        variables[dimension.name] = length
                        self._dimensions[dimension.name] = length
        frame = Frame(
            function,
            variables,
            caller.inner,
            depth=caller.depth + 1,
            lane=lane if lanes > 1 else caller.lane,
            lanes=lanes,
            block=caller.block,
            blocks=caller.blocks,
        )
        self.enter(frame)
        return frame

    def enter(self, frame: Frame) -> None:
        """Prepare a function that begins to run. A hook of subclasses."""

    def _interleave(self, frames: Sequence[Frame], pipes: Pipes, place: DumpLine) -> Steps:
        """Run frames side by side until all have ended. Returns the first one's result."""
        if len(frames) == 1:
            return (yield from self._body(frames[0]))
        open_calls = [Pending(self._body(frame)) for frame in frames]
        while True:
            before = pipes.moves + sum(frame.inner.moves for frame in frames)
            _advance(open_calls)
            if all(each.is_done for each in open_calls):
                return open_calls[0].result
            if pipes.moves + sum(frame.inner.moves for frame in frames) == before:
                yield

    def _body(self, frame: Frame) -> Steps:
        end = yield from self._block(frame.function.body, frame)
        yield from self._finish_open_calls(frame)
        if end is None or end.word != "return":
            return None
        values = tuple(_resolve_pending(value) for value in end.values)
        return values[0] if len(values) == 1 else values or None

    def _finish_open_calls(self, frame: Frame) -> Generator[None, None, None]:
        while not all(each.is_done for each in frame.open_calls):
            before = frame.inner.moves
            _advance(frame.open_calls)
            if frame.inner.moves == before and not all(each.is_done for each in frame.open_calls):
                raise MeaningError(
                    frame.function.place,
                    f"expected the kernels of {frame.function.name} to end, found them waiting for a push of another",
                )
            yield from ()
        for name, value in frame.variables.items():
            frame.variables[name] = _resolve_pending(value)
        frame.open_calls.clear()

    def _invoke(self, call: Call, frame: Frame) -> Steps:
        function = self.program.functions.get(call.name)
        if function is None:
            raise OperationError(f"expected a function of the program, found {call.name}")
        arguments = yield from self._values(call.operands, frame)
        blocks = 1
        if "core_num" in call.attributes:
            blocks = require_integers(
                (yield from self.value(call.attributes["core_num"], frame)), "core_num"
            )[0]
        pending = Pending(self._call(function, arguments, frame, blocks))
        frame.open_calls.append(pending)
        while True:
            before = frame.inner.moves
            _advance(frame.open_calls)
            if pending.is_done or frame.inner.moves == before:
                break
        frame.open_calls = [each for each in frame.open_calls if not each.is_done]
        result: Value = pending.result if pending.is_done else pending
        if "submitted" in call.attributes:
            values = result if isinstance(result, tuple) else () if result is None else (result,)
            return (*values, 0)
        return result

    # Statements

    def _take_step(self, place: DumpLine) -> None:
        """Count a step. Raises a `MeaningError` after too many, because a dump may ask for any number of them."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise MeaningError(place, f"expected at most {MAX_STEPS} steps, found more")

    def _block(
        self, statements: Sequence[Statement], frame: Frame
    ) -> Generator[None, None, _BlockEnd | None]:
        for statement in statements:
            self._take_step(statement.place)
            try:
                if isinstance(statement, (Assign, Evaluate)) and not self._may_pause(statement.value):
                    self._compute_statement(statement, frame)
                    continue
                end = yield from self._statement(statement, frame)
            except OperationError as error:
                contradicts = isinstance(error, WrongDumpError)
                raise MeaningError(statement.place, str(error), contradicts=contradicts) from None
            except _COMPUTATION_ERRORS as error:
                if isinstance(error, RecursionError):
                    raise
                reason = " ".join(str(error).split())[:200] or type(error).__name__
                raise MeaningError(statement.place, f"expected a computable operation: {reason}") from None
            if end is not None:
                return end
        return None

    def _statement(self, statement: Statement, frame: Frame) -> Generator[None, None, _BlockEnd | None]:
        match statement:
            case Assign():
                target = _only_target(statement)
                value = yield from self.value(statement.value, frame, target, statement.place)
                self._bind_assigned(statement, value, frame)
            case Evaluate():
                yield from self.value(statement.value, frame, place=statement.place)
            case Yield() | Return():
                values = yield from self._values(statement.values, frame, statement.place)
                if isinstance(statement, Return):
                    return _BlockEnd("return", values)
                self._bind_yielded(statement.targets, values, frame)
                return _BlockEnd("yield", values)
            case For():
                return (yield from self._counted_loop(statement, frame))
            case While():
                return (yield from self._conditional_loop(statement, frame))
            case If():
                condition = yield from self.value(statement.condition, frame, place=statement.place)
                chosen = statement.then if truth(condition) else statement.otherwise
                return (yield from self._branch(chosen, frame))
            case Scope():
                return (yield from self._scope(statement, frame))
            case Jump():
                return _BlockEnd(statement.word)
        return None

    def _branch(
        self, statements: Sequence[Statement], frame: Frame
    ) -> Generator[None, None, _BlockEnd | None]:
        """Run a branch. Its `yield` binds values, and does not end the block around it."""
        end = yield from self._block(statements, frame)
        return None if end is not None and end.word == "yield" else end

    def _compute_statement(self, statement: Assign | Evaluate, frame: Frame) -> None:
        """Run a statement that cannot pause."""
        if isinstance(statement, Evaluate):
            self.plain(statement.value, frame, place=statement.place)
        else:
            value = self.plain(statement.value, frame, _only_target(statement), statement.place)
            self._bind_assigned(statement, value, frame)

    def _bind_assigned(self, statement: Assign, value: Value, frame: Frame) -> None:
        if len(statement.targets) == 1:
            self._bind(statement.targets, [value], frame)
            return
        value = _resolve_pending(value)
        if not isinstance(value, tuple) or len(value) != len(statement.targets):
            raise OperationError(
                f"expected {len(statement.targets)} values, found {1 if not isinstance(value, tuple) else len(value)}"
            )
        self._bind(statement.targets, value, frame)

    def _bind(self, targets: Sequence[Definition], values: Sequence[Value], frame: Frame) -> None:
        for target, value in zip(targets, values, strict=False):
            frame.variables[target.name] = bound = self.coerce(value, target, frame)
            if isinstance(bound, Array):
                self._count_bytes(bound.numbers)

    def _bind_yielded(self, targets: Sequence[Definition], values: Sequence[Value], frame: Frame) -> None:
        """Bind each value. One of another shape is wrong only if it is read: passes leave such yields behind."""
        for target, value in zip(targets, values, strict=False):
            try:
                self._bind([target], [value], frame)
            except WrongDumpError as error:
                frame.variables.pop(target.name, None)
                frame.unfit[target.name] = error

    def _count_bytes(self, numbers: Numbers) -> None:
        """Count the bytes of large tensors while they are alive. Raises an `OperationError` if they are too many."""
        for each in numbers.held:
            size, place = each.untyped_storage().nbytes(), each.untyped_storage().data_ptr()
            if size < _SMALL_BYTES or place in self._live_bytes:
                continue
            self._live_bytes[place] = size
            weakref.finalize(each, self._live_bytes.pop, place, None)
            if size > MAX_BYTES // 4 or sum(self._live_bytes.values()) > MAX_BYTES:
                raise OperationError(
                    f"expected values of at most {MAX_BYTES >> 20} MiB at once, and of a quarter each, found more"
                )

    def coerce(self, value: Value, target: Definition, frame: Frame) -> Value:
        """Return a value in the shape, type and valid shape that the dump states of it."""
        if not isinstance(value, Array) or not isinstance(target.type, ArrayType):
            return value
        stated = self.resolve_result(target.type, frame)
        if stated is None or value.dtype is ElementType.BOOL:
            return value
        numbers = value.numbers
        if numbers.shape != stated.shape:
            if numbers.centre.numel() != torch.Size(stated.shape).numel():
                raise WrongDumpError(
                    f"expected {target.name} in the shape {list(stated.shape)}, found {list(numbers.shape)}"
                )
            numbers = numbers.rearrange(lambda each: each.reshape(stated.shape))
        if numbers is value.numbers and (stated.dtype, stated.valid) == (value.dtype, value.valid):
            return value
        return Array(numbers, stated.dtype, stated.valid)

    def carry(self, initial: Value, value: Value, frame: Frame, place: DumpLine) -> Value:
        """Return the value for the next iteration. `MemoryExecution` puts it where the loop's initial value lies."""
        del initial, frame, place
        return value

    def _carry_all(
        self, initial: Sequence[Value], values: Sequence[Value], frame: Frame, place: DumpLine
    ) -> list[Value]:
        return [self.carry(*pair, frame, place) for pair in zip(initial, values, strict=False)]

    def _counted_loop(self, loop: For, frame: Frame) -> Generator[None, None, _BlockEnd | None]:
        if loop.kind == "split_aiv":
            return (yield from self._split_region(loop, frame))
        start, stop, step = (self._integer(each, frame) for each in (loop.start, loop.stop, loop.step))
        initial: list[Value] = [self.plain(each, frame) for each in loop.initial]
        carried = initial
        counter = range(start, stop, step)
        outer = frame.block, frame.blocks
        for index in counter:
            self._take_step(loop.place)
            if loop.kind == "spmd":
                frame.block, frame.blocks = index, len(counter)
            frame.variables[loop.variable] = index
            frame.variables.update(zip(loop.carried, carried, strict=True))
            end = yield from self._block(loop.body, frame)
            if end is not None and end.word == "yield":
                carried = self._carry_all(initial, end.values, frame, loop.place)
            elif end is not None and end.word in ("break", "return"):
                frame.block, frame.blocks = outer
                if end.word == "return":
                    return end
                break
        frame.block, frame.blocks = outer
        self._bind_results(loop.body, carried, frame, ran=bool(counter))
        return None

    def _bind_results(
        self, body: Sequence[Statement], carried: Sequence[Value], frame: Frame, *, ran: bool
    ) -> None:
        """Give the results of a loop its initial values if it did not run."""
        last = _last_yield(body)
        if last is not None and not ran:
            self._bind([Definition(target.name) for target in last.targets], carried, frame)

    def _conditional_loop(self, loop: While, frame: Frame) -> Generator[None, None, _BlockEnd | None]:
        initial: list[Value] = [self.plain(each, frame) for each in loop.initial]
        carried = initial
        ran = False
        while True:
            self._take_step(loop.place)
            frame.variables.update(zip(loop.carried, carried, strict=True))
            if not truth((yield from self.value(loop.condition, frame, place=loop.place))):
                break
            ran = True
            end = yield from self._block(loop.body, frame)
            if end is not None and end.word == "yield":
                carried = self._carry_all(initial, end.values, frame, loop.place)
            elif end is not None and end.word == "break":
                break
            elif end is not None and end.word == "return":
                return end
        self._bind_results(loop.body, carried, frame, ran=ran)
        return None

    def _split_region(self, loop: For, frame: Frame) -> Generator[None, None, _BlockEnd | None]:
        """Run a region in both lanes side by side, each with its own variables."""
        lanes = self._integer(loop.stop, frame)
        if not 1 <= lanes <= _MAX_LANES:
            raise OperationError(f"expected a region of 1 to {_MAX_LANES} lanes, found {lanes}")
        frames = [
            replace(
                frame,
                variables={**frame.variables, loop.variable: lane},
                function=replace(frame.function, body=loop.body),
                lane=lane,
                lanes=lanes,
            )
            for lane in range(lanes)
        ]
        yield from self._interleave(frames, frame.pipes, loop.place)
        frame.variables.update(frames[0].variables)
        return None

    def _scope(self, scope: Scope, frame: Frame) -> Generator[None, None, _BlockEnd | None]:
        if scope.task is not None:
            frame.variables[scope.task] = 0
        if scope.kind != "spmd" or not scope.operands:
            return (yield from self._block(scope.body, frame))
        blocks = self._integer(scope.operands[0], frame)
        outer = frame.block, frame.blocks
        end: _BlockEnd | None = None
        for block in range(blocks):
            self._take_step(scope.place)
            frame.block, frame.blocks = block, blocks
            end = yield from self._block(scope.body, frame)
        frame.block, frame.blocks = outer
        return end

    # Expressions

    def _may_pause(self, expression: Expression) -> bool:
        """Return whether an expression may wait: it calls a function, or moves a tile between cores."""
        known = self._pauses.get(id(expression))
        if known is None:
            known = self._pauses[id(expression)] = any(
                call.is_function or call.name.rpartition(".")[2] in _WAITING for call in calls(expression)
            )
        return known

    def value(
        self,
        expression: Expression,
        frame: Frame,
        target: Definition | None = None,
        place: DumpLine | None = None,
    ) -> Steps:
        """Return the value of an expression. Pauses if a kernel in it does."""
        if not self._may_pause(expression):
            return self.plain(expression, frame, target, place)
        match expression:
            case Call():
                return (
                    yield from self._evaluate_call(expression, frame, target, place or frame.function.place)
                )
            case ItemList(elements=elements):
                return (yield from self._values(elements, frame, place))
            case Subscript(container=container, index=index):
                whole = yield from self.value(container, frame, place=place)
                return self._item(whole, self.plain(index, frame))
            case Cast(operand=operand, dtype=dtype):
                return cast_scalar((yield from self.value(operand, frame, place=place)), dtype)
            case Operator(symbol=symbol, operands=operands):
                return apply_operator(symbol, (yield from self._values(operands, frame, place)))
            case _:
                return self.plain(expression, frame)

    def _values(
        self, expressions: Sequence[Expression], frame: Frame, place: DumpLine | None = None
    ) -> Generator[None, None, tuple[Value, ...]]:
        values: list[Value] = []
        for each in expressions:
            values.append((yield from self.value(each, frame, place=place)))  # noqa: PERF401
        return tuple(values)

    def _evaluate_call(
        self, expression: Call, frame: Frame, target: Definition | None, place: DumpLine
    ) -> Steps:
        if expression.is_function:
            return (yield from self._invoke(expression, frame))
        operands = yield from self._values(expression.operands, frame, place)
        attributes: dict[str, Value] = {}
        for name, attribute in expression.attributes.items():
            if not _is_unread(name):
                attributes[name] = yield from self.value(attribute, frame, place=place)
        call = self._invocation(expression, operands, attributes, target, frame)
        short = call.name.rpartition(".")[2]
        if short == "aic_gather":
            gathered = yield from self._gather_halves(call, frame, place)
            return self.receive_tile(gathered, call, frame, target, place)
        if short in PIPE_OPERATIONS:
            return (yield from self._pipe(call, frame, target, place))
        return self._operation(call, frame, target, place)

    def _compute_call(
        self, expression: Call, frame: Frame, target: Definition | None, place: DumpLine
    ) -> Value:
        """Return the result of a call that cannot pause."""
        parts = self._parts.get(id(expression))
        if parts is None:
            parts = self._parts[id(expression)] = self._prepare_call(expression)
        operands = tuple([evaluate(frame, place) for evaluate in parts.operands])
        attributes = parts.constants or {
            name: evaluate(frame, place) for name, evaluate in parts.attributes.items()
        }
        call = self._invocation(expression, operands, attributes, target, frame)
        if parts.is_in_table:
            return self.perform(find_operation(call.name, operands), call, frame, target, place)
        return self._operation(call, frame, target, place)

    def _prepare_call(self, expression: Call) -> _CallParts:
        if self._may_pause(expression):
            raise OperationError(f"expected a value without a wait, found {expression.name}")
        area, _, short = expression.name.rpartition(".")
        read = {name: each for name, each in expression.attributes.items() if not _is_unread(name)}
        constants = {name: each.value for name, each in read.items() if isinstance(each, Constant)}
        constants |= {name: each for name, each in read.items() if isinstance(each, NamedConstant)}
        return _CallParts(
            operands=tuple(self._evaluator(each) for each in expression.operands),
            attributes={name: self._evaluator(each) for name, each in read.items()},
            constants=constants if len(constants) == len(read) else None,
            is_in_table=short not in _OWN_OPERATIONS and area not in _OWN_AREAS,
        )

    def _invocation(
        self,
        expression: Call,
        operands: tuple[Value, ...],
        attributes: Mapping[str, Value],
        target: Definition | None,
        frame: Frame,
    ) -> Invocation:
        type_ = target.type if target is not None else None
        return Invocation(
            name=expression.name,
            operands=operands,
            attributes=attributes,
            result=self.resolve_result(type_, frame) if isinstance(type_, ArrayType) else None,
            arithmetic=self.arithmetic,
        )

    def _operation(self, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine) -> Value:
        """Return the result of an operation that cannot pause."""
        area, _, short = call.name.rpartition(".")
        match short:
            case "get_block_idx":
                return frame.block
            case "get_block_num":
                return frame.blocks
            case "get_subblock_idx":
                return frame.lane
            case "aiv_shard":
                tile = self.operand(call, 0, frame, place)
                return self.receive_tile(half(tile, split_mode(call), frame.lane), call, frame, target, place)
            case _ if area == "system" or short in NO_EFFECT:
                return self.no_effect(call, frame, target, place)
            case _ if area == "array":
                return core_list(short, call)
            case _:
                operation = find_operation(call.name, call.operands)
                return self.perform(operation, call, frame, target, place)

    def no_effect(self, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine) -> Value:
        """Skip an operation that only orders others or reserves memory."""
        del frame, target, place
        if call.name.rpartition(".")[2] not in NO_EFFECT:
            raise OperationError(f"expected an operation of the table, found {call.name}")
        return 0

    def perform(
        self, operation: Operation, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine
    ) -> Value:
        """Compute one operation of the table.

        A statement without a target, such as `tile.write(t, [0, i], x)`, changes the tile itself.
        """
        del frame, place
        result = operation.compute(call)
        updated = updated_tile(operation, call, result) if target is None else None
        if updated is not None and isinstance(result, Array):
            updated.numbers = result.numbers
        return result

    def operand(self, call: Invocation, index: int, frame: Frame, place: DumpLine) -> Array:
        """Return a tile that is about to be read."""
        del frame, place
        return call.array(index)

    def receive_tile(
        self, value: Array, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine
    ) -> Array:
        """Take a tile that came from another core."""
        del call, frame, target, place
        return value

    def _gather_halves(self, call: Invocation, frame: Frame, place: DumpLine) -> Generator[None, None, Array]:
        tile = self.operand(call, 0, frame, place)
        if frame.lanes < 2:
            return tile
        number = frame.gathers
        frame.gathers += 1
        frame.pipes.give_half(number, frame.lane, tile)
        while (whole := frame.pipes.whole(number, call)) is None:
            yield
        return whole

    def _pipe(self, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine) -> Steps:
        if "tpush" in call.name:
            frame.pipes.push(call, self.operand(call, 0, frame, place), frame.lane)
            return None
        while (tile := frame.pipes.pop(call, frame.lane)) is None:
            yield
        return self.receive_tile(tile, call, frame, target, place)

    def plain(
        self,
        expression: Expression,
        frame: Frame,
        target: Definition | None = None,
        place: DumpLine | None = None,
    ) -> Value:
        """Return the value of an expression that cannot pause."""
        if isinstance(expression, Call):
            return self._compute_call(expression, frame, target, place or frame.function.place)
        return self._evaluator(expression)(frame, place)

    def _evaluator(self, expression: Expression) -> _Evaluator:
        known = self._evaluators.get(id(expression))
        if known is None:
            known = self._evaluators[id(expression)] = self._prepare(expression)
        return known

    def _prepare(self, expression: Expression) -> _Evaluator:
        """Return a function for the value of an expression that cannot pause."""
        match expression:
            case Constant(value=value):
                return lambda frame, place: value
            case NamedConstant():
                return lambda frame, place: expression
            case Variable(name=name):
                return lambda frame, place: self._variable(name, frame)
            case ItemList(elements=elements):
                constants = tuple(each.value for each in elements if isinstance(each, Constant))
                if len(constants) == len(elements):
                    return lambda frame, place: constants
                parts = [self._evaluator(each) for each in elements]
                return lambda frame, place: tuple([part(frame, place) for part in parts])
            case Subscript(container=container, index=index):
                whole, at = self._evaluator(container), self._evaluator(index)
                return lambda frame, place: self._item(whole(frame, place), at(frame, place))
            case Cast(operand=operand, dtype=dtype):
                inner = self._evaluator(operand)
                return lambda frame, place: cast_scalar(inner(frame, place), dtype)
            case Operator(symbol=symbol, operands=operands):
                parts = [self._evaluator(each) for each in operands]
                return lambda frame, place: apply_operator(symbol, [part(frame, place) for part in parts])
            case Call():
                return lambda frame, place: self._compute_call(
                    expression, frame, None, place or frame.function.place
                )

    def _variable(self, name: str, frame: Frame) -> Value:
        if name in frame.variables:
            value = frame.variables[name]
            if not isinstance(value, (Pending, tuple)):
                return value
            value = _resolve_pending(value)
            if isinstance(value, Pending):
                raise OperationError(
                    f"expected the value of {name}, found its kernel waiting for a push of another"
                )
            return value
        if name in self._dimensions:
            return self._dimensions[name]
        raise frame.unfit.get(name) or OperationError(f"expected a defined variable, found {name}")

    def _item(self, whole: Value, index: Value) -> Value:
        if isinstance(whole, tuple) and isinstance(index, int) and -len(whole) <= index < len(whole):
            return whole[index]
        if isinstance(whole, Array):
            call = Invocation(
                name="tensor.read",
                operands=(whole, index),
                attributes={},
                result=None,
                arithmetic=self.arithmetic,
            )
            return find_operation("tensor.read", call.operands).compute(call)
        if index == 0:
            return whole
        raise OperationError(f"expected one of several values, found index {index!r}"[:100])

    def _integer(self, expression: Expression, frame: Frame) -> int:
        return require_integers(self.plain(expression, frame), "a bound")[0]

    def is_constant(self, type_: ArrayType) -> bool:
        """Return whether a type was resolved, and has the same result everywhere."""
        return id(type_) in self._results

    def resolve_result(self, type_: ArrayType, frame: Frame) -> Result | None:
        """Return the shape, type and valid shape that a type states. None if a length is not known yet."""
        known = self._results.get(id(type_))
        if known is not None:
            return known
        lengths = (*type_.shape, *(type_.valid_shape or ()))
        try:
            shape = tuple(self._integer(each, frame) for each in type_.shape)
            valid = shape
            if type_.valid_shape is not None:
                valid = tuple(self._integer(each, frame) for each in type_.valid_shape)
        except OperationError:
            return None
        if any(length < 0 for length in shape):
            raise OperationError(f"expected a shape, found {list(shape)}")
        valid = tuple(max(0, min(pair)) for pair in zip(valid, shape, strict=False))
        result = Result(shape, type_.dtype, valid if len(valid) == len(shape) else shape)
        if all(isinstance(length, Constant) for length in lengths):
            self._results[id(type_)] = result
        return result


def _advance(open_calls: Sequence[Pending]) -> None:
    for each in open_calls:
        if not each.is_done:
            try:
                next(each.steps)
            except StopIteration as end:
                each.result = end.value
                each.is_done = True


def _resolve_pending(value: Value) -> Value:
    """Return the result of an open call if it has ended, else the value itself."""
    if isinstance(value, Pending) and value.is_done:
        return value.result
    if isinstance(value, tuple) and any(isinstance(each, Pending) for each in value):
        return tuple(_resolve_pending(each) for each in value)
    return value


# Programs that run alike

_DEFINED_NAMES: Mapping[type, tuple[str, ...]] = {
    Definition: ("name",),
    For: ("variable", "carried"),
    While: ("carried",),
}
_USED_NAMES: Mapping[type, str] = {Variable: "name", MemoryReference: "base"}
"""The fields of a node that hold names of variables."""

_SPECIAL_ROLES = ("Orchestration", "Inline", "Spmd", "AIC")
"""The roles of functions that change how a program runs, apart from the number of lanes."""


def execution_key(program: IrProgram, inputs: Container[str]) -> Hashable:
    """Return what a run on inputs of these names depends on. Programs with equal keys compute the same.

    The names of variables do not count, nor places in the dump, scopes that only order tasks, and attributes that are
    not read.
    """
    entry = program.entry
    return tuple(
        (
            name,
            tuple(shorten_to_known(each.name, inputs) for each in entry.parameters if function is entry),
            lane_count(function),
            function.role if function.role in _SPECIAL_ROLES else "",
            function.problem is None,
            tuple(_flatten(function, {})),
        )
        for name, function in program.functions.items()
    )


def _flatten(node: Any, names: dict[str, Hashable]) -> Iterator[Hashable]:
    """Yield the parts of a node. `names` numbers the variables that a function defines, and grows."""
    if isinstance(node, Function):
        parameters = tuple(Definition(each.name, each.type) for each in node.parameters)
        yield from _flatten((parameters, node.attributes.get("core_num"), node.body), names)
    elif isinstance(node, Scope) and node.kind != "spmd" and node.task is None:
        for statement in node.body:
            yield from _flatten(statement, names)
    elif isinstance(node, tuple):
        yield "("
        for each in cast("tuple[Any, ...]", node):
            yield from _flatten(each, names)
        yield ")"
    elif isinstance(node, Mapping):
        for word, value in cast("Mapping[str, Any]", node).items():
            if not _is_unread(word):
                yield word
                yield from _flatten(value, names)
    elif is_dataclass(node):
        yield type(node).__name__
        yield from _flatten_fields(node, names)
    else:
        yield repr(node)


def _flatten_fields(node: Any, names: dict[str, Hashable]) -> Iterator[Hashable]:
    kind: Any = node.__class__
    for part in fields(node):
        value: Any = getattr(node, part.name)
        if part.name in _DEFINED_NAMES.get(kind, ()):
            for name in cast("tuple[str, ...]", value if isinstance(value, tuple) else (value,)):
                yield names.setdefault(name, len(names))
        elif part.name == _USED_NAMES.get(kind) and value is not None:
            # A variable of the caller keeps its name, and so does one that is used before it is defined.
            yield names.setdefault(value, value)
        elif part.name != "place" and not (part.name == "attributes" and _ignores_attributes(node)):
            yield from _flatten(value, names)


def _ignores_attributes(node: Any) -> bool:
    """Return whether the attributes of a call, loop or scope only concern the order of what runs on several cores."""
    return not isinstance(node, Call) or node.name.rpartition(".")[2] in ("tfree_to_aic", "tfree_to_aiv")


def updated_tile(operation: Operation, call: Invocation, result: Value) -> Array | None:
    """Return the operand that a call updates, unless it did so already."""
    if operation.updates is None or operation.updates >= len(call.operands):
        return None
    operand = call.operands[operation.updates]
    return operand if isinstance(operand, Array) and operand is not result else None


def _only_target(statement: Assign) -> Definition | None:
    return statement.targets[0] if len(statement.targets) == 1 else None


def _last_yield(body: Sequence[Statement]) -> Yield | None:
    last = body[-1] if body else None
    while isinstance(last, Scope) and last.body:
        last = last.body[-1]
    return last if isinstance(last, Yield) else None
