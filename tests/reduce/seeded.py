"""python seeded.py SEED SCRIPT [ARGUMENT ...]: runs a script with torch seeded."""

import runpy
import sys
from pathlib import Path

import torch

if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]))
    del sys.argv[:2]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
