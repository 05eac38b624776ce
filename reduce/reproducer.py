"""The folder that a reduction leaves: the failing build, its twin, and what it takes to run and understand them."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..runner.scene_tests import HARNESS
from ..runner.tensors.statistics import Tolerance
from .entry_arguments import write_specs
from .program.candidate import Folder, Pair
from .program.model import Reduction
from .scene_test import write_scene_test
from .toolchain import Toolchain

_REPLAY = Path(__file__).with_name("replay_case.py")


@dataclass(frozen=True, kw_only=True)
class Reproducer:
    """Writes below `output`: `result` is a link to the newest complete version, replaced at once."""

    pair: Pair
    output: Path
    tolerance: Tolerance
    reason: str

    @property
    def result(self) -> Path:
        """The newest complete version."""
        return self.output / "result"

    def write(self, reduction: Reduction) -> tuple[Folder, Folder]:
        """The failing build and its twin."""
        versions = self.output / "versions"
        versions.mkdir(parents=True, exist_ok=True)
        number = max((int(one.name) for one in versions.iterdir() if one.name.isdigit()), default=0) + 1
        folder = versions / str(number)
        ours = self.pair.make_failing(reduction, folder / "failing")
        theirs = self.pair.make_reference(reduction, folder / "passing")
        for made, toolchain in ((ours, self.pair.failing.toolchain), (theirs, self.pair.reference.toolchain)):
            self._replay(made, toolchain)
            write_scene_test(made.path, made.arguments, self.tolerance)
        self._texts(folder, reduction, ours)
        link = self.output / "result.new"
        link.unlink(missing_ok=True)
        link.symlink_to(Path("versions") / str(number))
        link.replace(self.result)
        for old in versions.iterdir():
            if old.name != str(number):
                shutil.rmtree(old, ignore_errors=True)
        return ours, theirs

    def _replay(self, made: Folder, toolchain: Toolchain) -> None:
        shutil.rmtree(made.path / "debug", ignore_errors=True)
        (made.path / "debug").mkdir()
        shutil.copyfile(_REPLAY, made.path / "debug" / "run.py")
        if toolchain.stack.case.scene_tests:
            shutil.copyfile(HARNESS, made.path / "debug" / HARNESS.name)
        write_specs(made.arguments, made.path / "debug" / "specs.json")
        values = toolchain.values(case=made.path / "debug" / "run.py", folder=made.path)
        own = toolchain.stack.environment.variables.keys() | toolchain.variables.keys()
        environment = toolchain.environment(values)
        exports = [f"export {name}={shlex.quote(environment[name])}" for name in sorted(own)]
        command = shlex.join(
            [
                *(str(toolchain.python), "debug/run.py", "--standalone", "-p", toolchain.platform),
                *("-d", str(toolchain.device)),
                *("--rtol", repr(self.tolerance.rtol), "--atol", repr(self.tolerance.atol)),
            ]
        )
        _script(made.path / "run.sh", 'cd "$(dirname "$0")"', *exports, f"exec {command}")

    def _texts(self, folder: Path, reduction: Reduction, ours: Folder) -> None:
        _script(folder / "run.sh", 'exec "$(dirname "$0")/failing/run.sh"')
        _script(
            folder / "check.sh",
            'cd "$(dirname "$0")"',
            "./passing/run.sh >passing.log 2>&1 || { echo 'the twin does not pass: passing.log'; exit 2; }",
            "if ./failing/run.sh >failing.log 2>&1; then echo 'passed: not reproduced'; exit 1; fi",
            "grep -q 'does not match golden' failing.log || { echo 'another failure: failing.log'; exit 2; }",
            "echo reproduced",
        )
        program = self.pair.failing.program
        tasks = [f"- task {one}: `{program.tasks[one].name}`" for one in reduction.tasks]
        substituted = [
            f"- `{one.tensor}`: {one.elements} elements left by task {one.producer_ordinal} (`{one.producer}`), "
            f"recorded in the {one.recorded_in} run"
            for one in ours.cut.boundaries
        ]
        outputs = [one.buffer.name for one in ours.cut.tensors if one.expected is not None]
        why = [
            "# Why it fails",
            "",
            self.reason,
            "",
            f"Of {len(program.tasks)} tasks these are left:",
            "",
            *tasks,
            "",
            f"Judged by: {', '.join(f'`{one}`' for one in outputs)}, against the values of the good build.",
            f"Kernels taken from the good build: {', '.join(reduction.collapsed) or 'none'}.",
            "",
            "Recorded values in place of dropped tasks:",
            "",
            *(substituted or ["- none"]),
        ]
        (folder / "why.md").write_text("\n".join(why) + "\n", encoding="utf-8")
        readme = [
            "# Reduced build",
            "",
            "- `failing/`: a build directory that fails; `passing/`: the same tasks of the good build, which pass.",
            "- `./run.sh` runs the failing one, `./check.sh` both: exit code 0 if the failure is reproduced.",
            "- `failing/test_reduced.py`: the same as a scene test of the runtime.",
            "- `why.md`: what is left, and which values were substituted.",
        ]
        (folder / "README.md").write_text("\n".join(readme) + "\n", encoding="utf-8")


def _script(path: Path, *lines: str) -> None:
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)
