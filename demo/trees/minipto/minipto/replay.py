"""What a build's debug/run.py does: run the folder again on the data saved in it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .flags import PLATFORMS
from .runtime import ScalarArgument, TensorArgument, build_binaries, execute_compiled

if TYPE_CHECKING:
    import torch

RELATIVE_TOLERANCE = 1e-3
ABSOLUTE_TOLERANCE = 1e-3


def main(
    build_dir: Path, tensors: Sequence[tuple[str, tuple[int, int], str, str]], scalars: Sequence[str]
) -> int:
    """Parse the command line and run; `tensors` are (name, shape, dtype, role). 1 if the outputs do not match."""
    parser = argparse.ArgumentParser(description=f"Run the build in {build_dir} on the tensors of its data/.")
    parser.add_argument("--platform", choices=PLATFORMS, default="a2a3sim")
    parser.add_argument("--device-id", type=int, default=0)
    parser.add_argument("--dump-args", type=int, choices=range(4), default=0)
    parser.add_argument("--dep-gen", action="store_true", help="record the task graph")
    parser.add_argument("--no-recompile", action="store_true", help="use the binaries as they are")
    parser.add_argument("--validate", action="store_true", help="compare the outputs with data/out")
    options = parser.parse_args()

    if not options.no_recompile:
        build_binaries(build_dir)
    values = _load(build_dir / "data", tensors)
    arguments: list[TensorArgument | ScalarArgument] = [
        TensorArgument(name=name, address=values[name].data_ptr(), dtype=dtype, shape=shape)
        for name, shape, dtype, _ in tensors
    ]
    arguments += [_scalar(build_dir / "data" / "in" / f"{name}.pt", name) for name in scalars]
    execute_compiled(
        build_dir,
        arguments,
        platform=options.platform,
        device_id=options.device_id,
        enable_dump_args=options.dump_args,
        enable_dep_gen=options.dep_gen,
    )
    if not options.validate:
        return 0
    return _validate(
        build_dir / "data" / "out", values, [name for name, _, _, role in tensors if role == "out"]
    )


def _read(path: Path) -> torch.Tensor:
    import torch

    if not path.is_file():
        raise SystemExit(f"{path} is missing: run the case with --save-data first")
    return torch.load(path, weights_only=True)


def _load(data: Path, tensors: Sequence[tuple[str, tuple[int, int], str, str]]) -> dict[str, torch.Tensor]:
    import torch

    values: dict[str, torch.Tensor] = {}
    for name, shape, dtype, role in tensors:
        expected = getattr(torch, dtype)
        if role == "out":
            values[name] = torch.zeros(shape, dtype=expected)
            continue
        value = _read(data / "in" / f"{name}.pt")
        if tuple(value.shape) != shape or value.dtype != expected:
            raise SystemExit(
                f"{name}.pt: expected {expected} {shape}, found {value.dtype} {tuple(value.shape)}"
            )
        values[name] = value.contiguous()
    return values


def _scalar(path: Path, name: str) -> ScalarArgument:
    import torch

    return ScalarArgument(name=name, bits=int(_read(path).float().view(torch.int32)) & 0xFFFFFFFF)


def _validate(expected_dir: Path, values: dict[str, torch.Tensor], outputs: list[str]) -> int:
    import torch

    failed = 0
    for name in outputs:
        expected = _read(expected_dir / f"{name}.pt")
        matches = torch.allclose(values[name], expected, rtol=RELATIVE_TOLERANCE, atol=ABSOLUTE_TOLERANCE)
        print(f"'{name}' {'PASS' if matches else 'FAIL'}")
        failed += not matches
    return 1 if failed else 0
