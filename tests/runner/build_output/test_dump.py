"""Argument dumps: every era's spelling, every way a record can be unusable, every way a file can be bad."""

import json
import math

import numpy as np
import pytest

from precision_bisect.runner.build_output import args_dump as args_index
from precision_bisect.runner.build_output.args_dump import (
    ArgsDump,
    ArgumentKind,
    ArgumentRole,
    DumpStage,
    Flaw,
)
from precision_bisect.runner.build_output.files import (
    BuildOutputError,
    IncompleteRecordError,
    MalformedFileError,
    MissingFileError,
    UnsafePathError,
)
from precision_bisect.runner.tensor import DType
from tests.runner.build_output.build_files import manifest, record, write_dump


def test_lookup(tmp_path):
    dump = ArgsDump.open(
        write_dump(
            tmp_path,
            [
                record(5, 0),
                record(2**63 + 1, 0, role="inout"),
                record(5, 1, role="inout"),
                record(5, 1, role="inout", stage="after_completion"),
            ],
        )
    )
    assert dump.task_ids() == [5, 2**63 + 1]
    assert [one.index for one in dump.find(task_id=5)] == [0, 2, 3]
    assert [one.index for one in dump.find(role=ArgumentRole.INOUT)] == [1, 2, 3]
    assert [one.index for one in dump.find(task_id=5, arg_index=1, stage=DumpStage.AFTER_COMPLETION)] == [3]
    assert dump.find(task_id=6) == []
    assert dump.tensor(dump.record(0)).torch().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert dump.inconsistencies == ()


def test_every_type_is_read_where_it_lies(tmp_path):
    payload, records = b"", []
    for number, dtype in enumerate(DType):
        values = np.arange(3).astype(dtype.storage).tobytes()
        # One stray byte before each puts most of them out of alignment.
        spelled = dtype.value.upper() if number % 2 else dtype.value
        records.append(
            record(
                1,
                number,
                dtype=spelled,
                shape=[3],
                strides=[1],
                numel=3,
                bin_offset=len(payload) + 1,
                bin_size=len(values),
            )
        )
        payload += b"\xff" + values
    dump = ArgsDump.open(write_dump(tmp_path, records, payload))
    for number, dtype in enumerate(DType):
        tensor = dump.tensor(dump.record(number))
        assert tensor.dtype is dtype
        assert tensor.contiguous().tobytes() == np.arange(3).astype(dtype.storage).tobytes()


def test_payload_is_row_major_where_the_tensor_was_not(tmp_path):
    dump = ArgsDump.open(
        write_dump(tmp_path, [record(1, 0, strides=[1, 7], start_offset=9, is_contiguous=False)])
    )
    one = dump.record(0)
    assert (one.strides, one.start_offset) == ((1, 7), 9)
    assert dump.tensor(one).torch().tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("fields", "flaw"),
    [
        ({"truncated": True}, Flaw.TRUNCATED),
        ({"overwritten": True}, Flaw.OVERWRITTEN),
        ({"bin_size": 0}, Flaw.NO_PAYLOAD),
        ({"bin_offset": 1}, Flaw.OUTSIDE_FILE),
        ({"bin_offset": -1}, Flaw.OUTSIDE_FILE),
        ({"bin_size": -24}, Flaw.OUTSIDE_FILE),
        ({"bin_offset": 2**63 - 1, "bin_size": 2**63 - 1}, Flaw.OUTSIDE_FILE),
        ({"bin_size": 20}, Flaw.SIZE_MISMATCH),
        ({"dtype": "BFLOAT16"}, Flaw.SIZE_MISMATCH),
        ({"dtype": "UNKNOWN"}, Flaw.UNKNOWN_DTYPE),
        ({"numel": 7}, Flaw.BAD_GEOMETRY),
        ({"shape": [-2, -3]}, Flaw.BAD_GEOMETRY),
        ({"shape": [2**62, 2**62], "numel": 0}, Flaw.BAD_GEOMETRY),
        ({"shape": [2, 3], "strides": [3]}, Flaw.BAD_GEOMETRY),
    ],
)
def test_flawed_records_are_known_and_never_given_out(tmp_path, fields, flaw):
    dump = ArgsDump.open(write_dump(tmp_path, [record(1, 0, **fields), record(1, 1)]))
    assert dump.record(0).flaw is flaw
    with pytest.raises(IncompleteRecordError, match=flaw.value.split(":")[0]):
        dump.tensor(dump.record(0))
    assert dump.record(1).flaw is None


def test_floats_of_eight_and_four_bits_are_numbers_and_no_memory_of_a_task(tmp_path):
    payload = bytes([0x38, 0xC0, 0x7F, 0x7F, 0x80, 0xFF, 0x21, 0xF7])
    shapes = {"FP8E4M3FN": [3], "DataType::FP8E8M0": [3], "fp4e2m1": [1, 2]}
    records, at = [], 0
    for number, (dtype, shape) in enumerate(shapes.items()):
        size = math.prod(shape)
        strides = [size, 1][-len(shape) :]
        fields = {"dtype": dtype, "shape": shape, "strides": strides, "numel": size}
        records.append(record(1, number, **fields, bin_offset=at, bin_size=size))
        at += size
    dump = ArgsDump.open(write_dump(tmp_path, [*records, record(1, 3, dtype="FP4E2M1", bin_size=5)], payload))
    views = [dump.comparable_tensor(dump.record(number)) for number in range(3)]
    assert views[0].torch().tolist()[:2] == [1.0, -2.0]
    assert math.isnan(views[0].torch()[2])
    assert views[1].torch().tolist()[:2] == [1.0, 2.0]
    assert views[2].torch().tolist() == [[0.5, 1.0, 6.0, -6.0]]
    assert [view.converted for view in views] == [
        "float8_e4m3fn as float32", "float8_e8m0fnu as float32",
        "float4_e2m1fn_x2 as float32, two numbers an element",
    ]  # fmt: skip
    with pytest.raises(IncompleteRecordError, match="found FP8E4M3FN, which diff-tensors alone compares"):
        dump.tensor(dump.record(0))
    assert dump.record(3).flaw is Flaw.SIZE_MISMATCH
    with pytest.raises(IncompleteRecordError, match="not the size"):
        dump.comparable_tensor(dump.record(3))


def test_empty_and_zero_dimensional_tensors_are_whole(tmp_path):
    records = [
        record(1, 0, shape=[0, 3], strides=[3, 1], numel=0, bin_size=0),
        record(1, 1, shape=[], strides=[], numel=1, bin_size=4),
    ]
    dump = ArgsDump.open(write_dump(tmp_path, records))
    assert [dump.tensor(dump.record(i)).torch().tolist() for i in range(2)] == [[], 0.0]


@pytest.mark.parametrize(
    ("dtype", "value", "read"),
    [
        ("UINT64", 2**64 - 1, 2**64 - 1),
        ("INT32", -3, -3),
        ("BOOL", True, True),
        ("FLOAT32", 0.5, 0.5),
        ("FLOAT32", "$Inf", math.inf),
        ("FLOAT32", "-$Inf", -math.inf),
        ("UINT64", None, None),
    ],
)
def test_scalars(tmp_path, dtype, value, read):
    scalar = record(1, 4, kind="scalar", dtype=dtype, value=value, shape=[], strides=[], numel=1, bin_size=0)
    dump = ArgsDump.open(write_dump(tmp_path, [record(1, 0), scalar]))
    one = dump.record(1)
    assert (one.kind, one.value, one.flaw) == (ArgumentKind.SCALAR, read, None)
    with pytest.raises(IncompleteRecordError, match="scalar"):
        dump.tensor(one)


def test_a_null_float_is_nan(tmp_path):
    scalar = record(
        1, 4, kind="scalar", dtype="FLOAT32", value=None, shape=[], strides=[], arg_index_ambiguous=True
    )
    one = ArgsDump.open(write_dump(tmp_path, [scalar])).record(0)
    assert one.value is not None
    assert math.isnan(one.value)
    assert one.arg_index_ambiguous


def test_first_era(tmp_path):
    """April 2026: dated names, `tensors`, one function id, no kind, tensors placed in a raw shape."""
    folder = tmp_path / "tensor_dump_20260415_101112"
    folder.mkdir()
    old = record(1, 0, func_id=3, subtask_id=1, raw_shape=[4, 8], offsets=[1, 2])
    for key in ("kind", "strides", "start_offset"):
        del old[key]
    new = manifest([old], timestamp="20260415_101112", bin_file=f"{folder.name}.bin")
    renamed = {key.replace("_args", "_tensors"): value for key, value in new.items() if key != "args"}
    (folder / f"{folder.name}.json").write_text(json.dumps({**renamed, "tensors": [old]}))
    (folder / f"{folder.name}.bin").write_bytes(np.arange(6, dtype="<f4").tobytes())
    dump = ArgsDump.open(folder)
    one = dump.record(0)
    assert (one.kernels, one.kind, one.strides, one.start_offset) == ((3,), ArgumentKind.TENSOR, (8, 1), 10)
    assert dump.tensor(one).torch().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert dump.inconsistencies == ()


def test_undated_tensor_dump(tmp_path):
    write_dump(tmp_path, [record(1, 0)], bin_file="tensor_dump.bin")
    (tmp_path / "args_dump.json").rename(tmp_path / "tensor_dump.json")
    (tmp_path / "args.bin").rename(tmp_path / "tensor_dump.bin")
    assert ArgsDump.open(tmp_path).record(0).flaw is None


def test_metadata_only_dump(tmp_path):
    write_dump(tmp_path, [record(1, 0, bin_size=0)], bin_file=None, dump_args_level=3)
    (tmp_path / "args.bin").unlink()
    dump = ArgsDump.open(tmp_path)
    assert dump.record(0).flaw is Flaw.NO_PAYLOAD


def test_dropped_records_and_wrong_counts_are_told(tmp_path):
    folder = write_dump(tmp_path, [record(1, 0)], dropped_records=2, total_args=3, dropped_overwrite=5)
    dump = ArgsDump.open(folder)
    assert dump.dropped_records == 2
    assert dump.inconsistencies == (
        "the header counts 3 total records, the file has 1",
        "the header counts 5 overwritten records, the file has 0",
    )


def test_no_records(tmp_path):
    assert len(ArgsDump.open(write_dump(tmp_path, []))) == 0


@pytest.mark.parametrize("indent", [None, 2])
def test_many_records_in_any_layout(tmp_path, indent):
    """More than one chunk is read, however the JSON is laid out."""
    records = [record(task, 0, shape=[2, 3 + task % 3], numel=2 * (3 + task % 3)) for task in range(9000)]
    write_dump(tmp_path, [])
    (tmp_path / "args_dump.json").write_text(json.dumps(manifest(records), indent=indent))
    dump = ArgsDump.open(tmp_path)
    assert dump.task_ids() == list(range(9000))
    assert [dump.record(i).shape[1] for i in (0, 1, 2, 8999)] == [3, 4, 5, 5]


def write_text(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "args_dump.json").write_bytes(text)
    (folder / "args.bin").write_bytes(bytes(24))
    return folder


WHOLE = json.dumps(manifest([record(1, 0), record(2, 0)])).encode()


def test_a_manifest_cut_anywhere_is_one_clear_error(tmp_path):
    assert len(ArgsDump.open(write_text(tmp_path, WHOLE))) == 2
    for end in {*range(0, len(WHOLE), 9), *range(len(WHOLE) - 9, len(WHOLE))}:
        with pytest.raises(MalformedFileError, match=r"args_dump\.json: expected"):
            ArgsDump.open(write_text(tmp_path, WHOLE[:end]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"arg_index": 0', b'"arg_index": "0"'),
        (b'"arg_index": 0', b'"arg_index": 2147483648'),
        (b'"shape": [2, 3]', b'"shape": 6'),
        (b'"shape": [2, 3]', b'"shape": [2.5]'),
        (b'"shape": [2, 3]', b'"shape": [%s]' % b",".join([b"1"] * 17)),
        (b'"shape": [2, 3]', b'"shape": [9223372036854775808]'),
        (b'"role": "input"', b'"role": "sideways"'),
        (b'"task_id": "0x0000000000000001"', b'"task_id": "one"'),
        (b'"task_id": "0x0000000000000001"', b'"task_id": 18446744073709551616'),
        (b'"stage": "before_dispatch", ', b""),
        (b'"args": [', b'"args": [[], '),
        (b'"args": [', b'"args": [,'),
        (b'"args": [', b'"args": [null, '),
        (b'"args": [', b'"arks": ['),
        (b"little_endian", b"big_endian"),
        (b"logical_contiguous", b"strided"),
        (b'"dropped_records": 0', b'"dropped_records": -1'),
        (b'"dropped_records": 0, ', b""),
        (b'"overwritten": false}]', b'"overwritten": false},]'),
        (b'"overwritten": false}]', b'"overwritten": false} {}]'),
        (b'"overwritten": false}]', b'"overwritten": false}], "more": [{}]'),
        (b'"dtype": "FLOAT32"', b'"dtype": "%s"' % (b"F" * 100)),
    ],
)
def test_wrong_json_is_one_clear_error(tmp_path, old, new):
    changed = WHOLE.replace(old, new)
    assert changed != WHOLE
    with pytest.raises(MalformedFileError, match=r"args_dump\.json: expected"):
        ArgsDump.open(write_text(tmp_path, changed))


def test_error_tells_where_it_is(tmp_path):
    folder = write_dump(tmp_path, [record(1, 0), record(1, 1, kind="scalar", value="five")])
    with pytest.raises(MalformedFileError, match=r"record at \[0\] or soon after.*five"):
        ArgsDump.open(folder)


def test_payload_file_outside_is_refused(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(24))
    for bin_file in ("../secret", str(tmp_path / "secret")):
        with pytest.raises(UnsafePathError):
            ArgsDump.open(write_dump(tmp_path / "dump", [record(1, 0)], bin_file=bin_file))
    folder = write_dump(tmp_path / "dump", [record(1, 0)])
    (folder / "args.bin").unlink()
    (folder / "args.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(UnsafePathError):
        ArgsDump.open(folder)


def test_missing_files(tmp_path):
    with pytest.raises(MissingFileError, match="--dump-args"):
        ArgsDump.open(tmp_path)
    folder = write_dump(tmp_path / "dump", [record(1, 0)])
    (folder / "args.bin").unlink()
    with pytest.raises(MissingFileError, match="payloads"):
        ArgsDump.open(folder)


def test_too_many_distinct_shapes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(args_index, "MAX_DISTINCT", 3)
    folder = write_dump(tmp_path, [record(1, i, shape=[i], strides=[1], numel=i) for i in range(4)])
    with pytest.raises(BuildOutputError, match="distinct"):
        ArgsDump.open(folder)
