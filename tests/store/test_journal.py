"""The journal: a probe counts wholly or not at all, once."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.store import migrations
from precision_bisect.store.bisections import (
    BisectionJournal,
    ProbeOutcome,
    ProbeStart,
    RangeCandidate,
    range_candidates,
)
from precision_bisect.store.database import migrate, open_store, read_schema_version, sqlite_url
from precision_bisect.store.durable_files import schema_versions
from precision_bisect.store.tables import Base, CommitRow, ProbeRow
from precision_bisect.store.vocabulary import (
    BisectionOutcome,
    BuildSource,
    Commit,
    Evidence,
    Judgement,
    Phase,
    ProbeState,
    Seeks,
    StoreError,
    TreeChange,
    Verdict,
)

SHA = "a" * 40
CANDIDATE = RangeCandidate(sha=SHA, parents=("p",), subject="odd", representative=SHA, content="c")


def result(**changes: object) -> ProbeOutcome:
    fields: dict[str, object] = {
        "verdict": Verdict.MISMATCH,
        "judgement": Judgement.BAD,
        "signature": "out",
        "metrics": {"out": {"mismatched_fraction": 0.5}},
        "exit_code": 1,
        "evidence": [Evidence(stream="stdout", line=7, text="'out' FAIL", why="says mismatch")],
        "build_key": "k",
        "build_source": BuildSource.BUILT,
        "build_seconds": 3.0,
        "build_steps": {"minirt": 3.0},
        "run_seconds": 2.0,
        "fingerprint": "f",
        "environment": {"cpu": "x"},
        "slot": 0,
        "host": "here",
        "command": ["python", "case.py"],
        "artifacts": {"log": ("/x/run.log.gz", 10)},
    }
    return ProbeOutcome(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


def key(stage: int, run: int = 1, content: str = "c") -> ProbeStart:
    return ProbeStart(
        stage=stage,
        phase=Phase.SEARCH,
        repository="minipto",
        commit=SHA,
        revisions={"minipto": SHA},
        content=content,
        run=run,
    )


@pytest.fixture
def sessions(url: str) -> sessionmaker[Session]:
    return open_store(url)


@pytest.fixture
def journal(sessions: sessionmaker[Session]) -> BisectionJournal:
    return BisectionJournal.begin(
        sessions, name="one", repository="minipto", good="g", bad="b", request={"x": 1}
    )


def stage(journal: BisectionJournal) -> int:
    commit = Commit(
        sha=SHA,
        parents=("p",),
        author="Ada",
        email="ada@example.com",
        date=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        subject="odd \0 \udcff subject",
        changes=tuple(TreeChange(path, "0", "0", "100644", SHA) for path in ("a", "b\udcfe")),
    )
    journal.commits.add("minipto", [commit])
    return journal.stages.record(
        ordinal=1,
        repository="minipto",
        seeks=Seeks.REGRESSION,
        old="g",
        new="b",
        held={},
        candidates=[CANDIDATE],
    )


def test_of_what_other_bisections_ran_the_last_probe_of_each_content_is_known(
    journal: BisectionJournal, sessions: sessionmaker[Session]
) -> None:
    skip = Evidence(stream="build", line=1, text="a.cpp:1:1: error: x", why="says build_error")
    number = stage(journal)
    for run, judgement in ((1, Judgement.BAD), (2, Judgement.SKIP)):
        ordinal = journal.probes.start(key(number, run))
        journal.probes.finish(ordinal, result(judgement=judgement, evidence=[skip]))
    journal.probes.finish(journal.probes.start(key(number, content="d")), result())
    journal.probes.start(key(number, content="e"))
    other = BisectionJournal.begin(
        sessions, name="two", repository="minipto", good="g", bad="b", request={"x": 1}
    )
    found = {probe.content: probe for probe in other.probes.last_probes_in_other_bisections({"c", "e", "f"})}
    assert {*found} == {"c"}
    assert found["c"].judgement is Judgement.SKIP
    assert [line.text for line in found["c"].evidence] == ["a.cpp:1:1: error: x"]
    assert journal.probes.last_probes_in_other_bisections({"c", "d"}) == []


def test_bisections_that_built_the_same_contents_are_known_with_all_that_they_built(
    journal: BisectionJournal, sessions: sessionmaker[Session]
) -> None:
    def other(name: str, *built: tuple[str, BuildSource], platform: str | None = None) -> BisectionJournal:
        request = {} if platform is None else {"platform": platform}
        begun = BisectionJournal.begin(
            sessions, name=name, repository="minipto", good="g", bad="b", request=request
        )
        number = stage(begun)
        for content, source in built:
            ordinal = begun.probes.start(key(number, content=content))
            begun.probes.finish(ordinal, result(build_source=source))
        begun.probes.start(key(number, content="unfinished"))
        return begun

    other("two", ("c", BuildSource.BUILT), ("elsewhere", BuildSource.CACHED))
    other("three", ("c", BuildSource.CACHED))
    newest = other("four", ("d", BuildSource.BUILT))
    other("five", ("c", BuildSource.BUILT), platform="elsewhere")

    def found(asking: BisectionJournal, most: int) -> list[list[str]]:
        built = asking.probes.probes_by_bisection({"c", "d", "f"}, limit=most)
        return [[probe.content for probe in probes] for probes in built]

    assert found(journal, 3) == [["c", "elsewhere"], ["d"]]
    assert found(journal, 1) == [["d"]]
    assert found(newest, 3) == [["c", "elsewhere"]]


def test_a_finished_probe_comes_back_whole(journal: BisectionJournal) -> None:
    ordinal = journal.probes.start(key(stage(journal)))
    assert journal.probes.finished_probes() == []
    journal.probes.finish(ordinal, result())
    (probe,) = journal.probes.finished_probes()
    assert (probe.verdict, probe.judgement, probe.signature) == (Verdict.MISMATCH, Judgement.BAD, "out")
    assert isinstance(probe.verdict, Verdict)
    assert probe.environment is not None
    assert probe.environment.details == {"cpu": "x"}
    assert probe.started.tzinfo is not None


def test_a_probe_cut_short_starts_again_in_its_own_row(
    journal: BisectionJournal, sessions: sessionmaker[Session]
) -> None:
    first = journal.probes.start(key(stage(journal)))
    again = BisectionJournal.find(sessions, "one")
    assert again is not None
    assert again.probes.start(key(stage(again))) == first
    again.probes.finish(first, result())
    with sessions() as session:
        (row,) = session.scalars(select(ProbeRow))
        assert (row.attempt, row.state) == (2, ProbeState.FINISHED)


def test_a_probe_that_was_stopped_never_counts_and_starts_again_in_its_own_row(
    journal: BisectionJournal, sessions: sessionmaker[Session]
) -> None:
    number = stage(journal)
    ordinal = journal.probes.start(key(number))
    journal.probes.cancel(ordinal)
    assert journal.probes.finished_probes() == []
    with sessions() as session:
        assert [row.state for row in session.scalars(select(ProbeRow))] == [ProbeState.CANCELLED]
    assert journal.probes.start(key(number)) == ordinal
    journal.probes.finish(ordinal, result())
    (probe,) = journal.probes.finished_probes()
    assert (probe.attempt, probe.state) == (2, ProbeState.FINISHED)
    with pytest.raises(ValueError, match="cannot be cancelled"):
        journal.probes.cancel(ordinal)


def test_a_probe_that_starts_again_counts_as_what_it_is_wanted_for_now(
    journal: BisectionJournal, sessions: sessionmaker[Session]
) -> None:
    number = stage(journal)
    ordinal = journal.probes.start(key(number))
    journal.probes.cancel(ordinal)
    later = journal.stages.record(
        ordinal=2, repository="runtime", seeks=Seeks.REGRESSION, old="g", new="b", held={}, candidates=[]
    )
    wanted = replace(
        key(later),
        phase=Phase.ENDPOINT,
        repository="runtime",
        commit="b" * 40,
        revisions={"minipto": SHA, "runtime": "b" * 40},
    )
    assert journal.probes.start(wanted) == ordinal
    journal.probes.finish(ordinal, result())
    probe = journal.probes.get(ordinal)
    assert (probe.stage_id, probe.phase) == (later, Phase.ENDPOINT)
    assert (probe.repository, probe.commit, probe.revisions) == ("runtime", "b" * 40, wanted.revisions)


def test_a_finished_probe_cannot_be_made_again(journal: BisectionJournal) -> None:
    number = stage(journal)
    journal.probes.finish(journal.probes.start(key(number)), result())
    with pytest.raises(ValueError, match="counts once"):
        journal.probes.start(key(number))
    assert journal.probes.start(key(number, run=2)) == 2


def test_a_failure_while_writing_leaves_the_probe_unfinished(journal: BisectionJournal) -> None:
    ordinal = journal.probes.start(key(stage(journal)))
    with pytest.raises(Exception, match="JSON"):
        journal.probes.finish(ordinal, result(metrics={"out": {"x": object()}}))
    assert journal.probes.finished_probes() == []
    journal.probes.finish(ordinal, result())
    assert len(journal.probes.finished_probes()) == 1


def test_builds_and_environments_are_noted_once(
    journal: BisectionJournal, sessions: sessionmaker[Session]
) -> None:
    number = stage(journal)
    for run in (1, 2, 3):
        source = BuildSource.BUILT if run == 1 else BuildSource.PRESENT
        journal.probes.finish(journal.probes.start(key(number, run)), result(build_source=source))
    ids = {(probe.build_id, probe.environment_id) for probe in journal.probes.finished_probes()}
    assert len(ids) == 1


def test_stages_and_notices_are_noted_once(
    journal: BisectionJournal, sessions: sessionmaker[Session]
) -> None:
    assert stage(journal) == stage(journal)
    journal.add_notice("moved")
    journal.add_notice("moved")
    with sessions() as session:
        row = session.merge(journal.row(), load=False)
        assert [notice.text for notice in row.notices] == ["moved"]
        assert range_candidates(session, row.stages[0].id) == [CANDIDATE]
        (commit,) = session.scalars(select(CommitRow))
        assert commit.subject == "odd \\0 \\udcff subject"
        assert commit.files == ["a", "b\\udcfe"]


def test_unfinished_ones_are_found_the_newest_first(
    sessions: sessionmaker[Session], journal: BisectionJournal
) -> None:
    others = [
        BisectionJournal.begin(sessions, name=name, repository="r", good="g", bad="b", request={})
        for name in ("two", "three")
    ]
    others[0].conclude(BisectionOutcome.CULPRIT, {"outcome": "culprit"})
    others[1].conclude(BisectionOutcome.BUDGET, {"outcome": "budget"})
    found = [each.bisection for each in BisectionJournal.unfinished_bisections(sessions)]
    assert found == [others[1].bisection, journal.bisection]
    assert BisectionJournal.find(sessions, "four") is None


def test_a_new_store_has_the_tables_that_the_migrations_make(
    sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    migrated = create_engine(f"sqlite:///{tmp_path / 'migrated'}")
    with migrated.begin() as connection:
        migrate(connection)
    for made in (migrated.connect(), sessions().connection()):
        with made as connection:
            assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
            assert read_schema_version(connection) == schema_versions()[-1]
    migrated.dispose()


def test_the_names_of_the_migrations_tell_their_schemas(sessions: sessionmaker[Session]) -> None:
    folder = Path(migrations.__file__).parent
    script_directory = ScriptDirectory(folder, version_locations=[str(folder.with_name("versions"))])
    walked = script_directory.walk_revisions()
    assert schema_versions() == [script.revision for script in walked][::-1]
    with sessions() as session:
        assert read_schema_version(session.connection()) == schema_versions()[-1]


def test_a_store_that_cannot_be_opened_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for url in (sqlite_url(tmp_path / "folder"), "no-such-dialect://x", "nonsense"):
        with pytest.raises(StoreError, match="expected") as caught:
            open_store(url)
        assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    file.write_text("this is a text file, long enough to be looked at as a database header by SQLite" * 20)
    with pytest.raises(StoreError, match="not a database"):
        open_store(sqlite_url(file))
    assert file.read_text().startswith("this is a text")
