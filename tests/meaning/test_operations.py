"""Each operation against torch, in the arithmetics; what torch says in another order is said here by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from precision_bisect.meaning.arithmetic import (
    ArithmeticMode,
    Numbers,
    decode_bytes,
    encode_bytes,
    round_floats,
    round_to,
)
from precision_bisect.meaning.ir import ElementType, NamedConstant
from precision_bisect.meaning.operations import OPERATIONS, find_operation
from precision_bisect.meaning.values import Array, Invocation, OperationError, Value

from .calls import TORCH, array, run, values

X = torch.tensor([[1.5, -2.0, 3.25, 0.5], [4.0, -0.75, 2.0, 8.0]])
Y = torch.tensor([[0.5, 3.0, -1.0, 2.0], [1.0, 1.5, -2.5, 0.25]])
COLUMN = torch.tensor([[2.0], [-3.0]])
ROW = torch.tensor([[1.0, 2.0, -4.0, 0.5]])


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("tile.add", (X, Y), X + Y),
        ("tile.subs", (X, 2.5), X - 2.5),
        ("tile.div", (X, Y), X / Y),
        ("tile.maximum", (X, Y), torch.maximum(X, Y)),
        ("tile.minimums", (X, 1), torch.clamp(X, max=1)),
        ("tile.fmod", (X, Y), torch.fmod(X, Y)),
        ("tile.rem", (X, Y), torch.remainder(X, Y)),
        ("tile.exp", (X,), torch.exp(X)),
        ("tile.rsqrt", (X.abs(),), torch.rsqrt(X.abs())),
        ("tile.recip", (X,), 1 / X),
        ("tile.lrelu", (X, 0.5), torch.where(X > 0, X, X * 0.5)),
        ("tile.row_expand_sub", (X, COLUMN), X - COLUMN),
        ("tile.row_expand_expdif", (X, COLUMN), torch.exp(X - COLUMN)),
        ("tile.col_expand_mul", (X, ROW), X * ROW),
        ("tile.row_expand", (X, COLUMN), COLUMN.expand(2, 4)),
        ("tile.expands", (X, 7), torch.full((2, 4), 7.0)),
        ("tile.row_sum", (X, X), X.sum(1, keepdim=True)),
        ("tile.col_max", (X,), X.amax(0, keepdim=True)),
        ("tile.row_prod", (X, X), X.prod(1, keepdim=True)),
        ("tile.row_argmax", (X, X), X.argmax(1, keepdim=True)),
        ("tile.col_argmin", (X, X), X.argmin(0, keepdim=True)),
        ("tile.matmul", (X, Y.T.contiguous()), X @ Y.T),
        ("tile.matmul_acc", (X[:, :2].contiguous(), X, Y.T.contiguous()), X[:, :2] + X @ Y.T),
        ("tile.transpose", (X, 0, 1), X.T),
        ("tile.reshape", (X, (4, 2)), X.reshape(4, 2)),
        ("tile.slice", (X, (1, 2), (1, 1)), X[1:2, 1:3]),
        ("tile.concat", (X, Y), torch.cat([X, Y], 1)),
        ("tile.assemble", (X, COLUMN, (0, 3)), torch.cat([X[:, :3], COLUMN], 1)),
        ("tile.extract", (X, 0, 2, (2, 2)), X[:, 2:]),
        ("tile.gather_mask", (X,), X),
    ],
)
def test_operations_compute_what_torch_does(
    name: str, operands: tuple[Value, ...], expected: torch.Tensor
) -> None:
    found = values(name, *operands)
    torch.testing.assert_close(found.to(expected.dtype), expected)


def test_operands_of_a_tile_are_not_changed() -> None:
    before = X.clone()
    target, source = array(X), array(COLUMN)
    call = Invocation(
        name="tile.assemble",
        operands=(target, source, (0, 0)),
        attributes={},
        result=None,
        arithmetic=ArithmeticMode.STATED,
    )
    find_operation("tile.assemble", call.operands).compute(call)
    assert torch.equal(target.numbers.centre, before)


def test_a_reduction_leaves_out_what_means_nothing() -> None:
    padded = torch.full((2, 4), 1000.0)
    padded[:, :3] = X[:, :3]
    partly = array(padded, (2, 3))
    assert torch.equal(values("tile.row_sum", partly, partly), X[:, :3].sum(1, keepdim=True))
    lower = array(padded, (1, 3))
    summed = values("tile.col_sum", lower)
    assert torch.equal(summed[:, :3], X[:1, :3])
    assert summed[0, 3].isnan()


def test_a_product_leaves_out_what_means_nothing() -> None:
    left, right = array(X, (2, 3)), array(Y.T.contiguous(), (3, 2))
    torch.testing.assert_close(values("tile.matmul", left, right), X[:, :3] @ Y[:, :3].T)


@pytest.mark.parametrize(
    ("mode", "whole"),
    [
        ("rint", [2, 2, -2, -2, 4]),
        ("round", [2, 3, -2, -3, 4]),
        ("floor", [1, 2, -2, -3, 3]),
        ("ceil", [2, 3, -1, -2, 4]),
        ("trunc", [1, 2, -1, -2, 3]),
        ("odd", [1, 3, -1, -3, 3]),
    ],
)
def test_rounding_modes_of_a_cast_to_integers(mode: str, whole: list[int]) -> None:
    halves = torch.tensor([[1.5, 2.5, -1.5, -2.5, 3.75]])
    found = values("tile.cast", halves, result=(ElementType.INT32, (1, 5)), mode=mode)
    assert found.tolist() == [whole]


def test_a_cast_saturates_and_wraps() -> None:
    large = torch.tensor([[300.0, -300.0, math.nan]])
    assert values("tile.cast", large, result=(ElementType.INT8, (1, 3)), mode="rint").tolist() == [
        [127, -128, 0]
    ]
    assert values("tile.adds", torch.tensor([[127]], dtype=torch.int8), 1).tolist() == [[-128]]


@pytest.mark.parametrize("dtype", [ElementType.FP16, ElementType.BFLOAT16])
def test_floats_round_to_nearest_and_ties_as_the_mode_says(dtype: ElementType) -> None:
    torch.manual_seed(0)
    numbers = torch.cat([torch.randn(500) * 10.0**k for k in range(-6, 5)])
    assert torch.equal(round_floats(numbers, dtype), numbers.to(TORCH[dtype]).to(torch.float32))
    step = 2.0 ** (1 - dtype.significant_bits)
    tie = torch.tensor([1 + step / 2, -1 - step / 2, 1 + 3 * step / 2])
    assert round_floats(tie, dtype, "rint").tolist() == [1, -1, 1 + 2 * step]
    assert round_floats(tie, dtype, "round").tolist() == [1 + step, -1 - step, 1 + 2 * step]
    assert round_floats(tie, dtype, "trunc").tolist() == [1, -1, 1 + step]
    assert round_floats(tie, dtype, "ceil").tolist() == [1 + step, -1, 1 + 2 * step]


def test_stated_results_are_rounded_once() -> None:
    x = torch.tensor([[1.0 + 2**-7]], dtype=torch.bfloat16)
    assert values("tile.mul", x, x).item() == (x * x).float().item()
    exact = values("tile.mul", x, x, arithmetic=ArithmeticMode.EXACT)
    assert exact.item() == (1 + 2**-7) ** 2


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "div", "exp", "row_sum", "row_max", "matmul", "sqrt", "cast"]
)
@pytest.mark.parametrize("dtype", [ElementType.FP32, ElementType.BFLOAT16, ElementType.FP16])
def test_bounds_hold_for_what_the_types_round(name: str, dtype: ElementType) -> None:
    """The chain of an operation after an inexact one, in the stated types, stays within its bound."""
    torch.manual_seed(len(name))
    one = (torch.rand(16, 16) * 4 + 0.1).to(TORCH[dtype])
    other = (torch.rand(16, 16) + 0.5).to(TORCH[dtype])

    def chain(arithmetic: ArithmeticMode) -> Array:
        first = run("tile.mul", one, other, arithmetic=arithmetic)
        operands: tuple[Value, ...] = {"exp": (first,), "sqrt": (first,), "cast": (first,)}.get(
            name, (first, first)
        )
        narrower = ElementType.BFLOAT16 if dtype is ElementType.FP16 else ElementType.FP16
        stated = {"matmul": (ElementType.FP32, (16, 16)), "cast": (narrower, (16, 16))}.get(name)
        found = run(f"tile.{name}", *operands, result=stated, arithmetic=arithmetic)
        assert isinstance(found, Array)
        return found

    stated, bounded = chain(ArithmeticMode.STATED), chain(ArithmeticMode.BOUNDED)
    assert not bounded.numbers.exceeds(stated.numbers.centre, room=1.01).any()
    # And the bound is no excuse for anything: an error of a few hundred units is outside.
    off = stated.numbers.centre + stated.numbers.centre.abs().clamp(min=1) * 2000 * max(
        dtype.unit_roundoff, 2.0**-9 if name == "cast" else 0
    )
    assert bounded.numbers.exceeds(off).all()


def test_a_product_of_integers_has_bounds() -> None:
    left, right = torch.randint(-9, 9, (4, 4), dtype=torch.int8), torch.eye(4, dtype=torch.int8)
    found = run(
        "tile.matmul", left, right, result=(ElementType.INT32, (4, 4)), arithmetic=ArithmeticMode.BOUNDED
    )
    assert isinstance(found, Array)
    assert torch.equal(found.numbers.centre, left.to(torch.int64))
    assert found.numbers.radius is not None
    assert not found.numbers.radius.any()


@pytest.mark.parametrize("dtype", [each for each in ElementType if each.bits >= 8])
def test_bytes_and_back(dtype: ElementType) -> None:
    numbers = round_to(
        Numbers(torch.tensor([[0.0, 1, -2, 120]]) if dtype.is_float else torch.tensor([[0, 1, -2, 120]])),
        dtype,
        ArithmeticMode.STATED,
    )
    content = encode_bytes(numbers, dtype)
    assert content.shape == (1, 4, dtype.bits // 8)
    assert torch.equal(decode_bytes(content, dtype).centre, numbers.centre)


def test_a_reduction_of_a_tile_without_valid_elements_has_none() -> None:
    found = run("tile.row_max", array(torch.ones(4, 8), (0, 0)))
    assert isinstance(found, Array)
    assert (found.shape, found.valid) == ((4, 1), (0, 1))
    with pytest.raises(OperationError, match="expected elements to reduce"):
        run("tile.row_max", array(torch.ones(4, 8), (4, 0)))


def test_sorting_in_blocks_and_runs() -> None:
    torch.manual_seed(1)
    x = torch.rand(1, 128)
    index = torch.arange(128, dtype=torch.int32).reshape(1, 128)
    pairs = run("tile.sort32", x, index)
    merged = run("tile.mrgsort_format1", pairs, 64)
    kept = run("tile.gather_mask", merged, mask_pattern=1)
    assert isinstance(kept, Array)
    assert torch.equal(kept.numbers.centre, x.sort(descending=True).values)
    places = run(
        "tile.gather_mask",
        merged,
        mask_pattern=2,
        result=(ElementType.INT32, (1, 128)),
        output_dtype=NamedConstant("INT32"),
    )
    assert isinstance(places, Array)
    assert torch.equal(places.numbers.centre[0], x[0].argsort(descending=True))


def test_a_store_is_cut_where_the_tensor_ends_and_adds_where_it_is_atomic() -> None:
    tensor = array(torch.ones(3, 4))
    run("tile.store", X, (2, 0), tensor)
    assert torch.equal(tensor.numbers.centre, torch.cat([torch.ones(2, 4), X[:1]]))
    run("tile.store", X, (0, 0), tensor, atomic=NamedConstant("AtomicType.Add"))
    assert torch.equal(tensor.numbers.centre[:2], 1 + X)


@pytest.mark.parametrize(
    ("name", "operands", "problem"),
    [
        ("tile.quantum", (X,), "expected an operation of the table, found tile.quantum"),
        ("tile.matmul", (X, Y), "expected matrices that fit"),
        ("tile.reshape", (X, (3, 3)), "expected a shape of as many elements"),
        ("tile.gather", (X, torch.tensor([[99]], dtype=torch.int32)), "expected indices from 0 to 7"),
        ("tile.slice", (X, (1, 1), (-1, 0)), "expected an offset of at least 0"),
        ("tile.add", (X,), "expected a value as operand 1"),
    ],
)
def test_operands_that_do_not_fit_are_named(name: str, operands: tuple[Value, ...], problem: str) -> None:
    with pytest.raises(OperationError, match=problem):
        run(name, *operands)


def test_an_operation_that_reads_ahead_is_not_in_place() -> None:
    """Found by definition: each row of the result is written before the next row of the operands is read."""
    binary: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "neg": lambda x: -x,
        "concat": lambda x: torch.cat([x, x], 1),
        "transpose": lambda x: x.T.contiguous(),
        "reverse": lambda x: x,
    }
    for name, function in binary.items():
        if name not in OPERATIONS:
            continue
        x = torch.arange(16.0).reshape(4, 4)
        memory = torch.zeros(64)
        memory[:16] = x.reshape(-1)
        wanted = function(x)
        width = wanted.shape[1]
        for row in range(wanted.shape[0]):
            now = memory[:16].reshape(4, 4)
            memory[row * width : (row + 1) * width] = function(now.clone())[row]
        survives = torch.equal(memory[: wanted.numel()].reshape(wanted.shape), wanted)
        assert survives == (0 in OPERATIONS[name].in_place), name
