"""Stand-ins for the golden harness, one for each shape its signatures have had.

Each writes the arguments it was called with to `received.json` and returns, or raises, what the case asks
for through `PLAN`, a list with one entry a call.
"""

from pathlib import Path

_RESULT = """
import json
from dataclasses import dataclass, field
from pathlib import Path

PLAN = []
RECEIVED = []


def answer(**received):
    RECEIVED.append({name: plain(value) for name, value in received.items()})
    Path("received.json").write_text(json.dumps(RECEIVED))
    step = PLAN.pop(0) if PLAN else {}
    if "raises" in step:
        raise RuntimeError(step["raises"])
    return RunResult(**step)


def without(arguments, program):
    return {name: value for name, value in arguments.items() if name not in ("golden_fn", program)}


def plain(value):
    return vars(value) if hasattr(value, "__dataclass_fields__") else value
"""

_OLD_RUN_RESULT = """
@dataclass
class RunResult:
    passed: bool = True
    error: str = None
    execution_time: float = None
"""

_RUN_RESULT = (
    _OLD_RUN_RESULT
    + """\
    work_dir: Path = Path("build_output/_jit_case")
"""
)

_CONFIG = """
@dataclass
class RunConfig:
    rtol: float = 1e-5
    compile_only: bool = False
    compile: dict = field(default_factory=dict)
    runtime: dict = field(default_factory=dict)
"""

_FIRST = """
def run(program, tensor_specs, golden_fn=None, config=None):
    return answer(golden_fn=golden_fn is not None, config=config)
"""

_WITH_CONFIG = """
def run(program, specs, config=None, golden_fn=None, golden_data=None, runtime_dir=None):
    return answer(golden_fn=golden_fn is not None, config=config, golden_data=golden_data,
                  runtime_dir=runtime_dir)

def run_jit(fn, specs, config=None, golden_fn=None, golden_data=None, runtime_dir=None):
    return run(fn, specs, config, golden_fn, golden_data, runtime_dir)
"""

_FLAT = """
KEYS = ("enable_{dump}", "enable_dep_gen")

def run(program, specs, golden_fn=None, golden_data=None, compile_cfg=None, runtime_cfg=None, rtol=1e-5,
        atol=1e-5, compare_fn=None, compile_only=False, runtime_dir=None{save_data}):
    return answer(**without(locals(), "program"))

def run_jit(fn, specs, golden_fn=None, golden_data=None, compile_cfg=None, runtime_cfg=None, rtol=1e-5,
            atol=1e-5, compare_fn=None, compile_only=False, runtime_dir=None{save_data}):
    return answer(**without(locals(), "fn"))
"""

RUNNERS = {
    "first": _RESULT + _CONFIG + _OLD_RUN_RESULT + _FIRST,
    "config": _RESULT + _CONFIG + _OLD_RUN_RESULT + _WITH_CONFIG,
    "flat": _RESULT + _RUN_RESULT + _FLAT.format(dump="dump_tensor", save_data=""),
    "save": _RESULT + _RUN_RESULT + _FLAT.format(dump="dump_tensor", save_data=", save_data=True"),
    "newest": _RESULT + _RUN_RESULT + _FLAT.format(dump="dump_args", save_data=", save_data=False"),
}


def write_golden(folder: Path, era: str) -> None:
    """Make the package `golden` of an era in `folder`."""
    source = RUNNERS[era]
    names = "PLAN, RunResult, run" + (", run_jit" if "def run_jit" in source else "")
    package = folder / "golden"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"from .runner import {names}\n")
    (package / "runner.py").write_text(source)
