"""`diff-tensors` as a user runs it: exit status, what is printed, and what is never loaded or executed."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from precision_bisect.runner.compare.diff_cli import CompareOptions, main
from precision_bisect.runner.compare.judges import Comparison, ComparisonResult, Equality, compare_sources
from precision_bisect.runner.compare.sources import open_sources
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.tensor import NarrowFloat

SHARED = Path(__file__).parents[4] / "shared" / "data"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs the recorded files beside the repository"
)


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


OPTIONS: list[tuple[str, list[str], Any]] = [
    ("paths", [], (Path("a"), Path("b"))),
    ("rtol", ["--rtol", "0.001"], 0.001),
    ("atol", ["--atol", "0.002"], 0.002),
    ("comparator", ["--comparator", "ratio-reldiff"], "ratio-reldiff"),
    ("max_error_ratio", ["--max-error-ratio", "0.5"], 0.5),
    ("diff_threshold", ["--diff-threshold", "0.25"], 0.25),
    ("valid_rows", ["--valid-rows", "3"], 3),
    ("zero_tail", ["--zero-tail"], True),
    ("topk", ["--topk", "i=s", "--topk", "j=t"], ("i=s", "j=t")),
    ("picture", ["--picture", "map.svg"], Path("map.svg")),
    ("records", ["--record", "arg 2", "--record", "mm"], ("arg 2", "mm")),
    ("ignored", ["--ignore", "*.log", "--ignore", "tmp"], ("*.log", "tmp")),
    ("limit", ["--limit", "0"], 0),
    ("brief", ["--brief"], True),
    ("brief", ["-q"], True),
    ("brief", ["--quiet"], True),
    ("verbose", ["--verbose"], True),
    ("verbose", ["-v"], True),
    ("as_json", ["--json"], True),
]


@pytest.mark.parametrize(("field", "words", "value"), OPTIONS)
def test_each_option_reaches_its_field(field: str, words: list[str], value: Any) -> None:
    options = CompareOptions(**main.make_context("diff-tensors", ["a", "b", *words]).params)
    assert getattr(options, field) == value


def test_every_field_is_covered() -> None:
    assert {field for field, *_ in OPTIONS} == {each.name for each in fields(CompareOptions)}


def test_help_groups_the_options() -> None:
    groups = [line for line in run("--help").output.splitlines() if line.endswith(":") and line[0] != " "]
    assert groups == ["Question:", "Output:", "Other options:"]


def save(path: Path, tensor: torch.Tensor) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(tensor, path)
    return path


def golden(folder: Path, **outputs: torch.Tensor) -> Path:
    save(folder / "in" / "x.pt", torch.arange(12.0))
    for name, tensor in outputs.items():
        save(folder / "out" / f"{name}.pt", tensor)
    return folder


def write_dump(folder: Path, tensors: list[torch.Tensor], **flags: Any) -> Path:
    """An argument dump of one float32 output a task."""
    folder.mkdir(parents=True)
    payload = b"".join(tensor.numpy().tobytes() for tensor in tensors)
    (folder / "args.bin").write_bytes(payload)
    records, offset = [], 0
    for number, tensor in enumerate(tensors):
        size = tensor.numel() * 4
        records.append(
            {
                "task_id": f"0x{(1 << 32) + number:016x}",
                "func_id": [0],
                "arg_index": 0,
                "role": "output",
                "stage": "after_completion",
                "kind": "tensor",
                "dtype": "FLOAT32",
                "is_contiguous": True,
                "shape": list(tensor.shape),
                "strides": list(tensor.stride()),
                "start_offset": 0,
                "numel": tensor.numel(),
                "bin_offset": offset,
                "bin_size": size,
                "truncated": False,
                "overwritten": False,
                **flags,
            }
        )
        offset += size
    head = {
        "run_dir": str(folder),
        "bin_format": {"type": "logical_contiguous", "byte_order": "little_endian"},
        "dump_args_level": 2,
        "total_args": len(records),
        "before_dispatch": 0,
        "after_completion": len(records),
        "input_args": 0,
        "output_args": len(records),
        "inout_args": 0,
        "truncated_args": 0,
        "dropped_records": 0,
        "dropped_overwrite": 0,
        "bin_file": "args.bin",
    }
    (folder / "args_dump.json").write_text(json.dumps({**head, "args": records}))
    return folder


def test_equal_files(tmp_path: Path) -> None:
    tensor = torch.randn(6, 7)
    result = run(save(tmp_path / "a.pt", tensor), save(tmp_path / "b.pt", tensor.clone()))
    assert result.exit_code == 0
    assert result.output == "1 equal, 0 different, 0 not compared\n"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.int64])
def test_one_different_element(tmp_path: Path, dtype: torch.dtype) -> None:
    expected = torch.zeros(6, 7, dtype=dtype)
    actual = expected.clone()
    actual[2, 3] = 1
    result = run(save(tmp_path / "a.pt", actual), save(tmp_path / "b.pt", expected))
    assert result.exit_code == 1
    assert "b: different, 1 of 42 elements differ" in result.output
    assert "1 at [2, 3]" in result.output
    assert "2: 1 of 7 differ" in result.output


def test_one_bit_is_a_difference_until_a_tolerance_is_given(tmp_path: Path) -> None:
    expected = torch.ones(10)
    pair = save(tmp_path / "a.pt", torch.nextafter(expected, 2 * expected)), save(tmp_path / "b.pt", expected)
    assert run(*pair).exit_code == 1
    within = run(*pair, "--rtol", "1e-6")
    assert within.exit_code == 0
    assert "equal within tolerance, not identical" in within.output


def test_nan_is_never_close(tmp_path: Path) -> None:
    pair = [save(tmp_path / f"{name}.pt", torch.tensor([math.nan])) for name in "ab"]
    assert run(*pair).exit_code == 0
    assert run(*pair, "--atol", "1").exit_code == 1


def test_shapes_types_and_missing_names_are_differences(tmp_path: Path) -> None:
    a = golden(tmp_path / "a", y=torch.zeros(3), z=torch.zeros(3), ours=torch.zeros(1))
    b = golden(tmp_path / "b", y=torch.zeros(4), z=torch.zeros(3).half(), theirs=torch.zeros(1))
    result = run(a, b)
    assert result.exit_code == 1
    for line in (
        "out/y: different, shape (3,) against expected (4,)",
        "out/z: different, dtype float32 against expected float16",
        f"only in {a}: 1\n  out/ours\n",
        f"only in {b}: 1\n  out/theirs\n",
        "1 equal, 4 different, 0 not compared",
    ):
        assert line in result.output


@pytest.mark.parametrize("spoil", ["missing", "cut", "text", "empty folder"])
def test_what_cannot_be_read(tmp_path: Path, spoil: str) -> None:
    good, bad = save(tmp_path / "a.pt", torch.zeros(100)), save(tmp_path / "b.pt", torch.zeros(100))
    if spoil == "missing":
        bad.unlink()
    elif spoil == "cut":
        bad.write_bytes(bad.read_bytes()[:-200])
    elif spoil == "text":
        bad.write_text("no tensor")
    else:
        bad = tmp_path / "empty"
        bad.mkdir()
    for pair in ((good, bad), (bad, good)):
        result = run(*pair)
        assert result.exit_code == 2
        assert bad.name in result.output


def test_a_difference_outweighs_what_cannot_be_read(tmp_path: Path) -> None:
    a, b = (
        golden(tmp_path / "a", y=torch.zeros(3), z=torch.zeros(3)),
        golden(tmp_path / "b", y=torch.ones(3), z=torch.zeros(3)),
    )
    (a / "out" / "z.pt").write_text("no tensor")
    result = run(a, b)
    assert result.exit_code == 1
    assert "1 equal, 1 different, 1 not compared" in result.output


def test_nothing_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    """Every format in one folder: what differs in any of them, and what is not compared, is told."""
    for side, value in (("a", 1.0), ("b", 2.0)):
        folder = tmp_path / side
        save(folder / "x.pt", torch.ones(3))
        np.save(folder / "y.npy", np.full(3, value))
        np.savez(folder / "n.npz", p=np.ones(3), q=np.full(3, value))
        save(folder / "sub" / "z.pt", torch.full((3,), value))
        torch.save({"w": torch.ones(2), "step": value}, folder / "state.pt")
        write_dump(folder / "args_dump", [torch.full((2,), value)])
        (folder / "notes.txt").write_text(side)
        (folder / "same.txt").write_text("same")
    (tmp_path / "b" / "more.log").write_text("words")
    (tmp_path / "b" / "more.pt").write_text("words")
    a, b = tmp_path / "a", tmp_path / "b"
    done = run(a, b)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert [line.partition(":")[0] for line in lines if ": different" in line] == [
        "n.npz q",
        "sub/z",
        "y.npy",
        "0x0000000100000000 arg 0 output after_completion",
        "state.pt step",
    ]
    assert lines[5:] == [
        f"more.pt: not compared, a text file in {b}; save the tensor again with torch.save(tensor, path)",
        f"more.log: not compared, a text file in {b} alone",
        "notes.txt: not compared, a text file whose bytes differ from byte 0 on",
        "a file that need not be compared is left out with --ignore GLOB",
        "4 equal, 5 different, 3 not compared",
    ]
    found = json.loads(run(a, b, "--json").output)
    assert {each["name"]: each["is_file"] for each in found["tensors"]}["same.txt"]
    assert not {each["name"]: each["is_file"] for each in found["tensors"]}["y.npy"]


def test_a_sparse_file_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "x.npy", np.ones(3))
        with (tmp_path / side / "big.log").open("wb") as file:
            file.truncate(1 << 40)
    result = run(tmp_path / "a", tmp_path / "b")
    assert "1099511627776 bytes without tensors, more than the 4294967296 that are compared" in result.output
    assert result.exit_code == 2


def test_what_is_not_compared_is_no_success_until_it_is_ignored(tmp_path: Path) -> None:
    for side in "ab":
        for name in "xy":
            save(tmp_path / side / f"{name}.pt", torch.ones(3))
        (tmp_path / side / "logs").mkdir()
        (tmp_path / side / "logs" / "run.log").write_text(side)
    pair = tmp_path / "a", tmp_path / "b"
    assert run(*pair).exit_code == 2
    assert run(*pair, "-q").output == (
        "not compared: 1 of 3, first logs/run.log: not compared, a text file whose bytes differ from byte 0 on\n"
    )
    for glob in ("*.log", "logs", "logs/*"):
        done = run(*pair, "--ignore", glob)
        assert (done.exit_code, done.output) == (0, "2 equal, 0 different, 0 not compared, 1 left out\n")
    assert run(*pair, "--ignore", "logs", "-q").output == "equal: 2 of 2, 1 left out\n"
    assert "left out: 1\n  logs\n" in run(*pair, "--ignore", "logs", "-v").output
    assert run(*pair, "--record", "x").exit_code == 0
    (tmp_path / "a" / "logs" / "run.log").write_text("b")
    assert run(*pair).output == "3 equal, 0 different, 0 not compared\n"


def test_runs_do_not_pass_what_was_not_compared(tmp_path: Path) -> None:
    for side in "abc":
        save(tmp_path / side / "x.pt", torch.ones(3))
        torch.save({"w": torch.ones(2), "step": 3}, tmp_path / side / "state.pt")
    folders = [tmp_path / side for side in "abc"]
    assert run(*folders).exit_code == 0
    (folders[0] / "run.log").write_text("words")
    done = run(*folders)
    assert (done.exit_code, done.output) == (2, f"run.log: not compared, a text file in {folders[0]} alone\n")
    assert run(*folders, "-q").output.startswith("not compared: 1 of 3, first run.log: a text file in ")
    told = json.loads(run(*folders, "--ignore", "*.log", "--json").output)
    assert (told["not_compared"], told["left_out"]) == ({}, {"run.log": "--ignore *.log"})
    save(folders[1] / "more.pt", torch.ones(3))
    done = run(*folders, "--ignore", "*.log")
    assert (done.exit_code, done.output) == (2, "more: not compared, no whole tensor in every run\n")


def test_a_scalar_that_differs_in_a_run_is_called_so(tmp_path: Path) -> None:
    for side, step in zip("abc", (3, 4, 3), strict=True):
        (tmp_path / side).mkdir()
        torch.save({"w": torch.ones(2), "step": step}, tmp_path / side / "state.pt")
    done = run(*(tmp_path / side for side in "abc"))
    assert (done.exit_code, done.output) == (2, "state.pt step: not compared, a scalar that differs\n")


def test_a_format_that_is_not_read_is_named(tmp_path: Path) -> None:
    head = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    for name in ("w.safetensors", "w.pt"):
        (tmp_path / name).write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
        refused = run(tmp_path / name, tmp_path / name)
        assert refused.exit_code == 2
        assert refused.stderr.endswith(
            "found a safetensors file; torch.save(safetensors.torch.load_file(path), 'tensors.pt') makes one of it\n"
        )


def test_the_tolerance_that_elements_are_over_is_told(tmp_path: Path) -> None:
    pair = save(tmp_path / "a.pt", torch.tensor([1.5, 1.0])), save(tmp_path / "b.pt", torch.ones(2))
    exact = run(*pair).output
    assert "  differ               1 of 2 (50.000%); no --rtol or --atol is given\n" in exact
    assert "over" not in exact
    close = run(*pair, "--atol", "0.25").output
    assert "  over tolerance       1 of 2 (50.000%), of rtol 0 and atol 0.25; 1 differ at all\n" in close


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_is_not_executed(tmp_path: Path) -> None:
    torch.save(Malicious(tmp_path / "executed"), tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Malicious(tmp_path / "executed")))
    for name in ("a.pt", "b.pt"):
        assert run(tmp_path / name, save(tmp_path / "c.pt", torch.zeros(1))).exit_code == 2
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("flag", ["truncated", "overwritten"])
def test_records_that_are_not_whole_are_not_called_equal(tmp_path: Path, flag: str) -> None:
    tensors = [torch.randn(4, 4)]
    whole = write_dump(tmp_path / "whole" / "args_dump", tensors)
    flawed = write_dump(tmp_path / "flawed" / "args_dump", tensors, **{flag: True})
    assert run(whole, whole).exit_code == 0
    result = run(flawed, whole)
    assert result.exit_code == 2
    assert f"not compared, {flawed}: {flag}" in result.output


def test_a_dump_that_dropped_records_is_not_called_equal(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "args_dump", [torch.zeros(2)])
    manifest = json.loads((dump / "args_dump.json").read_text())
    (dump / "args_dump.json").write_text(json.dumps({**manifest, "dropped_records": 7}))
    result = run(dump, dump)
    assert result.exit_code == 2
    assert "the dump is not whole: 7 records were dropped" in result.output


@pytest.mark.parametrize(
    ("dtype", "ours", "theirs", "told"),
    [
        ("FP8E4M3FN", [0x38, 0x40], [0x38, 0x38], "1 of 2 elements differ"),
        ("FP8E8M0", [0x7F, 0x80], [0x7F, 0x7F], "1 of 2 elements differ"),
        ("FP4E2M1", [0x22, 0x42], [0x22, 0x22], "1 of 4 elements differ"),
    ],
)
def test_dumps_of_eight_and_four_bits_are_compared_as_numbers(
    tmp_path: Path, dtype: str, ours: list[int], theirs: list[int], told: str
) -> None:
    fields = {"dtype": dtype, "shape": [2], "strides": [1], "numel": 2, "bin_offset": 0, "bin_size": 2}
    sides: list[Path] = []
    for name, values in (("a", ours), ("b", theirs)):
        sides.append(write_dump(tmp_path / name / "args_dump", [torch.zeros(2)], **fields))
        (sides[-1] / "args.bin").write_bytes(bytes(values))
    result = run(*sides, "-v")
    assert result.exit_code == 1, result.output
    assert f"{told}, max error 1 at" in result.output
    assert f"compared {NarrowFloat[dtype].description}" in result.output
    assert run(sides[0], sides[0]).exit_code == 0


def test_dumps_see_stale_values(tmp_path: Path) -> None:
    first, second = torch.randn(16, 16), torch.randn(16, 16)
    pair = write_dump(tmp_path / "a", [first, first]), write_dump(tmp_path / "b", [first, second])
    assert ": different, stale: 256 of 256 elements differ" in run(*pair).output
    result = run(*pair, "-v")
    assert result.exit_code == 1
    assert (
        "stale (confidence 1.00): 256 of 256 wrong elements equal those of 0x0000000100000000"
        in result.output
    )


def test_json_is_strict_and_complete(tmp_path: Path) -> None:
    expected = torch.zeros(8, 8)
    actual = expected.clone()
    actual[3] = math.inf
    actual[4, 0] = 1.0
    result = run(save(tmp_path / "a.pt", actual), save(tmp_path / "b.pt", expected), "--json")
    assert result.exit_code == 1

    def refuse(token: str) -> None:
        raise AssertionError(token)

    (found,) = json.loads(result.output, parse_constant=refuse)["tensors"]
    assert found["outcome"] == "different"
    assert found["statistics"]["over"] == 9
    assert found["statistics"]["actual_inf"] == {"count": 8, "first": [3, 0]}
    assert found["statistics"]["relative_l2"] is None
    assert [row["start"] for row in found["rows"]["first"]] == [3, 4]
    assert found["patterns"][0]["pattern"] == "NaN or Inf spreading"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--comparator", "ratio-allclose", "--max-error-ratio", "0.03", "--atol", "0.1"], 0),
        (["--comparator", "ratio-allclose", "--max-error-ratio", "0.001", "--atol", "0.1"], 1),
        (["--comparator", "ratio-allclose", "--max-error-ratio", "0", "--valid-rows", "9"], 0),
        (["--comparator", "ratio-allclose", "--max-error-ratio", "0", "--valid-rows", "9", "--zero-tail"], 1),
        (["--comparator", "ratio-reldiff"], 0),
        (["--comparator", "ratio-reldiff", "--max-error-ratio", "0"], 1),
    ],
)
def test_comparators(tmp_path: Path, arguments: list[str], status: int) -> None:
    expected = torch.ones(10, 10)
    actual = expected.clone()
    actual[9, :2] = 2.0
    pair = save(tmp_path / "a.pt", actual), save(tmp_path / "b.pt", expected)
    assert run(*pair, *arguments).exit_code == status


def test_top_k(tmp_path: Path) -> None:
    scores = torch.tensor([3.0, 2.0, 2.0, 1.0])
    a = golden(tmp_path / "a", idx=torch.tensor([0, 2, 1, 3]), val=scores)
    b = golden(tmp_path / "b", idx=torch.tensor([0, 1, 2, 3]), val=scores)
    assert run(a, b).exit_code == 1
    assert run(a, b, "--topk", "out/idx=out/val").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--valid-rows", "3"],
        ["--topk", "nonsense"],
        ["--topk", "x=gone"],
        ["--rtol", "-1"],
        ["--picture", "map.png"],
        ["--comparator", "ratio-allclose", "--diff-threshold", "1"],
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, arguments: list[str]) -> None:
    pair = save(tmp_path / "a.pt", torch.zeros(3, 3)), save(tmp_path / "b.pt", torch.ones(3, 3))
    assert run(*pair, *arguments).exit_code == 2


def test_preflight_speaks_first(tmp_path: Path) -> None:
    a, b = golden(tmp_path / "a", y=torch.ones(3).half()), golden(tmp_path / "b", y=torch.ones(3).half())
    save(a / "in" / "x.pt", torch.randn(12))
    result = run(a, b, "--rtol", "1e-5")
    lines = result.output.splitlines()
    assert lines[0].startswith("error: in/x: ")
    assert "warning: float16: rtol=1e-05" in result.output


def test_pictures(tmp_path: Path) -> None:
    a, b = golden(tmp_path / "a", y=torch.zeros(3, 3)), golden(tmp_path / "b", y=torch.ones(3, 3))
    for suffix, start in ((".html", b"<!doctype html>"), (".svg", b"<svg")):
        assert run(a, b, "--picture", tmp_path / f"map{suffix}").exit_code == 1
        assert (tmp_path / f"map{suffix}").read_bytes().startswith(start)
    assert run(a, a, "--picture", tmp_path / "none.svg").exit_code == 0
    assert not (tmp_path / "none.svg").exists()


def test_a_picture_that_cannot_be_written_is_an_error_line(tmp_path: Path) -> None:
    a, b = golden(tmp_path / "a", y=torch.zeros(3, 3)), golden(tmp_path / "b", y=torch.ones(3, 3))
    result = run(a, b, "--picture", tmp_path / "nodir" / "x.html")
    assert result.exit_code == 2
    assert result.stderr == (
        f"error: {tmp_path / 'nodir' / 'x.html'}: expected a place to write the picture to, "
        "found No such file or directory; name another one with --picture\n"
    )


def test_several_runs(tmp_path: Path) -> None:
    expected = torch.zeros(50, 8)
    rng = np.random.default_rng(0)

    def rerun(number: int, rows: list[int]) -> Path:
        tensor = expected.clone()
        tensor[rows] = 1.0
        return save(tmp_path / f"run{number}" / "y.pt", tensor).parent

    reference = save(tmp_path / "reference" / "y.pt", expected).parent
    same = [rerun(i, [7, 8]) for i in range(3)]
    result = run(*same, reference)
    assert result.exit_code == 1
    assert "the same rows with the same values in every run" in result.output
    moving = [rerun(10 + i, rng.choice(50, 3, replace=False).tolist()) for i in range(3)]
    result = run(*moving, reference, "--json")
    assert result.exit_code == 1
    (found,) = json.loads(result.output)["runs"]
    assert found["is_race"]
    assert found["behaviour"].startswith("rows that move")
    assert run(reference, reference, reference).exit_code == 0


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    name = "y\x1b]0;owned\x07[red]"
    a = golden(tmp_path / "a", **{name: torch.zeros(2)})
    b = golden(tmp_path / "b", **{name: torch.ones(2)})
    output = run(a, b).output
    assert "\x1b" not in output
    assert "\x07" not in output
    assert "[red]" in output


def many_outputs(folder: Path, value: float) -> Path:
    return golden(folder, **{f"y{i:02}": torch.full((2,), value) for i in range(30)})


def test_one_line_a_record_and_more_when_asked(tmp_path: Path) -> None:
    pair = many_outputs(tmp_path / "a", 0), many_outputs(tmp_path / "b", 1)
    lines = run(*pair).output.splitlines()
    assert lines[0].startswith("out/y00: different, ")
    assert lines[0].endswith("2 of 2 elements differ, max error 1 at [0]")
    assert lines[19].startswith("out/y19: ")
    assert lines[20:] == ["... 10 more; --limit 0 prints all", "1 equal, 30 different, 0 not compared"]
    assert "max abs error" not in run(*pair, "--limit", "0").output
    assert run(*pair, "--limit", "0").output.count(": different") == 30
    assert run(*pair, "-v", "--limit", "3").output.count("max abs error") == 3


def test_a_named_record_is_told_of_at_length(tmp_path: Path) -> None:
    pair = many_outputs(tmp_path / "a", 0), many_outputs(tmp_path / "b", 1)
    output = run(*pair, "--record", "y07").output
    assert output.startswith("out/y07: different")
    assert "max abs error" in output
    assert output.endswith("0 equal, 1 different, 0 not compared\n")
    refused = run(*pair, "--record", "z")
    assert refused.exit_code == 2
    assert "--record 'z': expected a part of a name, such as 'in/x'" in refused.output


def test_nan_on_both_sides_is_told_of(tmp_path: Path) -> None:
    for name in "ab":
        torch.save(torch.tensor([1.0, math.nan]), tmp_path / f"{name}.pt")
    paths = (tmp_path / "a.pt", tmp_path / "b.pt")
    assert run(*paths).output.splitlines()[0] == "equal, with NaN in the same places: 1"
    assert run(*paths, "-q").output == "equal: 1 of 1, 1 with NaN in the same places\n"


def test_brief_is_one_line(tmp_path: Path) -> None:
    a, b = many_outputs(tmp_path / "a", 0), many_outputs(tmp_path / "b", 1)
    result = run(a, b, "--brief")
    assert result.exit_code == 1
    assert result.output.startswith("different: 30 of 31, first out/y00: different, ")
    assert result.output.count("\n") == 1
    assert run(a, a, "--brief").output == "equal: 31 of 31\n"
    for words in (["-v"], ["--json"]):
        assert run(a, b, "--brief", *words).exit_code == 2


def test_nan_and_inf_are_in_the_headline_and_no_error_of_zero_is(tmp_path: Path) -> None:
    actual = torch.tensor([math.nan, math.nan, math.inf])
    a, b = golden(tmp_path / "a", y=actual, z=actual), golden(tmp_path / "b", y=torch.ones(3), z=actual * 0)
    first, second, *_ = run(a, b).output.splitlines()
    assert first.endswith("3 of 3 elements differ, 2 NaN, 1 Inf")
    assert second.endswith("1 of 3 elements differ, 2 NaN, 1 Inf, expected has 3 NaN")
    assert "max error" not in first + second
    detailed = run(a, b, "-v").output
    assert "none: every pair has NaN or Inf" in detailed
    assert "max error 0" not in detailed


def test_of_rows_with_nan_alone_no_error_of_zero_is_told(tmp_path: Path) -> None:
    actual = torch.ones(3, 3)
    actual[1] = math.nan
    output = run(save(tmp_path / "a.pt", actual), save(tmp_path / "b.pt", torch.ones(3, 3))).output
    assert "max abs error        none in the 6 pairs without NaN or Inf" in output
    assert "    1: 3 of 3 differ, 3 NaN or Inf" in output
    assert "error 0" not in output


def test_the_kernel_stands_first_and_the_first_task_on_top(tmp_path: Path) -> None:
    """Task 1 is executed before task 0 by the graph; its kernel has a name in the map beside the dump."""
    zeros, ones = [torch.zeros(2)] * 2, [torch.ones(2)] * 2
    pair = [
        write_dump(tmp_path / name / "args_dump", tensors) for name, tensors in (("a", zeros), ("b", ones))
    ]
    tasks = [(1 << 32) + number for number in (0, 1)]
    for dump in pair:
        write_json(dump.parent / "name_map_case.json", {"callable_id_to_name": {"0": "rms_norm"}})
        write_json(dump.parent / "deps.json", {"version": 1, "edges": [[tasks[1], tasks[0]]]})
    lines = run(*pair).output.splitlines()
    assert lines[0].startswith("rms_norm 0x0000000100000001 arg 0 output after_completion: different, ")
    assert lines[1].startswith("rms_norm 0x0000000100000000 ")
    found = json.loads(run(*pair, "--json").output)
    assert found["first_divergent"] == "0x0000000100000001 arg 0 output after_completion"
    assert found["counts"] == {"equal": 0, "different": 2, "not compared": 0, "left out": 0}
    assert {tensor["kernel"] for tensor in found["tensors"]} == {"rms_norm"}
    (pair[0].parent / "name_map_case.json").write_text("{")
    spoiled = run(*pair).output.splitlines()
    assert spoiled[-2].startswith(f"warning: {pair[0]}: ")


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("suffix", ["pt", "npy", "npz"])
def test_more_than_two_plain_files_are_runs_of_one_tensor(tmp_path: Path, suffix: str) -> None:
    def write(name: str, rows: list[int]) -> Path:
        tensor = torch.zeros(40, 4)
        tensor[rows] = 1
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "pt":
            torch.save(tensor, path)
        elif suffix == "npy":
            np.save(path, tensor.numpy())
        else:
            np.savez_compressed(path, y=tensor.numpy())
        return path

    good, one, two = write("good", []), write("one", [3, 4]), write("two", [3, 4])
    result = run(one, two, good)
    assert result.exit_code == 1
    assert "the same rows with the same values in every run" in result.output
    assert run(one, two, good, "--brief").output.startswith("different: 1 of 1, first ")
    assert run(good, good, good, "--brief").output == "all runs pass: 1 compared, 0 not compared\n"


def test_arrays_of_numpy(tmp_path: Path) -> None:
    expected = np.arange(12, dtype=np.float32).reshape(3, 4)
    actual = expected.copy()
    actual[1, 2] = -1
    for name, array in (("a", actual), ("b", expected), ("c", np.asfortranarray(expected))):
        np.save(tmp_path / f"{name}.npy", array)
        np.savez(tmp_path / f"{name}.npz", x=expected, y=array)
    result = run(tmp_path / "a.npy", tmp_path / "b.npy")
    assert result.exit_code == 1
    assert "1 of 12 elements differ, max error 7 at [1, 2]" in result.output
    assert run(tmp_path / "c.npy", tmp_path / "b.npy").exit_code == 0
    archives = run(tmp_path / "a.npz", tmp_path / "b.npz")
    assert archives.output.startswith("y: different, ")
    assert archives.output.endswith("1 equal, 1 different, 0 not compared\n")


def test_a_tensor_without_elements_side_by_side_is_named_and_leaves_the_others(tmp_path: Path) -> None:
    """A nested one has no sizes, a quantized one is dense all the same."""
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    quantized = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    for side in ("a", "b"):
        golden(tmp_path / side, nested=nested, quantized=quantized, y=torch.full((2,), float(side == "a")))
    done = run(tmp_path / "a", tmp_path / "b")
    assert done.exit_code == 1
    assert "found a nested tensor" in done.output
    assert "found a quantized tensor" in done.output
    assert "1 different, 2 not compared" in done.output
    alone = [tmp_path / side / "out" / "nested.pt" for side in ("a", "b")]
    assert run(*alone).exit_code == 2


def test_what_was_not_foreseen_is_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_options: object) -> int:
        raise RuntimeError("a fault of the tool")

    monkeypatch.setattr("precision_bisect.runner.compare.diff_command.compare", broken)
    done = run(save(tmp_path / "a.pt", torch.ones(1)), tmp_path / "a.pt")
    assert done.exit_code == 2
    assert "a fault of the tool" in done.stderr


def test_integers_of_two_types_are_compared_by_value(tmp_path: Path) -> None:
    wide, narrow = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 3], dtype=torch.int32)
    alike = run(save(tmp_path / "a.pt", wide), save(tmp_path / "b.pt", narrow))
    assert alike.exit_code == 1
    assert "dtype int64 against expected int32, equal values" in alike.output
    other = run(
        tmp_path / "a.pt", save(tmp_path / "c.pt", narrow + torch.tensor([0, 1, 0], dtype=torch.int32))
    )
    assert "1 of 3 elements differ" in other.output
    assert "both as int64" in other.output


def test_an_error_relative_to_nothing_is_said_to_be_infinite(tmp_path: Path) -> None:
    pair = save(tmp_path / "a.pt", torch.tensor([True])), save(tmp_path / "b.pt", torch.tensor([False]))
    assert "max rel error        infinite where 0 is expected\n" in run(*pair).output
    pair = (
        save(tmp_path / "c.pt", torch.tensor([1.0, 3.0])),
        save(tmp_path / "d.pt", torch.tensor([0.0, 2.0])),
    )
    assert "max rel error        0.5 at [1], and infinite where 0 is expected\n" in run(*pair).output


@pytest.mark.parametrize("kind", ["object", "cut", "big-endian", "text"])
def test_arrays_that_are_refused(tmp_path: Path, kind: str) -> None:
    np.save(tmp_path / "good.npy", np.ones(9))
    bad = tmp_path / "bad.npy"
    if kind == "object":
        np.save(bad, np.array([Malicious(tmp_path / "executed")], dtype=object))
    else:
        np.save(bad, np.ones(9).astype(">f8" if kind == "big-endian" else "<f8"))
    if kind == "cut":
        bad.write_bytes(bad.read_bytes()[:-8])
    elif kind == "text":
        bad.write_text("no array")
    result = run(bad, tmp_path / "good.npy")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {bad}: expected ")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "executed").exists()


def test_pickled_objects_and_files_of_no_tensors_are_called_so(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert "found pickled objects, which are not read" in run(tmp_path / "a.npy", tmp_path / "a.npy").stderr
    (tmp_path / "x.txt").write_text("no tensor")
    refused = run(tmp_path / "x.txt", tmp_path / "a.npy")
    assert refused.exit_code == 2
    assert refused.stderr.startswith(
        f"error: {tmp_path / 'x.txt'}: expected a file of tensors, named *.pt, *.pth, *.npy, *.npz, "
        "found a text file"
    )


@pytest.mark.parametrize("name", ["x.pt", "x.npy", "x.npz"])
@pytest.mark.parametrize(
    ("text", "found"), [("", "an empty file"), ("a log\nof letters äß\n", "a text file")]
)
def test_empty_files_and_files_of_text_are_called_so(
    tmp_path: Path, name: str, text: str, found: str
) -> None:
    (tmp_path / name).write_text(text)
    refused = run(tmp_path / name, tmp_path / name)
    assert refused.exit_code == 2
    assert f", found {found}; save " in refused.stderr


@pytest.mark.parametrize("name", ["x.pt", "x.npz"])
def test_an_archive_that_was_cut_short_is_called_so(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".pt":
        save(path, torch.zeros(100))
    else:
        np.savez(path, x=np.zeros(100))
    path.write_bytes(path.read_bytes()[:-30])
    refused = run(path, path)
    assert refused.exit_code == 2
    assert "found an archive that was cut short: the listing at its end is missing; save " in refused.stderr


def test_a_page_of_pictures_says_how_many_it_shows(tmp_path: Path) -> None:
    pair = save(tmp_path / "a.pt", torch.zeros(4, 4)), save(tmp_path / "b.pt", torch.ones(4, 4))
    assert "a.html shows 1 tensor\n" in run(*pair, "--picture", tmp_path / "a.html").stderr


@pytest.mark.parametrize("half", ["in", "out"])
def test_half_of_golden_data_is_golden_data(tmp_path: Path, half: str) -> None:
    for name, value in (("a", 0.0), ("b", 1.0)):
        save(tmp_path / name / half / "y.pt", torch.full((2,), value))
    result = run(tmp_path / "a", tmp_path / "b")
    assert result.exit_code == 1
    assert f"{half}/y: different, " in result.output


def test_a_folder_that_holds_nothing_to_compare_is_told_what_it_may_hold(tmp_path: Path) -> None:
    (tmp_path / "other" / "z").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for name, found in (
        ("other", "a folder with none of these; check the path"),
        ("empty", "an empty folder"),
    ):
        result = run(tmp_path / name, tmp_path)
        assert result.exit_code == 2
        assert "golden data (in/ and out/, or one of them, with *.pt files; or *.pt files" in result.stderr
        assert result.stderr.endswith(f"found {found}\n")


def test_a_row_of_nan_is_one_pattern_and_no_figure_counts_it(tmp_path: Path) -> None:
    expected = torch.arange(2048.0).reshape(32, 64)
    actual = expected.clone()
    actual[3] = math.nan
    output = run(save(tmp_path / "nan.pt", actual), save(tmp_path / "a.pt", expected)).output
    assert output.startswith(
        "nan against a: different, NaN or Inf spreading: 64 of 2048 elements differ, 64 NaN\n"
    )
    assert output.count("(confidence ") == 1
    told = output.index("1984; the lines below leave out the others")
    assert told < output.index("max ulp distance") < output.index("relative L2, cosine")


def test_state_dicts_and_lists(tmp_path: Path) -> None:
    expected = {"layer": {"weight": torch.ones(2, 2), "bias": torch.zeros(2)}, "step": 3, "made": "today"}
    actual = {"layer": {"weight": torch.ones(2, 2), "bias": torch.ones(2)}, "step": 4, "made": "today"}
    torch.save(expected, tmp_path / "b.pt")
    torch.save(actual, tmp_path / "a.pt")
    lines = run(tmp_path / "a.pt", tmp_path / "b.pt").output.splitlines()
    assert lines[0].startswith("layer.bias: different, ")
    assert lines[1:] == [
        "step: different, scalar 4 against expected 3",
        "2 equal, 2 different, 0 not compared",
    ]
    torch.save([torch.ones(2), (torch.zeros(1),)], tmp_path / "c.pt")
    torch.save([torch.ones(2), (torch.ones(1),)], tmp_path / "d.pt")
    assert run(tmp_path / "c.pt", tmp_path / "d.pt").output.startswith("1.0: different, ")


def test_a_list_that_holds_itself_many_times_is_refused(tmp_path: Path) -> None:
    nested: list[Any] = [0]
    for _ in range(12):
        nested = [nested] * 10
    torch.save(nested, tmp_path / "a.pt")
    result = run(tmp_path / "a.pt", tmp_path / "a.pt")
    assert result.exit_code == 2
    assert "expected at most 100000 tensors, 16 lists deep, found more" in result.stderr


@pytest.mark.parametrize("spelled", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_float8_is_compared_as_float32(tmp_path: Path, spelled: str) -> None:
    dtype = getattr(torch, spelled)
    expected = torch.tensor([0.5, 1.0, -2.0, 16.0])
    save(tmp_path / "b.pt", expected.to(dtype))
    save(tmp_path / "a.pt", (expected + torch.tensor([0, 0, 0, 4.0])).to(dtype))
    result = run(tmp_path / "a.pt", tmp_path / "b.pt")
    assert result.exit_code == 1
    assert f"1 of 4 elements differ, max error 4 at [3], compared {spelled} as float32" in result.output
    assert run(tmp_path / "b.pt", tmp_path / "b.pt").exit_code == 0


def test_equal_values_of_two_narrow_types_are_not_equal(tmp_path: Path) -> None:
    for name, dtype in (("a", torch.float8_e4m3fn), ("b", torch.float8_e5m2)):
        save(tmp_path / f"{name}.pt", torch.tensor([0.5, 1.0]).to(dtype))
    result = run(tmp_path / "a.pt", tmp_path / "b.pt")
    assert result.exit_code == 1
    assert (
        "dtype float8_e4m3fn as float32 against expected float8_e5m2 as float32, equal values"
        in result.output
    )
    assert run(tmp_path / "a.pt", tmp_path / "b.pt", "--rtol", "0").exit_code == 0


@pytest.mark.parametrize("suffix", ["pt", "npy"])
def test_complex_numbers_are_compared_by_parts(tmp_path: Path, suffix: str) -> None:
    expected = torch.ones(3, 4, dtype=torch.complex64)
    actual = expected.clone()
    actual[1, 2] += 0.5j
    for name, tensor in (("a", actual), ("b", expected)):
        if suffix == "pt":
            torch.save(tensor, tmp_path / f"{name}.pt")
        else:
            np.save(tmp_path / f"{name}.npy", tensor.numpy())
    result = run(tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}")
    assert "1 of 24 elements differ, max error 0.5 at [1, 1, 2]" in result.output
    assert "compared complex64 as two parts: [0, ...] are real, [1, ...] imaginary" in result.output
    assert run(tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}", "--atol", "0.5").exit_code == 0


def test_two_types_are_compared_after_a_stated_cast(tmp_path: Path) -> None:
    torch.manual_seed(4)
    wide = torch.randn(8, 8)
    pair = save(tmp_path / "a.pt", wide.bfloat16()), save(tmp_path / "b.pt", wide)
    exact = run(*pair)
    assert exact.exit_code == 1
    assert "64 of 64 wrong elements are the expected ones through bfloat16" in exact.output
    assert "compared bfloat16 with float32, both as float32" in exact.output
    close = run(*pair, "--rtol", "0.01")
    assert close.exit_code == 0
    assert run(*pair, "--rtol", "0.0001").exit_code == 1
    same = save(tmp_path / "c.pt", torch.ones(2).half()), save(tmp_path / "d.pt", torch.ones(2))
    assert "dtype float16 against expected float32, equal values" in run(*same).output
    assert run(*same, "--atol", "0").exit_code == 0


def test_an_expansion_without_end_is_refused_at_once(tmp_path: Path) -> None:
    save(tmp_path / "a.pt", torch.zeros(1).expand(2**40))
    result = run(tmp_path / "a.pt", tmp_path / "a.pt")
    assert result.exit_code == 2
    assert f"found {2**40} elements on a storage of 1; save what it was expanded from" in result.stderr


def test_a_linked_golden_file_is_called_a_link(tmp_path: Path) -> None:
    a, b = golden(tmp_path / "a", y=torch.ones(2)), golden(tmp_path / "b", y=torch.ones(2))
    elsewhere = save(tmp_path / "elsewhere.pt", torch.ones(2))
    (a / "out" / "y.pt").unlink()
    (a / "out" / "y.pt").symlink_to(elsewhere)
    result = run(a, b)
    assert result.exit_code == 2
    assert (
        f"out/y.pt: not compared, a link to {elsewhere} in {a}; put the file itself there\n" in result.output
    )
    whole = golden(tmp_path / "c", y=torch.ones(2))
    (whole / "out").rename(tmp_path / "moved")
    (whole / "out").symlink_to(tmp_path / "moved")
    linked = run(whole, b)
    assert linked.exit_code == 2
    assert f"out: not compared, a link to {tmp_path / 'moved'} in {whole}; " in linked.output
    assert "1 equal, 0 different, 1 not compared\n" in linked.output
    # A path that the user types is followed.
    assert run(a / "out" / "y.pt", b / "out" / "y.pt").exit_code == 0


def test_a_payload_cut_short_under_a_comparison_is_an_error_line(tmp_path: Path) -> None:
    """The file is cut behind the first record, when that has been compared and the second has not."""
    tensors = [torch.zeros(5000), torch.zeros(5000)]
    a, b = write_dump(tmp_path / "a", tensors), write_dump(tmp_path / "b", tensors)
    source, golden_source = open_sources([a, b])
    compared = compare_sources(source, golden_source, Comparison(tolerance=Tolerance()))
    assert next(compared).outcome is Equality.EQUAL
    os.truncate(a / "args.bin", 20_000)
    cut = next(compared)
    assert cut.outcome is Equality.UNKNOWN
    assert cut.reason == (
        f"{a / 'args.bin'}: expected the payloads of an argument dump, 20000 bytes from byte 20000 on, "
        "found 0: the file was cut short; record it again"
    )


def test_the_command_goes_on_behind_a_payload_that_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = [torch.zeros(5000), torch.zeros(5000)]
    a, b = write_dump(tmp_path / "a", tensors), write_dump(tmp_path / "b", tensors)

    def cut(*sources: Any, **options: Any) -> Iterator[ComparisonResult]:
        compared = compare_sources(*sources, **options)
        yield next(compared)
        os.truncate(a / "args.bin", 20_000)
        yield from compared

    monkeypatch.setattr("precision_bisect.runner.compare.diff_command.compare_sources", cut)
    result = run(a, b)
    assert result.exit_code == 2
    assert (
        f"not compared, {a / 'args.bin'}: expected the payloads of an argument dump, 20000 bytes"
        in result.output
    )
    assert "1 equal, 0 different, 1 not compared\n" in result.output


def test_help_loads_neither_torch_nor_numba() -> None:
    code = (
        "import sys\nfrom precision_bisect.runner.compare.diff_cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print([name for name in ('torch', 'numba', 'numpy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Exit status" in result.stdout
    assert result.stdout.endswith("[]\n")


def test_comparing_dumps_does_not_load_torch(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "a", [torch.zeros(3)])
    code = (
        "import sys\nfrom precision_bisect.runner.compare.diff_cli import main\n"
        f"try:\n    main([{str(dump)!r}, {str(dump)!r}])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.endswith("False\n")


@needs_shared
def test_recorded_good_and_bad_build() -> None:
    good, bad = SHARED / "chain_level2_good", SHARED / "chain_level2_bad"
    assert run(good, good).exit_code == 0
    result = run(bad, good)
    assert result.exit_code == 1
    # The kernel that the miscompiler broke writes task 3's output; what comes before it is equal.
    assert result.output.startswith(
        "cat 0x0000000100000003 arg 2 inout after_completion: different, permuted blocks: "
    )
    assert "permuted blocks (confidence 1.00)" in run(bad, good, "-v").output
    assert "18 equal, 7 different, 0 not compared" in result.output


@needs_shared
@pytest.mark.parametrize("name", ["paged_attention", "chain_level1_good"])
def test_recorded_dumps_equal_themselves(name: str) -> None:
    result = run(SHARED / name, SHARED / name)
    assert result.exit_code == 0
    counts = {"paged_attention": "384 equal", "chain_level1_good": "10 equal"}
    assert counts[name] in result.output
