"""A localization's job in a process of its own, and what came of it."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...runner.localization.answer import Localization, read_divergence, read_reduction
from ...runner.localization.divergence import DIVERGENCE, TASK_GRAPH
from ...runner.localization.job import LocalizationJob
from ...runner.probe.probe import Prober
from ...runner.process.execute import Command, FinishedCommand, execute
from ...runner.workspace.inherited import OF_ANOTHER_PYTHON
from ..report.plain_text import one_line

_LOG = "localize.log.gz"
_NOTHING_DIVERGES = 3


@dataclass(frozen=True, kw_only=True)
class JobProcess:
    """Runs a job in `folder`, until `deadline`, a moment of `time.monotonic`; its results go to `output`, beside the
    report."""

    job: LocalizationJob
    folder: Path
    output: Path
    deadline: float
    say: Callable[[str], None]

    def answer(self, probers: Sequence[Prober], *, compared: str) -> Localization:
        """Run the job, which holds the slots of `probers`; `compared` says what it compares."""
        finished, last = self._run(probers)
        job, code = self.job, finished.ending.exit_code
        divergence = read_divergence(job.output)
        if divergence is None or code is None:
            why = last if last and code == 1 else str(finished.ending)
            return left_out(f"{why}; see {self.folder / _LOG}")
        self.output.mkdir(parents=True, exist_ok=True)
        for file in (DIVERGENCE, TASK_GRAPH):
            if (job.output / file).is_file():
                shutil.copyfile(job.output / file, self.output / file)
        reduction = read_reduction(job.reduce_to) if job.reduce_to else None
        not_reduced = job.reduce_to is not None and reduction is None and code == 1 and last
        return Localization(
            status="nothing" if code == _NOTHING_DIVERGES else "found",
            message=f"{compared}{f'; not reduced: {last}' if not_reduced else ''}",
            divergence=divergence,
            reduction=reduction,
            reduced=job.reduce_to if reduction else None,
        )

    def _run(self, probers: Sequence[Prober]) -> tuple[FinishedCommand, str]:
        """How it ended, and the last line it printed."""
        file = self.folder / "job.json"
        file.write_text(self.job.model_dump_json(indent=2), encoding="utf-8")
        last = [""]

        def hear(_stream: str, line: str) -> None:
            last[0] = one_line(line)
            self.say(last[0])

        finished = execute(
            Command(
                argv=[sys.executable, "-m", "precision_bisect.reduce.handover", str(file)],
                cwd=self.folder,
                environment={k: v for k, v in os.environ.items() if k not in OF_ANOTHER_PYTHON},
                timeout=max(1.0, self.deadline - time.monotonic()),
                holds=tuple(prober.slot.lock for prober in probers),
            ),
            log=self.folder / _LOG,
            on_line=hear,
        )
        return finished, last[0].removeprefix("error: ")


def left_out(why: str) -> Localization:
    """Nothing was compared, and why."""
    return Localization(status="left out", message=why)
