"""An orchestration that gives buffers away: what it allocates is no change of its own, who lies where is."""

from __future__ import annotations

import pytest

from precision_bisect.reduce.localize.changes import (
    apply_changes,
    apply_reference_allocations,
    group_changes,
    text_changes,
)
from precision_bisect.runner.build_output.orchestration import Orchestration

HEAD = "void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {\n"


def declared(name: str) -> str:
    return (
        f"    uint32_t {name}_shapes[2] = {{8, 8}};\n"
        f"    TensorCreateInfo {name}_ci({name}_shapes, 2, DataType::FLOAT32);\n"
    )


def program(allocated: str, **places: str) -> Orchestration:
    """One that allocates tensors called by letters, and takes tensors from places of the batch."""
    infos = ", ".join(f"{name}_ci" for name in allocated)
    tensors = "".join(
        f"    const ChipTensor& {name} = made.get_ref({place});\n" for name, place in places.items()
    )
    text = (
        HEAD
        + "".join(map(declared, allocated))
        + f"    TaskOutputTensors made = alloc_tensors({infos});\n{tensors}}}\n"
    )
    return Orchestration.parse(text.encode())


GOOD = program("abcd", a="0", b="1", c="2", d="3")


def changed(failing: Orchestration) -> list[list[str]]:
    """The lines of each change."""
    changes = group_changes(text_changes(GOOD.source, apply_reference_allocations(GOOD, failing)))
    return [[line for text in group for line in text.lines()] for group in changes]


def test_each_tensor_that_lies_elsewhere_is_a_change_as_its_file_has_it() -> None:
    assert changed(program("ac", a="0", b="0", c="1", d="1")) == [
        ["- const ChipTensor& b = made.get_ref(1);", "+ const ChipTensor& b = made.get_ref(0);"],
        ["- const ChipTensor& d = made.get_ref(3);", "+ const ChipTensor& d = made.get_ref(1);"],
    ]


def test_the_program_with_one_change_takes_the_place_that_the_good_build_counts() -> None:
    failing = program("ac", a="0", b="0", c="1", d="1")
    _, (last,) = group_changes(text_changes(GOOD.source, apply_reference_allocations(GOOD, failing)))
    assert apply_changes(GOOD.source, [last]) == program("abcd", a="0", b="1", c="2", d="2").source
    assert last.first_line == failing.source[: failing.source.index(b"& d")].count(b"\n") + 1


@pytest.mark.parametrize(
    "failing",
    [
        program("abcd", a="0", b="0", c="2", d="3"),
        program("abe", a="0", b="1", e="2"),
        program("aab", a="0", b="2"),
        Orchestration.parse(program("ac", a="0", c="1").source.replace(b"\n}", b"\n f(made.get_ref(0)); }")),
        Orchestration.parse(program("ac", a="0", c="1").source.replace(b"(a_ci,", b"(a_ci,\n")),
        Orchestration.parse(program("ac", a="0", c="n").source),
    ],
)
def test_what_is_not_understood_stays_as_it_is(failing: Orchestration) -> None:
    assert b"".join(line.text for line in apply_reference_allocations(GOOD, failing)) == failing.source


def test_a_dropped_allocation_alone_is_found_line_by_line() -> None:
    assert changed(program("ab", a="0", b="1")) == [
        ["- const ChipTensor& c = made.get_ref(2);", "- const ChipTensor& d = made.get_ref(3);"]
    ]
