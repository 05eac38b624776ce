"""The commits of all repositories that belong to one, followed through real submodule pins."""

import random

import pytest

from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.pins import NoPinError, Revisions, fixed_revisions
from precision_bisect.runner.renames import renames_name
from precision_bisect.runner.stack import Releases, Repository, Stack, VersionFilePin
from precision_bisect.runner.workspace.slot import Workspace
from tests.runner.small_stack import SmallStack


def test_a_submodule_follows_its_holder(small: SmallStack) -> None:
    old = small.revisions(small.workspace())
    small.move_runtime("rt 2")
    new = small.revisions(small.workspace())
    assert old["rt"] != new["rt"] == small.rt.git("rev-parse", "HEAD")
    assert old["cases"] == new["cases"]
    chosen = small.revisions(small.workspace(), rt=old["rt"])
    assert chosen == {**new, "rt": old["rt"]}


def test_what_is_searched_or_pinned_is_not_fixed(small: SmallStack) -> None:
    workspace = small.workspace()
    stack, repositories = workspace.stack, workspace.repositories
    assert set(fixed_revisions(stack, repositories, searched="tool")) == {"cases"}
    assert set(fixed_revisions(stack, repositories, searched="rt")) == {"tool", "cases"}
    small.repositories = {"cases": {"revision": "HEAD~0"}}
    assert set(small.revisions(small.workspace())) == {"tool", "rt", "cases"}


def test_a_commit_without_the_submodule(small: SmallStack) -> None:
    small.tool.git("update-index", "--force-remove", "rt")
    small.tool.git("commit", "--quiet", "-m", "no submodule")
    without = small.tool.git("rev-parse", "HEAD")
    with pytest.raises(NoPinError, match="expected a submodule at rt"):
        small.revisions(small.workspace(), tool=without)
    rt = small.rt.git("rev-parse", "HEAD")
    assert small.revisions(small.workspace(), tool=without, rt=rt)["rt"] == rt


def test_a_commit_without_an_optional_submodule_whose_names_change(small: SmallStack) -> None:
    rename = {"repository": "rt", "commit": small.rt.git("rev-parse", "HEAD"), "old": "a", "new": "b"}
    document = small.stack().model_dump()
    document["renames"] = [rename]
    document["pins"]["rt"]["optional"] = True
    workspace = Workspace(Stack.model_validate(document), small.home)
    assert small.revisions(workspace)[renames_name("rt")] == rename["commit"]
    small.tool.git("rm", "--quiet", "-f", "rt")
    small.tool.git("commit", "--quiet", "-m", "no submodule")
    assert small.revisions(workspace).keys() == {"tool", "cases"}


def test_a_commit_whose_release_is_not_there(small: SmallStack) -> None:
    commit = small.tool.commit("a newer assembler", {"versions.env": "ASSEMBLER=v3\n"})
    stack = small.stack()
    pin = VersionFilePin(
        kind="version-file", holder="tool", path="versions.env", key="ASSEMBLER", target="assembler"
    )
    releases = Releases(versions=("v1", "v2"), commits={"v1": "1" * 40, "v2": "2" * 40})
    add_releases = Stack.model_validate(
        {
            **stack.model_dump(),
            "repositories": {**stack.repositories, "assembler": Repository(releases=releases)},
            "pins": {**stack.pins, "assembler": pin},
        }
    )
    workspace = small.workspace()
    fixed = fixed_revisions(stack, workspace.repositories, searched="tool")
    says = r"expected one of the 2 releases of assembler \(v1 to v2\) at versions.env, found v3"
    with pytest.raises(NoPinError, match=says):
        Revisions(add_releases, workspace.clones, fixed).complete({"tool": commit})


def test_pins_learned_from_a_history_are_those_of_its_trees(small: SmallStack) -> None:
    """Rolls, reverts, a removed and a returned submodule, merges: all as `git ls-tree` says."""
    rng = random.Random(5)
    runtime = [small.rt.commit(f"rt {n}", {"rt.txt": str(n)}) for n in range(4)]
    good = small.tool.git("rev-parse", "HEAD")

    def pin(value: str | None) -> None:
        if value is None:
            small.tool.git("update-index", "--force-remove", "rt")
            blob = small.tool.git("hash-object", "-w", "tool.txt")
            small.tool.git("update-index", "--add", "--cacheinfo", f"100644,{blob},rt/file")
        else:
            small.tool.git("update-index", "--force-remove", "rt/file")
            small.tool.git("update-index", "--add", "--cacheinfo", f"160000,{value},rt")
        small.tool.git("commit", "--quiet", "--allow-empty", "-m", f"pin {value}")

    for number in range(14):
        if number % 5 == 3:
            small.tool.git("checkout", "--quiet", "-f", "-b", f"side{number}", "HEAD~1")
            small.tool.git("commit", "--quiet", "--allow-empty", "-m", "side")
            small.tool.git("checkout", "--quiet", "-f", "main")
            small.tool.git("merge", "--quiet", "--no-ff", "-s", "ours", "-m", "merge", f"side{number}")
        pin(rng.choice([*runtime, None]))
    bad = small.tool.git("rev-parse", "HEAD")

    git = GitRepository(small.tool.path)
    workspace = small.workspace()
    revisions = Revisions(workspace.stack, workspace.clones, {})
    history = git.commits(good=good, bad=bad)
    revisions.learn("tool", history)
    asked: list[str] = []
    workspace.clones["tool"].tree = lambda sha, paths=(): asked.append(sha) or iter(())  # type: ignore
    seen = {commit.sha: revisions.pins.value("rt", commit.sha) for commit in history}
    assert asked == []
    assert seen == {commit.sha: git.gitlink(commit.sha, "rt") for commit in history}
    assert None in seen.values()
