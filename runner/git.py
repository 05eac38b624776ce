"""Reads git repositories through GitPython's command wrapper. Nothing here writes to a user's checkout.

`GitRepository` wraps one repository. It prevents a checkout's hooks, filters and monitors from running. The other
functions find the web page of a commit, make commits in private clones, and compare the changes of commits.
"""

import os
import re
import shutil
import uuid
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from sys import intern
from tempfile import TemporaryDirectory, TemporaryFile
from typing import BinaryIO

from git.cmd import Git
from git.exc import GitCommandNotFound

from ..store.vocabulary import MAKER, MAKER_EMAIL, Commit, TreeChange
from .errors import UsageError, UserError

_HTTP = re.compile(r"https?://(?:[^/@]*@)?(?P<host>[\w.-]+)(?::\d+)?/(?P<path>.+)")
_SSH = re.compile(r"(?:ssh|git)://(?:[^/@]*@)?(?P<host>[\w.-]+)(?::\d+)?/(?P<path>.+)")
_SCP = re.compile(r"(?:[^/@:]+@)?(?P<host>[\w.-]+\.[\w.-]+):(?P<path>[^/].*)")
_PATH = re.compile(r"[\w.~-]+(?:/[\w.~-]+)+")
_COMMIT_PATHS = {"github": "commit", "gitlab": "-/commit", "gitcode": "commits/detail"}
"""The path between a repository and a commit in a web address. Each key is a word of the host's name."""


def commit_page_prefix(remote: str) -> str | None:
    """Return the web address of a repository's commits, to which a commit's id is appended.

    It is None for hosts other than GitHub, GitLab and GitCode. It omits a user name or token in the remote's address.

    >>> commit_page_prefix("git@github.com:hw/pypto.git")
    'https://github.com/hw/pypto/commit/'
    >>> commit_page_prefix("https://user:token@gitlab.example.org/group/tools/pypto")
    'https://gitlab.example.org/group/tools/pypto/-/commit/'
    """
    found = _HTTP.fullmatch(remote) or _SSH.fullmatch(remote) or _SCP.fullmatch(remote)
    if found is None:
        return None
    path = found["path"].rstrip("/").removesuffix(".git")
    words = re.split(r"[.-]", found["host"].lower())
    kind = next((kind for kind in _COMMIT_PATHS if kind in words), None)
    if kind is None or not _PATH.fullmatch(path):
        return None
    return f"https://{found['host'].lower()}/{path}/{_COMMIT_PATHS[kind]}/"


# GitPython looks for git when it is imported, and by default fails without it. `doctor` must be able to report that.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

_COMMIT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_END_OF_NAME = re.compile(r"[~^:@]")
"""In a revision such as `main~3`, the name of the branch or tag ends before one of these characters."""
_MAX_MESSAGE_LENGTH = 300
"""An error shows at most this many characters of git's message. Git may list every file of a checkout."""
_NO_MATCH = 1
"""`git grep` and `git config` exit with this code if nothing matches."""
_FILTER_KEYS = r"^filter\..*\.(clean|smudge|process|required)$"
_LATEST = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
"""A commit may name any date. A later one counts as the last day that Python has, and one before 1970 as its first."""
_FETCH_OPTIONS = ("--quiet", "--no-tags", "--no-recurse-submodules")
_NOT_FOUND = 127
"""`env` exits with this code if it finds no git."""
_FIELDS = "%H%x00%P%x00%an%x00%ae%x00%ct%x00%s%x00"

_EMPTY = "PRECISION_BISECT_EMPTY"
"""The name of an empty environment variable. `--config-env` reads the empty value of a git setting from it."""
# Without `GIT_OPTIONAL_LOCKS=0` even `git status` would refresh, and so write, the user's index.
_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", _EMPTY: ""}

_NO_FETCH = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""These variables keep git commands from fetching.

Without them, a command in a partial clone would fetch missing objects from the remote. A program that the clone's
settings name could then run. Git before 2.45 ignores the first variable; the second one forbids all protocols."""

HIDDEN_VARIABLES = (
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
    "PRECISION_BISECT_TOKEN",
)
"""Our own git commands and the commands of a stack run without these variables.

Hooks, aliases and `git rebase --exec` set the git variables. They would make git work on a repository other than the
current one. With the token, a commit under test could submit jobs."""


def inherited_environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment variables that commands inherit: all but `HIDDEN_VARIABLES`."""
    return {name: value for name, value in variables.items() if name not in HIDDEN_VARIABLES}


# A file system monitor is a process that would outlive us. A checkout may name any program to check signatures.
# A replaced or grafted commit would not be the one that its id names.
_GIT = (
    "env",
    *(word for name in HIDDEN_VARIABLES for word in ("-u", name)),
    "GIT_GRAFT_FILE=/dev/null",
    *("git", "--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false"),
    *("-c", "advice.graftFileDeprecated=false"),  # This hint would come before the error message.
)


class GitMissingError(UserError):
    """The git program is not installed."""

    def __init__(self) -> None:
        super().__init__("expected git on PATH, found none; install it")


class GitError(UserError):
    """A git command failed. `status` is its exit code."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


GITLINK = "160000"
"""The mode of a tree entry that is a submodule."""


@dataclass(frozen=True)
class TreeEntry:
    """A file of a commit's tree, or a submodule, whose mode is `GITLINK`."""

    path: str
    mode: str
    object_id: str


class GitRepository:
    """A git repository on disk.

    Paths in git's output are decoded with `surrogateescape`, because a path need not be valid UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._git = Git()
        self._git.update_environment(**_ENVIRONMENT)

    @classmethod
    def open(cls, path: Path, *, name: str) -> "GitRepository":
        """Open the repository that contains a folder. Raises `UserError` if there is none."""
        where = f"{path} (repository {name}; --repository {name}=PATH names another)"
        if shutil.which("git") is None:
            raise GitMissingError
        if not path.is_dir():
            raise UserError(f"expected a git checkout at {where}, found no such folder")
        if "\n" in str(path.absolute()):
            raise UserError(
                f"{str(path.absolute())!r}: expected the path of a checkout without a newline, found one"
            )
        repository = cls(path)
        try:
            repository.run("rev-parse", "--git-dir")
        except GitError as error:
            raise UserError(f"expected a git checkout at {where}, found none: {error}") from error
        return repository

    @classmethod
    def open_root(cls, path: Path, *, name: str) -> "GitRepository":
        """Open a user's checkout or bare repository by its root folder.

        Raises `UserError`, including when the folder lies inside a checkout. The folder of a submodule that was never
        initialized lies inside one. Git would silently use the repository that contains it.
        """
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
        """Return the output of a git command without its last newline. Raises `GitError`."""
        return self._output(*arguments).removesuffix("\n")

    def write_pack(self, target: Path, *, wanted: Sequence[str], without: Sequence[str]) -> None:
        """Write a pack of the objects that are reachable from `wanted` but not from `without`.

        Objects that are missing here are left out. Raises `GitError` and `OSError`.
        """
        revisions = "".join(f"{line}\n" for line in (*wanted, *(f"^{sha}" for sha in without)))
        options = ("--revs", "--thin", "--delta-base-offset", "--missing=allow-any", "--quiet", "--stdout")
        with TemporaryFile("w+b") as source, target.open("wb") as pack:
            source.write(revisions.encode("ascii"))
            source.seek(0)
            self._execute("pack-objects", *options, source=source, sink=pack)

    def add_pack(self, pack: Path) -> None:
        """Add the objects of a thin pack, whose deltas may need objects of this repository.

        Raises `GitError` and `OSError`.
        """
        with pack.open("rb") as source:
            self._execute("index-pack", "--stdin", "--fix-thin", source=source)

    def missing_objects(self, *revisions: str) -> tuple[str, ...]:
        """Return the ids of the objects of commits that are missing here. `git rev-list` gets the arguments.

        Nothing is fetched. Raises `GitError` if a commit itself is missing.
        """
        output = self.run("rev-list", "--objects", "--quiet", "--missing=print", *revisions, "--")
        return tuple(line.removeprefix("?") for line in output.splitlines())

    def fetch_objects(self, url: str, ids: Sequence[str]) -> None:
        """Fetch objects from another repository. Raises `GitError`."""
        with TemporaryFile("w+b") as source:
            source.write("".join(f"{each}\n" for each in ids).encode("ascii"))
            source.seek(0)
            # Negotiation would report that the commits are here. The other side would conclude that their objects
            # are here too.
            self._execute(
                *("-c", "fetch.negotiationAlgorithm=noop", "fetch", *_FETCH_OPTIONS, "--no-write-fetch-head"),
                *("--stdin", "--", url),
                source=source,
                fetches=True,
            )

    def fetch_commit(self, url: str, sha: str) -> None:
        """Fetch a commit and its history from another repository. Raises `GitError`."""
        self._execute("fetch", *_FETCH_OPTIONS, "--", url, sha, fetches=True)

    def _output(self, *arguments: str) -> str:
        return self._execute(*arguments).decode("utf-8", "surrogateescape")

    def _execute(
        self,
        *arguments: str,
        source: BinaryIO | None = None,
        sink: BinaryIO | None = None,
        fetches: bool = False,
    ) -> bytes:
        # Git reports an error if the folder of `-C` is missing. GitPython would silently run in the current folder.
        try:
            result = self._git.execute(
                [*_GIT, "-C", str(self.path), *arguments],
                istream=source,
                output_stream=sink,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                with_extended_output=True,
                with_exceptions=False,
                env=None if fetches else _NO_FETCH,
            )
        except GitCommandNotFound as error:
            raise GitMissingError from error
        assert isinstance(result, tuple)
        status, output, stderr = result
        if status == _NOT_FOUND:
            raise GitMissingError
        if status != 0:
            message = "; ".join(stderr.split("\n"))[:_MAX_MESSAGE_LENGTH]
            command = next(word for word in arguments if word != "-c" and "=" not in word)
            raise GitError(f"git {command} failed in {self.path}: {message}", status=status)
        assert isinstance(output, bytes)
        return output

    @cached_property
    def common_directory(self) -> Path:
        """Return the folder that contains `objects/`, including for worktrees and submodules."""
        return (self.path / self.run("rev-parse", "--git-common-dir")).resolve()

    @cached_property
    def is_bare(self) -> bool:
        """Return whether the repository has no checked-out files."""
        return self.run("rev-parse", "--is-bare-repository") == "true"

    @property
    def root(self) -> Path:
        """Return the root of the checkout that contains the folder.

        For a bare repository, return its directory, or the folder whose `.git` points to it. Raises `GitError`,
        including for the git directory of a checkout.
        """
        if not self.is_bare:
            return Path(self.run("rev-parse", "--show-toplevel"))
        has_dot_git = (self.path / ".git").exists()
        return self.path if has_dot_git else Path(self.run("rev-parse", "--absolute-git-dir"))

    @property
    def shallow_commits(self) -> frozenset[str]:
        """Return the commits whose parents are missing because the clone is shallow. Empty if the history is whole."""
        return read_shallow_commits(self.common_directory)

    @property
    def deepen_hint(self) -> str:
        """Return advice on how to fetch more history."""
        return f"git -C {self.path} fetch --deepen=200, or --unshallow"

    @property
    def branch(self) -> str | None:
        """Return the branch that is checked out; None if HEAD is detached."""
        try:
            return self.run("symbolic-ref", "--quiet", "--short", "HEAD")
        except GitError as error:
            if error.status == 1:
                return None
            raise

    def resolve(self, revision: str, *, option: str) -> str:
        """Return the full commit id of a revision. Raises `UsageError`, whose message begins with `option`."""
        found = self._find_commit(revision)
        if found is None:
            if gone := self.missing_alternate:
                alternates = f"objects/info/alternates in {self.common_directory}"
                hint = f"{alternates} points to {gone}, which no longer exists: restore it"
            elif self.shallow_commits:
                hint = f"it is a shallow clone: {self.deepen_hint}"
            else:
                hint = "see git log there, or fetch it first"
            raise UsageError(
                f"{option} {revision}: expected a revision of {self.path}, found none by that name; {hint}"
            )
        if revision != found:
            self._check_unambiguous(revision, option=option)
        return found

    def _check_unambiguous(self, revision: str, *, option: str) -> None:
        """Raise `UsageError` if the name in a revision is both a branch and a tag, at different commits.

        Git would use the tag, and print a warning that the user does not see.
        """
        name = _END_OF_NAME.split(revision, maxsplit=1)[0]
        branch, tag = self._find_commit(f"refs/heads/{name}"), self._find_commit(f"refs/tags/{name}")
        if branch is not None and tag is not None and branch != tag:
            raise UsageError(
                f"{option} {revision}: expected an unambiguous name, found the branch {name} at {branch[:12]} and the "
                f"tag {name} at {tag[:12]}; write heads/{revision} or tags/{revision}"
            )

    def _find_commit(self, revision: str) -> str | None:
        """Return the full commit id of a revision; None if it names no commit."""
        try:
            found = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitError:
            return None
        # rev-parse also accepts `^REV` and prints `^ID`, which is not a commit id.
        return found if is_commit_id(found) else None

    def names_commit(self, revision: str) -> bool:
        """Return whether a revision names a commit here."""
        try:
            self.resolve(revision, option="")
        except UserError:
            return False
        return True

    def has_commit(self, sha: str) -> bool:
        """Return whether the repository has the commit's object."""
        return self._has_object(f"{sha}^{{commit}}")

    def _has_object(self, name: str) -> bool:
        try:
            self.run("cat-file", "-e", name)
        except GitError:
            return False
        return True

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Return whether `ancestor` is reachable from `descendant`. A commit is its own ancestor."""
        try:
            self.run("merge-base", "--is-ancestor", ancestor, descendant)
        except GitError as error:
            if error.status == 1:
                return False
            raise
        return True

    def merge_base(self, first: str, second: str) -> str | None:
        """Return a best common ancestor of two commits; None if they share none.

        Raises `GitError`, including when the history lacks a commit.
        """
        return next(iter(self._merge_bases(first, second)), None)

    def merge_bases(self, commit: str, others: Sequence[str]) -> list[str]:
        """Return the best common ancestors of `commit` and a hypothetical merge of `others`.

        Empty if they share none. Raises `GitError`, including when the history lacks a commit.
        """
        return self._merge_bases("--all", commit, *others)

    def _merge_bases(self, *arguments: str) -> list[str]:
        try:
            return self.run("merge-base", *arguments).splitlines()
        except GitError as error:
            if error.status != 1:
                raise
        # `merge-base` silently skips a commit that is missing. `rev-list` reports it.
        try:
            self.run("rev-list", "--quiet", *(each for each in arguments if each != "--all"), "--")
        except GitError as error:
            raise _history_error(error) from error
        return []

    def last_before(self, date: str, tip: str) -> str | None:
        """Return the last commit that is no later than a date, among `tip` and its chain of first parents.

        Git parses the date.
        """
        return self.run("rev-list", "--first-parent", "--max-count=1", f"--before={date}", tip, "--") or None

    def commits(
        self, *, good: str, bad: str, also_good: Sequence[str] = (), first_parent: bool = False
    ) -> list[Commit]:
        """Return the commits of `good..bad` that are not reachable from `also_good`, parents before children.

        With `first_parent`, return only the commits on the chain of first parents.
        """
        options = ["--first-parent"] if first_parent else []
        excluded = (f"^{sha}" for sha in also_good)
        try:
            return self._log("--topo-order", "--reverse", *options, f"{good}..{bad}", *excluded)
        except GitError as error:
            raise _history_error(error) from error

    def first_parents(self, sha: str) -> list[str]:
        """Return the ids of a commit and its chain of first parents, back to the root."""
        return self.run("rev-list", "--first-parent", sha, "--").splitlines()

    def commit(self, sha: str) -> Commit:
        """Return one commit by its full id."""
        return self._log("--max-count=1", sha)[0]

    def patches(self, commits: Sequence[str]) -> dict[str, str]:
        """Return the patch of each commit against its parent. The keys are full commit ids.

        The patch of a merge is empty. The patch of a commit whose objects are missing is empty too.
        """
        try:
            return self._patches(commits)
        except GitError:
            if len(commits) == 1:
                return {commits[0]: ""}
            return {sha: patch for each in commits for sha, patch in self.patches([each]).items()}

    def _patches(self, commits: Sequence[str]) -> dict[str, str]:
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
                    f"--format={mark}%H",
                    *options,
                ),
                source=source,
            )
        records = output.decode("utf-8", "surrogateescape").split(mark)[1:]
        return {sha: patch.strip("\n") for sha, _, patch in (record.partition("\n") for record in records)}

    def _log(self, *arguments: str) -> list[Commit]:
        # A subject or a path may contain any character, so no fixed separator of records is safe.
        mark = uuid.uuid4().hex
        output = self.run(
            "log",
            "--raw",
            "-z",
            "--no-abbrev",
            "--no-renames",
            "--no-color",
            "--encoding=UTF-8",
            "--diff-merges=first-parent",
            "--ignore-submodules=none",
            f"--format={mark}{_FIELDS}",
            *arguments,
            "--",
        )
        return [_parse_commit(record) for record in output.split(mark)[1:]]

    def tree(self, sha: str, paths: tuple[str, ...] = ()) -> Iterator[TreeEntry]:
        """Yield all files of a commit, or only those below `paths`."""
        output = self.run("ls-tree", "-r", "-z", "--full-tree", sha, "--", *paths)
        for record in output.split("\0"):
            if record:
                attributes, _, path = record.partition("\t")
                mode, _, object_id = attributes.split(" ")
                yield TreeEntry(path=path, mode=mode, object_id=object_id)

    def gitlink(self, sha: str, path: str) -> str | None:
        """Return the id of the commit to which a submodule is pinned; None if the path is no submodule."""
        for entry in self.tree(sha, (path,)):
            if entry.mode == GITLINK and entry.path == path:
                return entry.object_id
        return None

    def read_text(self, sha: str, path: str, *, limit: int = 1 << 20) -> str | None:
        """Return a file's text at a commit, with its last newline.

        It is None if the file is missing or larger than `limit` bytes.
        """
        try:
            if int(self.run("cat-file", "-s", f"{sha}:{path}")) > limit:
                return None
            return self._output("cat-file", "blob", f"{sha}:{path}")
        except GitError:
            return None

    def words_used(self, sha: str, words: Collection[str]) -> frozenset[str]:
        """Return those of `words` that occur as whole words in the files of a commit. Binary files are not searched."""
        if not words:
            return frozenset()
        patterns = (argument for word in words for argument in ("-e", word))
        return frozenset(self._grep("-h", "-o", "-w", "-F", *patterns, sha).split("\n")) - {""}

    def lines_like(self, sha: str, pattern: str) -> Iterator[tuple[str, str]]:
        """Yield the path and the text of each line that matches an extended regular expression, in a commit's files.

        Binary files are not searched.
        """
        for record in self._grep("-z", "-E", "--full-name", "-e", pattern, sha).split("\n"):
            if record:
                path, _, line = record.partition("\0")
                yield path.removeprefix(f"{sha}:"), line

    def _grep(self, *arguments: str) -> str:
        """Return the output of `git grep` in the text files of a commit; empty if nothing matches."""
        try:
            return self.run("grep", "-I", *arguments, "--")
        except GitError as error:
            if error.status == _NO_MATCH:
                return ""
            raise

    def changed_files(self) -> list[str]:
        """Return the paths in the checkout that differ from its HEAD, including untracked files.

        A submodule is included if its files differ. No program that the checkout names is run. Without its filter
        (`filter.X.clean`), a filtered file whose time stamp changed may count as changed.
        """
        if self.is_bare or self._lacks_trees:
            return []
        output = self.run(
            *self._filter_overrides(),
            *("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty"),
        )
        changed = [record[3:] for record in output.split("\0") if record]
        # In a submodule, `git status` would run the filters and the monitor of its own settings.
        submodules = (each for each in self._submodules_here() if each not in changed)
        return [*changed, *(each for each in submodules if GitRepository(self.root / each).changed_files())]

    @property
    def _lacks_trees(self) -> bool:
        """Return whether the repository is a partial clone that lacks even the tree of its HEAD."""
        return self.promisor is not None and not self._has_object("HEAD^{tree}")

    def _filter_overrides(self) -> list[str]:
        """Return git options that disable all filters of the checkout and of the user."""
        # A name may contain `=`. `--config-env` splits at the last `=`, but `-c` at the first one.
        return [f"--config-env={name}={_EMPTY}" for name in self._settings_like(_FILTER_KEYS)]

    def _settings_like(self, pattern: str) -> list[str]:
        """Return the names of the settings that match a regular expression, each once. Raises `GitError`."""
        try:
            names = self.run("config", "--name-only", "-z", "--get-regexp", pattern)
        except GitError as error:
            if error.status == _NO_MATCH:
                return []
            raise
        return [name for name in dict.fromkeys(names.split("\0")) if name]

    def _submodules_here(self) -> Iterator[str]:
        """Yield the paths of the submodules that are checked out.

        Symbolic links, and folders whose `.git` is not their own repository, are left out. They might lead back here.
        """
        root = self.root.resolve()
        for record in self.run("ls-files", "--stage", "--full-name", "-z", "--", ":/").split("\0"):
            entry, _, path = record.partition("\t")
            if entry.startswith(GITLINK) and (root / path / ".git").exists():
                found = GitRepository(root / path)
                if not found.is_bare and found.root.resolve() == root / path:
                    yield path

    @cached_property
    def promisor(self) -> str | None:
        """Return the remote from which a partial clone fetches missing objects; None if the clone is complete."""
        keys = self._settings_like(r"^remote\..*\.promisor$")
        return keys[0].removeprefix("remote.").removesuffix(".promisor") if keys else None

    @property
    def missing_alternate(self) -> str | None:
        """Return a folder from which this repository borrows objects but which no longer exists; None if all exist."""
        objects = self.common_directory / "objects"
        try:
            borrowed = (objects / "info" / "alternates").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
        return next((line for line in borrowed.splitlines() if not (objects / line).is_dir()), None)

    @property
    def has_other_history(self) -> bool:
        """Return whether the repository has grafts or replace refs. They make git show another history."""
        grafts = self.common_directory / "info" / "grafts"
        return grafts.is_file() or bool(self.run("for-each-ref", "--count=1", "refs/replace"))

    @property
    def has_lfs(self) -> bool:
        """Return whether Git LFS is set up, so that git replaces pointer files by their contents."""
        return bool(self._settings_like(r"^filter\.lfs\.(smudge|process)$"))

    def remote_url(self) -> str | None:
        """Return the fetch URL of a partial clone's promisor, or else of `origin`; None if it has none."""
        try:
            return self.run("remote", "get-url", self.promisor or "origin")
        except GitError:
            return None


def _history_error(error: GitError) -> GitError:
    return GitError(
        f"{error}; a history that lacks a commit or a tree cannot be searched: git fsck lists missing objects, "
        "git fetch --refetch fetches them",
        status=error.status,
    )


def _parse_commit(record: str) -> Commit:
    """Parse one record of `git log`: the fields of `_FIELDS`, then the changes that `--raw -z` prints."""
    sha, parents, author, email, seconds, subject, rest = record.split("\0", 6)
    fields = rest.strip("\n").strip("\0").split("\0")
    changes: list[TreeChange] = []
    for header, path in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, old_object, new_object, _ = header.strip("\n").removeprefix(":").split(" ")
        # The same paths and modes occur in many commits, so interning them saves memory.
        modes = intern(old_mode), intern(new_mode)
        changes.append(TreeChange(intern(path), modes[0], old_object, modes[1], new_object))
    return Commit(
        sha=sha,
        parents=tuple(parents.split()),
        author=author,
        email=email,
        date=datetime.fromtimestamp(min(max(int(seconds), 0), _LATEST), UTC),
        subject=subject,
        changes=tuple(changes),
    )


def literal(path: str) -> str:
    """Return a pathspec that matches exactly this path, relative to the root of the tree."""
    return f":(top,literal){path}"


def read_shallow_commits(directory: Path) -> frozenset[str]:
    """Return the commits whose parents a shallow git directory lacks; empty if it is not shallow."""
    try:
        return frozenset((directory / "shallow").read_text(encoding="ascii").split())
    except FileNotFoundError:
        return frozenset()


def is_commit_id(text: str) -> bool:
    """Return whether the text is a full hexadecimal commit id.

    >>> is_commit_id("b" * 40), is_commit_id("main")
    (True, False)
    """
    return _COMMIT_ID.fullmatch(text) is not None


IDENTITY = ("-c", f"user.name={MAKER}", "-c", f"user.email={MAKER_EMAIL}")
"""These git options set the author of commits in private clones."""


@contextmanager
def bare_worktree(clone: GitRepository, sha: str) -> Generator[GitRepository]:
    """Add a temporary worktree to a private clone. Its HEAD is a commit, it has no files, and its index is empty."""
    with TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        clone.run("worktree", "add", "--quiet", "--detach", "--no-checkout", str(root), sha)
        try:
            worktree = GitRepository(root)
            worktree.run("read-tree", "--empty")
            yield worktree
        finally:
            clone.run("worktree", "remove", "--force", str(root))


def commit_index(worktree: GitRepository, message: str, *, parents: tuple[str, ...] = ()) -> str:
    """Commit a worktree's index and return the commit's id.

    The id depends on the contents, the message, the parents and the time.
    """
    options = (word for parent in parents for word in ("-p", parent))
    return worktree.run(*IDENTITY, "commit-tree", worktree.run("write-tree"), *options, "-m", message)


_INDEX_LINE = re.compile(r"^index .*\n(?!Binary files )", re.MULTILINE)
"""This line of a patch contains the ids of a file before and after.

For a binary file it does not match, because these ids are all that the patch shows of the change."""
_HUNK_HEADER = re.compile(r"^@@ .*$", re.MULTILINE)


def commits_with_same_change(repository: GitRepository, sha: str, others: Sequence[str]) -> tuple[str, ...]:
    """Return those of `others` whose patches equal the patch of `sha`, apart from line numbers."""
    patches = repository.patches([sha, *others])
    change = _patch_without_positions(patches[sha])
    return tuple(other for other in others if _patch_without_positions(patches[other]) == change)


def _patch_without_positions(patch: str) -> str:
    return _HUNK_HEADER.sub("@@", _INDEX_LINE.sub("", patch))
