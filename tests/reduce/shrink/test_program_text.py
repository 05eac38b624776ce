"""The orchestration of a cut program: parsed again, it submits the tasks that were kept, on the tensors of the cut."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from precision_bisect.reduce.replay.replay import TaskValues
from precision_bisect.reduce.shrink.cut import cut
from precision_bisect.reduce.shrink.program import (
    Buffer,
    Cut,
    NotReducibleError,
    Program,
    ProgramArgument,
    ProgramTask,
)
from precision_bisect.reduce.shrink.program_text import entry_tensors, orchestration_source, signature
from precision_bisect.runner.build_output.directory import Direction
from precision_bisect.runner.build_output.orchestration import Orchestration, Origin
from precision_bisect.runner.build_output.task_graph import ArgumentType, Region
from precision_bisect.runner.tensor import DType, TensorView
from tests.reduce.localize.simulated_build import ELEMENTS, TASKS, X0, SimulatedBuild, view
from tests.reduce.small_builds import SHIFT, small_build

NAMES = ("x0", "a", "b", "x1", "c", "x2")
KERNELS = ("scale", "middle")


class Computed:
    """The values of the simulated build's tasks."""

    def __init__(self, build: SimulatedBuild) -> None:
        self._before, self._after = build.values()

    def task_values(self, ordinal: int) -> TaskValues:
        before, after = view("x", self._before[ordinal]), view("y", self._after[ordinal])
        return TaskValues({0: before}, {1: after}, {})

    def inputs(self, ordinal: int) -> Mapping[int, TensorView]:
        return self.task_values(ordinal).before

    def source_run(self, ordinal: int) -> str:
        return "reference"


def program(
    build: SimulatedBuild, *, buffer_shape: tuple[int, ...] = (ELEMENTS,), offset: int = 0
) -> Program:
    """The five tasks; their arguments are the `ELEMENTS` elements from `offset` of each buffer."""
    region = Region(dtype=DType.FLOAT32, shape=(ELEMENTS,), strides=(1,), start_offset=offset)

    def argument(index: int, name: str) -> ProgramArgument:
        kind = ArgumentType.OUTPUT_EXISTING if index else ArgumentType.INPUT
        return ProgramArgument(index=index, type=kind, buffer=NAMES.index(name), region=region)

    return Program(
        orchestration=build.orchestration,
        config=build.config,
        tasks=tuple(
            ProgramTask(
                ordinal=ordinal,
                kernels=(KERNELS[kernel],),
                submit=build.orchestration.submits[ordinal],
                arguments=(argument(0, read), argument(1, written)),
                scalars=(),
                blocks=None,
            )
            for ordinal, (kernel, read, written) in enumerate(TASKS)
        ),
        buffers=tuple(
            Buffer(
                number=number,
                name=name,
                dtype=DType.FLOAT32,
                shape=buffer_shape,
                is_entry=name.startswith("x"),
            )
            for number, name in enumerate(NAMES)
        ),
    )


@pytest.fixture
def build(tmp_path: Path) -> SimulatedBuild:
    return SimulatedBuild.of(tmp_path / "build")


def parsed(made: Cut) -> Orchestration:
    again = Orchestration.parse(orchestration_source(made))
    assert again.syntax_errors == ()
    return again


def submitted(found: Orchestration) -> list[tuple[list[int | None], list[tuple[str, str]]]]:
    """Kernels and arguments, each with how it is used, of each submit."""
    return [
        (
            [each.func_id for each in submit.kernels if each.func_id != -1],
            [(each.usage.value, each.text) for each in submit.arguments],
        )
        for submit in found.submits
    ]


@pytest.mark.parametrize("kept", [{0, 1, 2, 3, 4}, {1, 2}, {3}, {0, 4}])
def test_the_text_submits_the_kept_tasks_in_order(kept: set[int], build: SimulatedBuild) -> None:
    made = cut(program(build), kept, Computed(build), {"x0": view("x0", X0)})
    found = parsed(made)
    assert submitted(found) == [
        ([kernel], [("input", f"ext_{read}"), ("output", f"ext_{written}")])
        for ordinal, (kernel, read, written) in enumerate(TASKS)
        if ordinal in kept
    ]
    assert found.expected_arg_count is not None
    assert found.expected_arg_count.value == len(made.tensors)
    assert [(tensor.name, tensor.index) for tensor in found.entry_tensors] == [
        (f"ext_{tensor.buffer.name}", index) for index, tensor in enumerate(made.tensors)
    ]
    assert found.allocations == ()


def test_the_harness_is_told_what_goes_in_and_what_is_judged(build: SimulatedBuild) -> None:
    made = cut(program(build), {1, 2}, Computed(build), {"x0": view("x0", X0)})
    told = [(each.name, each.shape, each.has_input, each.is_output) for each in entry_tensors(made)]
    # A tensor that is neither read from outside nor judged is passed as an input of zeros.
    assert told == [
        ("a", (ELEMENTS,), True, False),
        ("b", (ELEMENTS,), True, False),
        ("x1", (ELEMENTS,), False, True),
    ]
    assert signature(made) == (Direction.IN, Direction.INOUT, Direction.OUT)


def test_part_of_a_buffer_is_a_view_of_it(build: SimulatedBuild) -> None:
    whole = program(build, buffer_shape=(2 * ELEMENTS,), offset=ELEMENTS)
    found = parsed(cut(whole, {1}, Computed(build), {}))
    assert submitted(found) == [([1], [("input", "argument_0"), ("output", "argument_1")])]
    views = [tensor for tensor in found.tensors if tensor.origin is Origin.VIEW]
    assert [tensor.name for tensor in views] == ["argument_0", "argument_1"]
    source = found.source.decode()
    assert "argument_0_shapes[1] = {8};" in source
    assert "argument_0_offsets[1] = {8};" in source
    assert "argument_1 = ext_b.view(argument_1_shapes, argument_1_offsets);" in source


def test_blocks_and_scalars_are_told_as_the_run_had_them(tmp_path: Path) -> None:
    launch = "p1.launch_spec.set_block_num(blocks);"
    build = SimulatedBuild(small_build(tmp_path / "build", SHIFT, launch), lambda _run: {})
    plain = program(build)
    task = dataclasses.replace(plain.tasks[1], blocks=3, scalars=("static_cast<uint64_t>(7ull)",))
    changed = dataclasses.replace(plain, tasks=(plain.tasks[0], task, *plain.tasks[2:]))
    right = SimulatedBuild.of(tmp_path / "right")
    found = parsed(cut(changed, {1}, Computed(right), {}))
    (submit,) = found.submits
    assert [each.usage.value for each in submit.arguments] == ["input", "output", "scalar"]
    assert submit.arguments[2].text == "static_cast<uint64_t>(7ull)"
    assert [found.text(span) for span in submit.other_statements] == ["p1.launch_spec.set_block_num(3);"]


@pytest.mark.parametrize("missing", ["entry", "expected_arg_count"])
def test_a_dialect_that_is_not_understood_is_refused(missing: str, build: SimulatedBuild) -> None:
    whole = program(build)
    unknown = dataclasses.replace(build.orchestration, **{missing: None})
    made = cut(dataclasses.replace(whole, orchestration=unknown), {1}, Computed(build), {})
    with pytest.raises(NotReducibleError, match="expected an entry function, and its argument count"):
        orchestration_source(made)
