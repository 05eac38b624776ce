"""A float32 activation quantized to int8 row by row, times int8 weights, dequantized."""

from __future__ import annotations

import argparse
from typing import Any

import minipto as mp
from minipto import flags

ROWS, DEPTH, COLUMNS = 64, 256, 128


@mp.jit
def quant_matmul(x: mp.Region, weight: mp.Region, weight_scale: mp.Region, y: mp.Region) -> None:
    magnitude = mp.abs(x, name="magnitude")
    peak = mp.row_max(magnitude, name="peak")
    scale = mp.div(peak, 127.0, name="scale")
    codes = mp.cast(mp.div(x, scale, name="steps"), mp.DType.INT8, name="codes")
    product = mp.matmul(codes, weight, name="product")
    wide = mp.cast(product, mp.DType.FP32, name="wide")
    mp.mul(mp.mul(wide, scale, name="scaled"), weight_scale, out=y)


def specs() -> list[Any]:
    import torch
    from golden import TensorSpec

    return [
        TensorSpec("x", [ROWS, DEPTH], torch.float32, init_value=torch.randn),
        TensorSpec(
            "weight", [DEPTH, COLUMNS], torch.int8, init_value=torch.randint(-127, 128, (DEPTH, COLUMNS))
        ),
        TensorSpec("weight_scale", [1, COLUMNS], torch.float32, init_value=torch.rand),
        TensorSpec("y", [ROWS, COLUMNS], torch.float32, is_output=True),
    ]


def expected(values: dict[str, Any]) -> None:
    x = values["x"]
    scale = x.abs().amax(dim=1, keepdim=True) / 127.0
    product = (x / scale).round().int() @ values["weight"].int()
    values["y"][:] = product.float() * scale * values["weight_scale"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    flags.add_run_options(parser)
    arguments = parser.parse_args()

    from golden import run_jit

    result = run_jit(
        quant_matmul,
        specs(),
        golden_fn=expected,
        rtol=1e-5,
        atol=1e-5,
        **flags.run_config(arguments),
    )
    if not result.passed:
        print(result.error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
