"""What speaks against an answer, and advice where the ends of a question do not differ.

`find_caveats` returns one clause for each fact that speaks against the culprit, with what to do. Each function of
`_CAVEATS` looks for one such fact. `other_failures` lists the failures that are not the searched one. `end_lines` and
`advice_for_bisection` show what the ends of a bisection printed, and what usually explains it.
"""

import gzip
import re
import shlex
import zlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from math import inf, sqrt
from pathlib import Path
from typing import TypeVar

from ...runner.probe.judge import distinguishing_condition
from ...runner.stack import display_text
from ...runner.verdict.likeness import failing_tests, strip_parameters
from ...runner.verdict.rules import error_size
from ...runner.verdict.symptoms import Family, Symptoms, all_last_lines
from ...store.tables import ProbeRow
from ...store.vocabulary import (
    Judgement,
    Seeks,
    Verdict,
    VerdictSource,
    exit_code_signature,
    plural,
    shorten,
    verdict_phrase,
)
from ..ask.earlier_runs import merge_base_finding
from ..ask.question import BisectRequest
from ..engine.failures import HANG_ADVICE
from .basis import Rows, SearchedRange
from .model import OtherFailure, Reproduction
from .phrases import condition_phrase

_MEASURE = "times_tolerance"
_SAME_SIZE_RATIO = 2.0
"""Two errors are of one size where the larger is less than this many times the smaller."""

_GROWTH_RATIO = 4.0
"""An error has grown where it is at least this many times the error of the good end."""

_ERROR_FLOOR = 1e-4
"""Smaller errors are taken as this large, because some errors are zero."""


def _near_tolerance_caveat(rows: Rows, sides: Reproduction) -> str | None:
    """Return a caveat if some failing run's worst error is less than twice the largest among the passing parent's runs.

    Such a culprit only tips the case over its tolerance. An earlier commit may have brought the error, or rounding
    decides by chance. None where the errors differ more, or were not measured.
    """
    if rows.request.bad_when != Verdict.MISMATCH or rows.request.seeks is Seeks.FIX:
        return None
    if sides.good is None or sides.bad is None:
        return None
    failing = _worst_errors(rows.runs_of(sides.bad))
    passing = _worst_errors(rows.runs_of(sides.good))
    if not failing or not passing or min(failing) >= _SAME_SIZE_RATIO * max(passing):
        return None
    text = (
        f"the worst error is {min(failing):.2g} times the tolerance at {sides.bad.commit[:12]}, and "
        f"{max(passing):.2g} times at {sides.good.commit[:12]}, which passes"
    )
    searched = rows.ranges[0]
    at_start = _worst_errors(searched.runs_of(searched.stage.old))
    if not at_start:
        return text
    start = max(at_start)
    text = f"{text}; it was {start:.2g} times at the good end"
    if start > max(passing) / _GROWTH_RATIO:
        return f"{text}: rounding alone may decide which commits fail, and the tolerance may be too tight"
    between = sqrt(max(start, _ERROR_FLOOR) * max(passing))
    return (
        f"{text}: an earlier commit made it grow; to find that one, ask with "
        f"--bad-when {_MEASURE}:{between:.0e}"
    )


def _worst_errors(probes: Iterable[ProbeRow]) -> list[float]:
    """Return the worst error of each measured run. Empty where one is infinite, because no tolerance bounds it."""
    found = [error_size(probe.metrics or {}, _MEASURE) for probe in probes]
    sizes = [size.value for size in found if size is not None]
    return [] if inf in sizes else sizes


_T = TypeVar("_T")
_Failure = tuple[Verdict, str | None]


def other_failures(rows: Rows) -> tuple[OtherFailure, ...]:
    """Return every failure in each range other than the failure that the bisection searched for.

    If the search distinguished failures, return those that it did not count. Otherwise, the searched failures are those
    of the culprit, or of the failing end if there is no culprit. A failure at the same commit as a searched one counts
    as searched, because runs of one commit may differ.
    """
    return tuple(failure for searched in rows.ranges for failure in _other_failures_in_range(rows, searched))


def _other_failures_in_range(rows: Rows, searched: SearchedRange) -> Iterator[OtherFailure]:
    by_commit = {sha: _failures(runs) for sha, runs in searched.runs.items()}
    counted = _counted_failures(rows, searched)
    sought = counted or add_cooccurring(
        by_commit.get(searched.representative_of(_failing_commit(rows, searched)), frozenset()),
        [*by_commit.values()],
    )
    if not sought:
        return
    commits_of: dict[_Failure, list[str]] = {}
    # The old end may represent the first commits of the range, but it is none of them.
    for sha in (sha for sha in searched.members if sha in searched):
        shown = by_commit.get(sha, frozenset())
        # If the search did not distinguish failures, a commit that shows a searched failure shows no other.
        if counted or not shown & sought:
            for failure in sorted(shown - sought, key=str):
                commits_of.setdefault(failure, []).append(sha)
    for failure, commits in commits_of.items():
        yield _describe_failure(rows, searched, failure, commits)


def _counted_failures(rows: Rows, searched: SearchedRange) -> frozenset[_Failure]:
    """Return the failures that the search counted as bad. Empty if the search did not distinguish failures."""
    if rows.conclusion is None or not rows.conclusion.fail_otherwise:
        return frozenset()
    runs = (run for runs in searched.runs.values() for run in runs)
    return _failures(run for run in runs if rows.judgement(run) is Judgement.BAD)


def _failing_commit(rows: Rows, searched: SearchedRange) -> str:
    """Return a commit that shows the searched failure: the culprit, or the failing end of the range."""
    stage, conclusion = searched.stage, rows.conclusion
    if stage.seeks is Seeks.FIX:
        return stage.old
    named = [*conclusion.culprits, *filter(None, [conclusion.through])] if conclusion else []
    return next((each.commit for each in named if each.commit in searched), stage.new)


def _failures(runs: Iterable[ProbeRow]) -> frozenset[_Failure]:
    return frozenset(
        (run.verdict, run.signature)
        for run in runs
        # A timeout may be the machine's.
        if run.verdict is not None and run.verdict.traits.is_failure and run.verdict is not Verdict.TIMEOUT
    )


def _describe_failure(
    rows: Rows, searched: SearchedRange, failure: _Failure, commits: Sequence[str]
) -> OtherFailure:
    """Return the report of a failure that `commits` showed, parents before children."""
    first, repository = commits[0], searched.stage.repository
    runs = {
        sha: [run for run in searched.runs[sha] if (run.verdict, run.signature) == failure] for sha in commits
    }
    shown = runs[first][-1]
    parents = [searched.representative_of(parent) for parent in searched.parents(first)]
    is_onset = bool(parents) and all(_always_passes(searched, parent) for parent in parents)
    return OtherFailure(
        verdict=failure[0],
        signature=failure[1],
        first=rows.reference(repository, first),
        last=rows.reference(repository, commits[-1]),
        commits=len(commits),
        counts_as_bad=any(rows.judgement(run) is Judgement.BAD for own in runs.values() for run in own),
        onset=rows.reference(repository, first) if is_onset else None,
        may_have_begun_at=0 if is_onset else len(_possible_onsets(searched, first)),
        shown=shown.ordinal,
        verdict_source=shown.verdict_source,
    )


def _possible_onsets(searched: SearchedRange, first: str) -> set[str]:
    """Return the commits that may have introduced the failure that `first` shows.

    The failure began after the ancestors that passed. Commits that could not be run, or that failed in another way, may
    already have it.
    """
    before = searched.ancestors(first)
    passing = [sha for sha in before if _always_passes(searched, searched.representative_of(sha))]
    untested = before - searched.ancestors(*passing)
    return {searched.representative_of(sha) for sha in untested} & searched.members.keys()


def _always_passes(searched: SearchedRange, sha: str) -> bool:
    return {run.verdict for run in searched.runs.get(sha, ())} == {Verdict.PASS}


def add_cooccurring(failures: frozenset[_T], at_commits: Collection[frozenset[_T]]) -> frozenset[_T]:
    """Return `failures` and every failure that shares a commit with one of them, directly or through a chain.

    Runs of one commit can show one failure in several ways, so failures that occur together count as one.

    >>> sorted(add_cooccurring(frozenset({1}), [frozenset({3, 2}), frozenset({1, 2}), frozenset({4})]))
    [1, 2, 3]
    """
    known = frozenset[_T]()
    while failures != known:
        known = failures
        failures = known.union(*(each for each in at_commits if each & known))
    return failures


def _other_failure_caveat(rows: Rows, sides: Reproduction) -> str | None:
    """Return a caveat where the answer's bad side and the failing end have no signature in common.

    Between the two, one failure may have been fixed and another one introduced. None where the signatures are not
    known.
    """
    # A search that compares failures counted only runs that match the failing end's failure, even if their messages
    # differ.
    bad = sides.bad
    if bad is None or _compares_failures(rows):
        return None
    searched = rows.ranges[0]
    end = searched.stage.old if searched.stage.seeks is Seeks.FIX else searched.stage.new
    at_end = add_cooccurring(
        _signatures(searched.runs_of(end)), [_signatures(runs) for runs in searched.runs.values()]
    )
    found = _signatures(rows.runs_of(bad))
    if not at_end or not found or at_end & found:
        return None
    remedy = (
        "give --bad-when a pattern that only the failing end's output matches"
        if rows.request.is_command
        else f"ask with --bad-when 'signature:{min(at_end)}'"
    )
    return (
        f"{bad.commit[:12]} fails with {min(found)}, but the failing end {end[:12]} fails with {min(at_end)}: "
        f"these may be two failures; to find the commit that introduced {min(at_end)}, {remedy}"
    )


def _silent_failure_caveat(rows: Rows, sides: Reproduction) -> str | None:
    """Return a caveat where a command's failure prints nothing that distinguishes it from another failure.

    None where the question says what is bad.
    """
    if sides.bad is None or not _compares_failures(rows):
        return None
    passing = _symptoms(probe for probe in rows.probes if probe.judgement is Judgement.GOOD)
    usual = all_last_lines(passing)
    shown = [each.subtract_usual(passing) for each in _symptoms(rows.runs_of(sides.bad))]
    if not shown or any(_names_cause(each, usual) for each in shown):
        return None
    return (
        "its output does not distinguish this failure from others: every run with the same exit code counts as bad; to "
        "be sure, let the command print its errors, or name what is bad, as in --bad-when 'log:/error (\\S+)/ > 0.02'"
    )


def _untested_pass_caveat(rows: Rows, sides: Reproduction) -> str | None:
    """Return a caveat where a test runner printed on the passing side that no test ran.

    None if the failing side failed before its tests. Then the passing side needs no test, because its build succeeded.
    """
    if sides.good is None or sides.bad is None or not rows.request.is_command:
        return None
    passing, failing = (_symptoms(rows.runs_of(side)) for side in (sides.good, sides.bad))
    if not passing or not all(each.ran_no_test for each in passing):
        return None
    if any(cause.family.prevents_check for each in failing for cause in each.causes):
        return None
    return (
        f"no test ran at {sides.good.commit[:12]}, which counted as passing: the commit may have brought the test, and "
        "not the failure; to run the test at each commit, lay it over them with --overlay"
    )


def _new_test_caveat(rows: Rows, sides: Reproduction) -> str | None:
    """Return a caveat if a culprit adds the failing test's name and its parents fail in other tests.

    The test may have failed earlier under another name.
    """
    if sides.bad is None or rows.request.seeks is Seeks.FIX or not _compares_failures(rows):
        return None
    tests = _failing_tests(rows.runs_of(sides.bad))
    for named in rows.conclusion.culprits if rows.conclusion else ():
        searched = rows.last_range_of(named.repository)
        earlier = sorted(_failing_tests(rows.uncounted_runs(searched, searched.parents(named.commit))))
        new = next((test for test in sorted(tests) if _adds_test_name(rows, named.commit, test)), None)
        if earlier and new is not None:
            return (
                f"it adds the failing test's name ({new}), and {earlier[0]} fails before it: the test may have failed "
                "earlier under another name; to check, run its file at each commit with --overlay"
            )
    return None


def _failing_tests(probes: Iterable[ProbeRow]) -> set[str]:
    """Return the names of the tests that fail in some runs."""
    return {test for each in _symptoms(probes) for test in failing_tests(each.causes)}


def _symptoms(probes: Iterable[ProbeRow]) -> list[Symptoms]:
    """Return the symptoms of the runs that recorded any."""
    return [Symptoms.from_json(probe.symptoms) for probe in probes if probe.symptoms is not None]


def _adds_test_name(rows: Rows, commit: str, test: str) -> bool:
    """Return whether the name of a test occurs only in added lines of the culprit's diff.

    Only the test's own file counts. Names of unittest, go and ctest hold no file, so they may be in any.
    """
    path, _, name = strip_parameters(test).rpartition("::")
    file = path.partition("::")[0]
    word = re.compile(rf"(?<!\w){re.escape(name.partition(' (')[0])}(?!\w)")
    lines = [
        line
        for diff in (rows.conclusion.diffs if rows.conclusion else ())
        if diff.commit == commit
        for hunk in diff.hunks
        if not file or f"/{hunk.path}".endswith(f"/{file}")
        for line in hunk.lines
        if word.search(line)
    ]
    return bool(lines) and all(line.startswith("+") for line in lines)


def _unchanged_parent_caveat(rows: Rows, sides: Reproduction) -> str | None:
    """Return a caveat if a command was not run at the culprit's parent, because the parent changes no file that counts.

    The result can still differ if the command asks git for the current commit.
    """
    culprits = rows.conclusion.culprits if rows.conclusion and rows.request.is_command else ()
    for named in culprits:
        searched = rows.last_range_of(named.repository)
        for parent in searched.parents(named.commit):
            represented = searched.representative_of(parent)
            # A parent that touches none of the searched paths has a representative, but is run all the same.
            was_run = any(probe.commit == parent for probe in searched.runs_of(parent))
            is_folded = represented != parent and parent in searched and not was_run
            if is_folded and len(searched.parents(parent)) == 1:
                return (
                    f"its parent {parent[:12]} changes no file that counts and was not run, because it equals "
                    f"{represented[:12]}: if the command asks git for its commit, run it at {parent[:12]} by hand"
                )
    return None


_CAVEATS: Sequence[Callable[[Rows, Reproduction], str | None]] = (
    _other_failure_caveat,
    _silent_failure_caveat,
    _near_tolerance_caveat,
    _untested_pass_caveat,
    _new_test_caveat,
    _unchanged_parent_caveat,
)


def find_caveats(rows: Rows, sides: Reproduction) -> tuple[str, ...]:
    """Return one clause for each fact that speaks against the culprit. Empty if no culprit is named.

    `sides` holds the culprit and its parent.
    """
    if rows.conclusion is None or not rows.conclusion.culprits:
        return ()
    return tuple(filter(None, (caveat(rows, sides) for caveat in _CAVEATS)))


def _compares_failures(rows: Rows) -> bool:
    """Return whether the search compared the failures of a command with that of the failing end."""
    return rows.request.is_command and rows.request.judging_rule.compares_failures


def _names_cause(failure: Symptoms, usual: Set[str]) -> bool:
    """Return whether a failure prints more than that it failed. A line of one word, such as FAILED, names no cause.

    usual: lines that passing runs print too.
    """
    named = any(each.text or each.family is not Family.ERROR for each in failure.causes)
    return named or any(len(line.split()) > 1 for line in failure.last_lines if line not in usual)


def _signatures(probes: Iterable[ProbeRow]) -> frozenset[str]:
    return frozenset(
        probe.signature for probe in probes if probe.judgement is Judgement.BAD and probe.signature
    )


_MAX_LOG_LINES = 5
"""Advice shows this many of a log's last lines, with the path of the log."""

_MAX_LINE_LENGTH = 200
"""Advice shows this many characters of a log's line, because a line of data could fill the screen."""


def end_lines(rows: Rows) -> Iterator[str]:
    """Yield what both ends showed, with the last lines of their logs, and what to check.

    Paths stand on lines of their own.
    """
    for end in end_summaries(rows):
        yield from end.lines
        if end.log is not None:
            yield str(end.log)
    if checks := advice_for_bisection(rows):
        yield "to check:"
        yield from (f"  - {text}" for text in checks)


@dataclass(frozen=True, kw_only=True)
class EndSummary:
    """Shows an end: its runs in one line, then the last lines of the newest run's log."""

    lines: tuple[str, ...]
    log: Path | None


def end_summaries(rows: Rows) -> list[EndSummary]:
    """Return what both ends showed. The good end is left out while it is still searched for."""
    named = (("good", rows.bisection.good), ("bad", rows.bisection.bad))
    base = rows.request.range.old if rows.request.parted else None
    of_base = f"the merge base {base[:12]}, run as the {{}} end" if base else ""
    runs = [
        (of_base.format(end) if sha == base else f"{end} {sha[:12]}", _runs_of(rows, sha))
        for end, sha in named
    ]
    return [
        _end_summary(title, each, rows.request.bad_when)
        for title, each in runs
        if each or not rows.request.gallop
    ]


def advice_for_bisection(rows: Rows) -> list[str]:
    """Return what usually explains the results of a bisection's ends, one line each.

    Empty where a merge base, run in place of an end, shows on which side the change lies, because that is the answer.
    """
    if merge_base_finding(rows.request, rows.probes) is not None:
        return []
    ends = _runs_of(rows, rows.bisection.good), _runs_of(rows, rows.bisection.bad)
    return list(advice_for_ends(rows.request, *ends))


def has_unjudged_end(rows: Rows) -> bool:
    """Return whether a bisection may have stopped because an end could not be judged."""
    runs = (_runs_of(rows, rows.bisection.good), _runs_of(rows, rows.bisection.bad))
    return any(each and each[-1].judgement is Judgement.SKIP for each in runs)


def advice_for_ends(
    request: BisectRequest, good: Sequence[ProbeRow], bad: Sequence[ProbeRow]
) -> Iterator[str]:
    """Yield what usually explains such runs of both ends, for a question of this kind.

    Where each end showed its own result, only the advice on skipped runs applies.
    """
    yield from _skip_advice((*good, *bad))
    if _has_expected_ends(good, bad):
        return
    if request.interactive:
        yield from _interactive_advice(good, bad)
        return
    if request.is_command:
        yield from _command_advice(request, good, bad)
        return
    if not any(run.judgement is Judgement.BAD for run in bad):
        yield from _bad_end_advice(request, bad)
    if _good_end_fails(good, bad):
        yield "the good end fails: name an older --good, or none, and one is looked for behind the bad end"
        if request.golden_data is not None:
            yield f"were the data in {request.golden_data} made by a revision that was right?"
    yield from _case_advice(request)


def _bad_end_advice(request: BisectRequest, bad: Sequence[ProbeRow]) -> Iterator[str]:
    """Yield what may explain that no run of the bad end fails as asked."""
    shown = {probe.verdict for probe in bad if probe.verdict}
    unknown = {probe.exit_code or 0 for probe in bad if probe.verdict is Verdict.UNKNOWN}
    conditions = {verdict: f"shows {verdict}" for verdict in sorted(shown) if verdict.traits.can_be_bad} | {
        f"exit:{code}": f"ends with {exit_code_signature(code)}" for code in sorted(unknown) if 0 < code < 256
    }
    for condition, found in conditions.items():
        yield (
            f"the bad end {found}, which does not count as bad: if it is the failure, say --bad-when {condition}"
        )
    if Verdict.PASS in shown:
        yield f"the bad end passes on {request.platform}, device {request.device}: did the failure need others?"
        if request.stack.case.harness and not request.stack.case.after:
            yield "does it fail only behind another case in one process? then name that case with --after CASE"
        if request.captures_golden:
            yield "inputs are drawn at the good end: if only some data fail, name them with --golden-data DIR"
        else:
            yield "does the failure show on the frozen data, or did it need other inputs?"


def _has_expected_ends(good: Sequence[ProbeRow], bad: Sequence[ProbeRow]) -> bool:
    return any(run.judgement is Judgement.GOOD for run in good) and any(
        run.judgement is Judgement.BAD for run in bad
    )


def _interactive_advice(good: Sequence[ProbeRow], bad: Sequence[ProbeRow]) -> Iterator[str]:
    """Yield what may explain the ends where a person judges the runs."""
    skipped = [probe for probe in (*good, *bad) if probe.verdict_source is VerdictSource.PERSON]
    if any(probe.judgement is Judgement.SKIP for probe in skipped):
        yield (
            "an end was skipped by the person who judges: a resume asks again; where it cannot be told there, name "
            "another end"
        )
    elif good and bad:
        yield "a person judged both ends: is good what was good, and bad what fails, of the same case?"
    if _good_end_fails(good, bad):
        yield "the good end fails: name an older --good, or none, and one is looked for behind the bad end"


def _good_end_fails(good: Sequence[ProbeRow], bad: Sequence[ProbeRow]) -> bool:
    """Return whether the good end fails, and the two ends are not merely swapped."""
    swapped = {run.judgement for run in good} == {Judgement.BAD} and {run.judgement for run in bad} == {
        Judgement.GOOD
    }
    return not swapped and any(run.judgement is Judgement.BAD for run in good)


def _case_advice(request: BisectRequest) -> Iterator[str]:
    if request.runtime_dir is not None:
        yield (
            f"every run uses the build directory {request.runtime_dir}: a fault of the compiler is in it at both ends, "
            f"and only what {request.repository} does can differ"
        )
        return
    before = (
        f", after {', '.join(request.stack.case.after)} in its process" if request.stack.case.after else ""
    )
    yield f"the case at both ends: {request.case_text}{before} (--case takes its arguments in the same word)"


def _skip_advice(runs: Sequence[ProbeRow]) -> Iterator[str]:
    """Yield what to repair first where runs could not be judged."""
    remedies: dict[str, dict[str, None]] = {}
    for probe in runs:
        if probe.verdict and probe.verdict.traits.remedy is not None:
            found = remedies.setdefault(probe.verdict.traits.remedy, {})
            found[probe.signature or "the log says what"] = None
    for remedy, said in remedies.items():
        yield f"{remedy} ({', '.join(said)}), then resume: what could not be judged is run again"
    failed = dict.fromkeys(
        probe.signature or "see the log"
        for probe in runs
        if probe.verdict and probe.verdict.traits.fails_to_build
    )
    if failed:
        yield (
            f"the build fails ({', '.join(failed)}): does it by hand, at this commit? bisect-precision doctor looks "
            "for tools that are missing"
        )


def _command_advice(
    request: BisectRequest, good: Sequence[ProbeRow], bad: Sequence[ProbeRow]
) -> Iterator[str]:
    """Yield advice for a command whose ends do not differ."""
    last = (run.symptoms for runs in (good, bad) for run in runs[-1:])
    if any(Symptoms.from_json(each).missing_test for each in last if each is not None):
        return  # the error says what is missing
    folder = display_text(request.stack.case.cwd).partition("/")[2]
    where = f"in the folder {folder} of a worktree" if folder else "in a worktree"
    judged = "exit code 0 is good, a failure is bad, 125-127 are skipped"
    yield f"the command at both ends: {request.case_text}; {request.bad_criterion or judged}"
    codes_of_last = {runs[-1].exit_code for runs in (good, bad) if runs}
    if good and bad and len(codes_of_last) == 1 and codes_of_last != {None}:
        yield _same_exit_advice(request, good[-1], bad[-1], where)
        if (shown := _condition_of_bad_end(good, bad)) is not None:
            condition = shlex.quote(shown)
            yield f"the bad end shows what the good end does not: to count that as bad, add --bad-when {condition}"
    if _good_end_fails(good, bad):
        codes = [{run.exit_code for run in runs if run.judgement is Judgement.BAD} for runs in (good, bad)]
        how = " otherwise than the bad one" if all(codes) and codes[0].isdisjoint(codes[1]) else ""
        yield f"the good end fails{how}: name an older --good, or none, and one is looked for behind the bad end"
    skipped = {
        probe.verdict for probe in (*good, *bad) if probe.verdict and probe.judgement is Judgement.SKIP
    }
    if Verdict.TIMEOUT in skipped:
        limit = "its --timeout" if request.timeout is None else f"--timeout {request.timeout:g}"
        yield f"an end did not end within {limit}: {HANG_ADVICE}"
    # For a build or a machine that fails, the advice is `_skip_advice`'s.
    others = {each for each in skipped if each.traits.judges_commit and not each.traits.fails_to_build}
    if others - {Verdict.TIMEOUT}:
        if request.bad_when is None:
            yield "an end was skipped: can the command be found, and run, at that commit?"
        else:
            yield f"an end fails, and not as --bad-when {request.bad_when} says: ask again with what its log shows"


def _same_exit_advice(request: BisectRequest, good: ProbeRow, bad: ProbeRow, where: str) -> str:
    """Return what may explain that both ends exit with one code. `where` says in which folder the command runs."""
    module = _missing_module(good)
    if module is not None and module == _missing_module(bad):
        return (
            f"both ends end with {module}, before they check anything: if {request.repository} has that module, "
            "start the command with python3 -m, as in -- python3 -m pytest TEST, or set PYTHONPATH; else install it"
        )
    return (
        f"both ends exit with {good.exit_code}: does the command build what it tests? It runs {where} of each commit, "
        "without files that git does not track"
    )


def _missing_module(run: ProbeRow) -> str | None:
    """Return the error of a run that could not import a module; None where it has none."""
    causes = () if run.symptoms is None else Symptoms.from_json(run.symptoms).causes
    return next((str(each) for each in causes if each.family is Family.IMPORT), None)


def _condition_of_bad_end(good: Sequence[ProbeRow], bad: Sequence[ProbeRow]) -> str | None:
    """Return what `--bad-when` can say that the bad end's last run shows, and the good end's does not."""
    shown = [Symptoms.from_json(runs[-1].symptoms) for runs in (good, bad) if runs[-1].symptoms is not None]
    return distinguishing_condition(shown[1], but_not=shown[0]) if len(shown) == len((good, bad)) else None


def _runs_of(rows: Rows, sha: str) -> list[ProbeRow]:
    """Return the finished runs of an end, including runs of commits with the same content."""
    if rows.ranges:
        searched = rows.ranges[0]
        if runs := searched.runs_of(sha):
            return list(runs)
    return [probe for probe in rows.probes if probe.commit == sha]


def _end_summary(title: str, runs: Sequence[ProbeRow], bad_when: str | None) -> EndSummary:
    if not runs:
        return EndSummary(lines=(f"{title}: not run",), log=None)
    shown = Counter(_verdict(probe, bad_when) for probe in runs)
    counts = ", ".join(
        f"{verdict} {count}" if len(shown) > 1 else verdict for verdict, count in shown.items()
    )
    lines = [f"{title}: {counts} in {plural(len(runs), 'run')}"]
    log = next((Path(each.path) for each in runs[-1].artifacts if each.kind == "log"), None)
    printed = [] if log is None else _last_lines(log)
    if printed:
        lines.append("  its last run ends with")
        lines += [f"    {shorten(line, _MAX_LINE_LENGTH)}" for line in printed]
    return EndSummary(lines=tuple(lines), log=log)


def _verdict(probe: ProbeRow, bad_when: str | None) -> str:
    """Return what a run showed. A condition that decides stands before the verdict."""
    words = verdict_phrase(str(probe.verdict), probe.signature, probe.verdict_source)
    if bad_when is None or probe.judgement is Judgement.SKIP:
        return words
    sought = condition_phrase(bad_when, is_bad=probe.judgement is Judgement.BAD)
    return words if sought is None else f"{sought}, verdict {words}"


def _last_lines(log: Path) -> list[str]:
    """Return the last lines that are not blank; empty where the log cannot be read."""
    try:
        with gzip.open(log, "rt", encoding="utf-8", errors="replace") as text:
            return [*deque((line.rstrip() for line in text if line.strip()), maxlen=_MAX_LOG_LINES)]
    except (OSError, EOFError, zlib.error):
        return []
