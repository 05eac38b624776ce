"""Task graphs of every era, and walks over them against brute force."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.runner.build_output.files import BuildOutputError, MalformedFileError
from precision_bisect.runner.build_output.task_graph import ArgumentType, EdgeSource, TaskGraph
from precision_bisect.runner.tensor import DType
from tests.runner.build_output.build_files import graph
from tests.support.quick import examples

FIRST, SECOND, ALLOCATION = (1 << 32) + 1, (1 << 32) + 2, 1 << 32


def read(folder, content):
    path = folder / "deps.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return TaskGraph.open(path)


def test_annotated_graph(tmp_path):
    read_graph = read(tmp_path, graph())
    assert read_graph.annotated
    assert read_graph.unlisted == {ALLOCATION}
    first, second = read_graph.tasks.values()
    assert (first.task_id, first.position, first.kernels, first.in_manual_scope) == (
        FIRST,
        0,
        (-1, 0, -1),
        False,
    )
    assert (second.task_id, second.in_manual_scope, second.blocks) == (SECOND, True, 4)
    tensor = first.arguments[1]
    assert (tensor.type, tensor.tensor_id, tensor.region.dtype) == (
        ArgumentType.INOUT,
        2**64 - 1,
        DType.FLOAT32,
    )
    assert (second.arguments[1].tensor_id, second.arguments[1].region) == (None, None)
    assert read_graph.tensors[7].buffer_numel == 6
    creator, tensormap, explicit = read_graph.edges
    assert (creator.source, tensormap.source) == (EdgeSource.CREATOR, EdgeSource.TENSORMAP)
    assert (explicit.source, explicit.argument, explicit.tensor_id) == (EdgeSource.EXPLICIT, None, None)
    assert read_graph.predecessors(SECOND) == [FIRST]
    assert read_graph.tensors_created_by(ALLOCATION) == [2**64 - 1]


def test_pairs_only(tmp_path):
    """Version 1; ring 2 holds what ring 1 waits for, so ids are no submission order."""
    two, one = 2 << 32, (1 << 32) + 4
    read_graph = read(
        tmp_path, {"version": 1, "edges": [[two, one], [FIRST, two], [FIRST, one], [FIRST, one]]}
    )
    assert not read_graph.annotated
    assert list(read_graph.tasks) == [FIRST, two, one]
    assert read_graph.ancestors(one) == [FIRST, two]
    assert read_graph.tasks[one].kernels is None
    assert len(read_graph.edges) == 4


def test_tensors_placed_in_raw_shapes(tmp_path):
    """Version 2: `offset` in a raw shape."""
    old = graph(version=2)
    for task in old["tasks"]:
        del task["kernel_ids"], task["block_num"]
        for argument in task["args"]:
            if argument.pop("strides", None):
                del argument["start_offset"]
                argument["offset"] = [1, 2]
    old["tensors"] = [
        {"tensor_id": "7", "buffer_addr": "1", "version": 0, "dtype": "FLOAT32", "raw_shapes": [4, 8]}
    ]
    read_graph = read(tmp_path, old)
    region = read_graph.tasks[FIRST].arguments[0].region
    assert (region.strides, region.start_offset, region.bounds) == ((8, 1), 10, range(10, 21))
    assert read_graph.tensors[7].buffer_numel == 32


def test_a_tensor_outside_of_the_dependencies_may_be_read_and_written(tmp_path):
    content = json.dumps(graph()).replace('"type": "INPUT"', '"type": "UNKNOWN"')
    argument = read(tmp_path, content).tasks[FIRST].arguments[0]
    assert argument.type is ArgumentType.UNKNOWN
    assert argument.type.may_read
    assert argument.type.may_write
    assert (ArgumentType.INPUT.may_write, ArgumentType.OUTPUT_EXISTING.may_read) == (False, False)


def test_allocation_listed_as_a_task_runs_no_kernel(tmp_path):
    content = graph()
    content["tasks"].insert(0, {"task_id": str(ALLOCATION), "kernel_ids": [-1, -1, -1], "args": []})
    read_graph = read(tmp_path, content)
    assert read_graph.unlisted == frozenset()
    assert [task.runs_a_kernel for task in read_graph.tasks.values()] == [False, True, True]


@st.composite
def acyclic(draw):
    """Tasks in a drawn order, and edges that lead forward in it."""
    count = draw(st.integers(1, 8))
    order = draw(st.permutations(range(count)))
    edges = draw(st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=16))
    return order, [(order[min(e)], order[max(e)]) for e in edges if e[0] != e[1]]


@settings(max_examples=examples(60))
@given(acyclic())
def test_walks_equal_brute_force(tmp_path_factory, drawn):
    order, edges = drawn
    content = {
        "tasks": [{"task_id": str(task), "args": []} for task in order],
        "edges": [{"pred": str(a), "succ": str(b)} for a, b in edges],
    }
    read_graph = read(tmp_path_factory.mktemp("graph"), content)
    # Edges lead forward in submission order, so that order is the topological one.
    assert read_graph.topological_order == tuple(order)
    reach = {(a, b) for a, b in edges}
    for _ in order:
        reach |= {(a, d) for a, b in reach for c, d in reach if b == c}
    for task in order:
        assert read_graph.ancestors(task) == [a for a in order if (a, task) in reach]
        assert read_graph.descendants(task) == [b for b in order if (task, b) in reach]


@settings(max_examples=examples(60))
@given(acyclic())
def test_order_of_bare_pairs_respects_every_edge(tmp_path_factory, drawn):
    _, edges = drawn
    read_graph = read(tmp_path_factory.mktemp("graph"), {"version": 1, "edges": edges})
    place = {task: i for i, task in enumerate(read_graph.topological_order)}
    assert all(place[a] < place[b] for a, b in edges)
    assert list(read_graph.tasks) == list(read_graph.topological_order)


@pytest.mark.parametrize(
    "edges", [[[5, 5]], [[5, 6], [6, 5]], [[1, 2], [2, 3], [3, 2]]], ids=["self", "pair", "behind a task"]
)
def test_cycles_are_one_clear_error(tmp_path, edges):
    with pytest.raises(MalformedFileError, match="cycle"):
        read(tmp_path, {"version": 1, "edges": edges})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"4294967297"', '"x"'),
        ('"4294967297"', '"99999999999999999999"'),
        ('"INOUT"', '"SIDEWAYS"'),
        ('"tensormap"', '"gossip"'),
        ('"auto"', '"other"'),
        ('"shape": [2, 3]', '"shape": [2, -3]'),
        ('"shape": [2, 3]', '"shape": [2]'),
        ('"strides": [3, 1]', '"strides": [-3, 1]'),
        ('"task_id": "4294967298"', '"task_id": "4294967297"'),
        ('"edges": [', '"edges": [[1], '),
        ('"edges": [', '"edges": {}, "e": ['),
        ('"edges": [', "["),
    ],
)
def test_wrong_content_is_one_clear_error(tmp_path, old, new):
    text = json.dumps(graph())
    assert old in text
    with pytest.raises(MalformedFileError, match=r"deps\.json: expected a task graph"):
        read(tmp_path, text.replace(old, new))


def test_graph_cut_anywhere(tmp_path):
    text = json.dumps(graph())
    for end in range(0, len(text), 7):
        with pytest.raises(BuildOutputError):
            read(tmp_path, text[:end])


def test_deep_nesting(tmp_path):
    with pytest.raises(MalformedFileError):
        read(tmp_path, '{"edges": ' + "[" * 100_000)
