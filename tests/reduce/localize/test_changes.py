"""The parts in which two builds differ, and builds that are made of both."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from precision_bisect.reduce.localize.changes import BuildChanges, ChangedPart, data_changes
from precision_bisect.reduce.localize.document import build_change
from precision_bisect.reduce.replay.replay import RunnableBuild
from tests.reduce.small_builds import SHIFT, WRONG, small_build


def toolchain(python: str = "python", **settings: Any) -> Any:
    """What runs a build, told apart by its interpreter."""
    stack = SimpleNamespace(
        repositories={name: SimpleNamespace(path=path) for name, path in settings.items()}
    )
    return SimpleNamespace(
        stack=stack,
        python=python,
        platform="a2a3sim",
        schedule=None,
        environment={},
        settings=frozenset[str](),
        of_slot=False,
    )


def changes(failing: Path, reference: Path, failing_python: str = "python") -> BuildChanges:
    return BuildChanges.compare(
        RunnableBuild(path=failing, toolchain=toolchain(failing_python)),
        RunnableBuild(path=reference, toolchain=toolchain()),
    )


def text(build: Path, name: str) -> str:
    (file,) = (path for path in build.rglob(name) if "ptoas" not in path.parts)
    return file.read_text()


def test_equal_builds_have_no_changes(tmp_path: Path) -> None:
    good, same = (small_build(tmp_path / name, SHIFT) for name in ("good", "same"))
    assert changes(same, good).changes == ()


def test_a_runtime_alone_is_no_change_of_sources(tmp_path: Path) -> None:
    good, same = (small_build(tmp_path / name, SHIFT) for name in ("good", "same"))
    found = changes(same, good, "another python")
    assert [change.part for change in found.changes] == [ChangedPart.RUNTIME]
    (change,) = found.changes
    assert change.settings == ("- python python", "+ python another python")
    assert found.source_changes == ()
    made = found.make(found.changes, tmp_path / "made", None)
    assert made.toolchain.python == "another python"


def slot_toolchain(slot: str, **commits: str) -> Any:
    """What runs the builds of a bisection: everything lies in a slot, at the commits of a side."""
    made = toolchain(f"{slot}/venv/bin/python", **{name: f"{slot}/{name}" for name in commits})
    return SimpleNamespace(**{**vars(made), "of_slot": True, "slot": slot, "slot_commits": lambda: commits})


def test_two_slots_differ_by_the_commits_in_them(tmp_path: Path) -> None:
    good, same = (small_build(tmp_path / name, SHIFT) for name in ("good", "same"))
    (change,) = BuildChanges.compare(
        RunnableBuild(path=same, toolchain=slot_toolchain("/slots/0", compiler="b" * 40, runtime="c" * 40)),
        RunnableBuild(path=good, toolchain=slot_toolchain("/slots/1", compiler="a" * 40, runtime="c" * 40)),
    ).changes
    assert change.settings == (f"- compiler {'a' * 12}", f"+ compiler {'b' * 12}")
    assert build_change(change).diff == change.settings


def test_parts_are_put_into_the_good_build_one_by_one(tmp_path: Path) -> None:
    good = small_build(tmp_path / "good", SHIFT)
    bad = small_build(tmp_path / "bad", WRONG, "p1.launch_spec.set_block_num(2);")
    found = changes(bad, good)
    kernel, orchestration = sorted(found.changes, key=lambda change: change.part.value)
    assert (kernel.part, kernel.kernel) == (ChangedPart.KERNEL, "middle")
    assert orchestration.part is ChangedPart.ORCHESTRATION
    source = next(path.name for path in (good / "orchestration").glob("*.cpp"))
    for number, chosen in enumerate(([kernel], [orchestration], [kernel, orchestration], [])):
        made = found.make(chosen, tmp_path / f"made-{number}", None).path
        assert text(made, "middle.cpp") == text(bad if kernel in chosen else good, "middle.cpp")
        assert ("set_block_num" in text(made, source)) is (orchestration in chosen)


def test_a_statement_that_was_moved_is_one_change(tmp_path: Path) -> None:
    good = small_build(tmp_path / "good", SHIFT)
    bad = small_build(tmp_path / "bad", SHIFT)
    (source,) = (bad / "orchestration").glob("*.cpp")
    added = "    p0.add_input(x0);\n    p0.add_output(a);\n"
    swapped = "    p0.add_output(a);\n    p0.add_input(x0);\n"
    assert added in source.read_text()
    source.write_text(source.read_text().replace(added, swapped))
    (change,) = changes(bad, good).changes
    assert len(change.edits) == 2


def test_a_kernel_that_is_built_from_another_source_is_a_change_of_the_list(tmp_path: Path) -> None:
    good, bad = (small_build(tmp_path / name, SHIFT) for name in ("good", "bad"))
    listed = bad / "kernel_config.py"
    assert listed.read_text().count("middle.cpp") == 1
    listed.write_text(listed.read_text().replace("middle.cpp", "scale.cpp"))
    found = changes(bad, good)
    (change,) = found.changes
    assert (change.part, change.file, change.kernel) == (
        ChangedPart.KERNEL_LIST,
        "kernel_config.py",
        "middle",
    )
    assert ["middle.cpp" in line for line in change.edits[0].lines()] == [True, False]
    made = found.make([change], tmp_path / "made", None).path
    assert text(made, "middle.cpp") == text(made, "scale.cpp") == text(good, "scale.cpp")


def test_frozen_data_that_differ_are_named(tmp_path: Path) -> None:
    good, bad = (small_build(tmp_path / name, SHIFT) for name in ("good", "bad"))
    assert data_changes(bad / "data", good / "data") == ()
    torch.save(torch.zeros(8), bad / "data" / "out" / "x1.pt")
    (change,) = data_changes(bad / "data", good / "data")
    assert (change.part, change.file) == (ChangedPart.DATA, "data/out/x1.pt")
    assert data_changes(bad / "data", tmp_path / "nowhere") == ()
