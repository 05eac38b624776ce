"""The options that a case offers, asked for once where what decides them is the same."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from ...store.files import write_whole
from ..case.case import options_in_help
from ..process.execute import Command, execute
from ..process.interrupt import Interrupt
from ..stack.stack import Stack
from ..stack.templates import fill
from ..workspace.content import StackContent
from ..workspace.environment import EnvironmentReader
from ..workspace.slot import Slot
from .builder import BuiltToolchain
from .builds.keys import digest
from .preparation import Prepared
from .records import ProbeRequest

_HELP_TIMEOUT = 300
_MOST_LINES = 10_000


class OfferedOptions:
    """A folder with one file a key, as for builds: a later bisection need not ask again."""

    def __init__(
        self,
        folder: Path,
        stack: Stack,
        content: StackContent,
        reader: EnvironmentReader,
        *,
        interrupt: Interrupt | None = None,
    ) -> None:
        self._folder = folder
        self._stack = stack
        self._content = content
        self._reader = reader
        self._interrupt = interrupt

    def of_case(
        self, slot: Slot, request: ProbeRequest, prepared: Prepared, toolchain: BuiltToolchain
    ) -> frozenset[str]:
        """The options in the case's `--help` here; none where it fails, and it is asked again next time.

        Raises `OSError` where there is no room to keep them, and `InterruptedWorkError`.
        """
        case = self._stack.case
        if not case.help:
            return frozenset()
        key = digest(
            {
                "help": case.help,
                "cwd": case.cwd,
                "case": str(request.case),
                "platform": request.platform,
                "inputs": self._inputs(request, toolchain),
                "surroundings": dict(prepared.surroundings),
                "variables": self._reader.variables(),
            }
        )
        offered = self._kept(key)
        if offered is not None:
            return offered
        lines: list[str] = []
        finished = execute(
            Command(
                argv=[fill(word, prepared.values) for word in case.help],
                cwd=slot.directory / fill(case.cwd, prepared.values),
                environment=prepared.environment,
                timeout=_HELP_TIMEOUT,
                holds=(slot.lock,),
                interrupt=self._interrupt,
            ),
            log=request.directory / "help.log.gz",
            on_line=lambda _stream, line: lines.append(line) if len(lines) < _MOST_LINES else None,
        )
        if finished.ending.exit_code != 0:
            return frozenset()
        offered = options_in_help("\n".join(lines))
        self._keep(key, offered)
        return offered

    def _inputs(self, request: ProbeRequest, toolchain: BuiltToolchain) -> Mapping[str, str]:
        case = self._stack.case
        if not case.help_inputs:
            return {"content": self._content.of_revisions(request.revisions), "toolchain": toolchain.key}
        inputs = {entry: self._content.of_input(request.revisions, entry) for entry in case.help_inputs}
        script = None if request.case is None else request.case.path
        if script is not None and script.is_absolute():  # the tool's own, which no commit holds
            inputs["script"] = hashlib.sha256(Path(script).read_bytes()).hexdigest()
        elif script is not None:
            inputs["script"] = self._content.of_input(request.revisions, f"{case.repository}:{script}")
        return inputs

    def _kept(self, key: str) -> frozenset[str] | None:
        try:
            return frozenset(json.loads((self._folder / key).read_text()))
        except (OSError, ValueError):
            return None

    def _keep(self, key: str, options: frozenset[str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._folder / key, json.dumps(sorted(options)))
