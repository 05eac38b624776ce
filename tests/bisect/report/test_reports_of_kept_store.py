"""What f499ad2 kept is listed, shown, reported and gone on with; its documents say today what they said then."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.bisect.commands import show_bisection, write_report
from precision_bisect.bisect.listing import print_history
from precision_bisect.bisect.nightly.night_report import NightReport
from precision_bisect.bisect.pages.site import write_site
from precision_bisect.bisect.report.model import Report
from precision_bisect.store.database import migrate_and_read
from precision_bisect.store.durable_files import read_document
from precision_bisect.store.vocabulary import BisectionOutcome
from tests.store.kept import (
    COUNTER,
    COUNTER_CULPRIT,
    KILLED,
    LOCALIZED,
    NAMES,
    OF_THE_NIGHT,
    kept_document,
    kept_store,
    make_counter,
)
from tests.support.quick import quick_first

_CALL = [sys.executable, "-c", "from precision_bisect.bisect.cli import main; main()"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return kept_store(tmp_path)


def resume(name: str, url: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*_CALL, "--store", url, "--resume", name],
        cwd=folder,
        env=os.environ | {"PRECISION_BISECT_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_list_has_all(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert print_history(url, as_json=False) == 0
    listed = capsys.readouterr().out.splitlines()[1::2]
    ends = ["not finished", "culprit found", "not finished", "culprit found"]
    assert [line.split(": ")[0].split("  ") for line in listed] == [
        list(pair) for pair in zip(NAMES, ends, strict=True)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_each_is_shown_and_reported(
    name: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show_bisection(name, store=url) == 0
    assert write_report(name, output=tmp_path / "report", store=url) == 0
    written = json.loads((tmp_path / "report" / "report.json").read_text())
    assert read_document(Report, written).name == name
    assert capsys.readouterr().err == ""


def test_the_report_says_what_it_said(url: str, tmp_path: Path) -> None:
    assert write_report(LOCALIZED, output=tmp_path / "report", store=url) == 0
    now = read_document(Report, json.loads((tmp_path / "report" / "report.json").read_text()))
    text = json.dumps(kept_document("report.json")).replace("@FOLDER@", str(tmp_path))
    then = read_document(Report, json.loads(text))
    assert then.outcome is BisectionOutcome.CULPRIT
    assert then.localization is not None
    assert then.localization.divergence is not None
    # What it rests on was not said then.
    same = {"tool_version": "", "reproduce": None, "confidence_basis": None}
    assert now.model_copy(update=same) == then.model_copy(update=same)
    assert now.reproduce.bad is not None
    assert then.reproduce.bad is not None
    assert now.reproduce.bad.revisions == then.reproduce.bad.revisions


def test_the_site_has_a_page_of_each(url: str, tmp_path: Path) -> None:
    left = tmp_path / "nights" / "bisections" / "regression-1" / "divergence.json"
    left.parent.mkdir(parents=True)
    left.write_text(json.dumps(kept_document("divergence.json")))
    write_site(migrate_and_read(url), tmp_path / "site")
    pages = {path.name: path.read_text() for path in (tmp_path / "site" / "bisections").glob("*.html")}
    assert len(pages) == len(NAMES)
    assert not any("cannot be read" in page for page in pages.values())
    (incident,) = (tmp_path / "site" / "jobs").glob("*/incident-1.html")
    assert "First divergent tensor" in incident.read_text()


def test_a_night_s_document_is_read() -> None:
    night = read_document(NightReport, kept_document("night.json"))
    assert night.incidents[0].bisection == OF_THE_NIGHT


@pytest.mark.long
def test_one_that_was_killed_is_gone_on_with(url: str, tmp_path: Path) -> None:
    make_counter(tmp_path)
    done = resume(COUNTER, url, tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "counter-report" / "report.json").read_text())
    assert [culprit["subject"] for culprit in report["culprits"]] == [COUNTER_CULPRIT]
    # The three runs that were finished are not made again.
    assert [run["ordinal"] for probe in report["probes"] for run in probe["runs"]].count(1) == 1
    assert "run 3 " not in done.stderr


@pytest.mark.parametrize(
    ("name", "why"),
    quick_first([(KILLED, "expected a git checkout at"), (LOCALIZED, "expected an unfinished bisection")]),
)
def test_one_that_cannot_be_gone_on_with_says_why_in_a_line(
    name: str, why: str, url: str, tmp_path: Path
) -> None:
    done = resume(name, url, tmp_path)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert why in line
    assert "version" not in line
