"""A case as a git repository, with the script that a user would bisect with."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kinds.case import Case
from benchmarks.kinds.project import FOLDER, Project, read_recordings

_SOURCES = {".py", ".c", ".cc", ".cpp", ".h", ".rs", ".go", ".js", ".ts", ".java", ".rb", ".sh", ".sv"}
"""A blank line at the end of such a file changes nothing that its tool prints."""
_BEGIN = 1_760_000_000
"""The time of the first commit, in seconds of Unix."""


@dataclass(frozen=True)
class History:
    """`commits` go from the good end to the bad one. `command` is run in `repository`, and leaves a line in `log`."""

    repository: Path
    commits: Sequence[str]
    command: Sequence[str]
    log: Path

    def take_runs(self) -> list[str]:
        """The states that were run since the last call."""
        runs = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return runs


def build_history(case: Case, project: Project, folder: Path) -> History:
    repository, log, data = folder / project.name, folder / "runs.log", folder / "case.json"
    settings = {
        "seed": case.name,
        "log": str(log),
        "flags": sorted(case.flags),
        "recordings": read_recordings(project.name),
    }
    data.write_text(json.dumps(settings), encoding="utf-8")
    python = os.path.realpath(sys.executable)
    script = f"#!/bin/sh\nexec {python} -I -S {FOLDER / 'replay.py'} {data}\n"
    outside = "outside" in case.flags
    if outside:
        (folder / "check.sh").write_text(script, encoding="utf-8")
        (folder / "check.sh").chmod(0o755)
    stream = b"".join(_commit_stream(case, project, None if outside else script))
    git(folder, "init", "--quiet", "--initial-branch=main", str(repository))
    git(repository, "fast-import", "--quiet", stdin=stream)
    git(repository, "reset", "--quiet", "--hard", "main")
    commits = git(repository, "rev-list", "--reverse", "main").split()
    return History(repository, commits, ["../check.sh" if outside else "./check.sh"], log)


def _commit_stream(case: Case, project: Project, script: str | None) -> list[bytes]:
    """What `git fast-import` reads. Each commit has its state's sources, and a change that causes nothing."""
    chance = random.Random(case.name.removesuffix(".twin"))
    blank_lines: dict[str, int] = {}
    before: dict[str, str] = {}
    stream: list[bytes] = []
    for i, commit in enumerate(case.commits):
        tree = project.tree(commit.state)
        edited = chance.choice(sorted(project.files))
        if Path(edited).suffix in _SOURCES:
            blank_lines[edited] = blank_lines.get(edited, 0) + 1
        tree = {path: text + "\n" * blank_lines.get(path, 0) for path, text in tree.items()}
        tree["docs/changes.md"] = f"# Changes\n\n- part {i}, of {chance.randrange(10**6)}\n"
        tree["state"] = json.dumps({"number": i, "draws": commit.draws()}) + "\n"
        if script:
            tree["check.sh"] = script
        when = f"A Developer <dev@example.com> {_BEGIN + 3600 * i} +0000"
        lines = [f"commit refs/heads/main\nmark :{i + 1}\nauthor {when}\ncommitter {when}\n".encode()]
        lines.append(_data(f"Work on part {i}\n"))
        if i:
            lines.append(f"from :{i}\n".encode())
        for path, text in tree.items():
            if before.get(path) != text:
                mode = "100755" if path == "check.sh" else "100644"
                lines.append(f"M {mode} inline {path}\n".encode() + _data(text))
        lines += [f"D {path}\n".encode() for path in before if path not in tree]
        stream += lines
        before = tree
    return stream


def _data(text: str) -> bytes:
    data = text.encode()
    return f"data {len(data)}\n".encode() + data + b"\n"


def git(folder: Path, *arguments: str, stdin: bytes | None = None, check: bool = True) -> str:
    """What git prints. Raises `CalledProcessError` where it fails, unless `check` is off."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=check,
    )
    return done.stdout.decode(errors="replace")
