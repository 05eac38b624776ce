"""Edited orchestrations: markers, and one task alone. What they do when run is tested with the demo stack's runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from precision_bisect.reduce.graph.submits import UnmarkableError, insert_dump_markers
from precision_bisect.reduce.graph.tasks import TaskList
from precision_bisect.reduce.replay.replay import WorkingCopy
from precision_bisect.reduce.replay.task_replay import (
    LoneCall,
    SingleTaskError,
    entry_tensor,
    format_scalars,
    isolate_calls,
)
from precision_bisect.runner.build_output.directory import BuildDirectory, Direction
from precision_bisect.runner.build_output.orchestration import Orchestration
from precision_bisect.runner.build_output.task_graph import Region
from precision_bisect.runner.tensor import DType
from tests.demo.minirt_support import (
    ACCUMULATE,
    SCALE,
    elementwise,
    execute,
    orchestration,
    refresh,
    write_build,
)

LOOP = """
PTO2_SCOPE() {
    uint32_t shapes[1] = {4};
    TensorCreateInfo info(shapes, 1, DataType::FLOAT32);
    TaskOutputTensors made = alloc_tensors(info);
    const ChipTensor& a = made.get_ref(0);
    for (int64_t n = 0; n < 3; n += 1) {
        PTO2_SCOPE() {
            CoreTaskArgs p;
            p.add_input(x0);
            p.add_inout(a);
            rt_submit_aiv_task(1, p);
        }
    }
    CoreTaskArgs q;
    q.add_input(a);
    q.add_output(x1);
    MARKER
    rt_submit_aiv_task(0, q);
}
"""


def build(folder: Path, body: str) -> Path:
    kernels = {"scale": elementwise(SCALE), "accumulate": elementwise(ACCUMULATE)}
    return refresh(write_build(folder, orchestration(body, 2), kernels))


def run(build: Path, *, dump_args: int, dep_gen: bool = False) -> np.ndarray:
    refresh(build)
    given, result = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    execute(build, given, result, dump_args=dump_args, dep_gen=dep_gen)
    return result


def dumped(copy: WorkingCopy) -> list[tuple[int, int, str]]:
    """Ordinal, argument and stage of every record."""
    parts = copy.build()
    tasks = TaskList.from_graph(parts.task_graph(), parts.kernel_config())
    dump = parts.args_dump()
    records = [dump.record(index) for index in range(len(dump))]
    return sorted((tasks.tasks_by_id[one.task_id].ordinal, one.arg_index, one.stage.value) for one in records)


def test_tasks_of_a_loop_are_told_apart_by_their_number(tmp_path: Path) -> None:
    copy = WorkingCopy.create(build(tmp_path / "build", LOOP.replace("MARKER", "")), tmp_path / "copy")
    copy.write_orchestration(insert_dump_markers(copy.orchestration(), results={1}, whole={2}))
    assert run(copy.path, dump_args=1, dep_gen=True).tolist() == [0, 6, 12, 18]
    assert dumped(copy) == [
        *((1, 1, "after_completion"), (1, 1, "before_dispatch")),
        *((2, 0, "before_dispatch"), (2, 1, "after_completion"), (2, 1, "before_dispatch")),
    ]


def test_a_marker_of_the_user_stays(tmp_path: Path) -> None:
    copy = WorkingCopy.create(
        build(tmp_path / "build", LOOP.replace("MARKER", "q.dump(x1);")), tmp_path / "copy"
    )
    copy.write_orchestration(insert_dump_markers(copy.orchestration(), results={0}, whole=set()))
    run(copy.path, dump_args=1, dep_gen=True)
    assert dumped(copy) == [
        *((0, 1, "after_completion"), (0, 1, "before_dispatch"), (3, 1, "after_completion"))
    ]


def test_submits_that_are_all_that_a_branch_does_are_told_apart(tmp_path: Path) -> None:
    branches = "if (n == 1) rt_submit_aiv_task(1, p);else /* two */ rt_submit_aiv_task(1, p);"
    body = LOOP.replace("MARKER", "").replace("rt_submit_aiv_task(1, p);", branches)
    assert body.count("rt_submit") == 3
    copy = WorkingCopy.create(build(tmp_path / "build", body), tmp_path / "copy")
    copy.write_orchestration(insert_dump_markers(copy.orchestration(), results={1, 2}, whole=set()))
    assert run(copy.path, dump_args=1, dep_gen=True).tolist() == [0, 6, 12, 18]
    assert {ordinal for ordinal, _, _ in dumped(copy)} == {1, 2}


def test_slashes_in_a_text_before_a_submit_are_no_comment() -> None:
    body = 'CoreTaskArgs p;\np.add_input(x0);\nconst char *place = "http://x";\nrt_submit_aiv_task(0, p);'
    source = Orchestration.parse(orchestration(body, 1).encode())
    assert b'"http://x";' in insert_dump_markers(source, results={0}, whole=set())


def test_a_submit_that_is_no_statement_of_a_block_is_refused() -> None:
    source = orchestration("CoreTaskArgs p;\np.add_input(x0);\nx0.ndims > 1 && rt_submit_aiv_task(0, p);", 1)
    with pytest.raises(UnmarkableError, match="line 10: expected a submit as a statement of its own"):
        insert_dump_markers(Orchestration.parse(source.encode()), results={0}, whole=set())


def alone(source: Orchestration, *, scalars: dict[int, int | float | bool | None], blocks: int | None) -> str:
    """The first submit alone, on whole tensors of 4 elements."""
    submit = source.submits[0]
    whole = Region(dtype=DType.FLOAT32, shape=(4,), strides=(1,), start_offset=0)
    tensors = tuple((index, whole) for index in range(len(submit.tensor_arguments)))
    call = LoneCall(submit=submit, tensors=tensors, scalars=format_scalars(submit, scalars), blocks=blocks)
    return isolate_calls(source, [call], [(4,)] * len(tensors)).decode()


def test_one_task_alone(tmp_path: Path) -> None:
    copy = WorkingCopy.create(build(tmp_path / "build", LOOP.replace("MARKER", "")), tmp_path / "copy")
    source = copy.orchestration()
    copy.write_orchestration(alone(source, scalars={}, blocks=None).encode())
    refresh(copy.path)
    given, kept = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)
    execute(copy.path, given, kept, dump_args=0, dep_gen=True)
    assert kept.tolist() == [10, 11, 12, 13]
    assert len(TaskList.from_graph(copy.build().task_graph(), copy.build().kernel_config())) == 1


def test_a_scalar_that_is_a_variable_takes_its_recorded_value() -> None:
    body = "for (long n = 0; n < 3; ++n) { CoreTaskArgs p; p.add_scalar(n, to_u64(0.5f)); rt_submit_aiv_task(0, p); }"
    source = Orchestration.parse(orchestration(body, 1).encode())
    text = alone(source, scalars={0: 2, 1: 0.5}, blocks=None)
    assert "p.add_scalar(static_cast<uint64_t>(2ull));" in text
    assert "p.add_scalar(to_u64(0.5f));" in text
    with pytest.raises(SingleTaskError, match="exact value"):
        alone(source, scalars={0: 2.5}, blocks=None)


@pytest.mark.parametrize("method", ["set_block_num", "set_core_num"])
def test_a_number_of_blocks_that_is_an_expression_takes_its_recorded_value(method: str) -> None:
    told = f"p.launch_spec.{method}((rows / 8) * 4);"
    body = f"CoreTaskArgs p; {told} p.launch_spec.set_require_sync_start(true); rt_submit_aiv_task(0, p);"
    source = Orchestration.parse(orchestration(body, 1).encode())
    text = alone(source, scalars={}, blocks=12)
    assert f"    p.launch_spec.{method}(12);\n" in text
    assert "    p.launch_spec.set_require_sync_start(true);\n" in text
    assert "rows" not in text
    assert told in alone(source, scalars={}, blocks=None)


def test_the_copy_is_edited_and_not_the_build(tmp_path: Path) -> None:
    original = build(tmp_path / "build", LOOP.replace("MARKER", ""))
    (original / "data").mkdir()
    text = (original / "kernel_config.py").read_text()
    text = text.replace(
        '"aicpu_orchestration_entry"', '"aicpu_orchestration_entry", "signature": [_D.IN, _D.OUT]'
    )
    text = f"from simpler.task_interface import ArgDirection as _D\n{text}"
    (original / "kernel_config.py").write_text(text)
    source = (original / "orchestration" / "main.cpp").read_bytes()
    copy = WorkingCopy.create(original, tmp_path / "copy")
    assert not (copy.path / "data").exists()
    copy.write_signature([Direction.INOUT, Direction.IN, Direction.OUT])
    copy.write_orchestration(b"// nothing\n")
    signature = BuildDirectory.open(copy.path).kernel_config().orchestration.signature
    assert signature == (Direction.INOUT, Direction.IN, Direction.OUT)
    assert (original / "kernel_config.py").read_text() == text
    assert (original / "orchestration" / "main.cpp").read_bytes() == source


def test_a_kernel_list_of_before_july_has_no_signature_to_edit(tmp_path: Path) -> None:
    copy = WorkingCopy.create(build(tmp_path / "build", LOOP.replace("MARKER", "")), tmp_path / "copy")
    copy.write_signature([Direction.INOUT])
    assert (copy.path / "kernel_config.py").read_text() == (tmp_path / "build/kernel_config.py").read_text()


def test_a_link_in_a_build_is_not_followed(tmp_path: Path) -> None:
    original = build(tmp_path / "build", LOOP.replace("MARKER", ""))
    secret = tmp_path / "secret.cpp"
    secret.write_text("// not ours\n")
    (original / "orchestration" / "main.cpp").unlink()
    (original / "orchestration" / "main.cpp").symlink_to(secret)
    copy = WorkingCopy.create(original, tmp_path / "copy")
    with pytest.raises(Exception, match="inside"):
        copy.write_orchestration(b"// overwritten\n")
    assert secret.read_text() == "// not ours\n"


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (
            "const ChipTensor& ext_x = orch_args.tensor(0).ref();",
            "const ChipTensor& y = orch_args.tensor(2).ref();",
        ),
        # A tensor made anew from an argument's address has a shape of its own, which is not every argument's.
        (
            "auto x = make_tensor_external(orch_args.tensor(0).ref().data_as<void>(), shapes, 2, type);",
            "const auto& y = orch_args.tensor(2).ref();",
        ),
    ],
)
def test_a_further_argument_is_declared_in_the_words_of_the_source(declared: str, expected: str) -> None:
    source = f"void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {{ {declared} }}"
    assert entry_tensor(Orchestration.parse(source.encode()), 2, "y") == expected


def test_a_source_that_shows_no_argument_is_refused() -> None:
    source = b"void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) { }"
    with pytest.raises(SingleTaskError, match="declared in one statement"):
        entry_tensor(Orchestration.parse(source), 0, "y")
