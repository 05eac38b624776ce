"""What a case fails for: elements, rows and outputs over its own tolerance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from precision_bisect.reduce.localize.failure import OutputJudge, WrongOutputs
from precision_bisect.runner.build_output.directory import TensorFolder
from precision_bisect.runner.compare.statistics import Tolerance

CLOSE = Tolerance(rtol=1e-3, atol=1e-3)


def saved(folder: Path, tensors: Mapping[str, torch.Tensor]) -> TensorFolder:
    folder.mkdir()
    for name, tensor in tensors.items():
        torch.save(tensor, folder / f"{name}.pt")
    return TensorFolder.open(folder)


def judged(
    folder: Path, actual: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]
) -> WrongOutputs:
    judge = OutputJudge(expected=saved(folder / "right", expected), tolerance=CLOSE, is_case_tolerance=True)
    return judge.failure(saved(folder / "left", actual))


def test_rows_over_the_tolerance_are_told(tmp_path: Path) -> None:
    y = torch.ones(8, 4)
    wrong = y.clone()
    wrong[2:4, 1] += 0.5
    wrong[7, 0] += 0.0015
    wrong[0] += 1e-4
    failure = judged(tmp_path, {"y": wrong, "z": y}, {"y": y, "z": y})
    assert set(failure.outputs) == {"y"}
    output = failure.outputs["y"]
    assert (output.wrong_count, output.rows) == (2, (range(2, 4),))
    assert math.isclose(output.worst, 250, rel_tol=1e-6)


def test_nan_and_missing_outputs_are_wrong(tmp_path: Path) -> None:
    y = torch.tensor([1.0, math.nan, math.inf])
    assert not judged(tmp_path, {"y": y}, {"y": y})
    (tmp_path / "more").mkdir()
    failure = judged(
        tmp_path / "more", {"y": torch.tensor([1.0, 2.0, math.nan])}, {"y": y, "z": torch.ones(2)}
    )
    assert failure.outputs["y"].wrong.tolist() == [False, True, True]
    assert failure.outputs["y"].worst == math.inf
    assert failure.outputs["z"].wrong_count == 2


def test_one_failure_is_a_share_of_another(tmp_path: Path) -> None:
    y = torch.zeros(10)
    first, second = y.clone(), y.clone()
    first[:4] = 1
    second[3:] = 1
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole, part = (
        judged(tmp_path / name, {"y": left}, {"y": y}) for name, left in (("a", first), ("b", second))
    )
    assert whole.share_in(part) == 0.25
    assert whole.share_in(WrongOutputs({})) == 0


def test_a_tolerance_that_is_not_told_is_widened_to_the_good_build(tmp_path: Path) -> None:
    golden = saved(tmp_path / "golden", {"y": torch.ones(4)})
    good = saved(tmp_path / "good", {"y": torch.full((4,), 1.001)})
    judge = OutputJudge.create(golden, None, good)
    assert not judge.is_case_tolerance
    assert not judge.failure(good)
    assert judge.failure(saved(tmp_path / "bad", {"y": torch.full((4,), 1.01)}))
    told = OutputJudge.create(golden, Tolerance(rtol=1e-4, atol=0.0), good)
    assert told.expected is good, "the good build's outputs are right by definition"


@pytest.mark.parametrize("is_garbled", [True, False])
def test_outputs_that_the_good_build_lacks_are_judged_by_the_golden_ones(
    tmp_path: Path, is_garbled: bool
) -> None:
    golden = saved(tmp_path / "golden", {"y": torch.ones(4), "z": torch.ones(2)})
    saved(tmp_path / "good", {"y": torch.full((4,), 1.5)})
    if is_garbled:
        (tmp_path / "good" / "z.pt").write_bytes(b"garbled")
    judge = OutputJudge.create(golden, CLOSE, TensorFolder.open(tmp_path / "good"))
    assert set(judge.failure(saved(tmp_path / "bad", {"y": torch.ones(4)})).outputs) == {"z"}


def test_a_missing_output_without_elements_is_wrong_in_no_row(tmp_path: Path) -> None:
    failure = judged(tmp_path, {}, {"y": torch.ones(0, 5)})
    output = failure.outputs["y"]
    assert (output.shape, output.wrong_count, output.rows) == ((0, 5), 0, ())
