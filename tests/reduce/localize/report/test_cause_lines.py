"""What the terminal shows of a case that passes."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from precision_bisect.reduce.localize.report.cause_lines import print_causes
from precision_bisect.runner.compare.report.summary_lines import SummaryLines
from precision_bisect.runner.localization.causes import CaseFailure
from precision_bisect.runner.localization.divergence import Divergence
from precision_bisect.runner.localization.orders import OrderTrial
from tests.reduce.localize.report.test_summary import NOTHING


def told_of_a_pass(*tried: OrderTrial) -> list[str]:
    text = io.StringIO()
    passing = CaseFailure(rtol=1e-5, atol=1e-5, told=True)
    divergence = Divergence.model_validate({**NOTHING, "failure": passing, "tried": tried})
    print_causes(divergence, SummaryLines(console=Console(file=text, width=200), whole=False))
    first, *others = text.getvalue().splitlines()
    assert first.startswith("the case passes")
    return others


def trial(schedule: str, **outcome: Any) -> OrderTrial:
    return OrderTrial.model_validate(
        {"schedule": schedule, "variables": {}, "runs": 1, "failed": 0, "stopped": 0, **outcome}
    )


def test_a_case_that_passes_says_in_which_orders() -> None:
    assert told_of_a_pass(
        trial("serial"),
        trial("reverse"),
        trial("permuted", failed=1, reference_runs=1, reference_fails=True),
        trial("random", runs=31, failed=2, reference_runs=30),
        trial("one-worker", stopped=1),
    ) == [
        "so are they under schedule serial, reverse",
        "under schedule permuted they are not, and neither are the good build's",
        "under schedule random they are not in 2 of 31 runs; 30 runs of the good build cannot tell whether its are: "
        "nobody is blamed for it",
        "under schedule one-worker it does not get to its outputs",
    ]


def test_a_case_that_passes_in_the_one_order_that_could_be_tried_says_so() -> None:
    (line,) = told_of_a_pass()
    assert "the stack file names no schedules" in line
