"""Where compiled loops of comparisons are kept: by all tests and runs of tests, beside the C++ that is compiled once.

Without it each home of a test would have them compiled anew, and tests that need none would write to the user's.
"""

import hashlib
import os
from pathlib import Path

_LOOPS = Path(__file__).parents[2] / "runner" / "compare" / "kernels"


def keep_kernels(folder: Path) -> None:
    """Tell numba of a folder for the loops as they are now, unless it has been told of another."""
    texts = b"".join(path.read_bytes() for path in sorted(_LOOPS.glob("*.py")))
    os.environ.setdefault("NUMBA_CACHE_DIR", str(folder / hashlib.sha256(texts).hexdigest()[:16]))
