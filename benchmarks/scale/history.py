"""Histories of any length: made-up ones, each with one commit that brings in a file `broken`.

`write_history` writes one with `git fast-import`, so that 100,000 commits take seconds. `range_of_checkout` is one of a
real repository.
"""

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_START = 1_600_000_000
_BRANCH, _PERIOD = 3, 7
"""In each seven commits one is a merge of a branch of three."""
_FILES = 997
_STATES = 5
_PINS = 100


class Shape(StrEnum):
    """What a history is like."""

    LINEAR = "linear"
    """Each commit changes one of many files."""
    MERGES = "a merge in seven"
    HOT_FILE = "hot file"
    """Each commit gives one file a content that it never had."""
    TOGGLE = "toggled file"
    """Each commit gives one file one of five contents, so that each undoes many earlier ones."""
    PINS = "a hundred moved pins"
    """Each commit changes one of many files, and a hundred commits move the pin of a submodule."""


@dataclass(frozen=True, kw_only=True)
class History:
    """A repository, the ids of both ends of a range of it and of the culprit, and a file that the culprit adds."""

    path: Path
    commits: int
    good: str
    bad: str
    culprit: str
    file: str = "broken"
    has_submodules: bool = False

    @property
    def script(self) -> tuple[str, ...]:
        """Return the command that fails from the culprit on."""
        return "test", "!", "-e", self.file

    @property
    def git_script(self) -> tuple[str, ...]:
        """Return the command for git, which does not check out submodules by itself."""
        if not self.has_submodules:
            return self.script
        return "sh", "-c", f"git submodule --quiet update && {shlex.join(self.script)}"


def write_history(path: Path, shape: Shape, commits: int, *, culprit: int) -> History:
    """Write a repository with so many commits behind the good one. Commit `culprit`, from 1, is to blame."""
    pins = list[str]()
    if shape is Shape.PINS:
        submodule = path.with_name("submodule")
        pins = _import(submodule, _stream(Shape.LINEAR, _PINS, 0, pins))
    shas = _import(path, _stream(shape, commits, culprit, pins))
    if pins:
        update = ["git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"]
        subprocess.run(update, check=True, cwd=path)
    return History(
        path=path,
        commits=commits,
        good=shas[0],
        bad=shas[-1],
        culprit=shas[culprit],
        has_submodules=bool(pins),
    )


def _import(path: Path, stream: Iterator[str]) -> list[str]:
    """Make a repository of a stream, check out its last commit, and return the ids in the order of their marks."""
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(path)], check=True)
    marks = path / ".git" / "made-marks"
    with subprocess.Popen(
        ["git", "-C", str(path), "fast-import", "--quiet", f"--export-marks={marks}"], stdin=subprocess.PIPE
    ) as importer:
        assert importer.stdin is not None
        for part in stream:
            importer.stdin.write(part.encode())
    if importer.returncode:
        raise RuntimeError(f"{path}: git fast-import failed with {importer.returncode}")
    subprocess.run(["git", "-C", str(path), "reset", "--quiet", "--hard"], check=True)
    sha_of_mark = dict(line.removeprefix(":").split() for line in marks.read_text().splitlines())
    return [sha_of_mark[str(mark)] for mark in range(1, len(sha_of_mark) + 1)]


def range_of_checkout(path: Path, good: str, file: str) -> History:
    """Return the range of a checkout from a revision to its HEAD. One commit of it adds the file.

    Raises `ValueError` where several commits add it, or none, or where it was there before.
    """

    def git(*words: str) -> list[str]:
        ended = subprocess.run(["git", "-C", str(path), *words], check=True, capture_output=True, text=True)
        return ended.stdout.split()

    old, new = git("rev-parse", good, "HEAD")
    added = git("log", "--diff-filter=A", "--format=%H", f"{old}..{new}", "--", file)
    if len(added) != 1 or git("ls-tree", old, "--", file):
        raise ValueError(f"{file}: expected one commit of {good}..HEAD to add it, found {len(added)}")
    commits = int(*git("rev-list", "--count", f"{old}..{new}"))
    return History(path=path, commits=commits, good=old, bad=new, culprit=added[0], file=file)


def _stream(shape: Shape, commits: int, culprit: int, pins: Sequence[str]) -> Iterator[str]:
    """Yield a stream for `git fast-import`. The pin of the submodule moves to each of `pins`, if there are any."""
    modules = {".gitmodules": '[submodule "submodule"]\n\tpath = submodule\n\turl = ../submodule\n'}
    yield _commit(1, (), {"n": "0", "state": "0"} | (modules if pins else {}), pin=pins[0] if pins else None)
    for place in range(1, commits + 1):
        parents = _parents(place, commits) if shape is Shape.MERGES else (place,)
        # A merge brings in what its branch changed.
        changed = [place] if len(parents) == 1 else range(place - _BRANCH + 1, place)
        files = {name: text for each in changed for name, text in _changes(shape, each).items()}
        if place == culprit:
            files["broken"] = "yes"
        moved, rest = divmod(place * _PINS, commits)
        pin = pins[moved] if pins and rest < _PINS else None
        yield _commit(place + 1, parents, files, pin=pin)
    yield "done\n"


def _changes(shape: Shape, place: int) -> dict[str, str]:
    """Return the files that a commit changes, with their new contents."""
    own = {f"files/{place % _FILES}": str(place)}
    match shape:
        case Shape.HOT_FILE:
            return {"n": str(place)}
        case Shape.TOGGLE:
            # With a file of its own beside it, no commit has the content of another.
            return {"state": str(place % _STATES), **own}
        case _:
            return own


def _parents(place: int, commits: int) -> tuple[int, ...]:
    """Return the marks of the parents of commit `place`, from 1. Its own mark is `place + 1`.

    Of seven commits the first four are a line, the next two a branch of its first one, and the last one merges them.
    """
    block, step = divmod(place - 1, _PERIOD)
    first = block * _PERIOD + 2
    if (block + 1) * _PERIOD > commits:
        return (place,)
    if step == _PERIOD - _BRANCH:
        return (first,)
    return (place - _BRANCH + 1, place) if step == _PERIOD - 1 else (place,)


def _commit(mark: int, parents: tuple[int, ...], files: dict[str, str], *, pin: str | None) -> str:
    message = f"change {mark}"
    lines = [
        "commit refs/heads/main",
        f"mark :{mark}",
        f"committer Made Up <made@example.org> {_START + 60 * mark} +0000",
        f"data {len(message)}",
        message,
    ]
    for word, parent in zip(("from", *["merge"] * len(parents)), parents, strict=False):
        lines.append(f"{word} :{parent}")
    for name, text in files.items():
        lines += [f"M 100644 inline {name}", f"data {len(text)}", text]
    if pin is not None:
        lines.append(f"M 160000 {pin} submodule")
    return "\n".join(lines) + "\n"
