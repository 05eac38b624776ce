"""Planted faults of the demo stack: built, run, and found."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from precision_bisect.demo.scenarios import Scenario
from precision_bisect.reduce.localize.investigate import localize
from precision_bisect.reduce.localize.orders import REPEATS_TO_CONFIRM, UNDER_LOAD
from precision_bisect.reduce.localize.reference import SameBuild
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.localization import DEFAULT_SCHEDULE, DIVERGENCE, TASK_GRAPH, Divergence
from tests.reduce.demo_builds import Trees, Twins
from tests.reduce.quick_runs import quick_runs

SCHEMA = Path(__file__).parents[3] / "docs" / "divergence.schema.json"
pytestmark = pytest.mark.xdist_group("localize")


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Generator[None]:
    with quick_runs():
        yield


def hashes(folder: Path) -> Mapping[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() + str(path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def quiet(_text: str) -> None:
    pass


def kernels(found: Divergence) -> set[str]:
    return {entry.kernel for entry in found.first_divergent}


def test_a_rounding_mode_within_a_small_budget(tmp_path: Path, good_trees: Trees) -> None:
    twins = Twins.make(tmp_path / "twins", Scenario.ROUNDING, good_trees)
    before = hashes(twins.bad), hashes(twins.good)
    found = localize(twins.request(tmp_path / "out", budget=100_000), on_progress=quiet)
    assert (hashes(twins.bad), hashes(twins.good)) == before
    assert kernels(found) == {"total"}
    assert {entry.task_class for entry in found.first_divergent} == {"introduced"}
    first = found.first_divergent[0]
    assert first.tensor == "total"
    assert first.pattern is not None
    assert first.pattern.name == "rounding mode"
    assert found.generated is not None
    assert found.generated.origin == "compiler"
    source = (twins.bad / first.orchestration_source).read_text().splitlines()
    assert all("// total" in source[line - 1] for line in first.orchestration_lines)
    assert found.runs <= 8
    below = {entry.kernel: entry for entry in found.downstream}
    assert below.keys() <= {"grown", "y"}
    assert below
    for entry in below.values():
        assert entry.task_class in ("inherited", "amplified")
        assert entry.distances is not None
        assert entry.distances.introduced == 0
        assert entry.distances.factor is not None
    written = json.loads((tmp_path / "out" / DIVERGENCE).read_text())
    jsonschema.validate(written, json.loads(SCHEMA.read_text()))
    assert written["first_divergent"][0]["class"] == "introduced"


@pytest.mark.long
def test_a_live_buffer_given_away_is_shown_with_its_line(tmp_path: Path, good_trees: Trees) -> None:
    twins = Twins.make(tmp_path / "twins", Scenario.REUSE, good_trees)
    found = localize(twins.request(tmp_path / "out"), on_progress=quiet)
    first, second = found.causes
    for cause, reader, dead, writer in (
        (first, "lse", "peak", "total"),
        (second, "probs", "logits", "weights"),
    ):
        assert (cause.kind, cause.kernel, cause.confirmed) == ("shared buffer", reader, True)
        assert f"({dead}) holds what task " in cause.what
        assert f" {writer} wrote, was what task " in cause.what
        assert cause.task_class == "interaction"
    (changed,) = first.changes
    assert changed.diff == (
        "- const ChipTensor& total = alloc_0.get_ref(3);",
        "+ const ChipTensor& total = alloc_0.get_ref(1);  // peak is dead by then",
    )


@pytest.fixture(scope="module")
def dropped(tmp_path_factory: pytest.TempPathFactory, good_trees: Trees) -> Twins:
    return Twins.make(tmp_path_factory.mktemp("dropped") / "twins", Scenario.DROPPED_DEP, good_trees)


@pytest.mark.long
def test_a_dropped_dependency_is_named_however_the_first_runs_end(tmp_path: Path, dropped: Twins) -> None:
    found = localize(dropped.request(tmp_path / "out"), on_progress=quiet)
    (first,) = found.first_divergent
    assert (first.kernel, first.tensor, first.task_class) == ("product_acc", "product", "interaction")
    (edge,) = found.missing_edges
    assert (edge.before_kernel, edge.after_kernel) == ("product", "product_acc")
    assert edge.ordered_in_reference
    assert "add_inout" in edge.cause
    assert found.schedule == "reverse"
    assert found.race is not None
    assert found.race.confirmed
    assert found.race.confirmation is not None
    assert (
        found.race.confirmation.failing.failed == found.race.confirmation.passing.runs == REPEATS_TO_CONFIRM
    )
    failed = {trial.schedule: trial.failed for trial in found.race.trials}
    assert (failed["serial"], failed["reverse"]) == (0, 1)
    assert {UNDER_LOAD, DEFAULT_SCHEDULE} < failed.keys()
    page = (tmp_path / "out" / TASK_GRAPH).read_text()
    assert '"state":"first"' in page
    assert "//" not in re.sub(r"^\s*//.*$", "", page, flags=re.MULTILINE), "the page names no other host"


def test_a_schedule_has_no_other_ones_variables(good_trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIRT_ORDER", "reverse")
    toolchain = good_trees.toolchain()
    assert toolchain.environment["MINIRT_ORDER"] == "reverse"
    found = toolchain.with_schedule("one-worker").environment
    assert found["MINIRT_THREADS"] == "1"
    assert "MINIRT_ORDER" not in found


@pytest.mark.long
def test_a_race_shows_against_the_same_build_run_serially(
    tmp_path: Path, dropped: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIRT_ORDER", "reverse")
    request = dropped.request(tmp_path / "out")
    alone = replace(
        request,
        reference=SameBuild(
            path=dropped.bad, toolchain=request.toolchain.with_schedule("serial"), schedule="serial"
        ),
    )
    found = localize(alone, on_progress=quiet)
    assert kernels(found) == {"product_acc"}
    assert found.reference is not None
    assert found.reference.kind == "other schedule"
    assert found.generated is None


@pytest.mark.long
def test_a_fault_of_the_runtime_needs_the_runtime_of_each_build(tmp_path: Path, good_trees: Trees) -> None:
    twins = Twins.make(tmp_path / "twins", Scenario.RUNTIME_BUMP, good_trees)
    found = localize(twins.request(tmp_path / "out"), on_progress=quiet)
    assert kernels(found) == {"total"}
    assert {entry.task_class for entry in found.first_divergent} == {"introduced"}
    assert found.generated is not None
    assert found.generated.origin == "runtime"


@pytest.fixture(scope="module")
def softmax(tmp_path_factory: pytest.TempPathFactory, good_trees: Trees) -> Path:
    return good_trees.build("cases/softmax.py", tmp_path_factory.mktemp("softmax") / "build", "--save-data")


def test_equal_builds_do_not_diverge(tmp_path: Path, good_trees: Trees, softmax: Path) -> None:
    twins = Twins(good=softmax, bad=softmax, good_trees=good_trees, bad_trees=good_trees)
    request = replace(twins.request(tmp_path / "out"), attempts=2)
    found = localize(request, on_progress=quiet)
    assert found.first_divergent == ()
    assert found.missing_edges == ()
    assert [trial.passed_runs for trial in found.tried] == [1] * len(found.tried) != []
    assert found.runs == 1 + len(found.tried) + 2


def test_a_run_that_fails_otherwise_is_an_error(tmp_path: Path, good_trees: Trees, softmax: Path) -> None:
    good = shutil.copytree(softmax, tmp_path / "good")
    (source,) = (good / "orchestration").glob("*.cpp")
    source.write_text(source.read_text().replace("PTO2_SCOPE() {", "PTO2_SCOPE() { no such thing;", 1))
    request = Twins(good=good, bad=good, good_trees=good_trees, bad_trees=good_trees).request(
        tmp_path / "out"
    )
    with pytest.raises(UserError, match="kernel_compile_error"):
        localize(request, on_progress=quiet)


def test_a_dump_cut_short_is_never_agreement(
    tmp_path: Path, good_trees: Trees, softmax: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = Twins(good=softmax, bad=softmax, good_trees=good_trees, bad_trees=good_trees)
    monkeypatch.setenv("MINIRT_DUMP_ARENA_BYTES", "1000")
    with pytest.raises(UserError, match="dumped whole"):
        localize(twins.request(tmp_path / "out"), on_progress=quiet)


@pytest.mark.long
def test_a_stall_is_mapped_to_the_tasks_that_wait(
    tmp_path: Path, good_trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMPLER_SCHEDULER_TIMEOUT_MS", "500")
    twins = Twins.make(tmp_path / "twins", Scenario.STALL, good_trees)
    found = localize(twins.request(tmp_path / "out"), on_progress=quiet)
    assert found.stall is not None
    assert found.stall.believed, found.stall.reason
    source = (twins.bad / found.stall.tasks[0].orchestration_source).read_text()
    named = {task.kernel for task in found.stall.tasks if task.dependencies_met < task.dependencies}
    assert named
    assert all(f"// {kernel}" in source or kernel in source for kernel in named)
    assert found.first_divergent == ()


@pytest.mark.long
def test_rounding_before_a_fault_is_not_the_fault(tmp_path: Path, good_trees: Trees) -> None:
    case = "cases/elementwise_chain.py"
    good = good_trees.build(case, tmp_path / "build", "--save-data")
    bad = shutil.copytree(good, tmp_path / "bad")
    for kernel, old, new in (
        ("grown", "store_f32(grown, element_offset(grown, row, column), ", "1.0000001f * "),
        ("y", "store_f32(y, element_offset(y, row, column), ", "1.01f * "),
    ):
        file = bad / "kernels" / "aiv" / f"{kernel}.cpp"
        text = file.read_text()
        assert text.count(old) == 1, text
        file.write_text(text.replace(old, old + new))
    twins = Twins(good=good, bad=bad, good_trees=good_trees, bad_trees=good_trees)
    found = localize(twins.request(tmp_path / "out"), on_progress=quiet)
    assert kernels(found) == {"y"}
    assert {entry.task_class for entry in found.first_divergent} == {"introduced"}
    assert [change.kernel for change in found.cleared] == ["grown"]
