"""Tells whether a candidate fails as the whole build did."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..runner.tensors.statistics import Tolerance
from ..store.vocabulary import Verdict
from .comparison import NotWholeError
from .minimize.outcome import Outcome
from .program.candidate import Folder, Pair
from .program.cut import UnfitCutError
from .program.model import Reduction
from .replay import Ran, Replayer
from .toolchain import Toolchain
from .working_copy import WorkingCopy

_MARKS = re.compile(r"\[(?P<marks>[^\]]*)\]")


class Oracle(Protocol):
    """May be asked from several threads at once, each with a folder of its own."""

    def judge(self, reduction: Reduction, folder: Path) -> Outcome:
        """One run of a candidate, made in the new folder `folder`, which is the oracle's to remove."""
        ...


@dataclass(frozen=True, kw_only=True)
class Differential:
    """Interesting: the failing build misses the recorded values of the reference in a tensor that was wrong in the
    whole run too, and the same tasks of the reference pass. Anything else that fails has slipped."""

    pair: Pair
    tolerance: Tolerance
    timeout: float

    def judge(self, reduction: Reduction, folder: Path) -> Outcome:
        """Runs the twin only where the candidate fails as it should."""
        try:
            ours = self.pair.make_failing(reduction, folder / "failing")
            theirs = self.pair.make_reference(reduction, folder / "passing")
        except (UnfitCutError, NotWholeError):
            shutil.rmtree(folder, ignore_errors=True)
            return Outcome.INVALID
        found = self.run(ours, self.pair.failing.toolchain, folder / "runs-failing").classification
        outcome = Outcome.INVALID
        if found.verdict is Verdict.PASS:
            outcome = Outcome.NOT
        elif found.verdict in (Verdict.STALL, Verdict.CRASH):
            outcome = Outcome.SLIPPED
        elif found.verdict is Verdict.MISMATCH:
            outcome = Outcome.SLIPPED
            if self._same(ours, found.signature):
                twin = self.run(theirs, self.pair.reference.toolchain, folder / "runs-passing").classification
                if twin.verdict is Verdict.PASS:
                    outcome = Outcome.INTERESTING
        shutil.rmtree(folder, ignore_errors=True)
        return outcome

    def run(self, made: Folder, toolchain: Toolchain, folder: Path) -> Ran:
        """One run of a build that was made."""
        replayer = Replayer(
            copy=WorkingCopy(made.path), toolchain=toolchain, folder=folder, timeout=self.timeout
        )
        return replayer.classify(made.arguments, data=made.path / "data", tolerance=self.tolerance)

    def _same(self, made: Folder, signature: str | None) -> bool:
        wrong = set(self.pair.diverged)
        allowed = {one.buffer.name for one in made.cut.tensors if one.writers & wrong}
        return bool(allowed & set(_MARKS.sub("", signature or "").split(",")))
