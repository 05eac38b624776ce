"""Kernels that go wrong only where their tensors lay in the run: a wrong pitch, an offset of their own, kept state."""

from __future__ import annotations

from pathlib import Path

import torch

from precision_bisect.reduce.localize.pipeline import localize
from precision_bisect.reduce.localize.references.builds import GoodBuild
from precision_bisect.reduce.localize.references.request import LocalizationRequest
from precision_bisect.runner.compare.statistics.statistics import Tolerance
from tests.demo.minirt_support import elementwise, kernel, orchestration, write_build
from tests.reduce.demo_builds import Trees

_COPY = elementwise("store(1, i, load(0, i));")
_WRONG_PITCH = kernel(
    "const KernelTensor& x = args.tensors[0];"
    "for (uint64_t i = 0; i < numel(x); ++i) store(1, i, load_f32(x, x.start_offset + i));"
)
_NO_OFFSET = kernel(
    "for (uint64_t i = 0; i < numel(args.tensors[0]); ++i) store(1, i, load_f32(args.tensors[0], i));"
)
_STATE = elementwise("static float calls = 0; store(1, i, load(0, i) + (i == 0 ? calls++ : 0.0f));")
_GOOD = {"narrow": _COPY, "lower": _COPY, "again": _COPY}
_BAD = {"narrow": _WRONG_PITCH, "lower": _NO_OFFSET, "again": _STATE}


def _task(kernel_id: int, name: str, read: tuple[int, int, int, int], row: int) -> str:
    """Copies rows and columns (offsets, then extents) of x0 to rows of x1 from `row` on."""
    top, left, rows, columns = read
    return f"""
    uint32_t {name}_shape[2] = {{{rows}, {columns}}};
    uint32_t {name}_from[2] = {{{top}, {left}}};
    uint32_t {name}_to[2] = {{{row}, 0}};
    const ChipTensor {name}_read = x0.view({name}_shape, {name}_from);
    const ChipTensor {name}_left = x1.view({name}_shape, {name}_to);
    CoreTaskArgs {name};
    {name}.add_input({name}_read);
    {name}.add_output({name}_left);
    rt_submit_aiv_task({kernel_id}, {name});
"""


def _build(folder: Path, kernels: dict[str, str]) -> Path:
    body = "PTO2_SCOPE() {" + "".join(
        (
            _task(0, "narrow", (0, 0, 8, 8), 0),
            _task(1, "lower", (4, 0, 4, 16), 8),
            _task(2, "once", (0, 0, 4, 16), 12),
            _task(2, "twice", (4, 0, 4, 16), 16),
        )
    )
    build = write_build(folder, orchestration(body + "}", 2), kernels)
    config = build / "kernel_config.py"
    named = '"function_name": "aicpu_orchestration_entry"'
    config.write_text(
        "from types import ArgDirection as _D\n"
        + config.read_text().replace(named, f'{named}, "signature": [_D.IN, _D.OUT]')
    )
    x0 = torch.arange(128, dtype=torch.float32).reshape(8, 16)
    x1 = torch.zeros(20, 16)
    x1[0:8, 0:8], x1[8:12], x1[12:20] = x0[:, 0:8], x0[4:8], x0
    for name, value in {"in/x0": x0, "out/x1": x1}.items():
        path = build / "data" / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(value, path)
    return build


def test_what_a_kernel_makes_of_where_its_tensors_lie_is_its_own_fault(
    tmp_path: Path, good_trees: Trees
) -> None:
    toolchain = good_trees.toolchain().under("serial")
    divergence = localize(
        LocalizationRequest(
            failing=_build(tmp_path / "bad", _BAD),
            toolchain=toolchain,
            reference=GoodBuild(path=_build(tmp_path / "good", _GOOD), toolchain=toolchain),
            golden_data=None,
            tolerance=Tolerance(),
            budget=2**28,
            attempts=8,
            timeout=300,
            output=tmp_path / "localized",
        ),
        on_progress=lambda _text: None,
    )
    found = {
        (each.position, each.kernel): (each.task_class, each.reason) for each in divergence.first_divergent
    }
    assert {key: task_class for key, (task_class, _) in found.items()} == {
        (0, "narrow"): "introduced",
        (1, "lower"): "introduced",
        (3, "again"): "introduced",
    }
    assert "its kernel keeps state from task to task" in found[3, "again"][1]
