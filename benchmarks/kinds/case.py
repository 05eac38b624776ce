"""The cases: what each commit of a range is, and which one is to blame. `cases.txt` holds them, a line a case.

- `fault`: the fault is there, and shows in each run; `fault@0.4`: it shows in four runs of ten.
- `fault+import`: another failure stands before or beside the fault.
- `good+import@0.5`: the other failure is flaky.
- `*12` behind a commit: twelve such commits.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from benchmarks.kinds.project import FOLDER

Expected = Literal["named", "list", "undecidable"]
_COMMIT = re.compile(
    r"(?P<base>[a-z-]+)(@(?P<rate>[\d.]+))?(\+(?P<other>[a-z-]+)(@(?P<other_rate>[\d.]+))?)?"
)


@dataclass(frozen=True)
class Commit:
    """What is there without the other failure, the other failure, and in which share of the runs each shows."""

    base: str
    rate: float = 1.0
    other: str | None = None
    other_rate: float = 1.0

    def __str__(self) -> str:
        rate = "" if self.rate == 1 else f"@{self.rate:g}"
        other_rate = "" if self.other_rate == 1 else f"@{self.other_rate:g}"
        return f"{self.base}{rate}" + (f"+{self.other}{other_rate}" if self.other else "")

    @property
    def state(self) -> str:
        """The name of the commit's sources."""
        return f"{self.base}+{self.other}" if self.other else self.base

    def draws(self) -> list[tuple[str, float]]:
        """The states that a run may show, each with its probability."""
        shown = self.other_rate if self.other else 0.0
        parts = [(self.base, self.rate), ("good", 1 - self.rate)]
        plain = [(name, share * (1 - shown)) for name, share in parts]
        hidden = [(f"{name}+{self.other}", share * shown) for name, share in parts]
        return [(name, share) for name, share in plain + hidden if share > 0]

    def without_other(self) -> "Commit":
        return Commit(self.base, self.rate)


def parse_commit(text: str) -> Commit:
    found = _COMMIT.fullmatch(text)
    if found is None:
        raise ValueError(f"cases.txt: expected a commit such as fault@0.4+import, found {text!r}")
    return Commit(found["base"], float(found["rate"] or 1), found["other"], float(found["other_rate"] or 1))


@dataclass(frozen=True)
class Case:
    """`flags`: how the script is called, and what it does with its output (see `draw.py`)."""

    name: str
    project: str
    shape: str
    flags: frozenset[str]
    culprit: int
    expected: Expected
    commits: Sequence[Commit]

    def twin(self) -> "Case":
        """The same range without any other failure."""
        commits = [commit.without_other() for commit in self.commits]
        return Case(f"{self.name}.twin", self.project, "twin", self.flags, self.culprit, "named", commits)

    def line(self) -> str:
        runs = [f"{text}*{len([*same])}" for text, same in groupby(map(str, self.commits))]
        flags = ",".join(sorted(self.flags)) or "-"
        fields = (
            self.name,
            self.project,
            self.shape,
            flags,
            str(self.culprit),
            self.expected,
            " ".join(runs),
        )
        return " | ".join(fields)


def parse_case(line: str) -> Case:
    name, project, shape, flags, culprit, expected, runs = line.split(" | ")
    if expected not in ("named", "list", "undecidable"):
        raise ValueError(f"cases.txt, {name}: expected named, list or undecidable, found {expected!r}")
    commits: list[Commit] = []
    for run in runs.split():
        text, count = run.split("*")
        commits += [parse_commit(text)] * int(count)
    kept = frozenset[str]() if flags == "-" else frozenset(flags.split(","))
    return Case(name, project, shape, kept, int(culprit), expected, commits)


def read_cases() -> list[Case]:
    lines = (FOLDER / "cases.txt").read_text(encoding="utf-8").splitlines()
    return [parse_case(line) for line in lines if line and not line.startswith("#")]
