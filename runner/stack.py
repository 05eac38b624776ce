"""The stack file: all that the tool knows about a toolchain, as validated data.

A stack file names the repositories, the pins between them, the build steps, the command of the case and its platforms.
`Stack` is the whole file, and each of its tables is a frozen model. `IgnoredPaths` reads patterns as git does. A
template is a text with `{name}` in place of a value that is known when a command runs; `fill` replaces it. `case_text`
and `stack_text` name a case and a stack for people.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pathspec import GitIgnoreSpec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from .errors import suggestion
from .verdict.rules import VerdictRule


class IgnoredPaths:
    """The paths that match a list of gitignore patterns.

    >>> ignored = IgnoredPaths(["docs", "*.[ch]", "!api.h"])
    >>> [path for path in ("docs/guide.txt", "src/a.c", "src/api.h", "src/a.py") if path in ignored]
    ['docs/guide.txt', 'src/a.c']
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compile the patterns.

        Raises:
            ValueError: one of them is no gitignore pattern, or has a class such as `[:alpha:]`.
        """
        for pattern in patterns:
            if "[:" in pattern:
                raise ValueError(f"expected a pattern without a class such as [:alpha:], found {pattern!r}")
        try:
            self._files = GitIgnoreSpec.from_lines(patterns)
            # A folder matches a pattern with or without a slash at its end.
            self._folders = GitIgnoreSpec.from_lines(map(_strip_trailing_slash, patterns))
        except ValueError as error:
            raise ValueError(f"expected patterns as in .gitignore: {error}") from error
        # A history names the same paths again and again, so the answers are cached.
        self._is_ignored = lru_cache(maxsize=None)(self._matches_file)
        self._is_ignored_folder = lru_cache(maxsize=None)(self._matches_folder)

    def __contains__(self, path: str) -> bool:
        """Return whether a path, relative to the repository's root, is ignored, or lies in an ignored folder."""
        return self._is_ignored(path)

    def _matches_file(self, path: str) -> bool:
        # Git does not look into an ignored folder, so a pattern with `!` re-includes nothing in it.
        return self._is_ignored_folder(str(PurePosixPath(path).parent)) or _matches(self._files, path)

    def _matches_folder(self, folder: str) -> bool:
        if folder == ".":
            return False
        parent = str(PurePosixPath(folder).parent)
        return self._is_ignored_folder(parent) or _matches(self._folders, folder)


def _strip_trailing_slash(pattern: str) -> str:
    bare = pattern.rstrip(" ")
    return bare[:-1] if bare.endswith("/") and bare != "!/" else pattern


def _matches(spec: GitIgnoreSpec, path: str) -> bool:
    # Git treats a line break in a path like any other character. The regular expressions of pathspec do not.
    return spec.match_file(path.replace("\n", "\0"))


VENV = "venv"
"""This folder of a slot holds its virtual environment."""


def _relative(text: str) -> str:
    """Return the path in its shortest spelling. Raises `ValueError` where it could lead out of the slot.

    >>> _relative("minirt/build/")
    'minirt/build'
    """
    path = PurePosixPath(text)
    if path.is_absolute() or not path.parts or ".." in path.parts or set(text) & {"{", "}", "\0"}:
        raise ValueError(
            f"expected a path inside the slot, relative, without .. and placeholders, found {text!r}"
        )
    return str(path)


RelativePath = Annotated[str, AfterValidator(_relative)]
"""A path inside a slot or a repository, in its shortest spelling."""


def _input(text: str) -> str:
    """Return an input of a step, or of `help`, with its path in the shortest spelling. Raises `ValueError`."""
    name, colon, path = text.partition(":")
    return f"{name}:{_relative(path)}" if colon else name


Input = Annotated[str, AfterValidator(_input)]
"""A repository (`minirt`), or a path in one (`minipto:pyproject.toml`), whose content counts."""
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A finite number, which the system can take as a limit."""
ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]
"""A module's dotted name, as in an import statement."""


class Model(BaseModel):
    """A frozen model in which an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Overlay(Model):
    """Files that replace those of each commit, as `--overlay` names them."""

    path: RelativePath
    """A file or folder, from the repository's root."""
    commit: str
    """The commit that holds the files."""
    object: str
    """Git's id of the object at the path. Equal ids are equal files."""
    revision: str | None
    """The name by which the user gave the commit; None where the files are from the user's disk."""
    kept_in: Path | None = None
    """The repository that holds the commit, where the user's repository does not."""

    def covers(self, path: str) -> bool:
        """Return whether a path is this one, or in it."""
        return path == self.path or path.startswith(f"{self.path}/")


Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
"""A name in a program."""


class Rename(Model):
    """A renamed thing, as a file of `--adapt` gives it: called `old` before the commit, and `new` from it on.

    Overlays, and cases of another repository, are rewritten with the name of the commit under test.
    """

    repository: str
    """The repository of the commit."""
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")]
    old: Identifier
    new: Identifier
    keyword_of: tuple[Identifier, ...] = ()
    """The functions that take the name as a keyword argument. If empty, it is an attribute or an imported name."""

    @model_validator(mode="after")
    def _check_names_differ(self) -> Self:
        if self.old == self.new:
            raise ValueError("expected old and new to differ")
        return self

    @property
    def description(self) -> str:
        """Return the old name, with its functions where it is a keyword argument."""
        return f"{self.old} of {', '.join(self.keyword_of)}" if self.keyword_of else self.old


Version = Annotated[str, Field(pattern=r"^\w[\w.+-]*$")]
"""A release's name, which git accepts as the name of a tag."""


class Releases(Model):
    """The releases of a tool. One of `versions`, `folder` and `command` lists them. Without these, `tags` does."""

    versions: tuple[Version, ...] = ()
    """The names of the releases, oldest first."""
    folder: Path | None = None
    """The folder that holds each release, unpacked in a subfolder of its name.

    In a slot, the link `release` in the repository's folder leads to the release.
    """
    command: tuple[str, ...] = ()
    """A command that prints the names of the releases, one in each line, oldest first."""
    tags: str | None = None
    """The repository of the stack that the releases were made from.

    The tag with a release's name marks its commit. In a slot, the file `SOURCE` in the repository's folder has the id.
    """
    pattern: str = "*"
    """The shell pattern that names must match to count."""
    commits: Mapping[Version, str] = {}
    """The commit that stands for each release, oldest first. `add_releases` fills it."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        given = [name for name in ("versions", "folder", "command") if getattr(self, name)]
        if len(given) > 1 or not (given or self.tags):
            found = " and ".join(given) or "none"
            raise ValueError(f"expected one of versions, folder and command, or tags, found {found}")
        return self


class Repository(Model):
    """One git repository of the stack: a checkout on this machine, or the releases of a tool as a history."""

    path: Path = Path()
    """The user's checkout. Objects are borrowed from it, and nothing is ever written to it."""
    releases: Releases | None = None
    """The releases that take the place of a checkout.

    In a slot, the file `VERSION` in the repository's folder has the release's name.
    """
    revision: str = "HEAD"
    """The revision to use where the repository is neither searched nor pinned."""
    ignore: tuple[str, ...] = ()
    """Paths that cannot change a result (docs, tests, CI), as patterns of a .gitignore in the repository's root."""
    keep: tuple[str, ...] = ()
    """Untracked files that cleaning a slot spares (caches of incremental builds), as gitignore patterns."""

    submodules: bool = False
    """Whether a slot has the submodules that no pin names, each at its pinned commit, or empty folders."""
    overlays: tuple[Overlay, ...] = ()
    """The overlays of the repository. A later one wins over an earlier one."""

    @field_validator("ignore")
    @classmethod
    def _check_patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        IgnoredPaths(value)
        return value

    @model_validator(mode="after")
    def _check_location(self) -> Self:
        has_path = "path" in self.model_fields_set
        if self.releases is None and not has_path:
            raise ValueError("expected path, where the checkout is, or releases")
        if self.releases is not None and has_path and not self.releases.commits:
            raise ValueError("expected path, where the checkout is, or releases, found both")
        return self

    def version_of(self, commit: str) -> str | None:
        """Return the release that a commit stands for; None where it stands for none."""
        if self.releases is None:
            return None
        return next((version for version, each in self.releases.commits.items() if each == commit), None)


class GitlinkPin(Model):
    """A submodule: `holder`'s commit names the commit of `target`, checked out at `path` inside it."""

    kind: Literal["gitlink"]
    holder: str
    path: RelativePath
    target: str
    search: bool = True
    """Whether the pin is searched.

    A searched pin follows its holder's commits. Where the culprit moves the pin, the search continues in `target`. A
    pin that is not searched is frozen: it stays at the bad end's value for the whole bisection.
    """
    optional: bool = False
    """Whether commits of `holder` without this submodule run without it. Otherwise they cannot be tested."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the path of the submodule."""
        return (self.path,)


class EarlierPlace(Model):
    """A line `KEY: VALUE` or `KEY=VALUE` of another file, for commits that have no pin file yet."""

    path: RelativePath
    key: str


class _FilePin(Model):
    """A pin whose value stands in a file of `holder`."""

    holder: str
    path: RelativePath
    earlier: EarlierPlace | None = None
    """The place to read where `path` is missing."""
    search: bool = True
    """Whether the pin is searched, as for a `GitlinkPin`."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the files that may contain the value."""
        return (self.path,) if self.earlier is None else (self.path, self.earlier.path)


class CommitFilePin(_FilePin):
    """A file of `holder` that contains the full commit id of another repository, and nothing else."""

    kind: Literal["commit-file"]
    target: str | None = None
    """The repository of the commit; None where it does not belong to the stack."""


class VersionFilePin(_FilePin):
    """A `KEY=VALUE` line in a file of `holder` that gives the version of a tool."""

    kind: Literal["version-file"]
    key: str
    target: str | None = None
    """The repository of the tool's releases; None where the stack has none. A slot has the named release."""


Pin = Annotated[GitlinkPin | CommitFilePin | VersionFilePin, Field(discriminator="kind")]


class Tool(Model):
    """A program that the stack needs. Its version is part of the environment fingerprint."""

    command: tuple[str, ...] = Field(min_length=1)
    """The command that prints the tool's version."""
    required: bool = True
    variables: Mapping[str, str] = {}
    """Variables for every step and run where the tool exists, such as cmake's compiler launcher for ccache."""
    hint: str = ""
    """How to get the tool; `doctor` shows this."""
    keeps_objects: bool = False
    """Whether the tool keeps compiled objects for all slots, as ccache does. Then builds may begin ahead."""


class Environment(Model):
    """The interpreter, variables, tools and packages that steps and runs use."""

    python: str | None = None
    """The base interpreter of a slot's virtual environment, whose packages stay visible there.

    The default is the interpreter that runs this tool.
    """
    variables: Mapping[str, str] = {}
    """Variables for every step and run, as templates."""
    matters: tuple[str, ...] = ()
    """Inherited variables that can change a result. They enter the build key and the fingerprint."""
    packages: tuple[str, ...] = ()
    """Python distributions whose versions enter the fingerprint."""
    tools: Mapping[str, Tool] = {}
    version_files: Mapping[str, str] = {}
    """Files of the machine that contain a version, such as a driver's, by name; `$NAME` is an inherited variable.

    The versions enter the fingerprint where the files exist.
    """


class Step(Model):
    """One build step. It runs in a slot when its inputs have changed there."""

    command: tuple[str, ...] = Field(min_length=1)
    cwd: str = "{slot}"
    inputs: tuple[Input, ...] = Field(min_length=1)
    """The inputs whose content decides the result."""
    outputs: tuple[RelativePath, ...] = ()
    """Folders or files, from the slot's root, that contain everything that the step makes.

    They are removed before the step runs, and cached by content. Files that an incremental build continues from belong
    under `keep`. A step without outputs is never cached: it is skipped only where the slot already has its result.
    """
    timeout: _Positive = 3600
    """The timeout in seconds."""

    @property
    def is_for_one_platform(self) -> bool:
        """Return whether the step builds for the requested platform alone, and not for all platforms."""
        return any("{platform}" in text for text in (*self.command, self.cwd))


class CaseFlags(Model):
    """Every spelling that an option of the case has had, newest first. The case's `--help` decides between them."""

    golden_data: tuple[str, ...] = ()
    save_data: tuple[str, ...] = ()
    dump: tuple[str, ...] = ()
    dep_gen: tuple[str, ...] = ()
    dump_passes: tuple[str, ...] = ()
    runtime_dir: tuple[str, ...] = ()


class Case(Model):
    """How a case is run."""

    repository: str
    command: tuple[str, ...] = Field(min_length=1)
    """The command; `{case}` is the path of the script in the slot. The tool inserts the harness's shim."""
    help: tuple[str, ...] = ()
    """The command that prints the case's options at a commit. Without it the case has none of `flags`."""
    help_inputs: tuple[Input, ...] = ()
    """The inputs on which the output of `help` depends, beside the case's script.

    The command runs again where they change. Without them it runs for each content of the whole stack.
    """
    cwd: str
    harness: bool = True
    """Whether the case calls `golden.run` or `golden.run_jit`.

    Such a case runs under the shim, which reports what the calls returned.
    """
    scene_tests: bool = False
    """Whether cases are scene tests of the runtime. `reduce` reads and writes scripts of that form then."""
    flags: CaseFlags = CaseFlags()
    yardstick: tuple[str, ...] = ()
    """Names that a script uses for its check: tolerances, expected values, and functions that compare outputs.

    The report says where a culprit changes the check and nothing else.
    """
    variables: Mapping[str, str] = {}
    """Variables for the case's runs alone, as templates."""
    after: tuple[str, ...] = ()
    """Scripts of `repository`, with or without arguments, that run before the case in its process, in this order."""
    build_output: RelativePath | None = None
    """The folder, from the slot's root, in which a run leaves its build directory."""
    compiled: tuple[RelativePath, ...] = ()
    """Folders or files, from the slot's root, for what a run compiles for itself, such as kernels.

    They are restored only where the case runs at the same content again.
    """
    preload: tuple[ModuleName, ...] = ()
    """Modules that take long to import. A process may import them once, and fork for each of many runs."""


class Platform(Model):
    """A target on which the case runs."""

    board: bool = False
    """Whether the target is a board, which makes one run at a time for all users of the machine."""
    needs: tuple[str, ...] = ()
    """Inherited variables without which nothing can be built or run for the platform."""
    undisturbed: bool = False
    """Whether no build may run ahead while a case runs on the platform."""


class Schedule(Model):
    """Variables that make the runtime run its tasks in some way: in an order, or with a number of workers."""

    variables: Mapping[str, str] = Field(min_length=1)
    """Environment variables for the run."""


class Perturbation(Model):
    """A change of a case's surroundings that may make a flaky failure certain."""

    variables: Mapping[str, str] = {}
    """Variables for the case's runs, as templates."""
    command: tuple[str, ...] = ()
    """Words to put before the case's command, such as `setarch -R`. The first word must be a command that exists."""
    needs: tuple[str, ...] = ()
    """Commands, or absolute paths of files, that must exist, such as a library to preload."""

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if not self.description:
            raise ValueError("expected variables, or a command, found neither")
        return self

    @property
    def description(self) -> str:
        """Return the change as words of a shell command."""
        return " ".join([*(f"{name}={text}" for name, text in self.variables.items()), *self.command])


class MachineLimits(Model):
    """Bounds on what the tool takes from the machine."""

    build_cache_gib: _Positive = 20
    memory_gib: _Positive | None = None
    """The address space of one run, in GiB; unbounded by default."""
    run_timeout: _Positive = 3600
    """Seconds for the first run at an end. Later runs get ten times the longest run so far."""


_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_-]*)\}")


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value, and doubled braces by single ones.

    >>> fill("{python} -c 'print({{}})' {minirt}", {"python": "python3", "minirt": "/slot/minirt"})
    "python3 -c 'print({})' /slot/minirt"
    """
    return _PLACEHOLDER.sub(lambda match: values[match[1]] if match[1] else match[0][0], template)


def escape_braces(text: str) -> str:
    """Return the template from which `fill` makes this text."""
    return text.replace("{", "{{").replace("}", "}}")


def display_text(template: str) -> str:
    """Return a template as people read it: with single braces in place of doubled ones, and with its placeholders.

    >>> display_text("{case} {{}}")
    '{case} {}'
    """
    return _PLACEHOLDER.sub(lambda match: match[0] if match[1] else match[0][0], template)


def placeholders(template: str) -> list[str]:
    """Return the names of a template's placeholders."""
    return [name for name in _PLACEHOLDER.findall(template) if name]


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_COMMON_PLACEHOLDERS = frozenset({"python", "slot", "jobs"})
_STEP_PLACEHOLDERS = frozenset({"platform"})
_CASE_PLACEHOLDERS = frozenset({"case", "platform", "device"})
RESERVED_NAMES = _COMMON_PLACEHOLDERS | _CASE_PLACEHOLDERS | {VENV}
"""No repository may have one of these names: they are placeholders, or the folder of the virtual environment."""


class Stack(Model):
    """A whole stack file."""

    name: str
    searched: str
    """The repository whose commits `--good` and `--bad` name, unless `--repo` names another."""
    marks: tuple[str, ...] = ()
    """Paths in a checkout of the searched repository. A checkout that has them all needs no `--stack`."""
    repositories: Mapping[str, Repository] = Field(min_length=1)
    pins: Mapping[str, Pin] = {}
    renames: tuple[Rename, ...] = ()
    """The renames of the `--adapt` files, the oldest one first."""
    environment: Environment = Environment()
    steps: Mapping[str, Step] = {}
    """The build steps, in the order in which they run."""
    case: Case
    platforms: Mapping[str, Platform] = Field(min_length=1)
    """The platforms; the first one is the default."""
    schedules: Mapping[str, Schedule] = {}
    """Settings of the runtime, by the names that `reduce` shows."""
    perturbations: Mapping[str, Perturbation] = {}
    """The perturbations, in the order in which they are tried."""
    verdicts: tuple[VerdictRule, ...] = ()
    limits: MachineLimits = MachineLimits()

    @field_validator("name", "repositories", "pins", "steps", "platforms", "schedules", "perturbations")
    @classmethod
    def _check_plain_names(cls, value: str | Mapping[str, object]) -> str | Mapping[str, object]:
        for name in [value] if isinstance(value, str) else value:
            if not is_plain_name(name):
                raise ValueError(f"expected a plain name (letters, digits, - and _), found {name!r}")
        return value

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        repositories = sorted(self.repositories)
        for where, name in self._repository_references():
            if name not in repositories:
                raise ValueError(
                    f"{where}: expected one of the repositories {', '.join(repositories)}, found {name!r}"
                    f"{suggestion(name, repositories)}"
                )
        for where, entry in self._inputs():
            self._check_input(where, entry)
        for where, text, extra in self._templates():
            known = sorted({*_COMMON_PLACEHOLDERS, *repositories, *extra})
            for placeholder in placeholders(text):
                if placeholder not in known:
                    raise ValueError(
                        f"{where}: expected placeholders among {', '.join(known)}, found {{{placeholder}}}"
                        f"{suggestion(placeholder, known)}"
                    )
        return self

    @model_validator(mode="after")
    def _check_case(self) -> Self:
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
    def _check_layout(self) -> Self:
        for name in self.repositories:
            if name in RESERVED_NAMES:
                raise ValueError(
                    f"repositories.{name}: expected a name other than {', '.join(sorted(RESERVED_NAMES))}"
                )
        self._check_pins()
        kept = [*map(self.directory, self.repositories), PurePosixPath(VENV)]
        for where, path in self.removed_paths():
            inside = next((folder for folder in kept if folder.is_relative_to(path)), None)
            if inside is not None:
                raise ValueError(
                    f"{where}: expected a path that is removed before each use, found {path!r}, which holds {inside}"
                )
        return self

    def removed_paths(self) -> Iterator[tuple[str, RelativePath]]:
        """Yield the paths that are removed before a step or a run makes them anew, each with its key in the file."""
        for name, step in self.steps.items():
            yield from ((f"steps.{name}.outputs", output) for output in step.outputs)
        if self.case.build_output is not None:
            yield "case.build_output", self.case.build_output
        yield from (("case.compiled", path) for path in self.case.compiled)

    def _check_pins(self) -> None:
        """Check that each target has one pin of the right kind, and that no pins form a circle.

        Raises `ValueError`.
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
        """Yield the names of repositories in the file, each after its key."""
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
        for where, entry in self._inputs():
            yield where, entry.partition(":")[0]

    def _inputs(self) -> Iterator[tuple[str, str]]:
        """Yield the inputs in the file, each after its key."""
        for name, step in self.steps.items():
            yield from ((f"steps.{name}.inputs", entry) for entry in step.inputs)
        yield from (("case.help_inputs", entry) for entry in self.case.help_inputs)

    def _check_input(self, where: str, entry: str) -> None:
        """Check that an input is no path inside a submodule, whose files are those of another repository.

        Raises `ValueError`.
        """
        name, _, path = entry.partition(":")
        for target, pin in self.gitlinks.items():
            if pin.holder == name and path and PurePosixPath(path).is_relative_to(pin.path):
                raise ValueError(
                    f"{where}: expected a path of {target}, which is a repository of its own, found {entry!r}"
                )

    def _templates(self) -> Iterator[tuple[str, str, frozenset[str]]]:
        """Yield each template of the file, after its key, with the placeholders that only it may have."""
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
        """Return whether anything runs in the slot's virtual environment."""
        return any("{python}" in text for _, text, _ in self._templates())

    @cached_property
    def gitlinks(self) -> Mapping[str, GitlinkPin]:
        """Return the submodule pins, by target."""
        return {pin.target: pin for pin in self.pins.values() if isinstance(pin, GitlinkPin)}

    def submodule_paths(self, holder: str) -> frozenset[str]:
        """Return the paths of a repository's submodules that are repositories of the stack."""
        return frozenset(pin.path for pin in self.gitlinks.values() if pin.holder == holder)

    @cached_property
    def links(self) -> Mapping[str, str]:
        """Return the names of the pins whose target is a repository of the stack, by target."""
        return {pin.target: name for name, pin in self.pins.items() if pin.target is not None}

    @cached_property
    def pin_files(self) -> tuple[tuple[str, str], ...]:
        """Return the holder and the path of each file that contains a pin's value, each once."""
        pins = [pin for pin in self.pins.values() if not isinstance(pin, GitlinkPin)]
        files = [(pin.holder, path) for pin in pins for path in pin.paths]
        return tuple(dict.fromkeys(files))

    def revision_key(self, pin: str) -> str:
        """Return the key of a pin's value among revisions: its target, or its own name if it has no target."""
        return self.pins[pin].target or pin

    def version_of(self, key: str, value: str) -> str | None:
        """Return the release that the value of a key among revisions stands for; None where it stands for none."""
        repository = self.repositories.get(key)
        return None if repository is None else repository.version_of(value)

    def add_case_variables(self, variables: Mapping[str, str]) -> "Stack":
        """Return the stack with further variables for its case. The values are texts, not templates."""
        texts = {name: escape_braces(value) for name, value in variables.items()}
        case = self.case.model_copy(update={"variables": {**self.case.variables, **texts}})
        return self.model_copy(update={"case": case})

    def directory(self, repository: str) -> PurePosixPath:
        """Return the path of a repository's worktree in a slot. A submodule is inside its holder."""
        link = self.gitlinks.get(repository)
        if link is None:
            return PurePosixPath(repository)
        return self.directory(link.holder) / link.path


def is_plain_name(text: str) -> bool:
    """Return whether a text may be the name of a stack or of an entry in its tables."""
    return _NAME.fullmatch(text) is not None


PLACEHOLDER_COMMAND = ("true",)
"""A case has this command until it gets one, and where a person runs what they like."""


def case_text(
    case: str | None, runtime_dir: Path | str | None, command: Sequence[str], *, interactive: bool
) -> str:
    """Return the name of a case: its script with arguments, its build directory, its command, or what a person runs."""
    if case is not None:
        return case
    if interactive and tuple(command) == PLACEHOLDER_COMMAND:
        return "what a person runs"
    return shlex.join(map(display_text, command)) if runtime_dir is None else str(runtime_dir)


COMMAND_STACK = "predicate"
"""The stack of a bisection that only runs a command has this name in stores and in JSON."""


def stack_text(name: str) -> str:
    """Return the name of a stack, for people."""
    return "none, only a command" if name == COMMAND_STACK else name
