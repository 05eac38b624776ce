"""Failures that are not the one that is searched for: where they were seen, and since when, as far as the runs tell."""

from collections.abc import Iterable, Iterator

from ....store.tables.bisections import ProbeRow
from ....store.vocabulary import Judgement, Seeks, Verdict
from ...engine.failures.exit_codes import failure_of, with_faces
from .model import CommitReference, OtherFailure
from .rows import Rows
from .standing import Standing

_FAILURES = frozenset(
    {
        *(Verdict.MISMATCH, Verdict.COMPILE_ERROR, Verdict.ASSEMBLE_ERROR, Verdict.KERNEL_COMPILE_ERROR),
        *(Verdict.STALL, Verdict.CRASH, Verdict.DEVICE_ERROR),
    }
)
"""Verdicts that tell of the program, at a commit that could be built."""

_Failure = tuple[Verdict, str | None]


def met_failures(rows: Rows) -> tuple[OtherFailure, ...]:
    """Of each range, the failures that the search told from its own; where it told none apart, those that were not seen
    at its culprit, or its failing end where there is none, nor at a commit that shows what is seen there too: runs of
    one commit may differ."""
    return tuple(failure for standing in rows.ranges for failure in _of_range(rows, standing))


def _of_range(rows: Rows, standing: Standing) -> Iterator[OtherFailure]:
    shown_by_commit = {sha: _failures(runs) for sha, runs in standing.runs.items()}
    told_apart = _told_apart(rows, shown_by_commit.values())
    searched = told_apart or with_faces(
        shown_by_commit.get(standing.of(_failing(rows, standing)), frozenset()), [*shown_by_commit.values()]
    )
    if not searched:
        return
    seen: dict[_Failure, list[str]] = {}
    for sha in (sha for sha in standing.members if standing.runs.get(sha)):
        shown = shown_by_commit[sha]
        # What was not told apart counts as one failure, if a commit shows both.
        if told_apart or not shown & searched:
            for failure in sorted(shown - searched, key=str):
                seen.setdefault(failure, []).append(sha)
    for failure, commits in seen.items():
        yield _failure(rows, standing, failure, commits)


def _told_apart(rows: Rows, shown_by_commit: Iterable[frozenset[_Failure]]) -> frozenset[_Failure]:
    """What the search went for, where it told failures apart by their exit codes."""
    codes = rows.conclusion.failures if rows.conclusion else ()
    return frozenset(
        (verdict, signature)
        for shown in shown_by_commit
        for verdict, signature in shown
        if failure_of(signature) in codes
    )


def _failing(rows: Rows, standing: Standing) -> str:
    """The commit that shows what is searched for."""
    stage, conclusion = standing.stage, rows.conclusion
    if stage.seeks is Seeks.FIX:
        return stage.old
    named = [*conclusion.culprits, *filter(None, [conclusion.through])] if conclusion else []
    return next((each.commit for each in named if each.commit in standing), stage.new)


def _failures(runs: list[ProbeRow]) -> frozenset[_Failure]:
    return frozenset(
        (run.verdict, run.signature) for run in runs if run.verdict is not None and run.verdict in _FAILURES
    )


def _failure(rows: Rows, standing: Standing, failure: _Failure, commits: list[str]) -> OtherFailure:
    """`commits` showed the failure, parents before children. It began behind the ancestors that passed; what could not
    be run, or failed otherwise, may have had it."""
    first = commits[0]
    before = standing.ancestors(first)
    passing = [
        sha
        for sha in standing.members
        if sha in before and {run.verdict for run in standing.runs.get(sha, [])} == {Verdict.PASS}
    ]
    without = {sha for passed in passing for sha in standing.ancestors(passed)}
    open_commits = {standing.of(sha) for sha in before - without} & standing.members.keys()
    parents = [standing.of(parent) for parent in standing.parents(first)]
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
    return OtherFailure(
        verdict=verdict,
        signature=signature,
        first=reference(first),
        last=reference(commits[-1]),
        commits=len(commits),
        counts_as_bad=Judgement.BAD in judged,
        onset=reference(first) if known else None,
        may_have_begun_at=0 if known else len(open_commits),
        shown=next(
            run.ordinal for run in reversed(standing.runs[first]) if (run.verdict, run.signature) == failure
        ),
    )
