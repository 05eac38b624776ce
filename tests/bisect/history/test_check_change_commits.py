"""Commits of a private clone that are others but for what the case measures with."""

from pathlib import PurePosixPath

import pytest

from precision_bisect.bisect.history.loader import find_check_change
from precision_bisect.runner.git import GitRepository
from tests.runner.small_stack import SmallStack

PATH = PurePosixPath("case.py")


@pytest.fixture
def clone(small: SmallStack) -> GitRepository:
    return small.workspace().clones["tool"]


def test_each_commit_gets_the_other_s_yardstick_and_keeps_the_rest(
    small: SmallStack, clone: GitRepository
) -> None:
    old = small.tool.commit("old", {"case.py": "run(1, rtol=1e-3)\n", "other": "old"})
    new = small.tool.commit("new", {"case.py": "run(2, rtol=1e-5)\n", "other": "new"})
    moved = find_check_change(clone, PATH, ["rtol"], old=old, new=new)
    assert moved is not None
    assert moved.changes == ("rtol 1e-3 became 1e-5 in case.py:1",)
    for sha, like, text in (
        (moved.new_with_old, new, "run(2, rtol=1e-3)\n"),
        (moved.old_with_new, old, "run(1, rtol=1e-5)\n"),
    ):
        assert clone.read_text(sha, "case.py") == text
        differ = [change.path for change in clone.commit(sha).changes]
        assert (clone.commit(sha).parents, differ) == ((like,), ["case.py"])
        assert sha in clone.run("for-each-ref", "--format=%(objectname)", "refs/yardsticks")
    assert not (clone.path / "worktrees").exists() or not list((clone.path / "worktrees").iterdir())
    assert small.tool.git("for-each-ref", "refs/yardsticks") == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("run(rtol=1e-3)\n", "run(rtol=1e-3)\n"),
        ("run(rtol=1e-3)\n", None),
        ("run(1, rtol=1e-3)\n", "run(2, rtol=1e-3)\n"),
    ],
    ids=["same", "gone", "other change"],
)
def test_where_the_yardstick_stays_there_is_no_exchange(
    small: SmallStack, clone: GitRepository, old: str, new: str | None
) -> None:
    first = small.tool.commit("old", {"case.py": old})
    second = small.tool.commit("new", {"case.py": new})
    assert find_check_change(clone, PATH, ["rtol"], old=first, new=second) is None
