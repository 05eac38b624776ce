"""Advice where the ends of a question do not differ, or where one of them cannot be judged.

It shows what each end printed last, and lists what usually explains such ends, so that a person knows what to check.
"""

import gzip
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...runner.probe.judge import distinguishing_condition
from ...runner.stack import display_text
from ...runner.verdict.symptoms import Symptoms
from ...store.tables import ProbeRow
from ...store.vocabulary import Judgement, Verdict, VerdictSource, exit_code, plural, verdict_words
from ..ask.question import BisectRequest
from ..engine.failures import HANG_ADVICE
from ..history.loader import merge_base_finding
from .basis import Rows
from .phrases import condition_words, shorten

_MAX_LOG_LINES = 5
"""Advice shows this many of a log's last lines. Its path is printed too."""

_MAX_LINE_LENGTH = 200
"""Advice shows this many characters of a log's line. A line of data could fill the screen."""


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
    """What an end showed: its runs in one line, then the last lines of the newest run's log."""

    lines: tuple[str, ...]
    log: Path | None


def end_summaries(rows: Rows) -> list[EndSummary]:
    """Return what both ends showed. The good end is left out while it is still looked for."""
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
    """Return what usually explains what the ends of a bisection showed, one line each.

    Empty where a merge base, run in place of an end, shows on which side the change lies: that is the answer.
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

    Where each end has shown its own result, the bisection stopped for another reason. Then only the advice on skipped
    runs is given.
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
        f"exit:{code}": f"ends with {exit_code(code)}" for code in sorted(unknown) if 0 < code < 256
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
    said = dict.fromkeys(
        probe.signature or "the log says what"
        for probe in runs
        if probe.verdict and not probe.verdict.traits.judges_commit
    )
    if said:
        yield f"mend the environment ({', '.join(said)}), then resume: what was mended is run again"
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
    folder = display_text(request.stack.case.cwd).partition("/")[2]
    where = f"in the folder {folder} of a worktree" if folder else "in a worktree"
    judged = "exit code 0 is good, a failure is bad, 125-127 are skipped"
    yield f"the command at both ends: {request.case_text}; {request.bad_criterion or judged}"
    codes_of_last = {runs[-1].exit_code for runs in (good, bad) if runs}
    if good and bad and len(codes_of_last) == 1 and codes_of_last != {None}:
        yield (
            f"both ends exit with {good[-1].exit_code}: does the command build what it tests? It runs {where} of "
            "each commit, without files that git does not track"
        )
        if (shown := _condition_of_bad_end(good, bad)) is not None:
            yield f"the bad end shows what the good end does not: to count that as bad, add --bad-when '{shown}'"
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
    # For a build or an environment that fails, the advice is `_skip_advice`'s.
    others = {each for each in skipped if each.traits.judges_commit and not each.traits.fails_to_build}
    if others - {Verdict.TIMEOUT}:
        if request.bad_when is None:
            yield "an end was skipped: can the command be found, and run, at that commit?"
        else:
            yield f"an end fails, and not as --bad-when {request.bad_when} says: ask again with what its log shows"


def _condition_of_bad_end(good: Sequence[ProbeRow], bad: Sequence[ProbeRow]) -> str | None:
    """Return what `--bad-when` can say that the bad end's last run shows, and the good end's does not."""
    shown = [Symptoms.from_plain(runs[-1].symptoms) for runs in (good, bad) if runs[-1].symptoms is not None]
    return distinguishing_condition(shown[1], but_not=shown[0]) if len(shown) == len((good, bad)) else None


def _runs_of(rows: Rows, sha: str) -> list[ProbeRow]:
    """Return the finished runs of an end, including runs of commits with the same content."""
    if rows.ranges:
        standing = rows.ranges[0]
        if runs := standing.runs_of(sha):
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
    """Return what a run showed. Where the verdict does not decide, the condition that does stands before it."""
    words = verdict_words(str(probe.verdict), probe.signature, probe.verdict_source)
    if bad_when is None or probe.judgement is Judgement.SKIP:
        return words
    sought = condition_words(bad_when, is_bad=probe.judgement is Judgement.BAD)
    return words if sought is None else f"{sought}, verdict {words}"


def _last_lines(log: Path) -> list[str]:
    """Return the last lines that are not blank; empty where the log cannot be read."""
    try:
        with gzip.open(log, "rt", encoding="utf-8", errors="replace") as text:
            return [*deque((line.rstrip() for line in text if line.strip()), maxlen=_MAX_LOG_LINES)]
    except (OSError, EOFError, zlib.error):
        return []
