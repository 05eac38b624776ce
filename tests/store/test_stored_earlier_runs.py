"""What earlier bisections of a repository have run, as a new one asks for it."""

from dataclasses import replace

import pytest
from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.store.bisections import BisectionJournal, EarlierRunJournal
from precision_bisect.store.database import open_store
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase, Verdict
from tests.store.test_journal import key, result, stage


@pytest.fixture
def sessions(url: str) -> sessionmaker[Session]:
    return open_store(url)


def begun(sessions: sessionmaker[Session], name: str, *, bad: str = "b") -> BisectionJournal:
    return BisectionJournal.begin(sessions, name=name, repository="minipto", good="g", bad=bad, request={})


def test_judged_runs_of_the_named_bisections_and_contents_are_read(sessions: sessionmaker[Session]) -> None:
    one, other = begun(sessions, "one"), begun(sessions, "other")
    for journal in (one, other):
        number = stage(journal)
        skipped = {"judgement": Judgement.SKIP, "verdict": Verdict.BUILD_ERROR}
        asked = [
            (key(number), result()),
            (key(number, run=2), result(judgement=Judgement.GOOD, verdict=Verdict.PASS)),
            (key(number, run=3), result(**skipped)),
            (key(number, content="elsewhere"), result()),
            (replace(key(number, run=4), phase=Phase.COUNTERFACTUAL), result()),
        ]
        for wanted, shown in asked:
            journal.probes.finish(journal.probes.start(wanted), shown)
    read = EarlierRunJournal(sessions)
    found = read.judged_probes(["one"], {"c"})
    assert [(probe.bisection.name, probe.run, probe.judgement) for probe in found] == [
        ("one", 1, Judgement.BAD),
        ("one", 2, Judgement.GOOD),
    ]
    assert len(read.judged_probes(["one", "other"], {"c", "elsewhere"})) == 6
    assert read.judged_probes([], {"c"}) == []


def test_bisections_are_found_by_their_end_and_by_a_culprit_the_newest_first(
    sessions: sessionmaker[Session],
) -> None:
    first, second, third = (begun(sessions, name) for name in ("first", "second", "third"))
    begun(sessions, "elsewhere", bad="other")
    for journal in (first, third):
        journal.conclude(BisectionOutcome.CULPRIT, {})
    second.conclude(BisectionOutcome.NO_CULPRIT, {})
    read = EarlierRunJournal(sessions)
    asked = read.bisections_with_bad_end(repository="minipto", bad="b")
    assert [row.name for row in asked] == ["third", "second", "first"]
    assert [row.name for row in read.bisections_with_culprit(repository="minipto")] == ["third", "first"]
    assert read.bisections_with_bad_end(repository="unknown", bad="b") == []
