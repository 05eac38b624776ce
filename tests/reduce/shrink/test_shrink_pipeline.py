"""A reduction of a small build, called as a library and stopped early, and what is refused before anything runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from precision_bisect.reduce.reduce_cli import main
from precision_bisect.reduce.shrink.reproducer import Reproducer
from precision_bisect.reduce.shrink.result import PairRecorder, ShrinkRequest, open_output, shrink
from precision_bisect.reduce.shrink.shrinker import Shrinker
from precision_bisect.runner.case.case import freeze
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.errors import UsageError, UserError
from tests.reduce.demo_builds import Trees
from tests.reduce.quick_runs import quick_runs
from tests.reduce.small_builds import SHIFT, WRONG, small_build

pytestmark = pytest.mark.xdist_group("reduction")


def request(folder: Path, trees: Trees) -> ShrinkRequest:
    """A reduction of a small build with a wrong middle kernel against a good one."""
    bad, good = (small_build(folder / name, body) for name, body in (("bad", WRONG), ("good", SHIFT)))
    toolchain = trees.toolchain()
    return ShrinkRequest(
        failing=bad,
        reference=good,
        failing_toolchain=toolchain,
        reference_toolchain=toolchain,
        golden_data=None,
        tolerance=Tolerance(),
        output=folder / "out",
        jobs=1,
        budget=None,
        resume=False,
        timeout=300,
    )


@pytest.mark.long
def test_every_success_is_on_disk_before_the_next_test(
    tmp_path: Path, good_trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[int, ...]] = []
    write = Reproducer.write

    def noted(self: Reproducer, candidate: object) -> object:
        made = write(self, candidate)  # type: ignore[arg-type]
        assert (self.result / "check.sh").exists()
        written.append(candidate.tasks)  # type: ignore[attr-defined]
        return made

    monkeypatch.setattr(Reproducer, "write", noted)
    said: list[str] = []
    found = shrink(request(tmp_path, good_trees), on_progress=said.append)
    assert (found.stopped, found.kept_tasks) == ("done", ("1: middle",))
    assert written[0] == (0, 1, 2, 3, 4)
    assert set(written[1:]) == {(1,)}
    assert found.oracle_calls <= 14
    journal = (tmp_path / "out" / "tests.jsonl").read_text().splitlines()
    assert len(journal) == len({(one["candidate"], one["run"]) for one in map(json.loads, journal)})
    assert len(journal) == found.oracle_calls
    told = next(line for line in said if line.startswith("a test is one run of a smaller program"))
    assert said.index(told) < next(n for n, line in enumerate(said) if " invalid, " in line and line != told)
    assert any(line.startswith("shapes: 1 task left") for line in said)


def test_a_build_that_does_not_fail_is_refused(tmp_path: Path, good_trees: Trees) -> None:
    good, toolchain = small_build(tmp_path / "good", SHIFT), good_trees.toolchain().with_schedule("serial")
    recorder = PairRecorder(
        request=replace(
            request(tmp_path / "asked", good_trees),
            failing=good,
            reference=good,
            failing_toolchain=toolchain,
            reference_toolchain=toolchain,
        ),
        golden=freeze(good / "data", tmp_path / "golden"),
        folder=tmp_path / "work",
        on_progress=lambda _: None,
    )
    with pytest.raises(UserError, match="found 8 in which none does"):
        recorder.record()


@pytest.mark.parametrize("words", [["--localize-only"], ["--footprints"], []])
def test_a_budget_covers_recordings_and_localizations(
    tmp_path: Path, good_trees: Trees, words: list[str]
) -> None:
    asked = request(tmp_path, good_trees)
    reference = (
        []
        if words == ["--footprints"]
        else ["--reference", str(asked.reference), "--reference-python", sys.executable]
    )
    arguments = [
        *(str(asked.failing), *reference, *words, "-o", str(asked.output), "--budget", "0.2s"),
        *("--stack", str(good_trees.stack_file), "--python", sys.executable),
    ]
    running, begun = set(psutil.Process().children(recursive=True)), time.monotonic()
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 6, done.output
    assert done.stderr.splitlines()[-1] == (
        "error: the budget was spent before anything was found; the same command with a larger one begins anew"
    )
    assert time.monotonic() - begun < 30
    left = set(psutil.Process().children(recursive=True)) - running
    assert not psutil.wait_procs(left, timeout=30)[1]


def relative_words(asked: ShrinkRequest, folder: Path) -> list[str]:
    """The builds, their data and where to write, as they are named in a folder."""
    data = asked.failing / "data"
    named = {"": asked.failing, "--reference": asked.reference, "--golden-data": data, "-o": asked.output}
    words = [(option, str(path.relative_to(folder))) for option, path in named.items() if path is not None]
    return [word for pair in words for word in pair if word]


@pytest.mark.long
def test_relative_paths_are_those_of_the_current_folder(
    tmp_path: Path, good_trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(tmp_path, good_trees)
    shutil.copy(good_trees.stack_file, tmp_path / "stack.toml")
    python = os.path.relpath(sys.executable, tmp_path)
    monkeypatch.chdir(tmp_path)
    words = [*relative_words(asked, tmp_path), "--localize-only", "--stack", "stack.toml"]
    done = CliRunner().invoke(main, [*words, "--python", python, "--reference-python", python])
    assert done.exit_code == 0, done.output
    found = json.loads((asked.output / "divergence.json").read_text())
    assert [first["kernel"] for first in found["first_divergent"]] == ["middle"]
    assert not (asked.output / "work").exists()


@pytest.mark.parametrize("words", [["--localize-only"], []])
def test_a_module_that_is_missing_is_told_from_the_last_line_of_the_log(
    tmp_path: Path, good_trees: Trees, words: list[str]
) -> None:
    asked = request(tmp_path, good_trees)
    stack = tmp_path / "stack.toml"
    stack.write_text(re.sub("(PYTHONPATH = ).*", f'\\1"{tmp_path}"', good_trees.stack_file.read_text()))
    arguments = [
        *(str(asked.failing), "--reference", str(asked.reference), "-o", str(asked.output), *words),
        *("--stack", str(stack), "--python", sys.executable, "--reference-python", sys.executable),
    ]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1, done.output
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert "ModuleNotFoundError: No module named '" in line
    assert line.endswith(
        "; name an interpreter that has it with --python, and the reference's with --reference-python"
    )
    log = line.partition("; see ")[2].partition(";")[0]
    assert Path(log).is_file()


@pytest.mark.long
def test_a_reduction_that_is_stopped_leaves_the_best_so_far(
    tmp_path: Path, good_trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shrinker, "budget_spent", property(lambda loop: loop.calls >= 4))
    asked = request(tmp_path, good_trees)
    arguments = [
        *(str(asked.failing), "--reference", str(asked.reference), "-o", str(asked.output), "--jobs", "1"),
        *("--stack", str(good_trees.stack_file), "-v"),
        *("--python", sys.executable, "--reference-python", sys.executable),
    ]
    with quick_runs():
        done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 6, done.output
    assert "# Why it fails" in done.stdout
    found = json.loads((asked.output / "reduction.json").read_text())
    assert (found["stopped"], found["oracle_calls"], found["kept_tasks"]) == ("budget", 4, ["1: middle"])
    check = subprocess.run([asked.output / "result" / "check.sh"], capture_output=True, text=True)
    assert check.stdout == "reproduced in run 1 of up to 4\n"


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    bad, good = (small_build(tmp_path / name, body) for name, body in (("bad", WRONG), ("good", SHIFT)))

    def opened(output: Path, *, resume: bool = False, options: tuple[str, ...] = ()) -> Path:
        with open_output(output, [bad, good], options, resume=resume) as work:
            assert work.is_dir()
            (output / "tests.jsonl").touch()
        return work

    for inside in (bad / "out", tmp_path):
        with pytest.raises(UsageError, match="expected a folder outside of"):
            opened(inside)
    output = tmp_path / "out"
    output.mkdir()
    (output / "mine").touch()
    with pytest.raises(UsageError, match="found other files in it"):
        opened(output)
    (output / "mine").unlink()
    assert opened(output) == output / "work"
    with pytest.raises(UsageError, match="go on with --resume"):
        opened(output)
    assert opened(output, resume=True) == output / "work"
    with pytest.raises(UsageError, match="of the same builds"):
        opened(output, resume=True, options=("another",))
    kernel = bad / "kernels" / "aiv" / "middle.cpp"
    kernel.write_text(kernel.read_text() + "// edited\n")
    with pytest.raises(UsageError, match="of the same builds"):
        opened(output, resume=True)
