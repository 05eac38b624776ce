"""What stands in the answer where a localization cannot begin."""

from pathlib import Path

import pytest
import torch

from precision_bisect.bisect.drive.hand_over import copy_localization, localize_culprit
from precision_bisect.runner.case.case import freeze
from precision_bisect.runner.workspace.home import Home
from tests.bisect.drive.test_reducible import with_builds
from tests.bisect.report.stored_bisection import StoredBisection
from tests.conftest import TestRepository


def test_a_localization_takes_no_more_than_is_left_of_the_budget(
    culprit: StoredBisection, tmp_path: Path
) -> None:
    """With nothing left, no toolchain is prepared for it."""
    with_builds(culprit, tmp_path)
    for repository in culprit.request.stack.repositories.values():
        TestRepository(repository.path).commit("first", {"file": "1"})
    home = Home(cache=tmp_path / "cache", state=tmp_path / "state")
    source = tmp_path / "golden"
    for half in ("in", "out"):
        (source / half).mkdir(parents=True)
        torch.save(torch.zeros(1), source / half / "x.pt")
    culprit.journal.set_golden(freeze(source, home.golden).digest)
    said: list[str] = []
    found = localize_culprit(culprit.rows(), home=home, reduce=True, seconds=-1.0, say=said.append)
    assert (found.status, found.message) == (
        "left out",
        "the budget was spent before the toolchains were ready",
    )


def test_builds_that_are_gone_leave_the_localization_out(culprit: StoredBisection, tmp_path: Path) -> None:
    said: list[str] = []
    found = localize_culprit(
        culprit.rows(),
        home=Home(cache=tmp_path / "cache", state=tmp_path / "state"),
        reduce=False,
        seconds=None,
        say=said.append,
    )
    assert found.status == "left out"
    assert found.message == "the runs had no frozen data"
    assert said == []


@pytest.mark.parametrize("has_report", [True, False])
def test_the_page_of_the_tasks_links_to_the_report_that_is_beside_it(
    has_report: bool, tmp_path: Path
) -> None:
    found, report = tmp_path / "found", tmp_path / "report"
    for folder in (found, report):
        folder.mkdir()
    (found / "divergence.json").write_text("{}")
    (found / "task_graph.html").write_text("<aside>\n  <h1></h1>")
    if has_report:
        (report / "report.md").touch()
    copy_localization(found, report)
    assert ('<a href="report.md">' in (report / "task_graph.html").read_text()) == has_report
    assert (report / "divergence.json").is_file()
