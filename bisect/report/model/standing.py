"""Which finished probes speak for which commits of a range."""

from collections.abc import Sequence
from functools import cached_property

from ....store.tables.bisections import ProbeRow, StageRow
from ....store.vocabulary import Phase


class Standing:
    """A range with its runs. A commit is known by the one that stands for it, whose content it has."""

    def __init__(self, stage: StageRow, probes: Sequence[ProbeRow]) -> None:
        self.stage = stage
        self._probes = probes
        self._candidates = {candidate.commit.sha: candidate for candidate in stage.candidates}

    def of(self, sha: str) -> str:
        """The commit that stands for another: the first of its content, which may lie outside of the range."""
        while (candidate := self._candidates.get(sha)) is not None:
            if candidate.representative is not None:
                return candidate.representative.sha
            sha = candidate.commit.parents[0]
        return sha

    def __contains__(self, sha: str) -> bool:
        return sha in self._candidates

    @cached_property
    def members(self) -> dict[str, list[str]]:
        """The commits of the range by the commit that stands for them, parents before children. Of those that it stands
        for only because they touch none of the search's paths, none."""
        members: dict[str, list[str]] = {}
        for sha, candidate in self._candidates.items():
            first = self.of(sha)
            if first not in self or candidate.content == self.content(first):
                members.setdefault(first, []).append(sha)
        return members

    @cached_property
    def untestable(self) -> list[str]:
        """The commits of the range that pin no submodule, so that there is nothing to run."""
        return [sha for sha, candidate in self._candidates.items() if candidate.content is None]

    def content(self, sha: str) -> str | None:
        """The content of a commit of the range; None where it pins no submodule, so that there is nothing to run."""
        return self._candidates[sha].content

    def content_of(self, sha: str) -> str | None:
        """The content of a commit of the range, or of its old end; None where it is neither, or is not known."""
        if sha == self.stage.old:
            return self.old_content or None
        return self.content(sha) if sha in self else None

    @cached_property
    def old_content(self) -> str:
        """The content of the old end; in stores of earlier versions that of its runs and of the commits that it stands
        for, empty where there are none."""
        if self.stage.old_content is not None:
            return self.stage.old_content
        run = [probe.content for probe in self._probes if self._tested(probe) == self.stage.old]
        stood_for = [
            candidate.content or ""
            for sha, candidate in self._candidates.items()
            if self.of(sha) == self.stage.old
        ]
        return next(iter([*run, *stood_for]), "")

    def runs_of(self, sha: str) -> Sequence[ProbeRow]:
        """The finished probes that speak for a commit."""
        return self.runs.get(self.of(sha), [])

    @cached_property
    def runs(self) -> dict[str, list[ProbeRow]]:
        """The finished probes that speak for each standing commit, in the order they were started.

        Equal content is one experiment: runs that were made for another commit, or another range, count too.
        """
        contents: dict[str, set[str]] = {}
        for sha, candidate in self._candidates.items():
            if candidate.content is not None:
                contents.setdefault(self.of(sha), set()).add(candidate.content)
        if self.stage.old_content is not None:
            contents.setdefault(self.stage.old, set()).add(self.stage.old_content)
        for probe in self._probes:
            sha = self._tested(probe)
            if sha is not None and sha not in self:
                contents.setdefault(sha, set()).add(probe.content)
        runs = {
            sha: [probe for probe in self._probes if probe.content in of_commit]
            for sha, of_commit in contents.items()
        }
        return {sha: probes for sha, probes in runs.items() if probes}

    @cached_property
    def runs_where_made(self) -> dict[str, list[ProbeRow]]:
        """The same, but each probe once: at the commit that it ran, or the first of its content where that is none of
        this range. A commit that was not run itself has none."""
        made: dict[int, str] = {}
        for sha, probes in self.runs.items():
            for probe in probes:
                tested = self._tested(probe)
                if probe.ordinal not in made or (tested is not None and self.of(tested) == sha):
                    made[probe.ordinal] = sha
        runs = {
            sha: [probe for probe in probes if made[probe.ordinal] == sha]
            for sha, probes in self.runs.items()
        }
        return {sha: probes for sha, probes in runs.items() if probes}

    def _tested(self, probe: ProbeRow) -> str | None:
        """The commit of this repository that a probe had checked out, with all that is held for the range."""
        stage = self.stage
        if probe.stage_id == stage.id:
            return probe.commit if probe.phase.is_as_asked else None
        if probe.phase is Phase.PERTURBED:
            return None
        if stage.held and all(probe.revisions.get(name) == sha for name, sha in stage.held.items()):
            return probe.revisions.get(stage.repository)
        return None

    def parents(self, sha: str) -> list[str]:
        """The parents of a commit of the range, those outside of it included."""
        return self._candidates[sha].commit.parents

    def ancestors(self, sha: str) -> set[str]:
        """The commits of the range that a commit builds on, itself included."""
        seen: set[str] = set()
        todo = [sha]
        while todo:
            commit = todo.pop()
            if commit in self and commit not in seen:
                seen.add(commit)
                todo.extend(self.parents(commit))
        return seen
