"""Write a planned history into a git repository: one `git fast-import` process, then a checkout of `main`."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .edit import Tree
from .history import PlannedCommit

BRANCH = "main"


class FastImportError(RuntimeError):
    """git refused; the message holds its last words."""


def git(directory: Path, *arguments: str, stdin: bytes = b"") -> str:
    """Run git in a directory, untouched by the user's configuration and by any surrounding repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=environment, input=stdin, capture_output=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise FastImportError(
            f"git {arguments[0]} failed in {directory} with exit code {done.returncode}: {said}"
        )
    return done.stdout.decode()


def write_repository(directory: Path, commits: Sequence[PlannedCommit]) -> tuple[str, ...]:
    """Make a repository with `main` at the last commit, checked out; returns the ids of all commits."""
    directory.mkdir(parents=True)
    git(directory, "init", "--quiet", f"--initial-branch={BRANCH}")
    marks = directory / ".git" / "demo-marks"
    git(directory, "fast-import", "--quiet", f"--export-marks={marks}", stdin=b"".join(_stream(commits)))
    ids = {int(mark[1:]): commit for mark, commit in map(str.split, marks.read_text().splitlines())}
    marks.unlink()
    git(directory, "reset", "--quiet", "--hard")
    return tuple(ids[_mark(index)] for index in range(len(commits)))


def _stream(commits: Sequence[PlannedCommit]) -> Iterator[bytes]:
    for index, commit in enumerate(commits):
        who = f"{commit.author.name} <{commit.author.email}> {commit.time} {commit.author.zone}"
        yield f"commit refs/heads/{BRANCH}\nmark :{_mark(index)}\nauthor {who}\ncommitter {who}\n".encode()
        yield _data(commit.message)
        parents = [f":{_mark(parent)}" for parent in commit.parents]
        if parents:
            yield f"from {parents[0]}\n".encode()
        for parent in parents[1:]:
            yield f"merge {parent}\n".encode()
        before = commits[commit.parents[0]] if parents else None
        yield from _changes(before.tree if before else {}, commit.tree)
        links: Mapping[str, str] = before.gitlinks if before else {}
        for path, target in commit.gitlinks.items():
            if links.get(path) != target:
                yield f"M 160000 {target} {path}\n".encode()
        yield b"\n"


def _changes(before: Tree, after: Tree) -> Iterator[bytes]:
    for path in sorted(before.keys() - after.keys()):
        yield f"D {path}\n".encode()
    for path, text in sorted(after.items()):
        if before.get(path) != text:
            yield f"M 100644 inline {path}\n".encode()
            yield _data(text)


def _data(text: str) -> bytes:
    payload = text.encode()
    return b"data %d\n%s\n" % (len(payload), payload)


def _mark(index: int) -> int:
    return index + 1
