"""Reads git repositories through GitPython's command wrapper. Nothing here writes to a checkout of the user's.

`GitRepository` wraps one repository. It keeps a checkout's hooks, filters and monitors from running. The other
functions find the web page of a commit, make commits in private clones, and compare what commits change.
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
_COMMITS = {"github": "commit", "gitlab": "-/commit", "gitcode": "commits/detail"}
"""The path between a repository and a commit in a web address, by a word of the host's name."""


def commit_page_prefix(remote: str) -> str | None:
    """Return the web address that ends with the id of a commit; None for hosts other than GitHub, GitLab and GitCode.

    A name or token in the remote's address is left out.

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
    kind = next((kind for kind in _COMMITS if kind in words), None)
    if kind is None or not _PATH.fullmatch(path):
        return None
    return f"https://{found['host'].lower()}/{path}/{_COMMITS[kind]}/"


# GitPython looks for git when it is imported, and fails without it. `doctor` has to be able to report that.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_END_OF_NAME = re.compile(r"[~^:@]")
"""The name of a branch or tag ends here in a revision, such as `main~3`."""
_LONGEST_COMPLAINT = 300
"""An error shows this many characters of what git printed. Git may list every file of a checkout."""
_NO_MATCH = 1
"""`git grep` and `git config` end with this exit code where nothing matches."""
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"
_LATEST = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
"""A commit may name any date. A later one counts as the last day that Python has, and one before 1970 as its first."""
_NOT_FOUND = 127
"""`env` ends with this exit code where there is no git."""
_FIELDS = "%H%x00%P%x00%an%x00%ae%x00%ct%x00%s%x00"

_EMPTY = "PRECISION_BISECT_EMPTY"
"""An empty environment variable. Git settings whose names may hold any character take their empty value from it."""
# Without this even `git status` would refresh, and so write, the user's index.
_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", _EMPTY: ""}

_READING = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""Any command in a partial clone would fetch what it misses from the remote, by a program that the clone's settings
name. The first variable forbids it; git before 2.45 does not know it, and fetches by no protocol instead."""

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
    "PRECISION_BISECT_TOKEN",
)
"""Neither our own git commands nor the commands of a stack may see these variables.

Hooks, aliases and `git rebase --exec` set the git variables, which would make git work on another repository than the
current one. With the token, a commit under test could submit jobs."""


def inherited_environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the part of an environment that commands inherit."""
    return {name: value for name, value in variables.items() if name not in LOCAL_VARIABLES}


# A file system monitor is a process that would outlive us. A checker of signatures can be any program that a checkout
# names. A replaced or grafted commit would not be the one that its id names.
_GIT = (
    "env",
    *(word for name in LOCAL_VARIABLES for word in ("-u", name)),
    "GIT_GRAFT_FILE=/dev/null",
    *("git", "--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false"),
    *("-c", "advice.graftFileDeprecated=false"),  # A hint about it would stand in front of what went wrong.
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
"""A tree entry that is a submodule has this mode."""


@dataclass(frozen=True)
class TreeEntry:
    """A file of a commit's tree, or a submodule, whose mode is `GITLINK`."""

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
        """Open the repository around a folder. Raises `UserError` where there is none."""
        where = f"{path} (repository {name}; --repository {name}=PATH names another)"
        if shutil.which("git") is None:
            raise GitMissingError
        if not path.is_dir():
            raise UserError(f"expected a git checkout at {where}, found no such folder")
        if "\n" in str(path.absolute()):
            raise UserError(
                f"{str(path.absolute())!r}: expected the path of a checkout in one line, found a newline"
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

        Raises `UserError`, also where the folder lies inside a checkout. The folder of a submodule that was never
        initialized is such a folder: git would silently use the repository that holds it.
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
        """Write a pack of all objects that `wanted` reach and `without` do not, but for those that are missing here.

        Raises `GitError` and `OSError`.
        """
        asked = "".join(f"{line}\n" for line in (*wanted, *(f"^{sha}" for sha in without)))
        options = ("--revs", "--thin", "--delta-base-offset", "--missing=allow-any", "--quiet", "--stdout")
        with TemporaryFile("w+b") as source, target.open("wb") as pack:
            source.write(asked.encode("ascii"))
            source.seek(0)
            self._execute("pack-objects", *options, source=source, sink=pack)

    def add_pack(self, pack: Path) -> None:
        """Add the objects of a pack that builds on objects of this repository. Raises `GitError` and `OSError`."""
        with pack.open("rb") as source:
            self._execute("index-pack", "--stdin", "--fix-thin", source=source)

    def missing_objects(self, *revisions: str) -> tuple[str, ...]:
        """Return the ids of objects that belong to commits and are missing here; the arguments are those of git
        rev-list.

        Nothing is fetched. Raises `GitError` where a commit itself is missing.
        """
        output = self.run("rev-list", "--objects", "--quiet", "--missing=print", *revisions, "--")
        return tuple(line.removeprefix("?") for line in output.splitlines())

    def fetch_objects(self, url: str, ids: Sequence[str]) -> None:
        """Fetch objects from another repository. Raises `GitError`."""
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--stdin")
        with TemporaryFile("w+b") as source:
            source.write("".join(f"{each}\n" for each in ids).encode("ascii"))
            source.seek(0)
            # A negotiation would report that the commits are here, and the other side would conclude that their objects
            # are too.
            self._execute(
                "-c", "fetch.negotiationAlgorithm=noop", "fetch", *options, "--", url, source=source
            )

    def _output(self, *arguments: str) -> str:
        return self._execute(*arguments).decode("utf-8", "surrogateescape")

    def _execute(
        self, *arguments: str, source: BinaryIO | None = None, sink: BinaryIO | None = None
    ) -> bytes:
        # Git reports a missing folder that `-C` names; GitPython would silently run in the current folder.
        try:
            result = self._git.execute(
                [*_GIT, "-C", str(self.path), *arguments],
                istream=source,
                output_stream=sink,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                with_extended_output=True,
                with_exceptions=False,
                env=None if "fetch" in arguments else _READING,
            )
        except GitCommandNotFound as error:
            raise GitMissingError from error
        assert isinstance(result, tuple)
        status, output, complaint = result
        if status == _NOT_FOUND:
            raise GitMissingError
        if status != 0:
            said = "; ".join(complaint.split("\n"))[:_LONGEST_COMPLAINT]
            command = next(word for word in arguments if word != "-c" and "=" not in word)
            raise GitError(f"git {command} failed in {self.path}: {said}", status=status)
        assert isinstance(output, bytes)
        return output

    @cached_property
    def common_directory(self) -> Path:
        """Return the folder that holds `objects/`, also for worktrees and submodules."""
        return (self.path / self.run("rev-parse", "--git-common-dir")).resolve()

    @cached_property
    def is_bare(self) -> bool:
        """Return whether the repository has no checked-out files."""
        return self.run("rev-parse", "--is-bare-repository") == "true"

    @property
    def root(self) -> Path:
        """Return the root of the checkout that holds the folder. Raises `GitError`, also for the git directory of a
        checkout.

        A bare repository is its own root, or the folder whose `.git` leads to it is.
        """
        if not self.is_bare:
            return Path(self.run("rev-parse", "--show-toplevel"))
        is_named = (self.path / ".git").exists()
        return self.path if is_named else Path(self.run("rev-parse", "--absolute-git-dir"))

    @property
    def boundary(self) -> frozenset[str]:
        """Return the commits at which a shallow clone ends, because their parents are missing. Empty where the history
        is whole.
        """
        return shallow_boundary(self.common_directory)

    @property
    def deepen(self) -> str:
        """Return the command that fetches more of the history of a shallow clone."""
        return f"git -C {self.path} fetch --deepen=200, or --unshallow"

    @property
    def branch(self) -> str | None:
        """Return the branch that is checked out; None where HEAD is detached."""
        try:
            return self.run("symbolic-ref", "--quiet", "--short", "HEAD")
        except GitError as error:
            if error.status == 1:
                return None
            raise

    def resolve(self, revision: str, *, option: str) -> str:
        """Return the full commit id of a revision. Raises `UsageError` that names the option of the revision."""
        try:
            found = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
            if not is_commit_id(found):  # `^REV`, which excludes a commit, is one for git too.
                raise GitError(f"git rev-parse found {found}", status=1)
        except GitError as error:
            if gone := self.missing_alternate:
                hint = f"objects/info/alternates in {self.common_directory} leads to {gone}, which is gone: put it back"
            elif self.boundary:
                hint = f"it is a shallow clone: {self.deepen}"
            else:
                hint = "see git log there, or fetch it first"
            raise UsageError(
                f"{option} {revision}: expected a revision of {self.path}, found none by that name; {hint}"
            ) from error
        if revision != found:
            self._check_name(revision, option=option)
        return found

    def _check_name(self, revision: str, *, option: str) -> None:
        """Raises `UsageError` where a branch and a tag have the name in a revision, and lead to different commits.

        git takes the tag then, with a warning that nobody sees.
        """
        name = _END_OF_NAME.split(revision, maxsplit=1)[0]
        commits = {
            kind: self.run("rev-parse", "--verify", "--quiet", f"refs/{kind}/{name}^{{commit}}")
            for kind in ("heads", "tags")
            if name and self._has_ref(f"refs/{kind}/{name}")
        }
        if len({*commits.values()}) > 1:
            raise UsageError(
                f"{option} {revision}: expected a name of one commit, found the branch {name} at "
                f"{commits['heads'][:12]} and the tag {name} at {commits['tags'][:12]}; "
                f"write heads/{revision} or tags/{revision}"
            )

    def _has_ref(self, ref: str) -> bool:
        try:
            self.run("show-ref", "--verify", "--quiet", ref)
        except GitError:
            return False
        return True

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
        """Return whether `ancestor` is reachable from `descendant` (a commit is its own ancestor)."""
        try:
            self.run("merge-base", "--is-ancestor", ancestor, descendant)
        except GitError as error:
            if error.status == 1:
                return False
            raise
        return True

    def merge_base(self, first: str, second: str) -> str | None:
        """Return a best common ancestor of two commits. Raises `GitError`, also where the history is broken."""
        return next(iter(self._merge_bases(first, second)), None)

    def merge_bases(self, commit: str, others: Sequence[str]) -> list[str]:
        """Return the best common ancestors of a commit and of all others taken together; empty where they share none.

        Raises `GitError`, also where the history is broken.
        """
        return self._merge_bases("--all", commit, *others)

    def _merge_bases(self, *arguments: str) -> list[str]:
        try:
            return self.run("merge-base", *arguments).splitlines()
        except GitError as error:
            if error.status != 1:
                raise
        # Git silently skips a commit that is missing; `rev-list` reports it.
        try:
            self.run("rev-list", "--quiet", *(each for each in arguments if each != "--all"), "--")
        except GitError as error:
            raise _history_error(error) from error
        return []

    def last_before(self, date: str, line: str) -> str | None:
        """Return the last commit that is no later than a date, among a commit and its first parents.

        Git parses the date.
        """
        return self.run("rev-list", "--first-parent", "--max-count=1", f"--before={date}", line, "--") or None

    def commits(
        self, *, good: str, bad: str, also_good: Sequence[str] = (), first_parent: bool = False
    ) -> list[Commit]:
        """Return the commits of `good..bad` without those that `also_good` reach, parents before children.

        With `first_parent`, only the commits on the chain of first parents are returned.
        """
        follow = ["--first-parent"] if first_parent else []
        without = (f"^{sha}" for sha in also_good)
        try:
            return self._log("--topo-order", "--reverse", *follow, f"{good}..{bad}", *without)
        except GitError as error:
            raise _history_error(error) from error

    def first_parents(self, sha: str) -> list[str]:
        """Return a commit and its chain of first parents up to the root."""
        return self.run("rev-list", "--first-parent", sha, "--").splitlines()

    def commit(self, sha: str) -> Commit:
        """Return one commit by its full id."""
        return self._log("--max-count=1", sha)[0]

    def patches(self, commits: Sequence[str]) -> dict[str, str]:
        """Return the patch of each commit against its parent, by full ids.

        The patch of a merge is empty, and so is the patch of a commit that lacks objects.
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
        # A subject or a path may hold any character, so no fixed one can separate the records.
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
        """Yield all files of a commit, or those below `paths`."""
        output = self.run("ls-tree", "-r", "-z", "--full-tree", sha, "--", *paths)
        for record in output.split("\0"):
            if record:
                attributes, _, path = record.partition("\t")
                mode, _, object_id = attributes.split(" ")
                yield TreeEntry(path=path, mode=mode, object=object_id)

    def gitlink(self, sha: str, path: str) -> str | None:
        """Return the commit that a submodule is pinned to."""
        for entry in self.tree(sha, (path,)):
            if entry.mode == GITLINK and entry.path == path:
                return entry.object
        return None

    def read_text(self, sha: str, path: str, *, limit: int = 1 << 20) -> str | None:
        """Return a file's text at a commit, with its last newline; None where it is missing or larger than `limit`
        bytes.
        """
        try:
            if int(self.run("cat-file", "-s", f"{sha}:{path}")) > limit:
                return None
            return self._output("cat-file", "blob", f"{sha}:{path}")
        except GitError:
            return None

    def words_used(self, sha: str, words: Collection[str]) -> frozenset[str]:
        """Return the given words that occur as whole words in the files of a commit. Binary files are not searched."""
        if not words:
            return frozenset()
        wanted = (argument for word in words for argument in ("-e", word))
        return frozenset(self._grep("-h", "-o", "-w", "-F", *wanted, sha).split("\n")) - {""}

    def lines_like(self, sha: str, pattern: str) -> Iterator[tuple[str, str]]:
        """Yield the lines of a commit's files that match an extended regular expression, each with its file's path.

        Binary files are not searched.
        """
        for record in self._grep("-z", "-E", "--full-name", "-e", pattern, sha).split("\n"):
            if record:
                path, _, line = record.partition("\0")
                yield path.removeprefix(f"{sha}:"), line

    def _grep(self, *arguments: str) -> str:
        """Return what git finds in the text files of a commit. It is no error to find nothing."""
        try:
            return self.run("grep", "-I", *arguments, "--")
        except GitError as error:
            if error.status == _NO_MATCH:
                return ""
            raise

    def changed_files(self) -> list[str]:
        """Return the paths of the checkout that differ from its HEAD, including untracked files.

        A submodule whose files differ is included too. No program that the checkout names is run. A file that was
        touched since git last looked counts as changed where only its filter (`filter.X.clean`) could tell.
        """
        if self.is_bare or self._lacks_trees:
            return []
        output = self.run(
            *self._filter_overrides(),
            *("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty"),
        )
        changed = [record[3:] for record in output.split("\0") if record]
        # Git would run the filters and the monitor that a submodule configures itself.
        within = (each for each in self._submodules_here() if each not in changed)
        return [*changed, *(each for each in within if GitRepository(self.root / each).changed_files())]

    @property
    def _lacks_trees(self) -> bool:
        """Whether the repository is a partial clone that was not given the files of its HEAD, not even their names."""
        return self.promisor is not None and not self._has_object("HEAD^{tree}")

    def _filter_overrides(self) -> list[str]:
        """Return options of git that disable all filters of the checkout and of the user."""
        # `--config-env` splits at the last `=`; `-c` would end a name at its first one.
        return [f"--config-env={name}={_EMPTY}" for name in self._settings_like(_FILTERS)]

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

        A link, or a folder whose `.git` is no repository, is left out: it leads elsewhere, and perhaps back here.
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
        """Return the remote that has the objects that a partial clone was not given; None where the clone is
        complete."""
        keys = self._settings_like(r"^remote\..*\.promisor$")
        return keys[0].removeprefix("remote.").removesuffix(".promisor") if keys else None

    @property
    def missing_alternate(self) -> str | None:
        """Return a folder from which this repository borrows objects and which no longer exists."""
        objects = self.common_directory / "objects"
        try:
            borrowed = (objects / "info" / "alternates").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
        return next((line for line in borrowed.splitlines() if not (objects / line).is_dir()), None)

    @property
    def has_other_history(self) -> bool:
        """Return whether the repository has grafts or replace refs, because of which git would read other commits."""
        grafts = self.common_directory / "info" / "grafts"
        return grafts.is_file() or bool(self.run("for-each-ref", "--count=1", "refs/replace"))

    @property
    def has_lfs(self) -> bool:
        """Return whether git replaces the pointers of Git LFS by their contents."""
        return bool(self._settings_like(r"^filter\.lfs\.(smudge|process)$"))

    def remote_url(self) -> str | None:
        """Return the address from which the promisor of a partial clone, or else `origin`, is fetched."""
        try:
            return self.run("remote", "get-url", self.promisor or "origin")
        except GitError:
            return None


def _history_error(error: GitError) -> GitError:
    return GitError(
        f"{error}; a history that lacks a commit or a tree cannot be searched: git fsck names what is lost, "
        "git fetch --refetch gets it",
        status=error.status,
    )


def _parse_commit(record: str) -> Commit:
    """Parse one record of `_FIELDS` followed by `--raw -z` fields."""
    sha, parents, author, email, seconds, subject, rest = record.split("\0", 6)
    fields = rest.strip("\n").strip("\0").split("\0")
    changes: list[TreeChange] = []
    for header, path in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, old_object, new_object, _ = header.strip("\n").removeprefix(":").split(" ")
        # Paths and modes recur in most commits.
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
    """Return the pathspec of exactly this path, from the root of the tree."""
    return f":(top,literal){path}"


def shallow_boundary(directory: Path) -> frozenset[str]:
    """Return the commits at which the history in a git directory ends, where it is shallow."""
    try:
        return frozenset((directory / "shallow").read_text(encoding="ascii").split())
    except FileNotFoundError:
        return frozenset()


def is_commit_id(text: str) -> bool:
    """Return whether the text is a full hexadecimal commit id.

    >>> is_commit_id("b" * 40), is_commit_id("main")
    (True, False)
    """
    return _COMMIT.fullmatch(text) is not None


IDENTITY = ("-c", f"user.name={MAKER}", "-c", f"user.email={MAKER_EMAIL}")
"""These git options set the author of the commits that private clones get."""


@contextmanager
def bare_worktree(clone: GitRepository, sha: str) -> Generator[GitRepository]:
    """Add a temporary worktree to a private clone, at a commit, without files and with an empty index."""
    with TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        clone.run("worktree", "add", "--quiet", "--detach", "--no-checkout", str(root), sha)
        try:
            worktree = GitRepository(root)
            worktree.run("read-tree", "--empty")
            yield worktree
        finally:
            clone.run("worktree", "remove", "--force", str(root))


def commit_index(worktree: GitRepository, about: str, *, parents: tuple[str, ...] = ()) -> str:
    """Commit what is in a worktree's index, and return the commit's id.

    The id depends on the contents, on the parents and on the time.
    """
    named = (word for parent in parents for word in ("-p", parent))
    return worktree.run(*IDENTITY, "commit-tree", worktree.run("write-tree"), *named, "-m", about)


_OBJECTS = re.compile(r"^index .*\n(?!Binary files )", re.MULTILINE)
"""A patch has such lines with the ids of whole files. They stay for a binary file, whose patch shows nothing else."""
_PLACE = re.compile(r"^@@ .*$", re.MULTILINE)


def commits_with_same_change(repository: GitRepository, sha: str, among: Sequence[str]) -> tuple[str, ...]:
    """Return the commits of `among` that change the same lines of the same files as a commit, at whatever line
    numbers.
    """
    patches = repository.patches([sha, *among])
    change = _patch_without_positions(patches[sha])
    return tuple(other for other in among if _patch_without_positions(patches[other]) == change)


def _patch_without_positions(patch: str) -> str:
    return _PLACE.sub("@@", _OBJECTS.sub("", patch))
