"""A script of the user's that says whether a candidate is interesting, as iree-reduce's does."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ...runner.errors import UsageError, UserError
from ...runner.process.execute import Command, execute
from ..replay.comparison import NotWholeError
from .answer.reproducer import Reproducer
from .minimize.outcome import Outcome
from .oracle.oracle import made_in
from .oracle.running import Runner
from .program.candidate import Folder, Pair
from .program.cut import UnfitCutError
from .program.model import Reduction

CONVENTION = (
    "runs in the candidate's folder, a build directory (./run.sh runs it; ../passing is its twin): "
    "0 interesting, 1 not, 125 cannot tell, 101 keep a copy but go on"
)
KEEP = 101
_OUTCOMES = {0: Outcome.INTERESTING, 1: Outcome.NOT, 125: Outcome.INVALID, KEEP: Outcome.NOT}


@dataclass(frozen=True, kw_only=True)
class Script:
    """Copies go to folders below `kept`. The script has the runner's timeout."""

    path: Path
    pair: Pair
    reproducer: Reproducer
    runner: Runner
    kept: Path

    @staticmethod
    def checked(path: Path) -> Path:
        """The script, with its full path. Raises `UsageError` where it cannot be run."""
        if not path.is_file() or not os.access(path, os.X_OK):
            raise UsageError(f"--interesting {path}: expected a script that can be executed; chmod +x it")
        return path.resolve()

    @property
    def text(self) -> str:
        """For people and for the result."""
        return f"what {self.path.name} finds interesting"

    def judge(self, reduction: Reduction, folder: Path) -> Outcome:
        """Raises `UserError` at an exit code outside of the convention."""
        with made_in(folder):
            try:
                made = self.reproducer.make(reduction, folder)[0]
            except (UnfitCutError, NotWholeError):
                return Outcome.INVALID
            return self.ask(made, folder / "script.log.gz", reduction.digest)

    def ask(self, made: Folder, log: Path, name: str) -> Outcome:
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
            return Outcome.INVALID
        if code not in _OUTCOMES:
            raise UserError(
                f"--interesting {self.path}: expected exit code {', '.join(map(str, _OUTCOMES))}, found "
                f"{finished.ending}; it {CONVENTION}"
            )
        if code == KEEP:
            shutil.copytree(made.path, self.kept / name, symlinks=True, dirs_exist_ok=True)
        return _OUTCOMES[code]
