"""Writes `test_reduced.py` into a build directory: the build and its frozen data as a scene test of the runtime."""

from __future__ import annotations

import pprint
from collections.abc import Sequence
from pathlib import Path

from ...runner.build_output.build_directory import BuildDirectory
from ...runner.build_output.golden_data import GoldenData
from ...runner.build_output.kernel_config import Direction
from ...runner.case.entry_arguments import EntryArgument, EntryScalar, EntryTensor, entry_arguments
from ...runner.compare.statistics.statistics import Tolerance
from ...runner.errors import UserError

FILE_NAME = "test_reduced.py"

_FIRST_LINE = '"""A build directory as a scene test: python test_reduced.py -p a2a3sim"""'
_TEXT = """
from pathlib import Path

import simpler_setup
import torch
from simpler.task_interface import ArgDirection as D
from simpler_setup import Scalar, SceneTestCase, TaskArgsBuilder, scene_test

# It was called Tensor before it was called TensorArg.
TensorArg = getattr(simpler_setup, "TensorArg", None) or simpler_setup.Tensor
DATA = @DATA@
TENSORS = @TENSORS@
SCALARS = @SCALARS@


def load(kind, name):
    return torch.load(DATA / kind / f"{name}.pt", weights_only=True)


@scene_test(level=2, runtime=@RUNTIME@)
class TestReduced(SceneTestCase):
    RTOL = @RTOL@
    ATOL = @ATOL@
    CALLABLE = @CALLABLE@
    CASES = [{"name": "default", "platforms": ["a2a3sim", "a2a3", "a5sim", "a5"], "config": @CONFIG@, "params": {}}]

    def generate_args(self, params):
        specs = []
        for name, shape, dtype, has_input, _ in TENSORS:
            value = load("in", name) if has_input else torch.zeros(shape, dtype=getattr(torch, dtype))
            specs.append(TensorArg(name, value.share_memory_()))
        return TaskArgsBuilder(*specs, *(Scalar(name, load("in", name).item()) for name in SCALARS))

    def compute_golden(self, args, params):
        for name, _, _, _, is_output in TENSORS:
            if is_output:
                getattr(args, name)[:] = load("out", name)


if __name__ == "__main__":
    SceneTestCase.run_module(__name__)
"""


def wrap(build: Path, golden_data: Path | None, tolerance: Tolerance) -> Path:
    """Writes the scene test of any build directory with frozen data, its own (`data/`) by default; says where.

    Raises:
        UserError: a file of that name is there that was not written here, or the orchestration is not understood.
        BuildOutputError: the build or its data cannot be read.
    """
    path = build / FILE_NAME
    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(_FIRST_LINE):
        raise UserError(f"{path}: expected none, or one that was written by --wrap-only, found another file")
    data = None if golden_data is None else golden_data.resolve()
    arguments = entry_arguments(BuildDirectory.open(build), GoldenData.open(data or build / "data"))
    return write_scene_test(build, arguments, tolerance, data=data)


def write_scene_test(
    build: Path, arguments: Sequence[EntryArgument], tolerance: Tolerance, *, data: Path | None
) -> Path:
    """Writes the file, and says where. `data` is where the frozen data lies, None: in the build's own `data/`.

    Raises:
        BuildOutputError: the kernel list cannot be read.
    """
    config = BuildDirectory.open(build).kernel_config()
    entry = config.orchestration
    tensors = [argument for argument in arguments if not isinstance(argument, EntryScalar)]
    incores = [
        {
            "func_id": kernel.func_id,
            "source": str(kernel.source),
            "core_type": kernel.core_type.value,
            "signature": list(map(_Name, kernel.signature or ())),
            **({"extra_include_dirs": list(kernel.include_dirs)} if kernel.include_dirs else {}),
        }
        for kernel in config.kernels.values()
    ]
    described = {
        "orchestration": {
            "source": str(entry.source),
            "function_name": entry.function_name,
            "signature": list(map(_Name, entry.signature or map(_direction, tensors))),
        },
        "incores": incores,
    }
    described_tensors = [
        (tensor.name, tensor.shape, tensor.dtype, tensor.has_input, tensor.is_output) for tensor in tensors
    ]
    runtime = config.runtime.get("runtime", "tensormap_and_ringbuffer")
    texts = {
        "DATA": 'Path(__file__).resolve().parent / "data"' if data is None else f"Path({str(data)!r})",
        "TENSORS": pprint.pformat(described_tensors, width=100),
        "SCALARS": repr([argument.name for argument in arguments if isinstance(argument, EntryScalar)]),
        "RUNTIME": repr(runtime),
        "RTOL": repr(tolerance.rtol),
        "ATOL": repr(tolerance.atol),
        "CALLABLE": pprint.pformat(described, width=100, sort_dicts=False),
        "CONFIG": repr({key: value for key, value in config.runtime.items() if key != "runtime"}),
    }
    text = f"{_FIRST_LINE}\n{_TEXT}"
    for name, value in texts.items():
        text = text.replace(f"@{name}@", value)
    path = build / FILE_NAME
    path.write_text(text, encoding="utf-8")
    return path


def _direction(tensor: EntryTensor) -> Direction:
    """As the frozen data tell it: kernel lists of before July 2026 do not."""
    if not tensor.is_output:
        return Direction.IN
    return Direction.INOUT if tensor.has_input else Direction.OUT


class _Name:
    """Prints as the member of the runtime's own enumeration."""

    def __init__(self, direction: Direction) -> None:
        self._direction = direction

    def __repr__(self) -> str:
        return f"D.{self._direction.value}"
