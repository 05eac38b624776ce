"""Submodules of a repository: where each commit pins them, and what a checkout on this disk holds of them."""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UserError
from .repository import GITLINK, GitError, GitRepository


@dataclass(frozen=True, kw_only=True)
class Submodule:
    """A folder of a tree in which a commit of another repository belongs. `name` is what .gitmodules calls it;
    `is_here`: that commit is at hand."""

    path: str
    commit: str
    name: str | None
    is_here: bool


class MissingSubmoduleError(UserError):
    """The checkout has a submodule, but not the commit of it that is pinned."""

    def __init__(self, submodule: Submodule, checkout: GitRepository) -> None:
        super().__init__(
            f"{submodule.path} is pinned at {submodule.commit[:12]}, which is not in {checkout.path}; run there: git "
            "submodule update --init --recursive"
        )


def submodules_at(
    clone: GitRepository, treeish: str, *, besides: Collection[str] = ()
) -> Iterator[Submodule]:
    """The submodules that a tree pins but those at some paths, each before those inside of it. `clone` sees the objects
    of them all."""
    links = [entry for entry in clone.tree(treeish) if entry.mode == GITLINK and entry.path not in besides]
    names = _names(clone, treeish) if links else {}
    for link in links:
        is_here = clone.has_commit(link.object)
        yield Submodule(path=link.path, commit=link.object, name=names.get(link.path), is_here=is_here)
        for inner in submodules_at(clone, link.object) if is_here else ():
            yield replace(inner, path=f"{link.path}/{inner.path}")


def is_initialized(checkout: GitRepository, submodule: Submodule) -> bool:
    """Whether a checkout has had a submodule: it is there, or was and its repository is kept."""
    if (checkout.path / submodule.path / ".git").exists():
        return True
    place = None if submodule.name is None else ("modules", *Path(submodule.name).parts)
    return place is not None and any(store.parts[-len(place) :] == place for store in module_stores(checkout))


def module_stores(checkout: GitRepository) -> list[Path]:
    """The git directories of all submodules that a checkout has or had, and of those inside of them."""
    directories = {checkout.common_directory, Path(checkout.run("rev-parse", "--absolute-git-dir"))}
    stores = [store for directory in sorted(directories) for store in _stores_in(directory / "modules")]
    staged = checkout.run("ls-files", "--stage", "-z").split("\0")
    for path in (entry.partition("\t")[2] for entry in staged if entry.startswith(GITLINK)):
        # One that was added as it lay there holds its repository itself.
        if (checkout.path / path / ".git").exists():
            submodule = GitRepository(checkout.path / path)
            stores += [submodule.common_directory, *module_stores(submodule)]
    return list(dict.fromkeys(stores))


def _stores_in(modules: Path) -> Iterator[Path]:
    """The git directories below a folder, named as their submodules are, in which a slash is one of a path."""
    for folder, inner, files in os.walk(modules):
        if "HEAD" in files and "objects" in inner:
            yield Path(folder)
            # Below it are its own submodules' alone.
            inner[:] = ["modules"] if "modules" in inner else []
        inner.sort()


def _names(clone: GitRepository, treeish: str) -> dict[str, str]:
    """What .gitmodules calls the submodules of a tree, by path; empty where it is missing or cannot be read."""
    try:
        lines = clone.run(
            "config", "--blob", f"{treeish}:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$"
        )
    except GitError:
        return {}
    pairs = (line.partition("\n") for line in lines.split("\0") if line)
    return {path: key.removeprefix("submodule.").removesuffix(".path") for key, _, path in pairs}
