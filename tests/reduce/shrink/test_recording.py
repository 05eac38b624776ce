"""One run of a small build, recorded: what it submitted as a program, what its tasks read and left."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from precision_bisect.reduce.shrink.edits import BuildPair
from precision_bisect.reduce.shrink.extract import Recorder, extract, same_bits
from precision_bisect.reduce.shrink.program import Candidate
from precision_bisect.runner.errors import UserError
from tests.reduce.demo_builds import Trees
from tests.reduce.small_builds import CRASH, SHIFT, WRONG, small_build


def recorder(folder: Path, trees: Trees, body: str) -> Recorder:
    build = small_build(folder / "build", body)
    return Recorder(
        build=build, data=build / "data", toolchain=trees.toolchain(), folder=folder / "work", timeout=300
    )


def test_a_run_as_a_straight_line_program(tmp_path: Path, good_trees: Trees) -> None:
    recording = recorder(tmp_path, good_trees, WRONG).record()
    program = recording.program
    assert [task.name for task in program.tasks] == ["scale", "middle", "scale", "scale", "scale"]
    assert [task.submit.statement for task in program.tasks] == sorted(
        task.submit.statement for task in program.tasks
    )
    names = {buffer.number: buffer.name for buffer in program.buffers}
    assert [[names[argument.buffer] for argument in task.arguments] for task in program.tasks] == [
        ["x0", "a"],
        ["a", "b"],
        ["b", "x1"],
        ["x0", "c"],
        ["c", "x2"],
    ]
    assert {buffer.name for buffer in program.buffers if buffer.is_entry} == {"x0", "x1", "x2"}
    assert {buffer.shape for buffer in program.buffers} == {(8,)}
    parts = recording.copy.build()
    again = extract(
        parts.orchestration(), parts.kernel_config(), recording.tasks, recording.dump, recording.arguments
    )
    assert [task.arguments for task in again.tasks] == [task.arguments for task in program.tasks]


def test_a_pair_of_runs_tells_where_they_part_and_what_can_be_made_smaller(
    tmp_path: Path, good_trees: Trees
) -> None:
    bad = recorder(tmp_path / "bad", good_trees, WRONG).record()
    good = recorder(tmp_path / "good", good_trees, SHIFT).record()
    pair = BuildPair(failing=bad, reference=good)
    assert (pair.divergent_tasks, pair.first_wrong_task, pair.first_unfinished) == ((1, 2), 1, None)
    assert pair.order.whole == Candidate((0, 1, 2, 3, 4))
    assert pair.order.kernels(Candidate((0, 2))) == {"scale"}
    assert (pair.order.extents(Candidate((1,))), pair.blocks) == ((8,), {})
    assert pair.varied_inputs(Candidate((1,), plain=(("a", "zeros"),))) == ("a",)
    assert pair.varied_inputs(Candidate((1,), extents=((8, 1),))) == ()
    (text,) = pair.kernel_texts(Candidate((1,)))
    assert (b"1.5f" in text.failing, b"1.0f" in text.reference) == (True, True)
    (text,) = pair.kernel_texts(Candidate((1,), collapsed=("middle",)))
    assert text.failing == text.reference
    left = bad.values(1)
    assert np.ravel(left.after[1].contiguous()).view(np.float32).tolist() == [2 * i + 1.5 for i in range(8)]
    assert all(bad.has_finished(task) for task in range(5))
    assert [same_bits(bad.values(task).after, good.values(task).after) for task in range(5)] == [
        True,
        False,
        False,
        True,
        True,
    ]


def test_what_was_recorded_is_opened_again_and_what_did_not_end_is_refused(
    tmp_path: Path, good_trees: Trees
) -> None:
    once = recorder(tmp_path, good_trees, CRASH)
    attempt = once.attempt(0)
    assert (attempt.verdict.value, attempt.signature, attempt.is_compared) == ("crash", "SIGSEGV", False)
    log = tmp_path / "work" / "recorded-0" / "run.log.gz"
    before = log.stat().st_mtime_ns
    with pytest.raises(UserError, match="expected its outputs compared, found crash"):
        once.record()
    assert log.stat().st_mtime_ns == before


ONCE = """
    std::FILE* mark = i == 0 ? std::fopen("MARK", "a+") : nullptr;
    float added = 1.0f;
    if (mark != nullptr) {
        std::fseek(mark, 0, SEEK_END);
        if (std::ftell(mark) MET) { added = 1.5f; }
        std::fputc('x', mark);
        std::fclose(mark);
    }
    store(1, i, load(0, i) + added);
"""
"""As SHIFT; the first element is wrong in the runs whose number MET holds for."""


@pytest.mark.parametrize(
    ("met", "verdicts", "taken"),
    [("== 0", ["mismatch", "pass"], 1), (">= 0", ["mismatch", "mismatch"], 0)],
    ids=["by chance", "each time"],
)
def test_a_good_build_that_misses_its_golden_data_is_run_again(
    met: str, verdicts: list[str], taken: int, tmp_path: Path, good_trees: Trees
) -> None:
    body = " ".join(ONCE.replace("MARK", str(tmp_path / "mark")).replace("MET", met).split())
    good = recorder(tmp_path, good_trees, body)
    (source,) = (good.build / "kernels").rglob("middle.cpp")
    source.write_text("#include <cstdio>\n" + source.read_text())
    recording = good.record()
    folders = sorted((tmp_path / "work").glob("recorded-*"))
    assert [json.loads((folder / "ended.json").read_text())[0] for folder in folders] == verdicts
    assert recording.outputs == good.attempt(taken).recording.outputs  # pyright: ignore
