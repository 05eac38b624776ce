"""What surrounds a probe and can change its result: interpreter, tools, CPU, libraries, inherited variables."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from string import Template

from ..stack.parts import Tool
from ..stack.stack import Stack

_VERSION_TIMEOUT = 30
_MOST_OF_VERSION_FILE = 4096
NOT_FOUND = "not found"
"""What stands in place of a tool's version."""


class EnvironmentReader:
    """Reads the environment's description, as processes that inherit `variables` see it. Tool versions are asked for
    once as long as the program file is the same."""

    def __init__(self, stack: Stack, variables: Mapping[str, str] = os.environ) -> None:
        self._environment = stack.environment
        self._inherited = variables
        self._versions: dict[tuple[str, int, int], str] = {}

    def read(self, *, packages_path: Sequence[str] | None = None) -> dict[str, str]:
        """The description, by name. `packages_path` is where Python distributions are looked for."""
        base = self._environment.python or sys.executable
        return {
            "machine": platform.machine(),
            "system": f"{platform.system()} {platform.release()}",
            "libc": " ".join(platform.libc_ver()),
            "cpu": _cpu_model(),
            "cores": str(os.cpu_count()),
            "python": self.version(Tool(command=(base, "--version"))) or NOT_FOUND,
            **{
                f"tool {name}": self.version(tool) or NOT_FOUND
                for name, tool in self._environment.tools.items()
            },
            **{
                f"package {name}": _package_version(name, packages_path)
                for name in self._environment.packages
            },
            **{f"variable {name}": self._inherited.get(name, "") for name in self._environment.matters},
            **self._told_by_files(),
        }

    def _told_by_files(self) -> dict[str, str]:
        """The versions that files tell, of those that are there."""
        told = {
            f"version of {name}": _version_in(Path(Template(path).safe_substitute(self._inherited)))
            for name, path in self._environment.version_files.items()
        }
        return {name: version for name, version in told.items() if version is not None}

    def variables(self) -> dict[str, str]:
        """The templates of the variables that steps and runs get: the stack's, and those of the tools that are here."""
        own = dict(self._environment.variables)
        for tool in self._environment.tools.values():
            if tool.variables and self.version(tool) is not None:
                own |= tool.variables
        return own

    def keeps_objects(self) -> bool:
        """Whether a tool is here that keeps what is compiled for all slots."""
        tools = self._environment.tools.values()
        return any(tool.keeps_objects and self.version(tool) is not None for tool in tools)

    def version(self, tool: Tool) -> str | None:
        """The first line that a tool prints of itself, None where it is missing or fails."""
        program = shutil.which(tool.command[0], path=self._inherited.get("PATH"))
        if program is None:
            return None
        status = Path(program).resolve().stat()
        key = (" ".join((program, *tool.command[1:])), status.st_mtime_ns, status.st_size)
        if key not in self._versions:
            try:
                output = subprocess.run(
                    [program, *tool.command[1:]],
                    env=dict(self._inherited),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_VERSION_TIMEOUT,
                    check=True,
                )
            except (OSError, subprocess.SubprocessError):
                return None
            lines = (output.stdout or output.stderr).strip().splitlines()
            self._versions[key] = lines[0] if lines else "no version printed"
        return self._versions[key]


def fingerprint(details: Mapping[str, str]) -> str:
    """The SHA-256 of a description, as hexadecimal digits."""
    return hashlib.sha256(json.dumps(details, sort_keys=True).encode()).hexdigest()


def moved(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What differs between two descriptions, a phrase each.

    >>> moved({"cpu": "A", "cores": "2"}, {"cpu": "B", "cores": "2"})
    ['cpu: A -> B']
    """
    names = sorted(before.keys() | after.keys())
    return [
        f"{name}: {before.get(name, 'absent')} -> {after.get(name, 'absent')}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _version_in(path: Path) -> str | None:
    """The value of the line `Version=...` of a file, else its first line; None where it cannot be read, or is empty."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_OF_VERSION_FILE).decode(errors="replace")
    except OSError:
        return None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    stated = (line.partition("=")[2].strip() for line in lines if line.lower().startswith("version="))
    return next(stated, None) or next(iter(lines), None)


def _package_version(name: str, path: Sequence[str] | None) -> str:
    for distribution in metadata.distributions(name=name, path=list(sys.path if path is None else path)):
        return distribution.version
    return "not installed"
