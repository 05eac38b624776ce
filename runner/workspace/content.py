"""Decides when two commits have equal content, by a key over the files that can change a result.

`ContentKeys` computes the keys of one repository's trees, and `StackContent` those of a whole stack. The key of a tree
is the sum modulo 2^256 of the SHA-256 of each entry. So a commit's key follows from its parent's key and the changed
files. This is an additive multiset hash after Bellare and Micciancio, "A New Paradigm for Collision-Free Hashing",
EUROCRYPT 1997. It is no defence against forged trees.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from ...store.vocabulary import Commit, TreeChange
from ..case.case import find_perturbation, perturbation_key, perturbed_content_key
from ..git import TreeEntry
from ..overlays import covered_files, list_patches
from ..pins import PinReader
from ..renames import adaptations
from ..stack import IgnoredPaths, Stack, VersionFilePin
from .slot import Workspace

_MODULUS = 1 << 256
"""Keys are sums modulo this number, so that a key is as long as one SHA-256."""
_ABSENT = "000000"
"""Git's mode of a file that does not exist on one side of a change."""


class ContentKeys:
    """Computes the keys of one repository's trees."""

    def __init__(
        self, ignore: Sequence[str], *, pins: Collection[str] = (), covered: Collection[str] = ()
    ) -> None:
        """Files that match the gitignore patterns `ignore` do not count, nor do the pin files and overlaid files."""
        self._ignored = IgnoredPaths(ignore)
        self._excluded = frozenset((*pins, *covered))

    def is_relevant(self, path: str) -> bool:
        """Return whether the file at a path counts in the key."""
        return path not in self._excluded and path not in self._ignored

    def tree_key(self, entries: Iterable[TreeEntry]) -> int:
        """Return the key of a whole tree."""
        return sum(_term(e.path, e.mode, e.object_id) for e in entries if self.is_relevant(e.path)) % _MODULUS

    def child_key(self, parent: int, changes: Iterable[TreeChange]) -> int:
        """Return the key of a commit whose first parent has the key `parent`."""
        key = parent
        for change in changes:
            if self.is_relevant(change.path):
                key -= _term(change.path, change.old_mode, change.old_object)
                key += _term(change.path, change.new_mode, change.new_object)
        return key % _MODULUS


class StackContent:
    """Content keys of the stack's repositories, and of everything else that can change a result.

    These are patches, overlays, renames, the case's variables and predecessors, and a perturbation. The commit of a
    submodule does not count in its holder's key, because the submodule's own files do. A pin file counts with the text
    that a probe sees, which may differ from the committed one.
    """

    def __init__(self, stack: Stack, workspace: Workspace) -> None:
        self._stack = stack
        self._workspace = workspace
        self._keys = {
            name: ContentKeys(
                repository.ignore,
                pins={path for pin in stack.pins.values() if pin.holder == name for path in pin.paths},
                covered=self._overlaid_files(name),
            )
            for name, repository in stack.repositories.items()
        }
        self._known: dict[tuple[str, tuple[str, ...]], dict[str, int]] = {}
        """The keys of commits, by repository and paths."""

        self._names = sorted(stack.repositories)
        self._overlays = {
            name: [f"{name} under {overlay.path} {overlay.object}" for overlay in repository.overlays]
            for name, repository in stack.repositories.items()
        }
        self._case_parts = [f"variable {name}={text}" for name, text in sorted(stack.case.variables.items())]
        self._case_parts += [f"after {predecessor}" for predecessor in stack.case.after]

    def _overlaid_files(self, name: str) -> frozenset[str]:
        overlays = self._stack.repositories[name].overlays
        if not overlays:  # Without this, clones would be made before they are needed.
            return frozenset()
        for overlay in overlays:
            self._workspace.ensure_commit(name, overlay.commit)
        return frozenset(covered_files(self._workspace.clones[name], overlays))

    def commit_key(self, repository: str, sha: str, paths: tuple[str, ...] = ()) -> int:
        """Return the key of a commit's files, or of those below `paths`."""
        known = self._known.setdefault((repository, paths), {})
        if sha not in known:
            self._workspace.ensure_commit(repository, sha)
            entries = self._workspace.clones[repository].tree(sha, paths)
            known[sha] = self._keys[repository].tree_key(entries)
        return known[sha]

    def learn(self, repository: str, history: Sequence[Commit]) -> None:
        """Compute the keys of a history, parents first, from its changes instead of from each tree.

        The keys of the build steps' inputs are included.
        """
        keys = self._keys[repository]
        inputs = [(path,) for path in self._input_paths(repository) if path]
        for paths in ((), *inputs):
            known = self._known.setdefault((repository, paths), {})
            for commit in history:
                if commit.parents:
                    parent = self.commit_key(repository, commit.parents[0], paths)
                    changes = (each for each in commit.changes if not paths or is_below(each.path, paths[0]))
                    known[commit.sha] = keys.child_key(parent, changes if paths else commit.changes)
        self._pins.learn(repository, history)

    def build_inputs(self, repository: str, paths: Iterable[str]) -> list[str]:
        """Return those of a repository's files on which build steps depend, without pin files."""
        inputs, keys = self._input_paths(repository), self._keys[repository]
        return [
            path
            for path in paths
            if keys.is_relevant(path) and any(not each or is_below(path, each) for each in inputs)
        ]

    def build_pins(self, repository: str) -> frozenset[str]:
        """Return the paths of a repository at which repositories that build steps use are pinned."""
        return frozenset(
            path
            for pin in self._stack.pins.values()
            if pin.holder == repository and pin.target is not None and self._input_paths(pin.target)
            for path in pin.paths
        )

    @cached_property
    def _inputs(self) -> list[str]:
        """Return the inputs of all build steps."""
        return sorted({entry for step in self._stack.steps.values() for entry in step.inputs})

    def has_build_inputs(self, repository: str) -> bool:
        """Return whether build steps depend on files of a repository."""
        return bool(self._input_paths(repository))

    def _input_paths(self, repository: str) -> list[str]:
        """Return the paths of a repository that are inputs of build steps; an empty path is the whole repository."""
        inputs = (entry.partition(":") for entry in self._inputs)
        return [path for name, _, path in inputs if name == repository]

    def revisions_key(self, revisions: Mapping[str, str]) -> str:
        """Return one key for the content of a whole run: 64 hexadecimal digits."""
        names = [name for name in self._names if name in revisions]
        parts = [f"{name} {self.commit_key(name, revisions[name]):064x}" for name in names]
        for name in names:
            parts += [f"{name} with {patch}" for patch in list_patches(revisions, name)]
        for name in names:
            parts += self._overlays[name]
        if self._stack.renames:
            for name in names:
                parts += [f"{name} with {text}" for text in self._respellings(name, revisions)]
        for holder, path in self._stack.pin_files:
            if holder in revisions and (holder, path) not in self._commit_pin_files:
                parts.append(f"{holder}:{path} {self._pin_file_digest(holder, path, revisions)}")
        parts += self._case_parts
        content = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        perturbation = find_perturbation(self._stack, revisions)
        return (
            content
            if perturbation is None
            else perturbed_content_key(content, perturbation_key(perturbation))
        )

    def build_key(self, revisions: Mapping[str, str]) -> str:
        """Return one key for all inputs of build steps."""
        parts = [f"{entry} {self.input_key(revisions, entry)}" for entry in self._inputs]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def input_key(self, revisions: Mapping[str, str], entry: str) -> str:
        """Return the key of an input of a step, written as `repository` or `repository:path`, with its pin files.

        It is empty where the commit lacks an optional submodule.
        """
        repository, _, path = entry.partition(":")
        if repository not in revisions:
            return ""
        paths = (path,) if path else ()
        parts = [f"{self.commit_key(repository, revisions[repository], paths):064x}"]
        parts += [f"with {patch}" for patch in list_patches(revisions, repository)]
        parts += [
            f"under {overlay.path} {overlay.object}"
            for overlay in self._stack.repositories[repository].overlays
            if not path or overlay.covers(path) or is_below(overlay.path, path)
        ]
        parts += [f"with {text}" for text in self._respellings(repository, revisions)]
        for holder, file in self._stack.pin_files:
            if holder == repository and (not path or is_below(file, path)):
                parts.append(f"{file} {self._pin_file_digest(holder, file, revisions)}")
        return "\n".join(parts)

    def _respellings(self, repository: str, revisions: Mapping[str, str]) -> list[str]:
        return [each.as_json for each in adaptations(self._stack, repository, revisions)]

    def _pin_file_digest(self, holder: str, path: str, revisions: Mapping[str, str]) -> str:
        text = self._pins.pin_file_text(holder, path, revisions)
        if text is None:
            return ""
        # Stores have keys that were made without the last newline.
        return hashlib.sha256(text.removesuffix("\n").encode("utf-8", "surrogateescape")).hexdigest()

    @cached_property
    def _pins(self) -> PinReader:
        return PinReader(self._stack, self._workspace.clones)

    @cached_property
    def _commit_pin_files(self) -> frozenset[tuple[str, str]]:
        """Return the pin files that contain nothing but the commit of a repository of the stack.

        They do not count, because the repository's own files do.
        """
        pins = [self._stack.pins[name] for name in self._stack.links.values()]
        return frozenset(
            (pin.holder, path)
            for pin in pins
            for path in pin.paths
            if not isinstance(pin, VersionFilePin) or path != pin.path
        )


def is_below(path: str, place: str) -> bool:
    """Return whether a path is `place`, or is in that folder."""
    return path == place or path.startswith(f"{place}/")


def _term(path: str, mode: str, object_id: str) -> int:
    """Return what an entry of a tree adds to its key."""
    if mode == _ABSENT:
        return 0
    text = f"{mode} {object_id} {path}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.sha256(text).digest(), "big")
