"""What the terminal shows of a case that passes."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from precision_bisect.reduce.localize.changes import Change, ChangedPart, source_lines, text_changes
from precision_bisect.reduce.localize.document import build_change
from precision_bisect.reduce.localize.localization_text import print_causes
from precision_bisect.runner.compare.diff_report import SummaryLines
from precision_bisect.runner.localization import (
    BuildChange,
    CaseFailure,
    Divergence,
    FailingOutput,
    FailureCause,
    OrderTrial,
)
from tests.reduce.localize.test_summary import NOTHING


def told(**found: Any) -> list[str]:
    text = io.StringIO()
    divergence = Divergence.model_validate({**NOTHING, **found})
    print_causes(divergence, SummaryLines(console=Console(file=text, width=200), whole=False))
    return text.getvalue().splitlines()


def told_of_a_pass(*tried: OrderTrial) -> list[str]:
    passing = CaseFailure(rtol=1e-5, atol=1e-5, told=True)
    first, *others = told(failure=passing, tried=tried)
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


def test_a_case_that_passes_again_and_again_says_what_would_have_shown() -> None:
    assert told_of_a_pass(trial("serial"), trial("as it is", runs=17)) == [
        "so are they under schedule serial",
        "and in 17 further runs as it is, for tasks do not wait for each other: a failure in 24% of its runs would "
        "have shown with 99%",
    ]


def told_of_turns(**outcome: Any) -> str:
    failure = CaseFailure(
        rtol=1e-5, atol=1e-5, told=True, outputs=(FailingOutput(name="y", elements=8, wrong=2),)
    )
    return told(failure=failure, in_turns=trial(outcome.pop("schedule", "as it is"), **outcome))[-1]


def test_how_often_the_good_build_fails_in_the_same_order_is_told() -> None:
    assert told_of_turns(runs=3, failed=3, reference_runs=5, reference_fails=False) == (
        "as it is it fails in 3 of 3 runs, and the good build in none of 5"
    )
    assert told_of_turns(schedule="reverse", runs=3, failed=2, reference_runs=3, reference_fails=True) == (
        "under schedule reverse it fails in 2 of 3 runs, and the good build in 1 of 3: it is flaky too, "
        "so nothing in which they differ is blamed"
    )
    assert told_of_turns(runs=30, failed=1, reference_runs=30) == (
        "as it is it fails in 1 of 30 runs; 30 runs of the good build cannot tell whether it does: nothing in "
        "which they differ is blamed"
    )


def test_an_error_without_a_multiple_says_what_may_cause_it() -> None:
    """With an absolute tolerance, every finite error is a multiple of it."""
    outputs = (FailingOutput(name="y", elements=8, wrong=2),)
    bounded, exact = (
        told(failure=CaseFailure(rtol=1e-5, atol=atol, told=True, outputs=outputs))[0] for atol in (1e-5, 0)
    )
    assert bounded.endswith(", up to NaN, Inf or missing")
    assert exact.endswith(", up to NaN, Inf, missing, or an error where the tolerance is 0")


LISTED, OTHER = (
    BuildChange(part="kernel list", file="kernel_config.py", line=line, kernel=kernel)
    for line, kernel in ((25, "out_acc"), (24, "out"))
)
DEAD = BuildChange(part="kernel", file="kernels/aiv/y.cpp", line=3, kernel="y")


def told_of_a_cause(**cause: Any) -> list[str]:
    failure = CaseFailure(
        rtol=1e-5, atol=1e-5, told=True, outputs=(FailingOutput(name="y", elements=8, wrong=2),)
    )
    causes = [FailureCause(what="it", confirmed=True, effect=1.0, **cause)]
    return told(failure=failure, causes=causes, cleared=[OTHER, DEAD])


def test_a_harmless_change_beside_the_cause_in_its_file_is_named_by_its_place() -> None:
    *_, last = told_of_a_cause(changes=(LISTED,))
    assert last == "differ too, and do not make it fail: kernel_config.py:24 (out), kernels/aiv/y.cpp"


def test_a_harmless_difference_of_the_toolchains_says_what_differs() -> None:
    failure = CaseFailure(
        rtol=1e-5, atol=1e-5, told=True, outputs=(FailingOutput(name="y", elements=8, wrong=2),)
    )
    commits = BuildChange(part="runtime", diff=("- compiler aaa", "+ compiler bbb"))
    *_, last = told(failure=failure, cleared=[commits])
    assert last == "differ too, and do not make it fail: the toolchain that runs it (compiler)"
    causes = [FailureCause(what="it", confirmed=True, effect=1.0, changes=(commits,))]
    shown = [line.strip() for line in told(failure=failure, causes=causes)]
    assert shown[2:5] == ["the toolchain that runs it (compiler)", "- compiler aaa", "+ compiler bbb"]


def test_a_replaced_line_is_quoted_before_new_ones_and_the_rest_is_counted() -> None:
    """A new function does nothing until a line calls it."""
    helper = "".join(f"int h{number};\n" for number in range(20))
    texts = text_changes(
        b"first;\nsame;\ncall(a);\n", source_lines(f"first;\n{helper}same;\ncall(b);\n".encode())
    )
    found = build_change(Change(part=ChangedPart.KERNEL, file="y.cpp", kernel="y", edits=texts))
    assert found.diff[:3] == ("- call(a);", "+ call(b);", "+ int h0;")
    assert (found.line, len(found.diff), found.diff[-1]) == (23, 13, "  ... and 10 more lines")
    assert "    ... more in divergence.json" in told_of_a_cause(changes=(found,))


def test_lines_that_were_moved_are_shown_once() -> None:
    good, bad = b"for (;;) {\nint a;\n}\n", b"int a;\nfor (;;) {\n}\n"
    texts = text_changes(good, source_lines(bad))
    moved = build_change(Change(part=ChangedPart.ORCHESTRATION, file="o.cpp", edits=texts))
    assert moved.moved_from is not None
    told = told_of_a_cause(changes=(moved,))
    assert f"  o.cpp:{moved.line}: moved here from line {moved.moved_from}" in told
    (line,) = (text.strip() for text in moved.diff if text.startswith("+"))
    assert bad.decode().splitlines()[(moved.line or 0) - 1] == line.removeprefix("+ ")
    assert good.decode().splitlines()[moved.moved_from - 1] == line.removeprefix("+ ")
    assert [text.strip() for text in told if line[1:] in text] == [f">{line[1:]}"]
    edited = text_changes(b"a;\nb;\n", source_lines(b"a;\nc;\n"))
    assert build_change(Change(part=ChangedPart.ORCHESTRATION, file="o.cpp", edits=edited)).moved_from is None


def test_changes_that_fail_together_are_said_to() -> None:
    assert "  alone in the good build, it makes 100 % of what is wrong" in told_of_a_cause(changes=(LISTED,))
    assert (
        "  in the good build, these 2 changes together make 100 % of what is wrong; fewer of them do not make it fail"
        in told_of_a_cause(changes=(LISTED, DEAD))
    )
