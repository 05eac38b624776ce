"""The report of a night, and all forms in which it is written and printed.

`night_report` makes the report from the store alone; it is what `night.json` holds. `junit_text` returns it as JUnit
XML, and `markdown_text` as GitHub-flavoured Markdown for an issue, with a block that machines read. `print_night`
prints the summary, and `night_exit_code` chooses the exit code for schedulers. This command writes the report's JSON
schema:

    python -m precision_bisect.bisect.nightly.night_report > docs/nightly.schema.json
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from rich.console import Console
from rich.padding import Padding
from rich.text import Text
from typing_extensions import override

from ...runner.cli_options import STYLES
from ...runner.probe.probe import ProbeResult
from ...runner.stack import Model
from ...runner.workspace.home import command_line
from ...store.durable_files import Document, drop_format_key, published_schema, read_document
from ...store.nights import JobJournal, NightSummary, earlier_incidents
from ...store.tables import CaseResultRow, IncidentRow, NightRow, RegressionRow
from ...store.vocabulary import CaseStatus, Judgement, Verdict, percent, plural, shorten
from ..drive.progress import PlainProgress, describe_result
from ..engine.estimate import describe_remaining
from ..engine.runs import SearchProgress
from ..report.phrases import MAX_OWN_SENTENCE
from ..report.report_files import escape
from .matrix import judge_matrix_run, result_log


class CaseReport(Model):
    """What a night found for one cell. `runs` is 0 where the result is that of an earlier night."""

    case: str
    platform: str
    tolerance: str
    branch: str
    commit: str
    status: CaseStatus
    verdict: Verdict | None
    signature: str | None
    message: str
    runs: int
    failures: int
    seconds: float
    """The time that its builds and runs took in this night."""
    incident: int | None
    culprit: str | None
    log: str | None = None
    """The path of the log that `message` is taken from; null where the cell passed or was not run in this night."""

    @property
    def message_with_log(self) -> str:
        """Return the message with the path of the log."""
        return self.message if self.log is None else f"{self.message}; log: {self.log}"


class IncidentCase(Model):
    """A cell of an incident."""

    case: str
    platform: str
    tolerance: str
    branch: str
    last_good: str
    first_bad: str
    passes_again: bool


class IncidentReport(Model):
    """Regressions with one culprit. `number` counts the incidents of a job."""

    number: int
    event: str | None
    """`opened` or `closed`, where that happened in this night."""
    open: bool
    repository: str
    culprit: str
    subject: str
    confidence: float | None
    bisection: str
    opened_night: int
    closed_night: int | None
    fixed_by: str | None
    earlier: tuple[int, ...] = ()
    """The numbers of earlier, closed incidents with the same culprit, which came back."""
    cases: tuple[IncidentCase, ...]

    @property
    def history_command(self) -> str:
        """Return the command that shows the incident's bisection."""
        return command_line(["bisect-precision", "history", self.bisection])


class NightReport(Document):
    """One night. `incidents` are the open incidents, and those that this night closed."""

    upgrades = (drop_format_key,)
    schema_version: Literal[2] = 2
    job: str
    night: int
    started: datetime
    finished: datetime | None
    attempts: int
    heads: dict[str, str]
    cases: tuple[CaseReport, ...]
    incidents: tuple[IncidentReport, ...]
    notes: tuple[str, ...]


class HookReport(Document):
    """What a hook reads: an event and its incident."""

    upgrades = (drop_format_key,)
    schema_version: Literal[2] = 2
    job: str
    night: int
    incident: IncidentReport


def night_report(journal: JobJournal, night: NightRow) -> NightReport:
    """Return the report of a night as the store has it now."""
    all_incidents = journal.incidents.all()
    incidents = [
        incident_report(incident, night, all_incidents)
        for incident in all_incidents
        if incident.closed_night_id in (None, night.id)
    ]
    summary = read_document(NightSummary, night.summary or {})
    return NightReport(
        job=journal.job,
        night=night.ordinal,
        started=night.started,
        finished=night.finished,
        attempts=night.attempts,
        heads=dict(night.heads),
        cases=tuple(_case_report(journal, result) for result in journal.results.results_in_night(night.id)),
        incidents=tuple(incidents),
        notes=summary.notes,
    )


def incident_report(
    incident: IncidentRow, night: NightRow, all_incidents: Iterable[IncidentRow]
) -> IncidentReport:
    """Return the report of one incident in one night. `all_incidents` are those of the job."""
    event = None
    if incident.closed_night_id == night.id:
        event = "closed"
    elif incident.opened_night_id == night.id:
        event = "opened"
    return IncidentReport(
        number=incident.ordinal,
        event=event,
        open=incident.closed_night_id is None,
        repository=incident.repository,
        culprit=incident.culprit,
        subject=incident.subject,
        confidence=incident.confidence,
        bisection=incident.bisection.name,
        opened_night=incident.opened_night.ordinal,
        closed_night=incident.closed_night.ordinal if incident.closed_night else None,
        fixed_by=incident.fixed_by,
        earlier=earlier_incidents(incident, all_incidents),
        cases=tuple(_incident_case(regression) for regression in incident.regressions),
    )


def _incident_case(regression: RegressionRow) -> IncidentCase:
    cell = regression.cell
    return IncidentCase(
        case=cell.case,
        platform=cell.platform,
        tolerance=cell.tolerance,
        branch=cell.branch,
        last_good=regression.last_good,
        first_bad=regression.first_bad,
        passes_again=regression.recovered_night_id is not None,
    )


def _case_report(journal: JobJournal, result: CaseResultRow) -> CaseReport:
    cell, regression = result.cell, result.regression
    incident = regression.incident if regression else None
    runs = journal.runs.runs_in_night(result.night_id, result.cell_id)
    return CaseReport(
        case=cell.case,
        platform=cell.platform,
        tolerance=cell.tolerance,
        branch=cell.branch,
        commit=result.commit,
        status=result.status,
        verdict=result.verdict,
        signature=result.signature,
        message=result.message,
        runs=result.runs,
        failures=result.failures,
        seconds=round(sum(run.build_seconds + run.run_seconds for run in runs), 3),
        incident=incident.ordinal if incident else None,
        culprit=f"{incident.repository} {incident.culprit}" if incident else None,
        log=result_log(result, runs),
    )


def schema_text() -> str:
    """Return the JSON schema of `night.json`, as text."""
    return published_schema(NightReport)


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""XML 1.0 cannot hold these characters, not even escaped (section 2.2, Char)."""
_FAILURE_STATUSES = frozenset({CaseStatus.NEW, CaseStatus.REGRESSED, CaseStatus.KNOWN})
_SKIPPED_STATUSES = frozenset({CaseStatus.INFRASTRUCTURE, CaseStatus.UNTESTED})


def junit_text(report: NightReport) -> str:
    """Return a night as a JUnit XML document, with one test case for each cell.

    Flaky and passing cells count as passed. Cells with status infrastructure or untested count as skipped. The text of
    a failure names the culprit.
    """
    incidents = {incident.number: incident for incident in report.incidents}
    failures = sum(case.status in _FAILURE_STATUSES for case in report.cases)
    skipped = sum(case.status in _SKIPPED_STATUSES for case in report.cases)
    counts = {
        "tests": str(len(report.cases)),
        "failures": str(failures),
        "skipped": str(skipped),
        "errors": "0",
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(
        root, "testsuite", {"name": report.job, "timestamp": f"{report.started:%Y-%m-%dT%H:%M:%S}", **counts}
    )
    for case in report.cases:
        element = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "classname": _clean(f"{case.platform}.{case.branch}"),
                "name": _clean(f"{case.case} [{case.tolerance}]"),
                "time": f"{case.seconds:.3f}",
            },
        )
        _add_outcome(element, case, incidents.get(case.incident) if case.incident else None)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_outcome(element: ElementTree.Element, case: CaseReport, incident: IncidentReport | None) -> None:
    if case.status in _FAILURE_STATUSES:
        message = _clean(f"{case.status}: {case.message_with_log}")
        failure = ElementTree.SubElement(
            element, "failure", {"type": str(case.verdict or case.status), "message": message}
        )
        culprit = (
            f"\nculprit: {incident.repository} {incident.culprit} {incident.subject}" if incident else ""
        )
        failure.text = _clean(f"{message}{culprit}")
    elif case.status in _SKIPPED_STATUSES:
        ElementTree.SubElement(
            element, "skipped", {"message": _clean(f"{case.status}: {case.message_with_log}")}
        )
    elif case.status is CaseStatus.FLAKY:
        ElementTree.SubElement(element, "system-out").text = _clean(f"flaky: {case.message_with_log}")


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


NEW_FAILURE = 7
"""The exit code of a night in which a case fails that passed before."""

KNOWN_FAILURE = 8
"""The exit code of a night in which cases fail, but none of them newly."""

NOT_RUN = 9
"""The exit code of a night without new failures in which a case has no result, or in which nothing was judged.

A case has no result where it could not be run, or where its device or environment is at fault."""


class FailOn(StrEnum):
    """Which failures of cases make a night fail."""

    NEW = "new"
    ANY = "any"


def could_not_run(status: CaseStatus, verdict: Verdict | None) -> bool:
    """Return whether a case was started but reached no result, because it is misspelt, not collected or not built."""
    return (
        status is CaseStatus.UNTESTED and verdict is not None and judge_matrix_run(verdict) is Judgement.SKIP
    )


def has_no_result(status: CaseStatus, verdict: Verdict | None) -> bool:
    """Return whether a case was started, but nothing is known about it.

    It could not be run, or its device or environment is at fault, or it fails and what passed before is not known.
    """
    fails = status is CaseStatus.UNTESTED and verdict is not None and verdict.traits.is_failure
    return fails or status is CaseStatus.INFRASTRUCTURE or could_not_run(status, verdict)


_STATUS_ORDER = (
    CaseStatus.REGRESSED,
    CaseStatus.NEW,
    CaseStatus.KNOWN,
    CaseStatus.UNTESTED,
    CaseStatus.INFRASTRUCTURE,
    CaseStatus.FLAKY,
    CaseStatus.PASSED,
)


def severity(status: CaseStatus) -> int:
    """Return a sort key that puts failing cells first."""
    return _STATUS_ORDER.index(status)


def sort_failing_first(cases: Iterable[CaseReport]) -> list[CaseReport]:
    """Return the cases of a night with the failing ones first, otherwise in the same order."""
    return sorted(cases, key=lambda case: severity(case.status))


def night_exit_code(report: NightReport, *, fail_on: FailOn) -> int:
    """Return the exit code of a night: 0 where cases were judged and no failure counts.

    Cases without a result count, whatever `fail_on` is.
    """
    statuses = {case.status for case in report.cases}
    if CaseStatus.REGRESSED in statuses:
        return NEW_FAILURE
    judged = statuses - {CaseStatus.UNTESTED, CaseStatus.INFRASTRUCTURE}
    if not judged or any(has_no_result(case.status, case.verdict) for case in report.cases):
        return NOT_RUN
    if fail_on is FailOn.ANY and statuses & {CaseStatus.KNOWN, CaseStatus.NEW}:
        return KNOWN_FAILURE
    return 0


def night_line(counts: Mapping[CaseStatus, int], *, not_run: int, incidents: int) -> str:
    """Return a night in one line: how many cells have each status, failing ones first, and how many incidents are open.

    not_run: the number of untested cells that could not be run.

    >>> night_line({CaseStatus.PASSED: 7, CaseStatus.KNOWN: 2, CaseStatus.UNTESTED: 3}, not_run=1, incidents=1)
    '2 known, 3 untested (1 could not be run), 7 passed; 1 open incident'
    """
    unrun = {CaseStatus.UNTESTED: f" ({not_run} could not be run)"} if not_run else {}
    parts = [
        f"{counts[status]} {status}{unrun.get(status, '')}" for status in _STATUS_ORDER if counts.get(status)
    ]
    opened = f"; {plural(incidents, 'open incident')}" if incidents else ""
    return f"{', '.join(parts) or 'nothing was judged'}{opened}"


_JSON_ESCAPES = {"`": "\\u0060", "<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "@": "\\u0040"}


def markdown_text(report: NightReport) -> str:
    """Return a night as Markdown, with a block that machines read.

    Text that other people wrote is escaped. The block is JSON without special characters of Markdown and HTML.
    """
    lines = [f"# Night {report.night} of {escape(report.job)}", ""]
    counts = Counter(case.status for case in report.cases)
    not_run = sum(could_not_run(case.status, case.verdict) for case in report.cases)
    opened = sum(incident.open for incident in report.incidents)
    line = night_line(counts, not_run=not_run, incidents=opened)
    lines += [f"{report.started:%Y-%m-%d}: {line}.", ""]
    for incident in report.incidents:
        lines += _incident_lines(incident)
    lines += [
        "## Cases",
        "",
        "| case | platform | tolerance | branch | result | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for case in sort_failing_first(report.cases):
        cells = (case.case, case.platform, case.tolerance, case.branch, case.status, case.message_with_log)
        lines.append(f"| {' | '.join(map(escape, cells))} |")
    if report.notes:
        lines += [
            "",
            "## Left undone",
            "",
            *(f"- {escape(note, longest=MAX_OWN_SENTENCE)}" for note in report.notes),
        ]
    lines += ["", "<details><summary>For machines</summary>", "", "```json precision-bisect"]
    lines += [machine_block(report), "```", "", "</details>", ""]
    return "\n".join(lines)


def machine_block(report: NightReport) -> str:
    """Return the incidents as one line of JSON, which cannot end its code block."""
    text = json.dumps(
        {
            "schema_version": report.schema_version,
            "job": report.job,
            "night": report.night,
            "incidents": [incident.model_dump(mode="json") for incident in report.incidents],
        }
    )
    return "".join(_JSON_ESCAPES.get(character, character) for character in text)


def _incident_lines(incident: IncidentReport) -> list[str]:
    state = "open" if incident.open else "closed"
    sure = "" if incident.confidence is None else f", {percent(incident.confidence)} confidence"
    lines = [
        f"## Incident {incident.number}, {state}: {escape(incident.subject)}",
        "",
        f"- culprit: {escape(incident.repository)} `{incident.culprit}`{sure}",
        f"- since night {incident.opened_night}",
    ]
    lines += [
        f"- the culprit of incident {number}, which was closed, came back" for number in incident.earlier
    ]
    if not incident.open:
        lines.append(f"- fixed by: `{incident.fixed_by}`" if incident.fixed_by else "- fixed by: not known")
    lines += [
        f"- {escape(case.case)} on {escape(case.platform)} ({escape(case.tolerance)}, {escape(case.branch)}): "
        f"{'passes again' if case.passes_again else 'fails'}"
        for case in incident.cases
    ]
    lines.append(f"- more: `{incident.history_command}`")
    return [*lines, ""]


_STYLES = {
    CaseStatus.PASSED: "green",
    CaseStatus.FLAKY: "yellow",
    CaseStatus.NEW: "red",
    CaseStatus.REGRESSED: "bold red",
    CaseStatus.KNOWN: "red",
    CaseStatus.INFRASTRUCTURE: "yellow",
    CaseStatus.UNTESTED: "yellow",
}
_MAX_CASES = 5
"""The terminal names at most this many cases without a result. It counts the rest."""
_MAX_TEXT_LENGTH = 300
"""The terminal shows at most this many characters of a name. A case's name can be as long as its parameters."""


def say(console: Console, text: Text, *, indent: int = 0) -> None:
    """Print a line. On a terminal its continuation is indented too, and in a file it is not wrapped."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, indent), expand=False))
    else:
        say_whole(console, text, indent=indent)


def say_whole(console: Console, text: Text, *, indent: int = 0) -> None:
    """Print a line without wrapping it, because it ends with a path or a command that is copied."""
    console.print(Text(" " * indent).append_text(text), soft_wrap=True)


class SharedOutput:
    """An output to which several bisections write in turn, each below its name."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._last: str | None = None

    def write(self, name: str, text: Text, *, indent: int) -> None:
        """Print a line of the bisection with this name."""
        if name != self._last:
            say(self.console, Text(shorten(name, _MAX_TEXT_LENGTH), style="bold"))
            self._last = name
        say(self.console, text, indent=indent)


class NamedProgress(PlainProgress):
    """Prints the progress of one bisection where several share the output."""

    def __init__(self, output: SharedOutput, name: str) -> None:
        super().__init__(output.console)
        self._output = output
        self._name = name

    def _print(self, text: str) -> None:
        self._output.write(self._name, Text(text), indent=2)

    @override
    def show_remaining(self, left: SearchProgress) -> None:
        self._print(describe_remaining(left))

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        text = Text(f"run {ordinal:<3} ").append(describe_result(result), style=STYLES[result.judgement])
        self._output.write(self._name, text, indent=2)


def result_line(case: str, platform: str, rest: str, status: CaseStatus) -> Text:
    """Return the line about one cell of the matrix."""
    text = Text(f"{status:<14} ", style=_STYLES[status])
    text.append(shorten(f"{case} on {platform}", _MAX_TEXT_LENGTH), "default")
    return text.append(f" ({shorten(rest, _MAX_TEXT_LENGTH)})", "dim")


def print_night(report: NightReport, folder: Path | None, console: Console) -> None:
    """Print the summary of a night: what fails, since when, and by which commit.

    It ends with what was left undone, and with the folder of the night.
    """
    counts = Counter(case.status for case in report.cases)
    console.print()
    say(console, Text(f"night {report.night} of {report.job}, {report.started:%Y-%m-%d}", style="bold"))
    unrun = [case for case in report.cases if has_no_result(case.status, case.verdict)]
    tally = [
        Text(f"{counts[status]} {status}", style=_STYLES[status]) for status in CaseStatus if counts[status]
    ]
    say(console, Text(", ").join(tally) if tally else Text("nothing was judged"), indent=2)
    for case in unrun[:_MAX_CASES]:
        unrun_words = "could not be run" if could_not_run(case.status, case.verdict) else "no result"
        words = "infrastructure" if case.status is CaseStatus.INFRASTRUCTURE else unrun_words
        head = Text(f"{words}: ", style="bold red")
        where = f"{case.case} on {case.platform} ({case.tolerance}, {case.branch}): {case.message}"
        say(console, head.append(shorten(where, _MAX_TEXT_LENGTH), "default"))
        if case.log is not None:
            say_whole(console, Text(f"log: {case.log}"), indent=2)
    if len(unrun) > _MAX_CASES:
        say(console, Text(f"and {plural(len(unrun) - _MAX_CASES, 'more case')} without a result"))
    for incident in report.incidents:
        _say_incident(incident, report.cases, console)
    for note in report.notes:
        say(console, Text(f"left undone: {shorten(note, _MAX_TEXT_LENGTH)}", style="yellow"))
    if folder is not None:
        say_whole(console, Text(f"written to {folder}"))


def _say_incident(incident: IncidentReport, results: Sequence[CaseReport], console: Console) -> None:
    state, style = incident.event or "open", "bold red" if incident.open else "bold green"
    head = Text(f"incident {incident.number}, {state}: ", style=style)
    say(console, head.append(shorten(incident.subject, _MAX_TEXT_LENGTH), "default"))
    sure = "" if incident.confidence is None else f", {percent(incident.confidence)} confidence"
    lines = [f"culprit {shorten(incident.repository, 60)} {incident.culprit[:12]}{sure}"]
    if incident.event != "opened":
        lines.append(f"since night {incident.opened_night}")
    lines += [
        f"came back: incident {number}, which was closed, had this culprit" for number in incident.earlier
    ]
    if not incident.open:
        fixed = incident.fixed_by
        lines.append(f"fixed by {fixed[:12]}" if fixed else "fixed by a commit that is not known")
    failing = [case for case in incident.cases if not case.passes_again]
    passed = {_cell_key(each): each.message for each in results if each.status is CaseStatus.PASSED}
    for case in failing[:_MAX_CASES]:
        where, message = f"{case.case} on {case.platform}", passed.get(_cell_key(case))
        text = f"fails: {where}" if message is None else f"not closed yet: {where}: {message}"
        lines.append(shorten(text, _MAX_TEXT_LENGTH))
    if len(failing) > _MAX_CASES:
        lines.append(f"and {plural(len(failing) - _MAX_CASES, 'more case')}")
    for line in lines:
        say(console, Text(line), indent=2)
    say_whole(console, Text(f"more: {incident.history_command}"), indent=2)


def _cell_key(case: CaseReport | IncidentCase) -> tuple[str, str, str, str]:
    return case.case, case.platform, case.tolerance, case.branch


if __name__ == "__main__":
    print(schema_text(), end="")
