"""On what the confidence in a culprit rests: which runs, which prior, and what is taken for granted."""

from collections.abc import Collection, Iterable, Sequence

from ....store.tables.bisections import ProbeRow
from ....store.vocabulary import Judgement, Seeks
from ....store.words import plural
from ...engine.failures.exit_codes import failure_of
from ...run.records import place_of_row
from .model import ConfidenceBasis, RunCount
from .rows import Rows

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
    left_out = sum(place_of_row(probe) in broken for probes in seen.values() for probe in probes)
    others = [
        commit
        for commit, judgements in judged.items()
        if judgements and commit not in {culprit, *parents, *ends}
    ]

    def count(commits: Iterable[str]) -> RunCount:
        judgements = [judgement for commit in commits for judgement in judged.get(commit, [])]
        return RunCount(runs=len(judgements), failures=judgements.count(Judgement.BAD))

    against = [
        commit
        for commit in [*others, *ends]
        if _as_before(judged.get(commit, []), stage.seeks)
        and culprit in {standing.of(ancestor) for ancestor in standing.ancestors(commit)}
    ]
    learned = rows.request.earlier_runs is not None
    counts = count([culprit]), count(parents), count(others), count(ends)
    return ConfidenceBasis(
        culprit=counts[0],
        parents=counts[1],
        others=counts[2],
        other_commits=len(others),
        ends=counts[3],
        against=tuple(against),
        learned=learned,
        text=_text(
            *counts, own_parents=len(parents), other_commits=len(others), learned=learned, seeks=stage.seeks
        )
        + _not_counted(left_out, broken)
        + _under(named.under)
        + _worse(counts[1], stage.seeks)
        + _otherwise(rows, [probe for parent in parents for probe in seen.get(parent, [])])
        + _against(against, stage.seeks),
    )


def _judgements(rows: Rows, probes: Iterable[ProbeRow], broken: Collection[str]) -> list[Judgement | None]:
    """What runs in places that are not broken count as, those that tell nothing left out."""
    judged = (rows.judgement(probe) for probe in probes if place_of_row(probe) not in broken)
    return [judgement for judgement in judged if judgement is not Judgement.SKIP]


def _text(
    culprit: RunCount,
    parents: RunCount,
    others: RunCount,
    ends: RunCount,
    *,
    own_parents: int,
    other_commits: int,
    learned: bool,
    seeks: Seeks,
) -> str:
    named = "culprit" if seeks is Seeks.REGRESSION else "first fixed commit"
    runs = f"{plural(culprit.runs, 'run')} of the {named} ({culprit.failures} failed)"
    whose = "parent" if own_parents == 1 else f"{own_parents} parents"
    runs += f", {plural(parents.runs, 'run')} of its {whose} ({parents.failures} failed)"
    runs += f", {plural(others.runs, 'run')} of {plural(other_commits, 'other commit')}"
    runs += f", {ends.runs} of the ends beside them"
    prior = "earlier runs of the case and its stack" if learned else "the tool's own prior"
    return f"{runs}. Fail rates were inferred from {prior} and these runs. Taken for granted: {_GRANTED}."


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
