"""On what the confidence in a culprit rests: which runs, which prior, and what is taken for granted."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ....store.tables.bisections import ProbeRow
from ....store.vocabulary import Judgement, Seeks
from ....store.words import plural
from ...engine.failures.exit_codes import failure_of
from ...run.records import place_of_row
from .model import ConfidenceBasis, RunCount
from .rows import Rows
from .standing import Standing

_SHORT = 12
_GRANTED = "one change, or two, explains all runs, and nothing but the commits changed unseen"


def confidence_basis(rows: Rows) -> ConfidenceBasis | None:
    """Of the first culprit, in the range where it was named; None where none was named with a confidence."""
    named = next(iter(rows.conclusion.culprits), None) if rows.conclusion else None
    if named is None or named.confidence is None:
        return None
    standing = next((each for each in reversed(rows.ranges) if named.commit in each), None)
    if standing is None:
        return None
    stage, culprit = standing.stage, standing.of(named.commit)
    parents = (
        {standing.of(parent) for parent in standing.parents(culprit)} if culprit in standing else set[str]()
    )
    ends = {standing.of(stage.old), standing.of(stage.new)} - parents - {culprit}
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
    shares = _Shares(rows, standing, broken)
    by_name = [named.commit, *standing.parents(named.commit), stage.old, stage.new]
    counts = tuple(shares.take(each, by_name) for each in ([culprit], parents, ends, others))
    left_out = sum(place_of_row(probe) in broken for probe in shares.every)
    against = [
        commit
        for commit in [*others, *ends]
        if _as_before(judged.get(commit, []), stage.seeks)
        and culprit in {standing.of(ancestor) for ancestor in standing.ancestors(commit)}
    ]
    learned = rows.request.earlier_runs is not None
    other_commits = len({shares.made_at(probe) for probe in counts[3].probes})
    return ConfidenceBasis(
        culprit=counts[0].count,
        parents=counts[1].count,
        others=counts[3].count,
        other_commits=other_commits,
        ends=counts[2].count,
        against=tuple(against),
        learned=learned,
        text=_text(
            counts, own_parents=len(parents), other_commits=other_commits, learned=learned, seeks=stage.seeks
        )
        + _replayed(rows.request.replayed)
        + _not_counted(left_out, broken)
        + _under(named.under)
        + _worse(counts[1].count, stage.seeks)
        + _otherwise(rows, [probe for parent in parents for probe in seen.get(parent, [])])
        + _against(against, stage.seeks),
    )


@dataclass(frozen=True, kw_only=True)
class _Share:
    """The runs of some commits that no others had before. borrowed: those of them that were made at a commit of the
    same content."""

    probes: Sequence[ProbeRow]
    count: RunCount
    borrowed: Sequence[tuple[int, str]]

    @property
    def told(self) -> str:
        """Where the borrowed ones were made."""
        if not self.borrowed:
            return ""
        by_commit: dict[str, list[int]] = {}
        for ordinal, commit in self.borrowed:
            by_commit.setdefault(commit, []).append(ordinal)
        where = [
            f"run{'s' if len(ordinals) > 1 else ''} {', '.join(map(str, ordinals))} of {commit[:_SHORT]}"
            for commit, ordinals in by_commit.items()
        ]
        return f"{' and '.join(where)}, which {'reads' if len(by_commit) == 1 else 'read'} the same"


class _Shares:
    """The judged runs of a range, each given once to those commits that ask first."""

    def __init__(self, rows: Rows, standing: Standing, broken: Collection[str]) -> None:
        self._rows = rows
        self._standing = standing
        self._broken = broken
        self._made = {
            probe.ordinal: commit for commit, probes in standing.runs_where_made.items() for probe in probes
        }
        self._taken: set[int] = set()

    @property
    def every(self) -> Sequence[ProbeRow]:
        """All of them, whatever the place."""
        probes = (probe for made in self._standing.runs_where_made.values() for probe in made)
        return [probe for probe in probes if probe.judgement in (Judgement.GOOD, Judgement.BAD)]

    def made_at(self, probe: ProbeRow) -> str:
        """The commit that stands for the one that it ran."""
        return self._made[probe.ordinal]

    def take(self, commits: Collection[str], by_name: Collection[str]) -> _Share:
        """Those of some commits; they are given to no others. `by_name` are the commits that a reader knows by what
        they are: where another one was run, it is told."""
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
                if self.made_at(probe) not in commits or probe.commit not in by_name
            ],
        )


def _judgements(rows: Rows, probes: Iterable[ProbeRow], broken: Collection[str]) -> list[Judgement | None]:
    """What runs in places that are not broken count as, those that tell nothing left out."""
    judged = (rows.judgement(probe) for probe in probes if place_of_row(probe) not in broken)
    return [judgement for judgement in judged if judgement is not Judgement.SKIP]


def _text(
    shares: Sequence[_Share],
    *,
    own_parents: int,
    other_commits: int,
    learned: bool,
    seeks: Seeks,
) -> str:
    culprit, parents, ends, others = shares
    named = "culprit" if seeks is Seeks.REGRESSION else "first fixed commit"
    beside = f" ({ends.told})" if ends.told else ""
    whose = "parent" if own_parents == 1 else f"{own_parents} parents"
    told = [
        f"{plural(culprit.count.runs, 'run')} of the {named} ({_failed(culprit)})",
        f"{plural(parents.count.runs, 'run')} of its {whose} ({_failed(parents)})",
    ]
    if other_commits:
        told.append(f"{plural(others.count.runs, 'run')} of {plural(other_commits, 'other commit')}")
    if ends.count.runs:
        told.append(f"{ends.count.runs} of the ends beside them{beside}")
    runs = ", ".join(told)
    prior = "earlier runs of the case and its stack" if learned else "the tool's own prior"
    return f"{runs}. Fail rates were inferred from {prior} and these runs. Taken for granted: {_GRANTED}."


def _failed(share: _Share) -> str:
    """How many runs did, and where those were made that are not of the commit itself."""
    return f"{share.count.failures} failed" + (f"; {share.told}" if share.told else "")


def _replayed(judgements: int) -> str:
    """What is said of judgements of a log, which left this range."""
    if not judgements:
        return ""
    return f" {plural(judgements, 'judgement')} of --replay, which left this range, count as they stand."


def _not_counted(runs: int, broken: Sequence[str]) -> str:
    """What is said of runs in places that are likely broken."""
    if not runs:
        return ""
    return f" Not counted: {plural(runs, 'run')} in {' and '.join(broken)}, likely broken."


def _under(perturbation: str | None) -> str:
    """What is said where runs under a perturbation had their say."""
    if perturbation is None:
        return ""
    return f" The search began from what the runs under {perturbation} told, which are not counted here."


def _worse(parents: RunCount, seeks: Seeks) -> str:
    """What is said of a culprit whose parents fail too, only less often."""
    if seeks is not Seeks.REGRESSION or not parents.failures:
        return ""
    runs = f"{parents.failures} of {plural(parents.runs, 'run')}"
    return (
        f" Its parents failed too, in {runs}: it fails more often since, and may have begun to fail before."
    )


def _otherwise(rows: Rows, parents: Sequence[ProbeRow]) -> str:
    """What is said of a culprit whose parents fail otherwise."""
    others = [probe for probe in parents if probe.judgement is not rows.judgement(probe)]
    if not others:
        return ""
    how = " or ".join(sorted({failure_of(probe.signature) for probe in others}))
    return (
        f" Its parents failed otherwise ({how}), which does not count, but may have hidden this failure: it may have "
        "come before, and shows here first."
    )


def _as_before(judgements: Sequence[Judgement | None], seeks: Seeks) -> bool:
    """Whether most runs of a commit show what was there before the change that is sought."""
    before = Judgement.GOOD if seeks is Seeks.REGRESSION else Judgement.BAD
    return 2 * judgements.count(before) > len(judgements)


def _against(commits: Sequence[str], seeks: Seeks) -> str:
    """What speaks against a culprit: commits that build on it and do as before it."""
    if not commits:
        return ""
    did = "passed" if seeks is Seeks.REGRESSION else "failed"
    named = ", ".join(commit[:_SHORT] for commit in commits)
    return f" What builds on it {did} at {named}: the failure comes and goes, or was undone there."
