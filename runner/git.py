"""Reads git repositories through GitPython's command wrapper. Nothing here writes to a user's checkout.

`GitRepository` wraps one repository. It prevents a checkout's hooks, filters and monitors from running. Other functions
make commits in private clones, and find the web page of a commit.
"""

import os
import re
import shutil
import uuid
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from .errors import UsageError, UserError, nearest_name

_HTTP = re.compile(r"https?://(?:[^/@]*@)?(?P<host>[\w.-]+)(?::\d+)?/(?P<path>.+)")
_SSH = re.compile(r"(?:ssh|git)://(?:[^/@]*@)?(?P<host>[\w.-]+)(?::\d+)?/(?P<path>.+)")
_SCP = re.compile(r"(?:[^/@:]+@)?(?P<host>[\w.-]+\.[\w.-]+):(?P<path>[^/].*)")
_PATH = re.compile(r"[\w.~-]+(?:/[\w.~-]+)+")
_COMMIT_PATHS = {"github": "commit", "gitlab": "-/commit", "gitcode": "commits/detail"}
"""Maps a word of a host's name to the path that stands before a commit's id in a web address of that host."""


def commit_page_prefix(remote: str) -> str | None:
    """Return the web address of a commit of a remote, without the commit's id at its end.

    It is None for hosts other than GitHub, GitLab and GitCode. A user name or token of the remote is left out.

    >>> commit_page_prefix("git@github.com:hw/pypto.git")
    'https://github.com/hw/pypto/commit/'
    >>> commit_page_prefix("https://user:token@gitlab.example.org/group/tools/pypto")
    'https://gitlab.example.org/group/tools/pypto/-/commit/'
    """
    match = _HTTP.fullmatch(remote) or _SSH.fullmatch(remote) or _SCP.fullmatch(remote)
    if match is None:
        return None
    path = match["path"].rstrip("/").removesuffix(".git")
    words = re.split(r"[.-]", match["host"].lower())
    kind = next((kind for kind in _COMMIT_PATHS if kind in words), None)
    if kind is None or not _PATH.fullmatch(path):
        return None
    return f"https://{match['host'].lower()}/{path}/{_COMMIT_PATHS[kind]}/"


# Without this setting, importing GitPython fails where git is not installed, and `doctor` could not report that.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

_COMMIT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_END_OF_NAME = re.compile(r"[~^:@]")
"""In a revision such as `main~3`, the name of the branch or tag ends before one of these characters."""
_MAX_MESSAGE_LENGTH = 300
"""An error shows at most this many characters of git's message. Git may list every file of a checkout."""
_NO_RESULT = 1
"""Git's commands exit with this code if they find nothing, and no error occurs."""
_FILTER_KEYS = r"^filter\..*\.(clean|smudge|process|required)$"
_MAX_TIMESTAMP = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
"""A commit may have any date, but a Python `datetime` ends in 9999. Later dates count as the last day of that year."""
_FETCH_OPTIONS = ("--quiet", "--no-tags", "--no-recurse-submodules")
_NOT_FOUND = 127
"""`env` exits with this code if it finds no git."""
_COMMITS_PER_LOG = 4096
"""One `git log` reads at most this many commits.

So several processes share a long history, and none holds much of it in memory."""
_CHANGE_OPTIONS = (
    *("--raw", "-z", "--no-abbrev", "--no-renames", "--no-color"),
    *("--diff-merges=first-parent", "--ignore-submodules=none"),
)
"""With these options `git log` prints changes as `_parse_changes` reads them."""
_LOG_FIELDS = "%H%x00%P%x00%an%x00%ae%x00%ct%x00%s%x00"

_EMPTY_VARIABLE = "PRECISION_BISECT_EMPTY"
"""This environment variable is empty. `--config-env` reads the empty value of a git setting from it."""
# Without `GIT_OPTIONAL_LOCKS=0` even `git status` would refresh, and so write, the user's index.
# A grafted commit would not be the one that its id names. With `GIT_FLUSH=0` git does not write each record of a
# history on its own.
_ENVIRONMENT = {
    "GIT_FLUSH": "0",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    _EMPTY_VARIABLE: "",
}

_NO_FETCH = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""With these variables git does not fetch the missing objects of a partial clone.

A fetch could run a program that the clone's settings name. Git before 2.45 ignores the first variable, so the second
one forbids all protocols."""

HIDDEN_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GLOB_PATHSPECS",
    "GIT_GRAFT_FILE",
    "GIT_ICASE_PATHSPECS",
    "GIT_INDEX_FILE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
    "PRECISION_BISECT_STORE",
    "PRECISION_BISECT_TOKEN",
    "PYTHONPYCACHEPREFIX",
)
"""Our own git commands and the commands of a stack run without these variables.

Hooks, aliases and `git rebase --exec` set the git variables. They would make git work on a repository other than the
current one, or read paths in another way. With the token, or the password of a store, a commit under test could submit
jobs. With bytecode outside of a worktree, Python would run that of another commit: it compares the size and the second
of a source alone."""


def inherited_environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment variables that commands inherit: all but `HIDDEN_VARIABLES`."""
    return {name: value for name, value in variables.items() if name not in HIDDEN_VARIABLES}


# A replaced commit would not be the one that its id names. A file system monitor would outlive us. A checkout may name
# any program to check signatures. The hint about grafts would come before an error message. The user's git may refuse
# bare repositories, and private clones are such.
_GIT = (
    *("git", "--no-replace-objects", "-c", "core.fsmonitor=false"),
    *("-c", "log.showSignature=false", "-c", "advice.graftFileDeprecated=false"),
    *("-c", "safe.bareRepository=all"),
)


def _environment_prefix() -> list[str]:
    """Return the start of a command line that removes the hidden variables; empty where none is set."""
    names = [name for name in HIDDEN_VARIABLES if name in os.environ and name not in _ENVIRONMENT]
    return ["env", *(word for name in names for word in ("-u", name))] if names else []


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
    """A file, link or submodule in a commit's tree. The mode of a submodule is `GITLINK`."""

    path: str
    mode: str
    object_id: str


_MAX_COMPARED_NAMES = 5000
"""A misspelt revision is compared with at most this many branches and tags."""


class GitRepository:
    """A git repository on disk.

    Paths in git's output are decoded with `surrogateescape`, because a path need not be valid UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._git = Git()
        self._git.update_environment(**_ENVIRONMENT)
        self._commits: dict[str, Commit] = {}

    @classmethod
    def open(cls, path: Path, *, name: str) -> "GitRepository":
        """Open the repository that contains a folder. `name` is its name in the stack. Raises `UserError`."""
        location = f"{path} (repository {name}; --repository {name}=PATH names another)"
        if shutil.which("git") is None:
            raise GitMissingError
        if not path.is_dir():
            raise UserError(f"expected a git checkout at {location}, found no such folder")
        if "\n" in str(path.absolute()):
            raise UserError(
                f"{str(path.absolute())!r}: expected the path of a checkout without a newline, found one"
            )
        repository = cls(path)
        try:
            _ = repository.directory
        except GitError as error:
            raise UserError(f"expected a git checkout at {location}, found none: {error}") from error
        return repository

    @classmethod
    def open_root(cls, path: Path, *, name: str) -> "GitRepository":
        """Open a user's checkout or bare repository by its root folder.

        Raises `UserError`, also for another folder in a checkout. Such a folder may be a submodule that was never
        initialized, and git would silently use the repository around it.
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
        """Run a git command and return its output without the last newline. Raises `GitError`."""
        return self._output(*arguments).removesuffix("\n")

    def run_or_none(self, *arguments: str) -> str | None:
        """Run a git command; return its output, or None if it exits with 1, for no result. Raises `GitError`."""
        try:
            return self.run(*arguments)
        except GitError as error:
            if error.status == _NO_RESULT:
                return None
            raise

    def write_pack(self, target: Path, *, wanted: Sequence[str], excluded: Sequence[str]) -> None:
        """Write a pack of the objects that are reachable from `wanted` but not from `excluded`.

        Objects that are missing here are left out. Raises `GitError` and `OSError`.
        """
        revisions = [*wanted, *(f"^{sha}" for sha in excluded)]
        options = ("--revs", "--thin", "--delta-base-offset", "--missing=allow-any", "--quiet", "--stdout")
        with _temporary_file(revisions) as source, target.open("wb") as pack:
            self._execute("pack-objects", *options, source=source, sink=pack)

    def add_pack(self, pack: Path) -> None:
        """Add the objects of a thin pack, whose deltas may need objects of this repository.

        Raises `GitError` and `OSError`.
        """
        with pack.open("rb") as source:
            self._execute("index-pack", "--stdin", "--fix-thin", source=source)

    def missing_objects(self, *revisions: str) -> tuple[str, ...]:
        """Return the ids of missing objects that commits need. `git rev-list` gets the arguments.

        Nothing is fetched. Raises `GitError`, also if a commit itself is missing.
        """
        output = self.run("rev-list", "--objects", "--quiet", "--missing=print", *revisions, "--")
        return tuple(line.removeprefix("?") for line in output.splitlines())

    def fetch_objects(self, url: str, ids: Sequence[str]) -> None:
        """Fetch objects from another repository. Raises `GitError`."""
        with _temporary_file(ids) as source:
            # Without this setting, git would report that it has the commits, and the other side would leave out their
            # objects.
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
        """Run a git command with `source` as its input; return its output, unless it goes to `sink`.

        Only with `fetches` may it connect to a remote. Raises `GitError`.
        """
        # GitPython would run in the current folder if its `cwd` were missing, so the folder is an option of git.
        try:
            result = self._git.execute(
                [*_environment_prefix(), *_GIT, "-C", str(self.path), *arguments],
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
    def _description(self) -> tuple[str, str, str, str]:
        """Return what `git rev-parse` prints: two directories, whether it is bare, and the object format."""
        words = ("--absolute-git-dir", "--git-common-dir", "--is-bare-repository", "--show-object-format")
        directory, common, is_bare, object_format = self.run("rev-parse", *words).split("\n")
        return directory, common, is_bare, object_format

    @property
    def directory(self) -> Path:
        """Return the git directory. A linked worktree has its own."""
        return Path(self._description[0])

    @cached_property
    def common_directory(self) -> Path:
        """Return the folder that contains `objects/`. A linked worktree shares that of the main repository."""
        return (self.path / self._description[1]).resolve()

    @property
    def is_bare(self) -> bool:
        """Return whether the repository has no checked-out files."""
        return self._description[2] == "true"

    @property
    def object_format(self) -> str:
        """Return the kind of the repository's ids: `sha1` or `sha256`."""
        return self._description[3]

    @cached_property
    def root(self) -> Path:
        """Return the root of the checkout that contains the folder.

        For a bare repository, that is its directory, or the folder whose `.git` points to it. Raises `GitError`, also
        inside the git directory of a checkout.
        """
        if not self.is_bare:
            return Path(self.run("rev-parse", "--show-toplevel"))
        return self.path if (self.path / ".git").exists() else self.directory

    @property
    def shallow_commits(self) -> frozenset[str]:
        """Return the commits at which a shallow clone's history ends; empty if the history is whole."""
        return read_shallow_commits(self.common_directory)

    @property
    def deepen_hint(self) -> str:
        """Return the command that fetches more history."""
        return f"git -C {self.path} fetch --deepen=200, or --unshallow"

    @property
    def branch(self) -> str | None:
        """Return the branch that is checked out; None if HEAD is detached."""
        return self.run_or_none("symbolic-ref", "--quiet", "--short", "HEAD")

    def resolve(self, revision: str, *, option: str) -> str:
        """Return the full commit id of a revision. Raises `UsageError`, whose message begins with `option`."""
        sha = self._find_commit(revision)
        if sha is None:
            if alternate := self.missing_alternate:
                alternates = f"objects/info/alternates in {self.common_directory}"
                hint = f"{alternates} points to {alternate}, which no longer exists: restore it"
            elif self.shallow_commits:
                hint = f"it is a shallow clone: {self.deepen_hint}"
            else:
                name = self._find_similar_name(revision)
                hint = "see git log there, or fetch it first" if name is None else f"did you mean {name}?"
            raise UsageError(
                f"{option} {revision}: expected a revision of {self.path}, found none by that name; {hint}"
            )
        if revision != sha:
            self._check_unambiguous(revision, option=option)
        return sha

    def _find_similar_name(self, revision: str) -> str | None:
        """Return the branch or tag that is spelled most like a revision; None if none is similar."""
        name = _END_OF_NAME.split(revision, maxsplit=1)[0]
        names = self.run(
            "for-each-ref", f"--count={_MAX_COMPARED_NAMES}", "--format=%(refname:short)"
        ).splitlines()
        return nearest_name(name, names)

    def _check_unambiguous(self, revision: str, *, option: str) -> None:
        """Check that the name in a revision is not both a branch and a tag, at different commits.

        Git would use the tag, and print a warning that the user does not see. Raises `UsageError`.
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
            sha = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitError:
            return None
        # rev-parse also accepts `^REV` and prints `^ID`, which is not a commit id.
        return sha if is_commit_id(sha) else None

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
        return self.run_or_none("merge-base", "--is-ancestor", ancestor, descendant) is not None

    def merge_base(self, first: str, second: str) -> str | None:
        """Return a best common ancestor of two commits; None if they share none.

        Raises `GitError`, also where the history lacks a commit.
        """
        return next(iter(self._merge_bases([first, second])), None)

    def merge_bases(self, commit: str, others: Sequence[str]) -> list[str]:
        """Return the best common ancestors of `commit` and a hypothetical merge of `others`; empty if there are none.

        Raises `GitError`, also where the history lacks a commit.
        """
        return self._merge_bases([commit, *others], "--all")

    def _merge_bases(self, commits: Sequence[str], *options: str) -> list[str]:
        bases = self.run_or_none("merge-base", *options, *commits)
        if bases is not None:
            return bases.splitlines()
        # `merge-base` silently skips a missing commit. `rev-list` reports it.
        try:
            self.run("rev-list", "--quiet", *commits, "--")
        except GitError as error:
            raise _history_error(error) from error
        return []

    def commit_at_date(self, date: str, tip: str) -> str | None:
        """Return the last of the `first_parents` of `tip` that is not later than a date; None if all are later.

        Git parses the date.
        """
        return self.run("rev-list", "--first-parent", "--max-count=1", f"--before={date}", tip, "--") or None

    def commits(
        self, *, good: str, bad: str, also_good: Sequence[str] = (), first_parent: bool = False
    ) -> list[Commit]:
        """Return the commits of `list_commits`. Raises `GitError`."""
        lines = self.list_commits(good=good, bad=bad, also_good=also_good, first_parent=first_parent)
        return self.read_history([line.partition(" ")[0] for line in lines])

    def read_history(self, shas: Sequence[str]) -> list[Commit]:
        """Return the commits of a history by their full ids. Raises `GitError`, which says how to complete it."""
        try:
            return self.read_commits(shas)
        except GitError as error:
            raise _history_error(error) from error

    def list_commits(
        self, *, good: str, bad: str, also_good: Sequence[str] = (), first_parent: bool = False
    ) -> list[str]:
        """Return a line for each commit of `good..bad` that is not reachable from `also_good`, parents first.

        A line holds the commit's id and the ids of its parents, separated by spaces. With `first_parent`, only the
        commits on the chain of first parents are listed. Raises `GitError`.
        """
        options = ["--first-parent"] if first_parent else []
        excluded = (f"^{sha}" for sha in also_good)
        listed = ("rev-list", "--topo-order", "--reverse", "--parents", *options)
        try:
            return self.run(*listed, f"{good}..{bad}", *excluded, "--").splitlines()
        except GitError as error:
            raise _history_error(error) from error

    def first_parents(self, sha: str) -> list[str]:
        """Return the ids of a commit and its chain of first parents, back to the root."""
        return self.run("rev-list", "--first-parent", sha, "--").splitlines()

    def commit(self, sha: str) -> Commit:
        """Return one commit by its full id. It is read once."""
        if sha not in self._commits:
            (self._commits[sha],) = self.read_commits([sha])
        return self._commits[sha]

    def read_commits(self, shas: Sequence[str]) -> list[Commit]:
        """Return commits by their full ids, in this order. Raises `GitError`.

        Git compares the trees of each commit and its parent. So several processes of git share a long history.
        """
        chunks = [shas[start : start + _COMMITS_PER_LOG] for start in range(0, len(shas), _COMMITS_PER_LOG)]
        with ThreadPoolExecutor(os.cpu_count()) as readers:
            return [_parse_commit(record) for records in readers.map(self._log, chunks) for record in records]

    def changes(self, old: str, new: str, *, paths: Sequence[str]) -> list[TreeChange]:
        """Return what the commits of `old..new` change of some files, each against its first parent."""
        selected = ("--full-history", "--format=", f"{old}..{new}", "--", *map(literal_pathspec, paths))
        output = self.run("log", *_CHANGE_OPTIONS, *selected)
        return _parse_changes(output.strip("\0").split("\0"))

    def subjects(self, shas: Sequence[str]) -> list[str]:
        """Return the subjects of different commits, in this order. Raises `GitError`."""
        if not shas:
            return []  # Git would list the current branch.
        with _temporary_file(shas) as source:
            output = self._execute(
                "log", "--stdin", "--no-walk=unsorted", "-z", "--encoding=UTF-8", "--format=%s", source=source
            )
        return output.decode("utf-8", "surrogateescape").removesuffix("\0").split("\0")

    def patches(self, commits: Sequence[str]) -> dict[str, str]:
        """Return the patch of each commit against its parent, by full commit id.

        It is empty for a merge, and for a commit whose objects are missing.
        """
        try:
            return self._patches(commits)
        except GitError:
            if len(commits) == 1:
                return {commits[0]: ""}
            # One commit without its objects fails the whole command.
            return {sha: patch for commit in commits for sha, patch in self.patches([commit]).items()}

    def _patches(self, commits: Sequence[str]) -> dict[str, str]:
        # A patch may contain any character, so no fixed separator of records is safe.
        mark = uuid.uuid4().hex
        options = ("--patch", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        with _temporary_file(commits) as source:
            output = self._execute(
                "log", "--stdin", "--no-walk=unsorted", f"--format={mark}%H", *options, source=source
            )
        records = output.decode("utf-8", "surrogateescape").split(mark)[1:]
        return {sha: patch.strip("\n") for sha, _, patch in (record.partition("\n") for record in records)}

    def _log(self, shas: Sequence[str]) -> list[str]:
        """Return one record for `_parse_commit` for each commit."""
        mark = uuid.uuid4().hex  # It separates records, as in `_patches`.
        with _temporary_file(shas) as source:
            output = self._execute(
                *("log", "--stdin", "--no-walk=unsorted", *_CHANGE_OPTIONS, "--encoding=UTF-8"),
                f"--format={mark}{_LOG_FIELDS}",
                source=source,
            )
        return output.decode("utf-8", "surrogateescape").split(mark)[1:]

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

    def grep_words(self, sha: str, words: Collection[str]) -> frozenset[str]:
        """Return those of `words` that occur as whole words in the text files of a commit."""
        if not words:
            return frozenset()
        patterns = (argument for word in words for argument in ("-e", word))
        return frozenset(self._grep("-h", "-o", "-w", "-F", *patterns, sha).split("\n")) - {""}

    def grep_lines(self, sha: str, pattern: str) -> Iterator[tuple[str, str]]:
        """Yield the lines of a commit's text files that match an extended regular expression, each after its path."""
        for record in self._grep("-z", "-E", "--full-name", "-e", pattern, sha).split("\n"):
            if record:
                path, _, line = record.partition("\0")
                yield path.removeprefix(f"{sha}:"), line

    def _grep(self, *arguments: str) -> str:
        """Return the output of `git grep` in text files; empty if nothing matches."""
        # The user's settings may ask for colours and numbers.
        options = ("-I", "--no-color", "--no-line-number", "--no-column")
        return self.run_or_none("grep", *options, *arguments, "--") or ""

    def changed_files(self) -> list[str]:
        """Return the paths in the checkout that differ from its HEAD: files, untracked files and submodules.

        Runs no program that the checkout names, so a file with a filter (`filter.X.clean`) may count as changed though
        only its time stamp did.
        """
        if self.is_bare or self._is_treeless:
            return []
        output = self.run(
            *self._filter_overrides(),
            *("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty"),
        )
        changed = [record[3:] for record in output.split("\0") if record]
        # In a submodule, `git status` would run the filters and the monitor of its own settings.
        submodules = (path for path in self._checked_out_submodules() if path not in changed)
        return [*changed, *(path for path in submodules if GitRepository(self.root / path).changed_files())]

    @property
    def _is_treeless(self) -> bool:
        """Return whether this is a partial clone that lacks the tree of its HEAD."""
        return self.promisor is not None and not self._has_object("HEAD^{tree}")

    def _filter_overrides(self) -> list[str]:
        """Return git options that disable all filters of the checkout and of the user."""
        # A name may contain `=`. `--config-env` splits at the last `=`, but `-c` at the first one.
        return [f"--config-env={name}={_EMPTY_VARIABLE}" for name in self._matching_settings(_FILTER_KEYS)]

    def _matching_settings(self, pattern: str) -> list[str]:
        """Return the names of the settings that match a regular expression, each once. Raises `GitError`."""
        names = self.run_or_none("config", "--name-only", "-z", "--get-regexp", pattern) or ""
        return [name for name in dict.fromkeys(names.split("\0")) if name]

    def _checked_out_submodules(self) -> Iterator[str]:
        """Yield the paths of the submodules that are checked out.

        A symbolic link, or a `.git` that names another repository, is left out, because it might lead back here.
        """
        root = self.root.resolve()
        for record in self.run("ls-files", "--stage", "--full-name", "-z", "--", ":/").split("\0"):
            entry, _, path = record.partition("\t")
            if entry.startswith(GITLINK) and (root / path / ".git").exists():
                submodule = GitRepository(root / path)
                if not submodule.is_bare and submodule.root.resolve() == root / path:
                    yield path

    @cached_property
    def promisor(self) -> str | None:
        """Return the remote from which a partial clone fetches missing objects; None if the clone is complete."""
        keys = self._matching_settings(r"^remote\..*\.promisor$")
        return keys[0].removeprefix("remote.").removesuffix(".promisor") if keys else None

    @property
    def missing_alternate(self) -> str | None:
        """Return a missing folder from which this repository borrows objects; None if no such folder is missing."""
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
        return bool(self._matching_settings(r"^filter\.lfs\.(smudge|process)$"))

    def remote_url(self) -> str | None:
        """Return the fetch URL of a partial clone's promisor, or else of `origin`; None if there is no such remote.

        Git reads a relative path from the root of this checkout. The returned path holds for other repositories too.
        """
        try:
            url = self.run("remote", "get-url", self.promisor or "origin")
        except GitError:
            return None
        is_path = ":" not in url.partition("/")[0]
        return str(self.root / url) if is_path else url


@contextmanager
def _temporary_file(lines: Iterable[str]) -> Generator[BinaryIO]:
    """Yield a temporary file that contains the lines, for the standard input of git."""
    with TemporaryFile("w+b") as file:
        file.write("".join(f"{line}\n" for line in lines).encode("ascii"))
        file.seek(0)
        yield file


def _history_error(error: GitError) -> GitError:
    """Return an error that also says how to complete a history."""
    return GitError(
        f"{error}; a history that lacks a commit or a tree cannot be searched: git fsck lists missing objects, "
        "git fetch --refetch fetches them",
        status=error.status,
    )


def _parse_changes(fields: Sequence[str]) -> list[TreeChange]:
    """Parse what `--raw -z` prints: for each change a header, and a path."""
    changes: list[TreeChange] = []
    for header, path in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, old_object, new_object, _ = header.strip("\n").removeprefix(":").split(" ")
        changes.append(TreeChange(*map(intern, (path, old_mode, old_object, new_mode, new_object))))
    return changes


def _parse_commit(record: str) -> Commit:
    """Parse one record of `git log`: the fields of `_LOG_FIELDS`, then the changes that `--raw -z` prints."""
    sha, parents, author, email, seconds, subject, rest = record.split("\0", 6)
    changes = _parse_changes(rest.strip("\n").strip("\0").split("\0"))
    # Most of these texts occur in several commits, so interning them saves memory.
    return Commit(
        sha=intern(sha),
        parents=tuple(map(intern, parents.split())),
        author=intern(author),
        email=intern(email),
        date=datetime.fromtimestamp(min(max(int(seconds), 0), _MAX_TIMESTAMP), UTC),
        subject=subject,
        changes=tuple(changes),
    )


def literal_pathspec(path: str) -> str:
    """Return a pathspec that matches exactly this path, relative to the root of the tree."""
    return f":(top,literal){path}"


def read_shallow_commits(directory: Path) -> frozenset[str]:
    """Return the commits at which the history of a shallow git directory ends; empty if it is not shallow."""
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
def empty_worktree(clone: GitRepository, sha: str) -> Generator[GitRepository]:
    """Yield a worktree of a private clone that has no files. Its HEAD is `sha`, and its index is empty.

    The worktree is removed after the block.
    """
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
    """Make a commit of a worktree's index, and return its id. The worktree's HEAD stays."""
    options = (word for parent in parents for word in ("-p", parent))
    return worktree.run(*IDENTITY, "commit-tree", worktree.run("write-tree"), *options, "-m", message)
