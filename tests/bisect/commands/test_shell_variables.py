"""A case that fails under a variable of the shell alone: its scripts show it, and a resume without it says so."""

import gzip
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
    bare = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "PERTURB": "165"}
    codes = [
        subprocess.run(["sh", str(out / f"reproduce-{side}.sh")], env=bare, capture_output=True).returncode
        for side in ("bad", "good")
    ]
    assert codes == [1, 0]
    assert not [*tmp_path.glob("reproduce-*")]
    kept = tmp_path / "kept"
    subprocess.run(["sh", str(out / "reproduce-bad.sh"), str(kept)], env=bare, capture_output=True)
    assert [folder.name for folder in kept.iterdir()] == ["repository"]
    text = (out / "reproduce-bad.sh").read_text()
    value = "was set too; its value was not kept: set it, or ask again with --env PERTURB=VALUE.\n"
    assert f"# PERTURB {value}" in text
    assert "# MY_TOKEN\n" in text
    kept = [file for root in (tmp_path / "home", out) for file in root.rglob("*") if file.is_file()]
    assert not [file for file in kept if b"hush-hush" in file.read_bytes()]


def test_what_nothing_that_is_run_names_is_a_comment_of_its_scripts(
    repository: TestRepository, tmp_path: Path
) -> None:
    """Named by a file of the repository, by the script outside of it, by the command; or of a family that is read."""
    for state in ("fine", "broken"):
        repository.commit(state, {"state": state, "of/it.py": 'os.environ["IN_A_FILE"]'})
    outside, out = tmp_path / "it's outside.sh", tmp_path / "out"
    outside.write_text("echo ${IN_THE_SCRIPT:-}; grep -q fine state\n")
    named = ("IN_A_FILE", "IN_THE_SCRIPT", "IN_THE_COMMAND", "OMP_NUM_THREADS", "MALLOC_PERTURB_")
    shell = {**dict.fromkeys(named, "1"), "OF_NOBODY": "1 '\n2"}
    words = ["--good", "main~1", "--bad", "main", "-o", str(out), "--", "sh", str(outside), "$IN_THE_COMMAND"]
    done = run(repository.path, tmp_path / "home", *words, **shell)
    assert done.returncode == 0, done.stderr
    lines = (out / "reproduce-bad.sh").read_text().splitlines()
    assert {"export MALLOC_PERTURB_=1", "export OMP_NUM_THREADS=1"} <= {*lines}
    read = [line.partition(" was set too; its value was not kept")[0] for line in lines if "# IN_" in line]
    assert read == ["# IN_A_FILE", "# IN_THE_COMMAND", "# IN_THE_SCRIPT"]
    (unread,) = [line for line in lines if "OF_NOBODY" in line]
    assert unread == "# OF_NOBODY"
    assert lines.index(unread) > next(at for at, line in enumerate(lines) if "known to read them" in line)


def test_no_secret_reaches_a_reader_and_no_token_the_code_under_test(
    repository: TestRepository, tmp_path: Path
) -> None:
    """Commits name the variables and print their values, and those of all others."""
    secrets = {
        "GITHUB_PAT": "ghp_hush1",
        "MYSQL_PWD": "hushmysql2",
        "SSHPASS": "hushssh3x",
        "COOKIE": "sid=hush4cookie",
        "SLACK_WEBHOOK": "https://hooks.slack.com/services/T0/B0/hush5",
        "NPM_CONFIG__AUTH": "hushnpm6==",
        "SENTRY_DSN": "https://hush7dsn@sentry.io/1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.extraHeader",
        "GIT_CONFIG_VALUE_0": "Authorization: Basic hush8basic=",
        "UNHEARD_OF": "hush9hush9hush9hush9",
        "PRECISION_BISECT_TOKEN": "hush-token",
    }
    check = (
        "import os, sys\nprint(*os.environ.items(), sep='\\n')\n"
        "print('token' if 'PRECISION_BISECT_TOKEN' in os.environ else 'none', *os.environ.values())\n"
        "sys.exit(open('state').read() != 'fine')\n"
    )
    for state in ("fine", "broken"):
        repository.commit(state, {"state": state, "names": " ".join(secrets), "check.py": check})
    home, pages = tmp_path / "home", tmp_path / "pages"
    words = ["--good", "main~1", "--bad", "main", "-o", str(home / "out"), "--", "python3", "check.py"]
    assert run(repository.path, home, *words, **secrets).returncode == 0
    assert run(repository.path, home, "report", "--html", str(pages)).returncode == 0
    kept = [file for root in (home, pages) for file in root.rglob("*") if file.is_file()]
    texts = {
        file: gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        for file in kept
    }
    assert [file for file, text in texts.items() if b"hush" in text] == []
    logs = [text for file, text in texts.items() if file.name == "run.log.gz"]
    assert logs
    assert all(b"***UNHEARD_OF***" in text and b"\nnone " in text for text in logs)
    own = [file for file in kept if file.is_relative_to(home) and _is_log_or_script(file)]
    assert len(own) > len(logs)
    own += [home / "out", home / "state", home / "cache"]
    assert [file for file in own if file.stat().st_mode & 0o077] == []


def _is_log_or_script(file: Path) -> bool:
    return file.suffix in (".gz", ".sh", ".sqlite") or file.name.startswith("report.")


@pytest.mark.long
def test_a_resume_names_what_is_not_set_any_more(repository: TestRepository, tmp_path: Path) -> None:
    for state in ("fine", "fine", "broken"):
        repository.commit(state, {"state": state, "n": str(len(state))})
    home, words = tmp_path / "home", ["--good", "main~2", "--bad", "main", "-o", str(tmp_path / "out")]
    stops = f"[ -e {tmp_path}/on ] || exit 200; grep -q fine state"
    assert (
        run(
            repository.path, home, *words, "--crash", "stop", "--", "sh", "-c", stops, PERTURB="165"
        ).returncode
        == 1
    )
    (tmp_path / "on").touch()
    resumed = run(repository.path, home, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    says = "variables of the shell are not as they were when the bisection began: PERTURB was set, is not set"
    assert f"note: {says}" in resumed.stderr.splitlines()
    assert says in (tmp_path / "out" / "report.json").read_text()


@pytest.mark.long
def test_a_resume_says_that_the_script_was_changed(repository: TestRepository, tmp_path: Path) -> None:
    """What it showed before is kept: whoever mends a script knows whether that still holds."""
    for state in ("fine", "fine", "broken"):
        repository.commit(state, {"state": state, "n": str(len(state))})
    home, words = tmp_path / "home", ["--good", "main~2", "--bad", "main", "-o", str(tmp_path / "out")]
    check = tmp_path / "check.sh"
    check.write_text("#!/bin/sh\nexit 200\n")
    check.chmod(0o755)
    assert run(repository.path, home, *words, "--crash", "stop", "--", str(check)).returncode == 1
    same = run(repository.path, home, "--resume")
    assert "changed after" not in same.stderr
    check.write_text("#!/bin/sh\ngrep -q fine state\n")
    resumed = run(repository.path, home, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert f"note: {check}: changed after the bisection began" in resumed.stderr
    assert f"{check}: changed after the bisection began" in (tmp_path / "out" / "report.json").read_text()


def test_a_line_of_a_shell_that_is_too_long_for_a_path_is_run(
    repository: TestRepository, tmp_path: Path
) -> None:
    for state in ("fine", "broken"):
        repository.commit(state, {"state": state})
    line = f"/usr/bin/test -n {'x' * 300} && grep fine state"
    done = run(
        repository.path, tmp_path / "home", "--good", "main~1", "--bad", "main", "--", "sh", "-c", line
    )
    assert done.returncode == 0, done.stderr


def test_an_address_with_a_token_is_refused_for_builds(repository: TestRepository, tmp_path: Path) -> None:
    for state in ("fine", "broken"):
        repository.commit(state, {"state": state})
    words = ("--good", "main~1", "--bad", "main", "--build-store", "http://127.0.0.1:1/x?token=hushhush1")
    done = run(repository.path, tmp_path / "home", *words, "--", "true")
    assert done.returncode == 2
    assert "--build-store: expected an address without a password or token" in done.stderr
    assert "hushhush1" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--", "./check.sh", "--token=ghp_hush1"),
        ("--bad-when", "regex:ghp_hush1", "--", "true"),
        ("--env", "LOGIN=ghp_hush1", "--", "true"),
        ("--name", "ghp_hush1", "--", "true"),
        ("-o", "ghp_hush1", "--", "true"),
        ("--notify", "true https://hook/ghp_hush1", "--", "true"),
    ],
)
def test_a_secret_that_the_shell_put_into_a_command_is_refused_and_not_kept(
    repository: TestRepository, tmp_path: Path, words: tuple[str, ...]
) -> None:
    for state in ("fine", "broken"):
        repository.commit(state, {"state": state, "check.sh": "#!/bin/sh\n"})
    home = tmp_path / "home"
    done = run(repository.path, home, "--good", "main~1", "--bad", "main", *words, GITHUB_PAT="ghp_hush1")
    assert done.returncode == 2
    assert "expected no secret, found the value of GITHUB_PAT" in done.stderr
    assert "ghp_hush1" not in done.stdout + done.stderr
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"ghp_hush1" in file.read_bytes()]
