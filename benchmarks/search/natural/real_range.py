"""A recorded range as a bisection reads it, and what its errors are and blame."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np

from benchmarks.search.natural.recorded import RecordedRange
from precision_bisect.bisect.history.questions import AskBlamedFile
from precision_bisect.bisect.history.range import LoadedRange, Range, collapse
from precision_bisect.bisect.search.graph import NO_WINDOWS, CommitGraph
from precision_bisect.bisect.search.testability import BlamedFile
from precision_bisect.runner.verdict.rules import CompilerError, compiler_error, compiler_errors
from precision_bisect.store.vocabulary import Commit


@dataclass(frozen=True, eq=False)
class RealRange:
    """A recorded range. With `folded`, commits that read the same are one candidate, as the product has it; without,
    each is one, as git has it."""

    recorded: RecordedRange
    folded: bool = True

    @cached_property
    def loaded(self) -> LoadedRange:
        """The range as a bisection reads it."""
        recorded = self.recorded
        commits = [
            Commit(
                sha=each.sha,
                parents=each.parents,
                author="",
                email="",
                date=datetime.fromtimestamp(each.time, UTC),
                subject="",
                changes=(),
            )
            for each in recorded.commits
        ]
        known = {each.sha: each.content for each in recorded.commits} | {recorded.good: recorded.good_content}
        collapsed = collapse(commits, lambda sha: known.get(sha, sha) if self.folded else sha)
        assert collapsed is not None
        # Each candidate is a target of its own: a culprit is planted that changes none of what was recorded.
        contents = {member.sha: node.commit.sha for node in collapsed.nodes for member in node.members}
        contents |= {commit.sha: recorded.good for commit in collapsed.good_side}
        return LoadedRange(
            range=Range(repository="recorded", old=recorded.good, new=commits[-1].sha, held={}),
            commits=tuple(commits),
            contents=contents,
            old_content=recorded.good,
            new_content=contents[commits[-1].sha],
            commit_range=collapsed,
            graph=CommitGraph(collapsed.parents, [node.commit.date.timestamp() for node in collapsed.nodes]),
            windows=NO_WINDOWS,
        )

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where each commit stands in the record; the good end last."""
        places = {each.sha: place for place, each in enumerate(self.recorded.commits)}
        return {**places, self.recorded.good: len(places)}

    @cached_property
    def untestable(self) -> frozenset[int]:
        """The candidates that cannot be tested."""
        commits = self.recorded.commits
        return frozenset(
            node for node, sha in enumerate(self.loaded.candidates) if commits[self._places[sha]].errors
        )

    @cached_property
    def culprits(self) -> tuple[int, ...]:
        """The candidates that could be told: they and their parents can be tested."""
        parents = self.loaded.graph.parents
        return tuple(node for node in range(len(parents)) if not self.untestable & {node, *parents[node]})

    def errors(self, sha: str) -> tuple[CompilerError, ...]:
        """The errors at a commit."""
        return compiler_errors(self.recorded.commits[self._places[sha]].errors)

    def blamed_file(self, question: AskBlamedFile) -> BlamedFile | None:
        """What git told when the range was recorded."""
        commit = self.recorded.commits[self._places[question.commit]]
        blamed = {
            error: place
            for line, place in zip(commit.errors, commit.blamed, strict=True)
            if (error := compiler_error(line)) is not None
        }
        place = blamed.get(question.error)
        if place is None:
            return None
        file = self.recorded.files[place]
        commits = [self._places[sha] for sha in (*question.candidates, self.recorded.good)]
        versions = np.array(file.of_commit)[commits]
        fails = None if file.fails is None else np.array(file.fails)[versions]
        return BlamedFile(file.path, versions, fails)
