"""Files of another revision, or of the user's disk, that are laid over every commit before it is built."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from ..errors import UsageError
from ..stack.parts import Overlay
from ..stack.stack import Stack
from .made_commits import bare_worktree, commit_index
from .repository import GitRepository, TreeEntry, literal


class OverlayReader:
    """Reads what `--overlay PATH[@REV]` names. `clones` are the private repositories, in which files of the user's disk
    are kept."""

    def __init__(
        self,
        stack: Stack,
        repositories: Mapping[str, GitRepository],
        clones: Mapping[str, GitRepository],
        here: Path,
    ) -> None:
        self._stack = stack
        self._repositories = repositories
        self._clones = clones
        self._here = here

    def laid_over(self, texts: Sequence[str]) -> Stack:
        """The stack whose repositories have these overlays, later ones above earlier ones. Raises `UserError`."""
        repositories = dict(self._stack.repositories)
        for text in texts:
            name, overlay = self._read(text)
            repository = repositories[name]
            overlays = (*repository.overlays, overlay)
            repositories[name] = repository.model_copy(update={"overlays": overlays})
        return self._stack.model_copy(update={"repositories": repositories})

    def held(self, texts: Sequence[str]) -> dict[str, str]:
        """What each `PATH@REV` stands for now, with a commit id. Raises `UserError`."""
        held: dict[str, str] = {}
        for text in texts:
            typed, at, revision = text.partition("@")
            if at:
                option = f"--overlay {text}"
                name, _ = self._place(typed, option)
                held[text] = f"{typed}@{self._repositories[name].resolve(revision, option=option)}"
        return held

    def _read(self, text: str) -> tuple[str, Overlay]:
        option = f"--overlay {text}"
        typed, at, revision = text.partition("@")
        if not typed or (at and not revision):
            raise UsageError(f"{option}: expected PATH or PATH@REV")
        name, path = self._place(typed, option)
        repository = self._repositories[name]
        if at:
            commit = repository.resolve(revision, option=option)
            files = list(repository.tree(commit, (literal(path),)))
            where = f"{commit[:12]} of {repository.path}"
        else:
            commit, files = self._from_disk(name, path)
            besides = (
                "a bare repository, name them as PATH@REV"
                if repository.is_bare
                else "files that git ignores do not count"
            )
            where = f"{repository.path} ({besides})"
        if not files:
            raise UsageError(
                f"{option}: expected a file, or a folder with files, found none at {path} in {where}"
            )
        self._check_pins(name, files, option)
        overlay = Overlay(
            path=path,
            commit=commit,
            object=repository_object(self._clones[name], commit, path),
            revision=revision or None,
            kept_in=None if at else self._clones[name].path,
        )
        return name, overlay

    def _place(self, typed: str, option: str) -> tuple[str, str]:
        """The repository, and the path in it. A link is laid over as the link that it is."""
        path = Path(os.path.normpath(self._here / Path(typed).expanduser()))
        path = path.parent.resolve() / path.name
        roots = {name: repository.path.resolve() for name, repository in self._repositories.items()}
        holders = [name for name, root in roots.items() if root in path.parents]
        if not holders:
            known = ", ".join(str(root) for root in roots.values())
            raise UsageError(
                f"{option}: expected a file or folder inside of a checkout of the stack ({known})"
            )
        name = max(holders, key=lambda holder: len(roots[holder].parts))
        return name, str(PurePosixPath(path.relative_to(roots[name])))

    def _from_disk(self, name: str, path: str) -> tuple[str, list[TreeEntry]]:
        """A commit of the private clone that holds the files at a path of the checkout, and nothing else."""
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
        clone.run("update-ref", kept_as(commit), commit)
        return commit, list(clone.tree(commit))

    def _check_pins(self, name: str, files: Sequence[TreeEntry], option: str) -> None:
        pins = {path for pin in self._stack.pins.values() if pin.holder == name for path in pin.paths}
        moved = sorted(pins.intersection(entry.path for entry in files))
        if moved:
            raise UsageError(
                f"{option}: expected files that pin nothing, found {moved[0]} among them; hold the pin with --freeze"
            )


def kept_as(commit: str) -> str:
    """The name under which a private clone keeps files of the user's disk."""
    return f"refs/overlays/{commit}"


def repository_object(repository: GitRepository, commit: str, path: str) -> str:
    """The id of the file or folder at a path."""
    return repository.run("rev-parse", "--verify", "--quiet", f"{commit}:{path}")


def lay_over(worktree: GitRepository, overlay: Overlay) -> None:
    """Put an overlay's files in place of the worktree's own; others in its folder stay. Raises `GitError`."""
    worktree.run("checkout", "--quiet", overlay.commit, "--", literal(overlay.path))


def covered_files(repository: GitRepository, overlays: Sequence[Overlay]) -> Iterator[str]:
    """The paths of all files that are laid over."""
    for overlay in overlays:
        yield from (entry.path for entry in repository.tree(overlay.commit, (literal(overlay.path),)))


def read_laid_over(repository: GitRepository, overlays: Sequence[Overlay], sha: str, path: str) -> str | None:
    """A file's text at a commit as runs see it; None where it is missing."""
    for overlay in reversed(overlays):
        if overlay.covers(path) and (text := repository.read_text(overlay.commit, path)) is not None:
            return text
    return repository.read_text(sha, path)


def told_of_overlays(stack: Stack) -> Iterator[str]:
    """A sentence for each overlay."""
    for name, repository in stack.repositories.items():
        for overlay in repository.overlays:
            of = (
                "as on disk" if overlay.revision is None else f"of {overlay.revision} ({overlay.commit[:12]})"
            )
            yield f"{overlay.path} {of} is laid over every commit of {name}"


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()
