"""The stack file: all that the tool knows about a toolchain, as validated data.

A stack file names the repositories, the pins between them, the build steps, the command of the case and its platforms.
Whatever this file can say is not written in Python. `Stack` is the whole file; each of its tables is a frozen model.
`first_error` describes what is wrong with a file in one line. `IgnoredPaths` reads patterns as git does. Templates are
texts with `{name}` in place of values that are known when a command runs; `fill` replaces them.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from pathspec import GitIgnoreSpec
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from .verdict.rules import VerdictRule

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "mapping_type": "a table",
    "model_attributes_type": "a table",
    "model_type": "a table",
    "path_type": "a path",
    "pattern_type": "a regular expression",
    "string_type": "a text",
    "time_parsing": "a time such as 22:00:00",
    "time_type": "a time such as 22:00:00",
    "tuple_type": "a list",
}
"""Each field expects what stands here, by the names that pydantic gives to errors."""


def first_error(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the most helpful complaint about a file that was read as `model`."""
    # A misspelt key also causes a missing key. Its spelling is what helps.
    details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    first = details[0]
    key = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    complaint = f"{_complaint(first, model)}{more}"
    return f"{key}: {complaint}" if key else complaint


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return a question for a name that resembles a known one; otherwise an empty text.

    >>> suggestion("serched", ["searched", "steps"]), suggestion("x", ["searched"])
    (': did you mean searched?', '')
    """
    near = nearest_name(name, known)
    return "" if near is None else f": did you mean {near}?"


def nearest_name(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is most similar; None where none is similar."""
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def _complaint(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, found = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        *place, name = detail["loc"]
        known = sorted(set(_keys(model, place)))
        return f"unknown key{suggestion(str(name), known) or '; expected one of ' + ', '.join(known)}"
    if kind == "missing":
        return "this key is required"
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    context = detail.get("ctx", {})
    if kind == "union_tag_not_found":
        return f"expected a key {context['discriminator']}"
    if kind == "union_tag_invalid":
        return f"expected {context['discriminator']} to be one of {context['expected_tags']}, found {context['tag']!r}"
    if kind == "string_pattern_mismatch":
        return _append_found(f"expected a text of the form {context['pattern']}", found)
    if kind == "too_short":
        return "expected it not to be empty"
    expected = _EXPECTED.get(kind) or re.sub(r"^(Input|String) should", "it to", detail["msg"])
    return _append_found(f"expected {expected}", found)


def _append_found(complaint: str, found: object) -> str:
    return f"{complaint}, found {found!r}" if isinstance(found, (str, int, float, bool)) else complaint


def _keys(annotation: Any, place: Sequence[int | str]) -> Iterator[str]:
    """Yield the keys that a model has at a place below it, as pydantic names places."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields
        if not place:
            yield from fields
        elif place[0] in fields:
            yield from _keys(fields[str(place[0])].annotation, place[1:])
        return
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _keys(arguments[0], place)
    elif origin in (Union, UnionType):
        for argument in arguments:
            yield from _keys(argument, place)
            yield from _keys(argument, place[1:])  # A place inside a union begins with the member's tag.
    elif place and isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _keys(arguments[1], place[1:])
    elif place and origin in (tuple, list):
        yield from _keys(arguments[0], place[1:])


class IgnoredPaths:
    """The paths that match a list of gitignore patterns.

    >>> ignored = IgnoredPaths(["docs", "*.[ch]", "!api.h"])
    >>> [path for path in ("docs/guide.txt", "src/a.c", "src/api.h", "src/a.py") if path in ignored]
    ['docs/guide.txt', 'src/a.c']
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compile the patterns.

        Raises:
            ValueError: one of them is no gitignore pattern, or is of a kind that is not supported.
        """
        for pattern in patterns:
            if "[:" in pattern:
                raise ValueError(f"expected a pattern without a class such as [:alpha:], found {pattern!r}")
        try:
            self._files = GitIgnoreSpec.from_lines(patterns)
            # A path that is known to be a folder matches a pattern with or without a slash at its end.
            self._folders = GitIgnoreSpec.from_lines(map(_strip_trailing_slash, patterns))
        except ValueError as error:
            raise ValueError(f"expected patterns as in .gitignore: {error}") from error
        # A history names the same paths again and again.
        self._is_ignored = lru_cache(maxsize=None)(self._find_ignored)
        self._is_ignored_folder = lru_cache(maxsize=None)(self._find_ignored_folder)

    def __contains__(self, path: str) -> bool:
        """Return whether a path, relative to the repository's root, is ignored, or lies in an ignored folder."""
        return self._is_ignored(path)

    def _find_ignored(self, path: str) -> bool:
        return self._is_ignored_folder(str(PurePosixPath(path).parent)) or _matches(self._files, path)

    def _find_ignored_folder(self, folder: str) -> bool:
        """Return whether a folder is ignored.

        A pattern with `!` re-includes nothing in an ignored folder, because git does not look into it.
        """
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


def check_removable(path: str, worktrees: Iterable[PurePosixPath], *, where: str) -> None:
    """Check that removing a path would remove neither a worktree nor the virtual environment.

    Raises:
        ValueError: it would.
    """
    for kept in (*worktrees, PurePosixPath(VENV)):
        if kept.is_relative_to(path):
            raise ValueError(
                f"{where}: expected a path that is removed before each use, found {path!r}, which holds {kept}"
            )


ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]
"""A module's dotted name, as in an import statement."""


class Model(BaseModel):
    """A frozen model that is strict about keys: a misspelt key is an error and is not ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Overlay(Model):
    """Files that lie over those of each commit, as `--overlay` names them."""

    path: RelativePath
    """A file or folder, from the repository's root."""
    commit: str
    """The commit that holds the files."""
    object: str
    """Git's id of the object at the path. Equal ids are equal files."""
    revision: str | None
    """The name by which the commit was given; None where the files were on the user's disk."""
    kept_in: Path | None = None
    """The repository that holds the commit, where the user's repository does not."""

    def covers(self, path: str) -> bool:
        """Return whether a path is this one, or in it."""
        return path == self.path or path.startswith(f"{self.path}/")


Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
"""A name in a program."""


class Rename(Model):
    """A name that a commit changes, as `--adapt` gives it: `old` before the commit, `new` from it on.

    Files of other times are rewritten with the name of the commit under test.
    """

    repository: str
    """The repository of the commit."""
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")]
    old: Identifier
    new: Identifier
    keyword_of: tuple[Identifier, ...] = ()
    """The functions that have it as a keyword argument. Without any, it is an attribute or an imported name."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.old == self.new:
            raise ValueError("expected old and new to differ")
        return self

    @property
    def description(self) -> str:
        """Return the old name, in words."""
        return f"{self.old} of {', '.join(self.keyword_of)}" if self.keyword_of else self.old


Version = Annotated[str, Field(pattern=r"^\w[\w.+-]*$")]
"""A release's name: a version file contains it, and git accepts it as the name of a tag."""


class Releases(Model):
    """The releases of a tool. One of `versions`, `folder` and `command` lists them, or else the tags do."""

    versions: tuple[Version, ...] = ()
    """The names of the releases, oldest first."""
    folder: Path | None = None
    """The folder that holds each release unpacked, in a folder of its name.

    A slot has the release as `release` in the repository's folder.
    """
    command: tuple[str, ...] = ()
    """A command that prints the names of the releases, one in each line, oldest first."""
    tags: str | None = None
    """The repository of the stack that the releases were made from.

    The tag with a release's name marks its commit, and `SOURCE` in the repository's folder contains the id.
    """
    pattern: str = "*"
    """The names that count, as a shell pattern."""
    commits: Mapping[Version, str] = {}
    """The commit that stands for each release, oldest first. It is filled when the releases are looked up."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        given = [name for name in ("versions", "folder", "command") if getattr(self, name)]
        if len(given) > 1 or not (given or self.tags):
            found = " and ".join(given) or "none"
            raise ValueError(f"expected one of versions, folder and command, or tags, found {found}")
        return self


class Repository(Model):
    """One git repository of the stack, as it is checked out on this machine, or the releases of a tool.

    Releases become a history in which each commit is a release and follows the one before it.
    """

    path: Path = Path()
    """The user's checkout. Objects are borrowed from it, and nothing is ever written to it."""
    releases: Releases | None = None
    """The releases that take the place of a checkout.

    A slot has the release's name in `VERSION` in the repository's folder.
    """
    revision: str = "HEAD"
    """The revision that is used where the repository is neither searched nor pinned by another one."""
    ignore: tuple[str, ...] = ()
    """Paths that cannot change a result (docs, tests, CI), as patterns of a .gitignore in the repository's root."""
    keep: tuple[str, ...] = ()
    """Untracked files that cleaning a slot spares (caches of incremental builds), as gitignore patterns."""

    submodules: bool = False
    """Whether to fill the submodules that no pin names from the checkout, each at its pinned commit.

    Otherwise their folders are empty.
    """

    overlays: tuple[Overlay, ...] = ()
    """The overlays of the repository. Later ones lie over earlier ones."""

    @field_validator("ignore")
    @classmethod
    def _patterns_are_readable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        IgnoredPaths(value)
        return value

    @model_validator(mode="after")
    def _has_one_location(self) -> Self:
        has_path = "path" in self.model_fields_set
        if self.releases is None and not has_path:
            raise ValueError("expected path, where the checkout is, or releases")
        if self.releases is not None and has_path and not self.releases.commits:
            raise ValueError("expected path, where the checkout is, or releases, found both")
        return self

    def version_of(self, commit: str) -> str | None:
        """Return the release that a commit stands for; None where the commit is an ordinary one."""
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

    A searched pin follows its holder's commits. Where the culprit moves it, the search continues inside it. A pin that
    is not searched is frozen: it is held at the bad end's value for the whole bisection.
    """
    optional: bool = False
    """Whether commits of `holder` without this submodule are run without it. Otherwise they cannot be tested."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the path of the submodule."""
        return (self.path,)


class EarlierPlace(Model):
    """A line `KEY: VALUE` or `KEY=VALUE` of another file, for commits that have no pin file yet."""

    path: RelativePath
    key: str


class CommitFilePin(Model):
    """A file of `holder` that holds the full commit id of another repository, and nothing else."""

    kind: Literal["commit-file"]
    holder: str
    path: RelativePath
    earlier: EarlierPlace | None = None
    """The place that is read where `path` is missing."""
    target: str | None = None
    """The repository, where it belongs to the stack. It is checked out beside the others, and can be searched."""
    search: bool = True

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the files that may contain the commit id."""
        return (self.path,) if self.earlier is None else (self.path, self.earlier.path)


class VersionFilePin(Model):
    """A `KEY=VALUE` line in a file of `holder` that names the version of a tool."""

    kind: Literal["version-file"]
    holder: str
    path: RelativePath
    key: str
    earlier: EarlierPlace | None = None
    """The place that is read where `path` is missing: a line `KEY: VERSION` or `KEY=VERSION`."""
    target: str | None = None
    """The repository of the tool's releases. The release that is named is provided, and can be searched for."""
    search: bool = True

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the files that may contain the version."""
        return (self.path,) if self.earlier is None else (self.path, self.earlier.path)


Pin = Annotated[GitlinkPin | CommitFilePin | VersionFilePin, Field(discriminator="kind")]


class Tool(Model):
    """A program that the stack needs. Its version is part of the environment fingerprint."""

    command: tuple[str, ...] = Field(min_length=1)
    """The command that prints the tool's version."""
    required: bool = True
    variables: Mapping[str, str] = {}
    """Variables for every step and run where the tool is found, such as cmake's compiler launcher for ccache."""
    hint: str = ""
    """How to get the tool; `doctor` shows this."""
    keeps_objects: bool = False
    """Whether the tool keeps compiled objects for all slots, as ccache does. Where one is found, builds are begun
    ahead.
    """


class Environment(Model):
    """The surroundings of the processes: interpreter, variables, tools."""

    python: str | None = None
    """The interpreter from which a slot's virtual environment is made. Its packages stay visible there.

    By default it is the interpreter that runs this tool.
    """
    variables: Mapping[str, str] = {}
    """Variables for every step and run. Placeholders are replaced."""
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
    inputs: tuple[str, ...] = Field(min_length=1)
    """Repositories (`minirt`) or paths in them (`minipto:pyproject.toml`) whose content decides the result."""
    outputs: tuple[RelativePath, ...] = ()
    """Folders or files, from the slot's root, that hold everything that the step makes.

    They are removed before the step runs, and cached by content. What an incremental build continues from belongs under
    `keep`. A step without outputs is never taken from the cache. It is only skipped where the slot already holds its
    result.
    """
    timeout: float = Field(default=3600, gt=0)
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
    """The command without the interpreter's shim; `{case}` is the path of the script in the slot."""
    help: tuple[str, ...] = ()
    """The command that prints the case's options at a commit. Without it the case has none of `flags`."""
    help_inputs: tuple[str, ...] = ()
    """Repositories, or paths in them, that decide with the case's script what `help` prints.

    The command runs again where they change. By default it runs at each content of the whole stack.
    """
    cwd: str
    harness: bool = True
    """Whether the case calls `golden.run` or `golden.run_jit`.

    Such a case runs under the shim, which reports what the calls returned.
    """
    scene_tests: bool = False
    """Whether cases are scene tests of the runtime. `reduce` takes their scripts, and runs its results as such."""
    flags: CaseFlags = CaseFlags()
    yardstick: tuple[str, ...] = ()
    """Names that a script uses for its check: arguments, variables or functions for tolerances and expected values.

    Functions that compare outputs are among them. Where a culprit changes nothing else, the report says so.
    """
    variables: Mapping[str, str] = {}
    """Variables for the case's runs alone, not for the steps. Placeholders are replaced."""
    after: tuple[str, ...] = ()
    """Scripts of `repository`, with or without arguments, that run before the case in its process, in this order."""
    build_output: RelativePath | None = None
    """The folder, from the slot's root, in which a run leaves its build directory."""
    compiled: tuple[RelativePath, ...] = ()
    """Folders or files, from the slot's root, in which a run keeps what it compiles for itself, such as kernels.

    They are restored where the case runs at the same content again, and nowhere else.
    """
    preload: tuple[ModuleName, ...] = ()
    """Modules that take long to import.

    They may be imported once for many runs, which are forks of one process.
    """


class Platform(Model):
    """A target on which the case runs."""

    board: bool = False
    """Whether the target is a board. A board is leased: it makes one run at a time, for all bisections
    together."""
    needs: tuple[str, ...] = ()
    """Inherited variables without which nothing can be built or run for the platform."""
    undisturbed: bool = False
    """Whether no build may run ahead while a case runs on the platform."""


class Schedule(Model):
    """A way to make the runtime run its tasks, such as an order or a number of workers."""

    variables: Mapping[str, str] = Field(min_length=1)
    """Environment variables for the run."""


class Perturbation(Model):
    """A change of a case's surroundings that may make a flaky failure certain."""

    variables: Mapping[str, str] = {}
    """Environment variables for the case's runs. Placeholders are replaced."""
    command: tuple[str, ...] = ()
    """Words that are put before the case's command, such as `setarch -R`.

    The perturbation is tried where the first word is found.
    """
    needs: tuple[str, ...] = ()
    """Commands, or files by their absolute paths, without which the perturbation is not tried.

    A library to be preloaded is an example.
    """

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.description:
            raise ValueError("expected variables, or a command, found neither")
        return self

    @property
    def description(self) -> str:
        """Return what is changed, for people."""
        return " ".join([*(f"{name}={text}" for name, text in self.variables.items()), *self.command])


class MachineLimits(Model):
    """Bounds on what the tool takes from the machine."""

    build_cache_gib: float = Field(default=20, gt=0)
    memory_gib: float | None = Field(default=None, gt=0)
    """The address space of one run, in GiB; unbounded by default."""
    run_timeout: float = Field(default=3600, gt=0)
    """Seconds for the first run at an end. Later runs get ten times what that run took."""


_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_-]*)\}")


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value, and doubled braces by single ones.

    >>> fill("{python} -c 'print({{}})' {minirt}", {"python": "python3", "minirt": "/slot/minirt"})
    "python3 -c 'print({})' /slot/minirt"
    """
    return _PLACEHOLDER.sub(lambda match: values[match[1]] if match[1] else match[0][0], template)


def literal(text: str) -> str:
    """Return a template that fills to this text."""
    return text.replace("{", "{{").replace("}", "}}")


def display_text(template: str) -> str:
    """Return the text as people read it: doubled braces are single ones, placeholders stay.

    >>> display_text("{case} {{}}")
    '{case} {}'
    """
    return _PLACEHOLDER.sub(lambda match: match[0] if match[1] else match[0][0], template)


def placeholders(template: str) -> list[str]:
    """Return the names of the placeholders in a text."""
    return [name for name in _PLACEHOLDER.findall(template) if name]


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_COMMON_PLACEHOLDERS = frozenset({"python", "slot", "jobs"})
_STEP_PLACEHOLDERS = frozenset({"platform"})
_CASE_PLACEHOLDERS = frozenset({"case", "platform", "device"})
RESERVED_NAMES = _COMMON_PLACEHOLDERS | _CASE_PLACEHOLDERS | {VENV}
"""No repository may have one of these names, because placeholders and the virtual environment use them."""


class Stack(Model):
    """A whole stack file."""

    name: str
    searched: str
    """The repository whose commits `--good` and `--bad` name, unless `--repo` says otherwise."""
    marks: tuple[str, ...] = ()
    """Paths of a checkout of the searched repository. Where they exist, the stack need not be named."""
    repositories: Mapping[str, Repository] = Field(min_length=1)
    pins: Mapping[str, Pin] = {}
    renames: tuple[Rename, ...] = ()
    """The renames whose names are written into files of other times, the oldest one first."""
    environment: Environment = Environment()
    steps: Mapping[str, Step] = {}
    """The build steps, in the order in which they run."""
    case: Case
    platforms: Mapping[str, Platform] = Field(min_length=1)
    """The platforms; the first one is the default."""
    schedules: Mapping[str, Schedule] = {}
    """Settings of the runtime, by the names that `reduce` shows."""
    perturbations: Mapping[str, Perturbation] = {}
    """What may make a flaky failure certain, in the order in which it is tried."""
    verdicts: tuple[VerdictRule, ...] = ()
    limits: MachineLimits = MachineLimits()

    @field_validator("name")
    @classmethod
    def _name_is_plain(cls, value: str) -> str:
        if not is_plain_name(value):
            raise ValueError(f"expected a plain name (letters, digits, - and _), found {value!r}")
        return value

    @field_validator("repositories", "pins", "steps", "platforms", "schedules", "perturbations")
    @classmethod
    def _names_are_plain(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        for name in value:
            if not is_plain_name(name):
                raise ValueError(f"expected a plain name (letters, digits, - and _), found {name!r}")
        return value

    @model_validator(mode="after")
    def _check_names(self) -> Self:
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
    def _check_layout(self) -> Self:
        for name in self.repositories:
            if name in RESERVED_NAMES:
                raise ValueError(
                    f"repositories.{name}: expected a name other than {', '.join(sorted(RESERVED_NAMES))}"
                )
        self._check_pins()
        worktrees = [self.directory(name) for name in self.repositories]
        for where, path in self.removed_paths():
            check_removable(path, worktrees, where=where)
        return self

    def removed_paths(self) -> Iterator[tuple[str, RelativePath]]:
        """Yield what is removed before a build or a run makes it anew, with the key that names it."""
        for name, step in self.steps.items():
            yield from ((f"steps.{name}.outputs", output) for output in step.outputs)
        if self.case.build_output is not None:
            yield "case.build_output", self.case.build_output
        yield from (("case.compiled", path) for path in self.case.compiled)

    def _check_pins(self) -> None:
        """Check that pins lead from holders to targets, each target once, and never in a circle.

        Raises:
            ValueError: two pins give a repository its commit, or the repository would lie inside itself.
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
        """Return whether anything runs in the slot's virtual environment."""
        return any("{python}" in text for _, text, _ in self._templates())

    @cached_property
    def gitlinks(self) -> Mapping[str, GitlinkPin]:
        """Return the submodule pins, by the name of the repository that they point to."""
        return {pin.target: pin for pin in self.pins.values() if isinstance(pin, GitlinkPin)}

    def submodule_paths(self, holder: str) -> frozenset[str]:
        """Return the paths of a repository's submodules that are repositories of the stack."""
        return frozenset(pin.path for pin in self.gitlinks.values() if pin.holder == holder)

    @cached_property
    def links(self) -> Mapping[str, str]:
        """Return the names of the pins that give a repository of the stack its commit, by that repository."""
        return {pin.target: name for name, pin in self.pins.items() if pin.target is not None}

    @cached_property
    def pin_files(self) -> tuple[tuple[str, str], ...]:
        """Return the holder and the path of each file that pins something, each once."""
        pins = [pin for pin in self.pins.values() if not isinstance(pin, GitlinkPin)]
        files = [(pin.holder, path) for pin in pins for path in pin.paths]
        return tuple(dict.fromkeys(files))

    def revision_key(self, pin: str) -> str:
        """Return the key of a pin among revisions: its repository, or its own name where that is outside the stack."""
        return self.pins[pin].target or pin

    def version_of(self, held_name: str, value: str) -> str | None:
        """Return the release that a value among revisions stands for; None where it is a commit or a version."""
        repository = self.repositories.get(held_name)
        return None if repository is None else repository.version_of(value)

    def with_case_variables(self, variables: Mapping[str, str]) -> "Stack":
        """Return the stack with these variables for its case, beside those that it has. Values are not templates."""
        texts = {name: literal(value) for name, value in variables.items()}
        case = self.case.model_copy(update={"variables": {**self.case.variables, **texts}})
        return self.model_copy(update={"case": case})

    def directory(self, repository: str) -> PurePosixPath:
        """Return where a repository's worktree lies in a slot. Submodules lie inside their holder."""
        link = self.gitlinks.get(repository)
        if link is None:
            return PurePosixPath(repository)
        return self.directory(link.holder) / link.path


def is_plain_name(text: str) -> bool:
    """Return whether a text can name a repository, pin, step or platform."""
    return _NAME.fullmatch(text) is not None
