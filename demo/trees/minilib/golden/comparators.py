"""Comparators for outputs that need not match everywhere.

A comparator is called as compare(actual, expected, *, actual_outputs, expected_outputs, inputs, rtol, atol) and returns
whether the output is right, and lines of detail if not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Comparator = Callable[..., tuple[bool, str]]


def ratio_allclose(*, atol: float, rtol: float, max_error_ratio: float = 0.005) -> Comparator:
    """Accept `|actual - expected| > atol + rtol * |expected|` at no more than round(max_error_ratio * numel) points.

    Any NaN or infinity fails.
    """

    def compare(actual: torch.Tensor, expected: torch.Tensor, **_: Any) -> tuple[bool, str]:
        if not (torch.isfinite(actual).all() and torch.isfinite(expected).all()):
            return False, "    illegal values in comparison: NaN or Inf"
        difference = (actual.double() - expected.double()).abs()
        errors = int((difference > atol + rtol * expected.double().abs()).sum())
        allowed = round(max_error_ratio * actual.numel())
        detail = (
            f"    ratio_allclose fail: error_count={errors}/{actual.numel()} "
            f"(ratio={errors / actual.numel():.4%}, allowed<={max_error_ratio:.4%}), "
            f"max_diff={float(difference.max())}, rtol={rtol} atol={atol}"
        )
        return errors <= allowed, detail

    compare.__name__ = "ratio_allclose"
    return compare
