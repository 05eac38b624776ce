"""The two files that run under a stack's interpreter for scene tests, against a stand-in for the runtime's package."""

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from precision_bisect.runner.scene_harness import export, golden
from tests.runner.build_output.build_files import KERNEL_CONFIG

SCRIPT = """
from simpler_setup import SceneTestCase

class TestScale(SceneTestCase):
    _st_level = {level}
    RUNTIME_ENV = {{}}
    CASES = [
        {{"name": "Small", "platforms": ["sim"]}},
        {{"name": "Large", "platforms": ["sim"]}},
        {{"name": "Unchecked", "platforms": ["board"], "skip_golden": True}},
    ]
"""


class Specs:
    """The tensors and scalars of a case, by name."""

    def __init__(self, *specs: tuple[str, Any]) -> None:
        self.values = dict(specs)


class SceneTestCase:
    """Runs a case: y = 2 x, or whatever `compute` was set to."""

    compute: Callable[[dict[str, Any]], None]
    options: tuple[str, ...] = ()

    @classmethod
    def run_module(cls, name: str) -> None:
        """The scene test's own command line; its options are `--dump-args` and the like."""
        SceneTestCase.options = tuple(sys.argv[1:])
        case: Any = vars(sys.modules[name])["Replay"]()
        SceneTestCase.compute(case.generate_args({}).values)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    scene: Any = types.ModuleType("simpler_setup.scene_test")
    scene.SceneTestCase = SceneTestCase
    scene.scene_test = lambda **_: lambda made: made
    scene._build_output_prefix = None
    setup: Any = types.ModuleType("simpler_setup")
    setup.SceneTestCase, setup.TaskArgsBuilder = SceneTestCase, Specs
    setup.TensorArg = setup.Scalar = lambda name, value: (name, value)
    simpler: Any = types.ModuleType("simpler.task_interface")
    simpler.ArgDirection = types.SimpleNamespace(IN="IN", OUT="OUT", INOUT="INOUT")
    monkeypatch.setitem(sys.modules, "simpler_setup", setup)
    monkeypatch.setitem(sys.modules, "simpler_setup.scene_test", scene)
    monkeypatch.setitem(sys.modules, "simpler", types.ModuleType("simpler"))
    monkeypatch.setitem(sys.modules, "simpler.task_interface", simpler)
    monkeypatch.setattr(
        SceneTestCase, "compute", lambda values: values["y"].copy_(values["x"] * 2), raising=False
    )


@pytest.fixture(name="build")
def make_build(tmp_path: Path) -> Path:
    """A build directory, and data in which y = 2 x."""
    (tmp_path / "kernel_config.py").write_text(KERNEL_CONFIG)
    for folder, values in (("in", {"x": [1.0, 2.0]}), ("out", {"y": [2.0, 4.0]})):
        (tmp_path / "data" / folder).mkdir(parents=True)
        for name, numbers in values.items():
            torch.save(torch.tensor(numbers), tmp_path / "data" / folder / f"{name}.pt")
    return tmp_path


def run(build: Path, **runtime_cfg: Any) -> golden.RunResult:
    specs = [
        golden.TensorSpec("x", (2,), torch.float32, init_value=0),
        golden.TensorSpec("y", (2,), torch.float32, is_output=True),
        golden.ScalarSpec("factor", torch.float32, 2.0),
    ]
    return golden.run(
        None,
        specs,
        golden_data=str(build / "data"),
        runtime_dir=str(build),
        runtime_cfg={"platform": "sim", **runtime_cfg},
    )


def test_a_right_output_passes(build: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(build)
    assert (result.passed, result.error) == (True, None)
    assert "[RUN] PASS" in capsys.readouterr().out
    assert SceneTestCase.options[:2] == ("-p", "sim")


def test_a_wrong_output_is_told_as_the_library_s_harness_tells_it(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SceneTestCase, "compute", lambda values: values["y"].copy_(torch.tensor([2.0, 5.0])))
    result = run(build)
    assert not result.passed
    assert result.error is not None
    assert result.error.startswith("Output(s) does not match golden: ['y']")
    assert "Mismatched elements: 1/2" in result.error
    assert "[1] actual=5.0, expected=4.0" in result.error


def test_what_is_to_be_recorded_is_asked_of_the_scene_test(build: Path) -> None:
    run(build, enable_dump_args=2, enable_dep_gen=True, device_id=3)
    assert SceneTestCase.options == (
        *("-p", "sim", "-d", "3", "--skip-golden"),
        *("--dump-args", "2", "--enable-dep-gen"),
    )


def test_a_scene_test_that_fails_is_no_result(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_values: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(SceneTestCase, "compute", end)
    words = list(sys.argv)
    with pytest.raises(RuntimeError, match="exit code 3"):
        run(build)
    assert sys.argv == words


def test_only_a_build_directory_on_data_can_be_run(build: Path) -> None:
    with pytest.raises(ValueError, match="runtime_dir and golden_data"):
        golden.run(None, [], golden_data=str(build / "data"))


@pytest.mark.parametrize(
    ("level", "platform", "case", "says"),
    [
        (2, "sim", None, r"expected one case for sim, found TestScale::Small, TestScale::Large"),
        (2, "sim", "Medium", "called Medium, found none"),
        (2, "board", None, "with a golden result, found TestScale::Unchecked without"),
        (3, "sim", "Small", "a case for one chip, found TestScale::Small for several"),
    ],
)
def test_a_case_that_cannot_be_written_is_refused(
    level: int, platform: str, case: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "some_scene_test.py"
    script.write_text(SCRIPT.format(level=level))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, script.stem, types.ModuleType(script.stem))
    chosen = ["--case", case] if case else []
    monkeypatch.setattr(
        sys, "argv", ["export.py", str(script), "-p", platform, "--output", str(tmp_path / "out"), *chosen]
    )
    with pytest.raises(SystemExit, match=says):
        export.main()
    assert not (tmp_path / "out").exists()
