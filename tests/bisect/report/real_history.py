"""Small real histories, searched by hand, with the rows that a driver would have left."""

import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from precision_bisect.store.vocabulary import Commit, Phase, Verdict
from tests.bisect.report.stored_bisection import StoredBisection, pinned_revisions
from tests.conftest import TestRepository

GOOD_END = -1


@dataclass(frozen=True, kw_only=True)
class History:
    """Candidates 0..n-1 above one good commit, parents first; `contents` are equal where results must be."""

    repository: TestRepository
    good: str
    commits: list[str]
    parents: list[list[int]]
    contents: list[int]

    @classmethod
    def make(cls, repository: TestRepository, parents: list[list[int]], contents: list[int]) -> "History":
        """Commit it. An empty list of parents means the good commit."""
        good = repository.commit("good", {"file": "0"})
        tree = repository.git("rev-parse", "HEAD^{tree}")
        commits: list[str] = []
        for index, those in enumerate(parents):
            above = [word for parent in those for word in ("-p", commits[parent])] or ["-p", good]
            commits.append(repository.git("commit-tree", tree, *above, "-m", f"candidate {index}"))
        repository.git("update-ref", "refs/heads/main", commits[-1])
        return cls(repository=repository, good=good, commits=commits, parents=parents, contents=contents)

    def ancestors(self, index: int) -> set[int]:
        return {index}.union(*(self.ancestors(parent) for parent in self.parents[index]))

    def standing(self, index: int) -> int:
        """Folded into its only parent where contents are equal."""
        below = self.parents[index] or [GOOD_END]
        if len(below) == 1 and self.contents[index] == (
            0 if below[0] == GOOD_END else self.contents[below[0]]
        ):
            return GOOD_END if below[0] == GOOD_END else self.standing(below[0])
        return index

    def store(self, folder: Path) -> tuple[StoredBisection, int]:
        """The bisection's rows, with its one range."""
        stored = StoredBisection(folder, good=self.good, bad=self.commits[-1])
        stands = [self.standing(index) for index in range(len(self.commits))]
        rows = [
            (self._row(index), None if stand == GOOD_END else self.commits[stand])
            for index, stand in enumerate(stands)
        ]
        return stored, stored.stage(rows, good=self.good, bad=self.commits[-1])

    def _row(self, index: int) -> Commit:
        return Commit(
            sha=self.commits[index],
            parents=tuple(self.commits[parent] for parent in self.parents[index]) or (self.good,),
            author="Ada Example",
            email="ada@example.com",
            date=datetime(2026, 3, 4, tzinfo=UTC),
            subject=f"candidate {index}",
            changes=(),
        )

    def replay(self, log: str) -> str:
        """What git says at the end of `git bisect replay`."""
        file = self.repository.path / "log"
        file.write_text(log)
        done = subprocess.run(
            ["git", "-C", str(self.repository.path), "bisect", "replay", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr


def random_history(repository: TestRepository, rng: random.Random) -> History:
    """A dozen commits with merges, about a third of which change docs alone."""
    n = rng.randrange(4, 13)
    parents: list[list[int]] = []
    for index in range(n):
        kind = rng.random()
        recent = list(range(max(0, index - 4), index))
        parents.append(
            sorted(rng.sample(recent, min(len(recent), 2 if kind < 0.3 else 1))) if kind < 0.9 else []
        )
    loose = set(range(n - 1)).difference(*parents)
    parents[-1] = sorted({*parents[-1], *loose})
    contents: list[int] = []
    for index, those in enumerate(parents):
        kept = len(those) < 2 and index < n - 1 and rng.random() < 0.35
        contents.append((contents[those[0]] if those else 0) if kept else index + 1)
    return History.make(repository, parents, contents)


def search(
    history: History,
    stored: StoredBisection,
    stage: int,
    *,
    culprit: int,
    skips: Sequence[int],
    rng: random.Random,
) -> set[int]:
    """Run the ends, then suspects at random until no run can tell more; the suspects that are left."""

    def run(index: int, phase: Phase) -> None:
        bad = culprit in history.ancestors(index)
        verdict = Verdict.MISMATCH if bad else Verdict.PASS
        verdict = Verdict.BUILD_ERROR if index in skips else verdict
        stored.probe(
            stage, history.commits[index], verdict, phase=phase, revisions=_revisions(history, index)
        )

    end = len(history.commits) - 1
    stored.probe(stage, history.good, Verdict.PASS, phase=Phase.ENDPOINT)
    run(end, Phase.ENDPOINT)
    nodes = {index for index in range(end + 1) if history.standing(index) == index}
    suspects = nodes & history.ancestors(history.standing(end))
    untried = suspects - {history.standing(end)}
    while untried:
        index = rng.choice(sorted(untried))
        untried.discard(index)
        run(index, Phase.SEARCH)
        if index in skips:
            continue
        suspects = (
            suspects & history.ancestors(index)
            if culprit in history.ancestors(index)
            else suspects - history.ancestors(index)
        )
        untried &= suspects - ({index} if index in suspects else set())
    return suspects


def _revisions(history: History, index: int) -> dict[str, str]:
    """Those of the commit that stands for it, as the content is the same."""
    standing = history.standing(index)
    sha = history.good if standing == GOOD_END else history.commits[standing]
    return pinned_revisions(sha)
