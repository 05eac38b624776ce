"""What each pass promises, on small programs."""

from __future__ import annotations

from dataclasses import replace

import minipto as mp
import pytest
from minipto import passes
from minipto.ir import Loop, Op, Program, Scope, Stage, Statement, Task, leaves, stages
from minipto.passes.legalize_casts import cast_route
from minipto.types import ArgDirection, Tail


def tensor(name: str, shape: tuple[int, int], dtype: mp.DType = mp.DType.FP32) -> mp.TensorParameter:
    role = mp.Role.OUTPUT if name.startswith("y") else mp.Role.INPUT
    return mp.TensorParameter(name=name, shape=shape, dtype=dtype, role=role)


def lowered(program: Program, until: str) -> Program:
    for name, run in passes.PASSES:
        program = run(program)
        if name == until:
            break
    return program


def tasks(body: tuple[Statement, ...]) -> dict[str, Task]:
    return {leaf.stage.name: leaf for leaf in leaves(body) if isinstance(leaf, Task)}


def scopes(body: tuple[Statement, ...]) -> list[Scope]:
    found: list[Scope] = []
    for statement in body:
        if isinstance(statement, Scope | Loop):
            found += [statement] if isinstance(statement, Scope) else []
            found += scopes(statement.body)
    return found


@mp.jit
def softmax(x: mp.Region, y: mp.Region) -> None:
    peak = mp.row_max(x, name="peak")
    weights = mp.exp(mp.sub(x, peak, name="shifted"), name="weights")
    mp.div(weights, mp.row_sum(weights, name="total"), out=y)


@mp.jit
def product(x: mp.Region, w: mp.Region, y: mp.Region) -> None:
    mp.add(mp.matmul(x, w, name="partial"), 1.0, out=y)


def test_dead_code_is_dropped() -> None:
    @mp.jit
    def wasteful(x: mp.Region, y: mp.Region) -> None:
        mp.exp(mp.add(x, 1.0, name="unused"), name="unused_too")
        mp.mul(x, 2.0, out=y)

    program = lowered(wasteful.trace([tensor("x", (4, 4)), tensor("y", (4, 4))]), "EliminateDeadCode")
    assert [op.kind for op in program.body if isinstance(op, Op)] == ["mul"]


def test_half_arithmetic_is_widened_and_rounded_to_even() -> None:
    @mp.jit
    def half(x: mp.Region, y: mp.Region) -> None:
        mp.add(x, x, out=y)

    bf16 = mp.DType.BF16
    program = lowered(half.trace([tensor("x", (4, 4), bf16), tensor("y", (4, 4), bf16)]), "LegalizeCasts")
    ops = [op for op in program.body if isinstance(op, Op)]
    assert [(op.kind, op.output.tensor.dtype.label) for op in ops] == [
        ("cast", "fp32"),
        ("add", "fp32"),
        ("cast", "bf16"),
    ]
    assert ops[-1].round_mode is mp.RoundMode.RINT


@pytest.mark.parametrize("source", list(mp.DType))
@pytest.mark.parametrize("target", list(mp.DType))
def test_cast_routes_end_at_the_target(source: mp.DType, target: mp.DType) -> None:
    route = cast_route(source, target)
    assert (route[-1] if route else source) is target
    assert len(route) <= 3


def test_fusion_keeps_reductions_apart_and_hides_what_only_a_stage_needs() -> None:
    program = lowered(softmax.trace([tensor("x", (4, 4)), tensor("y", (4, 4))]), "FuseElementwise")
    found = {stage.name: stage for stage in stages(program.body)}
    assert list(found) == ["peak", "weights", "total", "y"]
    assert [op.kind for op in found["weights"].ops] == ["sub", "exp"]
    assert [region.tensor.name for region in found["weights"].writes] == ["weights"]


def test_a_transposed_read_is_not_fused() -> None:
    @mp.jit
    def crossed(x: mp.Region, y: mp.Region) -> None:
        mp.add(x, mp.exp(x, name="grown").T, out=y)

    program = lowered(crossed.trace([tensor("x", (4, 4)), tensor("y", (4, 4))]), "FuseElementwise")
    assert [stage.name for stage in stages(program.body)] == ["grown", "y"]


def test_rows_share_a_loop_and_intermediates_shrink_to_a_tile() -> None:
    program = lowered(softmax.trace([tensor("x", (96, 200)), tensor("y", (96, 200))]), "TileLoops")
    (loop,) = program.body
    assert isinstance(loop, Loop)
    assert (loop.start, loop.stop, loop.step) == (0, 96, 32)
    weights = next(stage for stage in loop.body if isinstance(stage, Stage) and stage.name == "weights")
    assert weights.writes[0].tensor.shape == (32, 200)


@pytest.mark.parametrize(("columns", "tail"), [(256, Tail.FULL), (200, Tail.MASKED), (8, Tail.MASKED)])
def test_a_reduction_masks_a_partial_tile(columns: int, tail: Tail) -> None:
    program = lowered(softmax.trace([tensor("x", (4, columns)), tensor("y", (4, columns))]), "TileLoops")
    assert {stage.tail for stage in stages(program.body) if stage.name in ("peak", "total")} == {tail}


def test_later_steps_of_a_split_product_read_what_they_add_to() -> None:
    parameters = [tensor("x", (16, 256)), tensor("w", (256, 64)), tensor("y", (16, 64))]
    found = tasks(lowered(product.trace(parameters), "PlaceScopes").body)
    directions = {name: task.arguments[-1].direction for name, task in found.items()}
    assert directions == {
        "partial": ArgDirection.OUT,
        "partial_acc": ArgDirection.INOUT,
        "y": ArgDirection.OUT,
    }


def test_a_buffer_is_allocated_in_the_innermost_scope_with_all_its_uses() -> None:
    program = lowered(softmax.trace([tensor("x", (96, 64)), tensor("y", (96, 64))]), "PlaceScopes")
    outer, inner = scopes(program.body)
    assert outer.allocations == ()
    assert [allocated.name for allocated in inner.allocations] == ["peak", "weights", "total"]


def test_a_dead_buffer_is_reused() -> None:
    program = lowered(softmax.trace([tensor("x", (4, 64)), tensor("y", (4, 64))]), "ReuseMemory")
    buffers = {allocated.name: allocated.storage for allocated in scopes(program.body)[0].allocations}
    assert buffers == {"peak": "peak", "weights": "weights", "total": "peak"}


def test_a_buffer_with_a_pending_reader_is_not_reused() -> None:
    @mp.jit
    def late_reader(x: mp.Region, y: mp.Region) -> None:
        peak = mp.row_max(x, name="peak")
        total = mp.row_sum(mp.exp(mp.sub(x, peak, name="shifted"), name="weights"), name="total")
        mp.add(peak, total, out=y)

    program = lowered(late_reader.trace([tensor("x", (4, 64)), tensor("y", (4, 1))]), "ReuseMemory")
    buffers = {allocated.name: allocated.storage for allocated in scopes(program.body)[0].allocations}
    assert buffers["total"] == "total"


def test_a_buffer_whose_writers_may_be_running_is_not_reused() -> None:
    """A reader of one half waits for the tiles of that half only."""

    @mp.jit
    def halved(x: mp.Region, w: mp.Region, y: mp.Region) -> None:
        wide = mp.matmul(x, w, name="wide")
        half = mp.exp(wide.view((8, 64), (0, 0)), name="half")
        mp.add(mp.matmul(half, w, name="next"), 1.0, out=y)

    parameters = [tensor("x", (8, 64)), tensor("w", (64, 128)), tensor("y", (8, 128))]
    program = lowered(halved.trace(parameters), "ReuseMemory")
    buffers = {allocated.name: allocated.storage for allocated in scopes(program.body)[0].allocations}
    assert buffers["next"] == "next"


def test_tasks_of_one_loop_do_not_hand_buffers_to_each_other() -> None:
    """`last` depends on every reader of `seed`, but the next iteration reads `seed` again."""

    @mp.jit
    def looped(x: mp.Region, y: mp.Region) -> None:
        seed = mp.row_max(x, name="seed")
        for _ in mp.loop("i", 2):
            peak = mp.row_max(mp.mul(x, seed, name="scaled"), name="peak")
            last = mp.row_max(mp.mul(x, peak, name="scaled_again"), name="last")
        mp.add(last, 0.0, out=y)

    program = lowered(looped.trace([tensor("x", (4, 64)), tensor("y", (4, 1))]), "ReuseMemory")
    outer = scopes(program.body)[0]
    assert {allocated.name: allocated.storage for allocated in outer.allocations} == {
        "seed": "seed",
        "last": "last",
    }


def places(program: Program, stage: str) -> dict[str, tuple[str, int, int]]:
    task = tasks(lowered(program, "AllocateMemoryAddr").body)[stage]
    return {p.region.tensor.name: (p.memory, p.offset, p.size) for p in task.places}


def test_a_tile_takes_the_bytes_of_an_operand_that_nothing_reads_afterwards() -> None:
    program = softmax.trace([tensor("x", (4, 64)), tensor("y", (4, 64))])
    assert places(program, "weights") == {
        "x": ("Vec", 0, 1024),
        "peak": ("Vec", 1024, 32),
        "shifted": ("Vec", 0, 1024),
        "weights": ("Vec", 0, 1024),
    }
    assert places(program, "total") == {"weights": ("Vec", 0, 1024), "total": ("Vec", 1024, 32)}


def test_a_stored_tile_keeps_its_bytes_to_the_end() -> None:
    @mp.jit
    def two(x: mp.Region, y: mp.Region, y2: mp.Region) -> None:
        grown = mp.exp(x, name="grown")
        mp.add(grown, 1.0, out=y)
        mp.mul(grown, grown, out=y2)

    program = two.trace([tensor("x", (4, 8)), tensor("y", (4, 8)), tensor("y2", (4, 8))])
    found = places(program, "y2")
    assert found["grown"] == found["x"] == found["y2"]
    assert found["y"] == ("Vec", 128, 128)


def test_a_product_has_memories_of_its_own_and_a_reduction_whole_tiles() -> None:
    parameters = [tensor("x", (16, 64)), tensor("w", (64, 64)), tensor("y", (16, 64))]
    assert places(product.trace(parameters), "partial") == {
        "x": ("Left", 0, 4096),
        "w": ("Right", 0, 16384),
        "partial": ("Acc", 0, 4096),
    }
    program = softmax.trace([tensor("x", (4, 72)), tensor("y", (4, 72))])
    assert places(program, "peak")["x"] == ("Vec", 0, 4 * 128 * 4)


@pytest.mark.parametrize("name", ["float", "row", "ext_x", "a-b", "x_ci"])
def test_names_that_generated_code_cannot_use_are_refused(name: str) -> None:
    @mp.jit
    def named(x: mp.Region, y: mp.Region) -> None:
        mp.add(mp.exp(x, name=name), 1.0, out=y)

    with pytest.raises(mp.CompileError, match="cannot name"):
        named.trace([tensor("x", (4, 4)), tensor("y", (4, 4))])


def test_shapes_that_do_not_fit_are_refused() -> None:
    parameters = [tensor("x", (4, 5)), tensor("w", (4, 5)), tensor("y", (4, 5))]
    with pytest.raises(mp.CompileError, match=r"matmul: fp32\[4, 5\] and fp32\[4, 5\] do not multiply"):
        product.trace(parameters)


def test_a_cast_without_a_route_is_reported_with_its_types() -> None:
    @mp.jit
    def integers(x: mp.Region, y: mp.Region) -> None:
        mp.add(x, x, out=y)

    parameters = [tensor("x", (4, 4)), tensor("y", (4, 4))]
    parameters = [replace(parameter, dtype=mp.DType.INT8) for parameter in parameters]
    with pytest.raises(mp.CompileError, match="not offered on int8"):
        lowered(integers.trace(parameters), "LegalizeCasts")
