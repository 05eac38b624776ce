"""Localization against recorded values and golden outputs alone, and tensors that the source marks itself."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
import torch

from precision_bisect.reduce.localize.investigate import localize
from precision_bisect.reduce.localize.reference import (
    GoldenOutputs,
    GoodBuild,
    LocalizationRequest,
    RecordedValues,
)
from precision_bisect.runner.build_output.files import BuildOutputError
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.localization import Divergence
from tests.reduce.demo_builds import Trees
from tests.reduce.quick_runs import quick_runs
from tests.reduce.small_builds import SHIFT, WRONG, small_build

pytestmark = pytest.mark.xdist_group("localize")
X0 = torch.arange(8, dtype=torch.float32)
VALUES = {"a": 2 * X0, "b": 2 * X0 + 1, "c": 2 * X0}


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Generator[None]:
    with quick_runs():
        yield


def by_values(
    folder: Path, trees: Trees, recorded: dict[str, torch.Tensor] | None, *, middle: str = WRONG
) -> Divergence:
    """The small build, whose task 1 makes b of a, against the recorded tensors; None: golden outputs alone."""
    build = small_build(folder / "build", middle)
    for name, value in (recorded or {}).items():
        (folder / "recorded").mkdir(exist_ok=True)
        torch.save(value, folder / "recorded" / f"{name}.pt")
    request = LocalizationRequest(
        failing=build,
        toolchain=trees.toolchain(),
        reference=GoldenOutputs(folder=build / "data")
        if recorded is None
        else RecordedValues(folder=folder / "recorded"),
        golden_data=None,
        tolerance=Tolerance(rtol=1e-5, atol=1e-5),
        budget=2**20,
        attempts=1,
        timeout=300,
        output=folder / "out",
    )
    return localize(request, on_progress=lambda _text: None)


def test_all_values_recorded_tell_the_task_and_its_class(tmp_path: Path, good_trees: Trees) -> None:
    found = by_values(tmp_path, good_trees, VALUES)
    (first,) = found.first_divergent
    assert (first.position, first.kernel, first.tensor, first.task_class) == (1, "middle", "b", "introduced")
    assert found.candidates == ()
    assert found.reference is not None
    assert found.reference.kind == "recorded values"
    assert first.statistics is not None
    assert first.statistics.max_error == 0.5


def test_what_has_no_value_stays_a_candidate(tmp_path: Path, good_trees: Trees) -> None:
    found = by_values(tmp_path, good_trees, {"c": VALUES["c"], "a": VALUES["a"]})
    (first,) = found.first_divergent
    assert (first.position, first.tensor, first.task_class) == (2, "x1", "unknown")
    assert [task.kernel for task in found.candidates] == ["middle"]


def test_golden_outputs_alone_name_all_that_may_be_at_fault(tmp_path: Path, good_trees: Trees) -> None:
    found = by_values(tmp_path, good_trees, None)
    (first,) = found.first_divergent
    assert (first.position, first.tensor, first.task_class) == (2, "x1", "unknown")
    assert [task.kernel for task in found.candidates] == ["scale", "middle"]
    assert found.reference is not None
    assert found.reference.kind == "golden data"
    assert "may have come" in first.reason


def test_right_values_show_nothing(tmp_path: Path, good_trees: Trees) -> None:
    found = by_values(tmp_path, good_trees, VALUES, middle=SHIFT)
    assert found.first_divergent == found.candidates == ()


def test_values_that_say_nothing_are_listed(tmp_path: Path, good_trees: Trees) -> None:
    found = by_values(
        tmp_path,
        good_trees,
        {**VALUES, "b": torch.zeros(3), "nowhere": X0, "c": torch.arange(8, dtype=torch.int32)},
    )
    assert [text.split(":")[0] for text in found.not_compared] == ["b", "c", "nowhere"]
    assert [first.tensor for first in found.first_divergent] == ["x1"]


def test_no_usable_value_is_an_error(tmp_path: Path, good_trees: Trees) -> None:
    with pytest.raises(UserError, match="nowhere: no task"):
        by_values(tmp_path, good_trees, {"nowhere": X0})


def test_a_recorded_value_is_never_unpickled(tmp_path: Path, good_trees: Trees) -> None:
    (tmp_path / "recorded").mkdir()
    torch.save({"not": Path("a tensor")}, tmp_path / "recorded" / "b.pt")
    with pytest.raises(BuildOutputError, match="pickle of more than tensors"):
        by_values(tmp_path, good_trees, {})


@pytest.mark.long
def test_a_tensor_that_the_source_marks_is_looked_at_first(tmp_path: Path, good_trees: Trees) -> None:
    bad, good = (small_build(tmp_path / name, body) for name, body in (("bad", WRONG), ("good", SHIFT)))
    for build in (bad, good):
        source = build / "orchestration" / "main.cpp"
        source.write_text(
            source.read_text().replace("p1.add_output(b);", "p1.add_output(b);\n    p1.dump(b);")
        )
    said: list[str] = []
    found = localize(
        LocalizationRequest(
            failing=bad,
            toolchain=good_trees.toolchain(),
            reference=GoodBuild(path=good, toolchain=good_trees.toolchain()),
            golden_data=None,
            tolerance=Tolerance(),
            budget=100,
            attempts=1,
            timeout=300,
            output=tmp_path / "out",
        ),
        on_progress=said.append,
    )
    assert [first.kernel for first in found.first_divergent] == ["middle"]
    dumps = [text for text in said if text.startswith("dumping")]
    assert dumps[0] == "dumping the results of 1 task marked in the source"
