"""The context of pto-isa's tests of URMA on the simulator declares each of its members once. Nothing is built."""

import os
import re
import subprocess
from pathlib import Path

TEST = Path("tests/cpu/comm/st/testcase/tget_async_urma/tget_async_urma_kernel.cpp")
FOLDERS = ("include", "include/common", "tests/cpu/comm/st/stubs", "tests/common")
TWICE = re.compile(r"error: redeclaration of .*UrmaTestContext::")


def holds() -> bool | None:
    """None where there is no such test, or a header is missing."""
    if not TEST.exists():
        return None
    done = subprocess.run(
        [
            *("g++", "-std=c++20", "-D__CPU_SIM", "-w", "-fsyntax-only"),
            *("-include", "stdint.h", "-include", "stddef.h"),
            *(f"-I{folder}" for folder in FOLDERS),
            str(TEST),
        ],
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stderr[:2000])
    return None if "fatal error:" in done.stderr else TWICE.search(done.stderr) is None
