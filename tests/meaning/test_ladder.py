"""The passes of a small case: which is the first after which the result, or the memory, is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from precision_bisect.meaning.ir import MeaningError
from precision_bisect.meaning.ladder import (
    CONTEXT_LINES,
    PassCase,
    State,
    first_difference,
    largest_error,
    list_dumps,
    run_dumps,
)
from precision_bisect.meaning.values import FindingKind

from .dumps import dump, kernel, load, tensor, tile

X = torch.linspace(-1, 1, 64).reshape(8, 8)
PARAMETERS = f"x: {tensor(8, 8)}, y: pl.Out[{tensor(8, 8)}]"


def text(scale: str = "2.0", *, places: tuple[int, int, int] | None = None, suffix: str = "") -> str:
    def at(index: int) -> tuple[str, int, int] | None:
        return None if places is None else ("mem_vec_0", places[index], 256)

    return dump(
        kernel(
            PARAMETERS,
            f"t{suffix}: {tile(8, 8, at=at(0))} = {load('x', [8, 8])}",
            f"e{suffix}: {tile(8, 8, at=at(1))} = pl.tile.exp(t{suffix})",
            f"m{suffix}: {tile(8, 8, at=at(2))} = pl.tile.muls(e{suffix}, {scale})",
            f"s{suffix}: {tile(8, 8, at=at(0))} = pl.tile.add(m{suffix}, t{suffix})",
            f"r: {tensor(8, 8)} = pl.tile.store(s{suffix}, [0, 0], y)",
            "return r",
        )
    )


@pytest.fixture
def case() -> PassCase:
    return PassCase(
        inputs={"x": X, "y": torch.zeros(8, 8)}, expected={"y": 2 * X.exp() + X}, rtol=1e-5, atol=1e-6
    )


def write(folder: Path, *texts: tuple[str, str]) -> Path:
    for order, (name, content) in enumerate(texts):
        (folder / f"{order:02}_{'' if order == 0 else 'after_'}{name}.py").write_text(content)
    return folder


def test_the_first_wrong_pass_and_its_first_wrong_statement(tmp_path: Path, case: PassCase) -> None:
    right, wrong = text(suffix="__ssa_v0"), text("2.5", suffix="__tile")
    folder = write(
        tmp_path,
        ("frontend", text()),
        ("Same", text()),
        ("Rename", right),
        ("Break", wrong),
        ("Later", wrong),
    )
    ladder = run_dumps(folder, case)
    assert [rung.state for rung in ladder.rungs] == [State.RIGHT] * 3 + [State.WRONG] * 2
    assert [rung.same_as for rung in ladder.rungs] == [None, "frontend", None, None, "Break"]
    assert (ladder.last_good.dump.pass_name, ladder.first_bad.dump.pass_name) == ("Rename", "Break")
    difference = first_difference(ladder.last_good.dump, ladder.first_bad.dump, case)
    assert difference.variable == "m"
    assert "pl.tile.muls(e__tile, 2.5)" in difference.after.lines[3]
    assert "pl.tile.muls(e__ssa_v0, 2.0)" in difference.before.lines[3]


def cut(scale: str) -> str:
    """The program of `text` in two halves, with one name for the value before and after it is scaled."""
    loaded = "pl.tile.load(x, [i, 0], [4, 8], [4, 8], target_memory=pl.Mem.Vec)"
    return dump(
        kernel(
            PARAMETERS,
            "for i in pl.range(0, 8, 4):",
            f"    t: {tile(4, 8)} = {loaded}",
            f"    e: {tile(4, 8)} = pl.tile.exp(t)",
            f"    m: {tile(4, 8)} = pl.tile.exp(t)",
            f"    m: {tile(4, 8)} = pl.tile.muls(m, {scale})",
            f"    s: {tile(4, 8)} = pl.tile.add(m, t)",
            "    pl.tile.store(s, [i, 0], y)",
        )
    )


def test_a_pass_that_cuts_a_value_into_tiles_is_compared_tile_by_tile(tmp_path: Path, case: PassCase) -> None:
    write(tmp_path, ("frontend", text()), ("Cut", cut("2.0")), ("Break", cut("2.5")))
    before, right, wrong = list_dumps(tmp_path)
    assert run_dumps(tmp_path, case).first_bad is not None
    assert first_difference(before, right, case) is None
    for good in (before, right):
        difference = first_difference(good, wrong, case)
        assert difference is not None
        assert difference.variable == "m"
        assert difference.before is not None
        assert "pl.tile.muls(" in difference.before.lines[CONTEXT_LINES]
    assert "pl.tile.muls(m, 2.5)" in difference.after.lines[CONTEXT_LINES]


def test_a_planner_that_puts_one_tile_over_another(tmp_path: Path, case: PassCase) -> None:
    folder = write(
        tmp_path,
        ("frontend", text()),
        ("InitMemRef", text(places=(0, 256, 512))),
        ("MemoryReuse", text(places=(0, 256, 256))),
        ("AllocateMemoryAddr", text(places=(0, 0, 256))),
    )
    ladder = run_dumps(folder, case)
    bad = ladder.first_bad
    assert (ladder.last_good.dump.pass_name, bad.dump.pass_name) == ("MemoryReuse", "AllocateMemoryAddr")
    assert bad.state is State.WRONG
    assert bad.is_wrong_in_bytes
    finding = bad.findings[0]
    assert (finding.kind, finding.tile, finding.other) == (FindingKind.OVERWRITTEN, "t", "e")


def test_a_right_ladder_has_no_bad_rung(tmp_path: Path, case: PassCase) -> None:
    ladder = run_dumps(write(tmp_path, ("frontend", text()), ("Rename", text(suffix="_1"))), case)
    assert ladder.first_bad is None
    assert ladder.last_good.dump.pass_name == "Rename"
    assert ladder.first_executed is ladder.rungs[0]


def test_a_case_that_is_wrong_from_the_start_is_no_pass_s_fault(tmp_path: Path, case: PassCase) -> None:
    ladder = run_dumps(write(tmp_path, ("frontend", text("3.0")), ("Rename", text("3.0", suffix="_1"))), case)
    assert ladder.first_executed is ladder.rungs[0]
    assert ladder.rungs[0].state is State.WRONG
    assert ladder.first_bad is None


def test_a_dump_that_is_not_understood_is_skipped(tmp_path: Path, case: PassCase) -> None:
    odd = text().replace("pl.tile.exp(", "pl.tile.quantum(")
    ladder = run_dumps(
        write(tmp_path, ("frontend", text()), ("Odd", odd), ("Junk", "?"), ("Break", text("2.5"))), case
    )
    assert [rung.state.value for rung in ladder.rungs] == ["right", "not executed", "not executed", "wrong"]
    assert "01_after_Odd.py:9: expected an operation of the table, found tile.quantum" in str(
        ladder.rungs[1].problem
    )
    assert ladder.first_bad.dump.pass_name == "Break"


def test_a_folder_without_dumps(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text("")
    with pytest.raises(MeaningError, match="expected 1 to 200 dumps"):
        list_dumps(tmp_path)


def test_the_error_is_counted_in_tolerances(case: PassCase) -> None:
    wanted = case.expected["y"]
    assert largest_error({"y": wanted}, case) == 0
    assert largest_error({"y": wanted + 3e-6}, case) == pytest.approx(
        float(3e-6 / (1e-6 + 1e-5 * wanted.abs().min())), rel=0.2
    )
    assert largest_error({"y": wanted.clone().fill_(torch.nan)}, case) == float("inf")
    assert largest_error({}, case) == float("inf")
    far = torch.zeros(100_000)
    far[-1] = 3e-6
    many = replace(case, expected={"y": torch.zeros(100_000)})
    assert largest_error({"y": far}, many) == pytest.approx(3)


SIDE_BY_SIDE = Path(__file__).parent / "side_by_side"
"""Dumps that pypto 12fd44574, the parent of ba0ace891, made of a case of our own: two tiles of 32 x 16 in one."""


def test_a_real_miscompile_by_memory_reuse_is_named_with_both_tiles() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(32, 16), torch.randn(32, 16)
    case = PassCase(
        inputs={"left": left, "right": right, "both": torch.zeros(32, 32)},
        expected={"both": torch.cat([left, right], 1)},
        rtol=1e-5,
        atol=1e-5,
    )
    ladder = run_dumps(SIDE_BY_SIDE, case)
    executed = [rung for rung in ladder.rungs if rung.state is not State.NOT_EXECUTED]
    assert [rung.is_good for rung in executed] == [True, True, False, False]
    bad = ladder.first_bad
    assert bad.dump.pass_name == "MemoryReuse"
    assert bad.is_wrong_in_bytes
    (finding,) = bad.faults
    assert (finding.kind, finding.operation) == (FindingKind.OVER_OPERAND, "tile.concat")
    assert (finding.tile, finding.other, finding.rows) == ("l__ssa_v0", "wide__ssa_v0", (1, 31))
    assigned = ladder.rungs[-1].faults[0]
    assert (assigned.base, assigned.first_byte, assigned.bytes) == (None, 2048, 2048)


def test_a_dump_whose_shapes_contradict_one_another_is_wrong(tmp_path: Path, case: PassCase) -> None:
    """Pypto before 513ad4c23: a pass halved what a statement results in, and not what it computes."""
    odd = text().replace("m: pl.Tile[[8, 8]", "m: pl.Tile[[4, 8]")
    assert odd != text()
    ladder = run_dumps(write(tmp_path, ("frontend", text()), ("Halve", odd)), case)
    assert [rung.state for rung in ladder.rungs] == [State.RIGHT, State.WRONG]
    assert "in the shape [4, 8], found [8, 8]" in str(ladder.rungs[1].problem)
    assert ladder.first_bad.dump.pass_name == "Halve"


def test_a_pass_that_drops_the_guard_of_a_read_is_wrong(tmp_path: Path) -> None:
    """Pypto of June 2026: Simplify takes each INDEX for at least 0, and drops a test for that."""

    def guarded(*read: str) -> str:
        return dump(
            kernel(
                PARAMETERS,
                f"t: {tile(8, 8)} = {load('x', [8, 8])}",
                f"r: {tensor(8, 8)} = pl.tile.store(t, [0, 0], y)",
                "for i in pl.range(2):",
                "    before: pl.Scalar[pl.INDEX] = i - 1",
                *read,
                "return r",
            )
        )

    read = "v: pl.Scalar[pl.FP32] = pl.tensor.read(x, [before, 0])"
    kept, dropped = guarded("    if before >= 0:", f"        {read}"), guarded(f"    {read}")
    case = PassCase(inputs={"x": X, "y": torch.zeros(8, 8)}, expected={"y": X}, rtol=0, atol=0)
    ladder = run_dumps(write(tmp_path, ("frontend", kept), ("Simplify", dropped)), case)
    assert [rung.state for rung in ladder.rungs] == [State.RIGHT, State.WRONG]
    assert "expected an index from 0 to 7, found -1" in str(ladder.rungs[1].problem)
    assert ladder.first_bad.dump.pass_name == "Simplify"
