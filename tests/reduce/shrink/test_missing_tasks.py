"""Builds that do not submit a task of the good one, or have one leave its result elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from precision_bisect.reduce.reduce_cli import main
from tests.reduce.demo_builds import Trees
from tests.reduce.quick_runs import quick_runs
from tests.reduce.shrink.test_reduction import checked
from tests.reduce.small_builds import BODY, SHIFT, WRONG, small_build

_MASKED = """
    CoreTaskArgs masked;
    masked.add_input(x0);
    masked.add_output(b);
    rt_submit_aiv_task(0, masked);
    CoreTaskArgs p1;"""
"""Writes what p1 writes again, before anything reads it."""


def reduced(folder: Path, stack_file: Path, bad: Path, good: Path) -> dict[str, Any]:
    arguments = [str(bad), "--reference", str(good), "--stack", str(stack_file), "-o", str(folder)]
    with quick_runs():
        done = CliRunner().invoke(main, [*arguments, "--jobs", "1", "--quiet"])
    assert done.exit_code == 0, done.output
    return json.loads((folder / "reduction.json").read_text())


@pytest.mark.long
@pytest.mark.parametrize(
    ("submission", "missing", "kept"),
    [
        ("rt_submit_aiv_task(1, p1);", "1: middle", "1: scale"),
        ("rt_submit_aiv_task(0, p2);", "2: scale", "0: scale"),
    ],
    ids=["whose result is read", "that writes an output"],
)
def test_a_task_that_is_not_submitted(
    submission: str, missing: str, kept: str, tmp_path: Path, good_trees: Trees
) -> None:
    good = small_build(tmp_path / "good", SHIFT)
    bad = small_build(tmp_path / "bad", SHIFT, body=BODY.replace(submission, ""))
    found = reduced(tmp_path / "out", good_trees.stack_file, bad, good)
    assert (found["missing_tasks"], found["kept_tasks"]) == ([missing], [kept])
    assert checked(tmp_path / "out")["tasks"] == {"before": 4, "after": 1}
    result = tmp_path / "out" / "result"
    sources = [
        next((result / side / "orchestration").glob("*.cpp")).read_text() for side in ("failing", "passing")
    ]
    assert [source.count("rt_submit_aiv_task(") for source in sources] == [1, 2]
    assert f"- task {missing[0]} of the good build (`{missing[3:]}`)" in (result / "why.md").read_text()


@pytest.mark.long
def test_a_task_that_leaves_its_result_elsewhere_is_left_alone(tmp_path: Path, good_trees: Trees) -> None:
    good = small_build(tmp_path / "good", SHIFT)
    bad = small_build(tmp_path / "bad", SHIFT, body=BODY.replace("p4.add_output(x2)", "p4.add_output(x1)"))
    found = reduced(tmp_path / "out", good_trees.stack_file, bad, good)
    assert (found["missing_tasks"], found["kept_tasks"]) == ([], ["4: scale"])
    checked(tmp_path / "out")
    why = (tmp_path / "out" / "result" / "why.md").read_text()
    assert "leaves its results elsewhere than in the good build is task 4 (`scale`)" in why


@pytest.mark.long
def test_a_missing_task_that_changes_nothing_is_no_cause(tmp_path: Path, good_trees: Trees) -> None:
    good = small_build(tmp_path / "good", SHIFT, body=BODY.replace("\n    CoreTaskArgs p1;", _MASKED))
    bad = small_build(tmp_path / "bad", WRONG)
    variables = "[environment.variables]\n"
    text = good_trees.stack_file.read_text()
    assert text.count(variables) == 1
    serial = tmp_path / "serial.toml"
    # The two that write the same do not wait for each other.
    serial.write_text(text.replace(variables, f'{variables}MINIRT_ORDER = "serial"\n'))
    found = reduced(tmp_path / "out", serial, bad, good)
    assert (found["missing_tasks"], found["kept_tasks"]) == ([], ["1: middle"])
