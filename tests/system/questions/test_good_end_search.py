"""Without --good, the good end is looked for."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.system.questions.test_predicate import found, run

COMMITS, BROKEN_FROM = 24, 14
CHECK = 'case "$(cat state)" in fine) exit 0;; untestable) exit 125;; *) exit 1;; esac'


def history(repository: TestRepository, *, broken_from: int = BROKEN_FROM) -> list[str]:
    """A line whose last commit changes nothing, and of which one that a gallop meets cannot be tested."""
    states = ["broken" if number >= broken_from else "fine" for number in range(COMMITS)]
    states[COMMITS - 1 - 8] = "untestable"
    return [
        repository.commit(
            f"commit {number}", {} if number in (9, COMMITS - 1) else {"state": state, "n": str(number)}
        )
        for number, state in enumerate(states)
    ]


def bisect(
    repository: TestRepository, folder: Path, *options: str, check: str = CHECK
) -> "subprocess.CompletedProcess[str]":
    return run(
        repository.path, folder / "home", "--bad", "main", "-o", str(folder / "out"), *options,
        "--", "sh", "-c", check,
    )  # fmt: skip


def runs_of(folder: Path) -> dict[str, int]:
    """How often each commit ran."""
    counts: dict[str, int] = {}
    for probe in json.loads((folder / "out" / "report.json").read_text())["probes"]:
        counts[probe["commit"]] = counts.get(probe["commit"], 0) + len(probe["runs"])
    return counts


@pytest.mark.long
def test_it_finds_both_ends(repository: TestRepository, tmp_path: Path) -> None:
    commits = history(repository)
    done = bisect(repository, tmp_path)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == commits[BROKEN_FROM]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    # 1, 2, 4 and 8 back; that one cannot be tested, so the next one; 16 back.
    assert report["good"] == commits[-1 - 16]
    assert commits[-2] not in runs_of(tmp_path)
    (rate,) = [rate for rate in report["rates"] if rate["end"] == "good"]
    assert (rate["commit"], rate["failures"]) == (report["good"], 0)
    assert "good end: " in "".join(report["notices"])
    replayed = repository.git("bisect", "replay", str(tmp_path / "out" / "bisect.log"))
    assert f"{commits[BROKEN_FROM]} is the first bad commit" in replayed


@pytest.mark.long
def test_two_workers(repository: TestRepository, tmp_path: Path) -> None:
    """The gallop goes step by step, what follows by two at once; no run is made twice."""
    commits = history(repository)
    log = tmp_path / "log"
    done = bisect(repository, tmp_path, "--jobs", "2", check=f"echo $(cat n) >> {log}; {CHECK}")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == commits[BROKEN_FROM]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["good"] == commits[-1 - 16]
    # Runs that lost their value were stopped, perhaps after they had written.
    assert sum(runs_of(tmp_path).values()) <= len(log.read_text().split())


@pytest.mark.long
def test_a_resume_repeats_nothing(repository: TestRepository, tmp_path: Path) -> None:
    """A run in the middle of the gallop stops the tool; what ran before does not run again."""
    commits = history(repository)
    log, stop = tmp_path / "log", tmp_path / "stop"
    stop.touch()
    check = f'echo $(cat n) >> {log}; if [ -e {stop} ] && [ "$(cat n)" = 14 ]; then exit 200; fi; {CHECK}'
    assert bisect(repository, tmp_path, "--crash", "stop", check=check).returncode == 1
    before = log.read_text().split()
    stop.unlink()
    done = run(repository.path, tmp_path / "home", "--resume")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == commits[BROKEN_FROM]
    assert before[-1] == "14"
    assert sum(runs_of(tmp_path).values()) == len(log.read_text().split()) - 1


@pytest.mark.long
def test_nothing_passes_back_to_the_root(repository: TestRepository, tmp_path: Path) -> None:
    commits = history(repository, broken_from=0)
    done = bisect(repository, tmp_path)
    assert done.returncode == 4
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"none back to the root {commits[0][:12]}" in line
    assert commits[0] in runs_of(tmp_path)
    assert "none back to the root" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--bad", "HEAD~23"], 4, "it is a root"),
        (["--dry-run"], 0, "looked for 1, 2, 4, ... commits before"),
    ],
    ids=str,
)
def test_words(repository: TestRepository, tmp_path: Path, options: list[str], code: int, says: str) -> None:
    history(repository)
    done = bisect(repository, tmp_path, *options)
    assert done.returncode == code
    assert says in " ".join((done.stderr + done.stdout).split())
    assert "Traceback" not in done.stderr
