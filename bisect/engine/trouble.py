"""What keeps runs from being judged: a change outside the commits, or an error in a stretch of commits.

`unjudgeable_runs` finds that not even commits can be judged that were judged before. `changed_end_notice` finds an end
that no longer shows what it stands for. In both cases something besides the commits changed.

`untestable_stretch_advice` explains why suspects cannot be tested, and how they can be. Its advice rests on the commit
after them whose change fixes their error. Where no error is known, it names the first commit after them that can be
tested.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import comb, prod

import numpy as np

from ...runner.verdict.rules import CompilerError
from ...store.vocabulary import Commit, Judgement, Phase, Seeks, plural, verdict_phrase
from ..history.questions import AskApplies
from ..history.range import LoadedRange, Target
from ..search.graph import Mask
from ..search.testability import BlamedFile
from .failures import is_unsure
from .range_search import ErrorBlame, RangeSearch
from .runs import BisectionKnowledge, FinishedProbe, ProbeLog, failing_end, passing_end

_RECHECK_AFTER = 6
"""After this many unjudged runs in a row, the passing end is run again. It may be that no commit can be judged now."""
_RECHECK_BEFORE_ANSWER = 2
"""As `_RECHECK_AFTER`, before an answer that names untestable suspects."""
_UNJUDGED_IN_A_ROW = 4
"""Fewer unjudged runs in a row prove nothing, even of contents that were judged before."""
_LOST_AGAIN = 2
"""This many of the unjudged runs must be of contents that were judged before."""
_MAX_CHANCE = 0.01
"""Chance explains the lost runs of an end if it is likelier than this. Crashes and board errors may be flaky."""


def should_recheck_end(log: ProbeLog, *, is_answer: bool = False) -> bool:
    """Return whether to run an end again that was judged before. `is_answer` is as of `_RECHECK_BEFORE_ANSWER`."""
    before, unjudged = _split_unjudged(log.ended)
    known = _judged_contents(before)
    if is_answer:
        return len(unjudged) >= _RECHECK_BEFORE_ANSWER
    lost_again = sum(probe.content in known for probe in unjudged)
    return len(unjudged) >= (_UNJUDGED_IN_A_ROW if lost_again >= _LOST_AGAIN else _RECHECK_AFTER)


def unjudgeable_runs(ended: Sequence[FinishedProbe]) -> Sequence[FinishedProbe]:
    """Return the last runs, in order of their starts, if none could be judged and chance does not explain it.

    Chance would lose k runs of an end with probability ((l + 1) / (m + 2))^k. Here l of m earlier runs of contents that
    can be judged were lost (Laplace's rule of succession). Return no runs elsewhere.
    """
    before, unjudged = _split_unjudged(ended)
    known = _judged_contents(before)
    lost_end_runs = sum(probe.content in known and probe.phase is Phase.ENDPOINT for probe in unjudged)
    runs = [probe for probe in before if probe.content in known]
    lost = sum(probe.judgement is Judgement.SKIP for probe in runs)
    chance = ((lost + 1) / (len(runs) + 2)) ** lost_end_runs
    is_proven = len(unjudged) >= _UNJUDGED_IN_A_ROW and lost_end_runs >= _LOST_AGAIN and chance < _MAX_CHANCE
    return unjudged if is_proven else ()


def describe_unjudgeable(unjudged: Sequence[FinishedProbe]) -> str:
    """Return the error message for `unjudgeable_runs`, with what to do."""
    first, last = unjudged[0], unjudged[-1]
    shown = verdict_phrase(last.verdict, last.signature, last.verdict_source)
    said = "".join(f": {text[:300]}" for text in last.evidence)
    return (
        f"runs {first.number} to {last.number}: expected a run that passes or fails as asked, found "
        f"{shown}{said}; none of these {plural(len(unjudged), 'run')} could be "
        "judged, though commits among them were before: something besides the commits changed; fix it, then resume: "
        "these are run again"
    )


def _judged_contents(runs: Sequence[FinishedProbe]) -> set[str]:
    """Return the contents that have a run which could be judged."""
    return {probe.content for probe in runs if probe.judgement is not Judgement.SKIP}


def _split_unjudged(
    ended: Sequence[FinishedProbe],
) -> tuple[Sequence[FinishedProbe], Sequence[FinishedProbe]]:
    """Return the runs, in order of their starts, up to the last one that could be judged, and those after it."""
    runs = sorted(ended, key=lambda probe: probe.number)
    count = len([*takewhile(lambda probe: probe.judgement is Judgement.SKIP, reversed(runs))])
    return runs[: len(runs) - count], runs[len(runs) - count :]


_SHORT = 12
"""Advice shows this many digits of a commit's id. They are unique in any real repository."""


@dataclass(frozen=True)
class FixCommit:
    """The commit whose change fixes untestable commits before it."""

    commit: Commit
    stretch: str
    """The untestable commits, as a range for git."""
    changed_files: tuple[frozenset[str], ...]
    """The files that each of the untestable commits changes."""
    trial: AskApplies
    """Asks to which of the untestable commits the change applies."""

    def can_overlay(self, path: str) -> bool:
        """Return whether the commit's version of a file can be laid over the untestable commits.

        The commit has to change that file. At most one of the untestable commits may change nothing else, which is the
        one that broke it. Where several do, the searched fault is likely in that file.
        """
        has_version = any(change.path == path and change.has_file for change in self.commit.changes)
        changes_only_file = sum(files <= {path} for files in self.changed_files)
        return has_version and "@" not in path and changes_only_file <= 1 < len(self.changed_files)


def first_working_node(loaded: LoadedRange, fails: Mask, inside: Sequence[int]) -> int | None:
    """Return the first descendant of `inside` without their error. `fails` marks all that have it. Shape [n]."""
    graph = loaded.graph
    for node, parents in enumerate(graph.parents):
        follows_failure = not fails[node] and any(fails[parent] for parent in parents)
        if follows_failure and graph.ancestors(node)[[*inside]].any():
            return node
    return None


def first_working_commit(loaded: LoadedRange, fails: Mask, inside: Sequence[int]) -> Commit | None:
    """Return the commit of the candidate that `first_working_node` finds."""
    found = first_working_node(loaded, fails, inside)
    return None if found is None else loaded.commit_range.nodes[found].commit


def fix_commit(loaded: LoadedRange, fails: Mask, inside: Sequence[int]) -> FixCommit | None:
    """Return the commit that fixes the error of `inside`. Return None where no single change does."""
    commit = first_working_commit(loaded, fails, inside)
    if commit is None or len(commit.parents) != 1:
        return None
    first = loaded.commit_range.nodes[min(inside)].commit
    if not first.parents:
        return None
    return FixCommit(
        commit=commit,
        stretch=f"{first.parents[0][:_SHORT]}..{commit.parents[0][:_SHORT]}",
        changed_files=tuple(frozenset(loaded.commit_range.nodes[node].commit.files) for node in inside),
        trial=AskApplies(
            repository=loaded.range.repository,
            change=commit.sha,
            commits=tuple(loaded.commit_range.nodes[node].commit.sha for node in inside),
        ),
    )


def fix_advice(fix: FixCommit, blamed: str, applies: Sequence[str] | None) -> str:
    """Return how to test untestable commits with the change that fixes them.

    `blamed` is the file that their error blames. `applies` are the commits to which the change applies, or None where
    that is unknown.
    """
    sha, tried = fix.commit.sha[:_SHORT], len(fix.trial.commits)
    pick = f"--cherry-pick {sha}@{fix.stretch}"
    if applies is None:
        return f"; to test them with its change where that applies, add {pick}"
    if len(applies) == tried:
        return f"; to test them with its change, add {pick}"
    where = f"whose change does not apply to {tried - len(applies)} of these {tried}"
    if fix.can_overlay(blamed):
        overlay = shlex.quote(f"{blamed}@{sha}")
        return f", {where}; to test them with that file as it is there, add --overlay {overlay}"
    return f", {where}" + (f"; to test the others with it, add {pick}" if applies else "")


def skip_advice(search: RangeSearch, known: BisectionKnowledge, suspects: Sequence[int]) -> str | None:
    """Return the first commit after the suspects that can be tested, and how to test them with its change.

    Return None where the runs do not show that commit, or where its change applies to fewer than half of the suspects.
    The text is empty where a failure may be the failing end's, so that the suspects were tested.
    """
    if any(map(is_unsure, known.log.ended)):
        return ""
    fix = fix_commit_from_runs(search, known, suspects)
    if fix is None:
        return None
    applies = known.answer(fix.trial)
    if applies is not None and 2 * len(applies) < len(fix.trial.commits):
        return None
    return (
        f"; the first that can be tested behind them is {fix.commit.sha[:_SHORT]}"
        f"{fix_advice(fix, '', applies)}; --overlay and --adapt make commits testable too"
    )


def fix_commit_from_runs(
    search: RangeSearch, known: BisectionKnowledge, suspects: Sequence[int]
) -> FixCommit | None:
    """Return the commit that fixes the suspects, by the judgements of the runs.

    It could be judged, and its parents were skips for the one reason that all suspects have. Return None without such a
    commit, or where the user skips a suspect.
    """
    loaded, log = search.loaded, search.log(known)
    judgements = {
        node: [] if content is None else [probe.judgement for probe in log.probes_for(content)]
        for node, content in enumerate(loaded.candidate_contents)
    }
    judged = {node for node, found in judgements.items() if {*found} - {Judgement.SKIP}}
    skipped = {node for node, found in judgements.items() if found} - judged
    inside = [node for node in suspects if node not in judged]
    reasons = {
        probe.signature
        for node in skipped & {*inside}
        for probe in log.probes_for(loaded.candidate_contents[node] or "")
    }
    if len(reasons) != 1 or any(loaded.candidates[node] in loaded.range.skip for node in inside):
        return None
    fails = np.zeros(len(loaded.graph), dtype=np.bool_)
    fails[inside] = True
    follower = first_working_node(loaded, fails, inside)
    if follower not in judged or not {*loaded.graph.parents[follower]} <= skipped:
        return None
    return fix_commit(loaded, fails, inside)


_END_FAILURES_REQUIRED = 12
"""This many failures of the passing end in a row are not chance. If nothing passed since, more runs tell nothing."""
_MAX_END_CHANCE = 0.001
"""Chance explains that all failures are among the first runs if it is likelier than this."""


def changed_end_notice(loaded: LoadedRange, log: ProbeLog) -> str:
    """Return the phrase that an end no longer shows what it stands for. It is empty where both ends do."""
    passed, failed = _passes_then_failures(loaded, log)
    if passed and len(failed) >= _END_FAILURES_REQUIRED:
        return _describe_changed_end(loaded, passing_end(loaded), "passed", passed, "failed", failed)
    failed, passed = _failures_then_passes(loaded, log)
    if failed and passed and _chance_of_failing_first(log) < _MAX_END_CHANCE:
        return _describe_changed_end(loaded, failing_end(loaded), "failed", failed, "passed", passed)
    return ""


def environment_changed(loaded: LoadedRange, log: ProbeLog, *, workers: int) -> bool:
    """Return whether an end no longer shows what it stands for, so that the search can end.

    With several workers, the change must show in several places.
    """
    passed, failed = _passes_then_failures(loaded, log)
    since = [probe for probe in failed if probe.number > _last_run(log, Judgement.GOOD)]
    if passed and len(since) >= _END_FAILURES_REQUIRED:
        return _has_several_places(since, workers)
    failed, passed = _failures_then_passes(loaded, log)
    is_healed = bool(failed and passed) and _chance_of_failing_first(log) < _MAX_END_CHANCE
    return is_healed and _has_several_places(passed, workers)


def _describe_changed_end(
    loaded: LoadedRange,
    end: Target,
    was: str,
    first: list[FinishedProbe],
    now: str,
    since: list[FinishedProbe],
) -> str:
    regression, passes = loaded.range.seeks is Seeks.REGRESSION, was == "passed"
    word = ("good end" if passes else "bad end") if regression else ("newer end" if passes else "older end")
    runs = ", ".join(str(probe.number) for probe in first)
    return (
        f"the {word} {end.commit[:12]} {was} in run {runs} and {now} in all {plural(len(since), 'run')} since: "
        "something besides the commits changed; "
    )


def _passes_then_failures(
    loaded: LoadedRange, log: ProbeLog
) -> tuple[list[FinishedProbe], list[FinishedProbe]]:
    """Return the first passes of the passing end, and the failures after them. Return none where it passed again."""
    judged = _judged_runs(log, passing_end(loaded).content)
    passed = [*takewhile(lambda probe: probe.judgement is Judgement.GOOD, judged)]
    failed = judged[len(passed) :]
    return ([], []) if any(probe.judgement is Judgement.GOOD for probe in failed) else (passed, failed)


def _failures_then_passes(
    loaded: LoadedRange, log: ProbeLog
) -> tuple[list[FinishedProbe], list[FinishedProbe]]:
    """Return the failures of the failing end, and its passes since anything failed."""
    judged, last = _judged_runs(log, failing_end(loaded).content), _last_run(log, Judgement.BAD)
    return (
        [probe for probe in judged if probe.judgement is Judgement.BAD],
        [probe for probe in judged if probe.number > last],
    )


def _chance_of_failing_first(log: ProbeLog) -> float:
    """Return the probability that no run since the last failure fails, if the fail rate of each commit is constant.

    Then all ways to place the failures of a commit among its runs are equally likely (Fisher's exact test).
    """
    last = _last_run(log, Judgement.BAD)
    return prod(
        comb(sum(probe.number <= last for probe in runs), failures) / comb(len(runs), failures)
        for content in {probe.content for probe in log.ended}
        if (runs := _judged_runs(log, content))
        and (failures := sum(probe.judgement is Judgement.BAD for probe in runs))
    )


def _judged_runs(log: ProbeLog, content: str) -> list[FinishedProbe]:
    return [probe for probe in log.probes_for(content) if probe.judgement is not Judgement.SKIP]


def _last_run(log: ProbeLog, judgement: Judgement) -> int:
    """Return the number of the last run with this judgement. Return 0 without one."""
    return max((probe.number for probe in log.ended if probe.judgement is judgement), default=0)


def _has_several_places(probes: list[FinishedProbe], workers: int) -> bool:
    return workers == 1 or len({probe.place for probe in probes}) > 1


def cherry_pick_questions(
    search: RangeSearch, known: BisectionKnowledge, suspects: Sequence[int]
) -> tuple[AskApplies, ...]:
    """Return the questions whose answers `untestable_stretch_advice` needs."""
    stretch = _untestable_stretch(search, known, suspects)
    if stretch is None:
        fix = fix_commit_from_runs(search, known, suspects)
    else:
        fix = fix_commit(search.loaded, stretch.fails, stretch.inside)
    return () if fix is None else (fix.trial,)


def untestable_stretch_advice(
    search: RangeSearch, known: BisectionKnowledge, suspects: Sequence[int]
) -> str | None:
    """Return why most of the suspects cannot be tested, what fixes that, and how to test them nevertheless.

    Where no error is known, return the advice of `skip_advice`.
    """
    stretch = _untestable_stretch(search, known, suspects)
    if stretch is None:
        return skip_advice(search, known, suspects)
    said = (
        f": {len(stretch.inside)} of them hold what the {stretch.tried_contents} that were tried do not compile for "
        f"({_error_text(stretch.blame.error)})"
    )
    fix = fix_commit(search.loaded, stretch.fails, stretch.inside)
    if fix is not None:
        advice = fix_advice(fix, stretch.blame.file.path, known.answer(fix.trial))
        return f"{said}, which {fix.commit.sha[:_SHORT]} fixes{advice}"
    follower = first_working_commit(search.loaded, stretch.fails, stretch.inside)
    return said if follower is None else f"{said}, which {follower.sha[:_SHORT]} fixes"


@dataclass(frozen=True)
class _UntestableStretch:
    """Suspects that one error keeps from being tested."""

    blame: ErrorBlame
    fails: Mask
    """Which candidates have the error. Shape [n]."""
    inside: tuple[int, ...]
    """The suspects among them."""
    tried_contents: int
    """How many contents were tried and have the error."""


def _untestable_stretch(
    search: RangeSearch, known: BisectionKnowledge, suspects: Sequence[int]
) -> _UntestableStretch | None:
    """Return the stretch with most suspects. Return None where no error of a suspect is known."""
    contents = {search.loaded.candidate_contents[node] for node in suspects}
    found = [
        (_similar_candidates(blame.file, search.evidence.nodes_of(blame.content)[0]), blame)
        for blame in search.blames(known)
        if blame.content in contents
    ]
    if not found:
        return None
    fails, blame = max(found, key=lambda each: int(each[0][[*suspects]].sum()))
    tried = {other.content for similar, other in found if np.array_equal(similar, fails)}
    inside = tuple(node for node in suspects if fails[node])
    return _UntestableStretch(blame=blame, fails=fails, inside=inside, tried_contents=len(tried))


def _similar_candidates(file: BlamedFile, node: int) -> Mask:
    """Return the candidates that fail as the given one does. Shape [n]."""
    similar = file.versions == file.versions[node] if file.fails is None else file.fails
    return similar[:-1]


def _error_text(error: CompilerError) -> str:
    return f"{error.path}:{error.line}: {error.message}"
