"""Tells whether a candidate fails as the whole build did."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ....store.vocabulary import Verdict
from ...replay.comparison import NotWholeError
from ..minimize.answer import Answer
from ..program.candidate import Candidate
from ..program.cut.cut import UnfitCutError
from ..program.pair import BuildPair
from .failure import Failure, WrongValues
from .kernel_swap import KernelSwap
from .maker import Maker
from .running import BuildRunner


class Oracle(Protocol):
    """May be asked from several threads at once, each with a folder of its own."""

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        """One run of a candidate, made in the new folder `folder`, which is the oracle's to remove."""
        ...


@dataclass(frozen=True, kw_only=True)
class Differential:
    """Interesting: the failing build fails as the whole did, the same tasks of the reference pass, and what differs
    makes the whole reference fail so, too. Where it does not, the failure is another one: it has slipped.

    `swap` is None where something else than wrong values is looked for.
    """

    pair: BuildPair
    failure: Failure
    maker: Maker
    runner: BuildRunner
    swap: KernelSwap | None = None

    @property
    def text(self) -> str:
        """What is looked for, as people and the result call it."""
        return self.failure.text

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        """Runs the twin only where the candidate fails as it should; without a reference there is none."""
        both_run = self.pair.submitted(candidate) and self.pair.submitted_by_reference(candidate)
        if not both_run and isinstance(self.failure, WrongValues):
            # No task, no value that could be wrong, or right in the twin; and the real runtime's simulator waits for a
            # first task for ever.
            return Answer.NOT
        with made_in(folder):
            try:
                failing, passing = self.maker.make(candidate, folder)
            except (UnfitCutError, NotWholeError):
                return Answer.INVALID
            ran = self.runner.run(failing, self.pair.failing.toolchain, folder / "runs-failing")
            outcome = self.failure.outcome(ran, failing)
            if outcome is not Answer.INTERESTING or passing is None:
                return outcome
            twin = self.runner.run(passing, self.pair.reference.toolchain, folder / "runs-passing")
            passed = twin.classification.verdict is Verdict.PASS
            explains = passed and (self.swap is None or self.swap.may_explain(candidate))
            return Answer.INTERESTING if explains else Answer.SLIPPED


@contextmanager
def made_in(folder: Path) -> Generator[None]:
    """Removes the folder of a candidate at the end."""
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
