"""What commits say of pins, one by one and a history at once; and pin files with pins held."""

from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.pins import PinReader
from precision_bisect.runner.stack import Stack
from tests.conftest import TestRepository

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ANOTHER = COMMIT[::-1]


@pytest.fixture(name="reader")
def make_reader(repository: TestRepository) -> Callable[[], PinReader]:
    stack = Stack.model_validate(
        {
            "name": "small",
            "searched": "tool",
            "repositories": {
                "tool": {"path": repository.path},
                "isa": {"path": Path("isa")},
                "assembler": {
                    "releases": {"versions": ["v1", "v2"], "commits": {"v1": COMMIT, "v2": ANOTHER}}
                },
            },
            "pins": {
                "isa": {
                    "kind": "commit-file",
                    "holder": "tool",
                    "path": "isa.pin",
                    "earlier": {"path": "ci/jobs.yml", "key": "ISA_COMMIT"},
                    "target": "isa",
                },
                "tools": {"kind": "version-file", "holder": "tool", "path": "env.sh", "key": "TOOLS"},
                "assembler": {
                    "kind": "version-file",
                    "holder": "tool",
                    "path": "assembler.env",
                    "key": "ASSEMBLER",
                    "earlier": {"path": "ci/jobs.yml", "key": "ASSEMBLER_VERSION"},
                    "target": "assembler",
                },
            },
            "case": {"repository": "tool", "command": ["true"], "cwd": "{tool}", "harness": False},
            "platforms": {"sim": {}},
        }
    )
    return lambda: PinReader(stack, {"tool": GitRepository(repository.path)})


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("TOOLS=v1\n", "v1"),
        ("export TOOLS='v 2' # old: TOOLS=v1\n", "v 2"),
        ("TOOLS=v1\nTOOLS=v3\n", "v3"),
        ("# TOOLS=v1\n", None),
        ("TOOLS=\n", None),
        ("MORETOOLS=v1\n", None),
    ],
)
def test_a_version_is_read_as_a_shell_reads_it(
    repository: TestRepository, reader: Callable[[], PinReader], text: str, version: str | None
) -> None:
    assert reader().value("tools", repository.commit("pin", {"env.sh": text})) == version


@pytest.mark.parametrize(("text", "value"), [(f"{COMMIT}\n", COMMIT), ("main\n", None), (None, None)])
def test_a_commit_file_holds_a_full_id_and_nothing_else(
    repository: TestRepository, reader: Callable[[], PinReader], text: str | None, value: str | None
) -> None:
    sha = repository.commit("pin", {"isa.pin": text, "other": "x"} if text else {"other": "x"})
    assert reader().value("isa", sha) == value


@pytest.mark.parametrize("line", [f"  ISA_COMMIT: {COMMIT}", f"ISA_COMMIT='{COMMIT}' # newer"])
def test_a_commit_without_the_file_names_it_where_it_once_stood(
    repository: TestRepository, reader: Callable[[], PinReader], line: str
) -> None:
    jobs = f"env:\n  OTHER: 1\n  MY_ISA_COMMIT: {ANOTHER}\n{line}\n"
    first = repository.commit("a literal", {"ci/jobs.yml": jobs})
    assert reader().value("isa", first) == COMMIT
    held = {"tool": first, "isa": ANOTHER}
    assert reader().changed_pin_files(held) == {("tool", "ci/jobs.yml"): jobs.replace(COMMIT, ANOTHER)}
    assert reader().changed_pin_files({"tool": first, "isa": COMMIT}) == {}
    second = repository.commit("a file", {"isa.pin": f"{ANOTHER}\n"})
    assert reader().value("isa", second) == ANOTHER
    assert reader().changed_pin_files({"tool": second, "isa": COMMIT}) == {("tool", "isa.pin"): f"{COMMIT}\n"}
    third = repository.commit("an empty file", {"isa.pin": "\n"})
    assert reader().value("isa", third) is None


def test_a_history_learnt_at_once_says_what_each_commit_says(
    repository: TestRepository, reader: Callable[[], PinReader]
) -> None:
    first = repository.commit("first", {"ci/jobs.yml": f"ISA_COMMIT: {COMMIT}\n", "env.sh": "TOOLS=v1\n"})
    repository.commit("moved", {"isa.pin": f"{ANOTHER}\n"})
    repository.commit("unrelated", {"other": "x"})
    last = repository.commit("gone", {"isa.pin": None, "ci/jobs.yml": None, "env.sh": "TOOLS=v2\n"})
    history = GitRepository(repository.path).commits(good=first, bad=last)
    learnt = reader()
    learnt.learn("tool", history)
    for commit in history:
        alone = reader()
        for name in ("isa", "tools"):
            assert learnt.value(name, commit.sha) == alone.value(name, commit.sha)
    assert [learnt.value("isa", commit.sha) for commit in history] == [ANOTHER, ANOTHER, None]


def test_a_held_pin_replaces_the_value_and_no_other_text(
    repository: TestRepository, reader: Callable[[], PinReader]
) -> None:
    files = {"isa.pin": f"{COMMIT}\n", "env.sh": "A=1\nTOOLS='v1'  # now\n"}
    sha = repository.commit("pin", files)
    held = {"tool": sha, "isa": ANOTHER, "tools": "v9"}
    assert reader().changed_pin_files(held) == {
        ("tool", "isa.pin"): f"{ANOTHER}\n",
        ("tool", "env.sh"): "A=1\nTOOLS='v9'  # now\n",
    }
    assert reader().changed_pin_files({"tool": sha, "isa": COMMIT, "tools": "v1"}) == {}
    assert reader().changed_pin_files({"tool": sha}) == {}


def test_a_commit_that_does_not_pin_stays_unpinned(
    repository: TestRepository, reader: Callable[[], PinReader]
) -> None:
    sha = repository.commit("no pins", {"other": "x"})
    assert reader().changed_pin_files({"tool": sha, "isa": COMMIT, "tools": "v1"}) == {}
    assert reader().pin_file_text("tool", "env.sh", {"tool": sha, "tools": "v1"}) is None


@pytest.mark.parametrize(
    ("file", "line"),
    [("assembler.env", "ASSEMBLER={}"), ("ci/jobs.yml", "  ASSEMBLER_VERSION: '{}' # the assembler's")],
)
def test_a_version_is_the_commit_that_stands_for_its_release(
    repository: TestRepository, reader: Callable[[], PinReader], file: str, line: str
) -> None:
    text = f"env:\n{line}\nOTHER=v1\n"
    sha = repository.commit("pin", {file: text.format("v1")})
    assert (reader().value("assembler", sha), reader().display_value("assembler", sha)) == (COMMIT, "v1")
    assert reader().changed_pin_files({"tool": sha, "assembler": COMMIT}) == {}
    assert reader().changed_pin_files({"tool": sha, "assembler": ANOTHER}) == {
        ("tool", file): text.format("v2")
    }
    unknown = repository.commit("a release that is not there", {file: text.format("v3")})
    assert (reader().value("assembler", unknown), reader().display_value("assembler", unknown)) == (
        None,
        "v3",
    )


def test_where_a_version_file_is_there_what_earlier_commits_had_does_not_count(
    repository: TestRepository, reader: Callable[[], PinReader]
) -> None:
    files = {"assembler.env": "ASSEMBLER=v1\n", "ci/jobs.yml": "ASSEMBLER_VERSION: v2\n"}
    sha = repository.commit("both", files)
    assert reader().value("assembler", sha) == COMMIT
    assert reader().changed_pin_files({"tool": sha, "assembler": ANOTHER}) == {
        ("tool", "assembler.env"): "ASSEMBLER=v2\n"
    }
