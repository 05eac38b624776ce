"""A built copy of the minirt tree, and small hand-written build directories for it."""

from __future__ import annotations

import atexit
import functools
import importlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

TREE = Path(__file__).resolve().parents[2] / "demo" / "trees" / "minirt"
SCALE = "store(1, i, 2.0f * load(0, i));"
ACCUMULATE = "store(1, i, load(1, i) + load(0, i));"


@functools.cache
def built_tree() -> Path:
    """The tree, copied to a temporary folder and compiled there once a process."""
    root = Path(tempfile.mkdtemp(prefix="minirt-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    tree = root / "minirt"
    shutil.copytree(TREE, tree, ignore=shutil.ignore_patterns("build", "__pycache__", "*.egg-info"))
    subprocess.run([sys.executable, "build.py"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return tree


@functools.cache
def minirt() -> ModuleType:
    """The package of `built_tree()`, loaded into this process."""
    sys.path.insert(0, str(built_tree()))
    try:
        return importlib.import_module("minirt")
    finally:
        sys.path.pop(0)


def elementwise(body: str) -> str:
    """A kernel that runs `body` for every element index `i` of its first tensor, in row-major order."""
    return kernel(f"for (uint64_t i = 0; i < numel(args.tensors[0]); ++i) {{ {body} }}")


def kernel(body: str) -> str:
    """A kernel source; `load(tensor, i)` and `store(tensor, i, value)` take row-major element indices."""
    return textwrap.dedent("""
        #include "pto_kernel_api.h"
        static uint64_t numel(const KernelTensor& t) {
            uint64_t count = 1;
            for (uint32_t d = 0; d < t.ndim; ++d) count *= t.shape[d];
            return count;
        }
        static uint64_t at(const KernelTensor& t, uint64_t i) {
            uint64_t offset = t.start_offset;
            for (uint32_t d = t.ndim; d-- > 0; i /= t.shape[d]) offset += (i % t.shape[d]) * t.strides[d];
            return offset;
        }
        extern "C" void kernel_entry(const KernelArgs& args) {
            [[maybe_unused]] auto load = [&](int t, uint64_t i) {
                return load_f32(args.tensors[t], at(args.tensors[t], i));
            };
            [[maybe_unused]] auto store = [&](int t, uint64_t i, float v) {
                store_f32(args.tensors[t], at(args.tensors[t], i), v);
            };
            BODY
        }
    """).replace("BODY", body)


def orchestration(body: str, arguments: int) -> str:
    """An orchestration whose external tensors are x0, x1, ... (`arguments` of them)."""
    externals = "\n".join(f"const ChipTensor& x{i} = orch_args.tensor({i}).ref();" for i in range(arguments))
    return f"""
#include "pto_orchestration_api.h"
PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {{
    return PTO2OrchestrationConfig{{.expected_arg_count = {arguments}}};
}}
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {{
{externals}
{body}
}}
"""


def write_build(folder: Path, orchestration_source: str, kernels: dict[str, str]) -> Path:
    """A build directory with the given kernels, numbered from 0 in the order of the dictionary."""
    (folder / "orchestration").mkdir(parents=True)
    (folder / "kernels" / "aiv").mkdir(parents=True)
    (folder / "orchestration" / "main.cpp").write_text(orchestration_source)
    entries: list[str] = []
    for func_id, (name, source) in enumerate(kernels.items()):
        (folder / "kernels" / "aiv" / f"{name}.cpp").write_text(source)
        location = f'str(_ROOT_DIR / "kernels" / "aiv" / "{name}.cpp")'
        entries.append(
            f'{{"func_id": {func_id}, "name": "{name}", "source": {location}, "core_type": "aiv"}}'
        )
    (folder / "kernel_config.py").write_text(
        "from pathlib import Path\n\n_ROOT_DIR = Path(__file__).parent\n"
        'RUNTIME_CONFIG = {"runtime": "tensormap_and_ringbuffer"}\n'
        'ORCHESTRATION = {"source": str(_ROOT_DIR / "orchestration" / "main.cpp"),\n'
        '                 "function_name": "aicpu_orchestration_entry"}\n'
        f"KERNELS = [{', '.join(entries)}]\n"
    )
    return folder


def tensor_arguments(arrays: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    executor = minirt().executor
    return [
        executor.TensorArgument(f"x{i}", array.ctypes.data, str(array.dtype), array.shape)
        for i, array in enumerate(arrays)
    ]


def execute(build: Path, *arrays: np.ndarray[Any, Any], **options: Any) -> None:
    """Run an up-to-date build directory in this process on the arrays, in place."""
    minirt().executor.execute(build, tensor_arguments(arrays), platform="a2a3sim", device_id=0, **options)


def refresh(build: Path) -> Path:
    minirt().binaries.refresh(build)
    return build


def run_process(build: Path, *, shapes: Sequence[tuple[int, ...]], options: str = "") -> list[str]:
    """A command that executes the build directory in a process of its own, on float32 ones."""
    script = f"""
import sys; sys.path.insert(0, {str(built_tree())!r})
import ctypes, math, minirt
from pathlib import Path
shapes = {list(shapes)!r}
memory = [(ctypes.c_float * math.prod(shape))(*[1.0] * math.prod(shape)) for shape in shapes]
arguments = [
    minirt.executor.TensorArgument(f"x{{i}}", ctypes.addressof(m), "float32", s)
    for i, (m, s) in enumerate(zip(memory, shapes))
]
build = Path({str(build)!r})
minirt.binaries.refresh(build)
minirt.executor.execute(build, arguments, platform="a2a3sim", device_id=0, {options})
"""
    return [sys.executable, "-c", script]
