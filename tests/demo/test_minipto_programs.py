"""Random programs, compiled and run in several task orders, against an interpreter of the traced program."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.demo.minipto_support import load
from tests.support.quick import quick_first

ROWS = (8, 48, 96)
COLUMNS = (40, 64, 136)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Interpreter:
    """Runs a traced program operation by operation, in order, with torch."""

    def __init__(self, values: Mapping[str, torch.Tensor]) -> None:
        self.values = dict(values)

    def run(self, body: Any, indices: Mapping[str, int]) -> None:
        for statement in body:
            if hasattr(statement, "variable"):
                for value in range(statement.start, statement.stop, statement.step):
                    self.run(statement.body, {**indices, statement.variable: value})
            else:
                self.operation(statement, indices)

    def region(self, region: Any, indices: Mapping[str, int]) -> torch.Tensor:
        rows, columns = region.tensor.shape
        whole = self.values.setdefault(
            region.tensor.name, torch.zeros(rows, columns, dtype=DTYPES[region.tensor.dtype.label])
        )
        starts = [
            start.constant + sum(indices[name] * factor for name, factor in start.terms)
            for start in region.origin
        ]
        height, width = region.stored_shape
        part = whole[starts[0] : starts[0] + height, starts[1] : starts[1] + width]
        return part.T if region.transposed else part

    def operation(self, op: Any, indices: Mapping[str, int]) -> None:
        operands = [
            self.region(operand, indices).float() if hasattr(operand, "tensor") else operand.value
            for operand in op.inputs
        ]
        functions = {
            "row_sum": lambda a: a.sum(dim=1, keepdim=True),
            "row_max": lambda a: a.amax(dim=1, keepdim=True),
            "cast": lambda a: a,
        }
        function = functions.get(op.kind) or getattr(torch, op.kind)
        self.region(op.output, indices)[:] = function(*operands)


def random_program(mp: Any, seed: int) -> tuple[Any, dict[str, torch.Tensor]]:
    """A program of 12 operations on matrices of one height, its intermediates read again at random."""
    rng = random.Random(seed)
    rows, columns = rng.choice(ROWS), rng.choice(COLUMNS)

    def body(x: Any, w: Any, y: Any, z: Any) -> None:
        wide = [x]
        narrow = [mp.row_max(x)]
        for _ in range(12):
            a, b = rng.choice(wide), rng.choice(wide)
            match rng.randrange(7):
                case 0:
                    wide.append(mp.mul(mp.add(a, b), 0.5))
                case 1:
                    wide.append(mp.sub(a, rng.choice(narrow)))
                case 2:
                    wide.append(mp.exp(mp.sub(a, mp.row_max(a))))
                case 3:
                    narrow.append(mp.mul(mp.row_sum(a), 1.0 / columns))
                case 4:
                    narrow.append(mp.abs(mp.sub(rng.choice(narrow), rng.choice(narrow))))
                case 5:
                    wide.append(mp.cast(mp.cast(a, mp.DType.BF16), mp.DType.FP32))
                case _:
                    wide.append(mp.mul(mp.matmul(a, w.T), 1.0 / columns))
        for half in mp.loop("half", 2):
            start = half * (rows // 2)
            part = wide[-1].view((rows // 2, columns), (start, 0))
            mp.mul(
                part,
                narrow[-1].view((rows // 2, 1), (start, 0)),
                out=y.view((rows // 2, columns), (start, 0)),
            )
        mp.add(rng.choice(wide), wide[-1], out=z)

    shapes = {"x": (rows, columns), "w": (columns, columns), "y": (rows, columns), "z": (rows, columns)}
    parameters = [
        mp.TensorParameter(
            name=name,
            shape=shape,
            dtype=mp.DType.FP32,
            role=mp.Role.OUTPUT if name in "yz" else mp.Role.INPUT,
        )
        for name, shape in shapes.items()
    ]
    generator = torch.Generator().manual_seed(seed)
    values = {name: torch.randn(shapes[name], generator=generator) for name in "xw"}
    return mp.jit(body).trace(parameters), values


@pytest.mark.parametrize("seed", quick_first(range(8), 2))
def test_compiled_programs_compute_what_was_traced(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mp, runtime = load("minipto"), load("minipto.runtime")
    program, inputs = random_program(mp, seed)
    interpreter = Interpreter(inputs)
    interpreter.run(program.body, {})

    build = mp.compile(program, work_dir=tmp_path)
    runtime.build_binaries(build)
    for order in ("", "serial", "reverse", *(f"random:{number}" for number in range(6))):
        if order:
            monkeypatch.setenv("MINIRT_ORDER", order)
        values = {
            tensor.name: inputs[tensor.name] if tensor.name in inputs else torch.zeros(tensor.shape)
            for tensor in program.tensors
        }
        arguments = [
            runtime.TensorArgument(
                name=name, address=value.data_ptr(), dtype="float32", shape=tuple(value.shape)
            )
            for name, value in values.items()
        ]
        runtime.execute_compiled(build, arguments, platform="a2a3sim")
        for name in ("y", "z"):
            # A value at a bfloat16 boundary may round either way, as sums are taken in another order.
            torch.testing.assert_close(values[name], interpreter.values[name], rtol=2e-2, atol=2e-2)
