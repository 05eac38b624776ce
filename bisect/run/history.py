"""Answers a bisection's questions to the history of its repositories, from the private clones."""

from dataclasses import replace
from typing import Literal

from ...runner.git.cherry_picks import applies_to, patches_in
from ...runner.git.repository import GitRepository
from ...runner.git.revisions import NoPinError, Revisions
from ...runner.git.same_change import making_same_change
from ...runner.stack.parts import Overlay
from ...runner.workspace.content import StackContent
from ...runner.workspace.workspace import MissingCommitError, Workspace
from ..commits.blamed import blamed_file
from ..commits.load import load_range
from ..commits.moved_pin import MovedPin
from ..commits.moved_yardstick import MovedYardstick
from ..commits.range import LoadedRange
from ..commits.yardstick import moved_yardstick
from ..engine.history import (
    AskApplies,
    AskBlamedFile,
    AskFirstParents,
    AskMergeBase,
    AskMovedPins,
    AskPatches,
    AskPins,
    AskRange,
    AskSameChange,
    AskTarget,
    AskYardstick,
    FirstParents,
    HistoryAnswer,
    HistoryQuestion,
)
from ..engine.probes import Target
from ..plan.pins import moved_pins, pin_records
from ..plan.request import BisectRequest
from ..result import PinRecord
from ..search.evidence.blamed_file import BlamedFile

_DAY = 24 * 3600.0


class HistoryReader:
    """Reads histories as one request asks for them."""

    def __init__(
        self, request: BisectRequest, *, workspace: Workspace, content: StackContent, revisions: Revisions
    ) -> None:
        self._request = request
        self._workspace = workspace
        self._content = content
        self._revisions = revisions
        self._loaded: dict[int, LoadedRange] = {}
        """The ranges so far, by their ordinals."""

    def answer(self, question: HistoryQuestion) -> HistoryAnswer:
        """The answer to any question. Raises `UserError` where the history does not hold what is needed."""
        match question:
            case AskRange():
                return self._range(question)
            case AskBlamedFile():
                return self._blamed_file(question)
            case AskTarget():
                return self._target(question)
            case AskFirstParents():
                return first_parents(self._clone(question.repository), question.commit, question.unit)
            case AskMovedPins():
                return self._moved_pins(question)
            case AskYardstick():
                return self._yardstick(question)
            case AskMergeBase():
                return self._merge_base(question)
            case AskPatches() | AskApplies() | AskSameChange():
                return self._patches(question)
            case AskPins():
                return self._pins(question)

    def revisions_of(self, target: Target) -> dict[str, str]:
        """The commit of every repository that goes with a target. Raises `NoPinError`."""
        return self._revisions.complete({**target.held, target.repository: target.commit})

    def _clone(self, repository: str) -> GitRepository:
        return self._workspace.clones[repository]

    def _range(self, question: AskRange) -> LoadedRange | None:
        where = question.range
        loaded = load_range(
            where,
            repository=self._clone(where.repository),
            content=self._content,
            revisions=self._revisions,
        )
        if loaded is None:
            return None
        releases = self._request.stack.repositories[where.repository].releases
        if releases is not None:
            loaded = replace(
                loaded, versions={commit: version for version, commit in releases.commits.items()}
            )
        self._loaded[question.ordinal] = loaded
        return loaded

    def _blamed_file(self, question: AskBlamedFile) -> BlamedFile | None:
        loaded = self._loaded[question.ordinal]
        clone = self._clone(loaded.range.repository)
        return blamed_file(
            loaded, clone, candidates=question.candidates, commit=question.commit, error=question.error
        )

    def _target(self, question: AskTarget) -> Target | None:
        if question.repository == self._request.repository and question.commit in self._request.range.skip:
            return None
        try:
            revisions = self._revisions.complete({**question.held, question.repository: question.commit})
            content = self._content.of_revisions(revisions)
        except (NoPinError, MissingCommitError):
            return None
        return Target(
            repository=question.repository, commit=question.commit, held=question.held, content=content
        )

    def _moved_pins(self, question: AskMovedPins) -> tuple[MovedPin, ...]:
        return tuple(
            moved_pins(
                self._request.stack,
                self._revisions.pins,
                repository=question.repository,
                old=question.old,
                new=question.new,
            )
        )

    def _yardstick(self, question: AskYardstick) -> MovedYardstick | None:
        case, script = self._request.stack.case, self._request.script
        if script is None or any(over.covers(str(script.path)) for over in self._overlays(case.repository)):
            return None
        clone = self._clone(case.repository)
        return moved_yardstick(clone, script.path, case.yardstick, old=question.old, new=question.new)

    def _overlays(self, repository: str) -> tuple[Overlay, ...]:
        return self._request.stack.repositories[repository].overlays

    def _merge_base(self, question: AskMergeBase) -> str | None:
        for sha in (question.one, question.other):
            self._workspace.ensure_commit(question.repository, sha)
        return self._clone(question.repository).merge_base(question.one, question.other)

    def _patches(self, question: AskPatches | AskApplies | AskSameChange) -> tuple[str, ...] | None:
        match question:
            case AskPatches():
                revisions = self._revisions.complete({question.repository: question.commit})
                return tuple(patches_in(revisions, question.repository))
            case AskApplies():
                return applies_to(self._clone(question.repository), question.change, question.commits)
            case AskSameChange():
                return making_same_change(self._clone(question.repository), question.commit, question.among)

    def _pins(self, question: AskPins) -> tuple[PinRecord, ...]:
        return pin_records(
            self._request.stack,
            self._revisions.pins,
            good=self.revisions_of(question.good),
            bad=self.revisions_of(question.bad),
            frozen=self._request.frozen,
        )


def first_parents(repository: GitRepository, commit: str, unit: Literal["commits", "days"]) -> FirstParents:
    """The first parents of a commit, itself first, and how far each lies behind it."""
    line = repository.first_parents(commit)
    shas = tuple(sha for sha, _ in line)
    is_whole = shas[-1] not in repository.boundary
    if unit == "commits":
        places = tuple(float(place) for place in range(len(line)))
        return FirstParents(commits=shas, distances=places, is_whole=is_whole)
    distances: list[float] = []
    for _, seconds in line:
        # Dates may go backwards; distances do not.
        distances.append(max(*distances[-1:], (line[0][1] - seconds) / _DAY, 0.0))
    return FirstParents(commits=shas, distances=tuple(distances), is_whole=is_whole)
