"""Submodules that no pin names are filled from what the checkout holds of them."""

from pathlib import Path

import pytest

from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.pins import MissingSubmoduleError, is_initialized, list_submodules, module_stores
from precision_bisect.runner.stack import Case, Platform, Repository, Stack
from precision_bisect.runner.workspace.home import Home
from precision_bisect.runner.workspace.slot import Workspace, Worktree
from tests.runner.workspace.small_submodules import Submodules, files_in


def workspace_of(path: Path, home: Home, *, submodules: bool = True) -> Workspace:
    stack = Stack(
        name="plain",
        searched="tool",
        repositories={"tool": Repository(path=path, submodules=submodules)},
        case=Case(repository="tool", command=("true",), cwd="{tool}", harness=False),
        platforms={"host": Platform()},
    )
    return Workspace(stack, home)


@pytest.fixture
def made(tmp_path: Path) -> Submodules:
    """A submodule is added, moves, is renamed, and goes; a file takes its place; it comes back elsewhere."""
    made = Submodules(tmp_path)
    made.add("lib")
    made.move_deep("lib", "newer")
    made.checkout.git("mv", "lib", "moved")
    made.commit("rename")
    made.move_deep("moved", "newest")
    made.checkout.git("rm", "--quiet", "-f", "moved")
    made.commit("a file in its place", {"moved": "a file\n"})
    made.commit("nothing", {"moved": None})
    made.add("a folder/lib 2")
    return made


def test_each_commit_has_what_a_fresh_clone_has(made: Submodules, home: Home, tmp_path: Path) -> None:
    slot = workspace_of(made.checkout.path, home).acquire()
    before = files_in(made.checkout.path)
    truth = {sha: made.as_cloned(sha, tmp_path / "clones" / sha) for sha in made.commits}
    assert len({str(files) for files in truth.values()}) == len(made.commits)
    assert truth[made.commits[4]]["moved/deep/state"] == "newest\n"
    for sha in (*made.commits, *reversed(made.commits), *made.commits[::2]):
        slot.check_out({"tool": sha})
        assert files_in(slot.path("tool")) == truth[sha]
        (slot.path("tool") / "left").write_text("by a run")
        for state in slot.path("tool").rglob("state"):
            state.write_text("spoiled by a run")
            (state.parent / "left").write_text("by a run")
    assert files_in(made.checkout.path) == before
    assert made.checkout.git("status", "--porcelain") == ""


def test_without_being_asked_for_they_stay_empty(made: Submodules, home: Home) -> None:
    slot = workspace_of(made.checkout.path, home, submodules=False).acquire()
    slot.check_out({"tool": made.commits[4]})
    assert files_in(slot.path("tool")).keys() == {".gitmodules", "number"}


def test_what_the_checkout_never_had_stays_empty(made: Submodules, home: Home, tmp_path: Path) -> None:
    """And what it had, but not at that commit, stops the commit alone; it is there as soon as the checkout has it."""
    plain = tmp_path / "plain"
    made.checkout.git("clone", "--quiet", str(made.checkout.path), str(plain))
    slot = workspace_of(plain, home).acquire()
    slot.check_out({"tool": made.commits[4]})
    assert files_in(slot.path("tool")).keys() == {".gitmodules", "number"}
    made.checkout.git("update-index", "--add", "--cacheinfo", f"160000,{'ab' * 20},a folder/lib 2")
    made.checkout.git("commit", "--quiet", "--message", "a pin of nothing")
    unknown = made.checkout.git("rev-parse", "HEAD")
    slot = workspace_of(made.checkout.path, home).acquire()
    with pytest.raises(
        MissingSubmoduleError, match="a folder/lib 2 is pinned at abababababab, which is not in"
    ):
        slot.check_out({"tool": unknown})
    slot.check_out({"tool": made.commits[-1]})
    assert (slot.path("tool") / "a folder/lib 2/deep/state").read_text() == "newest\n"


def test_a_repository_that_was_added_as_it_lay_there(home: Home, tmp_path: Path) -> None:
    """Its objects are in the checkout's folder, not in its git directory."""
    made = Submodules(tmp_path)
    made.lib.git("clone", "--quiet", str(made.lib.path), str(made.checkout.path / "own"))
    made.checkout.git("-c", "advice.addEmbeddedRepo=false", "add", "own")
    made.commit("as it lay there")
    workspace = workspace_of(made.checkout.path, home)
    (own,) = [
        each for each in list_submodules(workspace.clones["tool"], made.commits[-1]) if each.path == "own"
    ]
    checkout = GitRepository(made.checkout.path)
    assert (own.name, own.is_here, is_initialized(checkout, own)) == (None, True, True)
    assert module_stores(checkout) == [made.checkout.path / "own/.git"]
    slot = workspace.acquire()
    slot.check_out({"tool": made.commits[-1]})
    assert (slot.path("tool") / "own/state").read_text() == "fine\n"


def test_a_worktree_that_was_spoiled_is_made_anew(made: Submodules, home: Home, tmp_path: Path) -> None:
    clone = workspace_of(made.checkout.path, home).clones["tool"]
    worktree = Worktree(tmp_path / "tree", clone)
    for spoil in (".git", "number"):
        worktree.restore(made.commits[0])
        assert worktree.exists()
        (worktree.path / spoil).unlink()
    (worktree.path / ".git").write_text("gitdir: nowhere\n")
    assert not worktree.exists()
    worktree.restore(made.commits[0])
    assert files_in(worktree.path) == {"number": "0\n"}
