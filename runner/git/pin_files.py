"""What a commit says of a pin: a gitlink, a commit's id in a file, or a version in a `KEY=VALUE` line of a file."""

import re
from collections.abc import Mapping, Sequence

from ...store.commit import Commit
from ..stack.parts import CommitFilePin, GitlinkPin, VersionFilePin
from ..stack.stack import Stack
from .repository import GITLINK, GitRepository, is_commit_id

_ABSENT = ("", "")


class PinReader:
    """Reads pins at any commit of their holders, and writes the text of a pin file in which pins are held."""

    def __init__(self, stack: Stack, repositories: Mapping[str, GitRepository]) -> None:
        self._stack = stack
        self._repositories = repositories
        self._entries: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._texts: dict[tuple[str, str], str | None] = {}

    def learn(self, repository: str, history: Sequence[Commit]) -> None:
        """Follow the pins of a history, parents first, without asking git for each commit."""
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
        """What a pin says at a commit of its holder; None where it is missing or unreadable there."""
        pin = self._stack.pins[name]
        match pin:
            case GitlinkPin():
                mode, object_id = self._entry(pin.holder, sha, pin.path)
                return object_id if mode == GITLINK else None
            case CommitFilePin():
                text = self.text(pin.holder, sha, pin.path)
                if text is None and pin.earlier is not None:
                    found = _named(self.text(pin.holder, sha, pin.earlier.path) or "", pin.earlier.key)
                    text = found["value"] if found else None
                text = (text or "").strip()
                return text if is_commit_id(text) else None
            case VersionFilePin():
                version = self._version(pin, sha)
                if version is None or pin.target is None:
                    return version
                releases = self._stack.repositories[pin.target].releases
                return None if releases is None else releases.commits.get(version)

    def told(self, name: str, sha: str) -> str | None:
        """What a pin says at a commit of its holder, as people know it: a release by its version."""
        pin = self._stack.pins[name]
        return self._version(pin, sha) if isinstance(pin, VersionFilePin) else self.value(name, sha)

    def _version(self, pin: VersionFilePin, sha: str) -> str | None:
        text = self.text(pin.holder, sha, pin.path)
        found = _assignment(text or "", pin.key)
        if text is None and pin.earlier is not None:
            found = _yaml_or_shell(self.text(pin.holder, sha, pin.earlier.path) or "", pin.earlier.key)
        return (found["value"] or None) if found else None

    def text(self, holder: str, sha: str, path: str) -> str | None:
        """A pin file as committed; None where it is missing."""
        entry = self._entry(holder, sha, path)
        if entry[0] in ("", "000000", GITLINK):
            return None
        key = (holder, entry[1])
        if key not in self._texts:
            self._texts[key] = self._repositories[holder].read_text(sha, path)
        return self._texts[key]

    def held_text(self, holder: str, path: str, revisions: Mapping[str, str]) -> str | None:
        """A pin file with the values that `revisions` holds its pins at. What a commit does not pin stays unpinned."""
        text = self.text(holder, revisions[holder], path)
        if text is None:
            return None
        for name, pin in self._stack.pins.items():
            value = revisions.get(self._stack.held_name(name))
            if pin.holder != holder or path not in pin.paths or value is None:
                continue
            if isinstance(pin, CommitFilePin):
                text = self._held_id(pin, path, text, value, revisions[holder])
            elif isinstance(pin, VersionFilePin):
                text = self._held_version(pin, path, text, value, revisions[holder])
        return text

    def rewritten(self, revisions: Mapping[str, str]) -> Mapping[tuple[str, str], str]:
        """The pin files, by holder and path, whose text has to differ from what is committed."""
        changed: dict[tuple[str, str], str] = {}
        for holder, path in self._stack.pin_files:
            pins = [
                name for name, pin in self._stack.pins.items() if pin.holder == holder and path in pin.paths
            ]
            if not any(self._stack.held_name(name) in revisions for name in pins):
                continue
            text = self.held_text(holder, path, revisions)
            if text is not None and text != self.text(holder, revisions[holder], path):
                changed[holder, path] = text
        return changed

    def held_links(self, revisions: Mapping[str, str]) -> Mapping[tuple[str, str], str]:
        """The commits of submodules, by holder and path, that are others than the holder's commit pins."""
        return {
            (pin.holder, pin.path): revisions[target]
            for target, pin in self._stack.gitlinks.items()
            if target in revisions
            and self._entry(pin.holder, revisions[pin.holder], pin.path) != (GITLINK, revisions[target])
        }

    def _held_id(self, pin: CommitFilePin, path: str, text: str, value: str, sha: str) -> str:
        """A file that may name a commit, with this one in it where it is the file that counts at `sha`."""
        if path == pin.path:
            return text if text.strip() == value else f"{value}\n"
        assert pin.earlier is not None
        found = _named(text, pin.earlier.key)
        if found is None or self.text(pin.holder, sha, pin.path) is not None:
            return text
        return text[: found.start("value")] + value + text[found.end("value") :]

    def _held_version(self, pin: VersionFilePin, path: str, text: str, value: str, sha: str) -> str:
        """A file that may name a version, with this one in it where it is the file that counts at `sha`."""
        if path == pin.path:
            found = _assignment(text, pin.key)
        else:
            assert pin.earlier is not None
            counts = self.text(pin.holder, sha, pin.path) is None
            found = _yaml_or_shell(text, pin.earlier.key) if counts else None
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
            self._entries[key] = next(((e.mode, e.object) for e in found), _ABSENT)
        return self._entries[key]


def _named(text: str, key: str) -> re.Match[str] | None:
    """The first line that gives a key a commit's full id, as YAML or a shell writes it.

    >>> _named("env:\\n  ISA_COMMIT: '" + 40 * "a" + "' # newer\\n", "ISA_COMMIT")["value"] == 40 * "a"
    True
    """
    return re.search(
        rf"^[ \t]*{re.escape(key)}[ \t]*[:=][ \t]*['\"]?(?P<value>[0-9a-f]{{40}})\b", text, re.MULTILINE
    )


def _yaml_or_shell(text: str, key: str) -> re.Match[str] | None:
    """The first line that gives a key a plain value, as YAML or a shell writes it.

    >>> _yaml_or_shell("env:\\n  PTOAS_VERSION: 'v0.25' # newer\\n", "PTOAS_VERSION")["value"]
    'v0.25'
    """
    return re.search(rf"^[ \t]*{re.escape(key)}[ \t]*[:=][ \t]*['\"]?(?P<value>[\w.+-]+)", text, re.MULTILINE)


def _assignment(text: str, key: str) -> re.Match[str] | None:
    """The `KEY=VALUE` line as a shell reads it: the last one counts, quotes and comments do not.

    >>> _assignment("PTOAS_VERSION=v0.56\\nPTOAS_VERSION='v0.57'  # newer\\n", "PTOAS_VERSION")["value"]
    'v0.57'
    """
    pattern = (
        rf"^[ \t]*(?:export[ \t]+)?{re.escape(key)}[ \t]*=[ \t]*"
        r"(?P<quote>['\"]?)(?P<value>(?<=')[^'\n]*(?=')|(?<=\")[^\"\n]*(?=\")|(?<!['\"])[^\s#'\"]*)"
    )
    return next(reversed(list(re.finditer(pattern, text, re.MULTILINE))), None)
