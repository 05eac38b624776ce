"""Small cases of our own for faults planted in pypto's passes; run by the interpreter of a built pypto.

    python planted_kernels.py FOLDER SWITCH NUMBER:NAME ...

SWITCH is the variable of the environment that a build with planted faults reads, and NUMBER what it is set to; 0 is no
fault. Each case gets FOLDER/NUMBER.NAME with `passes_dump/`, `data/in` and `data/out`, as `explain` reads them. A
process is made for each, because the build reads the switch once. Nothing is assembled.
"""
# pyright: basic, reportInvalidTypeForm=false, reportMissingImports=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "natural"))

import pypto.language as pl
import torch
from kernels import build_cases as natural_cases
from kernels import dump_case, numbers, zeros


@pl.jit
def unrolled(table: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.load(table, [0, 0], [16, 16])
        for i in pl.unroll(1, 4):
            part = pl.load(table, [i * 16, 0], [16, 16])
            total = pl.add(pl.mul(total, 2.0), part)
        pl.store(total, [0, 0], out)
    return out


@pl.program
class Skipping:
    @pl.function(type=pl.FunctionType.InCore)
    def add_blocks(
        self, table: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        total = pl.load(table, [0, 0], [16, 16])
        for i in pl.range(4):
            if i == 1:
                continue
            part = pl.load(table, [i * 16, 0], [16, 16])
            total = pl.add(total, part)
        return pl.store(total, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def skipping(
        self, table: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        out = self.add_blocks(table, out)
        return out


@pl.program
class Stopping:
    @pl.function(type=pl.FunctionType.InCore)
    def add_blocks(
        self, table: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        total = pl.load(table, [0, 0], [16, 16])
        for i in pl.range(3):
            if i > 5:
                break
            part = pl.load(table, [i * 16, 0], [16, 16])
            total = pl.add(total, part)
        return pl.store(total, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def stopping(
        self, table: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        out = self.add_blocks(table, out)
        return out


@pl.jit
def two_sums(table: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        first = pl.load(table, [0, 0], [16, 16])
        plus = pl.mul(first, 2.0)
        minus = pl.mul(first, 3.0)
        for i in pl.range(4):
            part = pl.load(table, [i * 16, 0], [16, 16])
            plus = pl.add(plus, part)
            minus = pl.sub(minus, part)
        pl.store(plus, [0, 0], out)
        pl.store(minus, [0, 0], out_1)
    return out, out_1


@pl.jit
def chosen(table: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(2):
            value = pl.load(table, [i * 16, 0], [16, 16])
            if i == 0:
                value = pl.add(value, 5.0)
            else:
                value = pl.mul(value, 3.0)
            pl.store(value, [i * 16, 0], out)
    return out


@pl.jit
def single_trip(table: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.load(table, [0, 0], [16, 16])
        for i in pl.range(1, 2):
            part = pl.load(table, [i * 16, 0], [16, 16])
            total = pl.add(total, part)
        pl.store(total, [0, 0], out)
    return out


@pl.jit
def nested(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [16, 16])
        b = pl.load(y, [0, 0], [16, 16])
        difference = pl.sub(pl.mul(a, 2.0), pl.mul(b, 3.0))
        total = pl.add(pl.mul(a, a), pl.mul(b, b))
        pl.store(difference, [0, 0], out)
        pl.store(total, [0, 0], out_1)
    return out, out_1


@pl.jit
def two_scopes(x: pl.Tensor, y: pl.Tensor, scratch: pl.Out[pl.Tensor], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        scratch[:] = pl.sub(x, y)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.sub(scratch, pl.mul(x, 3.0))
    return scratch, out


@pl.jit
def row_softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        largest = pl.row_max(x)
        shifted = pl.exp(pl.row_expand_sub(x, largest))
        out[:] = pl.row_expand_div(shifted, pl.row_sum(shifted))
    return out


@pl.jit
def quadrant(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        part = x[16:32, 32:64]
        doubled = pl.mul(part, 2.0)
        out = pl.assemble(out, doubled, [16, 0])
    return out


@pl.jit
def waves(x: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        sine = pl.sin(x)
        cosine = pl.cos(x)
        out[:] = sine
        out_1[:] = cosine
    return out, out_1


@pl.jit
def pages(box: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        turned = pl.transpose(box, axis1=1, axis2=2)
        out = pl.assemble(out, turned, [0, 0, 0])
    return out


@pl.jit
def narrow(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        whole = pl.load(x, [0, 0], [16, 32])
        small = pl.cast(whole, target_type=pl.INT8, mode="round")
        pl.store(small, [0, 0], out)
    return out


@pl.jit
def halves(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        brain = pl.load(x, [0, 0], [16, 32])
        half = pl.cast(brain, target_type=pl.FP16, mode="rint")
        pl.store(half, [0, 0], out)
    return out


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c = pl.matmul(a, b, out_dtype=pl.FP32)
        out = pl.assemble(out, c, [0, 0])
    return out


@pl.jit
def nested_slice(table: pl.Tensor, rows: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(table, [0, 0], [16, 64])
        factors = pl.load(rows, [0, 0], [8, 64])
        lower = pl.slice(factors, [4, 64], [4, 0])
        for i in pl.range(4):
            t = pl.col_expand_mul(t, pl.slice(lower, [1, 64], [i, 0]))
        pl.store(t, [0, 0], out)
    return out


@pl.jit
def two_products(a: pl.Tensor, c: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        first = pl.matmul(a, b, out_dtype=pl.FP32)
        second = pl.matmul(c, b, out_dtype=pl.FP32)
        out = pl.assemble(out, first, [0, 0])
        out_1 = pl.assemble(out_1, second, [0, 0])
    return out, out_1


@pl.jit
def column_vectors(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        largest = pl.row_max(x)
        total = pl.row_sum(x)
        apart = pl.sub(largest, total)
        out[:] = pl.row_expand_mul(x, apart)
    return out


@pl.jit
def split_bias(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):
        c = pl.matmul(a, b, out_dtype=pl.FP32)
        out[:] = pl.add(c, bias)
    return out


@pl.jit
def two_crossings(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        first = pl.matmul(a, b, out_dtype=pl.FP32)
        second = pl.matmul(c, b, out_dtype=pl.FP32)
        out[:] = pl.sub(pl.mul(first, 3.0), second)
    return out


@pl.program
class TwoOutputs:
    @pl.function(type=pl.FunctionType.InCore)
    def both(
        self,
        x: pl.Tensor[[16, 16], pl.FP32],
        p: pl.Out[pl.Tensor[[16, 16], pl.FP32]],
        q: pl.Out[pl.Tensor[[16, 16], pl.FP32]],
    ) -> tuple[pl.Tensor[[16, 16], pl.FP32], pl.Tensor[[16, 16], pl.FP32]]:
        t = pl.load(x, [0, 0], [16, 16])
        tripled = pl.store(pl.mul(t, 3.0), [0, 0], q)
        raised = pl.store(pl.add(t, 7.0), [0, 0], p)
        return tripled, raised

    @pl.function(type=pl.FunctionType.InCore)
    def minus(
        self,
        left: pl.Tensor[[16, 16], pl.FP32],
        right: pl.Tensor[[16, 16], pl.FP32],
        out: pl.Out[pl.Tensor[[16, 16], pl.FP32]],
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        a = pl.load(left, [0, 0], [16, 16])
        b = pl.load(right, [0, 0], [16, 16])
        return pl.store(pl.sub(a, b), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def two_outputs(
        self, x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        p: pl.Tensor[[16, 16], pl.FP32] = pl.create_tensor([16, 16], dtype=pl.FP32)
        q: pl.Tensor[[16, 16], pl.FP32] = pl.create_tensor([16, 16], dtype=pl.FP32)
        tripled, raised = self.both(x, p, q)
        out = self.minus(tripled, raised, out)
        return out


@pl.jit
def skewed(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.pipeline(0, 6, 1, stage=2):
            row = q[i * 16 : i * 16 + 16, :]
            score = pl.matmul(row, k, out_dtype=pl.FP32)
            weight = pl.add(score, 1.0)
            value = pl.matmul(weight, v, out_dtype=pl.FP32)
            out = pl.assemble(out, value, [i * 16, 0])
    return out


@pl.jit
def pipelined(table: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.full([16, 16], dtype=pl.FP32, value=0.0)
        for i in pl.pipeline(0, 5, 1, stage=2):
            part = table[i * 16 : i * 16 + 16, :]
            total = pl.add(pl.mul(total, 2.0), part)
            out = pl.assemble(out, pl.mul(part, 3.0), [i * 16, 0])
        out_1 = pl.assemble(out_1, total, [0, 0])
    return out, out_1


@pl.jit
def kept_total(table: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.load(table, [0, 0], [16, 16])
        for i in pl.range(4):
            part = pl.load(table, [i * 16, 0], [16, 16])
            grown = pl.add(total, part)
            doubled = pl.mul(total, 2.0)
            pl.store(doubled, [i * 16, 0], out)
            total = grown
        pl.store(total, [0, 0], out_1)
    return out, out_1


@pl.jit
def late_use(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        early = pl.load(x, [0, 0], [16, 16])
        raised = pl.add(early, 3.0)
        squared = pl.mul(raised, raised)
        mixed = pl.sub(squared, early)
        final = pl.mul(mixed, 2.0)
        pl.store(final, [0, 0], out)
    return out


@pl.jit
def loop_invariant(table: pl.Tensor, weight: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.load(weight, [0, 0], [16, 16])
        for i in pl.range(4):
            part = pl.load(table, [i * 16, 0], [16, 16])
            scaled = pl.mul(part, w)
            other = pl.load(table, [48 - i * 16, 0], [16, 16])
            mixed = pl.sub(scaled, other)
            pl.store(mixed, [i * 16, 0], out)
    return out


@pl.jit
def view_lives(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        whole = pl.load(x, [0, 0], [16, 16])
        lower = pl.slice(whole, [8, 16], [8, 0])
        pl.store(whole, [0, 0], out)
        other = pl.load(y, [0, 0], [16, 16])
        upper = pl.slice(other, [8, 16], [0, 0])
        mixed = pl.sub(upper, lower)
        pl.store(mixed, [0, 0], out_1)
    return out, out_1


@pl.jit
def rotating(table: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        start = pl.load(table, [0, 0], [16, 16])
        one = pl.mul(start, 2.0)
        two = pl.mul(start, 3.0)
        for i in pl.range(4):
            part = pl.load(table, [i * 16, 0], [16, 16])
            grown = pl.add(one, part)
            one = pl.mul(two, 2.0)
            two = grown
        pl.store(one, [0, 0], out)
        pl.store(two, [0, 0], out_1)
    return out, out_1


@pl.jit
def pair(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [16, 16])
        b = pl.load(y, [0, 0], [16, 16])
        c = pl.sub(a, b)
        pl.store(c, [0, 0], out)
    return out


@pl.jit
def shrinking(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor], out_1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [32, 32])
        b = pl.load(y, [0, 0], [32, 32])
        pl.store(a, [0, 0], out)
        small = pl.load(x, [0, 0], [8, 8])
        pl.store(small, [0, 0], out)
        pl.store(b, [0, 0], out_1)
    return out, out_1


@pl.program
class Placed:
    @pl.function(type=pl.FunctionType.InCore)
    def double(
        self, x: pl.Tensor[[16, 16], pl.FP32], part: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        t = pl.load(x, [0, 0], [16, 16])
        return pl.store(pl.mul(t, 2.0), [0, 0], part)

    @pl.function(type=pl.FunctionType.Orchestration)
    def placed(
        self, x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]]
    ) -> pl.Tensor[[32, 16], pl.FP32]:
        part: pl.Tensor[[16, 16], pl.FP32] = pl.create_tensor([16, 16], dtype=pl.FP32)
        part = self.double(x, part)
        out = pl.assemble(out, part, [16, 0])
        return out


@pl.program
class TwicePlaced:
    @pl.function(type=pl.FunctionType.InCore)
    def double(
        self, x: pl.Tensor[[16, 16], pl.FP32], part: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        t = pl.load(x, [0, 0], [16, 16])
        return pl.store(pl.mul(t, 2.0), [0, 0], part)

    @pl.function(type=pl.FunctionType.Orchestration)
    def twice_placed(
        self, x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]]
    ) -> pl.Tensor[[32, 16], pl.FP32]:
        part: pl.Tensor[[16, 16], pl.FP32] = pl.create_tensor([16, 16], dtype=pl.FP32)
        part = self.double(x, part)
        out = pl.assemble(out, part, [0, 0])
        out = pl.assemble(out, part, [16, 0])
        return out


@pl.jit.inline
def minus(x: pl.Tensor, y: pl.Tensor):
    difference = pl.sub(x, y)
    return difference


@pl.jit
def inlined(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        difference = minus(x, y)
        out[:] = pl.mul(difference, 2.0)
    return out


@pl.jit
def moved(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        there = pl.load(x, [0, 0], [16, 16])
        here = pl.move(there, target_memory=pl.Mem.Vec)
        doubled = pl.mul(here, 2.0)
        pl.store(doubled, [0, 0], out)
    return out


# The worked cases of pypto's own page on precision (docs/en/user/precision/01-cases.md).


@pl.jit
def two_hops(whole: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.load(whole, [0, 0], [16, 32])
        half = pl.cast(w, target_type=pl.FP16, mode="rint")
        pl.store(half, [0, 0], out)
    return out


@pl.jit
def padded(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        part = pl.load(x, [0, 0], [16, 32], valid_shape=[16, 20])
        room = pl.create_tile([16, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        largest = pl.row_max(part, room)
        pl.store(largest, [0, 0], out)
    return out


@pl.jit
def split_k(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.assemble(out, pl.full([32, 32], dtype=pl.FP32, value=0.0), [0, 0])
    for k in pl.parallel(0, 4):
        with pl.at(level=pl.Level.CORE_GROUP):
            part = pl.matmul(a[:, k * 32 : k * 32 + 32], b[k * 32 : k * 32 + 32, :], out_dtype=pl.FP32)
            out = pl.assemble(out, part, [0, 0], atomic=pl.AtomicType.Add)
    return out


def planted_cases() -> dict[str, tuple[Any, dict[str, torch.Tensor], dict[str, torch.Tensor]]]:
    """Each case's kernel, inputs and expected outputs."""
    t64, t80, t96 = numbers(64, 16), numbers(80, 16), numbers(96, 16)
    blocks = t64.reshape(4, 16, 16)
    out = zeros(16, 16)
    x, y, z = numbers(16, 16), numbers(16, 16), numbers(16, 16)
    wide, box = numbers(32, 64), numbers(2, 8, 16)
    angles = numbers(16, 32, low=-40, high=41) / 8
    quarters = numbers(16, 32, low=-100, high=100) / 4 + 0.125
    deep_a, deep_b = numbers(128, 512), numbers(512, 128)
    split_a, split_b = numbers(256, 128), numbers(128, 256)
    full_a, full_b = numbers(256, 32), numbers(32, 256)
    table, factors = numbers(16, 64), numbers(8, 64, low=1, high=3)
    scores = numbers(16, 32)
    a32, b32, bias = numbers(32, 32), numbers(32, 32), numbers(32, 32)
    large, other = numbers(32, 32), numbers(32, 32)
    unrolled_sum = ((blocks[0] * 2 + blocks[1]) * 2 + blocks[2]) * 2 + blocks[3]
    chosen_out = torch.cat([t64[:16] + 5, t64[16:32] * 3])
    quadrant_out = zeros(32, 32)
    quadrant_out[16:] = 2 * wide[16:, 32:]
    softmax_in = numbers(16, 32) / 2
    five = t80.reshape(5, 16, 16)
    chain = zeros(16, 16)
    for part in five:
        chain = 2 * chain + part
    keys, values = numbers(16, 16, low=-2, high=3), numbers(16, 16, low=-2, high=3)
    before = torch.stack([blocks[0] + blocks[:i].sum(0) for i in range(5)])
    one, two = blocks[0] * 2, blocks[0] * 3
    for part in blocks:
        one, two = two * 2, one + part
    shrunk = large.clone()
    large_whole = numbers(16, 32, low=-60000, high=60001, dtype=torch.int32)
    below = numbers(16, 32, low=-9, high=-1)
    thirds_a, thirds_b = numbers(32, 128) / 3, numbers(128, 32) / 3
    rows = scores.amax(1, keepdim=True) - scores.sum(1, keepdim=True)
    vectors = (column_vectors, {"x": scores, "out": zeros(16, 32)}, {"out": scores * rows})
    return natural_cases() | {
        "unrolled": (unrolled, {"table": t64, "out": out}, {"out": unrolled_sum}),
        "skipping": (Skipping, {"table": t64, "out": out}, {"out": 2 * blocks[0] + blocks[2] + blocks[3]}),
        "stopping": (Stopping, {"table": t64, "out": out}, {"out": blocks[0] + blocks[:3].sum(0)}),
        "two_sums": (
            two_sums, {"table": t64, "out": out, "out_1": out},
            {"out": 2 * blocks[0] + blocks.sum(0), "out_1": 3 * blocks[0] - blocks.sum(0)},
        ),
        "chosen": (chosen, {"table": t64[:32].clone(), "out": zeros(32, 16)}, {"out": chosen_out}),
        "single_trip": (single_trip, {"table": t64, "out": out}, {"out": blocks[0] + blocks[1]}),
        "nested": (
            nested, {"x": x, "y": y, "out": out, "out_1": out}, {"out": 2 * x - 3 * y, "out_1": x * x + y * y},
        ),
        "two_scopes": (
            two_scopes, {"x": x, "y": y, "scratch": out, "out": out}, {"scratch": x - y, "out": x - y - 3 * x},
        ),
        "row_softmax": (
            row_softmax, {"x": softmax_in, "out": zeros(16, 32)}, {"out": softmax_in.softmax(1)},
        ),
        "quadrant": (quadrant, {"x": wide, "out": zeros(32, 32)}, {"out": quadrant_out}),
        "waves": (
            waves, {"x": angles, "out": zeros(16, 32), "out_1": zeros(16, 32)},
            {"out": angles.double().sin().float(), "out_1": angles.double().cos().float()},
        ),
        "pages": (pages, {"box": box, "out": zeros(2, 16, 8)}, {"out": box.transpose(1, 2).contiguous()}),
        "narrow": (
            narrow, {"x": quarters, "out": zeros(16, 32, dtype=torch.int8)},
            {"out": (quarters.abs() + 0.5).floor().mul(quarters.sign()).to(torch.int8)},
        ),
        "halves": (
            halves, {"x": quarters.bfloat16(), "out": zeros(16, 32, dtype=torch.float16)},
            {"out": quarters.bfloat16().half()},
        ),
        "deep_product": (product, {"a": deep_a, "b": deep_b, "out": zeros(128, 128)}, {"out": deep_a @ deep_b}),
        "split_product": (product, {"a": split_a, "b": split_b, "out": zeros(256, 256)}, {"out": split_a @ split_b}),
        "full_product": (product, {"a": full_a, "b": full_b, "out": zeros(256, 256)}, {"out": full_a @ full_b}),
        "nested_slice": (
            nested_slice, {"table": table, "rows": factors, "out": zeros(16, 64)},
            {"out": table * factors[4:].prod(0, keepdim=True)},
        ),
        "two_products": (
            two_products, {"a": x, "c": y, "b": z, "out": out, "out_1": out}, {"out": x @ z, "out_1": y @ z},
        ),
        "column_vectors": vectors,
        "split_bias": (
            split_bias, {"a": a32, "b": b32, "bias": bias, "out": zeros(32, 32)}, {"out": a32 @ b32 + bias},
        ),
        "two_crossings": (
            two_crossings, {"a": x, "b": z, "c": y, "out": out}, {"out": 3 * (x @ z) - y @ z},
        ),
        "two_outputs": (TwoOutputs, {"x": x, "out": out}, {"out": 3 * x - (x + 7)}),
        "skewed": (
            skewed, {"q": t96, "k": keys, "v": values, "out": zeros(96, 16)}, {"out": (t96 @ keys + 1) @ values},
        ),
        "pipelined": (
            pipelined, {"table": t80, "out": zeros(80, 16), "out_1": out}, {"out": 3 * t80, "out_1": chain},
        ),
        "kept_total": (
            kept_total, {"table": t64, "out": zeros(64, 16), "out_1": out},
            {"out": 2 * before[:4].reshape(64, 16), "out_1": before[4]},
        ),
        "late_use": (late_use, {"x": x, "out": out}, {"out": 2 * ((x + 3) ** 2 - x)}),
        "loop_invariant": (
            loop_invariant, {"table": t64, "weight": x, "out": zeros(64, 16)},
            {"out": (blocks * x - blocks.flip(0)).reshape(64, 16)},
        ),
        "view_lives": (
            view_lives, {"x": x, "y": y, "out": out, "out_1": zeros(8, 16)}, {"out": x, "out_1": y[:8] - x[8:]},
        ),
        "rotating": (rotating, {"table": t64, "out": out, "out_1": out}, {"out": one, "out_1": two}),
        "pair": (pair, {"x": x, "y": y, "out": out}, {"out": x - y}),
        "shrinking": (
            shrinking, {"x": large, "y": other, "out": zeros(32, 32), "out_1": zeros(32, 32)},
            {"out": shrunk, "out_1": other},
        ),
        "placed": (Placed, {"x": x, "out": zeros(32, 16)}, {"out": torch.cat([out, 2 * x])}),
        "twice_placed": (TwicePlaced, {"x": x, "out": zeros(32, 16)}, {"out": torch.cat([2 * x, 2 * x])}),
        "inlined": (inlined, {"x": x, "y": y, "out": out}, {"out": 2 * (x - y)}),
        "two_hops": (
            two_hops, {"whole": large_whole, "out": zeros(16, 32, dtype=torch.float16)}, {"out": large_whole.half()},
        ),
        "padded": (padded, {"x": below, "out": zeros(16, 1)}, {"out": below[:, :20].amax(1, keepdim=True)}),
        "split_k": (split_k, {"a": thirds_a, "b": thirds_b, "out": zeros(32, 32)}, {"out": thirds_a @ thirds_b}),
        "moved": (moved, {"x": x, "out": out}, {"out": 2 * x}),
    }  # fmt: skip


def main() -> None:
    folder, switch, wanted = Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:]
    torch.set_num_threads(1)  # A child of fork has none of the others, and would wait for them.
    cases = planted_cases()
    for each in wanted:
        number, _, name = each.partition(":")
        child = os.fork()
        if not child:
            os.environ[switch] = number
            kernel, inputs, expected = cases[name]
            dump_case(f"{number}.{name}", folder, kernel, inputs, expected)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
