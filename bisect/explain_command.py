"""The command `explain`: the cause of a failure from the dumps of one build, without a good commit.

`explain_build` loads the dumps and the frozen data of a build, calls `explain` of `meaning`, and prints the answer as
text or JSON. `ExplanationReport` of `report/model.py` is that JSON. Its schema is docs/explanation.schema.json, which
this command writes:

python -m precision_bisect.bisect.explain_command > docs/explanation.schema.json
"""

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from ..meaning.intervention import PassChange, PassIntervention
from ..meaning.ir import ArrayType, Constant, DumpLine, MeaningError, Statement, Type, source_name
from ..meaning.ladder import (
    CONTEXT_LINES,
    CheckEvidence,
    Excerpt,
    FirstDifference,
    IrNotes,
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
from ..store.durable_files import published_schema
from ..store.vocabulary import cut, indented_line, one_line, plural
from .cli import ERROR, run_command
from .options import ExplainOptions
from .report.model import (
    ChangedStatement,
    CheckReport,
    ExplanationReport,
    Metric,
    MisplacedTile,
    PassResult,
    Proof,
    QuotedChange,
    QuotedStatement,
    StepTime,
    to_metric,
)
from .report.phrases import change_phrase, ladder_lines, proof_phrase, strip_type

FOUND, NOTHING_WRONG, UNDECIDED = 0, 3, 6
"""These exit codes mean the same as those of `reduce`."""
_CHECK_CODES = {FOUND: 1, NOTHING_WRONG: 0, UNDECIDED: 125, ERROR: 125}
"""These are the exit codes of a check script: an IR that cannot be judged is a skip."""

Shown = TypeVar("Shown", CheckEvidence, Ladder, FirstDifference, PassIntervention, IrNotes)

_MAX_COLUMNS = 80
"""The text has at most this many columns. It fits a terminal of the usual width, and a log."""
_INDENT = 9
"""Labels take this many columns. The longest one and a space fit into them."""
_MAX_STATEMENTS = 20
"""A change shows this many of its statements on each side. A pass may rewrite a whole function."""
_PARAMETER_NAMES = 8
"""An error names at most this many parameters of a kernel, so that it stays one sentence."""
_NOTES = 3
"""The text shows at most this many; the JSON has them all."""
_WORD = re.compile(r"\w+")

_NOT_JUDGED = (LadderVerdict.CHECK_CANNOT_FAIL, LadderVerdict.TOLERANCE_OUT_OF_REACH)
"""With these verdicts no dump was executed: they say something about the case, and nothing about a compiler."""


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
        if options.as_json:
            print(report.model_dump_json(indent=2))
        elif options.check:
            print(_stable_message(explanation))
        else:
            print("\n".join(_text(report)))
        return _check_code(explanation) if options.check else _exit_code(explanation)

    code = run_command(body)
    return _CHECK_CODES.get(code, code) if options.check else code


def _check_code(explanation: LadderExplanation) -> int:
    """Return the exit code for a check of one commit, which is wrong whatever pass is to blame."""
    if explanation.verdict is LadderVerdict.WRONG_AT_FIRST_DUMP:
        return FOUND
    return UNDECIDED if explanation.verdict in _NOT_JUDGED else _exit_code(explanation)


def _exit_code(explanation: LadderExplanation) -> int:
    if explanation.verdict in (LadderVerdict.NOTHING_EXECUTED, LadderVerdict.WRONG_AT_FIRST_DUMP):
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
    _check_parameters(dumps, inputs, expected)
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


def _check_parameters(
    dumps: Path, inputs: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]
) -> None:
    """Check that the tensors fit the program's parameters, where these can be read. Raises `UserError`."""
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
    for parameter in entry.parameters:
        shape = _constant_shape(parameter.type)
        for what, tensors in (("input", inputs), ("expected output", expected)):
            tensor = tensors.get(parameter.name, tensors.get(source_name(parameter.name)))
            # A check of no elements cannot fail, which is an answer of its own.
            if shape is None or tensor is None or not tensor.numel() or tuple(tensor.shape) == shape:
                continue
            raise UserError(
                f"{what} {source_name(parameter.name)}: expected shape {[*shape]}, found {[*tensor.shape]}"
            )


def _constant_shape(kind: Type) -> tuple[int, ...] | None:
    """Return a tensor's shape. None where it is no tensor, or not known before a run."""
    if not isinstance(kind, ArrayType):
        return None
    extents = [
        each.value for each in kind.shape if isinstance(each, Constant) and isinstance(each.value, int)
    ]
    return tuple(extents) if len(extents) == len(kind.shape) else None


# What is reported


def _report(options: ExplainOptions, loaded: _Loaded, explanation: LadderExplanation) -> ExplanationReport:
    ladder = _evidence(explanation, Ladder)
    check = _evidence(explanation, CheckEvidence)
    difference = _evidence(explanation, FirstDifference)
    notes = _evidence(explanation, IrNotes)
    intervention = _evidence(explanation, PassIntervention)
    bad, good = explanation.first_bad, explanation.last_good
    rungs = ladder.rungs if ladder is not None else ()
    candidates: tuple[str, ...] = ()
    if bad is not None and good is not None:
        between = rungs[rungs.index(good) + 1 : rungs.index(bad) + 1]
        candidates = tuple(_pass_name(rung) for rung in between)
    message = _message(explanation, numbered=True) + _other_candidates(candidates) + _recoveries(ladder)
    return ExplanationReport(
        verdict=explanation.verdict.name.lower(),  # pyright: ignore[reportArgumentType]
        message=message,
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
        proof=None
        if good is None or bad is None or intervention is None
        else _proof(intervention, good, bad),
        notes=() if notes is None else tuple(one_line(each.describe()) for each in notes.found),
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
        error=_metric(rung.error),
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
        frontend_error=_metric(check.frontend_error),
        input_error=_metric(check.input_error),
        rounding_bound=_metric(check.rounding_bound),
        problem=None if check.problem is None else one_line(str(check.problem)),
    )


def _metric(value: float | None) -> Metric | None:
    return None if value is None else to_metric(value)


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


def _proof(intervention: PassIntervention, good: Rung, bad: Rung) -> Proof:
    sides = dump_lines(good.dump.path), dump_lines(bad.dump.path)

    def quoted(statements: Sequence[Statement], lines: Sequence[str]) -> tuple[QuotedStatement, ...]:
        return tuple(_quote(excerpt(lines, each.place)) for each in statements[:_MAX_STATEMENTS])

    def described(change: PassChange) -> QuotedChange:
        before, after = quoted(change.before, sides[0]), quoted(change.after, sides[1])
        return QuotedChange(function=change.function, before=before, after=after, tiles=change.tiles)

    return Proof(
        cause=tuple(map(described, intervention.cause)),
        refuted=tuple(map(described, intervention.refuted)),
        changes=intervention.count,
        context=intervention.context,
        runs=intervention.runs,
        problem=one_line(intervention.problem),
    )


def _next_command(build: Path) -> str:
    return f"reduce {shlex.quote(str(build))} --localize-only --stack STACK"


def _stable_message(explanation: LadderExplanation) -> str:
    """Return the answer without what changes where another pass comes or goes, since a search compares what is printed.

    Such are the numbers of passes, the lines of dumps, and what passes add to the names of variables.
    """
    return _WORD.sub(lambda word: source_name(word[0]), _message(explanation, numbered=False))


def _message(explanation: LadderExplanation, *, numbered: bool) -> str:
    """Return the answer in a sentence. What is proven stands in a row of its own."""
    bad, missing = explanation.first_bad, explanation.not_executed
    check = _evidence(explanation, CheckEvidence)
    where = "no pass" if bad is None else f"pass {_pass_name(bad) if numbered else bad.dump.pass_name}"
    match explanation.verdict:
        case LadderVerdict.CHECK_CANNOT_FAIL:
            outputs = ", ".join(check.outputs_that_cannot_fail) if check is not None else ""
            return f"the check passes whatever {outputs} holds: correct the tolerance or the expected outputs"
        case LadderVerdict.TOLERANCE_OUT_OF_REACH:
            outputs = ", ".join(check.outputs_out_of_reach) if check is not None else ""
            return f"the tolerance is below one rounding of the type of {outputs}: give --rtol and --atol"
        case LadderVerdict.WRONG_BEFORE_PASSES:
            return "the program is wrong before any pass: the kernel, its inputs or its reference is at fault"
        case LadderVerdict.WRONG_AT_FIRST_DUMP:
            return f"not decided: {_first_executed(explanation, numbered=numbered)}"
        case LadderVerdict.PASS_CHANGED_VALUES:
            return f"{where} {_change(bad, _evidence(explanation, FirstDifference), numbered=numbered)}"
        case LadderVerdict.MEMORY_FAULT:
            return f"{where} {'misplaces a tile' if bad is None else _placement(bad.faults[0])}"
        case LadderVerdict.RIGHT_IR if missing == 0:
            notes = _evidence(explanation, IrNotes)
            noted = ", and no note explains it" if notes is not None and notes.found else ""
            return f"the IR is right after every pass; if the run is wrong{noted}, what follows the passes is at fault"
        case LadderVerdict.RIGHT_IR:
            return f"not decided: {plural(missing, 'dump')} could not be executed, and the IR is right after the others"
        case LadderVerdict.NOTHING_EXECUTED:
            return "not decided: no dump could be executed"


def _first_executed(explanation: LadderExplanation, *, numbered: bool) -> str:
    ladder = _evidence(explanation, Ladder)
    first = None if ladder is None else ladder.first_executed
    if first is None:
        return "no dump could be executed"
    name = _pass_name(first) if numbered else first.dump.pass_name
    what = "is wrong" if first.state is State.WRONG else "misplaces a tile"
    return f"the first dump that could be executed, after {name}, {what}; an earlier pass or the kernel may be at fault"


def _change(bad: Rung | None, difference: FirstDifference | None, *, numbered: bool) -> str:
    if bad is not None and bad.problem is not None:
        problem = str(bad.problem) if numbered else bad.problem.problem
        return f"makes a program that cannot run: {one_line(problem)}"
    value = "" if difference is None else f", first that of {difference.variable}"
    return f"changes what the program computes{value}"


def _placement(finding: Finding) -> str:
    """What a pass does by it, as the rest of a sentence."""
    if finding.kind is FindingKind.NEVER_WRITTEN:
        return f"has {finding.tile} read, which nothing has written"
    if finding.other is None:
        return f"puts {finding.tile} where it must not lie"
    return f"puts {finding.other} over {finding.tile}, which is still read"


def _other_candidates(candidates: Sequence[str]) -> str:
    if len(candidates) < 2:
        return ""
    return f", or one of {', '.join(candidates[:-1])}, whose dumps are missing or could not be executed"


def _recoveries(ladder: Ladder | None) -> str:
    """Return what the ladder says of bad stretches up to the blamed one that end in a good rung."""
    blamed = None if ladder is None else ladder.blamed_stretch
    if ladder is None or blamed is None:
        return ""
    earlier = ladder.bad_stretches[: ladder.bad_stretches.index(blamed)]
    text = "".join(
        f"; it was wrong after {_pass_name(each.first)} too, and right again after {_pass_name(each.good_again)}"
        for each in earlier
        if each.good_again is not None
    )
    if blamed.good_again is not None:
        right = _pass_name(blamed.good_again)
        text += f"; it is right again after {right}, so what follows the passes may be at fault"
    return text


# The text


def _text(report: ExplanationReport) -> Iterator[str]:
    """Yield at most 24 lines of 80 columns."""
    seconds = {step.step: f" ({step.seconds:.1f} s)" for step in report.steps}
    judged = f"rtol {report.rtol:g}, atol {report.atol:g}"
    yield from _row("case", f"{Path(report.build).name}: {', '.join(report.outputs)} by {judged}", most=1)
    if report.check is not None:
        yield from _row("check", _check_text(report.check) + seconds.get("check", ""), most=5)
    if report.passes:
        yield from _ladder_rows(report, seconds.get("ladder", ""))
    if report.changed is not None:
        if report.changed.before is not None:
            yield from _statement_rows("before", report.changed.before)
        yield from _statement_rows("after", report.changed.after)
    if report.misplaced:
        yield from _memory_rows(report.misplaced)
    if report.proof is not None:
        yield from _proof_rows(report.proof, seconds.get("intervention", ""))
    for each in report.notes[:_NOTES]:
        yield from _row("note", each, most=4)
    yield from _row("answer", report.message, most=3)
    if report.next_command is not None:
        yield from _row("next", report.next_command, most=2)


def _row(label: str, text: str, *, most: int) -> Iterator[str]:
    width = _MAX_COLUMNS - _INDENT
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
    if check.input_error is not None and check.rounding_bound is not None:
        text += f", by {float(check.input_error):.2g} more if each input is moved by its last bit"
        text += f", and by rounding alone by at most {float(check.rounding_bound):.2g}"
    return text


def _ladder_rows(report: ExplanationReport, seconds: str) -> Iterator[str]:
    marks, *further = ladder_lines(report)
    yield from _row("ladder", marks + seconds, most=4)
    for line in further:
        yield from _row("", line, most=2)
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
        text = indented_line(strip_type(line)).replace(" " * 8, "", 1)
        yield cut(f"{'':{_INDENT - 2}}{mark} {text}", _MAX_COLUMNS)


def _memory_rows(misplaced: tuple[MisplacedTile, ...]) -> Iterator[str]:
    fault = misplaced[0]
    more = f"; and {plural(len(misplaced) - 1, 'fault')} more, see --json" if len(misplaced) > 1 else ""
    yield from _row("memory", fault.sentence + more, most=4)
    rows = {"tile": fault.made, "other": fault.written, "used": fault.used}
    shown: set[int] = set()
    for label, statement in rows.items():
        if statement is not None and statement.line not in shown:
            shown.add(statement.line)
            yield from _row(label, f"{statement.line}: {strip_type(statement.statement)}", most=2)


def _proof_rows(proof: Proof, seconds: str) -> Iterator[str]:
    yield from _row("proof", proof_phrase(proof, seconds), most=4)
    for change in proof.refuted[:1]:
        text = f"undoing {change_phrase(change)} leaves it wrong, and that alone leaves it right"
        yield from _row("refuted", text, most=3)


if __name__ == "__main__":
    print(schema_text(), end="")
