"""A store that an earlier version wrote: opened, brought up to date, and never sent back to that version."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, select, text

from precision_bisect.store.bisections import BisectionJournal
from precision_bisect.store.database import StoreError, open_store, open_to_read, read_store
from precision_bisect.store.tables import BisectionRow, IncidentRow, ProbeRow, RegressionRow
from precision_bisect.store.vocabulary import BisectionOutcome, VerdictSource
from tests.store.kept import LOCALIZED, NAMES, kept_store

LATER = "9999"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return kept_store(tmp_path)


def test_it_opens_with_all_its_rows(url: str) -> None:
    sessions = open_store(url)
    with sessions() as session:
        names = session.scalars(select(BisectionRow.name).order_by(BisectionRow.id.desc())).all()
        assert tuple(names) == NAMES
        assert session.scalar(select(IncidentRow.repository)) == "minirt"
    journal = BisectionJournal.find(sessions, LOCALIZED)
    assert journal is not None
    assert journal.row().outcome is BisectionOutcome.CULPRIT
    probes = journal.probes.finished_probes()
    assert all(probe.metrics and probe.evidence and probe.environment for probe in probes)
    assert {probe.environment.details["machine"] for probe in probes if probe.environment} == {"x86_64"}


def test_what_a_verdict_rests_on_is_read_from_the_signatures_of_earlier_versions(url: str) -> None:
    signatures = {
        "exit code 2: no header": VerdictSource.EXIT_CODE,
        "judged by a person": VerdictSource.PERSON,
        "cherry-pick: 0123 does not apply in a.c": VerdictSource.PATCH_CONFLICT,
        "y": VerdictSource.OUTPUT,
    }
    with create_engine(url).begin() as connection:
        for number, signature in enumerate(signatures, 1):
            connection.execute(
                text("UPDATE probes SET signature = :signature WHERE id = :number"),
                {"signature": signature, "number": number},
            )
    with open_store(url)() as session:
        rows = session.scalars(select(ProbeRow).where(ProbeRow.id <= len(signatures)))
        assert {row.signature: row.verdict_source for row in rows} == signatures
        unsigned = session.scalars(select(ProbeRow.verdict_source).where(ProbeRow.signature.is_(None)))
        assert set(unsigned) == {VerdictSource.OUTPUT}


def test_a_reader_brings_an_older_store_up_to_date(url: str) -> None:
    # The first schema that had all of today's tables; the migration behind it adds a column.
    with create_engine(url).begin() as connection:
        connection.execute(text("ALTER TABLE stages DROP COLUMN seeks"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0003'"))
    with pytest.raises(StoreError, match="found 0003"):
        read_store(url)
    with open_to_read(url)() as session:
        assert len(session.scalars(select(BisectionRow)).all()) == len(NAMES)


def test_a_store_of_a_later_version_asks_for_an_update(url: str) -> None:
    with create_engine(url).begin() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{LATER}'"))
    for opened in (open_store, read_store, open_to_read):
        with pytest.raises(StoreError, match=rf"found {LATER}, .*update this one") as refused:
            opened(url)
        assert "\n" not in str(refused.value)


def test_what_fixed_a_case_in_an_earlier_version_is_not_looked_for_again(url: str) -> None:
    with create_engine(url).begin() as connection:
        connection.execute(text("UPDATE regressions SET recovered_night_id = (SELECT min(id) FROM nights)"))
    with open_store(url)() as session:
        (regression,) = session.scalars(select(RegressionRow))
        assert regression.fixed_by is None
        assert regression.fix_problem is not None
