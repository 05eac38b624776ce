"""Compiles and runs one small build directory. Needs `python build.py` first."""

from __future__ import annotations

import ctypes
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import minirt

KERNEL = """
#include "pto_kernel_api.h"
extern "C" void kernel_entry(const KernelArgs& args) {
    const KernelTensor& x = args.tensors[0];
    const KernelTensor& y = args.tensors[1];
    for (uint32_t i = 0; i < x.shape[0]; ++i) {
        store_f32(y, element_offset(y, i), 2.0f * load_f32(x, element_offset(x, i)));
    }
}
"""
ORCHESTRATION = """
#include "pto_orchestration_api.h"
PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {
    return PTO2OrchestrationConfig{.expected_arg_count = 2};
}
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_y = orch_args.tensor(1).ref();
    PTO2_SCOPE() {
        uint32_t a_ci_shapes[1] = {4};
        TensorCreateInfo a_ci(a_ci_shapes, 1, DataType::FLOAT32);
        CoreTaskArgs params_t0;
        params_t0.add_input(ext_x);
        params_t0.add_output(a_ci);
        TaskOutputTensors outs_t0 = rt_submit_aiv_task(0, params_t0);
        CoreTaskArgs params_t1;
        params_t1.add_input(outs_t0.get_ref(0));
        params_t1.add_output(ext_y);
        rt_submit_aiv_task(0, params_t1);
    }
}
"""
CONFIG = """
from pathlib import Path

_ROOT_DIR = Path(__file__).parent
ORCHESTRATION = {
    "source": str(_ROOT_DIR / "orchestration" / "twice.cpp"),
    "function_name": "aicpu_orchestration_entry",
}
KERNELS = [
    {"func_id": 0, "name": "scale", "source": str(_ROOT_DIR / "kernels" / "aiv" / "scale.cpp"), "core_type": "aiv"},
]
"""


class RuntimeTest(unittest.TestCase):
    def test_two_tasks_scale_twice(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder) / "_jit_twice"
            (build / "orchestration").mkdir(parents=True)
            (build / "kernels" / "aiv").mkdir(parents=True)
            (build / "orchestration" / "twice.cpp").write_text(ORCHESTRATION)
            (build / "kernels" / "aiv" / "scale.cpp").write_text(KERNEL)
            (build / "kernel_config.py").write_text(CONFIG)
            x = (ctypes.c_float * 4)(1, 2, 3, 4)
            y = (ctypes.c_float * 4)()
            arguments = [
                minirt.executor.TensorArgument("x", ctypes.addressof(x), "float32", (4,)),
                minirt.executor.TensorArgument("y", ctypes.addressof(y), "float32", (4,)),
            ]
            minirt.binaries.refresh(build)
            minirt.executor.execute(
                build, arguments, platform="a2a3sim", device_id=0, dump_args=2, dep_gen=True
            )
            assert list(y) == [4, 8, 12, 16]
            assert (build / "dfx_outputs" / "args_dump" / "args.bin").exists()
            assert (build / "dfx_outputs" / "deps.json").exists()


if __name__ == "__main__":
    unittest.main()
