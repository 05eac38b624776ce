"""After which pass a culprit's program is wrong: in the terminal, in Markdown, and as a picture on the page."""

import io
import math

from rich.console import Console

from precision_bisect.bisect.pages.render import PLOT_HEIGHT, PLOT_WIDTH, bisection_address, ladder
from precision_bisect.bisect.pages.site import Site
from precision_bisect.bisect.report.model import (
    EXPLANATION,
    ChangedStatement,
    ExplanationReport,
    PassResult,
    Proof,
    QuotedChange,
    QuotedStatement,
)
from precision_bisect.bisect.report.phrases import explanation_lines
from precision_bisect.bisect.report.report_files import render_markdown
from precision_bisect.bisect.report.terminal import print_report
from precision_bisect.runner.localization import Localization
from precision_bisect.store.durable_files import write_document

from .stored_bisection import StoredBisection


def statement(line: int, text: str) -> QuotedStatement:
    return QuotedStatement(file=f"0{line}_after_Fold.py", line=line, statement=text, lines=(text,))


BEFORE, AFTER = (
    statement(2, "m: pl.Tile[[8, 8], pl.FP32] = pl.tile.muls(e, 2.0)"),
    statement(3, "m: pl.Tile[[8, 8], pl.FP32] = pl.tile.muls(e, 2.5)"),
)


def rung(order: int, error: float | None, *, faults: int = 0) -> PassResult:
    """A pass after which the program errs by so many tolerances; None where it was not executed."""
    state = "not executed" if error is None else "right" if error <= 1 else "wrong"
    return PassResult(
        order=order,
        name=f"Pass{order}",
        state=state,
        error="Infinity" if error == math.inf else error,
        faults=faults,
        same_as=None,
        problem=None,
        seconds=0.0,
    )


def explained(*passes: PassResult) -> ExplanationReport:
    bad = next((each for each in passes if each.state == "wrong" or each.faults), None)
    change = QuotedChange(function="kernel", before=(BEFORE,), after=(AFTER,), tiles=())
    return ExplanationReport(
        verdict="right_ir" if bad is None else "pass_changed_values",
        message="the answer",
        build="build",
        inputs=("x",),
        outputs=("y",),
        rtol=1e-3,
        atol=1e-5,
        check=None,
        passes=passes,
        last_good=None if bad is None else f"{bad.order - 1:02} Pass{bad.order - 1}",
        first_bad=None if bad is None else f"{bad.order:02} {bad.name}",
        candidates=(),
        changed=None if bad is None else ChangedStatement(variable="m", before=BEFORE, after=AFTER),
        misplaced=(),
        proof=None
        if bad is None
        else Proof(cause=(change,), refuted=(), changes=2, context=0, runs=3, problem=""),
        notes=(),
        steps=(),
        next_command=None,
    )


WRONG = explained(rung(0, 0.0), rung(1, None), rung(2, 0.25), rung(3, 400.0), rung(4, 400.0))


def test_the_lines_name_the_pass_both_statements_and_the_proof() -> None:
    assert [*explanation_lines(WRONG)] == [
        ("answer", "the answer"),
        ("passes", "+?+xx (+ right, x wrong, ? not executed)"),
        ("", "right after 02 Pass2, wrong after 03 Pass3"),
        ("statement", "03_after_Fold.py:3\n- m = pl.tile.muls(e, 2.0)\n+ m = pl.tile.muls(e, 2.5)"),
        (
            "proof",
            "undoing 3: m = pl.tile.muls(e, 2.5) makes the result right, and that alone makes it wrong "
            "(1 of 2 changes, 3 runs)",
        ),
    ]


def test_wrong_passes_are_drawn_over_the_tolerance_and_the_first_is_named() -> None:
    drawn = ladder(WRONG)
    assert drawn is not None
    assert drawn.limit is not None
    assert drawn.logarithmic
    zero, not_executed, right, first, last = drawn.marks
    assert first.y == last.y < drawn.limit < right.y < zero.y < not_executed.y == PLOT_HEIGHT - 10
    assert [mark.x for mark in drawn.marks] == sorted({mark.x for mark in drawn.marks})
    assert all(0 <= mark.x <= PLOT_WIDTH for mark in drawn.marks)
    assert drawn.named is first
    assert [mark.point.words for mark in drawn.marks[:2]] == ["0 tolerances, right", "not executed"]


def test_a_tile_in_the_wrong_place_is_marked_though_its_values_are_right() -> None:
    drawn = ladder(explained(rung(0, 0.0), rung(1, 0.5, faults=1)))
    assert drawn is not None
    assert drawn.limit is not None
    assert drawn.named is drawn.marks[1]
    assert drawn.named.y > drawn.limit
    assert (drawn.named.point.judgement, drawn.named.point.words) == (
        "bad",
        "0.5 tolerances, right values, wrong memory",
    )


def test_a_right_program_has_no_named_pass_and_one_that_cannot_run_lies_at_the_edge() -> None:
    right = ladder(explained(rung(0, 0.0), rung(1, 0.0)))
    assert right is not None
    assert right.named is None
    contradicting = ladder(explained(rung(0, 0.5), rung(1, math.inf)))
    assert contradicting is not None
    assert contradicting.named is not None
    assert contradicting.named.y == 5
    assert ladder(explained(rung(0, None), rung(1, None))) is None


def beside_report(stored: StoredBisection, found: ExplanationReport) -> None:
    stored.request.output.mkdir(parents=True, exist_ok=True)
    (stored.request.output / EXPLANATION).write_text(found.model_dump_json())


def page_of(stored: StoredBisection) -> str:
    with stored.sessions() as session:
        return Site(session).pages[bisection_address(stored.name)].make().decode()


def test_a_localization_leaves_it_in_the_terminal_in_markdown_and_on_the_page(
    culprit: StoredBisection,
) -> None:
    beside_report(culprit, WRONG)
    assert culprit.report().explanation is None  # another bisection may have left it there
    localization = Localization(status="nothing", message="compared")
    culprit.journal.note_localization(write_document(localization))
    report = culprit.report()
    assert report.explanation == WRONG
    stream = io.StringIO()
    print_report(report, culprit.request.output, Console(file=stream, width=200))
    assert "passes     +?+xx (+ right, x wrong, ? not executed)" in stream.getvalue()
    assert "           + m = pl.tile.muls(e, 2.5)\n" in stream.getvalue()
    markdown = render_markdown(report)
    assert "## After each pass\n" in markdown
    assert "```diff\n- m = pl.tile.muls(e, 2.0)\n+ m = pl.tile.muls(e, 2.5)\n```" in markdown
    _, _, part = page_of(culprit).partition('<h2 id="passes">After each pass</h2>')
    picture, _, text = part.partition("</figure>")
    assert picture.count("<circle") == 2
    assert picture.count('<path class="m-bad"') == 2
    assert ">03 Pass3</text>" in picture
    assert "<title>03 Pass3: 400 tolerances, wrong</title>" in picture
    assert picture.count('<line class="limit"') == 2
    assert (
        "The dashed lines are the tolerance, and the first wrong pass. A square was not executed." in picture
    )
    assert "- m = pl.tile.muls(e, 2.0)\n+ m = pl.tile.muls(e, 2.5)\n" in text
    assert "in tolerances, logarithmic. The dashed" in picture
    beside_report(culprit, explained(rung(0, 0.5), rung(1, 2.0)))
    assert "in tolerances. The dashed lines are" in page_of(culprit)
    beside_report(culprit, explained(rung(0, 0.0), rung(1, 0.0)))
    picture = page_of(culprit).partition('<h2 id="passes">')[2].partition("</figure>")[0]
    assert picture.count('<line class="limit"') == 1
    assert "The dashed line is the tolerance.<" in picture


def test_a_file_that_is_no_explanation_costs_no_report(culprit: StoredBisection) -> None:
    localization = Localization(status="nothing", message="compared")
    culprit.journal.note_localization(write_document(localization))
    beside_report(culprit, WRONG)
    (culprit.request.output / EXPLANATION).write_text('{"passes": 3}')
    assert culprit.report().explanation is None
