"""The tolerance with which the stack's harness compared a run's outputs, as `replay_case.py` noted it beside them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ...runner.compare.statistics.statistics import Tolerance

_FILE = "tolerance.json"
_LARGEST = 1 << 12


def read_tolerance(outputs: Path) -> Tolerance | None:
    """None where the folder does not hold one, or not one that makes sense: a run under test could write there too."""
    file = outputs / _FILE
    try:
        if file.is_symlink() or file.stat().st_size > _LARGEST:
            return None
        document: Any = json.loads(file.read_text(encoding="utf-8"))
        rtol, atol = float(document["rtol"]), float(document["atol"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    sound = all(math.isfinite(bound) and bound >= 0 for bound in (rtol, atol))
    return Tolerance(rtol=rtol, atol=atol) if sound else None
