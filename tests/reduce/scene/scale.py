# ruff: noqa: RUF012
import ctypes

import torch
from simpler.task_interface import ArgDirection as D
from simpler_setup import Scalar, SceneTestCase, TaskArgsBuilder, TensorArg, scene_test


@scene_test(level=2, runtime="tensormap_and_ringbuffer")
class TestScale(SceneTestCase):
    CALLABLE = {
        "orchestration": {
            "source": "kernels/orchestration/scale.cpp",
            "function_name": "aicpu_orchestration_entry",
            "signature": [D.IN, D.OUT],
        },
        "incores": [
            # Of its two tensors it names one, as some kernels of the runtime do.
            {"func_id": 0, "source": "kernels/aiv/scale.cpp", "core_type": "aiv", "signature": [D.IN]},
        ],
    }
    CASES = [
        {
            "name": "Small",
            "platforms": ["a2a3sim"],
            "config": {"runtime_env": {"ring_heap": 4}},
            "params": {"n": 8},
        },
        {"name": "Large", "platforms": ["a2a3sim"], "config": {}, "params": {"n": 64}},
        {"name": "Board", "platforms": ["a2a3"], "config": {}, "params": {"n": 64}},
        {"name": "Unchecked", "platforms": ["a5sim"], "skip_golden": True, "config": {}, "params": {"n": 64}},
    ]

    def generate_args(self, params):
        return TaskArgsBuilder(
            TensorArg("x", torch.randn(params["n"])),
            TensorArg("y", torch.zeros(params["n"])),
            Scalar("offset", ctypes.c_float(0.5)),
        )

    def compute_golden(self, args, params):
        args.y[:] = args.x * 3 + 0.5


if __name__ == "__main__":
    SceneTestCase.run_module(__name__)
