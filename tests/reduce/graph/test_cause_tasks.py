"""Which task, tensor and class are told of a cause."""

from __future__ import annotations

from collections.abc import Sequence

from precision_bisect.reduce.graph.differences import program_differences
from precision_bisect.reduce.localize.causes import Cause
from precision_bisect.reduce.localize.changes import Change, ChangedPart
from precision_bisect.reduce.localize.document import CauseDifferences, failure_cause
from precision_bisect.runner.localization import FirstDivergent
from tests.reduce.graph.small_graphs import Call, name_of, task_list

LOAD = Call("load", reads=[("x", 0)], writes=[("a", 0)])
CAST = Call("cast", reads=[("b", 8)], writes=[("c", 8)])
READ = Call("read", reads=[("c", 8)], writes=[("y", 8)], waits_for=(1,))
GOOD = (LOAD, CAST, READ)


def entry(position: int, kernel: str, tensor: str, task_class: str) -> FirstDivergent:
    return FirstDivergent.model_validate(
        {
            "task_id": "0x1",
            "position": position,
            "kernel": kernel,
            "orchestration_source": "o.cpp",
            "argument": 0,
            "tensor": tensor,
            "class": task_class,
        }
    )


def told(failing: Sequence[Call], *tensors: FirstDivergent) -> tuple[object, ...]:
    """Kernel, position, class and tensor."""
    cause = Cause(changes=(Change(part=ChangedPart.ORCHESTRATION),), effect=1.0, subject=None, shown=True)
    differences = program_differences(
        task_list(failing), task_list(GOOD), name_of=name_of(failing), reference_name_of=name_of(GOOD)
    )
    found = failure_cause(cause, CauseDifferences(cause=cause, differences=differences), tensors)
    return found.kernel, found.position, found.task_class, found.tensor


def test_a_task_that_writes_elsewhere_makes_the_error_that_its_reader_shows() -> None:
    failing = (LOAD, Call("cast", reads=[("b", 8)], writes=[("c", 7)]), READ)
    assert told(failing, entry(2, "read", "y", "interaction")) == ("cast", 1, "introduced", "c")


def test_it_is_told_by_what_it_writes_though_it_reads_elsewhere_too() -> None:
    failing = (LOAD, Call("cast", reads=[("b", 7)], writes=[("c", 7)]), READ)
    assert told(failing, entry(2, "read", "y", "interaction")) == ("cast", 1, "introduced", "c")


def test_a_task_of_its_kernel_that_is_seen_to_diverge_is_told_as_it_was_seen() -> None:
    failing = (LOAD, Call("cast", reads=[("b", 8)], writes=[("c", 7)]), READ)
    seen = entry(5, "cast", "d", "inherited")
    assert told(failing, entry(2, "read", "y", "interaction"), seen) == ("cast", 5, "inherited", "d")


def test_a_task_that_only_reads_elsewhere_is_not_said_to_write_there() -> None:
    failing = (LOAD, Call("cast", reads=[("b", 7)], writes=[("c", 8)]), READ)
    assert told(failing, entry(2, "read", "y", "interaction")) == ("cast", 2, "interaction", "y")
