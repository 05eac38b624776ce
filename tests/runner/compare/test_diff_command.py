"""What `diff-tensors` does behind its command line: exit codes, and options that do not go together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from precision_bisect.runner.compare.diff_cli import CompareOptions, main
from precision_bisect.runner.compare.diff_command import DIFFERENT, EQUAL, UNREADABLE, compare
from precision_bisect.runner.errors import UsageError


def options(*words: str | Path) -> CompareOptions:
    return CompareOptions(**main.make_context("diff-tensors", [str(word) for word in words]).params)


@pytest.fixture
def tensors(tmp_path: Path) -> tuple[Path, Path]:
    """Two files whose tensors differ by 1."""
    paths = tmp_path / "zeros" / "y.pt", tmp_path / "ones" / "y.pt"
    for path in paths:
        path.parent.mkdir()
    torch.save(torch.zeros(3), paths[0])
    torch.save(torch.ones(3), paths[1])
    return paths


def test_exit_codes(tensors: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zeros, ones = tensors
    assert compare(options(zeros, zeros)) == EQUAL
    assert compare(options(zeros, ones)) == DIFFERENT
    assert compare(options(zeros, ones, "--atol", "1")) == EQUAL
    assert compare(options(zeros, zeros, zeros)) == EQUAL
    assert compare(options(zeros, ones, zeros)) == DIFFERENT
    capsys.readouterr()
    assert compare(options(zeros, tmp_path / "missing.pt")) == UNREADABLE
    missing = (
        f"{tmp_path / 'missing.pt'}: expected a file or folder of tensors, found nothing; check the path"
    )
    assert capsys.readouterr().err == f"error: {missing}\n"
    (tmp_path / "build").mkdir()
    torch.save(torch.zeros(2), tmp_path / "build" / "result.pt")
    assert compare(options(zeros, tmp_path / "buidl" / "result.pt")) == UNREADABLE
    assert capsys.readouterr().err.endswith(f"did you mean {tmp_path / 'build' / 'result.pt'}?\n")


@pytest.mark.parametrize(
    "words",
    [("--valid-rows", "1"), ("--topk", "indices"), ("--max-error-ratio", "0.1"), ("--zero-tail",)],
)
def test_options_that_do_not_go_together(tensors: tuple[Path, Path], words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=words[0]):
        compare(options(*tensors, *words))


def test_several_runs_are_compared_by_tolerances_alone(tensors: tuple[Path, Path]) -> None:
    zeros, ones = tensors
    with pytest.raises(UsageError, match="two paths beside --comparator"):
        compare(options(zeros, ones, zeros, "--comparator", "ratio-reldiff"))


def test_rows_that_are_not_valid_are_not_compared(tmp_path: Path) -> None:
    actual = torch.zeros(3, 2)
    actual[2] = 1
    paths = tmp_path / "actual.pt", tmp_path / "expected.pt"
    torch.save(actual, paths[0])
    torch.save(torch.zeros(3, 2), paths[1])
    ratio = ("--comparator", "ratio-allclose", "--valid-rows")
    assert compare(options(*paths, *ratio, "3")) == DIFFERENT
    assert compare(options(*paths, *ratio, "2")) == EQUAL


def test_golden_data_against_a_state_dict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Paired by what stands behind the folder, which is said; where that does not help either, that is said."""
    golden, state, other = tmp_path / "golden", tmp_path / "state.pt", tmp_path / "other.pt"
    (golden / "out").mkdir(parents=True)
    for name in ("w", "y"):
        torch.save(torch.zeros(3), golden / "out" / f"{name}.pt")
    torch.save({"w": torch.zeros(3), "y": torch.ones(3)}, state)
    torch.save({"v": torch.zeros(3), "u": torch.ones(3)}, other)
    assert compare(options(golden, state)) == DIFFERENT
    out = capsys.readouterr().out
    assert f"2 tensors named as in {state} but for what stands before the last /, such as out/w for w" in out
    assert "only in" not in out
    assert compare(options(state, golden, golden)) == DIFFERENT
    assert "only in" not in capsys.readouterr().out
    assert compare(options(golden, other)) == UNREADABLE
    assert (
        "expected a name that both have, found 'out/w' and the like here, 'v' there"
        in capsys.readouterr().out
    )


def test_what_has_no_name_in_common_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It differs in nothing, for nothing was held against anything; a name that one lacks beside others differs."""
    two, one, more = tmp_path / "two.npz", tmp_path / "one.npy", tmp_path / "more.npz"
    np.savez(two, x=np.zeros(3), y=np.zeros(3))
    np.save(one, np.zeros(3))
    np.savez(more, x=np.zeros(3))
    done = CliRunner().invoke(main, [str(two), str(one)])
    assert done.exit_code == UNREADABLE
    assert "found 'x' and the like here, 'one' there: nothing is compared\n" in done.output
    assert done.output.splitlines()[1:] == [
        f"only in {one}: 1",
        "  one",
        f"only in {two}: 2",
        "  x",
        "  y",
        "0 equal, 0 different, 3 not compared",
    ]
    brief = CliRunner().invoke(main, ["-q", str(two), str(one)]).output
    assert brief == f"not compared: 3 of 3, first one: not compared, only in {one}\n"
    assert CliRunner().invoke(main, [str(two), str(more)]).exit_code == DIFFERENT


def test_the_advice_makes_what_cannot_be_compared_comparable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands behind the last ; is Python, for the tensor and the path that were saved."""
    torches = {
        "sparse": torch.eye(2).to_sparse(),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "quantized": torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
    }
    arrays = {
        "fields": np.zeros(2, [("a", "f4"), ("b", "f4")]),
        "dates": np.zeros(2, "M8[s]"),
        "wide": np.zeros(2, np.longdouble),
        "wide_complex": np.zeros(2, np.clongdouble),
        "other_order": np.zeros(2, ">f4"),
    }
    for name, saved in {**torches, **arrays}.items():
        path = tmp_path / f"{name}{'.pt' if name in torches else '.npy'}"
        torch.save(saved, path) if name in torches else np.save(path, saved)
        assert compare(options(path, path)) == UNREADABLE, name
        advice = capsys.readouterr().err.rpartition("; ")[2]
        known = {"torch": torch, "numpy": np, "tensor": saved, "array": saved, "path": path}
        exec(advice.partition(": ")[2] or advice, known)
        assert compare(options(path, path)) == EQUAL, name


def test_texts_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.array(["text"]))
    assert compare(options(tmp_path / "a.npy", tmp_path / "a.npy")) == UNREADABLE
    assert "of numbers, found a of type <U4; leave it out: texts are not compared" in capsys.readouterr().err
