"""A script of the user's that says whether a candidate is interesting, as iree-reduce's does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ....runner.errors import UsageError, UserError
from ....runner.process.execute import Command, execute
from ...replay.comparison import NotWholeError
from ..minimize.answer import Answer
from ..program.candidate import Candidate
from ..program.cut.cut import UnfitCutError
from ..program.made_build import MadeBuild
from ..program.pair import BuildPair
from .oracle import made_in
from .running import BuildRunner

CONVENTION = (
    "runs in the candidate's folder, a build directory (./run.sh runs it; ../passing is its twin): "
    "0 interesting, 1 not, 125 cannot tell, 101 keep a copy but go on"
)
KEEP = 101
_OUTCOMES = {0: Answer.INTERESTING, 1: Answer.NOT, 125: Answer.INVALID, KEEP: Answer.NOT}


@dataclass(frozen=True, kw_only=True)
class Script:
    """Asks a script about candidates that `make` has made below a new folder, each with its `run.sh`.

    Copies that the script wants kept go to folders below `kept`. It has the runner's timeout.
    """

    path: Path
    pair: BuildPair
    make: Callable[[Candidate, Path], tuple[MadeBuild, MadeBuild | None]]
    runner: BuildRunner
    kept: Path

    @staticmethod
    def checked(path: Path) -> Path:
        """The script, with its full path. Raises `UsageError` where it cannot be run."""
        if not path.is_file():
            found = "no file" if path.exists() else "none"
            raise UsageError(
                f"--interesting {path}: expected a script, found {found}; name one that is there"
            )
        if not os.access(path, os.X_OK):
            raise UsageError(
                f"--interesting {path}: expected a script that can be executed, found one that may not; chmod +x it"
            )
        return path.resolve()

    @property
    def text(self) -> str:
        """What is looked for, as people and the result call it."""
        return f"what {self.path.name} finds interesting"

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        """Raises `UserError` at an exit code outside of the convention."""
        with made_in(folder):
            try:
                made = self.make(candidate, folder)[0]
            except (UnfitCutError, NotWholeError):
                return Answer.INVALID
            return self.ask(made, folder / "script.log.gz", candidate.digest)

    def ask(self, made: MadeBuild, log: Path, name: str) -> Answer:
        """Run the script on a build that was made, to be kept under `name` if it says so."""
        finished = execute(
            Command(
                argv=[str(self.path)],
                cwd=made.path,
                environment=dict(os.environ),
                timeout=self.runner.timeout,
            ),
            log=log,
            on_line=lambda _stream, _line: None,
        )
        code = finished.ending.exit_code
        if finished.ending.timed_out:
            return Answer.INVALID
        if code not in _OUTCOMES:
            raise UserError(
                f"--interesting {self.path}: expected exit code {', '.join(map(str, _OUTCOMES))}, found "
                f"{finished.ending}; it {CONVENTION}"
            )
        if code == KEEP:
            shutil.copytree(made.path, self.kept / name, symlinks=True, dirs_exist_ok=True)
        return _OUTCOMES[code]
