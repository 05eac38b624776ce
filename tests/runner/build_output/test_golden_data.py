"""Frozen tensors: sound ones of every type, and every kind of bad file."""

import os
import zipfile

import pytest
import torch

from precision_bisect.runner.build_output import tensor_files
from precision_bisect.runner.build_output.directory import GoldenData, TensorFolder
from precision_bisect.runner.build_output.files import (
    BuildOutputError,
    FileTooLargeError,
    MalformedFileError,
    MissingFileError,
    UnsafePathError,
)
from precision_bisect.runner.tensor import DType


@pytest.mark.parametrize("dtype", DType)
def test_every_type(tmp_path, dtype):
    saved = (torch.arange(12) % 2).to(getattr(torch, dtype.torch_name)).reshape(3, 4)
    torch.save(saved, tmp_path / "t.pt")
    view = TensorFolder.open(tmp_path).tensor("t")
    assert (view.name, view.dtype, view.shape) == ("t", dtype, (3, 4))
    assert torch.equal(view.torch(), saved)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.tensor(2.5),
        lambda: torch.ones(0, 3),
        lambda: torch.arange(24.0).reshape(4, 6).T[1:, ::2],
        lambda: torch.arange(5.0).expand(3, 5),
        lambda: torch.ones(2, requires_grad=True),
        lambda: torch.nn.Parameter(torch.ones(2)),
    ],
    ids=["scalar", "empty", "strided", "expanded", "requires grad", "parameter"],
)
def test_every_geometry(tmp_path, make):
    saved = make()
    torch.save(saved, tmp_path / "t.pt")
    view = TensorFolder.open(tmp_path).tensor("t")
    assert view.strides == saved.stride()
    assert torch.equal(view.torch(), saved.detach())


def test_golden_folders(tmp_path):
    for place, name in (("in", "b"), ("in", "a"), ("out", "a")):
        (tmp_path / place).mkdir(exist_ok=True)
        torch.save(torch.ones(2), tmp_path / place / f"{name}.pt")
    (tmp_path / "in" / "notes.txt").touch()
    golden = GoldenData.open(tmp_path)
    assert (golden.inputs.names, golden.outputs.names) == (("a", "b"), ("a",))
    with pytest.raises(MissingFileError, match=r"c\.pt"):
        golden.inputs.tensor("c")
    with pytest.raises(UnsafePathError):
        golden.inputs.tensor("../../secret")


def test_missing_golden_data(tmp_path):
    with pytest.raises(MissingFileError):
        GoldenData.open(tmp_path)
    for place in ("in", "out"):
        (tmp_path / place).mkdir()
    with pytest.raises(MissingFileError, match="--save-data"):
        GoldenData.open(tmp_path)


def test_a_pickle_that_runs_something_is_refused(tmp_path):
    trap = tmp_path / "trap"

    class Payload:
        def __reduce__(self):
            return os.mkdir, (str(trap),)

    torch.save(Payload(), tmp_path / "t.pt")
    with pytest.raises(MalformedFileError, match=r"it asks for posix\.mkdir"):
        TensorFolder.open(tmp_path).tensor("t")
    assert not trap.exists()


def test_no_setting_of_torch_makes_it_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    test_a_pickle_that_runs_something_is_refused(tmp_path)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({"a": torch.ones(2)}, "dict"),
        ([torch.ones(2)], "list"),
        (3.5, "float"),
        (torch.ones(2, dtype=torch.complex64), "complex64"),
        (torch.eye(3).to_sparse(), "sparse"),
        (torch.ones(2, device="meta"), "meta"),
    ],
)
def test_what_is_no_plain_tensor_is_refused(tmp_path, content, found):
    torch.save(content, tmp_path / "t.pt")
    with pytest.raises(MalformedFileError, match=found):
        TensorFolder.open(tmp_path).tensor("t")


def test_a_file_cut_anywhere_is_one_clear_error(tmp_path):
    torch.save(torch.ones(100), tmp_path / "t.pt")
    whole = (tmp_path / "t.pt").read_bytes()
    for end in range(0, len(whole), 53):
        (tmp_path / "t.pt").write_bytes(whole[:end])
        with pytest.raises(BuildOutputError, match=r"t\.pt: expected one tensor saved by torch.save"):
            TensorFolder.open(tmp_path).tensor("t")


def test_the_old_format_is_refused_with_a_remedy(tmp_path):
    torch.save(torch.ones(9), tmp_path / "t.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(MalformedFileError, match="save the tensor again"):
        TensorFolder.open(tmp_path).tensor("t")


def test_a_module_is_refused_with_what_to_save_of_it(tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "t.pt")
    with pytest.raises(
        MalformedFileError, match=r"those of a module with torch\.save\(module\.state_dict\(\), path\)"
    ):
        TensorFolder.open(tmp_path).tensor("t")


def test_compressed_entries_are_refused_before_they_unfold(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t/data.pkl", bytes(2**24))
    with pytest.raises(MalformedFileError, match="compressed"):
        TensorFolder.open(tmp_path).tensor("t")


def test_large_pickles_and_listings_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_files, "MAX_DIRECTORY_BYTES", 2000)
    with zipfile.ZipFile(tmp_path / "t.pt", "w") as archive:
        archive.writestr("t/data.pkl", bytes(2001))
    with pytest.raises(FileTooLargeError, match="2001"):
        TensorFolder.open(tmp_path).tensor("t")
    with zipfile.ZipFile(tmp_path / "t.pt", "w") as archive:
        for number in range(60):
            archive.writestr(f"t/{number}", b"")
    with pytest.raises(FileTooLargeError, match="2000"):
        TensorFolder.open(tmp_path).tensor("t")
