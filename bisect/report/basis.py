"""The stored rows of one bisection, and what they say for and against its answer.

`load_rows` reads all that the store holds of a bisection, once. It also says why an unfinished bisection has not ended.
Commits of equal content share their runs, so each searched range knows which finished probes speak for which commit.
`confidence_basis` says on which runs, which prior and which assumptions the confidence in a culprit rests.
The other functions look for what may mislead. Examples are failures that are not searched for, a culprit that fails
unlike the failing end, and a tolerance between two errors of one size.
"""

import platform
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import inf, sqrt
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from ...runner.errors import UserError
from ...runner.verdict.rules import error_size
from ...runner.verdict.symptoms import Family, Symptoms, lines_of
from ...store.bisections import RangeCandidate, batches, range_candidates
from ...store.database import is_driven
from ...store.durable_files import DocumentError, read_document
from ...store.tables import BisectionRow, CommitRow, DriveRow, ProbeRow, StageRow
from ...store.vocabulary import DriveEnd, Judgement, Phase, ProbeState, Seeks, Verdict, exit_code, plural
from ..ask.question import BisectRequest
from ..drive.driven import place_of_row
from ..engine.answer import Conclusion
from ..search.graph import Ancestry
from .model import CommitReference, ConfidenceBasis, OtherFailure, Reproduction, RunCount, Side
from .phrases import one_line


class SearchedRange:
    """A searched range with its runs.

    Commits of equal content share one representative, and most methods speak of representatives.
    """

    def __init__(
        self, stage: StageRow, candidates: Iterable[RangeCandidate], probes: Sequence[ProbeRow]
    ) -> None:
        """`candidates` are the commits of the range, parents before children."""
        self.stage = stage
        self._probes = probes
        self._candidates = {candidate.sha: candidate for candidate in candidates}

    def representative_of(self, sha: str) -> str:
        """Return the representative of a commit: the first commit of its content, which may lie outside the range."""
        while (candidate := self._candidates.get(sha)) is not None:
            if candidate.representative is not None:
                return candidate.representative
            sha = candidate.parents[0]
        return sha

    def __contains__(self, sha: str) -> bool:
        return sha in self._candidates

    def __iter__(self) -> Iterator[RangeCandidate]:
        return iter(self._candidates.values())

    def __len__(self) -> int:
        return len(self._candidates)

    def subject(self, sha: str) -> str | None:
        """Return the subject of a commit of the range, None for other commits."""
        candidate = self._candidates.get(sha)
        return None if candidate is None else candidate.subject

    @cached_property
    def members(self) -> dict[str, list[str]]:
        """Return the commits of the range by their representative, parents before children.

        A representative that lies in the range lists only commits of its own content. It may also stand for commits
        that touch none of the search's paths. Those are left out.
        """
        members: dict[str, list[str]] = {}
        for sha, candidate in self._candidates.items():
            first = self.representative_of(sha)
            if first not in self or candidate.content == self.content(first):
                members.setdefault(first, []).append(sha)
        return members

    @cached_property
    def untestable(self) -> list[str]:
        """Return the commits of the range that pin no submodule, so that there is nothing to run."""
        return [sha for sha, candidate in self._candidates.items() if candidate.content is None]

    def content(self, sha: str) -> str | None:
        """Return the content of a commit of the range. None: it pins no submodule, so that there is nothing to run."""
        return self._candidates[sha].content

    def content_of(self, sha: str) -> str | None:
        """Return the content of a commit of the range or of its old end; None for other commits and if not known."""
        if sha == self.stage.old:
            return self.old_content or None
        return self.content(sha) if sha in self else None

    @cached_property
    def old_content(self) -> str:
        """Return the content of the old end.

        Stores of earlier versions do not hold it. Then it is the content of the old end's runs, or of a commit that
        it stands for, and empty where there is neither.
        """
        if self.stage.old_content is not None:
            return self.stage.old_content
        run = [probe.content for probe in self._probes if self._tested_commit(probe) == self.stage.old]
        stood_for = [
            candidate.content or ""
            for sha, candidate in self._candidates.items()
            if self.representative_of(sha) == self.stage.old
        ]
        return next(iter([*run, *stood_for]), "")

    def runs_of(self, sha: str) -> Sequence[ProbeRow]:
        """Return the finished probes that speak for a commit."""
        return self.runs.get(self.representative_of(sha), [])

    @cached_property
    def runs(self) -> dict[str, list[ProbeRow]]:
        """Return the finished probes that speak for each representative, in the order in which they were started.

        Equal content is one experiment, so runs of another commit or for another range count too.
        """
        contents: dict[str, set[str]] = {}
        for sha, candidate in self._candidates.items():
            if candidate.content is not None:
                contents.setdefault(self.representative_of(sha), set()).add(candidate.content)
        if self.stage.old_content is not None:
            contents.setdefault(self.stage.old, set()).add(self.stage.old_content)
        for probe in self._probes:
            sha = self._tested_commit(probe)
            if sha is not None and sha not in self:
                contents.setdefault(sha, set()).add(probe.content)
        tried = {probe.content for probe in self._probes}
        return {
            sha: [probe for probe in self._probes if probe.content in of_commit]
            for sha, of_commit in contents.items()
            if not of_commit.isdisjoint(tried)
        }

    @cached_property
    def own_runs(self) -> dict[str, list[ProbeRow]]:
        """Return the same probes, each listed once, at the commit that it ran.

        A probe of a commit outside this range is listed at the first commit of its content. A commit that was not
        run itself has no entry.
        """
        made: dict[int, str] = {}
        for sha, probes in self.runs.items():
            for probe in probes:
                tested = self._tested_commit(probe)
                if probe.ordinal not in made or (
                    tested is not None and self.representative_of(tested) == sha
                ):
                    made[probe.ordinal] = sha
        runs = {
            sha: [probe for probe in probes if made[probe.ordinal] == sha]
            for sha, probes in self.runs.items()
        }
        return {sha: probes for sha, probes in runs.items() if probes}

    def _tested_commit(self, probe: ProbeRow) -> str | None:
        """Return the commit of this repository that a probe ran, if it ran with all that is held for the range."""
        stage = self.stage
        if probe.stage_id == stage.id:
            return probe.commit if probe.phase.is_unmodified else None
        if probe.phase is Phase.PERTURBED:
            return None
        if stage.held and all(probe.revisions.get(name) == sha for name, sha in stage.held.items()):
            return probe.revisions.get(stage.repository)
        return None

    def parents(self, sha: str) -> Sequence[str]:
        """Return the parents of a commit of the range, including those outside the range."""
        return self._candidates[sha].parents

    def ancestors(self, *shas: str) -> set[str]:
        """Return the commits of the range that any of these builds on, including themselves."""
        seen: set[str] = set()
        todo = [*shas]
        while todo:
            commit = todo.pop()
            if commit in self and commit not in seen:
                seen.add(commit)
                todo.extend(self.parents(commit))
        return seen

    def is_ancestor(self, ancestor: str, sha: str) -> bool:
        """Return whether a commit of the range builds on another one of it. A commit is its own ancestor."""
        numbers, ancestry = self._ancestry
        return ancestor in self and sha in self and ancestry.is_ancestor(numbers[ancestor], numbers[sha])

    @cached_property
    def _ancestry(self) -> tuple[dict[str, int], Ancestry]:
        """Return the number of each commit, and which commit builds on which."""
        ancestry = Ancestry()
        numbers: dict[str, int] = {}
        for sha, candidate in self._candidates.items():
            known = [numbers[parent] for parent in candidate.parents if parent in numbers]
            numbers[sha] = ancestry.add(known)
        return numbers, ancestry

    def commits_with_change(self, sha: str) -> set[str]:
        """Return the commits of the range that build on one that `sha` represents, including these."""
        found: set[str] = set()
        for commit in self._candidates:
            if self.representative_of(commit) == sha or not found.isdisjoint(self.parents(commit)):
                found.add(commit)
        return found


_CLOCK_TOLERANCE = 1.0
"""The system may report the start of a process this many seconds too late: it counts from a time of boot in whole
seconds."""


@dataclass(frozen=True)
class UnfinishedState:
    """Says why a bisection has not ended, in one line, and whether it may still run.

    `why` is None where nothing noted the reason.
    """

    why: str | None
    may_run: bool = False

    @property
    def text(self) -> str:
        """Return the words that stand where a finished bisection says how it ended."""
        if self.why is None:
            return "not finished"
        return self.why if self.may_run else f"not finished: {self.why}"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A bisection with all rows that belong to it.

    `probes` holds the finished probes, in the order in which they were started.
    """

    bisection: BisectionRow
    request: BisectRequest
    conclusion: Conclusion | None
    ranges: Sequence[SearchedRange]
    probes: Sequence[ProbeRow]
    commits: Mapping[tuple[str, str], CommitRow]
    """The commits that the answer, the runs and the ends name, as far as the store describes them, by repository and
    id."""
    unfinished: UnfinishedState | None

    def judgement(self, probe: ProbeRow) -> Judgement | None:
        """Return what a probe counts as. A failure that the answer is not about counts as a skip."""
        otherwise = self.conclusion.fail_otherwise if self.conclusion else ()
        return Judgement.SKIP if probe.ordinal in otherwise else probe.judgement

    def runs_of(self, side: Side) -> list[ProbeRow]:
        """Return the runs of a side of the answer that could be judged."""
        return [probe for probe in self.probes if probe.ordinal in side.runs]

    def subject(self, repository: str, sha: str) -> str | None:
        """Return the subject of a commit of a range, or of one in `commits`. None where the store does not describe
        it."""
        commit = self.commits.get((repository, sha))
        if commit is not None:
            return commit.subject
        subjects = (each.subject(sha) for each in self.ranges if each.stage.repository == repository)
        return next((subject for subject in subjects if subject is not None), None)


def load_rows(session: Session, name: str) -> Rows:
    """Read a bisection by its name. Raises `UserError`."""
    bisection = session.scalar(select(BisectionRow).where(BisectionRow.name == name))
    if bisection is None:
        begins = BisectionRow.name.startswith(name, autoescape=True)
        longer = session.scalars(select(BisectionRow.name).where(begins).limit(1)).first()
        hint = "; see bisect-precision history" if longer is None else f": did you mean {longer}?"
        raise UserError(f"expected a bisection of the store, found none by the name {name}{hint}")
    try:
        request = read_document(BisectRequest, bisection.request)
        conclusion = read_document(Conclusion, bisection.conclusion) if bisection.conclusion else None
    except DocumentError as error:
        raise UserError(f"bisection {name}: {error}") from error
    probes = _probes(session, bisection)
    stages = session.scalars(
        select(StageRow).where(StageRow.bisection_id == bisection.id).order_by(StageRow.ordinal)
    ).all()
    return Rows(
        bisection=bisection,
        request=request,
        conclusion=None if conclusion is None else _add_other_failures(conclusion, probes),
        ranges=[SearchedRange(stage, range_candidates(session, stage.id), probes) for stage in stages],
        probes=probes,
        commits=_commits(session, _named_commits(stages, probes, request, conclusion)),
        unfinished=unfinished_state(session, bisection),
    )


def _add_other_failures(conclusion: Conclusion, probes: Sequence[ProbeRow]) -> Conclusion:
    """Return the conclusion with the runs whose failure did not count.

    Earlier versions stored only the exit codes that counted, in words.
    """
    if not conclusion.failures or conclusion.fail_otherwise:
        return conclusion
    otherwise = tuple(
        probe.ordinal
        for probe in probes
        if probe.judgement is Judgement.BAD
        and probe.exit_code is not None
        and exit_code(probe.exit_code) not in conclusion.failures
    )
    return conclusion.model_copy(update={"fail_otherwise": otherwise})


def _probes(session: Session, bisection: BisectionRow) -> Sequence[ProbeRow]:
    return session.scalars(
        select(ProbeRow)
        .where(ProbeRow.bisection_id == bisection.id, ProbeRow.state == ProbeState.FINISHED)
        .order_by(ProbeRow.ordinal)
        .options(
            selectinload(ProbeRow.evidence),
            selectinload(ProbeRow.artifacts),
            joinedload(ProbeRow.build),
            joinedload(ProbeRow.environment),
            joinedload(ProbeRow.reused).joinedload(ProbeRow.bisection),
        )
    ).all()


def _named_commits(
    stages: Sequence[StageRow],
    probes: Sequence[ProbeRow],
    request: BisectRequest,
    conclusion: Conclusion | None,
) -> set[tuple[str, str]]:
    """Return the repository and the id of each commit of which a report tells more than its subject."""
    named = {(probe.repository, probe.commit) for probe in probes}
    named |= {(stage.repository, sha) for stage in stages for sha in (stage.old, stage.new)}
    named |= {(request.repository, pick.commit) for pick in request.cherry_picks}
    if conclusion is not None:
        answers = (*conclusion.culprits, *conclusion.suspects, conclusion.through, conclusion.lost)
        named |= {(each.repository, each.commit) for each in answers if each is not None}
    return named


def _commits(session: Session, named: Set[tuple[str, str]]) -> dict[tuple[str, str], CommitRow]:
    """Return those of some commits that the store describes."""
    found: dict[tuple[str, str], CommitRow] = {}
    for some in batches(sorted({sha for _, sha in named})):
        rows = session.scalars(select(CommitRow).where(CommitRow.sha.in_(some)))
        found |= {(row.repository, row.sha): row for row in rows}
    return {key: row for key, row in found.items() if key in named}


def unfinished_state(session: Session, bisection: BisectionRow) -> UnfinishedState | None:
    """Return why a bisection has not ended, or None where it has ended."""
    if bisection.outcome is not None:
        return None
    if not bisection.drives:
        return UnfinishedState(None, may_run=True)  # begun by an earlier version
    drive = bisection.drives[-1]
    match drive.end:
        case DriveEnd.INTERRUPTED:
            return UnfinishedState(f"interrupted {_format_minute(drive.last_alive)}")
        case DriveEnd.FAILED:
            return UnfinishedState(one_line(drive.message or ""))
        case DriveEnd.CONCLUDED:
            return UnfinishedState(None)
        case None:
            return _open_drive_state(session, drive)


def _open_drive_state(session: Session, drive: DriveRow) -> UnfinishedState:
    runs = is_driven(session, drive.bisection_id)
    if runs is None:
        runs = _is_process_alive(drive)
    since = f"since {_format_minute(drive.begun)}"
    if runs is None:
        return UnfinishedState(f"running on {drive.host} {since}, or killed there", may_run=True)
    if runs:
        return UnfinishedState(f"running on {drive.host} {since}, process {drive.process}", may_run=True)
    return UnfinishedState(f"killed on {drive.host}, where it ran {since}")


def _format_minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _is_process_alive(drive: DriveRow) -> bool | None:
    """Return whether the process of a start still runs, or None where it is another machine's process.

    A later process may have the same number, so the time at which the process was created must fit too.
    """
    if drive.host != platform.node():
        return None
    import psutil  # most commands start sooner without it

    try:
        return psutil.Process(drive.process).create_time() < drive.begun.timestamp() + _CLOCK_TOLERANCE
    except psutil.Error:
        return False


_SHORT_ID_LENGTH = 12
"""A report's notes show this many digits of a commit's id. They are unique in any real repository."""
_ASSUMPTION = (
    "The confidence assumes that one change, or two, explains the failures, and that nothing but the commits changed "
    "between the runs."
)


def confidence_basis(rows: Rows) -> ConfidenceBasis | None:
    """Return what the confidence in the first culprit rests on, in the range that names it; None without a culprit."""
    named = next(iter(rows.conclusion.culprits), None) if rows.conclusion else None
    if named is None or named.confidence is None:
        return None
    standing = next((each for each in reversed(rows.ranges) if named.commit in each), None)
    if standing is None:
        return None
    stage, culprit = standing.stage, standing.representative_of(named.commit)
    parents = _parent_representatives(standing, culprit)
    ends = {standing.representative_of(end) for end in (stage.old, stage.new)} - parents - {culprit}
    broken = rows.conclusion.broken_places if rows.conclusion else ()
    seen = {
        commit: [probe for probe in probes if probe.judgement in (Judgement.GOOD, Judgement.BAD)]
        for commit, probes in standing.runs.items()
    }
    judged = {commit: _judgements(rows, probes, broken) for commit, probes in seen.items()}
    others = [
        commit
        for commit, judgements in judged.items()
        if judgements and commit not in {culprit, *parents, *ends}
    ]
    shares = _JudgedRuns(rows, standing, broken)
    by_name = [named.commit, *standing.parents(named.commit), stage.old, stage.new]
    counts = tuple(shares.take(each, by_name) for each in ([culprit], parents, ends, others))
    changed = standing.commits_with_change(culprit)
    old_like = [each for each in [*others, *ends] if _is_mostly_old(judged.get(each, []), stage.seeks)]
    against = [commit for commit in old_like if commit in changed]
    remarks = (
        *_replay_remarks(rows.request.replayed),
        *_broken_place_remarks(sum(place_of_row(probe) in broken for probe in shares.all_runs), broken),
        *_perturbation_remarks(named.under),
        *_failing_parent_remarks(counts[1].count, stage.seeks),
        *_parent_signature_remarks(rows, [probe for parent in parents for probe in seen.get(parent, [])]),
        *_contradiction_remarks(against, stage.seeks),
    )
    counted = [probe for share in counts for probe in share.probes]
    with_change = [each for each in counted if shares.tested_commit(each) in changed]
    basis = ConfidenceBasis(
        culprit=counts[0].count,
        parents=counts[1].count,
        others=counts[3].count,
        other_commits=len({shares.tested_commit(probe) for probe in counts[3].probes}),
        ends=counts[2].count,
        with_change=_count(rows, with_change),
        without_change=_count(rows, [each for each in counted if each not in with_change]),
        against=tuple(against),
        learned=rows.request.earlier_runs is not None,
        text="",
        remarks=remarks,
    )
    notes = [share.borrowed_note for share in counts]
    facts = _facts(basis, notes, own_parents=len(parents), seeks=stage.seeks)
    return basis.model_copy(update={"text": " ".join((*facts, *remarks))})


def _parent_representatives(standing: SearchedRange, culprit: str) -> set[str]:
    if culprit not in standing:
        return set()
    return {standing.representative_of(parent) for parent in standing.parents(culprit)}


def _count(rows: Rows, probes: Sequence[ProbeRow]) -> RunCount:
    failures = sum(rows.judgement(probe) is Judgement.BAD for probe in probes)
    return RunCount(runs=len(probes), failures=failures)


@dataclass(frozen=True, kw_only=True)
class _Share:
    """The runs of some commits that no other commits were given before.

    borrowed: the runs among them that were made at another commit of the same content.
    """

    probes: Sequence[ProbeRow]
    count: RunCount
    borrowed: Sequence[tuple[int, str]]

    @property
    def borrowed_note(self) -> str:
        """Says at which commits the borrowed runs were made; empty where none were borrowed."""
        if not self.borrowed:
            return ""
        by_commit: dict[str, list[int]] = {}
        for ordinal, commit in self.borrowed:
            by_commit.setdefault(commit, []).append(ordinal)
        where = [
            f"run{'s' if len(ordinals) > 1 else ''} {', '.join(map(str, ordinals))} of {commit[:_SHORT_ID_LENGTH]}"
            for commit, ordinals in by_commit.items()
        ]
        return f" ({' and '.join(where)}, which {'reads' if len(by_commit) == 1 else 'read'} the same)"


class _JudgedRuns:
    """The judged runs of a range. Each run is given once, to the commits that ask first."""

    def __init__(self, rows: Rows, standing: SearchedRange, broken: Collection[str]) -> None:
        self._rows = rows
        self._standing = standing
        self._broken = broken
        self._made = {
            probe.ordinal: commit for commit, probes in standing.own_runs.items() for probe in probes
        }
        self._taken: set[int] = set()

    @property
    def all_runs(self) -> Sequence[ProbeRow]:
        """Return all judged runs, those in broken places included."""
        probes = (probe for made in self._standing.own_runs.values() for probe in made)
        return [probe for probe in probes if probe.judgement in (Judgement.GOOD, Judgement.BAD)]

    def tested_commit(self, probe: ProbeRow) -> str:
        """Return the representative of the commit that a probe ran."""
        return self._made[probe.ordinal]

    def take(self, commits: Collection[str], by_name: Collection[str]) -> _Share:
        """Give the runs of some commits that are left; no other commits get them again.

        `by_name` are the commits that a reader knows by their role. A run of any other commit is listed as borrowed.
        """
        of_commits = {
            probe.ordinal: probe for commit in commits for probe in self._standing.runs.get(commit, ())
        }
        probes = [
            probe
            for ordinal, probe in sorted(of_commits.items())
            if ordinal not in self._taken and _judgements(self._rows, [probe], self._broken)
        ]
        self._taken |= {probe.ordinal for probe in probes}
        judgements = _judgements(self._rows, probes, self._broken)
        return _Share(
            probes=probes,
            count=RunCount(runs=len(judgements), failures=judgements.count(Judgement.BAD)),
            borrowed=[
                (probe.ordinal, probe.commit)
                for probe in probes
                if self.tested_commit(probe) not in commits or probe.commit not in by_name
            ],
        )


def _judgements(rows: Rows, probes: Iterable[ProbeRow], broken: Collection[str]) -> list[Judgement | None]:
    """Return what the runs in places that are not broken count as, without skips."""
    judged = (rows.judgement(probe) for probe in probes if place_of_row(probe) not in broken)
    return [judgement for judgement in judged if judgement is not Judgement.SKIP]


def _facts(
    basis: ConfidenceBasis, borrowed: Sequence[str], *, own_parents: int, seeks: Seeks
) -> Iterable[str]:
    """Yield a sentence for each kind of commit that was run, then the prior and the assumption.

    `borrowed` says of the culprit, its parents and the ends, in this order, which runs were made at other commits.
    """
    named = "culprit" if seeks is Seeks.REGRESSION else "first fixed commit"
    whose = "parent" if own_parents == 1 else f"{own_parents} parents"
    yield f"The {named} failed in {_format_failures(basis.culprit)}{borrowed[0]}."
    yield f"Its {whose} failed in {_format_failures(basis.parents)}{borrowed[1]}."
    beside: list[str] = []
    if basis.other_commits:
        beside.append(f"{plural(basis.others.runs, 'run')} of {plural(basis.other_commits, 'other commit')}")
    if basis.ends.runs:
        beside.append(f"{plural(basis.ends.runs, 'run')} of the ends{borrowed[2]}")
    if beside and basis.with_change and basis.without_change:
        yield (
            f"Counted together with {' and '.join(beside)}: commits with the change failed in "
            f"{_format_failures(basis.with_change)}, commits without it in {_format_failures(basis.without_change)}."
        )
    prior = "earlier runs of the case and from these" if basis.learned else "these runs"
    yield f"How often the case fails was estimated from {prior}."
    yield _ASSUMPTION


def _format_failures(count: RunCount) -> str:
    return f"{count.failures} of {plural(count.runs, 'run')}"


def _replay_remarks(judgements: int) -> Iterable[str]:
    """Yield a remark on judgements that were replayed from a log and narrowed the range."""
    if judgements:
        yield f"{plural(judgements, 'judgement')} of --replay, which left this range, count as they stand."


def _broken_place_remarks(runs: int, broken: Sequence[str]) -> Iterable[str]:
    """Yield a remark on runs that do not count, because their place is likely broken."""
    if runs:
        yield f"Not counted: {plural(runs, 'run')} in {' and '.join(broken)}, likely broken."


def _perturbation_remarks(perturbation: str | None) -> Iterable[str]:
    """Yield a remark where the search used runs under a perturbation."""
    if perturbation is not None:
        yield f"The search began from what the runs under {perturbation} told, which are not counted here."


def _failing_parent_remarks(parents: RunCount, seeks: Seeks) -> Iterable[str]:
    """Yield a remark where the culprit's parents fail too, but less often."""
    if seeks is Seeks.REGRESSION and parents.failures:
        runs = f"{parents.failures} of {plural(parents.runs, 'run')}"
        yield f"Its parents failed too, in {runs}: it fails more often since, and may have begun to fail before."


def _parent_signature_remarks(rows: Rows, parents: Sequence[ProbeRow]) -> Iterable[str]:
    """Yield a remark where the culprit's parents fail with another signature."""
    others = [probe for probe in parents if probe.judgement is not rows.judgement(probe)]
    if others:
        how = " or ".join(sorted({probe.signature or "" for probe in others}))
        yield (
            f"Its parents failed otherwise ({how}), which does not count, but may have hidden this failure: it may "
            "have come before, and shows here first."
        )


def _is_mostly_old(judgements: Sequence[Judgement | None], seeks: Seeks) -> bool:
    """Return whether most runs of a commit show the result from before the change that is sought."""
    before = Judgement.GOOD if seeks is Seeks.REGRESSION else Judgement.BAD
    return 2 * judgements.count(before) > len(judgements)


def _contradiction_remarks(commits: Sequence[str], seeks: Seeks) -> Iterable[str]:
    """Yield a remark on commits that build on the culprit, but behave as commits before it."""
    if commits:
        did = "passed" if seeks is Seeks.REGRESSION else "failed"
        named = ", ".join(commit[:_SHORT_ID_LENGTH] for commit in commits)
        yield f"What builds on it {did} at {named}: the failure comes and goes, or was undone there."


_MEASURE = "times_tolerance"
_SAME_SIZE_RATIO = 2.0
"""Two errors count as of one size where the larger is less than this many times the smaller."""

_GROWTH_RATIO = 4.0
"""An error has grown where it is at least this many times the error of the good end."""

_ERROR_FLOOR = 1e-4
"""No error that is calculated with is smaller than this, because some errors are zero."""


def near_tolerance_caveat(rows: Rows, sides: Reproduction) -> str | None:
    """Return a caveat where the culprit's worst error is less than twice the passing error beside it.

    Such a culprit only tips the case over its tolerance. An earlier commit may have brought the error, or rounding
    decides by chance. None where the errors lie farther apart, or were not measured.
    """
    if rows.conclusion is None or not rows.conclusion.culprits or rows.request.seeks is Seeks.FIX:
        return None
    if rows.request.bad_when != Verdict.MISMATCH or sides.good is None or sides.bad is None:
        return None
    failing = _worst_errors(rows.runs_of(sides.bad))
    passing = _worst_errors(rows.runs_of(sides.good))
    if not failing or not passing or min(failing) >= _SAME_SIZE_RATIO * max(passing):
        return None
    told = (
        f"the worst error is {min(failing):.2g} times the tolerance at {sides.bad.commit[:12]}, and "
        f"{max(passing):.2g} times at {sides.good.commit[:12]}, which passes"
    )
    standing = rows.ranges[0]
    at_start = _worst_errors(standing.runs_of(standing.stage.old))
    if not at_start:
        return told
    start = max(at_start)
    told = f"{told}; it was {start:.2g} times at the good end"
    if start > max(passing) / _GROWTH_RATIO:
        return f"{told}: rounding alone may decide which commits fail, and the tolerance may be too tight"
    between = sqrt(max(start, _ERROR_FLOOR) * max(passing))
    return (
        f"{told}: an earlier commit made it grow; to find that one, ask with "
        f"--bad-when {_MEASURE}:{between:.0e}"
    )


def _worst_errors(probes: Iterable[ProbeRow]) -> list[float]:
    """Return the worst error of each measured run. Empty where one is not finite, because no tolerance bounds it."""
    found = [error_size(probe.metrics or {}, _MEASURE) for probe in probes]
    sizes = [size.value for size in found if size is not None]
    return [] if inf in sizes else sizes


_T = TypeVar("_T")
_Failure = tuple[Verdict, str | None]


def other_failures(rows: Rows) -> tuple[OtherFailure, ...]:
    """Return the failures of each range that are not the one that is searched for.

    These are the failures that the search itself did not count. Where the search counted every failure, the failures
    at its culprit, or at its failing end where there is no culprit, are the searched ones. A failure that one commit
    shows beside those is searched too, because runs of one commit may differ. All others are returned.
    """
    return tuple(failure for standing in rows.ranges for failure in _other_failures_in_range(rows, standing))


def _other_failures_in_range(rows: Rows, standing: SearchedRange) -> Iterator[OtherFailure]:
    shown_by_commit = {sha: _failures(runs) for sha, runs in standing.runs.items()}
    told_apart = _counted_failures(rows, (run for runs in standing.runs.values() for run in runs))
    searched = told_apart or add_cooccurring(
        shown_by_commit.get(standing.representative_of(_failing_commit(rows, standing)), frozenset()),
        [*shown_by_commit.values()],
    )
    if not searched:
        return
    seen: dict[_Failure, list[str]] = {}
    for sha in (sha for sha in standing.members if standing.runs.get(sha)):
        shown = shown_by_commit[sha]
        # If the search distinguished no failures, two that one commit shows count as one failure.
        if told_apart or not shown & searched:
            for failure in sorted(shown - searched, key=str):
                seen.setdefault(failure, []).append(sha)
    for failure, commits in seen.items():
        yield _failure(rows, standing, failure, commits)


def _counted_failures(rows: Rows, runs: Iterable[ProbeRow]) -> frozenset[_Failure]:
    """Return the failures that the search counted; empty where it counted every failure."""
    if rows.conclusion is None or not rows.conclusion.fail_otherwise:
        return frozenset()
    return _failures([run for run in runs if rows.judgement(run) is Judgement.BAD])


def _failing_commit(rows: Rows, standing: SearchedRange) -> str:
    """Return a commit of the range that shows the failure that is searched for."""
    stage, conclusion = standing.stage, rows.conclusion
    if stage.seeks is Seeks.FIX:
        return stage.old
    named = [*conclusion.culprits, *filter(None, [conclusion.through])] if conclusion else []
    return next((each.commit for each in named if each.commit in standing), stage.new)


def _failures(runs: Sequence[ProbeRow]) -> frozenset[_Failure]:
    return frozenset(
        (run.verdict, run.signature)
        for run in runs
        if run.verdict is not None
        if run.verdict.traits.is_failure and run.verdict is not Verdict.TIMEOUT  # which may be the machine's
    )


def _failure(rows: Rows, standing: SearchedRange, failure: _Failure, commits: list[str]) -> OtherFailure:
    """Return the report of a failure that `commits` showed, parents before children.

    The failure began after the ancestors that passed. Commits that could not be run, or that failed in another way,
    may have it already.
    """
    first = commits[0]
    before = standing.ancestors(first)
    passing = [
        sha
        for sha in standing.members
        if sha in before and {run.verdict for run in standing.runs.get(sha, [])} == {Verdict.PASS}
    ]
    without = standing.ancestors(*passing)
    open_commits = {standing.representative_of(sha) for sha in before - without} & standing.members.keys()
    parents = [standing.representative_of(parent) for parent in standing.parents(first)]
    known = bool(parents) and all(
        {run.verdict for run in standing.runs.get(parent, [])} == {Verdict.PASS} for parent in parents
    )

    def reference(sha: str) -> CommitReference:
        repository = standing.stage.repository
        return CommitReference(repository=repository, commit=sha, subject=rows.subject(repository, sha))

    verdict, signature = failure
    judged = {
        rows.judgement(run)
        for sha in commits
        for run in standing.runs[sha]
        if (run.verdict, run.signature) == failure
    }
    shown = next(run for run in reversed(standing.runs[first]) if (run.verdict, run.signature) == failure)
    return OtherFailure(
        verdict=verdict,
        signature=signature,
        first=reference(first),
        last=reference(commits[-1]),
        commits=len(commits),
        counts_as_bad=Judgement.BAD in judged,
        onset=reference(first) if known else None,
        may_have_begun_at=0 if known else len(open_commits),
        shown=shown.ordinal,
        verdict_source=shown.verdict_source,
    )


def add_cooccurring(failures: frozenset[_T], at_commits: Collection[frozenset[_T]]) -> frozenset[_T]:
    """Return some failures with all that occur beside them at one commit, directly or through others.

    Runs of one commit can show one failure in several ways, so failures that occur together count as one.

    >>> sorted(add_cooccurring(frozenset({1}), [frozenset({3, 2}), frozenset({1, 2}), frozenset({4})]))
    [1, 2, 3]
    """
    known = frozenset[_T]()
    while failures != known:
        known = failures
        failures = known.union(*(each for each in at_commits if each & known))
    return failures


def other_failure_caveat(rows: Rows, bad: Side | None) -> str | None:
    """Return a caveat where the answer's bad side and the failing end have no signature in common.

    Between the two, one failure may have been fixed and another one introduced. None where they share a signature, or
    where the signatures are not known.
    """
    if rows.conclusion is None or not rows.conclusion.culprits or bad is None:
        return None
    standing = rows.ranges[0]
    end = standing.stage.old if standing.stage.seeks is Seeks.FIX else standing.stage.new
    of_end = _signatures(standing.runs_of(end))
    if rows.request.is_command and rows.request.judging_rule.compares_failures:
        # Only failures that surely are the end's were counted, whatever their messages.
        return None
    at_end = add_cooccurring(of_end, [_signatures(runs) for runs in standing.runs.values()])
    found = _signatures(rows.runs_of(bad))
    if not at_end or not found or at_end & found:
        return None
    other = sorted(found)[0]
    skip = (
        "say with --bad-when what the end alone shows"
        if rows.request.is_command
        else f"ask with --bad-when 'signature:{sorted(at_end)[0]}'"
    )
    return (
        f"{bad.commit[:12]} fails otherwise ({other}) than the end {end[:12]} ({sorted(at_end)[0]}): "
        f"if that failure was mended in between, another commit brought the one of the end; to find it, {skip}"
    )


def silent_failure_caveat(rows: Rows, bad: Side | None) -> str | None:
    """Return a caveat where a command's failure prints nothing that distinguishes it from another failure.

    None where it prints such a line, or where the question says what is bad.
    """
    by_likeness = rows.request.is_command and rows.request.judging_rule.compares_failures
    if rows.conclusion is None or not rows.conclusion.culprits or bad is None or not by_likeness:
        return None
    passing = [
        Symptoms.from_plain(probe.symptoms)
        for probe in rows.probes
        if probe.judgement is Judgement.GOOD and probe.symptoms is not None
    ]
    usual = lines_of(passing)
    shown = [
        Symptoms.from_plain(probe.symptoms).subtract_usual(passing)
        for probe in rows.runs_of(bad)
        if probe.symptoms
    ]
    if not shown or any(_names_a_cause(each, usual) for each in shown):
        return None
    return (
        "its failure prints nothing that tells it from another one: each run with its exit code counts as bad; to be "
        "sure, let the command print its errors, or exit with 125 where it cannot check"
    )


def _names_a_cause(failure: Symptoms, usual: Set[str]) -> bool:
    """Return whether a failure prints more than that it failed. A line of one word, such as FAILED, names no cause.

    usual: lines that passing runs print too.
    """
    named = any(each.text or each.family is not Family.ERROR for each in failure.causes)
    return named or any(len(line.split()) > 1 for line in failure.last_lines if line not in usual)


def _signatures(probes: Iterable[ProbeRow]) -> frozenset[str]:
    return frozenset(
        probe.signature for probe in probes if probe.judgement is Judgement.BAD and probe.signature
    )
