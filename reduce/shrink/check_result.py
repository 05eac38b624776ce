"""Checks that a run of a build failed as expected. A result has a copy of it, `debug/same_failure.py LOG EXIT_CODE`.

`expected.json` beside this file has the exit code, or null for any, and patterns for a line of the log. The program
ends with 0 if both match. It imports nothing but Python's standard library.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path


def main(log: str, code: str) -> int:
    """Return 0 if the exit code and a line of the log are as expected, else 1."""
    expected = json.loads(Path(__file__).with_name("expected.json").read_text(encoding="utf-8"))
    if expected["code"] is not None and expected["code"] != int(code):
        return 1
    lines = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
    patterns = [re.compile(pattern) for pattern in expected["patterns"]]
    return int(bool(patterns) and not any(pattern.search(line) for line in lines for pattern in patterns))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
