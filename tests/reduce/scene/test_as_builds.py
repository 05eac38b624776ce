"""A culprit's scene test and its parent's as build directories: which data they share, and a yardstick that moved."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from precision_bisect.reduce.replay.replay import RunnableBuild
from precision_bisect.reduce.replay.toolchain import Toolchain
from precision_bisect.reduce.scene import CheckChangedError, SceneBuilds, export_scene_builds
from precision_bisect.runner.localization_job import SceneCase
from precision_bisect.runner.settings import load_stack

HERE = Path(__file__).parent
STACK = load_stack("simpler", overrides={"simpler": HERE.parent / "fake_simpler"})


def written(tmp_path: Path, *, instead: dict[str, str]) -> SceneBuilds:
    """The scene test of this folder with some of its text replaced, against itself as it is."""
    toolchain = Toolchain.create(STACK, python=Path(sys.executable), platform="a2a3sim")
    sides: list[RunnableBuild] = []
    for name, replaced in (("bad", instead), ("good", {})):
        text = (HERE / "scale.py").read_text()
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        shutil.copytree(HERE / "kernels", tmp_path / name / "kernels")
        (tmp_path / name / "scale.py").write_text(text)
        sides.append(RunnableBuild(path=tmp_path / name / "scale.py", toolchain=toolchain))
    return export_scene_builds(
        sides[0],
        sides[1],
        SceneCase(arguments=(), failed="TestScale::Small"),
        folder=tmp_path / "written",
        on_progress=lambda _text: None,
    )


def test_a_case_that_expects_something_else_is_a_yardstick_that_moved(tmp_path: Path) -> None:
    with pytest.raises(CheckChangedError, match=r"of the same inputs TestScale::Small expects .* \(y\)"):
        written(tmp_path, instead={"args.x * 3": "args.x * 4"})


@pytest.mark.long
def test_data_are_those_of_the_one_that_passes(tmp_path: Path) -> None:
    builds = written(tmp_path, instead={"torch.randn": "torch.rand"})
    assert builds.data == builds.reference / "data"
    assert builds.failing != builds.reference
