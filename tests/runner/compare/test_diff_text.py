"""Differences as a terminal shows them."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from precision_bisect.runner.compare.diff_report import (
    Remark,
    Severity,
    escape_unprintable,
    heat_text,
    show_difference,
    show_remarks,
    show_runs,
)
from precision_bisect.runner.compare.finding import Pattern, PatternMatch
from precision_bisect.runner.compare.judges import ComparisonResult, Equality
from precision_bisect.runner.compare.statistics import Tolerance, compare_runs, heat_map, measure
from tests.runner.compare.tensor_makers import view_of

EXACT = Tolerance(rtol=0.0, atol=0.0)


@pytest.fixture(name="console")
def make_console() -> Console:
    return Console(file=io.StringIO(), width=200, soft_wrap=True)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def different(name: str = "y") -> ComparisonResult:
    actual, expected = view_of(torch.tensor([1.0, 2.5])), view_of(torch.tensor([1.0, 2.0]))
    return ComparisonResult(
        name=name,
        outcome=Equality.DIFFERENT,
        reason="1 of 2 elements differ",
        statistics=measure(actual, expected, EXACT),
        patterns=[PatternMatch(pattern=Pattern.OFFSET, confidence=0.5, evidence="+0.5 off")],
    )


def test_names_cannot_steer_the_terminal(console: Console) -> None:
    assert escape_unprintable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\x0a"
    show_difference(console, different("y\x1b[2J"), in_detail=False)
    assert text_of(console) == (
        "y\\x1b[2J: different, perhaps constant offset: 1 of 2 elements differ, max error 0.5 at [1]\n"
    )


def test_a_difference_in_detail_has_its_figures_and_patterns(console: Console) -> None:
    show_difference(console, different(), in_detail=True)
    text = text_of(console)
    assert "1 of 2 (50.000%)" in text
    assert "max abs error" in text
    assert "0.5 at" in text
    assert "constant offset (confidence 0.50): +0.5 off" in text


def test_quantiles_of_whole_numbers_are_whole(console: Console) -> None:
    """Elsewhere they are the middles of a histogram's bins."""
    wanted = torch.arange(100, dtype=torch.int8)
    actual, expected = view_of(wanted + 5), view_of(wanted)
    found = replace(different("n"), statistics=measure(actual, expected, EXACT), patterns=[])
    show_difference(console, found, in_detail=True)
    assert "ulp" not in text_of(console)
    (errors,) = (line for line in text_of(console).splitlines() if "abs error at" in line)
    assert errors.split()[3:] == ["50%:", "5", "90%:", "5", "99%:", "5", "99.9%:", "5", "100%:", "5"]


def test_what_is_identical_is_not_shown(console: Console) -> None:
    show_difference(
        console, ComparisonResult(name="x", outcome=Equality.EQUAL, identical=True), in_detail=True
    )
    assert text_of(console) == ""
    show_difference(console, ComparisonResult(name="x", outcome=Equality.EQUAL), in_detail=True)
    assert text_of(console) == "x: equal within tolerance, not identical\n"


def test_a_remark_is_one_line(console: Console) -> None:
    show_remarks(console, [Remark(severity=Severity.ERROR, subject="x", message="all zero")])
    assert text_of(console) == f"{Severity.ERROR.value}: x: all zero\n"


def test_a_map_has_one_character_a_block() -> None:
    expected = torch.zeros(4, 4)
    actual = expected.clone()
    actual[0, :2], actual[3, 3] = 1.0, float("nan")
    heat = heat_map(view_of(actual), view_of(expected), EXACT, height=2, width=2)
    assert heat_text(heat).plain.splitlines()[1:] == ["  ▒·", "  ·N"]
    assert np.asarray(heat.share_over).shape == (2, 2)


def test_neighbouring_rows_of_a_map_that_are_right_are_counted() -> None:
    expected = torch.zeros(8, 2)
    actual = expected.clone()
    actual[4] = 1.0
    heat = heat_map(view_of(actual), view_of(expected), EXACT, height=8, width=2)
    assert heat_text(heat).plain.splitlines()[1:] == [
        "  4 rows of blocks are right",
        "  ██",
        "  3 rows of blocks are right",
    ]
    actual[1] = 1.0
    heat = heat_map(view_of(actual), view_of(expected), EXACT, height=8, width=2)
    assert heat_text(heat).plain.splitlines()[1:6] == ["  ··", "  ██", "  ··", "  ··", "  ██"]


def test_runs_that_fail_in_different_rows_are_told_as_such(console: Console) -> None:
    expected = torch.zeros(64, 4)
    runs: list[torch.Tensor] = []
    for row in (3, 40, 17):
        run = expected.clone()
        run[row] = 1.0
        runs.append(run)
    show_runs(console, "y", compare_runs([view_of(run) for run in runs], view_of(expected), EXACT))
    assert "3 runs: in each 1, 1, 1 wrong rows of 64" in text_of(console)
    assert "not deterministic" in text_of(console)
    assert "wrong in every run" not in text_of(console)


def test_the_rows_that_are_wrong_in_every_run_are_named(console: Console) -> None:
    expected = torch.zeros(64, 4)
    runs = [expected.clone() for _ in range(3)]
    for run, more in zip(runs, (9, 40, 9), strict=True):
        run[[5, more]] = 1.0
    show_runs(console, "y", compare_runs([view_of(run) for run in runs], view_of(expected), EXACT))
    assert "in each 2, 2, 2 wrong rows of 64" in text_of(console)
    assert "wrong in every run: row 5\n" in text_of(console)
