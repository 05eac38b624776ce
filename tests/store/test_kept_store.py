"""A store that an earlier version wrote: opened, brought up to date, and never sent back to that version."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine, make_url, select, text
from sqlalchemy.schema import ColumnCollectionConstraint

from precision_bisect.store.bisections import BisectionJournal
from precision_bisect.store.database import migrate_and_read, open_read_only, open_store, sqlite_url
from precision_bisect.store.tables import BisectionRow, IncidentRow, ProbeRow, RegressionRow
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, StoreError, VerdictSource
from tests.store.kept import LOCALIZED, NAMES, kept_store
from tests.store.test_journal import key, result, stage

LATER = "9999"
POSTGRESQL_TYPES = {
    " id INTEGER": " id SERIAL",
    "DATETIME": "TIMESTAMP WITH TIME ZONE",
    "DOUBLE": "DOUBLE PRECISION",
}


@pytest.fixture
def kept_url(tmp_path: Path) -> str:
    return kept_store(tmp_path)


def write_first_schema(url: str) -> None:
    """A store of schema 0001, with the statements that its migration ran, and with one bisection."""
    parsed = make_url(url)
    statements = Path(__file__).with_name("first_schema.sql").read_text(encoding="utf-8")
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
        for known, named in POSTGRESQL_TYPES.items():
            statements = statements.replace(known, named)
    engine = create_engine(parsed)
    with engine.begin() as connection:
        for statement in statements.split(";\n"):
            connection.exec_driver_sql(statement)
        connection.execute(
            text(
                "INSERT INTO bisections (name, created, repository, good, bad, request) "
                "VALUES ('old', '2026-01-02 00:00:00.000000', 'r', 'g', 'b', '{}')"
            )
        )
    engine.dispose()


def read_tables(url: str) -> dict[str, object]:
    """What the database says of all tables, whatever the order of their columns."""
    engine = open_store(url).kw["bind"]
    found = MetaData()
    found.reflect(engine)
    engine.dispose()
    return {
        table.name: (
            {
                (
                    column.name,
                    repr(column.type),
                    column.nullable,
                    str(getattr(column.server_default, "arg", None)),
                )
                for column in table.columns
            },
            {(key.parent.name, key.target_fullname) for key in table.foreign_keys},
            {(index.name, index.unique, *index.columns.keys()) for index in table.indexes},
            {
                (type(each), *each.columns.keys())
                for each in table.constraints
                if isinstance(each, ColumnCollectionConstraint)
            },
        )
        for table in found.sorted_tables
    }


def test_a_store_of_the_first_schema_keeps_its_rows_and_takes_new_ones(url: str) -> None:
    write_first_schema(url)
    sessions = open_store(url)
    journal = BisectionJournal.find(sessions, "old")
    assert journal is not None
    assert journal.row().created == datetime(2026, 1, 2, tzinfo=UTC)
    journal.probes.finish(journal.probes.start(key(stage(journal))), result(judgement=Judgement.GOOD))
    assert [probe.judgement for probe in journal.probes.finished_probes()] == [Judgement.GOOD]
    sessions.kw["bind"].dispose()


def test_the_first_schema_becomes_that_of_a_new_store(url: str) -> None:
    new = read_tables(url)
    engine = open_store(url).kw["bind"]
    everything = MetaData()
    everything.reflect(engine)
    everything.drop_all(engine)
    engine.dispose()
    write_first_schema(url)
    assert read_tables(url) == new


def test_it_gets_the_schema_of_a_new_store(kept_url: str, tmp_path: Path) -> None:
    assert read_tables(kept_url) == read_tables(sqlite_url(tmp_path / "new.sqlite"))


def test_it_opens_with_all_its_rows(kept_url: str) -> None:
    sessions = open_store(kept_url)
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


def test_what_a_verdict_rests_on_is_read_from_the_signatures_of_earlier_versions(kept_url: str) -> None:
    signatures = {
        "exit code 2: no header": VerdictSource.EXIT_CODE,
        "judged by a person": VerdictSource.PERSON,
        "cherry-pick: 0123 does not apply in a.c": VerdictSource.PATCH_CONFLICT,
        "y": VerdictSource.OUTPUT,
    }
    with create_engine(kept_url).begin() as connection:
        for number, signature in enumerate(signatures, 1):
            connection.execute(
                text("UPDATE probes SET signature = :signature WHERE id = :number"),
                {"signature": signature, "number": number},
            )
    with open_store(kept_url)() as session:
        rows = session.scalars(select(ProbeRow).where(ProbeRow.id <= len(signatures)))
        assert {row.signature: row.verdict_source for row in rows} == signatures
        unsigned = session.scalars(select(ProbeRow.verdict_source).where(ProbeRow.signature.is_(None)))
        assert set(unsigned) == {VerdictSource.OUTPUT}


def test_a_reader_brings_an_older_store_up_to_date(kept_url: str) -> None:
    # The schema before that of the kept store lacks a column.
    with create_engine(kept_url).begin() as connection:
        connection.execute(text("ALTER TABLE stages DROP COLUMN seeks"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0003'"))
    with pytest.raises(StoreError, match="found 0003"):
        open_read_only(kept_url)
    with migrate_and_read(kept_url)() as session:
        assert len(session.scalars(select(BisectionRow)).all()) == len(NAMES)


def test_a_store_of_a_later_version_asks_for_an_update(kept_url: str) -> None:
    with create_engine(kept_url).begin() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{LATER}'"))
    for opened in (open_store, open_read_only, migrate_and_read):
        with pytest.raises(StoreError, match=rf"found {LATER}, .*update this one") as refused:
            opened(kept_url)
        assert "\n" not in str(refused.value)


def test_what_fixed_a_case_in_an_earlier_version_is_not_looked_for_again(kept_url: str) -> None:
    with create_engine(kept_url).begin() as connection:
        connection.execute(text("UPDATE regressions SET recovered_night_id = (SELECT min(id) FROM nights)"))
    with open_store(kept_url)() as session:
        (regression,) = session.scalars(select(RegressionRow))
        assert regression.fixed_by is None
        assert regression.fix_problem is not None
