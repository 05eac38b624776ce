"""A localization that is interrupted: nothing keeps running, and nothing that was given is touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.reduce.demo_builds import Trees
from tests.reduce.localize.test_localize_pipeline import hashes
from tests.reduce.small_builds import SHIFT, small_build
from tests.support.hold import Hold
from tests.support.interrupts import obey_interrupts

pytestmark = pytest.mark.xdist_group("localize")
REDUCE = [sys.executable, "-c", "from precision_bisect.reduce.reduce_cli import main; main()"]
NEVER_DONE = """
    int begin(const char*, int) __asm__("open");
    long tell(int, const void*, unsigned long) __asm__("write");
    if (i == 0) tell(begin("@HELD@", 1), "running", 8);
    for (volatile int spin = 1; spin;) {}
    store(1, i, 0.0f);
"""


@pytest.mark.long
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, good_trees: Trees) -> None:
    hold = Hold(tmp_path)
    bad = small_build(tmp_path / "bad", NEVER_DONE.replace("@HELD@", str(hold.held)))
    good = small_build(tmp_path / "good", SHIFT)
    before = hashes(bad), hashes(good)
    output = tmp_path / "out"
    process = subprocess.Popen(
        [
            *(*REDUCE, str(bad), "--reference", str(good), "--localize-only"),
            *("--stack", str(good_trees.stack_file), "-o", str(output), "--json"),
        ],
        env={**os.environ, "SIMPLER_SCHEDULER_TIMEOUT_MS": "3600000"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=obey_interrupts,
    )
    hold.wait(process)
    below = psutil.Process(process.pid).children(recursive=True)
    hold.let_go()
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate()
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == "interrupted; the same command begins anew"
    assert json.loads(printed)["error"]["message"] == said.splitlines()[-1]
    # What was killed takes a moment to be gone; what was not stays.
    _, alive = psutil.wait_procs(below, timeout=60)
    assert alive == []
    assert (hashes(bad), hashes(good)) == before
    assert not (output / "divergence.json").exists()
