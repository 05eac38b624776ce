"""Outputs against expected outputs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .comparators import Comparator

SHOWN_MISMATCHES = 20


def validate_golden(
    actual_outputs: Mapping[str, torch.Tensor],
    expected_outputs: Mapping[str, torch.Tensor],
    *,
    inputs: Mapping[str, torch.Tensor],
    rtol: float,
    atol: float,
    compare_fn: Mapping[str, Comparator],
) -> None:
    """Print a line for each output. Raises AssertionError that describes every mismatch."""
    failures: dict[str, str] = {}
    for name, actual in actual_outputs.items():
        expected = expected_outputs[name]
        what = f"shape={tuple(actual.shape)} dtype={actual.dtype}"
        if name in compare_fn:
            comparator = compare_fn[name]
            matches, detail = comparator(
                actual,
                expected,
                actual_outputs=actual_outputs,
                expected_outputs=expected_outputs,
                inputs=inputs,
                rtol=rtol,
                atol=atol,
            )
            by, heading = f" ({comparator.__name__})", f"  '{name}' FAIL ({comparator.__name__})  {what}"
        else:
            matches = torch.allclose(actual, expected, rtol=rtol, atol=atol)
            detail = "" if matches else _describe(actual, expected, rtol=rtol, atol=atol)
            by, heading = "", f"  '{name}' FAIL  {what}"
        print(f"[RUN]   '{name}' {'PASS' if matches else 'FAIL'}  {what}{by}", flush=True)
        if not matches:
            failures[name] = f"{heading}\n{detail}"
    if failures:
        details = "\n".join(failures.values())
        raise AssertionError(f"Output(s) does not match golden: {list(failures)}\n{details}")


def _describe(actual: torch.Tensor, expected: torch.Tensor, *, rtol: float, atol: float) -> str:
    close = torch.isclose(actual, expected, rtol=rtol, atol=atol).flatten()
    positions = [int(position) for position in torch.nonzero(~close)]
    shown = positions[:SHOWN_MISMATCHES]
    flat_actual, flat_expected = actual.flatten(), expected.flatten()
    lines = [
        f"    Mismatched elements: {len(positions)}/{actual.numel()}  rtol={rtol} atol={atol}",
        f"    first {len(shown)} mismatches:",
    ]
    lines += [
        f"    [{position}] actual={flat_actual[position].item()}, expected={flat_expected[position].item()}"
        for position in shown
    ]
    return "\n".join(lines)
