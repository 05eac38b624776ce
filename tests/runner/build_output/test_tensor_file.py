"""Files of several tensors, and of types that only a comparison reads."""

import warnings
from pathlib import Path

import pytest
import torch

from precision_bisect.runner.build_output.files import Folder, MalformedFileError
from precision_bisect.runner.build_output.tensor_files import load_tensors
from precision_bisect.runner.tensor import TensorView


def folder(path: Path, content: object) -> Folder:
    torch.save(content, path / "t.pt")
    return Folder.open(path, expected="a folder")


def only_tensor(files: Folder) -> TensorView:
    """The tensor of a file that holds one."""
    (stored,) = load_tensors(files, "t.pt").tensors.values()
    return stored.open()


def test_names_of_a_state_dict_are_dotted_and_in_order(tmp_path: Path) -> None:
    content = {"b": {"w": torch.ones(2)}, "a": [torch.zeros(1), 7], "note": "text", "none": None}
    found = load_tensors(folder(tmp_path, content), "t.pt")
    assert list(found.tensors) == ["b.w", "a.0"]
    assert found.scalars == {"a.1": 7, "note": "text", "none": None}


def test_a_tensor_that_is_alone_has_no_name(tmp_path: Path) -> None:
    assert list(load_tensors(folder(tmp_path, torch.ones(2)), "t.pt").tensors) == [""]


def test_keys_that_are_dotted_alike_are_kept_apart(tmp_path: Path) -> None:
    content = {
        "a.b": torch.zeros(1),
        "a": {"b": torch.ones(1), "c": 1},
        1: torch.ones(1),
        "1": torch.zeros(1),
    }
    found = load_tensors(folder(tmp_path, content), "t.pt")
    assert {name: stored.open().torch().item() for name, stored in found.tensors.items()} == {
        "['a.b']": 0,
        "['a']['b']": 1,
        "[1]": 1,
        "['1']": 0,
    }
    assert found.scalars == {"a.c": 1}


def test_what_is_empty_in_a_list_is_told(tmp_path: Path) -> None:
    found = load_tensors(folder(tmp_path, {"w": torch.ones(1), "more": [], "deep": {"none": {}}}), "t.pt")
    assert found.scalars == {"more": "an empty list", "deep.none": "an empty dict"}
    assert not load_tensors(folder(tmp_path, {}), "t.pt").tensors


def test_names_are_known_before_values_are_read(tmp_path: Path) -> None:
    """A tensor that cannot be compared stops nobody from listing it, or from opening the others."""
    files = folder(tmp_path, {"whole": torch.ones(2), "sparse": torch.eye(2).to_sparse()})
    found = load_tensors(files, "t.pt", mapped=True).tensors
    assert list(found) == ["whole", "sparse"]
    assert found["whole"].open().torch().tolist() == [1, 1]
    with pytest.raises(MalformedFileError, match=r"sparse_coo; save it dense"):
        found["sparse"].open()


@pytest.mark.parametrize("content", ["text", 7, None])
def test_a_plain_value_alone_is_no_tensor(tmp_path: Path, content: object) -> None:
    with pytest.raises(MalformedFileError, match=f"found {type(content).__name__}"):
        only_tensor(folder(tmp_path, content))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_torch_warns_of_is_told_once_as_the_error(tmp_path: Path) -> None:
    files = folder(tmp_path, torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(MalformedFileError, match="found a quantized"):
            only_tensor(files)
    assert not told


def test_float8_keeps_every_value(tmp_path: Path) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e5m2)
    view = only_tensor(folder(tmp_path, every))
    assert view.converted == "float8_e5m2 as float32"
    assert torch.equal(view.torch().nan_to_num(), every.float().nan_to_num())


def test_an_archive_that_says_it_spans_disks_is_refused(tmp_path: Path) -> None:
    files = folder(tmp_path, torch.ones(2))
    saved = bytearray((tmp_path / "t.pt").read_bytes())
    saved[saved.index(b"PK\x06\x07") + 16] = 2
    (tmp_path / "t.pt").write_bytes(saved)
    with pytest.raises(MalformedFileError, match="span multiple disks"):
        load_tensors(files, "t.pt")


def test_packed_float4_is_two_numbers_an_element(tmp_path: Path) -> None:
    packed = torch.tensor([[0x21], [0xF7]], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    view = only_tensor(folder(tmp_path, packed))
    assert view.converted == "float4_e2m1fn_x2 as float32, two numbers an element"
    assert view.torch().tolist() == [[0.5, 1.0], [6.0, -6.0]]


def test_what_is_neither_tensor_nor_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MalformedFileError, match=r"t\.pt: expected one tensor .* found set"):
        only_tensor(folder(tmp_path, {"x": {1, 2}}))


def test_a_file_that_is_cut_short_after_it_was_opened_keeps_its_values(tmp_path: Path) -> None:
    contents = load_tensors(folder(tmp_path, torch.arange(4096.0)), "t.pt")
    (tmp_path / "t.pt").write_bytes(b"")
    assert contents.tensors[""].open().storage.sum() == 4095 * 2048
