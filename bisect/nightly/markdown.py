"""A night as GitHub-flavoured Markdown for an issue, with a block that machines read."""

import json
from collections import Counter

from ...store.words import percent
from ..report.markdown import escape
from ..report.plain_text import LONGEST_OF_OURS
from .outcome import could_not_run, failing_first, night_line
from .summary import IncidentReport, NightReport

_MARKS = {"`": "\\u0060", "<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "@": "\\u0040"}


def markdown_text(report: NightReport) -> str:
    """The text. What others wrote is escaped; the block is JSON without a character of Markdown's or HTML's."""
    lines = [f"# Night {report.night} of {escape(report.job)}", ""]
    counts = Counter(case.status for case in report.cases)
    not_run = sum(could_not_run(case.status, case.verdict) for case in report.cases)
    opened = sum(incident.open for incident in report.incidents)
    line = night_line(counts, not_run=not_run, incidents=opened)
    lines += [f"{report.started:%Y-%m-%d}: {line}.", ""]
    for incident in report.incidents:
        lines += _incident(incident)
    lines += [
        "## Cases",
        "",
        "| case | platform | tolerance | branch | result | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        "| "
        + " | ".join(
            escape(text)
            for text in (case.case, case.platform, case.tolerance, case.branch, case.status, case.told)
        )
        + " |"
        for case in failing_first(report.cases)
    ]
    if report.notes:
        lines += [
            "",
            "## Left undone",
            "",
            *(f"- {escape(note, longest=LONGEST_OF_OURS)}" for note in report.notes),
        ]
    lines += ["", "<details><summary>For machines</summary>", "", "```json precision-bisect"]
    lines += [machine_block(report), "```", "", "</details>", ""]
    return "\n".join(lines)


def machine_block(report: NightReport) -> str:
    """The incidents as one line of JSON that cannot end its code block."""
    text = json.dumps(
        {
            "schema_version": report.schema_version,
            "job": report.job,
            "night": report.night,
            "incidents": [incident.model_dump(mode="json") for incident in report.incidents],
        }
    )
    return "".join(_MARKS.get(character, character) for character in text)


def _incident(incident: IncidentReport) -> list[str]:
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
    lines.append(f"- more: `{incident.more}`")
    return [*lines, ""]
