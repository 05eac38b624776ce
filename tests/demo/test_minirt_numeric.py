"""minirt's number formats against torch, and its region overlap against brute force."""

from __future__ import annotations

import ctypes
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.demo.minirt_support import TREE

HARNESS = """
#include "pto_numeric.h"
#include "overlap.h"
#include <stdlib.h>
extern "C" {
void minirt_orchestration_error(const char*) { abort(); }
void widen(const uint16_t* in, float* out, long n, int bf16) {
    for (long i = 0; i < n; ++i) out[i] = bf16 ? bf16_to_f32(in[i]) : f16_to_f32(in[i]);
}
void narrow(const float* in, uint16_t* out, long n, int bf16) {
    for (long i = 0; i < n; ++i) out[i] = bf16 ? f32_to_bf16(in[i]) : f32_to_f16(in[i]);
}
void to_i8(const float* in, int8_t* out, long n) {
    for (long i = 0; i < n; ++i) out[i] = f32_to_i8(in[i]);
}
int overlap(uint32_t ndims, const uint32_t* a, const uint32_t* b) {  // start, shape, strides
    ChipTensor tensors[2];
    const uint32_t* given[2] = {a, b};
    for (int t = 0; t < 2; ++t) {
        tensors[t].ndims = ndims;
        tensors[t].start_offset = given[t][0];
        for (uint32_t d = 0; d < ndims; ++d) {
            tensors[t].shapes[d] = given[t][1 + d];
            tensors[t].strides[d] = given[t][1 + ndims + d];
        }
    }
    return static_cast<int>(region_overlap(tensors[0], tensors[1]));
}
}
"""
NONE, COVERED, OTHER = range(3)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("harness")
    (folder / "harness.cpp").write_text(HARNESS)
    command = [
        "c++",
        "-std=c++17",
        "-O1",
        "-fPIC",
        "-shared",
        "-I",
        str(TREE / "include"),
        "-I",
        str(TREE / "src"),
    ]
    sources = [str(folder / "harness.cpp"), str(TREE / "src" / "overlap.cpp")]
    subprocess.run([*command, *sources, "-o", str(folder / "harness.so")], check=True)
    return ctypes.CDLL(str(folder / "harness.so"))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def torch_narrow(values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    return torch.tensor(values).to(dtype).view(torch.int16).numpy().view(np.uint16)


def interesting_floats() -> np.ndarray:
    """Random bit patterns; every narrow value, its neighbours, and every midpoint between two of them."""
    rng = np.random.default_rng(0)
    patterns = [rng.integers(0, 2**32, 500_000, dtype=np.uint64).astype(np.uint32)]
    every = np.arange(65536, dtype=np.uint32)
    bf16 = every << 16
    f16 = torch.tensor(every.astype(np.uint16).view(np.int16)).view(torch.float16).float().numpy()
    f16_bits = f16.view(np.uint32)
    for base in (bf16, bf16 + 0x8000, f16_bits, f16_bits + 0x1000):
        patterns += [base, base - 1, base + 1]
    finest = np.arange(0, 4096, dtype=np.float32) * np.float32(
        2.0**-26
    )  # halves and quarters of the subnormals
    return np.concatenate([np.concatenate(patterns).view(np.float32), finest, -finest])


@pytest.mark.parametrize(("is_bf16", "dtype"), [(1, torch.bfloat16), (0, torch.float16)])
def test_narrow_formats_agree_with_torch(is_bf16: int, dtype: torch.dtype, harness: ctypes.CDLL) -> None:
    every = np.arange(65536, dtype=np.uint16)
    wide = np.empty(every.size, np.float32)
    harness.widen(pointer(every), pointer(wide), ctypes.c_long(every.size), is_bf16)
    expected_wide = torch.tensor(every.view(np.int16)).view(dtype).float().numpy()
    nan = np.isnan(expected_wide)
    np.testing.assert_array_equal(np.isnan(wide), nan)
    np.testing.assert_array_equal(wide.view(np.uint32)[~nan], expected_wide.view(np.uint32)[~nan])

    values = interesting_floats()
    narrow = np.empty(values.size, np.uint16)
    harness.narrow(pointer(values), pointer(narrow), ctypes.c_long(values.size), is_bf16)
    nan = np.isnan(values)
    np.testing.assert_array_equal(narrow[~nan], torch_narrow(values, dtype)[~nan])
    back = torch.tensor(narrow[nan].view(np.int16)).view(dtype)
    assert bool(back.isnan().all())


def test_int8_rounds_ties_to_even_and_saturates(harness: ctypes.CDLL) -> None:
    values = np.concatenate(
        [
            np.arange(-140, 140, 0.125, dtype=np.float32),
            np.array([np.inf, -np.inf, 1e30, -1e30, np.nan], np.float32),
        ]
    )
    out = np.empty(values.size, np.int8)
    harness.to_i8(pointer(values), pointer(out), ctypes.c_long(values.size))
    expected = np.nan_to_num(np.clip(np.rint(values), -128, 127)).astype(np.int8)
    np.testing.assert_array_equal(out, expected)


def elements(start: int, shape: list[int], strides: list[int]) -> set[int]:
    offsets = {start}
    for size, stride in zip(shape, strides, strict=True):
        offsets = {offset + i * stride for offset in offsets for i in range(size)}
    return offsets


def test_overlap_agrees_with_brute_force(harness: ctypes.CDLL) -> None:
    rng = random.Random(7)
    seen: dict[int, int] = {NONE: 0, COVERED: 0, OTHER: 0}
    for _ in range(20_000):
        layout = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
        ndims = len(layout)
        strides = [int(np.prod(layout[d + 1 :], dtype=int)) for d in range(ndims)]
        regions: list[tuple[int, list[int], list[int]]] = []
        boxes = True
        for _ in range(2):
            shape = [rng.randint(1, size) for size in layout]
            corner = [rng.randint(0, size - extent) for size, extent in zip(layout, shape, strict=True)]
            order = list(range(ndims))
            if rng.random() < 0.2:
                rng.shuffle(order)
            boxes = boxes and order == sorted(order)
            start = sum(c * s for c, s in zip(corner, strides, strict=True))
            regions.append((start, [shape[d] for d in order], [strides[d] for d in order]))
        packed = [(ctypes.c_uint32 * (1 + 2 * ndims))(start, *shape, *step) for start, shape, step in regions]
        found = harness.overlap(ndims, *packed)
        later, earlier = (elements(*region) for region in regions)
        seen[found] += 1
        if boxes:
            exact = NONE if not later & earlier else COVERED if earlier <= later else OTHER
            assert found == exact, regions
        elif later & earlier:
            assert found != NONE, regions
        if found == COVERED:
            assert earlier <= later, regions
    assert min(seen.values()) > 1000


def test_headers_alone_compile(tmp_path: Path) -> None:
    for header in sorted((TREE / "include").glob("*.h")):
        source = tmp_path / f"{header.stem}.cpp"
        source.write_text(f'#include "{header.name}"\n')
        flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(TREE / "include")]
        subprocess.run(["c++", *flags, str(source)], check=True)
