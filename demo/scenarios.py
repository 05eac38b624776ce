"""What is wrong in each scenario: the fault, the case that shows it, and the outcome that counts as bad."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from .history.edit import Replace, TreeEdit


class DemoRepository(StrEnum):
    """The repositories of the stack, by the names of their folders."""

    COMPILER = "minipto"
    RUNTIME = "minirt"
    LIBRARY = "minilib"


class Scenario(StrEnum):
    """Which regression is planted, by the word for `--scenario`."""

    ROUNDING = "rounding"
    ACCUMULATE = "accumulate"
    REUSE = "reuse"
    TAIL = "tail"
    DROPPED_DEP = "dropped-dep"
    RUNTIME_BUMP = "runtime-bump"
    RUNTIME_ROLLBACK = "runtime-rollback"
    STALL = "stall"
    CRASH = "crash"
    QUIET = "quiet"
    FIXED_AND_BROKEN = "fixed-and-broken"


@dataclass(frozen=True)
class Setting:
    """`case` is a path in the case library, `bad_when` what `--bad-when` takes; no fault, no regression."""

    case: str
    bad_when: str
    fault: TreeEdit | None
    repository: DemoRepository = DemoRepository.COMPILER


_ROUNDING = TreeEdit(
    "Refactor: one rounding mode for all casts",
    (
        Replace(
            "minipto/passes/legalize_casts.py",
            "DEFAULT_ROUND_MODE = RoundMode.RINT",
            "DEFAULT_ROUND_MODE = RoundMode.ROUND",
        ),
    ),
)

_ACCUMULATE = TreeEdit(
    "Update: accumulate each product in the type of its operands",
    (Replace("minipto/passes/legalize_casts.py", "DType.BF16: DType.FP32,", "DType.BF16: DType.BF16,"),),
)

_REUSE = TreeEdit(
    "Add: hand a buffer on as soon as its value is computed",
    (
        Replace(
            "minipto/passes/reuse_memory.py",
            "for user in self._users[tensor.name]",
            "for user in self._writers[tensor.name]",
        ),
    ),
)

_TAIL = TreeEdit(
    "Update: no masks where a row is a whole number of vectors",
    (
        Replace(
            "minipto/passes/tile_loops.py",
            "Tail.FULL if columns % LANES == 0 else",
            "Tail.FULL if columns % 8 == 0 else",
        ),
    ),
)

_DROPPED_DEP = TreeEdit(
    "Refactor: a region that a task writes is an output",
    (
        Replace(
            "minipto/passes/place_scopes.py",
            "return ArgDirection.INOUT if region in stage.reads else ArgDirection.OUT",
            "return ArgDirection.OUT",
        ),
    ),
)

_RUNTIME_ROUNDING = TreeEdit(
    "Refactor: add half a unit to round to bfloat16",
    (
        Replace(
            "include/pto_numeric.h",
            "const uint32_t round_bias = 0x7fffu + ((bits >> 16) & 1u);",
            "const uint32_t round_bias = 0x8000u;",
        ),
    ),
)

_STALL = TreeEdit(
    "Add: order matrix products explicitly",
    (
        Replace(
            "minipto/codegen/orchestration.py",
            "        submit = _SUBMIT[task.stage.core]\n",
            "        if task.stage.core is Core.CUBE:\n"
            '            self._emit(depth, f"const PTO2TaskId {params}_after[] = {{PTO2TaskId::invalid()}};")\n'
            '            self._emit(depth, f"{params}.set_dependencies({params}_after, 1);")\n'
            "        submit = _SUBMIT[task.stage.core]\n",
        ),
    ),
)

_CRASH = TreeEdit(
    "Update: give each lane a tile of its own in matrix products",
    (
        Replace(
            "minipto/codegen/kernels.py",
            'f"float left_tile[{rows} * {depth}];"',
            'f"float left_tile[{LANES} * {LANES} * {rows} * {depth}];"',
        ),
    ),
)

SETTINGS: Mapping[Scenario, Setting] = {
    Scenario.ROUNDING: Setting("cases/elementwise_chain.py", "mismatch", _ROUNDING),
    Scenario.ACCUMULATE: Setting("cases/matmul_splitk.py", "mismatch", _ACCUMULATE),
    Scenario.REUSE: Setting("cases/attention_decode.py", "mismatch", _REUSE),
    Scenario.TAIL: Setting("cases/rms_norm.py", "mismatch", _TAIL),
    Scenario.DROPPED_DEP: Setting("cases/matmul_splitk.py", "mismatch", _DROPPED_DEP),
    Scenario.RUNTIME_BUMP: Setting(
        "cases/elementwise_chain.py", "mismatch", _RUNTIME_ROUNDING, DemoRepository.RUNTIME
    ),
    Scenario.RUNTIME_ROLLBACK: Setting(
        "cases/elementwise_chain.py", "mismatch", _RUNTIME_ROUNDING, DemoRepository.RUNTIME
    ),
    Scenario.STALL: Setting("cases/matmul_splitk.py", "stall", _STALL),
    Scenario.CRASH: Setting("cases/quant_matmul.py", "crash", _CRASH),
    Scenario.QUIET: Setting("cases/softmax.py", "mismatch", None),
    Scenario.FIXED_AND_BROKEN: Setting("cases/elementwise_chain.py", "mismatch", _ROUNDING),
}


def faults_in(repository: DemoRepository) -> list[TreeEdit]:
    """Every fault that some scenario plants in the repository, each once."""
    faults = [setting.fault for setting in SETTINGS.values() if setting.repository is repository]
    return list(dict.fromkeys(fault for fault in faults if fault is not None))
