"""What a command is told at the end of a bisection."""

import json
import sys
from pathlib import Path

import pytest

from precision_bisect.bisect.drive.hand_over import check_notify_command, notify
from precision_bisect.runner.errors import UsageError
from tests.bisect.report.stored_bisection import StoredBisection, sha

RECORD = """
import json, os, pathlib, sys
ours = {name: value for name, value in os.environ.items() if name.startswith("PRECISION_BISECT_")}
pathlib.Path(sys.argv[1]).write_text(json.dumps([json.load(sys.stdin), ours]))
"""


def told(stored: StoredBisection, folder: Path) -> tuple[dict[str, object], dict[str, str]]:
    script, file = folder / "record.py", folder / "told.json"
    script.write_text(RECORD)
    assert notify(f"{sys.executable} {script} {file}", stored.report(), stored.request.output) is None
    notice, variables = json.loads(file.read_text())
    return notice, variables


def test_a_culprit_is_told_in_variables_and_as_json(culprit: StoredBisection, tmp_path: Path) -> None:
    notice, variables = told(culprit, tmp_path)
    assert variables["PRECISION_BISECT_OUTCOME"] == notice["outcome"] == "culprit"
    assert variables["PRECISION_BISECT_NAME"] == notice["name"] == culprit.name
    assert variables["PRECISION_BISECT_CULPRIT"] == sha("c5")
    assert variables["PRECISION_BISECT_REPOSITORY"] == "compiler"
    assert variables["PRECISION_BISECT_CONFIDENCE"] == "0.999300"
    assert variables["PRECISION_BISECT_REPORT"] == str(culprit.request.output)
    # What others wrote is in the JSON alone.
    assert "Subject of c5" in json.dumps(notice)
    assert "Subject" not in json.dumps(variables)


def test_without_a_culprit_its_variables_are_empty(nothing_run: StoredBisection, tmp_path: Path) -> None:
    notice, variables = told(nothing_run, tmp_path)
    assert notice["culprits"] == []
    assert variables["PRECISION_BISECT_CULPRIT"] == variables["PRECISION_BISECT_CONFIDENCE"] == ""


def test_a_command_that_fails_is_told_of(culprit: StoredBisection) -> None:
    failing = f"{sys.executable} -c 'raise SystemExit(3)'"
    assert notify(failing, culprit.report(), Path("out")) == "--notify: the command ended with 3"
    assert notify("/nowhere/at/all", culprit.report(), Path("out")) == "--notify: the command ended with 127"


@pytest.mark.parametrize("text", ["", "  ", "''", "'unclosed", "/nowhere/at/all now"])
def test_what_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"--notify.*: .*(found nothing|found no ''|quotation|found no /nowhere/at/all)$"
    ):
        check_notify_command(text)
