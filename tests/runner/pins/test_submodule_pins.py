"""Submodules become pins of a stack that builds nothing, as far as the checkout has their history."""

from pathlib import Path

import pytest

from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.pins import (
    NoPinError,
    Revisions,
    add_submodule_pins,
    moved_submodules,
    pinned_submodules,
)
from precision_bisect.runner.stack import Stack
from precision_bisect.runner.workspace.home import Home
from precision_bisect.runner.workspace.slot import Workspace
from tests.runner.workspace.small_submodules import Submodules, files_in
from tests.runner.workspace.test_submodules import workspace_of


def pinned(workspace: Workspace, commits: list[str]) -> tuple[Stack, list[str]]:
    found = pinned_submodules(workspace.repositories["tool"], commits)
    return add_submodule_pins(workspace.stack, "tool", found, workspace.clones["tool"])


def test_each_commit_has_what_a_fresh_clone_has(tmp_path: Path, home: Home) -> None:
    """Also commits without the submodule, with another one, or with a file in its place; and none is asked for by a
    name that no repository may have."""
    made = Submodules(tmp_path)
    made.add("venv")
    made.move_deep("venv", "newer")
    made.checkout.git("mv", "venv", "moved")
    made.commit("rename")
    made.checkout.git("rm", "--quiet", "-f", "moved")
    made.commit("a file in its place", {"moved": "a file\n"})
    made.add("a folder/lib 2")
    stack, told = pinned(workspace_of(made.checkout.path, home), made.commits)
    inner = {"venv_-deep", "moved-deep", "a-folder-lib-2-deep"}
    assert stack.pins.keys() == {"venv_", "moved", "a-folder-lib-2"} | inner
    assert not told
    workspace = Workspace(Stack.model_validate_json(stack.model_dump_json()), home)
    slot = workspace.acquire()
    truth = {sha: made.as_cloned(sha, tmp_path / "clones" / sha) for sha in made.commits}
    for sha in (*made.commits, *made.commits[::-2]):
        slot.check_out(Revisions(stack, workspace.clones, {}).complete({"tool": sha}))
        assert files_in(slot.path("tool")) == truth[sha]


def test_a_case_that_updates_submodules_leaves_them_where_they_are_held(tmp_path: Path, home: Home) -> None:
    made = Submodules(tmp_path)
    made.add("lib")
    old = made.lib.git("rev-parse", "HEAD")
    made.move_deep("lib", "newer")
    stack, _ = pinned(workspace_of(made.checkout.path, home), made.commits)
    workspace = Workspace(stack, home)
    slot = workspace.acquire()
    slot.check_out(Revisions(stack, workspace.clones, {}).complete({"tool": made.commits[-1], "lib": old}))
    GitRepository(slot.path("tool")).run("submodule", "--quiet", "update", "--init", "--recursive")
    assert GitRepository(slot.path("lib")).run("rev-parse", "HEAD") == old
    assert (slot.path("lib-deep") / "state").read_text() == "fine\n"


def test_a_shallow_one_is_no_pin_and_what_to_do_is_said(tmp_path: Path, home: Home) -> None:
    made = Submodules(tmp_path)
    made.add("lib")
    made.move_deep("lib", "newer")
    place = made.checkout.path / "lib"
    boundary = GitRepository(place).common_directory / "shallow"
    boundary.write_text(made.lib.git("rev-parse", "HEAD") + "\n")
    stack, (told,) = pinned(workspace_of(made.checkout.path, home), made.commits)
    assert not stack.pins
    assert told == (
        f"{place} is a shallow clone: a commit that moves it is not followed into it; run: git -C {place} "
        "fetch --unshallow"
    )


def test_only_those_that_move_are_looked_for(tmp_path: Path) -> None:
    made = Submodules(tmp_path)
    made.add("lib")
    made.add("still")
    old = made.lib.git("rev-parse", "HEAD")
    made.move_deep("lib", "newer")
    commits = GitRepository(made.checkout.path).commits(good=made.commits[0], bad=made.commits[-1])
    assert moved_submodules(commits) == {"lib": {old, made.lib.git("rev-parse", "HEAD")}}


def test_a_commit_that_the_checkout_lacks_cannot_be_had_rather_than_be_run_without_it(
    tmp_path: Path, home: Home
) -> None:
    made = Submodules(tmp_path)
    made.add("lib")
    stack, _ = pinned(workspace_of(made.checkout.path, home), made.commits)
    made.checkout.git("update-index", "--cacheinfo", f"160000,{'ab' * 20},lib")
    made.checkout.git("commit", "--quiet", "--message", "a pin of nothing")
    revisions = Revisions(stack, Workspace(stack, home).clones, {})
    with pytest.raises(
        NoPinError, match=f"lib: expected commit {'ab' * 20}, which says what deep is pinned at"
    ):
        revisions.complete({"tool": made.checkout.git("rev-parse", "HEAD")})
