"""The submodule's history: the runtime, with the fault of one scenario inside."""

import random

from .history import growth, growth_runtime
from .history.edit import TreeEdit
from .history.evolution import evolve
from .history.history import PlannedCommit, Switch, plan_history
from .layout import CommitRole, RuntimeLayout
from .scenarios import SETTINGS, DemoRepository, Scenario, faults_in
from .trees import load_tree

_SCAFFOLD = {
    ".gitignore": "__pycache__/\n*.egg-info/\nbuild/\n",
    growth.CI_FILE: growth.CI_TEXT,
}
_RECIPES = {CommitRole.CODE: growth_runtime.CODE, CommitRole.QUIET: (*growth.QUIET, growth_runtime.add_test)}


def runtime_history(
    layout: RuntimeLayout, *, scenario: Scenario, seed: int, times: list[int]
) -> list[PlannedCommit]:
    """The commits of one scenario; `times` has a date for each slot."""
    states = evolve(
        {**load_tree(DemoRepository.RUNTIME), **_SCAFFOLD},
        layout.slots,
        recipes=_RECIPES,
        overlays=faults_in(DemoRepository.RUNTIME),
        rng=random.Random(f"runtime growth/{seed}"),
    )
    setting = SETTINGS[scenario]
    standing: list[TreeEdit] = []
    switches: dict[int, Switch] = {}
    if setting.fault is not None and setting.repository is DemoRepository.RUNTIME:
        fixes = scenario is Scenario.RUNTIME_ROLLBACK
        standing = [setting.fault] if fixes else []
        subject = "Fix: round to nearest even" if fixes else setting.fault.subject
        switches[layout.culprit] = Switch(setting.fault, on=not fixes, subject=subject)
    return plan_history(
        layout.slots,
        states,
        times=times,
        rng=random.Random(f"runtime commits/{seed}"),
        standing=standing,
        switches=switches,
    )
