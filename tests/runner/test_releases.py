"""Releases of a tool become a history, whose commits stay the same where releases are added."""

from pathlib import Path
from typing import Any

import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.releases import add_releases
from precision_bisect.runner.stack import Repository, Stack
from tests.conftest import TestRepository


@pytest.fixture
def histories(tmp_path: Path) -> Path:
    return tmp_path / "histories"


def stack(tmp_path: Path, **releases: Any) -> Stack:
    """A stack whose assembler has these releases."""
    return Stack.model_validate(
        {
            "name": "released",
            "searched": "tool",
            "repositories": {
                "tool": {"path": tmp_path / "tool"},
                "assembler": {"releases": releases},
            },
            "case": {"repository": "tool", "command": ["true"], "cwd": "{tool}", "harness": False},
            "platforms": {"sim": {}},
        }
    )


def of_assembler(made: Stack) -> Repository:
    return made.repositories["assembler"]


def commits(made: Stack) -> dict[str, str]:
    releases = of_assembler(made).releases
    assert releases is not None
    return dict(releases.commits)


def test_each_release_is_a_commit_that_follows_the_one_before_it(tmp_path: Path, histories: Path) -> None:
    made = add_releases(stack(tmp_path, versions=["v1", "v2", "v10"]), histories)
    history = GitRepository.open_root(of_assembler(made).path, name="assembler")
    assert list(commits(made)) == ["v1", "v2", "v10"]
    for version, commit in commits(made).items():
        assert history.read_text(commit, "VERSION") == f"{version}\n"
        assert history.resolve(version, option="") == commit
        assert of_assembler(made).version_of(commit) == version
    assert [commit.sha for commit in history.commits(good="v1", bad="v10")] == list(commits(made).values())[
        1:
    ]
    assert history.changed_files() == []


def test_a_release_that_is_added_leaves_the_others_as_they_were(tmp_path: Path, histories: Path) -> None:
    unpacked = tmp_path / "unpacked"
    for version in ("v0.9", "v0.10-rc1", ".cache"):
        (unpacked / version).mkdir(parents=True)
    before = add_releases(stack(tmp_path, folder=unpacked), histories)
    (unpacked / "v0.10").mkdir()
    after = add_releases(stack(tmp_path, folder=unpacked), histories)
    assert list(commits(before)) == ["v0.9", "v0.10-rc1"]
    assert list(commits(after)) == ["v0.9", "v0.10-rc1", "v0.10"]
    assert commits(after).items() > commits(before).items()
    assert of_assembler(after).path == of_assembler(before).path
    assert (of_assembler(after).path / "release").resolve() == unpacked / "v0.10"


def test_a_release_that_is_gone_takes_no_other_with_it(tmp_path: Path, histories: Path) -> None:
    unpacked = tmp_path / "unpacked"
    for version in ("v1", "v2", "v3"):
        (unpacked / version).mkdir(parents=True)
    before = add_releases(stack(tmp_path, folder=unpacked), histories)
    (unpacked / "v1").rmdir()
    after = add_releases(stack(tmp_path, folder=unpacked), histories)
    history = GitRepository.open_root(of_assembler(after).path, name="assembler")
    assert list(commits(after)) == ["v2", "v3"]
    assert [history.read_text(commit, "VERSION") for commit in commits(after).values()] == ["v2\n", "v3\n"]
    assert history.read_text(commits(before)["v1"], "VERSION") == "v1\n"


def test_tags_are_releases_with_the_commits_they_were_made_from(tmp_path: Path, histories: Path) -> None:
    source = TestRepository(tmp_path / "tool")
    first = source.commit("first", {"a": "1"})
    source.git("tag", "v1")
    second = source.commit("second", {"a": "2"})
    source.git("tag", "--annotate", "--message", "the second", "v2")
    source.git("tag", "nightly")
    made = add_releases(stack(tmp_path, tags="tool", pattern="v*"), histories)
    history = GitRepository.open_root(of_assembler(made).path, name="assembler")
    told = {version: history.read_text(commit, "SOURCE") for version, commit in commits(made).items()}
    assert told == {"v1": f"{first}\n", "v2": f"{second}\n"}


@pytest.mark.parametrize(
    ("releases", "says"),
    [
        ({"folder": "nowhere"}, "expected a folder with a folder for each release"),
        ({"command": ["false"]}, "found one that failed with 1: it printed no reason"),
        ({"command": ["no-such-program"]}, "expected a command that prints releases"),
        ({"command": ["true"]}, "expected releases, found none like * in what its command printed"),
        ({"command": ["echo", "a b"]}, "expected names of letters, digits"),
        ({"versions": ["v1", "v2", "v1"]}, "expected each release once, found v1 twice in versions"),
        ({"versions": ["v1"], "pattern": "x*"}, "found none like x* in versions"),
        ({"versions": ["v1", "v2"], "tags": "tool"}, "found none named v2"),
    ],
)
def test_releases_that_cannot_be_told_are_refused(
    tmp_path: Path, histories: Path, releases: dict[str, Any], says: str
) -> None:
    source = TestRepository(tmp_path / "tool")
    source.commit("first", {"a": "1"})
    source.git("tag", "v1")
    with pytest.raises(UserError, match=r"repositories\.assembler\.releases") as raised:
        add_releases(stack(tmp_path, **releases), histories)
    assert says in str(raised.value)
