"""A harmless difference is never what a reduction ends at."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from precision_bisect.reduce.reduce_cli import main
from precision_bisect.reduce.replay.replay import Replayer, WorkingCopy
from precision_bisect.reduce.shrink.oracle import KernelSwap
from precision_bisect.reduce.shrink.program import Candidate
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.store.vocabulary import Verdict
from tests.demo.minirt_support import SCALE
from tests.reduce.demo_builds import Trees
from tests.reduce.quick_runs import quick_runs
from tests.reduce.small_builds import SHIFT, WRONG, small_build

ROUNDING = SCALE.replace("2.0f", "2.0000002f")


@pytest.mark.long
def test_a_rounding_difference_before_the_fault_is_passed_over(tmp_path: Path, good_trees: Trees) -> None:
    bad, good = small_build(tmp_path / "bad", WRONG), small_build(tmp_path / "good", SHIFT)
    (scale,) = (bad / "kernels").rglob("scale.cpp")
    text = scale.read_text()
    assert SCALE in text
    scale.write_text(text.replace(SCALE, ROUNDING))
    output = tmp_path / "out"
    arguments = [str(bad), "--reference", str(good), "--stack", str(good_trees.stack_file), "-o", str(output)]
    with quick_runs():
        done = CliRunner().invoke(main, [*arguments, "--jobs", "1", "--quiet"])
    assert done.exit_code == 0, done.output
    found = json.loads((output / "reduction.json").read_text())
    assert found["kept_tasks"] == ["1: middle"]
    assert found["kernels"]["after"] == 1


def test_what_differs_is_put_alone_into_the_good_build_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[str], list[int]]] = []

    def flips(_swap: KernelSwap, differences: Any) -> bool:
        asked.append((sorted(differences.kernels), sorted(differences.missing)))
        return bool(differences.kernels)

    monkeypatch.setattr(KernelSwap, "_reproduces_failure", flips)
    monkeypatch.setattr(KernelSwap, "_wrong_outputs", {"y": 1.0})
    monkeypatch.setattr(KernelSwap, "_same_program", lambda _swap, _candidate: True)
    kernels = ("rounding", "wrong", "lost")
    pair: Any = SimpleNamespace(
        missing=frozenset({2}),
        submitted_tasks=lambda candidate: tuple(task for task in candidate.tasks if task != 2),
        order=SimpleNamespace(
            whole=Candidate((0, 1, 2)),
            kernels=lambda candidate: frozenset(kernels[task] for task in candidate.tasks),
        ),
    )
    swap = KernelSwap(
        pair=pair,
        differing=("rounding", "wrong"),
        differ_elsewhere=False,
        tolerance=Tolerance(),
        folder=tmp_path,
        timeout=1,
    )
    answers = [
        swap.may_explain(candidate)
        for candidate in [
            Candidate((0, 2)),
            Candidate((0, 2), collapsed=("rounding",)),
            Candidate((0, 2), collapsed=("rounding",)),
            Candidate((0,), collapsed=("rounding",)),
            Candidate((0, 1, 2)),
        ]
    ]
    assert answers == [True, False, False, False, True]
    assert asked == [(["rounding"], [2]), ([], [2])]
    elsewhere = replace(swap, differ_elsewhere=True)
    assert elsewhere.may_explain(Candidate((0,), collapsed=("rounding",)))


def test_a_run_in_which_the_machine_failed_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same differences are run again for the next candidate."""
    verdicts = [Verdict.ENVIRONMENT_ERROR, Verdict.CRASH]

    def classify(_replayer: Replayer, *_arguments: object, **_options: object) -> SimpleNamespace:
        return SimpleNamespace(classification=SimpleNamespace(verdict=verdicts.pop(0)), outputs=None)

    monkeypatch.setattr(Replayer, "classify", classify)
    monkeypatch.setattr(KernelSwap, "_wrong_outputs", {"y": 1.0})
    monkeypatch.setattr(KernelSwap, "_same_program", lambda _swap, candidate: candidate == Candidate((0,)))
    build = small_build(tmp_path / "good", SHIFT)
    side = SimpleNamespace(
        copy=WorkingCopy(build),
        outputs=SimpleNamespace(),
        toolchain=SimpleNamespace(),
        arguments=(),
        data=SimpleNamespace(inputs=SimpleNamespace(folder=SimpleNamespace(root=build / "data" / "in"))),
    )
    pair: Any = SimpleNamespace(
        missing=frozenset(),
        submitted_tasks=lambda candidate: candidate.tasks,
        order=SimpleNamespace(whole=Candidate((0, 1)), kernels=lambda _candidate: frozenset({"scale"})),
        reference=side,
        failing=side,
    )
    swap = KernelSwap(
        pair=pair,
        differing=("scale",),
        differ_elsewhere=False,
        tolerance=Tolerance(),
        folder=tmp_path / "swaps",
        timeout=1,
    )
    monkeypatch.setattr("precision_bisect.reduce.shrink.oracle.take_kernel", lambda *_: None)
    assert swap.may_explain(Candidate((0,))) is None
    assert swap.may_explain(Candidate((0,)))
