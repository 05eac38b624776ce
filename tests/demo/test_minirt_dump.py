"""minirt's argument dump: levels, counters, payloads. Keys and their order are those of recorded files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.demo.minirt_support import elementwise, execute, orchestration, refresh, write_build

HEADER_KEYS = [
    *("run_dir", "bin_format", "dump_args_level", "total_args", "before_dispatch", "after_completion"),
    *("input_args", "output_args", "inout_args", "truncated_args", "dropped_records", "dropped_overwrite"),
    *("bin_file", "args"),
]
TENSOR_KEYS = [
    *(
        "task_id",
        "func_id",
        "arg_index",
        "role",
        "stage",
        "kind",
        "dtype",
        "is_contiguous",
        "shape",
        "strides",
    ),
    *("start_offset", "numel", "bin_offset", "bin_size", "truncated", "overwritten"),
]
SCALAR_KEYS = [*TENSOR_KEYS[:7], "value", *TENSOR_KEYS[7:]]

# Two tasks: out = x[:, 1:3] transposed + inout; then a copy into x1 with scalars.
BODY = """
    PTO2_SCOPE() {
        uint32_t shape[2] = {2, 4};
        TensorCreateInfo ci(shape, 2);
        TaskOutputTensors alloc_0 = alloc_tensors(ci);
        const ChipTensor& sum = alloc_0.get_ref(0);
        uint32_t part_shape[2] = {4, 2};
        uint32_t part_offset[2] = {0, 1};
        ChipTensor part = x0.view(part_shape, part_offset).transpose(0, 1);
        CoreTaskArgs params_t0;
        params_t0.add_input(part);
        params_t0.add_inout(sum);
        MARK_0
        rt_submit_aiv_task(0, params_t0);
        CoreTaskArgs params_t1;
        int64_t n0 = -32;
        params_t1.add_input(sum);
        params_t1.add_output(x1);
        params_t1.add_scalar(n0);
        params_t1.add_scalar(to_u64(1.0f), 0.5f, 7, true, 0.1f);
        MARK_1
        rt_submit_task(MixedKernels{1, 0, -1}, params_t1);
    }
"""
TASK_0, TASK_1 = "0x0000000100000001", "0x0000000100000002"


@pytest.fixture
def arrays() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.arange(12, dtype=np.float32).reshape(4, 3), np.zeros((2, 4), np.float32)


def build_with_marks(folder: Path, mark_0: str = "", mark_1: str = "") -> Path:
    kernels = {
        "add": elementwise("store(1, i, load(1, i) + load(0, i));"),
        "copy": elementwise("store(1, i, load(0, i));"),
    }
    body = BODY.replace("MARK_0", mark_0).replace("MARK_1", mark_1)
    return refresh(write_build(folder, orchestration(body, 2), kernels))


def manifest(build: Path) -> dict[str, Any]:
    return json.loads((build / "dfx_outputs" / "args_dump" / "args_dump.json").read_text())


def counters(dump: dict[str, Any]) -> list[int]:
    return [dump[key] for key in HEADER_KEYS[3:10]]


def payload(build: Path, record: dict[str, Any]) -> np.ndarray[Any, Any]:
    data = (build / "dfx_outputs" / "args_dump" / "args.bin").read_bytes()
    raw = data[record["bin_offset"] : record["bin_offset"] + record["bin_size"]]
    return np.frombuffer(raw, np.float32).reshape(record["shape"])


def test_level_2_records_every_argument(tmp_path: Path, arrays: Any) -> None:
    x, y = arrays
    build = build_with_marks(tmp_path / "b")
    execute(build, x, y, dump_args=2)
    dump = manifest(build)
    assert list(dump) == HEADER_KEYS
    assert (dump["run_dir"], dump["dump_args_level"], dump["bin_file"]) == ("args_dump", 2, "args.bin")
    assert dump["bin_format"] == {"type": "logical_contiguous", "byte_order": "little_endian"}
    #                        total before after input output inout truncated
    assert counters(dump) == [11, 9, 2, 8, 1, 2, 0]
    records = dump["args"]
    assert len(records) == 11
    for record in records:
        assert list(record) == (TENSOR_KEYS if record["kind"] == "tensor" else SCALAR_KEYS)

    part, sum_before, sum_after, sum_read, *scalars, out = records
    assert [record["task_id"] for record in records] == [TASK_0] * 3 + [TASK_1] * 8
    assert part["func_id"] == [0]
    assert sum_read["func_id"] == [1, 0]
    assert (part["shape"], part["strides"], part["start_offset"]) == ([2, 4], [1, 3], 1)
    assert (part["is_contiguous"], part["dtype"], part["numel"], part["bin_size"]) == (
        False,
        "FLOAT32",
        8,
        32,
    )
    roles = [(record["role"], record["stage"]) for record in (part, sum_before, sum_after, out)]
    assert roles == [
        ("input", "before_dispatch"),
        ("inout", "before_dispatch"),
        ("inout", "after_completion"),
        ("output", "after_completion"),
    ]
    wanted = x[:, 1:3].T
    np.testing.assert_array_equal(payload(build, part), wanted)
    np.testing.assert_array_equal(payload(build, sum_before), np.zeros((2, 4)))
    np.testing.assert_array_equal(payload(build, sum_after), wanted)
    np.testing.assert_array_equal(payload(build, sum_read), wanted)
    np.testing.assert_array_equal(payload(build, out), y)

    assert [(s["arg_index"], s["dtype"], s["value"]) for s in scalars] == [
        (2, "INT64", -32),
        (3, "UINT64", 1065353216),
        (4, "FLOAT32", 0.5),
        (5, "INT32", 7),
        (6, "BOOL", True),
        (7, "FLOAT32", pytest.approx(0.1, abs=1e-8)),
    ]
    for scalar in scalars:
        assert (scalar["shape"], scalar["strides"], scalar["numel"], scalar["bin_size"]) == ([], [], 1, 0)
        assert (scalar["role"], scalar["stage"]) == ("input", "before_dispatch")
    spans = sorted((r["bin_offset"], r["bin_size"]) for r in records if r["kind"] == "tensor")
    ends = [offset + size for offset, size in spans]
    size = (build / "dfx_outputs" / "args_dump" / "args.bin").stat().st_size
    assert [offset for offset, _ in spans] == [0, *ends[:-1]]
    assert ends[-1] == size


def test_level_1_records_marked_arguments_only(tmp_path: Path, arrays: Any) -> None:
    build = build_with_marks(tmp_path / "b", "params_t0.dump(sum);", "params_t1.dump(n0);")
    execute(build, *arrays, dump_args=1)
    dump = manifest(build)
    assert counters(dump) == [3, 2, 1, 1, 0, 2, 0]
    assert [(r["task_id"], r["arg_index"], r["stage"]) for r in dump["args"]] == [
        (TASK_0, 1, "before_dispatch"),
        (TASK_0, 1, "after_completion"),
        (TASK_1, 2, "before_dispatch"),
    ]


def test_level_1_marks_whole_tasks(tmp_path: Path, arrays: Any) -> None:
    build = build_with_marks(tmp_path / "b", mark_1="params_t1.dump();")
    execute(build, *arrays, dump_args=1)
    assert counters(manifest(build)) == [8, 7, 1, 7, 1, 0, 0]


def test_level_1_without_marks_writes_nothing_and_drops_the_last_run(tmp_path: Path, arrays: Any) -> None:
    build = build_with_marks(tmp_path / "b")
    execute(build, *arrays, dump_args=2)
    execute(build, *arrays, dump_args=1)
    assert list((build / "dfx_outputs" / "args_dump").iterdir()) == []


def test_level_0_writes_nothing(tmp_path: Path, arrays: Any) -> None:
    build = build_with_marks(tmp_path / "b", "params_t0.dump();")
    execute(build, *arrays)
    assert not (build / "dfx_outputs").exists()


def test_level_3_is_metadata_and_marked_payloads(tmp_path: Path, arrays: Any) -> None:
    plain = build_with_marks(tmp_path / "plain")
    execute(plain, *arrays, dump_args=3)
    dump = manifest(plain)
    assert counters(dump) == [11, 9, 2, 8, 1, 2, 0]
    assert dump["bin_file"] is None
    assert {record["bin_size"] for record in dump["args"]} == {0}
    assert not (plain / "dfx_outputs" / "args_dump" / "args.bin").exists()

    marked = build_with_marks(tmp_path / "marked", "params_t0.dump(part);")
    execute(marked, *arrays, dump_args=3)
    dump = manifest(marked)
    assert dump["bin_file"] == "args.bin"
    assert [record["bin_size"] for record in dump["args"]] == [32] + [0] * 10
    np.testing.assert_array_equal(payload(marked, dump["args"][0]), arrays[0][:, 1:3].T)


def test_a_payload_over_the_arena_is_cut_and_flagged(
    tmp_path: Path, arrays: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = build_with_marks(tmp_path / "b", "params_t0.dump(part);")
    monkeypatch.setenv("MINIRT_DUMP_ARENA_BYTES", "12")
    execute(build, *arrays, dump_args=1)
    dump = manifest(build)
    [record] = dump["args"]
    assert (record["truncated"], record["bin_size"], record["numel"]) == (True, 12, 8)
    assert dump["truncated_args"] == 1
    head = (build / "dfx_outputs" / "args_dump" / "args.bin").read_bytes()
    assert head == np.ascontiguousarray(arrays[0][:, 1:3].T).tobytes()[:12]
