"""Resolves what the user named: the ends of the range, and the commits, paths and files that belong to them.

Revisions, dates and a `git bisect log` become full commit ids. The older end must be an ancestor of the newer one, or
share a merge base with it, which is then run in its place. `--skip` names commits that are never run, `--path` limits
the candidates to commits that touch some files. A command behind `--` that is a file of the repository must exist at
both ends, because each commit runs its own. The last part finds which variables of the shell the case may read.

Git looks up `@{...}` in the reflog, which says when this clone was fetched. Here such a date means when a commit was
made.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path, PurePosixPath

from ...runner.errors import EndsError, UsageError, UserError, reason
from ...runner.git import GITLINK, GitRepository
from ...runner.overlays import CherryPicks, list_patches
from ...runner.pins import Revisions
from ...runner.probe.judge import Crash
from ...runner.stack import Overlay, Stack, display_text
from ...runner.workspace.content import StackContent
from ...runner.workspace.environment import InheritedVariables, case_variables
from ...runner.workspace.home import Home
from ...runner.workspace.slot import Workspace
from ...store.durable_files import read_text_file
from ...store.vocabulary import Seeks, plural
from ..history.range import LoadedRange
from .predicate import OwnFile, Predicate
from .question import BisectRequest, overlay_option, suggest_file

_DATE_ON_BRANCH = re.compile(r"(?P<line>.*)@\{(?P<date>.+)\}")
_NOT_A_DATE = re.compile(r"-?\d+|u|upstream|push", re.IGNORECASE)
"""Matches what may stand in `@{...}` and is no date: a reflog entry, an earlier checkout, or a remote's branch."""
_ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?P<time>[ T]\d{2}:\d{2}(:\d{2})?( ?(Z|[+-]\d{2}:?\d{2}))?)?")
_RELATIVE_DATE = re.compile(
    r"yesterday|(\d+|an?|last)[ .](second|minute|hour|day|week|month|year)s?([ .]ago)?", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class DatedCommit:
    """The last commit before a date, and the sentence that says which commit was taken."""

    commit: str
    notice: str


def commit_before_date(
    repository: GitRepository, text: str, *, option: str, line: str, where: str
) -> DatedCommit | None:
    """Return the last commit before a date, along first parents.

    The search begins at the branch that the text names, else at `line`; `where` describes that place for the notice.
    Return None where the text names no date: it is then a revision as git reads it. Raises `UserError` where no commit
    is that old, or a date cannot be read.
    """
    named = _DATE_ON_BRANCH.fullmatch(text)
    if named is not None and not _NOT_A_DATE.fullmatch(named["date"]):
        branch = named["line"]
        when = _git_date(named["date"], f"{option} {text}")
        if branch:
            line, where = repository.resolve(branch, option=option), f"on {branch}"
    elif _ISO_DATE.fullmatch(text) and not repository.names_commit(text):
        when = _git_date(text, f"{option} {text}")
    elif _RELATIVE_DATE.fullmatch(text) and not repository.names_commit(text):
        raise UsageError(f"{option} {text}: expected a date as '@{{{text}}}', found no revision of that name")
    else:
        return None
    commit = repository.last_before(when, line)
    if commit is None:
        hint = (
            f"a shallow clone ends there; run: git -C {repository.path} fetch --unshallow, or --shallow-since=DATE "
            "with an older date"  # the end's own date would fetch what follows it, and not the commit before
            if repository.shallow_commits
            else f"name a commit, see git -C {repository.path} log --first-parent"
        )
        raise UserError(
            f"{option} {text}: expected a commit before that among the first parents of {line[:12]}, found none; {hint}"
        )
    taken = repository.commit(commit)
    return DatedCommit(
        commit=commit,
        notice=f"{option} {text}: {commit[:12]} of {taken.date:%Y-%m-%d %H:%M} UTC {where}, {taken.subject}",
    )


def _git_date(text: str, where: str) -> str:
    """Return a date in a form that git reads without guessing.

    A day begins at midnight: given a day alone, git would add the present time of day.
    """
    absolute = _ISO_DATE.fullmatch(text)
    if absolute is None and not _RELATIVE_DATE.fullmatch(text):
        raise UsageError(
            f"{where}: expected a date like 2026-06-01, yesterday or 2 weeks ago, found {text!r}"
        )
    if absolute is None:
        return text
    try:
        date.fromisoformat(absolute[1])
    except ValueError as error:
        raise UsageError(f"{where}: expected a date like 2026-06-01, found {absolute[1]}: {error}") from error
    return text if absolute["time"] else f"{text} 00:00:00"


_OLD, _NEW = "good", "bad"
_OPTIONS_OF_OLD = ("--term-old", "--term-good")
_OPTIONS_OF_NEW = ("--term-new", "--term-bad")


@dataclass(kw_only=True)
class BisectLog:
    """What a log says, in its own order, with commits as it names them.

    `olds` are good commits and `news` bad ones. A log with terms of its own uses them the same way: `olds` have its old
    term, `news` its new one.
    """

    file: Path
    olds: list[str] = field(default_factory=list[str])
    news: list[str] = field(default_factory=list[str])
    skip: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    first_parent: bool = False
    _old_terms: set[str] = field(default_factory=lambda: {_OLD, "old"})
    _new_terms: set[str] = field(default_factory=lambda: {_NEW, "new"})

    @property
    def judgements(self) -> int:
        """Return the number of commits that it judges."""
        return len(self.olds) + len(self.news) + len(self.skip)

    @property
    def notice(self) -> str:
        """Return the sentence of the report about this log."""
        return (
            f"--replay {self.file}: {plural(self.judgements, 'judgement')} of it count as they stand, without a run of "
            "ours; only the ends that they leave, and what lies between, are run"
        )

    @classmethod
    def read(cls, file: Path) -> "BisectLog":
        """Read a log, as `git bisect log` prints it or as it stands in a report. Raises `UsageError`."""
        try:
            lines = read_text_file(file).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"--replay {file}: expected a file of git bisect log: {reason(error)}"
            ) from error
        log = cls(file=file)
        for number, line in enumerate(lines, start=1):
            words = _words(line)
            if words and not log._read_line(words):
                raise UsageError(
                    f"--replay {file}: expected git bisect start, good, bad or skip with commits, found in line "
                    f"{number}: {line.strip()[:100]}"
                )
        if not log.news:
            raise UsageError(
                f"--replay {file}: expected a log of git bisect that names a bad end, found none in it"
            )
        return log

    def _read_line(self, words: Sequence[str]) -> bool:
        """Read one line. Return whether it could be understood."""
        command, commits = words[0], words[1:]
        if command == "start":
            self._read_start(commits)
            return True
        if command == "terms":
            return True
        if not commits:
            return False
        if command in self._old_terms:
            self.olds += commits
        elif command in self._new_terms:
            self.news += commits
        elif command == "skip":
            self.skip += commits
        else:
            return False
        return True

    def _read_start(self, words: Sequence[str]) -> None:
        """Read the words behind `git bisect start`: options, the bad end, good ends, and paths behind `--`."""
        where = words.index("--") if "--" in words else len(words)
        self.paths += words[where + 1 :]
        revisions: list[str] = []
        left = [*words[:where]]
        while left:
            name, has_value, value = left.pop(0).partition("=")
            if name in (*_OPTIONS_OF_OLD, *_OPTIONS_OF_NEW):
                term = value if has_value else left.pop(0) if left else ""
                (self._old_terms if name in _OPTIONS_OF_OLD else self._new_terms).add(term)
            elif name == "--first-parent":
                self.first_parent = True
            elif not name.startswith("--"):
                revisions.append(f"{name}{has_value}{value}")
        self.news += revisions[:1]
        self.olds += revisions[1:]


def _words(line: str) -> list[str]:
    """Return the words of a line behind `git bisect`.

    The list is empty where the line is blank or a comment. A line that is no command of git begins with a word that no
    command has, or is returned as one word.
    """
    if not line.strip() or line.lstrip().startswith("#"):
        return []
    try:
        words = shlex.split(line)
    except ValueError:
        return [line]
    if words[:2] == ["git", "bisect"] and len(words) > 2:
        return words[2:]
    return words[1:] if words[0] == "git-bisect" and len(words) > 1 else ["?", *words]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What the user asked, before anything of it is checked."""

    stack: Stack
    repository: str | None
    good: tuple[str, ...]
    """The good ends. Where there are none, a good end is searched for behind the bad one."""
    bad: str
    case: str | None
    platform: str | None
    device: int
    bad_when: str | None
    golden_data: Path | None
    runtime_dir: Path | None
    first_parent: bool
    timeout: float | None
    confidence: float
    output: Path | None
    name: str | None = None
    """The name of the bisection. Where it is None, a name is made."""
    good_when: str | None = None
    crash: Crash = "skip"
    seeks: Seeks = Seeks.REGRESSION
    cherry_picks: tuple[str, ...] = ()
    """The values of --cherry-pick, each REV@A..B."""
    overlays: tuple[str, ...] = ()
    """The values of --overlay, each PATH or PATH@REV."""
    adapt: tuple[Path, ...] = ()
    """The files of renames."""
    skip: tuple[str, ...] = ()
    """The values of --skip, each REV or A..B."""
    path: tuple[str, ...] = ()
    """The values of --path, each a file or folder of the searched repository."""
    also_old: tuple[str, ...] = ()
    """Further revisions that behave like the older end."""
    interactive: bool = False
    command: Predicate | None = None
    """The command behind `--`. The stack has it as its case."""
    typed: tuple[str, ...] = ()
    """The words of the command line, without the program's name."""
    replayed: BisectLog | None = None
    """The log that ends and skips come from, where one was given."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A checked question, its range, and what the user should know before it starts."""

    name: str
    is_named: bool
    """Whether the user named the bisection or its folder. Otherwise each plan of the question makes another
    name."""
    request: BisectRequest
    range: LoadedRange | None
    """The range. It is None where the good end has to be found first."""
    notices: tuple[str, ...]


def content_and_revisions(request: BisectRequest, workspace: Workspace) -> tuple[StackContent, Revisions]:
    """Return the reader that distinguishes contents, and the one that finds which commits of the repositories go
    together."""
    content = StackContent(request.stack, workspace)
    name = request.repository
    picks = CherryPicks(request.cherry_picks, repository=name, git=workspace.clones[name])
    return content, Revisions(request.stack, workspace.clones, request.fixed, picks=picks)


_OLDER = {Seeks.REGRESSION: "--good", Seeks.FIX: "--bad"}
_NEWER = {Seeks.REGRESSION: "--bad", Seeks.FIX: "--good"}


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Both ends as full commit ids, and what else counts as the older one (see `BisectRequest`)."""

    good: str
    bad: str
    also_old: tuple[str, ...] = ()
    parted: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    """The commit that each name of an end stood for."""
    notices: tuple[str, ...] = ()


def find_ends(question: Question, repository: GitRepository) -> Ends:
    """Return the ends of the range that the question asks about. Raises `EndsError`, `UserError`."""
    seeks = question.seeks
    goods, bads = question.good, (question.bad,)
    older, (newer, *_) = (goods, bads) if seeks is Seeks.REGRESSION else (bads, goods)
    older = (*older, *question.also_old)
    notices: list[str] = []
    named: dict[str, str] = {}

    def resolve(text: str, option: str, line: str, where: str) -> str:
        dated = commit_before_date(repository, text, option=option, line=line, where=where)
        if dated is not None:
            notices.append(dated.notice)
        named[text] = repository.resolve(text, option=option) if dated is None else dated.commit
        return named[text]

    new = resolve(newer, _NEWER[seeks], "HEAD", f"on {repository.branch or 'HEAD'}, which is checked out")
    if not older:
        root = _furthest_good_end(repository, new)
        notices += _shallow_clone_notice(repository, root)
        return Ends(good=root, bad=new, named=named, notices=tuple(notices))
    olds = tuple(dict.fromkeys(resolve(text, _OLDER[seeks], new, "behind the later end") for text in older))
    if new in olds:
        raise _same_ends_error(new, question.bad, named, notices)
    old = _old_end(repository, olds, new, seeks)
    parted = tuple(sha for sha in olds if not repository.is_ancestor(sha, new))
    notices += _merge_base_notices(repository, olds, new, old)
    notices += [_replaced_end_notice(sha, old, new, parted, seeks) for sha in olds if sha != old]
    return Ends(
        good=old if seeks is Seeks.REGRESSION else new,
        bad=new if seeks is Seeks.REGRESSION else old,
        also_old=tuple(sha for sha in olds if sha != old),
        parted=() if old in olds else parted,
        named=named,
        notices=tuple(notices),
    )


def _furthest_good_end(repository: GitRepository, bad: str) -> str:
    """Return the oldest commit at which a good end is searched for. Raises `EndsError` where no commit precedes the
    bad end."""
    root = repository.first_parents(bad)[-1]
    if root == bad:
        why = (
            f"a shallow clone ends there; run: {repository.deepen_hint}"
            if repository.shallow_commits
            else "it is a root"
        )
        raise EndsError(f"expected commits before bad {bad[:12]} to look for a good end, found none: {why}")
    return root


def _shallow_clone_notice(repository: GitRepository, furthest: str) -> list[str]:
    """Say that a shallow clone limits how far back a good end is searched for. Empty where it does not."""
    if furthest not in repository.shallow_commits:
        return []
    return [
        f"a good end is looked for back to {furthest[:12]} of {repository.commit(furthest).date:%Y-%m-%d}, where this "
        f"shallow clone ends; for more: {repository.deepen_hint}"
    ]


def _same_ends_error(sha: str, bad: str, named: Mapping[str, str], dated: Sequence[str]) -> EndsError:
    """Return the error that both ends are one commit.

    `named` gives the commit of each text, and `dated` the sentences about dates.
    """
    good = " and ".join(text for text, each in named.items() if each == sha and text != bad) or bad
    return EndsError(
        f"expected two different ends, found --good {good} and --bad {bad} to name one commit, {sha[:12]}"
        + "".join(f"; {told}" for told in dated)
    )


def _old_end(repository: GitRepository, olds: Sequence[str], new: str, seeks: Seeks) -> str:
    """Return the old end that is run.

    It is one of `olds`, else the best common ancestor of them all and the newer end, as in git. Raises `EndsError`
    where one of them builds on the newer end, or where there is no common ancestor.
    """
    older, newer = _OLDER[seeks], _NEWER[seeks]
    for sha in olds:
        if repository.is_ancestor(new, sha):
            hint = "to find what fixed it, add --find-fix"
            raise EndsError(
                f"expected {older} to be an ancestor of {newer}, found {sha[:12]} to follow {new[:12]}: the ends are "
                f"swapped; {hint if seeks is Seeks.REGRESSION else 'leave out --find-fix'}"
            )
    bases = repository.merge_bases(new, olds)
    if not bases:
        hint = f" in a shallow clone; run: {repository.deepen_hint}" if repository.shallow_commits else ""
        raise EndsError(
            f"expected related ends, found {olds[0][:12]} and {new[:12]} without a common ancestor{hint}"
        )
    return next((base for base in bases if base in olds), bases[0])


def _merge_base_notices(repository: GitRepository, olds: Sequence[str], new: str, old: str) -> list[str]:
    """Name the merge bases other than the one that is run first. Empty where there are none."""
    others = [] if old in olds else [base for base in repository.merge_bases(new, olds) if base != old]
    names = ", ".join(base[:12] for base in others)
    return (
        [f"of several merge bases {old[:12]} is run first; {names} only if a culprit builds on it"]
        if others
        else []
    )


def _replaced_end_notice(sha: str, old: str, new: str, parted: Sequence[str], seeks: Seeks) -> str:
    """Say what becomes of an older end when another commit is run as that end."""
    option = f"{_OLDER[seeks]} {sha[:12]}"
    if sha not in parted:
        return f"{option}: what it builds on is no candidate; {old[:12]} is run as that end"
    return (
        f"{option} is no ancestor of {_NEWER[seeks]} {new[:12]}: what both build on is no candidate; "
        f"{old[:12]}, {'their merge base' if len(parted) == 1 else 'the best common ancestor'}, is run as that end"
    )


_PLAIN_FILE = "100644"
"""Git gives this mode to a file that may not be executed."""


def check_command(
    question: Question, ends: Ends, repository: GitRepository, overlays: Sequence[Overlay]
) -> list[str]:
    """Return one sentence for each thing that the user should know about the command and the ends.

    A file that a build step has to make is one example. Raises `UsageError` where an end lacks the file or the folder
    of the command. An overlay puts its files at both ends.
    """
    notices = list[str]()
    named = {"good": ends.good, "bad": ends.bad} if question.good else {"bad": ends.bad}
    command, is_built = question.command, bool(question.stack.steps)
    if command is None:
        return notices
    _check_words(command, repository)
    for file in command.own_files():
        if file.by_itself and (repository.path / file.path).is_dir():
            raise UsageError(f"-- {file.word}: expected a file to run, found a folder; name the file")
        if not any(overlay.covers(str(file.path)) for overlay in overlays):
            notices += _check_file(file, ends, named, repository, is_built=is_built)
    notices += _argument_notices(command, ends, named, repository, overlays)
    _check_folder(command.folder, named, repository, overlays, made=is_built)
    return notices


def _check_file(
    file: OwnFile, ends: Ends, named: Mapping[str, str], repository: GitRepository, *, is_built: bool
) -> Iterator[str]:
    """Yield notices about a file that the command runs.

    Raises `UsageError` where an end lacks the file, or has one that cannot be run.
    """
    modes = {end: _mode(repository, sha, file.path) for end, sha in named.items()}
    lacking = next((end for end, mode in modes.items() if not mode), None)
    if lacking is None:
        plain = next((end for end, mode in modes.items() if mode == _PLAIN_FILE and file.by_itself), None)
        if plain is not None:
            raise UsageError(
                f"-- {file.word}: expected a file that may be executed, found one that may not at {plain} "
                f"{named[plain][:12]}; name its interpreter: -- sh {shlex.quote(file.word)}"
            )
        return
    other = next((sha for end, sha in named.items() if modes[end]), None)
    if other is not None or (repository.path / file.path).exists():
        overlay = overlay_option(repository, file.path, ends.good, ends.bad, other)
        mend = "" if overlay is None else f"lay it over every commit with {overlay}, or "
        raise UsageError(
            f"-- {file.word}: expected it at both ends, for git tracks it and each commit runs its own, found none at "
            f"{lacking} {named[lacking][:12]}; {mend}name a copy outside of the repository"
        )
    alike = suggest_file(repository, named["bad"], file.path)
    if not is_built:
        raise UsageError(
            f"-- {file.word}: expected a file to run, found none at either end, nor in the checkout"
            f"{alike or '; name one that is there'}"
        )
    yield f"-- {file.word}: neither an end nor the checkout has it; a build step has to make it{alike}"


def _check_words(command: Predicate, repository: GitRepository) -> None:
    """Raises `UsageError` where the command is one word that a shell would split, and no file has that name."""
    first, *others = command.words
    if others or " " not in first.strip() or (repository.path / command.folder / first).exists():
        return
    raise UsageError(
        f"-- {shlex.quote(first)}: expected a program and its arguments as words of their own, found one word; leave "
        "out the quotes, or for a line of a shell say: -- sh -c 'LINE'"
    )


def _argument_notices(
    command: Predicate,
    ends: Ends,
    named: Mapping[str, str],
    repository: GitRepository,
    overlays: Sequence[Overlay],
) -> Iterator[str]:
    """Yield a sentence for each argument that is a file at one end only, such as a test that came with the fix."""
    run = {file.word for file in command.own_files()}
    for word in command.words[1:]:
        file = PurePosixPath(posixpath.normpath(command.folder / word))
        is_path = "/" in word and not word.startswith(("/", "-")) and file.parts[:1] != ("..",)
        if word in run or not is_path or any(overlay.covers(str(file)) for overlay in overlays):
            continue
        there = {end: _has_path(repository, sha, file) for end, sha in named.items()}
        if any(there.values()) and not all(there.values()):
            has, lacks = sorted(there, key=lambda end: not there[end])
            overlay = overlay_option(repository, file, ends.good, ends.bad, named[has])
            mend = f"lay the {has} end's over every commit with {overlay} if the command needs it there"
            yield f"{word} is not at the {lacks} end" + ("" if overlay is None else f"; {mend}")


def _check_folder(
    folder: PurePosixPath,
    named: Mapping[str, str],
    repository: GitRepository,
    overlays: Sequence[Overlay],
    *,
    made: bool,
) -> None:
    """Raises `UsageError` where an end lacks the folder in which the command was typed and runs.

    `made`: a build step may make a folder that git does not track.
    """
    if folder == PurePosixPath() or any(PurePosixPath(each.path).is_relative_to(folder) for each in overlays):
        return
    lacking = [end for end, sha in named.items() if not _has_path(repository, sha, folder)]
    if not lacking or (made and len(lacking) == len(named)):
        return
    raise UsageError(
        f"--: expected the folder {folder}, where the command was typed and runs, at both ends, found none at "
        f"{lacking[0]} {named[lacking[0]][:12]}; type it in a folder that every commit has, such as {repository.path}"
    )


def _has_path(repository: GitRepository, sha: str, path: PurePosixPath) -> bool:
    return bool(_mode(repository, sha, path))


def _mode(repository: GitRepository, sha: str, path: PurePosixPath) -> str:
    """Return git's mode of a path at a commit, or of the submodule that contains it. Empty where the commit has
    neither."""
    found = repository.run("ls-tree", "--full-tree", sha, "--", str(path))
    if found:
        return found.split()[0]
    holders = (str(folder) for folder in path.parents if folder.name)
    return GITLINK if any(repository.gitlink(sha, folder) for folder in holders) else ""


def tree_paths(texts: Sequence[str], *, checkout: Path, here: Path) -> tuple[str, ...]:
    """Return paths as a commit's tree has them. An empty string means the whole tree.

    Relative paths begin at the current folder where that lies in the checkout, else at the root of the checkout. Raises
    `UsageError` where a path leads out of it.
    """
    root = checkout.resolve()
    start = here.resolve() if here.resolve().is_relative_to(root) else root
    found: list[str] = []
    for text in texts:
        path = Path(text)
        # The whole path is not resolved, because its last part may be a link, and commits change the link itself.
        inside = _remove_dots(path if path.is_absolute() else start / path)
        if not inside.is_relative_to(root):
            raise UsageError(f"--path {text}: expected a path inside {root}, found one outside")
        named = inside.relative_to(root).as_posix()
        found.append("" if named == "." else named)
    return tuple(dict.fromkeys(found))


def path_notices(request: BisectRequest, loaded: LoadedRange | None) -> list[str]:
    """Return the report's sentence on the paths of a question, with how many commits of the range touch them."""
    if not request.paths:
        return []
    limit = " or ".join(path or "." for path in request.paths)
    among = ""
    if loaded is not None:
        touching = len(loaded.commits) - len(loaded.elsewhere)
        among = f", {touching} of {plural(len(loaded.commits), 'commit')}{_describe_kept_commits(loaded)}"
    return [f"--path {limit}: only commits that touch it are searched{among}"]


def _describe_kept_commits(loaded: LoadedRange) -> str:
    """Describe the commits that can be named although they touch none of the paths."""
    kept = [sha for sha in loaded.candidates if sha in loaded.elsewhere]
    merges = [sha for sha in kept if sha != loaded.range.new]
    told = [f"the end {sha[:12]}" for sha in kept if sha == loaded.range.new]
    told += [f"{plural(len(merges), 'merge')} of such commits"] if merges else []
    return f", and {' and '.join(told)}" if told else ""


def _remove_dots(path: Path) -> Path:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1] or parts
        else:
            parts.append(part)
    return Path(*parts)


_SKIP_OPTION = "--skip"


def resolve_skips(texts: tuple[str, ...], git: GitRepository) -> dict[str, str]:
    """Return each `REV` or `A..B` with the commit ids that it stands for now. Raises `UserError`."""
    return {text: _resolve_skip(text, git) for text in texts}


def skipped_commits(held: Mapping[str, str], git: GitRepository) -> tuple[str, ...]:
    """Return the commits of the values that `resolve_skips` resolved, each once. Raises `UsageError` where an `A..B`
    has none."""
    return tuple(dict.fromkeys(sha for text, ids in held.items() for sha in _skipped_commits(text, ids, git)))


def _resolve_skip(text: str, git: GitRepository) -> str:
    old, dots, new = text.partition("..")
    if not dots:
        return git.resolve(text, option=_SKIP_OPTION)
    if not (old and new):
        raise UsageError(f"{_SKIP_OPTION} {text}: expected REV, or A..B for the commits of B that A has not")
    return f"{git.resolve(old, option=_SKIP_OPTION)}..{git.resolve(new, option=_SKIP_OPTION)}"


def _skipped_commits(text: str, ids: str, git: GitRepository) -> list[str]:
    if ".." not in ids:
        return [ids]
    commits = git.run("rev-list", ids, "--").splitlines()
    if not commits:
        raise UsageError(
            f"{_SKIP_OPTION} {text}: expected commits in it, found none: the older end comes first"
        )
    return commits


def skip_notices(request: BisectRequest) -> list[str]:
    """Return a sentence for each skipped commit that is an end: an end is run all the same, as in git."""
    return [
        f"{_SKIP_OPTION} {sha[:12]}: it is an end of the range, which is run all the same"
        for sha in request.ends.values()
        if sha in request.skip
    ]


_WORD = re.compile(r"\w+")
_FILE = re.compile(r"/[^\s'\";|&<>()]+")
_LARGEST_SCRIPT = 1 << 20
"""A larger file of the command, in bytes, is not searched for revisions. It is data, or a program."""


def find_variables(request: BisectRequest, workspace: Workspace, home: Home) -> InheritedVariables:
    """Return the shell variables that reach the runs of a case. Those that nothing is known to read are set apart."""
    inherited = case_variables(request.stack, home)
    names = [*inherited.digests]
    named = {word for text in _texts_of_command(request) for word in _WORD.findall(text)}
    for repository, commit in _commits(request, workspace):
        named |= workspace.clones[repository].words_used(commit, names)
    return inherited.split_by_use(named)


def _commits(request: BisectRequest, workspace: Workspace) -> Iterator[tuple[str, str]]:
    """Yield repository and commit of all that runs of the ends are made of, patches and overlays included."""
    stack, (_, revisions) = request.stack, content_and_revisions(request, workspace)
    for end in request.ends.values():
        held = revisions.complete({**request.frozen, request.repository: end})
        yield from ((name, held[name]) for name in stack.repositories if name in held)
        yield from ((name, patch) for name in stack.repositories for patch in list_patches(held, name))
    for name, repository in stack.repositories.items():
        yield from ((name, overlay.commit) for overlay in repository.overlays)


def files_of_command(request: BisectRequest) -> Iterator[Path]:
    """Yield the files that the commands name by their full path, such as a script outside of the repositories."""
    for text in _words_of_command(request):
        for file in {Path(text), *map(Path, _FILE.findall(text))}:
            if file.is_absolute() and file.is_file():
                yield file


def _texts_of_command(request: BisectRequest) -> Iterator[str]:
    """Yield the words of the commands, and the text of the scripts among them that lie outside of the repositories."""
    yield from _words_of_command(request)
    for file in files_of_command(request):
        if file.stat().st_size <= _LARGEST_SCRIPT:
            yield file.read_text(encoding="utf-8", errors="replace")


def _words_of_command(request: BisectRequest) -> Iterator[str]:
    case = request.stack.case
    steps = (word for step in request.stack.steps.values() for word in step.command)
    yield from map(display_text, (*case.command, *case.after, *steps, request.case_text))
