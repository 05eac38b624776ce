"""One searched range as a `git bisect log`, which `git bisect replay` takes to the same answer."""

from collections.abc import Mapping, Sequence

from ...store.schema import Judgement
from .plain_text import one_line
from .standing import Standing


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
    lines = [
        f"# bad: {named(stage.bad)}",
        f"# good: {named(stage.good)}",
        f"git bisect start {follow}'{stage.bad}' '{stage.good}'",
    ]

    told: set[str] = set()

    def tell(word: str, shas: Sequence[str]) -> None:
        for sha in (sha for sha in shas if sha not in told):
            told.add(sha)
            lines.extend((f"# {word}: {named(sha)}", f"git bisect {word} {sha}"))

    verdicts = _verdicts(standing, culprit)
    cleared = _cleared(standing, verdicts)
    for sha, members in standing.members.items():
        if verdicts.get(sha) is not Judgement.GOOD and (sha in cleared or sha not in standing):
            tell("good", _heads(standing, [member for member in members if member not in cleared]))
    bad = stage.bad
    for sha, verdict in verdicts.items():
        match verdict:
            case None:
                lines.append(f"# contradicts the answer: {named(sha)}")
            case Judgement.BAD if sha in cleared:
                lines.append(f"# bad, but a later commit is good: {named(sha)}")
            case Judgement.BAD if sha != bad and sha in standing.ancestors(bad):
                tell("bad", [sha])
                bad = sha
            case Judgement.GOOD:
                tell("good", _heads(standing, standing.members[sha]))
            case Judgement.SKIP:
                tell("skip", standing.members[sha])
            case _:
                pass
    if culprit is not None:
        lines.append(f"# first bad commit: {named(culprit)}")
    lines.extend(f"# possible first bad commit: {named(sha)}" for sha in suspects)
    return "\n".join(lines) + "\n"


def _verdicts(standing: Standing, culprit: str | None) -> dict[str, Judgement | None]:
    """What is told of each standing commit of the range that was run, in the order of the first runs.

    None where no run of it agrees with the answer. Without an answer one failure makes a commit bad.
    """
    verdicts: dict[str, Judgement | None] = dict.fromkeys(standing.untestable, Judgement.SKIP)
    for sha in sorted(standing.runs, key=lambda sha: standing.runs[sha][0].ordinal):
        found = {probe.judgement for probe in standing.runs[sha]}
        if sha not in standing:
            continue
        if found == {Judgement.SKIP}:
            verdicts[sha] = Judgement.SKIP
        elif culprit is None:
            verdicts[sha] = Judgement.BAD if Judgement.BAD in found else Judgement.GOOD
        else:
            answer = Judgement.BAD if culprit in standing.ancestors(sha) else Judgement.GOOD
            verdicts[sha] = answer if answer in found else None
    return verdicts


def _cleared(standing: Standing, verdicts: Mapping[str, Judgement | None]) -> set[str]:
    """The commits that a good one builds on."""
    cleared: set[str] = set()
    for sha, verdict in verdicts.items():
        if verdict is Judgement.GOOD:
            for head in _heads(standing, standing.members[sha]):
                cleared |= standing.ancestors(head)
    return cleared


def _heads(standing: Standing, members: Sequence[str]) -> list[str]:
    """Commits of equal content that no other of them builds on: a pass of them clears the rest."""
    below = {parent for member in members for parent in standing.parents(member)}
    return [member for member in members if member not in below]
