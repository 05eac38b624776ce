"""Small cases of our own, one for each fix of pypto's log; run by the interpreter of a built pypto.

    python kernels.py FOLDER [NAME ...]

Each case gets FOLDER/NAME with `passes_dump/`, `data/in` and `data/out`, as `explain` reads them. Nothing is assembled.
The elements are small whole numbers, so that each result is exact.
"""
# pyright: basic, reportInvalidTypeForm=false, reportMissingImports=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pypto.language as pl
import torch
from pypto import ir
from pypto.runtime import RunConfig

sys.modules["pypto.ir.compile"].generate = lambda *_, **__: {}  # What follows the passes is not needed.


@pl.jit
def concat(left: pl.Tensor, right: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        l = pl.load(left, [0, 0], [32, 16])  # noqa: E741
        r = pl.load(right, [0, 0], [32, 16])
        wide: pl.Tile[[32, 32], pl.FP32] = pl.concat(l, r)
        pl.store(wide, [0, 0], out)
    return out


@pl.jit
def column_slice(table: pl.Tensor, row: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(table, [0, 0], [16, 128])
        factor = pl.load(row, [0, 0], [1, 64])
        low = pl.col_expand_mul(t[:, 0:64], factor)
        high = pl.col_expand_mul(t[:, 64:128], factor)
        pl.store(low, [0, 0], out)
        pl.store(high, [0, 64], out)
    return out


@pl.jit
def transpose(square: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        before = pl.load(square, [0, 0], [8, 8])
        turned = pl.transpose(before, axis1=0, axis2=1)
        pl.store(turned, [0, 0], out)
    return out


@pl.jit
def bits(words: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        word = pl.load(words, [0, 0], [16, 16])
        masked = pl.ands(word, 6)
        pl.store(masked, [0, 0], out)
    return out


@pl.jit
def reciprocal(values: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        value = pl.load(values, [0, 0], [16, 16])
        inverse = pl.recip(value)
        pl.store(inverse, [0, 0], out)
    return out


@pl.jit
def row_scale(table: pl.Tensor, column: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(table, [0, 0], [16, 32])
        factor = pl.load(column, [0, 0], [16, 1])
        product = pl.row_expand_mul(t, factor)
        both = pl.add(product, t)
        pl.store(both, [0, 0], out)
    return out


@pl.jit
def widen(narrow: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        half = pl.load(narrow, [0, 0], [16, 32])
        whole = pl.cast(half, target_type=pl.FP32)
        pl.store(whole, [0, 0], out)
    return out


@pl.jit
def branch(table: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(2):
            a = pl.load(table, [i * 16, 0], [16, 16])
            if i == 0:
                chosen = pl.add(a, a)
            else:
                chosen = pl.mul(a, a)
            later = pl.add(a, 3.0)
            total = pl.mul(chosen, later)
            final = pl.sub(total, a)
            pl.store(final, [i * 16, 0], out)
    return out


@pl.jit
def loop_result(table: pl.Tensor, other: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        start = pl.load(table, [0, 0], [16, 16])
        total = pl.mul(start, 2.0)
        for i in pl.range(4):
            part = pl.load(table, [i * 16, 0], [16, 16])
            total = pl.add(total, part)
        extra = pl.load(other, [0, 0], [16, 16])
        squared = pl.mul(extra, extra)
        final = pl.add(total, squared)
        pl.store(final, [0, 0], out)
    return out


@pl.jit
def reload(table: pl.Tensor, out: pl.Out[pl.Tensor], last: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        kept = pl.load(table, [0, 0], [16, 16])
        first = pl.slice(kept, [16, 8], [0, 0])
        total = pl.add(first, first)
        for i in pl.range(4):
            kept = pl.load(table, [i * 16, 0], [16, 16])
            part = pl.slice(kept, [16, 8], [0, 0])
            total = pl.add(total, part)
        pl.store(total, [0, 0], out)
        pl.store(kept, [0, 0], last)
    return out


@pl.jit
def rows_on_reuse(
    early: pl.Tensor,
    table: pl.Tensor,
    copy: pl.Out[pl.Tensor],
    out: pl.Out[pl.Tensor],
    out_1: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        dead = pl.load(early, [0, 0], [16, 16])
        pl.store(dead, [0, 0], copy)
        rows = pl.load(table, [0, 0], [8, 16])
        row_0 = pl.reshape(pl.slice(rows, [1, 16], [0, 0]), [16, 1])
        row_1 = pl.reshape(pl.slice(rows, [1, 16], [1, 0]), [16, 1])
        pl.store(row_0, [0, 0], out)
        pl.store(row_1, [0, 0], out_1)
    return out


@pl.jit
def rows_at_address(table: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = pl.load(table, [0, 0], [8, 16])
        row_0 = pl.reshape(pl.slice(rows, [1, 16], [2, 0]), [16, 1])
        row_1 = pl.reshape(pl.slice(rows, [1, 16], [5, 0]), [16, 1])
        pl.store(row_0, [0, 0], out)
        pl.store(row_1, [0, 0], out_1)
    return out


@pl.jit
def moving_row(table: pl.Tensor, rows: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(table, [0, 0], [16, 64])
        factors = pl.load(rows, [0, 0], [4, 64])
        for i in pl.range(4):
            t = pl.col_expand_mul(t, pl.slice(factors, [1, 64], [3 - i, 0]))
        pl.store(t, [0, 0], out)
    return out


@pl.jit
def channel_scale(a: pl.Tensor, b: pl.Tensor, scale: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.LEFT_RIGHT)]):
        product = pl.matmul(a, b, out_dtype=pl.FP32)
        factor = pl.reshape(scale[0:32], [1, 32])
        scaled = pl.col_expand_mul(product, factor)
        out = pl.assemble(out, scaled, [0, 0])
    return out


@pl.jit
def left_right(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.LEFT_RIGHT)]):
        product = pl.matmul(a, b, out_dtype=pl.FP32)
        doubled = pl.mul(product, 2.0)
        out = pl.assemble(out, doubled, [0, 0])
    return out


@pl.jit
def row_norm(a: pl.Tensor, b: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):
        product = pl.matmul(a, b, out_dtype=pl.FP32)
        out_1 = pl.assemble(out_1, product, [0, 0])
        sums = pl.row_sum(x)
        across = pl.reshape(sums, [1, 16])
        doubled = pl.mul(across, 2.0)
        column = pl.reshape(doubled, [16, 1])
        scaled = pl.row_expand_mul(x, column)
        out = pl.assemble(out, scaled, [0, 0])
    return out


@pl.jit
def counting(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.LEFT_RIGHT)]):
        product = pl.matmul(a, b, out_dtype=pl.FP32)
        count = pl.cast(pl.tensor.ci(0, [1, 32], dtype=pl.INT32), target_type=pl.FP32)
        scaled = pl.col_expand_mul(product, count)
        out = pl.assemble(out, scaled, [0, 0])
    return out


@pl.jit
def two_guards(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            if i == 0:
                first = pl.add(pl.matmul(a, b, out_dtype=pl.FP32), 1.0)
                out = pl.assemble(out, first, [0, 0])
            if i == 1:
                second = pl.sub(pl.matmul(a, b, out_dtype=pl.FP32), 2.0)
                out_1 = pl.assemble(out_1, second, [0, 0])
    return out


@pl.jit
def boxes(box: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        whole: pl.Tile[[4, 8, 16], pl.FP32] = pl.load(box, [0, 0, 0], [4, 8, 16])
        part: pl.Tile[[1, 8, 16], pl.FP32] = pl.load(box, [3, 0, 0], [1, 8, 16])
        placed: pl.Tile[[4, 8, 16], pl.FP32] = pl.tile.assemble(whole, part, [1, 0, 0])
        pl.store(placed, [0, 0, 0], out)
    return out


@pl.jit
def peeled_sum(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.create_tensor([16, 16], dtype=pl.FP32)
        for k in pl.pipeline(0, 64, 16, stage=2):
            x = pl.slice(a, [16, 16], [0, k])
            y = pl.slice(b, [16, 16], [k, 0])
            if k == 0:
                total = pl.matmul(x, y, out_dtype=pl.FP32)
            else:
                total = pl.matmul_acc(total, x, y)
        out = pl.assemble(out, total, [0, 0])
    return out


@pl.jit
def to_cube(x: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        raised = pl.add(x, 1.0)
        product = pl.matmul(raised, b, out_dtype=pl.FP32)
        out = pl.assemble(out, product, [0, 0])
    return out


@pl.program
class Downwards:
    @pl.function(type=pl.FunctionType.InCore)
    def add_blocks(
        self, table: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        total = pl.load(table, [0, 0], [16, 16])
        for i in pl.range(3, 0, -1):
            if i < 2:
                break
            part = pl.load(table, [i * 16, 0], [16, 16])
            total = pl.add(total, part)
        return pl.store(total, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def downwards(
        self, table: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        out = self.add_blocks(table, out)
        return out


@pl.program
class Scratch:
    @pl.function(type=pl.FunctionType.InCore)
    def double(
        self,
        table: pl.Tensor[[16, 16], pl.FP32],
        room: pl.InOut[pl.Tensor[[16, 16], pl.FP32]],
        part: pl.Out[pl.Tensor[[16, 16], pl.BF16]],
    ) -> pl.Tensor[[16, 16], pl.BF16]:
        t = pl.load(table, [0, 0], [16, 16])
        filled = pl.store(pl.mul(t, 2.0), [0, 0], room)
        again = pl.load(filled, [0, 0], [16, 16])
        return pl.store(pl.cast(pl.add(again, 1.0), target_type=pl.BF16), [0, 0], part)

    @pl.function(type=pl.FunctionType.Orchestration)
    def scratch(
        self, table: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.BF16]]
    ) -> pl.Tensor[[16, 16], pl.BF16]:
        room: pl.Tensor[[16, 16], pl.FP32] = pl.create_tensor([16, 16], dtype=pl.FP32)
        part: pl.Tensor[[16, 16], pl.BF16] = pl.create_tensor([16, 16], dtype=pl.BF16)
        part = self.double(table, room, part)
        out = pl.assemble(out, part, [0, 0])
        return out


def numbers(*shape: int, low: int = -4, high: int = 5, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=GENERATOR).to(dtype)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


PLATFORMS = {"to_cube": "a5sim", "two_hops": "a5sim"}
"""The chips of cases that show their fault on another than most."""

GENERATOR = torch.Generator().manual_seed(0)


def build_cases() -> dict[str, tuple[Any, dict[str, torch.Tensor], dict[str, torch.Tensor]]]:
    """Each case's kernel, inputs and expected outputs."""
    t64 = numbers(64, 16)
    blocks = t64.reshape(4, 16, 16)
    wide, row = numbers(16, 128), numbers(1, 64, low=1)
    square = numbers(8, 8)
    words = numbers(16, 16, low=0, high=32, dtype=torch.int32)
    powers = 2.0 ** numbers(16, 16, low=-3, high=4)
    tall, column = numbers(16, 32), numbers(16, 1, low=2)
    narrow = numbers(16, 32, dtype=torch.float16)
    left, right = numbers(32, 16), numbers(32, 16)
    t32 = numbers(32, 16)
    pair = t32.reshape(2, 16, 16)
    chosen = torch.stack([pair[0] + pair[0], pair[1] * pair[1]])
    early, rows = numbers(16, 16), numbers(8, 16)
    table, factors = numbers(16, 64), numbers(4, 64, low=1, high=3)
    a, b, scale = numbers(16, 16), numbers(16, 32), numbers(32, low=1, high=9)
    b16, x = numbers(16, 16), numbers(16, 32)
    box = numbers(4, 8, 16)
    placed = box.clone()
    placed[1] = box[3]
    long_a, long_b = numbers(16, 64), numbers(64, 16)
    out = zeros(16, 16)
    return {
        "concat": (concat, {"left": left, "right": right, "out": zeros(32, 32)}, {"out": torch.cat([left, right], 1)}),
        "column_slice": (
            column_slice, {"table": wide, "row": row, "out": zeros(16, 128)}, {"out": wide * torch.cat([row, row], 1)},
        ),
        "transpose": (transpose, {"square": square, "out": zeros(8, 8)}, {"out": square.T.contiguous()}),
        "bits": (bits, {"words": words, "out": zeros(16, 16, dtype=torch.int32)}, {"out": words & 6}),
        "reciprocal": (reciprocal, {"values": powers, "out": out}, {"out": 1 / powers}),
        "row_scale": (
            row_scale, {"table": tall, "column": column, "out": zeros(16, 32)}, {"out": tall * column + tall},
        ),
        "widen": (widen, {"narrow": narrow, "out": zeros(16, 32)}, {"out": narrow.float()}),
        "branch": (
            branch, {"table": t32, "out": zeros(32, 16)}, {"out": (chosen * (pair + 3) - pair).reshape(32, 16)},
        ),
        "loop_result": (
            loop_result, {"table": t64, "other": early, "out": out},
            {"out": 2 * blocks[0] + blocks.sum(0) + early * early},
        ),
        "reload": (
            reload, {"table": t64, "out": zeros(16, 8), "last": out},
            {"out": (2 * blocks[0] + blocks.sum(0))[:, :8].contiguous(), "last": blocks[3]},
        ),
        "rows_on_reuse": (
            rows_on_reuse,
            {"early": early, "table": rows, "copy": out, "out": zeros(16, 1), "out_1": zeros(16, 1)},
            {"copy": early, "out": rows[0].reshape(16, 1), "out_1": rows[1].reshape(16, 1)},
        ),
        "rows_at_address": (
            rows_at_address, {"table": rows, "out": zeros(16, 1), "out_1": zeros(16, 1)},
            {"out": rows[2].reshape(16, 1), "out_1": rows[5].reshape(16, 1)},
        ),
        "moving_row": (
            moving_row, {"table": table, "rows": factors, "out": zeros(16, 64)},
            {"out": table * factors.prod(0, keepdim=True)},
        ),
        "downwards": (Downwards, {"table": t64, "out": out}, {"out": blocks[0] + blocks[3] + blocks[2]}),
        "scratch": (
            Scratch, {"table": early, "out": zeros(16, 16, dtype=torch.bfloat16)},
            {"out": (2 * early + 1).to(torch.bfloat16)},
        ),
        "channel_scale": (
            channel_scale, {"a": a, "b": b, "scale": scale, "out": zeros(16, 32)}, {"out": (a @ b) * scale},
        ),
        "left_right": (left_right, {"a": a, "b": b, "out": zeros(16, 32)}, {"out": 2 * (a @ b)}),
        "row_norm": (
            row_norm, {"a": a, "b": b, "x": x, "out": zeros(16, 32), "out_1": zeros(16, 32)},
            {"out": x * 2 * x.sum(1, keepdim=True), "out_1": a @ b},
        ),
        "counting": (
            counting, {"a": a, "b": b, "out": zeros(16, 32)}, {"out": (a @ b) * torch.arange(32)},
        ),
        "two_guards": (
            two_guards, {"a": a, "b": b16, "out": out, "out_1": out.clone()}, {"out": a @ b16 + 1, "out_1": a @ b16 - 2},
        ),
        "boxes": (boxes, {"box": box, "out": zeros(4, 8, 16)}, {"out": placed}),
        "to_cube": (to_cube, {"x": b16, "b": b, "out": zeros(16, 32)}, {"out": (b16 + 1) @ b}),
        "peeled_sum": (peeled_sum, {"a": long_a, "b": long_b, "out": out}, {"out": long_a @ long_b}),
    }  # fmt: skip


def dump_case(
    name: str, folder: Path, kernel: Any, inputs: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]
) -> None:
    builds = folder / f"{name}.build"
    shutil.rmtree(builds, ignore_errors=True)
    shutil.rmtree(folder / name, ignore_errors=True)
    os.environ["PYPTO_PROG_BUILD_DIR"] = str(builds)
    platform = PLATFORMS.get(name.rpartition(".")[2], "a2a3sim")
    try:
        if hasattr(kernel, "compile"):
            kernel.compile(*inputs.values(), config=RunConfig(platform=platform, dump_passes=True))
        else:
            ir.compile(kernel, output_dir=str(builds / name), dump_passes=True, platform=platform)
        print(name, "compiled")
    except Exception as error:  # the passes may have run all the same
        print(name, type(error).__name__, " ".join(str(error).split())[:300])
    found = sorted(builds.glob("*/passes_dump"))
    if not found:
        return
    shutil.copytree(found[-1], folder / name / "passes_dump")
    for part, tensors in (("in", inputs), ("out", expected)):
        (folder / name / "data" / part).mkdir(parents=True)
        for key, value in tensors.items():
            torch.save(value.clone(), folder / name / "data" / part / f"{key}.pt")
    shutil.rmtree(builds)


def main() -> None:
    folder, wanted = Path(sys.argv[1]).resolve(), sys.argv[2:]
    for name, (kernel, inputs, expected) in build_cases().items():
        if not wanted or name in wanted:
            dump_case(name, folder, kernel, inputs, expected)


if __name__ == "__main__":
    main()
