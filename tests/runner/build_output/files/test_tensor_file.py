"""Files of several tensors, and of types that only a comparison reads."""

import warnings
from pathlib import Path

import pytest
import torch

from precision_bisect.runner.build_output.files.errors import MalformedFileError
from precision_bisect.runner.build_output.files.folder import Folder
from precision_bisect.runner.build_output.files.tensor_file import load_real_tensor, load_tensors


def folder(path: Path, content: object) -> Folder:
    torch.save(content, path / "t.pt")
    return Folder.open(path, expected="a folder")


def test_names_of_a_state_dict_are_dotted_and_in_order(tmp_path: Path) -> None:
    content = {"b": {"w": torch.ones(2)}, "a": [torch.zeros(1), 7], "note": "text", "none": None}
    found = load_tensors(folder(tmp_path, content), "t.pt")
    assert list(found.tensors) == ["b.w", "a.0"]
    assert found.scalars == {"a.1": 7, "note": "text", "none": None}


def test_one_tensor_has_the_name_of_its_file(tmp_path: Path) -> None:
    assert list(load_tensors(folder(tmp_path, torch.ones(2)), "t.pt").tensors) == ["t"]


@pytest.mark.parametrize("content", ["text", 7, None])
def test_a_plain_value_alone_is_no_tensor(tmp_path: Path, content: object) -> None:
    with pytest.raises(MalformedFileError, match=f"found {type(content).__name__}"):
        load_tensors(folder(tmp_path, content), "t.pt")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_torch_warns_of_is_told_once_as_the_error(tmp_path: Path) -> None:
    files = folder(tmp_path, torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(MalformedFileError, match="found a quantized"):
            load_tensors(files, "t.pt")
    assert not told


def test_float8_keeps_every_value(tmp_path: Path) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e5m2)
    view = load_real_tensor(folder(tmp_path, every), "t.pt")
    assert view.converted == "float8_e5m2 as float32"
    assert torch.equal(view.torch().nan_to_num(), every.float().nan_to_num())


def test_an_archive_that_says_it_spans_disks_is_refused(tmp_path: Path) -> None:
    files = folder(tmp_path, torch.ones(2))
    saved = bytearray((tmp_path / "t.pt").read_bytes())
    saved[saved.index(b"PK\x06\x07") + 16] = 2
    (tmp_path / "t.pt").write_bytes(saved)
    with pytest.raises(MalformedFileError, match="span multiple disks"):
        load_real_tensor(files, "t.pt")


def test_packed_float4_is_two_numbers_an_element(tmp_path: Path) -> None:
    packed = torch.tensor([[0x21], [0xF7]], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    view = load_real_tensor(folder(tmp_path, packed), "t.pt")
    assert view.converted == "FP4E2M1 as float32, two numbers an element"
    assert view.torch().tolist() == [[0.5, 1.0], [6.0, -6.0]]


def test_what_is_neither_tensor_nor_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MalformedFileError, match=r"t\.pt: expected one tensor .* found set"):
        load_tensors(folder(tmp_path, {"x": {1, 2}}), "t.pt")


def test_a_file_that_is_cut_short_after_it_was_opened_keeps_its_values(tmp_path: Path) -> None:
    files = folder(tmp_path, torch.arange(4096.0))
    views = load_real_tensor(files, "t.pt"), load_tensors(files, "t.pt").tensors["t"]
    (tmp_path / "t.pt").write_bytes(b"")
    for view in views:
        assert view.storage.sum() == 4095 * 2048
