"""Both sides of the answer: what was good, what was bad, and how to see it again."""

from ....runner.workspace.perturbations import UNDER, perturbation_in
from ....store.vocabulary import Judgement, Seeks
from ....store.words import verdict_words
from .model import Reproduction, Side
from .reproduce import reproduction_script
from .rows import Rows
from .standing import Standing


def both_sides(rows: Rows) -> Reproduction:
    """The culprit and its parent; the end of the range where there is no culprit, or its parent was not judged."""
    conclusion = rows.conclusion
    if not rows.ranges:
        return Reproduction(good=None, bad=None)
    named = conclusion and (conclusion.culprits[0] if conclusion.culprits else conclusion.through)
    standing = rows.ranges[0]
    if named is not None:
        standing = next(each for each in reversed(rows.ranges) if each.stage.repository == named.repository)
    old, new = Judgement.GOOD, Judgement.BAD
    if standing.stage.seeks is Seeks.FIX:
        old, new = new, old
    shown: dict[Judgement, Side | None] = {old: None, new: None}
    if named is not None:
        shown[new] = _side(rows, standing, named.commit, new)
        shown[old] = _side(rows, standing, named.parent, old) if named.parent else None
    for judgement, end in ((old, standing.stage.old), (new, standing.stage.new)):
        shown[judgement] = shown[judgement] or _side(rows, standing, end, judgement)
    return Reproduction(good=shown[Judgement.GOOD], bad=shown[Judgement.BAD])


def _side(rows: Rows, standing: Standing, sha: str, wanted: Judgement) -> Side | None:
    """A commit that was found so at least once, in runs of its own or of equal content."""
    runs = standing.runs_of(sha)
    fitting = [probe for probe in runs if rows.judgement(probe) is wanted]
    if not fitting:
        return None
    # The newest run that shows it, of the very commit if there is one.
    shown = next((probe for probe in reversed(fitting) if probe.commit == sha), fitting[-1])
    repository = standing.stage.repository
    # The runs of a commit with equal content stand for it: with its own id put in, their revisions are its own.
    revisions = {**shown.revisions, repository: sha}
    under = _under(rows, standing, sha, wanted)
    assert shown.verdict is not None
    subject = rows.subject(repository, sha)
    return Side(
        repository=repository,
        commit=sha,
        subject=subject,
        revisions=revisions,
        verdict=shown.verdict,
        signature=shown.signature,
        runs=tuple(probe.ordinal for probe in runs if rows.judgement(probe) is not Judgement.SKIP),
        failures=sum(rows.judgement(probe) is Judgement.BAD for probe in runs),
        shown=shown.ordinal,
        script=reproduction_script(
            rows.request,
            about=f"{repository} {sha} is {wanted}: {verdict_words(shown.verdict, shown.signature)}"
            + (f", under {under}" if under else ""),
            revisions={**revisions, UNDER: under} if under else revisions,
            recorded=shown.command or (),
            environment=shown.environment.details if shown.environment else {},
        ),
    )


def _under(rows: Rows, standing: Standing, sha: str, wanted: Judgement) -> str | None:
    """The perturbation that the answer was found under, where this commit always shows its side under it."""
    named = rows.conclusion.culprits if rows.conclusion else ()
    under = next((each.under for each in named if each.under), None)
    judgements = {
        probe.judgement
        for probe in rows.probes
        if under is not None
        and perturbation_in(probe.revisions) == under
        and standing.of(probe.commit) == standing.of(sha)
    }
    return under if judgements == {wanted} else None
