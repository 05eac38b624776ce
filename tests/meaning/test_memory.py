"""Planted faults of a memory planner: each is named with both tiles; what is planned well has no finding."""

from __future__ import annotations

import pytest
import torch

from precision_bisect.meaning.ir import CAPACITIES_910B, MemorySpace
from precision_bisect.meaning.memory import MemoryExecution
from precision_bisect.meaning.values import Finding, FindingKind

from .dumps import kernel, load, program, tensor, tile

A, B = torch.arange(512.0).reshape(32, 16), -torch.arange(512.0).reshape(32, 16) - 1
PARAMETERS = f"a: {tensor(32, 16)}, b: {tensor(32, 16)}, c: pl.Out[{tensor(32, 16)}]"
KB = 2048
"""The bytes of a tile of 32 times 16 floats."""


def execute(
    *statements: str, absolute: bool = True, out: tuple[int, int] = (32, 16), role: str = "AIV"
) -> tuple[torch.Tensor, list[Finding]]:
    parameters = PARAMETERS.replace(f"c: pl.Out[{tensor(32, 16)}]", f"c: pl.Out[{tensor(*out)}]")
    run = MemoryExecution(
        program(kernel(parameters, *statements, role=role)),
        addresses_assigned=absolute,
        capacities=CAPACITIES_910B,
    )
    result = run.run({"a": A, "b": B, "c": torch.zeros(out)})["c"].centre
    return result, run.findings


def at(offset: int, size: int = KB, base: str = "mem_vec_0") -> tuple[str, int, int]:
    return base, offset, size


def store(name: str) -> str:
    return f"r = pl.tile.store({name}, [0, 0], c)"


def loads(first: int, second: int) -> tuple[str, str]:
    return (
        f"ta: {tile(32, 16, at=at(first))} = {load('a', [32, 16])}",
        f"tb: {tile(32, 16, at=at(second))} = {load('b', [32, 16])}",
    )


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, [finding.describe() for finding in findings]
    return findings[0]


def test_a_write_without_a_target_changes_the_bytes_of_its_tile() -> None:
    write = "pl.tile.write(ta, [31, 15], 7.0)"
    sum_of_both = f"s: {tile(32, 16, at=at(2 * KB))} = pl.tile.add(ta, tb)"
    result, findings = execute(*loads(0, KB), write, sum_of_both, store("s"))
    wanted = A + B
    wanted[31, 15] = 7 + B[31, 15]
    assert torch.equal(result, wanted)
    assert findings == []
    _, findings = execute(
        *loads(0, KB), f"tc: {tile(32, 16, at=at(0))} = {load('b', [32, 16])}", write, store("ta")
    )
    assert [each.operation for each in findings] == ["tile.write", "tile.store"]
    assert {each.kind for each in findings} == {FindingKind.OVERWRITTEN}


def test_tiles_that_lie_apart_have_no_finding() -> None:
    result, findings = execute(
        *loads(0, KB), f"s: {tile(32, 16, at=at(2 * KB))} = pl.tile.sub(ta, tb)", store("s")
    )
    assert torch.equal(result, A - B)
    assert findings == []


def test_an_elementwise_result_may_lie_on_either_operand() -> None:
    for place in (0, KB):
        result, findings = execute(
            *loads(0, KB), f"s: {tile(32, 16, at=at(place))} = pl.tile.sub(ta, tb)", store("s")
        )
        assert torch.equal(result, A - B)
        assert findings == []


def test_a_tile_that_another_has_overwritten() -> None:
    result, findings = execute(
        *loads(0, KB // 2), f"s: {tile(32, 16, at=at(2 * KB))} = pl.tile.sub(ta, tb)", store("s")
    )
    finding = only(findings)
    assert (finding.kind, finding.tile, finding.other) == (FindingKind.OVERWRITTEN, "ta", "tb")
    assert (finding.place.line, finding.written_at.line) == (10, 9)
    assert (finding.first_byte, finding.bytes, finding.rows) == (KB // 2, KB // 2, (16, 31))
    assert "tile.sub reads ta, rows 16 to 31, overwritten by tb (case.py:9)" in finding.describe()
    assert not torch.equal(result, A - B)
    assert torch.equal(result[:16], (A - B)[:16])


def test_a_tile_overwritten_after_its_last_use_is_no_finding() -> None:
    result, findings = execute(
        loads(0, 0)[0],
        store("ta"),
        loads(0, 0)[1],
        f"s: {tile(32, 16, at=at(0))} = pl.tile.neg(tb)",
        store("s"),
    )
    assert torch.equal(result, -B)
    assert findings == []


def test_a_concatenation_over_its_operand_loses_the_rows_after_the_first() -> None:
    """Pypto before ba0ace891: its tile_out lay on tile_a."""
    result, findings = execute(
        f"ta: {tile(32, 16, at=at(KB, KB, 'mem_vec_5'))} = {load('a', [32, 16])}",
        f"tb: {tile(32, 16, at=at(0, KB, 'mem_vec_3'))} = {load('b', [32, 16])}",
        f"both: {tile(32, 32, at=at(KB, 2 * KB, 'mem_vec_5'))} = pl.tile.concat(ta, tb)",
        store("both"),
        out=(32, 32),
    )
    finding = only(findings)
    assert (finding.kind, finding.tile, finding.other, finding.rows) == (
        FindingKind.OVER_OPERAND,
        "ta",
        "both",
        (1, 31),
    )
    assert (finding.space, finding.first_byte) == (MemorySpace.VEC, KB)
    assert torch.equal(result[0], torch.cat([A, B], 1)[0])
    assert result[1:, :16].isnan().all()


@pytest.mark.parametrize(
    ("statement", "victim"),
    [
        (f"s: {tile(32, 16, at=at(KB))} = pl.tile.row_expand_mul(ta, col)", "col"),
        (f"s: {tile(16, 32, at=at(0))} = pl.tile.transpose(ta, 0, 1)", "ta"),
        (
            f"s: {tile(32, 8, dtype='FP64', at=at(0))} = pl.tile.cast(half, target_type=pl.FP64, mode='rint')",
            "half",
        ),
    ],
)
def test_operations_that_cannot_be_in_place(statement: str, victim: str) -> None:
    _, findings = execute(
        loads(0, 0)[0],
        f"col: {tile(32, 1, at=at(KB, 128))} = pl.tile.load(b, [0, 0], [32, 1], [32, 1])",
        f"half: {tile(32, 8, at=at(0, KB // 2))} = pl.tile.load(a, [0, 0], [32, 8], [32, 8])"
        if victim == "half"
        else "pass",
        statement,
    )
    assert [(each.kind, each.tile) for each in findings] == [(FindingKind.OVER_OPERAND, victim)]


@pytest.mark.parametrize(("row", "kinds"), [(0, []), (2, [FindingKind.OVER_OPERAND])])
def test_a_sum_of_rows_may_lie_on_the_first(row: int, kinds: list[FindingKind]) -> None:
    place = tile(1, 16, at=at(64 * row, 64))
    result, findings = execute(
        loads(0, 0)[0], f"s: {place} = pl.tile.col_sum(ta)", "r = pl.tile.store(s, [0, 0], c)"
    )
    assert [each.kind for each in findings] == kinds
    assert torch.equal(result[:1], A.sum(0, keepdim=True)) == (not kinds)


def test_room_to_work_in_that_lies_on_an_operand() -> None:
    _, findings = execute(
        loads(0, 0)[0],
        f"room: {tile(32, 16, at=at(1024))} = pl.tile.create([32, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)",
        f"s: {tile(32, 1, at=at(3 * KB, 128))} = pl.tile.row_sum(ta, room)",
    )
    assert (only(findings).tile, findings[0].other) == ("ta", "room")


def test_room_is_lost_to_what_lies_there() -> None:
    _, findings = execute(
        *loads(0, KB),
        f"room: {tile(32, 16, at=at(KB))} = pl.tile.create([32, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)",
        f"s: {tile(32, 1, at=at(3 * KB, 128))} = pl.tile.row_sum(ta, room)",
        f"t: {tile(32, 16, at=at(4 * KB))} = pl.tile.neg(tb)",
    )
    assert (only(findings).kind, findings[0].tile) == (FindingKind.OVERWRITTEN, "tb")


def test_elements_that_no_one_wrote() -> None:
    view = ", pl.TileView(valid_shape=[32, 12])"
    partial = f"ta: {tile(32, 16, at=at(0), view=view)} = pl.tile.load(a, [0, 0], [32, 16], [32, 12])"
    _, findings = execute(partial, f"s: {tile(32, 16, at=at(KB), view=view)} = pl.tile.neg(ta)", store("s"))
    assert findings == []
    whole = f"w: {tile(32, 16, at=at(0))} = pl.tile.set_validshape(ta, 32, 16)"
    _, findings = execute(partial, whole, f"s: {tile(32, 16, at=at(KB))} = pl.tile.neg(w)")
    assert (only(findings).kind, findings[0].tile, findings[0].bytes) == (
        FindingKind.NEVER_WRITTEN,
        "ta",
        32 * 4 * 4,
    )
    filled = f"w: {tile(32, 16, at=at(0))} = pl.tile.fillpad(ta, pad_value=pl.PadValue.zero)"
    result, findings = execute(partial, filled, f"s: {tile(32, 16, at=at(KB))} = pl.tile.neg(w)", store("s"))
    assert findings == []
    assert torch.equal(result[:, :12], -A[:, :12])
    assert not result[:, 12:].any()


def test_a_created_tile_is_written_part_by_part() -> None:
    create = (
        f"t: {tile(32, 16, at=at(0))} = pl.tile.create([32, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)"
    )
    half = f"h: {tile(16, 16, at=at(2 * KB, KB // 2))} = pl.tile.load(a, [0, 0], [16, 16], [16, 16])"
    first = f"u: {tile(32, 16, at=at(0))} = pl.tile.assemble(t, h, [0, 0])"
    second = f"v: {tile(32, 16, at=at(0))} = pl.tile.assemble(u, h, [16, 0])"
    result, findings = execute(create, half, first, second, store("v"))
    assert findings == []
    assert torch.equal(result, torch.cat([A[:16], A[:16]]))
    _, findings = execute(create, half, first, store("u"))
    assert (only(findings).kind, findings[0].rows) == (FindingKind.NEVER_WRITTEN, (16, 31))


def test_views_see_what_lies_below_them() -> None:
    row = f"p: {tile(8, 16, at=at(512, 512))} = pl.tile.slice(ta, [8, 16], [8, 0])"
    result, findings = execute(
        loads(0, 0)[0], row, f"s: {tile(8, 16, at=at(KB, 512))} = pl.tile.neg(p)", store("s")
    )
    assert findings == []
    assert torch.equal(result[:8], -A[8:16])
    clobber = f"x: {tile(8, 16, at=at(512, 512))} = pl.tile.load(b, [0, 0], [8, 16], [8, 16])"
    _, findings = execute(loads(0, 0)[0], row, clobber, f"s: {tile(8, 16, at=at(KB, 512))} = pl.tile.neg(p)")
    assert (only(findings).tile, findings[0].other) == ("ta", "x")


def test_a_loop_finds_its_value_where_the_first_was() -> None:
    def loop(place: int) -> tuple[torch.Tensor, list[Finding]]:
        there = tile(32, 16, at=at(place))
        body = f"    u: {there} = pl.tile.add(s, tb)\n    v: {there} = pl.yield_(u)"
        return execute(*loads(0, KB), f"for i, (s,) in pl.range(3, init_values=(ta,)):\n{body}", store("v"))

    result, findings = loop(0)
    assert findings == []
    assert torch.equal(result, A + 3 * B)
    result, findings = loop(2 * KB)
    assert {each.kind for each in findings} == {FindingKind.OVERWRITTEN}
    assert not torch.equal(result, A + 3 * B)


def test_a_tile_past_its_space_and_past_its_allocation() -> None:
    top = CAPACITIES_910B[MemorySpace.VEC]
    _, findings = execute(f"ta: {tile(32, 16, at=at(top - KB))} = {load('a', [32, 16])}")
    assert findings == []
    _, findings = execute(f"ta: {tile(32, 16, at=at(top - KB + 32))} = {load('a', [32, 16])}")
    assert only(findings).kind is FindingKind.TOO_LARGE
    alloc = "mem_vec_0: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 2048)"
    _, findings = execute(alloc, f"ta: {tile(32, 16, at=at(0))} = {load('a', [32, 16])}", absolute=False)
    assert findings == []
    _, findings = execute(alloc, f"ta: {tile(32, 16, at=at(32))} = {load('a', [32, 16])}", absolute=False)
    assert only(findings).kind is FindingKind.TOO_LARGE
    _, findings = execute(f"ta: {tile(32, 16, at=at(0, 1024))} = {load('a', [32, 16])}")
    assert only(findings).kind is FindingKind.TOO_LARGE
    _, findings = execute(f"ta: {tile(32, 16, at=at(1 << 50))} = {load('a', [32, 16])}")
    assert only(findings).kind is FindingKind.TOO_LARGE


def test_the_bytes_of_a_pipe_are_its_own() -> None:
    reserve = "p: pl.Scalar[pl.INT64] = pl.system.reserve_buffer(name='slots', size=4096, base=0)"
    _, findings = execute(reserve, f"ta: {tile(32, 16, at=at(4096))} = {load('a', [32, 16])}")
    assert findings == []
    _, findings = execute(reserve, f"ta: {tile(32, 16, at=at(4064))} = {load('a', [32, 16])}")
    assert only(findings).kind is FindingKind.IN_RESERVED


def test_before_addresses_are_assigned_allocations_lie_apart() -> None:
    statements = (
        f"ta: {tile(32, 16, at=at(0, KB, 'mem_vec_1'))} = {load('a', [32, 16])}",
        f"tb: {tile(32, 16, at=at(0, KB, 'mem_vec_2'))} = {load('b', [32, 16])}",
        f"s: {tile(32, 16, at=at(0, KB, 'mem_vec_3'))} = pl.tile.sub(ta, tb)",
        store("s"),
    )
    result, findings = execute(*statements, absolute=False)
    assert findings == []
    assert torch.equal(result, A - B)
    _, findings = execute(*statements, absolute=True)
    assert only(findings).kind is FindingKind.OVERWRITTEN


@pytest.mark.parametrize("columns", [8, 16])
def test_a_part_of_wider_rows_is_put_together_on_its_source(columns: int) -> None:
    """Pypto issue 2010: halves of a tile that an operation cannot read in place; whole rows it can."""
    vector = f"s: {tile(1, columns, at=at(KB, 64))} = pl.tile.load(b, [0, 0], [1, {columns}], [1, {columns}])"

    def half(name: str, offset: int) -> str:
        place = tile(16, columns, at=at(offset * 4, 64 * columns))
        return f"{name}: {place} = pl.tile.slice(ta, [16, {columns}], [0, {offset}])"

    result, findings = execute(
        loads(0, 0)[0],
        vector,
        half("low", 0),
        half("high", 16 - columns),
        f"x: {tile(16, columns, at=at(2 * KB, 64 * columns))} = pl.tile.col_expand_mul(low, s)",
        f"y: {tile(16, columns, at=at(3 * KB, 64 * columns))} = pl.tile.col_expand_mul(high, s)",
        store("y"),
    )
    wanted = A[:16, 16 - columns :] * B[:1, :columns]
    if columns == 16:
        assert findings == []
        assert torch.equal(result[:16], wanted)
    else:
        assert (only(findings).kind, findings[0].tile, findings[0].other) == (
            FindingKind.OVERWRITTEN,
            "ta",
            "low",
        )
        assert not torch.equal(result[:16, :8], wanted)


def test_a_view_that_is_named_elsewhere_than_its_source() -> None:
    """Pypto before 26d5551c6: the second row of a tile was looked for at the first one's bytes."""
    result, findings = execute(
        loads(0, KB)[0],
        f"row: {tile(1, 16, at=at(64, 64))} = pl.tile.slice(ta, [1, 16], [1, 0])",
        f"column: {tile(16, 1, at=at(0, 64))} = pl.tile.reshape(row, [16, 1])",
        store("column"),
        out=(16, 1),
    )
    finding = only(findings)
    assert (finding.kind, finding.tile, finding.other) == (FindingKind.DISPLACED, "column", "ta")
    assert "names column, a view of ta, where that does not lie" in finding.describe()
    assert torch.equal(result, A[0].reshape(16, 1))


def test_a_view_of_another_allocation_reads_what_no_one_wrote() -> None:
    """Pypto before 8654b0f66: a loaded tile was moved, and its view stayed behind."""
    _, findings = execute(
        f"ta: {tile(32, 16, at=at(0, KB, 'mem_vec_1'))} = {load('a', [32, 16])}",
        f"part: {tile(16, 16, at=at(0, KB // 2, 'mem_vec_2'))} = pl.tile.slice(ta, [16, 16], [0, 0])",
        store("part"),
        absolute=False,
        out=(16, 16),
    )
    assert findings[0].kind is FindingKind.DISPLACED
    assert (findings[0].tile, findings[0].other) == ("part", "ta")


def test_a_row_that_is_put_together_elsewhere_overwrites_what_lies_there() -> None:
    """Pypto before 0ac36c0f9: each row went to the first row's bytes."""
    _, findings = execute(
        *loads(0, KB),
        f"row: {tile(1, 16, at=at(0, 64))} = pl.tile.slice(ta, [1, 16], [3, 0])",
        f"s: {tile(32, 16, at=at(KB))} = pl.tile.col_expand_mul(tb, row)",
        f"u: {tile(32, 16, at=at(KB))} = pl.tile.sub(s, ta)",
        store("u"),
    )
    finding = only(findings)
    assert (finding.kind, finding.tile, finding.other) == (FindingKind.OVERWRITTEN, "ta", "row")
    assert finding.rows == (0, 0)


@pytest.mark.parametrize("operation", ["recip(w)", "ands(w, 6)", "ors(w, 6)"])
def test_the_instruction_set_excludes_a_result_on_its_operand(operation: str) -> None:
    """Pypto before 663552010."""
    dtype = "FP32" if operation.startswith("recip") else "INT32"
    _, findings = execute(
        f"w: {tile(32, 16, dtype=dtype, at=at(0))} = {load('a', [32, 16])}",
        f"s: {tile(32, 16, dtype=dtype, at=at(0))} = pl.tile.{operation}",
        store("s"),
    )
    finding = only(findings)
    assert (finding.kind, finding.tile, finding.other) == (FindingKind.OVER_OPERAND, "w", "s")


def test_before_the_planner_a_loop_keeps_a_tile_as_it_was_handed_on() -> None:
    statements = (
        *loads(0, KB),
        "for i, (one, two) in pl.range(3, init_values=(ta, tb)):\n"
        f"    g: {tile(32, 16, at=at(2 * KB))} = pl.tile.add(one, two)\n"
        f"    s: {tile(32, 16, at=at(3 * KB))} = pl.tile.muls(two, 2.0)\n"
        "    first, second = pl.yield_(s, g)",
        store("second"),
    )
    one, two = A, B
    for _ in range(3):
        one, two = two * 2, one + two
    run = MemoryExecution(program(kernel(PARAMETERS, *statements)), addresses_assigned=True, is_planned=False)
    result = run.run({"a": A, "b": B, "c": torch.zeros(32, 16)})["c"].centre
    assert torch.equal(result, two)
    assert run.findings == []


def test_a_move_that_reorders_elements_may_not_lie_on_its_operand() -> None:
    fractal = ", pl.TileView(blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.row_major)"
    findings = execute(
        f"ta: {tile(32, 16, at=at(0))} = {load('a', [32, 16])}",
        f"m: {tile(32, 16, at=at(0), view=fractal)} = pl.tile.move(ta, target_memory=pl.Mem.Vec)",
    )[1]
    assert (only(findings).kind, only(findings).other) == (FindingKind.OVER_OPERAND, "m")


def test_before_the_planner_a_view_follows_its_source_to_where_it_still_lies() -> None:
    statements = (
        *loads(0, KB),
        "for i, (s,) in pl.range(2, init_values=(ta,)):\n"
        f"    u: {tile(32, 16, at=at(0, base='mem_vec_2'))} = pl.tile.add(s, tb)\n"
        f"    v: {tile(32, 16, at=at(0))} = pl.yield_(u)",
        f"w: {tile(32, 16, at=at(0))} = pl.tile.set_validshape(v, 32, 16)",
        store("w"),
    )
    run = MemoryExecution(
        program(kernel(PARAMETERS, *statements)), addresses_assigned=False, is_planned=False
    )
    result = run.run({"a": A, "b": B, "c": torch.zeros(32, 16)})["c"].centre
    assert torch.equal(result, A + 2 * B)
    assert run.findings == []


COLUMN_MAJOR = ", pl.TileView(blayout=pl.TileLayout.col_major)"


@pytest.mark.parametrize(
    ("first", "is_lost"), [(4 * KB, True), (4 * KB - 30 * 64, True), (4 * KB - 31 * 64, False)]
)
def test_a_row_that_is_read_for_each_row_outlives_all_but_the_last_of_the_result(
    first: int, is_lost: bool
) -> None:
    result, findings = execute(
        loads(0, 0)[0],
        f"row: {tile(1, 16, at=at(4 * KB, 64))} = {load('b', [1, 16])}",
        f"s: {tile(32, 16, at=at(first))} = pl.tile.add(ta, row)",
        store("s"),
    )
    if is_lost:
        finding = only(findings)
        assert (finding.kind, finding.tile, finding.rows) == (FindingKind.OVER_OPERAND, "row", (0, 0))
        assert result.isnan().any()
    else:
        assert findings == []
        assert torch.equal(result, A + B[:1])


def test_the_first_wrong_byte_of_a_tile_column_by_column() -> None:
    _, findings = execute(
        f"ta: {tile(2, 3, at=at(0, 24), view=COLUMN_MAJOR)} = {load('a', [2, 3])}",
        f"x: {tile(1, 1, at=at(8, 4))} = {load('b', [1, 1])}",
        f"s: {tile(2, 3, at=at(KB, 24), view=COLUMN_MAJOR)} = pl.tile.neg(ta)",
    )
    finding = only(findings)
    assert (finding.tile, finding.other, finding.first_byte, finding.rows) == ("ta", "x", 8, (0, 0))


@pytest.mark.parametrize(("operand", "result"), [("", COLUMN_MAJOR), (COLUMN_MAJOR, "")])
def test_elements_in_another_order_are_not_in_place(operand: str, result: str) -> None:
    for view, count in ((result, 1), (operand, 0)):
        _, findings = execute(
            f"ta: {tile(4, 8, at=at(0, 128), view=operand)} = {load('a', [4, 8])}",
            f"s: {tile(4, 8, at=at(0, 128), view=view)} = pl.tile.neg(ta)",
        )
        assert [finding.kind for finding in findings] == [FindingKind.OVER_OPERAND] * count


@pytest.mark.parametrize("value", ["pl.tile.reshape(ta, [3, 2])", "ta"])
def test_another_shape_of_a_tile_column_by_column_keeps_its_elements(value: str) -> None:
    """A new name for a tile may state another shape, too."""
    result, findings = execute(
        f"ta: {tile(2, 3, at=at(0, 24), view=COLUMN_MAJOR)} = {load('a', [2, 3])}",
        f"w: {tile(3, 2, at=at(0, 24))} = {value}",
        store("w"),
        out=(3, 2),
    )
    assert findings == []
    assert torch.equal(result, A[:2, :3].reshape(3, 2))


def test_a_vector_keeps_its_bytes_as_a_row_and_as_a_column() -> None:
    result, findings = execute(
        f"row: {tile(1, 16, at=at(0, 64))} = {load('a', [1, 16])}",
        f"column: {tile(16, 1, at=at(0, 64), view=COLUMN_MAJOR)} = pl.tile.reshape(row, [16, 1])",
        f"x: {tile(1, 1, at=at(4, 4))} = {load('b', [1, 1])}",
        store("column"),
        out=(16, 1),
    )
    assert (only(findings).first_byte, only(findings).bytes) == (4, 4)
    assert result[1, 0] == B[0, 0]


def test_bytes_where_no_one_wrote_are_not_overwritten_by_anyone() -> None:
    _, findings = execute(
        loads(0, 0)[0],
        f"w: {tile(32, 16, at=at(4 * KB))} = ta",
        f"s: {tile(32, 16, at=at(KB))} = pl.tile.neg(w)",
    )
    finding = only(findings)
    assert (finding.kind, finding.tile, finding.other) == (FindingKind.NEVER_WRITTEN, "ta", None)


def test_a_part_is_written_to_a_tile_whose_elements_are_kept_aside() -> None:
    """The order of a transposed view in memory is unknown, and so are the writers of what the update leaves."""
    result, findings = execute(
        loads(0, 0)[0],
        f"half: {tile(16, 16, at=at(KB, KB // 2))} = {load('b', [16, 16])}",
        f"t: {tile(16, 32, at=at(0))} = pl.tile.transpose_view(ta)",
        f"u: {tile(16, 32, at=at(0))} = pl.tile.assemble(t, half, [0, 0])",
        store("u"),
        out=(16, 32),
    )
    assert findings == []
    assert torch.equal(result, torch.cat([B[:16], A.T[:, 16:]], 1))


def test_an_operand_that_is_scratch_as_well_is_lost() -> None:
    _, findings = execute(loads(0, 0)[0], f"s: {tile(32, 1, at=at(KB, 128))} = pl.tile.row_sum(ta, ta)")
    assert {(each.kind, each.tile) for each in findings} >= {(FindingKind.OVER_OPERAND, "ta")}


def test_all_of_an_operand_in_another_order_is_lost() -> None:
    fractal = ", pl.TileView(blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.row_major)"
    result, _ = execute(
        f"ta: {tile(32, 16, at=at(0))} = {load('a', [32, 16])}",
        f"m: {tile(32, 16, at=at(0), view=fractal)} = pl.tile.move(ta, target_memory=pl.Mem.Vec)",
        store("m"),
    )
    assert result.isnan().all()


def test_a_row_that_is_copied_once_is_not_read_again() -> None:
    result, findings = execute(
        loads(64, 0)[0],
        f"row: {tile(1, 512, at=at(64))} = pl.tile.reshape(ta, [1, 512])",
        f"s: {tile(32, 16, at=at(0))} = pl.tile.move(row, target_memory=pl.Mem.Vec)",
        store("s"),
    )
    assert findings == []
    assert torch.equal(result, A)
