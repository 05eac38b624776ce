"""All passes of a case in order: right until pass k, wrong after it.

A compiler that dumps its IR after each pass leaves `passes_dump/00_frontend.py`, `01_after_InlineFunctions.py` and so
on. `climb` runs each dump on the case's inputs and compares its outputs with what is expected. A dump that says the
same as the one before it is not run again. From the pass on that gives tiles their bytes, a dump runs on bytes, and
the findings of `memory` belong to its rung.

Where a pass makes the result wrong, `first_difference` runs the dumps on both sides of it once more. It says at which
statement a value first differs. Variables are paired by their names in the case, without what passes add.

`explain` says why a case is wrong, from its dumps alone, in the order of what is cheapest to look at: first the check,
then the ladder, then memory. It stops when it has shown the cause. Its answer is typed: a `LadderVerdict`, the pass if
one is to blame, and for each step its evidence and its time. A pass is named as the place where the result turns wrong.
Only a run without it proves that it is the cause, and no such run is made here.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import reduce
from operator import add
from pathlib import Path

import torch

from .arithmetic import ArithmeticMode, Numbers, round_floats
from .dump_reader import read_dump
from .execution import Execution, Frame
from .ir import (
    ArrayType,
    Assign,
    Call,
    Definition,
    DumpLine,
    ElementType,
    IrProgram,
    MeaningError,
    MemorySpace,
    TileType,
    Variable,
    source_name,
    walk,
)
from .memory import CAPACITIES, MemoryExecution
from .values import Array, Finding, FindingKind, Value

Tensor = torch.Tensor

_DUMP = re.compile(r"(\d+)_(?:after_)?(\w+)\.py")
"""The name of a dump: the place of its pass, and the pass."""

_ADDRESSES = "AllocateMemoryAddr"
"""After this pass, offsets count from the beginning of a memory space."""

_PLANNERS = ("MemoryReuse", "BasicMemoryReuse")
"""After these passes, a value that a loop or branch hands on lies where its reader looks for it."""

MOST_DUMPS = 200
"""A folder with more dumps is refused. The compiler has a few dozen passes, so such a folder is something else."""

CONTEXT_LINES = 3
"""An excerpt shows this many lines before and after its statement, as a unified diff does."""

_MOST_COLUMNS = 400
"""An excerpt cuts its lines here: a statement's types can be longer than a reader wants."""


@dataclass(frozen=True)
class DumpFile:
    """The IR after a pass; `order` is its place among the passes."""

    order: int
    pass_name: str
    path: Path


def list_dumps(folder: Path) -> list[DumpFile]:
    """The dumps of a folder in the order of the passes. Raises a `MeaningError` where there is none."""
    found = [
        DumpFile(int(match[1]), match[2], path)
        for path in folder.iterdir()
        if (match := _DUMP.fullmatch(path.name)) and path.is_file()
    ]
    if not found or len(found) > MOST_DUMPS:
        raise MeaningError(
            DumpLine(folder.name, 1),
            f"expected 1 to {MOST_DUMPS} dumps named NN_after_PASS.py, found {len(found)}",
        )
    return sorted(found, key=lambda dump: dump.order)


@dataclass(frozen=True, kw_only=True)
class PassCase:
    """The inputs and the expected outputs of a program. An element may err by `atol + rtol * |expected|`."""

    inputs: Mapping[str, Tensor]
    expected: Mapping[str, Tensor]
    rtol: float
    atol: float
    capacities: Mapping[MemorySpace, int] = field(default_factory=lambda: CAPACITIES)


class State(Enum):
    """Whether a dump's result is right, if that is known."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_EXECUTED = "not executed"


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A dump and what came of running it.

    `error` is the largest error in units of the tolerance; above 1 is wrong. `is_wrong_in_bytes` says that the values
    alone are right and the bytes make them wrong. `same_as` names the pass whose dump says the same.
    """

    dump: DumpFile
    state: State
    error: float | None = None
    problem: MeaningError | None = None
    findings: tuple[Finding, ...] = ()
    is_wrong_in_bytes: bool = False
    same_as: str | None = None
    seconds: float = 0.0

    @property
    def faults(self) -> tuple[Finding, ...]:
        """Return the findings that are faults: elements that no one wrote may be read where no output depends on
        them."""
        if self.state is State.WRONG:
            return self.findings
        return tuple(finding for finding in self.findings if finding.kind is not FindingKind.NEVER_WRITTEN)

    @property
    def is_good(self) -> bool:
        """The result is right, and no tile lies where it must not."""
        return self.state is State.RIGHT and not self.faults


@dataclass(frozen=True)
class Excerpt:
    """A statement and the lines around it."""

    place: DumpLine
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class FirstDifference:
    """The first statement whose value differs; `before` is its counterpart before the pass, if there is one."""

    variable: str
    after: Excerpt
    before: Excerpt | None


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The rungs in the order of the passes."""

    rungs: tuple[Rung, ...]

    @property
    def first_bad(self) -> Rung | None:
        """Return the first rung that is wrong, or has findings, after one that is good."""
        was_good = False
        for rung in self.rungs:
            if rung.state is State.NOT_EXECUTED:
                continue
            if was_good and not rung.is_good:
                return rung
            was_good = was_good or rung.is_good
        return None

    @property
    def last_good(self) -> Rung | None:
        """Return the last good rung before the first bad one; the last good one of all where none is bad."""
        bad = self.first_bad
        before = self.rungs if bad is None else self.rungs[: self.rungs.index(bad)]
        return next((rung for rung in reversed(before) if rung.is_good), None)

    @property
    def starts_wrong(self) -> bool:
        """The program is wrong before any pass: the case or its check is, not the compiler."""
        first = next((rung for rung in self.rungs if rung.state is not State.NOT_EXECUTED), None)
        return first is not None and first.state is State.WRONG


@dataclass(frozen=True)
class _Stage:
    """The compiler's progress with memory by the time of a dump."""

    has_addresses: bool
    is_planned: bool


def climb(folder: Path, case: PassCase) -> Ladder:
    """Run every dump of a folder."""
    dumps = list_dumps(folder)
    assigned = next((dump.order for dump in dumps if dump.pass_name == _ADDRESSES), None)
    planned = next((dump.order for dump in dumps if dump.pass_name in _PLANNERS), None)
    rungs: list[Rung] = []
    previous: tuple[str, Rung] | None = None
    for dump in dumps:
        began = time.perf_counter()
        stage = _Stage(
            has_addresses=assigned is not None and dump.order >= assigned,
            is_planned=planned is not None and dump.order >= planned,
        )
        try:
            program = read_dump(dump.path)
        except MeaningError as error:
            rungs.append(Rung(dump=dump, state=State.NOT_EXECUTED, problem=error))
            continue
        key = f"{program.content_hash} {stage}"
        if previous is not None and previous[0] == key:
            rungs.append(replace(previous[1], dump=dump, same_as=previous[1].dump.pass_name, seconds=0.0))
            continue
        rung = _run(dump, program, case, stage)
        rung = replace(rung, seconds=time.perf_counter() - began)
        previous = key, rung
        rungs.append(rung)
    return Ladder(rungs=tuple(rungs))


def _run(dump: DumpFile, program: IrProgram, case: PassCase, stage: _Stage) -> Rung:
    try:
        if not has_memory(program):
            return _judge(dump, Execution(program).run(case.inputs), case)
        on_bytes = MemoryExecution(
            program,
            addresses_assigned=stage.has_addresses,
            is_planned=stage.is_planned,
            capacities=case.capacities,
        )
        rung = _judge(dump, on_bytes.run(case.inputs), case)
        rung = replace(rung, findings=tuple(on_bytes.findings))
        if rung.state is State.WRONG:
            values = _judge(dump, Execution(program).run(case.inputs), case)
            rung = replace(rung, is_wrong_in_bytes=values.state is State.RIGHT)
        return rung
    except MeaningError as error:
        state = State.WRONG if error.contradicts else State.NOT_EXECUTED
        return Rung(dump=dump, state=state, error=float("inf") if error.contradicts else None, problem=error)


def read_frontend(folder: Path) -> IrProgram:
    """Return the program before any pass. Raises a `MeaningError` where its dump cannot be read."""
    return read_dump(list_dumps(folder)[0].path)


def exact_outputs(program: IrProgram, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a program means in exact arithmetic: that of the frontend is a reference where a case has none.

    Raises a `MeaningError` where it does not run. Tensors that the program leaves as they are are left out.
    """
    outputs = Execution(program, ArithmeticMode.EXACT).run(inputs)
    return {
        name: numbers.centre
        for name, numbers in outputs.items()
        if not torch.equal(numbers.centre, inputs[name].to(numbers.centre.dtype))
    }


def has_memory(program: IrProgram) -> bool:
    """Return whether tiles have bytes."""
    return any(
        isinstance(target.type, TileType) and target.type.reference is not None
        for function in program.functions.values()
        for statement in walk(function.body)
        if isinstance(statement, Assign)
        for target in statement.targets
    )


def _judge(dump: DumpFile, outputs: Mapping[str, Numbers], case: PassCase) -> Rung:
    error = largest_error({name: numbers.centre for name, numbers in outputs.items()}, case)
    return Rung(dump=dump, state=State.RIGHT if error <= 1 else State.WRONG, error=error)


def largest_error(outputs: Mapping[str, Tensor], case: PassCase) -> float:
    """The largest error in units of the tolerance; infinite where an output is missing or is no number."""
    largest = 0.0
    for name, expected in case.expected.items():
        actual = outputs.get(name)
        if actual is None or actual.shape != expected.shape:
            return float("inf")
        wanted, found = expected.to(torch.float64), actual.to(torch.float64)
        allowed = case.atol + case.rtol * wanted.abs()
        same = (found == wanted) | (found.isnan() & wanted.isnan())
        ratio = torch.where(same, 0.0, (found - wanted).abs() / allowed).nan_to_num(
            nan=torch.inf, posinf=torch.inf
        )
        largest = max(largest, float(ratio.max()) if ratio.numel() else 0.0)
    return largest


# The first statement that differs


@dataclass(frozen=True)
class _Sketch:
    """A value in a few numbers: its count, its sum, the sum of its magnitudes, and a weighted sum."""

    count: int
    total: float
    magnitude: float
    weighted: float

    def __add__(self, other: _Sketch) -> _Sketch:
        return _Sketch(
            self.count + other.count,
            self.total + other.total,
            self.magnitude + other.magnitude,
            self.weighted + other.weighted,
        )


@dataclass(frozen=True)
class _Record:
    """A variable's value, in the order of the program."""

    name: str
    place: DumpLine
    sketch: _Sketch


@dataclass(frozen=True)
class _StatementValues:
    """The values that a statement gave its variable, one for each time that it ran; `first` is when it ran first."""

    name: str
    place: DumpLine
    first: int
    lengths: tuple[int, ...]
    sketch: _Sketch

    def is_near(self, other: _StatementValues, tolerance: float) -> bool:
        """Return whether both can be the same elements, up to roundings; cut in other tiles, the order is not seen."""
        mine, theirs = self.sketch, other.sketch
        room = tolerance * max(mine.magnitude, theirs.magnitude) + 1e-30
        pairs = [(mine.total, theirs.total), (mine.magnitude, theirs.magnitude)]
        if self.lengths == other.lengths:
            pairs.append((mine.weighted, theirs.weighted))
        return mine.count == theirs.count and all(
            one == another or abs(one - another) <= room or (one != one and another != another)
            for one, another in pairs
        )


class _Trace(Execution):
    """An execution that notes each tensor and tile that a variable gets."""

    def __init__(self, program: IrProgram) -> None:
        super().__init__(program, ArithmeticMode.STATED)
        self.records: list[_Record] = []
        # By the identity of a target, which lives as long as this does: several statements may name one variable.
        self._places = {
            id(target): statement.place
            for function in program.functions.values()
            for statement in walk(function.body)
            if isinstance(statement, Assign) and not _is_creation(statement)
            for target in statement.targets
        }

    def coerce(self, value: Value, target: Definition, frame: Frame) -> Value:
        """Note the value that is about to get a name."""
        stated = super().coerce(value, target, frame)
        place = self._places.get(id(target))
        if isinstance(stated, Array) and place is not None:
            self.records.append(_Record(source_name(target.name), place, _sketch(stated)))
        return stated


def _sketch(array: Array) -> _Sketch:
    window = tuple(slice(0, length) for length in array.valid)
    values = array.numbers.centre[window].to(torch.float64).reshape(-1)
    # Weights without a pattern that a transposition or a shift would leave as it is.
    weights = torch.arange(1, values.numel() + 1, dtype=torch.float64).mul(0.6180339887498949).frac()
    return _Sketch(values.numel(), float(values.sum()), float(values.abs().sum()), float(values @ weights))


def _is_creation(statement: Assign) -> bool:
    """It gives a variable room, of its own or that of another, and computes no value."""
    value = statement.value
    return isinstance(value, Variable) or (isinstance(value, Call) and value.name.endswith(".create"))


def first_difference(
    before: DumpFile, after: DumpFile, case: PassCase, tolerance: float = 1e-5
) -> FirstDifference | None:
    """Run two dumps; None where each value of the second is one of the first. Raises a `MeaningError`.

    A variable is compared with those of its name that have as many elements in all, however they are cut into tiles.
    """
    right, wrong = _trace(before, case), _trace(after, case)
    differences: list[tuple[_StatementValues, _StatementValues | None]] = []
    for name in dict.fromkeys(each.name for each in wrong):
        for count in dict.fromkeys(each.sketch.count for each in wrong if each.name == name):
            mine, theirs = (
                [each for each in side if (each.name, each.sketch.count) == (name, count)]
                for side in (right, wrong)
            )
            differences += _differences(mine, theirs, tolerance)
    if not differences:
        known = [each for each in wrong if not any(each.is_near(other, tolerance) for other in right)]
        differences = [(each, None) for each in known]
    if not differences:
        return None
    changed, counterpart = min(differences, key=lambda pair: pair[0].first)
    return FirstDifference(
        variable=changed.name,
        after=excerpt(dump_lines(after.path), changed.place),
        before=excerpt(dump_lines(before.path), counterpart.place) if counterpart is not None else None,
    )


def _differences(
    before: Sequence[_StatementValues], after: Sequence[_StatementValues], tolerance: float
) -> list[tuple[_StatementValues, _StatementValues]]:
    """The values of one variable that differ, each beside its counterpart.

    Where a pass made more statements of one, it is enough that one of them has the value: the others have parts of it.
    """
    if len(before) == len(after):
        pairs = zip(after, before, strict=True)
        return [(mine, theirs) for mine, theirs in pairs if not mine.is_near(theirs, tolerance)]
    lost = [each for each in before if not any(each.is_near(other, tolerance) for other in after)]
    strange = [each for each in after if not any(each.is_near(other, tolerance) for other in before)]
    return [(strange[0], lost[0])] if lost and strange else []


def _trace(dump: DumpFile, case: PassCase) -> list[_StatementValues]:
    trace = _Trace(read_dump(dump.path))
    trace.run(case.inputs)
    by_statement: defaultdict[tuple[str, DumpLine], list[tuple[int, _Sketch]]] = defaultdict(list)
    for index, record in enumerate(trace.records):
        by_statement[record.name, record.place].append((index, record.sketch))
    return [
        _StatementValues(
            name=name,
            place=place,
            first=values[0][0],
            lengths=tuple(sketch.count for _, sketch in values),
            sketch=reduce(add, (sketch for _, sketch in values)),
        )
        for (name, place), values in by_statement.items()
    ]


def dump_lines(path: Path) -> list[str]:
    """Return the lines of a dump as text to show."""
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def excerpt(lines: Sequence[str], place: DumpLine) -> Excerpt:
    """Return a line of a dump with the lines around it."""
    first = max(0, place.line - 1 - CONTEXT_LINES)
    near = lines[first : place.line + CONTEXT_LINES]
    return Excerpt(place, tuple(line.rstrip()[:_MOST_COLUMNS] for line in near))


class LadderVerdict(Enum):
    """The explanation of a failure."""

    CHECK_CANNOT_FAIL = "the check passes whatever the outputs are"
    TOLERANCE_OUT_OF_REACH = "the tolerance is below one rounding of the output's type"
    REFERENCE_DISAGREES = "the program is wrong before any pass"
    PASS_CHANGED_VALUES = "a pass changed what the program computes"
    MEMORY_FAULT = "a pass put a tile where it must not lie"
    RIGHT_IR = "the IR is right after every pass that was run"
    NOTHING_EXECUTED = "no dump could be run"


class StepName(Enum):
    """The part of the case that a step examines."""

    CHECK = "check"
    LADDER = "ladder"
    FIRST_STATEMENT = "first statement"
    MEMORY = "memory"


@dataclass(frozen=True, kw_only=True)
class CheckEvidence:
    """The facts about the case's check.

    `frontend_error` is in tolerances. It is the smaller of the frontend's errors in exact arithmetic and as stated.
    """

    outputs_that_cannot_fail: tuple[str, ...]
    outputs_out_of_reach: tuple[str, ...] = ()
    outputs_not_finite: tuple[str, ...] = ()
    outputs_unchanged: tuple[str, ...] = ()
    """A run that writes nothing to these passes, too."""
    frontend_error: float | None = None
    problem: MeaningError | None = None


Evidence = CheckEvidence | Ladder | FirstDifference | tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class ExplanationStep:
    """One step with what it showed."""

    name: StepName
    evidence: Evidence
    seconds: float


@dataclass(frozen=True, kw_only=True)
class LadderExplanation:
    """The answer. `last_good` and `first_bad` are the rungs on both sides of the change, where there is one."""

    verdict: LadderVerdict
    steps: tuple[ExplanationStep, ...]
    last_good: Rung | None = None
    first_bad: Rung | None = None
    not_executed: int = 0
    """The number of dumps that were not run. Each of them may hide the change."""


def explain(folder: Path, case: PassCase) -> LadderExplanation:
    """Explain a failure of the case whose dumps the folder holds. Raises a `MeaningError` where it holds none."""
    steps: list[ExplanationStep] = []
    began = time.perf_counter()

    def note(name: StepName, evidence: Evidence) -> None:
        nonlocal began
        now = time.perf_counter()
        steps.append(ExplanationStep(name=name, evidence=evidence, seconds=now - began))
        began = now

    check = examine_check(folder, case)
    note(StepName.CHECK, check)
    if check.outputs_that_cannot_fail:
        return LadderExplanation(verdict=LadderVerdict.CHECK_CANNOT_FAIL, steps=tuple(steps))
    if check.outputs_out_of_reach:
        return LadderExplanation(verdict=LadderVerdict.TOLERANCE_OUT_OF_REACH, steps=tuple(steps))
    if check.frontend_error is not None and check.frontend_error > 1:
        return LadderExplanation(verdict=LadderVerdict.REFERENCE_DISAGREES, steps=tuple(steps))
    ladder = climb(folder, case)
    note(StepName.LADDER, ladder)
    missing = sum(rung.state is State.NOT_EXECUTED for rung in ladder.rungs)
    bad, good = ladder.first_bad, ladder.last_good
    if bad is None or good is None:
        if missing == len(ladder.rungs):
            verdict = LadderVerdict.NOTHING_EXECUTED
        else:
            verdict = LadderVerdict.REFERENCE_DISAGREES if ladder.starts_wrong else LadderVerdict.RIGHT_IR
        return LadderExplanation(verdict=verdict, steps=tuple(steps), not_executed=missing)
    if bad.faults:
        note(StepName.MEMORY, bad.faults)
        verdict = LadderVerdict.MEMORY_FAULT
    else:
        try:
            difference = first_difference(good.dump, bad.dump, case)
        except MeaningError:
            difference = None  # the pass is known all the same
        if difference is not None:
            note(StepName.FIRST_STATEMENT, difference)
        verdict = LadderVerdict.PASS_CHANGED_VALUES
    return LadderExplanation(
        verdict=verdict, steps=tuple(steps), last_good=good, first_bad=bad, not_executed=missing
    )


def examine_check(folder: Path, case: PassCase) -> CheckEvidence:
    """Examine whether the check can fail, whether its tolerance can be reached, and whether the frontend passes it."""
    evidence = CheckEvidence(
        outputs_that_cannot_fail=tuple(name for name in case.expected if not _can_fail(name, case)),
        outputs_not_finite=tuple(name for name, each in case.expected.items() if not each.isfinite().all()),
        outputs_unchanged=tuple(name for name in case.expected if _is_unchanged(name, case)),
    )
    try:
        program = read_frontend(folder)
        types = {
            source_name(parameter.name): parameter.type.dtype
            for parameter in program.entry.parameters
            if isinstance(parameter.type, ArrayType)
        }
        error = largest_error(dict(case.inputs) | exact_outputs(program, case.inputs), case)
        if error > 1:
            # A reference that rounds as the program does is met by the program as stated alone.
            stated = Execution(program).run(case.inputs)
            outputs = {name: numbers.centre for name, numbers in stated.items()}
            error = min(error, largest_error(outputs, case))
    except MeaningError as problem:
        return replace(evidence, problem=problem)
    far = tuple(name for name in case.expected if not _is_in_reach(name, types.get(name), case))
    return replace(evidence, outputs_out_of_reach=far, frontend_error=error)


def _can_fail(name: str, case: PassCase) -> bool:
    """One element of the output is moved by ten tolerances: the check must see it."""
    expected = case.expected[name].to(torch.float64)
    moved = expected.clone().reshape(-1)
    allowed = case.atol + case.rtol * moved.abs()
    bounded = allowed.isfinite().nonzero().reshape(-1)
    if not bounded.numel():
        return False
    moved[bounded[0]] += 10 * allowed[bounded[0]]
    outputs = {**case.expected, name: moved.reshape(expected.shape)}
    return largest_error(outputs, case) > 1


def _is_unchanged(name: str, case: PassCase) -> bool:
    """Return whether what the output holds before the run passes."""
    if name not in case.inputs:
        return False
    return largest_error({**case.expected, name: case.inputs[name]}, case) <= 1


def _is_in_reach(name: str, dtype: ElementType | None, case: PassCase) -> bool:
    """The expected values, rounded to the output's type, pass."""
    if dtype is None or not dtype.is_float:
        return True
    rounded = round_floats(case.expected[name].to(torch.float64), dtype)
    return largest_error({**case.expected, name: rounded}, case) <= 1
