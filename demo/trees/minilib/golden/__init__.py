"""Golden harness: compile a program, run it, compare its outputs with expected ones."""

from .comparators import ratio_allclose
from .runner import RunResult, run, run_jit
from .spec import ScalarSpec, TensorSpec
from .validation import validate_golden

__all__ = ["RunResult", "ScalarSpec", "TensorSpec", "ratio_allclose", "run", "run_jit", "validate_golden"]
