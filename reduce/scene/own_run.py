"""One run of a scene test's own script, which dumps all that its tasks are given and leave."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...runner.build_output.build_directory import BuildDirectory
from ...runner.build_output.kernel_config import Kernel, KernelConfig
from ...runner.case.case import options_in_help
from ...runner.case.scene_tests import SEEDED
from ...runner.errors import UserError
from ...runner.localization.job import BuildToRun, SceneCase
from ...runner.process.execute import Command, FinishedCommand, execute
from ...runner.stack.templates import fill
from ...runner.workspace.targets import lease
from ..replay.toolchain import Toolchain
from .dumps import DumpedRun

_EVERYTHING = "2"
"""The level at which the runtime dumps each argument of each task."""
_HELP_TIMEOUT = 120.0
_NOT_IN_A_NAME = re.compile(r"[^\w.-]")


@dataclass(frozen=True, kw_only=True)
class OwnRun:
    """What runs the script of a scene test in the slot of its commit; `timeout` is in seconds, `folder` takes logs.
    `config` is the kernel list, where it could be written down."""

    side: BuildToRun
    toolchain: Toolchain
    scene: SceneCase
    timeout: float
    folder: Path
    config: KernelConfig | None = None

    def dumped(self) -> DumpedRun:
        """Run it from a fixed seed, whatever its verdict.

        Raises:
            UserError: it cannot dump at this revision, or left no dump.
            BuildOutputError: the dump cannot be read.
        """
        self.folder.mkdir(parents=True)
        outputs, spelling = self._outputs, self._spelling()
        before = set(outputs.iterdir()) if outputs.is_dir() else set[Path]()
        log = self.folder / "run.log.gz"
        finished = self._execute(self._command(spelling), timeout=self.timeout, log=log)
        new = sorted(set(outputs.iterdir()) - before) if outputs.is_dir() else []
        dumps = [each for each in new if self._is_of_case(each.name) and any(each.glob("*_dump*"))]
        if len(dumps) != 1:
            raise UserError(
                f"{self.side.build.name}: expected one dump of {self.scene.failed or 'its case'} in {outputs}, found "
                f"{len(dumps)}: the run ended with {finished.ending}; see {log}"
            )
        found = BuildDirectory.open(dumps[0])
        listed: Mapping[int, Kernel] = {} if self.config is None else self.config.kernels
        kernels = {number: kernel.name for number, kernel in listed.items()}
        for names in found.name_maps():
            kernels |= names.names
        return DumpedRun(
            folder=found.folder.root, dump=found.args_dump(), kernels=kernels, config=self.config
        )

    @property
    def _outputs(self) -> Path:
        place = self.side.stack.case.build_output
        if place is None:
            raise UserError(f"stack {self.side.stack.name}: expected case.build_output, found none")
        return self.side.slot / place

    @property
    def _values(self) -> Mapping[str, str]:
        return self.toolchain.values(case=self.side.build, folder=self.side.slot)

    def _is_of_case(self, name: str) -> bool:
        """Whether the folder of a case's records is that of the one that failed."""
        failed = self.scene.failed
        return failed is None or name.startswith(_NOT_IN_A_NAME.sub("_", failed.replace("::", "_")) + "_")

    def _command(self, spelling: str) -> Sequence[str]:
        """The stack's command, with the script behind what fixes the seed."""
        argv: list[str] = []
        for word in self.side.stack.case.command:
            argv += [str(SEEDED), str(self.side.build)] if word == "{case}" else [fill(word, self._values)]
        only = self.scene.failed
        chosen = ["--case", only] if only is not None and "--case" not in self.scene.arguments else []
        return [*argv, *self.scene.arguments, *chosen, spelling, _EVERYTHING]

    def _spelling(self) -> str:
        """The option that asks for a dump at this revision."""
        case = self.side.stack.case
        log = self.folder / "help.log.gz"
        self._execute([fill(word, self._values) for word in case.help], timeout=_HELP_TIMEOUT, log=log)
        with gzip.open(log, "rt", encoding="utf-8", errors="replace") as text:
            offered = options_in_help(text.read())
        spelling = next((each for each in case.flags.dump if each in offered), None)
        if spelling is None:
            raise UserError(
                f"{self.side.build.name}: expected an option of {', '.join(case.flags.dump) or 'case.flags.dump'} at "
                f"this revision, found none; see {log}"
            )
        return spelling

    def _execute(self, argv: Sequence[str], *, timeout: float, log: Path) -> FinishedCommand:
        stack, platform = self.side.stack, self.toolchain.platform
        command = Command(
            argv=argv,
            cwd=Path(fill(stack.case.cwd, self._values)),
            environment=self.toolchain.environment,
            timeout=timeout,
        )
        with lease(platform, stack.platforms[platform], self.toolchain.device, on_wait=lambda _message: None):
            return execute(command, log=log, on_line=lambda _stream, _line: None)
