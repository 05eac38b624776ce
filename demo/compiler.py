"""The searched repository's history: the compiler, with the runtime as its submodule."""

import random
from collections.abc import Mapping

from .history import growth, growth_compiler
from .history.edit import TreeEdit
from .history.eras import STANDING, SWITCHES
from .history.evolution import evolve
from .history.history import PlannedCommit, Pointer, Switch, plan_history
from .layout import CommitRole, CompilerLayout
from .scenarios import SETTINGS, DemoRepository, Scenario, faults_in
from .trees import load_tree

SUBMODULE_PATH = "runtime"

_SCAFFOLD = {
    ".gitignore": "__pycache__/\n*.egg-info/\n*.so\nbuild/\nbuild_output/\n",
    ".gitmodules": f'[submodule "minirt"]\n\tpath = {SUBMODULE_PATH}\n\turl = ../minirt\n',
    growth.CI_FILE: growth.CI_TEXT,
}
_RECIPES = {
    CommitRole.CODE: growth_compiler.CODE,
    CommitRole.QUIET: (*growth.QUIET, growth_compiler.add_test),
}


def compiler_history(
    layout: CompilerLayout,
    *,
    scenario: Scenario,
    seed: int,
    times: list[int],
    pointers: Mapping[int, Pointer],
) -> list[PlannedCommit]:
    """The commits of one scenario.

    `times` has a date for each slot; `pointers` says at which slots the submodule's pointer moves, and
    where to.
    """
    eras = [*STANDING, *(switch.overlay for switch in SWITCHES.values())]
    states = evolve(
        {**load_tree(DemoRepository.COMPILER), **_SCAFFOLD},
        layout.slots,
        recipes=_RECIPES,
        overlays=[*eras, *faults_in(DemoRepository.COMPILER)],
        rng=random.Random(f"compiler growth/{seed}"),
    )
    switches = {i: SWITCHES[slot.role] for i, slot in enumerate(layout.slots) if slot.role in SWITCHES}
    return plan_history(
        layout.slots,
        states,
        times=times,
        rng=random.Random(f"compiler commits/{seed}"),
        standing=STANDING,
        switches=switches | _fault_switches(layout, scenario),
        pointers=pointers,
    )


def culprit_slots(layout: CompilerLayout, scenario: Scenario) -> tuple[int, ...]:
    """Slots where the compiler itself regresses, the latest first."""
    switches = _fault_switches(layout, scenario)
    return tuple(sorted((slot for slot, switch in switches.items() if switch.on), reverse=True))


def _fault_switches(layout: CompilerLayout, scenario: Scenario) -> dict[int, Switch]:
    setting = SETTINGS[scenario]
    if setting.fault is None or setting.repository is not DemoRepository.COMPILER:
        return {}
    if scenario is not Scenario.FIXED_AND_BROKEN:
        return {layout.culprit: _plant(setting.fault)}
    first, fixed, again = layout.relapse
    subject = setting.fault.subject
    return {
        first: _plant(setting.fault),
        fixed: Switch(setting.fault, on=False, subject=f'Revert "{subject}"'),
        again: Switch(setting.fault, on=True, subject=f'Reapply "{subject}"'),
    }


def _plant(fault: TreeEdit) -> Switch:
    return Switch(fault, on=True, subject=fault.subject)
