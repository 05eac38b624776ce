"""The way of an investigation through the rooms: few stops, few rooms, and never back up."""

from __future__ import annotations

import ast
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest

from precision_bisect.reduce.localize import experiments
from precision_bisect.reduce.localize.investigate import explain_outputs
from precision_bisect.reduce.localize.reference import ReferenceRuns
from precision_bisect.runner.compare.statistics import Tolerance
from tests.reduce.localize.simulated_build import (
    TASK_BYTES,
    SimulatedBuild,
    SimulatedTask,
    add,
    executor_in,
)
from tests.reduce.localize.test_investigation import request_of, rounded_otherwise
from tests.test_layout import imported_at_once

ROOT = Path(__file__).parents[3]
ROOM = ROOT / "reduce"
Stop = tuple[Path, str]
"""A file and a function of it."""


@contextmanager
def noted(calls: list[tuple[Stop, Stop]]) -> Generator[None]:
    """Notes which function of a file of the room calls which one of another file."""

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or frame.f_back is None:
            return
        caller, callee = (Path(each.f_code.co_filename).resolve() for each in (frame.f_back, frame))
        if caller != callee and caller.is_relative_to(ROOM) and callee.is_relative_to(ROOM):
            calls.append(((caller, frame.f_back.f_code.co_name), (callee, frame.f_code.co_name)))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def imported_by_module() -> dict[Path, set[Path]]:
    """The modules of the room, and those that each imports at once, directly or not."""
    files = {*ROOM.rglob("*.py")}
    imports = {file: {used.with_suffix(".py") for used in imported_at_once(file)} & files for file in files}
    while True:
        wider = {file: used.union(*(imports[other] for other in used)) for file, used in imports.items()}
        if wider == imports:
            return imports
        imports = wider


def properties(file: Path) -> set[str]:
    """Names of the properties that classes of a file have."""
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(each, ast.Name) and "property" in each.id for each in node.decorator_list)
    }


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Stop, Stop]]:
    """Of an investigation that tries orders, searches in several runs, and looks past rounding and below it."""
    monkeypatch.setattr(experiments, "TaskReplayer", SimulatedTask)
    wrong = {0: rounded_otherwise, 1: add(1.5)}
    good = SimulatedBuild.of(tmp_path / "good").with_outputs(tmp_path / "right")
    bad = SimulatedBuild.of(tmp_path / "bad", wrong, tolerance=Tolerance(rtol=1e-3, atol=1e-3))
    bad = bad.with_outputs(tmp_path / "wrong")
    bad.replayer.toolchain = SimpleNamespace(stack=SimpleNamespace(schedules={}))
    for build in (good, bad):
        ran = SimpleNamespace(outputs=build.outputs)
        monkeypatch.setattr(build, "run", lambda *, schedule, ran=ran: ran, raising=False)
        monkeypatch.setattr(build, "restore", lambda: None, raising=False)
    monkeypatch.setattr(ReferenceRuns, "orders", lambda *_ordinals: None)
    request = replace(request_of(bad, tmp_path, Tolerance()), budget=4 * TASK_BYTES)
    expected = ReferenceRuns.align(bad.recorded, good.recorded)
    made: list[tuple[Stop, Stop]] = []
    with noted(made):
        findings = executor_in(tmp_path).execute(explain_outputs(request, bad.recorded, expected))
    assert [task.ordinal for task in findings.parts[0].attributed.rounding] == [0]
    assert findings.parts[0].race is not None
    return made


@pytest.mark.long
def test_no_call_leads_into_a_module_above(calls: list[tuple[Stop, Stop]]) -> None:
    imported = imported_by_module()
    up = {
        f"{caller[0].relative_to(ROOT)} -> {callee[0].relative_to(ROOT)}"
        for caller, callee in calls
        if caller[0] in imported[callee[0]]
        and caller[0].name != "experiments.py"  # where the executor resumes what asked it
    }
    assert up == set()


def test_an_investigation_stops_at_few_places_in_few_rooms(calls: list[tuple[Stop, Stop]]) -> None:
    """Reading a property of a value that is at hand is no stop, and no operator on it is one."""
    stops = {
        (file, name)
        for (caller, _), (file, name) in calls
        if caller.name == "investigate.py" and name not in properties(file) and not name.startswith("__")
    }
    assert 1 < len(stops) <= 12, stops
    assert len({file.parent for file, _ in stops}) <= 6, stops
