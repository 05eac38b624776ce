"""Prints the result of a bisection on the terminal.

It prints the answer, the evidence, the places of the report and scripts, and the answer again in one line. The output
is short: the answer to a plain question fits a screen of 24 lines. All that is left out stands in report.md.
"""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ...store.vocabulary import Judgement, Seeks, build_words, duration, percent, plural, verdict_words
from ..drive.progress import STYLES
from ..engine.answer import Conclusion
from .model import AnswerCommit, CommitReference, ProbeReport, Report, RunReport, Side, SkippedCommit
from .phrases import (
    check_change_phrase,
    confidence,
    day,
    diffstat,
    earlier_failure_phrase,
    error,
    evidence_texts,
    flakiness_warning,
    localization_lines,
    one_line,
    other_failure,
    outcome,
    outcome_words,
    perturbation,
    pin_state,
    removed_commit_noun,
    run_counts,
    runs_in_order,
    shorten,
    shown_run,
    side_verdict,
    skip_verdict,
    stopped_runs_note,
    sufficient_layers,
)
from .write import BAD_SCRIPT, GOOD_SCRIPT

_LABEL_WIDTH = 10
"""Labels take this many columns. The longest one fits into them."""
_MIN_TWO_COLUMN_WIDTH = _LABEL_WIDTH + 1 + 40
"""Two columns need at least this width, because git's full commit ids have 40 characters."""
_MAX_FILES = 3
"""The terminal names at most this many of a commit's files and counts the rest."""
_MAX_COMMITS = 8
"""The terminal lists at most this many commits or reasons and counts the rest, so that the answer stays on screen."""
_MAX_EVIDENCE_LINES = 3
"""The terminal shows at most this many lines of evidence. The report holds all of them."""
_MAX_FAILURES = 2
"""The terminal describes at most this many other failures and counts the rest."""
_MAX_TEXT_LENGTH = 300
"""The terminal shows at most this many characters of a text. A message may hold a whole array."""
_MAX_PRINTED_LENGTH = 138
"""This many characters of a printed line are shown. They fill two lines beside the labels at 80 columns."""
_DIFFSTAT_WIDTH = 60
"""A diffstat has this many columns. Beside the labels it fits into a terminal of 80."""
_ANSWER_STYLES = {"culprit": "bold green", "suspect": "bold yellow"}

_Commit = TypeVar("_Commit", bound=CommitReference)
Entry = tuple[str, Text]
"""An entry is a label and the text beside it."""


def print_report(report: Report, directory: Path, console: Console) -> None:
    """Print the answer. `directory` holds the report's files."""
    if console.is_terminal:
        console.print(Rule(style="dim"))
    _print_entries(console, _answer(report))
    for url in filter(None, (culprit.url for culprit in report.culprits)):
        # The address is never wrapped, because it is clicked on or copied.
        console.print(Text(f"{'look at':<{_LABEL_WIDTH}} {one_line(url)}"), soft_wrap=True)
    for title, entries in (
        ("", _evidence(report)),
        ("patched", _patch_entries(report)),
        ("perturbations", [("tried", _text(perturbation(each))) for each in report.perturbations]),
        ("first divergence", _localization(report)),
        ("skipped", _skipped_entries(report)),
        ("pins", _pins(report)),
        ("notes", [("note", Text(one_line(notice))) for notice in report.notices]),
    ):
        if entries:
            _heading(title, console)
            _print_entries(console, entries)
    _print_places(report, directory, console)
    console.print()
    _print_entries(console, _answer_in_a_line(report))


def print_line(report: Report, directory: Path, console: Console) -> None:
    """Print the answer in one line, with its caveats and the path of the report."""
    said = [
        f"{culprit.repository} {culprit.commit} {one_line(culprit.subject or '')}".rstrip()
        + ("" if culprit.confidence is None else f" ({percent(culprit.confidence)})")
        for culprit in report.culprits
    ] or [one_line(report.message)]
    said += [f"but {one_line(caveat)}" for caveat in report.caveats]
    if (directory / "report.md").is_file():
        said.append(f"see {directory / 'report.md'}")
    console.print(Text(f"{outcome(report)}: {'; '.join(said)}"), soft_wrap=True)


def print_conclusion(conclusion: Conclusion, seeks: Seeks, console: Console) -> None:
    """Print the answer alone, where no report can be made of it."""
    how = outcome_words(conclusion.outcome, seeks=seeks, in_doubt=conclusion.no_commit is not None)
    console.print(Text(f"{how}: {one_line(conclusion.message)}"), soft_wrap=True)
    for word, commits in (("culprit", conclusion.culprits), ("suspect", conclusion.suspects)):
        for named in commits:
            console.print(Text(f"{word} {named.repository} {named.commit}"), soft_wrap=True)


def print_probes(report: Report, console: Console) -> None:
    """Print the command that asks the same question again, and every probe with all its runs."""
    if report.repeat is not None:
        _heading("to search again", console)
        for line in report.repeat.split("\n"):
            console.print(Text(one_line(line)), soft_wrap=True)
    _heading("probes", console)
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", width=4)
    table.add_column(width=4)
    table.add_column(overflow="fold")
    for probe, run in runs_in_order(report):
        judgement = Text(run.judgement.value, style=STYLES[run.judgement])
        if console.is_terminal:
            table.add_row(str(run.ordinal), judgement, _run(probe, run))
        else:
            start = f"{run.ordinal:>4} {run.judgement.value:<4} "
            console.print(Text(start).append_text(_run(probe, run)), soft_wrap=True)
    if console.is_terminal:
        console.print(table)
    if (stopped := stopped_runs_note(report)) is not None:
        console.print(Text(stopped), soft_wrap=True)


def _answer(report: Report) -> Iterable[Entry]:
    if not report.culprits:
        yield from _outcome(report)
        yield "", Text(one_line(report.message))
    for culprit in report.culprits:
        yield from _culprit(report, culprit)
    yield from (("but", Text(one_line(caveat))) for caveat in report.caveats)
    if report.confidence_basis is not None:
        yield "runs", Text(run_counts(report.confidence_basis))
        yield from (("note", Text(one_line(remark))) for remark in report.confidence_basis.remarks)
    if report.through is not None and not report.culprits:
        yield "through", _reference(report.through)
    for suspect in _first_commits(report.suspects):
        sure = f" {percent(suspect.confidence)}" if suspect.confidence is not None else ""
        yield "suspect", _reference(suspect).append(sure)
    yield from _more_entry(report.suspects)
    if report.no_commit is not None:
        yield "no commit", Text(percent(report.no_commit.chance))
        yield "moved", Text(f"the environment: {percent(report.no_commit.environment)}")
    for commit in _first_commits(report.earlier_failures):
        yield "earlier", _reference(commit).append(f" ({earlier_failure_phrase(report)})")
    yield from _other_failures(report)
    yield from _counterfactual_entries(report)


def _outcome(report: Report) -> Iterable[Entry]:
    yield "answer", Text(outcome(report), style=_ANSWER_STYLES.get(report.outcome, "bold red"))


def _culprit(report: Report, culprit: AnswerCommit) -> Iterable[Entry]:
    name = Text(f"{culprit.repository} {culprit.commit}", style=_ANSWER_STYLES["culprit"])
    yield _culprit_label(report), name.append(_caveat_note(report))
    yield from _description(culprit)
    if not _is_shown(report, culprit.parent):
        yield "parent", Text(culprit.parent or "none")
    if report.through is not None:
        yield "through", _reference(report.through)
    if report.lost is not None:
        yield f"lost {removed_commit_noun(report)}", _reference(report.lost)
    yield "confidence", Text(confidence(culprit, report.asked_confidence))


def _other_failures(report: Report) -> Iterable[Entry]:
    for failure in report.other_failures[:_MAX_FAILURES]:
        yield "also seen", _text(other_failure(failure))
    if unshown := len(report.other_failures[_MAX_FAILURES:]):
        yield "", Text(f"and {unshown} more in report.md")


def _answer_in_a_line(report: Report) -> Iterable[Entry]:
    """Yield the last lines, which stay on the screen however long the output is."""
    for culprit in report.culprits:
        sure = "" if culprit.confidence is None else f" ({percent(culprit.confidence)})"
        line = Text(f"{culprit.repository} {culprit.commit[:12]}{sure}").append(_caveat_note(report))
        yield _culprit_label(report), line.append(" ").append(_text(culprit.subject or ""))
    if not report.culprits:
        yield from _outcome(report)


def _culprit_label(report: Report) -> str:
    return "culprit" if report.seeks is Seeks.REGRESSION else "fixed by"


def _caveat_note(report: Report) -> Text:
    """Return the warning that the first and the last line carry where the answer has caveats."""
    return Text(", but with a caveat" if report.caveats else "", style="bold yellow")


def _is_shown(report: Report, commit: str | None) -> bool:
    """Return whether a commit is printed as the good or the bad side."""
    sides = (report.reproduce.good, report.reproduce.bad)
    return any(side is not None and side.commit == commit for side in sides)


def _counterfactual_entries(report: Report) -> Iterable[Entry]:
    """Yield what the tests of moved pins, of layers and of a changed check showed."""
    for each in report.counterfactuals:
        yield (
            "pin",
            _text(
                f"{each.repository} moves {each.move}: the commit with the old pin is "
                f"{each.new_holder_old_target}, its parent with the new pin is {each.old_holder_new_target}; "
                f"due to: {each.blame}"
            ),
        )
    for each in report.layers:
        yield (
            "layers",
            _text(
                f"{', '.join(each.layers[:-1])} and {each.layers[-1]} moved at once: {sufficient_layers(each)}"
            ),
        )
    if report.yardstick is not None:
        yield (
            "measured",
            _text(f"{'; '.join(report.yardstick.changes)}. {check_change_phrase(report.yardstick)}"),
        )


def _description(commit: AnswerCommit) -> Iterable[Entry]:
    if commit.subject is not None:
        yield "", _text(commit.subject)
    if commit.author is not None and commit.date is not None:
        yield "author", _text(f"{commit.author}, {day(commit.date)}")
    if commit.merge:
        yield "merge", Text("no parent that was run shows this alone: the change is in joining them")
    if commit.diff is not None:
        against = " against its first parent" if commit.merge else ""
        lines = diffstat(commit.diff, width=_DIFFSTAT_WIDTH, most=_MAX_FILES)
        yield "changes", Text("\n".join(lines)).append(against)
    elif commit.files:
        more = f" and {len(commit.files) - _MAX_FILES} more" if len(commit.files) > _MAX_FILES else ""
        yield "files", _text(", ".join(commit.files[:_MAX_FILES])).append(more)


def _evidence(report: Report) -> list[Entry]:
    """Return what both sides showed, and what the bad side printed."""
    entries: list[Entry] = []
    for word, side in (("bad", report.reproduce.bad), ("good", report.reproduce.good)):
        if side is not None:
            commit = (_side_commit(side), STYLES[Judgement(word)])
            entries.append((word, Text.assemble(commit, f": {_side_verdict(report, side)}")))
            if word == "bad":
                entries += _printed_lines(report, shown_run(report, side))
    return entries


def _printed_lines(report: Report, run: RunReport) -> Iterable[Entry]:
    """Return the lines that show why a run failed.

    A command prints the reason of its failure last, and a harness prints it first.
    """
    texts = evidence_texts(run)
    few = texts[:_MAX_EVIDENCE_LINES]
    if report.bad_when is None:
        # The verdict already says how the run ended, so only printed lines are shown.
        printed = [line.text for line in run.evidence if line.line]
        few = list(dict.fromkeys(printed or texts))[-_MAX_EVIDENCE_LINES:]
    return (("", Text(shorten(text, _MAX_PRINTED_LENGTH), style="dim")) for text in few)


def _localization(report: Report) -> list[Entry]:
    if report.localization is None:
        return []
    return [(label, _text(text)) for label, text in localization_lines(report.localization)]


def _side_commit(side: Side) -> str:
    """Return the short name of a side's commit."""
    return f"{side.repository} {side.commit[:12]}"


def _side_verdict(report: Report, side: Side) -> str:
    """Return what the runs of a side showed, safe to print."""
    return shorten(side_verdict(report, side), _MAX_TEXT_LENGTH)


def _skipped_entries(report: Report) -> list[Entry]:
    """Return the skipped commits by reason, each reason with its first commit.

    Commits are left out where the answer already lists their failure.
    """
    told = {(failure.verdict, failure.signature) for failure in report.other_failures[:_MAX_FAILURES]}
    by_reason: dict[str, list[SkippedCommit]] = {}
    for commit in (each for each in report.skipped if (each.verdict, each.reason) not in told):
        by_reason.setdefault(f"{skip_verdict(commit)}, {commit.reason}", []).append(commit)
    entries: list[Entry] = []
    for reason, commits in [*by_reason.items()][:_MAX_COMMITS]:
        more = f" and {len(commits) - 1} more" if len(commits) > 1 else ""
        why = shorten(reason, _MAX_TEXT_LENGTH)
        entries.append(("", _reference(commits[0]).append(f"{more}: {why}", "yellow")))
    if len(by_reason) > _MAX_COMMITS:
        entries.append(("", Text("and more in report.md")))
    return entries


def _patch_entries(report: Report) -> list[Entry]:
    return [
        (
            "with",
            _reference(each).append(
                f", on top of {each.old[:12]}..{each.new[:12]}: {plural(len(each.used_at), 'commit')} ran so"
            ),
        )
        for each in report.cherry_picks
    ]


def _first_commits(commits: Sequence[_Commit]) -> Sequence[_Commit]:
    """Return the first commits. One above the limit is still shown, because a line that counts it would be as long."""
    return commits if len(commits) <= _MAX_COMMITS + 1 else commits[:_MAX_COMMITS]


def _more_entry(commits: Sequence[CommitReference]) -> Iterable[Entry]:
    if unshown := len(commits) - len(_first_commits(commits)):
        yield "", Text(f"and {unshown} more in report.json")


def _pins(report: Report) -> list[Entry]:
    """Return the pins that were not searched, because they limit the answer."""
    entries: list[Entry] = []
    for pin in (pin for pin in report.pins if not pin.searched):
        good, bad = (value or "none" for value in (pin.value_good, pin.value_bad))
        value = good[:12] if good == bad else f"{good[:12]} to {bad[:12]}"
        entries.append((pin.name, _text(f"{value} ({pin_state(pin)})")))
    return entries


def _print_places(report: Report, directory: Path, console: Console) -> None:
    """Print the cost, the path of the report, and the commands that reproduce both sides.

    Paths and commands stand on lines of their own and are not wrapped, so that they can be copied.
    """
    timing = report.timing
    runs = sum(len(probe.runs) for probe in report.probes)
    commits = len({(probe.repository, probe.commit) for probe in report.probes})
    reused = sum(run.reused is not None for probe in report.probes for run in probe.runs)
    of = f"{plural(runs, 'run')} of {plural(commits, 'commit')}{f', {reused} of them reused,' if reused else ''}"
    took = f"{duration(timing.waited or timing.total)} (build {duration(timing.build)}, run {duration(timing.run)})"
    console.print()
    heading = f"{of} in {took}. Report:"
    console.print(Text(heading, style="bold"), soft_wrap=not console.is_terminal)
    folder = _relative_folder(directory)
    if (directory / "report.md").is_file():
        console.print(Text(str(folder / "report.md")), soft_wrap=True)
    else:
        console.print(
            Text(f"none written; write it with bisect-precision report {report.name}"), soft_wrap=True
        )
    scripts = [script for script in (BAD_SCRIPT, GOOD_SCRIPT) if (directory / script).is_file()]
    for script in scripts:
        console.print(Text(shlex.join(["sh", str(folder / script)])), soft_wrap=True)
    if scripts and (told := flakiness_warning(report)):
        console.print(Text(told, style="yellow"), soft_wrap=not console.is_terminal)
    if report.reduce is not None:
        console.print(Text(report.reduce), soft_wrap=True)


def _relative_folder(folder: Path) -> Path:
    """Return a folder relative to the current one, if it lies inside it."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _run(probe: ProbeReport, run: RunReport) -> Text:
    shown = verdict_words(run.verdict, run.signature, run.verdict_source)
    size = f", {error(run)}" if run.error else ""
    why = probe.phase if run.reused is None else f"{probe.phase}, reused"
    return _text(f"{probe.repository} {probe.commit[:12]} {why}: {shown}").append(
        f"{size}, {build_words(run.build, run.build_seconds)}, run {run.run_seconds:.1f} s"
    )


def _reference(commit: CommitReference) -> Text:
    return _text(f"{commit.repository} {commit.commit[:12]} {commit.subject or ''}")


def _text(text: str) -> Text:
    """Return text of other people without markup, and without characters that a terminal interprets."""
    return Text(shorten(text, _MAX_TEXT_LENGTH))


def _heading(title: str, console: Console) -> None:
    """Print a blank line, and the title where there is one."""
    console.print()
    if title:
        console.print(Text(title, style="bold"))


def _print_entries(console: Console, entries: Iterable[Entry]) -> None:
    """Print labels and texts.

    A terminal shows them in two columns. A terminal too narrow for a commit id shows texts below their labels. In a
    pipe each line of text is one line, neither padded nor wrapped.
    """
    if console.is_terminal:
        arrange = _two_columns if console.width >= _MIN_TWO_COLUMN_WIDTH else _one_column
        console.print(arrange(entries))
        return
    for label, content in entries:
        for number, text in enumerate(content.split("\n")):
            line = Text(f"{'' if number else label:<{_LABEL_WIDTH}} ").append_text(text)
            line.rstrip()
            console.print(line, soft_wrap=True)


def _two_columns(entries: Iterable[Entry]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_LABEL_WIDTH, style="dim", overflow="fold")
    table.add_column(overflow="fold")
    for label, content in entries:
        table.add_row(Text(label), content)
    return table


def _one_column(entries: Iterable[Entry]) -> Table:
    table = Table.grid()
    table.add_column(overflow="fold")
    for label, content in entries:
        if label:
            table.add_row(Text(label, style="dim"))
        table.add_row(content)
    return table
