"""ctypes view of libminirt.so. The structures mirror src/minirt_c_api.h."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

LIBRARY = Path(__file__).resolve().parent.parent / "build" / "lib" / "libminirt.so"
MAX_TENSOR_DIMS = 5


class Kernel(ctypes.Structure):
    _fields_ = [("func_id", ctypes.c_int32), ("path", ctypes.c_char_p)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64),
        ("dtype", ctypes.c_int32),
        ("ndims", ctypes.c_uint32),
        ("shape", ctypes.c_uint32 * MAX_TENSOR_DIMS),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("orchestration_path", ctypes.c_char_p),
        ("function_name", ctypes.c_char_p),
        ("kernels", ctypes.POINTER(Kernel)),
        ("kernel_count", ctypes.c_uint32),
        ("tensors", ctypes.POINTER(Tensor)),
        ("tensor_count", ctypes.c_uint32),
        ("scalars", ctypes.POINTER(ctypes.c_uint64)),
        ("scalar_count", ctypes.c_uint32),
        ("dump_level", ctypes.c_int32),
        ("dump_directory", ctypes.c_char_p),
        ("deps_path", ctypes.c_char_p),
    ]


@functools.cache
def load() -> ctypes.CDLL:
    """Raises FileNotFoundError when the library was not built."""
    if not LIBRARY.exists():
        raise FileNotFoundError(f"{LIBRARY} is missing: run `python build.py` in {LIBRARY.parents[2]}")
    # Global, because orchestration objects find the runtime's functions in it when they are loaded.
    library = ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)
    library.minirt_run.argtypes = [ctypes.POINTER(Request)]
    library.minirt_run.restype = ctypes.c_int32
    return library
