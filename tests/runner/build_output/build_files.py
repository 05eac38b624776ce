"""Writes small files of the shape that runtimes and compilers leave in a build directory."""

import json
from pathlib import Path
from typing import Any

import numpy as np


def record(task: int, arg: int, **fields: Any) -> dict[str, Any]:
    """A record of a 2 x 3 float32 input; `fields` replace or add to it."""
    return {
        "task_id": f"0x{task:016x}",
        "func_id": [0],
        "arg_index": arg,
        "role": "input",
        "stage": "before_dispatch",
        "kind": "tensor",
        "dtype": "FLOAT32",
        "is_contiguous": True,
        "shape": [2, 3],
        "strides": [3, 1],
        "start_offset": 0,
        "numel": 6,
        "bin_offset": 0,
        "bin_size": 24,
        "truncated": False,
        "overwritten": False,
        **fields,
    }


def manifest(records: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A manifest whose counts agree with `records`."""

    def count(key: str, value: str) -> int:
        return sum(one.get(key) == value for one in records)

    return {
        "run_dir": "args_dump",
        "bin_format": {"type": "logical_contiguous", "byte_order": "little_endian"},
        "total_args": len(records),
        "before_dispatch": count("stage", "before_dispatch"),
        "after_completion": count("stage", "after_completion"),
        "input_args": count("role", "input"),
        "output_args": count("role", "output"),
        "inout_args": count("role", "inout"),
        "truncated_args": 0,
        "dropped_records": 0,
        "dropped_overwrite": 0,
        "bin_file": "args.bin",
        "args": records,
        **fields,
    }


def write_dump(
    folder: Path, records: list[dict[str, Any]], payload: bytes | None = None, **fields: Any
) -> Path:
    """A dump in `folder`; by default its payload is the floats 0 to 5."""
    folder.mkdir(parents=True, exist_ok=True)
    data = np.arange(6, dtype="<f4").tobytes() if payload is None else payload
    (folder / "args_dump.json").write_text(json.dumps(manifest(records, **fields)))
    (folder / "args.bin").write_bytes(data)
    return folder


KERNEL_CONFIG = """\
from pathlib import Path

from simpler.task_interface import ArgDirection as _D

_ROOT_DIR = Path(__file__).parent

RUNTIME_CONFIG = {
\t"runtime": "tensormap_and_ringbuffer",
\t"aicpu_thread_num": 0,
}

ORCHESTRATION = {
\t"source": str(_ROOT_DIR / "orchestration" / "sums.cpp"),
\t"function_name": "aicpu_orchestration_entry",
\t"signature": [_D.IN, _D.INOUT],
}

KERNELS = [
\t{"func_id": 0, "name": "square", "source": str(_ROOT_DIR / "kernels" / "aiv" / "square.cpp"), \
"core_type": "aiv", "signature": [_D.IN, _D.OUT]},
\t{"func_id": 1, "name": "sum", "source": str(_ROOT_DIR / "kernels" / "aic" / "sum.cpp"), \
"core_type": "aic", "signature": [_D.IN, _D.INOUT]},
]
"""

ORCHESTRATION = """\
#include "pto_orchestration_api.h"

#define FUNC_SUM 1

extern "C" {

PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {
    return PTO2OrchestrationConfig{ .expected_arg_count = 3 };
}

void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_y = orch_args.tensor(1).ref();
    float factor = from_u64<float>(orch_args.scalar(0));
    PTO2_SCOPE() {
        uint32_t squares_ci_shapes[2] = {64, 32};
        TensorCreateInfo squares_ci(squares_ci_shapes, 2, DataType::FLOAT32);
        TaskOutputTensors alloc_0 = alloc_tensors(squares_ci);
        const ChipTensor& squares = alloc_0.get_ref(0);
        // rt_submit_aiv_task(7, not_a_submit);
        CoreTaskArgs params_t0;
        params_t0.add_input(ext_x);
        params_t0.add_inout(squares);
        params_t0.add_scalar(to_u64(factor));
        params_t0.dump(squares);
        TaskOutputTensors task_0_outs = rt_submit_aiv_task(0, params_t0);
        for (int64_t row = 0; row < 64; row += 32) {
            PTO2_SCOPE(PTO2ScopeMode::MANUAL) {
                uint32_t part_shapes[2] = {32, 32};
                uint32_t part_offsets[2] = {static_cast<uint32_t>(row), 0};
                ChipTensor part = squares.view(part_shapes, part_offsets);
                CoreTaskArgs params_t1;
                params_t1.add_input(part);
                params_t1.add_inout(ext_y);
                params_t1.set_dependencies(deps, 1);
                rt_submit_aic_task(FUNC_SUM, params_t1);
            }
        }
    }
}

}  // extern "C"
"""


def graph(**fields: Any) -> dict[str, Any]:
    """Two tasks of ring 1, an allocation before them that no task stands for, and their edges."""
    allocation, first, second = str(1 << 32), str((1 << 32) + 1), str((1 << 32) + 2)
    region = {"dtype": "FLOAT32", "shape": [2, 3], "start_offset": "0", "strides": [3, 1]}
    consumer = {
        "consumer_dtype": "FLOAT32",
        "consumer_shape": [2, 3],
        "consumer_start_offset": "0",
        "consumer_strides": [3, 1],
    }
    producer = {"producer_shape": [2, 3], "producer_start_offset": "0", "producer_strides": [3, 1]}
    return {
        "tasks": [
            {
                "task_id": first,
                "scope": "auto",
                "kernel_ids": [-1, 0, -1],
                "block_num": 1,
                "args": [
                    {"idx": 0, "type": "INPUT", "tensor_id": "7", **region},
                    {"idx": 1, "type": "INOUT", "tensor_id": "18446744073709551615", **region},
                ],
            },
            {
                "task_id": second,
                "scope": "manual",
                "kernel_ids": [1, -1, -1],
                "block_num": 4,
                "args": [
                    {"idx": 0, "type": "INPUT", "tensor_id": "18446744073709551615", **region},
                    {"idx": 1, "type": "OUTPUT"},
                ],
            },
        ],
        "tensors": [
            {
                "tensor_id": "7",
                "buffer_addr": "94013638512880",
                "version": 0,
                "dtype": "FLOAT32",
                "buffer_numel": "6",
            }
        ],
        "edges": [
            {
                "pred": allocation,
                "succ": first,
                "arg": 1,
                "source": "creator",
                "tensor_id": "18446744073709551615",
                **consumer,
            },
            {
                "pred": first,
                "succ": second,
                "arg": 0,
                "source": "tensormap",
                "overlap": "covered",
                "tensor_id": "18446744073709551615",
                **consumer,
                **producer,
            },
            {"pred": first, "succ": second, "arg": -1, "source": "explicit"},
        ],
        **fields,
    }
