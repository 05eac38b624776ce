"""Arrays of numpy as views, and what is refused."""

import contextlib
import io
import tempfile
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.runner.build_output import tensor_files
from precision_bisect.runner.build_output.files import (
    BuildOutputError,
    FileTooLargeError,
    Folder,
    MalformedFileError,
)
from precision_bisect.runner.build_output.tensor_files import list_npz, load_tensors, npy_tensor
from tests.support.quick import examples


def folder(path: Path) -> Folder:
    return Folder.open(path, expected="a folder")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u2", "i8", "?"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 4)])
def test_every_type_and_shape(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", x=array)
    for view in (
        npy_tensor(folder(tmp_path), "a.npy").open(),
        list_npz(folder(tmp_path), "a.npz")["x"].open(),
    ):
        assert np.array_equal(view.contiguous().astype(array.dtype), array)


def test_columns_first(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(tmp_path / "a.npy", array)
    assert np.array_equal(npy_tensor(folder(tmp_path), "a.npy").open().contiguous(), array)


def test_complex_parts_stand_first(tmp_path: Path) -> None:
    array = np.array([[1 + 2j, 3 - 4j]], np.complex128)
    np.save(tmp_path / "a.npy", array)
    view = npy_tensor(folder(tmp_path), "a.npy").open()
    assert view.contiguous().tolist() == [[[1, 3]], [[2, -4]]]
    assert view.converted.startswith("complex128 as two parts")


def test_an_archive_larger_than_memory_is_refused_before_it_unfolds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(5000))
    monkeypatch.setattr(tensor_files, "MAX_UNPACKED_BYTES", 30_000)
    with pytest.raises(FileTooLargeError, match="30000 bytes together, found 40"):
        list_npz(folder(tmp_path), "a.npz")


def test_an_archive_whose_names_disagree_is_refused(tmp_path: Path) -> None:
    """The name of an array stands before it and in the listing at the end: a byte of one of them was changed."""
    np.savez(tmp_path / "a.npz", x=np.zeros(3), y=np.ones(3))
    saved = (tmp_path / "a.npz").read_bytes()
    place = saved.rindex(b"y.npy")
    (tmp_path / "a.npz").write_bytes(saved[:place] + b"z" + saved[place + 1 :])
    with pytest.raises(MalformedFileError, match=r"'z\.npy' and header b'y\.npy' differ"):
        list_npz(folder(tmp_path), "a.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("x.npy", "x"):
            archive.write(tmp_path / "x.npy", name)
    with pytest.raises(MalformedFileError, match="two named 'x'"):
        list_npz(folder(tmp_path), "a.npz")


def test_a_shape_below_zero_is_refused(tmp_path: Path) -> None:
    """The product of two such numbers fits the size."""
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    path = tmp_path / "a.npy"
    path.write_bytes(path.read_bytes().replace(b"(4, 4), }  ", b"(-4, -4), }"))
    with pytest.raises(MalformedFileError, match=r"a\.npy: .*found a of shape \(-4, -4\)"):
        npy_tensor(folder(tmp_path), "a.npy").geometry()


def test_the_listing_of_an_archive_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an archive of n arrays, n readings of the listing take n^2 steps."""
    arrays: dict[str, Any] = {f"x{place}": np.full(3, place) for place in range(50)}
    np.savez(tmp_path / "a.npz", **arrays)
    opened: list[object] = []
    opens = zipfile.ZipFile.__init__
    monkeypatch.setattr(
        zipfile.ZipFile, "__init__", lambda self, *words: (opened.append(self), opens(self, *words))[1]
    )
    found = list_npz(folder(tmp_path), "a.npz")
    assert [found[f"x{place}"].open().contiguous().tolist() for place in range(50)] == [
        [place] * 3 for place in range(50)
    ]
    assert len(opened) == 1


def test_an_archive_of_too_many_arrays_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays: dict[str, Any] = {f"x{place}": np.zeros(1) for place in range(5)}
    np.savez(tmp_path / "a.npz", **arrays)
    monkeypatch.setattr(tensor_files, "MAX_ENTRIES", 4)
    with pytest.raises(FileTooLargeError, match="expected at most 4 arrays, found 5"):
        list_npz(folder(tmp_path), "a.npz")


def test_a_file_of_another_size_than_its_header_says_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    with (tmp_path / "a.npy").open("ab") as file:
        file.write(b"12345678")
    with pytest.raises(MalformedFileError, match="expected 3 elements of 8 bytes, found 32 bytes"):
        npy_tensor(folder(tmp_path), "a.npy").open()


def test_a_header_that_claims_four_gigabytes_takes_none(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'")
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFileError, match="expected 4294967295 bytes"):
            npy_tensor(folder(tmp_path), "a.npy").open()
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def open_all(path: Path, name: str) -> None:
    for stored in load_tensors(folder(path), name).tensors.values():
        stored.open()


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_large_array_takes_memory_once_and_its_header_none(tmp_path: Path, suffix: str) -> None:
    """The archive of zeros is a thousand times smaller than what it unfolds to."""
    array = np.zeros(2**22)
    if suffix == "npy":
        np.save(tmp_path / "a.npy", array)
    else:
        np.savez_compressed(tmp_path / "a.npz", array)
    (stored,) = load_tensors(folder(tmp_path), f"a.{suffix}").tensors.values()
    tracemalloc.start()
    try:
        assert stored.geometry().nbytes == array.nbytes
        assert tracemalloc.get_traced_memory()[1] < array.nbytes / 10
        assert stored.open().storage.nbytes == array.nbytes
        assert tracemalloc.get_traced_memory()[1] < array.nbytes * 1.5
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", ["npy", "pt"])
def test_a_file_larger_than_the_memory_that_is_left_is_refused(tmp_path: Path, suffix: str) -> None:
    """Holes make a file of any size."""
    left = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        if line.startswith("MemTotal:")
    )
    file = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        with file.open("wb") as stream:
            np.lib.format.write_array_header_1_0(
                stream, {"descr": "|u1", "fortran_order": False, "shape": (left,)}
            )
            stream.truncate(stream.tell() + left)
    else:
        torch.save(torch.ones(2), file)
        packed = file.read_bytes()
        file.write_bytes(b"")
        with file.open("r+b") as stream:
            stream.seek(left)
            stream.write(packed)
    with pytest.raises(FileTooLargeError, match="left on this machine; compare parts of it"):
        open_all(tmp_path, file.name)


@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.sampled_from(["npy", "npz"]))
def test_a_spoiled_file_is_an_error_or_arrays_and_nothing_else(data: st.DataObject, suffix: str) -> None:
    packed = io.BytesIO()
    if suffix == "npy":
        np.save(packed, np.arange(60.0).reshape(3, 20))
    else:
        np.savez_compressed(packed, x=np.arange(50), y=np.ones((2, 2), np.complex64))
    spoiled = bytearray(packed.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(place) / f"a.{suffix}"
        file.write_bytes(spoiled[: data.draw(st.integers(1, len(spoiled)))])
        with contextlib.suppress(BuildOutputError):
            for stored in load_tensors(folder(file.parent), file.name).tensors.values():
                stored.open().contiguous()
