"""A strange checkout decides nothing: neither its files of settings and stacks, nor its modules, run anything or say
where results go."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from precision_bisect.runner.workspace.home import Home
from tests.conftest import TestRepository

STACK = """
name = "strange"
searched = "tool"
[repositories.tool]
path = "."
[environment]
python = "{folder}/python"
[environment.tools.evil]
command = ["touch", "{folder}/pwned"]
[case]
repository = "tool"
command = ["sh", "{{case}}"]
cwd = "{{tool}}"
harness = false
[platforms.host]
"""
ENDS = ("--good", "HEAD~1", "--bad", "HEAD")
CASE = (*ENDS, "--case", "case.py")


@pytest.fixture
def pwned(tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is there where a strange checkout, which is the current folder, has run something."""
    strange = TestRepository(tmp_path / "strange")
    pwned = tmp_path / "pwned"
    (tmp_path / "python").symlink_to("/bin/false")
    files = {"stack.toml": STACK.format(folder=tmp_path), "case.py": "import json\n", "check.sh": "exit 0\n"}
    strange.commit("good", files)
    strange.commit("bad", {"case.py": "import json\nraise SystemExit(1)\n", "check.sh": "exit 1\n"})
    monkeypatch.chdir(strange.path)
    return pwned


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    """The program as it is installed: unlike `python -c`, it has the current folder on no path."""
    return subprocess.run(["bisect-precision", *words], capture_output=True, text=True, check=False)


def trusting(refused: "subprocess.CompletedProcess[str]") -> "subprocess.CompletedProcess[str]":
    """What a refusal says is to be typed."""
    assert refused.returncode == 2, refused.stdout
    return subprocess.run(
        refused.stderr.partition("Read it, then run: ")[2],
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("doctor",),
        (*CASE, "--dry-run"),
        (*ENDS, "--dry-run", "--", "./check.sh"),
        (*ENDS, "--", "sh", "check.sh"),
        ("adapt", "HEAD"),
        ("submit", *CASE),
    ],
)
def test_a_stack_file_that_was_not_typed_runs_nothing(pwned: Path, words: tuple[str, ...]) -> None:
    refused = run(*words)
    assert refused.returncode == 2
    assert f"bisect-precision trust {shlex.quote(str(Path('stack.toml').resolve()))}" in refused.stderr
    assert not pwned.exists()


def test_a_stack_file_counts_once_it_was_trusted_until_it_changes_or_moves(
    pwned: Path, tmp_path: Path
) -> None:
    trusting(run("doctor"))
    assert run("doctor").returncode == 1, "its interpreter fails"
    assert pwned.exists()
    pwned.unlink()
    with Path("stack.toml").open("a") as file:
        file.write("# changed\n")
    assert "trust" in run("doctor").stderr
    assert run("trust").returncode == 0
    assert run("doctor").returncode == 1
    pwned.unlink()
    moved = tmp_path / "moved"
    Path.cwd().rename(moved)
    os.chdir(moved)
    assert "trust" in run("doctor").stderr
    assert not pwned.exists()


def test_what_was_typed_is_trusted(pwned: Path) -> None:
    assert run("doctor", "--stack", "stack.toml").returncode == 1
    assert pwned.exists()


def test_a_plan_runs_nothing_of_a_stack_that_was_typed(pwned: Path, tmp_path: Path) -> None:
    planned = run("--stack", "stack.toml", *CASE, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "what the case imports was not looked for" in planned.stdout
    text = Path("stack.toml").read_text()
    releases = f'[repositories.other.releases]\ncommand = ["touch", "{pwned}"]\n'
    (tmp_path / "other.toml").write_text(f"{text}{releases}".replace('path = "."', 'path = "strange"'))
    refused = run("--stack", str(tmp_path / "other.toml"), *CASE, "--dry-run")
    assert refused.returncode == 2
    assert "releases.command: expected none beside --dry-run" in refused.stderr
    assert not pwned.exists()


def test_the_name_of_a_stack_is_no_file_of_the_checkout(pwned: Path) -> None:
    Path("pypto").write_text(Path("stack.toml").read_text())
    run("doctor", "--stack", "pypto")
    assert not pwned.exists()


@pytest.mark.parametrize(
    ("name", "table"), [("precision-bisect.toml", ""), ("pyproject.toml", "[tool.precision-bisect]\n")]
)
def test_settings_point_the_store_nowhere_before_they_were_trusted(
    pwned: Path, tmp_path: Path, name: str, table: str
) -> None:
    Path("stack.toml").unlink()
    settings = Path.cwd() / name
    settings.write_text(f"{table}store = 'sqlite:///{tmp_path}/planted.sqlite'\n")
    asked = (*ENDS, "-q", "--", "sh", "check.sh")
    refused = run(*asked)
    assert not (tmp_path / "planted.sqlite").exists()
    trusting(refused)
    assert run(*asked).returncode == 0
    assert (tmp_path / "planted.sqlite").exists()
    settings.write_text(f"{table}store = 'sqlite:///{tmp_path}/other.sqlite'\n")
    assert run(*asked).returncode == 2
    assert not (tmp_path / "other.sqlite").exists()


def test_a_stack_file_that_settings_name_is_trusted_by_itself(pwned: Path) -> None:
    Path("stack.toml").rename("own.toml")
    Path("precision-bisect.toml").write_text('stack = "own.toml"\n')
    trusting(run("doctor"))
    refused = run("doctor")
    assert "own.toml is used automatically and is not trusted yet" in refused.stderr
    assert run("doctor", "--stack", "own.toml").returncode == 1, "a typed one is"
    pwned.unlink()
    assert run("history").returncode == 0, "which takes no stack"
    assert not pwned.exists()
    assert run("trust").stdout.splitlines() == [
        f"trusted {Path.cwd()}/precision-bisect.toml",
        f"trusted {Path.cwd()}/own.toml",
    ]
    assert run("doctor").returncode == 1
    assert pwned.exists()


def test_there_is_nothing_to_trust(tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "expected a stack.toml or settings in the checkout, found neither" in run("trust").stderr
    assert "expected a file that can be read" in run("trust", "gone.toml").stderr
    assert not home.trust_marks.exists()


def plant_modules(pwned: Path) -> None:
    """Modules in the current folder in place of those that our own processes import."""
    for name in ("json", "site", "joblib", "multiprocessing", "uuid", "click", "precision_bisect"):
        Path(f"{name}.py").write_text(f"open({str(pwned)!r}, 'a').write('{name} ')\nraise ImportError\n")


def test_no_module_of_the_checkout_is_imported(pwned: Path) -> None:
    Path("stack.toml").unlink()
    plant_modules(pwned)
    done = run(*ENDS, "--jobs", "2", "-q", "--", "sh", "check.sh")
    assert done.returncode == 0, done.stderr
    assert not pwned.exists(), pwned.read_text()


def test_no_interpreter_that_is_described_imports_a_module_of_the_checkout(pwned: Path) -> None:
    text = Path("stack.toml").read_text()
    Path("stack.toml").write_text("".join(line for line in text.splitlines(True) if "python" not in line))
    plant_modules(pwned)
    assert run("doctor", "--stack", "stack.toml", "--case", "case.py").returncode == 0
    assert pwned.read_text() == ""


def test_no_worker_imports_a_module_of_the_folder_of_a_submission(pwned: Path, home: Home) -> None:
    Path("stack.toml").unlink()
    plant_modules(pwned)
    submitted = run("submit", *ENDS, "--json", "--", "sh", "check.sh")
    assert submitted.returncode == 0, submitted.stderr
    worker = subprocess.Popen(["bisect-precision", "worker"], stderr=subprocess.PIPE, text=True)
    try:
        assert worker.stderr is not None
        ended = next(line for line in worker.stderr if "submission 1 ended" in line)
    finally:
        worker.terminate()
        worker.communicate()
    assert "exit code 0" in ended
    assert not pwned.exists(), pwned.read_text()
