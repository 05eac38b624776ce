"""Dumps of two runs compared task by task, of real runs and of small ones whose fault is known."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precision_bisect.reduce.scene import DumpedRun, compare_dumps
from precision_bisect.runner.build_output.args_dump import ArgsDump
from precision_bisect.runner.build_output.directory import BuildDirectory, KernelConfig
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.localization import Divergence
from tests.runner.build_output.build_files import KERNEL_CONFIG, record, write_dump

RECORDED = Path(os.environ.get("PRECISION_BISECT_RECORDED", "/work/shared/data"))
KERNELS = {0: "scale", 1: "add"}
Row = tuple[int, int, str, str, Sequence[float]]
"""Task, argument, role, stage, values."""

GOOD: list[Row] = [
    (1, 0, "input", "before_dispatch", [1, 2]),
    (1, 1, "output", "after_completion", [2, 4]),
    (2, 0, "input", "before_dispatch", [2, 4]),
    (2, 1, "inout", "before_dispatch", [0, 0]),
    (2, 1, "inout", "after_completion", [3, 5]),
]


def dumped(folder: Path, rows: Sequence[Row], **fields: Any) -> DumpedRun:
    """A run that left these tensors; task N runs kernel N - 1, and has a scalar where `scalars` gives one."""
    scalars: dict[int, float] = fields.get("scalars", {})
    records: list[dict[str, Any]] = [
        record(
            *(task, 5),
            func_id=[task - 1],
            kind="scalar",
            value=value,
            shape=[],
            strides=[],
            numel=1,
            bin_size=0,
        )
        for task, value in scalars.items()
    ]
    payload = b""
    for task, argument, role, stage, values in rows:
        data = np.array(values, "<f4").tobytes()
        geometry = {"shape": [len(values)], "strides": [1], "numel": len(values)}
        place = {"bin_offset": len(payload), "bin_size": len(data)}
        flaw = {"truncated": (task, argument) == fields.get("truncated")}
        known = {"func_id": [-1 if fields.get("prepared") else task - 1]}
        records.append(record(task, argument, role=role, stage=stage, **geometry, **place, **flaw, **known))
        payload += data
    write_dump(folder, records, payload)
    return DumpedRun(folder=folder, dump=ArgsDump.open(folder), kernels=KERNELS)


def changed(rows: Sequence[Row], at: Mapping[tuple[int, int, str], Sequence[float]]) -> list[Row]:
    """The rows with other values at (task, argument, stage)."""
    return [(*row[:4], at.get((row[0], row[1], row[3]), row[4])) for row in rows]


def compared(
    tmp_path: Path, bad: Sequence[Row], *, tolerance: Tolerance | None = None, **fields: Any
) -> Divergence:
    return compare_dumps(
        dumped(tmp_path / "bad", bad, **fields),
        dumped(
            tmp_path / "good", GOOD, **({**fields, "scalars": {1: 2.0}} if "scalars" in fields else fields)
        ),
        platform="sim",
        tolerance=tolerance,
    )


def shown(found: Divergence) -> list[tuple[str, str, int, str]]:
    return [(each.task_id[-1], each.kernel, each.argument, each.task_class) for each in found.first_divergent]


WRONG_FIRST = {
    (1, 1, "after_completion"): [2, 9],
    (2, 0, "before_dispatch"): [2, 9],
    (2, 1, "after_completion"): [3, 10],
}


def test_a_difference_begins_where_a_task_was_given_the_same(tmp_path: Path) -> None:
    found = compared(tmp_path, changed(GOOD, WRONG_FIRST))
    assert shown(found) == [("1", "scale", 1, "introduced")]
    assert found.first_divergent[0].reason == "all that it was given is the same in both runs"
    statistics = found.first_divergent[0].statistics
    assert statistics is not None
    assert (statistics.different, statistics.elements, statistics.max_error) == (1, 2, 5.0)
    assert found.has_findings


def test_a_kernel_list_tells_names_and_sources(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "kernel_config.py").write_text(KERNEL_CONFIG)
    config = KernelConfig.open(tmp_path / "build")
    names = {number: kernel.name for number, kernel in config.kernels.items()}
    bad, good = (
        replace(dumped(tmp_path / name, rows), kernels=names, config=config)
        for name, rows in (("bad", changed(GOOD, WRONG_FIRST)), ("good", GOOD))
    )
    (first,) = compare_dumps(bad, good, platform="sim", tolerance=None).first_divergent
    assert (first.kernel, first.kernel_sources) == ("square", ("kernels/aiv/square.cpp",))
    assert first.orchestration_source == "orchestration/sums.cpp"


def test_equal_dumps_explain_nothing(tmp_path: Path) -> None:
    assert not compared(tmp_path, GOOD).has_findings


def test_a_prepared_graph_names_no_kernel_and_is_compared_all_the_same(tmp_path: Path) -> None:
    found = compared(tmp_path, changed(GOOD, WRONG_FIRST), prepared=True)
    assert shown(found) == [("1", "unnamed", 1, "introduced")]


def test_a_task_that_is_submitted_with_another_scalar_is_where_it_begins(tmp_path: Path) -> None:
    found = compared(tmp_path, changed(GOOD, WRONG_FIRST), scalars={1: 3.0})
    assert shown(found) == [("1", "scale", 1, "introduced")]
    assert found.first_divergent[0].reason == (
        "it is submitted differently: scalar argument 5 is 3.0, in the good run 2.0"
    )


def test_what_is_within_the_case_s_tolerance_is_passed_over(tmp_path: Path) -> None:
    bad = changed(
        GOOD,
        {
            (1, 1, "after_completion"): [2, 4.00001],
            (2, 0, "before_dispatch"): [2, 4.00001],
            (2, 1, "after_completion"): [3, 8],
        },
    )
    found = compared(tmp_path, bad, tolerance=Tolerance(rtol=1e-3, atol=1e-3))
    assert shown(found) == [("2", "add", 1, "introduced")]
    assert [task.kernel for task in found.rounding] == ["scale"]
    assert (found.rtol, found.atol) == (1e-3, 1e-3)
    assert shown(compared(tmp_path, bad)) == [("1", "scale", 1, "introduced")]


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ((2, 0, "before_dispatch"), "argument 0 is not the same"),
        ((2, 1, "before_dispatch"), "argument 1 is not"),
    ],
)
def test_a_difference_that_no_task_makes_is_nobody_s(
    tmp_path: Path, place: tuple[int, int, str], what: str
) -> None:
    found = compared(tmp_path, changed(GOOD, {place: [7, 7], (2, 1, "after_completion"): [8, 8]}))
    assert shown(found) == [("2", "add", 1, "unknown")]
    assert found.first_divergent[0].reason.startswith(what)


def test_a_task_that_no_dump_holds_whole_is_not_compared(tmp_path: Path) -> None:
    found = compared(tmp_path, changed(GOOD, WRONG_FIRST), truncated=(1, 1))
    assert found.not_compared
    assert all("truncated" in text for text in found.not_compared)
    assert [task_class for *_, task_class in shown(found)] == ["unknown"]


def test_tasks_that_do_not_correspond_are_listed(tmp_path: Path) -> None:
    bad = [*changed(GOOD, WRONG_FIRST), (3, 0, "input", "before_dispatch", [1.0])]
    bad[1] = (1, 1, "output", "after_completion", [2, 9, 9])
    found = compared(tmp_path, bad)
    assert [task.task_id[-1] for task in found.unaligned] == ["1", "3"]
    assert [task.task_id[-1] for task in found.unaligned_reference] == ["1"]


@pytest.mark.skipif(not RECORDED.is_dir(), reason="needs the recorded files of real runs")
def test_the_kernel_that_a_real_compiler_broke_is_where_it_begins() -> None:
    bad, good = (
        DumpedRun(
            folder=build.folder.root,
            dump=build.args_dump(),
            kernels=build.read_name_maps(),
        )
        for build in (BuildDirectory.open(RECORDED / f"chain_level2_{name}") for name in ("bad", "good"))
    )
    found = compare_dumps(bad, good, platform="a2a3sim", tolerance=None)
    assert shown(found) == [("3", "cat", 2, "introduced")]
    assert found.first_divergent[0].pattern is not None
    assert found.first_divergent[0].pattern.name == "permuted blocks"
    assert found.tasks == 6
