"""The end of a run on the terminal: the answer, what it rests on, and where the rest is."""

import shlex
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ...store.vocabulary import Judgement, Seeks
from ...store.words import build_words, duration, percent, plural, verdict_words
from ..result import Conclusion
from ..run.view.words import STYLES
from .first_divergence import localization_lines
from .model.model import AnswerCommit, CommitReference, OtherFailure, ProbeReport, Report, RunReport, Side
from .phrases import (
    comes_and_goes,
    confidence,
    day,
    earlier,
    ended,
    error,
    evidence_texts,
    least_layers,
    lost,
    other_failure,
    outcome,
    perturbation,
    pin_state,
    runs_in_order,
    shown_run,
    side_verdict,
    skip_verdict,
    stopped_runs,
    yardstick,
)
from .plain_text import one_line, shortened
from .write import BAD_SCRIPT, GOOD_SCRIPT

_LABEL_WIDTH = 10
_LEAST_WIDTH = _LABEL_WIDTH + 1 + 40
"""Of two columns: git's longest names of commits are 40 letters."""
_FEW_FILES = 4
_FEW_COMMITS = 8
_FEW_LINES = 3
_FEW_FAILURES = 2
_LONGEST = 200
"""Characters of a line of somebody else's."""
_FOUND = {"culprit": "bold green", "suspect": "bold yellow"}

_Commit = TypeVar("_Commit", bound=CommitReference)
Entry = tuple[str, Text | Path]
"""A label and what stands beside it; a path stands on a line of its own, whole, to be copied."""


def print_report(report: Report, directory: Path, console: Console) -> None:
    """Print the answer and what it rests on. `directory` holds the report's files."""
    if console.is_terminal:
        console.print(Rule(style="dim"))
    _print_entries(console, _answer(report))
    for url in filter(None, (culprit.url for culprit in report.culprits)):
        # Whole, whatever the width: it is to be clicked on or copied.
        console.print(Text(f"{'look at':<{_LABEL_WIDTH}} {one_line(url)}"), soft_wrap=True)
    for title, entries in (
        ("evidence", _evidence(report)),
        ("patched", _patched(report)),
        ("perturbations", [("tried", _text(perturbation(each))) for each in report.perturbations]),
        ("first divergence", _localization(report)),
        ("skipped", _skipped(report)),
        ("pins", _pins(report)),
        ("notes", [("note", Text(one_line(notice))) for notice in report.notices]),
    ):
        if entries:
            _heading(title, console)
            _print_entries(console, entries)
    _print_reproduction(report, directory, console)
    if report.repeat is not None:
        _heading("to search again", console)
        for line in report.repeat.split("\n"):
            console.print(Text(one_line(line)), soft_wrap=True)
    if report.reduce is not None:
        _heading("to reduce it", console)
        console.print(Text(report.reduce), soft_wrap=True)
    _print_places(report, directory, console)


def print_conclusion(conclusion: Conclusion, seeks: Seeks, console: Console) -> None:
    """Print the bare answer, where no report can be made of it."""
    how = ended(conclusion.outcome, seeks=seeks, in_doubt=conclusion.no_commit is not None)
    console.print(Text(f"{how}: {one_line(conclusion.message)}"), soft_wrap=True)
    for word, commits in (("culprit", conclusion.culprits), ("suspect", conclusion.suspects)):
        for named in commits:
            console.print(Text(f"{word} {named.repository} {named.commit}"), soft_wrap=True)


def print_probes(report: Report, console: Console) -> None:
    """Print every probe with all its runs."""
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
    if (stopped := stopped_runs(report)) is not None:
        console.print(Text(stopped), soft_wrap=True)


def _answer(report: Report) -> Iterable[Entry]:
    yield "answer", Text(outcome(report), style=_FOUND.get(report.outcome, "bold red"))
    if not report.culprits:
        yield "", Text(one_line(report.message))
    for culprit in report.culprits:
        yield (
            "culprit" if report.seeks is Seeks.REGRESSION else "fixed by",
            Text(f"{culprit.repository} {culprit.commit}", style="bold"),
        )
        yield from _description(culprit)
        yield "parent", Text(culprit.parent or "none")
        if report.through is not None:
            yield "through", _reference(report.through)
        if report.lost is not None:
            yield f"lost {lost(report)}", _reference(report.lost)
        yield "confidence", Text(confidence(culprit, report.asked_confidence))
    yield from (("but", Text(one_line(caveat))) for caveat in report.caveats)
    if report.confidence_basis is not None:
        yield "rests on", Text(report.confidence_basis.text)
    if report.through is not None and not report.culprits:
        yield "through", _reference(report.through)
    for suspect in _few(report.suspects):
        sure = f" {percent(suspect.confidence)}" if suspect.confidence is not None else ""
        yield "suspect", _reference(suspect).append(sure)
    yield from _more(report.suspects)
    if report.no_commit is not None:
        yield "no commit", Text(percent(report.no_commit.chance))
        yield "moved", Text(f"the environment: {percent(report.no_commit.environment)}")
    for commit in _few(report.earlier_failures):
        yield "earlier", _reference(commit).append(f" ({earlier(report)})")
    yield from (
        ("also seen", _text(other_failure(failure))) for failure in report.other_failures[:_FEW_COMMITS]
    )
    yield from _moved(report)


def _moved(report: Report) -> Iterable[Entry]:
    """What the pins that the culprit moves have to do with it."""
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
            _text(f"{', '.join(each.layers[:-1])} and {each.layers[-1]} moved at once: {least_layers(each)}"),
        )
    if report.yardstick is not None:
        yield "measured", _text(f"{'; '.join(report.yardstick.changes)}. {yardstick(report.yardstick)}")


def _description(commit: AnswerCommit) -> Iterable[Entry]:
    if commit.subject is not None:
        yield "", _text(commit.subject)
    if commit.author is not None and commit.date is not None:
        yield "author", _text(f"{commit.author}, {day(commit.date)}")
    if commit.merge:
        yield (
            "merge",
            Text(
                "it has several parents, and each that could be tested does otherwise: the change is in joining them"
            ),
        )
    more = f" and {len(commit.files) - _FEW_FILES} more" if len(commit.files) > _FEW_FILES else ""
    if commit.files:
        yield "files", _text(", ".join(commit.files[:_FEW_FILES])).append(more)


def _evidence(report: Report) -> list[Entry]:
    entries: list[Entry] = []
    bad, good = report.reproduce.bad, report.reproduce.good
    if bad is not None:
        entries += _shown_side(report, "bad", bad)
        entries += [
            entry
            for failure in report.other_failures[:_FEW_FAILURES]
            if failure.shown is not None
            for entry in _shown_failure(report, failure)
        ]
    if good is not None:
        entries += _shown_side(report, "good", good)
    return entries


def _shown_side(report: Report, word: str, side: Side) -> Iterable[Entry]:
    yield (
        word,
        Text.assemble((_side_commit(side), STYLES[Judgement(word)]), f" {_side_verdict(report, side)}"),
    )
    yield from _shown_lines(report, shown_run(report, side))


def _shown_failure(report: Report, failure: OtherFailure) -> Iterable[Entry]:
    """What shows another failure, beside what was searched for: the reader sees why they are told apart."""
    how = shortened(verdict_words(failure.verdict, failure.signature), _LONGEST)
    yield "other", Text(f"{failure.first.repository} {failure.first.commit[:12]} {how}")
    yield from _shown_lines(report, shown_run(report, failure))


def _shown_lines(report: Report, run: RunReport) -> Iterable[Entry]:
    # What a command says of its failure comes last; the harness says first what failed.
    texts = evidence_texts(run)
    few = texts[:_FEW_LINES] if report.bad_when else texts[-_FEW_LINES:]
    yield from (("", _text(text, style="dim")) for text in few)
    if run.log is not None:
        yield "", Path(run.log)


def _localization(report: Report) -> list[Entry]:
    if report.localization is None:
        return []
    return [(label, _text(text)) for label, text in localization_lines(report.localization)]


def _side_commit(side: Side) -> str:
    """A side's commit, short."""
    return f"{side.repository} {side.commit[:12]}"


def _side_verdict(report: Report, side: Side) -> str:
    """What its runs showed, safe to print."""
    return shortened(side_verdict(report, side), _LONGEST)


def _skipped(report: Report) -> list[Entry]:
    entries: list[Entry] = [
        (
            "",
            _reference(commit).append(
                shortened(f": {skip_verdict(commit)}, {commit.reason}", _LONGEST), "yellow"
            ),
        )
        for commit in _few(report.skipped)
    ]
    return [*entries, *_more(report.skipped)]


def _patched(report: Report) -> list[Entry]:
    return [
        (
            "with",
            _reference(each).append(
                f", on top of {each.old[:12]}..{each.new[:12]}: {plural(len(each.used_at), 'commit')} ran so"
            ),
        )
        for each in report.cherry_picks
    ]


def _few(commits: Sequence[_Commit]) -> Sequence[_Commit]:
    """The first of them; all where a line for one more could be that one."""
    return commits if len(commits) <= _FEW_COMMITS + 1 else commits[:_FEW_COMMITS]


def _more(commits: Sequence[CommitReference]) -> Iterable[Entry]:
    if unshown := len(commits) - len(_few(commits)):
        yield "", Text(f"and {unshown} more in report.json")


def _pins(report: Report) -> list[Entry]:
    entries: list[Entry] = []
    for pin in report.pins:
        good, bad = (value or "none" for value in (pin.value_good, pin.value_bad))
        value = good[:12] if good == bad else f"{good[:12]} to {bad[:12]}"
        entries.append((pin.name, _text(f"{value} ({pin_state(pin)})")))
    return entries


def _print_reproduction(report: Report, directory: Path, console: Console) -> None:
    scripts = [directory / script for script in (BAD_SCRIPT, GOOD_SCRIPT)]
    written = [script for script in scripts if script.is_file()]
    if written:
        _heading("to see it again", console)
    for script in written:
        # Unwrapped, so that it can be copied.
        console.print(Text(shlex.join(["sh", str(script)])), soft_wrap=True)
    if written and (told := comes_and_goes(report)):
        console.print(Text(told, style="yellow"), soft_wrap=not console.is_terminal)


def _print_places(report: Report, directory: Path, console: Console) -> None:
    timing = report.timing
    runs = sum(len(probe.runs) for probe in report.probes)
    commits = len({(probe.repository, probe.commit) for probe in report.probes})
    of = f"{plural(runs, 'run')} of {plural(commits, 'commit')}"
    _heading(f"{of} in {duration(timing.total)}", console)
    entries: list[Entry] = [("time", Text(f"build {duration(timing.build)}, run {duration(timing.run)}"))]
    if (directory / "report.md").is_file():
        entries.append(("report", Text("with report.json and bisect.log (for git bisect replay):")))
        entries.append(("", directory / "report.md"))
    else:
        entries.append(("report", Text(f"none written; write it with bisect-precision report {report.name}")))
    _print_entries(console, entries)


def _run(probe: ProbeReport, run: RunReport) -> Text:
    shown = verdict_words(run.verdict, run.signature)
    size = f", {error(run)}" if run.error else ""
    return _text(f"{probe.repository} {probe.commit[:12]} {probe.phase}: {shown}").append(
        f"{size}, {build_words(run.build, run.build_seconds)}, run {run.run_seconds:.1f} s"
    )


def _reference(commit: CommitReference) -> Text:
    return _text(f"{commit.repository} {commit.commit[:12]} {commit.subject or ''}")


def _text(text: str, style: str = "") -> Text:
    """Somebody else's text: no markup, nothing that a terminal obeys."""
    return Text(shortened(text, _LONGEST), style=style)


def _heading(title: str, console: Console) -> None:
    console.print()
    console.print(Text(title, style="bold"))


def _print_entries(console: Console, entries: Iterable[Entry]) -> None:
    """On a terminal labels and texts in two columns, or texts below their labels where a commit does not fit into the
    second; in a pipe a line each, neither padded nor wrapped."""
    arrange = _two_columns if console.width >= _LEAST_WIDTH else _one_column
    for is_path, group in groupby(entries, key=lambda entry: isinstance(entry[1], Path)):
        rows = [*group]
        if console.is_terminal and not is_path:
            console.print(arrange(rows))
            continue
        for label, content in rows:
            start = "" if is_path else f"{label:<{_LABEL_WIDTH}} "
            line = Text(start).append_text(content) if isinstance(content, Text) else Text(str(content))
            line.rstrip()
            console.print(line, soft_wrap=True)


def _two_columns(entries: Iterable[Entry]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_LABEL_WIDTH, style="dim", overflow="fold")
    table.add_column(overflow="fold")
    for label, content in entries:
        table.add_row(Text(label), content if isinstance(content, Text) else Text(str(content)))
    return table


def _one_column(entries: Iterable[Entry]) -> Table:
    table = Table.grid()
    table.add_column(overflow="fold")
    for label, content in entries:
        if label:
            table.add_row(Text(label, style="dim"))
        table.add_row(content if isinstance(content, Text) else Text(str(content)))
    return table
