"""An agent that has read the page for agents, and nothing else, answers with the culprit and quotes its evidence.

It types the page's command with the question in place of the words in capitals, and reads the answer by the page's
program.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from precision_bisect.demo.scenarios import Scenario
from tests.conftest import TestRepository
from tests.system.conftest import DemoStack

PAGE = Path(__file__).parents[2] / "skills" / "bisect-precision" / "SKILL.md"
MAX_LINES = 70


def block(language: str) -> str:
    """The one block of the page in this language."""
    (text,) = re.findall(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return text


@dataclass(frozen=True)
class Claim:
    """What the agent says in the end: the exit code, and what its program printed of each key."""

    code: int
    said: Mapping[str, list[str]]


def ask(folder: Path, environment: Mapping[str, str], **words: str) -> Claim:
    """Type the command of the page, and read the answer."""
    command = block("sh")
    for name, text in words.items():
        assert name in command
        command = command.replace(name, text)
    assert not re.search(r"\b[A-Z]{3,}\b", re.sub(r"'[^']*'", "", command.replace(words["QUESTION"], ""))), (
        command
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
    read = subprocess.run(
        [sys.executable, "-c", block("python")], cwd=folder, capture_output=True, text=True, check=False
    )
    assert read.returncode == 0, f"{read.stderr}\n{done.stderr}"
    said: dict[str, list[str]] = {}
    for line in read.stdout.splitlines():
        key, _, text = line.partition(": ")
        said.setdefault(key, []).append(text)
    return Claim(done.returncode, said)


def conclusion(claim: Claim) -> str:
    """What the page's table lets an agent say at this exit code."""
    rows = re.findall(
        r"^\| ([\d, ]+) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    (row,) = [row for row in rows if str(claim.code) in row[0].split(", ")]
    assert claim.said["outcome"][0] in row[1]
    return row[2]


def ask_stack(stack: DemoStack) -> Claim:
    question = f"--stack '{stack.directory / 'stack.toml'}' --case {stack.truth.case}"
    if stack.truth.bad_when != "mismatch":
        question += f" --bad-when {stack.truth.bad_when}"
    folder = stack.output.parent / "agent"
    folder.mkdir()
    return ask(folder, stack.environment, GOOD=stack.truth.good, BAD=stack.truth.bad, QUESTION=question)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "quoted"),
    [
        (Scenario.ROUNDING, "does not match golden"),
        (Scenario.RUNTIME_BUMP, "does not match golden"),
        (Scenario.STALL, "stall"),
    ],
    ids=str,
)
def test_an_agent_names_the_culprit_of_a_demo_stack(
    scenario: Scenario, quoted: str, make: Callable[..., DemoStack]
) -> None:
    stack = make(scenario)
    claim = ask_stack(stack)
    (planted,) = stack.truth.culprits
    (culprit,) = claim.said["culprit"]
    repository, commit, confidence, _ = culprit.split(" ", 3)
    assert (repository, commit) == (planted.repository, planted.commit)
    assert float(confidence) >= 0.99
    assert "The commit broke it." in conclusion(claim)
    assert any(quoted in line.lower() for line in claim.said["evidence"]), claim.said["evidence"]


def test_an_agent_names_nobody_where_nothing_broke(tmp_path: Path) -> None:
    repository = TestRepository(tmp_path / "tool")
    commits = [repository.commit(f"commit {place}", {"place": str(place)}) for place in range(3)]
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")}
    claim = ask(repository.path, environment, GOOD=commits[0], BAD="main", QUESTION="-- cat place")
    assert "Both ends do the same." in conclusion(claim)
    assert claim.said.keys() == {"outcome", "message"}


def test_an_agent_reads_why_nothing_was_asked(tmp_path: Path) -> None:
    repository = TestRepository(tmp_path / "tool")
    repository.commit("commit", {"state": "fine"})
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")}
    claim = ask(repository.path, environment, GOOD="main", BAD="mian", QUESTION="-- true")
    assert claim.code == 2
    assert claim.said.keys() == {"error"}
    assert claim.said["error"][0].endswith("did you mean main?")


def test_an_agent_names_the_commit_that_broke_a_script(tmp_path: Path) -> None:
    repository = TestRepository(tmp_path / "tool")
    commits = [
        repository.commit(f"commit {place}", {"state": state, "place": str(place)})
        for place, state in enumerate(["fine", "fine", "fine", "fine", "broken", "broken"])
    ]
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")}
    check = "-- sh -c 'grep fine state || { echo the state is bad; exit 1; }'"
    claim = ask(repository.path, environment, GOOD=commits[0], BAD="main", QUESTION=check)
    (culprit,) = claim.said["culprit"]
    assert culprit.split()[1] == commits[4]
    assert "The commit broke it." in conclusion(claim)
    assert "the state is bad" in claim.said["evidence"]


def test_the_page_is_one_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    assert re.match(r"---\nname: bisect-precision\ndescription: .+\n---\n", text)
