"""The tables of a stack file: repositories, pins, steps, the case, platforms. Each is validated data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from .ignored_paths import IgnoredPaths
from .layout import RelativePath

ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]
"""A module's dotted name, as in an import statement."""


class Model(BaseModel):
    """Frozen, and strict about keys: a misspelt key is an error, not a silence."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Overlay(Model):
    """Files that lie over those of each commit, as `--overlay` names them."""

    path: RelativePath
    """A file or folder, from the repository's root."""
    commit: str
    """Whose files they are."""
    object: str
    """Git's id of what is at the path there: equal ids are equal files."""
    revision: str | None
    """How the commit was named; None: the files were on the user's disk."""
    kept_in: Path | None = None
    """The repository that holds the commit, where the user's has none."""

    def covers(self, path: str) -> bool:
        """Whether a path is this one, or in it."""
        return path == self.path or path.startswith(f"{self.path}/")


Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
"""A name in a program."""


class Rename(Model):
    """A name that a commit changes, as `--adapt` gives it: `old` before the commit, `new` from it on. Files of other
    times are written with the name of the commit at hand."""

    repository: str
    """Whose commit it is."""
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")]
    old: Identifier
    new: Identifier
    keyword_of: tuple[Identifier, ...] = ()
    """The functions of which it is a keyword argument; none: it is an attribute, or a name that is imported."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.old == self.new:
            raise ValueError("expected old and new to differ")
        return self

    @property
    def told(self) -> str:
        """The name that it changes, in words."""
        return f"{self.old} of {', '.join(self.keyword_of)}" if self.keyword_of else self.old


Version = Annotated[str, Field(pattern=r"^\w[\w.+-]*$")]
"""A release's name: what a version file says, and git takes as the name of a tag."""


class Releases(Model):
    """Which releases a tool has. One of `versions`, `folder`, `command` says it, else the tags."""

    versions: tuple[Version, ...] = ()
    """Their names, oldest first."""
    folder: Path | None = None
    """Holds each release unpacked, in a folder of its name: a slot has it as `release` in the repository's folder."""
    command: tuple[str, ...] = ()
    """Prints their names, a line each, oldest first."""
    tags: str | None = None
    """The repository of the stack that they were made from: the tag of a release's name is its commit, which `SOURCE`
    in the repository's folder names."""
    pattern: str = "*"
    """Which names count, as a shell matches them."""
    commits: Mapping[Version, str] = {}
    """The commit that stands for each release, oldest first, once they were looked up."""

    @model_validator(mode="after")
    def _one_says_it(self) -> Self:
        given = [name for name in ("versions", "folder", "command") if getattr(self, name)]
        if len(given) > 1 or not (given or self.tags):
            found = " and ".join(given) or "none"
            raise ValueError(f"expected one of versions, folder and command, or tags, found {found}")
        return self


class Repository(Model):
    """One git repository of the stack, as it is checked out on this machine; or the releases of a tool, as a history
    that is made of them, in which each commit is a release and follows the one before it."""

    path: Path = Path()
    """The user's checkout. Objects are borrowed from it; nothing is ever written to it."""
    releases: Releases | None = None
    """In place of a checkout. A slot has the release's name in `VERSION` in the repository's folder."""
    revision: str = "HEAD"
    """What is used where the repository is neither searched nor pinned by another one."""
    ignore: tuple[str, ...] = ()
    """Paths that cannot change a result (docs, tests, CI), as patterns of a .gitignore in the repository's root."""
    keep: tuple[str, ...] = ()
    """Untracked files that cleaning a slot spares (caches of incremental builds), as gitignore patterns."""

    submodules: bool = False
    """Fill the submodules that no pin names with what the checkout has of them, each at its pinned commit; else their
    folders are empty."""

    overlays: tuple[Overlay, ...] = ()
    """Later ones lie over earlier ones."""

    @field_validator("ignore")
    @classmethod
    def _patterns_are_readable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        IgnoredPaths(value)
        return value

    @model_validator(mode="after")
    def _lies_somewhere(self) -> Self:
        has_path = "path" in self.model_fields_set
        if self.releases is None and not has_path:
            raise ValueError("expected path, where the checkout is, or releases")
        if self.releases is not None and has_path and not self.releases.commits:
            raise ValueError("expected path, where the checkout is, or releases, found both")
        return self

    def version_of(self, commit: str) -> str | None:
        """The release that a commit stands for; None where it is an ordinary one."""
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
    """A pin that is searched follows its holder's commits, and is looked into where the culprit moves it. One that is
    not is frozen: held at what the bad end says for the whole bisection."""
    optional: bool = False
    """Commits of `holder` that have no such submodule are run without it; else they cannot be tested."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the submodule lies."""
        return (self.path,)


class EarlierPlace(Model):
    """Where commits that have no pin file yet say what it says: a line `KEY: VALUE` or `KEY=VALUE` of another file."""

    path: RelativePath
    key: str


class CommitFilePin(Model):
    """A file of `holder` that holds the full commit id of another repository, and nothing else."""

    kind: Literal["commit-file"]
    holder: str
    path: RelativePath
    earlier: EarlierPlace | None = None
    """Read where `path` is missing."""
    target: str | None = None
    """The repository, where it belongs to the stack: it is checked out beside the others, and can be searched."""
    search: bool = True

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that may say it."""
        return (self.path,) if self.earlier is None else (self.path, self.earlier.path)


class VersionFilePin(Model):
    """A `KEY=VALUE` line in a file of `holder` that names the version of a tool."""

    kind: Literal["version-file"]
    holder: str
    path: RelativePath
    key: str
    earlier: EarlierPlace | None = None
    """Read where `path` is missing: a line `KEY: VERSION` or `KEY=VERSION`."""
    target: str | None = None
    """The repository of the tool's releases: the one that is named is provided, and can be searched for."""
    search: bool = True

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that may say it."""
        return (self.path,) if self.earlier is None else (self.path, self.earlier.path)


Pin = Annotated[GitlinkPin | CommitFilePin | VersionFilePin, Field(discriminator="kind")]


class Tool(Model):
    """A program that the stack needs. Its version is part of the environment fingerprint."""

    command: tuple[str, ...] = Field(min_length=1)
    """The command that prints the tool's version."""
    required: bool = True
    variables: Mapping[str, str] = {}
    """Set for every step and run where the tool is found, such as cmake's compiler launcher for ccache."""
    hint: str = ""
    """How to get it, shown by `doctor`."""
    keeps_objects: bool = False
    """It keeps what is compiled for all slots (ccache). Where one is found that does, builds are begun ahead."""


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
    version_files: Mapping[str, str] = {}
    """Files of the machine that tell a version, such as a driver's, by name; `$NAME` is a variable that is inherited.
    What they tell enters the fingerprint where they are there."""


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
    yardstick: tuple[str, ...] = ()
    """Names of what a script measures with: arguments, variables or functions of it for tolerances, expected values and
    comparisons. Where a culprit changes them alone, that is said."""
    variables: Mapping[str, str] = {}
    """Set for the case's runs alone, not for the steps. Placeholders are replaced."""
    after: tuple[str, ...] = ()
    """Scripts of `repository`, each perhaps with arguments, that run before the case in its process, in this order."""
    build_output: RelativePath | None = None
    """Folder, from the slot's root, in which a run leaves its build directory."""
    compiled: tuple[RelativePath, ...] = ()
    """Folders or files, from the slot's root, in which a run keeps what it compiles for itself, such as kernels. They
    are put back where the case runs at the same content again, and nowhere else."""
    preload: tuple[ModuleName, ...] = ()
    """Modules that take long to import, and may be imported once for many runs that are forks of one process."""


class Platform(Model):
    """A target the case runs on."""

    board: bool = False
    """A board is leased: one run at a time, whichever bisection it belongs to."""
    needs: tuple[str, ...] = ()
    """Inherited variables without which nothing can be built or run for it."""
    undisturbed: bool = False
    """Nothing is built ahead while a case runs on it."""


class Schedule(Model):
    """A way to make the runtime run its tasks: an order, a number of workers."""

    variables: Mapping[str, str] = Field(min_length=1)
    """Environment variables that are set for the run."""


class Perturbation(Model):
    """What is changed around a case: it may make a failure certain that comes and goes."""

    variables: Mapping[str, str] = {}
    """Environment variables that are set for the case's runs. Placeholders are replaced."""
    command: tuple[str, ...] = ()
    """Words that are put before the case's command, such as `setarch -R`. It is tried where the first of them is
    found."""
    needs: tuple[str, ...] = ()
    """Commands, or files by their absolute paths, without which it is not tried, such as a library to be preloaded."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.told:
            raise ValueError("expected variables, or a command, found neither")
        return self

    @property
    def told(self) -> str:
        """What is changed, for people."""
        return " ".join([*(f"{name}={text}" for name, text in self.variables.items()), *self.command])


class MachineLimits(Model):
    """Bounds on what the tool takes from the machine."""

    build_cache_gib: float = Field(default=20, gt=0)
    memory_gib: float | None = Field(default=None, gt=0)
    """Address space of one run; none by default."""
    run_timeout: float = Field(default=3600, gt=0)
    """Seconds for the first run at an end. Later runs get ten times what that run took."""
