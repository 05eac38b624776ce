"""Why a case is wrong, from its dumps alone, in the order of what is cheapest to look at.

`explain` looks at the check first, then at the ladder of passes, then at memory. It stops when it has shown the cause.
Its answer is typed: a `LadderVerdict`, the pass if one is to blame, and for each step its evidence and its time. A pass
is named as the place where the result turns wrong. Only a run without it proves that it is the cause, and no such run
is made here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import torch

from .arithmetic import round_floats
from .execution import Execution, source_name
from .findings import Finding
from .ir import ArrayType, ElementType, MeaningError
from .ladder import (
    FirstDifference,
    Ladder,
    PassCase,
    Rung,
    State,
    climb,
    exact_outputs,
    first_difference,
    largest_error,
    read_frontend,
)


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
