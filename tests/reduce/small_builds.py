"""A program of five small tasks as a build directory with golden data; one kernel is to choose."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.demo.minirt_support import SCALE, elementwise, orchestration, write_build

SHIFT = "store(1, i, load(0, i) + 1.0f);"
WRONG = "store(1, i, load(0, i) + 1.5f);"
CRASH = "*static_cast<volatile int*>(nullptr) = 1; store(1, i, load(0, i));"
_HARD = """
    const KernelTensor& y = args.tensors[1];
    for (uint32_t j = 0; j < 8; ++j) elements<float>(y)[y.start_offset + j] = load_f32(args.tensors[0], j) + SHIFTf;
"""
HARD_SHIFT = _HARD.replace("SHIFT", "1.0")
"""As SHIFT, for 8 elements whatever it is given."""
HARD_WRONG = _HARD.replace("SHIFT", "1.5")
BLOCK_SHIFT, BLOCK_WRONG = (f"if (i / 2 == args.block_idx) {{ {body} }}" for body in (SHIFT, WRONG))
"""As SHIFT and WRONG, a block two elements."""
_ELEMENTS = 8
BODY = """
PTO2_SCOPE() {
    uint32_t shapes[1] = {8};
    TensorCreateInfo info(shapes, 1, DataType::FLOAT32);
    TaskOutputTensors made = alloc_tensors(info, info, info);
    const ChipTensor& a = made.get_ref(0);
    const ChipTensor& b = made.get_ref(1);
    const ChipTensor& c = made.get_ref(2);
    CoreTaskArgs p0;
    p0.add_input(x0);
    p0.add_output(a);
    rt_submit_aiv_task(0, p0);
    CoreTaskArgs p1;
    p1.add_input(a);
    p1.add_output(b);
    LAUNCH
    rt_submit_aiv_task(1, p1);
    CoreTaskArgs p2;
    p2.add_input(b);
    p2.add_output(x1);
    rt_submit_aiv_task(0, p2);
    CoreTaskArgs p3;
    p3.add_input(x0);
    p3.add_output(c);
    rt_submit_aiv_task(0, p3);
    CoreTaskArgs p4;
    p4.add_input(c);
    p4.add_output(x2);
    rt_submit_aiv_task(0, p4);
}
"""


def small_build(folder: Path, middle: str, launch: str = "", *, body: str = BODY) -> Path:
    """x1 = 2 middle(2 x0) and x2 = 4 x0; the golden data say that `middle` adds 1. `launch` is said to its task p1.
    `body` is another spelling of the orchestration."""
    kernels = {"scale": elementwise(SCALE), "middle": elementwise(middle)}
    build = write_build(folder, orchestration(body.replace("LAUNCH", launch), 3), kernels)
    config = build / "kernel_config.py"
    named = '"function_name": "aicpu_orchestration_entry"'
    signature = f'{named}, "signature": [_D.IN, _D.OUT, _D.OUT]'
    config.write_text("from types import ArgDirection as _D\n" + config.read_text().replace(named, signature))
    x0 = torch.arange(_ELEMENTS, dtype=torch.float32)
    data = {"in/x0": x0, "out/x1": 2 * (2 * x0 + 1), "out/x2": 4 * x0}
    for name, value in data.items():
        path = build / "data" / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(value, path)
    return build
