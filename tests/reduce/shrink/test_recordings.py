"""A build that passes as it is, and fails in an order that a schedule of the stack file brings about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from precision_bisect.reduce.replay.toolchain import Toolchain
from precision_bisect.reduce.shrink import result
from precision_bisect.reduce.shrink.result import PairRecorder, ShrinkRequest
from precision_bisect.runner.case.case import freeze
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.errors import UserError
from tests.demo.minirt_support import elementwise, orchestration, write_build
from tests.reduce.demo_builds import Trees
from tests.reduce.small_builds import SHIFT, small_build

_KERNELS = {
    "copy": elementwise("store(1, i, load(0, i));"),
    "add": elementwise("store(1, i, load(1, i) + load(0, i));"),
}
_BODY = """
PTO2_SCOPE() {
    CoreTaskArgs p0;
    p0.add_input(x0);
    p0.add_output(x1);
    rt_submit_aiv_task(0, p0);
    CoreTaskArgs p1;
    p1.add_input(x0);
    p1.add_DECLARED(x1);
    rt_submit_aiv_task(1, p1);
}
"""


def _racing(folder: Path, declared: str) -> Path:
    """x1 = 2 x0; the second task adds to what the first one left, and waits for it if that is declared."""
    build = write_build(folder, orchestration(_BODY.replace("DECLARED", declared), 2), _KERNELS)
    config = build / "kernel_config.py"
    named = '"function_name": "aicpu_orchestration_entry"'
    config.write_text(
        "from types import ArgDirection as _D\n"
        + config.read_text().replace(named, f'{named}, "signature": [_D.IN, _D.OUT]')
    )
    x0 = torch.arange(1, 9, dtype=torch.float32)
    for name, value in {"in/x0": x0, "out/x1": 2 * x0}.items():
        path = build / "data" / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(value, path)
    return build


def _recorder(folder: Path, failing: Path, good: Path, toolchain: Toolchain) -> PairRecorder:
    asked = ShrinkRequest(
        failing=failing,
        reference=good,
        failing_toolchain=toolchain,
        reference_toolchain=toolchain,
        golden_data=None,
        tolerance=Tolerance(),
        output=folder / "out",
        jobs=1,
        budget=None,
        resume=False,
        timeout=300,
    )
    golden = freeze(good / "data", folder / "golden")
    return PairRecorder(request=asked, golden=golden, folder=folder / "work", on_progress=lambda _: None)


def test_a_race_that_passes_as_it_is_is_recorded_in_an_order_in_which_it_fails(
    tmp_path: Path, good_trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "MAX_RUNS", 1)
    serial = replace(good_trees.toolchain(), variables={"MINIRT_ORDER": "serial"})
    bad, good = _racing(tmp_path / "bad", "output"), _racing(tmp_path / "good", "inout")
    recorded = _recorder(tmp_path, bad, good, serial).record()
    assert recorded.pair.failing.toolchain.schedule == "reverse"
    assert recorded.pair.reference.toolchain.schedule is None
    assert recorded.pair.divergent_tasks


def test_what_was_tried_is_said(tmp_path: Path, good_trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "MAX_RUNS", 1)
    good = small_build(tmp_path / "good", SHIFT)
    with pytest.raises(UserError, match=r"found 1, and one under each of .*, in which none does$"):
        _recorder(tmp_path, good, good, good_trees.toolchain()).record()


def test_a_task_that_is_not_submitted_is_the_first_that_went_wrong(
    tmp_path: Path, good_trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "MAX_RUNS", 1)
    ordered = good_trees.toolchain().with_schedule("serial")
    good, bad = _racing(tmp_path / "good", "inout"), _racing(tmp_path / "bad", "inout")
    source = bad / "orchestration" / "main.cpp"
    source.write_text(source.read_text().replace("    rt_submit_aiv_task(1, p1);\n", ""))
    recorded = _recorder(tmp_path, bad, good, ordered).record()
    pair = recorded.pair
    assert recorded.reason == "It does not submit task 1 of the good build (`add`)."
    assert (pair.missing, pair.divergent_tasks, recorded.first_wrong) == ({1}, (1,), 1)
    found, expected = (
        np.ravel(one[1].contiguous()) for one in (pair.actual_values(1), pair.expected_values(1))
    )
    assert (2 * found).tolist() == expected.tolist() == [2.0 * value for value in range(1, 9)]
