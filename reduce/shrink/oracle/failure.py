"""What counts as the failure that is looked for, and what is another one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from ....runner.tensor.chunks import decode
from ....runner.tensor.view import TensorView
from ....store.vocabulary import Verdict
from ...graph.races import missing_edges
from ...replay.comparison import distance
from ...replay.replay import Ran
from ..minimize.answer import Answer
from ..program.made_build import MadeBuild
from ..program.pair import BuildPair
from .error_size import same_size

_OUTPUT = re.compile(r"(?P<name>[^,\[\]]+)(?:\[(?P<marks>[^\]]*)\])?")
_OTHER_FAILURES = frozenset((Verdict.STALL, Verdict.CRASH, Verdict.DEVICE_ERROR, Verdict.MISMATCH))

BROKEN = frozenset(
    (
        *(Verdict.STALL, Verdict.CRASH, Verdict.DEVICE_ERROR, Verdict.TIMEOUT),
        *(Verdict.KERNEL_COMPILE_ERROR, Verdict.ASSEMBLE_ERROR),
    )
)
"""Verdicts on a run that did not get to a comparison, and that say something of the build."""


class Failure(Protocol):
    """One kind of failure."""

    @property
    def text(self) -> str:
        """What it is called on the screen and in the result."""
        ...

    def outcome(self, ran: Ran, made: MadeBuild) -> Answer:
        """What one run of a candidate was. Only the candidate's side is looked at, its twin is not."""
        ...


@dataclass(frozen=True)
class WrongValues:
    """Outputs miss what they should be, where the whole run was wrong too.

    An output is allowed to be wrong if one of its last writers left something wrong in the whole run (or nothing, as
    it was not submitted), and to hold NaN or infinity only if one was found there. Where no race is possible, nothing
    else may be wrong, and its relative error is that of such a writer in the whole run, within `error_size.FACTOR`.
    With a task that may reach out of a tensor, as it has another shape than in the reference, an error may be larger,
    and not finite: what lies around differs from run to run.
    """

    pair: BuildPair

    @property
    def text(self) -> str:
        """The name of the verdict."""
        return "mismatch"

    def outcome(self, ran: Ran, made: MadeBuild) -> Answer:
        """A run is judged by the names of the outputs in its signature."""
        shown = ran.classification
        if shown.verdict is Verdict.PASS:
            return Answer.NOT
        if shown.verdict is not Verdict.MISMATCH:
            return Answer.SLIPPED if shown.verdict in _OTHER_FAILURES else Answer.INVALID
        wrong = set(self.pair.diverged)
        may_reach_out = any(task.ordinal in self.pair.both.reshaped for task in made.cut.tasks)
        writers = {tensor.buffer.name: tensor.writers & wrong for tensor in made.cut.tensors}
        right = [
            self._is_as_before(
                writers.get(name, frozenset()),
                marks,
                shown.metrics.get(name, {}),
                may_be_larger=may_reach_out,
            )
            for name, marks in outputs_in(shown.signature).items()
        ]
        return Answer.INTERESTING if any(right) and (all(right) or self._may_race) else Answer.SLIPPED

    def _is_as_before(
        self,
        writers: frozenset[int],
        marks: frozenset[str],
        measured: Mapping[str, float],
        *,
        may_be_larger: bool,
    ) -> bool:
        """Whether an output that these tasks wrote last is as wrong as one of them was in the whole run."""
        known = frozenset[str]().union(*(self._marks[task] for task in writers))
        if not writers or not (may_be_larger or marks <= known):
            return False
        error = measured.get("relative_l2")
        # No relative error is known where the expected values are zeros, or where the harness told none.
        if self._may_race or not self.pair.has_twin or (error is None and not measured.get("not_finite")):
            return True
        size, errors = math.inf if error is None else error, [self._errors[task] for task in writers]
        return same_size(size, errors) or (may_be_larger and size > max(errors))

    @cached_property
    def _errors(self) -> dict[int, float]:
        """Of the tasks that went wrong, the largest relative error of a tensor that they left."""
        return {
            task: max(
                (
                    distance(view, belonging[index])
                    for index, view in self.pair.left(task).items()
                    if index in belonging
                ),
                default=math.inf,
            )
            for task in self.pair.diverged
            for belonging in [self.pair.belonging(task)]
        }

    @cached_property
    def _marks(self) -> dict[int, frozenset[str]]:
        return {
            task: frozenset[str]().union(*map(_wild, self.pair.left(task).values()))
            for task in self.pair.diverged
        }

    @cached_property
    def _may_race(self) -> bool:
        return bool(missing_edges(self.pair.failing.tasks))


@dataclass(frozen=True)
class Broken:
    """The run does not get to a comparison: it crashes, stalls or does not compile, with the same signature."""

    verdict: Verdict
    signature: str | None

    @property
    def text(self) -> str:
        """The verdict and its signature."""
        return f"{self.verdict.value} {self.signature}" if self.signature else self.verdict.value

    def outcome(self, ran: Ran, made: MadeBuild) -> Answer:
        """A run with the same verdict and signature is interesting."""
        shown = ran.classification
        if (shown.verdict, shown.signature) == (self.verdict, self.signature):
            return Answer.INTERESTING
        if shown.verdict is Verdict.PASS:
            return Answer.NOT
        return Answer.SLIPPED if shown.verdict in BROKEN | {Verdict.MISMATCH} else Answer.INVALID


@dataclass(frozen=True, kw_only=True)
class Printed:
    """The run ends with this exit code (128 + n for signal n), and prints a line that this pattern is found in; what
    is None does not count."""

    code: int | None
    pattern: re.Pattern[str] | None

    @property
    def text(self) -> str:
        """The exit code and the pattern that are looked for."""
        parts = [
            f"exit code {self.code}" if self.code is not None else "",
            f"a line with {self.pattern.pattern!r}" if self.pattern is not None else "",
        ]
        return " and ".join(part for part in parts if part)

    def outcome(self, ran: Ran, made: MadeBuild) -> Answer:
        """A run with the exit code and the line is interesting; any other failure has slipped."""
        code = ran.ending.exit_code if ran.ending.signal is None else 128 + ran.ending.signal
        same = self.code is None or code == self.code
        if same and (self.pattern is None or any(map(self.pattern.search, ran.lines()))):
            return Answer.INTERESTING
        return Answer.NOT if ran.classification.verdict is Verdict.PASS else Answer.SLIPPED


def outputs_in(signature: str | None) -> dict[str, frozenset[str]]:
    """The outputs that a mismatch's signature names, and the marks of each.

    >>> outputs_in("k[nan,inf],out") == {"k": frozenset({"nan", "inf"}), "out": frozenset()}
    True
    """
    return {
        match["name"]: frozenset(filter(None, (match["marks"] or "").split(",")))
        for match in _OUTPUT.finditer(signature or "")
    }


def _wild(view: TensorView) -> frozenset[str]:
    if not view.dtype.is_floating:
        return frozenset()
    values = decode(view.dtype, np.ravel(view.contiguous()))
    there_are = {"nan": bool(np.isnan(values).any()), "inf": bool(np.isinf(values).any())}
    return frozenset(name for name, present in there_are.items() if present)
