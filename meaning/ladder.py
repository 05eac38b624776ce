"""Finds the pass of the compiler after which a case is wrong.

A compiler that dumps its IR after each pass leaves `passes_dump/00_frontend.py`, `01_after_InlineFunctions.py` and so
on. `run_dumps` runs each dump on the case's inputs and compares its outputs with what is expected. A dump that equals
the one before it is not run again. After the pass that assigns memory to tiles, a dump runs on bytes, and the findings
of `memory` belong to its rung.

If a pass makes the result wrong, `first_difference` runs the dumps on both sides of it once more. It returns the first
statement whose value differs.

`explain` says why a case is wrong, from its dumps alone. It examines the check, then the ladder, then the change
between two rungs, and stops when it has found the cause. It returns a `LadderVerdict`, the rungs on both sides of the
change, and the evidence and time of each step. A `PassIntervention` may prove which change of the pass is the cause.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import torch

from .arithmetic import ArithmeticMode, Numbers, exact_cast_limit, round_floats
from .dump_reader import hash_text, read_dump, read_program, read_text
from .execution import CaseInputs, Execution, Frame, execution_key
from .intervention import PassChange, PassIntervention, State, first_changed_value, intervene
from .ir import (
    CAPACITIES_950,
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
from .memory import MemoryExecution
from .movement import accumulates
from .operations import Operation
from .values import (
    Array,
    AtomicSpread,
    CastChain,
    Finding,
    FindingKind,
    Invocation,
    IrNote,
    PartialReduction,
    Value,
)

Tensor = torch.Tensor

_DUMP = re.compile(r"(\d+)_(?:after_)?(\w+)\.py")
"""The name of a dump: the place of its pass, and the pass."""

_ADDRESSES = "AllocateMemoryAddr"
"""After this pass, offsets count from the beginning of a memory space."""

_REUSE_PASSES = ("MemoryReuse", "BasicMemoryReuse")
"""After these passes, a loop or branch leaves its results at the addresses where they are read."""

MAX_DUMPS = 200
"""A folder with more dumps is refused. The compiler has a few dozen passes, so such a folder is something else."""

CONTEXT_LINES = 3
"""An excerpt shows this many lines before and after its statement, as a unified diff does."""

_PART = 1 << 14
"""Outputs are compared in parts of so many elements, which takes little memory."""

_MAX_COLUMNS = 400
"""An excerpt has at most this many characters of a line. The types of a statement can be very long."""


@dataclass(frozen=True)
class DumpFile:
    """The IR after a pass. `order` is the pass's place among the passes."""

    order: int
    pass_name: str
    path: Path
    is_missing: bool = False
    """Whether there is no file. Then `pass_name` says so."""


def list_dumps(folder: Path) -> list[DumpFile]:
    """Return the dumps of a folder in the order of the passes.

    Raises a `MeaningError` if there is none, or if something else has a dump's name.
    """
    found = [
        DumpFile(int(match[1]), match[2], path)
        for path in folder.iterdir()
        if (match := _DUMP.fullmatch(path.name))
    ]
    for dump in found:
        if not dump.path.is_file():
            raise MeaningError(DumpLine(dump.path.name, 1), "expected a file, found a folder or a pipe")
    if not found or len(found) > MAX_DUMPS:
        raise MeaningError(
            DumpLine(folder.name, 1),
            f"expected 1 to {MAX_DUMPS} dumps named NN_after_PASS.py, found {len(found)}",
        )
    return sorted(found, key=lambda dump: dump.order)


@dataclass(frozen=True, kw_only=True)
class PassCase:
    """The inputs and the expected outputs of a program. An element may err by `atol + rtol * |expected|`."""

    inputs: Mapping[str, Tensor]
    expected: Mapping[str, Tensor]
    rtol: float
    atol: float
    capacities: Mapping[MemorySpace, int] = field(default_factory=lambda: CAPACITIES_950)


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A dump and the result of its run.

    `error` is the largest error in units of the tolerance. The result is wrong above 1. `is_wrong_in_bytes` says that
    the result is right without memory, and wrong with it. `same_as` names the pass whose dump is equal.
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
        """Return the findings that are faults. A right result may read elements that were never written."""
        if self.state is State.WRONG:
            return self.findings
        return tuple(finding for finding in self.findings if finding.kind is not FindingKind.NEVER_WRITTEN)

    @property
    def is_good(self) -> bool:
        """Return whether the result is right, and no tile lies where it must not."""
        return self.state is State.RIGHT and not self.faults


@dataclass(frozen=True)
class Excerpt:
    """A statement and the lines around it."""

    place: DumpLine
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class FirstDifference:
    """The first statement whose value differs. `before` is its counterpart before the pass, if there is one."""

    variable: str
    after: Excerpt
    before: Excerpt | None


@dataclass(frozen=True)
class BadStretch:
    """Rungs that are wrong, or have findings. Has the first of them, and the good rung after them, if there is one."""

    first: Rung
    good_again: Rung | None = None


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The rungs in the order of the passes."""

    rungs: tuple[Rung, ...]

    @cached_property
    def bad_stretches(self) -> tuple[BadStretch, ...]:
        """Return the stretches of rungs that are wrong, or have findings, each after a good rung."""
        found: list[BadStretch] = []
        executed = [rung for rung in self.rungs if rung.state is not State.NOT_EXECUTED]
        for before, rung in pairwise(executed):
            if before.is_good and not rung.is_good:
                found.append(BadStretch(rung))
            elif found and not before.is_good and rung.is_good:
                found[-1] = BadStretch(found[-1].first, good_again=rung)
        return tuple(found)

    @property
    def blamed_stretch(self) -> BadStretch | None:
        """Return the last stretch if the last rung is bad, else the first one."""
        if not self.bad_stretches:
            return None
        last = self.bad_stretches[-1]
        return last if last.good_again is None else self.bad_stretches[0]

    @property
    def first_bad(self) -> Rung | None:
        """Return the first rung of the blamed stretch."""
        return None if self.blamed_stretch is None else self.blamed_stretch.first

    @property
    def last_good(self) -> Rung | None:
        """Return the last good rung before the first bad one. Without a bad one, return the last good rung."""
        bad = self.first_bad
        before = self.rungs if bad is None else self.rungs[: self.rungs.index(bad)]
        return next((rung for rung in reversed(before) if rung.is_good), None)

    @property
    def first_executed(self) -> Rung | None:
        """Return the first rung that was executed. The passes before it cannot be judged."""
        return next((rung for rung in self.rungs if rung.state is not State.NOT_EXECUTED), None)


@dataclass(frozen=True)
class _MemoryStage:
    """The compiler's progress with memory by the time of a dump."""

    has_addresses: bool
    is_planned: bool


def _find_memory_stage(dump: DumpFile, dumps: Sequence[DumpFile]) -> _MemoryStage:
    assigned = next((each.order for each in dumps if each.pass_name == _ADDRESSES), None)
    planned = next((each.order for each in dumps if each.pass_name in _REUSE_PASSES), None)
    return _MemoryStage(
        has_addresses=assigned is not None and dump.order >= assigned,
        is_planned=planned is not None and dump.order >= planned,
    )


def run_dumps(folder: Path, case: PassCase) -> Ladder:
    """Run every dump of a folder.

    A dump that equals the one before it is not run. One that only names variables otherwise has the same result, but
    findings would name other variables and lines, so then it is run.
    """
    dumps = list_dumps(folder)
    rungs: list[Rung] = []
    previous: tuple[str, Hashable, Rung] | None = None
    inputs = CaseInputs(case.inputs)
    for dump in dumps:
        if (missing := _missing_rung(folder, rungs, dump)) is not None:
            rungs.append(missing)
        began = time.perf_counter()
        stage = _find_memory_stage(dump, dumps)
        try:
            text = read_text(dump.path)
            key = f"{hash_text(text)} {stage}"
            if previous is not None and previous[0] == key:
                same = previous[2]
                rungs.append(replace(same, dump=dump, same_as=same.dump.pass_name, seconds=0.0))
                continue
            program = read_program(text, dump.path.name)
            execution = execution_key(program, case.inputs), stage
        except MeaningError as error:
            rungs.append(Rung(dump=dump, state=State.NOT_EXECUTED, problem=error))
            continue
        if previous is not None and previous[1] == execution and _says_nothing_of_names(previous[2]):
            rung: Rung = replace(previous[2], dump=dump, same_as=None)
        else:
            rung = _run(dump, program, case, stage, inputs)
        rung = replace(rung, seconds=time.perf_counter() - began)
        previous = key, execution, rung
        rungs.append(rung)
    return Ladder(rungs=tuple(rungs))


def _says_nothing_of_names(rung: Rung) -> bool:
    return rung.problem is None and not rung.findings


def _missing_rung(folder: Path, rungs: Sequence[Rung], dump: DumpFile) -> Rung | None:
    """Return a rung for the passes before a dump that have none, because they may hide the change.

    Passes before the first dump do not count, because the program begins there.
    """
    first, last = rungs[-1].dump.order + 1 if rungs else dump.order, dump.order - 1
    if first > last:
        return None
    name = "(no dump)" if first == last else f"to {last:02} (no dump)"
    missing = DumpFile(first, name, folder / f"{first:02}_after_*.py", is_missing=True)
    problem = MeaningError(DumpLine(missing.path.name, 1), "expected a dump, found none")
    return Rung(dump=missing, state=State.NOT_EXECUTED, problem=problem)


def _run(dump: DumpFile, program: IrProgram, case: PassCase, stage: _MemoryStage, inputs: CaseInputs) -> Rung:
    try:
        if not has_memory(program):
            return _judge(dump, Execution(program).run(inputs), case)
        execution = MemoryExecution(
            program,
            addresses_assigned=stage.has_addresses,
            is_planned=stage.is_planned,
            capacities=case.capacities,
        )
        rung = _judge(dump, execution.run(inputs), case)
        rung = replace(rung, findings=tuple(execution.findings))
        if rung.state is State.WRONG:
            without_memory = _judge(dump, Execution(program).run(inputs), case)
            rung = replace(rung, is_wrong_in_bytes=without_memory.state is State.RIGHT)
        return rung
    except MeaningError as error:
        state = State.WRONG if error.contradicts else State.NOT_EXECUTED
        return Rung(dump=dump, state=state, error=float("inf") if error.contradicts else None, problem=error)


def read_frontend(folder: Path) -> IrProgram:
    """Return the program before any pass. Raises a `MeaningError` if its dump cannot be read."""
    return read_dump(list_dumps(folder)[0].path)


def exact_outputs(program: IrProgram, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the outputs of a program in exact arithmetic, without the tensors that it does not change.

    If a case has no reference, the frontend's exact outputs are its reference. Raises a `MeaningError` if the program
    does not run.
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
    error = largest_error(_compared_outputs(outputs, case), case)
    return Rung(dump=dump, state=State.RIGHT if error <= 1 else State.WRONG, error=error)


def _compared_outputs(outputs: Mapping[str, Numbers], case: PassCase) -> dict[str, Tensor]:
    return {name: numbers.centre for name, numbers in outputs.items() if name in case.expected}


def largest_error(outputs: Mapping[str, Tensor], case: PassCase) -> float:
    """Return the largest error in units of the tolerance. Infinite if an output is missing or is no number.

    Two NaN are no error, because the program computes what is expected. `torch.allclose`, which compares in the
    harness, rejects them in every run. `CheckEvidence.outputs_not_finite` names such outputs.
    """
    largest = 0.0
    for name, expected in case.expected.items():
        actual = outputs.get(name)
        if actual is None or actual.shape != expected.shape:
            return float("inf")
        whole = expected.reshape(-1), actual.reshape(-1)
        for start in range(0, expected.numel(), _PART):
            wanted, found = (each[start : start + _PART].to(torch.float64) for each in whole)
            allowed = case.atol + case.rtol * wanted.abs()
            same = (found == wanted) | (found.isnan() & wanted.isnan())
            ratio = torch.where(same, 0.0, (found - wanted).abs() / allowed)
            largest = max(largest, float(ratio.nan_to_num(nan=torch.inf, posinf=torch.inf).max()))
    return largest


# The first statement that differs


def first_difference(
    before: DumpFile, after: DumpFile, case: PassCase, within: Container[DumpLine] | None = None
) -> FirstDifference | None:
    """Return the first statement of `after` with a value that no statement of `before` has. None if there is none.

    If `within` is given, only statements on these lines count. Raises a `MeaningError`.
    """
    found = first_changed_value(read_dump(before.path), read_dump(after.path), case.inputs, within)
    if found is None:
        return None
    return FirstDifference(
        variable=found.variable,
        after=excerpt(dump_lines(after.path), found.after),
        before=excerpt(dump_lines(before.path), found.before) if found.before is not None else None,
    )


def dump_lines(path: Path) -> list[str]:
    """Return the lines of a dump as text to show."""
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def excerpt(lines: Sequence[str], place: DumpLine) -> Excerpt:
    """Return a line of a dump with the lines around it."""
    first = max(0, place.line - 1 - CONTEXT_LINES)
    near = lines[first : place.line + CONTEXT_LINES]
    return Excerpt(place, tuple(line.rstrip()[:_MAX_COLUMNS] for line in near))


class LadderVerdict(Enum):
    """The explanation of a failure."""

    CHECK_CANNOT_FAIL = "the check passes whatever the outputs are"
    TOLERANCE_OUT_OF_REACH = "the tolerance is below one rounding of the output's type"
    WRONG_BEFORE_PASSES = "the program is wrong before any pass"
    WRONG_AT_FIRST_DUMP = "the first dump that could be run is wrong"
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
    INTERVENTION = "intervention"
    NOTES = "notes"


@dataclass(frozen=True, kw_only=True)
class CheckEvidence:
    """The facts about the case's check.

    Errors are multiples of the tolerance, and are those of the program before any pass. `frontend_error` is the smaller
    of two errors: in exact arithmetic, and with the roundings that the program states. `input_error` is the error if
    each input is moved by one unit in the last place. `rounding_bound` is the largest error that legal rounding causes.
    """

    outputs_that_cannot_fail: tuple[str, ...]
    outputs_out_of_reach: tuple[str, ...] = ()
    outputs_not_finite: tuple[str, ...] = ()
    outputs_unchanged: tuple[str, ...] = ()
    """The check passes even if a run does not write these outputs."""
    frontend_error: float | None = None
    input_error: float | None = None
    rounding_bound: float | None = None
    problem: MeaningError | None = None


@dataclass(frozen=True)
class IrNotes:
    """Facts that may explain a wrong run although the IR is right."""

    found: tuple[IrNote, ...]


Evidence = CheckEvidence | Ladder | FirstDifference | tuple[Finding, ...] | PassIntervention | IrNotes


@dataclass(frozen=True, kw_only=True)
class ExplanationStep:
    """One step with what it showed."""

    name: StepName
    evidence: Evidence
    seconds: float


@dataclass(frozen=True, kw_only=True)
class LadderExplanation:
    """The answer. `last_good` and `first_bad` are the rungs on both sides of the change, if there is one."""

    verdict: LadderVerdict
    steps: tuple[ExplanationStep, ...]
    last_good: Rung | None = None
    first_bad: Rung | None = None
    not_executed: int = 0
    """The number of dumps that were not run. Each of them may hide the change."""


def explain(folder: Path, case: PassCase) -> LadderExplanation:
    """Explain a failure of the case whose dumps the folder holds. Raises a `MeaningError` if it holds none."""
    steps: list[ExplanationStep] = []
    began = time.perf_counter()

    def add_step(name: StepName, evidence: Evidence) -> None:
        nonlocal began
        now = time.perf_counter()
        steps.append(ExplanationStep(name=name, evidence=evidence, seconds=now - began))
        began = now

    check = examine_check(folder, case)
    add_step(StepName.CHECK, check)
    if check.outputs_that_cannot_fail:
        return LadderExplanation(verdict=LadderVerdict.CHECK_CANNOT_FAIL, steps=tuple(steps))
    if check.outputs_out_of_reach:
        return LadderExplanation(verdict=LadderVerdict.TOLERANCE_OUT_OF_REACH, steps=tuple(steps))
    if check.frontend_error is not None and check.frontend_error > 1:
        return LadderExplanation(verdict=LadderVerdict.WRONG_BEFORE_PASSES, steps=tuple(steps))
    ladder = run_dumps(folder, case)
    add_step(StepName.LADDER, ladder)
    not_executed = sum(rung.state is State.NOT_EXECUTED and not rung.dump.is_missing for rung in ladder.rungs)
    bad, good = ladder.first_bad, ladder.last_good
    if bad is None or good is None:
        verdict = _judge_without_change(ladder)
        if verdict is LadderVerdict.RIGHT_IR:
            add_step(StepName.NOTES, IrNotes(find_notes(folder, case)))
        return LadderExplanation(verdict=verdict, steps=tuple(steps), not_executed=not_executed)
    steps += _find_cause(folder, good, bad, case)
    return LadderExplanation(
        verdict=LadderVerdict.MEMORY_FAULT if bad.faults else LadderVerdict.PASS_CHANGED_VALUES,
        steps=tuple(steps),
        last_good=good,
        first_bad=bad,
        not_executed=not_executed,
    )


def _judge_without_change(ladder: Ladder) -> LadderVerdict:
    first = ladder.first_executed
    if first is None:
        return LadderVerdict.NOTHING_EXECUTED
    if first.is_good:
        return LadderVerdict.RIGHT_IR
    return (
        LadderVerdict.WRONG_BEFORE_PASSES if first is ladder.rungs[0] else LadderVerdict.WRONG_AT_FIRST_DUMP
    )


def _find_cause(folder: Path, good: Rung, bad: Rung, case: PassCase) -> Iterator[ExplanationStep]:
    """Find what differs after the pass, then undo the pass's changes.

    If another change proves to be the cause, the difference at that one is reported.
    """
    began = time.perf_counter()
    difference = None if bad.faults else _find_difference(good, bad, case)
    difference_seconds = time.perf_counter() - began
    began = time.perf_counter()
    intervention = _intervene(folder, good, bad, case, difference)
    intervention_seconds = time.perf_counter() - began
    places = frozenset(place for change in intervention.cause for place in change.places)
    refuted = {place for change in intervention.refuted for place in change.places}
    if difference is not None and intervention.cause and difference.after.place not in places:
        proven = _find_difference(good, bad, case, places)
        difference = proven or (None if difference.after.place in refuted else difference)
    if bad.faults:
        yield ExplanationStep(name=StepName.MEMORY, evidence=bad.faults, seconds=difference_seconds)
    elif difference is not None:
        yield ExplanationStep(name=StepName.FIRST_STATEMENT, evidence=difference, seconds=difference_seconds)
    yield ExplanationStep(name=StepName.INTERVENTION, evidence=intervention, seconds=intervention_seconds)


def _find_difference(
    good: Rung, bad: Rung, case: PassCase, within: Container[DumpLine] | None = None
) -> FirstDifference | None:
    try:
        return first_difference(good.dump, bad.dump, case, within)
    except MeaningError:
        return None  # The faulty pass is known. Only the statement stays unknown.


def _intervene(
    folder: Path, good: Rung, bad: Rung, case: PassCase, difference: FirstDifference | None
) -> PassIntervention:
    """Undo the changes between two rungs. The first suspects touch the statement or the tiles that are known wrong."""
    stage = _find_memory_stage(bad.dump, list_dumps(folder))
    inputs = CaseInputs(case.inputs)

    def run(program: IrProgram) -> State:
        rung = _run(bad.dump, program, case, stage, inputs)
        # The values may be right although a tile overwrote another one.
        return State.WRONG if rung.state is State.RIGHT and not rung.is_good else rung.state

    places = {difference.after.place} if difference is not None else set[DumpLine]()
    if bad.problem is not None:
        places.add(bad.problem.place)
    tiles: list[tuple[str, str]] = []
    for fault in bad.faults[:1]:
        places |= {fault.place, *filter(None, [fault.written_at])}
        # A scratch buffer is named "OPERATION TILE". Only the tile is compared.
        tiles += [(fault.function, name.split()[-1]) for name in (fault.other, fault.tile) if name]

    def suspects(changes: Sequence[PassChange]) -> list[int]:
        touching = [
            index
            for function, tile in tiles
            for index, change in enumerate(changes)
            if change.function == function and tile in change.tiles
        ]
        return [*touching, *(index for index, change in enumerate(changes) if change.places & places)]

    return intervene(read_dump(good.dump.path), read_dump(bad.dump.path), run, suspects)


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
        exact = dict(case.inputs) | exact_outputs(program, case.inputs)
        error = largest_error(exact, case)
        if error > 1:
            # A reference that rounds as the program does is matched only by a run with the stated roundings.
            stated = Execution(program).run(case.inputs)
            error = min(error, largest_error(_compared_outputs(stated, case), case))
    except MeaningError as problem:
        return replace(evidence, problem=problem)
    out_of_reach = tuple(name for name in case.expected if not _is_in_reach(name, types.get(name), case))
    evidence = replace(evidence, outputs_out_of_reach=out_of_reach, frontend_error=error)
    exact_case = replace(case, expected={name: exact[name] for name in case.expected if name in exact})
    return _examine_rounding(evidence, program, exact_case)


def _examine_rounding(evidence: CheckEvidence, program: IrProgram, exact_case: PassCase) -> CheckEvidence:
    """Measure how far the outputs leave their exact values if the inputs move by one ulp, and if operations round.

    `exact_case` expects the exact values.
    """
    moved = {name: _move_by_one_ulp(value) for name, value in exact_case.inputs.items()}
    try:
        input_error = largest_error(moved | exact_outputs(program, moved), exact_case)
        bounded = Execution(program, ArithmeticMode.BOUNDED).run(exact_case.inputs)
    except MeaningError as problem:
        return replace(evidence, problem=problem)
    bounds = (
        _largest_radius(bounded[name], value, exact_case) for name, value in exact_case.expected.items()
    )
    return replace(evidence, input_error=input_error, rounding_bound=max(bounds, default=0.0))


def _move_by_one_ulp(value: Tensor) -> Tensor:
    """Return the floats moved up and down, in turn, by about one unit in the last place."""
    if not value.is_floating_point() or value.dtype.itemsize < 2:
        return value
    signs = torch.ones(value.numel(), dtype=torch.float64)
    signs[1::2] = -1
    factors = 1 + signs.reshape(value.shape) * torch.finfo(value.dtype).eps
    return (value.to(torch.float64) * factors).to(value.dtype)


def _largest_radius(numbers: Numbers, expected: Tensor, case: PassCase) -> float:
    """Return the largest bound of an element's error, in tolerances. 0 for integers."""
    if numbers.radius is None or not numbers.radius.numel():
        return 0.0
    return _largest_share(numbers.radius, expected, case)


def _largest_share(differences: Tensor, expected: Tensor, case: PassCase) -> float:
    """Return the largest difference, in tolerances. No difference is 0 tolerances, even of a tolerance of 0."""
    allowed = case.atol + case.rtol * expected.to(torch.float64).abs()
    shares = torch.where(differences == 0, 0.0, differences / allowed)
    return float(shares.nan_to_num(nan=torch.inf, posinf=torch.inf).max())


def _can_fail(name: str, case: PassCase) -> bool:
    """Return whether the check rejects an output with one element that is off by more than ten tolerances."""
    expected = case.expected[name].to(torch.float64)
    moved = expected.clone().reshape(-1)
    allowed = case.atol + case.rtol * moved.abs()
    bounded = allowed.isfinite().nonzero().reshape(-1)
    if not bounded.numel():
        return not bool(expected.isfinite().all())  # Only NaN and Inf equal an expected NaN or Inf.
    # A tolerance may be 0, or too small to change the element.
    moved[bounded[0]] = (moved[bounded[0]] + 10 * allowed[bounded[0]]).nextafter(torch.tensor(torch.inf))
    outputs = {**case.expected, name: moved.reshape(expected.shape)}
    return largest_error(outputs, case) > 1


def _is_unchanged(name: str, case: PassCase) -> bool:
    """Return whether the check accepts the output's contents from before the run."""
    if name not in case.inputs:
        return False
    return largest_error({**case.expected, name: case.inputs[name]}, case) <= 1


def _is_in_reach(name: str, dtype: ElementType | None, case: PassCase) -> bool:
    """Return whether the check accepts the expected values when they are rounded to the output's type."""
    if dtype is None or not dtype.is_float:
        return True
    rounded = round_floats(case.expected[name].to(torch.float64), dtype)
    return largest_error({**case.expected, name: rounded}, case) <= 1


# What may explain a wrong run of a right IR

_COMBINING = re.compile(r"(row|col)_(max|min|sum|prod|argmax|argmin)|sum|max|min|matmul\w*|gemv\w*")
"""The short names of operations whose result depends on several elements of an operand."""

_MAX_PARTS = 256
"""At most this many parts are added in several orders. Each part is as large as the output."""


@dataclass(frozen=True, kw_only=True)
class _Additions:
    """The atomic additions to one storage.

    `place` and `output` are of the first addition. Before it, the whole storage held `initial`. Each of the `parts` is
    what one addition added.
    """

    place: DumpLine
    output: Array
    initial: Tensor
    parts: list[Tensor] = field(default_factory=list[Tensor])


class _NotingExecution(Execution):
    """An exact execution that notes atomic additions, and reductions of tiles of which only a part is valid."""

    def __init__(self, program: IrProgram) -> None:
        super().__init__(program, ArithmeticMode.EXACT)
        self.partial: PartialReduction | None = None
        self.additions: dict[int, _Additions] = {}
        """The atomic additions to each storage, by its address."""

    def perform(
        self, operation: Operation, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine
    ) -> Value:
        """Perform one operation, and note it."""
        short = call.name.rpartition(".")[2]
        if self.partial is None and call.name.startswith("tile.") and _COMBINING.fullmatch(short):
            variable = source_name(target.name) if target is not None else "a value"
            self.partial = _partial_reduction(operation, call, variable, place)
        outputs = [each for each in call.operands if isinstance(each, Array)] if accumulates(call) else []
        before = [_storage_values(each).clone() for each in outputs]
        result = super().perform(operation, call, frame, target, place)
        for output, content in zip(outputs, before, strict=True):
            part = _storage_values(output) - content
            if part.count_nonzero():
                key = output.numbers.centre.untyped_storage().data_ptr()
                first = _Additions(place=place, output=output, initial=content)
                self.additions.setdefault(key, first).parts.append(part)
        return result


def _storage_values(array: Array) -> Tensor:
    """Return all values of the storage behind an array, in a flat view. Arrays of several shapes may share it."""
    centre = array.numbers.centre
    return centre.as_strided((centre.untyped_storage().nbytes() // centre.element_size(),), (1,), 0)


def _partial_reduction(
    operation: Operation, call: Invocation, variable: str, place: DumpLine
) -> PartialReduction | None:
    for index, operand in enumerate(call.operands):
        if not isinstance(operand, Array) or operand.is_wholly_valid or index in operation.scratch:
            continue
        if operation.reads is None or index in operation.reads:
            return PartialReduction(
                place=place,
                operation=call.name,
                variable=variable,
                valid=operand.valid,
                shape=operand.shape,
            )
    return None


def find_notes(folder: Path, case: PassCase) -> tuple[IrNote, ...]:
    """Return facts that may explain a wrong run of an IR that is right after every pass."""
    programs: list[tuple[DumpFile, IrProgram]] = []
    for dump in list_dumps(folder):
        with contextlib.suppress(MeaningError):
            programs.append((dump, read_dump(dump.path)))
    found: list[IrNote] = []
    for (_, before), (dump, after) in pairwise(programs):
        found += _cast_chains(dump, before, after)
    noter = _NotingExecution(programs[0][1])
    outputs: dict[str, Numbers] = {}
    with contextlib.suppress(MeaningError):
        outputs = noter.run(case.inputs)
    if noter.partial is not None:
        found.append(noter.partial)
    for name, numbers in outputs.items():
        key = numbers.centre.untyped_storage().data_ptr()
        if key in noter.additions and name in case.expected and numbers.centre.is_contiguous():
            additions = noter.additions[key]
            expected = case.expected[name].reshape(-1)
            if expected.shape != additions.initial.shape:
                continue
            contents = [additions.initial, *additions.parts[:_MAX_PARTS]]
            spread = _order_spread(contents, additions.output.dtype, expected, case)
            parts = len(additions.parts)
            found.append(AtomicSpread(place=additions.place, output=name, parts=parts, spread=spread))
    return tuple(found)


def _order_spread(contents: Sequence[Tensor], dtype: ElementType, expected: Tensor, case: PassCase) -> float:
    """Return, in tolerances, how far the sum of the parts depends on their order.

    `contents` are the output's initial values, and then the parts. The parts are added first to last, last to first,
    and for each element by ascending and descending size.
    """
    initial, *rest = contents
    parts = torch.stack([round_floats(each, dtype) for each in rest])
    by_size = parts.gather(0, parts.abs().argsort(0))
    sums: list[Tensor] = []
    for order in (parts, parts.flip(0), by_size, by_size.flip(0)):
        total = initial
        for part in order:
            total = round_floats(total + part, dtype)
        sums.append(total)
    all_sums = torch.stack(sums)
    return _largest_share(all_sums.amax(0) - all_sums.amin(0), expected, case)


def _cast_chains(dump: DumpFile, before: IrProgram, after: IrProgram) -> Iterator[CastChain]:
    """Yield each cast that the pass replaced by two."""
    single_casts = {
        (source_name(target), source, type_) for target, (_, _, source, type_) in _casts(before).items()
    }
    casts = _casts(after)
    for target, (place, variable, middle, type_) in casts.items():
        first = casts.get(variable)
        if first is None or (source_name(target), first[2], type_) not in single_casts:
            continue
        yield CastChain(
            pass_name=dump.pass_name,
            place=place,
            variable=source_name(target),
            types=(first[2], middle, type_),
            exact_up_to=exact_cast_limit(first[2], middle, type_),
        )


def _casts(program: IrProgram) -> dict[str, tuple[DumpLine, str, ElementType, ElementType]]:
    """Return the place, operand and both types of each cast, by the variable that it makes."""
    found: dict[str, tuple[DumpLine, str, ElementType, ElementType]] = {}
    for function in program.functions.values():
        types = {
            each.name: each.type.dtype for each in function.parameters if isinstance(each.type, ArrayType)
        }
        for statement in walk(function.body):
            if not isinstance(statement, Assign) or len(statement.targets) != 1:
                continue
            (target,) = statement.targets
            if not isinstance(target.type, ArrayType):
                continue
            types[target.name] = target.type.dtype
            value = statement.value
            if not isinstance(value, Call) or not value.name.endswith(".cast"):
                continue
            operand = value.operands[0]
            if isinstance(operand, Variable) and operand.name in types:
                found[target.name] = (statement.place, operand.name, types[operand.name], target.type.dtype)
    return found
