"""Tasks that touch what they were not declared to, planted in one small build, and found without a good one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from precision_bisect.reduce.localize.footprints import (
    FootprintRequest,
    Owner,
    Owners,
    Place,
    describe_stray_writers,
    examine,
    footprint_lines,
    footprints,
    sort_writers,
)
from precision_bisect.reduce.replay.replay import ReplayError, RunnableBuild, TaskValues
from precision_bisect.reduce.replay.task_replay import Placement
from precision_bisect.runner.localization_job import (
    Footprints,
    TaskFootprint,
    UndeclaredRead,
    UndeclaredWrite,
    footprints_schema_text,
)
from precision_bisect.store.vocabulary import Verdict
from tests.demo.minirt_support import elementwise, kernel, orchestration, write_build
from tests.reduce.demo_builds import Trees
from tests.reduce.localize.simulated_build import ELEMENTS, SimulatedBuild, executor_in

pytestmark = pytest.mark.xdist_group("footprints")

_COPY = "store(1, i, load(0, i));"
_PAST_ROWS = kernel(
    "const KernelTensor& y = args.tensors[1];"
    "for (uint64_t i = 0; i < numel(args.tensors[0]); ++i) store(1, i, load(0, i));"
    "for (uint64_t j = 0; j < 3; ++j) store_f32(y, at(y, numel(y) - 1) + 1 + j, 7.0f);"
)
_BEFORE = kernel(
    "const KernelTensor& y = args.tensors[1];"
    "for (uint64_t i = 0; i < numel(args.tensors[0]); ++i) store(1, i, load(0, i));"
    "elements<float>(y)[y.start_offset - 4] = 7.0f;"
)
_READS_PAST = kernel(
    "const KernelTensor& x = args.tensors[0];"
    "for (uint64_t i = 0; i < numel(x); ++i) store(1, i, load(0, i) + load_f32(x, at(x, i) + 16));"
)
_KERNELS = {
    "copy": elementwise(_COPY),
    "past_rows": _PAST_ROWS,
    "before": _BEFORE,
    "accumulate": elementwise("store(1, i, load(1, i) + load(0, i));"),
    "reads_past": _READS_PAST,
    "no_offset": kernel(
        "for (uint64_t i = 0; i < numel(args.tensors[0]); ++i) store_f32(args.tensors[1], i, load(0, i));"
    ),
}


def _task(kernel_id: int, read: str, left: str) -> str:
    return f"{{ CoreTaskArgs p; p.add_input({read}); p.add_output({left}); rt_submit_aiv_task({kernel_id}, p); }}"


def _rows(name: str, tensor: str, first: int, count: int) -> str:
    return (
        f"uint32_t {name}_shape[2] = {{{count}, 8}}; uint32_t {name}_from[2] = {{{first}, 0}};"
        f"const ChipTensor {name} = {tensor}.view({name}_shape, {name}_from);"
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, good_trees: Trees) -> Footprints:
    """Of tasks 0 copy; 1 past_rows; 2 before; 3 accumulate; 4 reads_past; 5 no_offset, each a row of 8 or two."""
    folder = tmp_path_factory.mktemp("footprints")
    body = "".join(
        (
            "PTO2_SCOPE() { uint32_t shape[2] = {2, 8}; TensorCreateInfo info(shape, 2, DataType::FLOAT32);",
            "TaskOutputTensors made = alloc_tensors(info, info);",
            "const ChipTensor& a = made.get_ref(0); const ChipTensor& b = made.get_ref(1);",
            _rows("top", "x1", 0, 2) + _rows("below", "x1", 2, 2) + _rows("last", "x1", 4, 2),
            _task(0, "x0", "a") + _task(1, "a", "top") + _task(2, "a", "b"),
            _task(3, "b", "below") + _task(4, "a", "last") + _task(5, "a", "x2"),
            "}",
        )
    )
    build = write_build(folder / "build", orchestration(body, 3), _KERNELS)
    config = build / "kernel_config.py"
    named = '"function_name": "aicpu_orchestration_entry"'
    config.write_text(
        "from types import ArgDirection as _D\n"
        + config.read_text().replace(named, f'{named}, "signature": [_D.IN, _D.OUT, _D.OUT]')
    )
    data = {
        "in/x0": torch.arange(16.0).reshape(2, 8),
        "out/x1": torch.zeros(6, 8),
        "out/x2": torch.zeros(2, 8),
    }
    for name, value in data.items():
        path = build / "data" / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(value, path)
    return footprints(
        FootprintRequest(
            build=RunnableBuild(path=build, toolchain=good_trees.toolchain().with_schedule("serial")),
            golden_data=None,
            timeout=300,
            output=folder / "out",
        ),
        on_progress=lambda _text: None,
    )


def of(found: Footprints, kernel_name: str) -> TaskFootprint:
    (footprint,) = (each for each in found.found if each.kernel == kernel_name)
    return footprint


def test_the_schema_says_what_is_found() -> None:
    assert {"TaskFootprint", "UndeclaredRead", "UndeclaredWrite"} <= json.loads(footprints_schema_text())[
        "$defs"
    ].keys()


def test_every_task_is_examined_and_only_those_at_fault_are_named(found: Footprints) -> None:
    assert (found.tasks, found.examined, found.not_examined) == (6, 6, ())
    assert [each.kernel for each in found.found] == [
        "past_rows",
        "before",
        "accumulate",
        "reads_past",
        "no_offset",
    ]


def test_a_write_past_a_tensor_names_its_writer_and_whose_memory_it_is(found: Footprints) -> None:
    footprint = of(found, "past_rows")
    (write,) = footprint.writes
    assert (write.argument, write.tensor, write.bytes, write.reach) == (1, "x1", 12, 12)
    assert write.where == "past the end of the tensor"
    assert write.into == "x1, which task 3 (accumulate) writes"
    assert write.into_tasks == (3,)
    assert not footprint.reads


def test_a_write_before_a_buffer_shows_itself_by_a_guard_there(found: Footprints) -> None:
    (write,) = of(found, "before").writes
    assert (write.where, write.bytes, write.reach) == ("before the start of the buffer", 4, 16)


def test_an_output_that_is_read_too_depends_on_what_it_held(found: Footprints) -> None:
    footprint = of(found, "accumulate")
    (read,) = footprint.reads
    assert (read.argument, read.what) == (1, "held before")
    assert read.whose == "what no task writes: uninitialised"
    assert not footprint.writes


def test_a_read_past_a_buffer_is_told_from_one_within(found: Footprints) -> None:
    (read,) = of(found, "reads_past").reads
    assert (read.argument, read.what) == (0, "past the end of the buffer")


def test_a_kernel_that_counts_from_the_start_of_its_buffer(found: Footprints) -> None:
    footprint = of(found, "no_offset")
    assert footprint.wants_offset_zero
    assert not footprint.writes
    assert not footprint.reads


def test_each_is_told_in_a_line(found: Footprints) -> None:
    (line,) = footprint_lines(of(found, "past_rows"))
    assert line == (
        "task 1 past_rows: argument 1 (x1): writes 12 bytes past the end of the tensor, up to 12 bytes from there: "
        "into x1, which task 3 (accumulate) writes"
    )


def test_places_are_called_as_the_document_calls_them() -> None:
    spelled = get_args(UndeclaredRead.model_fields["what"].annotation)
    assert {place.value for place in Place} == set(spelled)


def test_memory_is_called_as_the_orchestration_calls_it(tmp_path: Path) -> None:
    build = SimulatedBuild.of(tmp_path / "build")
    owners = Owners(build.recorded)
    task = build.tasks.tasks[1]
    placement = Placement.from_task(build.tasks, task, TaskValues({}, {}, {}))
    assert [owners.name(task, index) for index in (0, 1)] == ["a", "b"]
    whole = np.arange(ELEMENTS)
    assert owners.users(task, placement.buffers[0], whole) == Owner((0,), "a, which task 0 (scale) writes")
    assert owners.describe_writers(task, placement.buffers[0], argument=0) == "what task 0 (scale) left"
    beyond = owners.owner(task, placement.buffers[0], ELEMENTS)
    assert beyond.text == "the buffer of b of task 1 (middle)"
    assert task.ordinal not in beyond.tasks


def _writer(position: int, kernel: str, into_tasks: tuple[int, ...]) -> TaskFootprint:
    write = UndeclaredWrite(
        argument=0,
        tensor="task 1 (middle)",  # a name may read like a task
        bytes=4,
        where="past the end of the buffer",
        reach=4,
        into="task 1 (middle)",
        into_tasks=into_tasks,
    )
    return TaskFootprint(
        task_id="0x0", position=position, kernel=kernel, kernel_sources=(), writes=(write,), reads=()
    )


def test_writers_into_a_task_come_first_whatever_the_words_say(tmp_path: Path) -> None:
    victim = SimulatedBuild.of(tmp_path / "build").tasks.tasks[1]
    found = [_writer(0, "harmless", ()), _writer(2, "elsewhere", (4,)), _writer(3, "culprit", (1, 4))]
    assert [each.kernel for each in sort_writers(found)] == ["elsewhere", "culprit", "harmless"]
    assert describe_stray_writers(found, victim).startswith("task 3 (culprit)")


def test_a_write_of_an_earlier_version_is_read() -> None:
    stored = _writer(0, "before", (1,)).writes[0].model_dump(mode="json")
    del stored["into_tasks"]
    assert UndeclaredWrite.model_validate(stored).into_tasks == ()


def test_tasks_whose_values_cannot_be_recorded_are_not_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = SimulatedBuild.of(tmp_path / "build")
    tried: list[int] = []

    def fail(**_asked: object) -> None:
        tried.append(1)
        raise ReplayError("it crashes", Verdict.CRASH, found="crash")

    monkeypatch.setattr(build, "dump", fail)
    examination = executor_in(tmp_path).execute(examine(build.recorded, build.tasks.tasks, budget=2**20))
    assert [each.position for each in examination.not_examined] == [0, 1, 2, 3, 4]
    assert {each.why for each in examination.not_examined} == {"it crashes"}
    assert len(tried) == 3
