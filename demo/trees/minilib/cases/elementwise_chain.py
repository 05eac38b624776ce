"""add, scale, exp, mul: two bfloat16 matrices to one float32 matrix."""

from __future__ import annotations

import argparse
from typing import Any

import minipto as mp
from minipto import flags

ROWS, COLUMNS = 128, 160


@mp.jit
def elementwise_chain(a: mp.Region, b: mp.Region, shift: mp.Region, gain: mp.Region, y: mp.Region) -> None:
    total = mp.add(a, b, name="total")
    scaled = mp.mul(mp.cast(total, mp.DType.FP32, name="total_wide"), 0.5, name="scaled")
    grown = mp.exp(mp.add(scaled, shift, name="shifted"), name="grown")
    mp.mul(grown, gain, out=y)


def specs() -> list[Any]:
    import torch
    from golden import TensorSpec

    return [
        TensorSpec("a", [ROWS, COLUMNS], torch.bfloat16, init_value=torch.randn),
        TensorSpec("b", [ROWS, COLUMNS], torch.bfloat16, init_value=torch.randn),
        TensorSpec("shift", [1, COLUMNS], torch.float32, init_value=torch.randn),
        TensorSpec("gain", [ROWS, 1], torch.float32, init_value=torch.randn),
        TensorSpec("y", [ROWS, COLUMNS], torch.float32, is_output=True),
    ]


def expected(values: dict[str, Any]) -> None:
    total = (values["a"].float() + values["b"].float()).bfloat16()
    values["y"][:] = (total.float() * 0.5 + values["shift"]).exp() * values["gain"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    flags.add_run_options(parser)
    arguments = parser.parse_args()

    from golden import run_jit

    result = run_jit(
        elementwise_chain,
        specs(),
        golden_fn=expected,
        rtol=1e-3,
        atol=1e-5,
        **flags.run_config(arguments),
    )
    if not result.passed:
        print(result.error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
