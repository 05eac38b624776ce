"""Replays a build directory as a scene test, for a runtime that has scene tests and no golden harness.

This file runs under the stack's own interpreter, with `simpler_setup` and torch. It is a golden harness: `golden` is
the module that `replay_case.py` imports, and that `shim.py` wraps. Inputs and expected outputs come from golden data,
and the comparison is printed as pypto-lib's harness prints it. A runtime from before 28 April 2026 is refused, because
its records cannot be sent to the build directory.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
import runpy
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHOWN_MISMATCHES = 20
"""A failed comparison prints at most this many wrong elements, as pypto-lib's harness does."""
_CLASS = "Replay"
"""The scene test's class has this name in this module."""


@dataclass
class RunResult:
    """The result of a run."""

    passed: bool
    error: str | None
    """Why the run did not pass; None where it passed."""
    execution_time: float
    """The time in seconds."""
    work_dir: Path


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument of the orchestration."""

    name: str
    shape: Sequence[int]
    dtype: Any
    init_value: Any = None
    """Any value says that the contents come from the golden data. With None, the tensor begins as zeros."""
    is_output: bool = False


@dataclass(frozen=True)
class ScalarSpec:
    """A scalar argument of the orchestration, and its value."""

    name: str
    dtype: Any
    value: float


def run(
    program: None,
    specs: Sequence[TensorSpec | ScalarSpec],
    *,
    golden_data: str | None = None,
    runtime_cfg: Mapping[str, Any] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    compare_fn: Mapping[str, Callable[..., tuple[bool, str]]] | None = None,
    runtime_dir: str | None = None,
) -> RunResult:
    """Run the build directory `runtime_dir` on `golden_data` once, and compare its outputs.

    `runtime_cfg` has `platform`, `device_id`, `enable_dump_args` (a level) and `enable_dep_gen`. The last two write
    records to `dfx_outputs/` in the build directory.

    Raises:
        RuntimeError: the scene test did not reach its end. It has printed why.
    """
    if program is not None or runtime_dir is None or golden_data is None:
        raise ValueError("expected runtime_dir and golden_data, and no program: there is no compiler here")
    torch: Any = importlib.import_module("torch")
    start = time.perf_counter()
    build, data = Path(runtime_dir).resolve(), Path(golden_data)
    print(f"[RUN] runtime_only: skipping JIT compile, using {build}", flush=True)
    print(f"[RUN]   cache hit: {data / 'in'}", flush=True)
    values = {spec.name: _value(torch, spec, data / "in") for spec in specs}
    print("[RUN] runtime ...", flush=True)
    _run_scene_test(build, values, runtime_cfg or {})
    failures: list[str] = []
    names: list[str] = []
    for spec in specs:
        if isinstance(spec, TensorSpec) and spec.is_output:
            expected = torch.load(data / "out" / f"{spec.name}.pt", weights_only=True)
            actual = values[spec.name]
            compare = (compare_fn or {}).get(spec.name)
            matches, detail = (
                compare(actual, expected, rtol=rtol, atol=atol)
                if compare is not None
                else (bool(torch.allclose(actual, expected, rtol=rtol, atol=atol)), "")
            )
            form = f"shape={tuple(actual.shape)} dtype={actual.dtype}"
            print(f"[RUN]   '{spec.name}' {'PASS' if matches else 'FAIL'}  {form}", flush=True)
            if not matches:
                names.append(spec.name)
                detail = detail or _describe_mismatch(torch, actual, expected, rtol=rtol, atol=atol)
                failures.append(f"  '{spec.name}' FAIL  {form}\n{detail}")
    seconds = time.perf_counter() - start
    error = "\n".join((f"Output(s) does not match golden: {names}", *failures)) if failures else None
    if error is None:
        print(f"[RUN] PASS ({seconds:.2f}s)", flush=True)
    return RunResult(passed=error is None, error=error, execution_time=seconds, work_dir=build)


def _value(torch: Any, spec: TensorSpec | ScalarSpec, folder: Path) -> Any:
    """Return the value of an argument, as a scene test takes it."""
    if isinstance(spec, ScalarSpec):
        return ctypes.c_float(spec.value) if spec.dtype.is_floating_point else ctypes.c_int64(int(spec.value))
    if spec.init_value is None:
        return torch.zeros(tuple(spec.shape), dtype=spec.dtype).share_memory_()
    return torch.load(folder / f"{spec.name}.pt", weights_only=True).contiguous().share_memory_()


def _run_scene_test(build: Path, values: Mapping[str, Any], runtime_cfg: Mapping[str, Any]) -> None:
    """Run the scene test by its own command line, which has changed less than its functions."""
    scene: Any = importlib.import_module("simpler_setup.scene_test")
    if not hasattr(scene, "_build_output_prefix"):
        raise RuntimeError("expected a runtime of 28 April 2026 or later, which can be told where to record")
    records = build / "dfx_outputs"

    def output_prefix(_case: str) -> Path:
        records.mkdir(exist_ok=True)
        return records

    scene._build_output_prefix = output_prefix
    globals()[_CLASS] = _scene_test(scene, build, values, runtime_cfg["platform"])
    options = ["-p", runtime_cfg["platform"], "-d", str(runtime_cfg.get("device_id", 0)), "--skip-golden"]
    if runtime_cfg.get("enable_dump_args"):
        known = "--dump-args" in inspect.getsource(scene.SceneTestCase.run_module)
        level = [str(int(runtime_cfg["enable_dump_args"]))]
        options += ["--dump-args", *level] if known else ["--dump-tensor"]
    if runtime_cfg.get("enable_dep_gen"):
        options.append("--enable-dep-gen")
    # A runtime that has these levels does not log the tasks of a stall by default.
    if "timing" in getattr(scene, "LOG_LEVEL_CHOICES", ()):
        options += ["--log-level", "info"]
    words, sys.argv = sys.argv, [sys.argv[0], *options]
    try:
        scene.SceneTestCase.run_module(__name__)
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"scene test ended with exit code {end.code}") from None
    finally:
        sys.argv = words


def _scene_test(scene: Any, build: Path, values: Mapping[str, Any], platform: str) -> type:
    """Return the build directory as a class of scene tests. Its kernel list is executed, as the compiler does."""
    listed = runpy.run_path(str(build / "kernel_config.py"))
    config = dict(listed.get("RUNTIME_CONFIG", {}))
    runtime = config.pop("runtime", "tensormap_and_ringbuffer")
    # A runtime refuses settings that it does not have, and later runtimes have fewer.
    known = getattr(scene, "_CASE_CONFIG_KEYS", config.keys())
    builder: Any = importlib.import_module("simpler_setup")
    # Earlier runtimes call TensorArg Tensor.
    tensor_type = getattr(builder, "TensorArg", None) or builder.Tensor

    def generate_args(_self: Any, _params: Any) -> Any:
        return builder.TaskArgsBuilder(
            *(
                builder.Scalar(name, value)
                if isinstance(value, (ctypes.c_float, ctypes.c_int64))
                else tensor_type(name, value)
                for name, value in values.items()
            )
        )

    made = type(
        _CLASS,
        (scene.SceneTestCase,),
        {
            "__module__": __name__,
            "CALLABLE": {"orchestration": dict(listed["ORCHESTRATION"]), "incores": list(listed["KERNELS"])},
            "CASES": [
                {
                    "name": "replay",
                    "platforms": [platform],
                    "config": {key: value for key, value in config.items() if key in known},
                    "params": {},
                }
            ],
            "generate_args": generate_args,
        },
    )
    return scene.scene_test(level=2, runtime=runtime)(made)


def _describe_mismatch(torch: Any, actual: Any, expected: Any, *, rtol: float, atol: float) -> str:
    """Return the lines that pypto-lib's harness prints of wrong elements."""
    is_wrong = ~torch.isclose(actual, expected, rtol=rtol, atol=atol).flatten()
    places = [int(place) for place in torch.nonzero(is_wrong)[:SHOWN_MISMATCHES]]
    actual, expected = actual.flatten(), expected.flatten()
    return "\n".join(
        [
            f"    Mismatched elements: {int(is_wrong.sum())}/{actual.numel()}  rtol={rtol} atol={atol}",
            f"    first {len(places)} mismatches:",
            *(f"    [{k}] actual={actual[k].item()}, expected={expected[k].item()}" for k in places),
        ]
    )
