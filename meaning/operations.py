"""The meaning of each operation of the IR: one table, `OPERATIONS`.

A row says how an operation computes its result, and what it does to the bytes of its operands:

- `reads`: the operands whose elements it reads. The others give a shape, are scratch, or change in part.
- `in_place`: the operands on whose bytes the result may lie, exactly and with elements that are no larger. The
  operation reads each of their elements before it writes the one in its place, and never again. This follows from the
  definition of the operation and from the rules of the instruction set. The compiler's own tables do not count,
  because they may be wrong.
- `by_rows`: the operands of which it reads a row before it writes the same row of the result, and never again.
- `needs_dense`: the operands that it cannot read as a part of wider rows. The compiler first copies such a part to the
  bytes that the part's own type states (pypto issue 2010).
- `scratch`: the operands that it overwrites while it works.
- `updates`: the operand that it changes, and whose bytes its result has.
- `writes_part`: it changes only a part of that operand. Which part does not depend on any element.
- `writes_nothing`: it gives bytes a name, and does not change them.
- `is_view`: the result is another view of the bytes of the first operand.

Operations of tensors and of tiles have the same rows: `tensor.add` and `tile.add` are `add`. Reductions and products of
matrices leave out the elements outside of a tile's valid shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch

from . import movement
from .arithmetic import ArithmeticMode, Numbers, broadcast, poison, round_to, round_to_integers
from .ir import ElementType
from .values import Array, Invocation, OperationError, Value, pad_with_poison, valid_mask, valid_part

Tensor = torch.Tensor

Compute = Callable[[Invocation], Value]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A row of the table. See the module's docstring. None for `reads` means every operand."""

    compute: Compute
    reads: frozenset[int] | None = None
    in_place: frozenset[int] = frozenset()
    by_rows: frozenset[int] = frozenset()
    needs_dense: frozenset[int] = frozenset()
    scratch: frozenset[int] = frozenset()
    updates: int | None = None
    writes_part: bool = False
    writes_nothing: bool = False
    is_view: bool = False

    def scratch_operands(self, count: int) -> frozenset[int]:
        """Return which of `count` operands are `scratch`. -1 is the last."""
        return frozenset(index % count for index in self.scratch if index < count and count)

    def written_part(self, call: Invocation, shape: tuple[int, ...]) -> torch.Tensor:
        """Return which elements an update writes, by a run on a target of zeros and sources of ones.

        The part does not depend on any element, so the sources need no indices.
        """
        scalars = tuple(
            1 if isinstance(each, float) else each for each in call.operands if not isinstance(each, Array)
        )
        arrays = tuple((each.shape, each.valid) for each in call.operands if isinstance(each, Array))
        key = call.name, scalars, arrays, call.attributes.get("transpose"), shape
        known = _WRITTEN_PARTS.get(key)
        if known is None:
            if len(_WRITTEN_PARTS) >= _MAX_WRITTEN_PARTS:
                _WRITTEN_PARTS.clear()
            known = _WRITTEN_PARTS[key] = self._mark_written_part(call, shape)
        return known

    def _mark_written_part(self, call: Invocation, shape: tuple[int, ...]) -> torch.Tensor:
        marks: list[Value] = []
        for index, operand in enumerate(call.operands):
            if isinstance(operand, Array):
                # A source may be a tensor of any size, so its ones are a single element.
                is_source = index != self.updates
                mark = torch.tensor(1).expand(operand.shape) if is_source else torch.full(operand.shape, 0)
                marks.append(Array(Numbers(mark), ElementType.INT32, operand.valid))
            else:
                marks.append(1 if isinstance(operand, float) else operand)
        if call.name.endswith(".write"):
            marks[2] = 1
        attributes = {name: value for name, value in call.attributes.items() if name == "transpose"}
        stated = ArithmeticMode.STATED
        marked = self.compute(
            replace(call, operands=tuple(marks), result=None, arithmetic=stated, attributes=attributes)
        )
        assert isinstance(marked, Array)
        return (marked.numbers.centre != 0).reshape(shape)


_MAX_WRITTEN_PARTS = 1000
_WRITTEN_PARTS: dict[Hashable, torch.Tensor] = {}
"""The parts that updates wrote lately. Most updates stand in loops, and many dumps have the same ones."""


# Elementwise


def _common_valid(*arrays: Array) -> tuple[int, ...]:
    """Return the shape that is valid in all arrays. An axis of length 1 is broadcast."""
    first = arrays[0].valid
    if all(array.valid == first == array.shape for array in arrays):
        return first
    shape = broadcast(*(array.shape for array in arrays))
    valid = list(shape)
    for array in arrays:
        skipped = len(shape) - len(array.shape)
        for axis, (length, limit) in enumerate(zip(array.shape, array.valid, strict=True)):
            if length != 1 or shape[skipped + axis] == 1:
                valid[skipped + axis] = min(valid[skipped + axis], limit)
    return tuple(valid)


def _elementwise(function: Callable[..., Numbers], count: int, *, scratch: int | None = None) -> Operation:
    """Return the row of a function of `count` arrays or scalars. At least one operand is an array."""

    def compute(call: Invocation) -> Array:
        arrays = [operand for operand in call.operands[:count] if isinstance(operand, Array)]
        like = next(iter(arrays), None) or call.array(0)
        if not like.dtype.is_float and any(isinstance(each, float) for each in call.operands[:count]):
            like = replace(like, dtype=ElementType.FP32)
        numbers = function(*(call.numbers(index, like) for index in range(count)))
        return call.result_array(numbers, arrays[0], valid=_common_valid(*arrays))

    return Operation(
        compute=compute,
        reads=frozenset(range(count)),
        in_place=frozenset(range(count)),
        scratch=frozenset() if scratch is None else frozenset({scratch}),
    )


def _unary(function: Callable[[Numbers], Numbers], *, scratch: int | None = None) -> Operation:
    return _elementwise(function, 1, scratch=scratch)


def _binary(function: Callable[[Numbers, Numbers], Numbers], *, scratch: int | None = None) -> Operation:
    return _elementwise(function, 2, scratch=scratch)


def _ternary(function: Callable[[Numbers, Numbers, Numbers], Numbers]) -> Operation:
    return _elementwise(function, 3)


def _expansion(function: Callable[[Numbers, Numbers], Numbers], axis: int) -> Operation:
    """Return the row of a function of a tile and a vector that repeats along `axis`.

    The vector is read again for each row or column.
    """

    def compute(call: Invocation) -> Array:
        tile, vector = call.array(0), call.array(1)
        numbers = function(tile.numbers, _fit_vector(vector, tile.shape, axis))
        return call.result_array(numbers, tile, valid=tile.valid)

    dense = frozenset({0, 1}) if axis == -2 else frozenset[int]()
    return Operation(compute=compute, in_place=frozenset({0}), needs_dense=dense)


def _fit_vector(vector: Array, shape: tuple[int, ...], axis: int) -> Numbers:
    """Return a vector in a shape that broadcasts. A dump prints it as [M, 1], [1, M], or [M, 8] (first column)."""
    length = shape[axis - 1] if axis == -1 and len(shape) > 1 else shape[len(shape) - 1]
    if vector.shape[axis] == 1:
        return vector.numbers
    if math.prod(vector.shape) == length:
        target = (length, 1) if axis == -1 else (1, length)
        return vector.numbers.rearrange(lambda each: each.reshape(target))
    return vector.numbers.rearrange(lambda each: each.narrow(axis, 0, 1))


def _repeat(axis: int) -> Operation:
    """Return the row of `row_expand` or `col_expand`. The first operand only gives a shape."""

    def compute(call: Invocation) -> Array:
        target, vector = call.array(0), call.array(1)
        numbers = _fit_vector(vector, target.shape, axis).rearrange(
            lambda each: each.expand(target.shape).clone()
        )
        return call.result_array(numbers, vector, valid=target.valid)

    return Operation(compute=compute, reads=frozenset({1}))


def _expand_clone(call: Invocation) -> Array:
    source, target = call.array(0), call.array(1)
    numbers = source.numbers.rearrange(lambda each: each.expand(target.shape).clone())
    return call.result_array(numbers, source)


def _expand_scalar(call: Invocation) -> Array:
    target = call.array(0)
    dtype = call.result_dtype(target.dtype)
    numbers = call.numbers(1, replace(target, dtype=dtype)).rearrange(
        lambda each: each.expand(target.shape).clone()
    )
    return call.result_array(numbers, target, valid=target.valid)


def _relu(x: Numbers) -> Numbers:
    return x.maximum(x.rearrange(torch.zeros_like))


def _leaky_relu(x: Numbers, slope: Numbers) -> Numbers:
    zero = Numbers(torch.zeros_like(x.centre), None if x.radius is None else torch.zeros_like(x.radius))
    return x.compare(zero, torch.gt).choose(x, x * slope)


def _reciprocal(x: Numbers) -> Numbers:
    one = Numbers(torch.ones_like(x.centre), None if x.radius is None else torch.zeros_like(x.radius))
    return one / x


def _divide(x: Numbers, y: Numbers) -> Numbers:
    if x.is_float or y.is_float:
        return x / y
    return x.integers(_divide_integers, y)


def _divide_integers(x: Tensor, y: Tensor) -> Tensor:
    return torch.div(x, torch.where(y == 0, 1, y), rounding_mode="trunc")


def _fmod(x: Numbers, y: Numbers) -> Numbers:
    return x.remainder(y, torch.fmod)


def _floor_remainder(x: Numbers, y: Numbers) -> Numbers:
    return x.remainder(y, torch.remainder)


def _integers(function: Callable[..., Tensor]) -> Callable[..., Numbers]:
    def compute(x: Numbers, *others: Numbers) -> Numbers:
        return x.integers(function, *others)

    return compute


def _shift_left(x: Tensor, count: Tensor) -> Tensor:
    return torch.where(count < 64, x << count.clamp(0, 63), 0)


def _shift_right(x: Tensor, count: Tensor) -> Tensor:
    return x >> count.clamp(0, 63)


def _partial(function: Callable[[Numbers, Numbers], Numbers]) -> Operation:
    """Return the row of a function of two tiles. Where only one has a valid element, it is the result."""

    def compute(call: Invocation) -> Array:
        one, other = call.array(0), call.array(1)
        both = function(one.numbers, other.numbers)
        here, there = valid_mask(one), valid_mask(other)

        def select(combined: Tensor, left: Tensor, right: Tensor) -> Tensor:
            return torch.where(here & there, combined, torch.where(here, left, right))

        centre = select(both.centre, one.numbers.centre, other.numbers.centre)
        radius = None
        if both.radius is not None and one.numbers.radius is not None and other.numbers.radius is not None:
            radius = select(both.radius, one.numbers.radius, other.numbers.radius)
        valid = tuple(max(pair) for pair in zip(one.valid, other.valid, strict=True))
        return call.result_array(Numbers(centre, radius), one, valid=valid)

    return Operation(compute=compute, in_place=frozenset({0, 1}))


_COMPARISONS = (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
"""The comparisons stand in the order of the chip's own numbers for them."""


def _compare(call: Invocation) -> Array:
    """Compare element by element. The mask is not packed as on the chip."""
    one = call.array(0)
    function = _COMPARISONS[call.number("cmp_type", call.number("cmp_mode")) % len(_COMPARISONS)]
    numbers = one.numbers.compare(call.numbers(1, one), function)
    return Array(numbers, ElementType.BOOL, one.valid)


def _select(call: Invocation) -> Array:
    mask = call.array(0)
    like = next((each for each in call.operands[1:3] if isinstance(each, Array)), mask)
    yes, no = call.numbers(1, like), call.numbers(2, like)
    shape = broadcast(yes.shape, no.shape)
    condition = mask.numbers
    if condition.shape != shape:
        condition = condition.rearrange(lambda each: each[tuple(slice(0, length) for length in shape)])
    return call.result_array(condition.choose(yes, no), like, valid=like.valid)


def _select_by_mode(call: Invocation) -> Array:
    one, other = call.array(0), call.array(1)
    return call.result_array((one if call.integer(2) else other).numbers, one, valid=one.valid)


_DIRECTED_MODES = ("floor", "ceil", "trunc")
"""In these rounding modes, a cast to the same type rounds to whole numbers. In others it changes nothing."""


def _cast(call: Invocation) -> Array:
    source = call.array(0)
    mode = call.word("mode", "round")
    dtype = call.result_dtype(source.dtype)
    numbers = source.numbers
    if dtype is source.dtype:
        numbers = round_to_integers(numbers, mode) if dtype.is_float and mode in _DIRECTED_MODES else numbers
        return Array(numbers, dtype, source.valid)
    return Array(round_to(numbers, dtype, call.arithmetic, mode), dtype, source.valid)


# Reductions


def _reduction(function: Callable[[Numbers, int], Numbers], axis: int | None) -> Operation:
    """Return the row of a reduction along an axis. If `axis` is None, the call names it."""

    def compute(call: Invocation) -> Array:
        source = call.array(0)
        along = axis
        keep = True
        if along is None:
            along = call.number("axis", -1)
            keep = call.flag("keepdim")
            if len(call.operands) > 1 and isinstance(call.operands[1], int):
                along = call.integer(1)
        along %= len(source.shape)
        part = valid_part(source)
        shape = [1 if each == along else length for each, length in enumerate(source.shape)]
        valid = [1 if each == along else length for each, length in enumerate(source.valid)]
        if part.shape[along] == 0 and 0 not in valid:
            raise OperationError(
                f"expected elements to reduce in {call.name}, found a valid shape {list(source.valid)}"
            )
        # A lane without work reduces a tile of which nothing is valid.
        is_empty = part.shape[along] == 0
        numbers = poison(valid, source.dtype, call.arithmetic) if is_empty else function(part, along)
        numbers = pad_with_poison(numbers, shape, source.dtype, call.arithmetic)
        if not keep and len(shape) > 1:
            numbers = numbers.rearrange(lambda each: each.squeeze(along))
            del valid[along]
        return call.result_array(numbers, source, valid=valid)

    return Operation(compute=compute, reads=frozenset({0}), scratch=frozenset({1}))


def _position(sign: int) -> Callable[[Numbers, int], Numbers]:
    return lambda x, axis: (x if sign > 0 else -x).position_of_largest(axis)


# Products of matrices


def _multiply_matrices(
    call: Invocation, left: int, right: int
) -> tuple[Numbers, tuple[int, ...], tuple[int, ...]]:
    """Return the product of the valid parts of two operands, its shape, and its valid shape."""
    one, other = call.array(left), call.array(right)
    mine, theirs = one.numbers, other.numbers
    my_valid, their_valid = one.valid, other.valid
    if call.flag("a_trans"):
        mine, my_valid = mine.rearrange(lambda each: each.mT), (*my_valid[:-2], my_valid[-1], my_valid[-2])
    if call.flag("b_trans"):
        theirs, their_valid = (
            theirs.rearrange(lambda each: each.mT),
            (*their_valid[:-2], their_valid[-1], their_valid[-2]),
        )
    if mine.shape[-1] != theirs.shape[-2]:
        raise OperationError(
            f"expected matrices that fit in {call.name}, found {list(mine.shape)} and {list(theirs.shape)}"
        )
    inner = min(my_valid[-1], their_valid[-2])
    rows, columns = my_valid[-2], their_valid[-1]
    shape = (*broadcast(mine.shape[:-2], theirs.shape[:-2]), mine.shape[-2], theirs.shape[-1])
    if mine.shape[-2:] != (rows, inner):
        mine = mine.rearrange(lambda each: each[..., :rows, :inner])
    if theirs.shape[-2:] != (inner, columns):
        theirs = theirs.rearrange(lambda each: each[..., :inner, :columns])
    return mine.matmul(theirs), shape, (*shape[:-2], rows, columns)


def _accumulator_dtype(call: Invocation, operand: Array) -> ElementType:
    if call.name.startswith("tensor."):
        return call.result_dtype(operand.dtype)
    return call.result_dtype(ElementType.FP32 if operand.dtype.is_float else ElementType.INT32)


def _matmul(call: Invocation) -> Array:
    numbers, shape, valid = _multiply_matrices(call, 0, 1)
    dtype = _accumulator_dtype(call, call.array(0))
    if len(call.operands) > 2 and call.name.endswith("_bias"):
        bias = call.numbers(2)
        numbers = numbers + bias.rearrange(lambda each: each[..., : numbers.shape[-1]])
    numbers = round_to(numbers, dtype, call.arithmetic)
    return Array(pad_with_poison(numbers, shape, dtype, call.arithmetic), dtype, valid)


def _matmul_accumulate(call: Invocation) -> Array:
    accumulator = call.array(0)
    numbers, shape, valid = _multiply_matrices(call, 1, 2)
    total = accumulator.numbers
    if total.shape != numbers.shape:
        window = tuple(slice(0, length) for length in numbers.shape)
        total = total.rearrange(lambda each: each[window])
    total += numbers
    dtype = call.result_dtype(accumulator.dtype)
    total = round_to(total, dtype, call.arithmetic)
    return Array(pad_with_poison(total, shape, dtype, call.arithmetic), dtype, valid)


def _dimension(call: Invocation) -> int:
    return call.array(0).shape[call.integer(1)]


_FIRST = frozenset({0})
_ARITHMETIC: Mapping[str, Callable[[Numbers, Numbers], Numbers]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _divide,
    "max": Numbers.maximum,
    "min": Numbers.minimum,
}
_BINARY: Mapping[str, Callable[[Numbers, Numbers], Numbers]] = {
    **_ARITHMETIC,
    "maximum": Numbers.maximum,
    "minimum": Numbers.minimum,
    "fmod": _fmod,
    "rem": _floor_remainder,
    "and": _integers(torch.bitwise_and),
    "or": _integers(torch.bitwise_or),
    "shl": _integers(_shift_left),
    "shr": _integers(_shift_right),
}
"""These operations take two tiles. With an `s` at the end of their names they take a tile and a scalar."""

_ELEMENTWISE: Mapping[str, Operation] = {
    "neg": _unary(lambda x: -x),
    "abs": _unary(Numbers.abs),
    "exp": _unary(lambda x: x.monotonic(torch.exp)),
    "log": _unary(lambda x: x.monotonic(torch.log, 0.0)),
    "sqrt": _unary(lambda x: x.monotonic(torch.sqrt, 0.0)),
    "rsqrt": _unary(lambda x: x.monotonic(torch.rsqrt, 0.0), scratch=1),
    "recip": _unary(_reciprocal),
    "relu": _unary(_relu),
    "sin": _unary(lambda x: x.lipschitz(torch.sin)),
    "cos": _unary(lambda x: x.lipschitz(torch.cos)),
    "not": _unary(_integers(torch.bitwise_not)),
    "lrelu": _binary(_leaky_relu),
    "prelu": _binary(_leaky_relu, scratch=2),
    "addc": _ternary(lambda x, y, z: x + y + z),
    "subc": _ternary(lambda x, y, z: x - y - z),
    "addsc": _ternary(lambda x, y, z: x + y + z),
    "subsc": _ternary(lambda x, y, z: x - y - z),
    "cast": Operation(compute=_cast, in_place=_FIRST),
    "cmp": Operation(compute=_compare),
    "cmps": Operation(compute=_compare),
    "sel": Operation(
        compute=_select, in_place=frozenset({1, 2}), reads=frozenset({0, 1, 2}), scratch=frozenset({3})
    ),
    "sels": Operation(compute=_select_by_mode, in_place=frozenset({0, 1})),
    "expands": Operation(compute=_expand_scalar, reads=frozenset()),
    "expand_clone": Operation(compute=_expand_clone, reads=_FIRST),
    "row_expand": _repeat(-1),
    "col_expand": _repeat(-2),
}

_NEVER_IN_PLACE = ("ands", "ors", "xor", "xors", "recip")
"""These operations write the result before they have read all operands, although they go element by element."""

_EXPANSIONS: Mapping[str, Callable[[Numbers, Numbers], Numbers]] = {
    **_ARITHMETIC,
    "expdif": lambda x, y: (x - y).monotonic(torch.exp),
}
"""These operations take a tile and a vector that repeats along rows or columns."""

_REDUCTIONS: Mapping[str, Callable[[Numbers, int], Numbers]] = {
    "sum": Numbers.sum,
    "max": Numbers.largest,
    "min": Numbers.smallest,
    "prod": Numbers.product,
    "argmax": _position(1),
    "argmin": _position(-1),
}

_MOVEMENT: Mapping[str, Operation] = {
    "create": Operation(compute=movement.create, reads=frozenset(), writes_nothing=True),
    "create_l1": Operation(compute=movement.create, reads=frozenset(), writes_nothing=True),
    "full": Operation(compute=movement.full, reads=frozenset()),
    "ci": Operation(compute=movement.sequence, reads=frozenset()),
    "reshape": Operation(compute=movement.reshape, is_view=True),
    "transpose_view": Operation(compute=movement.transpose, is_view=True),
    "as_layout": Operation(compute=movement.swap_layout, is_view=True),
    "view": Operation(compute=movement.view, is_view=True),
    "set_validshape": Operation(compute=movement.set_valid_shape, is_view=True),
    "slice": Operation(compute=movement.slice_part, is_view=True),
    "transpose": Operation(compute=movement.transpose, reads=_FIRST, scratch=frozenset({3})),
    "extract": Operation(compute=movement.extract),
    "move": Operation(compute=movement.copy, in_place=_FIRST),
    "concat": Operation(compute=movement.concatenate, by_rows=frozenset({0, 1})),
    "assemble": Operation(
        compute=movement.assemble, in_place=_FIRST, updates=0, writes_part=True, reads=frozenset({1})
    ),
    "load": Operation(compute=movement.load),
    "store": Operation(compute=movement.store, updates=2, reads=frozenset({0})),
    "read": Operation(compute=movement.read_element),
    "write": Operation(
        compute=movement.write_element, in_place=_FIRST, updates=0, writes_part=True, reads=frozenset()
    ),
    "fillpad": Operation(compute=movement.fill_pad, in_place=_FIRST),
    "fillpad_inplace": Operation(compute=movement.fill_pad, in_place=_FIRST, updates=0),
    "fillpad_expand": Operation(compute=movement.fill_pad),
    "gather": Operation(compute=movement.gather, reads=frozenset({0, 1}), scratch=frozenset({2})),
    "gather_mask": Operation(compute=movement.gather_mask),
    "gather_row": Operation(
        compute=movement.gather_row, in_place=_FIRST, updates=0, writes_part=True, reads=frozenset({1})
    ),
    "scatter": Operation(compute=movement.scatter, in_place=_FIRST, updates=0, reads=frozenset({1, 2})),
    "scatter_mask": Operation(
        compute=movement.scatter_mask, in_place=_FIRST, updates=0, reads=frozenset({1})
    ),
    "scatter_update": Operation(
        compute=movement.scatter_update, in_place=_FIRST, updates=0, reads=frozenset({1, 2, 3})
    ),
    "mscatter": Operation(compute=movement.scatter_elements, updates=2, reads=frozenset({0, 1})),
    "sort32": Operation(compute=movement.sort_blocks),
    "mrgsort_format1": Operation(compute=movement.merge_runs),
    "mrgsort_format2": Operation(compute=movement.merge_lists, scratch=frozenset({-1})),
    "dim": Operation(compute=_dimension, reads=frozenset()),
}


def _table() -> dict[str, Operation]:
    table = {**_ELEMENTWISE, **_MOVEMENT}
    for name, function in _BINARY.items():
        table[name] = table[f"{name}s"] = _binary(function)
    table["xor"] = table["xors"] = _binary(_integers(torch.bitwise_xor), scratch=2)
    for name in _NEVER_IN_PLACE:
        table[name] = replace(table[name], in_place=frozenset())
    for name, function in _EXPANSIONS.items():
        table[f"row_expand_{name}"] = _expansion(function, -1)
        table[f"col_expand_{name}"] = _expansion(function, -2)
    for name in ("add", "mul", "max", "min"):
        table[f"part_{name}"] = _partial(_EXPANSIONS[name])
    for name, reduce in _REDUCTIONS.items():
        table[f"row_{name}"] = _reduction(reduce, -1)
        column = _reduction(reduce, -2)
        # The result begins as the first row, and each further row is reduced into it.
        table[f"col_{name}"] = column if name.startswith("arg") else replace(column, by_rows=_FIRST)
        table[f"reduce_{name}"] = _reduction(reduce, None)
    product = Operation(compute=_matmul)
    accumulate = Operation(compute=_matmul_accumulate, in_place=_FIRST, updates=0)
    table |= dict.fromkeys(("matmul", "batch_matmul", "gemv", "matmul_bias", "gemv_bias"), product)
    table |= dict.fromkeys(("matmul_acc", "batch_matmul_acc", "gemv_acc"), accumulate)
    return table


OPERATIONS: Mapping[str, Operation] = _table()
"""The row of each operation by its name without `tile.` or `tensor.`.

`max`, `min` and `sum` of one tile along an axis are `reduce_max` and so on.
"""


NO_EFFECT = frozenset(
    {
        "sync_src", "sync_dst", "sync_set", "sync_wait", "bar_v", "bar_m", "bar_all", "aic_initialize_pipe",
        "aiv_initialize_pipe", "reserve_buffer", "import_peer_buffer", "tfree_to_aic", "tfree_to_aiv", "task_dummy",
        "task_invalid", "task_is_valid", "alloc",
    }
)  # fmt: skip
"""These operations order others, or reserve memory, and compute nothing."""


def find_operation(name: str, operands: Sequence[Value]) -> Operation:
    """Return the row of an operation by its full name."""
    return _find_row(name, len(operands) > 1 and isinstance(operands[1], Array))


@cache
def _find_row(name: str, has_two_arrays: bool) -> Operation:
    area, _, short = name.rpartition(".")
    if area == "tile" and short in ("max", "min", "sum") and not has_two_arrays:
        short = f"reduce_{short}"
    row = OPERATIONS.get(short) if area in ("tile", "tensor", "") else None
    if row is None:
        raise OperationError(f"expected an operation of the table, found {name}")
    return row
