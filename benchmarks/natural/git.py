"""The same regression put to `git bisect run`, with a script that answers the same question."""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.natural.answer import Answer
from benchmarks.natural.regression import Regression

_FIRST = re.compile(r"^([0-9a-f]{40}) is the first (?:new|bad) commit", re.MULTILINE)
_LEFT = re.compile(r"^The first (?:new|bad) commit could be any of:\n((?:[0-9a-f]{40}\n)+)", re.MULTILINE)
_JUDGED = re.compile(r"^git bisect (new|old|bad|good|skip) ", re.MULTILINE)
_REVERSED = """
"$@"
case $? in 0) exit 1 ;; 125) exit 125 ;; [0-9] | [1-9][0-9] | 1[01][0-9] | 12[0-4]) exit 0 ;; *) exit 255 ;; esac
"""
"""For a fix, the state that is sought is that the check passes."""


def ask_git(regression: Regression, clone: Path, check: Sequence[str]) -> Answer:
    """Bisect in a worktree-less copy of `clone`, which is thrown away. The ends are believed, as git does.

    Raises `RuntimeError` where git stops without an answer.
    """
    fix = regression.seeks == "fix"
    old, new = (regression.bad, regression.good) if fix else (regression.good, regression.bad)
    script = ["sh", "-c", _REVERSED, "check", *check] if fix else [*check]
    with tempfile.TemporaryDirectory(prefix="natural-git-") as folder:
        _git(clone.parent, "clone", "--quiet", "--shared", "--no-checkout", str(clone), folder)
        commits = int(_git(Path(folder), "rev-list", "--count", f"{old}..{new}"))
        begun = perf_counter()
        _git(Path(folder), "bisect", "start", "--term-old=old", "--term-new=new", new, old)
        said = _git(Path(folder), "bisect", "run", *script, stops=True)
        minutes = (perf_counter() - begun) / 60
        judged = _JUDGED.findall(_git(Path(folder), "bisect", "log"))
    first, left = _FIRST.search(said), _LEFT.search(said)
    if first is None and left is None:
        raise RuntimeError(f"{regression.name}: expected an answer of git bisect, found: {said[-400:]}")
    return Answer(
        named=(first[1],) if first else (),
        left=len(left[1].split()) if left and not first else 0,
        runs=len(judged),
        untestable=judged.count("skip"),
        builds=None,
        minutes=minutes,
        layers=(regression.repository.split("/")[1],),
        commits=commits,
    )


def _git(folder: Path, *arguments: str, stops: bool = False) -> str:
    """What git prints; `stops`: it may end with another exit code than 0."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode and not stops:
        raise RuntimeError(f"git {arguments[0]}: {done.stdout.strip()}")
    return done.stdout
