"""The command's words, and the published schema."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from precision_bisect import configs
from precision_bisect.reduce.localize.reference import LocalizationRequest
from precision_bisect.reduce.reduce_cli import ReduceOptions, main
from precision_bisect.reduce.reduce_command import (
    OpenedBuilds,
    _interpreter_hint,
    _print_divergence,
    open_builds,
)
from precision_bisect.reduce.replay.replay import ReplayError
from precision_bisect.reduce.replay.toolchain import ForkServers
from precision_bisect.reduce.shrink.result import ShrinkRequest
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.localization import Divergence, divergence_schema_text
from precision_bisect.store.vocabulary import Verdict
from tests.reduce.localize.test_summary import NOTHING

PUBLISHED = Path(__file__).parents[2] / "docs" / "divergence.schema.json"


def test_the_published_schema_is_current() -> None:
    assert PUBLISHED.read_text() == divergence_schema_text(), (
        "run: python -m precision_bisect.runner.localization > docs/divergence.schema.json"
    )


OPTIONS: list[tuple[str, list[str], Any]] = [
    ("failing_build", [], Path("build")),
    ("bisection", ["--bisection", "20260101-120000-abcd"], "20260101-120000-abcd"),
    ("localize_only", ["--localize-only"], True),
    ("footprints", ["--footprints"], True),
    ("reference", ["--reference", "good"], Path("good")),
    ("reference_data", ["--reference-data", "values"], Path("values")),
    ("against_schedule", ["--against-schedule", "serial"], "serial"),
    ("scene_case", ["--scene-case", "TestAdd::small"], "TestAdd::small"),
    ("stack", ["--stack", "pypto"], "pypto"),
    ("repository", ["--repository", "a=x", "--repository", "b=y"], ("a=x", "b=y")),
    ("python", ["--python", "bin/python"], Path("bin/python")),
    ("reference_stack", ["--reference-stack", "old.toml"], "old.toml"),
    ("reference_python", ["--reference-python", "old/python"], Path("old/python")),
    ("platform", ["-p", "a2a3"], "a2a3"),
    ("platform", ["--platform", "a5"], "a5"),
    ("device", ["-d", "3"], 3),
    ("device", ["--device", "4"], 4),
    ("golden_data", ["--golden-data", "data"], Path("data")),
    ("rtol", ["--rtol", "0.001"], 0.001),
    ("atol", ["--atol", "0.002"], 0.002),
    ("timeout", ["--timeout", "2.5"], 2.5),
    ("timeout", ["--timeout", "5m"], 300.0),
    ("jobs", ["--jobs", "4"], 4),
    ("jobs", ["-j", "3"], 3),
    ("budget", ["--budget", "1.5h"], 5400.0),
    ("interesting", ["--interesting", "ask.sh"], Path("ask.sh")),
    ("resume", ["--resume"], True),
    ("output", ["-o", "out"], Path("out")),
    ("output", ["--output", "out"], Path("out")),
    ("quiet", ["-q"], True),
    ("verbose", ["-v"], True),
    ("as_json", ["--json"], True),
]


def parsed(*words: str) -> ReduceOptions:
    return ReduceOptions(**main.make_context("reduce", ["build", *words]).params)


@pytest.mark.parametrize(("field", "words", "value"), OPTIONS)
def test_each_option_reaches_its_field(field: str, words: list[str], value: Any) -> None:
    assert getattr(parsed(*words), field) == value


def test_every_field_is_covered() -> None:
    assert {field for field, *_ in OPTIONS} == {each.name for each in fields(ReduceOptions)}


def test_a_folder_that_is_no_build_is_one_line(tmp_path: Path) -> None:
    arguments = [
        *(str(tmp_path), "--localize-only", "--reference", str(tmp_path), "--stack", "pypto"),
        *("-o", str(tmp_path / "out")),
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_a_build_without_data_or_interpreter_says_what_to_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A bisection's builds have their data elsewhere, and the toolchain in slots."""
    monkeypatch.setenv("PRECISION_BISECT_HOME", str(tmp_path))
    build = tmp_path / "state" / "bisections" / "20261122-x" / "0018" / "build"
    build.mkdir(parents=True)
    arguments = [str(build), "--localize-only", "--reference", str(build), "--stack", demo_stack(tmp_path)]
    result = CliRunner().invoke(main, [*arguments, "-o", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "expected frozen data in its data/, found none; name them with --golden-data DIR" in result.stderr
    assert result.stderr.endswith("with --bisection 20261122-x\n")
    lacking = ReplayError(
        "x", Verdict.UNKNOWN, found="unknown", reason="ModuleNotFoundError: No module named 'x'"
    )
    assert "with --python, and" in _interpreter_hint(lacking, parsed())
    assert _interpreter_hint(lacking, parsed("--bisection", "x")) == ""
    assert _interpreter_hint(ReplayError("x", Verdict.CRASH, found="crash"), parsed()) == ""


def demo_stack(tmp_path: Path) -> str:
    """The demo's stack file, as a demo stack has it."""
    text = resources.files(configs).joinpath("demo.toml").read_text("utf-8")
    file = tmp_path / "stack.toml"
    file.write_text(text.replace("@ROOT@", str(tmp_path)))
    return str(file)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "--rtol and --atol"),
        (("--reference-data", "."), "--rtol and --atol"),
        (("--reference", ".", "--reference-data", "."), "expected one reference"),
        (("--against-schedule", "backwards"), "reverse, serial, found 'backwards'"),
    ],
)
def test_one_reference_that_there_is(tmp_path: Path, options: tuple[str, ...], expected: str) -> None:
    arguments = [
        str(tmp_path),
        "--localize-only",
        "--stack",
        demo_stack(tmp_path),
        "-o",
        str(tmp_path / "out"),
        *options,
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert expected in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "--rtol and --atol"),
        (("--interesting", "nowhere"), "expected a script, found none; name one that is there"),
        (("--reference", ".", "--against-schedule", "serial"), "expected one reference"),
    ],
)
def test_what_counts_as_the_failure_is_said_once(
    tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    result = CliRunner().invoke(
        main, [str(tmp_path), "--stack", demo_stack(tmp_path), "-o", str(tmp_path / "out"), *options]
    )
    assert result.exit_code == 2
    assert expected in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "expected FAILING_BUILD, or --bisection NAME, found neither"),
        (["--bisection", "one", "build", "--stack", "demo"], "found FAILING_BUILD, --stack"),
        (["--bisection", "one", "--device", "0"], "found --device"),
    ],
)
def test_a_build_is_named_or_a_bisection(words: list[str], expected: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert expected in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_bisection_without_builds_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PRECISION_BISECT_HOME", str(tmp_path))
    result = CliRunner().invoke(main, ["--bisection", "gone"])
    assert result.exit_code == 1
    assert "--bisection gone: expected the builds of a culprit" in result.stderr
    assert "no bisection of that name" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("place", "words", "says"),
    [
        (
            "/proc/out",
            [],
            "expected a place for the results, found /proc, which is no folder that can be written",
        ),
        ("/proc/out", ["--localize-only"], "expected a place for the results, found /proc, "),
        ("file/out", ["--footprints"], "file, which is no folder that can be written; name another one"),
        ("used", [], "expected a new or empty folder, found other files in it"),
        ("reduced", [], "a reduction is there already; go on with --resume, or name another"),
    ],
)
def test_where_nothing_can_be_written_is_said_before_anything_is_built(
    place: str, words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("used/mine", "reduced/reduce-of"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    (tmp_path / "file").touch()

    def opened(*_: object) -> None:
        pytest.fail("builds were opened")

    monkeypatch.setattr("precision_bisect.reduce.reduce_command.open_builds", opened)
    result = CliRunner().invoke(main, ["--bisection", "one", *words, "-o", str(tmp_path / place)])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"error: -o {tmp_path / place}: ")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("nowhere", "expected a script, found none; name one that is there"),
        (".", "expected a script, found no file; name one that is there"),
        ("plain", "expected a script that can be executed, found one that may not; chmod +x it"),
    ],
)
def test_a_script_that_cannot_judge_is_refused_before_anything_is_built(
    script: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")

    def opened(*_: object) -> None:
        pytest.fail("builds were opened")

    monkeypatch.setattr("precision_bisect.reduce.reduce_command.open_builds", opened)
    words = ["--bisection", "one", "-o", str(tmp_path / "out"), "--interesting", str(tmp_path / script)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert result.stderr == f"error: --interesting {tmp_path / script}: {says}\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["gone"],
            "gone: expected a build directory or the script of a scene test, found none; check the path",
        ),
        (
            [".", "--reference", "gone"],
            "--reference gone: expected a build directory or the script of a scene test, found none; check the path",
        ),
        (
            [".", "--reference-data", "gone"],
            "--reference-data gone: expected a folder of recorded tensors, found none; check the path",
        ),
        (
            ["case.py", "--reference", ".", "--scene-case", "Small"],
            "--scene-case Small: expected the script of a scene test, found .",
        ),
    ],
)
def test_a_path_that_is_not_there_is_said_before_anything_runs(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("case.py").touch()
    tolerance = ["--rtol", "0.1", "--localize-only"]
    result = CliRunner().invoke(main, [*words, *tolerance, "--stack", demo_stack(tmp_path)])
    assert (result.exit_code, result.stderr) == (2, f"error: {says}\n")


def test_the_scripts_of_a_scene_test_are_taken_as_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for side in ("failing", "good"):
        Path(f"{side}.py").touch()
    exported: list[tuple[Path, str | None]] = []

    def export(script: Path, case: str | None, _toolchain: object, folder: Path, **_: object) -> Path:
        exported.append((script, case))
        return folder

    monkeypatch.setattr("precision_bisect.reduce.reduce_command.export_script_as_build", export)
    words = ["failing.py", "--reference", "good.py", "--scene-case", "Small", "--stack", demo_stack(tmp_path)]
    options = ReduceOptions(**main.make_context("reduce", words).params)
    with ForkServers(on_refusal=print) as servers, open_builds(options, servers, print) as builds:
        assert builds.failing == tmp_path / "reduced-builds" / "failing"
        assert builds.reference == tmp_path / "reduced-builds" / "reference"
    assert exported == [(Path("failing.py"), "Small"), (Path("good.py"), "Small")]


def test_the_command_line_does_not_import_torch() -> None:
    code = "import sys, precision_bisect.reduce.reduce_cli\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_relative_interpreter_is_found_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("failing", "good", "bin"):
        Path(folder).mkdir()
    Path("bin/python").symlink_to(sys.executable)
    words = ["failing", "--reference", "good", "--stack", demo_stack(tmp_path), "--python", "bin/python"]
    options = ReduceOptions(**main.make_context("reduce", words).params)
    said: list[str] = []
    with (
        ForkServers(on_refusal=said.append) as servers,
        open_builds(options, servers, said.append) as builds,
    ):
        assert builds.failing_toolchain.python == tmp_path / "bin" / "python"
        assert builds.reference_toolchain.python == tmp_path / "bin" / "python"
        assert (builds.failing, builds.reference) == (Path("failing"), Path("good"))
        assert (builds.golden_data, builds.timeout) == (None, 600)


@pytest.mark.parametrize(
    ("words", "rtol"), [([], 0.25), (["--rtol", "0.5"], 0.5)], ids=["the bisection's", "the user's"]
)
def test_a_reduction_judges_by_the_tolerance_that_the_bisection_was_told(
    words: list[str], rtol: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing" / "data").mkdir(parents=True)
    toolchain: Any = None
    opened = OpenedBuilds(
        failing=tmp_path / "failing",
        reference=tmp_path / "failing",
        failing_toolchain=toolchain,
        reference_toolchain=toolchain,
        golden_data=None,
        case_tolerance=Tolerance(rtol=0.25, atol=0.0),
        timeout=600,
    )
    asked: list[ShrinkRequest] = []

    def shrink(request: ShrinkRequest, *, on_progress: Callable[[str], None]) -> None:
        asked.append(request)
        raise UserError("that is all")

    monkeypatch.setattr("precision_bisect.reduce.reduce_command.shrink", shrink)
    monkeypatch.setattr("precision_bisect.reduce.reduce_command.open_builds", lambda *_: nullcontext(opened))
    result = CliRunner().invoke(main, ["--bisection", "one", *words])
    assert result.stderr == "error: that is all\n"
    assert [request.tolerance for request in asked] == [Tolerance(rtol=rtol, atol=0.0)]


@pytest.mark.parametrize(
    ("words", "tolerance"),
    [
        ([], Tolerance(rtol=0.25, atol=0.125)),
        (["--rtol", "0.5"], Tolerance(rtol=0.5, atol=0.125)),
        (["--atol", "0"], Tolerance(rtol=0.25, atol=0.0)),
    ],
)
def test_one_tolerance_leaves_the_bisection_s_other_one(
    words: list[str], tolerance: Tolerance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Tolerance(rtol=0.25, atol=0.125)
    (request,) = localizations(monkeypatch, tmp_path, stored, "--bisection", "one", *words)
    assert (request.tolerance, request.case_tolerance) == (Tolerance(), tolerance)


def test_half_a_tolerance_is_refused_where_nothing_tells_the_other_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError, match="--rtol: expected --atol with it"):
        localizations(monkeypatch, tmp_path, None, "build", "--rtol", "0.5")


def test_tolerances_of_zero_judge_the_outputs_without_a_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not the harness's default."""
    (request,) = localizations(monkeypatch, tmp_path, None, "build", "--rtol", "0", "--atol", "0")
    assert (request.tolerance, request.case_tolerance) == (Tolerance(), Tolerance())


def localizations(
    monkeypatch: pytest.MonkeyPatch, folder: Path, stored: Tolerance | None, *words: str
) -> list[LocalizationRequest]:
    """The requests of a localization by a command, where the bisection has this tolerance."""
    (folder / "failing" / "data").mkdir(parents=True)
    toolchain: Any = None
    opened = OpenedBuilds(
        failing=folder / "failing",
        reference=None if stored is None else folder / "failing",
        failing_toolchain=toolchain,
        reference_toolchain=toolchain,
        golden_data=None,
        case_tolerance=stored,
        timeout=600,
    )
    asked: list[LocalizationRequest] = []

    def localize(request: LocalizationRequest, *, on_progress: Callable[[str], None]) -> None:
        asked.append(request)
        raise UserError("that is all")

    monkeypatch.setattr("precision_bisect.reduce.reduce_command.localize", localize)
    monkeypatch.setattr("precision_bisect.reduce.reduce_command.open_builds", lambda *_: nullcontext(opened))
    result = CliRunner().invoke(main, [*words, "--localize-only", "-o", str(folder / "out")])
    assert result.stderr == "error: that is all\n"
    return asked


@pytest.mark.parametrize(
    ("ended", "files"), [(None, ["divergence.json", "task_graph.html"]), ("crash", ["divergence.json"])]
)
def test_the_page_of_a_task_graph_is_named_only_where_one_was_written(
    ended: str | None,
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file of the user may have that name."""
    monkeypatch.chdir(tmp_path)
    Path("reduced").mkdir()
    for name in ("divergence.json", "task_graph.html"):
        Path("reduced", name).touch()
    _print_divergence(Divergence.model_validate({**NOTHING, "ended": ended}), parsed())
    named = [line for line in capsys.readouterr().out.splitlines() if line.startswith("reduced/")]
    assert named == [f"reduced/{file}" for file in files]


def test_json_for_machines_and_no_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is localized stands elsewhere: here it is what is printed of it."""
    found = Divergence.model_validate(
        {**NOTHING, "failing_build": "failing", "reference": {**NOTHING["reference"], "path": "good"}}
    )

    def localize(_request: object, *, on_progress: Callable[[str], None]) -> Divergence:
        on_progress("looking")
        return found

    monkeypatch.setattr("precision_bisect.reduce.reduce_command.localize", localize)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "failing" / "data").mkdir(parents=True)
    (tmp_path / "good").mkdir()
    words = ["failing", "--reference", "good", "--localize-only", "--stack", demo_stack(tmp_path)]
    plain = CliRunner().invoke(main, words)
    assert (plain.exit_code, plain.stderr) == (3, "looking\n")
    assert "no task was seen to leave other values" in plain.stdout
    quiet = CliRunner().invoke(main, [*words, "-q"])
    assert (quiet.stdout, quiet.stderr) == (
        "no task was seen to leave other values than it should; see reduced/divergence.json\n",
        "",
    )
    quiet = CliRunner().invoke(main, [*words, "-q", "--json"])
    assert (quiet.exit_code, quiet.stderr) == (3, "")
    assert Divergence.model_validate(json.loads(quiet.stdout)) == found
