"""Pins of every kind, read from real commits."""

from collections.abc import Mapping

import pytest

from precision_bisect.bisect.ask.question import moved_pins, pin_records
from precision_bisect.runner.pins import PinReader
from precision_bisect.runner.stack import Stack
from precision_bisect.runner.workspace.slot import Workspace
from tests.conftest import TestRepository
from tests.runner.small_stack import SmallStack
from tests.support.quick import quick_first

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def with_pins(small: SmallStack, pins: Mapping[str, object]) -> Workspace:
    stack = small.stack().model_dump(mode="json")
    stack["pins"] |= pins
    return Workspace(Stack.model_validate(stack), small.home)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"{COMMIT}\n", COMMIT),
        (f"  {COMMIT}", COMMIT),
        (COMMIT[:12], None),
        (f"{COMMIT} # newer", None),
        ("", None),
        (None, None),
    ],
)
def test_a_commit_file(small: SmallStack, text: str | None, value: str | None) -> None:
    assert values(small, {"kind": "commit-file", "path": "toolchain/isa.pin"}, text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    quick_first(
        [
            ("VERSION=v0.57\n", "v0.57"),
            ("# VERSION=v0.1\nOTHER_VERSION=v0.2\nVERSION='v0.57'\n", "v0.57"),
            ('export VERSION="v 0.57"\r\n', "v 0.57"),
            ("VERSION = v0.57   # why\n", "v0.57"),
            ("VERSION=v0.56\nVERSION=v0.57\n", "v0.57"),
            ("VERSION=\nOTHER=v0.2\n", None),
            ("VERSION=''\n", None),
            ("VERSION_SHA=abc\n", None),
            ("\ufeff", None),
            (None, None),
        ],
        3,
    ),
)
def test_a_version_file(small: SmallStack, text: str | None, value: str | None) -> None:
    assert (
        values(small, {"kind": "version-file", "path": "toolchain/isa.pin", "key": "VERSION"}, text) == value
    )


def values(small: SmallStack, pin: Mapping[str, object], text: str | None) -> str | None:
    """What a pin says at the tool's HEAD, where its file holds the text."""
    if text is not None:
        file = small.tool.path / "toolchain" / "isa.pin"
        file.parent.mkdir()
        file.write_text(text, newline="")
        small.tool.commit("pin", {})
    workspace = with_pins(small, {"isa": {"holder": "tool", **pin}})
    revisions = small.revisions(workspace)
    reader = PinReader(workspace.stack, workspace.clones)
    records = pin_records(workspace.stack, reader, good=revisions, bad=revisions, frozen={})
    (record,) = [record for record in records if record.name == "isa"]
    assert record.value_good == record.value_bad
    assert record.searched
    assert record.frozen_at is None
    assert (record.holder, record.path) == ("tool", "toolchain/isa.pin")
    return record.value_good


def test_a_submodule_that_moves(small: SmallStack) -> None:
    workspace = small.workspace()
    good = small.revisions(workspace)
    small.move_runtime("rt 2")
    bad = small.revisions(workspace)
    (record,) = pin_records(
        workspace.stack, PinReader(workspace.stack, workspace.clones), good=good, bad=bad, frozen={}
    )
    assert (record.value_good, record.value_bad, record.searched) == (good["rt"], bad["rt"], True)


def test_moved_pins(small: SmallStack) -> None:
    """Among several submodules those that move, are on both sides, and may be searched."""
    others = {}
    for name in ("frozen", "added", "still"):
        others[name] = TestRepository(small.folder / f"{name}-origin")
        others[name].commit("one", {"a": "1"})
    for name in ("frozen", "still"):
        small.tool.git("submodule", "--quiet", "add", str(others[name].path), name)
    old = small.tool.commit("submodules", {})
    stack = small.stack().model_dump(mode="json")
    for name in others:
        stack["repositories"][name] = {"path": str(others[name].path)}
        stack["pins"][name] = {
            "kind": "gitlink",
            "holder": "tool",
            "path": name,
            "target": name,
            "search": name != "frozen",
        }
    workspace = Workspace(Stack.model_validate(stack), small.home)
    one = small.rt.git("rev-parse", "HEAD")
    for name in ("frozen", "added"):
        if name == "added":
            small.tool.git("submodule", "--quiet", "add", str(others[name].path), name)
        sha = others[name].commit("two", {"a": "2"})
        small.tool.git("-C", name, "fetch", "--quiet")
        small.tool.git("-C", name, "checkout", "--quiet", sha)
    new = small.move_runtime("rt 2")
    reader = PinReader(workspace.stack, workspace.clones)
    (moved,) = moved_pins(workspace.stack, reader, repository="tool", old=old, new=new)
    assert (moved.held_name, moved.old, moved.new) == ("rt", one, small.rt.git("rev-parse", "HEAD"))
    assert moved_pins(workspace.stack, reader, repository="cases", old=old, new=new) == []
    assert moved_pins(workspace.stack, reader, repository="tool", old=new, new=new) == []
