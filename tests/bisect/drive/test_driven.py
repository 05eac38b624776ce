"""One bisection of the small stack beside its effects: what it needs, what is stored, and how it goes on from there."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import pytest
from sqlalchemy import select
from typing_extensions import override

from precision_bisect.bisect.ask.question import BisectRequest
from precision_bisect.bisect.drive.driven import DrivenBisection
from precision_bisect.bisect.drive.loop import ProbeInFlight
from precision_bisect.bisect.drive.progress import Progress, StartedProbe
from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.bisect.engine.bisection import Bisection
from precision_bisect.bisect.engine.range_search import Context
from precision_bisect.bisect.engine.runs import ConfirmationProgress, Needs, SearchProgress
from precision_bisect.runner.case.case import CaseName
from precision_bisect.runner.probe.probe import ProbeResult
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.bisections import BisectionJournal
from precision_bisect.store.durable_files import write_document
from precision_bisect.store.tables import ArtifactRow, NoticeRow
from precision_bisect.store.vocabulary import Judgement, Phase, Verdict
from tests.bisect.drive.small_request import small_request
from tests.runner.small_stack import SmallStack
from tests.support.stores import new_store


@dataclass
class ToldProgress(Progress):
    """Keeps what the driver tells."""

    told: list[str] = field(default_factory=list[str])

    @override
    def show_state(self, bisection: Bisection) -> None:
        return None

    @override
    def show_range(self, repository: str, *, commits: int, candidates: int) -> None:
        self.told.append(f"{repository} {commits} {candidates}")

    @override
    def show_remaining(self, left: SearchProgress) -> None:
        self.told.append(f"{left.candidates} left")

    @override
    def show_confirmation(self, left: ConfirmationProgress) -> None:
        self.told.append("confirming")

    @override
    def probe_started(self, probe: StartedProbe) -> None:
        self.told.append(f"{probe.ordinal} starts")

    @override
    def show_activity(self, ordinal: int, place: str, text: str) -> None:
        self.told.append(f"{ordinal} {text} in {place}")

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        self.told.append(f"{ordinal} is {result.judgement}")

    @override
    def probe_cancelled(self, ordinal: int) -> None:
        self.told.append(f"{ordinal} is cancelled")

    @override
    def notice(self, text: str) -> None:
        self.told.append(text)


class Driven:
    """A bisection of the tool, whose last commit of three is broken."""

    def __init__(self, small: SmallStack, home: Home) -> None:
        self.small, self.home = small, home
        self.good = small.tool.git("rev-parse", "HEAD")
        small.tool.commit("harmless", {"tool.txt": "good 2\n"})
        self.bad = small.tool.commit("fault", {"tool.txt": "wrong\n"})
        self.workspace = small.workspace()
        self.request: BisectRequest = small_request(small, self.workspace, self.good, self.bad)
        self.sessions = new_store(small.folder / "store.sqlite")
        self.journal = BisectionJournal.begin(
            self.sessions,
            name="small",
            repository="tool",
            good=self.good,
            bad=self.bad,
            request=write_document(self.request),
        )
        self.progress = ToldProgress()
        self.held = ExitStack()

    def opened(self) -> DrivenBisection:
        return DrivenBisection.open(
            request=self.request,
            journal=self.journal,
            workspace=self.workspace,
            home=self.home,
            directory=self.small.folder / "bisection",
            progress=self.progress,
            resources=self.held,
        )


def needs(driven: DrivenBisection) -> Needs:
    settled = driven.settle(Context())
    assert not isinstance(settled, Conclusion)
    return settled


def start(driven: DrivenBisection) -> ProbeInFlight:
    """Start the one probe that is needed, and show it."""
    decided, round_needs = driven.bisection, needs(driven)
    (wanted,) = round_needs.start
    probe = driven.record_start(wanted)
    driven.record_round(decided, round_needs, [probe])
    return probe


def test_the_range_is_stored_and_the_good_end_is_what_is_needed_first(small: SmallStack, home: Home) -> None:
    driven = Driven(small, home)
    first = needs(driven.opened())
    assert [(probe.target.commit, probe.phase) for probe in first.start] == [(driven.good, Phase.ENDPOINT)]
    assert (first.cancel, first.load, first.freeze) == ((), (), None)
    assert driven.progress.told == ["tool 2 2"]


def test_a_probe_is_stored_when_it_starts_when_it_is_cancelled_and_when_it_is_finished(
    small: SmallStack, home: Home
) -> None:
    driven = Driven(small, home)
    bisection = driven.opened()
    probe = start(bisection)
    assert probe.request.revisions["tool"] == driven.good
    assert probe.request.directory == small.folder / "bisection" / "probes" / "0001"
    assert needs(bisection).start == ()
    bisection.cancel(probe)
    assert driven.journal.probes.finished_probes() == []
    probe = start(bisection)
    assert probe.running.number == 1, "a cancelled run starts again in its own row"
    result = small.prober().probe(probe.request)
    bisection.finish(probe, result)
    (stored,) = driven.journal.probes.finished_probes()
    assert (stored.commit, stored.judgement, stored.verdict, stored.run) == (
        driven.good,
        Judgement.GOOD,
        Verdict.PASS,
        1,
    )
    assert driven.progress.told == ["tool 2 2", "1 starts", "1 is cancelled", "1 starts", "1 is good"]
    assert [probe.target.commit for probe in needs(bisection).start] == [driven.bad]

    resumed = driven.opened()
    (ended,) = resumed.bisection.known.log.ended
    assert (ended.number, ended.content, ended.judgement) == (
        1,
        probe.running.wanted.target.content,
        Judgement.GOOD,
    )
    assert [probe.target.commit for probe in needs(resumed).start] == [driven.bad]


def test_the_log_of_a_probe_that_ran_nothing_is_not_stored(small: SmallStack, home: Home) -> None:
    driven = Driven(small, home)
    bisection = driven.opened()
    probe = start(bisection)
    missing = CaseName(path=PurePosixPath("gone.sh"), arguments=())
    result = small.prober().probe(replace(probe.request, case=missing))
    assert not result.log.exists()
    bisection.finish(probe, result)
    with driven.sessions() as session:
        assert [row.kind for row in session.scalars(select(ArtifactRow))] == []


def test_a_probe_whose_worker_was_killed_is_made_again_under_its_number(
    small: SmallStack, home: Home
) -> None:
    driven = Driven(small, home)
    bisection = driven.opened()
    (wanted,) = needs(bisection).start
    probe = bisection.record_start(wanted)
    bisection.record_restart(probe, "a worker was killed in run 1")
    assert driven.progress.told[-1] == "a worker was killed in run 1: it is made again"
    assert [probe.number for probe in bisection.bisection.known.log.running] == [1]


def test_what_is_loaded_beside_a_probe_is_awaited_before_the_process_may_end(
    small: SmallStack, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stops the bisection: torch cannot be imported while Python shuts down."""
    slow = small.folder / "modules"
    slow.mkdir()
    (slow / "torch.py").write_text("import time\ntime.sleep(0.2)\nloaded = True\n")
    monkeypatch.syspath_prepend(slow)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    driven = Driven(small, home)
    with driven.held:
        bisection = driven.opened()
        (wanted,) = needs(bisection).start
        bisection.record_start(replace(wanted, save_golden=True))
    assert sys.modules["torch"].loaded
    monkeypatch.delitem(sys.modules, "torch")


def test_a_notice_is_shown_each_time_and_kept_once(small: SmallStack, home: Home) -> None:
    driven = Driven(small, home)
    bisection = driven.opened()
    for _ in range(2):
        bisection.notice("the environment changed")
    assert driven.progress.told == ["the environment changed"] * 2
    with driven.sessions() as session:
        assert [row.text for row in session.scalars(select(NoticeRow))] == ["the environment changed"]
