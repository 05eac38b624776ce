"""Faults planted in the text of a small build, of each family one: the cause is named, and what changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from precision_bisect.reduce.localize.investigate import localize
from precision_bisect.reduce.localize.reference import GoodBuild
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.localization import Divergence
from tests.reduce.demo_builds import Trees, Twins
from tests.reduce.quick_runs import quick_runs

pytestmark = pytest.mark.xdist_group("localize")
ORCHESTRATION = "orchestration/elementwise_chain.cpp"
GROWN, Y = (f"kernels/aiv/{name}.cpp" for name in ("grown", "y"))
ROUNDED = {GROWN: ("row, column), ", "row, column), 1.0000001f * ")}
WRONG = {Y: ("row, column), y_value", "row, column), 1.01f * y_value")}
HIDDEN = {
    Y: (
        "store_f32(y, element_offset(y, row, column), y_value);",
        "static bool last_has_run = false;\n"
        "last_has_run = last_has_run || gain.start_offset >= 96;\n"
        "const bool late = last_has_run && gain.start_offset < 96;\n"
        "store_f32(y, element_offset(y, row, column), late ? 1.01f * y_value : y_value);",
    )
}
"""Rows that are computed after the last ones are wrong: none, where tasks run one after the other."""


def also_writes(where: str, condition: str) -> Mapping[str, tuple[str, str]]:
    """A store of the kernel y, and another one elsewhere."""
    store = "store_f32(y, element_offset(y, row, column), y_value);"
    return {Y: (store, f"{store}\n if ({condition}) store_f32(y, {where}, 0.5f * y_value);")}


BEFORE = also_writes(
    "element_offset(y, row, column) - y.strides[0]", "y.start_offset >= y.strides[0] && row == 0"
)
"""The last row of the task before is written over."""
PAST = also_writes("element_offset(y, row + 1, column)", "y.start_offset == 0 && row + 1 == y.shape[0]")
"""The first task writes over the first row of the second one."""
SERIAL = {"MINIRT_ORDER": "serial"}
BOUND = {ORCHESTRATION: ("r0 < 128", "r0 < 96")}


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Generator[None]:
    with quick_runs():
        yield


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, good_trees: Trees) -> Path:
    return good_trees.build(
        "cases/elementwise_chain.py", tmp_path_factory.mktemp("chain") / "build", "--save-data"
    )


def edited(build: Path, copy: Path, *edits: Mapping[str, tuple[str, str]]) -> Path:
    """A copy of a build with some texts replaced."""
    shutil.copytree(build, copy)
    for edit in edits:
        for name, (old, new) in edit.items():
            file = copy / name
            text = file.read_text()
            assert old in text, text
            # The last one: a store is what a kernel ends with.
            head, _, tail = text.rpartition(old)
            file.write_text(head + new + tail)
    return copy


def localized(
    folder: Path,
    good: Path,
    trees: Trees,
    *edits: Mapping[str, tuple[str, str]],
    variables: Mapping[str, str] | None = None,
    on_progress: Callable[[str], None] = lambda _text: None,
) -> Divergence:
    """What is found in a copy of the good build with some texts replaced, both run with `variables`."""
    bad = edited(good, folder / "bad", *edits)
    twins = Twins(good=good, bad=bad, good_trees=trees, bad_trees=trees)
    toolchain = replace(trees.toolchain(), variables=variables or {})
    request = replace(
        twins.request(folder / "out"),
        toolchain=toolchain,
        reference=GoodBuild(path=good, toolchain=toolchain),
        case_tolerance=Tolerance(rtol=1e-5, atol=1e-5),
        attempts=1,
    )
    return localize(request, on_progress=on_progress)


@pytest.mark.long
def test_a_loop_that_runs_once_too_few_beside_rounding(
    tmp_path: Path, good_trees: Trees, chain: Path
) -> None:
    found = localized(tmp_path, chain, good_trees, BOUND, ROUNDED)
    (cause,) = found.causes
    assert cause.confirmed
    assert cause.effect == 1
    assert cause.what == "3 tasks of the good build are not submitted: 9 total, 10 grown, 11 y"
    assert cause.kernel == "y"
    assert [change.file for change in found.cleared] == [GROWN]
    assert found.failure is not None
    (unwritten,) = found.failure.unwritten
    assert (unwritten.output, unwritten.written_by) == ("y", ("task 11 y",))
    assert [(run.first, run.last) for run in unwritten.rows] == [(96, 127)]
    assert found.runs <= 6


@pytest.mark.long
def test_rounding_alone_passes_and_blames_nobody(tmp_path: Path, good_trees: Trees, chain: Path) -> None:
    found = localized(tmp_path, chain, good_trees, ROUNDED)
    assert found.passes
    assert not found.has_findings
    assert (found.causes, found.first_divergent) == ((), ())
    assert {task.kernel for task in found.rounding} == {"grown"}
    assert {trial.schedule for trial in found.tried if trial.passed_runs} >= {"serial", "reverse"}


@pytest.mark.long
def test_a_race_that_hides_in_the_order_of_the_run_is_told(
    tmp_path: Path, good_trees: Trees, chain: Path
) -> None:
    found = localized(tmp_path, chain, good_trees, HIDDEN, variables=SERIAL)
    (cause,) = found.causes
    assert (cause.kernel, cause.what) == ("y", "the source of kernel y")
    assert not found.passes
    failing = [trial.schedule for trial in found.tried if trial.failed]
    assert "reverse" in failing
    assert "serial" not in failing
    assert found.schedule == failing[0]
    assert found.race is not None
    assert found.race.confirmed


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "order", "writer", "where"),
    [
        (BEFORE, "serial", 5, "before the start of the tensor, into y, which task 2 (y) writes"),
        (PAST, "reverse", 2, "past the end of the tensor, into y, which task 5 (y) writes"),
    ],
)
def test_a_kernel_that_writes_beside_its_tensor_is_told_with_it(
    tmp_path: Path,
    good_trees: Trees,
    chain: Path,
    fault: Mapping[str, tuple[str, str]],
    order: str,
    writer: int,
    where: str,
) -> None:
    """In an order in which what is written over was right before, so that no task is seen to leave it wrong."""
    found = localized(tmp_path, chain, good_trees, fault, variables={"MINIRT_ORDER": order})
    (cause,) = found.causes
    assert (cause.kernel, cause.tensor, cause.task_class, cause.kind, cause.position) == (
        "y",
        "y",
        "introduced",
        "out of place",
        writer,
    )
    assert cause.differences[0] == f"task {writer} (y), argument 2 (y), writes 640 bytes {where}"


@pytest.mark.long
def test_an_order_in_which_the_good_build_fails_too_blames_nobody(
    tmp_path: Path, good_trees: Trees, chain: Path
) -> None:
    good = edited(chain, tmp_path / "good", HIDDEN)
    found = localized(tmp_path, good, good_trees, ROUNDED, variables=SERIAL)
    assert found.passes
    assert {trial.schedule: trial.reference_fails for trial in found.tried if trial.failed}["reverse"]
    assert (found.causes, found.first_divergent) == ((), ())


def wrong_but_in_run(right: int, counted: Path) -> Mapping[str, tuple[str, str]]:
    """A kernel y that is right in one run alone, of all that count themselves in a file."""
    store = "store_f32(y, element_offset(y, row, column), y_value);"
    return {
        Y: (
            store,
            "static const long run = [] {\n"
            f'    FILE* file = std::fopen("{counted}", "a");\n'
            "    std::fputc('x', file);\n"
            "    const long length = std::ftell(file);\n"
            "    std::fclose(file);\n"
            "    return length;\n"
            "}();\n" + store.replace("y_value", f"run == {right} ? y_value : 1.01f * y_value"),
        )
    }


@pytest.mark.long
def test_a_failure_that_comes_and_goes_in_the_good_build_too_blames_nobody(
    tmp_path: Path, good_trees: Trees, chain: Path
) -> None:
    includes = {Y: ("#include", "#include <cstdio>\n#include")}
    good = edited(chain, tmp_path / "good", includes, wrong_but_in_run(2, tmp_path / "runs"))
    found = localized(tmp_path, good, good_trees, ROUNDED)
    assert found.in_turns is not None
    assert (found.in_turns.runs, found.in_turns.failed) == (1, 1)
    assert (found.in_turns.reference_runs, found.in_turns.reference_fails) == (2, True)
    assert found.failure is not None
    assert [output.name for output in found.failure.outputs] == ["y"]
    assert (found.causes, found.passes) == ((), False)
    assert found.generated is None or found.generated.origin is None


def assert_only_introduced_by(found: Divergence, kernel: str) -> None:
    """The only cause is the source of a kernel, and tasks of that alone diverge first."""
    (cause,) = found.causes
    assert (cause.what, cause.kind) == (f"the source of kernel {kernel}", "kernel")
    assert (cause.kernel, cause.tensor, cause.task_class) == (kernel, kernel, "introduced")
    assert {(entry.kernel, entry.task_class) for entry in found.first_divergent} == {(kernel, "introduced")}


@pytest.mark.long
def test_a_kernel_beside_rounding(tmp_path: Path, good_trees: Trees, chain: Path) -> None:
    found = localized(tmp_path, chain, good_trees, WRONG, ROUNDED)
    assert_only_introduced_by(found, "y")
    assert found.runs <= 6


@pytest.mark.long
def test_a_task_that_leaves_negative_zeros_is_named_where_they_matter(
    tmp_path: Path, good_trees: Trees, chain: Path
) -> None:
    """Both builds divide by what it leaves; the first columns are zeros, of which only the first one's sign matters."""
    zeros = {GROWN: ("row, column), grown_value", "row, column), column < 2 ? 0.0f : grown_value")}
    divided = {Y: ("row, column), y_value", "row, column), column == 0 ? 1.0f / grown_value : y_value")}
    good = edited(chain, tmp_path / "good", zeros, divided)
    found = localized(tmp_path, good, good_trees, {GROWN: ("? 0.0f", "? -0.0f")})
    assert_only_introduced_by(found, "grown")
    statistics = found.first_divergent[0].statistics
    assert statistics is not None
    assert (statistics.different, statistics.worst) == (64, "-0.0 stands for 0.0 or the other way round")
    assert "off by the sign of zeros alone" in found.first_divergent[0].reason
    assert [(task.kernel, task.task_class) for task in found.downstream] == [("y", "amplified")]


@pytest.mark.long
def test_negative_zeros_that_do_not_matter_are_not_shown(
    tmp_path: Path, good_trees: Trees, chain: Path
) -> None:
    zeros = {GROWN: ("row, column), grown_value", "row, column), column < 2 ? 0.0f : grown_value")}
    good = edited(chain, tmp_path / "good", zeros)
    found = localized(tmp_path, good, good_trees, {GROWN: ("? 0.0f", "? -0.0f")}, WRONG)
    assert [cause.kernel for cause in found.causes] == ["y"]
    assert {entry.kernel for entry in found.first_divergent} == {"y"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (
            "to_u64(0.5f)",
            "to_u64(0.25f)",
            "task 1 grown: scalar 0 is 0.25 (0x3e800000), was 0.5 (0x3f000000)",
        ),
        (
            "uint32_t gain_view_offsets[2] = {static_cast<uint32_t>(r0)",
            "uint32_t gain_view_offsets[2] = {static_cast<uint32_t>(r0 / 2)",
            "task 5 y: argument 1 (gain) is rows 32:64, columns 0:1 in the good build and rows 16:48, columns 0:1 here",
        ),
        (
            "rt_submit_aiv_task(1, params_t1);",
            "if (r0 != 64) rt_submit_aiv_task(1, params_t1);",
            "task 7 grown of the good build is not submitted; it writes grown (rows 0:32, columns 0:160)",
        ),
    ],
)
def test_a_submission_that_changed(
    tmp_path: Path, good_trees: Trees, chain: Path, old: str, new: str, what: str
) -> None:
    found = localized(tmp_path, chain, good_trees, {ORCHESTRATION: (old, new)})
    (cause,) = found.causes
    assert cause.what == what
    assert found.runs <= 5


@pytest.mark.long
def test_two_faults_at_once_are_two_causes(tmp_path: Path, good_trees: Trees, chain: Path) -> None:
    lines: list[str] = []
    found = localized(tmp_path, chain, good_trees, WRONG, BOUND, on_progress=lines.append)
    known = lines.index("cause 1, 100 % of what is wrong: the source of kernel y")
    assert known < lines.index("running y alone")
    assert [cause.kernel for cause in found.causes] == ["y", "y"]
    assert [round(cause.effect, 2) for cause in found.causes] == [1.0, 0.25]
    assert {entry.cause for entry in found.first_divergent} == {1}
