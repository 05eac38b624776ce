"""Root-mean-square normalization of the rows of a float32 matrix."""

from __future__ import annotations

import argparse
from typing import Any

import minipto as mp
from minipto import flags

ROWS, COLUMNS = 64, 200
EPSILON = 1e-6


@mp.jit
def rms_norm(x: mp.Region, gamma: mp.Region, y: mp.Region) -> None:
    squares = mp.mul(x, x, name="squares")
    energy = mp.row_sum(squares, name="energy")
    mean = mp.add(mp.div(energy, COLUMNS, name="mean"), EPSILON, name="mean_eps")
    inverse = mp.div(1.0, mp.sqrt(mean, name="rms"), name="inverse")
    mp.mul(mp.mul(x, inverse, name="normal"), gamma, out=y)


def specs() -> list[Any]:
    import torch
    from golden import TensorSpec

    return [
        TensorSpec("x", [ROWS, COLUMNS], torch.float32, init_value=torch.randn),
        TensorSpec("gamma", [1, COLUMNS], torch.float32, init_value=torch.randn),
        TensorSpec("y", [ROWS, COLUMNS], torch.float32, is_output=True),
    ]


def expected(values: dict[str, Any]) -> None:
    x = values["x"]
    values["y"][:] = x * (x.square().mean(dim=1, keepdim=True) + EPSILON).rsqrt() * values["gamma"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    flags.add_target_options(parser)
    arguments = parser.parse_args()

    from golden import run_jit

    result = run_jit(
        rms_norm,
        specs(),
        golden_fn=expected,
        rtol=1e-4,
        atol=1e-5,
        **flags.target_config(arguments),
    )
    if not result.passed:
        print(result.error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
