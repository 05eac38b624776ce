"""Why a case fails: each verdict from a case that was made for it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from precision_bisect.meaning.intervention import PassIntervention
from precision_bisect.meaning.ladder import (
    FirstDifference,
    IrNotes,
    LadderVerdict,
    PassCase,
    examine_check,
    explain,
)
from precision_bisect.meaning.values import AtomicSpread, CastChain, PartialReduction

from .dumps import dump, kernel, load, tensor, tile

X = torch.linspace(-1, 1, 64).reshape(8, 8)


def text(scale: str = "2.0", suffix: str = "", dtype: str = "FP32") -> str:
    return dump(
        kernel(
            f"x: {tensor(8, 8)}, y: pl.Out[{tensor(8, 8, dtype=dtype)}]",
            f"t{suffix}: {tile(8, 8)} = {load('x', [8, 8])}",
            f"m{suffix}: {tile(8, 8)} = pl.tile.muls(t{suffix}, {scale})",
            f"o{suffix}: {tile(8, 8, dtype=dtype)} = pl.tile.cast(m{suffix}, target_type=pl.{dtype}, mode='rint')",
            f"r: {tensor(8, 8, dtype=dtype)} = pl.tile.store(o{suffix}, [0, 0], y)",
            "return r",
        )
    )


@pytest.fixture
def case() -> PassCase:
    return PassCase(inputs={"x": X, "y": torch.zeros(8, 8)}, expected={"y": 2 * X}, rtol=1e-5, atol=1e-6)


def write(folder: Path, *texts: str) -> Path:
    for order, content in enumerate(texts):
        (folder / f"{order:02}_after_Pass{order}.py").write_text(content)
    return folder


def test_a_pass_that_changed_the_meaning(tmp_path: Path, case: PassCase) -> None:
    answer = explain(write(tmp_path, text(), text(suffix="__tile"), text("2.5", "__ssa_v0")), case)
    assert answer.verdict is LadderVerdict.PASS_CHANGED_VALUES
    assert (answer.last_good.dump.order, answer.first_bad.dump.order) == (1, 2)
    assert [step.name.name for step in answer.steps] == ["CHECK", "LADDER", "FIRST_STATEMENT", "INTERVENTION"]
    difference = answer.steps[-2].evidence
    assert isinstance(difference, FirstDifference)
    assert difference.variable == "m"


def test_memory_reuse_over_an_operand() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(32, 16), torch.randn(32, 16)
    real = PassCase(
        inputs={"left": left, "right": right, "both": torch.zeros(32, 32)},
        expected={"both": torch.cat([left, right], 1)},
        rtol=1e-5,
        atol=1e-5,
    )
    answer = explain(Path(__file__).parent / "side_by_side", real)
    assert answer.verdict is LadderVerdict.MEMORY_FAULT
    assert answer.first_bad.dump.pass_name == "MemoryReuse"
    assert [step.name.name for step in answer.steps] == ["CHECK", "LADDER", "MEMORY", "INTERVENTION"]
    intervention = answer.steps[-1].evidence
    assert isinstance(intervention, PassIntervention)
    assert intervention.cause[0].tiles == ("l__ssa_v0",)


def test_a_program_that_is_wrong_before_any_pass(tmp_path: Path, case: PassCase) -> None:
    answer = explain(write(tmp_path, text("3.0"), text("3.0", "__tile")), case)
    assert answer.verdict is LadderVerdict.WRONG_BEFORE_PASSES
    assert answer.first_bad is None
    assert len(answer.steps) == 1


def test_nothing_is_blamed_where_the_first_dump_that_runs_is_wrong(tmp_path: Path, case: PassCase) -> None:
    odd = text().replace("pl.tile.muls", "pl.tile.quantum")
    answer = explain(write(tmp_path, odd, odd, text("3.0", "__tile")), case)
    assert (answer.verdict, answer.not_executed) == (LadderVerdict.WRONG_AT_FIRST_DUMP, 2)
    assert answer.first_bad is None


def test_right_ir_is_handed_on(tmp_path: Path, case: PassCase) -> None:
    odd = text(suffix="__ssa_v1").replace("pl.tile.muls", "pl.tile.quantum")
    answer = explain(write(tmp_path, text(), odd, text(suffix="__tile")), case)
    assert (answer.verdict, answer.not_executed) == (LadderVerdict.RIGHT_IR, 1)


def test_a_check_that_cannot_fail(tmp_path: Path, case: PassCase) -> None:
    blind = replace(case, atol=float("inf"))
    assert explain(write(tmp_path, text()), blind).verdict is LadderVerdict.CHECK_CANNOT_FAIL


@pytest.mark.parametrize(("rtol", "first"), [(0.0, 1.0), (1e-5, 0.0)], ids=["exact", "zero element"])
def test_a_check_without_tolerance_can_fail(tmp_path: Path, rtol: float, first: float) -> None:
    values = torch.full((8, 8), 2.0)
    values[0, 0] = first
    strict = PassCase(
        inputs={"x": values, "y": torch.zeros(8, 8)}, expected={"y": 2 * values}, rtol=rtol, atol=0.0
    )
    assert explain(write(tmp_path, text()), strict).verdict is LadderVerdict.RIGHT_IR


def test_a_check_against_infinities_alone_can_fail(tmp_path: Path, case: PassCase) -> None:
    infinite = replace(case, expected={"y": torch.full((8, 8), math.inf)})
    assert examine_check(write(tmp_path, text()), infinite).outputs_that_cannot_fail == ()


def test_a_tolerance_below_one_rounding(tmp_path: Path, case: PassCase) -> None:
    folder = write(tmp_path, text(dtype="BFLOAT16"))
    assert explain(folder, case).verdict is LadderVerdict.TOLERANCE_OUT_OF_REACH
    assert explain(folder, replace(case, rtol=1e-2)).verdict is LadderVerdict.RIGHT_IR


def test_dumps_that_cannot_be_run(tmp_path: Path, case: PassCase) -> None:
    odd = text().replace("pl.tile.muls", "pl.tile.quantum")
    answer = explain(write(tmp_path, odd), case)
    assert (answer.verdict, answer.not_executed) == (LadderVerdict.NOTHING_EXECUTED, 1)


def test_what_rounding_can_do_is_measured_in_tolerances(tmp_path: Path, case: PassCase) -> None:
    """Of `2 x` in float32: the input's last bit moves it by one unit or two, and the bound holds both roundings."""
    folder = write(tmp_path, text())
    found = examine_check(folder, replace(case, rtol=2.0**-23, atol=0.0))
    assert found.input_error is not None
    assert 0.9 < found.input_error < 2.1
    assert found.rounding_bound is not None
    assert 0.4 < found.rounding_bound < 2
    loose = examine_check(folder, replace(case, rtol=1e-3, atol=0.0))
    assert loose.rounding_bound == pytest.approx(found.rounding_bound * 2.0**-23 / 1e-3)


def notes(folder: Path, case: PassCase) -> list[object]:
    answer = explain(folder, case)
    assert answer.verdict is LadderVerdict.RIGHT_IR
    evidence = answer.steps[-1].evidence
    assert isinstance(evidence, IrNotes)
    return list(evidence.found)


@pytest.mark.parametrize(
    ("source", "target", "limit"),
    [("INT32", "FP16", math.inf), ("INT32", "BFLOAT16", 2.0**24), ("FP32", "INT8", 0.0)],
)
def test_a_cast_in_two_hops_says_up_to_where_it_is_exact(
    tmp_path: Path, source: str, target: str, limit: float
) -> None:
    middle = "FP16" if source == "FP32" else "FP32"
    parameters = f"x: {tensor(8, 8, dtype=source)}, y: pl.Out[{tensor(8, 8, dtype=target)}]"
    begin = f"t: {tile(8, 8, dtype=source)} = {load('x', [8, 8])}"
    hop = f"h: {tile(8, 8, dtype=middle)} = pl.tile.cast(t, target_type=pl.{middle}, mode='rint')"
    texts = [
        dump(
            kernel(
                parameters,
                begin,
                *hops,
                f"o: {tile(8, 8, dtype=target)} = pl.tile.cast({name}, target_type=pl.{target}, mode='rint')",
                f"r: {tensor(8, 8, dtype=target)} = pl.tile.store(o, [0, 0], y)",
            )
        )
        for hops, name in (((), "t"), ((hop,), "h"))
    ]
    whole = torch.arange(64).reshape(8, 8).to(torch.int32 if source == "INT32" else torch.float32)
    wanted = whole.to({"FP16": torch.float16, "BFLOAT16": torch.bfloat16, "INT8": torch.int8}[target])
    real = PassCase(
        inputs={"x": whole, "y": torch.zeros_like(wanted)}, expected={"y": wanted}, rtol=1e-5, atol=1e-5
    )
    (found,) = notes(write(tmp_path, *texts), real)
    assert isinstance(found, CastChain)
    assert (found.variable, found.exact_up_to, found.pass_name) == ("o", limit, "Pass1")


ADDED_PARTS = dump(
    kernel(
        f"x: {tensor(4, 8)}, y: pl.Out[{tensor(1, 8)}]",
        f"for i in pl.range(4):\n    t: {tile(1, 8)} = {load('x', [1, 8]).replace('[0, 0]', '[i, 0]', 1)}\n"
        f"    r: {tensor(1, 8)} = pl.tile.store(t, [0, 0], y, atomic=1)",
    )
)


def test_parts_whose_order_changes_nothing_have_no_spread_at_a_tolerance_of_0(tmp_path: Path) -> None:
    x = torch.tensor([[1.0], [2.0], [-2.0], [-1.0]]).expand(4, 8).clone()
    strict = PassCase(
        inputs={"x": x, "y": torch.zeros(1, 8)}, expected={"y": torch.zeros(1, 8)}, rtol=1e-5, atol=0.0
    )
    (found,) = notes(write(tmp_path, ADDED_PARTS), strict)
    assert isinstance(found, AtomicSpread)
    assert found.spread == 0


def test_parts_that_are_added_in_no_fixed_order(tmp_path: Path) -> None:
    x = torch.tensor([[1.0], [2.0**-24], [2.0**-24], [-1.0]]).expand(4, 8).clone()
    real = PassCase(
        inputs={"x": x, "y": torch.zeros(1, 8)},
        expected={"y": torch.full((1, 8), 2.0**-23)},
        rtol=0,
        atol=1e-6,
    )
    (found,) = notes(write(tmp_path, ADDED_PARTS), real)
    assert isinstance(found, AtomicSpread)
    assert (found.output, found.parts) == ("y", 4)
    assert found.spread == pytest.approx(2.0**-23 / 1e-6)


def test_parts_that_are_added_through_views_of_several_shapes(tmp_path: Path) -> None:
    body = dump(
        kernel(
            f"x: {tensor(4, 8)}, y: pl.Out[{tensor(4, 8)}]",
            f"a: {tile(4, 8)} = {load('x', [4, 8])}",
            f"r: {tensor(4, 8)} = pl.tile.store(a, [0, 0], y, atomic=1)",
            f"v: {tensor(8, 4)} = pl.tensor.reshape(y, [8, 4])",
            f"b: {tile(8, 4)} = {load('x', [4, 8]).replace('load(x', 'load(w')}",
            f"q: {tensor(8, 4)} = pl.tile.store(b, [0, 0], v, atomic=1)",
        )
        .replace("y: pl.Out", f"w: {tensor(8, 4)}, y: pl.Out")
        .replace("load(w, [0, 0], [4, 8], [4, 8]", "load(w, [0, 0], [8, 4], [8, 4]")
    )
    x = torch.full((4, 8), 0.5)
    real = PassCase(
        inputs={"x": x, "w": x.reshape(8, 4), "y": torch.zeros(4, 8)},
        expected={"y": 2 * x},
        rtol=0,
        atol=1e-6,
    )
    (found,) = notes(write(tmp_path, body), real)
    assert isinstance(found, AtomicSpread)
    assert (found.output, found.parts, found.spread) == ("y", 2, 0.0)


def test_a_reduction_of_a_tile_that_is_valid_in_part(tmp_path: Path) -> None:
    part = ", pl.TileView(valid_shape=[8, 5])"
    body = dump(
        kernel(
            f"x: {tensor(8, 8)}, y: pl.Out[{tensor(8, 1)}]",
            f"t: {tile(8, 8, view=part)} = pl.tile.load(x, [0, 0], [8, 8], [8, 5], target_memory=pl.Mem.Vec)",
            f"w: {tile(8, 8)} = pl.tile.create([8, 8], dtype=pl.FP32, target_memory=pl.Mem.Vec)",
            f"m: {tile(8, 1)} = pl.tile.row_max(t, w)",
            f"r: {tensor(8, 1)} = pl.tile.store(m, [0, 0], y)",
        )
    )
    x = -X.abs() - 1
    real = PassCase(
        inputs={"x": x, "y": torch.zeros(8, 1)},
        expected={"y": x[:, :5].amax(1, keepdim=True)},
        rtol=1e-5,
        atol=1e-5,
    )
    (found,) = notes(write(tmp_path, body), real)
    assert isinstance(found, PartialReduction)
    assert (found.variable, found.valid, found.shape) == ("m", (8, 5), (8, 8))
