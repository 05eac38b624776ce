"""The page of the task graph: states of tasks, and text of builds that stays text."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from precision_bisect.reduce.localize.localization_text import graph, page
from precision_bisect.runner.compare.diff_report import style


def made(*names: str, above: tuple[set[int], ...]) -> Any:
    tasks = [
        SimpleNamespace(ordinal=number, name=name, task=SimpleNamespace(task_id=number))
        for number, name in enumerate(names)
    ]
    return SimpleNamespace(tasks=tasks, predecessors=above)


def test_states_layers_and_errors() -> None:
    tasks = made("a", "b", "c", "d", "e", "f", above=(set(), {0}, {1}, {2}, {0}, set()))
    drawn: Any = graph(tasks, {1}, {0: 0.0, 1: 0.5, 3: math.inf}, range(5))
    assert [node["state"] for node in drawn["nodes"]] == [
        *("clean", "first", "downstream", "divergent", "unseen", "unaligned")
    ]
    assert [node["layer"] for node in drawn["nodes"]] == [0, 1, 2, 3, 1, 0]
    assert [node["error"] for node in drawn["nodes"]] == [0.0, 0.5, None, None, None, None]
    assert drawn["edges"] == [[0, 1], [1, 2], [2, 3], [0, 4]]


def test_a_kernel_name_cannot_leave_its_string() -> None:
    text = page(made("</script><img src=x>", above=(set(),)), firsts={0}, seen={}, compared={0})
    assert "<img" not in text
    assert text.count("</script>") == 1
    assert "default-src 'none'" in text


def test_the_page_has_the_look_of_all_pages_and_says_when_it_was_made() -> None:
    text = page(made("add", above=(set(),)), firsts={0}, seen={}, compared={0})
    assert style() in text
    assert "Generated 20" in text
    assert not any(mark in text for mark in ("/*STYLE*/", "<!--WHEN-->", "/*GRAPH*/"))
