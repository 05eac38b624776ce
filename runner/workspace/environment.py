"""Describes what surrounds a probe and can change its result: interpreter, tools, CPU, libraries, variables.

`EnvironmentReader` reads the description, and `fingerprint` digests it. `InheritedVariables` are the variables of the
user's shell that reach a case. `examine_machine` checks that the machine has what a stack needs: checkouts, submodules,
tools, packages, platforms and disk space.
"""

import hashlib
import hmac
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from string import Template
from textwrap import shorten
from typing import Any, Literal, cast

from pydantic import model_validator

from ...store.vocabulary import plural
from ..errors import UserError, reason
from ..git import HIDDEN_VARIABLES, GitRepository, inherited_environment
from ..process.run import IRRELEVANT_VARIABLES, is_public, is_secret_name
from ..releases import list_releases
from ..stack import GitlinkPin, Model, Platform, Stack, Tool
from .home import Home
from .slot import base_packages

_VERSION_TIMEOUT = 30
"""A tool has this many seconds to print its version. One that waits for input would hold the check."""
_MOST_OF_VERSION_FILE = 4096
"""At most this many bytes of a version file are read. A version stands in its first lines."""
NOT_FOUND = "not found"
"""This text stands in place of the version of a tool that is missing."""
_UNUSABLE = "not usable: "
"""The reason why an existing tool reported no version begins with this prefix."""


class EnvironmentReader:
    """Reads the environment's description, as processes that inherit `variables` see it.

    A tool is asked for its version once, as long as the program file is the same.
    """

    def __init__(self, stack: Stack, variables: Mapping[str, str] = os.environ) -> None:
        self._environment = stack.environment
        self._inherited = variables
        self._versions: dict[tuple[str, int, int], str] = {}

    def read(self, *, packages_path: Sequence[str] | None = None) -> dict[str, str]:
        """Return the description, by name. `packages_path` is where Python distributions are looked for."""
        base = self._environment.python or sys.executable
        return {
            "machine": platform.machine(),
            "system": f"{platform.system()} {platform.release()}",
            "libc": " ".join(platform.libc_ver()),
            "cpu": _cpu_model(),
            "cores": str(os.cpu_count()),
            "python": self._describe(Tool(command=(base, "--version"))),
            **{f"tool {name}": self._describe(tool) for name, tool in self._environment.tools.items()},
            **{
                f"package {name}": _package_version(name, packages_path)
                for name in self._environment.packages
            },
            **{f"variable {name}": self._inherited.get(name, "") for name in self._environment.matters},
            **self._describe_files(),
        }

    def _describe_files(self) -> dict[str, str]:
        """Return the versions from those version files that exist."""
        told = {
            f"version of {name}": _version_in(Path(Template(path).safe_substitute(self._inherited)))
            for name, path in self._environment.version_files.items()
        }
        return {name: version for name, version in told.items() if version is not None}

    def variables(self) -> dict[str, str]:
        """Return the templates of the variables for steps and runs: the stack's, and those of the tools that exist
        here.
        """
        own = dict(self._environment.variables)
        for tool in self._environment.tools.values():
            if tool.variables and self.version(tool) is not None:
                own |= tool.variables
        return own

    def keeps_objects(self) -> bool:
        """Return whether a tool exists here that keeps compiled objects for all slots."""
        tools = self._environment.tools.values()
        return any(tool.keeps_objects and self.version(tool) is not None for tool in tools)

    def version(self, tool: Tool) -> str | None:
        """Return the first line that a tool prints about itself; None where the tool is missing or fails."""
        told = self._describe(tool)
        return told if is_version(told) else None

    def _describe(self, tool: Tool) -> str:
        """Return a tool's version, or why there is none. A program that fails, or is slow, is not missing."""
        program = shutil.which(tool.command[0], path=self._inherited.get("PATH"))
        if program is None:
            return NOT_FOUND
        status = Path(program).resolve().stat()
        key = (" ".join((program, *tool.command[1:])), status.st_mtime_ns, status.st_size)
        if key not in self._versions:
            try:
                output = subprocess.run(
                    [program, *tool.command[1:]],
                    env=inherited_environment(self._inherited),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_VERSION_TIMEOUT,
                    check=True,
                )
            except subprocess.TimeoutExpired:
                return f"{_UNUSABLE}no answer within {_VERSION_TIMEOUT} s"
            except subprocess.CalledProcessError as error:
                return f"{_UNUSABLE}exit code {error.returncode}"
            except OSError as error:
                return f"{_UNUSABLE}{reason(error)}"
            lines = (output.stdout or output.stderr).strip().splitlines()
            self._versions[key] = lines[0] if lines else "no version printed"
        return self._versions[key]


def is_version(told: str) -> bool:
    """Return whether a tool's entry in a description is a version, and not the reason why there is none."""
    return told != NOT_FOUND and not told.startswith(_UNUSABLE)


def fingerprint(details: Mapping[str, str]) -> str:
    """Return the SHA-256 of a description, as hexadecimal digits."""
    return hashlib.sha256(json.dumps(details, sort_keys=True).encode()).hexdigest()


def description_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the differences between two descriptions, one phrase each.

    >>> description_changes({"cpu": "A", "cores": "2"}, {"cpu": "B", "cores": "2"})
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
    """Return the value of a file's line `Version=...`, else its first line; None if it is unreadable or empty."""
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


PYTHON_VARIABLES = frozenset({"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"})
"""Commands do not inherit these variables where the stack has an interpreter of its own."""
_IRRELEVANT_PREFIXES = (
    *("DBUS_", "DESKTOP_", "GNOME_", "JOURNAL_", "KDE_", "LESS", "SSH_", "SUDO_", "SYSTEMD_", "TERM_"),
    *("GIT_AUTHOR_", "GIT_COMMITTER_", "PRECISION_BISECT_", "PYTEST_", "TMUX", "VSCODE_", "VTE_", "XDG_"),
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = 16
"""A digest has this many hexadecimal digits: 64 bits, of which chance makes no two alike."""


class InheritedVariables(Model):
    """The inherited variables that may change a result.

    `values` holds the public values. Any other value may be a secret, so a digest is kept by name. `digests` are those
    of variables that the case's command or a source names. `unread` are those of variables that nothing is known to
    read. A digest is empty where an earlier version kept none.
    """

    values: Mapping[str, str]
    digests: Mapping[str, str] = {}
    unread: Mapping[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _upgrade_old_form(cls, data: Any) -> Any:
        """Convert the form of earlier versions, which kept more values, and the names alone of some variables."""
        if not isinstance(data, Mapping) or "hidden" not in data:
            return cast(Any, data)
        old = cast(Mapping[str, Any], data)
        values = {name: value for name, value in old["values"].items() if is_public(name, value)}
        names = {*old["values"], *old["hidden"]} - values.keys()
        return {
            "values": values,
            "digests": dict.fromkeys(sorted(names), ""),
            "unread": dict.fromkeys(old.get("unread", {}), ""),
        }

    def split_by_use(self, named: AbstractSet[str]) -> "InheritedVariables":
        """Return a copy in which, without public values, only the variables with these names count as read."""
        return InheritedVariables(
            values=self.values,
            digests={name: digest for name, digest in self.digests.items() if name in named},
            unread={name: digest for name, digest in self.digests.items() if name not in named},
        )

    @property
    def relevant_values(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the variables that may change what a run does, without the values of tokens.

        A renewed token changes nothing, so its name alone counts.
        """
        digests = {name: "" if is_secret_name(name) else digest for name, digest in self.digests.items()}
        return self.values, digests


def case_variables(stack: Stack, home: Home, variables: Mapping[str, str] = os.environ) -> InheritedVariables:
    """Return the variables that reach the cases of a stack, without those that the stack sets or watches itself.

    Raises `OSError` where the home's key cannot be made.
    """
    own = {*stack.environment.variables, *stack.environment.matters, *stack.case.variables}
    if stack.needs_python:
        own |= PYTHON_VARIABLES
    inherited = {name: value for name, value in variables.items() if name not in own}
    return inherited_variables(inherited, key=home.key())


def inherited_variables(variables: Mapping[str, str], *, key: bytes) -> InheritedVariables:
    """Return the variables that could change a case's result. Those for places and terminals are left out.

    >>> inherited_variables({"MALLOC_PERTURB_": "165", "HOME": "/root", "GITHUB_PAT": "x"}, key=b"k")
    InheritedVariables(values={'MALLOC_PERTURB_': '165'}, digests={'GITHUB_PAT': '953e1cff96e4f499'}, unread={})
    """
    relevant = {name: variables[name] for name in sorted(variables) if _may_matter(name)}
    told = {name: value for name, value in relevant.items() if is_public(name, value)}
    return InheritedVariables(
        values=told,
        digests={name: _digest(name, relevant[name], key) for name in relevant if name not in told},
    )


def variable_changes(before: InheritedVariables, now: InheritedVariables) -> Iterator[str]:
    """Yield a phrase for each difference between two environments. A value that was not kept is not shown.

    >>> shells = [inherited_variables({"LANG": value}, key=b"") for value in ("C", "POSIX")]
    >>> list(variable_changes(*shells))
    ['LANG was C, is POSIX']
    """
    old, new = ({**each.digests, **each.unread, **each.values} for each in (before, now))
    for name in sorted(old.keys() | new.keys()):
        is_shown = name in before.values or name in now.values
        if name not in new:
            yield f"{name} was {old[name] if is_shown else 'set'}, is not set"
        elif name not in old:
            yield f"{name} is {new[name] if is_shown else 'set'}, was not set"
        elif old[name] and new[name] and old[name] != new[name]:
            both_shown = name in before.values and name in now.values
            yield f"{name} was {old[name]}, is {new[name]}" if both_shown else f"{name} has another value"


def _may_matter(name: str) -> bool:
    elsewhere = name in IRRELEVANT_VARIABLES or name in HIDDEN_VARIABLES
    return _NAME.fullmatch(name) is not None and not elsewhere and not name.startswith(_IRRELEVANT_PREFIXES)


def _digest(name: str, value: str, key: bytes) -> str:
    """Return a keyed digest of a value. Only a holder of the key can test guesses of the value."""
    text = f"{name}={value}".encode("utf-8", "surrogateescape")
    return hmac.digest(key, text, "sha256").hex()[:_DIGITS]


FindingState = Literal["ok", "missing", "warning"]
_LITTLE_SPACE = 5 << 30
"""The check warns of less free space than this, in bytes. A build of a large project may take more."""


@dataclass(frozen=True, kw_only=True)
class MachineFinding:
    """One thing that was examined, what was found, and how it can be repaired."""

    state: FindingState
    subject: str
    found: str
    hint: str = ""


def examine_machine(stack: Stack, home: Home) -> Iterator[MachineFinding]:
    """Examine repositories, pins, tools and disk. Nothing is written or built."""
    yield _git()
    for name in stack.repositories:
        yield from _repository(stack, name)
    reader = EnvironmentReader(stack)
    python = stack.environment.python
    if python is not None:
        yield _tool("python", Tool(command=(python, "--version"), hint="see environment.python"), reader)
    for name, tool in stack.environment.tools.items():
        yield _tool(name, tool, reader)
    for name, version in reader.read(packages_path=_packages_path(python)).items():
        if name.startswith("version of "):
            yield MachineFinding(state="ok", subject=name, found=version)
        if name.startswith("package "):
            missing = version == "not installed"
            yield MachineFinding(
                state="warning" if missing else "ok",
                subject=name,
                found=version,
                hint="install it in the interpreter of environment.python" if missing else "",
            )
    for name, target in stack.platforms.items():
        yield _platform(name, target)
    yield _disk(home)


def _packages_path(python: str | None) -> list[str]:
    """Return where the stack's interpreter finds packages.

    The list is empty while the interpreter is missing, which is a finding of its own.
    """
    try:
        return base_packages(python)
    except UserError:
        return []


def _git() -> MachineFinding:
    found = shutil.which("git")
    if found is None:
        return MachineFinding(state="missing", subject="git", found="not found", hint="install git")
    return MachineFinding(state="ok", subject="git", found=found)


def _repository(stack: Stack, name: str) -> Iterator[MachineFinding]:
    """Yield what is found about a repository of the stack: its checkout, its head and changed files."""
    if stack.repositories[name].releases is not None:
        yield _releases(stack, name)
        return
    path = stack.repositories[name].path
    subject = f"repository {name}"
    try:
        repository = GitRepository.open_root(path, name=name)
        if not repository.names_commit("HEAD"):
            yield MachineFinding(
                state="missing", subject=subject, found=str(path), hint="it has no commit yet"
            )
            return
        head = repository.resolve("HEAD", option=f"repositories.{name}")
    except UserError as error:
        yield MachineFinding(state="missing", subject=subject, found=str(path), hint=str(error))
        return
    changed = repository.changed_files()
    yield MachineFinding(
        state="warning" if changed else "ok",
        subject=subject,
        found=f"{path} at {head[:12]}",
        hint=f"not tested: {plural(len(changed), 'uncommitted change')}" if changed else "",
    )
    if repository.shallow_commits:
        yield MachineFinding(
            state="warning",
            subject=f"history of {name}",
            found="a shallow clone, searched only as far as it goes",
            hint=repository.deepen_hint,
        )
    for pin in stack.pins.values():
        if isinstance(pin, GitlinkPin) and pin.holder == name:
            yield _submodule(stack, pin, pinned=repository.gitlink(head, pin.path), head=head)


def _releases(stack: Stack, name: str) -> MachineFinding:
    subject = f"releases of {name}"
    try:
        versions = list_releases(stack, name)
    except UserError as error:
        return MachineFinding(state="missing", subject=subject, found="not known", hint=str(error))
    return MachineFinding(
        state="ok", subject=subject, found=f"{len(versions)}, from {versions[0]} to {versions[-1]}"
    )


def _submodule(stack: Stack, pin: GitlinkPin, *, pinned: str | None, head: str) -> MachineFinding:
    subject = f"submodule {pin.path}"
    if pinned is None:
        return MachineFinding(state="warning", subject=subject, found=f"not pinned at {head[:12]}")
    path = stack.repositories[pin.target].path
    try:
        present = GitRepository.open_root(path, name=pin.target).has_commit(pinned)
    except UserError:
        present = True  # The repository's own finding says what is wrong with it.
    return MachineFinding(
        state="ok" if present else "missing",
        subject=subject,
        found=pinned[:12] if present else f"{pinned[:12]} is not in {path}",
        hint="" if present else f"git -C {path} fetch origin {pinned}",
    )


def _platform(name: str, platform: Platform) -> MachineFinding:
    unset = [variable for variable in platform.needs if not os.environ.get(variable)]
    kind = "board, leased for each run" if platform.board else "simulator"
    return MachineFinding(
        state="warning" if unset else "ok",
        subject=f"platform {name}",
        found=kind,
        hint=f"cannot be used here: set {', '.join(unset)}" if unset else "",
    )


def _tool(name: str, tool: Tool, reader: EnvironmentReader) -> MachineFinding:
    version = reader.version(tool)
    if version is not None:
        return MachineFinding(state="ok", subject=name, found=version)
    return MachineFinding(
        state="missing" if tool.required else "warning",
        subject=name,
        found=f"{tool.command[0]} not found"
        if shutil.which(tool.command[0]) is None
        else f"not usable: {shorten(' '.join(tool.command), width=60)} fails",
        hint=tool.hint,
    )


def _disk(home: Home) -> MachineFinding:
    folder = home.cache
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    writable = os.access(folder, os.W_OK)
    found = f"{free / (1 << 30):.0f} GiB free"
    if not writable:
        return MachineFinding(
            state="missing", subject=f"cache {folder}", found="not writable", hint="set PRECISION_BISECT_HOME"
        )
    return MachineFinding(
        state="ok" if free > _LITTLE_SPACE else "warning",
        subject=f"cache {home.cache}",
        found=found,
        hint="" if free > _LITTLE_SPACE else "builds may need more; set PRECISION_BISECT_HOME",
    )
