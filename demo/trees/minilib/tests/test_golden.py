"""The harness's parts that need no device."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from golden import TensorSpec, ratio_allclose, validate_golden
from golden.data import GoldenDataError, check_complete, load, save

SPECS = [
    TensorSpec("x", [2, 3], torch.float32, init_value=torch.randn),
    TensorSpec("y", [2, 3], torch.float32, is_output=True),
]


def validate(actual: torch.Tensor, expected: torch.Tensor) -> None:
    validate_golden({"y": actual}, {"y": expected}, inputs={}, rtol=1e-3, atol=1e-3, compare_fn={})


def test_a_mismatch_lists_positions_and_values() -> None:
    with pytest.raises(AssertionError) as caught:
        validate(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.5]]))
    assert str(caught.value).splitlines() == [
        "Output(s) does not match golden: ['y']",
        "  'y' FAIL  shape=(1, 2) dtype=torch.float32",
        "    Mismatched elements: 1/2  rtol=0.001 atol=0.001",
        "    first 1 mismatches:",
        "    [1] actual=2.0, expected=2.5",
    ]


def test_nan_never_matches() -> None:
    with pytest.raises(AssertionError):
        validate(torch.tensor([float("nan")]), torch.tensor([float("nan")]))


def test_ratio_allclose_counts_outliers() -> None:
    compare = ratio_allclose(atol=0.1, rtol=0.0, max_error_ratio=0.01)
    expected = torch.zeros(200)
    actual = expected.clone()
    actual[:2] = 1.0
    assert compare(actual, expected)[0]
    actual[2] = 1.0
    assert not compare(actual, expected)[0]


def test_missing_files_are_all_named(tmp_path: Path) -> None:
    save(tmp_path / "in", {"x": torch.zeros(2, 3)})
    with pytest.raises(GoldenDataError, match=r"golden_data is missing files: \['.*out/y.pt'\]"):
        check_complete(tmp_path, SPECS)


@pytest.mark.parametrize("value", [torch.zeros(3, 2), torch.zeros(2, 3, dtype=torch.float64), {"x": 1}])
def test_data_of_another_shape_or_type_is_refused(tmp_path: Path, value: object) -> None:
    torch.save(value, tmp_path / "x.pt")
    with pytest.raises(GoldenDataError, match=r"x\.pt: expected"):
        load(tmp_path, SPECS, ["x"])


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    save(tmp_path, {"x": torch.zeros(2, 3)})
    path = tmp_path / "x.pt"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(GoldenDataError, match="cannot read"):
        load(tmp_path, SPECS, ["x"])
