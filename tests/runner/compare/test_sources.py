"""What `diff-tensors` takes for a source of tensors, and how it names what is in it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from precision_bisect.runner.build_output.files import (
    BuildOutputError,
    Folder,
    MalformedFileError,
    MissingFileError,
)
from precision_bisect.runner.build_output.tensor_files import FileContents, load_tensors
from precision_bisect.runner.compare import sources
from precision_bisect.runner.compare.sources import Source, are_equal_scalars, copy_names, open_sources
from tests.runner.build_output.build_files import KERNEL_CONFIG, record, write_dump


def write(path: Path, *values: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(torch.tensor(values), path)
    return path


def open_source(path: Path) -> Source:
    (source,) = open_sources([path])
    return source


def test_a_file_is_one_tensor_of_its_name(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "y.pt", 1, 2))
    assert source.tensors["y"].open().torch().tolist() == [1, 2]


@pytest.mark.parametrize("name", ["y.npy", "y.npz", "y.pt"])
def test_a_link_says_what_a_file_without_a_suffix_is(name: str, tmp_path: Path) -> None:
    stored = tmp_path / "store" / "e3b0c442"
    stored.parent.mkdir()
    with stored.open("wb") as file:
        if name == "y.npy":
            np.save(file, np.array([1.0, 2.0]))
        elif name == "y.npz":
            np.savez(file, np.array([1.0, 2.0]))
        else:
            torch.save(torch.tensor([1.0, 2.0]), file)
    (tmp_path / name).symlink_to(stored)
    (entry,) = open_source(tmp_path / name).tensors.values()
    assert entry.open().torch().tolist() == [1, 2]


@pytest.mark.parametrize("below", ["", "y.pt"])
def test_a_path_that_is_too_long_is_missing(below: str, tmp_path: Path) -> None:
    path = tmp_path / ("y" * 300) / below
    with pytest.raises(MissingFileError, match="found nothing"):
        open_source(path)
    with pytest.raises(MissingFileError, match="found nothing"):
        Folder.open(path, expected="a folder")


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
    tasks = [name.partition(" ")[0] for name in source.tensor_names]
    assert tasks == [f"0x{task:016x}" for task in (1, 1, 1, 2)]
    assert source.tensor_names[1] == f"{source.tensor_names[0]} (2)"
    assert source.positions[source.tensor_names[3]] == 3
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
    with pytest.raises(BuildOutputError, match="found nothing; check the path"):
        open_source(tmp_path / "none")
    (tmp_path / "w.safetensors").write_text("words")
    with pytest.raises(
        MissingFileError, match=r"none of these, but files such as w\.safetensors; check the path"
    ):
        open_source(tmp_path)
    (tmp_path / "kernel_config.py").write_text(KERNEL_CONFIG)
    with pytest.raises(MissingFileError, match="--save-data or --dump-args"):
        open_source(tmp_path)


def test_names_of_files_in_a_folder_are_their_paths(tmp_path: Path) -> None:
    """A tensor that is alone in a .pt file has the file's name; what a file holds by name stands behind its path."""
    write(tmp_path / "x.pt", 1)
    write(tmp_path / "sub" / "x.npy.pt", 1)
    torch.save({"w": torch.ones(1), "step": 3}, tmp_path / "state.pt")
    torch.save([torch.ones(1)], tmp_path / "sub" / "list.pth")
    np.save(tmp_path / "sub" / "x.npy", np.ones(1))
    np.savez(tmp_path / "many.npz", p=np.ones(1), q=np.ones(1))
    (tmp_path / "notes.txt").write_text("words")
    source = open_source(tmp_path)
    assert list(source.names()) == [
        "many.npz p",
        "many.npz q",
        "state.pt w",
        "sub/list.pth 0",
        "sub/x.npy",
        "sub/x.npy.pt",
        "x",
        "state.pt step",
    ]
    assert source.files["state.pt step"] == "state.pt"
    assert source.plain_files == ("notes.txt",)
    assert all(entry.open().numel == 1 for entry in source.tensors.values())


def test_a_dump_is_named_by_its_folder_where_one_source_has_several(tmp_path: Path) -> None:
    write_dump(tmp_path / "one" / "dfx_outputs" / "args_dump", [record(1, 0)])
    for place in ("args_dump", "dfx_outputs/args_dump", "deep/er/args_dump"):
        write_dump(tmp_path / "many" / place, [record(1, 0)])
    paths = [tmp_path / "one", tmp_path / "many"]
    name = "0x0000000000000001 arg 0 input before_dispatch"
    assert [list(source.names()) for source in open_sources([paths[0]])] == [[name]]
    one, many = open_sources(paths)
    assert list(one.names()) == [f"dfx_outputs/args_dump {name}"]
    assert list(many.names()) == [
        f"{place} {name}" for place in ("args_dump", "deep/er/args_dump", "dfx_outputs/args_dump")
    ]


def test_what_a_compiler_and_a_runtime_write_for_themselves_is_left_out(tmp_path: Path) -> None:
    build = tmp_path / "case"
    write_dump(build / "dfx_outputs" / "args_dump", [record(1, 0)])
    write_dump(tmp_path / "scene" / "args_dump", [record(1, 0)])
    files = (
        "kernels/aiv/square.cpp",
        "orchestration/sums.cpp",
        "dfx_outputs/deps.json",
        "dfx_outputs/swim.json",
    )
    others = ("notes.txt", "more/kernels/x.cpp", "dfx_outputs/args_dump/core")
    for name in (*files, *others):
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        (build / name).write_text("x")
    (build / "kernel_config.py").write_text(KERNEL_CONFIG)
    for name in ("name_map_case.json", "other.json"):
        (tmp_path / "scene" / name).write_text("{}")
    source = open_source(tmp_path)
    own = {f"case/{name}" for name in ("kernel_config.py", *files)} | {"scene/name_map_case.json"}
    assert source.left_out == dict.fromkeys(sorted(own), "part of the build")
    assert set(source.plain_files) == {f"case/{name}" for name in others} | {"scene/other.json"}


@pytest.mark.parametrize("place", ["", "data"])
def test_golden_data_without_outputs_is_told(tmp_path: Path, place: str) -> None:
    write(tmp_path / place / "in" / "x.pt", 1)
    (tmp_path / place / "out").mkdir()
    (refused,) = open_source(tmp_path).refused.items()
    assert refused[0] == f"{place}/out".lstrip("/")
    assert "--save-data" in refused[1].remedy


def test_what_is_ignored_is_not_looked_at(tmp_path: Path) -> None:
    write(tmp_path / "x.pt", 1)
    for name in ("logs/deep/run.log", "y.log", "sub/z.log", "kept.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("words")
    (source,) = open_sources([tmp_path], ["logs", "*.log"])
    assert source.left_out == {
        "logs": "--ignore logs",
        "sub/z.log": "--ignore *.log",
        "y.log": "--ignore *.log",
    }
    assert source.plain_files == ("kept.txt",)


def test_a_dump_without_its_ignored_payloads_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "x.pt", 1)
    write_dump(tmp_path / "args_dump", [record(1, 0)])
    (source,) = open_sources([tmp_path], ["*.bin"])
    assert source.refused["args_dump/args_dump.json"].remedy == "ignore the whole dump"
    assert list(source.names()) == ["x"]


def test_files_that_are_read_are_kept_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state dict is read once for all of its tensors, and many files are not kept."""
    for number in range(6):
        torch.save({"a": torch.ones(20_000), "b": torch.ones(1)}, tmp_path / f"s{number}.pt")
    source = open_source(tmp_path)
    read: list[str] = []

    def load(folder: Folder, file: str, *, mapped: bool, suffix: str) -> FileContents:
        read.append(file)
        return load_tensors(folder, file, mapped=mapped, suffix=suffix)

    monkeypatch.setattr(sources, "load_tensors", load)
    monkeypatch.setattr(sources, "_MAX_CACHED_BYTES", 250_000)
    for entry in source.tensors.values():
        entry.open()
    assert read == [f"s{number}.pt" for number in range(6)]
    source.tensors["s5.pt a"].open()
    source.tensors["s0.pt a"].open()
    assert read[6:] == ["s0.pt"]


def test_a_small_file_is_read_once_for_its_names_and_its_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        torch.save(torch.ones(2), tmp_path / f"x{number}.pt")
    read: list[str] = []

    def load(folder: Folder, file: str, *, mapped: bool, suffix: str) -> FileContents:
        read.append(file)
        return load_tensors(folder, file, mapped=mapped, suffix=suffix)

    monkeypatch.setattr(sources, "load_tensors", load)
    for entry in open_source(tmp_path).tensors.values():
        assert entry.load_layout().numel == entry.open().numel == 2
    assert len(read) == 100


def test_a_file_that_is_written_anew_meanwhile_is_told(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(20_000)}, tmp_path / "s.pt")
    source = open_source(tmp_path)
    torch.save({"b": torch.ones(1)}, tmp_path / "s.pt")
    with pytest.raises(MalformedFileError, match="written meanwhile"):
        source.tensors["s.pt a"].open()


def test_scalars_are_the_same_bit_for_bit_or_equal() -> None:
    assert are_equal_scalars(float("nan"), float("nan"))
    assert are_equal_scalars(0.0, -0.0)
    assert not are_equal_scalars(1.0, 1.5)


def test_names_of_folders_do_not_keep_tensors_apart(tmp_path: Path) -> None:
    """Golden data beside a state dict: `in/w` is its `w`; two of one name in the folder are nobody's."""
    for name in ("in/w", "out/y", "in/twice", "out/twice"):
        write(tmp_path / "golden" / f"{name}.pt", 1)
    torch.save({name: torch.ones(1) for name in ("w", "y", "twice", "alone")}, tmp_path / "state.pt")
    golden, state = open_source(tmp_path / "golden"), open_source(tmp_path / "state.pt")
    assert list(copy_names(golden, state).names()) == ["in/twice", "w", "out/twice", "y"]
    assert copy_names(golden, state).renamed == {"w": "in/w", "y": "out/y"}
    assert list(copy_names(state, golden).names()) == ["in/w", "out/y", "twice", "alone"]


def test_where_one_name_is_on_both_sides_names_stand_as_they_are(tmp_path: Path) -> None:
    for name in ("first/in/w", "first/out/y", "second/out/w", "second/out/y"):
        write(tmp_path / f"{name}.pt", 1)
    first, second = open_source(tmp_path / "first"), open_source(tmp_path / "second")
    assert copy_names(first, second) is first
    single, other = open_source(tmp_path / "first" / "in"), open_source(tmp_path / "second")
    assert copy_names(single, open_source(tmp_path / "second" / "out" / "y.pt")) is single
    assert list(copy_names(single, other).names()) == ["out/w"]


def test_marks_of_opposite_and_conjugate_numbers_are_read(tmp_path: Path) -> None:
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    torch.save(numbers.conj().imag, tmp_path / "opposite.pt")
    torch.save(numbers.conj(), tmp_path / "conjugate.pt")
    source = open_source(tmp_path)
    assert source.tensors["opposite"].open().torch().tolist() == [-2, 4]
    assert source.tensors["conjugate"].open().torch().tolist() == [[1, 3], [-2, 4]]


def test_of_two_files_with_one_name_of_a_tensor_the_second_is_not_compared(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "s.pt")
    torch.save(torch.zeros(1), tmp_path / "s.pt w.pt")
    source = open_source(tmp_path)
    assert source.tensors["s.pt w"].open().torch().tolist() == [1]
    assert "which is also what s.pt holds" in source.refused["s.pt w.pt"].found
