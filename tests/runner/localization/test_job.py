"""The job that `bisect-precision` hands over: its version, and what is said where it cannot be done."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precision_bisect.reduce.reduce_command import ERROR, FOUND, main
from precision_bisect.reduce.shrink.result import ShrinkRequest
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.localization_job import BuildToRun, LocalizationJob
from precision_bisect.runner.stack import Stack
from precision_bisect.store.durable_files import write_document


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    stack = Stack.model_validate(
        {
            "name": "small",
            "searched": "tool",
            "repositories": {"tool": {"path": tmp_path}},
            "case": {"repository": "tool", "command": ["{python}", "{case}"], "cwd": "{tool}"},
            "platforms": {"sim": {}},
        }
    )
    build = BuildToRun(build=tmp_path / "build", stack=stack, python=Path(sys.executable), slot=tmp_path)
    handed_over = LocalizationJob(
        failing=build,
        reference=build,
        platform="board",
        device=0,
        golden_data=tmp_path / "data",
        timeout=9,
        rtol=None,
        atol=None,
        output=tmp_path / "out",
        reduce_to=None,
    )
    return write_document(handed_over)


@pytest.mark.parametrize(
    ("version", "found"), [(1, "found 'board'"), (None, "found 'board'"), (2, "update this one")]
)
def test_a_job_of_any_version_up_to_this_one_is_read(
    tmp_path: Path, job: dict[str, Any], version: int | None, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The platform is none of the stack's: a job that is read ends with that."""
    assert job.pop("schema_version") == 1
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job if version is None else {**job, "schema_version": version}))
    assert main(file) == ERROR
    assert found in capsys.readouterr().err


def test_each_line_says_whether_it_is_of_the_localization_or_of_the_reduction(
    tmp_path: Path, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def localize(_request: object, *, on_progress: Callable[[str], None]) -> SimpleNamespace:
        on_progress("recording")
        return SimpleNamespace(has_findings=True, stall=None)

    def shrink(_request: object, *, on_progress: Callable[[str], None]) -> None:
        on_progress("1 task left")

    monkeypatch.setattr("precision_bisect.reduce.reduce_command.localize", localize)
    monkeypatch.setattr("precision_bisect.reduce.reduce_command.shrink", shrink)
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job | {"platform": "sim", "reduce_to": str(tmp_path / "reduced")}))
    assert main(file) == FOUND
    assert capsys.readouterr().err.splitlines() == ["localizing: recording", "reducing: 1 task left"]


@pytest.mark.parametrize(
    ("rtol", "atol", "tolerance"), [(1e-3, 1e-4, Tolerance(rtol=1e-3, atol=1e-4)), (None, None, Tolerance())]
)
def test_the_tolerance_of_the_case_says_what_a_reduction_keeps(
    rtol: float | None,
    atol: float | None,
    tolerance: Tolerance,
    tmp_path: Path,
    job: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Tolerance] = []

    def shrink(request: ShrinkRequest, *, on_progress: object) -> None:
        asked.append(request.tolerance)

    found = SimpleNamespace(has_findings=True, stall=None)
    monkeypatch.setattr("precision_bisect.reduce.reduce_command.localize", lambda *_, **__: found)
    monkeypatch.setattr("precision_bisect.reduce.reduce_command.shrink", shrink)
    changed = {"platform": "sim", "reduce_to": str(tmp_path / "reduced"), "rtol": rtol, "atol": atol}
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job | changed))
    assert main(file) == FOUND
    assert asked == [tolerance]
