"""The kind of wait and the kernels that a stall is about."""

import re

import pytest

from precision_bisect.runner.verdict.classify import StallReport

TASK = re.compile(
    r"(?:(?P<round>\d+) )?(?:(?P<running>RUN)|(?P<ready>READY)|(?P<waiting>WAIT)|OTHER)(?: (?P<kernels>.*))?"
)
NAMES = {1: "load", 2: "matmul", 3: "softmax"}


def text_of(*lines: str) -> str | None:
    report = StallReport()
    for line in lines:
        match = TASK.match(line)
        assert match is not None
        report.add(match)
    return report.describe(NAMES)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], None),
        (["OTHER aic:1"], None),
        (["RUN"], "running"),
        (["WAIT aic:-1 aiv0:3 aiv1:-1"], "waiting in softmax"),
        (["RUN aiv0:3", "RUN aic:2 aiv0:1", "RUN aiv0:3"], "running in load, matmul, softmax"),
        (["RUN aiv0:9"], "running in kernel 9"),
        (["READY aic:2", "READY aic:1"], "ready in matmul"),
        (["WAIT aic:2", "WAIT aic:1"], "waiting in matmul"),
        (["WAIT aic:2", "READY aic:1", "RUN aic:3"], "running in softmax"),
        (["WAIT aic:2", "READY aic:1"], "ready in load"),
    ],
)
def test_what_runs_is_stuck_then_the_first_that_could_have_run(
    lines: list[str], expected: str | None
) -> None:
    assert text_of(*lines) == expected


def test_only_the_last_diagnosis_counts() -> None:
    assert text_of("100 RUN aic:1", "200 WAIT aic:2", "200 WAIT aic:3") == "waiting in matmul"


def test_task_ids_do_not_matter_and_many_kernels_are_counted() -> None:
    assert text_of("RUN " + " ".join(f"aiv0:{number}" for number in range(10, 20))) == (
        "running in kernel 10, kernel 11, kernel 12, kernel 13, 6 more"
    )
