"""The benchmark's kinds of faults: each has a place in the demo's cases, changes what it says, and grades are right."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.localize.faults.answer import Grade, grade
from benchmarks.localize.faults.draw import FAMILIES
from benchmarks.localize.faults.fault import Cause, Change, Ending, Fault
from benchmarks.localize.faults.sources import InapplicableError, Sources
from precision_bisect.runner.localization import BuildChange, Divergence, FailureCause, FirstDivergent
from tests.reduce.demo_builds import Trees

pytestmark = pytest.mark.xdist_group("localize")
CASES = ("attention_decode", "quant_matmul", "rms_norm")


def divergence(*entries: tuple[str, str, str]) -> Divergence:
    """That names these kernels, tensors and classes."""
    return Divergence.model_validate(
        {
            "failing_build": "bad",
            "first_divergent": [
                FirstDivergent.model_validate(
                    {
                        "task_id": "0x1",
                        "kernel": kernel,
                        "orchestration_source": "o.cpp",
                        "argument": 0,
                        "tensor": tensor,
                        "class": task_class,
                    }
                )
                for kernel, tensor, task_class in entries
            ],
        }
    )


def fault(*causes: Cause, ending: Ending = Ending.MISMATCH) -> Fault:
    return Fault(Sources("", {}), causes, ending)


GOOD = Sources("", {})
ADD = Cause(frozenset({"add"}), frozenset({"sum"}), Change.KERNEL)


def test_an_answer_is_right_only_with_task_tensor_class_and_change() -> None:
    assert grade(GOOD, fault(ADD), divergence(("add", "sum", "introduced"))) is Grade.FIRST
    assert grade(GOOD, fault(ADD), divergence(("mul", "y", "introduced"), ("add", "sum", "introduced"))) is (
        Grade.AMONG_THREE
    )
    assert grade(GOOD, fault(ADD), divergence(("add", "other", "introduced"))) is Grade.WRONG
    assert grade(GOOD, fault(ADD), divergence(("add", "sum", "interaction"))) is Grade.WRONG
    assert grade(GOOD, fault(ADD), divergence()) is Grade.NOTHING
    assert grade(GOOD, fault(ADD), None) is Grade.ERROR


@pytest.mark.parametrize("moved", ["- add_scalar(a);", "+ add_scalar(b);"])
def test_of_lines_that_change_places_either_is_the_change(moved: str) -> None:
    good, bad = (Sources(f"add_scalar({x});\nadd_scalar({y});\nsubmit();\n", {}) for x, y in ("ab", "ba"))
    cause = Cause(frozenset({"add"}), frozenset({"sum"}), Change.SCALAR)
    planted = Fault(bad, (cause,), Ending.MISMATCH)

    def answer(line: str) -> Divergence:
        told = FailureCause(
            what="",
            kind="submission",
            confirmed=True,
            effect=1.0,
            changes=(BuildChange(part="orchestration", diff=(line,)),),
            kernel="add",
            task_class="introduced",
            tensor="sum",
        )
        return divergence().model_copy(update={"causes": (told,)})

    assert grade(good, planted, answer(moved)) is Grade.FIRST
    assert grade(good, planted, answer("- submit();")) is Grade.WRONG


def test_in_a_build_that_passes_only_silence_is_right() -> None:
    assert grade(GOOD, fault(ending=Ending.PASS), divergence()) is Grade.CLEARED
    assert grade(GOOD, fault(ending=Ending.PASS), divergence(("add", "sum", "introduced"))) is Grade.BLAMED


@pytest.mark.long
def test_each_kind_has_a_place_and_changes_the_sources(tmp_path: Path, good_trees: Trees) -> None:
    builds = [good_trees.build(f"cases/{case}.py", tmp_path / case, "--save-data") for case in CASES]
    good = [Sources.read(build) for build in builds]
    for family, kinds in FAMILIES.items():
        for name, kind in kinds.items():
            changed = 0
            for sources in good:
                for seed in range(10):
                    try:
                        planted = kind(sources, random.Random(seed))
                    except InapplicableError:
                        continue
                    assert planted.sources != sources
                    assert planted.causes or planted.ending is Ending.PASS
                    changed += 1
            assert changed, f"{family}: {name} has no place"
