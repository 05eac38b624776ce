"""Overlays and cherry-picks: changes to the commits of a repository before they are built.

An overlay replaces a file or folder of every commit by that of another revision, or of the user's disk. `OverlayReader`
reads the option `--overlay`. A cherry-pick repairs a range of commits that cannot be tested: the change of one commit
is applied on top of each of them. `CherryPicks` says which commits get which patches.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from .errors import UsageError, UserError
from .git import IDENTITY, GitError, GitRepository, TreeEntry, commit_index, empty_worktree, literal_pathspec
from .settings import expand_home
from .stack import Model, Overlay, Stack

_CONFLICTS = 1
"""`git merge-tree` exits with this code if a merge has conflicts."""


class CherryPick(Model):
    """The change of `commit`, to be applied on top of each commit of `old..new`. All three are full ids."""

    commit: str
    old: str
    new: str


class PatchConflictError(UserError):
    """A patch does not apply at a commit."""


def patch_name(repository: str) -> str:
    """Return the key of a repository's patches among revisions. The value is the commits' ids, separated by blanks."""
    return f"{repository}+cherry-picks"


def list_patches(revisions: Mapping[str, str], repository: str) -> list[str]:
    """Return the commits to pick on top of a repository's revision, in order."""
    return revisions.get(patch_name(repository), "").split()


class CherryPicks:
    """The cherry-picks of one repository."""

    def __init__(self, picks: Sequence[CherryPick], *, repository: str, git: GitRepository) -> None:
        self.repository = repository
        self._picks = picks
        self._git = git

    def commits_for(self, sha: str) -> list[str]:
        """Return the commits to pick on top of a commit, in the order of the cherry-picks."""
        return [
            pick.commit for pick, commits in zip(self._picks, self._ranges, strict=True) if sha in commits
        ]

    @cached_property
    def _ranges(self) -> list[frozenset[str]]:
        return [
            frozenset(self._git.run("rev-list", f"{pick.old}..{pick.new}", "--").split())
            for pick in self._picks
        ]


def find_applicable_commits(
    clone: GitRepository, change: str, commits: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the commits on top of which the change of the commit `change` applies without conflicts.

    Returns None where git is older than 2.38 and cannot merge without a worktree. Commits that nothing refers to are
    added to `clone`, which is a private repository.
    """

    def copy_commit(commit: str, *parents: str) -> str:
        options = (word for parent in parents for word in ("-p", parent))
        return clone.run(*IDENTITY, "commit-tree", f"{commit}^{{tree}}", *options, "-m", commit)

    # A merge of a commit with the change, from the parent of the change on, applies the change. So both get a copy of
    # that parent as their only parent.
    base = copy_commit(f"{change}^")
    changed = copy_commit(change, base)
    applicable: list[str] = []
    for commit in commits:
        try:
            clone.run("merge-tree", "--write-tree", copy_commit(commit, base), changed)
        except GitError as error:
            if error.status != _CONFLICTS:
                return None
        else:
            applicable.append(commit)
    return tuple(applicable)


def apply_patch(worktree: GitRepository, sha: str) -> None:
    """Apply a commit's change to a worktree, without a commit. Raises `PatchConflictError`."""
    try:
        worktree.run("cherry-pick", "--no-commit", "--no-rerere-autoupdate", sha)
    except GitError as error:
        conflicts = worktree.run("diff", "--name-only", "--diff-filter=U", "-z").split("\0")
        where = f" in {', '.join(filter(None, conflicts))}" if any(conflicts) else f": {error}"
        raise PatchConflictError(f"{sha[:12]} does not apply{where}") from error


class OverlayReader:
    """Reads the overlays that `--overlay PATH[@REV]` names."""

    def __init__(
        self,
        stack: Stack,
        repositories: Mapping[str, GitRepository],
        clones: Mapping[str, GitRepository],
        here: Path,
        searched: str,
    ) -> None:
        """A relative path begins at the folder `here`, or else at the root of the repository `searched`.

        Files of the user's disk are committed to `clones`, the private repositories.
        """
        self._stack = stack
        self._searched = searched
        self._repositories = repositories
        self._clones = clones
        self._here = here

    def apply_overlays(self, texts: Sequence[str]) -> Stack:
        """Return the stack with these overlays. Raises `UserError`."""
        repositories = dict(self._stack.repositories)
        for text in texts:
            name, overlay = self._read(text)
            repository = repositories[name]
            overlays = (*repository.overlays, overlay)
            repositories[name] = repository.model_copy(update={"overlays": overlays})
        return self._stack.model_copy(update={"repositories": repositories})

    def resolve_revisions(self, texts: Sequence[str]) -> dict[str, str]:
        """Return `PATH@ID` for each `PATH@REV`, with the commit's id in place of the revision. Raises `UserError`."""
        resolved: dict[str, str] = {}
        for text in texts:
            typed, at, _ = text.partition("@")
            if at:
                resolved[text] = f"{typed}@{self._read(text)[1].commit}"
        return resolved

    def _read(self, text: str) -> tuple[str, Overlay]:
        """Return the repository and the overlay of an option's text. Raises `UserError`."""
        option = f"--overlay {text}"
        typed, at, revision = text.partition("@")
        if not typed or (at and not revision):
            raise UsageError(f"{option}: expected PATH or PATH@REV")
        candidates = self._candidates(typed, option)
        for name, path in candidates:
            commit, files = self._files(name, path, revision, option)
            if files:
                break
        else:
            raise self._missing_files_error(*candidates[0], revision, option)
        self._check_pins(name, files, option)
        overlay = Overlay(
            path=path,
            commit=commit,
            object=repository_object(self._clones[name], commit, path),
            revision=revision or None,
            kept_in=None if revision else self._clones[name].path,
        )
        return name, overlay

    def _files(self, name: str, path: str, revision: str, option: str) -> tuple[str, Sequence[TreeEntry]]:
        """Return the commit that holds the files at a path, and the files. Without a revision, they are the disk's."""
        if not revision:
            return self._read_disk(name, path)
        repository = self._repositories[name]
        commit = repository.resolve(revision, option=option)
        return commit, list(repository.tree(commit, (literal_pathspec(path),)))

    def _missing_files_error(self, name: str, path: str, revision: str, option: str) -> UsageError:
        repository = self._repositories[name]
        if revision:
            where = f"{repository.resolve(revision, option=option)[:12]} of {repository.path}"
        elif repository.is_bare:
            where = f"{repository.path} (a bare repository, name them as PATH@REV)"
        else:
            where = f"{repository.path} (files that git ignores do not count)"
        return UsageError(
            f"{option}: expected a file, or a folder with files, found none at {path} in {where}"
        )

    def _candidates(self, typed: str, option: str) -> list[tuple[str, str]]:
        """Return the repositories and paths that a typed path may mean. Raises `UsageError` where there is none."""
        # Git prints paths from the root of the searched repository.
        starts = (self._here, self._repositories[self._searched].path)
        located = [self._locate(start / expand_home(Path(typed))) for start in starts]
        candidates = list(dict.fromkeys(filter(None, located)))
        if not candidates:
            known = ", ".join(str(repository.path.resolve()) for repository in self._repositories.values())
            raise UsageError(
                f"{option}: expected a file or folder inside of a checkout of the stack ({known})"
            )
        return candidates

    def _locate(self, file: Path) -> tuple[str, str] | None:
        """Return the innermost repository around a file, and the file's path in it; None where there is none."""
        path = Path(os.path.normpath(file))
        # A link is an overlay itself, so only its parents are resolved.
        path = path.parent.resolve() / path.name
        roots = {name: repository.path.resolve() for name, repository in self._repositories.items()}
        holders = [name for name, root in roots.items() if root in path.parents]
        if not holders:
            return None
        name = max(holders, key=lambda holder: len(roots[holder].parts))
        return name, str(PurePosixPath(path.relative_to(roots[name])))

    def _read_disk(self, name: str, path: str) -> tuple[str, list[TreeEntry]]:
        """Commit the files at a path of the checkout to the private clone; return the commit and the files."""
        repository, clone = self._repositories[name], self._clones[name]
        if repository.is_bare:
            return "", []
        listed = repository.run(
            "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", literal_pathspec(path)
        )
        files = [
            file for file in dict.fromkeys(listed.split("\0")) if file and _is_file(repository.path / file)
        ]
        if not files:
            return "", []
        with empty_worktree(clone, repository.resolve("HEAD", option="--overlay")) as worktree:
            for file in files:
                (worktree.path / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(repository.path / file, worktree.path / file, follow_symlinks=False)
            worktree.run("add", "--force", "--all", ".")
            commit = commit_index(worktree, f"{path} as on disk")
        clone.run("update-ref", overlay_ref(commit), commit)
        return commit, list(clone.tree(commit))

    def _check_pins(self, name: str, files: Sequence[TreeEntry], option: str) -> None:
        """Check that an overlay has no pin file. Raises `UsageError`."""
        pins = {path for pin in self._stack.pins.values() if pin.holder == name for path in pin.paths}
        moved = sorted(pins.intersection(entry.path for entry in files))
        if moved:
            raise UsageError(
                f"{option}: expected files that pin nothing, found {moved[0]} among them; hold the pin with --freeze"
            )


def overlay_ref(commit: str) -> str:
    """Return the ref under which a private clone keeps files of the user's disk."""
    return f"refs/overlays/{commit}"


def repository_object(repository: GitRepository, commit: str, path: str) -> str:
    """Return the id of the file or folder at a path of a commit."""
    return repository.run("rev-parse", "--verify", "--quiet", f"{commit}:{path}")


def apply_overlay(worktree: GitRepository, overlay: Overlay) -> None:
    """Replace the worktree's files by an overlay's. Other files in an overlay's folder stay. Raises `GitError`."""
    worktree.run("checkout", "--quiet", overlay.commit, "--", literal_pathspec(overlay.path))


def covered_files(repository: GitRepository, overlays: Sequence[Overlay]) -> Iterator[str]:
    """Yield the paths of all files of the overlays."""
    for overlay in overlays:
        yield from (
            entry.path for entry in repository.tree(overlay.commit, (literal_pathspec(overlay.path),))
        )


def read_effective_text(
    repository: GitRepository, overlays: Sequence[Overlay], sha: str, path: str
) -> str | None:
    """Return a file's text at a commit with overlays; None where it is missing."""
    for overlay in reversed(overlays):
        if overlay.covers(path) and (text := repository.read_text(overlay.commit, path)) is not None:
            return text
    return repository.read_text(sha, path)


def overlay_notices(stack: Stack) -> Iterator[str]:
    """Yield a sentence for each overlay."""
    for name, repository in stack.repositories.items():
        for overlay in repository.overlays:
            short = overlay.commit[:12]
            source = "as on disk" if overlay.revision is None else f"of {overlay.revision} ({short})"
            yield f"{overlay.path} {source} is laid over every commit of {name}"


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()
