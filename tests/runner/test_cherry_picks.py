"""Whether the change of a commit can be made on top of others, tried without a worktree."""

from pathlib import Path

import pytest

from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.overlays import find_applicable_commits
from tests.conftest import TestRepository


def test_a_change_applies_where_its_surroundings_are_alike(repository: TestRepository) -> None:
    """As `git cherry-pick` has it: elsewhere in the file others may have changed, a renamed file is found again, and
    what the change needs has to be there; what came before the change is none of it."""
    lines = [f"line {number}\n" for number in range(20)]

    def text(**other: str) -> str:
        return "".join(other.get(f"at{number}", line) for number, line in enumerate(lines))

    alike = repository.commit("first", {"a": text(), "b": "1\n"})
    far = repository.commit("far from it", {"a": text(at19="other\n")})
    near = repository.commit("in its place", {"a": text(at3="another\n")})
    moved = repository.commit("renamed", {"a": None, "c": text()})
    gone = repository.commit("gone", {"c": None})
    repository.commit("back", {"a": text(), "b": "2\n"})
    change = repository.commit("the change", {"a": text(at3="changed\n")})
    clone = GitRepository(repository.path)
    assert find_applicable_commits(clone, change, [alike, far, near, moved, gone]) == (alike, far, moved)
    assert repository.git("status", "--porcelain") == ""


def test_where_git_cannot_try_it_nobody_knows(
    repository: TestRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = repository.commit("first", {"a": "1\n"})
    change = repository.commit("second", {"a": "2\n"})
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    real = repository.git("--exec-path")
    old.write_text(
        '#!/bin/sh\ncase "$*" in *--write-tree*) echo "usage: git merge-tree" >&2; exit 129;; esac\n'
        f'exec {real}/git "$@"\n'
    )
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent), prepend=":")
    assert find_applicable_commits(GitRepository(repository.path), change, [first]) is None
