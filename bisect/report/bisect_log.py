"""One searched range as a `git bisect log`, which `git bisect replay` takes to the same answer."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Judgement, Seeks
from ..commits.range import outcome_of
from ..search.evidence.knowledge import Outcome
from .model.standing import Standing
from .plain_text import one_line

_WORDS = {Seeks.REGRESSION: ("good", "bad"), Seeks.FIX: ("broken", "fixed")}
"""Of what is as at the old end, and as at the new one."""


@dataclass
class _Log:
    """Lines of a log, in which no commit is told of twice."""

    subjects: Mapping[str, str]
    lines: list[str] = field(default_factory=list[str])
    _told: set[str] = field(default_factory=set[str])

    def named(self, sha: str) -> str:
        """A commit with its subject."""
        return f"[{sha}] {one_line(self.subjects.get(sha, ''))}".rstrip()

    def comment(self, what: str, sha: str) -> None:
        """A line that git passes over."""
        self.lines.append(f"# {what}: {self.named(sha)}")

    def tell(self, word: str, shas: Iterable[str]) -> None:
        """Have git know of commits."""
        for sha in (sha for sha in shas if sha not in self._told):
            self._told.add(sha)
            self.comment(word, sha)
            self.lines.append(f"git bisect {word} {sha}")


def bisect_log(
    standing: Standing,
    *,
    subjects: Mapping[str, str],
    culprit: str | None,
    suspects: Sequence[str],
    first_parent: bool,
    also_old: Sequence[str] = (),
    paths: Sequence[str] = (),
    judgement: Callable[[ProbeRow], Judgement | None] = attrgetter("judgement"),
) -> str:
    """The log of one range; `subjects` are its commits' by id, `also_old` what was named beside its old end, `paths`
    what the search was limited to, `judgement` what a probe counts as.

    Git takes one verdict a commit as certain, and knows nothing of equal content. So the runs of a commit that may
    fail now and then are told as the answer has them, runs that contradict the answer are left as comments, and a
    commit of equal content that git would ask for is told of too.
    """
    stage = standing.stage
    good, bad = _WORDS[stage.seeks]
    follow = "'--first-parent' " if first_parent else ""
    terms = "" if stage.seeks is Seeks.REGRESSION else f"'--term-old={good}' '--term-new={bad}' "
    log = _Log(subjects)
    log.comment(bad, stage.new)
    for sha in (stage.old, *also_old):
        log.comment(good, sha)
    ends = " ".join(f"'{sha}'" for sha in (stage.new, stage.old, *also_old))
    limit = "".join(f" {_quoted(word)}" for word in ("--", *(path or "." for path in paths))) if paths else ""
    log.lines.append(f"git bisect start {terms}{follow}{ends}{limit}")
    verdicts = _verdicts(standing, culprit, judgement)
    cleared = _cleared(standing, verdicts)
    for sha, members in standing.members.items():
        if paths and sha not in standing:
            continue  # taken to be good, not seen so; git does not ask for what touches none of the paths
        if verdicts.get(sha) is not Outcome.GOOD and (sha in cleared or sha not in standing):
            log.tell(good, _heads(standing, [member for member in members if member not in cleared]))
    _tell_verdicts(log, standing, verdicts, cleared)
    if culprit is not None:
        log.comment(f"first {bad} commit", culprit)
    for sha in suspects:
        log.comment(f"possible first {bad} commit", sha)
    return "\n".join(log.lines) + "\n"


def _quoted(word: str) -> str:
    """A word as git reads it back: in single quotes, which `shlex` leaves out where a shell needs none."""
    return "'" + word.replace("'", "'\\''") + "'"


def _tell_verdicts(
    log: _Log, standing: Standing, verdicts: Mapping[str, Outcome | None], cleared: Collection[str]
) -> None:
    """What was run, in order: of bad commits only those that narrow the range further."""
    good, bad = _WORDS[standing.stage.seeks]
    newest = standing.stage.new
    for sha, verdict in verdicts.items():
        match verdict:
            case None:
                log.comment("contradicts the answer", sha)
            case Outcome.BAD if sha in cleared:
                log.comment(f"{bad}, but a later commit is {good}", sha)
            case Outcome.BAD if sha != newest and sha in standing.ancestors(newest):
                log.tell(bad, [sha])
                newest = sha
            case Outcome.GOOD:
                log.tell(good, _heads(standing, standing.members[sha]))
            case Outcome.SKIP:
                log.tell("skip", standing.members[sha])
            case _:
                pass


def _verdicts(
    standing: Standing, culprit: str | None, judgement: Callable[[ProbeRow], Judgement | None]
) -> dict[str, Outcome | None]:
    """What is told of each standing commit of the range that was run, in the order of the first runs: `BAD` is what is
    as at the new end.

    None where no run of it agrees with the answer. Without an answer one run like the new end's makes a commit bad.
    """
    verdicts: dict[str, Outcome | None] = dict.fromkeys(standing.untestable, Outcome.SKIP)
    seeks = standing.stage.seeks
    for sha in sorted(standing.runs, key=lambda sha: standing.runs[sha][0].ordinal):
        found = {
            outcome_of(judged, seeks)
            for probe in standing.runs[sha]
            if (judged := judgement(probe)) is not None
        }
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
