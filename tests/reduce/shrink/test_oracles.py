"""What counts as the failure: a crash against a good build, a user's script with golden data alone, a scene test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from precision_bisect.demo.scenarios import DemoRepository
from precision_bisect.reduce.reduce_cli import main
from precision_bisect.reduce.replay.replay import FinishedRun
from precision_bisect.reduce.scene import write_scene_test
from precision_bisect.reduce.shrink import oracle
from precision_bisect.reduce.shrink.minimize import Answer
from precision_bisect.reduce.shrink.oracle import (
    BrokenRun,
    DifferentialOracle,
    WrongValues,
    parse_outputs,
)
from precision_bisect.reduce.shrink.program import Candidate, Cut
from precision_bisect.reduce.shrink.program_text import CandidateBuild
from precision_bisect.runner.build_output.directory import BuildDirectory
from precision_bisect.runner.case.preflight import entry_arguments
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.process.run import Command, execute
from precision_bisect.runner.tensor import DType, TensorView
from precision_bisect.runner.verdict.classify import Classification
from precision_bisect.store.vocabulary import Verdict
from tests.reduce.demo_builds import Trees
from tests.reduce.quick_runs import quick_runs
from tests.reduce.shrink.test_reduction import checked
from tests.reduce.small_builds import (
    BLOCK_SHIFT,
    BLOCK_WRONG,
    CRASH,
    HARD_SHIFT,
    HARD_WRONG,
    SHIFT,
    WRONG,
    small_build,
)

pytestmark = pytest.mark.xdist_group("reduction")
NOTHING_MADE = CandidateBuild(path=Path(), cut=Cut(program=None, tasks=(), tensors=(), boundaries=()))  # type: ignore[arg-type]


def ran(folder: Path, verdict: Verdict, signature: str | None) -> FinishedRun:
    """A real process's ending and log, with a verdict."""
    command = Command(argv=["true"], cwd=folder, environment=dict(os.environ), timeout=60)
    finished = execute(command, log=folder / "run.log.gz", on_line=lambda _stream, _line: None)
    found = Classification(verdict=verdict, signature=signature, evidence=(), metrics={})
    return FinishedRun(classification=found, ending=finished.ending, seconds=0.0, folder=folder)


@pytest.mark.parametrize(
    ("verdict", "signature", "expected"),
    [
        (Verdict.CRASH, "SIGSEGV", Answer.INTERESTING),
        (Verdict.CRASH, "SIGFPE", Answer.SLIPPED),
        (Verdict.STALL, "scheduler timeout", Answer.SLIPPED),
        (Verdict.MISMATCH, "y", Answer.SLIPPED),
        (Verdict.PASS, None, Answer.PASSED),
        (Verdict.ENVIRONMENT_ERROR, "disk full", Answer.INVALID),
    ],
)
def test_another_signature_is_another_failure(
    verdict: Verdict, signature: str | None, expected: Answer, tmp_path: Path
) -> None:
    found = ran(tmp_path, verdict, signature)
    assert BrokenRun(Verdict.CRASH, "SIGSEGV").judge(found, NOTHING_MADE) is expected


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict.PASS, Answer.INTERESTING),
        (Verdict.MISMATCH, Answer.SLIPPED),
        (Verdict.ENVIRONMENT_ERROR, Answer.INVALID),
    ],
)
def test_a_twin_that_the_machine_failed_judges_nothing(
    verdict: Verdict, expected: Answer, tmp_path: Path
) -> None:
    runs = [ran(tmp_path, Verdict.CRASH, "SIGSEGV"), ran(tmp_path, verdict, None)]
    side: Any = SimpleNamespace(toolchain=None)
    pair: Any = SimpleNamespace(
        submitted_tasks=lambda _: (0,), reference_tasks=lambda _: (0,), failing=side, reference=side
    )
    maker: Any = SimpleNamespace(
        make=lambda *_: (NOTHING_MADE, NOTHING_MADE), runner=SimpleNamespace(run=lambda *_: runs.pop(0))
    )
    judge = DifferentialOracle(pair=pair, failure=BrokenRun(Verdict.CRASH, "SIGSEGV"), maker=maker).judge
    assert judge(Candidate((0,)), tmp_path / "candidate") is expected


def test_outputs_of_a_signature() -> None:
    assert parse_outputs(None) == {}
    assert parse_outputs("k[nan,inf],out") == {"k": frozenset({"nan", "inf"}), "out": frozenset()}
    assert parse_outputs("k[nan],out,+6 #2b83d980").keys() == {"k", "out"}


@pytest.fixture
def reduced(tmp_path: Path, good_trees: Trees) -> Iterator[Callable[..., tuple[dict[str, Any], str]]]:
    """Runs the command; the result, checked, and what it printed on the way."""

    def run(*arguments: Path | str) -> tuple[dict[str, Any], str]:
        command = [*map(str, arguments), "--stack", str(good_trees.stack_file), "-o", str(tmp_path / "out")]
        done = CliRunner().invoke(main, [*command, "--jobs", "1"])
        assert done.exit_code == 0, done.output
        return checked(tmp_path / "out"), done.stderr

    with quick_runs():
        yield run


@pytest.mark.long
def test_a_crash_against_a_good_build(tmp_path: Path, reduced: Callable[..., Any]) -> None:
    bad, good = (small_build(tmp_path / name, body) for name, body in (("bad", CRASH), ("good", SHIFT)))
    found, _ = reduced(bad, "--reference", good)
    assert found["failure"] == found["signature"] == "crash SIGSEGV"
    assert found["kept_tasks"] == ["1: middle"]


LAUNCH = """
    const int32_t blocks = 4;
    p1.launch_spec.set_block_num(blocks);
"""


@pytest.mark.long
def test_wrong_values_in_one_block_in_the_smallest_shape_on_plain_data(
    tmp_path: Path, reduced: Callable[..., Any]
) -> None:
    bodies = (("bad", BLOCK_WRONG), ("good", BLOCK_SHIFT))
    bad, good = (small_build(tmp_path / name, body, LAUNCH) for name, body in bodies)
    found, _ = reduced(bad, "--reference", good)
    assert found["signature"] == "mismatch b"
    assert found["kept_tasks"] == ["1: middle"]
    assert (found["blocks"], found["extents"]) == ([[1, 1]], [[8, 1]])
    assert found["bytes"]["after"] == 8
    result = tmp_path / "out" / "result"
    assert "| `b` | [] | 1 of 1 | 0 |" in (result / "why.md").read_text()
    for side in ("failing", "passing"):
        text = (result / side / "orchestration" / "main.cpp").read_text()
        assert "p1.launch_spec.set_block_num(1);" in text
        assert "int32_t blocks" not in text


@pytest.mark.long
def test_a_kernel_with_its_shape_compiled_in_keeps_it(tmp_path: Path, reduced: Callable[..., Any]) -> None:
    bodies = (("bad", HARD_WRONG), ("good", HARD_SHIFT))
    bad, good = (small_build(tmp_path / name, body) for name, body in bodies)
    found, _ = reduced(bad, "--reference", good)
    assert found["kept_tasks"] == ["1: middle"]
    assert found["extents"] == []
    assert found["bytes"]["after"] == 64


SCRIPT = """#!/bin/sh
grep -q middle kernel_config.py && exec sh -c './run.sh && exit 101; exit 0'
exit 101
"""


@pytest.mark.long
def test_a_script_without_a_good_build(tmp_path: Path, reduced: Callable[..., Any]) -> None:
    bad, script = small_build(tmp_path / "bad", WRONG), tmp_path / "script.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    found, said = reduced(bad, "--interesting", script)
    assert "101 keep a copy" in " ".join(said.split())
    assert found["kept_tasks"] == ["0: scale", "1: middle", "2: scale"]
    assert found["substituted"] == []
    assert any((tmp_path / "out" / "kept").iterdir())


@pytest.mark.long
@pytest.mark.parametrize("signed", [True, False], ids=["", "of before July"])
def test_a_build_runs_as_a_scene_test(tmp_path: Path, good_trees: Trees, signed: bool) -> None:
    build = small_build(tmp_path / "build", WRONG)
    if not signed:
        config = build / "kernel_config.py"
        config.write_text(config.read_text().replace(', "signature": [_D.IN, _D.OUT, _D.OUT]', "", 1))
        assert BuildDirectory.open(build).kernel_config().orchestration.signature is None
    opened = BuildDirectory.open(build)
    arguments = entry_arguments(opened, opened.golden_data())
    script = write_scene_test(build, arguments, Tolerance(rtol=1e-5, atol=1e-5))
    path = os.pathsep.join(str(good_trees.folder / name) for name in DemoRepository)
    done = subprocess.run(
        [sys.executable, str(script), "-p", "a2a3sim"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "TestReduced::default FAILED: Golden mismatch on 'x1': max_diff=1.0" in done.stdout


@pytest.mark.parametrize(
    ("signature", "metrics", "expected"),
    [
        ("y", {"relative_l2": 0.5}, (Answer.INTERESTING, Answer.INTERESTING)),
        ("y", {"relative_l2": 1e-6}, (Answer.SLIPPED, Answer.SLIPPED)),
        ("y", {"relative_l2": 1e6}, (Answer.SLIPPED, Answer.INTERESTING)),
        ("y[nan]", {"not_finite": 0.1}, (Answer.SLIPPED, Answer.INTERESTING)),
        ("z", {"relative_l2": 0.5}, (Answer.SLIPPED, Answer.SLIPPED)),
    ],
)
def test_an_error_is_as_large_as_in_the_whole_run_but_for_tasks_that_may_reach_out_of_a_tensor(
    signature: str,
    metrics: dict[str, float],
    expected: tuple[Answer, Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(oracle, "missing_edges", lambda _tasks: [])  # pyright: ignore[reportUnknownLambdaType]
    tensors = [
        SimpleNamespace(buffer=SimpleNamespace(name=name), writers=frozenset({task}))
        for name, task in [("y", 1), ("z", 2)]
    ]
    made: Any = SimpleNamespace(cut=SimpleNamespace(tensors=tensors, tasks=[SimpleNamespace(ordinal=1)]))
    shown = Classification(
        verdict=Verdict.MISMATCH, signature=signature, evidence=(), metrics={signature[0]: metrics}
    )
    ending: Any = SimpleNamespace(classification=shown)

    def view(value: float) -> dict[int, TensorView]:
        return {0: TensorView.from_contiguous("t", DType.FLOAT32, (1,), np.array([value], np.float32))}

    def outcome(reshaped: set[int]) -> Answer:
        pair: Any = SimpleNamespace(
            divergent_tasks=(1,),
            has_reference=True,
            programs=SimpleNamespace(reshaped_tasks=reshaped),
            actual_values=lambda _task: view(3.0),  # pyright: ignore[reportUnknownLambdaType]
            expected_values=lambda _task: view(2.0),  # pyright: ignore[reportUnknownLambdaType]
            failing=SimpleNamespace(tasks=()),
        )
        return WrongValues(pair).judge(ending, made)

    assert (outcome(set()), outcome({1})) == expected


@pytest.mark.parametrize(("submitted", "by_reference"), [((), (1,)), ((1,), ())])
def test_what_submits_no_task_has_no_wrong_value_and_nothing_is_run(
    submitted: tuple[int, ...], by_reference: tuple[int, ...], tmp_path: Path
) -> None:
    nothing: Any = None
    pair: Any = SimpleNamespace(
        submitted_tasks=lambda candidate: submitted,  # pyright: ignore[reportUnknownLambdaType]
        reference_tasks=lambda candidate: by_reference,  # pyright: ignore[reportUnknownLambdaType]
    )
    oracle = DifferentialOracle(pair=pair, failure=WrongValues(nothing), maker=nothing)
    assert oracle.judge(Candidate((1,)), tmp_path) is Answer.PASSED
