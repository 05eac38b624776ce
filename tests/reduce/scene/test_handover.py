"""What `bisect-precision` hands over of a scene test of which no build directory can be made."""

from __future__ import annotations

import sys
from pathlib import Path

from precision_bisect.reduce.handover import FOUND, main
from precision_bisect.runner.localization.answer import read_divergence
from precision_bisect.runner.localization.job import BuildToRun, LocalizationJob, SceneCase
from precision_bisect.runner.stack.file import load_stack
from tests.support.scene_runtime import STACK, scene_files


def side(folder: Path, factor: float) -> BuildToRun:
    for name, text in scene_files(factor).items():
        (folder / "runtime" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "runtime" / name).write_text(text)
    (folder / "stack.toml").write_text(STACK)
    return BuildToRun(
        build=folder / "runtime" / "tests" / "test_scale.py",
        stack=load_stack(str(folder / "stack.toml")),
        python=Path(sys.executable),
        slot=folder,
    )


def test_its_dumps_are_compared(tmp_path: Path) -> None:
    job = LocalizationJob(
        failing=side(tmp_path / "bad", 2.5),
        reference=side(tmp_path / "good", 2.0),
        platform="sim",
        device=0,
        golden_data=None,
        scene=SceneCase(arguments=(), failed="TestScale::wrong"),
        timeout=120.0,
        rtol=1e-5,
        atol=1e-5,
        output=tmp_path / "found",
        reduce_to=None,
    )
    (tmp_path / "job.json").write_text(job.model_dump_json())
    assert main(tmp_path / "job.json") == FOUND
    found = read_divergence(tmp_path / "found")
    assert found is not None
    assert [(each.task_id, each.argument) for each in found.first_divergent] == [("0x0000000000000001", 1)]
    assert found.first_divergent[0].task_class == "introduced"
