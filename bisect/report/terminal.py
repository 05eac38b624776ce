"""Prints the result of a bisection on the terminal, and the plan of one that is not begun.

`print_report` prints the answer, the evidence, the paths of the report and scripts, and the answer again in one line.
The answer to a plain question fits a screen of 24 lines. Whatever is left out stands in report.md. `print_line` prints
the answer in one line, and `print_probes` all runs. `plan_lines` and `plan_json` give what `--dry-run` prints.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ...runner.cli_options import STYLES, break_line
from ...runner.stack import stack_text
from ...store.vocabulary import (
    Judgement,
    Seeks,
    build_phrase,
    duration,
    one_line,
    percent,
    phrase_for_outcome,
    plural,
    shorten,
    verdict_phrase,
)
from ..ask.predicate import AS_BAD_END
from ..ask.question import BisectRequest, Plan, engine_question, pin_display_value
from ..engine.answer import Conclusion
from ..engine.bisection import Bisection
from ..engine.estimate import Estimate, describe_estimate, describe_waits, estimate_rest, initial_bisection
from ..history.range import describe_stage
from .model import AnswerCommit, CommitReference, ProbeReport, Report, RunReport, Side, SkippedCommit
from .phrases import (
    check_change_phrase,
    confidence_phrase,
    diffstat,
    earlier_failure_phrase,
    error_phrase,
    evidence_texts,
    explanation_lines,
    flakiness_warning,
    format_day,
    layers_phrase,
    localization_lines,
    merge_phrase,
    missing_runs_note,
    other_failure_phrase,
    outcome_phrase,
    perturbation_phrase,
    pin_phrase,
    removed_commit_noun,
    run_counts_phrase,
    runs_in_order,
    shown_run,
    side_phrase,
    skip_phrase,
)
from .report_files import BAD_SCRIPT, GOOD_SCRIPT

_LABEL_WIDTH = 10
"""Labels take this many columns. The longest one fits."""
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
"""A label and the text beside it."""


def print_report(report: Report, directory: Path, console: Console) -> None:
    """Print the answer. `directory` holds the report's files."""
    if console.is_terminal:
        console.print(Rule(style="dim"))
    _print_entries(console, _answer_entries(report))
    for url in filter(None, (culprit.url for culprit in report.culprits)):
        # The address is never wrapped, because it is clicked on or copied.
        console.print(Text(f"{'look at':<{_LABEL_WIDTH}} {one_line(url)}"), soft_wrap=True)
    for title, entries in (
        ("", _evidence_entries(report)),
        ("patched", _patch_entries(report)),
        ("perturbations", [("tried", _text(perturbation_phrase(each))) for each in report.perturbations]),
        ("first divergence", _localization_entries(report)),
        ("passes", _explanation_entries(report)),
        ("skipped", _skipped_entries(report)),
        ("pins", _pin_entries(report)),
        ("notes", [("note", Text(one_line(notice))) for notice in report.notices]),
    ):
        if entries:
            _heading(title, console)
            _print_entries(console, entries)
    _print_places(report, directory, console)
    console.print()
    _print_entries(console, _short_answer_entries(report))


def print_line(report: Report, directory: Path, console: Console) -> None:
    """Print the answer in one line, with the path of the report, which has its caveats."""
    parts = [
        f"{culprit.repository} {culprit.commit} {one_line(culprit.subject or '')}".rstrip()
        + ("" if culprit.confidence is None else f" ({percent(culprit.confidence)})")
        for culprit in report.culprits
    ] or [one_line(report.message)]
    parts.append(_cost_phrase(report))
    if (directory / "report.md").is_file():
        parts.append(f"see {directory / 'report.md'}")
    line = f"{outcome_phrase(report)}: {'; '.join(parts)}"
    console.print(Text("\n".join(break_line(line, console))), soft_wrap=True)


def _cost_phrase(report: Report) -> str:
    """Return how many runs there were, and the time that a person waited."""
    runs = [run for probe in report.probes for run in probe.runs]
    commits = len({(probe.repository, probe.commit) for probe in report.probes})
    reused = sum(run.reused is not None for run in runs)
    reuse = f" ({reused} reused)" if reused else ""
    waited = duration(report.timing.waited or report.timing.total)
    return f"{plural(len(runs), 'run')} of {plural(commits, 'commit')}{reuse} in {waited}"


def print_conclusion(conclusion: Conclusion, seeks: Seeks, console: Console) -> None:
    """Print the answer alone, where no report can be made of it."""
    how = phrase_for_outcome(
        conclusion.outcome,
        seeks=seeks,
        in_doubt=conclusion.no_commit is not None,
        has_caveat=bool(conclusion.caveats),
    )
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
            table.add_row(str(run.ordinal), judgement, _run_text(probe, run))
        else:
            start = f"{run.ordinal:>4} {run.judgement.value:<4} "
            console.print(Text(start).append_text(_run_text(probe, run)), soft_wrap=True)
    if console.is_terminal:
        console.print(table)
    if (missing := missing_runs_note(report)) is not None:
        console.print(Text(missing), soft_wrap=True)


def _answer_entries(report: Report) -> Iterable[Entry]:
    if not report.culprits:
        yield from _outcome_entry(report)
        yield "", Text(one_line(report.message))
    for culprit in report.culprits:
        yield from _culprit_entries(report, culprit)
    yield from (("but", Text(one_line(caveat))) for caveat in report.caveats)
    if report.confidence_basis is not None:
        yield "runs", Text(run_counts_phrase(report.confidence_basis))
        yield from (("note", Text(one_line(remark))) for remark in report.confidence_basis.remarks)
    if report.through is not None and not report.culprits:
        yield "through", _reference_text(report.through)
    for suspect in _first_commits(report.suspects):
        sure = f" {percent(suspect.confidence)}" if suspect.confidence is not None else ""
        yield "suspect", _reference_text(suspect).append(sure)
    yield from _more_entry(report.suspects)
    if report.no_commit is not None:
        yield "no commit", Text(percent(report.no_commit.chance))
        yield "moved", Text(f"the environment: {percent(report.no_commit.environment)}")
    for commit in _first_commits(report.earlier_failures):
        yield "earlier", _reference_text(commit).append(f" ({earlier_failure_phrase(report)})")
    yield from _other_failure_entries(report)
    yield from _counterfactual_entries(report)


def _outcome_entry(report: Report) -> Iterable[Entry]:
    yield "answer", Text(outcome_phrase(report), style=_ANSWER_STYLES.get(report.outcome, "bold red"))


def _culprit_entries(report: Report, culprit: AnswerCommit) -> Iterable[Entry]:
    name = Text(f"{culprit.repository} {culprit.commit}", style=_ANSWER_STYLES["culprit"])
    yield _culprit_label(report), name.append(_caveat_note(report))
    yield from _description_entries(culprit)
    if not _is_shown(report, culprit.parent):
        yield "parent", Text(culprit.parent or "none")
    if report.through is not None:
        yield "through", _reference_text(report.through)
    if report.lost is not None:
        yield f"lost {removed_commit_noun(report)}", _reference_text(report.lost)
    yield "confidence", Text(confidence_phrase(culprit, report.asked_confidence))


def _other_failure_entries(report: Report) -> Iterable[Entry]:
    for failure in report.other_failures[:_MAX_FAILURES]:
        yield "also seen", _text(other_failure_phrase(failure))
    if unshown := len(report.other_failures[_MAX_FAILURES:]):
        yield "", Text(f"and {unshown} more in report.md")


def _short_answer_entries(report: Report) -> Iterable[Entry]:
    """Yield the last lines, which stay on the screen however long the output is."""
    for culprit in report.culprits:
        sure = "" if culprit.confidence is None else f" ({percent(culprit.confidence)})"
        line = Text(f"{culprit.repository} {culprit.commit[:12]}{sure} ").append(_text(culprit.subject or ""))
        yield _culprit_label(report), line.append(_caveat_note(report))
    if not report.culprits:
        yield from _outcome_entry(report)


def _culprit_label(report: Report) -> str:
    return "culprit" if report.seeks is Seeks.REGRESSION else "fixed by"


def _caveat_note(report: Report) -> Text:
    """Return the warning of the first and the last line that the answer has caveats."""
    return Text(", but with a caveat" if report.caveats else "", style="bold yellow")


def _is_shown(report: Report, commit: str | None) -> bool:
    """Return whether a commit is printed as the good or the bad side."""
    sides = (report.reproduce.good, report.reproduce.bad)
    return any(side is not None and side.commit == commit for side in sides)


def _counterfactual_entries(report: Report) -> Iterable[Entry]:
    """Yield the results of the tests of moved pins, of layers and of a changed check."""
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
                f"{', '.join(each.layers[:-1])} and {each.layers[-1]} moved at once: {layers_phrase(each)}"
            ),
        )
    if report.yardstick is not None:
        yield (
            "measured",
            _text(f"{'; '.join(report.yardstick.changes)}. {check_change_phrase(report.yardstick)}"),
        )


def _description_entries(commit: AnswerCommit) -> Iterable[Entry]:
    if commit.subject is not None:
        yield "", _text(commit.subject)
    if commit.author is not None and commit.date is not None:
        yield "author", _text(f"{commit.author}, committed {format_day(commit.date)}")
    if commit.merge:
        yield "merge", Text(merge_phrase(commit))
    if commit.diff is not None:
        against = " against its first parent" if commit.merge else ""
        lines = diffstat(commit.diff, width=_DIFFSTAT_WIDTH, most=_MAX_FILES)
        yield "changes", Text("\n".join(lines)).append(against)
    elif commit.files:
        more = f" and {len(commit.files) - _MAX_FILES} more" if len(commit.files) > _MAX_FILES else ""
        yield "files", _text(", ".join(commit.files[:_MAX_FILES])).append(more)


def _evidence_entries(report: Report) -> list[Entry]:
    """Return what both sides showed, and what the bad side printed."""
    entries: list[Entry] = []
    for word, side in (("bad", report.reproduce.bad), ("good", report.reproduce.good)):
        if side is not None:
            commit = (_side_commit(side), STYLES[Judgement(word)])
            entries.append((word, Text.assemble(commit, f": {_side_verdict(report, side)}")))
            if word == "bad":
                entries += _printed_entries(report, shown_run(report, side))
    return entries


def _printed_entries(report: Report, run: RunReport) -> Iterable[Entry]:
    """Return the lines that show why a run failed.

    A command prints the reason of its failure last, and a harness prints it first.
    """
    texts = evidence_texts(run)
    few = texts[:_MAX_EVIDENCE_LINES]
    if report.bad_when is None:
        # The verdict already says how the run ended, so only printed lines are shown.
        printed = [line for line in run.evidence if line.line][-_MAX_EVIDENCE_LINES:]
        in_order = [line.text for line in sorted(printed, key=lambda line: line.line)]
        few = list(dict.fromkeys(in_order or texts))[-_MAX_EVIDENCE_LINES:]
    return (("", Text(shorten(text, _MAX_PRINTED_LENGTH), style="dim")) for text in few)


def _localization_entries(report: Report) -> list[Entry]:
    return [] if report.localization is None else _line_entries(localization_lines(report.localization))


def _explanation_entries(report: Report) -> list[Entry]:
    return [] if report.explanation is None else _line_entries(explanation_lines(report.explanation))


def _line_entries(lines: Iterable[tuple[str, str]]) -> list[Entry]:
    return [(label, Text("\n").join(map(_text, text.split("\n")))) for label, text in lines]


def _side_commit(side: Side) -> str:
    """Return the short name of a side's commit."""
    return f"{side.repository} {side.commit[:12]}"


def _side_verdict(report: Report, side: Side) -> str:
    """Return what the runs of a side showed, safe to print."""
    return shorten(side_phrase(report, side), _MAX_TEXT_LENGTH)


def _skipped_entries(report: Report) -> list[Entry]:
    """Return the skipped commits by reason, each reason with its first commit.

    Commits are left out where the answer already describes their failure.
    """
    described = {(failure.verdict, failure.signature) for failure in report.other_failures[:_MAX_FAILURES]}
    by_reason: dict[str, list[SkippedCommit]] = {}
    for commit in report.skipped:
        if (commit.verdict, commit.reason) not in described:
            by_reason.setdefault(f"{skip_phrase(commit)}, {commit.reason}", []).append(commit)
    entries: list[Entry] = []
    for reason, commits in [*by_reason.items()][:_MAX_COMMITS]:
        more = f" and {len(commits) - 1} more" if len(commits) > 1 else ""
        why = shorten(reason, _MAX_TEXT_LENGTH)
        entries.append(("", _reference_text(commits[0]).append(f"{more}: {why}", "yellow")))
    if len(by_reason) > _MAX_COMMITS:
        entries.append(("", Text("and more in report.md")))
    return entries


def _patch_entries(report: Report) -> list[Entry]:
    return [
        (
            "with",
            _reference_text(each).append(
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


def _pin_entries(report: Report) -> list[Entry]:
    """Return the pins that were not searched, because they limit the answer."""
    entries: list[Entry] = []
    for pin in (pin for pin in report.pins if not pin.searched):
        good, bad = (value or "none" for value in (pin.value_good, pin.value_bad))
        value = good[:12] if good == bad else f"{good[:12]} to {bad[:12]}"
        entries.append((pin.name, _text(f"{value} ({pin_phrase(pin)})")))
    return entries


def _print_places(report: Report, directory: Path, console: Console) -> None:
    """Print the cost, the path of the report, and the commands that reproduce both sides.

    Paths and commands stand on lines of their own and are not wrapped, so that they can be copied.
    """
    timing = report.timing
    took = f"{_cost_phrase(report)}: build {duration(timing.build)}, run {duration(timing.run)}"
    console.print()
    console.print(Text(took), soft_wrap=not console.is_terminal)
    console.print(Text("Report and commands to go on:", style="bold"))
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
    if scripts and (warning := flakiness_warning(report)):
        console.print(Text(warning, style="yellow"), soft_wrap=not console.is_terminal)
    if report.reduce is not None:
        console.print(Text(report.reduce), soft_wrap=True)


def _relative_folder(folder: Path) -> Path:
    """Return a folder relative to the current one, if it lies inside it."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _run_text(probe: ProbeReport, run: RunReport) -> Text:
    shown = verdict_phrase(run.verdict, run.signature, run.verdict_source)
    size = f", {error_phrase(run)}" if run.error else ""
    why = probe.phase if run.reused is None else f"{probe.phase}, reused"
    return _text(f"{probe.repository} {probe.commit[:12]} {why}: {shown}").append(
        f"{size}, {build_phrase(run.build, run.build_seconds)}, run {run.run_seconds:.1f} s"
    )


def _reference_text(commit: CommitReference) -> Text:
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

    A terminal shows them in two columns, or below each other where it is too narrow for a commit id. In a pipe each
    line of text is one line, neither padded nor wrapped.
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


PLAN_INDENT = 11
"""The texts of a plan begin at this column."""


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of a plan: what is run, over which range, with which pins, and how many runs are expected."""
    request = plan.request
    yield f"stack:     {stack_text(request.stack.name)}"
    yield f"case:      {request.case_text}"
    yield f"platform:  {request.platform}, device {request.device}"
    yield from _range_lines(plan)
    yield from _pin_lines(request)
    yield f"bad when:  {request.bad_criterion or AS_BAD_END}"
    captured = "captured at the good end" if request.captures_golden else "none"
    yield f"golden:    {request.golden_data or captured}"
    yield from _run_lines(plan)
    made = "" if plan.is_named else "; a new name is made when it is begun, or name it with --output"
    yield f"report to: {request.output}{made}"
    for notice in plan.notices:
        yield f"note: {notice}"


def plan_json(plan: Plan) -> str:
    """Return the plan as JSON."""
    request, loaded = plan.request, plan.range
    _, estimate = _estimate(plan)
    return json.dumps(
        {
            "stack": request.stack.name,
            "case": request.case_text,
            "platform": request.platform,
            "device": request.device,
            "repository": request.repository,
            "good": request.good if loaded is not None else None,
            "bad": request.bad,
            "commits": loaded.commit_count if loaded is not None else None,
            "candidates": loaded.candidate_count if loaded is not None else None,
            "bad_when": request.bad_criterion or AS_BAD_END,
            "confidence": request.confidence,
            "runs": None if estimate is None else estimate.runs,
            "frozen": dict(request.frozen),
            "output": str(request.output) if plan.is_named else None,
            "notices": plan.notices,
        },
        indent=2,
    )


def _range_lines(plan: Plan) -> Iterator[str]:
    request, loaded = plan.request, plan.range
    if loaded is None:
        yield f"range:     {request.repository} ..{request.bad[:12]}"
        yield "           the good end is looked for 1, 2, 4, ... commits before the bad one"
        return
    yield f"range:     {request.repository} {loaded.range.old[:12]}..{loaded.range.new[:12]}"
    commits, candidates = loaded.commit_count, loaded.candidate_count
    yield f"           {describe_stage(request.repository, commits=commits, candidates=candidates)}"


def _pin_lines(request: BisectRequest) -> Iterator[str]:
    for name, pin in request.stack.pins.items():
        value = pin_display_value(request.stack, name, request.frozen.get(request.stack.revision_key(name)))
        frozen = f"frozen at {value}" if value is not None else "frozen, but says nothing at the bad end"
        yield f"pin:       {name} {'searched' if pin.search else frozen}"


def _run_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines about the runs to come."""
    if plan.range is None:
        yield "runs:      to find the good end, then as many as its range takes"
        return
    bisection, estimate = _estimate(plan)
    if bisection is not None and estimate is not None:
        yield f"runs:      {describe_estimate(estimate)}"
        yield "           if all runs of a commit agree, or else more"
        if offered := bisection.known.question.perturbations:
            names = ", ".join(each.name for each in offered)
            yield f"           if the failure is flaky, perturbations are tried: {names}"
        if waits := describe_waits(bisection):
            yield f"           {waits}"
    yield f"           until a confidence of {plan.request.confidence:g}"


def _estimate(plan: Plan) -> tuple[Bisection | None, Estimate | None]:
    """Return the bisection before its first run, and an estimate of what is to come. Each is None where unknown."""
    bisection = None if plan.range is None else initial_bisection(engine_question(plan.request), plan.range)
    builds = bool(plan.request.stack.steps)
    return bisection, None if bisection is None else estimate_rest(bisection, builds=builds)
