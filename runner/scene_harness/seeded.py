"""Runs a scene test's script as `python SCRIPT ...` would, with every random number generator started from one seed.

    python seeded.py SCRIPT [ARGUMENT ...]

Runs under the stack's own interpreter, so that two revisions of a script that draw the same numbers get the same ones.
"""

from __future__ import annotations

import importlib
import random
import runpy
import sys
from pathlib import Path


def seed_generators() -> None:
    """Seed the random numbers of torch, numpy and Python."""
    importlib.import_module("torch").manual_seed(0)
    importlib.import_module("numpy").random.seed(0)
    random.seed(0)


def main() -> None:
    """Run the script that the first argument names, with the others."""
    script = Path(sys.argv[1]).resolve()
    sys.argv = sys.argv[1:]
    sys.path[0] = str(script.parent)
    seed_generators()
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
