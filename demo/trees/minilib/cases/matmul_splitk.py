"""A bfloat16 matrix product of float32 matrices, its depth split in two steps, plus a bias."""

from __future__ import annotations

import argparse
from typing import Any

import minipto as mp
from minipto import flags

ROWS, DEPTH, COLUMNS = 64, 256, 64


@mp.jit
def matmul_splitk(a: mp.Region, b: mp.Region, bias: mp.Region, y: mp.Region) -> None:
    left = mp.cast(a, mp.DType.BF16, name="left")
    right = mp.cast(b, mp.DType.BF16, name="right")
    product = mp.matmul(left, right, name="product")
    mp.add(product, bias, out=y)


def specs() -> list[Any]:
    import torch
    from golden import TensorSpec

    return [
        TensorSpec("a", [ROWS, DEPTH], torch.float32, init_value=torch.randn),
        TensorSpec("b", [DEPTH, COLUMNS], torch.float32, init_value=torch.randn),
        TensorSpec("bias", [1, COLUMNS], torch.float32, init_value=torch.randn),
        TensorSpec("y", [ROWS, COLUMNS], torch.float32, is_output=True),
    ]


def expected(values: dict[str, Any]) -> None:
    product = values["a"].bfloat16().float() @ values["b"].bfloat16().float()
    values["y"][:] = product + values["bias"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    flags.add_run_options(parser)
    arguments = parser.parse_args()

    from golden import run_jit

    result = run_jit(
        matmul_splitk,
        specs(),
        golden_fn=expected,
        rtol=1e-3,
        atol=1e-3,
        **flags.run_config(arguments),
    )
    if not result.passed:
        print(result.error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
