"""The document of a localization: what is written can be read, by this version and as earlier ones wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from precision_bisect.runner.localization import (
    DIVERGENCE,
    Divergence,
    FirstDivergent,
    Localization,
    OrderConfirmation,
    OrderTrial,
    TensorStatistics,
    divergence_schema_text,
    read_divergence,
    read_reduction,
)

KEPT = Path(__file__).parents[2] / "store" / "f499ad2"
TENSOR = {
    "task_id": "0x1",
    "kernel": "scale",
    "kernel_sources": ["kernels/scale.cpp"],
    "orchestration_source": "orchestration/main.cpp",
    "orchestration_lines": [3],
    "argument": 1,
    "tensor": "b",
    "reason": "alone the kernel is wrong",
    "pattern": None,
    "statistics": None,
}
"""What a report of f499ad2 kept of a divergent tensor, but for its class."""
OLD = {
    "failing_build": "bad",
    "first_divergent": [TENSOR | {"task_class": "introduced"}],
    "missing_edges": [
        {
            "before_kernel": "product",
            "after_kernel": "product_acc",
            "hazard": "write after write",
            "cause": "add_output where add_inout belongs, if the kernel reads what was there",
            "ordered_in_reference": True,
        }
    ],
    "race": {"confirmed": True},
    "generated": {"first_pass": {"number": 3, "name": "LegalizeCasts"}, "origin": None, "shown": "open"},
}
"""What f499ad2 kept of a localization in a bisection's conclusion, and in report.json; it bears no version."""


@pytest.mark.parametrize("believed", [True, False])
def test_a_stall_is_a_finding_only_where_the_build_is_to_blame(*, believed: bool) -> None:
    stall = {"believed": believed, "reason": "", "completed": 1, "total": 2, "tasks": ()}
    assert Divergence.model_validate({"failing_build": "bad", "stall": stall}).has_findings == believed


def test_a_document_without_a_version_still_loads() -> None:
    divergence = Divergence.model_validate(OLD)
    assert divergence.schema_version == 1
    assert divergence.first_divergent[0].task_class == "introduced"
    assert divergence.first_divergent[0].position is None
    assert divergence.reference is None
    assert divergence.race is not None
    assert divergence.race.trials == ()
    kept = {
        "status": "found",
        "message": "a against b",
        "divergence": OLD,
        "reduction": None,
        "reduced": None,
    }
    assert Localization.model_validate(kept).divergence == divergence


@pytest.mark.parametrize("key", ["class", "task_class"])
def test_the_class_is_read_under_both_of_its_keys(key: str) -> None:
    tensor = FirstDivergent.model_validate(TENSOR | {key: "interaction"})
    assert tensor.task_class == "interaction"
    assert tensor.model_dump(by_alias=True)["class"] == tensor.model_dump()["task_class"] == "interaction"


@pytest.mark.parametrize("by_alias", [True, False])
def test_what_is_written_is_read_again(tmp_path: Path, by_alias: bool) -> None:
    divergence = Divergence.model_validate(OLD)
    (tmp_path / DIVERGENCE).write_text(divergence.model_dump_json(by_alias=by_alias))
    assert read_divergence(tmp_path) == divergence


def test_a_later_document_that_only_adds_is_read(tmp_path: Path) -> None:
    later = OLD | {"hint": 1, "first_divergent": [TENSOR | {"class": "introduced", "owner": "x"}]}
    (tmp_path / DIVERGENCE).write_text(json.dumps(later))
    assert read_divergence(tmp_path) == Divergence.model_validate(OLD)


@pytest.mark.parametrize("text", ["{", "[]", '{"failing_build": 3}', json.dumps(OLD | {"schema_version": 2})])
def test_what_cannot_be_understood_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / DIVERGENCE).write_text(text)
    assert read_divergence(tmp_path) is None
    assert read_reduction(tmp_path) is None


def test_earlier_documents_keep_to_the_published_schema() -> None:
    schema: dict[str, Any] = json.loads(divergence_schema_text())
    assert {"schema_version", "first_divergent", "reference"} <= schema["properties"].keys()
    assert "class" in schema["$defs"]["FirstDivergent"]["properties"]
    jsonschema.validate(OLD, schema)


def test_an_order_is_confirmed_by_all_its_runs() -> None:
    trial = OrderTrial(schedule="reverse", variables={}, runs=4, failed=4, stopped=0)
    passing = trial.model_copy(update={"schedule": "serial", "failed": 0})
    assert (trial.passed_runs, passing.passed_runs) == (0, 4)
    assert OrderConfirmation(failing=trial, passing=passing).holds
    stopped = passing.model_copy(update={"stopped": 1})
    assert not OrderConfirmation(failing=trial, passing=stopped).holds


def test_what_f499ad2_left_in_a_folder_is_read() -> None:
    divergence, reduction = read_divergence(KEPT), read_reduction(KEPT)
    assert divergence is not None
    assert {tensor.kernel for tensor in divergence.first_divergent} == {"total"}
    assert divergence.first_divergent[0].statistics is not None
    assert divergence.reference is not None
    assert reduction is not None
    assert (reduction.tasks.before, reduction.tasks.after) == (12, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_error": 0.5, "max_error_index": (1, 2), "max_ulps": 7}, "absolute error 0.5 at [1, 2]"),
        ({"nan": 3}, "3 NaN"),
        ({"nan": 3, "inf": 1, "max_error": 2.0}, "3 NaN, 1 Inf, absolute error 2"),
        ({}, "-0.0 stands for 0.0 or the other way round"),
    ],
)
def test_how_far_a_tensor_is_off_in_words(changes: dict[str, Any], words: str) -> None:
    none = dict.fromkeys(("max_error", "max_ulps", "nan", "inf"), 0)
    sizes = {"elements": 6, "different": 2, "rows": 2, "rows_different": 1, "first_rows_different": (1,)}
    statistics = TensorStatistics.model_validate(
        {"dtype": "float32", "shape": (2, 3), **sizes, **none, **changes}
    )
    assert statistics.worst == words
