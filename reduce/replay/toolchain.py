"""The toolchain that runs a build directory again: an interpreter, its variables, a platform and a device.

Beside it are edits of a build directory's kernel list, which is a Python source. Every line that is not edited stays
unchanged. `read_tolerance` reads the tolerance with which the stack's harness compared a run's outputs, as
`replay_case.py` noted it beside them.

`ForkServers` forks the runs from servers that have made the slow imports (`fork_server.py`), for many short runs. A
fork has its own session, timeout, memory limit and supervisor. But all forks of a server have the same addresses and
the same seed of Python's hashes. So the last runs that confirm a failure should be processes that were started from
scratch.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import libcst as cst

from ...runner.build_output.directory import Direction
from ...runner.case.case import drop_predecessors
from ...runner.case.preflight import add_harness
from ...runner.compare.statistics import Tolerance
from ...runner.errors import UsageError, UserError
from ...runner.git import GitRepository, inherited_environment
from ...runner.localization_job import BuildToRun
from ...runner.process.run import Command, ForkServer, NoForkServerError, RunningCommand, start_process
from ...runner.stack import Stack, fill

_FILE = "tolerance.json"
_MAX_TOLERANCE_BYTES = 1 << 12
"""A larger file of tolerances is not read. It holds two numbers, and a run under test may have written it."""


def read_tolerance(outputs: Path) -> Tolerance | None:
    """The tolerance in the folder. None if there is none or it makes no sense, because a run under test could write
    there too."""
    file = outputs / _FILE
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _MAX_TOLERANCE_BYTES:
            return None
        document: Any = json.loads(file.read_text(encoding="utf-8"))
        rtol, atol = float(document["rtol"]), float(document["atol"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    sound = all(math.isfinite(bound) and bound >= 0 for bound in (rtol, atol))
    return Tolerance(rtol=rtol, atol=atol) if sound else None


class UnknownLayoutError(Exception):
    """The part of the kernel list that is to be edited is not written as literals. `expected` and `found` describe
    it."""

    def __init__(self, *, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.expected = expected
        self.found = found


def set_signature(source: bytes, directions: Sequence[Direction]) -> bytes:
    """The list with other directions of the orchestration's tensors, as members of the same enumeration.

    Raises:
        UnknownLayoutError: it gives them in a way that is not understood.

    >>> set_signature(b'ORCHESTRATION = {"signature": [_D.IN, _D.OUT]}  # two', [Direction.OUT])
    b'ORCHESTRATION = {"signature": [_D.OUT]}  # two'
    """
    module = cst.parse_module(source)
    signature = next(_signatures(module), None)
    first = None if signature is None or not signature.elements else signature.elements[0].value
    if signature is None or not isinstance(first, cst.Attribute):
        raise UnknownLayoutError(expected="a list as the orchestration's signature", found="none")
    members = [
        cst.Element(cst.Attribute(value=first.value, attr=cst.Name(direction.value)))
        for direction in directions
    ]
    return module.with_deep_changes(signature, elements=members).bytes


def select_kernels(source: bytes, count: int, keep: Callable[[int], bool]) -> bytes:
    """The list with only those of its `count` kernels whose places `keep` accepts.

    Raises:
        UnknownLayoutError: it is not one of entries that stand one after the other.

    >>> select_kernels(b'KERNELS = [\\n    {"id": 0},  # first\\n    {"id": 1},\\n]\\n', 2, lambda place: place == 1)
    b'KERNELS = [\\n    {"id": 1},\\n]\\n'
    """
    module = cst.parse_module(source)
    kernels = next(
        (value for value in _assigned_values(module, "KERNELS") if isinstance(value, cst.List)), None
    )
    if kernels is None:
        raise UnknownLayoutError(expected="a list of kernels", found="none")
    entries = kernels.elements
    if len(entries) != count or any(isinstance(entry, cst.StarredElement) for entry in entries):
        raise UnknownLayoutError(expected=f"{count} kernel entries", found=str(len(entries)))
    kept = [entry for place, entry in enumerate(entries) if keep(place)]
    if not kept:
        return module.with_deep_changes(kernels, elements=[], lbracket=cst.LeftSquareBracket()).bytes
    # The text after the last entry is its comma and the line break before the bracket.
    kept[-1] = kept[-1].with_changes(comma=entries[-1].comma)
    return module.with_deep_changes(kernels, elements=kept).bytes


def _signatures(module: cst.Module) -> Iterator[cst.List]:
    for value in _assigned_values(module, "ORCHESTRATION"):
        for element in value.elements if isinstance(value, cst.Dict) else ():
            if (
                isinstance(element, cst.DictElement)
                and isinstance(element.key, cst.SimpleString)
                and element.key.evaluated_value == "signature"
                and isinstance(element.value, cst.List)
            ):
                yield element.value


def _assigned_values(module: cst.Module, name: str) -> Iterator[cst.BaseExpression]:
    """The values that are assigned to a name at the top level."""
    for line in module.body:
        for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(statement, cst.Assign) and any(
                isinstance(target.target, cst.Name) and target.target.value == name
                for target in statement.targets
            ):
                yield statement.value


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """The environment in which builds are replayed.

    `python` has the stack's packages installed. It is a slot's interpreter, or the user's own. `variables` are set on
    top of what the stack file sets. `slot` is the folder that variables of the stack file call so. `of_slot` says that
    it is a real slot, with the interpreter and all repositories in it. `schedule` names a schedule of the stack file,
    and None adds no schedule to the variables. `servers` fork the runs that need no process started anew.
    """

    stack: Stack
    python: Path
    platform: str
    device: int
    variables: Mapping[str, str]
    slot: Path
    of_slot: bool = False
    schedule: str | None = None
    servers: ForkServers | None = None

    @classmethod
    def create(
        cls,
        stack: Stack,
        *,
        python: Path,
        platform: str | None = None,
        device: int = 0,
        variables: Mapping[str, str] | None = None,
        slot: Path | None = None,
        servers: ForkServers | None = None,
    ) -> Toolchain:
        """A toolchain of the stack. The defaults are the stack's first platform and the current folder.

        Raises:
            UsageError: the platform, the case's harness or the interpreter is missing.
        """
        platform = platform or next(iter(stack.platforms))
        if platform not in stack.platforms:
            raise UsageError(
                f"--platform: expected one of {', '.join(sorted(stack.platforms))}, found {platform!r}"
            )
        stack = drop_predecessors(add_harness(stack))  # A build is run alone.
        if not stack.case.harness:
            raise UsageError(f"stack {stack.name}: expected a case that calls the golden harness, found none")
        if not os.access(python, os.X_OK):
            raise UsageError(f"--python {python}: expected an interpreter that has the stack installed")
        return cls(
            stack=stack,
            python=python.absolute(),  # Runs have folders of their own.
            platform=platform,
            device=device,
            variables=dict(variables or {}),
            slot=slot or Path.cwd(),
            of_slot=slot is not None and python.is_relative_to(slot),
            servers=servers,
        )

    @classmethod
    def from_build(
        cls, build: BuildToRun, platform: str, device: int, servers: ForkServers | None
    ) -> Toolchain:
        """The toolchain of the commit of a build that a bisection left. Raises the same errors as `create`."""
        return cls.create(
            build.stack,
            python=build.python,
            platform=platform,
            device=device,
            slot=build.slot,
            servers=servers,
        )

    def with_schedule(self, schedule: str) -> Toolchain:
        """The same toolchain with the variables of a schedule. Variables of all other schedules are removed, whoever
        set them.

        Raises:
            UsageError: the stack has no schedule of that name.
        """
        known = self.stack.schedules
        if schedule not in known:
            raise UsageError(
                f"--against-schedule: expected one of the stack file's schedules {', '.join(sorted(known))}, "
                f"found {schedule!r}"
            )
        return replace(self, schedule=schedule)

    @property
    def preload_modules(self) -> tuple[str, ...]:
        """Return modules that are loaded before a run is forked. None on a board, because its driver may not survive a
        fork."""
        is_board = self.stack.platforms[self.platform].board
        return () if self.servers is None or self.servers.refused or is_board else self.stack.case.preload

    @property
    def without_fork_servers(self) -> Toolchain:
        """Return the same toolchain without fork servers, so that each process is started anew."""
        return replace(self, servers=None)

    def start(self, command: Command) -> RunningCommand:
        """Start a run."""
        if self.servers is None or not self.preload_modules:
            return start_process(command)
        return self.servers.start(command, self.preload_modules, late=self._knobs)

    def values(self, *, case: Path, folder: Path) -> dict[str, str]:
        """The stack file's placeholders in the command for a run of the script `case` in `folder`."""
        own = {"case": str(case), "platform": self.platform, "device": str(self.device)}
        return {**self._places(folder), **own}

    def slot_commits(self) -> Mapping[str, str]:
        """Return the commit of each repository that lies in the slot."""
        commits: dict[str, str] = {}
        for name, repository in self.stack.repositories.items():
            if repository.path.is_relative_to(self.slot):
                with suppress(UserError):
                    commits[name] = GitRepository(repository.path).run("rev-parse", "HEAD")
        return commits

    def _places(self, slot: Path) -> dict[str, str]:
        repositories = {name: str(entry.path) for name, entry in self.stack.repositories.items()}
        common = {"python": str(self.python), "slot": str(slot), "jobs": str(os.cpu_count() or 1)}
        return {**common, **repositories}

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of runs: inherited ones, the stack's and its case's, then `variables`, then the
        schedule's."""
        inherited = inherited_environment()
        inherited["PATH"] = f"{self.python.parent}{os.pathsep}{inherited.get('PATH', os.defpath)}"
        values = self._places(self.slot)
        own = {key: fill(text, values) for key, text in self._stack_variables.items()}
        variables = {**inherited, **own, **self.variables}
        if self.schedule is not None:
            variables = {name: variables[name] for name in variables.keys() - self._knobs}
            variables |= self.stack.schedules[self.schedule].variables
        return variables

    @property
    def compile_settings(self) -> tuple[str, ...]:
        """Return all that may make toolchains compile the same source differently. Schedules do not."""
        variables = {name: value for name, value in self.environment.items() if name not in self._knobs}
        repositories = [f"{name}={entry.path}" for name, entry in self.stack.repositories.items()]
        return (
            *(str(self.python), self.platform, str(self.slot), *sorted(repositories)),
            *sorted(f"{name}={value}" for name, value in variables.items()),
        )

    @property
    def settings(self) -> frozenset[str]:
        """Return the names of all variables that runs do not inherit unchanged, because they are set or removed."""
        knobs = self._knobs if self.schedule is not None else frozenset[str]()
        return knobs | self._stack_variables.keys() | self.variables.keys()

    @property
    def _stack_variables(self) -> Mapping[str, str]:
        return {**self.stack.environment.variables, **self.stack.case.variables}

    @property
    def _knobs(self) -> frozenset[str]:
        return frozenset(name for schedule in self.stack.schedules.values() for name in schedule.variables)


_PATH = "PYTHONPATH"
_Key = tuple[str, tuple[str, ...], frozenset[tuple[str, str]]]


class ForkServers:
    """Keeps one server for each interpreter, list of modules and environment, until `close`.

    Several threads may use it.
    """

    def __init__(self, on_refusal: Callable[[str], None]) -> None:
        """If a server cannot be used, `on_refusal` gets the reason, and all later commands start from scratch."""
        self.refused = False
        self._on_refusal = on_refusal
        self._servers: dict[_Key, ForkServer] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the servers and all their runs."""
        with self._lock:
            for server in self._servers.values():
                server.close()
            self._servers.clear()

    def start(
        self, command: Command, modules: Sequence[str], *, late: Collection[str] = ()
    ) -> RunningCommand:
        """Start a command of the form `interpreter script.py ...` as a fork with `modules` imported.

        Commands share a server although they differ in PYTHONPATH, or in the variables `late`, which neither the
        interpreter nor the modules read.
        """
        if self.refused:
            return start_process(command)
        names = {*late, _PATH}
        early = {name: value for name, value in command.environment.items() if name not in names}
        variables = {name: value for name, value in command.environment.items() if name in names}
        key = (command.argv[0], tuple(modules), frozenset(early.items()))
        with self._lock:
            try:
                _check_path(command.environment.get(_PATH, ""), modules)
                if key not in self._servers:
                    self._servers[key] = ForkServer.start(
                        command.argv[:1], environment=early, timeout=command.timeout, modules=modules
                    )
                return self._servers[key].fork_script(command, variables)
            except (NoForkServerError, OSError) as error:
                self.refused = True
                self._on_refusal(f"runs import {', '.join(modules)} anew, as they cannot be forked: {error}")
        return start_process(command)


def _check_path(path: str, modules: Sequence[str]) -> None:
    """Check that PYTHONPATH would not have changed the imports of a server, which lacks it.

    Raises `NoForkServerError`.
    """
    for folder in filter(None, path.split(os.pathsep)):
        for name in (*modules, "sitecustomize", "usercustomize"):
            if (found := Path(folder, name)).is_dir() or (found := found.with_suffix(".py")).is_file():
                raise NoForkServerError(f"PYTHONPATH has {found}")
