"""What keeps runs from being judged: a change outside the commits, or an error that makes a stretch of commits
untestable.

`unjudgeable_runs` finds that nothing can be judged any more, not even what was judged before. `changed_end_notice`
finds an end that showed at first what it stands for, and ever since the opposite. In both cases something besides the
commits changed. `untestable_stretch_advice` explains why suspects cannot be tested and how to test them. It looks for
the commit after them whose change fixes the error. Where no error says why, it names the first commit after the
suspects that can be tested.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import comb, prod

import numpy as np

from ...runner.verdict.rules import CompilerError
from ...store.vocabulary import Commit, Judgement, Phase, Seeks, plural, verdict_words
from ..history.questions import AskApplies
from ..history.range import LoadedRange, Target
from ..search.graph import Mask
from ..search.testability import BlamedFile
from .range_search import ErrorBlame, RangeSearch
from .runs import BisectionKnowledge, FinishedProbe, ProbeLog, failing_end, passing_end

_MANY, _SOME = 6, 2
"""The unjudged runs in a row after which the end that passed is run again. That run tells untestable commits from a
place where nothing can be judged. The second number is enough before an answer that names untestable suspects."""
_ENOUGH, _AGAIN = 4, 2
"""The unjudged runs in a row that are enough if some are of what was judged before. The second number is how many of
these are needed; as many of an end decide."""
_CHANCE = 0.01
"""Below this probability, chance does not explain that the end's runs were lost. A commit's crashes and a board's
errors may be flaky; where these explain lost runs, the runs prove nothing."""


def should_recheck_end(log: ProbeLog, *, is_answer: bool = False) -> bool:
    """Return whether to run again what was judged before. `is_answer`: whether the next answer names untestable
    suspects."""
    before, unjudged = _split_unjudged(log.ended)
    known = _judged_contents(before)
    again = sum(probe.content in known for probe in unjudged)
    least = _SOME if is_answer else _ENOUGH if again >= _AGAIN else _MANY
    return len(unjudged) >= least


def unjudgeable_runs(ended: Sequence[FinishedProbe]) -> Sequence[FinishedProbe]:
    """Return the last runs in order of their starts, where none could be judged and chance does not explain it.

    The runs of an end among them are too many to be lost by chance. Return none where that is not so.

    By chance k runs of what can be judged are lost with probability ((l + 1) / (m + 2))^k. Here l of m such runs were
    lost before (Laplace's rule of succession).
    """
    before, unjudged = _split_unjudged(ended)
    known = _judged_contents(before)
    of_ends = sum(probe.content in known and probe.phase is Phase.ENDPOINT for probe in unjudged)
    runs = [probe for probe in before if probe.content in known]
    lost = sum(probe.judgement is Judgement.SKIP for probe in runs)
    by_chance = ((lost + 1) / (len(runs) + 2)) ** of_ends
    told = len(unjudged) >= _ENOUGH and of_ends >= _AGAIN and by_chance < _CHANCE
    return unjudged if told else ()


def describe_unjudgeable(unjudged: Sequence[FinishedProbe]) -> str:
    """Return the message about such runs, and what to do."""
    first, last = unjudged[0], unjudged[-1]
    shown = verdict_words(last.verdict, last.signature, last.verdict_source)
    said = "".join(f": {text[:300]}" for text in last.evidence)
    return (
        f"runs {first.number} to {last.number}: expected a run that passes or fails as asked, found "
        f"{shown}{said}; none of these {plural(len(unjudged), 'run')} could be "
        "judged, though commits among them were before: something besides the commits changed; mend it, then resume: "
        "these are run again"
    )


def _judged_contents(runs: Sequence[FinishedProbe]) -> set[str]:
    """Return the contents of which some run could be judged."""
    return {probe.content for probe in runs if probe.judgement is not Judgement.SKIP}


def _split_unjudged(
    ended: Sequence[FinishedProbe],
) -> tuple[Sequence[FinishedProbe], Sequence[FinishedProbe]]:
    """Return the runs, in order of their starts, up to the last one that could be judged, and those after it."""
    runs = sorted(ended, key=lambda probe: probe.number)
    count = len([*takewhile(lambda probe: probe.judgement is Judgement.SKIP, reversed(runs))])
    return runs[: len(runs) - count], runs[len(runs) - count :]


_SHORT_COMMIT = 12
"""Advice shows this many digits of a commit's id. They are unique in any real repository."""


@dataclass(frozen=True)
class FixCommit:
    """The commit whose change fixes the others, and their stretch of history.

    `changed` are the files of each of them. `trial` asks at which of them the change can be made.
    """

    commit: Commit
    stretch: str
    changed: tuple[frozenset[str], ...]
    trial: AskApplies

    def can_overlay(self, path: str) -> bool:
        """Return whether the commit's version of a file can be laid over the others.

        It changes the file and leaves one. Of the others at most one changes nothing else: the one that broke it. Where
        more do, the fault is likely in that file.
        """
        leaves = any(change.path == path and change.has_file for change in self.commit.changes)
        alone = sum(files <= {path} for files in self.changed)
        return leaves and "@" not in path and alone <= 1 < len(self.changed)


def first_working_node(loaded: LoadedRange, fails: Mask, inside: Sequence[int]) -> int | None:
    """Return the first candidate after some others that does not fail as they do. `fails` marks all that do. Shape
    [n]."""
    parents = loaded.graph.parents
    behind = (
        node
        for node in range(len(parents))
        if not fails[node] and any(fails[parent] for parent in parents[node])
    )
    return next(
        (node for node in behind if {*inside} & {*np.flatnonzero(loaded.graph.ancestors(node))}), None
    )


def first_working_commit(loaded: LoadedRange, fails: Mask, inside: Sequence[int]) -> Commit | None:
    """Return the commit of the candidate that `first_working_node` finds."""
    found = first_working_node(loaded, fails, inside)
    return None if found is None else loaded.collapsed.nodes[found].commit


def fix_commit(loaded: LoadedRange, fails: Mask, inside: Sequence[int]) -> FixCommit | None:
    """Return the commit that fixes the failure of `inside`. Return None where there is none, or where no single change
    could be made inside."""
    commit = first_working_commit(loaded, fails, inside)
    if commit is None or len(commit.parents) != 1:
        return None
    first = loaded.collapsed.nodes[min(inside)].commit
    if not first.parents:
        return None
    return FixCommit(
        commit=commit,
        stretch=f"{first.parents[0][:_SHORT_COMMIT]}..{commit.parents[0][:_SHORT_COMMIT]}",
        changed=tuple(frozenset(loaded.collapsed.nodes[node].commit.files) for node in inside),
        trial=AskApplies(
            repository=loaded.range.repository,
            change=commit.sha,
            commits=tuple(loaded.collapsed.nodes[node].commit.sha for node in inside),
        ),
    )


def fix_advice(mending: FixCommit, blamed: str, applies: Sequence[str] | None) -> str:
    """Return how to test the suspects with the change that fixes them. `applies` are those at which it can be made,
    where that is known."""
    sha, tried = mending.commit.sha[:_SHORT_COMMIT], len(mending.trial.commits)
    pick = f"--cherry-pick {sha}@{mending.stretch}"
    if applies is None:
        return f"; to test them with its change where that applies, add {pick}"
    if len(applies) == tried:
        return f"; to test them with its change, add {pick}"
    where = f"whose change does not apply to {tried - len(applies)} of these {tried}"
    if mending.can_overlay(blamed):
        overlay = shlex.quote(f"{blamed}@{sha}")
        return f", {where}; to test them with that file as it is there, add --overlay {overlay}"
    return f", {where}" + (f"; to test the others with it, add {pick}" if applies else "")


_SHORT_SHA = 12
"""A skip's advice shows this many digits of a commit's id. They are unique in any real repository."""


def skip_advice(search: RangeSearch, known: BisectionKnowledge, suspects: Sequence[int]) -> str:
    """Return the first commit after the suspects that can be tested, and how to test them with its change.

    The text is empty where runs do not tell, or where the change applies to none of them.
    """
    mending = fix_commit_from_runs(search, known, suspects)
    if mending is None or (applies := known.answer(mending.trial)) == ():
        return ""
    return (
        f"; the first that can be tested behind them is {mending.commit.sha[:_SHORT_SHA]}"
        f"{fix_advice(mending, '', applies)}; --overlay and --adapt make commits testable too"
    )


def fix_commit_from_runs(
    search: RangeSearch, known: BisectionKnowledge, suspects: Sequence[int]
) -> FixCommit | None:
    """Return the commit that fixes the suspects, as far as runs tell.

    It could be tested, and what it builds on could not, for the reason that all others have. Return None where runs do
    not tell, or where the user skips some of the suspects.
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
    behind = first_working_node(loaded, fails, inside)
    if behind not in judged or not {*loaded.graph.parents[behind]} <= skipped:
        return None
    return fix_commit(loaded, fails, inside)


_END_FAILURES_REQUIRED = 12
"""This many failures of the passing end in a row are not chance. With no pass of anything since, no further run tells
who is to blame."""
_MAX_END_CHANCE = 0.001
"""Chance explains that all failures are among the first runs if it is likelier than this. The rates are taken as
constant."""


def changed_end_notice(loaded: LoadedRange, log: ProbeLog) -> str:
    """Return the phrase that an end no longer shows what it stands for. It is empty where that is not so."""
    passed, failed = _passes_then_failures(loaded, log)
    if passed and len(failed) >= _END_FAILURES_REQUIRED:
        return _describe_changed_end(loaded, passing_end(loaded), "passed", passed, "failed", failed)
    failed, passed = _failures_then_passes(loaded, log)
    if failed and passed and _chance_of_failing_first(log) < _MAX_END_CHANCE:
        return _describe_changed_end(loaded, failing_end(loaded), "failed", failed, "passed", passed)
    return ""


def environment_changed(loaded: LoadedRange, log: ProbeLog, *, workers: int) -> bool:
    """Return whether the search can end because of that. Where there are several places, a change of one is no
    reason."""
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
    """Return the passes of the passing end, and the failures after them. Return none where it also failed before it
    passed."""
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
    """Return how likely it is that no run since the last failure fails, if each commit's fail rate stays the same.

    For each commit, all ways to place its failures among its runs are equally likely (Fisher's exact test, by commit).
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


_SHORT = 12
"""The advice about a stretch shows this many digits of a commit's id. They are unique in any real repository."""


def cherry_pick_questions(
    search: RangeSearch, known: BisectionKnowledge, suspects: Sequence[int]
) -> tuple[AskApplies, ...]:
    """Return what has to be asked before `untestable_stretch_advice` can say how to make the suspects testable."""
    wall = _untestable_stretch(search, known, suspects)
    if wall is None:
        mending = fix_commit_from_runs(search, known, suspects)
    else:
        mending = fix_commit(search.loaded, wall.fails, wall.inside)
    return () if mending is None else (mending.trial,)


def untestable_stretch_advice(search: RangeSearch, known: BisectionKnowledge, suspects: Sequence[int]) -> str:
    """Return why most of the suspects cannot be tested, what fixes that, and how to test them nevertheless.

    Where no error tells, return the first commit after them that can be tested, if runs show which that is. The text is
    empty where nothing is known.
    """
    wall = _untestable_stretch(search, known, suspects)
    if wall is None:
        return skip_advice(search, known, suspects)
    said = (
        f": {len(wall.inside)} of them hold what the {wall.tried} that were tried do not compile for "
        f"({_error_text(wall.blame.error)})"
    )
    mending = fix_commit(search.loaded, wall.fails, wall.inside)
    if mending is not None:
        advice = fix_advice(mending, wall.blame.file.path, known.answer(mending.trial))
        return f"{said}, which {mending.commit.sha[:_SHORT]} mends{advice}"
    behind = first_working_commit(search.loaded, wall.fails, wall.inside)
    return said if behind is None else f"{said}, which {behind.sha[:_SHORT]} mends"


@dataclass(frozen=True)
class _UntestableStretch:
    """Suspects that one error keeps from being tested.

    inside: the suspects. fails: which of all candidates have the error; shape [n]. tried: how many contents were tried.
    """

    blame: ErrorBlame
    fails: Mask
    inside: tuple[int, ...]
    tried: int


def _untestable_stretch(
    search: RangeSearch, known: BisectionKnowledge, suspects: Sequence[int]
) -> _UntestableStretch | None:
    contents = {search.loaded.candidate_contents[node] for node in suspects}
    walls = [
        (_similar_candidates(blame.file, search.evidence.nodes_of(blame.content)[0]), blame)
        for blame in search.blames(known)
        if blame.content in contents
    ]
    if not walls:
        return None
    fails, most = max(walls, key=lambda each: int(each[0][[*suspects]].sum()))
    tried = {blame.content for alike, blame in walls if np.array_equal(alike, fails)}
    return _UntestableStretch(most, fails, tuple(node for node in suspects if fails[node]), len(tried))


def _similar_candidates(file: BlamedFile, node: int) -> Mask:
    """Return the candidates that fail as the given one does. Shape [n]."""
    alike = file.versions == file.versions[node] if file.fails is None else file.fails
    return alike[:-1]


def _error_text(error: CompilerError) -> str:
    return f"{error.path}:{error.line}: {error.message}"
