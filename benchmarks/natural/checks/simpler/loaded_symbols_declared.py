"""What simpler sets by its name in the libraries of a simulated device is declared in a header."""

import re
from pathlib import Path

LOADED = re.compile(r'\bload_sym\(\s*"(set_\w+)"')


def holds() -> bool | None:
    """None where nothing is loaded so."""
    runners = sorted(Path("src").glob("*/platform/sim/host/device_runner.cpp"))
    names = {name for path in runners for name in LOADED.findall(path.read_text(encoding="utf-8"))}
    headers = "".join(path.read_text(encoding="utf-8") for path in sorted(Path("src").rglob("*.h")))
    missing = {name for name in names if not re.search(rf"\bvoid\s+{name}\(", headers)}
    for name in sorted(missing):
        print(f"not declared: {name}")
    return not missing if names else None
