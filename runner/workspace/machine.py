"""What this machine has of what a stack needs: its checkouts, submodules, tools, packages, platforms and disk."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import shorten
from typing import Literal

from ...store.words import plural
from ..errors import UserError
from ..git.releases import versions_of
from ..git.repository import GitRepository
from ..stack.parts import GitlinkPin, Platform, Tool
from ..stack.stack import Stack
from .environment import EnvironmentReader
from .home import Home
from .virtual_environment import base_packages

FindingState = Literal["ok", "missing", "warning"]
_LITTLE_SPACE = 5 << 30


@dataclass(frozen=True, kw_only=True)
class MachineFinding:
    """One thing that was looked at, what was found, and what mends it."""

    state: FindingState
    subject: str
    found: str
    hint: str = ""


def examine_machine(stack: Stack, home: Home) -> Iterator[MachineFinding]:
    """Look at repositories, pins, tools and disk. Nothing is written or built."""
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
    for name, platform in stack.platforms.items():
        yield _platform(name, platform)
    yield _disk(home)


def _packages_path(python: str | None) -> list[str]:
    """Where the stack's interpreter finds packages; nowhere while it is missing, which is a finding of its own."""
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
    if repository.boundary:
        yield MachineFinding(
            state="warning",
            subject=f"history of {name}",
            found="a shallow clone, searched only as far as it goes",
            hint=repository.deepen,
        )
    for pin in stack.pins.values():
        if isinstance(pin, GitlinkPin) and pin.holder == name:
            yield _submodule(stack, pin, pinned=repository.gitlink(head, pin.path), head=head)


def _releases(stack: Stack, name: str) -> MachineFinding:
    subject = f"releases of {name}"
    try:
        versions = versions_of(stack, name)
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
