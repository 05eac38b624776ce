"""A scene test's own script, run from a fixed seed for its dump."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from precision_bisect.reduce.replay.toolchain import Toolchain
from precision_bisect.reduce.scene import SceneTestRun
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.localization_job import BuildToRun, SceneCase
from precision_bisect.runner.settings import load_stack
from tests.support.scene_runtime import SCRIPT, STACK, scene_files


def own_run(folder: Path, *, failed: str | None, script: str = SCRIPT, stack: str = STACK) -> SceneTestRun:
    for name, text in scene_files(2.5, script).items():
        (folder / "runtime" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "runtime" / name).write_text(text)
    (folder / "stack.toml").write_text(stack)
    side = BuildToRun(
        build=folder / "runtime" / "tests" / "test_scale.py",
        stack=load_stack(str(folder / "stack.toml")),
        python=Path(sys.executable),
        slot=folder,
    )
    return SceneTestRun(
        side=side,
        toolchain=Toolchain.from_build(side, "sim", 0, None),
        scene=SceneCase(arguments=(), failed=failed),
        timeout=120.0,
        folder=folder / "logs",
    )


def test_runs_of_one_script_draw_the_same_numbers(tmp_path: Path) -> None:
    payloads: list[bytes] = []
    for name in ("one", "other"):
        found = own_run(tmp_path / name, failed="TestScale::wrong").dump()
        assert found.dump.task_ids() == [1, 2]
        assert found.folder.name.startswith("TestScale_wrong_")
        payloads.append((found.folder / "args_dump" / "args.bin").read_bytes())
    assert payloads[0] == payloads[1]


@pytest.mark.long
def test_of_several_cases_none_is_taken_for_the_one_that_failed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected one dump of its case in .*, found 2"):
        own_run(tmp_path, failed=None).dump()


@pytest.mark.long
def test_a_revision_that_cannot_dump_is_named(tmp_path: Path) -> None:
    run = own_run(
        tmp_path, failed=None, stack=STACK.replace('"--dump-args", "--dump-tensor"', '"--dump-all"')
    )
    with pytest.raises(UserError, match="expected an option of --dump-all at this revision, found none"):
        run.dump()
