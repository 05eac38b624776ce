"""What runs have compiled is given to later runs of equal sources, and to no others."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from precision_bisect.reduce.replay.replay import CompiledObjects, WorkingCopy
from precision_bisect.reduce.replay.toolchain import Toolchain
from precision_bisect.runner.settings import load_stack
from tests.reduce.small_builds import SHIFT, WRONG, small_build


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    text = resources.files("precision_bisect.configs").joinpath("demo.toml").read_text("utf-8")
    (tmp_path / "stack.toml").write_text(text.replace("@ROOT@", str(tmp_path)))
    return Toolchain.create(load_stack(str(tmp_path / "stack.toml")), python=Path(sys.executable))


class Runs:
    """Copies of builds, and runs of them that compile as a runtime does: all, where one source is newer."""

    def __init__(self, folder: Path, toolchain: Toolchain) -> None:
        self.folder = folder
        self.toolchain = toolchain
        self.objects = CompiledObjects(folder / "objects")
        self.copies = 0

    def copy(self, middle: str = SHIFT) -> WorkingCopy:
        self.copies += 1
        build = small_build(self.folder / f"build-{self.copies}", middle)
        return WorkingCopy.create(build, self.folder / f"copy-{self.copies}")

    def run(self, copy: WorkingCopy, toolchain: Toolchain | None = None, *, fails: bool = False) -> bool:
        """Whether it compiled anything."""
        used = toolchain or self.toolchain
        before = self.objects.put_into(copy, used)
        sources = sorted(copy.path.rglob("*.cpp"))
        compiles = any(_is_stale(source) for source in sources)
        for source in sources if compiles else ():
            source.with_suffix(".so").unlink(missing_ok=True)
            if not fails:
                source.with_suffix(".so").write_text(f"compiled of {source.read_text()}")
        self.objects.keep(copy, used, before)
        return compiles


def _is_stale(source: Path) -> bool:
    made = source.with_suffix(".so")
    return not made.exists() or made.stat().st_mtime_ns < source.stat().st_mtime_ns


@pytest.fixture
def runs(tmp_path: Path, toolchain: Toolchain) -> Runs:
    return Runs(tmp_path, toolchain)


def edit(copy: WorkingCopy, text: bytes) -> None:
    """Appends to the orchestration, a second after all that was compiled."""
    copy.write_orchestration(copy.orchestration().source + text)
    (source,) = (copy.path / "orchestration").glob("*.cpp")
    edited = source.stat().st_mtime_ns
    for made in copy.path.rglob("*.so"):
        os.utime(made, ns=(edited - 10**9, edited - 10**9))


def test_equal_sources_are_compiled_once(runs: Runs) -> None:
    assert runs.run(runs.copy())
    copy = runs.copy()
    assert not runs.run(copy)
    for source in copy.path.rglob("*.cpp"):
        assert source.with_suffix(".so").read_text() == f"compiled of {source.read_text()}"


def test_each_source_may_have_been_compiled_in_another_build(runs: Runs) -> None:
    marked, other = runs.copy(), runs.copy(WRONG)
    edit(marked, b"// a marker\n")
    assert runs.run(marked)
    assert runs.run(other)
    edit(other, b"// a marker\n")
    assert not runs.run(other)


def test_a_source_that_was_not_compiled_yet_has_all_compiled(runs: Runs) -> None:
    runs.run(runs.copy())
    copy = runs.copy(WRONG)
    assert runs.run(copy)
    edit(copy, b"// a marker\n")
    assert runs.run(copy)


def test_what_a_build_brought_with_it_is_not_kept(runs: Runs) -> None:
    build = small_build(runs.folder / "original", SHIFT)
    for source in build.rglob("*.cpp"):
        source.with_suffix(".so").write_text("compiled by somebody")
    assert not runs.run(WorkingCopy.create(build, runs.folder / "of-original"))
    assert runs.run(runs.copy())


def test_sources_that_cannot_be_compiled_leave_nothing(runs: Runs) -> None:
    assert runs.run(runs.copy(), fails=True)
    assert runs.run(runs.copy())


@pytest.mark.parametrize(
    "other",
    [
        lambda toolchain: replace(toolchain, variables={"CXX": "another"}),
        lambda toolchain: replace(toolchain, platform="a5sim"),
        lambda toolchain: replace(toolchain, slot=Path("/another")),
    ],
)
def test_another_toolchain_compiles_for_itself(runs: Runs, other: Callable[[Toolchain], Toolchain]) -> None:
    runs.run(runs.copy())
    assert runs.run(runs.copy(), other(runs.toolchain))


def test_a_schedule_does_not_compile_otherwise(runs: Runs) -> None:
    runs.run(runs.copy())
    assert not runs.run(runs.copy(), runs.toolchain.with_schedule("reverse"))


def test_a_header_in_the_build_counts(runs: Runs) -> None:
    runs.run(runs.copy())
    copy = runs.copy()
    (copy.path / "kernels" / "common.h").write_text("#define N 8\n")
    assert runs.run(copy)
    again = runs.copy()
    (again.path / "kernels" / "common.h").write_text("#define N 8\n")
    assert not runs.run(again)
    changed = runs.copy()
    (changed.path / "kernels" / "common.h").write_text("#define N 9\n")
    assert runs.run(changed)


def test_sources_that_include_each_other_are_left_to_the_runtime(runs: Runs) -> None:
    for _ in range(2):
        copy = runs.copy()
        edit(copy, b'#include "other.cpp"\n')
        assert runs.run(copy)


def test_a_pipe_that_a_run_left_is_not_copied_and_a_link_is_not_followed(tmp_path: Path) -> None:
    build = tmp_path / "build"
    (build / "kernels").mkdir(parents=True)
    os.mkfifo(build / "kernels" / "pipe")
    (build / "kernels" / "up").symlink_to("..")
    (build / "kernels" / "zero").symlink_to("/dev/zero")
    (build / "kernels" / "a.cpp").write_text("text")
    copy = WorkingCopy.create(build, tmp_path / "copy").path / "kernels"
    assert sorted(path.name for path in copy.iterdir()) == ["a.cpp", "up", "zero"]
    assert str((copy / "zero").readlink()) == "/dev/zero"
