"""Describes what surrounds a probe and can change its result: interpreter, tools, CPU, libraries, variables.

`EnvironmentReader` reads the description, and `fingerprint` digests it. `VirtualEnvironment` is that of a slot.
`InheritedVariables` are the variables of the user's shell that reach a case. `examine_machine` checks that the machine
has what a stack needs.
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
from functools import cached_property
from importlib import metadata
from pathlib import Path
from string import Template
from textwrap import shorten
from typing import Any, Literal, TypedDict, cast

from pydantic import model_validator

from ...store.durable_files import remove
from ...store.vocabulary import plural
from ..errors import UserError, reason
from ..git import HIDDEN_VARIABLES, GitRepository, inherited_environment
from ..process.run import IRRELEVANT_VARIABLES, is_public
from ..releases import list_releases
from ..stack import GitlinkPin, Model, Platform, Stack, Tool
from .home import Home

_VERSION_TIMEOUT = 30
"""A tool has this many seconds to print its version. Some programs would wait for input."""
_MAX_VERSION_FILE_BYTES = 4096
"""At most this many bytes of a version file are read. Its first lines contain the version."""
NOT_FOUND = "not found"
"""A description has this text in place of the version of a missing tool."""
_UNUSABLE = "not usable: "
"""A description has a text with this prefix in place of the version of a tool that does not print one."""


class EnvironmentReader:
    """Reads the description of the environment of processes that inherit `variables`."""

    def __init__(self, stack: Stack, variables: Mapping[str, str] = os.environ) -> None:
        self._environment = stack.environment
        self._inherited = variables
        self._versions: dict[tuple[str, int, int], str] = {}
        """The version that each command printed, by the time stamp and the size of its program."""

    def read(self, *, packages_path: Sequence[str] | None = None) -> dict[str, str]:
        """Return the description, by name. Python distributions are sought in the folders `packages_path`."""
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
        """Return the versions in those version files that exist."""
        versions = {
            f"version of {name}": _version_in(Path(Template(path).safe_substitute(self._inherited)))
            for name, path in self._environment.version_files.items()
        }
        return {name: version for name, version in versions.items() if version is not None}

    def variables(self) -> dict[str, str]:
        """Return the variables for steps and runs, as templates: the stack's, and those of the tools that exist."""
        variables = dict(self._environment.variables)
        for tool in self._environment.tools.values():
            if tool.variables and self.version(tool) is not None:
                variables |= tool.variables
        return variables

    def keeps_objects(self) -> bool:
        """Return whether a tool exists that keeps compiled objects for all slots."""
        tools = self._environment.tools.values()
        return any(tool.keeps_objects and self.version(tool) is not None for tool in tools)

    def version(self, tool: Tool) -> str | None:
        """Return the first line that a tool prints as its version; None where the tool is missing or fails."""
        description = self._describe(tool)
        return description if is_version(description) else None

    def _describe(self, tool: Tool) -> str:
        """Return a tool's version, or why there is none."""
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


def is_version(entry: str) -> bool:
    """Return whether a tool's entry in a description is a version, and not the reason why there is none."""
    return entry != NOT_FOUND and not entry.startswith(_UNUSABLE)


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
    """Return the value of a file's line `Version=...`, or else its first line; None for a missing or empty file."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_VERSION_FILE_BYTES).decode(errors="replace")
    except OSError:
        return None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    stated = (line.partition("=")[2].strip() for line in lines if line.lower().startswith("version="))
    return next(stated, None) or next(iter(lines), None)


def _package_version(name: str, path: Sequence[str] | None) -> str:
    for distribution in metadata.distributions(name=name, path=list(sys.path if path is None else path)):
        return distribution.version
    return _NOT_INSTALLED


_BASE_PATHS = "zzz-base.pth"
"""This file of a virtual environment adds the package folders of the base interpreter, without their .pth files.

So the user's editable installs of the stack stay out. Python reads it last, after the .pth files that steps install."""
_DESCRIBE = (
    # The current folder may be a checkout that has a json.py.
    "import sys; sys.path.remove('') if '' in sys.path else None; "
    "import json, site; "
    "found = [p for p in site.getsitepackages() + [site.getusersitepackages()] if p in sys.path]; "
    "print(json.dumps({'executable': sys.executable, 'version': sys.version, 'packages': found}))"
)


class BaseInterpreter(TypedDict):
    """An interpreter of which virtual environments are made. `packages` are the folders of its installed packages."""

    executable: str
    version: str
    packages: list[str]


def describe_base(python: str | None) -> BaseInterpreter:
    """Describe an interpreter; by default, the running one. Raises `UserError`."""
    base = python or sys.executable
    try:
        printed = subprocess.run([base, "-c", _DESCRIBE], check=True, capture_output=True, text=True).stdout
        return cast(BaseInterpreter, json.loads(printed))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise UserError(
            f"environment.python: expected a Python interpreter, found {base}: {error}"
        ) from error


class VirtualEnvironment:
    """A virtual environment in a folder, which also sees the packages of its base interpreter."""

    def __init__(self, directory: Path, base: str | None) -> None:
        self.directory = directory
        self._base = base
        self._complete = directory / "complete"

    @property
    def python(self) -> Path:
        """Return the interpreter of this environment."""
        return self.directory / "bin" / "python"

    @cached_property
    def _description(self) -> BaseInterpreter:
        return describe_base(self._base)

    def is_current(self) -> bool:
        """Return whether the environment was made of the base interpreter as it is now. Raises `UserError`."""
        try:
            return json.loads(self._complete.read_text()) == self._description
        except (OSError, ValueError):
            return False

    def make(self) -> None:
        """Make the environment from scratch. Raises `UserError`."""
        remove(self.directory)
        base = self._description["executable"]
        try:
            subprocess.run(
                [base, "-m", "venv", "--without-pip", str(self.directory)], check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(
                f"environment.python: expected an interpreter with the venv module, found {base}: {error}"
            ) from error
        paths = "".join(f"{path}\n" for path in self._description["packages"])
        (self._site_packages() / _BASE_PATHS).write_text(paths)
        self._complete.write_text(json.dumps(self._description))

    def packages_path(self) -> list[str]:
        """Return the folders in which the environment finds distributions, in its order; none before it is made."""
        if not self._complete.is_file():
            return []
        site_packages = self._site_packages()
        return [str(site_packages), *(site_packages / _BASE_PATHS).read_text().splitlines()]

    def _site_packages(self) -> Path:
        return next((self.directory / "lib").glob("python*")) / "site-packages"


PYTHON_VARIABLES = frozenset({"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"})
"""Commands of a stack that needs Python do not inherit these variables."""
_IRRELEVANT_PREFIXES = (
    *("DBUS_", "DESKTOP_", "GNOME_", "JOURNAL_", "KDE_", "LESS", "SSH_", "SUDO_", "SYSTEMD_", "TERM_"),
    *("GIT_AUTHOR_", "GIT_COMMITTER_", "GPG_", "ITERM_", "KITTY_", "KONSOLE_", "PRECISION_BISECT_"),
    *("PYTEST_CURRENT_TEST", "PYTEST_XDIST_", "TMUX", "VSCODE_", "VTE_", "WEZTERM_", "WT_", "XDG_"),
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = 16
"""A digest has this many hexadecimal digits, because 64 bits are hardly ever equal by chance."""


class InheritedVariables(Model):
    """The inherited variables that may change a result, by name.

    A value that is not public may be a secret, so its digest is kept. A digest is empty where an earlier version of
    the tool kept none.
    """

    values: Mapping[str, str]
    """The public values."""
    digests: Mapping[str, str] = {}
    """The digests of the other variables whose names occur in the case's command or sources."""
    unread: Mapping[str, str] = {}
    """The digests of the other variables. Nothing is known to read them."""

    @model_validator(mode="before")
    @classmethod
    def _upgrade_old_form(cls, data: Any) -> Any:
        """Convert the form of earlier versions, which had more values, and names without digests (`hidden`)."""
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
        """Return a copy that has the digests of the variables `named`, and has the others as unread."""
        return InheritedVariables(
            values=self.values,
            digests={name: digest for name, digest in self.digests.items() if name in named},
            unread={name: digest for name, digest in self.digests.items() if name not in named},
        )


def case_variables(stack: Stack, home: Home, variables: Mapping[str, str] = os.environ) -> InheritedVariables:
    """Return the inherited variables that reach a stack's cases and that the stack file does not mention.

    Raises `OSError` where the home's key cannot be made.
    """
    known = {*stack.environment.variables, *stack.environment.matters, *stack.case.variables}
    if stack.needs_python:
        known |= PYTHON_VARIABLES
    inherited = {name: value for name, value in variables.items() if name not in known}
    return inherited_variables(inherited, key=home.key())


def inherited_variables(variables: Mapping[str, str], *, key: bytes) -> InheritedVariables:
    """Return those of the variables that may change a result. The digests are made with a key.

    >>> kept = inherited_variables({"MALLOC_PERTURB_": "165", "HOME": "/root", "PIN": "x"}, key=b"k")
    >>> kept.values, kept.digests
    ({'MALLOC_PERTURB_': '165'}, {'PIN': '8bb990c40a7d61cb:4aa2a40c48f7acc4'})
    """
    relevant = {name: variables[name] for name in sorted(variables) if _may_matter(name)}
    public = {name: value for name, value in relevant.items() if is_public(name, value)}
    return InheritedVariables(
        values=public,
        digests={name: _digest(name, relevant[name], key) for name in relevant if name not in public},
    )


def variable_changes(before: InheritedVariables, now: InheritedVariables) -> Iterator[str]:
    """Yield a phrase for each difference between two sets of variables. Only public values are shown.

    >>> shells = [inherited_variables({"LANG": value}, key=b"") for value in ("C", "POSIX")]
    >>> list(variable_changes(*shells))
    ['LANG was C, is POSIX']
    """
    old, new = ({**each.digests, **each.unread, **each.values} for each in (before, now))
    unknown: list[str] = []
    for name in sorted(old.keys() | new.keys()):
        is_shown = name in before.values or name in now.values
        if name not in new:
            yield f"{name} was {old[name] if is_shown else 'set'}, is not set"
        elif name not in old:
            yield f"{name} is {new[name] if is_shown else 'set'}, was not set"
        elif not (old[name] and new[name]):
            continue  # An earlier version of the tool kept no digest.
        elif not is_shown and _key_mark(old[name]) != _key_mark(new[name]):
            unknown.append(name)
        elif old[name] != new[name]:
            both_shown = (
                name in before.values
                and name in now.values
                and max(len(old[name]), len(new[name])) <= _MAX_SHOWN_LENGTH
            )
            yield f"{name} was {old[name]}, is {new[name]}" if both_shown else f"{name} has another value"
    if unknown:
        yield f"{', '.join(unknown)} may have another value: another home made the digests, with a key of its own"


_MAX_SHOWN_LENGTH = 60
"""A longer value, such as that of PATH, is not shown among the changes."""


def _may_matter(name: str) -> bool:
    """Return whether a variable may change a result. Variables for places, terminals and our own git do not.

    PATH may, because it decides which programs a case finds.
    """
    if name == "PATH":
        return True
    if name in IRRELEVANT_VARIABLES or name in HIDDEN_VARIABLES or name.startswith(_IRRELEVANT_PREFIXES):
        return False
    return _NAME.fullmatch(name) is not None


def _digest(name: str, value: str, key: bytes) -> str:
    """Return a keyed digest of a value, behind a mark of the key. Without the key, nobody can test a guess."""
    text = f"{name}={value}".encode("utf-8", "surrogateescape")
    mark, digest = (hmac.digest(key, each, "sha256").hex()[:_DIGITS] for each in (b"", text))
    return f"{mark}:{digest}"


def _key_mark(digest: str) -> str:
    """Return what marks the key of a digest."""
    return digest.partition(":")[0]


FindingState = Literal["ok", "missing", "warning"]
_LITTLE_SPACE = 5 << 30
"""Less free space than this, in bytes, gives a warning. A build of a large project may take more."""
_NOT_INSTALLED = "not installed"
"""A description has this text in place of the version of a missing package."""


@dataclass(frozen=True, kw_only=True)
class MachineFinding:
    """The state of one thing on this machine, what was found, and how to repair it."""

    state: FindingState
    subject: str
    found: str
    hint: str = ""


def examine_machine(stack: Stack, home: Home) -> Iterator[MachineFinding]:
    """Examine repositories, pins, tools, packages, platforms and disk. Nothing is written or built."""
    yield _examine_git()
    for name in stack.repositories:
        yield from _examine_repository(stack, name)
    reader = EnvironmentReader(stack)
    python = stack.environment.python
    if python is not None:
        tool = Tool(command=(python, "--version"), hint="see environment.python")
        yield _examine_tool("python", tool, reader)
    for name, tool in stack.environment.tools.items():
        yield _examine_tool(name, tool, reader)
    for name, version in reader.read(packages_path=_packages_path(python)).items():
        if name.startswith("version of "):
            yield MachineFinding(state="ok", subject=name, found=version)
        if name.startswith("package "):
            is_missing = version == _NOT_INSTALLED
            yield MachineFinding(
                state="warning" if is_missing else "ok",
                subject=name,
                found=version,
                hint="install it in the interpreter of environment.python" if is_missing else "",
            )
    for name, target in stack.platforms.items():
        yield _examine_platform(name, target)
    yield _examine_disk(home)


def _packages_path(python: str | None) -> list[str]:
    """Return the package folders of the stack's interpreter; none if it is missing, which `_examine_tool` reports."""
    try:
        return describe_base(python)["packages"]
    except UserError:
        return []


def _examine_git() -> MachineFinding:
    found = shutil.which("git")
    if found is None:
        return MachineFinding(state="missing", subject="git", found="not found", hint="install git")
    return MachineFinding(state="ok", subject="git", found=found)


def _examine_repository(stack: Stack, name: str) -> Iterator[MachineFinding]:
    if stack.repositories[name].releases is not None:
        yield _examine_releases(stack, name)
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
            yield _examine_submodule(stack, pin, pinned=repository.gitlink(head, pin.path), head=head)


def _examine_releases(stack: Stack, name: str) -> MachineFinding:
    subject = f"releases of {name}"
    try:
        versions = list_releases(stack, name)
    except UserError as error:
        return MachineFinding(state="missing", subject=subject, found="not known", hint=str(error))
    return MachineFinding(
        state="ok", subject=subject, found=f"{len(versions)}, from {versions[0]} to {versions[-1]}"
    )


def _examine_submodule(stack: Stack, pin: GitlinkPin, *, pinned: str | None, head: str) -> MachineFinding:
    subject = f"submodule {pin.path}"
    if pinned is None:
        return MachineFinding(state="warning", subject=subject, found=f"not pinned at {head[:12]}")
    path = stack.repositories[pin.target].path
    try:
        is_present = GitRepository.open_root(path, name=pin.target).has_commit(pinned)
    except UserError:
        is_present = True  # The finding of the target's repository says what is wrong with it.
    return MachineFinding(
        state="ok" if is_present else "missing",
        subject=subject,
        found=pinned[:12] if is_present else f"{pinned[:12]} is not in {path}",
        hint="" if is_present else f"git -C {path} fetch origin {pinned}",
    )


def _examine_platform(name: str, platform: Platform) -> MachineFinding:
    unset = [variable for variable in platform.needs if not os.environ.get(variable)]
    kind = "board, leased for each run" if platform.board else "simulator"
    return MachineFinding(
        state="warning" if unset else "ok",
        subject=f"platform {name}",
        found=kind,
        hint=f"cannot be used here: set {', '.join(unset)}" if unset else "",
    )


def _examine_tool(name: str, tool: Tool, reader: EnvironmentReader) -> MachineFinding:
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


def _examine_disk(home: Home) -> MachineFinding:
    folder = home.cache
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        return MachineFinding(
            state="missing", subject=f"cache {folder}", found="not writable", hint="set PRECISION_BISECT_HOME"
        )
    free = shutil.disk_usage(folder).free
    is_enough = free > _LITTLE_SPACE
    return MachineFinding(
        state="ok" if is_enough else "warning",
        subject=f"cache {home.cache}",
        found=f"{free / (1 << 30):.0f} GiB free",
        hint="" if is_enough else "builds may need more; set PRECISION_BISECT_HOME",
    )
