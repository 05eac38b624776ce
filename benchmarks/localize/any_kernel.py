"""A fault that no scenario has: one kernel of any case, drawn from a seed, stores half as much again.

Kernels that store integers are passed over.
"""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

from precision_bisect.demo.scenarios import DemoRepository
from tests.reduce.demo_builds import Trees, Twins

NAME = "any kernel"
_STORE = re.compile(r"store_f32\(\w+, (?:offset|element_offset\([^()]*\)), ")


def any_kernel(folder: Path, trees: Trees, seed: int) -> Twins:
    """A good build, on inputs drawn from the seed, and its copy with the fault."""
    rng = random.Random(seed)
    library = trees.folder / DemoRepository.LIBRARY
    case = rng.choice(sorted((library / "cases").glob("*.py")))
    good = trees.build(str(case.relative_to(library)), folder / "good", "--save-data", seed=seed)
    bad = shutil.copytree(good, folder / "bad")
    kernels = sorted((bad / "kernels").rglob("*.cpp"))
    while not _STORE.search((kernel := rng.choice(kernels)).read_text()):
        pass
    kernel.write_text(_STORE.sub(r"\g<0>1.5f * ", kernel.read_text(), count=1))
    return Twins(good=good, bad=bad, good_trees=trees, bad_trees=trees)
