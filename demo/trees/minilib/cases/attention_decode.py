"""One decode step of attention: a few query heads against a bfloat16 key and value cache."""

from __future__ import annotations

import argparse
from typing import Any

import minipto as mp
from minipto import flags

BATCH, HEADS, DIM, CONTEXT = 3, 8, 64, 256


@mp.jit
def attention_decode(
    q: mp.Region,
    k: mp.Region,
    v: mp.Region,
    mask: mp.Region,
    out: mp.Region,
    lse: mp.Region,
    scale: mp.Scalar,
) -> None:
    for b in mp.loop("b", BATCH):
        query = q.view((HEADS, DIM), (b * HEADS, 0))
        keys = k.view((CONTEXT, DIM), (b * CONTEXT, 0))
        cached = v.view((CONTEXT, DIM), (b * CONTEXT, 0))

        scores = mp.matmul(query, keys.T, name="scores")
        scaled = mp.mul(scores, scale, name="scaled")
        logits = mp.add(scaled, mask.view((1, CONTEXT), (b, 0)), name="logits")
        peak = mp.row_max(logits, name="peak")
        weights = mp.exp(mp.sub(logits, peak, name="shifted"), name="weights")
        total = mp.row_sum(weights, name="total")
        norm = mp.add(peak, mp.log(total, name="log_total"), name="norm")
        mp.cast(norm, mp.DType.FP32, out=lse.view((HEADS, 1), (b * HEADS, 0)))
        shares = mp.exp(mp.sub(logits, norm, name="log_shares"), name="shares")
        probs = mp.cast(shares, mp.DType.BF16, name="probs")
        mp.matmul(probs, cached, out=out.view((HEADS, DIM), (b * HEADS, 0)))


def causal_mask() -> Any:
    """0 up to each sequence's length, very negative behind it."""
    import torch

    lengths = torch.tensor([[CONTEXT], [CONTEXT - 40], [CONTEXT - 100]])
    return (torch.arange(CONTEXT) >= lengths) * -1e4


def specs() -> list[Any]:
    import torch
    from golden import ScalarSpec, TensorSpec

    return [
        TensorSpec("q", [BATCH * HEADS, DIM], torch.bfloat16, init_value=torch.randn),
        TensorSpec("k", [BATCH * CONTEXT, DIM], torch.bfloat16, init_value=torch.randn),
        TensorSpec("v", [BATCH * CONTEXT, DIM], torch.bfloat16, init_value=torch.randn),
        TensorSpec("mask", [BATCH, CONTEXT], torch.float32, init_value=causal_mask()),
        TensorSpec("out", [BATCH * HEADS, DIM], torch.float32, is_output=True),
        TensorSpec("lse", [BATCH * HEADS, 1], torch.float32, is_output=True),
        ScalarSpec("scale", torch.float32, DIM**-0.5),
    ]


def expected(values: dict[str, Any]) -> None:
    q = values["q"].float().view(BATCH, HEADS, DIM)
    k, v = (values[name].float().view(BATCH, CONTEXT, DIM) for name in ("k", "v"))
    logits = q @ k.transpose(1, 2) * values["scale"] + values["mask"].unsqueeze(1)
    lse = logits.logsumexp(dim=2, keepdim=True)
    values["lse"][:] = lse.view(BATCH * HEADS, 1)
    values["out"][:] = ((logits - lse).exp().bfloat16().float() @ v).view(BATCH * HEADS, DIM)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    flags.add_run_options(parser)
    arguments = parser.parse_args()

    from golden import run_jit

    result = run_jit(
        attention_decode,
        specs(),
        golden_fn=expected,
        rtol=1e-3,
        atol=2e-3,
        **flags.run_config(arguments),
    )
    if not result.passed:
        print(result.error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
