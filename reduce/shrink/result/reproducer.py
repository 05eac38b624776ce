"""The folder that a reduction leaves: the failing build, its twin, and what it takes to run and understand them."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....runner.case.entry_arguments import write_specs
from ....runner.case.runtime_dir import REPLAY_CASE
from ....runner.case.scene_tests import HARNESS
from ....runner.compare.statistics.statistics import Tolerance
from ....store.files import replacing
from ....store.words import plural
from ...replay.toolchain import Toolchain
from ...scene.test import write_scene_test
from ..oracle.expected import Expected
from ..oracle.maker import Maker
from ..program.candidate import Candidate
from ..program.made_build import MadeBuild
from ..program.pair import BuildPair
from .check_script import CheckScript, interpreter_lines, runs_to_show
from .reduction import Verified
from .worst_rows import WorstRow

_SAME_FAILURE = Path(__file__).with_name("same_failure.py")


@dataclass(frozen=True, kw_only=True)
class Reproducer:
    """Writes below `output`: `result` is a link to the newest complete version, replaced at once.

    `expected` is what `check.sh` asks of the failing run, `script` asks it in its place. `timeout` is seconds.
    """

    pair: BuildPair
    maker: Maker
    output: Path
    tolerance: Tolerance
    reason: str
    expected: Expected
    script: Path | None
    timeout: float

    @property
    def result(self) -> Path:
        """The newest complete version."""
        return self.output / "result"

    def write(self, candidate: Candidate) -> tuple[MadeBuild, MadeBuild | None]:
        """The failing build and its twin, in a new version."""
        versions = self.output / "versions"
        versions.mkdir(parents=True, exist_ok=True)
        number = (
            max((int(version.name) for version in versions.iterdir() if version.name.isdigit()), default=0)
            + 1
        )
        folder = versions / str(number)
        failing, passing = self.make(candidate, folder)
        self._texts(folder)
        self.explain(candidate, failing, ())
        with replacing(self.result) as link:
            link.symlink_to(Path("versions") / str(number))
        for old in versions.iterdir():
            if old.name != str(number):
                shutil.rmtree(old, ignore_errors=True)
        return failing, passing

    def make(self, candidate: Candidate, folder: Path) -> tuple[MadeBuild, MadeBuild | None]:
        """Both builds below the new folder `folder`, each with its `run.sh`; no twin without a reference."""
        failing, passing = self.maker.make(candidate, folder)
        shutil.rmtree(folder / "runs-computing", ignore_errors=True)
        self._runnable(failing, self.pair.failing.toolchain)
        if passing is not None:
            self._runnable(passing, self.pair.reference.toolchain)
        return failing, passing

    def explain(self, candidate: Candidate, failing: MadeBuild, worst: Sequence[WorstRow]) -> None:
        """Writes `why.md` beside the failing build."""
        pair = self.pair
        tasks = [f"- task {each}: `{pair.tasks[each].name}`" for each in pair.submitted(candidate)]
        missing = [f"- {pair.named(each)}" for each in candidate.tasks if each in pair.missing]
        substituted = [
            f"- `{each.tensor}`: {plural(each.elements, 'element')} left by "
            f"{'no task' if each.producer_ordinal < 0 else pair.named(each.producer_ordinal)}, recorded in the "
            f"{each.recorded_in} run"
            for each in failing.cut.boundaries
        ]
        outputs = [f"`{each.buffer.name}`" for each in failing.cut.tensors if each.expected is not None]
        rewritten = [name for name, _ in candidate.rewritten]
        truth = "the values of the good build" if self.pair.has_twin else "the golden data"
        why = [
            "# Why it fails",
            "",
            self.reason,
            "",
            f"Of {plural(len(pair.submitted(pair.order.whole)), 'task')}, left are:",
            "",
            *tasks,
            "",
            *(["Submitted by the passing build alone:", "", *missing, ""] if missing else []),
            f"Outputs: {', '.join(outputs) or 'none'}, against {truth}.",
            f"Kernels taken from the good build: {', '.join(candidate.collapsed) or 'none'}.",
            f"Sizes made smaller: {', '.join(f'{each} to {other}' for each, other in candidate.extents) or 'none'}.",
            f"Tasks in fewer blocks: {', '.join(f'{each} in {count}' for each, count in candidate.blocks) or 'none'}.",
            f"Inputs with plain values: {', '.join(f'`{each}`: {how}' for each, how in candidate.plain) or 'none'}.",
            f"Statements dropped from the kernels of both builds: {len(candidate.statements)}.",
            f"Kernels with a text made smaller by another program: {', '.join(rewritten) or 'none'}.",
            "",
            "Recorded values in place of dropped tasks:",
            "",
            *(substituted or ["- none"]),
        ]
        if worst:
            why += ["", "Worst rows (the last axis), in a run of the result:", "", *_table(worst)]
        (failing.path.parent / "why.md").write_text("\n".join(why) + "\n", encoding="utf-8")

    def tell_rate(self, failing: MadeBuild, verified: Verified) -> None:
        """Has `check.sh` beside the failing build run it as often as it takes, and says so there."""
        folder = failing.path.parent
        runs = runs_to_show(verified)
        _script(folder / "check.sh", *self._check.lines(runs=runs))
        with (folder / "README.md").open("a", encoding="utf-8") as readme:
            readme.write(
                f"\nThe failing build failed in {verified.failures} of {plural(verified.runs, 'run')} that verified "
                f"it: `./check.sh` runs it up to {plural(runs, 'time')}, "
                "which shows the failure with a chance of 99 %.\n"
            )

    @property
    def _check(self) -> CheckScript:
        return CheckScript(
            python=self.pair.failing.toolchain.python,
            timeout=self.timeout,
            has_twin=self.pair.has_twin,
            script=self.script,
        )

    def _runnable(self, made: MadeBuild, toolchain: Toolchain) -> None:
        debug = made.path / "debug"
        shutil.rmtree(debug, ignore_errors=True)
        debug.mkdir()
        shutil.copyfile(REPLAY_CASE, debug / "run.py")
        if toolchain.stack.case.scene_tests:
            shutil.copyfile(HARNESS, debug / HARNESS.name)
        write_specs(made.arguments, debug / "specs.json")
        environment = toolchain.environment
        exports = [
            f"export {name}={shlex.quote(environment[name])}" if name in environment else f"unset {name}"
            for name in sorted(toolchain.settings)
        ]
        command = shlex.join(
            [
                *("debug/run.py", "--standalone", "-p", toolchain.platform),
                *("-d", str(toolchain.device)),
                *("--rtol", repr(self.tolerance.rtol), "--atol", repr(self.tolerance.atol)),
            ]
        )
        lines = [*interpreter_lines(toolchain.python), 'cd "$(dirname "$0")" || exit', *exports]
        _script(made.path / "run.sh", *lines, f'exec "$python" {command}')
        write_scene_test(made.path, made.arguments, self.tolerance, data=None)

    def _texts(self, folder: Path) -> None:
        _script(folder / "run.sh", 'exec "$(dirname "$0")/failing/run.sh"')
        debug = folder / "failing" / "debug"
        shutil.copyfile(_SAME_FAILURE, debug / "same_failure.py")
        (debug / "expected.json").write_text(json.dumps(vars(self.expected)), encoding="utf-8")
        _script(folder / "check.sh", *self._check.lines(runs=1))
        passing = (
            "- `failing/`: a build that fails; `passing/`: the same tasks of the good build, which pass."
        )
        readme = [
            "# Reduced build",
            "",
            passing if self.pair.has_twin else "- `failing/`: a build that fails.",
            "- `./run.sh` runs the failing one, `./check.sh` all: exit code 0 if the failure is reproduced.",
            "- `failing/test_reduced.py`: the same as a scene test of the runtime.",
            "- `why.md`: what is left, and which values were substituted.",
        ]
        (folder / "README.md").write_text("\n".join(readme) + "\n", encoding="utf-8")


def _table(worst: Sequence[WorstRow]) -> list[str]:
    lines = [
        "| output | row | differ | column | actual | expected |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{row.output}` | {list(row.index)} | {row.different} of {row.elements} | {row.column} | "
        f"{row.actual:.6g} | {row.expected:.6g} |"
        for row in worst
    ]
    return lines


def _script(path: Path, *lines: str) -> None:
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)
