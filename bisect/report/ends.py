"""Why the ends of a question do not differ, or one cannot be judged: what each printed last, and what to look at."""

import gzip
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...runner.probe.judgement import BY_PERSON
from ...runner.stack.templates import unfilled
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Judgement, Verdict
from ...store.words import plural, verdict_words
from ..engine.states.judging import HANGING
from ..plan.request import BisectRequest
from ..run.merge_base import merge_base_finding
from .model.rows import Rows
from .plain_text import shortened

_LINES = 5
"""Of the end of a log."""
_LONGEST = 200


def end_lines(rows: Rows) -> Iterator[str]:
    """What both ends showed, with the last lines of their logs, and what to check. Paths stand on lines of their
    own."""
    for end in told_ends(rows):
        yield from end.lines
        if end.log is not None:
            yield str(end.log)
    if checks := to_check(rows):
        yield "to check:"
        yield from (f"  - {text}" for text in checks)


@dataclass(frozen=True, kw_only=True)
class ToldEnd:
    """What an end showed: its runs in a line, then the last lines of the newest one's log."""

    lines: tuple[str, ...]
    log: Path | None


def told_ends(rows: Rows) -> list[ToldEnd]:
    """Both ends; without the good one where it is still looked for."""
    named = (("good", rows.bisection.good), ("bad", rows.bisection.bad))
    base = rows.request.range.old if rows.request.parted else None
    of_base = f"the merge base {base[:12]}, run as the {{}} end" if base else ""
    runs = [
        (of_base.format(end) if sha == base else f"{end} {sha[:12]}", _runs_of(rows, sha))
        for end, sha in named
    ]
    return [_told_end(title, each) for title, each in runs if each or rows.request.gallop is None]


def to_check(rows: Rows) -> list[str]:
    """What usually explains it, for this question and what its ends showed; nothing where a merge base, run in place of
    an end, shows on which side the change lies: that is the answer."""
    if merge_base_finding(rows.request, rows.probes) is not None:
        return []
    ends = _runs_of(rows, rows.bisection.good), _runs_of(rows, rows.bisection.bad)
    return list(what_to_check(rows.request, *ends))


def is_about_an_end(rows: Rows) -> bool:
    """Whether a bisection may have stopped for an end that could not be judged."""
    runs = (_runs_of(rows, rows.bisection.good), _runs_of(rows, rows.bisection.bad))
    return any(each and each[-1].judgement is Judgement.SKIP for each in runs)


def what_to_check(request: BisectRequest, good: Sequence[ProbeRow], bad: Sequence[ProbeRow]) -> Iterator[str]:
    """What usually explains it, for a question of this kind and runs like these; nothing where each end has shown what
    it stands for: something else came over them since."""
    yield from _of_skips((*good, *bad))
    if _both_shown(good, bad):
        return
    if request.interactive:
        yield from _of_person(good, bad)
        return
    if request.bad_when is None:
        yield from _of_command(request, good, bad)
        return
    if not any(run.judgement is Judgement.BAD for run in bad):
        yield from _of_bad_end(request, bad)
    if _good_end_fails(good, bad):
        yield "the good end fails: name an older --good, or none, and one is looked for behind the bad end"
        if request.golden_data is not None:
            yield f"were the data in {request.golden_data} made by a revision that was right?"
    yield from _of_kind(request)


def _of_bad_end(request: BisectRequest, bad: Sequence[ProbeRow]) -> Iterator[str]:
    """What explains that none of its runs fails as asked."""
    others = Counter(probe.verdict for probe in bad if probe.verdict)
    others.pop(Verdict.ENVIRONMENT_ERROR, None)
    for verdict in others.keys() - {Verdict.PASS}:
        yield (
            f"the bad end shows {verdict}, which does not count as bad: if it is the failure, say "
            f"--bad-when {verdict}"
        )
    if others[Verdict.PASS]:
        yield f"the bad end passes on {request.platform}, device {request.device}: did the failure need others?"
        if request.stack.case.harness and not request.stack.case.after:
            yield "does it fail only behind another case in one process? then name that case with --after CASE"
        if request.captures_golden:
            yield "inputs are drawn at the good end: if only some data fail, name them with --golden-data DIR"
        else:
            yield "does the failure show on the frozen data, or did it need other inputs?"


def _both_shown(good: Sequence[ProbeRow], bad: Sequence[ProbeRow]) -> bool:
    return any(run.judgement is Judgement.GOOD for run in good) and any(
        run.judgement is Judgement.BAD for run in bad
    )


def _of_person(good: Sequence[ProbeRow], bad: Sequence[ProbeRow]) -> Iterator[str]:
    """What explains it where a person is the judge."""
    skipped = [probe for probe in (*good, *bad) if probe.signature == BY_PERSON]
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
    """Whether it does, and the ends are not just swapped."""
    swapped = {run.judgement for run in good} == {Judgement.BAD} and {run.judgement for run in bad} == {
        Judgement.GOOD
    }
    return not swapped and any(run.judgement is Judgement.BAD for run in good)


def _of_kind(request: BisectRequest) -> Iterator[str]:
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


def _of_skips(runs: Sequence[ProbeRow]) -> Iterator[str]:
    """What to mend first, where nothing could be judged."""
    said = dict.fromkeys(
        probe.signature or "the log says what" for probe in runs if probe.verdict is Verdict.ENVIRONMENT_ERROR
    )
    if said:
        yield f"mend the environment ({', '.join(said)}), then resume: what was mended is run again"
    failed = dict.fromkeys(
        probe.signature or "see the log" for probe in runs if probe.verdict is Verdict.BUILD_ERROR
    )
    if failed:
        yield (
            f"the build fails ({', '.join(failed)}): does it by hand, at this commit? bisect-precision doctor looks "
            "for tools that are missing"
        )


def _of_command(request: BisectRequest, good: Sequence[ProbeRow], bad: Sequence[ProbeRow]) -> Iterator[str]:
    folder = unfilled(request.stack.case.cwd).partition("/")[2]
    where = f"in the folder {folder} of a worktree" if folder else "in a worktree"
    yield f"the command at both ends: {request.case_text}; exit code 0 is good, 1-124 is bad, 125-127 are skipped"
    codes_of_last = {runs[-1].exit_code for runs in (good, bad) if runs}
    if good and bad and len(codes_of_last) == 1 and codes_of_last != {None}:
        yield (
            f"both ends exit with {good[-1].exit_code}: does the command build what it tests? It runs {where} of "
            "each commit, without files that git does not track"
        )
    if _good_end_fails(good, bad):
        yield "the good end fails: name an older --good, or none, and one is looked for behind the bad end"
    codes = [{run.exit_code for run in runs if run.judgement is Judgement.BAD} for runs in (good, bad)]
    if all(codes) and codes[0].isdisjoint(codes[1]):
        yield (
            "the good end fails otherwise than the bad one: if that failure is another, a command that exits with 0 "
            "for it asks for the bad end's alone"
        )
    skipped = {probe.verdict for probe in (*good, *bad) if probe.judgement is Judgement.SKIP}
    if Verdict.TIMEOUT in skipped:
        limit = "its --timeout" if request.timeout is None else f"--timeout {request.timeout:g}"
        yield f"an end did not end within {limit}: {HANGING}"
    if skipped - {Verdict.TIMEOUT, Verdict.BUILD_ERROR, Verdict.ENVIRONMENT_ERROR}:
        yield "an end was skipped: can the command be found, and run, at that commit?"


def _runs_of(rows: Rows, sha: str) -> list[ProbeRow]:
    """The finished runs of an end, those of commits with its content too."""
    if rows.ranges:
        standing = rows.ranges[0]
        if runs := standing.runs_of(sha):
            return list(runs)
    return [probe for probe in rows.probes if probe.commit == sha]


def _told_end(title: str, runs: Sequence[ProbeRow]) -> ToldEnd:
    if not runs:
        return ToldEnd(lines=(f"{title}: not run",), log=None)
    shown = Counter(verdict_words(str(probe.verdict), probe.signature) for probe in runs)
    counts = ", ".join(
        f"{verdict} {count}" if len(shown) > 1 else verdict for verdict, count in shown.items()
    )
    lines = [f"{title}: {counts} in {plural(len(runs), 'run')}"]
    log = next((Path(each.path) for each in runs[-1].artifacts if each.kind == "log"), None)
    printed = [] if log is None else _last_lines(log)
    if printed:
        lines.append("  its last run ends with")
        lines += [f"    {shortened(line, _LONGEST)}" for line in printed]
    return ToldEnd(lines=tuple(lines), log=log)


def _last_lines(log: Path) -> list[str]:
    """The end of what was printed; nothing where the log cannot be read."""
    try:
        with gzip.open(log, "rt", encoding="utf-8", errors="replace") as text:
            return [*deque((line.rstrip() for line in text if line.strip()), maxlen=_LINES)]
    except (OSError, EOFError, zlib.error):
        return []
