"""Operations that move elements and compute none: windows, shapes, stores, pads, gathers, scatters and sorts.

Each function computes one row of the table of `operations`, and is named there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from .arithmetic import ArithmeticMode, Numbers, fill, poison, settle, tensor_numbers
from .ir import ElementType, Kind, LanguageConstant
from .values import (
    Array,
    Invocation,
    OperationError,
    ShapeError,
    Value,
    describe,
    pad_with_poison,
    require_integers,
    slice_window,
    valid_part,
)

Tensor = torch.Tensor

# Shapes and places


def create(call: Invocation) -> Array:
    """Elements that no one has written, or the initial value that a tensor is given."""
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
        settle(fill(shape, value, dtype, call.arithmetic), dtype, call.arithmetic), dtype, tuple(shape)
    )


def sequence(call: Invocation) -> Array:
    """`ci`: consecutive integers in the first row."""
    shape = call.integers(1)
    dtype = call.result_dtype(ElementType.INT32)
    start, length = call.integer(0), shape[-1]
    centre = torch.arange(length, dtype=torch.int64)
    centre = (start - centre) if call.flag("descending") else (start + centre)
    radius = torch.zeros(length, dtype=torch.float64) if call.arithmetic is ArithmeticMode.BOUNDED else None
    row = settle(
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
        raise ShapeError(f"expected a shape of as many elements as {list(source.shape)}, found {list(shape)}")
    numbers = source.numbers.rearrange(lambda each: each.reshape(shape))
    return Array(numbers, source.dtype, tuple(shape))


def transpose(call: Invocation) -> Array:
    """Two axes swapped: the last two, or those that the call names."""
    source = call.array(0)
    one, other = (-2, -1) if len(call.operands) < 3 else (call.integer(1), call.integer(2))
    valid = list(source.valid)
    valid[one], valid[other] = valid[other], valid[one]
    return Array(
        source.numbers.rearrange(lambda each: each.transpose(one, other)), source.dtype, tuple(valid)
    )


def keep(call: Invocation) -> Array:
    """The same elements."""
    source = call.array(0)
    return Array(source.numbers, call.result_dtype(source.dtype), source.valid)


def move(call: Invocation) -> Array:
    """A copy in another memory space; a move from the accumulator may convert, which rounds to nearest."""
    source = call.array(0)
    return call.result_array(source.numbers.copy(), source, valid=source.valid)


def swap_layout(call: Invocation) -> Array:
    """The same bytes, read in the other order of the last two axes."""
    source = call.array(0)
    shape = call.result.shape if call.result is not None else source.shape
    if shape != source.shape:
        numbers = source.numbers.rearrange(
            lambda each: (
                each.transpose(-2, -1) if each.transpose(-2, -1).shape == shape else each.reshape(shape)
            )
        )
        return Array(numbers, source.dtype, tuple(shape))
    return keep(call)


def slice_part(call: Invocation) -> Array:
    """Operands: source, shape, offset, valid shape, dropped axes."""
    source = call.array(0)
    shape, offsets = call.integers(1), call.integers(2)
    numbers, found = slice_window(source.numbers, offsets, shape)
    if found != shape:
        numbers = pad_with_poison(numbers, shape, source.dtype, call.arithmetic)
    valid = found
    given = call.operands[3] if len(call.operands) > 3 else call.attributes.get("valid_shape")
    if isinstance(given, tuple) and given:
        valid = tuple(min(pair) for pair in zip(require_integers(given, "a valid shape"), found, strict=True))
    dropped = call.operands[4] if len(call.operands) > 4 else call.attributes.get("drop_dims")
    if isinstance(dropped, tuple) and dropped:
        axes = sorted(require_integers(dropped, "dropped axes"), reverse=True)
        for axis in axes:
            numbers = numbers.rearrange(lambda each, axis=axis: each.squeeze(axis))
        valid = tuple(length for axis, length in enumerate(valid) if axis not in axes)
    return Array(numbers, source.dtype, tuple(valid))


def extract(call: Invocation) -> Array:
    """A copy of a part. Operands: source, row, column, shape."""
    source = call.array(0)
    shape = call.integers(3)
    numbers, found = slice_window(source.numbers, (call.integer(1), call.integer(2)), shape)
    return call.result_array(
        pad_with_poison(numbers.copy(), shape, source.dtype, call.arithmetic), source, valid=found
    )


def concatenate(call: Invocation) -> Array:
    """Two tiles side by side."""
    one, other = call.array(0), call.array(1)
    mine, theirs = one.numbers, other.numbers
    radius = None
    if mine.radius is not None and theirs.radius is not None:
        radius = torch.cat([mine.radius, theirs.radius], -1)
    centre = torch.cat([mine.centre, theirs.centre], -1)
    valid = (*one.valid[:-1], one.shape[-1] + other.valid[-1])
    return call.result_array(Numbers(centre, radius), one, valid=valid)


def assemble(call: Invocation) -> Array:
    """A tile's is a new tile; a tensor's is changed where it lies."""
    target, source = call.array(0), call.array(1)
    result = target.numbers if call.name.startswith("tensor.") else target.numbers.copy()
    _write(result, source, call.integers(2), is_atomic=_is_atomic(call), call=call, dtype=target.dtype)
    if call.name.startswith("tensor."):
        return target
    return Array(result, target.dtype, target.shape)


def _is_atomic(call: Invocation) -> bool:
    value = call.attributes.get("atomic")
    return value.last == "Add" if isinstance(value, LanguageConstant) else bool(value)


def _write(
    into: Numbers,
    source: Array,
    offsets: Sequence[int],
    *,
    is_atomic: bool,
    call: Invocation,
    dtype: ElementType,
    lengths: Sequence[int] | None = None,
) -> None:
    """Writes the valid part of `source` at `offsets`, cut where the target ends."""
    part = valid_part(source)
    if lengths is None:
        lengths = (*[1] * (len(offsets) - len(part.shape)), *part.shape)
    if len(lengths) != len(into.shape) or (
        math.prod(lengths) != math.prod(part.shape) and part.shape != tuple(lengths)
    ):
        raise ShapeError(
            f"expected a part of {list(into.shape)}, found {list(part.shape)} at {list(offsets)}"
        )
    part = part.rearrange(lambda each: each.reshape(tuple(lengths)))
    window, found = slice_window(into, offsets, lengths)
    part = part.rearrange(lambda each: each[tuple(slice(0, length) for length in found)])
    window.assign(settle(window + part if is_atomic else part, dtype, call.arithmetic))


def load(call: Invocation) -> Array:
    """Operands: tensor, offsets, shape, valid shape."""
    source = call.array(0)
    offsets, shape = call.integers(1), call.integers(2)
    numbers, found = slice_window(source.numbers, offsets, shape)
    valid = found
    given = call.operands[3] if len(call.operands) > 3 else call.attributes.get("valid_shapes")
    if isinstance(given, tuple) and given:
        valid = tuple(min(pair) for pair in zip(require_integers(given, "a valid shape"), found, strict=True))
    numbers = numbers.rearrange(lambda each: each[tuple(slice(0, length) for length in valid)])
    numbers = pad_with_poison(numbers.copy(), shape, source.dtype, call.arithmetic)
    if call.flag("transpose"):
        numbers = numbers.rearrange(lambda each: each.mT)
        valid = (*valid[:-2], valid[-1], valid[-2])
    loaded = Array(numbers, source.dtype, tuple(valid))
    stated = call.result.shape if call.result is not None else loaded.shape
    if loaded.shape != stated and math.prod(loaded.shape) == math.prod(stated):
        # The axes before the last are put together.
        rows = math.prod(valid[:-1]) if valid[1:-1] == tuple(shape[1:-1]) else math.prod(shape[:-1])
        numbers = numbers.rearrange(lambda each: each.reshape(stated))
        return Array(numbers, source.dtype, (rows, valid[-1]) if len(stated) == 2 else stated)
    return loaded


def store(call: Invocation) -> Array:
    """Operands: tile, offsets, tensor, and the shape of the part where the tile is flattened."""
    source, target = call.array(0), call.array(2)
    lengths = call.integers(3) if len(call.operands) > 3 and call.operands[3] else None
    if lengths is not None and math.prod(lengths) != math.prod(source.valid):
        lengths = (*lengths[:-2], *source.valid) if math.prod(lengths[:-2]) == 1 else lengths
    _write(
        target.numbers,
        source,
        call.integers(1),
        is_atomic=_is_atomic(call),
        call=call,
        dtype=target.dtype,
        lengths=lengths,
    )
    return target


def read_element(call: Invocation) -> Value:
    """One element as a scalar."""
    source = call.array(0)
    where = call.integers(1)
    centre = source.numbers.centre
    if len(where) == 1 and len(source.shape) > 1:
        centre = centre.reshape(-1)
    for index, limit in zip(where, centre.shape, strict=True):
        if not 0 <= index < limit:
            raise OperationError(f"expected an index below {limit}, found {index}")
    value = centre[where].item()
    return bool(value) if source.dtype.kind is Kind.BOOL else value


def write_element(call: Invocation) -> Array:
    """One element replaced: of a new tile, or of the tensor itself."""
    target = call.array(0)
    where = call.integers(1)
    result = (
        target
        if call.name.startswith("tensor.")
        else Array(target.numbers.copy(), target.dtype, target.valid)
    )
    value = settle(call.numbers(2, target), target.dtype, call.arithmetic)

    def element(each: Tensor) -> Tensor:
        return (each.view(-1) if len(where) == 1 and each.dim() > 1 else each)[where]

    for index, limit in zip(
        where, target.shape if len(where) > 1 else (math.prod(target.shape),), strict=True
    ):
        if not 0 <= index < limit:
            raise OperationError(f"expected an index below {limit}, found {index}")
    result.numbers.rearrange(element).assign(value)
    return result


def fill_pad(call: Invocation) -> Array:
    """What lies outside the valid shape is filled, up to the result's shape."""
    source = call.array(0)
    dtype = source.dtype
    shape = call.integers(1) if len(call.operands) > 1 else source.shape
    value = _pad_value(call.word("pad_value", "zero"), dtype)
    numbers = fill(shape, value, dtype, call.arithmetic)
    part = valid_part(source)
    numbers.rearrange(lambda each: each[tuple(slice(0, length) for length in part.shape)]).assign(part)
    return Array(numbers, dtype, tuple(shape))


def _pad_value(word: str, dtype: ElementType) -> float:
    if word in ("zero", "null"):
        return 0
    if dtype.is_float:
        return math.inf if word == "max" else -math.inf
    low, high = (
        (0, 2**dtype.bits - 1)
        if dtype.kind is Kind.UNSIGNED
        else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
    )
    return high if word == "max" else low


def set_valid_shape(call: Invocation) -> Array:
    """The same elements, of which others mean something."""
    source = call.array(0)
    valid = (call.integer(1), call.integer(2)) if len(call.operands) > 2 else call.integers(1)
    return Array(source.numbers, source.dtype, valid)


# Gathering, scattering and sorting


def gather(call: Invocation) -> Array:
    """`result[i, j] = source[i, index[i, j]]` for tensors; a tile's index counts elements of the whole source."""
    source = call.array(0)
    index = next(each for each in call.operands[1:] if isinstance(each, Array))
    where = index.numbers.centre
    if call.name.startswith("tensor."):
        limit = source.shape[-1]
        numbers = source.numbers.rearrange(lambda each: each.gather(-1, _check_bounds(where, limit)))
    else:
        limit = math.prod(source.shape)
        numbers = source.numbers.rearrange(lambda each: each.reshape(-1)[_check_bounds(where, limit)])
    return call.result_array(_mark_uncertain(numbers, index.numbers), source, valid=index.valid)


def _mark_uncertain(numbers: Numbers, index: Numbers) -> Numbers:
    """Nothing is known of what an uncertain index chose."""
    if numbers.radius is None or index.radius is None:
        return numbers
    return Numbers(numbers.centre, torch.where(index.radius > 0, torch.inf, numbers.radius))


def _check_bounds(index: Tensor, limit: int) -> Tensor:
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= limit):
        raise OperationError(
            f"expected indices from 0 to {limit - 1}, found {int(index.min())} to {int(index.max())}"
        )
    return index


_MASK_STEPS = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}
"""Each of the chip's mask patterns has a first column and a step."""


def gather_mask(call: Invocation) -> Array:
    """Each second or each fourth column."""
    source = call.array(0)
    first, step = _MASK_STEPS[call.number("mask_pattern", 7)]
    numbers = source.numbers.rearrange(lambda each: each[..., first::step].clone())
    dtype = call.result_dtype(source.dtype)
    if dtype.is_float != source.dtype.is_float:
        numbers = _same_bits(numbers, dtype, call.arithmetic)
    return Array(numbers, dtype, numbers.shape)


def _same_bits(numbers: Numbers, dtype: ElementType, arithmetic: ArithmeticMode) -> Numbers:
    """32 bits of a float as an integer, or back."""
    if dtype.is_float:
        centre = numbers.centre.to(torch.int32).view(torch.float32)
    else:
        centre = numbers.centre.to(torch.float32).contiguous().view(torch.int32)
    return tensor_numbers(centre, dtype, arithmetic)


def scatter(call: Invocation) -> Array:
    """Tensor: `input, dim, index, src`, along a row. Tile: `dst, src, index`, which counts elements of all of `dst`."""
    target = call.array(0)
    if call.name.startswith("tensor."):
        index = next(
            each for each in call.operands[1:] if isinstance(each, Array) and not each.dtype.is_float
        )
        source = next(
            each for each in reversed(call.operands) if isinstance(each, Array) and each is not index
        )
        result = target.numbers.rearrange(lambda each: each.clone())
        result.centre.scatter_(
            -1, _check_bounds(index.numbers.centre, target.shape[-1]), source.numbers.centre
        )
    else:
        source, index = call.array(1), call.array(2)
        result = target.numbers.copy()
        where = _check_bounds(index.numbers.centre, math.prod(target.shape)).reshape(-1)
        result.centre.view(-1)[where] = source.numbers.centre.reshape(-1)
        if result.radius is not None and source.numbers.radius is not None:
            result.radius.view(-1)[where] = source.numbers.radius.reshape(-1)
    return Array(result, target.dtype, target.shape)


def scatter_mask(call: Invocation) -> Array:
    """Tile: `dst, src`. Tensor: `input, dst`, which it prints the other way round."""
    target, source = call.array(0), call.array(1)
    if call.name.startswith("tensor."):
        target, source = source, target
    first, step = _MASK_STEPS[call.number("mask_pattern", 7)]
    result = target.numbers.copy()
    result.rearrange(lambda each: each[..., first::step]).assign(source.numbers)
    return Array(result, target.dtype, target.shape)


def scatter_update(call: Invocation) -> Array:
    """Rows of the first operand at the places that the index names."""
    arrays = [each for each in call.operands if isinstance(each, Array)]
    arrays += [each for name in ("index", "src") if isinstance(each := call.attributes.get(name), Array)]
    target, index, source = arrays[:3]
    result = target.numbers if call.name.startswith("tensor.") else target.numbers.copy()
    width = target.shape[-1]
    rows = result.rearrange(lambda each: each.reshape(-1, width))
    where = _check_bounds(index.numbers.centre.reshape(-1), rows.shape[0])
    rows.centre[where] = source.numbers.centre.reshape(-1, width)
    if rows.radius is not None and source.numbers.radius is not None:
        rows.radius[where] = source.numbers.radius.reshape(-1, width)
    return target if call.name.startswith("tensor.") else Array(result, target.dtype, target.shape)


def scatter_elements(call: Invocation) -> Array:
    """`mscatter`: each element of a tile to a place of the tensor, counted from its beginning."""
    source, index, target = call.array(0), call.array(1), call.array(2)
    flat = target.numbers.rearrange(lambda each: each.view(-1))
    where = _check_bounds(index.numbers.centre.reshape(-1), flat.shape[0])
    flat.centre[where] = source.numbers.centre.reshape(-1)
    if flat.radius is not None and source.numbers.radius is not None:
        flat.radius[where] = source.numbers.radius.reshape(-1)
    return target


def gather_row(call: Invocation) -> Array:
    """A part of a tensor, put into a tile. Operands: tile, tensor, two offsets, shape."""
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
    """Descending by value, equal values in the order they had; value and index side by side."""
    order = values.argsort(dim=-1, descending=True, stable=True)
    return torch.stack([values.gather(-1, order), indices.gather(-1, order)], -1).flatten(-2)


def _exact_only(call: Invocation, numbers: Numbers, centre: Tensor) -> Numbers:
    """A sort moves values by their order; what roundings do to the order, no bound says."""
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
        _same_bits(Numbers(index.numbers.centre), ElementType.FP32, call.arithmetic).centre
        if not index.dtype.is_float
        else index.numbers.centre
    )
    bits = bits.to(values.dtype).expand(values.shape).reshape(blocks.shape)
    centre = _sorted_pairs(blocks, bits).reshape(*values.shape[:-1], -1)
    return call.result_array(_exact_only(call, source.numbers, centre), source)


def merge_runs(call: Invocation) -> Array:
    """`mrgsort` of one list: each four runs of `block_len` elements become one."""
    source = call.array(0)
    length = call.integer(1) if len(call.operands) > 1 else call.number("block_len", 64)
    if length <= 0:
        raise OperationError(f"expected a run of at least one element, found {length}")
    values = source.numbers.centre
    width = values.shape[-1]
    parts = [_merge_pairs([values[..., at : at + 4 * length]]) for at in range(0, width, 4 * length)]
    return call.result_array(_exact_only(call, source.numbers, torch.cat(parts, -1)), source)


def _merge_pairs(lists: Sequence[Tensor]) -> Tensor:
    together = torch.cat(list(lists), -1)
    pairs = together.reshape(*together.shape[:-1], -1, 2)
    return _sorted_pairs(pairs[..., 0], pairs[..., 1])


def merge_lists(call: Invocation) -> Array:
    """`mrgsort` of two to four lists; the last operand of a tile's is room to work in."""
    arrays = [each for each in call.operands if isinstance(each, Array)]
    sources = arrays if call.name.startswith("tensor.") else arrays[:-1]
    centre = _merge_pairs([each.numbers.centre for each in sources])
    shape = call.result.shape if call.result is not None else tuple(centre.shape)
    centre = centre[..., : shape[-1]]
    return call.result_array(_exact_only(call, sources[0].numbers, centre), sources[0])
