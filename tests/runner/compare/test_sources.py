"""What `diff-tensors` takes for a source of tensors, and how it names what is in it."""

from pathlib import Path

import pytest
import torch

from precision_bisect.runner.build_output.files.errors import BuildOutputError, MissingFileError
from precision_bisect.runner.compare.sources import named_as, open_source, same_scalar
from tests.runner.build_output.build_files import KERNEL_CONFIG, record, write_dump


def write(path: Path, *values: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(torch.tensor(values), path)
    return path


def test_a_file_is_one_tensor_of_its_name(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "y.pt", 1, 2))
    assert source.tensors["y"].open().torch().tolist() == [1, 2]


def test_a_folder_of_files_and_golden_data(tmp_path: Path) -> None:
    write(tmp_path / "golden" / "in" / "x.pt", 1)
    write(tmp_path / "golden" / "out" / "y.pt", 2)
    golden = open_source(tmp_path / "golden")
    assert list(golden.names()) == ["in/x", "out/y"]
    assert [entry.is_input for entry in golden.tensors.values()] == [True, False]
    assert list(open_source(tmp_path / "golden" / "out").names()) == ["y"]


def test_a_dump_is_listed_by_task_inputs_first(tmp_path: Path) -> None:
    records = [
        record(2, 0),
        record(1, 1, role="output", stage="after_completion"),
        record(1, 0),
        record(1, 0),
        record(3, 0, kind="scalar", value=4, shape=[], strides=[], numel=1),
        record(4, 0, truncated=True),
    ]
    source = open_source(write_dump(tmp_path / "dump", records))
    tasks = [name.partition(" ")[0] for name in source.ordered]
    assert tasks == [f"0x{task:016x}" for task in (1, 1, 1, 2)]
    assert source.ordered[1] == f"{source.ordered[0]} (2)"
    assert source.positions[source.ordered[3]] == 3
    assert list(source.scalars.values()) == [4]
    (flaw,) = source.flawed.values()
    assert flaw.startswith("truncated")


def test_a_build_has_its_golden_data_and_its_dump(tmp_path: Path) -> None:
    (tmp_path / "kernel_config.py").write_text(
        KERNEL_CONFIG.replace('"aicpu_thread_num": 0', '"platform": "a5sim"')
    )
    write(tmp_path / "data" / "in" / "x.pt", 1)
    write(tmp_path / "data" / "out" / "y.pt", 2)
    write_dump(tmp_path / "dfx_outputs" / "args_dump", [record(1, 0)], dropped_records=2)
    source = open_source(tmp_path)
    assert list(source.names())[:2] == ["data/in/x", "data/out/y"]
    assert len(source.names()) == 3
    assert source.platform == "a5sim"
    assert "2 records were dropped" in source.incomplete


def test_a_path_without_tensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildOutputError, match="golden data"):
        open_source(tmp_path / "none")
    (tmp_path / "kernel_config.py").write_text(KERNEL_CONFIG)
    with pytest.raises(MissingFileError, match="--save-data or --dump-args"):
        open_source(tmp_path)


def test_scalars_are_the_same_bit_for_bit_or_equal() -> None:
    assert same_scalar(float("nan"), float("nan"))
    assert same_scalar(0.0, -0.0)
    assert not same_scalar(1.0, 1.5)


def test_names_of_folders_do_not_keep_tensors_apart(tmp_path: Path) -> None:
    """Golden data beside a state dict: `in/w` is its `w`; two of one name in the folder are nobody's."""
    for name in ("in/w", "out/y", "in/twice", "out/twice"):
        write(tmp_path / "golden" / f"{name}.pt", 1)
    torch.save({name: torch.ones(1) for name in ("w", "y", "twice", "alone")}, tmp_path / "state.pt")
    golden, state = open_source(tmp_path / "golden"), open_source(tmp_path / "state.pt")
    assert list(named_as(golden, state).names()) == ["in/twice", "w", "out/twice", "y"]
    assert named_as(golden, state).renamed == {"w": "in/w", "y": "out/y"}
    assert list(named_as(state, golden).names()) == ["in/w", "out/y", "twice", "alone"]


def test_where_one_name_is_on_both_sides_names_stand_as_they_are(tmp_path: Path) -> None:
    for name in ("first/in/w", "first/out/y", "second/out/w", "second/out/y"):
        write(tmp_path / f"{name}.pt", 1)
    first, second = open_source(tmp_path / "first"), open_source(tmp_path / "second")
    assert named_as(first, second) is first
    single, other = open_source(tmp_path / "first" / "in"), open_source(tmp_path / "second")
    assert named_as(single, open_source(tmp_path / "second" / "out" / "y.pt")) is single
    assert list(named_as(single, other).names()) == ["out/w"]
