"""Overlays and cherry-picks: changes to the commits of a repository before they are built.

An overlay is a file or folder of another revision, or of the user's disk, that lies over every commit. A cherry-pick
repairs a range of commits that cannot be tested: it applies the change of one commit on top of each of them.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from .errors import UsageError, UserError
from .git import IDENTITY, GitError, GitRepository, TreeEntry, bare_worktree, commit_index, literal
from .settings import expand_home
from .stack import Model, Overlay, Stack

_CONFLICTS = 1
"""`git merge-tree` ends with this exit code where a merge has conflicts."""


class CherryPick(Model):
    """Applies the change of `commit` on top of each commit of `old..new`, of the same repository. Ids are full."""

    commit: str
    old: str
    new: str


class PatchConflictError(UserError):
    """A patch does not apply at a commit."""


def patch_name(repository: str) -> str:
    """Return the key of a repository's patches among revisions. Its value is the commit ids, parted by blanks."""
    return f"{repository}+cherry-picks"


def list_patches(revisions: Mapping[str, str], repository: str) -> list[str]:
    """Return the commits that are picked on top of a repository's revision, in order."""
    return revisions.get(patch_name(repository), "").split()


class CherryPicks:
    """Knows which commits of one repository are tested with which patches."""

    def __init__(self, picks: Sequence[CherryPick], *, repository: str, git: GitRepository) -> None:
        self.repository = repository
        self._picks = picks
        self._git = git

    def commits_for(self, sha: str) -> list[str]:
        """Return the commits to pick on top of a commit, in the order in which they were given."""
        return [
            pick.commit for pick, stretch in zip(self._picks, self._ranges, strict=True) if sha in stretch
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
    """Return the commits on top of which another commit's change can be made.

    Returns None where git is older than 2.38 and cannot merge without a worktree. `clone` is a private repository; it
    gets commits that nothing refers to.
    """

    def commit_tree(commit: str, *parents: str) -> str:
        named = (word for parent in parents for word in ("-p", parent))
        return clone.run(*IDENTITY, "commit-tree", f"{commit}^{{tree}}", *named, "-m", commit)

    # Git merges commits that share a parent, so the parent of the change is put before both.
    before = commit_tree(f"{change}^")
    after = commit_tree(change, before)
    applies: list[str] = []
    for commit in commits:
        try:
            clone.run("merge-tree", "--write-tree", commit_tree(commit, before), after)
        except GitError as error:
            if error.status != _CONFLICTS:
                return None
        else:
            applies.append(commit)
    return tuple(applies)


def apply_patch(worktree: GitRepository, sha: str) -> None:
    """Apply a commit's change to a worktree, without a commit. Raises `PatchConflictError`."""
    try:
        worktree.run("cherry-pick", "--no-commit", "--no-rerere-autoupdate", sha)
    except GitError as error:
        conflicts = worktree.run("diff", "--name-only", "--diff-filter=U", "-z").split("\0")
        where = f" in {', '.join(filter(None, conflicts))}" if any(conflicts) else f": {error}"
        raise PatchConflictError(f"{sha[:12]} does not apply{where}") from error


class OverlayReader:
    """Reads what `--overlay PATH[@REV]` names.

    `clones` are the private repositories, in which files of the user's disk are kept.
    """

    def __init__(
        self,
        stack: Stack,
        repositories: Mapping[str, GitRepository],
        clones: Mapping[str, GitRepository],
        here: Path,
        searched: str,
    ) -> None:
        """Relative paths begin at the folder `here`, or else at the root of the repository `searched`.

        Git prints paths from that root.
        """
        self._stack = stack
        self._searched = searched
        self._repositories = repositories
        self._clones = clones
        self._here = here

    def apply_overlays(self, texts: Sequence[str]) -> Stack:
        """Return the stack with these overlays, later ones over earlier ones. Raises `UserError`."""
        repositories = dict(self._stack.repositories)
        for text in texts:
            name, overlay = self._read(text)
            repository = repositories[name]
            overlays = (*repository.overlays, overlay)
            repositories[name] = repository.model_copy(update={"overlays": overlays})
        return self._stack.model_copy(update={"repositories": repositories})

    def resolve_revisions(self, texts: Sequence[str]) -> dict[str, str]:
        """Return each `PATH@REV` with the id of the commit that it stands for now. Raises `UserError`."""
        held: dict[str, str] = {}
        for text in texts:
            typed, at, _ = text.partition("@")
            if at:
                held[text] = f"{typed}@{self._read(text)[1].commit}"
        return held

    def _read(self, text: str) -> tuple[str, Overlay]:
        option = f"--overlay {text}"
        typed, at, revision = text.partition("@")
        if not typed or (at and not revision):
            raise UsageError(f"{option}: expected PATH or PATH@REV")
        places = self._places(typed, option)
        for name, path in places:
            commit, files = self._files(name, path, revision, option)
            if files:
                break
        else:
            raise self._missing_files_error(*places[0], revision, option)
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
        """Return the files at a path, and the commit that holds them.

        They are those of a revision, or of the disk where no revision is named.
        """
        if not revision:
            return self._read_disk(name, path)
        repository = self._repositories[name]
        commit = repository.resolve(revision, option=option)
        return commit, list(repository.tree(commit, (literal(path),)))

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

    def _places(self, typed: str, option: str) -> list[tuple[str, str]]:
        """Return the repositories and paths that a typed path may mean. A link is laid over as a link."""
        starts = (self._here, self._repositories[self._searched].path)
        places = [self._place(start / expand_home(Path(typed))) for start in starts]
        found = list(dict.fromkeys(filter(None, places)))
        if not found:
            known = ", ".join(str(repository.path.resolve()) for repository in self._repositories.values())
            raise UsageError(
                f"{option}: expected a file or folder inside of a checkout of the stack ({known})"
            )
        return found

    def _place(self, file: Path) -> tuple[str, str] | None:
        """Return the repository of a file, and its path there."""
        path = Path(os.path.normpath(file))
        path = path.parent.resolve() / path.name
        roots = {name: repository.path.resolve() for name, repository in self._repositories.items()}
        holders = [name for name, root in roots.items() if root in path.parents]
        if not holders:
            return None
        name = max(holders, key=lambda holder: len(roots[holder].parts))
        return name, str(PurePosixPath(path.relative_to(roots[name])))

    def _read_disk(self, name: str, path: str) -> tuple[str, list[TreeEntry]]:
        """Return a commit of the private clone that holds the files at a path of the checkout, and nothing else."""
        repository, clone = self._repositories[name], self._clones[name]
        if repository.is_bare:
            return "", []
        listed = repository.run(
            "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", literal(path)
        )
        files = [
            file for file in dict.fromkeys(listed.split("\0")) if file and _is_file(repository.path / file)
        ]
        if not files:
            return "", []
        with bare_worktree(clone, repository.resolve("HEAD", option="--overlay")) as worktree:
            for file in files:
                (worktree.path / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(repository.path / file, worktree.path / file, follow_symlinks=False)
            worktree.run("add", "--force", "--all", ".")
            commit = commit_index(worktree, f"{path} as on disk")
        clone.run("update-ref", overlay_ref(commit), commit)
        return commit, list(clone.tree(commit))

    def _check_pins(self, name: str, files: Sequence[TreeEntry], option: str) -> None:
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
    """Return the id of the file or folder at a path."""
    return repository.run("rev-parse", "--verify", "--quiet", f"{commit}:{path}")


def apply_overlay(worktree: GitRepository, overlay: Overlay) -> None:
    """Replace the worktree's files by an overlay's. Other files in its folder stay. Raises `GitError`."""
    worktree.run("checkout", "--quiet", overlay.commit, "--", literal(overlay.path))


def covered_files(repository: GitRepository, overlays: Sequence[Overlay]) -> Iterator[str]:
    """Yield the paths of all files of the overlays."""
    for overlay in overlays:
        yield from (entry.path for entry in repository.tree(overlay.commit, (literal(overlay.path),)))


def read_effective_text(
    repository: GitRepository, overlays: Sequence[Overlay], sha: str, path: str
) -> str | None:
    """Return a file's text at a commit as runs see it; None where it is missing."""
    for overlay in reversed(overlays):
        if overlay.covers(path) and (text := repository.read_text(overlay.commit, path)) is not None:
            return text
    return repository.read_text(sha, path)


def overlay_notices(stack: Stack) -> Iterator[str]:
    """Yield a sentence for each overlay."""
    for name, repository in stack.repositories.items():
        for overlay in repository.overlays:
            of = (
                "as on disk" if overlay.revision is None else f"of {overlay.revision} ({overlay.commit[:12]})"
            )
            yield f"{overlay.path} {of} is laid over every commit of {name}"


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()
