"""Files laid over every commit: what is read of them, what a slot then holds, and which commits are told apart."""

from pathlib import Path

import pytest

from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.overlays import (
    OverlayReader,
    covered_files,
    overlay_notices,
    read_effective_text,
)
from precision_bisect.runner.stack import Stack
from precision_bisect.runner.workspace.content import StackContent
from precision_bisect.runner.workspace.slot import Slot, Workspace
from tests.runner.small_stack import SmallStack, snapshot
from tests.support.quick import quick_first


def laid_over(small: SmallStack, *texts: str, here: Path | None = None) -> Stack:
    workspace = small.workspace()
    reader = OverlayReader(
        workspace.stack, workspace.repositories, workspace.clones, here or small.cases.path, "tool"
    )
    return reader.apply_overlays(texts)


def checked_out(small: SmallStack, stack: Stack, **chosen: str) -> Slot:
    """A slot that was checked out under a stack, and is free again."""
    workspace = Workspace(stack, small.home)
    slot = workspace.acquire()
    slot.check_out(small.revisions(workspace, **chosen))
    slot.release()
    return slot


def content(small: SmallStack, stack: Stack, **chosen: str) -> str:
    workspace = Workspace(stack, small.home)
    return StackContent(stack, workspace).revisions_key(small.revisions(workspace, **chosen))


def test_a_file_of_the_disk_lies_over_every_commit_and_goes_with_the_overlay(small: SmallStack) -> None:
    (small.cases.path / "case.sh").write_text("echo new\n")
    (small.cases.path / "kernels" / "sub").mkdir(parents=True)
    (small.cases.path / "kernels" / "sub" / "k.cpp").write_text("k")
    (small.cases.path / "kernels" / "link").symlink_to("sub/k.cpp")
    (small.cases.path / "kernels" / "k.o").write_text("built")
    (small.cases.path / ".git" / "info" / "exclude").write_text("*.o\n")
    before = snapshot(small.folder)
    stack = laid_over(small, "case.sh", "kernels")
    assert snapshot(small.folder) == before, "the checkout is only read"

    cases = checked_out(small, stack).path("cases")
    assert (cases / "case.sh").read_text() == "echo new\n"
    assert (cases / "kernels" / "link").readlink() == Path("sub/k.cpp")
    assert (cases / "kernels" / "link").read_text() == "k"
    assert not (cases / "kernels" / "k.o").exists()
    assert [*overlay_notices(stack)] == [
        "case.sh as on disk is laid over every commit of cases",
        "kernels as on disk is laid over every commit of cases",
    ]

    cases = checked_out(small, small.stack()).path("cases")
    assert (cases / "case.sh").read_text() == "echo case\n"
    assert not (cases / "kernels").exists()


def test_files_of_a_revision_lie_among_those_of_the_commit(small: SmallStack) -> None:
    first = small.tool.commit("first", {"src/a": "a1", "src/b": "b1"})
    second = small.tool.commit("second", {"src/a": "a2", "tool.txt": "good 2\n"})
    small.tool.commit("third", {"src/a": "a3", "src/b": "b3"})
    stack = laid_over(small, f"../tool/src/a@{second}")
    tool = checked_out(small, stack, tool=first).path("tool")
    texts = [(tool / name).read_text() for name in ("src/a", "src/b", "tool.txt")]
    assert texts == ["a2", "b1", "good 1\n"]
    (overlay,) = stack.repositories["tool"].overlays
    clone = Workspace(stack, small.home).clones["tool"]
    assert [*covered_files(clone, [overlay])] == ["src/a"]
    assert read_effective_text(clone, [overlay], first, "src/a") == "a2"
    assert read_effective_text(clone, [overlay], first, "src/b") == "b1"
    assert read_effective_text(clone, [overlay], first, "src/c") is None
    assert [*overlay_notices(stack)] == [
        f"src/a of {second} ({second[:12]}) is laid over every commit of tool"
    ]


def test_what_lies_under_an_overlay_does_not_count_and_the_overlay_does(small: SmallStack) -> None:
    first = small.tool.commit("first", {"src/a": "a1", "src/b": "b1"})
    second = small.tool.commit("second", {"src/a": "a2"})
    third = small.tool.commit("third", {"src/b": "b3"})
    of_first, of_second = (laid_over(small, f"../tool/src/a@{sha}") for sha in (first, second))
    keys = [content(small, of_first, tool=sha) for sha in (first, second, third)]
    assert keys[0] == keys[1] != keys[2]
    assert content(small, of_second, tool=first) != keys[0]
    assert content(small, laid_over(small, f"../tool/src/a@{third}"), tool=first) == content(
        small, of_second, tool=first
    ), "the same file of another revision is the same overlay"
    assert content(small, small.stack(), tool=first) not in keys


def test_a_step_s_key_has_the_overlays_of_its_inputs_alone(small: SmallStack) -> None:
    sha = small.tool.commit("first", {"src/a": "a1", "lib/b": "b1"})
    (small.tool.path / "src" / "a").write_text("on disk")
    plain, over = small.stack(), laid_over(small, "../tool/src")
    revisions = small.revisions(small.workspace(), tool=sha)

    def key(stack: Stack, entry: str) -> str:
        return StackContent(stack, Workspace(stack, small.home)).input_key(revisions, entry)

    assert key(over, "tool:lib") == key(plain, "tool:lib")
    assert key(over, "rt") == key(plain, "rt")
    for entry in ("tool", "tool:src", "tool:src/a"):
        assert key(over, entry) != key(plain, entry)


@pytest.mark.parametrize(
    ("text", "says"),
    quick_first(
        [
            ("case.sh@", "expected PATH or PATH@REV"),
            ("@HEAD", "expected PATH or PATH@REV"),
            ("/etc/passwd", "inside of a checkout of the stack"),
            (".", "inside of a checkout of the stack"),
            ("no-such", "expected a file, or a folder with files, found none at no-such"),
            ("no-such@HEAD", "expected a file, or a folder with files, found none at no-such"),
            ("case.sh@no-such", "--overlay case.sh@no-such"),
            ("../tool/rt@HEAD", "files that pin nothing, found rt"),
        ],
        3,
    ),
)
def test_what_cannot_be_laid_over_is_refused(small: SmallStack, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        laid_over(small, text)


def test_the_innermost_repository_has_the_file(small: SmallStack) -> None:
    stack = laid_over(small, "rt/rt.txt", here=small.tool.path)
    assert [over.path for over in stack.repositories["rt"].overlays] == ["rt.txt"]
    assert stack.repositories["tool"].overlays == ()
