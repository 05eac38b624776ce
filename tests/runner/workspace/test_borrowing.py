"""Repositories that borrow their objects: a slot's own is before each run as it was made."""

from pathlib import Path

from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.workspace.slot import ensure_private_clone, reset_slot_repository
from tests.conftest import TestRepository


def test_a_slot_s_repository_sees_all_commits_and_nothing_by_name(
    repository: TestRepository, tmp_path: Path
) -> None:
    """Also of a shallow clone, and where it was half made, or spoiled."""
    first, second = (repository.commit(text, {"a": text}) for text in ("1", "2"))
    repository.git("tag", "released")
    (repository.path / ".git" / "shallow").write_text(f"{second}\n")
    clone = ensure_private_clone(tmp_path / "clones", GitRepository(repository.path), submodules=False)
    slot = tmp_path / "slot"
    slot.mkdir()
    for spoil in ("config", "HEAD", "objects/info/alternates", None):
        own = reset_slot_repository(slot / "tool.git", clone)
        assert own.has_commit(first)
        assert own.shallow_commits == {second}
        assert own.run("for-each-ref") == ""
        own.run("config", "user.name", "somebody")
        own.run("update-ref", "refs/tags/seen", second)
        if spoil is not None:
            (slot / "tool.git" / spoil).unlink()
    again = reset_slot_repository(slot / "tool.git", clone)
    assert "somebody" not in again.run("config", "--list", "--local")
    assert again.run("config", "core.hooksPath") == "/dev/null"
