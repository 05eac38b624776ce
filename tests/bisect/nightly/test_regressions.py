"""What comes of the bisections of a regression: its culprit, its fix, or why none is named."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from precision_bisect.bisect.drive.hand_over import skipped_localization
from precision_bisect.bisect.drive.loop import BudgetSpentError
from precision_bisect.bisect.drive.session import StoredBisection
from precision_bisect.bisect.engine.answer import Conclusion, NamedCommit
from precision_bisect.bisect.listing import print_history
from precision_bisect.bisect.nightly import regressions
from precision_bisect.bisect.nightly.matrix import Limits, NightlyConfig, OutOfTimeError
from precision_bisect.bisect.nightly.regressions import (
    FindCulprit,
    FindFix,
    NightContext,
    close_incidents,
    localize_incidents,
)
from precision_bisect.runner.errors import EndsError, UserError
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.bisections import BisectionJournal
from precision_bisect.store.durable_files import write_document
from precision_bisect.store.nights import CellKey, JobJournal
from precision_bisect.store.tables import RegressionRow
from precision_bisect.store.vocabulary import BisectionOutcome, Seeks
from tests.bisect.report.test_near_tolerance import concluded
from tests.support.stores import new_store

GOOD, BAD, FIXED, FIX = (letter * 40 for letter in "abcd")


class NoTimeLeft:
    """The limits of a night that is over."""

    def check(self) -> None:
        raise OutOfTimeError


class Recovered:
    """A regression of one case that has recovered, in an incident of its own."""

    def __init__(self, folder: Path) -> None:
        sessions = new_store(folder / "store.sqlite")
        self.journal = JobJournal(sessions, "job")
        self.night = self.journal.nights.begin({"main": FIXED}, "here")
        key = CellKey(branch="main", case="one.py", platform="sim", tolerance="default")
        self.regression = self.journal.regressions.open(
            self.night.id,
            self.journal.runs.get_or_create_cell(key).id,
            last_good=GOOD,
            first_bad=BAD,
            bad_when="mismatch",
        ).id
        self.bisection = BisectionJournal.begin(
            sessions, name="b", repository="compiler", good=GOOD, bad=BAD, request={}
        ).bisection
        self.journal.incidents.add_regression(
            self.regression,
            night_id=self.night.id,
            bisection_id=self.bisection,
            repository="compiler",
            culprit=BAD,
            subject="Break it",
            confidence=0.99,
        )
        self.journal.regressions.update(self.regression, recovered_night_id=self.night.id, recovered_at=FIXED)
        self.problems: list[str] = []
        nothing = cast(Any, None)
        self.context = NightContext(
            config=nothing,
            stack=nothing,
            sessions=sessions,
            journal=self.journal,
            home=nothing,
            night=self.night,
            limits=cast(Any, NoTimeLeft()),
            workspace=nothing,
            progress=nothing,
        )

    def waiting(self) -> list[RegressionRow]:
        return self.journal.regressions.find_unfixed()

    def task(self) -> FindFix:
        (regression,) = self.waiting()
        return FindFix(self.context, regression, output=cast(Any, None), problems=self.problems)


@pytest.fixture
def recovered(tmp_path: Path) -> Recovered:
    return Recovered(tmp_path)


def named(commit: str, repository: str = "compiler") -> NamedCommit:
    return NamedCommit(repository=repository, commit=commit, parent=None, confidence=0.999, merge=False)


def test_a_fix_lies_between_the_last_failure_and_the_recovery(recovered: Recovered) -> None:
    ends = recovered.task().ends()
    assert (ends.bad, ends.good, ends.seeks) == (BAD, FIXED, Seeks.FIX)


def test_an_incident_closes_at_once_and_gets_its_fix_when_it_is_named(recovered: Recovered) -> None:
    close_incidents(recovered.context)
    (incident,) = recovered.journal.incidents.all()
    assert (incident.closed_night_id, incident.fixed_by) == (recovered.night.id, None)
    conclusion = Conclusion(
        outcome=BisectionOutcome.CULPRIT,
        message="m",
        culprits=(named("e" * 40, "runtime"),),
        through=named(FIX),
    )
    recovered.task().note_named_commit(cast(Any, None), conclusion)
    close_incidents(recovered.context)
    (incident,) = recovered.journal.incidents.all()
    assert incident.fixed_by == FIX
    assert recovered.waiting() == []


def test_ends_that_do_not_differ_are_not_asked_again(recovered: Recovered) -> None:
    recovered.task().fail(EndsError("the ends do not differ"))
    assert recovered.waiting() == []
    assert recovered.problems == ["one.py on sim: the ends do not differ"]


def test_a_device_that_failed_is_asked_again(recovered: Recovered) -> None:
    task = recovered.task()
    task.remember(recovered.bisection)
    task.fail(UserError("no board"))
    (regression,) = recovered.waiting()
    assert regression.fix_bisection_id is None
    assert recovered.problems == ["one.py on sim: no board"]


def test_a_night_s_bisection_is_listed_with_its_caveat(
    recovered: Recovered, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bisection"
    folder.mkdir()
    ended = concluded(folder, start=1e-4, parent=0.95, culprit=1.1)
    conclusion = ended.rows().conclusion
    assert conclusion is not None
    task = recovered.task()
    task.context = replace(recovered.context, sessions=ended.sessions)
    task._bisection = StoredBisection(ended.journal, ended.name, Home(cache=folder, state=folder))
    task.conclude(conclusion)
    assert recovered.problems == []
    assert print_history(ended.url, as_json=False) == 0
    assert "culprit found, with a caveat: compiler" in capsys.readouterr().out


def test_what_a_night_s_end_cut_off_waits_for_the_next(recovered: Recovered) -> None:
    assert recovered.task().open(cast(Any, None)) is None
    assert len(recovered.waiting()) == 1
    assert "search for its fix was not begun" in recovered.problems[0]


class TimeLeft:
    """The limits of a night that has just begun."""

    def check(self) -> None:
        pass

    def remaining_seconds(self) -> None:
        pass


def test_a_report_that_cannot_be_written_ends_no_night(
    recovered: Recovered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bisection"
    folder.mkdir()
    ended = concluded(folder, start=None, parent=None, culprit=2.0)
    ended.request.output.write_text("a file in place of the folder")
    journal = JobJournal(ended.sessions, "job")
    night = journal.nights.begin({"main": BAD}, "here")
    cell = journal.runs.get_or_create_cell(
        CellKey(branch="main", case="one.py", platform="sim", tolerance="default")
    )
    regression = journal.regressions.open(
        night.id, cell.id, last_good=GOOD, first_bad=BAD, bad_when="mismatch"
    )
    journal.incidents.add_regression(
        regression.id,
        night_id=night.id,
        bisection_id=ended.journal.bisection,
        repository="compiler",
        culprit=BAD,
        subject="Break it",
        confidence=0.99,
    )
    context = replace(
        recovered.context,
        sessions=ended.sessions,
        journal=journal,
        home=Home(cache=folder, state=folder),
        limits=cast(Any, TimeLeft()),
    )
    monkeypatch.setattr(regressions, "localize_culprit", lambda rows, **_: skipped_localization("no tensors"))
    # A night that ends in between keeps what it has got.
    problems = localize_incidents(context)
    assert next(problems).startswith(
        f"incident 1: {ended.request.output}: expected a folder to write the report to"
    )
    assert [*problems] == ["incident 1 is not localized: no tensors"]


def test_a_platform_that_a_job_no_longer_has_ends_no_night(recovered: Recovered) -> None:
    config = NightlyConfig(job="job", stack="demo", cases=("one.py",), platforms=cast(Any, {"other": {}}))
    recovered.context = replace(
        recovered.context,
        config=config,
        stack=cast(Any, SimpleNamespace(searched="compiler")),
        limits=cast(Any, TimeLeft()),
    )
    with pytest.raises(
        UserError, match="platform sim and tolerance default, found one that no longer has both"
    ):
        recovered.task().open(cast(Any, None))
    with pytest.raises(BudgetSpentError, match="no longer has platform sim"):
        Limits(config, begun=datetime.now(UTC), budget=None).count_run("sim")


@pytest.mark.parametrize(
    ("outcome", "is_asked_again"),
    [
        (BisectionOutcome.ENDS_DO_NOT_DIFFER, True),
        (BisectionOutcome.NO_CULPRIT, True),
        (BisectionOutcome.ONLY_SKIPPED, False),
    ],
)
def test_a_search_that_blames_no_commit_is_begun_again(
    recovered: Recovered, outcome: BisectionOutcome, is_asked_again: bool
) -> None:
    """The night was killed after the bisection had ended, and before it was noted."""
    journal = recovered.journal
    regression = journal.regressions.open(
        recovered.night.id,
        journal.regressions.find_unfixed()[0].cell_id,
        last_good=GOOD,
        first_bad=BAD,
        bad_when="mismatch",
    )
    journal.regressions.update(regression.id, bisection_id=recovered.bisection)
    context = replace(recovered.context, limits=cast(Any, TimeLeft()))
    (opened,) = journal.regressions.all_open()
    task = FindCulprit(context, opened, output=cast(Any, None), problems=recovered.problems)
    conclusion = Conclusion(outcome=outcome, message="nobody")
    row = SimpleNamespace(outcome=conclusion.outcome, conclusion=write_document(conclusion))
    ended = SimpleNamespace(journal=SimpleNamespace(row=lambda: row), record_drive=nullcontext)
    task._find = lambda: cast(Any, ended)
    with ExitStack() as resources:
        assert task.open(resources) is None
    (waiting,) = journal.regressions.all_open()
    if is_asked_again:
        assert (waiting.bisection_id, waiting.problem) == (None, None)
        assert recovered.problems == ["one.py on sim: nobody"]
    else:
        assert (waiting.bisection_id, waiting.problem) == (recovered.bisection, "nobody")


def test_a_bisection_that_a_worker_drives_stays_linked(recovered: Recovered) -> None:
    @contextmanager
    def driven_elsewhere() -> Generator[None]:
        raise UserError("found another process at it")
        yield

    recovered.context = replace(recovered.context, limits=cast(Any, TimeLeft()))
    task = recovered.task()
    task.remember(recovered.bisection)
    task._find = lambda: cast(Any, SimpleNamespace(record_drive=driven_elsewhere))
    with ExitStack() as resources:
        assert task.open(resources) is None
    (waiting,) = recovered.waiting()
    assert waiting.fix_bisection_id == recovered.bisection
    assert recovered.problems == ["one.py on sim: found another process at it"]
