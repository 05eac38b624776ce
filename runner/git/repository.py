"""Reading git repositories, through GitPython's command wrapper. Nothing here writes to a checkout of the user's."""

import os
import re
import shutil
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

# GitPython looks for git when it is imported, and fails without; `doctor` has to be able to say so.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

from git.cmd import Git
from git.exc import GitCommandNotFound

from ...store.commit import Commit, TreeChange
from ..errors import UsageError, UserError

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LONGEST_COMPLAINT = 300
_NO_MATCH = 1
_NOT_FOUND = 127
"""Exit code of `env` where there is no git."""
_FIELDS = "%H%x00%P%x00%an%x00%ae%x00%ct%x00%s%x00"

# Without this a mere `git status` would refresh, and so write, the user's index.
_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}

LOCAL_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)
"""Set inside of hooks, aliases and `git rebase --exec`, they would make git work on another repository than the one
it is run in. Neither our own commands nor those of a stack may see them."""

# A monitor is a process that would outlive us; a replaced commit would not be the one that its id names.
_GIT = (
    "env",
    *(word for name in LOCAL_VARIABLES for word in ("-u", name)),
    *("git", "--no-replace-objects", "-c", "core.fsmonitor=false"),
)


class GitMissingError(UserError):
    """There is no git to run."""

    def __init__(self) -> None:
        super().__init__("expected git on PATH, found none; install it")


class GitError(UserError):
    """A git command failed; `status` is its exit code."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


GITLINK = "160000"
"""The mode of a tree's entry that is a submodule."""


@dataclass(frozen=True)
class TreeEntry:
    """A file (or submodule: mode `GITLINK`) of a commit's tree."""

    path: str
    mode: str
    object: str


class GitRepository:
    """A repository on disk, read only.

    Paths in git's output are decoded with `surrogateescape`: any byte string is a path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._git = Git()
        self._git.update_environment(**_ENVIRONMENT)

    @classmethod
    def open(cls, path: Path, *, name: str) -> "GitRepository":
        """The repository around a folder. Raises `UserError` where there is none."""
        where = f"{path} (repository {name}; --repository {name}=PATH names another)"
        if shutil.which("git") is None:
            raise GitMissingError
        if not path.is_dir():
            raise UserError(f"expected a git checkout at {where}, found no such folder")
        repository = cls(path)
        try:
            repository.run("rev-parse", "--git-dir")
        except GitError as error:
            raise UserError(f"expected a git checkout at {where}, found none: {error}") from error
        return repository

    @classmethod
    def open_root(cls, path: Path, *, name: str) -> "GitRepository":
        """A user's checkout or bare repository. Raises `UserError`, also where the folder lies inside of a checkout:
        that of a submodule that was never initialized belongs to its holder, and would silently be taken for it."""
        repository = cls.open(path, name=name)
        try:
            root = repository.root
        except GitError as error:
            raise UserError(
                f"{path}: expected the root of a git checkout of {name}, found its git directory; name the checkout"
            ) from error
        if root.resolve() != path.resolve():
            raise UserError(
                f"{path}: expected the root of a git checkout of {name}, found a folder inside of {root}; "
                f"for a submodule run: git -C {root} submodule update --init"
            )
        return repository

    def run(self, *arguments: str) -> str:
        """Output of a git command without its last newline. Raises `GitError`."""
        return self._output(*arguments).removesuffix("\n")

    def write_pack(self, target: Path, *, wanted: Sequence[str], without: Sequence[str]) -> None:
        """Write a pack of all that some commits reach and others do not. Raises `GitError` and `OSError`."""
        asked = "".join(f"{line}\n" for line in (*wanted, *(f"^{sha}" for sha in without)))
        options = ("--revs", "--thin", "--delta-base-offset", "--quiet", "--stdout")
        with TemporaryFile("w+b") as source, target.open("wb") as pack:
            source.write(asked.encode("ascii"))
            source.seek(0)
            self._execute("pack-objects", *options, source=source, sink=pack)

    def add_pack(self, pack: Path) -> None:
        """Take in the objects of a pack that builds on what is here. Raises `GitError` and `OSError`."""
        with pack.open("rb") as source:
            self._execute("index-pack", "--stdin", "--fix-thin", source=source)

    def _output(self, *arguments: str) -> str:
        return self._execute(*arguments).decode("utf-8", "surrogateescape")

    def _execute(
        self, *arguments: str, source: BinaryIO | None = None, sink: BinaryIO | None = None
    ) -> bytes:
        # As an option of git, a folder that is gone is an error; GitPython would go on in the current one.
        try:
            result = self._git.execute(
                [*_GIT, "-C", str(self.path), *arguments],
                istream=source,
                output_stream=sink,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                with_extended_output=True,
                with_exceptions=False,
            )
        except GitCommandNotFound as error:
            raise GitMissingError from error
        assert isinstance(result, tuple)
        status, output, complaint = result
        if status == _NOT_FOUND:
            raise GitMissingError
        if status != 0:
            said = "; ".join(complaint.split("\n"))[:_LONGEST_COMPLAINT]
            raise GitError(f"git {arguments[0]} failed in {self.path}: {said}", status=status)
        assert isinstance(output, bytes)
        return output

    @cached_property
    def common_directory(self) -> Path:
        """The folder that holds `objects/`, also for worktrees and submodules."""
        return (self.path / self.run("rev-parse", "--git-common-dir")).resolve()

    @cached_property
    def is_bare(self) -> bool:
        """Whether no files are checked out beside the repository."""
        return self.run("rev-parse", "--is-bare-repository") == "true"

    @property
    def root(self) -> Path:
        """The root of the checkout that the folder lies in; of a bare repository its own folder, or the one whose
        `.git` leads to it. Raises `GitError`, also for the git directory of a checkout."""
        if not self.is_bare:
            return Path(self.run("rev-parse", "--show-toplevel"))
        is_named = (self.path / ".git").exists()
        return self.path if is_named else Path(self.run("rev-parse", "--absolute-git-dir"))

    @property
    def boundary(self) -> frozenset[str]:
        """The commits at which a shallow clone ends: their parents are not there. Empty where the history is whole."""
        return boundary_of(self.common_directory)

    @property
    def deepen(self) -> str:
        """What to run for more of the history of a shallow clone."""
        return f"git -C {self.path} fetch --deepen=200, or --unshallow"

    @property
    def branch(self) -> str | None:
        """The branch that is checked out; None where HEAD is on none."""
        try:
            return self.run("symbolic-ref", "--quiet", "--short", "HEAD")
        except GitError as error:
            if error.status == 1:
                return None
            raise

    def resolve(self, revision: str, *, option: str) -> str:
        """The full commit id of a revision. Raises `UsageError` that names the option it came from."""
        try:
            return self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitError as error:
            hint = (
                f"it is a shallow clone: {self.deepen}"
                if self.boundary
                else "see git log there, or fetch it first"
            )
            raise UsageError(
                f"{option} {revision}: expected a revision of {self.path}, found none by that name; {hint}"
            ) from error

    def names_commit(self, revision: str) -> bool:
        """Whether a revision is known here."""
        try:
            self.resolve(revision, option="")
        except UserError:
            return False
        return True

    def has_commit(self, sha: str) -> bool:
        """Whether the commit's object is at hand."""
        try:
            self.run("cat-file", "-e", f"{sha}^{{commit}}")
        except GitError:
            return False
        return True

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Whether `ancestor` is reachable from `descendant` (a commit is its own ancestor)."""
        try:
            self.run("merge-base", "--is-ancestor", ancestor, descendant)
        except GitError as error:
            if error.status == 1:
                return False
            raise
        return True

    def merge_base(self, first: str, second: str) -> str | None:
        """A best common ancestor of two commits."""
        try:
            return self.run("merge-base", first, second)
        except GitError as error:
            if error.status == 1:
                return None
            raise

    def merge_bases(self, commit: str, others: Sequence[str]) -> list[str]:
        """The best common ancestors of a commit and of all others taken together; empty where they share none."""
        try:
            return self.run("merge-base", "--all", commit, *others).splitlines()
        except GitError as error:
            if error.status == 1:
                return []
            raise

    def last_before(self, date: str, line: str) -> str | None:
        """The last commit among a commit and its first parents that is no later than a date, as git reads dates."""
        return self.run("rev-list", "--first-parent", "--max-count=1", f"--before={date}", line, "--") or None

    def commits(
        self, *, good: str, bad: str, also_good: Sequence[str] = (), first_parent: bool = False
    ) -> list[Commit]:
        """The commits of `good..bad`, without those of `also_good`, parents before children; or those alone that first
        parents lead to."""
        follow = ["--first-parent"] if first_parent else []
        without = (f"^{sha}" for sha in also_good)
        return self._log("--topo-order", "--reverse", *follow, f"{good}..{bad}", *without)

    def first_parents(self, sha: str) -> list[tuple[str, int]]:
        """A commit and those that first parents lead to from it, to the root: ids and committer dates in seconds."""
        output = self.run("rev-list", "--first-parent", "--timestamp", sha, "--")
        pairs = (line.split(" ") for line in output.splitlines())
        return [(found, int(seconds)) for seconds, found in pairs]

    def commit(self, sha: str) -> Commit:
        """One commit by its full id."""
        return self._log("--max-count=1", sha)[0]

    def patches(self, commits: Sequence[str]) -> dict[str, str]:
        """What each of some commits, by full ids, changes of its parent, as a patch; of a merge nothing."""
        mark = uuid.uuid4().hex
        options = ("--patch", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        with TemporaryFile("w+b") as source:
            source.write("".join(f"{sha}\n" for sha in commits).encode("ascii"))
            source.seek(0)
            output = self._execute(
                *(
                    "log",
                    "--stdin",
                    "--no-walk=unsorted",
                    "--no-show-signature",
                    f"--format={mark}%H",
                    *options,
                ),
                source=source,
            )
        records = output.decode("utf-8", "surrogateescape").split(mark)[1:]
        return {sha: patch.strip("\n") for sha, _, patch in (record.partition("\n") for record in records)}

    def _log(self, *arguments: str) -> list[Commit]:
        # A subject or path may hold any character, so no fixed one can part the records.
        mark = uuid.uuid4().hex
        output = self.run(
            "log",
            "--raw",
            "-z",
            "--no-abbrev",
            "--no-renames",
            "--no-color",
            "--no-show-signature",
            "--encoding=UTF-8",
            "--diff-merges=first-parent",
            "--ignore-submodules=none",
            f"--format={mark}{_FIELDS}",
            *arguments,
            "--",
        )
        return [_parse_commit(record) for record in output.split(mark)[1:]]

    def tree(self, sha: str, paths: tuple[str, ...] = ()) -> Iterator[TreeEntry]:
        """All files of a commit, or those below `paths`."""
        output = self.run("ls-tree", "-r", "-z", "--full-tree", sha, "--", *paths)
        for record in output.split("\0"):
            if record:
                attributes, _, path = record.partition("\t")
                mode, _, object_id = attributes.split(" ")
                yield TreeEntry(path=path, mode=mode, object=object_id)

    def gitlink(self, sha: str, path: str) -> str | None:
        """The commit a submodule is pinned to."""
        for entry in self.tree(sha, (path,)):
            if entry.mode == GITLINK and entry.path == path:
                return entry.object
        return None

    def read_text(self, sha: str, path: str, *, limit: int = 1 << 20) -> str | None:
        """A file's text at a commit, to its last newline; None where it is missing or larger than `limit` bytes."""
        try:
            if int(self.run("cat-file", "-s", f"{sha}:{path}")) > limit:
                return None
            return self._output("cat-file", "blob", f"{sha}:{path}")
        except GitError:
            return None

    def words_used(self, sha: str, words: Collection[str]) -> frozenset[str]:
        """Those of some words that stand by themselves in the files of a commit; binary files are not looked into."""
        if not words:
            return frozenset()
        wanted = (argument for word in words for argument in ("-e", word))
        return frozenset(self._grep("-h", "-o", "-w", "-F", *wanted, sha).split("\n")) - {""}

    def lines_like(self, sha: str, pattern: str) -> Iterator[tuple[str, str]]:
        """The lines of a commit's files that match an extended regular expression, each with its file's path; binary
        files are not looked into."""
        for record in self._grep("-z", "-E", "--full-name", "-e", pattern, sha).split("\n"):
            if record:
                path, _, line = record.partition("\0")
                yield path.removeprefix(f"{sha}:"), line

    def _grep(self, *arguments: str) -> str:
        """What git finds in the text files of a commit; nothing is no error."""
        try:
            return self.run("grep", "-I", *arguments, "--")
        except GitError as error:
            if error.status == _NO_MATCH:
                return ""
            raise

    def changed_files(self) -> list[str]:
        """Paths of the checkout that differ from its HEAD, untracked ones included."""
        if self.is_bare:
            return []
        output = self.run("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=none")
        return [record[3:] for record in output.split("\0") if record]

    def remote_url(self) -> str | None:
        """Where `origin` is fetched from."""
        try:
            return self.run("remote", "get-url", "origin")
        except GitError:
            return None


def _parse_commit(record: str) -> Commit:
    """Parse one record of `_FIELDS` followed by `--raw -z` fields."""
    sha, parents, author, email, seconds, subject, rest = record.split("\0", 6)
    fields = rest.strip("\n").strip("\0").split("\0")
    changes: list[TreeChange] = []
    for header, path in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, old_object, new_object, _ = header.strip("\n").removeprefix(":").split(" ")
        changes.append(
            TreeChange(
                path=path, old_mode=old_mode, old_object=old_object, new_mode=new_mode, new_object=new_object
            )
        )
    return Commit(
        sha=sha,
        parents=tuple(parents.split()),
        author=author,
        email=email,
        date=datetime.fromtimestamp(int(seconds), UTC),
        subject=subject,
        changes=tuple(changes),
    )


def literal(path: str) -> str:
    """The pathspec of exactly this path, from the root of the tree."""
    return f":(top,literal){path}"


def boundary_of(directory: Path) -> frozenset[str]:
    """The commits at which the history in a git directory ends, where it is shallow."""
    try:
        return frozenset((directory / "shallow").read_text(encoding="ascii").split())
    except FileNotFoundError:
        return frozenset()


def is_commit_id(text: str) -> bool:
    """Whether the text is a full hexadecimal commit id.

    >>> is_commit_id("b" * 40), is_commit_id("main")
    (True, False)
    """
    return _COMMIT.fullmatch(text) is not None
