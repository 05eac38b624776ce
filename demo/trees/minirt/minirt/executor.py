"""Executes a build directory on tensors in this process's memory."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import library
from .kernel_config import KernelConfig, read_kernel_config

SIMULATORS = ("a2a3sim", "a5sim")
DEVICES = ("a2a3", "a5")
DUMP_LEVELS = range(4)
DTYPES = {  # DataType in include/pto_data_type.h
    "float32": 0,
    "float16": 1,
    "int32": 2,
    "int16": 3,
    "int8": 4,
    "uint8": 5,
    "bfloat16": 6,
    "int64": 7,
    "uint64": 8,
    "uint16": 9,
    "uint32": 10,
    "bool": 11,
}


@dataclass(frozen=True)
class TensorArgument:
    """A contiguous row-major tensor of `shape` elements at `address`, valid for the whole run."""

    name: str
    address: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ScalarArgument:
    """`bits`: the value's bytes, zero-extended to 64 bits."""

    name: str
    bits: int


def execute(
    build_dir: Path,
    arguments: Sequence[TensorArgument | ScalarArgument],
    *,
    platform: str,
    device_id: int,
    dump_args: int = 0,
    dep_gen: bool = False,
) -> None:
    """Run the build directory's orchestration; outputs are written in place.

    `dump_args`: 0 off, 1 tagged arguments, 2 all, 3 metadata (payloads for tagged ones only); `dep_gen`
    writes the task graph. Both go to `dfx_outputs/`.

    Raises OSError for a device platform without its SDK, ValueError for arguments out of range, and
    RuntimeError("run failed with code N") when the run fails; the reason stands on standard error.
    """
    _check_platform(platform)
    if device_id < 0:
        raise ValueError(f"device_id: expected a number from 0, found {device_id}")
    if dump_args not in DUMP_LEVELS:
        raise ValueError(f"dump_args: expected 0 to 3, found {dump_args}")
    build_dir = build_dir.resolve()
    config = read_kernel_config(build_dir)
    outputs = build_dir / "dfx_outputs"
    dump_directory = outputs / "args_dump"
    if dump_args:
        dump_directory.mkdir(parents=True, exist_ok=True)
    if dep_gen:
        outputs.mkdir(exist_ok=True)
        _write_name_map(outputs / f"name_map_{build_dir.name}.json", config, dump_args)

    kernels = [library.Kernel(kernel.func_id, os.fsencode(kernel.binary)) for kernel in config.kernels]
    tensors = [_tensor(argument) for argument in arguments if isinstance(argument, TensorArgument)]
    scalars = [argument.bits for argument in arguments if isinstance(argument, ScalarArgument)]
    request = library.Request(
        orchestration_path=os.fsencode(config.orchestration_binary),
        function_name=config.function_name.encode(),
        kernels=(library.Kernel * len(kernels))(*kernels),
        kernel_count=len(kernels),
        tensors=(library.Tensor * len(tensors))(*tensors),
        tensor_count=len(tensors),
        scalars=(ctypes.c_uint64 * len(scalars))(*scalars),
        scalar_count=len(scalars),
        dump_level=dump_args,
        dump_directory=os.fsencode(dump_directory),
        deps_path=os.fsencode(outputs / "deps.json") if dep_gen else None,
    )
    code = library.load().minirt_run(ctypes.byref(request))
    if code != 0:
        raise RuntimeError(f"run failed with code {code}")


def _check_platform(platform: str) -> None:
    if platform in DEVICES and "ASCEND_HOME_PATH" not in os.environ:
        raise OSError("Environment variable 'ASCEND_HOME_PATH' is not set.")
    if platform not in SIMULATORS:
        raise ValueError(f"platform: minirt runs {' and '.join(SIMULATORS)}, found {platform}")


def _tensor(argument: TensorArgument) -> library.Tensor:
    dtype = argument.dtype.lower()
    if dtype not in DTYPES:
        raise ValueError(f"{argument.name}: expected a dtype of {', '.join(DTYPES)}, found {argument.dtype}")
    if len(argument.shape) > library.MAX_TENSOR_DIMS:
        raise ValueError(f"{argument.name}: expected at most 5 dimensions, found shape {argument.shape}")
    shape = (ctypes.c_uint32 * library.MAX_TENSOR_DIMS)(*argument.shape)
    return library.Tensor(argument.address, DTYPES[dtype], len(argument.shape), shape)


def _write_name_map(path: Path, config: KernelConfig, level: int) -> None:
    names = {str(kernel.func_id): kernel.name for kernel in config.kernels}
    content = {"level": level, "orchestrator_name": None, "callable_id_to_name": names}
    path.write_text(json.dumps(content, indent=2))
