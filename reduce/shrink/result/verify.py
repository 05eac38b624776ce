"""Verifies a result: it is run as it stands on disk, in fresh processes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ....runner.build_output.golden_data import TensorFolder
from ....runner.errors import UserError
from ....store.vocabulary import Verdict
from ..minimize.answer import Answer
from ..oracle.oracle import Differential
from ..oracle.script import Script
from ..program.candidate import Candidate
from ..program.made_build import MadeBuild
from ..program.pair import BuildPair
from .reduction import Verified
from .worst_rows import WorstRow, worst_rows


@dataclass(frozen=True, kw_only=True)
class VerifiedCandidate:
    """A result that was verified: its failing build, how often that failed, and the failure's signature."""

    candidate: Candidate
    failing: MadeBuild
    verified: Verified
    signature: str


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """Runs a result and its twin `runs` times each; `folder` is for the logs."""

    oracle: Differential | Script
    pair: BuildPair
    runs: int
    folder: Path

    def verify(
        self, candidate: Candidate, failing: MadeBuild, passing: MadeBuild | None
    ) -> VerifiedCandidate:
        """Runs a candidate's build and its twin.

        Raises:
            UserError: it never fails, or the twin does not pass each time.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        failures, passes, signature = 0, 0, self.oracle.text
        for number in range(self.runs):
            answer, shown = self._failing(failing, self.folder / f"failing-{number}")
            if answer is Answer.INTERESTING:
                failures, signature = failures + 1, shown
            if passing is not None:
                twin = self.oracle.runner.run(
                    passing, self.pair.reference.toolchain.anew, self.folder / f"passing-{number}"
                )
                passes += twin.classification.verdict is Verdict.PASS
        wanted = 0 if passing is None or isinstance(self.oracle, Script) else self.runs
        if not failures or passes < wanted:
            raise UserError(
                f"{failing.path}: expected the result to fail and its twin to pass, found {failures} failures and "
                f"{passes} passes in {self.runs} runs each"
            )
        return VerifiedCandidate(
            candidate=candidate,
            failing=failing,
            verified=Verified(
                runs=self.runs, failures=failures, passes=passes if passing is not None else None
            ),
            signature=signature,
        )

    def worst_rows(self, failing: MadeBuild) -> list[WorstRow]:
        """The worst rows of one more run; none where it passes, or does not get to its end."""
        folder = self.folder / "worst"
        ran = self.oracle.runner.run(failing, self.pair.failing.toolchain.anew, folder, save_outputs=True)
        if ran.outputs is None:
            return []
        return worst_rows(ran.outputs, TensorFolder.open(failing.path / "data" / "out"))

    def _failing(self, failing: MadeBuild, folder: Path) -> tuple[Answer, str]:
        if isinstance(self.oracle, Script):
            folder.mkdir(parents=True)
            return self.oracle.ask(failing, folder / "script.log.gz", "result"), self.oracle.text
        ran = self.oracle.runner.run(failing, self.pair.failing.toolchain.anew, folder)
        shown = ran.classification
        signature = f"{shown.verdict.value} {shown.signature or ''}".strip()
        return self.oracle.failure.outcome(ran, failing), signature
