"""A case that fails under a variable of the shell alone: its scripts show it, and a resume without it says so."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.support.program import run_program

CHECK = '[ "${PERTURB:-}" != 165 ] || grep -q fine state'


def run(folder: Path, home: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(home), **variables}
    return run_program(*words, cwd=folder, environment=environment)


def test_its_scripts_show_it_in_any_shell(repository: TestRepository, tmp_path: Path) -> None:
    for state in ("fine", "fine", "broken"):
        repository.commit(state, {"state": state, "n": str(len(state))})
    out = tmp_path / "out"
    words = ["--good", "main~2", "--bad", "main", "-o", str(out), "--", "sh", "-c", CHECK]
    secret = {"MY_TOKEN": "hush-hush", "PERTURB": "165"}
    done = run(repository.path, tmp_path / "home", *words, **secret)
    assert done.returncode == 0, done.stderr
    bare = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    codes = [
        subprocess.run(["sh", str(out / f"reproduce-{side}.sh")], env=bare, capture_output=True).returncode
        for side in ("bad", "good")
    ]
    assert codes == [1, 0]
    text = (out / "reproduce-bad.sh").read_text()
    assert "export PERTURB=165\n" in text
    assert "# MY_TOKEN was set too" in text
    kept = [file for root in (tmp_path / "home", out) for file in root.rglob("*") if file.is_file()]
    assert not [file for file in kept if b"hush-hush" in file.read_bytes()]


@pytest.mark.long
def test_a_resume_names_what_is_not_set_any_more(repository: TestRepository, tmp_path: Path) -> None:
    for state in ("fine", "fine", "broken"):
        repository.commit(state, {"state": state, "n": str(len(state))})
    home, words = tmp_path / "home", ["--good", "main~2", "--bad", "main", "-o", str(tmp_path / "out")]
    stops = f"[ -e {tmp_path}/on ] || exit 200; grep -q fine state"
    assert run(repository.path, home, *words, "--", "sh", "-c", stops, PERTURB="165").returncode == 1
    (tmp_path / "on").touch()
    resumed = run(repository.path, home, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    says = "variables of the shell are not as they were when the bisection began: PERTURB was 165, is not set"
    assert f"note: {says}" in resumed.stderr.splitlines()
    assert says in (tmp_path / "out" / "report.json").read_text()
