"""The manifest of a dump: its header, and its records a batch at a time."""

import json
from pathlib import Path

import pytest

from precision_bisect.runner.build_output.args_dump import Manifest
from precision_bisect.runner.build_output.files import MalformedFileError
from tests.runner.build_output.build_files import manifest, record

PATH = Path("args_dump.json")


def parse(text: str) -> Manifest:
    return Manifest.parse(PATH, memoryview(text.encode()))


def test_records_come_in_file_order_whatever_stands_around_them() -> None:
    read = parse(json.dumps(manifest([record(task, 0) for task in range(5000)]), indent=1))
    records = [one for batch in read.batches() for one in batch]
    assert [one.task_id for one in records] == [f"0x{task:016x}" for task in range(5000)]
    assert read.header.bin_format.type == "logical_contiguous"


def test_a_dump_without_records_has_no_batch() -> None:
    assert list(parse(json.dumps(manifest([]))).batches()) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", '"args" or "tensors"'),
        ('{"args": [', "closing bracket"),
        ('{"args": [], "bin_format": 3}', "the JSON of a dump"),
        (json.dumps(manifest([], bin_format={"type": "tiled", "byte_order": "big"})), "tiled big"),
    ],
)
def test_a_header_that_is_none_is_refused(text: str, says: str) -> None:
    with pytest.raises(MalformedFileError, match=says):
        parse(text)


@pytest.mark.parametrize("broken", ['{"task_id": 1}', "3", "{} {}", "{"])
def test_a_record_that_is_none_is_named_by_its_place(broken: str) -> None:
    text = json.dumps(manifest([record(1, 0)])).replace("}]", "}, " + broken + "]")
    with pytest.raises(MalformedFileError, match=r"an argument record at \["):
        list(parse(text).batches())
