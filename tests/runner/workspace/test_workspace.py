"""Slots on real repositories: the user's checkouts stay as they are, and whatever a kill leaves behind is mended."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.stack import Stack
from precision_bisect.runner.workspace.slot import MissingCommitError, Slot, Workspace
from tests.conftest import TestRepository
from tests.runner.small_stack import SmallStack, snapshot
from tests.support.quick import quick_first


def check_out(small: SmallStack, **chosen: str) -> tuple[Workspace, Slot]:
    workspace = small.workspace()
    slot = workspace.acquire()
    slot.check_out(small.revisions(workspace, **chosen))
    return workspace, slot


def test_a_checkout_is_never_written_to(small: SmallStack) -> None:
    """Not even where it is dirty, has stashes, other branches, linked worktrees and hooks."""
    first = small.tool.git("rev-parse", "HEAD")
    small.move_runtime("rt 2")
    small.tool.git("branch", "side", first)
    small.tool.git("worktree", "add", "--quiet", str(small.folder / "linked"), "side")
    (small.tool.path / "tool.txt").write_text("dirty")
    (small.tool.path / "untracked").write_text("x")
    hook = small.tool.path / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {small.folder}/hooked\n")
    hook.chmod(0o755)
    before = snapshot(small.folder)

    workspace, slot = check_out(small)
    assert (slot.path("rt") / "rt.txt").read_text() == "rt 2"
    slot.check_out(small.revisions(workspace, tool=first))
    assert (slot.path("rt") / "rt.txt").read_text() == "rt 1\n"
    assert (slot.path("tool") / "tool.txt").read_text() == "good 1\n"
    slot.release()
    for repository in workspace.repositories.values():
        repository.changed_files()
    assert snapshot(small.folder) == before


def test_a_git_directory_from_the_environment_is_not_followed(
    small: SmallStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook of some other repository runs the tool: git's variables point there."""
    other = TestRepository(tmp_path / "other")
    other.commit("other", {"other.txt": "x"})
    small.move_runtime("rt 2")
    revisions = small.revisions(small.workspace())
    before = snapshot(other.path)
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git" / "index"))
    workspace = small.workspace()
    slot = workspace.acquire()
    slot.check_out(revisions)
    assert (slot.path("tool") / "tool.txt").read_text() == "good 1\n"
    assert snapshot(other.path) == before


def test_the_user_s_configuration_does_not_reach_into_slots(
    small: SmallStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks for all repositories, and recursion into submodules, are for the user's own checkouts."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\nexit 1\n")
    (hooks / "post-checkout").chmod(0o755)
    configuration = tmp_path / "gitconfig"
    configuration.write_text(f"[core]\n\thooksPath = {hooks}\n[submodule]\n\trecurse = true\n\tactive = .\n")
    first = small.tool.git("rev-parse", "HEAD")
    small.move_runtime("rt 2")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    workspace, slot = check_out(small)
    slot.check_out(small.revisions(workspace, tool=first))
    assert (slot.path("rt") / "rt.txt").read_text() == "rt 1\n"
    assert not (tmp_path / "hooked").exists()


def test_the_user_s_configuration_of_the_index_and_of_bare_repositories_does_not_either(
    small: SmallStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "gitconfig"
    configuration.write_text(
        "[safe]\n\tbareRepository = explicit\n"
        "[core]\n\tsplitIndex = true\n\ttrustctime = false\n\tcheckStat = minimal\n\tignoreStat = true\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    workspace, slot = check_out(small)
    slot.record_step("step", "key")
    file = slot.path("tool") / "tool.txt"
    status = file.stat()
    file.write_text("GOOD 1\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    slot.check_out(small.revisions(workspace))
    assert file.read_text() == "good 1\n"
    assert slot.step_key("step") == "key"


def test_pathspecs_mean_the_same_whatever_a_git_around_us_has_asked_for(
    small: SmallStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as Magit, which has git take all of them literally."""
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    revisions = small.revisions(small.workspace())
    workspace = small.workspace()
    small.tool.commit("moved", {"tool.txt": "bad\n"})
    (change,) = workspace.repositories["tool"].changes(revisions["tool"], "HEAD", paths=["tool.txt"])
    assert change.path == "tool.txt"


def test_a_repository_may_be_called_as_a_file_of_slots_once_was(small: SmallStack) -> None:
    document = small.stack().model_dump()
    document["repositories"]["boot"] = document["repositories"].pop("cases")
    document["case"] |= {"repository": "boot", "cwd": "{boot}"}
    workspace = Workspace(Stack.model_validate(document), small.home)
    slot = workspace.acquire()
    revisions = small.revisions(workspace)
    slot.check_out(revisions)
    slot.record_step("step", "key")
    slot.check_out(revisions)
    assert (slot.path("boot") / "case.sh").read_text() == "echo case\n"
    assert slot.step_key("step") == "key"


def test_objects_are_borrowed(small: SmallStack) -> None:
    workspace, _ = check_out(small)
    for name, clone in workspace.clones.items():
        alternates = (clone.path / "objects" / "info" / "alternates").read_text().strip()
        assert Path(alternates).samefile(workspace.repositories[name].common_directory / "objects")
        assert clone.run("count-objects").startswith("0 objects")


def test_a_repository_with_sha_256_ids(small: SmallStack, tmp_path: Path) -> None:
    path = small.folder / "cases"
    path.rename(tmp_path / "aside")
    path.mkdir()
    subprocess.run(["git", "init", "--quiet", "--object-format=sha256", str(path)], check=True)
    small.cases.commit("cases", {"case.sh": "x"})
    _, slot = check_out(small)
    assert (slot.path("cases") / "case.sh").read_text() == "x"


def test_a_half_made_clone_is_made_again(small: SmallStack) -> None:
    workspace, slot = check_out(small)
    slot.release()
    for clone in workspace.clones.values():
        (clone.path / "objects" / "info" / "alternates").unlink()
    _, slot = check_out(small)
    assert (slot.path("rt") / "rt.txt").is_file()


def test_submodules_are_worktrees_inside_of_worktrees(small: SmallStack) -> None:
    _, slot = check_out(small)
    assert slot.path("rt") == slot.path("tool") / "rt"
    for name in ("tool", "rt"):
        common = subprocess.run(
            ["git", "-C", str(slot.path(name)), "rev-parse", "--git-common-dir"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        assert Path(common).samefile(slot.directory / f"{name}.git")


def test_what_a_run_names_in_its_repository_is_seen_by_no_other(small: SmallStack, tmp_path: Path) -> None:
    """Tags, branches, stashes, settings, hooks, worktrees and a bisection: by a later run here, or one in another
    slot."""
    workspace, slot = check_out(small)
    other = workspace.acquire()
    other.check_out(small.revisions(workspace))

    def named(at: Slot) -> str:
        asked = ("for-each-ref", "worktree list", "config --list --local", "bisect log")
        return "".join(git(at, *words.split(), check=False) for words in asked)

    def git(at: Slot, *words: str, check: bool = True) -> str:
        command = ["git", "-C", str(at.path("tool")), *words]
        return subprocess.run(command, check=check, capture_output=True, text=True).stdout

    before, beside = named(slot), named(other)
    commit = git(slot, "rev-parse", "HEAD")
    git(slot, "checkout", "--quiet", "-b", "branch")
    git(slot, "tag", "seen")
    (slot.path("tool") / "tool.txt").write_text("changed")
    git(slot, "stash")
    git(slot, "config", "leak.x", "1")
    git(slot, "worktree", "add", "--quiet", str(tmp_path / "linked"), "seen")
    git(slot, "bisect", "start")
    (slot.directory / "tool.git" / "hooks").mkdir()
    assert "refs/tags/seen" in named(slot)
    assert named(other) == beside
    slot.check_out(small.revisions(workspace))
    assert named(slot) == before
    assert not (slot.directory / "tool.git" / "hooks").exists()
    assert git(slot, "rev-parse", "HEAD") == commit
    assert git(slot, "status", "--porcelain") == ""


def test_a_commit_that_is_not_on_this_machine_is_fetched(small: SmallStack) -> None:
    """The submodule's commit is at its remote only; its checkout does not get it."""
    sha = small.rt.commit("only there", {"rt.txt": "remote"})
    before = snapshot(small.tool.path)
    workspace, slot = check_out(small)
    workspace.ensure_commit("rt", sha)
    slot.check_out(small.revisions(workspace, rt=sha))
    assert (slot.path("rt") / "rt.txt").read_text() == "remote"
    assert snapshot(small.tool.path) == before


def test_a_commit_that_cannot_be_had(small: SmallStack) -> None:
    workspace = small.workspace()
    with pytest.raises(MissingCommitError, match="fetch it there first") as first:
        workspace.ensure_commit("rt", "1" * 40)
    small.rt.path.rename(small.folder / "gone")
    with pytest.raises(MissingCommitError) as second:
        workspace.ensure_commit("rt", "1" * 40)
    assert str(second.value) == str(first.value), "asked for once"
    with pytest.raises(MissingCommitError, match="no remote named origin"):
        workspace.ensure_commit("cases", "1" * 40)


def test_a_submodule_that_was_never_initialized_is_not_taken_for_its_holder(
    small: SmallStack, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(small.tool.path), str(clone)], check=True)
    small.repositories = {"tool": {"path": clone}, "rt": {"path": clone / "rt"}}
    with pytest.raises(UserError, match="submodule update --init"):
        small.workspace()


def test_a_home_that_cannot_be_written(small: SmallStack, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(UserError, match="PRECISION_BISECT_HOME"):
        check_out(small)


def spoil_lock(slot: Slot) -> None:
    for name in ("tool", "rt"):
        git_directory = (slot.path(name) / ".git").read_text().removeprefix("gitdir: ").strip()
        Path(git_directory, "index.lock").touch()
        Path(git_directory, "HEAD.lock").touch()


def spoil_index(slot: Slot) -> None:
    git_directory = (slot.path("tool") / ".git").read_text().removeprefix("gitdir: ").strip()
    Path(git_directory, "index").write_bytes(b"DIRC half")


def spoil_head(slot: Slot) -> None:
    git_directory = (slot.path("rt") / ".git").read_text().removeprefix("gitdir: ").strip()
    Path(git_directory, "HEAD").write_text("")


def spoil_files(slot: Slot) -> None:
    (slot.path("tool") / "tool.txt").unlink()
    (slot.path("rt") / "rt.txt").write_text("other")
    (slot.path("rt") / "left").write_text("x")


def spoil_half_removed(slot: Slot) -> None:
    (slot.path("tool") / ".git").unlink()


def spoil_git_file(slot: Slot) -> None:
    (slot.path("rt") / ".git").write_text("")


def spoil_own_repository(slot: Slot) -> None:
    """Some build ran `git init` in place of the worktree."""
    (slot.path("rt") / ".git").unlink()
    subprocess.run(["git", "init", "--quiet", str(slot.path("rt"))], check=True)


def spoil_empty_git_folder(slot: Slot) -> None:
    """Git would go up from here, into the holder or whatever lies around the slot."""
    for name in ("rt", "tool", "cases"):
        (slot.path(name) / ".git").unlink()
        (slot.path(name) / ".git").mkdir()


@pytest.mark.parametrize(
    "spoil",
    quick_first(
        [
            spoil_lock,
            spoil_index,
            spoil_head,
            spoil_files,
            spoil_half_removed,
            spoil_git_file,
            spoil_own_repository,
            spoil_empty_git_folder,
        ],
        3,
    ),
)
def test_a_spoiled_slot_is_mended(small: SmallStack, tmp_path: Path, spoil: Callable[[Slot], None]) -> None:
    """The slots lie inside of a repository here: a git that goes up would meet it."""
    around = TestRepository.__new__(TestRepository)
    around.path = tmp_path
    around.git("init", "--quiet")
    around.git("commit", "--quiet", "--allow-empty", "-m", "around")
    before = snapshot(tmp_path / ".git")
    workspace, slot = check_out(small)
    slot.record_step("step", "key")
    spoil(slot)
    small.move_runtime("rt 2")
    slot.check_out(small.revisions(workspace))
    for name in ("tool", "rt", "cases"):
        worktree = slot.path(name)
        status = subprocess.run(
            ["git", "-C", str(worktree), "status", "--porcelain", "--ignored"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert status.stdout == "", name
    assert (slot.path("rt") / "rt.txt").read_text() == "rt 2"
    assert snapshot(tmp_path / ".git") == before


def test_what_was_built_in_a_worktree_that_is_gone_does_not_count(small: SmallStack) -> None:
    workspace, slot = check_out(small)
    slot.record_step("step", "key")
    slot.check_out(small.revisions(workspace))
    assert slot.step_key("step") == "key"
    spoil_git_file(slot)
    slot.check_out(small.revisions(workspace))
    assert slot.step_key("step") is None


def test_a_step_that_was_cut_short_spoils_the_slot(small: SmallStack) -> None:
    """Kept caches may hold half-written files that look finished."""
    small.repositories = {"rt": {"keep": ["cache/"]}}
    workspace, slot = check_out(small)
    cache = slot.path("rt") / "cache"
    for cut_short in (False, True):
        cache.mkdir(exist_ok=True)
        (cache / "half.o").write_text("x")
        slot.record_step("other", "key")
        slot.begin_step("step")
        if not cut_short:
            slot.end_step()
        slot.check_out(small.revisions(workspace))
        assert cache.exists() is not cut_short
        assert (slot.step_key("other") is None) is cut_short
    assert (slot.path("rt") / "rt.txt").is_file()


def test_cleaning_spares_kept_paths_and_outputs(small: SmallStack) -> None:
    small.repositories = {"rt": {"keep": ["*.cache", "/deep/kept/", "!not.cache"]}}
    small.steps = {
        "a": {"command": ["true"], "inputs": ["rt"], "outputs": ["tool/rt/build", "tool/rt/odd[1]*/out"]},
        "b": {"command": ["true"], "inputs": ["tool"], "outputs": ["tool/made.txt"]},
    }
    workspace, slot = check_out(small)
    spared = [
        "tool/rt/a.cache",
        "tool/rt/sub/b.cache",
        "tool/rt/deep/kept/x",
        "tool/rt/build/x/y",
        "tool/rt/odd[1]*/out",
        "tool/made.txt",
        "outside",
    ]
    removed = [
        "tool/rt/not.cache",
        "tool/rt/deep/x",
        "tool/rt/deep/deep/kept/x",
        "tool/rt/odd1/out",
        "tool/rt/sub/build/x",
        "tool/x.pyc",
        "cases/rt/build/x",
    ]
    for name in spared + removed:
        file = slot.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    nested = slot.path("rt") / "cloned"
    kept = slot.path("rt") / "build" / "cloned"
    for clone in (nested, kept):
        subprocess.run(["git", "init", "--quiet", str(clone)], check=True)
        (clone / "x").write_text("x")
    slot.check_out(small.revisions(workspace))
    assert [name for name in spared if not (slot.directory / name).exists()] == []
    assert [name for name in removed if (slot.directory / name).exists()] == []
    assert not nested.exists(), "a repository that a build cloned"
    assert (kept / "x").exists()


def test_two_slots_at_once(small: SmallStack) -> None:
    first = small.tool.git("rev-parse", "HEAD")
    small.move_runtime("rt 2")
    workspace, one = check_out(small)
    other, two = check_out(small, tool=first)
    assert (one.index, two.index) == (0, 1)
    assert (one.path("rt") / "rt.txt").read_text() == "rt 2"
    assert (two.path("rt") / "rt.txt").read_text() == "rt 1\n"
    one.release()
    again = workspace.acquire()
    assert again.index == 0
    two.release()
    assert other.acquire().index == 1


HOLD = """
import sys
from pathlib import Path
from precision_bisect.runner.process.run import Command, execute
from precision_bisect.runner.workspace.home import ProcessLock
lock = ProcessLock(Path(sys.argv[1]))
assert lock.acquire(blocking=True)
command = ["sh", "-c", "trap '' TERM; echo held; exec sleep 600"]
execute(Command(argv=command, cwd=Path("."), environment={"PATH": "/usr/bin:/bin"}, timeout=600, locks=(lock,)),
        log=Path(sys.argv[2]), on_line=lambda _, line: print(line, flush=True))
"""


def test_a_killed_holder_frees_its_slot(
    small: SmallStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But only when its command is gone: the next one waits for that, and gets the very same slot."""
    workspace = small.workspace()
    slot = workspace.acquire()
    file = slot.directory / "slot.lock"
    slot.release()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file), str(tmp_path / "log.gz")], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    other = workspace.acquire()
    assert other.index == 1
    other.release()
    watchers = [each for each in psutil.Process(holder.pid).children(recursive=True) if each.children()]
    for watcher in watchers:
        watcher.suspend()
    holder.kill()
    holder.wait()
    looks: list[float] = []

    def look_again(seconds: float) -> None:
        looks.append(seconds)
        for watcher in watchers:
            with contextlib.suppress(psutil.NoSuchProcess):
                watcher.resume()
        threading.Event().wait(seconds)

    monkeypatch.setattr("precision_bisect.runner.workspace.home.time.sleep", look_again)
    assert workspace.acquire().index == 0
    assert looks
    gone, _ = psutil.wait_procs(watchers, timeout=60)
    assert len(gone) == len(watchers) == 3
