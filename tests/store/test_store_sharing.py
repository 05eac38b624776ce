"""Many processes on one store: migrated once, nothing noted twice, readers that write nothing."""

import math
import multiprocessing
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, func, make_url, select, text
from sqlalchemy.exc import DBAPIError

from precision_bisect.store.bisections import BisectionJournal
from precision_bisect.store.database import is_driven, open_read_only, open_store, sole_driver, sqlite_url
from precision_bisect.store.tables import ArtifactRow, BisectionRow, BuildRow, CommitRow, EnvironmentRow, now
from precision_bisect.store.vocabulary import StoreError
from tests.store.test_journal import key, result, stage

_PROCESSES = 3
_RUNS = 4


def note_runs(url: str, name: str) -> None:
    """One driver among others: open the store (the first makes it), and note runs of shared builds."""
    journal = BisectionJournal.begin(
        open_store(url), name=name, repository="minipto", good="g", bad="b", request={}
    )
    number = stage(journal)
    for run in range(1, _RUNS + 1):
        ordinal = journal.probes.start(key(number, run=run))
        journal.probes.finish(ordinal, result(build_key=f"k{run}", fingerprint=f"f{run}"))


def test_an_interrupt_while_a_store_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = list[object]()

    def interrupt(engine: Engine) -> None:
        connection = engine.connect()
        connection.exec_driver_sql("CREATE TABLE half (n INTEGER)")
        held.append(connection)
        raise KeyboardInterrupt

    monkeypatch.setattr("precision_bisect.store.database._migrate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        open_store(sqlite_url(tmp_path / "state" / "store.sqlite"))
    assert held
    assert [file.name for file in (tmp_path / "state").iterdir() if ".partial" in file.name] == []


def run_on_server(url: str, *statements: str) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_each_text_is_refused(postgresql_server: str, encoding: str) -> None:
    name = encoding.lower()
    run_on_server(
        postgresql_server, f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'"
    )
    other = make_url(postgresql_server).set(database=name).render_as_string()
    for open_it in (open_store, open_read_only):
        with pytest.raises(StoreError, match=f"expected a database with the encoding UTF8, found {encoding}"):
            open_it(other)


def test_times_are_read_whatever_a_role_says_of_dates(postgresql_url: str) -> None:
    url = make_url(postgresql_url)
    assert url.database is not None
    run_on_server(postgresql_url, f"ALTER DATABASE {url.database} SET DateStyle TO 'German'")
    note_runs(postgresql_url, "dated")
    with open_read_only(postgresql_url)() as session:
        (created,) = session.scalars(select(BisectionRow.created)).all()
    assert abs((now() - created).total_seconds()) < 86_400


def test_drivers_that_start_at_once_note_all_and_share_what_is_shared(url: str) -> None:
    context = multiprocessing.get_context("spawn")
    drivers = [context.Process(target=note_runs, args=(url, f"b{number}")) for number in range(_PROCESSES)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert [driver.exitcode for driver in drivers] == [0] * _PROCESSES
    sessions = open_read_only(url)
    with sessions() as session:
        ids = session.scalars(select(BisectionRow.id)).all()
        counts = {
            table: session.scalar(select(func.count()).select_from(table))
            for table in (CommitRow, BuildRow, EnvironmentRow)
        }
    assert counts == {CommitRow: 1, BuildRow: _RUNS, EnvironmentRow: _RUNS}
    for each in ids:
        assert [probe.ordinal for probe in BisectionJournal(sessions, each).probes.finished_probes()] == list(
            range(1, _RUNS + 1)
        )


def test_numbers_that_are_not_finite_come_back(url: str) -> None:
    journal = BisectionJournal.begin(
        open_store(url), name="one", repository="r", good="g", bad="b", request={}
    )
    metrics = {"out": {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "x": 0.5}}
    journal.probes.finish(journal.probes.start(key(stage(journal))), result(metrics=metrics))
    (probe,) = journal.probes.finished_probes()
    assert probe.metrics is not None
    back = probe.metrics["out"]
    assert math.isnan(back["nan"])
    assert (back["inf"], back["-inf"], back["x"]) == (math.inf, -math.inf, 0.5)


def test_a_build_directory_beyond_4_gib(url: str) -> None:
    sessions = open_store(url)
    journal = BisectionJournal.begin(sessions, name="one", repository="r", good="g", bad="b", request={})
    journal.probes.finish(
        journal.probes.start(key(stage(journal))), result(artifacts={"build_directory": ("/b", 5 << 30)})
    )
    with sessions() as session:
        assert session.scalar(select(ArtifactRow.bytes)) == 5 << 30


def test_one_driver_on_all_machines(postgresql_url: str) -> None:
    here, there = open_store(postgresql_url), open_store(postgresql_url)
    with sole_driver(here, 1) as first, sole_driver(there, 1) as second, sole_driver(there, 2) as other:
        assert (first, second, other) == (True, False, True)
        with open_read_only(postgresql_url)() as session:
            assert [is_driven(session, number) for number in (1, 2, 3)] == [True, True, False]
    with suppress(KeyboardInterrupt), sole_driver(there, 1) as again:
        assert again
        raise KeyboardInterrupt
    with here() as session:
        assert not is_driven(session, 1)


def test_a_reader_writes_nothing(url: str) -> None:
    with pytest.raises(StoreError, match="expected"):
        open_read_only(url)
    BisectionJournal.begin(open_store(url), name="one", repository="r", good="g", bad="b", request={})
    sessions = open_read_only(url)
    with sessions() as session:
        assert session.scalar(select(BisectionRow.name)) == "one"
    with pytest.raises(DBAPIError, match=r"read-?only"), sessions.begin() as session:
        session.execute(text("DELETE FROM bisections"))


def test_a_reader_does_not_migrate(url: str) -> None:
    sessions = open_store(url)
    with sessions.begin() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    with pytest.raises(StoreError, match="found 0001"):
        open_read_only(url)
    with sessions() as session:
        assert session.scalar(text("SELECT version_num FROM alembic_version")) == "0001"
