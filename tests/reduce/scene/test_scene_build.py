"""Scene tests of the runtime: written as build directories, and run again under a harness of ours."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from precision_bisect.reduce.localize.endings import read_stall
from precision_bisect.reduce.replay.replay import Replayer, WorkingCopy
from precision_bisect.reduce.replay.toolchain import Toolchain
from precision_bisect.reduce.scene import export_script_as_build
from precision_bisect.runner.build_output.directory import BuildDirectory, Direction
from precision_bisect.runner.case.preflight import entry_arguments
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.settings import load_stack
from precision_bisect.store.vocabulary import Verdict
from tests.support.quick import quick_first

HERE = Path(__file__).parents[1]
SCENE = HERE / "scene" / "scale.py"


def toolchain(platform: str = "a2a3sim", stack: str = "simpler") -> Toolchain:
    found = load_stack(stack, overrides={"simpler": HERE / "fake_simpler"} if stack == "simpler" else {})
    return Toolchain.create(found, python=Path(sys.executable), platform=platform)


def written(
    folder: Path, *, case: str | None = "Small", platform: str = "a2a3sim", script: Path = SCENE
) -> Path:
    return export_script_as_build(
        script, case, toolchain(platform), folder, reuse=False, on_progress=lambda _: None
    )


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("scene") / "build")


@pytest.mark.long
def test_a_case_is_written_as_a_build_directory(build: Path, tmp_path: Path) -> None:
    parts = BuildDirectory.open(build)
    config = parts.kernel_config()
    assert config.runtime == {"runtime": "tensormap_and_ringbuffer", "runtime_env": {"ring_heap": 4}}
    assert config.orchestration.signature == (Direction.IN, Direction.OUT)
    (kernel,) = config.kernels.values()
    assert kernel.name == "scale"
    assert kernel.signature == (Direction.IN, Direction.OUT), "the tensor that the scene test leaves out"
    assert (build / kernel.source).read_bytes() == (SCENE.parent / "kernels/aiv/scale.cpp").read_bytes()
    assert (build / kernel.source).parent.parent.joinpath("common.h").is_file()
    data = parts.golden_data()
    assert sorted(data.inputs.names) == ["offset", "x"]
    assert sorted(data.outputs.names) == ["y"]
    x, y = data.inputs.tensor("x").torch(), data.outputs.tensor("y").torch()
    assert x.shape == (8,)
    assert y.equal(x * 3 + 0.5)
    again = BuildDirectory.open(written(tmp_path / "again")).golden_data()
    assert again.inputs.tensor("x").torch().equal(x), "drawn from a fixed seed"


@pytest.mark.parametrize(
    ("case", "platform", "found"),
    quick_first(
        [
            (None, "a2a3sim", "TestScale::Small, TestScale::Large among"),
            ("Medium", "a2a3sim", "found none among TestScale::Small, TestScale::Large"),
            ("Unchecked", "a5sim", "expected a case with a golden result"),
        ]
    ),
)
def test_a_case_that_is_not_one_build_is_refused(
    tmp_path: Path, case: str | None, platform: str, found: str
) -> None:
    with pytest.raises(UserError, match=found):
        written(tmp_path / "build", case=case, platform=platform)
    assert not (tmp_path / "build").exists()


def test_a_script_is_refused_where_the_stack_has_no_scene_tests(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected a build directory, found a file"):
        export_script_as_build(
            SCENE, None, toolchain(stack="pypto"), tmp_path / "no", reuse=False, on_progress=print
        )


@pytest.mark.parametrize(
    ("edit", "verdict", "signature"),
    [
        ("", Verdict.PASS, None),
        ("// y = x * 4\n", Verdict.MISMATCH, "y"),
        ("// stall\n", Verdict.STALL, "scheduler timeout, waiting"),
    ],
)
@pytest.mark.long
def test_a_build_directory_is_run_as_a_scene_test(
    build: Path, tmp_path: Path, edit: str, verdict: Verdict, signature: str | None
) -> None:
    copy = WorkingCopy(Path(shutil.copytree(build, tmp_path / "copy")))
    copy.write_orchestration(edit.encode() + copy.orchestration().source)
    replayer = Replayer(copy=copy, toolchain=toolchain(), folder=tmp_path / "runs", timeout=120)
    arguments = entry_arguments(copy.build(), BuildDirectory.open(build).golden_data())
    ran = replayer.classify(arguments, data=build / "data", dep_gen=True, save_outputs=True)
    assert (ran.classification.verdict, ran.classification.signature) == (verdict, signature), ran.log
    assert (copy.path / "dfx_outputs" / "deps.json").is_file()
    assert (ran.folder / "outputs" / "y.pt").is_file() == (verdict is not Verdict.STALL)
    stall = read_stall(ran.lines())
    assert (None if stall is None else [task.task_id for task in stall.stuck]) == (
        [1] if verdict is Verdict.STALL else None
    ), "at the runtime's own level of logging no task is named"
