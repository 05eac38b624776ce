"""Which output of a task a buffer is, where the graph has one edge for two of them."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from precision_bisect.reduce.graph.submits import find_submits
from precision_bisect.reduce.graph.tasks import TaskList
from precision_bisect.reduce.shrink.extract import allocated_buffers
from precision_bisect.runner.build_output.directory import KernelConfig, OrchestrationEntry
from precision_bisect.runner.build_output.orchestration import Orchestration
from precision_bisect.runner.build_output.task_graph import TaskGraph

SOURCE = b"""
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
    const ChipTensor& x = orch_args.tensor(0).ref();
    for (int n = 0; n < 2; n++) {
        CoreTaskArgs p;
        p.add_input(x);
        p.add_output(info);
        p.add_output(info);
        TaskOutputTensors outs = rt_submit_aiv_task(0, p);
        const ChipTensor& second = outs.get_ref(1);
        ChipTensor part = second.view(shapes, offsets);
        CoreTaskArgs q;
        q.add_input(outs.get_ref(0));
        q.add_input(part);
        q.add_inout(x);
        rt_submit_aiv_task(1, q);
    }
}
"""


def argument(index: int, kind: str, tensor: int | None) -> dict[str, object]:
    if tensor is None:
        return {"idx": index, "type": kind}
    of = {"dtype": "FLOAT32", "shape": [4], "start_offset": "0", "strides": [1]}
    return {"idx": index, "type": kind, "tensor_id": str(tensor), **of}


def task(number: int, kernel: int, *arguments: dict[str, object]) -> dict[str, object]:
    kernels = [-1, kernel, -1]
    return {"task_id": str(number), "scope": "auto", "kernel_ids": kernels, "block_num": 1, "args": arguments}


def test_two_outputs_that_one_task_reads_are_told_apart(tmp_path: Path) -> None:
    made = [argument(0, "INPUT", 9), argument(1, "OUTPUT", None), argument(2, "OUTPUT", None)]
    tasks = [
        task(0, 0, *made),
        task(1, 1, argument(0, "INPUT", 20), argument(1, "INPUT", 21), argument(2, "INOUT", 9)),
        task(2, 0, *made),
        task(3, 1, argument(0, "INPUT", 30), argument(1, "INPUT", 31), argument(2, "INOUT", 9)),
    ]
    # As the runtime writes it: no second edge of the pair for the second buffer.
    edges = [
        {"pred": str(maker), "succ": str(maker + 1), "arg": 0, "source": "creator", "tensor_id": str(tensor)}
        for maker, tensor in ((0, 20), (2, 30))
    ]
    tensors = [
        {"tensor_id": str(one), "buffer_addr": "0", "version": 0, "dtype": "FLOAT32", "buffer_numel": "4"}
        for one in (9, 20, 21, 30, 31)
    ]
    file = tmp_path / "deps.json"
    file.write_text(json.dumps({"tasks": tasks, "edges": edges, "tensors": tensors}))
    config = KernelConfig(
        runtime={},
        orchestration=OrchestrationEntry(source=PurePosixPath("o.cpp"), function_name="f", signature=None),
        kernels={},
    )
    listed = TaskList.from_graph(TaskGraph.open(file), config)
    orchestration = Orchestration.parse(SOURCE)
    submits = {one.ordinal: find_submits(orchestration, one) for one in listed.tasks}
    assert allocated_buffers(orchestration, listed, submits) == {
        (0, 0): 20,
        (0, 1): 21,
        (2, 0): 30,
        (2, 1): 31,
    }
