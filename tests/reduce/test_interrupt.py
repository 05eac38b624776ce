"""A localization that is interrupted: nothing keeps running, and nothing that was given is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reduce.demo_builds import Trees
from tests.reduce.small_builds import SHIFT, small_build
from tests.reduce.test_localize import hashes

pytestmark = pytest.mark.xdist_group("localize")
REDUCE = [sys.executable, "-c", "from precision_bisect.reduce.cli import main; main()"]
NEVER_DONE = "for (volatile int spin = 1; spin;) {} store(1, i, 0.0f);"


def processes_below(folder: Path) -> list[str]:
    """Command lines of living processes that name the folder."""
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found += [words] if str(folder) in words else []
    return found


def wait_for_the_end_of(folder: Path) -> None:
    """What was killed takes a moment to be gone; what was not stays."""
    deadline = time.monotonic() + 60
    while left := processes_below(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, good_trees: Trees) -> None:
    bad, good = (small_build(tmp_path / name, body) for name, body in (("bad", NEVER_DONE), ("good", SHIFT)))
    before = hashes(bad), hashes(good)
    output = tmp_path / "out"
    process = subprocess.Popen(
        [
            *(*REDUCE, str(bad), "--reference", str(good), "--localize-only"),
            *("--stack", str(good_trees.stack_file), "-o", str(output)),
        ],
        env={**os.environ, "SIMPLER_SCHEDULER_TIMEOUT_MS": "3600000"},
        stderr=subprocess.PIPE,
        text=True,
        # Where tests run in the background of a shell, SIGINT is ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    running = output / "work" / "failing" / "runs" / "001"
    while not processes_below(running):
        assert process.poll() is None, "it ended before the build ran"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == "interrupted; the same command begins anew"
    wait_for_the_end_of(tmp_path)
    assert (hashes(bad), hashes(good)) == before
    assert not (output / "divergence.json").exists()
