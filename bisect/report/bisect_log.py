"""One searched range as a `git bisect log`, which `git bisect replay` takes to the same answer."""

from collections.abc import Mapping, Sequence

from ...store.vocabulary import Seeks
from ..commits.range import outcome_of
from ..search.evidence.knowledge import Outcome
from .model.standing import Standing
from .plain_text import one_line

_WORDS = {Seeks.REGRESSION: ("good", "bad"), Seeks.FIX: ("broken", "fixed")}
"""Of what is as at the old end, and as at the new one."""


def bisect_log(
    standing: Standing,
    *,
    subjects: Mapping[str, str],
    culprit: str | None,
    suspects: Sequence[str],
    first_parent: bool,
) -> str:
    """The log of one range; `subjects` are its commits' by id.

    Git takes one verdict a commit as certain, and knows nothing of equal content. So the runs of a commit that may
    fail now and then are told as the answer has them, runs that contradict the answer are left as comments, and a
    commit of equal content that git would ask for is told of too.
    """

    def named(sha: str) -> str:
        return f"[{sha}] {one_line(subjects.get(sha, ''))}".rstrip()

    stage = standing.stage
    follow = "'--first-parent' " if first_parent else ""
    good, bad = _WORDS[stage.seeks]
    terms = "" if stage.seeks is Seeks.REGRESSION else f"'--term-old={good}' '--term-new={bad}' "
    lines = [
        f"# {bad}: {named(stage.new)}",
        f"# {good}: {named(stage.old)}",
        f"git bisect start {terms}{follow}'{stage.new}' '{stage.old}'",
    ]

    told: set[str] = set()

    def tell(word: str, shas: Sequence[str]) -> None:
        for sha in (sha for sha in shas if sha not in told):
            told.add(sha)
            lines.extend((f"# {word}: {named(sha)}", f"git bisect {word} {sha}"))

    verdicts = _verdicts(standing, culprit)
    cleared = _cleared(standing, verdicts)
    for sha, members in standing.members.items():
        if verdicts.get(sha) is not Outcome.GOOD and (sha in cleared or sha not in standing):
            tell(good, _heads(standing, [member for member in members if member not in cleared]))
    newest = stage.new
    for sha, verdict in verdicts.items():
        match verdict:
            case None:
                lines.append(f"# contradicts the answer: {named(sha)}")
            case Outcome.BAD if sha in cleared:
                lines.append(f"# {bad}, but a later commit is {good}: {named(sha)}")
            case Outcome.BAD if sha != newest and sha in standing.ancestors(newest):
                tell(bad, [sha])
                newest = sha
            case Outcome.GOOD:
                tell(good, _heads(standing, standing.members[sha]))
            case Outcome.SKIP:
                tell("skip", standing.members[sha])
            case _:
                pass
    if culprit is not None:
        lines.append(f"# first {bad} commit: {named(culprit)}")
    lines.extend(f"# possible first {bad} commit: {named(sha)}" for sha in suspects)
    return "\n".join(lines) + "\n"


def _verdicts(standing: Standing, culprit: str | None) -> dict[str, Outcome | None]:
    """What is told of each standing commit of the range that was run, in the order of the first runs: `BAD` is what is
    as at the new end.

    None where no run of it agrees with the answer. Without an answer one run like the new end's makes a commit bad.
    """
    verdicts: dict[str, Outcome | None] = dict.fromkeys(standing.untestable, Outcome.SKIP)
    seeks = standing.stage.seeks
    for sha in sorted(standing.runs, key=lambda sha: standing.runs[sha][0].ordinal):
        found = {outcome_of(probe.judgement, seeks) for probe in standing.runs[sha] if probe.judgement}
        if sha not in standing:
            continue
        if found == {Outcome.SKIP}:
            verdicts[sha] = Outcome.SKIP
        elif culprit is None:
            verdicts[sha] = Outcome.BAD if Outcome.BAD in found else Outcome.GOOD
        else:
            answer = Outcome.BAD if culprit in standing.ancestors(sha) else Outcome.GOOD
            verdicts[sha] = answer if answer in found else None
    return verdicts


def _cleared(standing: Standing, verdicts: Mapping[str, Outcome | None]) -> set[str]:
    """The commits that a good one builds on."""
    cleared: set[str] = set()
    for sha, verdict in verdicts.items():
        if verdict is Outcome.GOOD:
            for head in _heads(standing, standing.members[sha]):
                cleared |= standing.ancestors(head)
    return cleared


def _heads(standing: Standing, members: Sequence[str]) -> list[str]:
    """Commits of equal content that no other of them builds on: a pass of them clears the rest."""
    below = {parent for member in members for parent in standing.parents(member)}
    return [member for member in members if member not in below]
