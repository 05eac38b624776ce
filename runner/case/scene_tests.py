"""A runtime whose cases are scene tests, and which has no golden harness: one of ours runs its build directories."""

from __future__ import annotations

from pathlib import Path

from ..stack.parts import CaseFlags
from ..stack.stack import Stack
from ..stack.templates import literal

_FOLDER = Path(__file__).with_name("scene_harness")
HARNESS = _FOLDER / "golden.py"
EXPORT = _FOLDER / "export.py"
SEEDED = _FOLDER / "seeded.py"


def with_harness(stack: Stack) -> Stack:
    """The stack as it replays build directories: under the shim, with a harness where it has scene tests instead."""
    if not stack.case.scene_tests:
        return stack
    inherited = stack.environment.variables.get("PYTHONPATH")
    found = literal(str(_FOLDER)) + (f":{inherited}" if inherited else "")
    variables = {**stack.environment.variables, "PYTHONPATH": found}
    return stack.model_copy(
        update={
            "case": stack.case.model_copy(update={"harness": True, "flags": CaseFlags()}),
            "environment": stack.environment.model_copy(update={"variables": variables}),
        }
    )
