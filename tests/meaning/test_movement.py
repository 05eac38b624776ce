"""Operations that move elements: what they write, what they leave, and what they know of uncertain elements."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from precision_bisect.meaning.arithmetic import ArithmeticMode, Numbers
from precision_bisect.meaning.ir import ElementType, NamedConstant
from precision_bisect.meaning.operations import find_operation
from precision_bisect.meaning.values import Array, Invocation, OperationError, Value

from .calls import array, run, values

BOUNDED = ArithmeticMode.BOUNDED
GRID = torch.arange(12.0).reshape(3, 4)
COLUMNS = torch.tensor([[3, 0], [1, 2]], dtype=torch.int32)


def uncertain(tensor: torch.Tensor, radius: float) -> Array:
    """An array in bounded arithmetic whose elements have this radius."""
    exact = array(tensor, arithmetic=BOUNDED)
    centre = exact.numbers.centre
    spread = torch.full(centre.shape, radius, dtype=torch.float64)
    return Array(Numbers(centre, spread), exact.dtype, exact.valid)


def moved(name: str, *operands: torch.Tensor | Value, **attributes: Any) -> Array:
    found = run(name, *operands, **attributes)
    assert isinstance(found, Array)
    return found


def radii(found: Array) -> torch.Tensor:
    assert found.numbers.radius is not None
    return found.numbers.radius


# Shapes


@pytest.mark.parametrize("shape", [(2, 3), (3, 3)])
def test_another_layout_swaps_the_last_two_axes_and_their_valid_lengths(shape: tuple[int, int]) -> None:
    x = torch.rand(shape)
    turned = (ElementType.FP32, (shape[1], shape[0]))
    found = moved("tensor.as_layout", array(x, (1, 2)), result=turned)
    assert torch.equal(found.numbers.centre, x.mT)
    assert found.valid == (2, 1)
    if shape[0] != shape[1]:
        kept = moved("tensor.as_layout", array(x, (1, 2)), result=(ElementType.FP32, shape))
        assert torch.equal(kept.numbers.centre, x)
        assert kept.valid == (1, 2)
        with pytest.raises(OperationError, match=r"as the shape of tensor\.as_layout"):
            run("tensor.as_layout", x, result=(ElementType.FP32, (1, 6)))


def test_a_part_may_have_more_axes_than_its_target() -> None:
    found = values("tensor.assemble", torch.zeros(3, 4), torch.ones(1, 2, 2), (1, 2))
    wanted = torch.zeros(3, 4)
    wanted[1:, 2:] = 1
    assert torch.equal(found, wanted)
    with pytest.raises(OperationError, match="expected a part"):
        run("tensor.assemble", torch.zeros(3, 4), torch.ones(2, 1, 2), (1, 2))


def test_a_view_has_another_shape_or_another_layout() -> None:
    x = torch.arange(12.0).reshape(2, 2, 3)
    assert torch.equal(values("tensor.view", x, (4, 3)), x.reshape(4, 3))
    assert moved("tensor.view", x, (4, 3), (3, 2)).valid == (3, 2)
    assert torch.equal(values("tensor.view", x, layout=NamedConstant("TensorLayout.DN")), x.mT)
    with pytest.raises(OperationError, match="found both"):
        run("tensor.view", x, (4, 3), layout=NamedConstant("TensorLayout.DN"))


def test_a_concatenation_begins_after_the_valid_columns() -> None:
    left, right = (
        array(torch.tensor([[1.0, 9], [2, 9]]), (2, 1)),
        array(torch.tensor([[3.0, 4], [9, 9]]), (1, 2)),
    )
    found = moved("tile.concat", left, right)
    assert found.valid == (1, 3)
    assert found.shape == (2, 4)
    assert found.numbers.centre[0, :3].tolist() == [1, 3, 4]
    assert found.numbers.centre[0, 3].isnan()
    assert found.numbers.centre[1].isnan().all()


def test_a_slice_drops_axes_of_length_one() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    found = moved("tensor.slice", x, (1, 3, 1), (1, 0, 2), (), (0, 2))
    assert torch.equal(found.numbers.centre, x[1, :, 2])
    assert found.valid == (3,)
    for axes in ((1,), (-1,), (3,), (0, 0)):
        with pytest.raises(OperationError, match=r"expected axes of length 1 of \[1, 3, 1\] to drop"):
            run("tensor.slice", x, (1, 3, 1), (1, 0, 2), (), axes)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("tensor.slice", ((2, 2), (0, 0), (2,))),
        ("tile.load", ((0, 0), (2, 2), (2, 2, 2))),
        ("tensor.set_validshape", ((2,),)),
    ],
)
def test_a_valid_shape_has_the_rank_of_its_array(name: str, operands: tuple[Value, ...]) -> None:
    with pytest.raises(OperationError, match="expected a valid shape within"):
        run(name, GRID, *operands)


def test_a_valid_shape_ends_where_the_array_ends() -> None:
    assert moved("tile.set_validshape", GRID, 5, 2).valid == (3, 2)


def test_a_transposed_load_of_three_axes_is_flattened_as_it_is_stated() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    flat = (ElementType.FP32, (8, 3))
    found = moved("tile.load", x, (0, 0, 0), (2, 3, 4), (2, 3, 4), transpose=True, result=flat)
    assert torch.equal(found.numbers.centre, x.mT.reshape(8, 3))
    assert found.valid == (8, 3)


# Single elements


def test_an_element_that_was_rounded_is_no_scalar() -> None:
    assert run("tile.read", uncertain(GRID, 0.0), (1, 2), arithmetic=BOUNDED) == 6
    with pytest.raises(OperationError, match="expected an exact element"):
        run("tile.read", uncertain(GRID, 9.0), (1, 2), arithmetic=BOUNDED)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("tile.move", ()),
        ("tile.extract", (1, 2, (2, 2))),
        ("tile.concat", (array(GRID, arithmetic=BOUNDED),)),
        ("tile.gather", (array(COLUMNS, arithmetic=BOUNDED),)),
    ],
)
def test_an_element_that_only_moves_stays_exact(name: str, operands: tuple[Value, ...]) -> None:
    stated = (ElementType.FP16, (1, 1))
    for result, is_exact in ((None, True), (stated, False)):
        found = run(name, uncertain(GRID, 0.0), *operands, result=result, arithmetic=BOUNDED)
        assert isinstance(found, Array)
        assert bool((radii(found) == 0).all()) == is_exact


@pytest.mark.parametrize("index", [(1, 2), (6,)])
def test_an_element_of_a_transposed_tensor(index: tuple[int, ...]) -> None:
    """The bytes of a view are in another order, and a flat index counts its elements."""
    view = Array(Numbers(GRID.T.contiguous().T), ElementType.FP32, (3, 4))
    assert not view.numbers.centre.is_contiguous()
    assert run("tensor.read", view, index) == 6
    run("tensor.write", view, index, 50.0)
    assert view.numbers.centre[1, 2] == 50


@pytest.mark.parametrize("index", [(1, 2, 0), (3, 0), (12,), (-1,)])
def test_an_index_that_does_not_fit(index: tuple[int, ...]) -> None:
    for name, operands in (("tile.read", ()), ("tile.write", (1.0,))):
        with pytest.raises(OperationError, match="expected an index"):
            run(name, GRID, index, *operands)


def test_padding_is_of_a_value_that_is_known() -> None:
    partial = array(GRID, (3, 3))
    for word, value in {"zero": 0.0, "min": -math.inf, "max": math.inf}.items():
        padded = values("tile.fillpad", partial, pad_value=NamedConstant(f"PadValue.{word}"))
        assert (padded[:, 3] == value).all()
    for unknown in (NamedConstant("PadValue.mean"), 3):
        with pytest.raises(OperationError, match="expected one of zero, null, min, max"):
            run("tile.fillpad", partial, pad_value=unknown)


# Gathering


def test_a_gather_reads_the_valid_part_of_its_index() -> None:
    index = torch.tensor([[2, 0, 77], [-5, -5, -5]], dtype=torch.int32)
    for name, wanted in (("tensor.gather", GRID[0, [2, 0]]), ("tile.gather", GRID.reshape(-1)[[2, 0]])):
        found = moved(name, GRID, array(index, (1, 2)))
        assert found.valid == (1, 2)
        assert torch.equal(found.numbers.centre[0, :2], wanted)
        assert found.numbers.centre[1].isnan().all()
        with pytest.raises(OperationError, match="expected indices from 0 to"):
            run(name, GRID, array(index, (1, 3)))


def test_only_the_last_axis_is_gathered_and_scattered() -> None:
    assert torch.equal(
        values("tensor.gather", GRID, COLUMNS, dim=1), GRID[:2].gather(1, COLUMNS.to(torch.int64))
    )
    for name, operands in (("tensor.gather", (COLUMNS,)), ("tensor.scatter", (COLUMNS, torch.ones(2, 2)))):
        with pytest.raises(OperationError, match="expected -1 as the axis"):
            run(name, GRID, *operands, dim=0)


def test_an_operand_that_is_missing_is_named() -> None:
    for name, operands in (("tensor.gather", ()), ("tensor.scatter", (COLUMNS, 1.0))):
        with pytest.raises(OperationError, match=f"arrays as operands of {name}"):
            run(name, GRID, *operands, dim=-1)


def test_nothing_is_known_of_what_an_uncertain_index_chose() -> None:
    found = run("tile.gather", array(GRID, arithmetic=BOUNDED), uncertain(COLUMNS, 1.0), arithmetic=BOUNDED)
    assert isinstance(found, Array)
    assert radii(found).isinf().all()


def test_the_columns_of_a_mask() -> None:
    x = torch.arange(16.0).reshape(2, 8)
    for pattern in (2, NamedConstant("pl.tile.MaskPattern.P1010")):
        found = moved("tile.gather_mask", array(x, (2, 5)), mask_pattern=pattern)
        assert torch.equal(found.numbers.centre, x[:, 1::2])
        assert found.valid == (2, 2)
        target = torch.zeros(2, 8)
        assert torch.equal(
            values("tile.scatter_mask", target, x[:, :4], mask_pattern=pattern)[:, 1::2], x[:, :4]
        )
    for name, operands in (("tile.gather_mask", (x,)), ("tile.scatter_mask", (x, x))):
        with pytest.raises(OperationError, match="expected a mask pattern from 1 to 7"):
            run(name, *operands, mask_pattern=8)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (torch.tensor([[1.5, -2.0]]), ElementType.INT32),
        (torch.tensor([[1.5, -2.0]], dtype=torch.float16), ElementType.INT16),
        (torch.tensor([[7, -1]], dtype=torch.int32), ElementType.UINT32),
    ],
)
def test_bits_are_read_as_another_type(source: torch.Tensor, target: ElementType) -> None:
    stored = {
        ElementType.INT32: torch.int32,
        ElementType.INT16: torch.int16,
        ElementType.UINT32: torch.uint32,
    }
    found = values("tile.gather_mask", source, result=(target, (1, 2)))
    assert torch.equal(found, source.view(stored[target]).to(torch.int64))


def test_bits_of_an_uncertain_number_are_unknown() -> None:
    stated = (ElementType.INT32, (3, 4))
    exact, rounded = (
        run("tile.gather_mask", uncertain(GRID, radius), result=stated, arithmetic=BOUNDED)
        for radius in (0.0, 1e-9)
    )
    assert isinstance(exact, Array)
    assert isinstance(rounded, Array)
    assert not radii(exact).any()
    assert radii(rounded).isinf().all()
    with pytest.raises(OperationError, match="expected a type of 32 bits"):
        run("tile.gather_mask", GRID, result=(ElementType.INT16, (3, 4)))


# Scattering


def test_a_scatter_of_a_tensor_is_a_new_tensor() -> None:
    """Pypto lowers it to a tile that is stored to an `Out` tensor; `input` keeps its elements."""
    target, source = array(torch.zeros(3, 4)), torch.tensor([[5.0, 6], [7, 8]])
    found = values("tensor.scatter", target, COLUMNS, source, dim=-1)
    assert torch.equal(found, torch.zeros(3, 4).scatter(1, COLUMNS.to(torch.int64), source))
    assert not target.numbers.centre.any()


SCATTERS = {
    "tensor.scatter": ((3, 4), COLUMNS, (2, 2), lambda target, index, source: (target, index, source)),
    "tile.scatter": ((3, 4), COLUMNS, (2, 2), lambda target, index, source: (target, source, index)),
    "tensor.scatter_update": ((4, 3), COLUMNS, (4, 3), lambda target, index, source: (target, index, source)),
    "tile.mscatter": ((3, 4), COLUMNS, (2, 2), lambda target, index, source: (source, index, target)),
}
"""For each scatter: the shape of its target, its index, the shape of its source, and the order of its operands."""


@pytest.mark.parametrize("name", SCATTERS)
def test_a_scatter_carries_bounds_and_rounds(name: str) -> None:
    shape, index, parts, order = SCATTERS[name]
    source = torch.full(parts, 1 + 2.0**-20)
    target = array(torch.zeros(shape, dtype=torch.bfloat16))
    rounded = moved(name, *order(target, index, source)).numbers.centre
    assert torch.equal(rounded, (rounded != 0).to(torch.float32))
    assert rounded.any()

    target = uncertain(torch.zeros(shape), 0.0)
    found = run(
        name, *order(target, array(index, arithmetic=BOUNDED), uncertain(source, 0.5)), arithmetic=BOUNDED
    )
    assert isinstance(found, Array)
    assert torch.equal(radii(found) == 0.5, found.numbers.centre != 0)

    target = uncertain(torch.zeros(shape), 0.0)
    found = run(name, *order(target, uncertain(index, 1.0), uncertain(source, 0.5)), arithmetic=BOUNDED)
    assert isinstance(found, Array)
    assert radii(found).isinf().all()


@pytest.mark.parametrize("name", SCATTERS)
def test_a_scatter_writes_what_is_valid_in_index_and_source(name: str) -> None:
    shape, index, parts, order = SCATTERS[name]
    spoilt = index.clone()
    spoilt[1] = 99
    source = torch.ones(parts)
    expected = moved(name, *order(array(torch.zeros(shape)), index[:1], source[: parts[0] // 2]))
    target = array(torch.zeros(shape))
    found = moved(name, *order(target, array(spoilt, (1, 2)), source))
    assert torch.equal(found.numbers.centre, expected.numbers.centre)
    source[parts[0] // 2 :] = torch.nan
    found = moved(name, *order(array(torch.zeros(shape)), index, array(source, (parts[0] // 2, parts[1]))))
    assert torch.equal(found.numbers.centre, expected.numbers.centre)
    with pytest.raises(OperationError, match="expected indices from 0 to"):
        run(name, *order(target, spoilt, torch.ones(parts)))


def test_the_last_of_several_elements_at_one_place_stays() -> None:
    index = torch.zeros(1, 50_000, dtype=torch.int32)
    source = torch.arange(50_000.0).reshape(1, -1)
    for name, operands in (("tile.scatter", (source, index)), ("tensor.scatter", (index, source))):
        assert values(name, torch.zeros(1, 50_000), *operands)[0, 0] == 49_999


def test_scatters_change_a_tensor_whose_rows_do_not_follow_one_another() -> None:
    whole = torch.zeros(4, 6)
    view = Array(Numbers(whole[:, :3]), ElementType.FP32, (4, 3))
    run("tensor.scatter_update", view, torch.tensor([[2, 0]], dtype=torch.int32), torch.ones(2, 3), dim=-2)
    assert whole[[0, 2], :3].all()
    assert whole.sum() == 6
    run("tile.mscatter", torch.full((1, 1), 7.0), torch.tensor([[4]], dtype=torch.int32), view)
    assert whole[1, 1] == 7


def test_a_row_is_updated_in_its_valid_columns() -> None:
    target = torch.zeros(3, 4)
    index = torch.tensor([[1]], dtype=torch.int32)
    found = values("tile.scatter_update", target, index, array(torch.ones(1, 4), (1, 3)))
    assert found.tolist() == [[0] * 4, [1, 1, 1, 0], [0] * 4]
    with pytest.raises(OperationError, match="expected a row of 4 elements for each of 1 indices"):
        run("tile.scatter_update", target, index, torch.ones(2, 4))
    with pytest.raises(OperationError, match="expected -2 as the axis"):
        run("tile.scatter_update", target, index, torch.ones(1, 4), dim=-1)


def test_what_an_update_writes_is_found_without_memory_for_its_source() -> None:
    table = Array(Numbers(torch.tensor(1.0).expand(1 << 20, 1 << 16)), ElementType.FP32, (1 << 20, 1 << 16))
    operands = (array(torch.zeros(4, 8)), table, (1, 2), (70_000, 0), (2, 3))
    call = Invocation(
        name="tile.gather_row",
        operands=operands,
        attributes={},
        result=None,
        arithmetic=ArithmeticMode.STATED,
    )
    part = find_operation(call.name, operands).written_part(call, (4, 8))
    assert part.nonzero().tolist() == [[row, column] for row in (1, 2) for column in (2, 3, 4)]


def test_a_masked_scatter_leaves_what_its_source_does_not_have() -> None:
    source = array(torch.tensor([[1.0, 2], [3, 4]]), (1, 2))
    found = values("tile.scatter_mask", torch.zeros(2, 4), source, mask_pattern=1)
    assert found.tolist() == [[1, 0, 2, 0], [0, 0, 0, 0]]
    found = values("tensor.scatter_mask", source, torch.zeros(2, 4), mask_pattern=1)
    assert found.tolist() == [[1, 0, 2, 0], [0, 0, 0, 0]]
    with pytest.raises(OperationError, match=r"expected a source of shape \[2, 2\]"):
        run("tile.scatter_mask", torch.zeros(2, 4), torch.ones(2, 1), mask_pattern=1)
