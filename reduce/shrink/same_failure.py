"""Whether a run of this build failed as it should: same_failure.py LOG EXIT_CODE. Copied into `debug/` of a result.

`expected.json` beside it has the exit code and patterns of lines; each is null or empty where it does not count. Exits
with 0 where both are met. Imports nothing but Python's own.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path


def main(log: str, code: str) -> int:
    """Compare a log and an exit code with what is expected; 0 where both are as they should be."""
    expected = json.loads(Path(__file__).with_name("expected.json").read_text(encoding="utf-8"))
    if expected["code"] is not None and expected["code"] != int(code):
        return 1
    lines = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
    patterns = [re.compile(pattern) for pattern in expected["patterns"]]
    return int(bool(patterns) and not any(pattern.search(line) for line in lines for pattern in patterns))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
