"""The stack file: all that the tool knows about a toolchain, as validated data.

A stack file names the repositories, the pins between them, the build steps, the case command and the
patterns of its log lines. Nothing about one toolchain is written in Python that this file can say.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .errors import UsageError
from .layout import VENV, RelativePath, check_removable
from .verdict_rules import VerdictRule

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_COMMON_PLACEHOLDERS = frozenset({"python", "slot", "jobs"})
_STEP_PLACEHOLDERS = frozenset({"platform"})
_CASE_PLACEHOLDERS = frozenset({"case", "platform", "device"})
_NIGHTLY_EXAMPLE = "nightly.toml"
"""Of the files in `configs/` the one that is no stack, but a job's."""


class Model(BaseModel):
    """Frozen, and strict about keys: a misspelt key is an error, not a silence."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Repository(Model):
    """One git repository of the stack, as it is checked out on this machine."""

    path: Path
    """The user's checkout. Objects are borrowed from it; nothing is ever written to it."""
    revision: str = "HEAD"
    """What is used where the repository is neither searched nor pinned by another one."""
    ignore: tuple[str, ...] = ()
    """Paths that cannot change a result (docs, tests, CI), as `**` globs from the repository's root."""
    keep: tuple[str, ...] = ()
    """Untracked files that cleaning a slot spares (caches of incremental builds), as gitignore patterns."""


class GitlinkPin(Model):
    """A submodule: `holder`'s commit names the commit of `target`, checked out at `path` inside it."""

    kind: Literal["gitlink"]
    holder: str
    path: RelativePath
    target: str
    search: bool = True
    """A pin that is searched follows its holder's commits, and is looked into where the culprit moves it. One that is
    not is frozen: held at what the bad end says for the whole bisection."""


class CommitFilePin(Model):
    """A file of `holder` that holds the full commit id of another repository, and nothing else."""

    kind: Literal["commit-file"]
    holder: str
    path: RelativePath
    target: str | None = None
    """The repository, where it belongs to the stack: it is checked out beside the others, and can be searched."""
    search: bool = True


class VersionFilePin(Model):
    """A `KEY=VALUE` line in a file of `holder` that names the version of a tool."""

    kind: Literal["version-file"]
    holder: str
    path: RelativePath
    key: str
    search: bool = True


Pin = Annotated[GitlinkPin | CommitFilePin | VersionFilePin, Field(discriminator="kind")]


class Tool(Model):
    """A program that the stack needs. Its version is part of the environment fingerprint."""

    command: tuple[str, ...] = Field(min_length=1)
    """Prints the version."""
    required: bool = True
    variables: Mapping[str, str] = {}
    """Set for every step and run where the tool is found, such as cmake's compiler launcher for ccache."""
    hint: str = ""
    """How to get it, shown by `doctor`."""


class Environment(Model):
    """The processes' surroundings: interpreter, variables, tools."""

    python: str | None = None
    """The interpreter a slot's virtual environment is made from; its packages stay visible there. By default the
    one that runs this tool."""
    variables: Mapping[str, str] = {}
    """Set for every step and run. Placeholders are replaced."""
    matters: tuple[str, ...] = ()
    """Inherited variables that can change a result: they enter the build key and the fingerprint."""
    packages: tuple[str, ...] = ()
    """Python distributions whose versions enter the fingerprint."""
    tools: Mapping[str, Tool] = {}


class Step(Model):
    """One build step, run in a slot when what it depends on has changed there."""

    command: tuple[str, ...] = Field(min_length=1)
    cwd: str = "{slot}"
    inputs: tuple[str, ...] = Field(min_length=1)
    """Repositories (`minirt`) or paths in them (`minipto:pyproject.toml`) whose content decides the result."""
    outputs: tuple[RelativePath, ...] = ()
    """Folders or files, from the slot's root, that hold all the step makes. They are removed before it runs, and cached
    by content; what an incremental build goes on from belongs under `keep`. A step without outputs is never taken
    from the cache, only skipped where the slot already holds it."""
    timeout: float = Field(default=3600, gt=0)
    """Seconds."""

    @property
    def is_for_one_platform(self) -> bool:
        """Whether it builds for the platform that is asked for, and not for all."""
        return any("{platform}" in text for text in (*self.command, self.cwd))


class CaseFlags(Model):
    """Every spelling an option of the case has had, newest first. The case's `--help` decides which is used."""

    golden_data: tuple[str, ...] = ()
    save_data: tuple[str, ...] = ()
    dump: tuple[str, ...] = ()
    dep_gen: tuple[str, ...] = ()
    dump_passes: tuple[str, ...] = ()
    runtime_dir: tuple[str, ...] = ()


class Case(Model):
    """How one case is run."""

    repository: str
    command: tuple[str, ...] = Field(min_length=1)
    """Without the interpreter's shim; `{case}` is the script's path in the slot."""
    help: tuple[str, ...] = ()
    """Prints the options the case has at the commit at hand. Without it the case has none of `flags`."""
    help_inputs: tuple[str, ...] = ()
    """Repositories, or paths in them, that decide beside the case's own script what `help` prints: it is asked again
    where they change. By default it is asked at each content of the whole stack."""
    cwd: str
    harness: bool = True
    """The case calls `golden.run` or `golden.run_jit`: it is run under the shim, which reports what they returned."""
    scene_tests: bool = False
    """Cases are scene tests of the runtime: `reduce` takes their scripts, and runs what it makes of them as such."""
    flags: CaseFlags = CaseFlags()
    build_output: RelativePath | None = None
    """Folder, from the slot's root, in which a run leaves its build directory."""
    preload: tuple[str, ...] = ()
    """Modules that take long to import, and may be imported once for many runs that are forks of one process."""


class Platform(Model):
    """A target the case runs on."""

    board: bool = False
    """A board is leased: one run at a time, whichever bisection it belongs to."""
    needs: tuple[str, ...] = ()
    """Inherited variables without which nothing can be built or run for it."""


class Schedule(Model):
    """A way to make the runtime run its tasks: an order, a number of workers."""

    variables: Mapping[str, str] = Field(min_length=1)
    """Set for the run."""


class Limits(Model):
    """Bounds on what the tool takes from the machine."""

    build_cache_gib: float = Field(default=20, gt=0)
    memory_gib: float | None = Field(default=None, gt=0)
    """Address space of one run; none by default."""
    run_timeout: float = Field(default=3600, gt=0)
    """Seconds for the first run at an end. Later runs get ten times what that run took."""


class Stack(Model):
    """A whole stack file."""

    name: str
    searched: str
    """The repository whose commits `--good` and `--bad` name, unless `--repo` says otherwise."""
    marks: tuple[str, ...] = ()
    """Paths that a checkout of the searched repository has: where they are, the stack needs no naming."""
    repositories: Mapping[str, Repository] = Field(min_length=1)
    pins: Mapping[str, Pin] = {}
    environment: Environment = Environment()
    steps: Mapping[str, Step] = {}
    """In the order of the file."""
    case: Case
    platforms: Mapping[str, Platform] = Field(min_length=1)
    """The first one is the default."""
    schedules: Mapping[str, Schedule] = {}
    """Knobs of the runtime, by the names that `reduce` shows."""
    verdicts: tuple[VerdictRule, ...] = ()
    limits: Limits = Limits()

    @field_validator("name")
    @classmethod
    def _name_is_plain(cls, value: str) -> str:
        if not is_plain_name(value):
            raise ValueError("expected a plain name (letters, digits, - and _)")
        return value

    @field_validator("repositories", "pins", "steps", "platforms", "schedules")
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
                raise ValueError(f"{where}: expected one of the repositories {sorted(known)}, found {name!r}")
        allowed = _COMMON_PLACEHOLDERS | known
        for where, text, extra in self._templates():
            for placeholder in filter(None, _PLACEHOLDER.findall(text)):
                if placeholder not in allowed | extra:
                    raise ValueError(
                        f"{where}: expected placeholders among {sorted(allowed | extra)}, found {{{placeholder}}}"
                    )
        if self.case.harness and "{case}" not in self.case.command:
            raise ValueError(
                "case.command: expected the word {case}, in whose place the harness's shim is put"
            )
        if self.case.preload and self.case.command[:2] != ("{python}", "{case}"):
            raise ValueError("case.preload: expected a case.command that begins with {python} and {case}")
        return self

    @model_validator(mode="after")
    def _layout_holds(self) -> Self:
        reserved = _COMMON_PLACEHOLDERS | _CASE_PLACEHOLDERS | {VENV}
        for name in self.repositories:
            if name in reserved:
                raise ValueError(f"repositories.{name}: expected a name other than {sorted(reserved)}")
        if len(self.links) != sum(_target(pin) is not None for pin in self.pins.values()):
            raise ValueError("pins: expected at most one pin of each target")
        for target, name in self.links.items():
            holders = [self.pins[name].holder]
            while (above := self.links.get(holders[-1])) and self.pins[above].holder not in holders:
                holders.append(self.pins[above].holder)
            if target in holders:
                raise ValueError(f"pins: expected submodules in a tree, found {target!r} inside of itself")
        for name, pin in self.pins.items():
            if _target(pin) is None and name in self.repositories:
                raise ValueError(f"pins.{name}: expected a name that is not a repository's")
        worktrees = [self.directory(name) for name in self.repositories]
        for name, step in self.steps.items():
            for output in step.outputs:
                check_removable(output, worktrees, where=f"steps.{name}.outputs")
        if self.case.build_output is not None:
            check_removable(self.case.build_output, worktrees, where="case.build_output")
        return self

    def _repository_references(self) -> Iterator[tuple[str, str]]:
        yield "searched", self.searched
        yield "case.repository", self.case.repository
        for name, pin in self.pins.items():
            yield f"pins.{name}.holder", pin.holder
            if (target := _target(pin)) is not None:
                yield f"pins.{name}.target", target
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

    @cached_property
    def links(self) -> Mapping[str, str]:
        """The names of the pins that give a repository of the stack its commit, by that repository."""
        targets = {name: _target(pin) for name, pin in self.pins.items()}
        return {target: name for name, target in targets.items() if target is not None}

    @cached_property
    def pin_files(self) -> tuple[tuple[str, str], ...]:
        """Holder and path of the files that pin something, each once."""
        files = [(pin.holder, pin.path) for pin in self.pins.values() if not isinstance(pin, GitlinkPin)]
        return tuple(dict.fromkeys(files))

    def held_name(self, pin: str) -> str:
        """How a pin is named among revisions: by its repository, or by itself where that is outside of the stack."""
        return _target(self.pins[pin]) or pin

    def directory(self, repository: str) -> PurePosixPath:
        """Where a repository's worktree lies in a slot: submodules lie inside their holder."""
        link = self.gitlinks.get(repository)
        if link is None:
            return PurePosixPath(repository)
        return self.directory(link.holder) / link.path


def _target(pin: Pin) -> str | None:
    return None if isinstance(pin, VersionFilePin) else pin.target


def is_plain_name(text: str) -> bool:
    """Whether a text can name a repository, pin, step or platform."""
    return _NAME.fullmatch(text) is not None


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value, and doubled braces by single ones.

    >>> fill("{python} -c 'print({{}})' {minirt}", {"python": "python3", "minirt": "/slot/minirt"})
    "python3 -c 'print({})' /slot/minirt"
    """
    return _PLACEHOLDER.sub(lambda match: values[match[1]] if match[1] else match[0][0], template)


def literal(text: str) -> str:
    """A template that fills to this text."""
    return text.replace("{", "{{").replace("}", "}}")


def load_stack(name_or_path: str, *, overrides: Mapping[str, Path] | None = None) -> Stack:
    """Read a stack by the name of a file in `configs/` or by path.

    Relative repository paths count from the stack file's folder; for a named stack from the current folder.
    `overrides` replaces the path of single repositories. Raises `UsageError`.
    """
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.is_file():
        text, where, base = _read(path), str(path), path.absolute().parent
    else:
        source = resources.files("precision_bisect.configs").joinpath(f"{name_or_path}.toml")
        if name_or_path not in named_stacks():
            raise UsageError(
                f"expected a stack file or one of {named_stacks()}, found {name_or_path!r} (--stack)"
            )
        text, where, base = source.read_text(encoding="utf-8"), f"configs/{name_or_path}.toml", Path.cwd()
    stack = parse_stack(text, where=where)
    return _with_paths(stack, base=base, overrides=overrides or {})


def named_stacks() -> list[str]:
    """The stacks that come with the tool."""
    folder = resources.files("precision_bisect.configs")
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml") and entry.name != _NIGHTLY_EXAMPLE
    )


def stack_of_checkout(directory: Path) -> str | None:
    """The name of the stack whose searched repository this is, by its marks."""
    for name in named_stacks():
        text = (
            resources.files("precision_bisect.configs").joinpath(f"{name}.toml").read_text(encoding="utf-8")
        )
        marks = parse_stack(text, where=f"configs/{name}.toml").marks
        if marks and all((directory / mark).exists() for mark in marks):
            return name
    return None


def parse_stack(text: str, *, where: str) -> Stack:
    """Validate the text of a stack file. Raises `UsageError` that names file, key and what was expected."""
    try:
        return Stack.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: expected TOML: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{where}: {first_error(error)}") from error


def first_error(error: ValidationError) -> str:
    """The most helpful complaint about a file: key, what was expected, what was found."""
    # A misspelt key is also a missing one; its spelling is what helps.
    details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    first = details[0]
    key = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "unknown key; remove it or correct its spelling"
    elif first["type"] == "missing":
        message = "this key is required"
    elif isinstance(first["input"], (str, int, float, bool)):
        message += f", found {first['input']!r}"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{key}: {message}{more}" if key else f"{message}{more}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: expected a readable stack file: {error}") from error


def _with_paths(stack: Stack, *, base: Path, overrides: Mapping[str, Path]) -> Stack:
    for name in overrides:
        if name not in stack.repositories:
            raise UsageError(
                f"--repository {name}=...: expected one of {sorted(stack.repositories)}, found {name!r}"
            )
    repositories = {
        name: repository.model_copy(
            update={"path": (base / overrides.get(name, repository.path).expanduser()).resolve()}
        )
        for name, repository in stack.repositories.items()
    }
    return stack.model_copy(update={"repositories": repositories})
