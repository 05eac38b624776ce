"""The stored rows of one bisection, and what the confidence in its answer rests on.

`load_rows` reads all that the store holds of a bisection as `Rows`. A `SearchedRange` is one of its ranges with the
runs that count for each commit. `confidence_basis` counts the runs behind a culprit, and lists what limits the
confidence.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from ...runner.errors import UserError, suggestion
from ...runner.settings import checkout_root
from ...store.bisections import RangeCandidate, batches, range_candidates
from ...store.durable_files import DocumentError, read_document
from ...store.tables import BisectionRow, CommitRow, ProbeRow, StageRow
from ...store.vocabulary import (
    Judgement,
    Phase,
    ProbeState,
    Seeks,
    exit_code_signature,
    plural,
)
from ..ask.earlier_runs import place_of_row
from ..ask.question import BisectRequest
from ..engine.answer import Conclusion, NamedCommit
from ..listing import UnfinishedState, session_reader, unfinished_state
from ..search.graph import Ancestry
from .model import CommitReference, ConfidenceBasis, RunCount, Side


class SearchedRange:
    """A searched range with its runs.

    Commits of equal content share one representative. Most methods return representatives.
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

    def size(self, sha: str) -> int:
        """Return the number of commits for which a commit of the range stands: itself, and those that were not read."""
        return 1 + self._candidates[sha].unread

    @property
    def commit_count(self) -> int:
        """Return the number of commits of the range, those that were not read included."""
        return sum(map(self.size, self._candidates))

    @property
    def candidate_count(self) -> int:
        """Return the number of commits that can differ in their result. Each unread commit counts as one."""
        return sum(self.size(sha) for sha in self.members if sha in self)

    def subject(self, sha: str) -> str | None:
        """Return the subject of a commit of the range, None for other commits."""
        candidate = self._candidates.get(sha)
        return None if candidate is None else candidate.subject

    @cached_property
    def members(self) -> dict[str, list[str]]:
        """Return the commits of the range by their representative, parents before children.

        A commit that touches none of the search's paths has another content than its representative. It is left out.
        """
        members: dict[str, list[str]] = {}
        for sha, candidate in self._candidates.items():
            first = self.representative_of(sha)
            if first not in self or candidate.content == self.content(first):
                members.setdefault(first, []).append(sha)
        return members

    @cached_property
    def untestable(self) -> list[str]:
        """Return the commits of the range that have no content to run."""
        return [sha for sha, candidate in self._candidates.items() if candidate.content is None]

    def content(self, sha: str) -> str | None:
        """Return the content of a commit of the range or of its old end.

        None for other commits, for a commit that cannot be run, such as one without a pin, and where it is not
        known.
        """
        if sha == self.stage.old:
            return self.old_content or None
        candidate = self._candidates.get(sha)
        return None if candidate is None else candidate.content

    @cached_property
    def old_content(self) -> str:
        """Return the content of the old end; empty where it is not known.

        Stores of earlier versions do not hold it. Then it is the content of a run of the old end, or of a commit that
        the old end represents.
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
        """Return the finished probes that count for a commit."""
        return self.runs.get(self.representative_of(sha), [])

    @cached_property
    def runs(self) -> dict[str, list[ProbeRow]]:
        """Return the finished probes that count for each representative, in the order of their starts.

        Probes of equal content are one experiment. So runs of other commits, and runs for other ranges, count too.
        """
        tried = {probe.content for probe in self._probes}
        contents: dict[str, set[str]] = {}
        for sha, candidate in self._candidates.items():
            if candidate.content in tried:
                contents.setdefault(self.representative_of(sha), set()).add(candidate.content)
        if self.stage.old_content is not None:
            contents.setdefault(self.stage.old, set()).add(self.stage.old_content)
        for probe in self._probes:
            sha = self._tested_commit(probe)
            if sha is not None and sha not in self:
                contents.setdefault(sha, set()).add(probe.content)
        return {
            sha: [probe for probe in self._probes if probe.content in own]
            for sha, own in contents.items()
            if not own.isdisjoint(tried)
        }

    @cached_property
    def own_runs(self) -> dict[str, list[ProbeRow]]:
        """Return the same probes, each only once: at the commit that it ran.

        A probe of a commit outside this range is listed at the first commit of its content. A commit that was not run
        itself has no entry.
        """
        commit_of_run: dict[int, str] = {}
        for sha, probes in self.runs.items():
            for probe in probes:
                tested = self._tested_commit(probe)
                is_own = tested is not None and self.representative_of(tested) == sha
                if is_own or probe.ordinal not in commit_of_run:
                    commit_of_run[probe.ordinal] = sha
        runs = {
            sha: [probe for probe in probes if commit_of_run[probe.ordinal] == sha]
            for sha, probes in self.runs.items()
        }
        return {sha: probes for sha, probes in runs.items() if probes}

    def _tested_commit(self, probe: ProbeRow) -> str | None:
        """Return the commit of this repository that a probe ran. None if it did not run with the held revisions."""
        stage = self.stage
        if probe.stage_id == stage.id:
            return probe.commit if probe.phase.is_unmodified else None
        if probe.phase is Phase.PERTURBED:
            return None
        if stage.held and all(probe.revisions.get(name) == sha for name, sha in stage.held.items()):
            return probe.revisions.get(stage.repository)
        return None

    def parents(self, sha: str) -> Sequence[str]:
        """Return the parents of a commit on which it builds in the search. Some may lie outside the range."""
        return self._candidates[sha].parents

    def ancestors(self, *shas: str) -> set[str]:
        """Return the ancestors of some commits within the range, themselves included."""
        seen: set[str] = set()
        todo = [*shas]
        while todo:
            commit = todo.pop()
            if commit in self and commit not in seen:
                seen.add(commit)
                todo.extend(self.parents(commit))
        return seen

    def is_ancestor(self, ancestor: str, sha: str) -> bool:
        """Return whether one commit of the range builds on another. A commit is its own ancestor."""
        numbers, ancestry = self._ancestry
        return ancestor in self and sha in self and ancestry.is_ancestor(numbers[ancestor], numbers[sha])

    @cached_property
    def _ancestry(self) -> tuple[dict[str, int], Ancestry]:
        """Return the number of each commit in the ancestry, and the ancestry."""
        ancestry = Ancestry()
        numbers: dict[str, int] = {}
        for sha, candidate in self._candidates.items():
            known = [numbers[parent] for parent in candidate.parents if parent in numbers]
            numbers[sha] = ancestry.add(known)
        return numbers, ancestry

    def commits_with_change(self, sha: str) -> set[str]:
        """Return the commits that `sha` represents, and all commits of the range that build on them."""
        found: set[str] = set()
        for commit in self._candidates:
            if self.representative_of(commit) == sha or not found.isdisjoint(self.parents(commit)):
                found.add(commit)
        return found


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A bisection with all rows that belong to it.

    `probes` are the finished probes, in the order of their starts.
    """

    bisection: BisectionRow
    request: BisectRequest
    conclusion: Conclusion | None
    ranges: Sequence[SearchedRange]
    probes: Sequence[ProbeRow]
    commits: Mapping[tuple[str, str], CommitRow]
    """The described commits that the answer, the runs and the ends name, by repository and id."""
    unfinished: UnfinishedState | None

    def judgement(self, probe: ProbeRow) -> Judgement | None:
        """Return what a probe counts as. A failure that the answer is not about counts as a skip."""
        otherwise = self.conclusion.fail_otherwise if self.conclusion else ()
        return Judgement.SKIP if probe.ordinal in otherwise else probe.judgement

    def uncounted_runs(self, searched: "SearchedRange", commits: Iterable[str]) -> list[ProbeRow]:
        """Return the runs of some commits that failed, but with a failure that the answer is not about."""
        runs = (probe for commit in commits for probe in searched.runs_of(commit))
        return [probe for probe in runs if probe.judgement is not self.judgement(probe)]

    def last_range_of(self, repository: str) -> SearchedRange:
        """Return the range of a repository that was searched last. The repository must have one."""
        return next(each for each in reversed(self.ranges) if each.stage.repository == repository)

    def repository_of(self, sha: str) -> str:
        """Return the repository of a commit that a searched range contains. For any other it is the one asked about."""
        searched = next((each.stage for each in self.ranges if sha in each), self.bisection)
        return searched.repository

    def runs_of(self, side: Side) -> list[ProbeRow]:
        """Return the runs of a side of the answer that could be judged."""
        return [probe for probe in self.probes if probe.ordinal in side.runs]

    def subject(self, repository: str, sha: str) -> str | None:
        """Return the subject of a commit. None where the store does not describe the commit."""
        commit = self.commits.get((repository, sha))
        if commit is not None:
            return commit.subject
        subjects = (each.subject(sha) for each in self.ranges if each.stage.repository == repository)
        return next((subject for subject in subjects if subject is not None), None)

    def reference(self, repository: str, sha: str) -> CommitReference:
        """Return a commit with its subject, as reports name it."""
        return CommitReference(repository=repository, commit=sha, subject=self.subject(repository, sha))


def newest_name(session: Session, folder: Path) -> str:
    """Return the name of the newest bisection of the checkout around a folder.

    Raises `UserError` if it has none, or if a record cannot be read.
    """
    checkout = checkout_root(folder.resolve())
    for name, stored in session.execute(
        select(BisectionRow.name, BisectionRow.request).order_by(BisectionRow.id.desc())
    ):
        try:
            request = read_document(BisectRequest, stored)
        except DocumentError as error:
            raise UserError(f"bisection {name}: {error}") from error
        if request.belongs_to(checkout):
            return name
    raise UserError(f"expected a bisection of {checkout}, found none; name one of bisect-precision history")


def suggest_bisection(session: Session, name: str) -> str:
    """Return the end of a message about a name that no bisection has: the nearest name, or where to find all."""
    names = session.scalars(select(BisectionRow.name)).all()
    longer = next((each for each in names if each.startswith(name)), None)
    if longer is not None:
        return f": did you mean {longer}?"
    return suggestion(name, names) or "; see bisect-precision history"


def load_rows(session: Session, name: str, *, earlier: Rows | None = None) -> Rows:
    """Read a bisection by its name, so that its rows can be used after the session. Raises `UserError`.

    The commits of a range never change, and there may be many. `earlier` are rows of the same bisection that were read
    after its search, whose commits are not read again.
    """
    bisection = session.scalar(
        select(BisectionRow)
        .where(BisectionRow.name == name)
        .options(selectinload(BisectionRow.notices), selectinload(BisectionRow.drives))
    )
    if bisection is None:
        raise UserError(
            f"expected a bisection of the store, found none by the name {name}{suggest_bisection(session, name)}"
        )
    try:
        request = read_document(BisectRequest, bisection.request)
        conclusion = read_document(Conclusion, bisection.conclusion) if bisection.conclusion else None
    except DocumentError as error:
        raise UserError(f"bisection {name}: {error}") from error
    probes = _probes(session, bisection)
    stages = session.scalars(
        select(StageRow).where(StageRow.bisection_id == bisection.id).order_by(StageRow.ordinal)
    ).all()
    known = {} if earlier is None else {each.stage.id: [*each] for each in earlier.ranges}
    return Rows(
        bisection=bisection,
        request=request,
        conclusion=None if conclusion is None else _add_other_failures(conclusion, probes),
        ranges=[
            SearchedRange(stage, known.get(stage.id) or range_candidates(session, stage.id), probes)
            for stage in stages
        ],
        probes=probes,
        commits=_commits(session, _named_commits(stages, probes, request, conclusion)),
        unfinished=None if bisection.outcome else unfinished_state(session_reader(session), bisection.id),
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
        and exit_code_signature(probe.exit_code) not in conclusion.failures
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
    """Return the repository and id of each commit that a report describes by more than its subject."""
    named = {(probe.repository, probe.commit) for probe in probes}
    named |= {(stage.repository, sha) for stage in stages for sha in (stage.old, stage.new)}
    named |= {(request.repository, pick.commit) for pick in request.cherry_picks}
    if conclusion is not None:
        answers = (*conclusion.culprits, *conclusion.suspects, conclusion.through, conclusion.lost)
        named |= {(each.repository, each.commit) for each in answers if each is not None}
    return named


def _commits(session: Session, named: Set[tuple[str, str]]) -> dict[tuple[str, str], CommitRow]:
    """Return the rows of those commits that the store describes."""
    found: dict[tuple[str, str], CommitRow] = {}
    for some in batches(sorted({sha for _, sha in named})):
        rows = session.scalars(select(CommitRow).where(CommitRow.sha.in_(some)))
        found |= {(row.repository, row.sha): row for row in rows}
    return {key: row for key, row in found.items() if key in named}


_SHORT_ID_LENGTH = 12
"""A note shows this many digits of a commit's id. They are unique in any real repository."""
_ASSUMPTION = (
    "The confidence assumes that one change, or two, explains the failures, and that nothing but the commits changed "
    "between the runs."
)


def confidence_basis(rows: Rows) -> ConfidenceBasis | None:
    """Return what the confidence in the first culprit rests on, in the range that names it. None without a culprit."""
    conclusion = rows.conclusion
    named = conclusion.culprits[0] if conclusion and conclusion.culprits else None
    if conclusion is None or named is None or named.confidence is None:
        return None
    searched = next((each for each in reversed(rows.ranges) if named.commit in each), None)
    if searched is None:
        return None
    stage, culprit = searched.stage, searched.representative_of(named.commit)
    parents: set[str] = set()
    if culprit in searched:
        parents = {searched.representative_of(parent) for parent in searched.parents(culprit)}
    ends = {searched.representative_of(end) for end in (stage.old, stage.new)} - parents - {culprit}
    runs = _CountedRuns(rows, searched)
    others = [commit for commit in runs.by_commit if commit not in {culprit, *parents, *ends}]
    culprit_runs, parent_runs, end_runs, other_runs = map(runs.take, ([culprit], parents, ends, others))
    counted = [*culprit_runs, *parent_runs, *end_runs, *other_runs]
    changed = searched.commits_with_change(culprit)
    with_change = [probe for probe in counted if runs.tested_commit(probe) in changed]
    without_change = [probe for probe in counted if runs.tested_commit(probe) not in changed]
    contradicting = [
        commit
        for commit in [*others, *ends]
        if commit in changed and _is_mostly_old(runs.judgements(commit), stage.seeks)
    ]
    remarks = tuple(_remarks(rows, searched, named, parents, runs.count(parent_runs), contradicting))
    basis = ConfidenceBasis(
        culprit=runs.count(culprit_runs),
        parents=runs.count(parent_runs),
        others=runs.count(other_runs),
        other_commits=len(set(map(runs.tested_commit, other_runs))),
        ends=runs.count(end_runs),
        with_change=runs.count(with_change),
        without_change=runs.count(without_change),
        against=tuple(contradicting),
        learned=rows.request.earlier_runs is not None,
        text="",
        remarks=remarks,
    )
    by_role = [named.commit, *searched.parents(named.commit), stage.old, stage.new]
    borrowed = [
        runs.borrowed_note(culprit_runs, [culprit], by_role),
        runs.borrowed_note(parent_runs, parents, by_role),
        runs.borrowed_note(end_runs, ends, by_role),
    ]
    facts = _facts(basis, borrowed, parents=len(parents), seeks=stage.seeks)
    return basis.model_copy(update={"text": " ".join((*facts, *remarks))})


class _CountedRuns:
    """The runs of a range that count: they were judged, and not in a broken place."""

    def __init__(self, rows: Rows, searched: SearchedRange) -> None:
        self._judgement = rows.judgement
        broken = rows.conclusion.broken_places if rows.conclusion else ()
        self.by_commit = {
            commit: [
                probe
                for probe in probes
                if place_of_row(probe) not in broken and rows.judgement(probe) is not Judgement.SKIP
            ]
            for commit, probes in searched.runs.items()
        }
        """The runs that count for each representative."""
        self._tested = {
            probe.ordinal: commit for commit, probes in searched.own_runs.items() for probe in probes
        }
        self._taken: set[int] = set()

    def take(self, commits: Iterable[str]) -> Sequence[ProbeRow]:
        """Return the runs of some commits that no earlier call returned, in the order of their starts."""
        runs = {probe.ordinal: probe for commit in commits for probe in self.by_commit.get(commit, ())}
        fresh = sorted(runs.keys() - self._taken)
        self._taken.update(fresh)
        return [runs[ordinal] for ordinal in fresh]

    def tested_commit(self, probe: ProbeRow) -> str:
        """Return the representative of the commit that a probe ran."""
        return self._tested[probe.ordinal]

    def judgements(self, commit: str) -> Sequence[Judgement | None]:
        """Return the judgements of all runs that count for a commit."""
        return [self._judgement(probe) for probe in self.by_commit.get(commit, ())]

    def count(self, probes: Sequence[ProbeRow]) -> RunCount:
        """Return how many runs there are, and how many of them failed."""
        failures = sum(self._judgement(probe) is Judgement.BAD for probe in probes)
        return RunCount(runs=len(probes), failures=failures)

    def borrowed_note(
        self, probes: Iterable[ProbeRow], commits: Collection[str], by_role: Collection[str]
    ) -> str:
        """Return which of the runs that count for `commits` were made at other commits; empty if none.

        `by_role` are the commits that a reader knows by their role. A run of any other commit is listed.
        """
        borrowed: dict[str, list[int]] = {}
        for probe in probes:
            if self.tested_commit(probe) not in commits or probe.commit not in by_role:
                borrowed.setdefault(probe.commit, []).append(probe.ordinal)
        if not borrowed:
            return ""
        where = [
            f"run{'s' if len(ordinals) > 1 else ''} {', '.join(map(str, ordinals))} of {commit[:_SHORT_ID_LENGTH]}"
            for commit, ordinals in borrowed.items()
        ]
        return f" ({' and '.join(where)}, which {'reads' if len(borrowed) == 1 else 'read'} the same)"


def _is_mostly_old(judgements: Sequence[Judgement | None], seeks: Seeks) -> bool:
    """Return whether most runs of a commit show the result from before the change."""
    before = Judgement.GOOD if seeks is Seeks.REGRESSION else Judgement.BAD
    return 2 * judgements.count(before) > len(judgements)


def _facts(basis: ConfidenceBasis, borrowed: Sequence[str], *, parents: int, seeks: Seeks) -> Iterable[str]:
    """Yield a sentence on the runs of each kind of commit, then the prior and the assumption.

    borrowed: for the culprit, its parents and the ends, which runs were made at other commits.
    parents: the number of parents.
    """
    named = "culprit" if seeks is Seeks.REGRESSION else "first fixed commit"
    whose = "parent" if parents == 1 else f"{parents} parents"
    yield f"The {named} failed in {_format_failures(basis.culprit)}{borrowed[0]}."
    yield f"Its {whose} failed in {_format_failures(basis.parents)}{borrowed[1]}."
    others: list[str] = []
    if basis.other_commits:
        others.append(f"{plural(basis.others.runs, 'run')} of {plural(basis.other_commits, 'other commit')}")
    if basis.ends.runs:
        others.append(f"{plural(basis.ends.runs, 'run')} of the ends{borrowed[2]}")
    if others and basis.with_change and basis.without_change:
        yield (
            f"Counted together with {' and '.join(others)}: commits with the change failed in "
            f"{_format_failures(basis.with_change)}, commits without it in {_format_failures(basis.without_change)}."
        )
    prior = "earlier runs of the case and from these" if basis.learned else "these runs"
    yield f"How often the case fails was estimated from {prior}."
    yield _ASSUMPTION


def _format_failures(count: RunCount) -> str:
    return f"{count.failures} of {plural(count.runs, 'run')}"


def _remarks(
    rows: Rows,
    searched: SearchedRange,
    named: NamedCommit,
    parents: Collection[str],
    parent_count: RunCount,
    contradicting: Sequence[str],
) -> Iterable[str]:
    """Yield a sentence for each fact that limits the confidence.

    contradicting: the commits that build on the culprit, but mostly behave as before it.
    """
    seeks, broken = searched.stage.seeks, rows.conclusion.broken_places if rows.conclusion else ()
    if replayed := rows.request.replayed:
        yield f"{plural(replayed, 'judgement')} of --replay, which left this range, count as they stand."
    if uncounted := sum(
        place_of_row(probe) in broken
        for probes in searched.own_runs.values()
        for probe in probes
        if probe.judgement is not Judgement.SKIP
    ):
        yield f"Not counted: {plural(uncounted, 'run')} in {' and '.join(broken)}, likely broken."
    if named.under is not None:
        yield f"The search began from what the runs under {named.under} told, which are not counted here."
    if seeks is Seeks.REGRESSION and parent_count.failures:
        yield (
            f"Its parents failed too, in {_format_failures(parent_count)}: it fails more often since, and may have "
            "begun to fail before."
        )
    if uncounted_failures := rows.uncounted_runs(searched, parents):
        how = " or ".join(sorted({probe.signature or "" for probe in uncounted_failures}))
        yield (
            f"Its parents failed otherwise ({how}), which does not count, but may have hidden this failure: it may "
            "have come before, and shows here first."
        )
    if contradicting:
        did = "passed" if seeks is Seeks.REGRESSION else "failed"
        where = ", ".join(commit[:_SHORT_ID_LENGTH] for commit in contradicting)
        yield f"Later commits {did} ({where}): the failure is flaky, or one of them undid it."
