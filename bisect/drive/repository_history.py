"""Answers a bisection's questions about the history of its repositories, from the private clones.

The last functions explain what a merge base means that is run in place of an end on another branch. It may not behave
as that end does, or it may not be judgeable.
"""

from collections.abc import Iterable
from dataclasses import replace

from ...runner.errors import EndsError, UndecidedError
from ...runner.git import GitRepository, commits_with_same_change
from ...runner.overlays import find_applicable_commits, list_patches
from ...runner.pins import NoPinError, Revisions
from ...runner.stack import Overlay
from ...runner.workspace.content import StackContent
from ...runner.workspace.slot import MissingCommitError, Workspace
from ...store.tables import ProbeRow
from ...store.vocabulary import Judgement, Seeks, Verdict, verdict_words
from ..ask.question import BisectRequest, moved_pins, pin_records
from ..engine.conclusion import PinRecord
from ..engine.probes import Target
from ..history.loader import blamed_file, find_check_change, load_range, read_commits
from ..history.questions import (
    AskApplies,
    AskBlamedFile,
    AskCheckChange,
    AskFirstParents,
    AskMergeBase,
    AskMovedPins,
    AskPatches,
    AskPins,
    AskRange,
    AskSameChange,
    AskTarget,
    CheckChange,
    FirstParents,
    HistoryAnswer,
    HistoryQuestion,
    MovedPin,
)
from ..history.range import LoadedRange
from ..search.testability import BlamedFile


class HistoryReader:
    """Reads histories for one request."""

    def __init__(
        self,
        request: BisectRequest,
        *,
        workspace: Workspace,
        content: StackContent,
        revisions: Revisions,
        planned: LoadedRange | None = None,
    ) -> None:
        """`planned` is the range of the request, where it was loaded before."""
        self._request = request
        self._planned = planned
        self._workspace = workspace
        self._content = content
        self._revisions = revisions
        self._loaded: dict[int, LoadedRange] = {}
        """The ranges that were loaded so far, by their ordinals."""

    def answer(self, question: HistoryQuestion) -> HistoryAnswer:
        """Return the answer to any question. Raises `UserError` where the history does not hold what is needed."""
        match question:
            case AskRange():
                return self._range(question)
            case AskBlamedFile():
                return self._blamed_file(question)
            case AskTarget():
                return self._target(question)
            case AskFirstParents():
                return first_parents(self._clone(question.repository), question.commit)
            case AskMovedPins():
                return self._moved_pins(question)
            case AskCheckChange():
                return self._check_change(question)
            case AskMergeBase():
                return self._merge_base(question)
            case AskPatches() | AskApplies() | AskSameChange():
                return self._patches(question)
            case AskPins():
                return self._pins(question)

    def revisions_of(self, target: Target) -> dict[str, str]:
        """Return the commit of every repository that goes with a target. Raises `NoPinError`."""
        return self._revisions.complete({**target.held, target.repository: target.commit})

    def _clone(self, repository: str) -> GitRepository:
        return self._workspace.clones[repository]

    def _range(self, question: AskRange) -> LoadedRange | None:
        where = question.range
        if self._planned is not None and self._planned.range == where:
            loaded = self._planned
            self._content.learn(where.repository, loaded.commits)
            self._revisions.learn(where.repository, loaded.commits)
        else:
            clone = self._clone(where.repository)
            loaded = load_range(
                where,
                read_commits(where, clone),
                repository=clone,
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
            content = self._content.revisions_key(revisions)
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

    def _check_change(self, question: AskCheckChange) -> CheckChange | None:
        case, script = self._request.stack.case, self._request.script
        if script is None or any(over.covers(str(script.path)) for over in self._overlays(case.repository)):
            return None
        clone = self._clone(case.repository)
        return find_check_change(clone, script.path, case.yardstick, old=question.old, new=question.new)

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
                return tuple(list_patches(revisions, question.repository))
            case AskApplies():
                return find_applicable_commits(
                    self._clone(question.repository), question.change, question.commits
                )
            case AskSameChange():
                return commits_with_same_change(
                    self._clone(question.repository), question.commit, question.among
                )

    def _pins(self, question: AskPins) -> tuple[PinRecord, ...]:
        return pin_records(
            self._request.stack,
            self._revisions.pins,
            good=self.revisions_of(question.good),
            bad=self.revisions_of(question.bad),
            frozen=self._request.frozen,
        )


def first_parents(repository: GitRepository, commit: str) -> FirstParents:
    """Return a commit and its first parents in order."""
    line = repository.first_parents(commit)
    return FirstParents(commits=tuple(line), is_whole=line[-1] not in repository.boundary)


def undecidable_merge_base(request: BisectRequest, probes: Iterable[ProbeRow]) -> UndecidedError | None:
    """Return the error that the merge base cannot be judged, so the side of the change is unknown.

    Return None where the merge base can be judged.
    """
    base = request.range.old
    judged = [probe for probe in probes if probe.commit == base]
    if not request.parted or not judged or judged[-1].judgement is not Judgement.SKIP:
        return None
    other, found = request.parted[0], judged[-1]
    old, new = ("good", "bad") if request.seeks is Seeks.REGRESSION else ("bad", "good")
    shown = verdict_words(found.verdict or Verdict.UNKNOWN, found.signature, found.verdict_source)
    return UndecidedError(
        f"the merge base {base[:12]} of {old} {other[:12]} and {new} {request.range.new[:12]} cannot be judged "
        f"({shown}): on which side the change lies is unknown; mend that and resume, or name a commit between "
        f"{base[:12]} and {request.range.new[:12]} as --{old}"
    )


def merge_base_finding(request: BisectRequest, probes: Iterable[ProbeRow]) -> EndsError | None:
    """Return the error that the change lies on the other branch. Return None where the merge base
    does not show that."""
    regression = request.seeks is Seeks.REGRESSION
    base = request.range.old
    unlike = Judgement.BAD if regression else Judgement.GOOD
    if not request.parted or not any(probe.commit == base and probe.judgement is unlike for probe in probes):
        return None
    other = request.parted[0]
    old, new, does, what = (
        ("good", "bad", "fails", "fixed") if regression else ("bad", "good", "passes", "introduced")
    )
    ends = f"--find-fix --bad {base} --good {other}" if regression else f"--good {base} --bad {other}"
    return EndsError(
        f"the merge base {base[:12]} of {old} {other[:12]} and {new} {request.range.new[:12]} {does} too: it was "
        f"{what} on the side of {other[:12]}; to find by which commit, ask with {ends}"
    )
