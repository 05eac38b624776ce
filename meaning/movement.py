"""Operations that move elements and compute none: windows, shapes, stores, pads, gathers, scatters and sorts.

Each public function computes a row of the table in `operations`. Its docstring describes the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from .arithmetic import (
    ArithmeticMode,
    Numbers,
    decode_bytes,
    encode_bytes,
    fill,
    poison,
    round_to,
    tensor_numbers,
)
from .ir import ElementType, Kind, NamedConstant
from .values import (
    Array,
    Invocation,
    OperationError,
    Value,
    WrongDumpError,
    describe,
    pad_with_poison,
    require_integers,
    slice_window,
    valid_mask,
    valid_part,
)

Tensor = torch.Tensor

# Shapes and places


def create(call: Invocation) -> Array:
    """Elements that were never written, or that have the tensor's initial value."""
    shape = call.result.shape if call.result is not None else call.integers(0)
    dtype = call.result_dtype(ElementType.FP32)
    initial = call.attributes.get("init_value")
    if isinstance(initial, (int, float)):
        return Array(fill(shape, initial, dtype, call.arithmetic), dtype, tuple(shape))
    return Array(poison(shape, dtype, call.arithmetic), dtype, tuple(shape))


def full(call: Invocation) -> Array:
    """One value in each element."""
    shape = call.result.shape if call.result is not None else call.integers(0)
    dtype = call.result_dtype(ElementType.FP32)
    value = call.attributes.get("value", call.operands[1] if len(call.operands) > 1 else None)
    if not isinstance(value, (bool, int, float)):
        raise OperationError(f"expected a number to fill {call.name} with, found {describe(value)}")
    return Array(
        round_to(fill(shape, value, dtype, call.arithmetic), dtype, call.arithmetic), dtype, tuple(shape)
    )


def sequence(call: Invocation) -> Array:
    """`ci`: consecutive integers in the first row."""
    shape = call.integers(1)
    dtype = call.result_dtype(ElementType.INT32)
    start, length = call.integer(0), shape[-1]
    centre = torch.arange(length, dtype=torch.int64)
    centre = (start - centre) if call.flag("descending") else (start + centre)
    radius = torch.zeros(length, dtype=torch.float64) if call.arithmetic is ArithmeticMode.BOUNDED else None
    row = round_to(
        Numbers(centre, radius).rearrange(lambda each: each.reshape(*[1] * (len(shape) - 1), length)),
        dtype,
        call.arithmetic,
    )
    return Array(pad_with_poison(row, shape, dtype, call.arithmetic), dtype, tuple(shape))


def reshape(call: Invocation) -> Array:
    """The same elements in order, with other axes."""
    source = call.array(0)
    shape = call.integers(1)
    if math.prod(shape) != math.prod(source.shape):
        raise WrongDumpError(
            f"expected a shape of as many elements as {list(source.shape)}, found {list(shape)}"
        )
    numbers = source.numbers.rearrange(lambda each: each.reshape(shape))
    return Array(numbers, source.dtype, tuple(shape))


def transpose(call: Invocation) -> Array:
    """Two axes swapped: the last two, or those that the call names."""
    source = call.array(0)
    left, right = (-2, -1) if len(call.operands) < 3 else (call.integer(1), call.integer(2))
    valid = list(source.valid)
    valid[left], valid[right] = valid[right], valid[left]
    return Array(
        source.numbers.rearrange(lambda each: each.transpose(left, right)), source.dtype, tuple(valid)
    )


def copy(call: Invocation) -> Array:
    """A copy in another memory space. A move from the accumulator may convert, and then rounds to nearest."""
    source = call.array(0)
    return _move(call, source.numbers.copy(), source, source.valid)


def _move(call: Invocation, numbers: Numbers, source: Array, valid: tuple[int, ...]) -> Array:
    """Return elements of `source` in other places. They are rounded only if their type changes."""
    dtype = call.result_dtype(source.dtype)
    return Array(_convert(numbers, source.dtype, dtype, call.arithmetic), dtype, valid)


def _convert(
    numbers: Numbers, source: ElementType, target: ElementType, arithmetic: ArithmeticMode
) -> Numbers:
    return numbers if source is target else round_to(numbers, target, arithmetic)


def swap_layout(call: Invocation) -> Array:
    """`as_layout`: the same bytes, read in the other order of the last two axes.

    The compiler drops a call that keeps the order. So a call on a square tensor transposes it, too.
    """
    source = call.array(0)
    shape = call.result.shape if call.result is not None else None
    transposed = (*source.shape[:-2], *reversed(source.shape[-2:]))
    if shape == source.shape != transposed:
        return Array(source.numbers, source.dtype, source.valid)
    if len(source.shape) < 2 or shape not in (None, transposed):
        raise OperationError(
            f"expected {list(source.shape)} or {list(transposed)} as the shape of {call.name}, found {shape}"
        )
    valid = (*source.valid[:-2], *reversed(source.valid[-2:]))
    return Array(source.numbers.rearrange(lambda each: each.mT), source.dtype, valid)


def view(call: Invocation) -> Array:
    """`view`: the same bytes in another shape or in another layout. Operands: source, shape, valid shape."""
    if len(call.operands) == 1:
        return swap_layout(call)
    if "layout" in call.attributes:
        raise OperationError(f"expected a shape or a layout for {call.name}, found both")
    shaped = reshape(call)
    return (
        replace(shaped, valid=_clip_valid(call.operands[2], shaped.shape))
        if len(call.operands) > 2
        else shaped
    )


def slice_part(call: Invocation) -> Array:
    """`slice`: a part of an array. Operands: source, shape, offset, valid shape, dropped axes."""
    source = call.array(0)
    shape, offsets = call.integers(1), call.integers(2)
    numbers, found = slice_window(source.numbers, offsets, shape)
    if found != shape:
        numbers = pad_with_poison(numbers, shape, source.dtype, call.arithmetic)
    valid = found
    stated = call.operands[3] if len(call.operands) > 3 else call.attributes.get("valid_shape")
    if isinstance(stated, tuple) and stated:
        valid = _clip_valid(stated, found)
    dropped = call.operands[4] if len(call.operands) > 4 else call.attributes.get("drop_dims")
    if isinstance(dropped, tuple) and dropped:
        axes = require_integers(dropped, "dropped axes")
        units = {axis for axis, length in enumerate(shape) if length == 1}
        if not units.issuperset(axes) or len(set(axes)) != len(axes):
            raise OperationError(f"expected axes of length 1 of {list(shape)} to drop, found {list(axes)}")
        numbers = numbers.rearrange(lambda each: each.squeeze(axes))
        valid = tuple(length for axis, length in enumerate(valid) if axis not in axes)
    return Array(numbers, source.dtype, valid)


def _clip_valid(stated: Value, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a stated valid shape, which ends where the array ends."""
    valid = require_integers(stated, "a valid shape")
    if len(valid) != len(shape):
        raise OperationError(f"expected a valid shape within {list(shape)}, found {list(valid)}")
    return tuple(max(0, min(pair)) for pair in zip(valid, shape, strict=True))


def extract(call: Invocation) -> Array:
    """A copy of a part. Operands: source, row, column, shape."""
    source = call.array(0)
    shape = call.integers(3)
    numbers, found = slice_window(source.numbers, (call.integer(1), call.integer(2)), shape)
    padded = pad_with_poison(numbers.copy(), shape, source.dtype, call.arithmetic)
    return _move(call, padded, source, found)


def concatenate(call: Invocation) -> Array:
    """Two tiles side by side. The right one begins after the valid columns of the left one (`TCONCAT`)."""
    left, right = call.array(0), call.array(1)
    if left.shape[:-1] != right.shape[:-1]:
        raise OperationError(
            f"expected tiles of as many rows in {call.name}, found {list(left.shape)} and {list(right.shape)}"
        )
    rows = tuple(min(pair) for pair in zip(left.valid[:-1], right.valid[:-1], strict=True))
    window = tuple(slice(0, length) for length in rows)
    parts = [valid_part(each).rearrange(lambda tensor: tensor[window]) for each in (left, right)]
    first, second = parts
    radius = None
    if first.radius is not None and second.radius is not None:
        radius = torch.cat([first.radius, second.radius], -1)
    joined = Numbers(torch.cat([first.centre, second.centre], -1), radius)
    shape = (*left.shape[:-1], left.shape[-1] + right.shape[-1])
    padded = pad_with_poison(joined, shape, left.dtype, call.arithmetic)
    return _move(call, padded, left, joined.shape)


def assemble(call: Invocation) -> Array:
    """Write `source` into the target at the offsets: in place for a tensor, into a copy for a tile."""
    target, source = call.array(0), call.array(1)
    result = target.numbers if call.name.startswith("tensor.") else target.numbers.copy()
    _write(result, source, call.integers(2), adds=accumulates(call), call=call, dtype=target.dtype)
    if call.name.startswith("tensor."):
        return target
    return Array(result, target.dtype, target.shape)


def accumulates(call: Invocation) -> bool:
    """Return whether the operation adds to what is there."""
    value = call.attributes.get("atomic")
    return value.last == "Add" if isinstance(value, NamedConstant) else bool(value)


def _write(
    into: Numbers,
    source: Array,
    offsets: Sequence[int],
    *,
    adds: bool,
    call: Invocation,
    dtype: ElementType,
    lengths: Sequence[int] | None = None,
) -> None:
    """Write the valid part of `source` at `offsets`, cut where the target ends."""
    part = valid_part(source)
    if lengths is None:
        # A part may have more axes of length 1 than its target, or fewer.
        lengths = (*[1] * (len(offsets) - len(part.shape)), *part.shape)[-len(offsets) :]
    if len(lengths) != len(into.shape) or math.prod(lengths) != math.prod(part.shape):
        raise WrongDumpError(
            f"expected a part of {list(into.shape)}, found {list(part.shape)} at {list(offsets)}"
        )
    part = part.rearrange(lambda each: each.reshape(tuple(lengths)))
    window, found = slice_window(into, offsets, lengths)
    part = part.rearrange(lambda each: each[tuple(slice(0, length) for length in found)])
    window.assign(round_to(window + part if adds else part, dtype, call.arithmetic))


def load(call: Invocation) -> Array:
    """A part of a tensor in a tile. Operands: tensor, offsets, shape, valid shape."""
    source = call.array(0)
    offsets, shape = call.integers(1), call.integers(2)
    numbers, found = slice_window(source.numbers, offsets, shape)
    valid = found
    stated = call.operands[3] if len(call.operands) > 3 else call.attributes.get("valid_shapes")
    if isinstance(stated, tuple) and stated:
        valid = _clip_valid(stated, found)
    if valid != found:
        numbers = numbers.rearrange(lambda each: each[tuple(slice(0, length) for length in valid)])
    numbers = pad_with_poison(numbers.copy(), shape, source.dtype, call.arithmetic)
    if call.flag("transpose"):
        numbers = numbers.rearrange(lambda each: each.mT)
        valid = (*valid[:-2], valid[-1], valid[-2])
    result = call.result
    if result is not None and result.shape != numbers.shape and math.prod(shape) == math.prod(result.shape):
        # All axes but the last become one. The type states which of its rows are valid.
        return Array(numbers.rearrange(lambda each: each.reshape(result.shape)), source.dtype, result.valid)
    return Array(numbers, source.dtype, valid)


def store(call: Invocation) -> Array:
    """Write a tile to a part of a tensor. Operands: tile, offsets, tensor, and the shape of the part if it differs."""
    source, target = call.array(0), call.array(2)
    lengths = call.integers(3) if len(call.operands) > 3 and call.operands[3] else None
    if lengths is not None and math.prod(lengths) != math.prod(source.valid):
        lengths = (*lengths[:-2], *source.valid) if math.prod(lengths[:-2]) == 1 else lengths
    _write(
        target.numbers,
        source,
        call.integers(1),
        adds=accumulates(call),
        call=call,
        dtype=target.dtype,
        lengths=lengths,
    )
    return target


def _element_place(index: Sequence[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return an element's index in each axis. A single index counts the elements of the whole array."""
    limits = (math.prod(shape),) if len(index) == 1 else shape
    if len(index) != len(limits):
        raise OperationError(f"expected an index into {list(shape)}, found {list(index)}")
    for each, limit in zip(index, limits, strict=True):
        if not 0 <= each < limit:
            raise WrongDumpError(f"expected an index from 0 to {limit - 1}, found {each}")
    if len(index) != 1:
        return tuple(index)
    return tuple(int(each) for each in torch.unravel_index(torch.tensor(index[0]), shape))


def read_element(call: Invocation) -> Value:
    """One element as a scalar. It must be exact, because a scalar has no bound of its error."""
    source = call.array(0)
    place = _element_place(call.integers(1), source.shape)
    element = source.numbers.rearrange(lambda each: each[place])
    if element.radius is not None and element.radius.item() != 0:
        raise OperationError("expected an exact element to read as a scalar, found one that was rounded")
    value = element.centre.item()
    return bool(value) if source.dtype.kind is Kind.BOOL else value


def write_element(call: Invocation) -> Array:
    """Replace one element: in place for a tensor, in a copy for a tile."""
    target = call.array(0)
    result = (
        target
        if call.name.startswith("tensor.")
        else Array(target.numbers.copy(), target.dtype, target.valid)
    )
    value = round_to(call.numbers(2, target), target.dtype, call.arithmetic)
    place = _element_place(call.integers(1), target.shape)
    result.numbers.rearrange(lambda each: each[place]).assign(value)
    return result


def fill_pad(call: Invocation) -> Array:
    """The valid part, filled up to the result's shape."""
    source = call.array(0)
    dtype = source.dtype
    shape = call.integers(1) if len(call.operands) > 1 else source.shape
    numbers = fill(shape, _pad_value(call, dtype), dtype, call.arithmetic)
    part = valid_part(source)
    numbers.rearrange(lambda each: each[tuple(slice(0, length) for length in part.shape)]).assign(part)
    return Array(numbers, dtype, tuple(shape))


def _pad_value(call: Invocation, dtype: ElementType) -> float:
    if "pad_value" not in call.attributes:
        return 0
    low, high = -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    if dtype.is_float:
        low, high = -math.inf, math.inf
    elif dtype.kind is Kind.UNSIGNED:
        low, high = 0, 2**dtype.bits - 1
    values = {"zero": 0, "null": 0, "min": low, "max": high}
    word = call.word("pad_value")
    if word not in values:
        raise OperationError(
            f"expected one of {', '.join(values)} as the pad_value of {call.name}, "
            f"found {describe(call.attributes['pad_value'])}"
        )
    return values[word]


def set_valid_shape(call: Invocation) -> Array:
    """The same elements, with another valid shape."""
    source = call.array(0)
    valid = (call.integer(1), call.integer(2)) if len(call.operands) > 2 else call.integers(1)
    return Array(source.numbers, source.dtype, _clip_valid(valid, source.shape))


# Gathering, scattering and sorting


def _array_operands(call: Invocation, count: int) -> list[Array]:
    """Return the first operands that are arrays. `index` and `src` may be keywords."""
    operands = (*call.operands, *(call.attributes.get(name) for name in ("index", "src")))
    arrays = [each for each in operands if isinstance(each, Array)]
    if len(arrays) < count:
        raise OperationError(f"expected {count} arrays as operands of {call.name}, found {len(arrays)}")
    return arrays[:count]


def _require_axis(call: Invocation, axis: int, rank: int) -> None:
    """Raise an `OperationError` if the call names another axis than the compiler lowers (`scatter.cpp`)."""
    named = next((each for each in call.operands if isinstance(each, int)), call.number("dim", axis))
    if named not in (axis, axis + rank):
        raise OperationError(f"expected {axis} as the axis of {call.name}, found {named}")


def gather(call: Invocation) -> Array:
    """`result[i, j] = source[i, index[i, j]]` for tensors. A tile's index counts elements of the whole source."""
    source, index = _array_operands(call, 2)
    part = valid_part(index)
    if call.name.startswith("tensor."):
        _require_axis(call, -1, len(source.shape))
        where = _check_bounds(part.centre, source.shape[-1])
        numbers = source.numbers.rearrange(lambda each: each.gather(-1, where))
    else:
        where = _check_bounds(part.centre, math.prod(source.shape))
        numbers = source.numbers.rearrange(lambda each: each.reshape(-1)[where])
    if numbers.radius is not None and part.radius is not None:
        # Nothing is known of an element that an uncertain index chose.
        numbers = Numbers(numbers.centre, torch.where(part.radius > 0, torch.inf, numbers.radius))
    padded = pad_with_poison(numbers, index.shape, source.dtype, call.arithmetic)
    return _move(call, padded, source, index.valid)


def _check_bounds(index: Tensor, limit: int) -> Tensor:
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= limit):
        raise OperationError(
            f"expected indices from 0 to {limit - 1}, found {int(index.min())} to {int(index.max())}"
        )
    return index


_MASKS = {
    "P0101": (0, 2),
    "P1010": (1, 2),
    "P0001": (0, 4),
    "P0010": (1, 4),
    "P0100": (2, 4),
    "P1000": (3, 4),
    "P1111": (0, 1),
}
"""Each of the chip's mask patterns has a first column and a step. In a dump they are numbered from 1."""


def _masked_columns(call: Invocation) -> slice:
    """Return the columns that a mask names: all, each second, or each fourth."""
    pattern = call.attributes.get("mask_pattern", len(_MASKS))
    name = pattern.last if isinstance(pattern, NamedConstant) else ""
    if isinstance(pattern, int) and 1 <= pattern <= len(_MASKS):
        name = list(_MASKS)[pattern - 1]
    if name not in _MASKS:
        raise OperationError(f"expected a mask pattern from 1 to {len(_MASKS)}, found {describe(pattern)}")
    first, step = _MASKS[name]
    return slice(first, None, step)


def gather_mask(call: Invocation) -> Array:
    """The columns that a mask names, side by side. Their bits may be read as another type."""
    source = call.array(0)
    columns = _masked_columns(call)
    numbers = source.numbers.rearrange(lambda each: each[..., columns].clone())
    dtype = call.result_dtype(source.dtype)
    if dtype is not source.dtype:
        numbers = _reinterpret_bits(numbers, source.dtype, dtype, call.arithmetic)
    valid = len(range(source.valid[-1])[columns])
    return Array(numbers, dtype, (*source.valid[:-1], valid))


def _reinterpret_bits(
    numbers: Numbers, source: ElementType, target: ElementType, arithmetic: ArithmeticMode
) -> Numbers:
    """Read the bits of numbers as another type. Nothing is known of the bits of an uncertain number."""
    if source.bits != target.bits:
        raise OperationError(
            f"expected a type of {source.bits} bits to read {source.label} as, found {target.label}"
        )
    result = tensor_numbers(decode_bytes(encode_bytes(numbers, source), target).centre, target, arithmetic)
    if numbers.radius is None:
        return result
    return Numbers(result.centre, torch.where(numbers.radius > 0, torch.inf, 0.0).to(torch.float64))


def scatter(call: Invocation) -> Array:
    """`result[i, index[i, j]] = source[i, j]` for tensors. A tile's index counts elements of the whole target.

    The operands are `input, index, src` of a tensor and `dst, src, index` of a tile. Both make a new array, because the
    compiler stores a tensor's result to another tensor (`ConvertTensorToTileOps`).
    """
    target, *rest = _array_operands(call, 3)
    result = target.numbers.copy()
    if call.name.startswith("tensor."):
        index, source = rest
        _require_axis(call, -1, len(target.shape))
        if not len(target.shape) == len(index.shape) == 2 or index.shape[0] > target.shape[0]:
            raise OperationError(
                f"expected an index into the rows of {list(target.shape)}, found {list(index.shape)}"
            )
        _check_bounds(valid_part(index).centre, target.shape[-1])
        first = torch.arange(index.shape[0]).unsqueeze(-1) * target.shape[-1]
        index = Array(Numbers(index.numbers.centre + first, index.numbers.radius), index.dtype, index.valid)
    else:
        source, index = rest
    _write_indexed(result, target.dtype, index, source, call.arithmetic)
    return Array(result, target.dtype, target.shape)


def _write_indexed(
    target: Numbers, dtype: ElementType, index: Array, source: Array, arithmetic: ArithmeticMode
) -> None:
    """Write the valid elements of `source` to the elements of `target` at the valid indices."""
    if index.shape != source.shape:
        raise OperationError(
            f"expected an index for each element of {list(source.shape)}, found {list(index.shape)}"
        )
    is_valid = (valid_mask(index) & valid_mask(source)).reshape(-1)
    where, values = (
        each.rearrange(lambda tensor: tensor.reshape(-1)[is_valid])
        for each in (index.numbers, source.numbers)
    )
    _write_last(target, where, _convert(values, source.dtype, dtype, arithmetic))


def _write_last(target: Numbers, places: Numbers, values: Numbers) -> None:
    """Write values to places of the target, in place. Of several values at one place, the last one stays.

    The places count elements of the target, or its rows if the values are rows.
    """
    axes = target.shape[: len(target.shape) - len(values.shape) + 1]
    order = _check_bounds(places.centre, math.prod(axes)).argsort(stable=True)
    ordered = places.centre[order]
    is_last = torch.ones(ordered.shape, dtype=torch.bool)
    is_last[:-1] = ordered[1:] != ordered[:-1]
    at = torch.unravel_index(ordered[is_last], axes)
    kept = values.rearrange(lambda each: each[order[is_last]])
    target.put(at, kept)
    if target.radius is None:
        return
    if places.radius is not None and places.radius.any():
        # An uncertain index may have changed any element.
        target.radius.fill_(torch.inf)
    else:
        target.radius[at] = (
            torch.zeros_like(kept.centre, dtype=torch.float64) if kept.radius is None else kept.radius
        )


def scatter_mask(call: Invocation) -> Array:
    """Write the source to the columns of the target that a mask names.

    The operands are `dst, src` of a tile and `input, dst` of a tensor. Both make a new array (see `scatter`).
    """
    target, source = _array_operands(call, 2)
    if call.name.startswith("tensor."):
        target, source = source, target
    columns = _masked_columns(call)
    result = target.numbers.copy()
    masked = result.rearrange(lambda each: each[..., columns])
    if masked.shape != source.shape:
        raise OperationError(
            f"expected a source of shape {list(masked.shape)} in {call.name}, found {list(source.shape)}"
        )
    part = valid_part(source)
    window, _ = slice_window(masked, [0] * len(part.shape), part.shape)
    window.assign(_convert(part, source.dtype, target.dtype, call.arithmetic))
    return Array(result, target.dtype, target.shape)


def scatter_update(call: Invocation) -> Array:
    """Write each row of the source to the row of the target that the index names.

    A tensor changes in place, as in `torch_codegen`. A tile's result is a new tile.
    """
    target, index, source = _array_operands(call, 3)
    _require_axis(call, -2, len(target.shape))
    result = target.numbers if call.name.startswith("tensor.") else target.numbers.copy()
    width = target.shape[-1]
    if (
        len(target.shape) < 2
        or source.shape[-1] != width
        or math.prod(source.shape[:-1]) != math.prod(index.shape)
    ):
        raise OperationError(
            f"expected a row of {width} elements for each of {math.prod(index.shape)} indices, "
            f"found {list(source.shape)}"
        )
    columns = source.valid[-1]
    is_valid = valid_mask(index).reshape(-1) & valid_mask(source).reshape(-1, width).any(-1)
    where = index.numbers.rearrange(lambda each: each.reshape(-1)[is_valid])
    rows = source.numbers.rearrange(lambda each: each.reshape(-1, width)[is_valid, :columns])
    rows = _convert(rows, source.dtype, target.dtype, call.arithmetic)
    _write_last(result.rearrange(lambda each: each[..., :columns]), where, rows)
    return target if call.name.startswith("tensor.") else Array(result, target.dtype, target.shape)


def scatter_elements(call: Invocation) -> Array:
    """`mscatter`: write each element of a tile to the place in a tensor that the index names.

    An index counts elements from the beginning of the tensor, which changes in place.
    """
    source, index, target = call.array(0), call.array(1), call.array(2)
    _write_indexed(target.numbers, target.dtype, index, source, call.arithmetic)
    return target


def gather_row(call: Invocation) -> Array:
    """A copy of a tile with a part of a tensor in it. Operands: tile, tensor, offsets in both, shape."""
    target, source = call.array(0), call.array(1)
    into, origin, shape = call.integers(2), call.integers(3), call.integers(4)
    part, found = slice_window(source.numbers, origin, shape)
    if call.flag("transpose"):
        part, found = part.rearrange(lambda each: each.mT), tuple(reversed(found))
    result = target.numbers.copy()
    window, _ = slice_window(result, into, found)
    window.assign(part)
    return Array(result, target.dtype, target.shape)


def _sorted_pairs(values: Tensor, indices: Tensor) -> Tensor:
    """Return pairs of value and index side by side, descending by value. Equal values keep their order."""
    order = values.argsort(dim=-1, descending=True, stable=True)
    return torch.stack([values.gather(-1, order), indices.gather(-1, order)], -1).flatten(-2)


def _unknown_radius(call: Invocation, numbers: Numbers, centre: Tensor) -> Numbers:
    """Return sorted values without a bound of their error, because roundings may change their order."""
    if call.arithmetic is not ArithmeticMode.BOUNDED:
        return Numbers(centre)
    assert numbers.radius is not None
    return Numbers(centre, torch.full(centre.shape, torch.inf, dtype=torch.float64))


def sort_blocks(call: Invocation) -> Array:
    """`sort32`: blocks of 32, each sorted to pairs of a value and the bits of its index."""
    source, index = call.array(0), call.array(1)
    values = source.numbers.centre
    blocks = values.reshape(*values.shape[:-1], -1, min(32, values.shape[-1]))
    bits = (
        _reinterpret_bits(
            Numbers(index.numbers.centre), index.dtype, ElementType.FP32, call.arithmetic
        ).centre
        if not index.dtype.is_float
        else index.numbers.centre
    )
    bits = bits.to(values.dtype).expand(values.shape).reshape(blocks.shape)
    centre = _sorted_pairs(blocks, bits).reshape(*values.shape[:-1], -1)
    return call.result_array(_unknown_radius(call, source.numbers, centre), source)


def merge_runs(call: Invocation) -> Array:
    """`mrgsort` of one list: each four runs of `block_len` elements become one."""
    source = call.array(0)
    length = call.integer(1) if len(call.operands) > 1 else call.number("block_len", 64)
    if length <= 0:
        raise OperationError(f"expected a run of at least one element, found {length}")
    values = source.numbers.centre
    width = values.shape[-1]
    parts = [_merge_pairs([values[..., at : at + 4 * length]]) for at in range(0, width, 4 * length)]
    return call.result_array(_unknown_radius(call, source.numbers, torch.cat(parts, -1)), source)


def _merge_pairs(lists: Sequence[Tensor]) -> Tensor:
    values = torch.cat(list(lists), -1)
    pairs = values.reshape(*values.shape[:-1], -1, 2)
    return _sorted_pairs(pairs[..., 0], pairs[..., 1])


def merge_lists(call: Invocation) -> Array:
    """`mrgsort` of two to four lists. For tiles, the last operand is scratch."""
    arrays = [each for each in call.operands if isinstance(each, Array)]
    sources = arrays if call.name.startswith("tensor.") else arrays[:-1]
    centre = _merge_pairs([each.numbers.centre for each in sources])
    shape = call.result.shape if call.result is not None else tuple(centre.shape)
    centre = centre[..., : shape[-1]]
    return call.result_array(_unknown_radius(call, sources[0].numbers, centre), sources[0])
