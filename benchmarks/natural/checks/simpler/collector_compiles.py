"""The collector of simpler's hardware counters is valid C++."""

import subprocess
from pathlib import Path

FOLDERS = ("src", "src/common", "src/a2a3/platform", "src/a2a3/runtime/tensormap_and_ringbuffer")


def holds() -> bool | None:
    """None where there is none, or a header is missing."""
    collectors = list(Path("src/a2a3/platform").rglob("pmu_collector.cpp"))
    if not collectors:
        return None
    platforms = (Path("src/a2a3/platform"), Path("src/common"))
    folders = [folder for platform in platforms for folder in platform.rglob("*") if folder.is_dir()]
    includes = [f"-I{folder}" for folder in [*FOLDERS, *folders]]
    done = subprocess.run(
        ["g++", "-std=c++17", "-fsyntax-only", *includes, str(collectors[0])],
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stderr[:2000])
    return None if "fatal error:" in done.stderr else done.returncode == 0
