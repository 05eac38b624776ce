"""What the terminal shows of a localization: all of it, however narrow, and nothing but text."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from precision_bisect.reduce.localize.localization_text import headline, print_summary
from precision_bisect.runner.compare.diff_report import SummaryLines
from precision_bisect.runner.localization import Divergence

NOTHING: dict[str, Any] = {
    "failing_build": "bad",
    "reference": {"kind": "good build", "path": "good", "platform": "a2a3sim", "schedule": None},
    "rtol": 0.0,
    "atol": 0.0,
    "schedule": None,
    "tasks": 14,
    "runs": 9,
    "reference_runs": 9,
    "bytes_dumped": 1000,
    "race": None,
    "stall": None,
    "generated": None,
    **dict.fromkeys(
        (
            *("first_divergent", "candidates", "not_compared", "rounding", "downstream", "vanished"),
            *("missing_edges", "unaligned", "unaligned_reference", "unvisited"),
        ),
        (),
    ),
}
EDGE = {
    "before_task_id": "0x1",
    "before_kernel": "product",
    "before_argument": 2,
    "after_task_id": "0x2",
    "after_kernel": "product_acc\x1b[2J",
    "after_argument": 2,
    "hazard": "write after write",
    "cause": "add_output where add_inout belongs, if the kernel reads what was there",
    "ordered_in_reference": True,
}


def printed(width: int = 60, *, whole: bool = False, **changes: Any) -> str:
    text = io.StringIO()
    lines = SummaryLines(console=Console(file=text, width=width), whole=whole)
    print_summary(Divergence.model_validate({**NOTHING, **changes}), lines)
    return text.getvalue()


def test_a_search_without_result_names_the_edges_that_may_be_behind_it() -> None:
    told = printed(missing_edges=(EDGE,))
    assert "no task was seen to leave other values" in told
    assert "candidates" in told
    assert "does not wait for product (0x1): write after write; add_output where add_inout belongs" in told
    assert "race" not in told
    assert "\x1b" not in told


def test_all_is_printed_where_all_is_asked_for() -> None:
    edges = tuple({**EDGE, "after_task_id": f"0x{number}"} for number in range(20))
    assert printed(missing_edges=edges).count("missing edge: ") == 8
    assert "... and 12 more missing edges, see divergence.json" in printed(missing_edges=edges)
    whole = printed(whole=True, missing_edges=edges)
    assert whole.count("missing edge: ") == 20
    assert " more " not in whole


TENSOR = {
    "task_id": "0x1",
    "position": 1,
    "kernel": "energy",
    "kernel_sources": ("energy.cpp",),
    "orchestration_source": "main.cpp",
    "argument": 1,
    "tensor": "energy",
    "class": "introduced",
    "reason": "it is wrong",
}


def test_tasks_alike_are_counted_or_all_printed() -> None:
    tensors = tuple({**TENSOR, "position": number} for number in (1, 5, 7))
    told = printed(width=200, first_divergent=tensors)
    assert told.count("first divergent: ") == 1
    assert "  the same in 2 more tasks of this kernel: tasks 5, 7\n" in told
    whole = printed(width=200, whole=True, first_divergent=tensors)
    assert whole.count("first divergent: ") == 3
    assert "the same in" not in whole


def test_a_source_is_named_once() -> None:
    """The verdict may name the sources that differ. They are not listed again."""
    generated = {
        "origin": "compiler",
        "shown": "what differs in a.cpp makes it fail",
        "differing": ("a.cpp",),
    }
    assert printed(width=200, generated=generated).count("a.cpp") == 1
    told = printed(width=200, generated={**generated, "only_failing": ("b.cpp",)})
    assert "generated sources that differ too: b.cpp\n" in told
    unsaid = printed(width=200, generated={**generated, "shown": "nothing is shown"})
    assert "generated sources that differ: a.cpp\n" in unsaid


def test_a_task_after_the_first_says_how_it_got_its_error() -> None:
    task = {key: TENSOR[key] for key in ("task_id", "position", "kernel")}
    told = printed(width=200, downstream=({**task, "class": "inherited", "reason": "its inputs are wrong"},))
    assert "after it: task 1 energy, inherited: its inputs are wrong\n" in told


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, "no task was seen to leave other values than it should"),
        ({"first_divergent": (TENSOR,)}, "first divergent: energy of task 1 energy (0x1)"),
        (
            {"causes": ({"what": "a kernel", "confirmed": True, "effect": 1.0},) * 2},
            "cause: a kernel (alone in the good build, it makes 100 % of what is wrong); 1 more cause",
        ),
        (
            {"stall": {"believed": True, "reason": "none ended", "completed": 1, "total": 2, "tasks": ()}},
            "stall: none ended",
        ),
        (
            {"failure": {"rtol": 0.0, "atol": 0.0, "told": True, "outputs": ()}},
            "the case passes",
        ),
    ],
)
def test_the_headline_is_the_most_important_finding(found: dict[str, Any], words: str) -> None:
    assert headline(Divergence.model_validate({**NOTHING, **found})) == words


def test_an_edge_that_the_reference_lacks_too_is_no_candidate() -> None:
    assert "candidates" not in printed(missing_edges=({**EDGE, "ordered_in_reference": False},))


@pytest.mark.parametrize("width", [20, 60, 200])
def test_no_word_is_lost_on_a_narrow_terminal(width: int) -> None:
    task = {
        "task_id": "0x1",
        "kernel": "a_kernel_with_a_name_that_is_longer_than_a_terminal_of_sixty_columns",
    }
    kinds = {"kind": "golden data", "path": "data/" + "deep/" * 20, "platform": "a2a3sim", "schedule": None}
    told = printed(width, candidates=(task,), not_compared=("y: 2 buffers have that name",), reference=kinds)
    assert task["kernel"] in told
    assert "no value is known, where the error may be" in told
    assert "not compared: y: 2 buffers have that name" in told
    assert f"the golden outputs in {kinds['path']} alone" in told
