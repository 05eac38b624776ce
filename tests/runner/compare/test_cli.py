"""`diff-tensors` as a user runs it: exit status, what is printed, and what is never loaded or executed."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from precision_bisect.runner.compare.cli import main
from precision_bisect.runner.compare.options import CompareOptions

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
    ("valid_axis", ["--valid-axis", "-1"], -1),
    ("zero_tail", ["--zero-tail"], True),
    ("topk", ["--topk", "i=s", "--topk", "j=t"], ("i=s", "j=t")),
    ("axis", ["--axis", "1"], 1),
    ("picture", ["--picture", "map.svg"], Path("map.svg")),
    ("as_json", ["--json"], True),
]


@pytest.mark.parametrize(("field", "words", "value"), OPTIONS)
def test_each_option_reaches_its_field(field: str, words: list[str], value: Any) -> None:
    options = CompareOptions(**main.make_context("diff-tensors", ["a", "b", *words]).params)
    assert getattr(options, field) == value


def test_every_field_is_covered() -> None:
    assert {field for field, *_ in OPTIONS} == {each.name for each in fields(CompareOptions)}


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
    tensor[0, 0] = math.nan
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
    assert "2: 1 of 7 over" in result.output


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
        f"out/ours: different, only in {a}",
        f"out/theirs: different, only in {b}",
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


def test_dumps_see_stale_values(tmp_path: Path) -> None:
    first, second = torch.randn(16, 16), torch.randn(16, 16)
    result = run(write_dump(tmp_path / "a", [first, first]), write_dump(tmp_path / "b", [first, second]))
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
        ["--picture", "map.gif"],
        ["--axis", "7"],
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
    for suffix, start in ((".html", b"<!doctype html>"), (".svg", b"<svg"), (".png", b"\x89PNG")):
        assert run(a, b, "--picture", tmp_path / f"map{suffix}").exit_code == 1
        assert (tmp_path / f"map{suffix}").read_bytes().startswith(start)
    assert run(a, a, "--picture", tmp_path / "none.png").exit_code == 0
    assert not (tmp_path / "none.png").exists()


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


def test_only_the_first_differences_are_shown_at_length(tmp_path: Path) -> None:
    a = golden(tmp_path / "a", **{f"y{i:02}": torch.zeros(2) for i in range(20)})
    b = golden(tmp_path / "b", **{f"y{i:02}": torch.ones(2) for i in range(20)})
    output = run(a, b).output
    assert output.count(": different") == 20
    assert output.count("max abs error") == 8


def test_help_loads_neither_torch_nor_numba() -> None:
    code = (
        "import sys\nfrom precision_bisect.runner.compare.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print([name for name in ('torch', 'numba', 'numpy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Exit status" in result.stdout
    assert result.stdout.endswith("[]\n")


def test_comparing_dumps_does_not_load_torch(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "a", [torch.zeros(3)])
    code = (
        "import sys\nfrom precision_bisect.runner.compare.cli import main\n"
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
    assert result.output.startswith("0x0000000100000003 arg 2 inout after_completion: different")
    assert "permuted blocks (confidence 1.00)" in result.output
    assert "18 equal, 7 different, 0 not compared" in result.output


@needs_shared
@pytest.mark.parametrize("name", ["paged_attention", "chain_level1_good"])
def test_recorded_dumps_equal_themselves(name: str) -> None:
    result = run(SHARED / name, SHARED / name)
    assert result.exit_code == 0
    counts = {"paged_attention": "384 equal", "chain_level1_good": "10 equal"}
    assert counts[name] in result.output
