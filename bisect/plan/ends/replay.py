"""A `git bisect log` as input: what was judged in it counts without a run of ours."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....runner.errors import UsageError, reason
from ....store.words import plural

_OLD, _NEW = "good", "bad"
_OPTIONS_OF_OLD = ("--term-old", "--term-good")
_OPTIONS_OF_NEW = ("--term-new", "--term-bad")


@dataclass(kw_only=True)
class BisectLog:
    """What a log says, in its own order, as it names commits. `olds` are good ones and `news` bad ones, unless the log
    has terms of its own: then they are those that were called by the old and by the new term."""

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
        """How many commits it judges."""
        return len(self.olds) + len(self.news) + len(self.skip)

    @property
    def notice(self) -> str:
        """What the report says of it."""
        return (
            f"--replay {self.file}: {plural(self.judgements, 'judgement')} of it count as they stand, without a run of "
            "ours; only the ends that they leave, and what lies between, are run"
        )

    @classmethod
    def read(cls, file: Path) -> "BisectLog":
        """Read a log, as `git bisect log` prints it or as it stands in a report. Raises `UsageError`."""
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"--replay {file}: expected a file of git bisect log: {reason(error)}"
            ) from error
        log = cls(file=file)
        for number, line in enumerate(lines, start=1):
            words = _words(line)
            if words and not log._take(words):
                raise UsageError(
                    f"--replay {file}: expected git bisect start, good, bad or skip with commits, found in line "
                    f"{number}: {line.strip()[:100]}"
                )
        if not log.news:
            raise UsageError(
                f"--replay {file}: expected a log of git bisect that names a bad end, found none in it"
            )
        return log

    def _take(self, words: Sequence[str]) -> bool:
        """Take one line; whether it can be understood."""
        command, commits = words[0], words[1:]
        if command == "start":
            self._start(commits)
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

    def _start(self, words: Sequence[str]) -> None:
        """The words behind `git bisect start`: options, the bad end, good ones, and paths behind `--`."""
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
    """The words of a line behind `git bisect`; empty where it says nothing to git, and as they are where it is none of
    git's."""
    if not line.strip() or line.lstrip().startswith("#"):
        return []
    try:
        words = shlex.split(line)
    except ValueError:
        return [line]
    if words[:2] == ["git", "bisect"] and len(words) > 2:
        return words[2:]
    return words[1:] if words[0] == "git-bisect" and len(words) > 1 else ["?", *words]
