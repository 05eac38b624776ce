"""`bisect-precision history` and `report`, on stores in all states."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from precision_bisect.bisect.commands import show_history, write_report
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.database import sqlite_url
from tests.bisect.report.stored_bisection import StoredBisection, sha


def test_the_list_has_the_newest_first(
    tmp_path: Path, culprit: StoredBisection, capsys: pytest.CaptureFixture[str]
) -> None:
    second = StoredBisection(tmp_path, good=sha("x"), bad=sha("y"), name="20260305-090000-cafe")
    assert second.url == culprit.url
    assert show_history(None, store=culprit.url) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "20260305-090000-cafe  not finished"
    assert lines[2] == f"20260304-120000-beef  culprit found  compiler {sha('c5')[:12]} Subject of c5"
    assert lines[3].endswith(f"example  examples/softmax.py  compiler {sha('c0')[:12]}..{sha('c6')[:12]}")


def test_one_is_shown_in_full(any_kind: StoredBisection, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_history(any_kind.name, store=any_kind.url) == 0
    shown = capsys.readouterr().out
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


def failed_with_one_line(code: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_unknown_names(culprit: StoredBisection, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nonsense" in failed_with_one_line(show_history("nonsense", store=culprit.url), capsys)
    assert "nonsense" in failed_with_one_line(
        write_report("nonsense", output=None, store=culprit.url), capsys
    )


def test_a_fresh_machine_has_no_history_and_gets_no_store(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show_history(None, store=None) == 0
    assert capsys.readouterr().out == f"no bisections yet in {sqlite_url(home.store)}\n"
    failed_with_one_line(show_history("x", store=None), capsys)
    failed_with_one_line(write_report("x", output=None, store=None), capsys)
    assert not home.state.exists()


def test_what_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("this is no database, but it is long enough to be looked at" * 10)
    for url in ("nonsense", "sqlite", sqlite_url(tmp_path / "text")):
        failed_with_one_line(show_history(None, store=url), capsys)


def test_a_store_of_another_version(culprit: StoredBisection, capsys: pytest.CaptureFixture[str]) -> None:
    with culprit.sessions.begin() as session:
        session.connection().exec_driver_sql(
            "UPDATE bisections SET request = json_set(request, '$.unheard_of', 1)"
        )
    assert "another version" in failed_with_one_line(show_history(culprit.name, store=culprit.url), capsys)
    assert show_history(None, store=culprit.url) == 0


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
    assert "store" in failed_with_one_line(show_history(None, store=read_only), capsys)
