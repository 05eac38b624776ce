"""What a night prints: what happens, as it happens, and in the end what a person has to know."""

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text
from typing_extensions import override

from ...runner.probe.records import ProbeResult
from ...store.vocabulary import CaseStatus
from ...store.words import percent, plural
from ..engine.needs import Narrowed
from ..report.plain_text import shortened
from ..run.view.plain import PlainProgress
from ..run.view.words import STYLES, describe_remaining, describe_result
from .outcome import without_result
from .summary import IncidentReport, NightReport

_STYLES = {
    CaseStatus.PASSED: "green",
    CaseStatus.FLAKY: "yellow",
    CaseStatus.NEW: "red",
    CaseStatus.REGRESSED: "bold red",
    CaseStatus.KNOWN: "red",
    CaseStatus.INFRASTRUCTURE: "yellow",
    CaseStatus.UNTESTED: "yellow",
}
_FEW_CASES = 5
_LONGEST = 300


def say(console: Console, text: Text, *, indent: int = 0) -> None:
    """A line; on a terminal its continuation is indented too, in a file it is not wrapped."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, indent), expand=False))
    else:
        say_whole(console, text, indent=indent)


def say_whole(console: Console, text: Text, *, indent: int = 0) -> None:
    """A line that ends with a path or a command, which are copied: it is not wrapped on a terminal either."""
    console.print(Text(" " * indent).append_text(text), soft_wrap=True)


class SharedOutput:
    """Where several bisections write in turns, each below its name."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._last: str | None = None

    def write(self, name: str, text: Text, *, indent: int) -> None:
        """A line of the bisection of that name."""
        if name != self._last:
            say(self.console, Text(shortened(name, _LONGEST), style="bold"))
            self._last = name
        say(self.console, text, indent=indent)


class NamedProgress(PlainProgress):
    """The progress of one bisection, where several share the output."""

    def __init__(self, output: SharedOutput, name: str) -> None:
        super().__init__(output.console)
        self._output = output
        self._name = name

    def _print(self, text: str) -> None:
        self._output.write(self._name, Text(text), indent=2)

    @override
    def remaining(self, left: Narrowed) -> None:
        self._print(describe_remaining(left))

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        text = Text(f"run {ordinal:<3} ").append(describe_result(result), style=STYLES[result.judgement])
        self._output.write(self._name, text, indent=2)


def result_line(case: str, platform: str, rest: str, status: CaseStatus) -> Text:
    """What the matrix showed of one cell."""
    text = Text(f"{status:<14} ", style=_STYLES[status])
    text.append(shortened(f"{case} on {platform}", _LONGEST), "default")
    return text.append(f" ({shortened(rest, _LONGEST)})", "dim")


def print_night(report: NightReport, folder: Path | None, console: Console) -> None:
    """What fails, since when, by which commit, how surely, and what was left undone, and where it was written."""
    counts = Counter(case.status for case in report.cases)
    console.print()
    say(console, Text(f"night {report.night} of {report.job}, {report.started:%Y-%m-%d}", style="bold"))
    unrun = [case for case in report.cases if without_result(case.status, case.verdict)]
    tally = [
        Text(f"{counts[status]} {status}", style=_STYLES[status]) for status in CaseStatus if counts[status]
    ]
    say(console, Text(", ").join(tally) if tally else Text("nothing was judged"), indent=2)
    for case in unrun[:_FEW_CASES]:
        at_fault = case.status is CaseStatus.INFRASTRUCTURE
        head = Text("infrastructure: " if at_fault else "could not be run: ", style="bold red")
        where = f"{case.case} on {case.platform} ({case.tolerance}, {case.branch}): {case.message}"
        say(console, head.append(shortened(where, _LONGEST), "default"))
        if case.log is not None:
            say_whole(console, Text(f"log: {case.log}"), indent=2)
    if len(unrun) > _FEW_CASES:
        say(console, Text(f"and {plural(len(unrun) - _FEW_CASES, 'more case')} without a result"))
    for incident in report.incidents:
        _say_incident(incident, console)
    for note in report.notes:
        say(console, Text(f"left undone: {shortened(note, _LONGEST)}", style="yellow"))
    if folder is not None:
        say_whole(console, Text(f"written to {folder}"))


def _say_incident(incident: IncidentReport, console: Console) -> None:
    state, style = incident.event or "open", "bold red" if incident.open else "bold green"
    head = Text(f"incident {incident.number}, {state}: ", style=style)
    say(console, head.append(shortened(incident.subject, _LONGEST), "default"))
    sure = "" if incident.confidence is None else f", {percent(incident.confidence)} confidence"
    lines = [f"culprit {shortened(incident.repository, 60)} {incident.culprit[:12]}{sure}"]
    if incident.event != "opened":
        lines.append(f"since night {incident.opened_night}")
    lines += [
        f"came back: incident {number}, which was closed, had this culprit" for number in incident.earlier
    ]
    if not incident.open:
        fixed = incident.fixed_by
        lines.append(f"fixed by {fixed[:12]}" if fixed else "fixed by one of several commits")
    failing = [case for case in incident.cases if not case.passes_again]
    lines += [
        f"fails: {shortened(f'{case.case} on {case.platform}', _LONGEST)}" for case in failing[:_FEW_CASES]
    ]
    if len(failing) > _FEW_CASES:
        lines.append(f"and {plural(len(failing) - _FEW_CASES, 'more case')}")
    for line in lines:
        say(console, Text(line), indent=2)
    say_whole(console, Text(f"more: {incident.more}"), indent=2)
