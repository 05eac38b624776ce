"""The submodules of a repository whose stack builds nothing, as pins: where one moves, it can be searched inside."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...store.commit import Commit
from ..stack.parts import GitlinkPin, Pin, Repository
from ..stack.stack import RESERVED_NAMES, Stack, is_plain_name
from .repository import GITLINK, GitRepository
from .submodules import Submodule


def moved_submodules(commits: Iterable[Commit]) -> dict[str, frozenset[str]]:
    """The paths of the submodules that some commits move, and from and to which commits."""
    moved: dict[str, frozenset[str]] = {}
    for change in (change for commit in commits for change in commit.changes):
        if change.old_mode == change.new_mode == GITLINK:
            pinned = moved.get(change.path, frozenset())
            moved[change.path] = pinned | {change.old_object, change.new_object}
    return moved


def pinned_submodules(repository: GitRepository, commits: Iterable[str]) -> dict[str, frozenset[str]]:
    """The paths of the submodules of some commits, and where those pin them."""
    pinned: dict[str, frozenset[str]] = {}
    for entry in (entry for sha in commits for entry in repository.tree(sha)):
        if entry.mode == GITLINK:
            pinned[entry.path] = pinned.get(entry.path, frozenset()) | {entry.object}
    return pinned


def with_submodule_pins(
    stack: Stack, holder: str, pinned: Mapping[str, Collection[str]], clone: GitRepository
) -> tuple[Stack, list[str]]:
    """The stack with a repository and a pin for each submodule at the paths of `pinned`, and for those inside of them;
    and a sentence for each that the checkout has, but not as it would have to be to be searched.

    pinned: by path in `holder`, the commits at which it is pinned. clone: sees the objects of all submodules that the
    checkout has, or had.
    """
    found = _Found(dict(stack.repositories), dict(stack.pins), clone)
    for path, commits in sorted(pinned.items()):
        found.add(holder, path, commits, place=stack.repositories[holder].path / path)
    # Made anew: a copy would keep what was worked out from the pins before.
    fields = {name: getattr(stack, name) for name in Stack.model_fields}
    made = {**fields, "repositories": found.repositories, "pins": found.pins}
    return Stack.model_validate(made), found.told


def is_had_for_a_pin(
    submodule: Submodule, holder: str, stack: Stack, clones: Mapping[str, GitRepository]
) -> bool:
    """Whether the commit of a submodule of `holder` is at hand in the repository of the pin at its place, if any."""
    place = stack.directory(holder) / submodule.path
    targets = (target for target in stack.gitlinks if stack.directory(target) == place)
    return any(clones[target].has_commit(submodule.commit) for target in targets)


@dataclass(frozen=True)
class _Found:
    repositories: dict[str, Repository]
    pins: dict[str, Pin]
    clone: GitRepository
    told: list[str] = field(default_factory=list[str])

    def add(self, holder: str, path: str, commits: Collection[str], *, place: Path) -> None:
        """Add the submodule at a path of its holder, which the checkout has at `place`, and those inside of it."""
        # One that is not checked out now may have been: its repository is kept, and the clone sees its objects.
        repository = GitRepository(place) if (place / ".git").exists() else self.clone
        here = sorted(sha for sha in commits if repository.has_commit(sha))
        if not here:
            return  # which is told with what is missing of the submodules
        if repository.boundary:
            self.told.append(
                f"{place} is a shallow clone: a commit that moves it is not followed into it; run: git -C {place} "
                "fetch --unshallow"
            )
            return
        name = self._name(f"{holder}/{path}" if holder in self.pins else path)
        self.repositories[name] = Repository(path=repository.path, submodules=True)
        self.pins[name] = GitlinkPin(kind="gitlink", holder=holder, path=path, target=name, optional=True)
        for inner, pinned in sorted(pinned_submodules(repository, here).items()):
            self.add(name, inner, pinned, place=place / inner)

    def _name(self, path: str) -> str:
        """What a submodule is called: its path, as far as a repository of a stack may be called so."""
        name = re.sub(r"[^A-Za-z0-9_-]", "-", path)
        name = name if is_plain_name(name) else f"_{name}"
        while name in RESERVED_NAMES or name in self.repositories:
            name += "_"
        return name
