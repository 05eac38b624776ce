"""Orchestrations that people write: what is understood is reduced, and what is not is said with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from precision_bisect.reduce.reduce_cli import main
from tests.reduce.demo_builds import Trees
from tests.reduce.quick_runs import quick_runs
from tests.reduce.small_builds import SHIFT, WRONG, small_build

pytestmark = pytest.mark.xdist_group("reduction")
_MADE = """PTO2_SCOPE() {
    uint32_t shapes[1] = {8};
    uint32_t first[1] = {0};
    TensorCreateInfo info(shapes, 1, DataType::FLOAT32);
    TaskOutputTensors made = alloc_tensors(info, info, info);
    const ChipTensor& a = made.get_ref(0);
    const ChipTensor& b = made.get_ref(1);
    const ChipTensor& c = made.get_ref(2);
"""


def _task(number: int, kernel: int, read: str, written: str) -> str:
    return (
        f"    CoreTaskArgs p{number};\n    p{number}.add_input({read});\n    p{number}.add_output({written});\n"
        f"    rt_submit_aiv_task({kernel}, p{number});\n"
    )


_REST = _task(2, 0, "b", "x1") + _task(3, 0, "x0", "c") + _task(4, 0, "c", "x2") + "}\n"
LAMBDA = f"""{_MADE}
    auto scale = [&](const ChipTensor& in, const ChipTensor& out) {{
        CoreTaskArgs p;
        p.add_input(in);
        p.add_output(out);
        rt_submit_aiv_task(0, p);
    }};
    scale(x0, a);
{_task(1, 1, "a", "b")}    scale(b, x1); scale(x0, c); scale(c, x2);
}}
"""
HELPER = f"""{_MADE}
    auto whole = [&](const ChipTensor& tensor) {{ return tensor.view(shapes, first); }};
{_task(0, 0, "x0", "whole(a)")}{_task(1, 1, "whole(a)", "whole(b)")}{_REST}"""
SEVERAL_PLACES = f"""{_MADE}{_task(0, 0, "x0", "a")}
    if (x0.shapes[0] == 8) {{
{_task(1, 1, "a", "b")}    }} else {{
{_task(5, 1, "a", "c")}    }}
{_REST}"""
KERNEL_IN_A_VARIABLE = f"""{_MADE}
    auto run = [&](int kernel, const ChipTensor& in, const ChipTensor& out) {{
        CoreTaskArgs p;
        p.add_input(in);
        p.add_output(out);
        rt_submit_aiv_task(kernel, p);  // here
    }};
    run(0, x0, a); run(1, a, b); run(0, b, x1); run(0, x0, c); run(0, c, x2);
}}
"""
ARGUMENT_IN_A_BRANCH = f"""{_MADE}{_task(0, 0, "x0", "a")}
    CoreTaskArgs p1;
    p1.add_input(a);
    if (x0.shapes[0] == 8) {{
        p1.add_output(b);
    }} else {{
        p1.add_inout(b);
    }}
    rt_submit_aiv_task(1, p1);  // here
{_REST}"""
MANUAL = _MADE.replace("PTO2_SCOPE()", "PTO2_SCOPE(PTO2ScopeMode::MANUAL)")


def _told(number: int, kernel: int, read: str, written: str, after: int | None) -> str:
    """A task of a manual scope that waits for another one."""
    waits = (
        ""
        if after is None
        else f"const PTO2TaskId ids{number}[] = {{r{after}.task_id()}}; p{number}.set_dependencies(ids{number}, 1);\n"
    )
    submit = f"const TaskOutputTensors r{number} = rt_submit"
    return _task(number, kernel, read, written).replace("rt_submit", f"{waits}{submit}")


def _manual(*, ordered: bool) -> str:
    calls = (
        (0, "x0", "a", None),
        (1, "a", "b", 0),
        (0, "b", "x1", 1),
        (0, "x0", "c", None),
        (0, "c", "x2", 3),
    )
    told = (
        _told(number, kernel, read, written, after if ordered else None)
        for number, (kernel, read, written, after) in enumerate(calls)
    )
    return f"{MANUAL}{''.join(told)}}}\n"


def _reduce(
    folder: Path, trees: Trees, body: str, *, wrong: str = WRONG, good_body: str | None = None
) -> Result:
    builds = [
        small_build(folder / "bad", wrong, body=body),
        small_build(folder / "good", SHIFT, body=good_body or body),
    ]
    arguments = [str(builds[0]), "--reference", str(builds[1]), "--stack", str(trees.stack_file)]
    with quick_runs():
        return CliRunner().invoke(main, [*arguments, "-o", str(folder / "out"), "--jobs", "1", "--quiet"])


@pytest.mark.long
@pytest.mark.parametrize("body", [LAMBDA, HELPER, SEVERAL_PLACES, _manual(ordered=True)])
def test_it_is_reduced(body: str, tmp_path: Path, good_trees: Trees) -> None:
    done = _reduce(tmp_path, good_trees, body)
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out" / "reduction.json").read_text())["kept_tasks"] == ["1: middle"]


@pytest.mark.long
def test_tasks_of_a_manual_scope_that_do_not_wait_stay_in_one(
    tmp_path: Path, good_trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIRT_ORDER", "reverse")
    ordered, unordered = (_manual(ordered=ordered) for ordered in (True, False))
    done = _reduce(tmp_path, good_trees, unordered, wrong=SHIFT, good_body=ordered)
    assert done.exit_code == 0, done.output
    kept = json.loads((tmp_path / "out" / "reduction.json").read_text())["kept_tasks"]
    assert kept in (["0: scale", "1: middle"], ["1: middle", "2: scale"], ["3: scale", "4: scale"])
    failing, passing = (
        (tmp_path / "out" / "result" / name / "orchestration" / "main.cpp").read_text()
        for name in ("failing", "passing")
    )
    assert failing.count("PTO2ScopeMode::MANUAL") == 2
    assert "PTO2ScopeMode::MANUAL" not in passing, "one of its tasks waits for the other"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (KERNEL_IN_A_VARIABLE, "its kernel is `kernel`"),
        (ARGUMENT_IN_A_BRANCH, "its argument `b` is added in a branch or a loop"),
    ],
)
def test_what_is_not_understood_is_said_with_its_line(
    body: str, why: str, tmp_path: Path, good_trees: Trees
) -> None:
    done = _reduce(tmp_path, good_trees, body)
    source = (tmp_path / "bad" / "orchestration" / "main.cpp").read_text().splitlines()
    (line,) = (number for number, text in enumerate(source, 1) if "// here" in text)
    assert done.exit_code == 1
    assert f"found line {line}: {why}" in done.output
