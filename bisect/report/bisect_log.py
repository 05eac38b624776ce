"""One searched range as a `git bisect log`, which `git bisect replay` takes to the same answer."""

from collections.abc import Mapping, Sequence

from ...store.schema import Judgement
from .plain_text import one_line
from .standing import Standing, judged


def bisect_log(
    standing: Standing,
    *,
    subjects: Mapping[str, str],
    culprit: str | None,
    suspects: Sequence[str],
) -> str:
    """The log of one range; `subjects` are its commits' by id.

    Git knows nothing of equal content, so a verdict is given to every commit that shares it where git would ask for
    one. A failure that a later pass contradicts would make git refuse the log: it is left as a comment.
    """

    def named(sha: str) -> str:
        return f"[{sha}] {one_line(subjects.get(sha, ''))}".rstrip()

    stage = standing.stage
    lines = [
        f"# bad: {named(stage.bad)}",
        f"# good: {named(stage.good)}",
        f"git bisect start '{stage.bad}' '{stage.good}'",
    ]

    def tell(word: str, shas: Sequence[str]) -> None:
        for sha in shas:
            lines.extend((f"# {word}: {named(sha)}", f"git bisect {word} {sha}"))

    found = {sha: judged(standing.runs.get(sha, ())) for sha in standing.members}
    cleared = _cleared(standing, found)
    for outside in (sha for sha in standing.members if sha not in standing):
        tell("good", _heads(standing, outside))
    bad = stage.bad
    tested = [sha for sha in standing.members if sha in standing and found[sha] is not None]
    for sha in sorted(tested, key=lambda sha: standing.runs[sha][0].ordinal):
        match found[sha]:
            case Judgement.GOOD:
                tell("good", _heads(standing, sha))
            case Judgement.BAD if sha in cleared:
                lines.append(f"# bad, but a later commit is good: {named(sha)}")
            case Judgement.BAD if sha != bad and sha in standing.ancestors(bad):
                tell("bad", [sha])
                bad = sha
            case Judgement.SKIP:
                tell("skip", standing.members[sha])
            case _:
                pass
    if culprit is not None:
        lines.append(f"# first bad commit: {named(culprit)}")
    elif suspects:
        lines.append("# only skipped commits left to test")
        lines.extend(f"# possible first bad commit: {named(sha)}" for sha in suspects)
    return "\n".join(lines) + "\n"


def _cleared(standing: Standing, found: Mapping[str, Judgement | None]) -> set[str]:
    """The commits that a good one builds on."""
    cleared: set[str] = set()
    for sha, judgement in found.items():
        if sha not in standing or judgement is Judgement.GOOD:
            for head in _heads(standing, sha):
                cleared |= standing.ancestors(head)
    return cleared


def _heads(standing: Standing, sha: str) -> list[str]:
    """Those of equal content that no other of them builds on: a pass of them clears the rest."""
    members = standing.members[sha]
    below = {parent for member in members for parent in standing.parents(member)}
    return [member for member in members if member not in below]
