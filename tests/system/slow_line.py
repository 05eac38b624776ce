"""A line of commits with one build step and a case, both in shell, which can be told to take their time."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import select

from precision_bisect.store.database import open_read_only, sqlite_url
from precision_bisect.store.tables import ProbeRow
from precision_bisect.store.vocabulary import Judgement, ProbeState
from tests.conftest import TestRepository
from tests.support.hold import Hold
from tests.support.program import processes_at, run_program, start_program

STACK = """
name = "line"
searched = "tool"
[repositories.tool]
path = "{folder}/tool"
[steps.build]
command = ["sh", "-c", '''{step}''']
cwd = "{{tool}}"
inputs = ["tool"]
outputs = ["tool/out"]
[case]
repository = "tool"
command = ["sh", "{folder}/case.sh"]
cwd = "{{tool}}"
harness = false
[platforms.sim]
[[verdicts]]
verdict = "mismatch"
pattern = "^WRONG"
[[verdicts]]
verdict = "pass"
pattern = "^RIGHT$"
"""

# A run takes a moment, so that a kill can fall into it; one between `from` and `to` (commits) is held.
CASE = """
number=$(cat out)
sleep 0.3
if [ "$number" -ge {hang_from} ] && [ "$number" -lt {hang_to} ] && [ -p {folder}/hold ]; then
    {{ echo $$ > {folder}/held; read -r _; }} < {folder}/hold
fi
if [ "$number" -ge {culprit} ]; then echo WRONG; exit 1; fi
echo RIGHT
"""


@dataclass
class SlowLine:
    """The stack in `folder`; the commit at `culprit` breaks it, those in `hangs` do not end before `let_go`."""

    folder: Path
    commits: int = 24
    culprit: int = 17
    hangs: tuple[int, int] = (0, 0)
    step: str = "cat number >> {folder}/built; sleep 0.2; cp number out"
    """What builds a commit, in shell."""
    shas: list[str] = field(default_factory=list[str])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    hold: Hold = field(init=False)

    def __post_init__(self) -> None:
        repository = TestRepository(self.folder / "tool")
        # With a line behind the number, or git would take no notice of it in time.
        self.shas = [
            repository.commit(f"commit {number}", {"number": f"{number}\n", ".gitignore": "out\n"})
            for number in range(self.commits)
        ]
        (self.folder / "stack.toml").write_text(
            STACK.format(folder=self.folder, step=self.step.format(folder=self.folder))
        )
        (self.folder / "case.sh").write_text(
            CASE.format(
                folder=self.folder, culprit=self.culprit, hang_from=self.hangs[0], hang_to=self.hangs[1]
            )
        )
        self.hold = Hold(self.folder)
        self.variables = {**os.environ, "PRECISION_BISECT_HOME": str(self.folder / "home"), "COLUMNS": "100"}

    @property
    def arguments(self) -> list[str]:
        """What a user types to bisect it."""
        return [
            *("--stack", str(self.folder / "stack.toml"), "--case", "number", "--timeout", "900"),
            *("--confidence", "0.9"),
            *("--good", self.shas[0], "--bad", self.shas[-1], "-o", str(self.output)),
        ]

    @property
    def output(self) -> Path:
        """The report's folder."""
        return self.folder / "report"

    @property
    def store(self) -> str:
        """The URL of the store that is used by default."""
        return sqlite_url(self.folder / "home" / "state" / "store.sqlite")

    def let_go(self) -> None:
        """No run hangs any more."""
        self.hold.let_go()

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start the command."""
        return start_program(*arguments, cwd=self.folder, environment=self.variables)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run the command to its end."""
        return run_program(*arguments, cwd=self.folder, environment=self.variables)

    def report(self) -> dict[str, Any]:
        """What the tool wrote for machines."""
        return json.loads((self.output / "report.json").read_text())

    def builds(self) -> list[str]:
        """The numbers of the commits that were built, as often as they were."""
        return (self.folder / "built").read_text().split()

    def probes(self, store: str | None = None) -> list[ProbeRow]:
        """All rows of probes."""
        with open_read_only(store or self.store)() as session:
            return list(session.scalars(select(ProbeRow).order_by(ProbeRow.ordinal)))

    def check(self, store: str | None = None) -> list[ProbeRow]:
        """The planted commit is named, every verdict is true, no run counts twice, nothing is left running."""
        (culprit,) = self.report()["culprits"]
        assert culprit["commit"] == self.shas[self.culprit]
        probes = self.probes(store)
        finished = [probe for probe in probes if probe.state is ProbeState.FINISHED]
        for probe in finished:
            broken = self.shas.index(probe.commit) >= self.culprit
            assert probe.judgement is (Judgement.BAD if broken else Judgement.GOOD), probe.ordinal
        assert len({(probe.content, probe.run) for probe in probes}) == len(probes)
        assert self.processes() == []
        return probes

    def processes(self) -> list[psutil.Process]:
        """What still runs with this home in its environment."""
        return processes_at(self.variables["PRECISION_BISECT_HOME"])
