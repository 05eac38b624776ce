"""The stack file: all that the tool knows about a toolchain, as validated data.

A stack file names the repositories, the pins between them, the build steps, the case command and the
patterns of its log lines. Nothing about one toolchain is written in Python that this file can say.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import PurePosixPath
from typing import Self

from pydantic import Field, field_validator, model_validator

from ..verdict.rules import VerdictRule
from .complaints import suggestion
from .layout import VENV, check_removable
from .parts import (
    Case,
    Environment,
    GitlinkPin,
    MachineLimits,
    Model,
    Perturbation,
    Pin,
    Platform,
    Rename,
    Repository,
    Schedule,
    Step,
    VersionFilePin,
)
from .templates import literal, placeholders

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_COMMON_PLACEHOLDERS = frozenset({"python", "slot", "jobs"})
_STEP_PLACEHOLDERS = frozenset({"platform"})
_CASE_PLACEHOLDERS = frozenset({"case", "platform", "device"})
RESERVED_NAMES = _COMMON_PLACEHOLDERS | _CASE_PLACEHOLDERS | {VENV}
"""What no repository may be called."""


class Stack(Model):
    """A whole stack file."""

    name: str
    searched: str
    """The repository whose commits `--good` and `--bad` name, unless `--repo` says otherwise."""
    marks: tuple[str, ...] = ()
    """Paths that a checkout of the searched repository has: where they are, the stack needs no naming."""
    repositories: Mapping[str, Repository] = Field(min_length=1)
    pins: Mapping[str, Pin] = {}
    renames: tuple[Rename, ...] = ()
    """With whose names files of other times are written, the oldest first."""
    environment: Environment = Environment()
    steps: Mapping[str, Step] = {}
    """The build steps, run in the order of the file."""
    case: Case
    platforms: Mapping[str, Platform] = Field(min_length=1)
    """The first one is the default."""
    schedules: Mapping[str, Schedule] = {}
    """Knobs of the runtime, by the names that `reduce` shows."""
    perturbations: Mapping[str, Perturbation] = {}
    """What may make a failure certain that comes and goes, in the order in which they are tried."""
    verdicts: tuple[VerdictRule, ...] = ()
    limits: MachineLimits = MachineLimits()

    @field_validator("name")
    @classmethod
    def _name_is_plain(cls, value: str) -> str:
        if not is_plain_name(value):
            raise ValueError("expected a plain name (letters, digits, - and _)")
        return value

    @field_validator("repositories", "pins", "steps", "platforms", "schedules", "perturbations")
    @classmethod
    def _names_are_plain(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        for name in value:
            if not is_plain_name(name):
                raise ValueError(f"expected a plain name (letters, digits, - and _), found {name!r}")
        return value

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        known = set(self.repositories)
        for where, name in self._repository_references():
            if name not in known:
                raise ValueError(
                    f"{where}: expected one of the repositories {', '.join(sorted(known))}, found {name!r}"
                    f"{suggestion(name, sorted(known))}"
                )
        allowed = _COMMON_PLACEHOLDERS | known
        for where, text, extra in self._templates():
            for placeholder in placeholders(text):
                if placeholder not in allowed | extra:
                    raise ValueError(
                        f"{where}: expected placeholders among {', '.join(sorted(allowed | extra))}, found "
                        f"{{{placeholder}}}{suggestion(placeholder, sorted(allowed | extra))}"
                    )
        if self.case.harness and "{case}" not in self.case.command:
            raise ValueError(
                "case.command: expected the word {case}, in whose place the harness's shim is put"
            )
        if self.case.after and not self.case.harness:
            raise ValueError("case.after: expected a case that runs under the harness's shim (case.harness)")
        if self.case.preload and self.case.command[:2] != ("{python}", "{case}"):
            raise ValueError("case.preload: expected a case.command that begins with {python} and {case}")
        return self

    @model_validator(mode="after")
    def _layout_holds(self) -> Self:
        for name in self.repositories:
            if name in RESERVED_NAMES:
                raise ValueError(
                    f"repositories.{name}: expected a name other than {', '.join(sorted(RESERVED_NAMES))}"
                )
        self._check_pins()
        worktrees = [self.directory(name) for name in self.repositories]
        for name, step in self.steps.items():
            for output in step.outputs:
                check_removable(output, worktrees, where=f"steps.{name}.outputs")
        if self.case.build_output is not None:
            check_removable(self.case.build_output, worktrees, where="case.build_output")
        for path in self.case.compiled:
            check_removable(path, worktrees, where="case.compiled")
        return self

    def _check_pins(self) -> None:
        """Check that pins lead from holders to targets, each target once, and never in a circle.

        Raises:
            ValueError: two pins give a repository its commit, or it would lie inside of itself.
        """
        if len(self.links) != sum(pin.target is not None for pin in self.pins.values()):
            raise ValueError("pins: expected at most one pin of each target")
        for target, name in self.links.items():
            holders = [self.pins[name].holder]
            while (above := self.links.get(holders[-1])) and self.pins[above].holder not in holders:
                holders.append(self.pins[above].holder)
            if target in holders:
                raise ValueError(f"pins: expected submodules in a tree, found {target!r} inside of itself")
        for name, pin in self.pins.items():
            if pin.target is None:
                if name in self.repositories:
                    raise ValueError(f"pins.{name}: expected a name that is not a repository's")
            elif isinstance(pin, VersionFilePin) == (self.repositories[pin.target].releases is None):
                kind = "releases" if isinstance(pin, VersionFilePin) else "a checkout"
                raise ValueError(
                    f"pins.{name}.target: expected a repository with {kind}, found {pin.target!r}"
                )

    def _repository_references(self) -> Iterator[tuple[str, str]]:
        yield "searched", self.searched
        yield "case.repository", self.case.repository
        for name, pin in self.pins.items():
            yield f"pins.{name}.holder", pin.holder
            if pin.target is not None:
                yield f"pins.{name}.target", pin.target
        for name, repository in self.repositories.items():
            if repository.releases is not None and repository.releases.tags is not None:
                yield f"repositories.{name}.releases.tags", repository.releases.tags
        for place, rename in enumerate(self.renames):
            yield f"renames.{place}.repository", rename.repository
        for name, step in self.steps.items():
            for entry in step.inputs:
                yield f"steps.{name}.inputs", entry.partition(":")[0]
        for entry in self.case.help_inputs:
            yield "case.help_inputs", entry.partition(":")[0]

    def _templates(self) -> Iterator[tuple[str, str, frozenset[str]]]:
        none: frozenset[str] = frozenset()
        for name, step in self.steps.items():
            for text in (*step.command, step.cwd):
                yield f"steps.{name}", text, _STEP_PLACEHOLDERS
        for name, text in self.environment.variables.items():
            yield f"environment.variables.{name}", text, none
        for name, text in self.case.variables.items():
            yield f"case.variables.{name}", text, none
        for perturbed, perturbation in self.perturbations.items():
            for text in (*perturbation.variables.values(), *perturbation.command):
                yield f"perturbations.{perturbed}", text, _CASE_PLACEHOLDERS
        for tool_name, tool in self.environment.tools.items():
            for name, text in tool.variables.items():
                yield f"environment.tools.{tool_name}.variables.{name}", text, none
        for text in (*self.case.command, *self.case.help, self.case.cwd):
            yield "case", text, _CASE_PLACEHOLDERS

    @cached_property
    def needs_python(self) -> bool:
        """Whether anything runs in the slot's virtual environment."""
        return any("{python}" in text for _, text, _ in self._templates())

    @cached_property
    def gitlinks(self) -> Mapping[str, GitlinkPin]:
        """The submodule pins by the name of the repository they point to."""
        return {pin.target: pin for pin in self.pins.values() if isinstance(pin, GitlinkPin)}

    def pinned_folders(self, holder: str) -> frozenset[str]:
        """The paths of the submodules of a repository that are repositories of the stack."""
        return frozenset(pin.path for pin in self.gitlinks.values() if pin.holder == holder)

    @cached_property
    def links(self) -> Mapping[str, str]:
        """The names of the pins that give a repository of the stack its commit, by that repository."""
        return {pin.target: name for name, pin in self.pins.items() if pin.target is not None}

    @cached_property
    def pin_files(self) -> tuple[tuple[str, str], ...]:
        """Holder and path of the files that pin something, each once."""
        pins = [pin for pin in self.pins.values() if not isinstance(pin, GitlinkPin)]
        files = [(pin.holder, path) for pin in pins for path in pin.paths]
        return tuple(dict.fromkeys(files))

    def held_name(self, pin: str) -> str:
        """How a pin is named among revisions: by its repository, or by itself where that is outside of the stack."""
        return self.pins[pin].target or pin

    def version_of(self, held_name: str, value: str) -> str | None:
        """The release that a value among revisions stands for; None where it is a commit, or a version itself."""
        repository = self.repositories.get(held_name)
        return None if repository is None else repository.version_of(value)

    def with_case_variables(self, variables: Mapping[str, str]) -> "Stack":
        """The stack with these variables set for its case, to these very values, beside those it has."""
        texts = {name: literal(value) for name, value in variables.items()}
        case = self.case.model_copy(update={"variables": {**self.case.variables, **texts}})
        return self.model_copy(update={"case": case})

    def directory(self, repository: str) -> PurePosixPath:
        """Where a repository's worktree lies in a slot: submodules lie inside their holder."""
        link = self.gitlinks.get(repository)
        if link is None:
            return PurePosixPath(repository)
        return self.directory(link.holder) / link.path


def is_plain_name(text: str) -> bool:
    """Whether a text can name a repository, pin, step or platform."""
    return _NAME.fullmatch(text) is not None
