"""All stages of a localization, one after the other, on builds and tasks that are simulated."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from precision_bisect.reduce.localize import experiments
from precision_bisect.reduce.localize.document import (
    ExplainedFindings,
    SearchCost,
    StallFindings,
    first_divergent,
)
from precision_bisect.reduce.localize.failure import OutputJudge
from precision_bisect.reduce.localize.investigate import explain_outputs, failing_run
from precision_bisect.reduce.localize.reference import (
    GoldenOutputs,
    KnownValues,
    LocalizationRequest,
    ReferenceRuns,
)
from precision_bisect.runner.build_output.directory import GoldenData, TensorFolder
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.errors import UsageError, UserError
from precision_bisect.runner.localization import Stall, read_divergence
from precision_bisect.runner.localization_job import OWNER_FILE, OutputFolder
from tests.reduce.localize.simulated_build import (
    Array,
    SimulatedBuild,
    SimulatedTask,
    add,
    double,
    executor_in,
)


class FakeToolchain:
    """What a request says of the toolchain that runs the failing build."""

    platform = "a2a3sim"


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "TaskReplayer", SimulatedTask)


@pytest.fixture
def good(tmp_path: Path) -> SimulatedBuild:
    return SimulatedBuild.of(tmp_path / "good")


def request_of(failing: SimulatedBuild, folder: Path, tolerance: Tolerance) -> LocalizationRequest:
    return LocalizationRequest(
        failing=failing.build,
        toolchain=cast("Any", FakeToolchain()),
        reference=GoldenOutputs(folder=failing.data),
        golden_data=None,
        tolerance=tolerance,
        budget=2**20,
        attempts=1,
        timeout=9,
        output=folder / "out",
    )


def investigate(
    folder: Path, failing: SimulatedBuild, good: SimulatedBuild | None, tolerance: Tolerance | None = None
) -> ExplainedFindings:
    """Against the good build; None: against the golden outputs alone."""
    recorded = failing.recorded
    expected = (
        KnownValues.from_build(recorded, None)
        if good is None
        else ReferenceRuns.align(recorded, good.recorded)
    )
    request = request_of(failing, folder, tolerance or Tolerance())
    return executor_in(folder).execute(explain_outputs(request, recorded, expected))


def test_a_fault_and_what_lies_below_it(tmp_path: Path, good: SimulatedBuild) -> None:
    bad = SimulatedBuild.of(tmp_path / "bad", {1: add(1.5)})
    found = investigate(tmp_path, bad, good).document()
    (first,) = found.first_divergent
    assert (first.position, first.kernel, first.tensor, first.task_class) == (1, "middle", "b", "introduced")
    assert first.reference_kernel == "middle"
    assert first.statistics is not None
    assert (first.statistics.max_error, first.statistics.different) == (0.5, 8)
    assert [(below.position, below.task_class) for below in found.downstream] == [(2, "inherited")]
    assert (found.tasks, found.runs, found.reference_runs) == (5, 2, 2)
    assert found.race is None, "no harness told what a run puts out"


def test_searches_of_several_builds_cost_what_each_took_and_what_their_reference_took() -> None:
    one, other = cast("Any", object()), cast("Any", object())
    costs = [
        (one, SearchCost(runs=2, reference_runs=2, bytes_dumped=100)),
        (other, SearchCost(runs=3, reference_runs=5, bytes_dumped=70)),
        (one, SearchCost(runs=4, reference_runs=6, bytes_dumped=150)),
    ]
    assert SearchCost.join(costs) == SearchCost(runs=7, reference_runs=6, bytes_dumped=220)


def rounded_otherwise(values: Array) -> Array:
    """As `double`, but for one unit in the last place of one element."""
    doubled = double(values)
    doubled[-1] = np.nextafter(doubled[-1], np.float32(np.inf))
    return doubled


def test_rounding_before_a_fault_is_told_apart(tmp_path: Path, good: SimulatedBuild) -> None:
    bad = SimulatedBuild.of(
        tmp_path / "bad",
        {0: rounded_otherwise, 1: add(1.5)},
        tolerance=Tolerance(rtol=1e-3, atol=1e-3),
    )
    found = investigate(tmp_path, bad, good).document()
    assert [first.position for first in found.first_divergent] == [1]
    assert [task.kernel for task in found.rounding] == ["scale"]


def test_a_fault_past_rounding_is_described_with_the_tolerance_that_found_it(
    tmp_path: Path, good: SimulatedBuild
) -> None:
    """The other elements of its result differ by rounding."""

    def spoil_first(values: Array) -> Array:
        added = add(1.0)(values)
        added[0] += 1
        added[1:] = np.nextafter(added[1:], np.float32(np.inf))
        return added

    bad = SimulatedBuild.of(
        tmp_path / "bad",
        {0: rounded_otherwise, 1: spoil_first},
        tolerance=Tolerance(rtol=1e-3, atol=1e-3),
    )
    (first,) = investigate(tmp_path, bad, good).document().first_divergent
    assert first.statistics is not None
    assert (first.position, first.statistics.different) == (1, 1)


def test_no_task_before_the_fault_is_listed_after_it(tmp_path: Path, good: SimulatedBuild) -> None:
    """Task 1 carries the rounding of task 0 on to task 2, which has the fault."""
    bad = SimulatedBuild.of(
        tmp_path / "bad",
        {0: rounded_otherwise, 2: add(1.5)},
        tolerance=Tolerance(rtol=1e-3, atol=1e-3),
    )
    found = investigate(tmp_path, bad, good).document()
    assert [first.position for first in found.first_divergent] == [2]
    assert [below.position for below in found.downstream] == []


def test_golden_outputs_alone_leave_candidates(tmp_path: Path) -> None:
    bad = SimulatedBuild.of(tmp_path / "bad", {1: add(1.5)})
    found = investigate(tmp_path, bad, None, Tolerance(rtol=1e-5, atol=1e-5)).document()
    (first,) = found.first_divergent
    assert (first.position, first.task_class, first.reference_kernel) == (2, "unknown", None)
    assert [task.kernel for task in found.candidates] == ["scale", "middle"]
    assert (found.reference_runs, found.downstream, found.rounding) == (0, (), ())


def test_a_tensor_within_the_tolerance_is_no_entry(tmp_path: Path, good: SimulatedBuild) -> None:
    bad = SimulatedBuild.of(tmp_path / "bad", {1: add(1.5)})
    findings = investigate(tmp_path, bad, good)
    ((divergent, verdict),) = findings.parts[0].attributed.pairs
    assert list(first_divergent(divergent, verdict, bad.recorded, Tolerance(atol=1))) == []


def test_findings_are_written_with_their_page(tmp_path: Path, good: SimulatedBuild) -> None:
    bad = SimulatedBuild.of(tmp_path / "bad", {1: add(1.5)})
    output = OutputFolder(tmp_path / "out")
    with output.make_work_folder(apart_from=(bad.build,)) as work:
        assert list(work.iterdir()) == [work / OWNER_FILE]
        findings = investigate(tmp_path, bad, good)
        output.write(findings.document(), findings.page())
    assert read_divergence(output.path) == findings.document()
    assert (output.path / ".gitignore").read_text() == "*\n"
    assert '"state":"first"' in (output.path / "task_graph.html").read_text()


def test_a_good_build_that_is_wrong_in_its_recorded_run_is_not_asked_again(tmp_path: Path) -> None:
    good, bad = (
        SimulatedBuild.of(tmp_path / name, {1: add(1.5)}).with_outputs(tmp_path / f"left-{name}")
        for name in ("good", "bad")
    )
    bad.replayer.toolchain = SimpleNamespace(stack=SimpleNamespace(schedules={}))
    golden = GoldenData.open(good.data).outputs
    judge = OutputJudge(expected=golden, tolerance=Tolerance(rtol=1e-3, atol=1e-3), is_case_tolerance=True)
    expected = ReferenceRuns.align(bad.recorded, good.recorded)
    run = executor_in(tmp_path).execute(failing_run(bad.recorded, expected, judge, run_good=True))
    assert judge.failure(TensorFolder.open(tmp_path / "left-bad"))
    assert (run.in_turns, run.good_may_fail, run.required_passes) == (None, False, 1)


def test_a_stall_has_no_page(tmp_path: Path, good: SimulatedBuild) -> None:
    stall = Stall(believed=True, reason="twice at one task", completed=3, total=5, tasks=())
    findings = StallFindings(request=request_of(good, tmp_path, Tolerance()), stall=stall)
    output = OutputFolder(tmp_path / "out")
    with output.make_work_folder(apart_from=()):
        output.write(findings.document(), findings.page())
    written = read_divergence(output.path)
    assert written is not None
    assert written.stall == stall
    assert not (output.path / "task_graph.html").exists()


@pytest.mark.parametrize("inside", ["build", "build/deep"])
def test_an_output_folder_is_apart_from_what_is_read(tmp_path: Path, inside: str) -> None:
    read = tmp_path / "build"
    with (
        pytest.raises(UsageError, match="expected a folder outside of"),
        OutputFolder(tmp_path / inside).make_work_folder(apart_from=(read,)),
    ):
        pass


def test_a_build_in_the_work_folder_is_told_to_be_there(tmp_path: Path) -> None:
    read = tmp_path / "work" / "build"
    says = f"expected nothing to read in {tmp_path / 'work'}, where logs and dumps go, found {read}"
    with (
        pytest.raises(UsageError, match=re.escape(says)),
        OutputFolder(tmp_path).make_work_folder(apart_from=(read,)),
    ):
        pass


@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_a_work_folder_of_the_user_is_not_removed(tmp_path: Path, kind: str) -> None:
    work, elsewhere = tmp_path / "out" / "work", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").touch()
    work.parent.mkdir()
    if kind == "folder":
        elsewhere.rename(work)
    elif kind == "link":
        work.symlink_to(elsewhere)
    else:
        work.touch()
    before = sorted(tmp_path.rglob("*"))
    with (
        pytest.raises(UsageError, match=f"expected no {work}, .* found one that no localization made"),
        OutputFolder(work.parent).make_work_folder(apart_from=()),
    ):
        pass
    assert sorted(tmp_path.rglob("*")) == before


def test_the_work_folder_of_a_killed_localization_is_made_anew(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path / "out")
    with output.make_work_folder(apart_from=()) as work:
        shutil.copytree(work, tmp_path / "left")
    (tmp_path / "out").mkdir()
    (tmp_path / "left").rename(work)
    (work / "dump").touch()
    with output.make_work_folder(apart_from=()) as work:
        assert not (work / "dump").exists()


@pytest.mark.parametrize("files", [None, [], [".gitignore"], ["reduce-of"], ["mine"]])
def test_a_localization_that_finds_nothing_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str] | None
) -> None:
    out = tmp_path / "out"
    if files is not None:
        out.mkdir()
        monkeypatch.chdir(out)
        for name in files:
            (out / name).write_text("mine\n")
    output = OutputFolder(out if files is None else Path())
    with suppress(UserError), output.make_work_folder(apart_from=()):
        raise UserError("nothing diverges")
    assert out.exists() == (files is not None)
    assert {path.name: path.read_text() for path in out.glob("*")} == dict.fromkeys(files or [], "mine\n")


@pytest.mark.parametrize(("error", "stays"), [(UserError("see the log"), True), (KeyboardInterrupt(), False)])
def test_logs_stay_after_an_error_that_may_name_them(
    tmp_path: Path, error: BaseException, stays: bool
) -> None:
    output = OutputFolder(tmp_path / "out")
    with suppress(UserError, KeyboardInterrupt), output.make_work_folder(apart_from=()) as work:
        (work / "run.log.gz").touch()
        raise error
    assert (tmp_path / "out" / "work" / "run.log.gz").exists() == stays


def test_the_page_of_an_earlier_localization_is_removed_with_its_document(
    tmp_path: Path, good: SimulatedBuild
) -> None:
    bad = SimulatedBuild.of(tmp_path / "bad", {1: add(1.5)})
    document = investigate(tmp_path, bad, good).document()
    output = OutputFolder(tmp_path)
    page = tmp_path / "task_graph.html"
    page.write_text("of the user")
    output.write(document, None)
    assert page.exists()
    output.write(document, "of the first localization")
    output.replace_document(document)
    assert page.read_text() == "of the first localization"
    output.write(document, None)
    assert not page.exists()
