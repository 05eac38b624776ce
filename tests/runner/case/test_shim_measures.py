"""The shim measures what a harness compares, whatever the harness makes of it."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from precision_bisect.runner.case import shim
from precision_bisect.runner.verdict.classify import read_harness_outcome

VALIDATION = """
def validate_golden(outputs, golden, rtol=1e-5, atol=1e-5, compare_fn=None, inputs=None):
    raise AssertionError("Output(s) does not match golden: ['y']")
"""
RUNNER = """
from types import SimpleNamespace
import torch
from .validation import validate_golden

def run(program, specs, golden_fn=None, rtol=1e-5, atol=1e-5):
    generator = torch.Generator().manual_seed(1)
    y = torch.randn(1024, 1500, generator=generator)  # more than one chunk
    off = y.clone()
    off[::2] *= 1.01
    nan = y.clone()
    nan[0, :15] = float("nan")
    both = torch.tensor([float("inf"), 1.0])
    actual = dict(y=off, same=y.to(torch.bfloat16), nan=nan, both=both, zero=torch.ones(3), odd=torch.ones(2))
    golden = dict(y=y, same=y.to(torch.bfloat16), nan=y, both=both, zero=torch.zeros(3), odd=torch.ones(5))
    try:
        validate_golden(actual, golden, rtol=rtol, atol=atol)
    except AssertionError as error:
        return SimpleNamespace(passed=False, error=str(error))
"""
CASE = "from golden import run\nrun(None, [], golden_fn=print, rtol=1e-3)\n"


def test_errors_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "golden").mkdir()
    for name, text in {
        "__init__": "from .runner import run\n",
        "runner": RUNNER,
        "validation": VALIDATION,
    }.items():
        (tmp_path / "golden" / f"{name}.py").write_text(text)
    (tmp_path / "case.py").write_text(CASE)
    done = subprocess.run(
        [sys.executable, shim.__file__, "--outcome", "out.json", "--", "case.py"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    outcome = read_harness_outcome(tmp_path / "out.json")
    assert outcome is not None
    (call,) = outcome.calls
    assert call.error is not None
    found = call.measures
    # Every other row is off by 1 %: half of the squares of a million normal numbers.
    assert math.isclose(found["y"]["relative_l2"], 0.01 * math.sqrt(0.5), rel_tol=5e-3)
    assert math.isclose(found["y"]["beyond_tolerance"], 0.5, rel_tol=5e-3)
    # 0.01 |y| beside 1e-5 + 1e-3 |y|, of the largest of them.
    assert 9.9 < found["y"]["times_tolerance"] < 10.0
    exact = {"beyond_tolerance": 0.0, "relative_l2": 0.0, "times_tolerance": 0.0}
    assert found["same"] == found["both"] == exact
    assert found["nan"] == {"beyond_tolerance": 15 / (1024 * 1500), "not_finite": 15 / (1024 * 1500)}
    assert found["zero"] == {"beyond_tolerance": 1.0, "times_tolerance": pytest.approx(1e5)}
    assert found["odd"] == {}


def test_what_no_tolerance_bounds_is_not_measured_by_it() -> None:
    without = shim.tensor_errors(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 2.0]), rtol=1e-3, atol=0.0)
    assert without == {"beyond_tolerance": 0.5, "relative_l2": 0.5}
