"""Everything the recorded files' README counts, counted."""

from collections import Counter

import pytest
import torch

from precision_bisect.runner.build_output.args_dump import ArgumentKind, ArgumentRole, DumpStage
from precision_bisect.runner.build_output.directory import BuildDirectory
from precision_bisect.runner.build_output.files import MissingFileError
from precision_bisect.runner.build_output.task_graph import EdgeSource
from precision_bisect.runner.tensor import DType

CHAINS = ["chain_level2_good", "chain_level2_bad", "chain_level1_good"]


def check_dump(dump, *, records, before, after, payload_bytes):
    assert len(dump) == records
    stages = Counter(dump.record(i).stage for i in range(records))
    assert stages == {DumpStage.BEFORE_DISPATCH: before, DumpStage.AFTER_COMPLETION: after}
    assert dump.inconsistencies == ()
    assert dump.dropped_records == 0
    assert dump.payload_bytes == payload_bytes
    whole = [dump.record(i) for i in range(records) if dump.record(i).kind is ArgumentKind.TENSOR]
    assert all(record.flaw is None for record in whole)
    # The payloads tile the file: each byte belongs to one record.
    places = sorted((record.bin_offset, record.bin_size) for record in whole)
    assert [start for start, _ in places] == [0, *(start + size for start, size in places[:-1])]
    assert sum(places[-1]) == payload_bytes
    for record in whole:
        assert dump.tensor(record).numel == dump.tensor(record).torch().numel()


def test_paged_attention(recorded):
    build = BuildDirectory.open(recorded / "paged_attention")
    dump = build.args_dump()
    check_dump(dump, records=384, before=240, after=144, payload_bytes=179_200)
    roles = Counter(dump.record(i).role for i in range(len(dump)))
    assert roles == {ArgumentRole.INPUT: 176, ArgumentRole.OUTPUT: 80, ArgumentRole.INOUT: 128}
    graph = build.task_graph()
    assert (len(graph.tasks), len(graph.tensors), len(graph.edges)) == (64, 96, 128)
    names = build.read_name_maps()
    assert [names[i] for i in range(4)] == ["QK", "SF", "PV", "UP"]
    assert {
        record.dtype for record in map(dump.record, range(384)) if record.kind is ArgumentKind.TENSOR
    } == {
        DType.BFLOAT16,
        DType.FLOAT32,
    }


def test_dump_and_graph_name_the_same_tasks(recorded):
    for name in ("paged_attention", "chain_level2_good", "chain_level2_bad"):
        build = BuildDirectory.open(recorded / name)
        dump, graph = build.args_dump(), build.task_graph()
        assert set(dump.task_ids()) == set(graph.tasks)
        for task in graph.tasks.values():
            dumped = {
                record.arg_index
                for record in dump.find(task_id=task.task_id)
                if record.kind is ArgumentKind.TENSOR
            }
            assert dumped == {argument.index for argument in task.arguments}
            kernels = {kernel for kernel in task.kernels if kernel >= 0}
            assert {frozenset(record.kernels) for record in dump.find(task_id=task.task_id)} == {
                frozenset(kernels)
            }


def test_scalar_bits_are_a_float(recorded):
    dump = BuildDirectory.open(recorded / "paged_attention").args_dump()
    scalars = [record for record in map(dump.record, range(len(dump))) if record.kind is ArgumentKind.SCALAR]
    assert len(scalars) == 384 - 336
    # SF is given its scale, 1.0, as bits.
    assert {record.value for record in scalars if record.kernels == (1,)} == {0x3F800000}


@pytest.mark.parametrize("name", CHAINS[:2])
def test_chain_level_2(recorded, name):
    build = BuildDirectory.open(recorded / name)
    check_dump(build.args_dump(), records=22, before=16, after=6, payload_bytes=425_984)
    graph = build.task_graph()
    assert (len(graph.tasks), len(graph.tensors), len(graph.edges)) == (6, 7, 13)
    names = build.read_name_maps()
    kernels = [names[max(task.kernels or ())] for task in graph.tasks.values()]
    assert kernels == ["scale", "expo", "cat", "mm", "mm", "bias"]
    # The one scope's allocation made every intermediate, and no task stands for it.
    assert graph.unlisted == {1 << 32}
    assert all(e.source is EdgeSource.CREATOR for e in graph.edges if e.predecessor in graph.unlisted)
    order = list(graph.tasks)
    assert graph.topological_order == tuple(order)
    assert graph.ancestors(order[-1]) == order[:-1]


def test_chain_level_1(recorded):
    build = BuildDirectory.open(recorded / "chain_level1_good")
    check_dump(build.args_dump(), records=7, before=5, after=2, payload_bytes=180_224)
    with pytest.raises(MissingFileError, match="--enable-dep-gen"):
        build.task_graph()


@pytest.mark.parametrize("name", CHAINS)
def test_golden_data(recorded, name):
    golden = BuildDirectory.open(recorded / name).golden_data()
    shapes = {key: golden.inputs.tensor(key).shape for key in golden.inputs.names}
    assert shapes == {"x": (64, 64), "w": (128, 64)}
    out = golden.outputs.tensor("out")
    assert (golden.outputs.names, out.shape, out.dtype) == (("out",), (64, 64), DType.FLOAT32)
    assert torch.equal(
        out.torch(), torch.load(recorded / name / "data" / "out" / "out.pt", weights_only=True)
    )


def arguments_by_place(graph):
    """Ids of tasks by position in submission order and argument index, which are the same in every run of one build."""
    return {
        (task.position, argument.index): task.task_id
        for task in graph.tasks.values()
        for argument in task.arguments
    }


def test_first_divergent_tensor_is_one_kernel_s_output(recorded):
    good, bad = (BuildDirectory.open(recorded / name) for name in CHAINS[:2])
    good_dump, bad_dump = good.args_dump(), bad.args_dump()
    good_keys, bad_keys = arguments_by_place(good.task_graph()), arguments_by_place(bad.task_graph())
    assert good_keys.keys() == bad_keys.keys()
    differing = []
    for key in sorted(good_keys):
        records = [
            dump.find(task_id=keys[key], arg_index=key[1], stage=DumpStage.AFTER_COMPLETION)
            for dump, keys in ((good_dump, good_keys), (bad_dump, bad_keys))
        ]
        if records[0] and not torch.equal(
            good_dump.tensor(records[0][0]).torch(), bad_dump.tensor(records[1][0]).torch()
        ):
            differing.append(key)
    assert differing
    first = differing[0]
    # Its inputs are bit-equal in both runs.
    for record in good_dump.find(task_id=good_keys[first], role=ArgumentRole.INPUT):
        (other,) = bad_dump.find(task_id=bad_keys[first], arg_index=record.arg_index)
        assert torch.equal(good_dump.tensor(record).torch(), bad_dump.tensor(other).torch())
