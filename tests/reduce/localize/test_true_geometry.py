"""Kernels that go wrong only where their tensors lay in the run: a wrong pitch, an offset of their own, kept state."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from precision_bisect.reduce.localize.investigate import localize
from precision_bisect.reduce.localize.reference import GoodBuild, LocalizationRequest
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.localization import Divergence
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
_PAST = kernel(
    "const KernelTensor& y = args.tensors[1];"
    "for (uint64_t i = 0; i < numel(args.tensors[0]); ++i) store(1, i, load(0, i));"
    "for (uint64_t j = 1; j <= 3; ++j) store_f32(y, at(y, numel(y) - 1) + j, -7.0f);"
)
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


_X0 = torch.arange(128, dtype=torch.float32).reshape(8, 16)
_GEOMETRY = (
    _task(0, "narrow", (0, 0, 8, 8), 0),
    _task(1, "lower", (4, 0, 4, 16), 8),
    _task(2, "once", (0, 0, 4, 16), 12),
    _task(2, "twice", (4, 0, 4, 16), 16),
)
_NEIGHBOURS = (
    _task(0, "upper", (0, 0, 4, 16), 4),
    _task(1, "first", (4, 0, 4, 16), 0),
    """
    uint32_t reader_shape[2] = {4, 16};
    uint32_t reader_from[2] = {4, 0};
    uint32_t reader_to[2] = {8, 0};
    const ChipTensor reader_read = x1.view(reader_shape, reader_from);
    const ChipTensor reader_left = x1.view(reader_shape, reader_to);
    CoreTaskArgs reader;
    reader.add_input(reader_read);
    reader.add_output(reader_left);
    rt_submit_aiv_task(0, reader);
""",
)
"""Rows 4 to 8, then rows 0 to 4, whose kernel may write past them, then a copy of rows 4 to 8."""


def _build(folder: Path, tasks: tuple[str, ...], kernels: dict[str, str], right: torch.Tensor) -> Path:
    body = "PTO2_SCOPE() {" + "".join(tasks)
    build = write_build(folder, orchestration(body + "}", 2), kernels)
    config = build / "kernel_config.py"
    named = '"function_name": "aicpu_orchestration_entry"'
    config.write_text(
        "from types import ArgDirection as _D\n"
        + config.read_text().replace(named, f'{named}, "signature": [_D.IN, _D.OUT]')
    )
    for name, value in {"in/x0": _X0, "out/x1": right}.items():
        path = build / "data" / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(value, path)
    return build


def _localized(
    folder: Path,
    trees: Trees,
    tasks: tuple[str, ...],
    good: dict[str, str],
    bad: dict[str, str],
    right: torch.Tensor,
    order: str = "serial",
) -> Divergence:
    toolchain = trees.toolchain().with_schedule(order)
    reference = GoodBuild(path=_build(folder / "good", tasks, good, right), toolchain=toolchain)
    return localize(
        LocalizationRequest(
            failing=_build(folder / "bad", tasks, bad, right),
            toolchain=toolchain,
            reference=reference,
            golden_data=None,
            tolerance=Tolerance(),
            budget=2**28,
            attempts=8,
            timeout=300,
            output=folder / "localized",
        ),
        on_progress=lambda _text: None,
    )


@pytest.mark.long
def test_what_a_kernel_makes_of_where_its_tensors_lie_is_its_own_fault(
    tmp_path: Path, good_trees: Trees
) -> None:
    right = torch.zeros(20, 16)
    right[0:8, 0:8], right[8:12], right[12:20] = _X0[:, 0:8], _X0[4:8], _X0
    divergence = _localized(tmp_path, good_trees, _GEOMETRY, _GOOD, _BAD, right)
    found = {
        (each.position, each.kernel): (each.task_class, each.reason) for each in divergence.first_divergent
    }
    assert {key: task_class for key, (task_class, _) in found.items()} == {
        (0, "narrow"): "introduced",
        (1, "lower"): "introduced",
        (3, "again"): "introduced",
    }
    assert "its kernel keeps state from task to task" in found[3, "again"][1]


@pytest.mark.long
def test_state_is_found_where_the_first_task_of_a_kernel_ran_last(tmp_path: Path, good_trees: Trees) -> None:
    right = torch.zeros(20, 16)
    right[12:20] = _X0
    good, bad = {**_GOOD}, {**_GOOD, "again": _STATE}
    divergence = _localized(tmp_path, good_trees, _GEOMETRY[2:], good, bad, right, order="reverse")
    (found,) = divergence.first_divergent
    assert (found.position, found.kernel, found.task_class) == (0, "again", "introduced")
    assert "its kernel keeps state from task to task" in found.reason


@pytest.mark.long
def test_who_writes_into_a_neighbour_is_named_beside_its_victim(tmp_path: Path, good_trees: Trees) -> None:
    right = torch.cat([_X0[4:8], _X0[0:4], _X0[0:4]])
    good = {"copy": _COPY, "past": _COPY}
    divergence = _localized(tmp_path, good_trees, _NEIGHBOURS, good, {**good, "past": _PAST}, right)
    (victim,) = divergence.first_divergent
    assert (victim.position, victim.kernel, victim.task_class) == (2, "copy", "interaction")
    assert (
        "task 1 (past), argument 1 (x1), writes 12 bytes past the end of the tensor, into x1, which task 0 (copy) "
        "writes; x1, which task 2 (copy) reads"
    ) in victim.reason
