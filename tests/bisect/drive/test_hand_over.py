"""What stands in the answer where a localization cannot begin."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from precision_bisect.bisect.drive.hand_over import copy_localization, localize_culprit
from precision_bisect.runner.case.case import freeze
from precision_bisect.runner.localization_job import LocalizationJob
from precision_bisect.runner.stack import Case, Platform, Repository, Stack
from precision_bisect.runner.verdict.rules import VerdictRule
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.vocabulary import Judgement, Verdict
from tests.bisect.drive.test_reducible import with_builds
from tests.bisect.report.stored_bisection import StoredBisection, described
from tests.conftest import TestRepository


def frozen_data(folder: Path, home: Home) -> str:
    """Freeze golden data, and return their digest."""
    source = folder / "golden"
    for half in ("in", "out"):
        (source / half).mkdir(parents=True)
        torch.save(torch.zeros(1), source / half / "x.pt")
    return freeze(source, home.golden).digest


def test_a_localization_takes_no_more_than_is_left_of_the_budget(
    culprit: StoredBisection, tmp_path: Path
) -> None:
    """With nothing left, no toolchain is prepared for it."""
    with_builds(culprit, tmp_path)
    for repository in culprit.request.stack.repositories.values():
        TestRepository(repository.path).commit("first", {"file": "1"})
    home = Home(cache=tmp_path / "cache", state=tmp_path / "state")
    culprit.journal.set_golden(frozen_data(tmp_path, home))
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


CASE = """
from pathlib import Path

state = Path(__file__).with_name("state").read_text()
build = Path("build_output/new")
build.mkdir(parents=True)
(build / "kernel_config.py").write_text(state)
print(state)
raise SystemExit(state != "PASS")
"""


def test_a_stall_is_compiled_again_to_see_its_passes(tmp_path: Path) -> None:
    """The second run has the verdict of the first one, so that its build takes the place of the old one."""
    compiler = TestRepository(tmp_path / "compiler")
    good = compiler.commit("good", {"case.py": CASE, "state": "PASS"})
    bad = compiler.commit("bad", {"state": "STALLED"})
    stack = Stack(
        name="example",
        searched="compiler",
        repositories={"compiler": Repository(path=compiler.path)},
        case=Case(
            repository="compiler",
            command=("{python}", "{case}"),
            cwd="{slot}",
            build_output="build_output",
        ),
        verdicts=(
            VerdictRule(verdict=Verdict.STALL, pattern=re.compile("^STALLED")),
            VerdictRule(verdict=Verdict.PASS, pattern=re.compile("^PASS")),
        ),
        platforms={"a2a3sim": Platform()},
    )
    stored = StoredBisection(tmp_path, stack=stack, good=good, bad=bad, case="case.py")
    rows = [replace(described(name, []), sha=commit) for name, commit in (("good", good), ("bad", bad))]
    stored.journal.commits.add("compiler", rows)
    stage = stored.stage([(rows[1], bad)], good=good, bad=bad, revisions=lambda commit: {"compiler": commit})
    for commit, verdict, judgement in (
        (good, Verdict.PASS, Judgement.GOOD),
        (bad, Verdict.STALL, Judgement.BAD),
    ):
        build = tmp_path / verdict
        build.mkdir()
        (build / "kernel_config.py").write_text(verdict)
        stored.probe(
            stage,
            commit,
            verdict,
            judgement=judgement,
            revisions={"compiler": commit},
            artifacts={"build_directory": (str(build), 1)},
        )
    home = Home(cache=tmp_path / "cache", state=tmp_path / "state")
    stored.journal.set_golden(frozen_data(tmp_path, home))
    localize_culprit(stored.rows(), home=home, reduce=False, seconds=None, say=print)
    folder = home.bisections / stored.name / "localized"
    job = LocalizationJob.model_validate_json((folder / "job.json").read_bytes())
    assert job.failing.build.parent == folder / "culprit-passes"
    assert job.reference.build.parent == folder / "parent-passes"


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
