"""What a run leaves behind, or does to git's index, reaches no later run: the planted commit is named."""

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.runner.workspace.home import Home
from tests.conftest import TestRepository
from tests.support.program import run_program

CHECK = "grep -q ok data.txt || { echo wrong sum; exit 1; }\n"


def plant(
    repository: TestRepository, innocent: dict[str, str], culprit: dict[str, str], **first: str
) -> None:
    """Commit ten changes, of which the fourth is `innocent` and the eighth is the culprit."""
    repository.commit("first", {"data.txt": "ok\n", "check.sh": CHECK, **first})
    for place in range(1, 10):
        changes = {4: innocent, 8: culprit}.get(place, {"n": str(place)})
        repository.commit({4: "innocent", 8: "planted"}.get(place, f"change {place}"), changes)


def named(repository: TestRepository, home: Home, *words: str) -> str:
    """The last line of a bisection of all ten commits."""
    found = run_program(
        *("--good", "main~9", "--bad", "main", *words),
        environment={**os.environ, "PRECISION_BISECT_HOME": str(home.state.parent)},
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()[-1]


def leave_file_beside_worktree(repository: TestRepository) -> None:
    leaving = f"mkdir -p ../build\n[ ! -e ../build/db ] || {{ echo wrong sum; exit 1; }}\ntouch ../build/db\n{CHECK}"
    plant(repository, {"check.sh": leaving}, {"data.txt": "ko\n"})


def add_converted_file(repository: TestRepository) -> None:
    """The run adds a file with other line ends, which its attribute makes equal to the commit's."""
    check = textwrap.dedent(
        """\
        if grep -q "$(printf '\\r')" text || ! grep -q ok data.txt; then echo wrong sum; bad=1; fi
        [ ! -e adds ] || { sed -i 's/\\r*$/\\r/' text; git add -A; }
        exit ${bad:-0}
        """
    )
    first = {"check.sh": check, "text": "a\n", ".gitattributes": "* text=auto\n"}
    plant(repository, {"adds": "1\n"}, {"data.txt": "ko\n"}, **first)


def change_attributes_alone(repository: TestRepository) -> None:
    """The culprit changes how git writes a file, and not its content."""
    first = {"sub/text": "$Id$\n", "check.sh": "! grep 'Id: [0-9a-f]' sub/text\n"}
    plant(repository, {"m": "1"}, {"sub/.gitattributes": "text ident\n"}, **first)


@pytest.mark.parametrize(
    "planting", [leave_file_beside_worktree, add_converted_file, change_attributes_alone]
)
def test_a_command_sees_each_commit_as_it_is(
    repository: TestRepository,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    planting: Callable[[TestRepository], None],
) -> None:
    planting(repository)
    monkeypatch.chdir(repository.path)
    assert "planted" in named(repository, home, "--", "sh", "check.sh")


STACK = """\
name = "leftovers"
searched = "tool"
repositories.tool.path = "{path}"
platforms.host = {{}}
[steps.build]
command = ["sh", "-c", "mkdir -p built; cp source built/source"]
cwd = "{{tool}}"
inputs = ["tool:source"]
outputs = ["tool/built"]
[case]
repository = "tool"
command = {command}
cwd = "{{tool}}"
harness = false
[[verdicts]]
verdict = "pass"
pattern = '^PASSED$'
[[verdicts]]
verdict = "mismatch"
pattern = '^FAILED$'
"""
LEAVES_OUTPUT = """\
[ ! -e built/db ] || { echo FAILED; exit 1; }
[ ! -e leaves ] || touch built/db
grep -q ok data.txt || { echo FAILED; exit 1; }
echo PASSED
"""
CHANGES_OUTPUT = """\
[ "$(cat built/source)" = 1 ] || { echo FAILED; exit 1; }
[ ! -e leaves ] || echo 2 > built/source
grep -q ok data.txt || { echo FAILED; exit 1; }
echo PASSED
"""
LEAVES_PACKAGE = """\
import pathlib, sysconfig
left = pathlib.Path(sysconfig.get_paths()["purelib"], "left.py")
bad = left.exists() or "ok" not in pathlib.Path("data.txt").read_text()
if pathlib.Path("leaves").exists():
    left.write_text("")
print("FAILED" if bad else "PASSED")
raise SystemExit(bad)
"""


@pytest.mark.parametrize(
    ("case", "command"),
    [
        (LEAVES_OUTPUT, '["sh", "{case}"]'),
        (CHANGES_OUTPUT, '["sh", "{case}"]'),
        (LEAVES_PACKAGE, '["{python}", "{case}"]'),
    ],
    ids=["new file in an output", "changed output", "package in the environment"],
)
def test_a_case_finds_builds_and_packages_as_they_were_made(
    repository: TestRepository,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    case: str,
    command: str,
) -> None:
    plant(repository, {"leaves": "1\n"}, {"data.txt": "ko\n"}, source="1\n", case=case)
    stack = tmp_path / "stack.toml"
    stack.write_text(STACK.format(path=repository.path, command=command))
    monkeypatch.chdir(tmp_path)
    assert "planted" in named(repository, home, "--stack", str(stack), "--case", "case")
