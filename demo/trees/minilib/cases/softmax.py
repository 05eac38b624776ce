"""Softmax along the rows of a float16 matrix; its width is no multiple of a column tile."""

from __future__ import annotations

import argparse
from typing import Any

import minipto as mp
from minipto import flags

ROWS, COLUMNS = 96, 200


@mp.jit
def softmax(x: mp.Region, y: mp.Region) -> None:
    wide = mp.cast(x, mp.DType.FP32, name="wide")
    peak = mp.row_max(wide, name="peak")
    weights = mp.exp(mp.sub(wide, peak, name="shifted"), name="weights")
    total = mp.row_sum(weights, name="total")
    mp.cast(mp.div(weights, total, name="share"), mp.DType.FP16, out=y)


def specs() -> list[Any]:
    import torch
    from golden import TensorSpec

    return [
        TensorSpec("x", [ROWS, COLUMNS], torch.float16, init_value=torch.randn),
        TensorSpec("y", [ROWS, COLUMNS], torch.float16, is_output=True),
    ]


def expected(values: dict[str, Any]) -> None:
    values["y"][:] = values["x"].float().softmax(dim=1).half()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    flags.add_run_options(parser)
    arguments = parser.parse_args()

    from golden import run_jit

    result = run_jit(
        softmax,
        specs(),
        golden_fn=expected,
        rtol=2e-3,
        atol=1e-6,
        **flags.run_config(arguments),
    )
    if not result.passed:
        print(result.error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
