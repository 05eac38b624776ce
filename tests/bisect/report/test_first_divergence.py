"""Where a failure begins, in words: tensors, missing edges, stalls, races, and how many of each are told of."""

from pathlib import Path
from typing import Any

import pytest

from precision_bisect.bisect.report.phrases import localization_lines
from precision_bisect.runner.localization import (
    BuildChange,
    CrashedTask,
    Divergence,
    DivergentPass,
    FailureCause,
    FirstDivergent,
    GeneratedSources,
    Localization,
    PatternFit,
    Race,
    ReductionSize,
    Stall,
    StalledTask,
    TensorStatistics,
    UnorderedTasks,
)


def lines(**parts: Any) -> list[tuple[str, str]]:
    """What is said of a divergence, without the last line: that it was compared."""
    found = Localization(
        status="found",
        message="with the parent's build",
        divergence=Divergence(failing_build="bad", **parts),
    )
    *told, last = localization_lines(found)
    assert last == ("compared", "with the parent's build")
    return told


def tensor(**fields: Any) -> FirstDivergent:
    row: dict[str, Any] = {
        "task_id": "r0t1",
        "kernel": "middle",
        "kernel_sources": ("middle.cpp",),
        "orchestration_source": "main.cpp",
        "orchestration_lines": (7, 9),
        "argument": 1,
        "tensor": "b",
        "task_class": "introduced",
        "reason": "the kernel alone is wrong",
    }
    return FirstDivergent(**(row | fields))


def stall(**fields: Any) -> Stall:
    waiting = StalledTask(
        task_id="r0t3",
        kernel="",
        kernel_sources=("scale.cpp",),
        orchestration_source="main.cpp",
        orchestration_lines=(),
        state="WAIT",
        cores=(),
    )
    running = waiting.model_copy(
        update={
            "task_id": "r0t2",
            "kernel": "scale",
            "state": "RUNNING",
            "cores": (3, 4),
            "orchestration_lines": (12,),
        }
    )
    row: dict[str, Any] = {
        "believed": True,
        "reason": "no task ended",
        "completed": 2,
        "total": 5,
        "tasks": (waiting, running),
    }
    return Stall(**(row | fields))


def edge(number: int, *, ordered_in_reference: bool | None = None) -> UnorderedTasks:
    return UnorderedTasks(
        before_kernel=f"writer{number}",
        after_kernel="reader",
        hazard="read after write",
        cause="no_dep",
        ordered_in_reference=ordered_in_reference,
    )


def test_what_was_left_out_tells_only_why() -> None:
    left = Localization(status="left out", message="no build directory was kept")
    assert [*localization_lines(left)] == [("not known", "no build directory was kept")]


def test_a_tensor_tells_its_task_sources_class_pattern_and_error() -> None:
    statistics = TensorStatistics(
        dtype="float32",
        shape=(2, 3),
        elements=6,
        different=2,
        max_error=0.5,
        max_error_index=(1, 2),
        max_ulps=9,
        nan=0,
        inf=0,
        rows=2,
        rows_different=1,
        first_rows_different=(1,),
    )
    pattern = PatternFit(name="offset", confidence=0.9, evidence="all by 0.5")
    assert lines(first_divergent=(tensor(statistics=statistics, pattern=pattern),)) == [
        ("tensor", "b of task middle (r0t1)"),
        ("source", "middle.cpp, submitted at main.cpp:7, 9"),
        ("class", "introduced: the kernel alone is wrong"),
        ("pattern", "offset (90 %): all by 0.5"),
        ("worst", "absolute error 0.5 at [1, 2]; 2 of 6 elements differ, by at most 9 ulp"),
    ]


def test_what_the_text_does_not_settle_is_told_as_open() -> None:
    told = lines(first_divergent=(tensor(tensor=None, orchestration_lines=()),))
    assert told[:2] == [
        ("tensor", "argument 1 of task middle (r0t1)"),
        ("source", "middle.cpp, submitted at main.cpp:?"),
    ]


def test_tasks_of_one_kernel_are_told_of_once_and_many_tensors_are_counted() -> None:
    tasks = [tensor(task_id=f"r0t{number}", position=number) for number in range(3)]
    others = [tensor(kernel=f"k{number}") for number in range(5)]
    told = lines(first_divergent=(*tasks, *others))
    assert [text for label, text in told if label == "tensor"] == [
        "b of task 0 middle (r0t0); the same in 2 more tasks of this kernel, see divergence.json",
        *(f"b of task k{number} (r0t1)" for number in range(3)),
    ]
    assert ("", "and 2 more first divergent tensors in divergence.json") in told


def test_no_divergent_tensor_is_said_so() -> None:
    assert lines() == [
        ("none", "no task of the culprit's build was seen to leave other values than its parent's")
    ]


@pytest.mark.parametrize(
    ("believed", "words"), [(True, "no task ended"), (False, "not believed: no task ended")]
)
def test_a_stall_tells_the_tasks_that_were_not_done(believed: bool, words: str) -> None:
    assert lines(stall=stall(believed=believed)) == [
        ("stall", f"{words}; 2 of 5 tasks done"),
        ("task", "no kernel (r0t3) waits, scale.cpp, submitted at main.cpp:?"),
        ("task", "scale (r0t2) runs on core 3, 4, scale.cpp, submitted at main.cpp:12"),
    ]


def test_a_cause_tells_what_the_good_build_does_with_it() -> None:
    """A stall has no wrong elements; a place alone is told where the cause has its lines already."""
    added = BuildChange(part="orchestration", file="main.cpp", line=7, diff=("+ wait(a);",))
    cause = FailureCause(what="the orchestration: + wait(a);", confirmed=True, effect=1.0, changes=(added,))
    for parts, does in (
        ({"stall": stall()}, "it stall"),
        ({"ended": "killed by SIGSEGV"}, "it end in the same way"),
        ({}, "100 % of what is wrong"),
    ):
        told = lines(causes=(cause,), **parts)
        assert told[:2] == [
            ("cause", f"the orchestration: + wait(a); (alone in the good build, it makes {does})"),
            ("changed", "main.cpp:7"),
        ]
        assert does == "100 % of what is wrong" or "wrong" not in " ".join(text for _, text in told)
    kernel = cause.model_copy(update={"what": "the source of kernel y", "confirmed": False})
    assert lines(causes=(kernel,))[:2] == [
        ("candidate", "the source of kernel y"),
        ("changed", "main.cpp:7\n+ wait(a);"),
    ]


def test_a_change_has_a_line_for_each_of_its_lines_and_says_where_it_was_cut() -> None:
    added = BuildChange(
        part="kernel", file="y.cpp", line=7, diff=tuple(f"+ {number};" for number in range(6))
    )
    cause = FailureCause(what="the source of kernel y", confirmed=True, effect=1.0, changes=(added,))
    _, (label, text) = lines(causes=(cause,))[:2]
    assert label == "changed"
    assert text.split("\n") == ["y.cpp:7", "+ 0;", "+ 1;", "+ 2;", "+ 3;", "... more in divergence.json"]


def test_of_a_stall_s_tasks_the_last_ones_are_told_of() -> None:
    (waiting, running) = stall().tasks
    told = lines(stall=stall(tasks=(waiting, *[running] * 4)))
    assert [text[:5] for label, text in told if label == "task"] == ["scale"] * 4


def test_a_task_that_crashes_is_told_with_how_it_ended() -> None:
    crash = CrashedTask(
        position=1,
        kernel="scale",
        kernel_sources=("scale.cpp",),
        orchestration_source="main.cpp",
        orchestration_line=12,
    )
    assert lines(ended="crash (SIGSEGV); it crashes once task 1 scale is submitted", crash=crash) == [
        ("crash", "crash (SIGSEGV); it crashes once task 1 scale is submitted")
    ]


def test_missing_edges_are_told_of_unless_the_reference_lacks_them_too() -> None:
    edges = (edge(0, ordered_in_reference=False), *(edge(number) for number in range(1, 7)))
    told = lines(first_divergent=(tensor(),), missing_edges=edges)
    assert [text for label, text in told if label == "no edge"] == [
        f"reader does not wait for writer{number}: read after write; no_dep" for number in range(1, 5)
    ]


@pytest.mark.parametrize(
    ("confirmed", "words"),
    [(True, "confirmed: one order fails and another passes on the same data"), (False, "not shown")],
)
def test_a_race_tells_whether_it_was_confirmed(confirmed: bool, words: str) -> None:
    told = lines(first_divergent=(tensor(),), race=Race(confirmed=confirmed), schedule="reverse")
    assert told[-2:] == [
        ("order", "compared under schedule reverse, in which it fails while it passes under another"),
        ("race", words),
    ]


def test_sources_that_differ_tell_who_is_at_fault() -> None:
    generated = GeneratedSources(
        origin="compiler", shown="middle.cpp differs", first_pass=DivergentPass(number=4, name="fold_casts")
    )
    assert lines(first_divergent=(tensor(),), generated=generated)[-2:] == [
        ("due to", "compiler: middle.cpp differs"),
        ("pass", "fold_casts, pass 4, the first after which the program differs"),
    ]
    unsettled = GeneratedSources(shown="no source differs")
    assert lines(first_divergent=(tensor(),), generated=unsettled)[-1] == (
        "due to",
        "compiler or runtime, which is not known: no source differs",
    )


def test_a_reduction_tells_how_small_the_build_became() -> None:
    size = ReductionSize.model_validate(
        {"tasks": {"before": 5, "after": 1}, "kernels": {"before": 2, "after": 1}}
    )
    found = Localization(
        status="found", message="with golden data", reduction=size, reduced=Path("out/reduced")
    )
    assert [*localization_lines(found)] == [
        ("reduced", "5 tasks to 1, 2 kernels to 1: out/reduced"),
        ("compared", "with golden data"),
    ]
