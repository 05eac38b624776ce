"""The command `explain`: the cause of a failure from the dumps of one build, without a good commit.

`explain_build` loads the dumps and the frozen data of a build, calls `explain` of `meaning`, and prints the answer as
text or JSON. `ExplanationReport` is that JSON. Its schema is docs/explanation.schema.json, which this command writes:

python -m precision_bisect.bisect.explain_command > docs/explanation.schema.json
"""

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import torch

from ..meaning.ir import DumpLine, MeaningError, source_name
from ..meaning.ladder import (
    CONTEXT_LINES,
    CheckEvidence,
    Excerpt,
    FirstDifference,
    Ladder,
    LadderExplanation,
    LadderVerdict,
    PassCase,
    Rung,
    State,
    dump_lines,
    excerpt,
    explain,
    read_frontend,
)
from ..meaning.values import Finding, FindingKind
from ..runner.build_output.directory import TensorFolder
from ..runner.build_output.files import BuildOutputError
from ..runner.compare.judges import HARNESS_TOLERANCE
from ..runner.errors import UserError
from ..runner.stack import Model
from ..store.durable_files import Document, published_schema
from ..store.vocabulary import plural
from .exit_codes import run_command
from .options import ExplainOptions
from .report.model import Metric, to_metric
from .report.phrases import cut, indented_line, one_line

FOUND, NOTHING_WRONG, UNDECIDED = 0, 3, 6
"""These exit codes mean the same as those of `reduce`."""

Shown = TypeVar("Shown", CheckEvidence, Ladder, FirstDifference)

_MOST_COLUMNS = 80
"""The text has at most this many columns. It fits a terminal of the usual width, and a log."""
_INDENT = 9
"""Labels take this many columns. The longest one and a space fit into them."""
_PARAMETER_NAMES = 8
"""An error names at most this many parameters of a kernel, so that it stays one sentence."""
_MARKS = {State.RIGHT: "+", State.WRONG: "x", State.NOT_EXECUTED: "?"}
_MEMORY_MARK = "m"
_ANNOTATION = re.compile(r"(\s*\w+): pl\.\S.*? = ")


class QuotedStatement(Model):
    """A statement of a dump, with the lines around it."""

    file: str
    line: int
    statement: str
    lines: tuple[str, ...]


class ChangedStatement(Model):
    """The first variable whose value differs; `before` is its statement before the pass, if there is one."""

    variable: str
    before: QuotedStatement | None
    after: QuotedStatement


class MisplacedTile(Model):
    """A tile whose bytes are not what an operation needs.

    `made` is the statement that makes `tile`, `used` the one that needs it, `written` the one that makes `other`. Bytes
    count from the beginning of the memory space, or of the allocation `base`.
    """

    kind: str
    sentence: str
    operation: str
    tile: str
    other: str | None
    space: str
    base: str | None
    first_byte: int
    bytes: int
    rows: tuple[int, int] | None
    made: QuotedStatement | None
    used: QuotedStatement
    written: QuotedStatement | None


class PassResult(Model):
    """What came of executing the dump after a pass.

    `error` is in tolerances. `same_as` names the pass whose dump says the same. `faults` counts tiles that lie where
    they must not.
    """

    order: int
    name: str
    state: Literal["right", "wrong", "not executed"]
    error: Metric | None
    faults: int
    same_as: str | None
    problem: str | None
    seconds: float


class CheckReport(Model):
    """What is known of the check, and of which outputs.

    An output is `out_of_reach` where the expected values, rounded to its type, fail. It is `unchanged` where a run that
    writes nothing passes. `frontend_error` is that of the program before any pass, in tolerances.
    """

    cannot_fail: tuple[str, ...]
    out_of_reach: tuple[str, ...]
    not_finite: tuple[str, ...]
    unchanged: tuple[str, ...]
    frontend_error: Metric | None
    problem: str | None


class StepTime(Model):
    """A step and its time."""

    step: str
    seconds: float


class ExplanationReport(Document):
    """The answer.

    - `verdict` says what explains the failure, and `message` says it in a sentence.
    - `last_good` and `first_bad` are the passes on both sides of the change. `candidates` are those that can have made
      it: several, where dumps between the two were not executed.
    - `changed` is set where a pass changed a value, and `misplaced` where it put a tile where it must not lie.
    - `next_command` goes on where the IR is right.
    """

    schema_version: Literal[1] = 1
    verdict: Literal[
        "check_cannot_fail",
        "tolerance_out_of_reach",
        "reference_disagrees",
        "pass_changed_values",
        "memory_fault",
        "right_ir",
        "nothing_executed",
    ]
    message: str
    build: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rtol: float
    atol: float
    check: CheckReport | None
    passes: tuple[PassResult, ...]
    last_good: str | None
    first_bad: str | None
    candidates: tuple[str, ...]
    changed: ChangedStatement | None
    misplaced: tuple[MisplacedTile, ...]
    steps: tuple[StepTime, ...]
    next_command: str | None


def schema_text() -> str:
    """Return the JSON schema of what `--json` prints, as text."""
    return published_schema(ExplanationReport)


def explain_build(options: ExplainOptions) -> int:
    """Print why the build's outputs are wrong, and return the exit code."""

    def body() -> int:
        try:
            loaded = _load(options)
            explanation = explain(loaded.dumps, loaded.case)
            report = _report(options, loaded, explanation)
        except (BuildOutputError, MeaningError) as error:
            raise UserError(str(error)) from error
        print(report.model_dump_json(indent=2) if options.as_json else "\n".join(_text(report)))
        return _exit_code(explanation)

    return run_command(body)


def _exit_code(explanation: LadderExplanation) -> int:
    if explanation.verdict is LadderVerdict.NOTHING_EXECUTED:
        return UNDECIDED
    if explanation.verdict is not LadderVerdict.RIGHT_IR:
        return FOUND
    return UNDECIDED if explanation.not_executed else NOTHING_WRONG


# What a build holds


@dataclass(frozen=True)
class _Loaded:
    dumps: Path
    case: PassCase
    given: tuple[str, ...]
    """The inputs that were found. What else the case has are outputs that begin as zeros."""


def _load(options: ExplainOptions) -> _Loaded:
    build = options.build
    if not build.is_dir():
        raise UserError(
            f"{build}: expected a build directory or a folder of dumps, found none; check the path"
        )
    dumps = build / "passes_dump"
    if not dumps.is_dir():
        dumps = build
        if not any(build.glob("[0-9]*_*.py")):
            raise UserError(
                f"{build}: expected passes_dump/, found none; compile the case with --dump-passes"
            )
    inputs = _tensors(options.inputs, build / "data" / "in", "--inputs")
    expected = _tensors(options.expected, build / "data" / "out", "--expected")
    _check_names(dumps, expected)
    # An output that the case does not initialize; the harness, too, begins with zeros.
    zeros = {name: torch.zeros_like(value) for name, value in expected.items() if name not in inputs}
    case = PassCase(
        inputs={**inputs, **zeros},
        expected=expected,
        rtol=HARNESS_TOLERANCE.rtol if options.rtol is None else options.rtol,
        atol=HARNESS_TOLERANCE.atol if options.atol is None else options.atol,
    )
    return _Loaded(dumps, case, tuple(inputs))


def _tensors(typed: Path | None, default: Path, option: str) -> dict[str, torch.Tensor]:
    folder = default if typed is None else typed
    if not folder.is_dir():
        raise UserError(
            f"{folder}: expected a folder of NAME.pt files, found none; run the case with --save-data, or name one: "
            f"{option} DIR"
        )
    opened = TensorFolder.open(folder)
    if not opened.names:
        raise UserError(
            f"{folder}: expected NAME.pt files, found none; name a folder that has some: {option} DIR"
        )
    return {name: opened.tensor(name).torch() for name in opened.names}


def _check_names(dumps: Path, expected: Mapping[str, torch.Tensor]) -> None:
    """Each expected output must be a parameter of the program, where that can be read."""
    try:
        entry = read_frontend(dumps).entry
    except MeaningError:
        return  # the ladder says so
    names = {name for each in entry.parameters for name in (each.name, source_name(each.name))}
    for name in expected:
        if name not in names:
            known = ", ".join(source_name(each.name) for each in entry.parameters[:_PARAMETER_NAMES])
            raise UserError(
                f"expected outputs named as parameters of {entry.name} ({known}), found {name!r}; rename its file"
            )


# What is reported


def _report(options: ExplainOptions, loaded: _Loaded, explanation: LadderExplanation) -> ExplanationReport:
    ladder = _evidence(explanation, Ladder)
    check = _evidence(explanation, CheckEvidence)
    difference = _evidence(explanation, FirstDifference)
    bad, good = explanation.first_bad, explanation.last_good
    rungs = ladder.rungs if ladder is not None else ()
    candidates: tuple[str, ...] = ()
    if bad is not None and good is not None:
        between = rungs[rungs.index(good) + 1 : rungs.index(bad) + 1]
        candidates = tuple(_pass_name(rung) for rung in between)
    return ExplanationReport(
        verdict=explanation.verdict.name.lower(),  # pyright: ignore[reportArgumentType]
        message=_message(explanation, check, difference, candidates),
        build=str(options.build),
        inputs=loaded.given,
        outputs=tuple(loaded.case.expected),
        rtol=loaded.case.rtol,
        atol=loaded.case.atol,
        check=None if check is None else _check_report(check),
        passes=tuple(map(_pass_result, rungs)),
        last_good=None if good is None else _pass_name(good),
        first_bad=None if bad is None else _pass_name(bad),
        candidates=candidates,
        changed=None if difference is None else _changed_statement(difference),
        misplaced=() if bad is None else _misplaced_tiles(bad),
        steps=tuple(StepTime(step=step.name.value, seconds=step.seconds) for step in explanation.steps),
        next_command=_next_command(options.build) if explanation.verdict is LadderVerdict.RIGHT_IR else None,
    )


def _evidence(explanation: LadderExplanation, kind: type[Shown]) -> Shown | None:
    return next((step.evidence for step in explanation.steps if isinstance(step.evidence, kind)), None)


def _pass_name(rung: Rung) -> str:
    return f"{rung.dump.order:02} {rung.dump.pass_name}"


def _pass_result(rung: Rung) -> PassResult:
    return PassResult(
        order=rung.dump.order,
        name=rung.dump.pass_name,
        state=rung.state.value,
        error=None if rung.error is None else to_metric(rung.error),
        faults=len(rung.faults),
        same_as=rung.same_as,
        problem=None if rung.problem is None else one_line(str(rung.problem)),
        seconds=rung.seconds,
    )


def _check_report(check: CheckEvidence) -> CheckReport:
    return CheckReport(
        cannot_fail=check.outputs_that_cannot_fail,
        out_of_reach=check.outputs_out_of_reach,
        not_finite=check.outputs_not_finite,
        unchanged=check.outputs_unchanged,
        frontend_error=None if check.frontend_error is None else to_metric(check.frontend_error),
        problem=None if check.problem is None else one_line(str(check.problem)),
    )


def _index_in_excerpt(line: int) -> int:
    """Return where the statement of a line stands among the lines of its excerpt."""
    return min(line - 1, CONTEXT_LINES)


def _quote(found: Excerpt) -> QuotedStatement:
    at = _index_in_excerpt(found.place.line)
    return QuotedStatement(
        file=found.place.file,
        line=found.place.line,
        statement=found.lines[at].strip() if at < len(found.lines) else "",
        lines=found.lines,
    )


def _changed_statement(difference: FirstDifference) -> ChangedStatement:
    return ChangedStatement(
        variable=difference.variable,
        before=None if difference.before is None else _quote(difference.before),
        after=_quote(difference.after),
    )


def _misplaced_tiles(bad: Rung) -> tuple[MisplacedTile, ...]:
    lines = dump_lines(bad.dump.path)
    return tuple(_misplaced_tile(each, lines) for each in bad.faults)


def _misplaced_tile(finding: Finding, lines: Sequence[str]) -> MisplacedTile:
    def quoted(place: DumpLine | None) -> QuotedStatement | None:
        return None if place is None else _quote(excerpt(lines, place))

    return MisplacedTile(
        kind=finding.kind.value,
        sentence=one_line(finding.describe()),
        operation=finding.operation,
        tile=finding.tile,
        other=finding.other,
        space=finding.space.value,
        base=finding.base,
        first_byte=finding.first_byte,
        bytes=finding.bytes,
        rows=finding.rows,
        made=quoted(_definition(finding, lines)),
        used=_quote(excerpt(lines, finding.place)),
        written=quoted(finding.written_at),
    )


def _definition(finding: Finding, lines: Sequence[str]) -> DumpLine | None:
    """Return the last line before the one at fault that makes the tile."""
    makes = re.compile(rf"\s*{re.escape(finding.tile)}\s*:")
    before = lines[: finding.place.line]
    numbers = [number for number, line in enumerate(before, 1) if makes.match(line)]
    return DumpLine(finding.place.file, numbers[-1]) if numbers else None


def _next_command(build: Path) -> str:
    return f"reduce {shlex.quote(str(build))} --localize-only --stack STACK"


def _change(bad: Rung | None, difference: FirstDifference | None) -> str:
    if bad is not None and bad.problem is not None:
        return f"makes a program that contradicts itself: {one_line(str(bad.problem))}"
    value = "" if difference is None else f", first that of {difference.variable}"
    return f"changes what the program computes{value}"


def _message(
    explanation: LadderExplanation,
    check: CheckEvidence | None,
    difference: FirstDifference | None,
    candidates: tuple[str, ...],
) -> str:
    """The answer in a sentence or two, without a claim of proof: nothing is left out of the compiler here."""
    bad, missing = explanation.first_bad, explanation.not_executed
    where = "no pass" if bad is None else f"pass {_pass_name(bad)}"
    match explanation.verdict:
        case LadderVerdict.CHECK_CANNOT_FAIL:
            names = ", ".join(check.outputs_that_cannot_fail) if check is not None else ""
            text = f"the check passes whatever {names} holds: correct the tolerance or the expected outputs"
        case LadderVerdict.TOLERANCE_OUT_OF_REACH:
            names = ", ".join(check.outputs_out_of_reach) if check is not None else ""
            text = f"the tolerance is below one rounding of the type of {names}: give --rtol and --atol"
        case LadderVerdict.REFERENCE_DISAGREES:
            text = "the program is wrong before any pass: the kernel, its inputs or its reference is at fault"
        case LadderVerdict.PASS_CHANGED_VALUES:
            text = f"{where} {_change(bad, difference)}"
        case LadderVerdict.MEMORY_FAULT:
            text = f"{where} {'misplaces a tile' if bad is None else _placement(bad.faults[0])}"
        case LadderVerdict.RIGHT_IR if missing == 0:
            text = (
                "the IR is right after every pass; if the run is wrong, what follows the passes is at fault"
            )
        case LadderVerdict.RIGHT_IR:
            text = f"not decided: {plural(missing, 'dump')} could not be executed, and the IR is right after the others"
        case LadderVerdict.NOTHING_EXECUTED:
            text = "not decided: no dump could be executed"
    if len(candidates) > 1:
        text += f", or one of {', '.join(candidates[:-1])}, whose dumps could not be executed"
    return text


def _placement(finding: Finding) -> str:
    """What a pass does by it, as the rest of a sentence."""
    if finding.kind is FindingKind.NEVER_WRITTEN:
        return f"has {finding.tile} read, which nothing has written"
    if finding.other is None:
        return f"puts {finding.tile} where it must not lie"
    return f"puts {finding.other} over {finding.tile}, which is still read"


# The text


def _text(report: ExplanationReport) -> Iterator[str]:
    """At most 24 lines of 80 columns."""
    seconds = {step.step: f" ({step.seconds:.1f} s)" for step in report.steps}
    judged = f"rtol {report.rtol:g}, atol {report.atol:g}"
    yield from _row("case", f"{Path(report.build).name}: {', '.join(report.outputs)} by {judged}", most=1)
    if report.check is not None:
        yield from _row("check", _check_text(report.check) + seconds.get("check", ""), most=3)
    if report.passes:
        yield from _ladder_rows(report, seconds.get("ladder", ""))
    if report.changed is not None:
        if report.changed.before is not None:
            yield from _statement_rows("before", report.changed.before)
        yield from _statement_rows("after", report.changed.after)
    if report.misplaced:
        yield from _memory_rows(report.misplaced)
    yield from _row("answer", report.message, most=3)
    if report.next_command is not None:
        yield from _row("next", report.next_command, most=2)


def _row(label: str, text: str, *, most: int) -> Iterator[str]:
    width = _MOST_COLUMNS - _INDENT
    lines = textwrap.wrap(one_line(text), width) or [""]
    if len(lines) > most:
        lines = [*lines[: most - 1], cut(f"{lines[most - 1]} {lines[most]}", width)]
    for index, line in enumerate(lines):
        yield f"{label if index == 0 else '':{_INDENT}}{line}".rstrip()


def _check_text(check: CheckReport) -> str:
    if check.cannot_fail:
        text = f"cannot fail: {', '.join(check.cannot_fail)} moved by ten tolerances still passes"
    elif check.out_of_reach:
        text = f"cannot pass: {', '.join(check.out_of_reach)} rounded to its own type fails"
    else:
        text = "can fail: each output moved by ten tolerances fails"
    if check.not_finite:
        text += f"; expected values that are not finite: {', '.join(check.not_finite)}"
    if check.unchanged:
        text += f"; as before the run: {', '.join(check.unchanged)}"
    if check.frontend_error is not None:
        text += f"; the program before any pass errs by {float(check.frontend_error):.2g} tolerances"
    return text


def _ladder_rows(report: ExplanationReport, seconds: str) -> Iterator[str]:
    marks = "".join(
        _MEMORY_MARK if each.faults and each.state == "right" else _MARKS[State(each.state)]
        for each in report.passes
    )
    yield from _row("ladder", marks + seconds, most=4)
    meanings = {"+": "right", "x": "wrong", _MEMORY_MARK: "right values, wrong memory", "?": "not executed"}
    legend = ", ".join(f"{mark} {meaning}" for mark, meaning in meanings.items() if mark in marks)
    yield from _row("", legend, most=1)
    if report.first_bad is not None:
        yield from _row("", f"right after {report.last_good}, wrong after {report.first_bad}", most=2)
    problem = next((each.problem for each in report.passes if each.problem is not None), None)
    if problem is not None:
        yield from _row("", f"first ?: {problem}", most=2)


def _statement_rows(label: str, found: QuotedStatement) -> Iterator[str]:
    """The statement, marked, between the lines around it, without the types, which would fill the screen."""
    yield from _row(label, f"{found.file}:{found.line}", most=1)
    at = _index_in_excerpt(found.line)
    first = max(0, at - 1)
    for index, line in enumerate(found.lines[first : at + 2], first):
        mark = ">" if index == at else " "
        text = indented_line(_strip_type(line)).replace(" " * 8, "", 1)
        yield cut(f"{'':{_INDENT - 2}}{mark} {text}", _MOST_COLUMNS)


def _memory_rows(misplaced: tuple[MisplacedTile, ...]) -> Iterator[str]:
    fault = misplaced[0]
    more = f"; and {plural(len(misplaced) - 1, 'fault')} more, see --json" if len(misplaced) > 1 else ""
    yield from _row("memory", fault.sentence + more, most=4)
    rows = {"tile": fault.made, "other": fault.written, "used": fault.used}
    shown: set[int] = set()
    for label, statement in rows.items():
        if statement is not None and statement.line not in shown:
            shown.add(statement.line)
            yield from _row(label, f"{statement.line}: {_strip_type(statement.statement)}", most=2)


def _strip_type(line: str) -> str:
    return _ANNOTATION.sub(r"\1 = ", line, count=1)


if __name__ == "__main__":
    print(schema_text(), end="")
