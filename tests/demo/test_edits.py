"""Edits of trees, and that the edits called harmless are."""

import ast
import doctest
import random
from collections.abc import Callable
from typing import Any

import pytest

from precision_bisect.demo.history import edit as edit_module
from precision_bisect.demo.history.edit import EditError, Remove, Replace, ReplaceAll, TreeEdit, Write
from precision_bisect.demo.history.eras import STANDING, SWITCHES
from precision_bisect.demo.history.python_edits import drop_log, log_entry, rename_local
from precision_bisect.demo.scenarios import SETTINGS, DemoRepository, Scenario, faults_in
from precision_bisect.demo.trees import load_tree

SOURCE = '''\
"""Sums."""

from __future__ import annotations

import math


def total(values: list[float], scale: float = 1.0) -> float:
    """A documented function."""
    out = 0.0
    n = len(values)
    for i in range(n):
        x = values[i] * scale
        out += math.fabs(x) if x else 0.0
    return out / n
'''


def call_total(text: str) -> float:
    names: dict[str, Any] = {"__name__": "sums"}
    exec(compile(text, "sums.py", "exec"), names)
    return names["total"]([1.0, -2.5, 4.0], scale=2.0)


def test_docstring_examples_hold() -> None:
    assert doctest.testmod(edit_module).failed == 0


@pytest.mark.parametrize(
    "change",
    [
        Replace("a.py", "absent", "x"),
        Replace("a.py", "twice", "x"),
        ReplaceAll("a.py", "absent", "x"),
        Replace("b.py", "x", "y"),
        Remove("b.py"),
    ],
)
def test_an_edit_that_does_not_fit_names_the_file(change: Replace | ReplaceAll | Remove) -> None:
    with pytest.raises(EditError, match=change.path):
        TreeEdit("any", (change,)).apply({"a.py": "twice twice"})


def test_changes_apply_in_order_and_leave_the_given_tree_alone() -> None:
    tree = {"a": "1", "b": "2"}
    edit = TreeEdit("any", (Write("c", "x"), Replace("c", "x", "y"), Remove("a"), ReplaceAll("b", "2", "3")))
    assert edit.apply(tree) == {"b": "3", "c": "y"}
    assert tree == {"a": "1", "b": "2"}


@pytest.mark.parametrize("recipe", [rename_local, log_entry])
def test_harmless_python_edits_change_the_text_and_not_the_result(
    recipe: Callable[..., TreeEdit | None],
) -> None:
    tree = {"minipto/sums.py": SOURCE}
    for seed in range(20):
        edit = recipe(tree, random.Random(seed), {})
        if edit is None:
            break
        assert edit.apply(tree) != tree
        tree = edit.apply(tree)
        assert call_total(tree["minipto/sums.py"]) == call_total(SOURCE)
    assert tree["minipto/sums.py"] != SOURCE


def test_a_log_line_is_dropped_again() -> None:
    tree = {"minipto/sums.py": SOURCE}
    added = log_entry(tree, random.Random(0), {})
    assert added is not None
    dropped = drop_log(added.apply(tree), random.Random(0), {})
    assert dropped is not None
    assert "_log.debug" not in dropped.apply(added.apply(tree))["minipto/sums.py"]


def test_a_function_with_a_frozen_text_is_left_alone() -> None:
    tree = {"minipto/sums.py": SOURCE}
    frozen = {"minipto/sums.py": ["out += math.fabs(x)"]}
    assert rename_local(tree, random.Random(0), frozen) is None
    assert log_entry(tree, random.Random(0), frozen) is None


@pytest.mark.parametrize(
    "body",
    [
        "    n = 1\n    return f'{n}'\n",  # columns inside f-strings are not to be trusted
        "    n = 1\n    return (lambda n: n)(n)\n",
        "    global n\n    n = 1\n    return n\n",
        "    return [n for n in (1, 2)][0] + n\n",  # the last n is the module's
        "    try:\n        pass\n    except OSError as n:\n        n = n\n",
    ],
)
def test_a_name_that_is_more_than_a_plain_local_is_not_renamed(body: str) -> None:
    tree = {"minipto/m.py": f"n = 5\n\n\ndef f():\n{body}"}
    assert rename_local(tree, random.Random(0), {}) is None


def test_all_overlays_fit_the_newest_trees_together() -> None:
    eras = [*STANDING, *dict.fromkeys(switch.overlay for switch in SWITCHES.values())]
    for scenario in Scenario:
        setting = SETTINGS[scenario]
        tree = load_tree(setting.repository)
        planned = [setting.fault] if setting.fault else []
        if setting.repository is DemoRepository.COMPILER:
            planned += list(dict.fromkeys(eras))
        for overlay in planned:
            edited = overlay.apply(tree)
            assert edited != tree
            tree = edited
        for path, text in tree.items():
            if path.endswith(".py"):
                ast.parse(text, path)


def test_faults_differ_and_say_what_they_pretend_to_do() -> None:
    faults = [*faults_in(DemoRepository.COMPILER), *faults_in(DemoRepository.RUNTIME)]
    assert len({fault.subject for fault in faults}) == len(faults) == 8
