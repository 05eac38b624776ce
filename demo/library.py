"""The cases' history: a few commits that change no case, for it is kept fixed in every bisection."""

import random

from .history import growth
from .history.evolution import evolve
from .history.history import PlannedCommit, plan_history
from .layout import CommitRole, GraphSlot
from .scenarios import DemoRepository
from .trees import load_tree

SLOTS = (
    GraphSlot(CommitRole.ROOT, ()),
    GraphSlot(CommitRole.QUIET, (0,)),
    GraphSlot(CommitRole.QUIET, (1,)),
    GraphSlot(CommitRole.QUIET, (2,)),
)

_SCAFFOLD = {
    ".gitignore": "__pycache__/\n*.egg-info/\nbuild_output/\n",
    growth.CI_FILE: growth.CI_TEXT,
}


def library_history(*, seed: int, times: list[int]) -> list[PlannedCommit]:
    """The commits of the case library; `times` has a date for each of SLOTS."""
    states = evolve(
        {**load_tree(DemoRepository.LIBRARY), **_SCAFFOLD},
        SLOTS,
        recipes={CommitRole.QUIET: growth.QUIET},
        overlays=(),
        rng=random.Random(f"library growth/{seed}"),
    )
    return plan_history(SLOTS, states, times=times, rng=random.Random(f"library commits/{seed}"))
