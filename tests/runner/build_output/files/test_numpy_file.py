"""Arrays of numpy as views, and what is refused."""

import contextlib
import io
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.runner.build_output.files import numpy_file
from precision_bisect.runner.build_output.files.errors import (
    BuildOutputError,
    FileTooLargeError,
    MalformedFileError,
)
from precision_bisect.runner.build_output.files.folder import Folder
from precision_bisect.runner.build_output.files.numpy_file import load_npy, load_npz
from precision_bisect.runner.build_output.files.tensor_file import load_tensors
from tests.support.quick import examples


def folder(path: Path) -> Folder:
    return Folder.open(path, expected="a folder")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u2", "i8", "?"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 4)])
def test_every_type_and_shape(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", x=array)
    for view in (load_npy(folder(tmp_path), "a.npy"), load_npz(folder(tmp_path), "a.npz")["x"]):
        assert np.array_equal(view.contiguous().astype(array.dtype), array)


def test_columns_first(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(tmp_path / "a.npy", array)
    assert np.array_equal(load_npy(folder(tmp_path), "a.npy").contiguous(), array)


def test_complex_parts_stand_first(tmp_path: Path) -> None:
    array = np.array([[1 + 2j, 3 - 4j]], np.complex128)
    np.save(tmp_path / "a.npy", array)
    view = load_npy(folder(tmp_path), "a.npy")
    assert view.contiguous().tolist() == [[[1, 3]], [[2, -4]]]
    assert view.converted.startswith("complex128 as two parts")


def test_an_archive_larger_than_memory_is_refused_before_it_unfolds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(5000))
    monkeypatch.setattr(numpy_file, "MOST_UNPACKED", 30_000)
    with pytest.raises(FileTooLargeError, match="30000 bytes together, found 40"):
        load_npz(folder(tmp_path), "a.npz")


def test_a_file_of_another_size_than_its_header_says_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    with (tmp_path / "a.npy").open("ab") as file:
        file.write(b"12345678")
    with pytest.raises(MalformedFileError, match="expected 3 elements of 8 bytes, found 32 bytes"):
        load_npy(folder(tmp_path), "a.npy")


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
            for view in load_tensors(folder(file.parent), file.name).tensors.values():
                view.contiguous()
