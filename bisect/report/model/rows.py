"""All that the store holds of one bisection, read once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from ....runner.errors import UserError
from ....store.documents.document import read_document
from ....store.documents.versions import DocumentError
from ....store.tables.bisections import BisectionRow, CandidateRow, CommitRow, ProbeRow, StageRow
from ....store.vocabulary import Judgement, ProbeState
from ...engine.failures.exit_codes import fails_otherwise
from ...plan.request import BisectRequest
from ...result import Conclusion
from .model import Side
from .standing import Standing


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A bisection with what belongs to it. `probes` are the finished ones, in the order they were started."""

    bisection: BisectionRow
    request: BisectRequest
    conclusion: Conclusion | None
    ranges: Sequence[Standing]
    probes: Sequence[ProbeRow]
    commits: Mapping[tuple[str, str], CommitRow]
    """By repository and id: every commit that has a description."""

    def judgement(self, probe: ProbeRow) -> Judgement | None:
        """What a probe counts as: a failure that is not the one that the answer is about tells nothing."""
        failures = self.conclusion.failures if self.conclusion else ()
        if failures and fails_otherwise(probe.judgement, probe.signature, failures):
            return Judgement.SKIP
        return probe.judgement

    def runs_of(self, side: Side) -> list[ProbeRow]:
        """The runs of a side of the answer that could be judged."""
        return [probe for probe in self.probes if probe.ordinal in side.runs]

    def subject(self, repository: str, sha: str) -> str | None:
        """A commit's subject, None where the store does not describe it."""
        commit = self.commits.get((repository, sha))
        return None if commit is None else commit.subject


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
        select(StageRow)
        .where(StageRow.bisection_id == bisection.id)
        .order_by(StageRow.ordinal)
        .options(
            selectinload(StageRow.candidates).options(
                joinedload(CandidateRow.commit), joinedload(CandidateRow.representative)
            )
        )
    ).all()
    return Rows(
        bisection=bisection,
        request=request,
        conclusion=conclusion,
        ranges=[Standing(stage, probes) for stage in stages],
        probes=probes,
        commits=_commits(session, stages, probes, request),
    )


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
        )
    ).all()


def _commits(
    session: Session, stages: Sequence[StageRow], probes: Sequence[ProbeRow], request: BisectRequest
) -> dict[tuple[str, str], CommitRow]:
    found = {
        (candidate.commit.repository, candidate.commit.sha): candidate.commit
        for stage in stages
        for candidate in stage.candidates
    }
    wanted = {(probe.repository, probe.commit) for probe in probes}
    wanted |= {(stage.repository, sha) for stage in stages for sha in (stage.old, stage.new)}
    wanted |= {(request.repository, pick.commit) for pick in request.cherry_picks}
    for repository, sha in wanted - found.keys():
        commit = session.scalar(
            select(CommitRow).where(CommitRow.repository == repository, CommitRow.sha == sha)
        )
        if commit is not None:
            found[repository, sha] = commit
    return found
