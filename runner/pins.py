"""Pins, and the commits of all repositories that a probe uses.

A pin is a submodule, a commit's id in a file, or a version in a line of a file. `PinReader` reads pins at any commit.
`Revisions` extends a commit of one repository to commits of all. `list_submodules` reads the submodules of a commit,
and `add_submodule_pins` makes pins of them, so that a bisection can continue inside a submodule that moves.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..store.vocabulary import Commit
from .errors import UserError
from .git import GITLINK, GitError, GitRepository, is_commit_id
from .overlays import CherryPicks, patch_name
from .renames import RenameTracker
from .stack import (
    RESERVED_NAMES,
    CommitFilePin,
    GitlinkPin,
    Pin,
    Repository,
    Stack,
    VersionFilePin,
    is_plain_name,
)

_ABSENT = ("", "")
"""The mode and the object of a path that a commit does not have."""


class PinReader:
    """Reads pins at any commit of their holders, and makes the text of a pin file with given values."""

    def __init__(self, stack: Stack, repositories: Mapping[str, GitRepository]) -> None:
        self._stack = stack
        self._repositories = repositories
        self._entries: dict[tuple[str, str, str], tuple[str, str]] = {}
        """The mode and the object of pin files and submodules, by repository, commit and path."""
        self._texts: dict[tuple[str, str], str | None] = {}
        """The texts of pin files, by holder and object."""

    def learn(self, repository: str, history: Sequence[Commit]) -> None:
        """Read the pins of a history, parents first, from its changes instead of from each commit."""
        pins = [pin for pin in self._stack.pins.values() if pin.holder == repository]
        for path in {path for pin in pins for path in pin.paths}:
            for commit in history:
                if not commit.parents:
                    continue
                entry = self._entry(repository, commit.parents[0], path)
                for change in commit.changes:
                    if change.path == path:
                        entry = (change.new_mode, change.new_object)
                self._entries[repository, commit.sha, path] = entry

    def value(self, name: str, sha: str) -> str | None:
        """Return a pin's value at a commit of its holder; None where it is missing or unreadable there."""
        pin = self._stack.pins[name]
        match pin:
            case GitlinkPin():
                mode, object_id = self._entry(pin.holder, sha, pin.path)
                return object_id if mode == GITLINK else None
            case CommitFilePin():
                text = self.text(pin.holder, sha, pin.path)
                if text is None and pin.earlier is not None:
                    found = _find_commit_id(
                        self.text(pin.holder, sha, pin.earlier.path) or "", pin.earlier.key
                    )
                    text = found["value"] if found else None
                text = (text or "").strip()
                return text if is_commit_id(text) else None
            case VersionFilePin():
                version = self._version(pin, sha)
                if version is None or pin.target is None:
                    return version
                releases = self._stack.repositories[pin.target].releases
                return None if releases is None else releases.commits.get(version)

    def display_value(self, name: str, sha: str) -> str | None:
        """Return a pin's value at a commit of its holder, for people: a release is shown by its version."""
        pin = self._stack.pins[name]
        return self._version(pin, sha) if isinstance(pin, VersionFilePin) else self.value(name, sha)

    def _version(self, pin: VersionFilePin, sha: str) -> str | None:
        """Return the version that a pin's file names; None where it is missing."""
        text = self.text(pin.holder, sha, pin.path)
        found = _find_assignment(text or "", pin.key)
        if text is None and pin.earlier is not None:
            found = _find_plain_value(self.text(pin.holder, sha, pin.earlier.path) or "", pin.earlier.key)
        return (found["value"] or None) if found else None

    def text(self, holder: str, sha: str, path: str) -> str | None:
        """Return the text of a pin file as committed; None where it is missing."""
        entry = self._entry(holder, sha, path)
        if entry[0] in ("", "000000", GITLINK):
            return None
        key = (holder, entry[1])
        if key not in self._texts:
            self._texts[key] = self._repositories[holder].read_text(sha, path)
        return self._texts[key]

    def pin_file_text(self, holder: str, path: str, revisions: Mapping[str, str]) -> str | None:
        """Return a pin file's text with the values of `revisions`; None where the commit has no such file.

        A pin that the file lacks is not added.
        """
        text = self.text(holder, revisions[holder], path)
        if text is None:
            return None
        for name, pin in self._stack.pins.items():
            value = revisions.get(self._stack.revision_key(name))
            if pin.holder != holder or path not in pin.paths or value is None:
                continue
            if isinstance(pin, CommitFilePin):
                text = self._replace_commit_id(pin, path, text, value, revisions[holder])
            elif isinstance(pin, VersionFilePin):
                text = self._replace_version(pin, path, text, value, revisions[holder])
        return text

    def changed_pin_files(self, revisions: Mapping[str, str]) -> Mapping[tuple[str, str], str]:
        """Return the new texts of the pin files that differ from the committed ones, by holder and path."""
        changed: dict[tuple[str, str], str] = {}
        for holder, path in self._stack.pin_files:
            pins = [
                name for name, pin in self._stack.pins.items() if pin.holder == holder and path in pin.paths
            ]
            if not any(self._stack.revision_key(name) in revisions for name in pins):
                continue
            text = self.pin_file_text(holder, path, revisions)
            if text is not None and text != self.text(holder, revisions[holder], path):
                changed[holder, path] = text
        return changed

    def changed_gitlinks(self, revisions: Mapping[str, str]) -> Mapping[tuple[str, str], str]:
        """Return the commits of the submodules that differ from the pinned ones, by holder and path."""
        return {
            (pin.holder, pin.path): revisions[target]
            for target, pin in self._stack.gitlinks.items()
            if target in revisions
            and self._entry(pin.holder, revisions[pin.holder], pin.path) != (GITLINK, revisions[target])
        }

    def _replace_commit_id(self, pin: CommitFilePin, path: str, text: str, value: str, sha: str) -> str:
        """Replace the commit id in a file's text, if the pin is read from this file at `sha`."""
        if path == pin.path:
            return text if text.strip() == value else f"{value}\n"
        assert pin.earlier is not None
        found = _find_commit_id(text, pin.earlier.key)
        if found is None or self.text(pin.holder, sha, pin.path) is not None:
            return text
        return text[: found.start("value")] + value + text[found.end("value") :]

    def _replace_version(self, pin: VersionFilePin, path: str, text: str, value: str, sha: str) -> str:
        """Replace the version in a file's text, if the pin is read from this file at `sha`."""
        if path == pin.path:
            found = _find_assignment(text, pin.key)
        else:
            assert pin.earlier is not None
            is_read = self.text(pin.holder, sha, pin.path) is None
            found = _find_plain_value(text, pin.earlier.key) if is_read else None
        if found is None:
            return text
        version = value if pin.target is None else self._stack.version_of(pin.target, value)
        if version is None:
            raise ValueError(f"expected a release of {pin.target}, found {value}")
        return text[: found.start("value")] + version + text[found.end("value") :]

    def _entry(self, repository: str, sha: str, path: str) -> tuple[str, str]:
        key = (repository, sha, path)
        if key not in self._entries:
            found = (e for e in self._repositories[repository].tree(sha, (path,)) if e.path == path)
            self._entries[key] = next(((e.mode, e.object_id) for e in found), _ABSENT)
        return self._entries[key]


def _find_commit_id(text: str, key: str) -> re.Match[str] | None:
    """Find the first line that gives a key a commit's full id, as YAML or a shell writes it.

    >>> _find_commit_id("env:\\n  ISA_COMMIT: '" + 40 * "a" + "' # newer\\n", "ISA_COMMIT")["value"] == 40 * "a"
    True
    """
    return re.search(
        rf"^[ \t]*{re.escape(key)}[ \t]*[:=][ \t]*['\"]?(?P<value>[0-9a-f]{{40}})\b", text, re.MULTILINE
    )


def _find_plain_value(text: str, key: str) -> re.Match[str] | None:
    """Find the first line that gives a key a plain value, as YAML or a shell writes it.

    >>> _find_plain_value("env:\\n  PTOAS_VERSION: 'v0.25' # newer\\n", "PTOAS_VERSION")["value"]
    'v0.25'
    """
    return re.search(rf"^[ \t]*{re.escape(key)}[ \t]*[:=][ \t]*['\"]?(?P<value>[\w.+-]+)", text, re.MULTILINE)


def _find_assignment(text: str, key: str) -> re.Match[str] | None:
    """Find the last `KEY=VALUE` line, as a shell reads it: without quotes and comments.

    >>> _find_assignment("PTOAS_VERSION=v0.56\\nPTOAS_VERSION='v0.57'  # newer\\n", "PTOAS_VERSION")["value"]
    'v0.57'
    """
    pattern = (
        rf"^[ \t]*(?:export[ \t]+)?{re.escape(key)}[ \t]*=[ \t]*"
        r"(?P<quote>['\"]?)(?P<value>(?<=')[^'\n]*(?=')|(?<=\")[^\"\n]*(?=\")|(?<!['\"])[^\s#'\"]*)"
    )
    return next(reversed(list(re.finditer(pattern, text, re.MULTILINE))), None)


class NoPinError(UserError):
    """A commit has no pin of another repository that the stack expects there: no submodule, or no value in a file."""


class Revisions:
    """Extends a commit of one repository to commits of all."""

    def __init__(
        self,
        stack: Stack,
        repositories: Mapping[str, GitRepository],
        fixed: Mapping[str, str],
        *,
        picks: CherryPicks | None = None,
    ) -> None:
        """`fixed` are the commits of repositories that are neither searched nor pinned. `picks` are the patches."""
        self._stack = stack
        self._fixed = fixed
        self._picks = picks
        self._renames = RenameTracker(stack.renames, repositories)
        self.pins = PinReader(stack, repositories)

    def complete(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """Return the commit of every repository, with patches, renames, and the other chosen values.

        A repository's commit is the chosen one, or else the pinned one, or else the fixed one. The target of an
        optional pin is left out where the holder's commit has no such submodule. Raises `NoPinError`.
        """
        revisions: dict[str, str] = dict(chosen)

        def revision(name: str) -> str | None:
            if name not in revisions:
                pin_name = self._stack.links.get(name)
                if pin_name is None:
                    revisions[name] = self._fixed[name]
                else:
                    holder = revision(self._stack.pins[pin_name].holder)
                    pinned = None if holder is None else self._pinned_commit(pin_name, holder)
                    if pinned is None:
                        return None
                    revisions[name] = pinned
            return revisions[name]

        for name in self._stack.repositories:
            revision(name)
        if self._picks is not None:
            patches = self._picks.commits_for(revisions[self._picks.repository])
            if patches:
                revisions[patch_name(self._picks.repository)] = " ".join(patches)
        return revisions | self._renames.revisions_with_renames(revisions)

    def _pinned_commit(self, name: str, holder: str) -> str | None:
        """Return a pin's value at a commit of its holder; None where an optional pin is missing.

        Raises `NoPinError`, also where the holder's commit is not on this disk.
        """
        pin = self._stack.pins[name]
        try:
            pinned = self.pins.value(name, holder)
        except GitError as error:
            raise NoPinError(
                f"{pin.holder}: expected commit {holder}, which says what {pin.path} is pinned at, found none "
                f"({error}); fetch it there first"
            ) from error
        if pinned is None and not (isinstance(pin, GitlinkPin) and pin.optional):
            raise NoPinError(
                f"{pin.holder} {holder[:12]}: expected {self._expected_value(pin)} at {pin.path}, found "
                f"{self.pins.display_value(name, holder) or 'none'}"
            )
        return pinned

    def _expected_value(self, pin: Pin) -> str:
        """Describe the values that a pin may have."""
        match pin:
            case GitlinkPin():
                return "a submodule"
            case CommitFilePin():
                return "a commit's full id"
            case VersionFilePin():
                releases = None if pin.target is None else self._stack.repositories[pin.target].releases
                versions = [] if releases is None else list(releases.commits)
                return (
                    f"one of the {len(versions)} releases of {pin.target} ({versions[0]} to {versions[-1]})"
                )

    def depend_on(self, repository: str) -> bool:
        """Return whether more than its own revision follows from a repository's commit."""
        is_holder = any(pin.holder == repository for pin in self._stack.pins.values())
        is_renamed = any(rename.repository == repository for rename in self._stack.renames)
        return is_holder or is_renamed or (self._picks is not None and self._picks.repository == repository)

    def learn(self, repository: str, history: Sequence[Commit]) -> None:
        """Read the pins and renames of a history, parents first, from its changes instead of from each commit."""
        self.pins.learn(repository, history)
        self._renames.learn(repository, history)


def fixed_revisions(
    stack: Stack, repositories: Mapping[str, GitRepository], *, searched: str
) -> dict[str, str]:
    """Return the commits of the repositories that are neither searched nor pinned: their `revision` in the stack file.

    Raises `UserError`.
    """
    return {
        name: repositories[name].resolve(repository.revision, option=f"repositories.{name}.revision")
        for name, repository in stack.repositories.items()
        if name != searched and name not in stack.links
    }


@dataclass(frozen=True, kw_only=True)
class Submodule:
    """A submodule of a tree."""

    path: str
    commit: str
    """The commit at which the tree pins the submodule."""
    name: str | None
    """The name in .gitmodules; None where that file has none."""
    is_here: bool
    """Whether the pinned commit is on this disk."""


class MissingSubmoduleError(UserError):
    """The checkout has a submodule, but lacks the pinned commit of it."""

    def __init__(self, submodule: Submodule, checkout: GitRepository) -> None:
        super().__init__(
            f"{submodule.path} is pinned at {submodule.commit[:12]}, which is not in {checkout.path}; run there: git "
            "submodule update --init --recursive"
        )


def list_submodules(
    clone: GitRepository, treeish: str, *, besides: Collection[str] = ()
) -> Iterator[Submodule]:
    """Yield the submodules of a tree, except those at the paths `besides`, each before the submodules inside it.

    `clone` sees the objects of all submodules.
    """
    links = [entry for entry in clone.tree(treeish) if entry.mode == GITLINK and entry.path not in besides]
    names = _names(clone, treeish) if links else {}
    for link in links:
        is_here = clone.has_commit(link.object_id)
        yield Submodule(path=link.path, commit=link.object_id, name=names.get(link.path), is_here=is_here)
        for inner in list_submodules(clone, link.object_id) if is_here else ():
            yield replace(inner, path=f"{link.path}/{inner.path}")


def is_initialized(checkout: GitRepository, submodule: Submodule) -> bool:
    """Return whether a checkout has, or had, a submodule. Git keeps the repository of a removed submodule."""
    if (checkout.path / submodule.path / ".git").exists():
        return True
    if submodule.name is None:
        return False
    end = ("modules", *Path(submodule.name).parts)
    return any(directory.parts[-len(end) :] == end for directory in module_stores(checkout))


def module_stores(checkout: GitRepository) -> list[Path]:
    """Return the git directories of all submodules that a checkout has or had, and of those inside them."""
    directories = {checkout.common_directory, checkout.directory}
    stores = [store for directory in sorted(directories) for store in _git_directories(directory / "modules")]
    staged = checkout.run("ls-files", "--stage", "-z").split("\0")
    for path in (entry.partition("\t")[2] for entry in staged if entry.startswith(GITLINK)):
        # A submodule that was added as an existing checkout has its git directory in itself.
        if (checkout.path / path / ".git").exists():
            submodule = GitRepository(checkout.path / path)
            stores += [submodule.common_directory, *module_stores(submodule)]
    return list(dict.fromkeys(stores))


def _git_directories(modules: Path) -> Iterator[Path]:
    """Yield the git directories below a folder. A slash in a submodule's name makes a subfolder."""
    for folder, subfolders, files in os.walk(modules):
        if "HEAD" in files and "objects" in subfolders:
            yield Path(folder)
            # Inside a git directory, only its own submodules may have further ones.
            subfolders[:] = ["modules"] if "modules" in subfolders else []
        subfolders.sort()


def _names(clone: GitRepository, treeish: str) -> dict[str, str]:
    """Return the names of a tree's submodules, by path; none where .gitmodules is missing or cannot be read."""
    try:
        lines = clone.run(
            "config", "--blob", f"{treeish}:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$"
        )
    except GitError:
        return {}
    pairs = (line.partition("\n") for line in lines.split("\0") if line)
    return {path: key.removeprefix("submodule.").removesuffix(".path") for key, _, path in pairs}


def moved_submodules(commits: Iterable[Commit]) -> dict[str, frozenset[str]]:
    """Return the commits from and to which some commits move submodules, by the submodule's path."""
    moved: dict[str, frozenset[str]] = {}
    for change in (change for commit in commits for change in commit.changes):
        if change.old_mode == change.new_mode == GITLINK:
            pinned = moved.get(change.path, frozenset())
            moved[change.path] = pinned | {change.old_object, change.new_object}
    return moved


def pinned_submodules(repository: GitRepository, commits: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the commits at which some commits pin submodules, by the submodule's path."""
    pinned: dict[str, frozenset[str]] = {}
    for entry in (entry for sha in commits for entry in repository.tree(sha)):
        if entry.mode == GITLINK:
            pinned[entry.path] = pinned.get(entry.path, frozenset()) | {entry.object_id}
    return pinned


def add_submodule_pins(
    stack: Stack, holder: str, pinned: Mapping[str, Collection[str]], clone: GitRepository
) -> tuple[Stack, list[str]]:
    """Return the stack with a repository and a pin for each submodule, and a sentence for each one left out.

    `pinned` gives the submodules of `holder`: by path, the commits at which each is pinned. The submodules inside them
    are added too. A shallow one is left out. `clone` sees the objects of all submodules that the checkout has or had.
    """
    collected = _SubmodulePins(dict(stack.repositories), dict(stack.pins), clone)
    for path, commits in sorted(pinned.items()):
        collected.add(holder, path, commits, place=stack.repositories[holder].path / path)
    # This is a new stack, because a copy would keep the cached properties of the old pins.
    fields = {name: getattr(stack, name) for name in Stack.model_fields}
    fields |= {"repositories": collected.repositories, "pins": collected.pins}
    return Stack.model_validate(fields), collected.notices


def has_commit_in_pin(
    submodule: Submodule, holder: str, stack: Stack, clones: Mapping[str, GitRepository]
) -> bool:
    """Return whether a submodule of `holder` is a pin of the stack whose clone has the submodule's commit."""
    directory = stack.directory(holder) / submodule.path
    targets = (target for target in stack.gitlinks if stack.directory(target) == directory)
    return any(clones[target].has_commit(submodule.commit) for target in targets)


@dataclass(frozen=True)
class _SubmodulePins:
    """Collects repositories and pins for submodules, and notices of those that are left out."""

    repositories: dict[str, Repository]
    pins: dict[str, Pin]
    clone: GitRepository
    notices: list[str] = field(default_factory=list[str])

    def add(self, holder: str, path: str, commits: Collection[str], *, place: Path) -> None:
        """Add the submodule at a path of its holder, and those inside it. `place` is its folder in the checkout."""
        # The clone also sees the objects of a submodule that is no longer checked out.
        repository = GitRepository(place) if (place / ".git").exists() else self.clone
        present = sorted(sha for sha in commits if repository.has_commit(sha))
        if not present:
            return  # `missing_submodules` reports it.
        if repository.shallow_commits:
            self.notices.append(
                f"{place} is a shallow clone: a commit that moves it is not followed into it; run: git -C {place} "
                "fetch --unshallow"
            )
            return
        name = self._name(f"{holder}/{path}" if holder in self.pins else path)
        self.repositories[name] = Repository(path=repository.path, submodules=True)
        self.pins[name] = GitlinkPin(kind="gitlink", holder=holder, path=path, target=name, optional=True)
        for inner, pinned in sorted(pinned_submodules(repository, present).items()):
            self.add(name, inner, pinned, place=place / inner)

    def _name(self, path: str) -> str:
        """Return a free name for a submodule: its path, in the characters that a name of a stack may have."""
        name = re.sub(r"[^A-Za-z0-9_-]", "-", path)
        name = name if is_plain_name(name) else f"_{name}"
        while name in RESERVED_NAMES or name in self.repositories:
            name += "_"
        return name
