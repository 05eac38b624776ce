"""The real `git bisect`, driven on histories made for it."""

import re
import subprocess
from pathlib import Path

from tests.bisect.search.search_histories import Parents

_LEGACY_HELPER = "git-bisect--helper"


class GitBisect:
    """A repository with the given candidates above one good commit, and git's own choice in any state."""

    def __init__(self, folder: Path, parents: Parents, times: list[int]) -> None:
        self.folder = folder
        self._git("init", "-q", str(folder))
        stream = [_commit(mark=1, parents=[], time=0)]
        stream += [
            _commit(mark=commit + 2, parents=[parent + 2 for parent in those] or [1], time=times[commit])
            for commit, those in enumerate(parents)
        ]
        stream.append(f"reset refs/heads/main\nfrom :{len(parents) + 1}\n")
        self._git("fast-import", "--quiet", "--export-marks=marks", text="".join(stream))
        marks = dict(line[1:].split() for line in (folder / "marks").read_text().splitlines())
        self.good, *self.commits = [marks[str(mark + 1)] for mark in range(len(parents) + 1)]
        self._git("symbolic-ref", "HEAD", "refs/heads/main")
        self._git("bisect", "start", "--no-checkout", self.commits[-1], self.good)
        self._refs = folder / ".git" / "refs" / "bisect"
        self._told = {ref.name for ref in self._refs.iterdir()}
        legacy = Path(self._git("--exec-path").strip()) / _LEGACY_HELPER
        self._next = ["bisect--helper", "next"] if legacy.exists() else ["bisect", "next"]

    def choice(self, bad: int, goods: frozenset[int], skips: frozenset[int]) -> int | None:
        """The commit that git would test next; None if it is done, or only skipped commits are left."""
        refs = {"bad": self.commits[bad], f"good-{self.good}": self.good}
        refs |= {f"good-{self.commits[commit]}": self.commits[commit] for commit in goods}
        refs |= {f"skip-{self.commits[commit]}": self.commits[commit] for commit in skips}
        for name in self._told - set(refs):
            (self._refs / name).unlink()
        for name, commit in refs.items():
            if name == "bad" or name not in self._told:
                (self._refs / name).write_text(commit + "\n")
        self._told = set(refs)
        said = self._git(*self._next, check=False)
        chosen = re.search(r"^\[([0-9a-f]{40})\]", said, re.MULTILINE)
        assert chosen or "first bad commit" in said or "We cannot bisect more" in said, said
        return self.commits.index(chosen[1]) if chosen else None

    def run(self, outcome_codes: list[int]) -> int:
        """How many times `git bisect run` runs its script, which exits with the code of the commit."""
        self._git("bisect", "reset")
        codes = self.folder / "codes"
        codes.write_text(
            "".join(f"{c} {code}\n" for c, code in zip(self.commits, outcome_codes, strict=True))
        )
        ran = self.folder / "ran"
        ran.write_text("")
        self._git("bisect", "start", "--no-checkout", self.commits[-1], self.good)
        script = (
            'commit=$(git rev-parse BISECT_HEAD); echo "$commit" >> ran; '
            'while read -r known code; do [ "$known" = "$commit" ] && exit "$code"; done < codes; exit 255'
        )
        self._git("bisect", "run", "sh", "-c", script, check=False)
        return len(ran.read_text().split())

    def listing(self, bad: int, goods: frozenset[int]) -> list[int]:
        """`git rev-list` of the suspects, newest first."""
        excluded = [self.good, *(self.commits[commit] for commit in goods)]
        listed = self._git("rev-list", self.commits[bad], "--not", *excluded).split()
        return [self.commits.index(commit) for commit in listed]

    def _git(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        environment = {
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "PATH": "/usr/bin:/bin",
            "LC_ALL": "C",
        }
        where = self.folder if self.folder.exists() else None
        done = subprocess.run(
            ["git", *arguments],
            cwd=where,
            input=text,
            capture_output=True,
            text=True,
            check=check,
            env=environment,
        )
        return done.stdout


def _commit(*, mark: int, parents: list[int], time: int) -> str:
    """One commit in git's fast-import format. All trees are empty; the message tells commits apart."""
    who = f"A U Thor <author@example.com> {1_700_000_000 + time} +0000"
    message = f"commit {mark}\n"
    lines = [f"commit refs/heads/b{mark}", f"mark :{mark}", f"author {who}", f"committer {who}"]
    lines += [f"data {len(message)}", message]
    lines += [f"{'merge' if index else 'from'} :{parent}" for index, parent in enumerate(parents)]
    return "\n".join(lines) + "\n"
