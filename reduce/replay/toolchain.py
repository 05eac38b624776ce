"""The stack that runs a build directory again: an interpreter, its variables, a platform and a device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...runner.case.case import without_predecessors
from ...runner.case.scene_tests import with_harness
from ...runner.errors import UsageError
from ...runner.git.repository import LOCAL_VARIABLES
from ...runner.localization.job import BuildToRun
from ...runner.process.execute import Command, RunningCommand, start_anew
from ...runner.process.fork_servers import ForkServers
from ...runner.stack.stack import Stack
from ...runner.stack.templates import fill


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """Where builds are replayed.

    `python` has the stack's packages installed: a slot's interpreter, or the user's own. `variables` are set on top of
    what the stack file sets. `slot` is the folder that variables of the stack file name so. `schedule` is one of the
    stack file; None: as the variables have it. `servers` fork runs that need not be processes started anew.
    """

    stack: Stack
    python: Path
    platform: str
    device: int
    variables: Mapping[str, str]
    slot: Path
    schedule: str | None = None
    servers: ForkServers | None = None

    @classmethod
    def of(
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
        """The stack's first platform and the current folder by default. Raises `UsageError` where something is not
        there."""
        platform = platform or next(iter(stack.platforms))
        if platform not in stack.platforms:
            raise UsageError(
                f"--platform: expected one of {', '.join(sorted(stack.platforms))}, found {platform!r}"
            )
        stack = without_predecessors(with_harness(stack))  # a build is run alone
        if not stack.case.harness:
            raise UsageError(f"stack {stack.name}: expected a case that calls the golden harness, found none")
        if not os.access(python, os.X_OK):
            raise UsageError(f"--python {python}: expected an interpreter that has the stack installed")
        return cls(
            stack=stack,
            python=python.absolute(),  # runs have folders of their own
            platform=platform,
            device=device,
            variables=dict(variables or {}),
            slot=slot or Path.cwd(),
            servers=servers,
        )

    @classmethod
    def of_build(
        cls, build: BuildToRun, platform: str, device: int, servers: ForkServers | None
    ) -> Toolchain:
        """What runs a build that a bisection left: the toolchain of its own commit. Raises as `of`."""
        return cls.of(
            build.stack,
            python=build.python,
            platform=platform,
            device=device,
            slot=build.slot,
            servers=servers,
        )

    def on(self, platform: str) -> Toolchain:
        """The same on another target. Raises `UsageError` where the stack has none of that name, or it is the same."""
        others = sorted(set(self.stack.platforms) - {self.platform})
        if platform not in others:
            raise UsageError(f"--against: expected one of {others}, found {platform!r}")
        return replace(self, platform=platform)

    def under(self, schedule: str) -> Toolchain:
        """The same with the variables of a schedule, and no other schedule's, whoever set it.

        Raises `UsageError` where the stack has none of that name.
        """
        known = self.stack.schedules
        if schedule not in known:
            raise UsageError(
                f"--against-schedule: expected one of the stack file's schedules {', '.join(sorted(known))}, "
                f"found {schedule!r}"
            )
        return replace(self, schedule=schedule)

    @property
    def preloaded(self) -> tuple[str, ...]:
        """Modules that runs are forked with. A board's driver, which may come with them, need not survive a fork."""
        is_board = self.stack.platforms[self.platform].board
        return () if self.servers is None or self.servers.refused or is_board else self.stack.case.preload

    @property
    def anew(self) -> Toolchain:
        """The same with processes that are started anew."""
        return replace(self, servers=None)

    def start(self, command: Command) -> RunningCommand:
        """Starts a run."""
        if self.servers is None or not self.preloaded:
            return start_anew(command)
        return self.servers.start(command, self.preloaded, late=self._knobs)

    def values(self, *, case: Path, folder: Path) -> dict[str, str]:
        """The stack file's placeholders in the command for a run of the script `case` in `folder`."""
        own = {"case": str(case), "platform": self.platform, "device": str(self.device)}
        return {**self._places(folder), **own}

    def _places(self, slot: Path) -> dict[str, str]:
        repositories = {name: str(entry.path) for name, entry in self.stack.repositories.items()}
        common = {"python": str(self.python), "slot": str(slot), "jobs": str(os.cpu_count() or 1)}
        return {**common, **repositories}

    @property
    def environment(self) -> dict[str, str]:
        """Variables of runs: inherited ones, the stack's and its case's, then `variables`, then the schedule's."""
        inherited = {key: value for key, value in os.environ.items() if key not in LOCAL_VARIABLES}
        inherited["PATH"] = f"{self.python.parent}{os.pathsep}{inherited.get('PATH', os.defpath)}"
        values = self._places(self.slot)
        own = {key: fill(text, values) for key, text in self._set_by_stack.items()}
        variables = {**inherited, **own, **self.variables}
        if self.schedule is not None:
            variables = {name: variables[name] for name in variables.keys() - self._knobs}
            variables |= self.stack.schedules[self.schedule].variables
        return variables

    @property
    def compiles_with(self) -> tuple[str, ...]:
        """What tells toolchains apart that may compile the same source otherwise; schedules do not."""
        variables = {name: value for name, value in self.environment.items() if name not in self._knobs}
        repositories = [f"{name}={entry.path}" for name, entry in self.stack.repositories.items()]
        return (
            *(str(self.python), self.platform, str(self.slot), *sorted(repositories)),
            *sorted(f"{name}={value}" for name, value in variables.items()),
        )

    @property
    def settings(self) -> frozenset[str]:
        """Names of all variables that do not come as they were inherited: set, or taken away."""
        knobs = self._knobs if self.schedule is not None else frozenset[str]()
        return knobs | self._set_by_stack.keys() | self.variables.keys()

    @property
    def _set_by_stack(self) -> Mapping[str, str]:
        return {**self.stack.environment.variables, **self.stack.case.variables}

    @property
    def _knobs(self) -> frozenset[str]:
        return frozenset(name for schedule in self.stack.schedules.values() for name in schedule.variables)
