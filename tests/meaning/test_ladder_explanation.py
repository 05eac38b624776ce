"""Why a case fails: each verdict from a case that was made for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from precision_bisect.meaning.ladder import FirstDifference, LadderVerdict, PassCase, StepName, explain

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
    assert [step.name for step in answer.steps] == [StepName.CHECK, StepName.LADDER, StepName.FIRST_STATEMENT]
    difference = answer.steps[-1].evidence
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
    assert [step.name for step in answer.steps] == [StepName.CHECK, StepName.LADDER, StepName.MEMORY]


def test_a_program_that_is_wrong_before_any_pass(tmp_path: Path, case: PassCase) -> None:
    answer = explain(write(tmp_path, text("3.0"), text("3.0", "__tile")), case)
    assert answer.verdict is LadderVerdict.REFERENCE_DISAGREES
    assert answer.first_bad is None
    assert len(answer.steps) == 1


def test_right_ir_is_handed_on(tmp_path: Path, case: PassCase) -> None:
    odd = text(suffix="__ssa_v1").replace("pl.tile.muls", "pl.tile.quantum")
    answer = explain(write(tmp_path, text(), odd, text(suffix="__tile")), case)
    assert (answer.verdict, answer.not_executed) == (LadderVerdict.RIGHT_IR, 1)


def test_a_check_that_cannot_fail(tmp_path: Path, case: PassCase) -> None:
    blind = replace(case, atol=float("inf"))
    assert explain(write(tmp_path, text()), blind).verdict is LadderVerdict.CHECK_CANNOT_FAIL


def test_a_tolerance_below_one_rounding(tmp_path: Path, case: PassCase) -> None:
    folder = write(tmp_path, text(dtype="BFLOAT16"))
    assert explain(folder, case).verdict is LadderVerdict.TOLERANCE_OUT_OF_REACH
    assert explain(folder, replace(case, rtol=1e-2)).verdict is LadderVerdict.RIGHT_IR


def test_dumps_that_cannot_be_run(tmp_path: Path, case: PassCase) -> None:
    odd = text().replace("pl.tile.muls", "pl.tile.quantum")
    answer = explain(write(tmp_path, odd), case)
    assert (answer.verdict, answer.not_executed) == (LadderVerdict.NOTHING_EXECUTED, 1)
