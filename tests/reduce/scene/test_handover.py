"""What `bisect-precision` hands over of a scene test: its dumps are compared where build directories do not tell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.reduce import reduce_command
from precision_bisect.reduce.localize.reference import LocalizationRequest
from precision_bisect.reduce.reduce_command import FOUND, main
from precision_bisect.reduce.scene import SceneBuilds
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.localization import Divergence, FailureCause, read_divergence
from precision_bisect.runner.localization_job import BuildToRun, LocalizationJob, OutputFolder, SceneCase
from precision_bisect.runner.settings import load_stack
from precision_bisect.store.durable_files import make_ignored_folder
from tests.reduce.small_builds import SHIFT, small_build
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


def job(folder: Path) -> LocalizationJob:
    """Both scripts are given to `main` as `job.json` in the folder."""
    asked = LocalizationJob(
        failing=side(folder / "bad", 2.5),
        reference=side(folder / "good", 2.0),
        platform="sim",
        device=0,
        golden_data=None,
        scene=SceneCase(arguments=(), failed="TestScale::wrong"),
        timeout=120.0,
        rtol=1e-5,
        atol=1e-5,
        output=folder / "found",
        reduce_to=None,
    )
    (folder / "job.json").write_text(asked.model_dump_json())
    return asked


def test_its_dumps_are_compared(tmp_path: Path) -> None:
    job(tmp_path)
    assert main(tmp_path / "job.json") == FOUND
    found = read_divergence(tmp_path / "found")
    assert found is not None
    assert [(each.task_id, each.argument) for each in found.first_divergent] == [("0x0000000000000001", 1)]
    assert found.first_divergent[0].task_class == "introduced"


@pytest.fixture
def with_causes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Divergence]:
    """Builds can be made of the scripts, and so many causes are found, without a tensor that was compared."""

    def run(*causes: str) -> Divergence:
        made = {name: small_build(tmp_path / f"{name}-build", SHIFT) for name in ("failing", "reference")}

        def localize(request: LocalizationRequest, *, on_progress: object) -> Divergence:
            found = Divergence(
                failing_build=str(request.failing),
                generated=None,
                causes=tuple(FailureCause(what=what, confirmed=True, effect=1.0) for what in causes),
            )
            make_ignored_folder(request.output)
            OutputFolder(request.output).write(found, None)
            return found

        def as_builds(*_sides: object, **_options: object) -> SceneBuilds:
            return SceneBuilds(**made, data=made["reference"] / "data")

        monkeypatch.setattr(reduce_command, "localize", localize)
        monkeypatch.setattr(reduce_command, "export_scene_builds", as_builds)
        asked = job(tmp_path)
        assert main(tmp_path / "job.json") == FOUND
        written = read_divergence(asked.output)
        assert written is not None
        assert [cause.what for cause in written.causes] == [*causes]
        return written

    return run


@pytest.mark.long
@pytest.mark.parametrize(
    ("causes", "of_cause"), [(("a kernel",), 1), (("a kernel", "a scalar"), None)], ids=["one", "two"]
)
def test_causes_without_a_tensor_get_those_of_the_dumps(
    causes: tuple[str, ...], of_cause: int | None, with_causes: Callable[..., Divergence]
) -> None:
    (tensor,) = with_causes(*causes).first_divergent
    assert (tensor.task_id, tensor.argument, tensor.cause) == ("0x0000000000000001", 1, of_cause)


def test_causes_stand_where_dumps_cannot_be_compared(
    with_causes: Callable[..., Divergence],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused(*_runs: object, **_options: object) -> Divergence:
        raise UserError("expected dumps of one graph, found two")

    monkeypatch.setattr(reduce_command, "compare_dumps", refused)
    assert with_causes("a kernel").first_divergent == ()
    assert capsys.readouterr().err.splitlines()[-1] == "localizing: expected dumps of one graph, found two"
