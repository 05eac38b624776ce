"""What a bisection leaves behind for a localization, and for `reduce --bisection`."""

import io
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from precision_bisect.bisect.cli import main
from precision_bisect.bisect.drive.hand_over import record_builds, smallest_tolerance
from precision_bisect.bisect.report.report_files import write_report
from precision_bisect.bisect.report.terminal import print_report
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.localization import Localization
from precision_bisect.runner.localization_job import read_compared_builds
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.durable_files import write_document
from precision_bisect.store.vocabulary import Verdict
from tests.bisect.report.stored_bisection import StoredBisection, sha


def test_the_smallest_tolerance_that_was_told_counts() -> None:
    metrics = {"y": {"rtol": 1e-3, "max_diff": 1.0}, "z": {"rtol": 1e-4}, "w": {"rtol": -1.0}}
    assert smallest_tolerance(metrics, "rtol") == 1e-4
    assert smallest_tolerance(metrics, "atol") is None
    assert smallest_tolerance({}, "rtol") is None


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(cache=tmp_path / "cache", state=tmp_path / "state")


def with_builds(stored: StoredBisection, folder: Path) -> list[Path]:
    """One more run of the culprit and of its parent, each of which left a build directory."""
    builds = [folder / "bad", folder / "good"]
    for build, name, verdict in zip(builds, ("c5", "c4"), (Verdict.MISMATCH, Verdict.PASS), strict=True):
        build.mkdir()
        stored.probe(1, sha(name), verdict, artifacts={"build_directory": (str(build), 1)})
    stored.journal.set_golden("a" * 64)
    return builds


def test_a_report_names_the_command_and_the_builds_are_left_for_it(
    culprit: StoredBisection, home: Home, tmp_path: Path
) -> None:
    assert culprit.report().reduce is None
    bad, good = with_builds(culprit, tmp_path)
    assert culprit.report().reduce == (
        f"reduce --bisection {culprit.name} -o {culprit.folder}/report/reduced"
    )
    write_report(culprit.rows(), tmp_path / "written_report")
    lines = (tmp_path / "written_report" / "report.md").read_text().splitlines()
    assert culprit.report().reduce in lines
    shown = io.StringIO()
    print_report(culprit.report(), tmp_path / "written_report", Console(file=shown, width=40))
    assert culprit.report().reduce in shown.getvalue().splitlines()
    record_builds(culprit.rows(), home)
    found = read_compared_builds(culprit.name, home)
    assert (found.failing.build, found.failing.commit) == (bad, sha("c5"))
    assert (found.reference.build, found.reference.commit) == (good, sha("c4"))
    assert found.golden == "a" * 64
    assert found.stack == culprit.request.stack
    assert found.failing.revisions["compiler"] == sha("c5")


REDUCTION = '{"tasks": {"before": 12, "after": 1}, "kernels": {"before": 4, "after": 1}}'


def test_what_is_reduced_already_is_told_in_place_of_the_command(
    culprit: StoredBisection, tmp_path: Path
) -> None:
    """By a night, or by the command that was printed before: it would refuse to write there again."""
    with_builds(culprit, tmp_path)
    reduced = culprit.folder / "report" / "reduced"
    reduced.mkdir(parents=True)
    command = f"reduce --bisection {culprit.name} -o {reduced}"
    assert culprit.report().reduce == f"{command}-2"  # one that was cut short is there
    (reduced / "reduction.json").write_text(REDUCTION)
    assert culprit.report().reduce is None
    localized = Localization(status="left out", message="interrupted")
    culprit.journal.note_localization(write_document(localized))
    done = CliRunner().invoke(main, ["history", culprit.name, "--store", culprit.url], terminal_width=200)
    assert "to reduce it" not in done.output
    assert f"reduced 12 tasks to 1, 4 kernels to 1: {reduced}" in " ".join(done.output.split())
    shutil.rmtree(reduced)
    assert culprit.report().reduce == command


def test_builds_that_were_removed_are_named(culprit: StoredBisection, home: Home, tmp_path: Path) -> None:
    _, good = with_builds(culprit, tmp_path)
    record_builds(culprit.rows(), home)
    good.rmdir()
    with pytest.raises(UserError, match=f"expected the build directory {good}, found it removed"):
        read_compared_builds(culprit.name, home)


def test_nothing_is_left_where_there_is_nothing_to_compare(culprit: StoredBisection, home: Home) -> None:
    record_builds(culprit.rows(), home)
    with pytest.raises(UserError, match="expected the builds of a culprit and of a commit that passes"):
        read_compared_builds(culprit.name, home)
