"""What a night prints, on a terminal of 60 columns and into a file."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from precision_bisect.bisect.drive.progress import StartedProbe
from precision_bisect.bisect.engine.runs import SearchProgress
from precision_bisect.bisect.nightly.night_report import (
    CaseReport,
    IncidentCase,
    IncidentReport,
    NamedProgress,
    NightReport,
    SharedOutput,
    print_night,
    result_line,
    say,
)
from precision_bisect.store.vocabulary import CaseStatus, Phase, Verdict

COLUMNS = 60


@pytest.fixture(autouse=True)
def _no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that are printed name a home that is set."""
    monkeypatch.delenv("PRECISION_BISECT_HOME", raising=False)


class Printed:
    """A console, and what was printed on it."""

    def __init__(self, *, terminal: bool = False) -> None:
        self._file = io.StringIO()
        self.console = Console(
            file=self._file, width=COLUMNS, force_terminal=terminal, color_system=None, legacy_windows=False
        )

    @property
    def lines(self) -> list[str]:
        """What was printed, without the spaces that fill a line."""
        return [line.rstrip() for line in self._file.getvalue().splitlines()]


def case(name: str, status: CaseStatus) -> CaseReport:
    return CaseReport(
        case=name, platform="sim", tolerance="default", branch="main", commit="a" * 40, status=status,
        verdict=None, signature=None, message="", runs=1, failures=0, seconds=1.0, incident=None, culprit=None,
    )  # fmt: skip


def incident(*, failing: int = 1, recovered: int = 0, **changes: object) -> IncidentReport:
    cases = [
        IncidentCase(
            case=f"case-{place}.py", platform="sim", tolerance="default", branch="main", last_good="c" * 40,
            first_bad="d" * 40, passes_again=place >= failing,
        )
        for place in range(failing + recovered)
    ]  # fmt: skip
    opened = IncidentReport(
        number=3, event="opened", open=True, repository="tool", culprit="b" * 40, subject="Break it",
        confidence=0.99996, bisection="20260101-000000-abcd", opened_night=2, closed_night=None, fixed_by=None,
        cases=tuple(cases),
    )  # fmt: skip
    return opened.model_copy(update=changes)


def printed(
    *incidents: IncidentReport, cases: tuple[CaseReport, ...] = (), notes: tuple[str, ...] = ()
) -> list[str]:
    """The lines of a night."""
    report = NightReport(
        job="small", night=5, started=datetime(2026, 1, 1, tzinfo=UTC), finished=None, attempts=1,
        heads={}, cases=cases, incidents=incidents, notes=notes,
    )  # fmt: skip
    out = Printed()
    print_night(report, Path("/nights/night-0005"), out.console)
    return out.lines


def test_a_night_counts_its_cases_and_says_what_was_left_undone() -> None:
    cases = [case(f"{place}.py", CaseStatus.PASSED) for place in range(2)]
    cases.append(case("2.py", CaseStatus.REGRESSED))
    assert printed(cases=tuple(cases), notes=("no quota\nleft",)) == [
        "",
        "night 5 of small, 2026-01-01",
        "  2 passed, 1 regressed",
        "left undone: no quota left",
        "written to /nights/night-0005",
    ]
    assert printed()[2] == "  nothing was judged"


def test_a_case_that_could_not_be_run_says_where_its_log_is() -> None:
    lost = case("lost.py", CaseStatus.UNTESTED).model_copy(
        update={"verdict": Verdict.UNKNOWN, "message": "unknown: exit code 0", "log": "/l/run.log.gz"}
    )
    assert printed(cases=(lost,))[3:5] == [
        "could not be run: lost.py on sim (default, main): unknown: exit code 0",
        "  log: /l/run.log.gz",
    ]


def test_a_case_whose_environment_is_at_fault_says_what_is_wrong_there() -> None:
    broken = case("lost.py", CaseStatus.INFRASTRUCTURE).model_copy(
        update={
            "verdict": Verdict.ENVIRONMENT_ERROR,
            "message": "environment_error: no cc",
            "log": "/l/run.log.gz",
        }
    )
    assert printed(cases=(broken,))[3:5] == [
        "infrastructure: lost.py on sim (default, main): environment_error: no cc",
        "  log: /l/run.log.gz",
    ]


def test_paths_and_commands_are_whole_on_a_terminal_and_find_the_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRECISION_BISECT_HOME", "/a home")
    log = "/" + "long/" * 40 + "run.log.gz"
    lost = case("lost.py", CaseStatus.UNTESTED).model_copy(update={"verdict": Verdict.UNKNOWN, "log": log})
    report = NightReport(
        job="small", night=5, started=datetime(2026, 1, 1, tzinfo=UTC), finished=None, attempts=1, heads={},
        cases=(lost,), incidents=(incident(),), notes=(),
    )  # fmt: skip
    out = Printed(terminal=True)
    print_night(report, Path("/nights/" * 20), out.console)
    assert f"  log: {log}" in out.lines
    more = "PRECISION_BISECT_HOME='/a home' bisect-precision history 20260101-000000-abcd"
    assert f"  more: {more}" in out.lines
    assert out.lines[-1] == f"written to {Path('/nights/' * 20)}"


def test_an_incident_names_its_culprit_how_surely_and_what_fails() -> None:
    assert printed(incident(recovered=1))[3:-1] == [
        "incident 3, opened: Break it",
        "  culprit tool bbbbbbbbbbbb, 99.99 % confidence",
        "  fails: case-0.py on sim",
        "  more: bisect-precision history 20260101-000000-abcd",
    ]


@pytest.mark.parametrize(
    ("failing", "more"), [(5, []), (6, ["  and 1 more case"]), (9, ["  and 4 more cases"])]
)
def test_of_many_failing_cases_the_first_five_are_named(failing: int, more: list[str]) -> None:
    lines = printed(incident(failing=failing))[3:-1]
    assert [line for line in lines if "fails:" in line] == [f"  fails: case-{n}.py on sim" for n in range(5)]
    assert [line for line in lines if "more case" in line] == more


@pytest.mark.parametrize(
    ("fixed_by", "fixed"),
    [("e" * 40, "fixed by eeeeeeeeeeee"), (None, "fixed by a commit that is not known")],
)
def test_a_closed_incident_says_since_when_it_was_open_and_what_fixed_it(
    fixed_by: str | None, fixed: str
) -> None:
    closed = incident(
        failing=0, event="closed", open=False, confidence=None, fixed_by=fixed_by, closed_night=5
    )
    assert printed(closed)[3:-1] == [
        "incident 3, closed: Break it",
        "  culprit tool bbbbbbbbbbbb",
        "  since night 2",
        f"  {fixed}",
        "  more: bisect-precision history 20260101-000000-abcd",
    ]


def test_an_incident_of_an_earlier_night_is_open() -> None:
    lines = printed(incident(event=None))
    assert lines[3] == "incident 3, open: Break it"
    assert "  since night 2" in lines


def test_an_incident_that_came_back_names_the_closed_one() -> None:
    assert "  came back: incident 1, which was closed, had this culprit" in printed(incident(earlier=(1,)))


def test_a_long_line_is_wrapped_with_its_indent_on_a_terminal_and_not_in_a_file() -> None:
    words = " ".join(["word"] * 30)
    terminal, file = Printed(terminal=True), Printed()
    for out in (terminal, file):
        say(out.console, Text(words), indent=4)
    assert file.lines == [f"    {words}"]
    assert len(terminal.lines) == 3
    assert all(line.startswith("    word") and len(line) <= COLUMNS for line in terminal.lines)


def test_a_name_is_written_again_whenever_another_bisection_has_spoken() -> None:
    out = Printed()
    shared = SharedOutput(out.console)
    first, second = NamedProgress(shared, "first"), NamedProgress(shared, "second")
    first.show_range("tool", commits=2, candidates=2)
    first.notice("[bold]mind[/bold]")
    second.probe_started(
        StartedProbe(ordinal=7, phase=Phase.SEARCH, repository="tool", commit="0123456789abcdef")
    )
    second.probe_cancelled(7)
    first.show_remaining(SearchProgress(1, 0.5))
    assert out.lines == [
        "first",
        "  tool: 2 commits in the range",
        "  note: [bold]mind[/bold]",
        "second",
        "  run 7   search    tool 0123456789ab",
        "          stopped: its result is not waited for any more",
        "first",
        "  1 commit left, about 1 step",
    ]


def test_a_cell_is_one_line_with_its_status_first() -> None:
    line = result_line("a.py", "sim", "3 of 3\nfail", CaseStatus.REGRESSED)
    assert line.plain == "regressed      a.py on sim (3 of 3 fail)"
    assert len(result_line("a" * 1000, "sim", "b" * 1000, CaseStatus.NEW).plain) == 15 + 300 + 3 + 300
