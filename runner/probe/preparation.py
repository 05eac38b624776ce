"""Bringing a slot to where a case can run: check out, look at the surroundings, build."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..git.cherry_picks import PatchConflictError, patches_in
from ..git.repository import LOCAL_VARIABLES
from ..git.submodules import MissingSubmoduleError
from ..stack.templates import fill
from ..verdict.verdict import Classification, Ending
from ..workspace.environment import EnvironmentReader
from ..workspace.inherited import OF_ANOTHER_PYTHON
from ..workspace.perturbations import with_perturbation
from ..workspace.slot import Slot
from ..workspace.workspace import Workspace
from .builder import Builder, BuiltToolchain, FailedBuild
from .judgement import patch_conflict, submodule_missing
from .records import ProbeRequest

NOT_STARTED = Ending(exit_code=None, signal=None, timed_out=False, cancelled=False)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A slot that was checked out and built, and what commands in it are given."""

    surroundings: Mapping[str, str]
    """What describes the environment, by name."""
    environment: Mapping[str, str]
    """The environment variables of steps."""
    case_environment: Mapping[str, str]
    """Those of the case's run."""
    values: Mapping[str, str]
    """What placeholders of the stack file stand for."""
    built: BuiltToolchain | FailedBuild


class Preparation:
    """Prepares one slot for one commit after another."""

    def __init__(
        self,
        workspace: Workspace,
        slot: Slot,
        builder: Builder,
        reader: EnvironmentReader,
        *,
        variables: Mapping[str, str],
        cores: int,
        says: Callable[[str], None],
    ) -> None:
        """`variables` are what commands inherit, `cores` what a build may take, `says` is told what comes now."""
        self._stack = workspace.stack
        self._workspace = workspace
        self._slot = slot
        self._builder = builder
        self._reader = reader
        self._variables = variables
        self._cores = cores
        self._says = says

    def prepare(self, request: ProbeRequest) -> Prepared:
        """Check out the commits of a request, and build them.

        Raises:
            UserError: a commit is not there, or the golden data is not what was frozen.
            OSError: there is no room, or no permission, to write.
            InterruptedWorkError: a stop is asked for.
        """
        if request.golden is not None:
            request.golden.verify()
        self._says("checking out")
        for name, repository in self._stack.repositories.items():
            overlays = [overlay.commit for overlay in repository.overlays]
            there = [request.revisions[name]] if name in request.revisions else []
            for sha in (*there, *patches_in(request.revisions, name), *overlays):
                self._workspace.ensure_commit(name, sha)
        failed: FailedBuild | None = None
        try:
            self._slot.check_out(request.revisions)
        except PatchConflictError as error:
            failed = _not_built("cherry-pick", patch_conflict(str(error)))
        except MissingSubmoduleError as error:
            failed = _not_built("submodules", submodule_missing(str(error)))
        if self._stack.needs_python:
            self._slot.ensure_python()
        surroundings = self._reader.read(packages_path=self._slot.packages_path())
        values = self._values(request)
        environment = self._process_environment(values)
        built = failed or self._builder.build(
            self._slot,
            request.revisions,
            surroundings=surroundings,
            environment=environment,
            values=values,
            logs=request.directory,
            on_step=lambda step: self._says(f"building {step}"),
            gently=request.build_only,
        )
        variables = with_perturbation(self._stack, request.revisions).case.variables
        own = {name: fill(text, values) for name, text in variables.items()}
        return Prepared(
            surroundings=surroundings,
            environment=environment,
            case_environment=environment | own,
            values=values,
            built=built,
        )

    def _values(self, request: ProbeRequest) -> dict[str, str]:
        case = self._slot.path(self._stack.case.repository)
        if request.case is not None:
            case /= request.case.path
        return {
            "python": str(self._slot.python),
            "slot": str(self._slot.directory),
            "jobs": str(self._cores),
            "case": str(case),
            "platform": request.platform,
            "device": str(request.device),
            **{name: str(self._slot.path(name)) for name in self._stack.repositories},
        }

    def _process_environment(self, values: Mapping[str, str]) -> dict[str, str]:
        environment = {key: value for key, value in self._variables.items() if key not in LOCAL_VARIABLES}
        if self._stack.needs_python:
            scripts = self._slot.python.parent
            environment = {key: environment[key] for key in environment.keys() - OF_ANOTHER_PYTHON}
            environment["PATH"] = f"{scripts}{os.pathsep}{environment.get('PATH', os.defpath)}"
            environment["VIRTUAL_ENV"] = str(scripts.parent)
        own = {key: fill(text, values) for key, text in self._reader.variables().items()}
        return environment | own


def _not_built(step: str, why: Classification) -> FailedBuild:
    return FailedBuild(step=step, ending=NOT_STARTED, classification=why, seconds=0.0)
