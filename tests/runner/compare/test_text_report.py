"""What a comparison prints at its end, and in one line."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from precision_bisect.runner.compare.diff_report import TextReport
from precision_bisect.runner.compare.judges import ComparisonResult, Equality
from precision_bisect.runner.compare.statistics import Tolerance

SAME = ComparisonResult(name="same", outcome=Equality.EQUAL, identical=True)
OTHER = ComparisonResult(name="other", outcome=Equality.DIFFERENT, reason="1 of 2 elements differ")
LOG = ComparisonResult(
    name="run.log", outcome=Equality.UNKNOWN, reason="a text file in a alone", is_file=True
)
RECORD = ComparisonResult(name="task 1", outcome=Equality.UNKNOWN, reason="a: truncated")
LEFT_OUT = ComparisonResult(name="tmp", outcome=Equality.LEFT_OUT, reason="--ignore tmp", is_file=True)


def report(console: Console, *, in_detail: bool = False) -> TextReport:
    return TextReport(console, [], tolerance=Tolerance(), limit=2, in_detail=in_detail)


@pytest.fixture(name="console")
def make_console() -> Console:
    return Console(file=io.StringIO(), width=200, soft_wrap=True)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("differences", "lost", "line"),
    [
        ([SAME], "", "equal: 1 of 1\n"),
        ([SAME, LEFT_OUT], "", "equal: 1 of 1, 1 left out\n"),
        ([SAME, LOG], "", "not compared: 1 of 2, first run.log: not compared, a text file in a alone\n"),
        (
            [SAME, LOG, OTHER, LEFT_OUT],
            "",
            "different: 1 of 3, 1 left out, first other: different, 1 of 2 elements differ\n",
        ),
        ([SAME], "a: 1 record was dropped", "not compared: a: 1 record was dropped; 1 equal\n"),
    ],
)
def test_the_first_word_in_brief_is_the_worst_of_all(
    console: Console, differences: Sequence[ComparisonResult], lost: str, line: str
) -> None:
    report(console).brief(differences, lost=lost)
    assert text_of(console) == line


def test_what_is_not_compared_is_listed_within_bounds_and_counted(console: Console) -> None:
    report(console).end([SAME, LOG, RECORD, LOG, LEFT_OUT])
    assert text_of(console).splitlines() == [
        "run.log: not compared, a text file in a alone",
        "task 1: not compared, a: truncated",
        "... 1 more; --limit 0 prints all",
        "a file that need not be compared is left out with --ignore GLOB",
        "1 equal, 0 different, 3 not compared, 1 left out",
    ]


def test_no_option_is_offered_that_does_not_help(console: Console) -> None:
    report(console).end([SAME, RECORD])
    assert "--ignore" not in text_of(console)


def test_what_is_left_out_is_named_in_detail(console: Console) -> None:
    report(console, in_detail=True).end([SAME, LEFT_OUT])
    assert text_of(console) == "left out: 1\n  tmp\n1 equal, 0 different, 0 not compared, 1 left out\n"
