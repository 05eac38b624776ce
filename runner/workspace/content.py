"""Decides when two commits have equal content, by a key over the files that can change a result.

The key is the sum modulo 2^256 of the SHA-256 of each entry. It is an additive multiset hash after Bellare and
Micciancio, "A New Paradigm for Collision-Free Hashing", EUROCRYPT 1997. A commit's key follows from its parent's key
and the changed files alone, so a history is keyed in one pass of `git log`. The key distinguishes the contents of
honest histories; it is no defence against forged trees.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from ...store.vocabulary import Commit, TreeChange
from ..case.case import perturbation_key, perturbation_name, perturbed_content_key
from ..git import TreeEntry
from ..overlays import covered_files, list_patches
from ..pins import PinReader
from ..renames import adaptations
from ..stack import IgnoredPaths, Stack, VersionFilePin
from .slot import Workspace

_MODULUS = 1 << 256
"""Keys are sums modulo this number, so that a key is as long as one SHA-256."""
_ABSENT = "000000"


class ContentKeys:
    """Keys of one repository's commits.

    `ignore` are gitignore patterns. Files at `pins`, which pin something, and at `covered`, which overlays replace, do
    not count either.
    """

    def __init__(
        self, ignore: Sequence[str], *, pins: Collection[str] = (), covered: Collection[str] = ()
    ) -> None:
        self._ignored = IgnoredPaths(ignore)
        self._left_out = frozenset((*pins, *covered))

    def is_relevant(self, path: str) -> bool:
        """Return whether a change of this path can change a result."""
        return path not in self._left_out and path not in self._ignored

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
    """Content keys of the stack's repositories and of everything that changes or accompanies their files.

    That includes overlays, renames, the case's variables and predecessors, and a perturbation. A pin does not count in
    its holder's key: a submodule is a repository of its own. A pin file counts with the text that a probe sees, in
    which a pin may be held at another value than the commit's.
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
        self._known: dict[tuple[str, str, tuple[str, ...]], int] = {}

    def _overlaid_files(self, name: str) -> frozenset[str]:
        overlays = self._stack.repositories[name].overlays
        if not overlays:
            return frozenset()
        for overlay in overlays:
            self._workspace.ensure_commit(name, overlay.commit)
        return frozenset(covered_files(self._workspace.clones[name], overlays))

    def commit_key(self, repository: str, sha: str, paths: tuple[str, ...] = ()) -> int:
        """Return the key of a commit's files, or of those below `paths`."""
        cached = self._known.get((repository, sha, paths))
        if cached is None:
            self._workspace.ensure_commit(repository, sha)
            entries = self._workspace.clones[repository].tree(sha, paths)
            cached = self._known[repository, sha, paths] = self._keys[repository].tree_key(entries)
        return cached

    def learn(self, repository: str, history: Sequence[Commit]) -> None:
        """Compute the keys of a whole history and of its build inputs, parents first, without listing each tree."""
        keys = self._keys[repository]
        for paths in ((), *self._paths_of_steps(repository)):
            for commit in history:
                if commit.parents:
                    parent = self.commit_key(repository, commit.parents[0], paths)
                    changes = [each for each in commit.changes if not paths or is_below(each.path, paths[0])]
                    self._known[repository, commit.sha, paths] = keys.child_key(parent, changes)
        self._pins.learn(repository, history)

    def build_inputs(self, repository: str, paths: Iterable[str]) -> list[str]:
        """Return those of a repository's files on which build steps depend, without pins."""
        inputs = [entry.partition(":") for step in self._stack.steps.values() for entry in step.inputs]
        places = [place for name, _, place in inputs if name == repository]
        keys = self._keys[repository]
        return [
            path
            for path in paths
            if any(not place or is_below(path, place) for place in places) and keys.is_relevant(path)
        ]

    def build_pins(self, repository: str) -> frozenset[str]:
        """Return the paths of a repository that pin inputs of build steps."""
        built = {entry.partition(":")[0] for step in self._stack.steps.values() for entry in step.inputs}
        pins = (pin for pin in self._stack.pins.values() if pin.holder == repository and pin.target in built)
        return frozenset(path for pin in pins for path in pin.paths)

    def _paths_of_steps(self, repository: str) -> list[tuple[str]]:
        """Return the files and folders of a repository that build steps depend on."""
        inputs = [entry.partition(":") for step in self._stack.steps.values() for entry in step.inputs]
        return sorted({(path,) for name, _, path in inputs if name == repository and path})

    def revisions_key(self, revisions: Mapping[str, str]) -> str:
        """Return one key for the commits of all repositories and the held pins: 64 hexadecimal digits."""
        names = sorted(self._stack.repositories.keys() & revisions.keys())
        parts = [f"{name} {self.commit_key(name, revisions[name]):064x}" for name in names]
        parts += [f"{name} with {patch}" for name in names for patch in list_patches(revisions, name)]
        parts += [
            f"{name} under {overlay.path} {overlay.object}"
            for name in names
            for overlay in self._stack.repositories[name].overlays
        ]
        parts += [f"{name} with {text}" for name in names for text in self._respellings(name, revisions)]
        for holder, path in self._stack.pin_files:
            if (holder, path) not in self._pins_of_repositories:
                parts.append(f"{holder}:{path} {self._pin_file_digest(holder, path, revisions)}")
        parts += [f"variable {name}={text}" for name, text in sorted(self._stack.case.variables.items())]
        parts += [f"after {predecessor}" for predecessor in self._stack.case.after]
        content = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        name = perturbation_name(revisions)
        return (
            content
            if name is None
            else perturbed_content_key(content, perturbation_key(self._stack.perturbations[name]))
        )

    def build_key(self, revisions: Mapping[str, str]) -> str:
        """Return one key for all inputs of build steps. Where it is equal, a build can be reused."""
        inputs = sorted({entry for step in self._stack.steps.values() for entry in step.inputs})
        parts = [f"{entry} {self.input_key(revisions, entry)}" for entry in inputs]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def input_key(self, revisions: Mapping[str, str], entry: str) -> str:
        """Return the key of an input of the stack file, `repository` or `repository:path`, with its pin files."""
        repository, _, path = entry.partition(":")
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
        """Return the respellings of a repository's files."""
        return [each.as_json for each in adaptations(self._stack, repository, revisions)]

    def _pin_file_digest(self, holder: str, path: str, revisions: Mapping[str, str]) -> str:
        text = self._pins.pin_file_text(holder, path, revisions)
        if text is None:
            return ""
        # Keys in stores of earlier versions leave the last newline out.
        return hashlib.sha256(text.removesuffix("\n").encode("utf-8", "surrogateescape")).hexdigest()

    @cached_property
    def _pins(self) -> PinReader:
        return PinReader(self._stack, self._workspace.clones)

    @cached_property
    def _pins_of_repositories(self) -> frozenset[tuple[str, str]]:
        """Return the pin files that hold only the commit of a repository of the stack, whose own content counts.

        A version file contains other things too.
        """
        pins = [self._stack.pins[name] for name in self._stack.links.values()]
        return frozenset(
            (pin.holder, path)
            for pin in pins
            for path in pin.paths
            if not isinstance(pin, VersionFilePin) or path != pin.path
        )


def is_below(path: str, place: str) -> bool:
    """Return whether a path is that file or folder, or in it."""
    return path == place or path.startswith(f"{place}/")


def _term(path: str, mode: str, object_id: str) -> int:
    if mode == _ABSENT:
        return 0
    text = f"{mode} {object_id} {path}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.sha256(text).digest(), "big")
