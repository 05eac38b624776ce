"""Whatever bytes a file holds, a reader returns, or raises one `BuildOutputError`. Sound files, damaged at random.

`tests/system/fuzz/fuzz.py` does the same as often as one likes.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from precision_bisect.runner.build_output.args_dump import ArgsDump, ArgumentKind
from precision_bisect.runner.build_output.directory import KernelConfig, TensorFolder, read_name_map
from precision_bisect.runner.build_output.files import BuildOutputError, Folder
from precision_bisect.runner.build_output.orchestration import Orchestration
from precision_bisect.runner.build_output.task_graph import TaskGraph
from tests.runner.build_output.build_files import KERNEL_CONFIG, ORCHESTRATION, graph, manifest, record
from tests.support.quick import examples


def read_dump(folder: Path) -> None:
    dump = ArgsDump.open(folder)
    for index in range(len(dump)):
        one = dump.record(index)
        if one.flaw is None and one.kind is ArgumentKind.TENSOR:
            assert dump.tensor(one).contiguous().nbytes == one.bin_size


def read_graph(folder: Path) -> None:
    read = TaskGraph.open(folder / "deps.json")
    for task in read.tasks:
        assert task not in read.ancestors(task)


def read_orchestration(folder: Path) -> None:
    read = Orchestration.open(Folder.open(folder, expected="a build"), "sums.cpp")
    for submit in read.submits:
        assert "submit" in read.text(submit.statement)


def read_tensor(folder: Path) -> None:
    TensorFolder.open(folder).tensor("t").contiguous()


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "args_dump": ("args_dump.json", read_dump),
    "task_graph": ("deps.json", read_graph),
    "kernel_config": ("kernel_config.py", KernelConfig.open),
    "orchestration": ("sums.cpp", read_orchestration),
    "name_map": ("name_map.json", lambda folder: read_name_map(folder / "name_map.json")),
    "torch_file": ("t.pt", read_tensor),
}

PIECES = b'|{|}|[|]|"|,|-1|null|1e999|99999999999999999999|\0|\xff|\n'.split(b"|")


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> dict[str, bytes]:
    """One sound file for each reader."""
    saved = tmp_path_factory.mktemp("sound") / "t.pt"
    torch.save(torch.arange(24.0).reshape(4, 6)[1:, ::2], saved)
    scalar = record(
        1, 2, kind="scalar", dtype="FLOAT32", value=0.5, shape=[], strides=[], numel=1, bin_size=0
    )
    return {
        "args_dump": json.dumps(manifest([record(1, 0), record(1, 1, func_id=3), scalar])).encode(),
        "task_graph": json.dumps(graph()).encode(),
        "kernel_config": KERNEL_CONFIG.encode(),
        "orchestration": ORCHESTRATION.encode(),
        "name_map": b'{"level": 2, "callable_id_to_name": {"0": "square", "1": "sum"}}',
        "torch_file": saved.read_bytes(),
    }


def damage(content: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """Replaces pieces: each edit is a place (0 to 1), a length to cut, and what to put there."""
    for place, cut, put in edits:
        start = int(place * len(content))
        content = content[:start] + put + content[start + cut :]
    return content


numbers = st.integers(-(2**70), 2**70).map(lambda number: str(number).encode())
pieces = st.one_of(st.sampled_from(PIECES), st.binary(max_size=8), numbers)
lengths = st.sampled_from([0, 1, 1, 2, 8, 40, 10**6])
edits = st.lists(st.tuples(st.floats(0, 1), lengths, pieces), min_size=1, max_size=4)


def complaint(read: Callable[[Path], object], folder: Path) -> str | None:
    """What the reader says of a bad file; any other exception is the test's failure."""
    try:
        read(folder)
    except BuildOutputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("reader", READERS)
@settings(
    max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=edits)
@example(edits=[(0.0, 10**6, b"")])
def test_damaged_files(reader, edits, sound, tmp_path):
    name, read = READERS[reader]
    (tmp_path / "args.bin").write_bytes(bytes(64))
    (tmp_path / name).write_bytes(damage(sound[reader], edits))
    said = complaint(read, tmp_path)
    assert said is None or ("\n" not in said and len(said) < 1000 and said.startswith(str(tmp_path)))


@pytest.mark.parametrize("reader", READERS)
def test_the_undamaged_file_is_read(reader, sound, tmp_path):
    name, read = READERS[reader]
    (tmp_path / "args.bin").write_bytes(bytes(64))
    (tmp_path / name).write_bytes(sound[reader])
    read(tmp_path)


@pytest.mark.parametrize("reader", READERS)
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=300))
def test_random_bytes(reader, content, tmp_path):
    name, read = READERS[reader]
    (tmp_path / name).write_bytes(content)
    said = complaint(read, tmp_path)
    assert said is None or said.startswith(str(tmp_path))
