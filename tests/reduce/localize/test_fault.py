"""By which buffer the address of a crash lies, told by runs that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from precision_bisect.reduce.graph.submits import read_fault
from precision_bisect.reduce.localize.endings import describe_fault, fault_by_buffers
from precision_bisect.runner.build_output.directory import BuildDirectory
from precision_bisect.runner.localization import Fault
from tests.reduce.small_builds import SHIFT, small_build

A, B, FAR = 1 << 40, (1 << 40) + 4096, 1 << 46
"""Where the buffers of `a` and `b` are said to lie, of 32 bytes each; far from both."""
BUFFERS = (
    "precision-bisect: task 0 submit 0 argument 0 buffer at 9 of 0",
    f"precision-bisect: task 0 submit 0 argument 1 buffer at {A} of 32",
    f"precision-bisect: task 1 submit 1 argument 0 buffer at {A} of 32",
    f"[0.1] precision-bisect: task 1 submit 1 argument 1 buffer at {B} of 32",
)


def found(folder: Path, lines: Sequence[str], position: int = 1) -> Fault:
    told = read_fault(lines)
    assert told is not None
    orchestration = BuildDirectory.open(small_build(folder / "build", SHIFT)).orchestration()
    return fault_by_buffers(told, position, orchestration)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (0, "address 0x0, by a null pointer"),
        (A + 8, "byte 8 of a, which tasks 0, 1 may touch"),
        (B + 32, "an address 1 byte past the last of the 32 of b (of task 1), the nearest of its tensors"),
        (B + 4096, "an address 4065 bytes past the last of the 32 of b (of task 1)"),
        (A - 8, "an address 8 bytes before the first of the 32 of a (of tasks 0, 1)"),
        (FAR, f"address {FAR:#x}, far from all of its tensors"),
    ],
)
def test_the_nearest_buffer_is_named(address: int, words: str, tmp_path: Path) -> None:
    fault = found(tmp_path, [*BUFFERS, f"precision-bisect: fault at {address}"])
    assert fault.address == hex(address)
    assert describe_fault(fault).startswith(words)


def test_a_buffer_of_another_task_is_named_where_it_holds_the_address(tmp_path: Path) -> None:
    fault = found(tmp_path, [*BUFFERS, f"precision-bisect: fault at {B + 4}"], position=0)
    (buffer,) = fault.buffers
    assert (buffer.tensor, buffer.offset, buffer.tasks) == ("b", 4, (1,))


def test_all_tensors_of_the_task_are_told_the_nearest_first(tmp_path: Path) -> None:
    fault = found(tmp_path, [*BUFFERS, f"precision-bisect: fault at {B + 100}"])
    assert [buffer.tensor for buffer in fault.buffers] == ["b", "a"]
    assert [buffer.offset for buffer in fault.buffers] == [100, B + 100 - A]


def test_a_run_that_told_no_address_says_nothing() -> None:
    assert read_fault(BUFFERS) is None
