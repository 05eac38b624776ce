"""A kernel sets what it likes of a pipe on pto-isa's simulator by the names that the pipe of the NPU (A2/A3) has."""

import re
from pathlib import Path

PIPE = "include/pto/{}/TPush.hpp"
SETTER = re.compile(r"\bvoid\s+(set\w+)\(")


def holds() -> bool | None:
    """None where there is only one of the two, or it has no setter."""
    simulated, real = Path(PIPE.format("cpu")), Path(PIPE.format("npu/a2a3"))
    if not simulated.exists() or not real.exists():
        return None
    ours, theirs = (set(SETTER.findall(path.read_text(encoding="utf-8"))) for path in (simulated, real))
    for name in sorted(ours - theirs):
        print(f"not of the NPU: {name}")
    return ours <= theirs if ours and theirs else None
