"""Entries of `deps.json`, in the spellings of all eras, read one by one."""

import pytest

from precision_bisect.runner.build_output.task_graph import (
    ArgumentType,
    EdgeSource,
    GraphReader,
    JsonArgument,
    JsonEdge,
    JsonTask,
    JsonTensor,
    read_tensor,
)
from precision_bisect.runner.tensor import DType

FIRST, SECOND = str((1 << 32) + 1), str((1 << 32) + 2)


def test_a_tensor_without_a_size_has_the_product_of_its_buffer_s_extents() -> None:
    read = read_tensor(JsonTensor(tensor_id="18446744073709551615", dtype="BFLOAT16", raw_shapes=[4, 8]))
    assert (read.tensor_id, read.dtype, read.buffer_numel) == (2**64 - 1, DType.BFLOAT16, 32)
    assert read_tensor(JsonTensor(tensor_id=7, dtype="FP4")).dtype is None


def test_strides_place_a_region_and_offsets_do_where_there_are_none() -> None:
    reader = GraphReader({7: [8, 16]})
    new = JsonArgument(idx=0, type="INPUT", dtype="FLOAT32", shape=[2, 3], strides=[16, 1], start_offset="33")
    old = JsonArgument(idx=1, type="INOUT", tensor_id=7, dtype="FLOAT32", shape=[2, 3], offset=[2, 1])
    task = reader.read_task(JsonTask(task_id=FIRST, args=[new, old], scope="manual", block_num=4), 5)
    assert (task.position, task.in_manual_scope, task.blocks, task.kernels) == (5, True, 4, None)
    places = [
        (one.region.strides, one.region.start_offset) for one in task.arguments if one.region is not None
    ]
    assert places == [((16, 1), 33), ((16, 1), 33)]
    assert [one.type for one in task.arguments] == [ArgumentType.INPUT, ArgumentType.INOUT]


def test_an_edge_of_the_first_graphs_is_a_bare_pair() -> None:
    edge = GraphReader({}).read_edge((int(FIRST), int(SECOND)))
    assert (str(edge.predecessor), str(edge.successor)) == (FIRST, SECOND)
    assert (edge.argument, edge.source, edge.tensor_id) == (None, None, None)


def test_an_annotated_edge_says_where_it_comes_from() -> None:
    edge = GraphReader({}).read_edge(
        JsonEdge(
            pred=FIRST,
            succ=SECOND,
            arg=2,
            source="tensormap",
            tensor_id="7",
        )
    )
    assert (edge.argument, edge.source, edge.tensor_id) == (2, EdgeSource.TENSORMAP, 7)


@pytest.mark.parametrize(
    "argument",
    [
        JsonArgument(idx=0, type="INPUT", shape=[2, -3], strides=[3, 1]),
        JsonArgument(idx=0, type="INPUT", shape=[2, 3], strides=[1]),
        JsonArgument(idx=0, type="INPUT", shape=[2], strides=[1], start_offset="x"),
        JsonArgument(idx=0, type="SIDEWAYS"),
    ],
)
def test_numbers_that_are_no_region_are_refused(argument: JsonArgument) -> None:
    with pytest.raises(ValueError, match=r"."):
        GraphReader({}).read_task(JsonTask(task_id=FIRST, args=[argument]), 0)


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(ValueError, match="auto or manual, found 'global'"):
        GraphReader({}).read_task(JsonTask(task_id=FIRST, args=[], scope="global"), 0)
