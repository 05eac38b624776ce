"""`bisect-precision history` and `report`, on stores in all states."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from rich.text import Text
from sqlalchemy import select, update

from precision_bisect.bisect.ask.question import BisectRequest
from precision_bisect.bisect.commands import print_issue, show_bisection, write_report
from precision_bisect.bisect.listing import print_history
from precision_bisect.bisect.report.phrases import outcome_phrase
from precision_bisect.bisect.report.report_files import record_report
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.stack import COMMAND_STACK
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.database import sqlite_url
from precision_bisect.store.durable_files import read_document, write_document
from precision_bisect.store.tables import BisectionRow, CommitRow
from tests.bisect.report.stored_bisection import StoredBisection, sha
from tests.bisect.report.test_near_tolerance import concluded


def test_the_list_has_the_newest_first(
    tmp_path: Path, culprit: StoredBisection, capsys: pytest.CaptureFixture[str]
) -> None:
    second = StoredBisection(tmp_path, good=sha("x"), bad=sha("y"), name="20260305-090000-cafe")
    assert second.url == culprit.url
    assert print_history(culprit.url, as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "name                  answer"
    assert lines[1] == "20260305-090000-cafe  not finished"
    assert lines[3] == f"20260304-120000-beef  culprit found: compiler {sha('c5')[:12]} Subject of c5"
    assert lines[4].endswith(f"compiler {sha('c0')[:12]}..{sha('c6')[:12]}  example  examples/softmax.py")


@pytest.mark.parametrize("is_writable", [True, False])
def test_the_list_knows_the_caveats_of_a_recorded_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_writable: bool
) -> None:
    stored = concluded(tmp_path, start=1e-4, parent=0.95, culprit=1.1)
    if is_writable:
        record_report(stored.rows(), stored.journal)
    else:
        stored.request.output.write_text("a file in place of the folder")
        with pytest.raises(UserError, match="expected a folder"):
            record_report(stored.rows(), stored.journal)
    assert print_history(stored.url, as_json=False) == 0
    assert "culprit found, with a caveat: compiler" in capsys.readouterr().out


def test_the_list_forgets_the_caveats_that_a_later_report_does_not_have(
    culprit: StoredBisection, capsys: pytest.CaptureFixture[str]
) -> None:
    culprit.journal.note_caveats(["no longer so"])
    record_report(culprit.rows(), culprit.journal)
    assert print_history(culprit.url, as_json=False) == 0
    assert "culprit found: compiler" in capsys.readouterr().out


def test_a_terminal_cuts_the_list_at_its_width_and_a_pipe_gets_all_of_it(
    culprit: StoredBisection, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, long_name = "Change " + "many things " * 20, "name-that-is-longer-than-others"
    StoredBisection(culprit.folder, good=sha("x"), bad=sha("y"), name=long_name)
    with culprit.sessions.begin() as session:
        session.execute(update(CommitRow).values(subject=subject))
        request = read_document(BisectRequest, session.scalars(select(BisectionRow.request)).first())
        command = request.stack.model_copy(update={"name": COMMAND_STACK})
        written = write_document(request.model_copy(update={"stack": command}))
        session.execute(update(BisectionRow).values(request=written))
    assert print_history(culprit.url, as_json=False) == 0
    whole = capsys.readouterr().out
    assert subject.strip() in whole
    assert "predicate" not in whole
    assert {line[len(long_name) :][:2] for line in whole.splitlines() if line[:1] != " "} == {"  "}
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert print_history(culprit.url, as_json=False) == 0
    shown = [Text.from_ansi(line).plain for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, shown)) == 80
    assert any(line.endswith("…") for line in shown)


def test_one_is_shown_in_full(any_kind: StoredBisection, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_bisection(any_kind.name, store=any_kind.url) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{outcome_phrase(any_kind.report())}: ")
    for probe in any_kind.report().probes:
        assert f"{probe.repository} {probe.commit[:12]} {probe.phase}" in " ".join(shown.split())


def test_report_goes_to_the_bisection_s_own_folder(
    culprit: StoredBisection, capsys: pytest.CaptureFixture[str]
) -> None:
    assert write_report(culprit.name, output=None, store=culprit.url) == 0
    listed = capsys.readouterr().out.splitlines()
    assert str(culprit.folder / "report" / "report.md") in listed
    assert all(Path(line).is_file() for line in listed)


def test_report_goes_where_it_is_told(culprit: StoredBisection, tmp_path: Path) -> None:
    assert write_report(culprit.name, output=tmp_path / "elsewhere", store=culprit.url) == 0
    assert (tmp_path / "elsewhere" / "report.json").is_file()
    assert not culprit.request.output.exists()


def test_without_a_name_the_newest_of_the_checkout_counts(
    culprit: StoredBisection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkout = culprit.request.stack.repositories["compiler"].path
    checkout.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(checkout)
    assert write_report(None, output=tmp_path / "written", store=culprit.url) == 0
    capsys.readouterr()
    assert print_issue(None, store=culprit.url) == 0
    assert f"Found by bisection {culprit.name} " in capsys.readouterr().out
    monkeypatch.chdir(tmp_path / "written")
    told = failed_with_one_line(write_report(None, output=None, store=culprit.url), capsys)
    assert f"expected a bisection of {tmp_path / 'written'}, found none" in told


def failed_with_one_line(code: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_unknown_names(culprit: StoredBisection, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nonsense" in failed_with_one_line(show_bisection("nonsense", store=culprit.url), capsys)
    assert "nonsense" in failed_with_one_line(
        write_report("nonsense", output=None, store=culprit.url), capsys
    )


def test_a_fresh_machine_has_no_history_and_gets_no_store(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_history(None, as_json=False) == 0
    assert capsys.readouterr().out == f"no bisections yet in {sqlite_url(home.store)}\n"
    failed_with_one_line(show_bisection("x", store=None), capsys)
    failed_with_one_line(write_report("x", output=None, store=None), capsys)
    assert not home.state.exists()


def test_what_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("this is no database, but it is long enough to be looked at" * 10)
    for url in ("nonsense", "sqlite", sqlite_url(tmp_path / "text")):
        failed_with_one_line(print_history(url, as_json=False), capsys)


def test_a_store_of_another_version(culprit: StoredBisection, capsys: pytest.CaptureFixture[str]) -> None:
    with culprit.sessions.begin() as session:
        session.connection().exec_driver_sql(
            "UPDATE bisections SET request = json_set(request, '$.unheard_of', 1)"
        )
    assert "another version" in failed_with_one_line(show_bisection(culprit.name, store=culprit.url), capsys)
    assert print_history(culprit.url, as_json=False) == 0


@pytest.fixture
def read_only(culprit: StoredBisection) -> Iterator[str]:
    """The store in a folder that nobody may write, and the process without root's rights."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "store.sqlite"
        with closing(sqlite3.connect(culprit.folder / "store.sqlite")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        copy.write_bytes((culprit.folder / "store.sqlite").read_bytes())
        copy.chmod(0o444)
        Path(folder).chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            yield sqlite_url(copy)
        finally:
            if root:
                os.seteuid(0)
            Path(folder).chmod(0o755)


def test_a_store_that_cannot_be_written_is_one_clear_line(
    read_only: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "store" in failed_with_one_line(print_history(read_only, as_json=False), capsys)
