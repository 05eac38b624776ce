"""Run by the interpreter of a built pypto: compiles a case, and leaves its dumps, inputs and expected outputs.

    python dump_cases.py SCRIPT FOLDER [PLATFORM]

SCRIPT is an example of pypto (it calls its kernels and checks them with torch.allclose) or of pypto-lib (it calls the
golden harness). Each kernel that it runs gets a folder: `passes_dump/`, `case.pt` (inputs, expected, tolerances), and
`torch_codegen.json`, which says for each dump whether pypto's own execution of it is right. Nothing is assembled.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import torch

SCRIPT, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
PLATFORM = sys.argv[3] if len(sys.argv) > 3 else "a2a3sim"

os.environ["PYPTO_PROG_BUILD_DIR"] = str(FOLDER / "builds")
torch.manual_seed(0)
torch.set_num_threads(1)

from pypto.jit.decorator import JITFunction  # noqa: E402
from pypto.runtime import RunConfig  # noqa: E402

_compile, _compile_for_test = JITFunction.compile, JITFunction.compile_for_test
_pending: list[dict[str, Any]] = []


def parameter_names(function: Any) -> list[str]:
    import inspect

    return list(inspect.signature(getattr(function, "_func", function)).parameters)


def compile_case(function: Any, arguments: tuple[Any, ...]) -> Path | None:
    """The new build folder; None where it does not compile, which is said."""
    before = set((FOLDER / "builds").glob("*")) if (FOLDER / "builds").exists() else set()
    try:
        _compile(function, *arguments, config=RunConfig(platform=PLATFORM, dump_passes=True))
    except Exception as error:
        print("COMPILE", type(error).__name__, " ".join(str(error).split())[:300], flush=True)
    found = set((FOLDER / "builds").glob("*")) - before
    return max(found, key=lambda path: path.stat().st_mtime) if found else None


def save(build: Path, inputs: dict[str, Any], expected: dict[str, Any], rtol: float, atol: float) -> None:
    tensors = {
        name: value if isinstance(value, torch.Tensor) else torch.tensor(value)
        for name, value in inputs.items()
    }
    torch.save({"inputs": tensors, "expected": expected, "rtol": rtol, "atol": atol}, build / "case.pt")
    (build / "torch_codegen.json").write_text(
        json.dumps(second_opinion(build, tensors, expected, rtol, atol), indent=1)
    )
    print("CASE", build, flush=True)


def second_opinion(
    build: Path, inputs: dict[str, Any], expected: dict[str, Any], rtol: float, atol: float
) -> list[Any]:
    """What pypto's own execution says of each dump: right, wrong, or the reason why it did not run."""
    import pypto.debug.torch_codegen  # noqa: F401

    module = sys.modules["pypto.debug.torch_codegen"]
    answers = []
    for dump in sorted((build / "passes_dump").glob("*.py")):
        began = time.perf_counter()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                module.validate_pass_ir_codegen_results(str(dump), inputs, expected, rtol=rtol, atol=atol)
            state, reason = "right", ""
        except AssertionError as error:
            state, reason = "wrong", str(error)
            if "tensor mismatch" not in reason:
                state = "not executed"
        except Exception as error:
            state, reason = "not executed", f"{type(error).__name__}: {error}"
        answers.append(
            [dump.name, state, " ".join(reason.split())[:200], round(time.perf_counter() - began, 3)]
        )
    return answers


# pypto's own examples: a call compiles, and a comparison says what was expected.


def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
    keywords.pop("config", None)
    names = parameter_names(self)
    inputs = dict(zip(names, arguments, strict=False)) | keywords
    build = compile_case(self, arguments)
    if build is not None:
        cloned = {
            name: value.clone() if isinstance(value, torch.Tensor) else value
            for name, value in inputs.items()
        }
        _pending.append(
            {"build": build, "inputs": cloned, "live": inputs, "expected": {}, "rtol": 1e-5, "atol": 1e-5}
        )
    return None


def compile_for_test(self: Any, *arguments: Any, **keywords: Any) -> Any:
    call(self, *arguments, **keywords)
    return _compile_for_test(self, *arguments, **keywords)


def compare(actual: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-8, **_: Any) -> bool:
    for case in reversed(_pending):
        for name, value in case["live"].items():
            if value is actual or value is expected:
                other = expected if value is actual else actual
                case["expected"][name] = other.clone()
                case["rtol"], case["atol"] = max(rtol, case["rtol"]), max(atol, case["atol"])
                return True
    return True


# pypto-lib: the golden harness is given all of it.


def run_jit(
    fn: Any = None, specs: Any = None, golden_fn: Any = None, rtol: float = 1e-5, atol: float = 1e-5, **_: Any
) -> Any:
    tensors = {spec.name: spec.create_tensor() for spec in specs if hasattr(spec, "create_tensor")}
    scalars = {spec.name: spec.value for spec in specs if not hasattr(spec, "create_tensor")}
    values = {spec.name: tensors.get(spec.name, scalars.get(spec.name)) for spec in specs}
    build = compile_case(fn, tuple(values.values()))
    if build is not None and golden_fn is not None:
        wanted = {
            name: value.clone() if isinstance(value, torch.Tensor) else value
            for name, value in values.items()
        }
        golden_fn(wanted)
        outputs = {spec.name: wanted[spec.name] for spec in specs if getattr(spec, "is_output", False)}
        save(build, values, outputs, rtol, atol)

    class Result:
        passed, error, execution_time, work_dir, bench = True, None, 0.0, build, None

    return Result()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    JITFunction.__call__ = call  # type: ignore[method-assign]
    JITFunction.compile_for_test = compile_for_test  # type: ignore[method-assign]
    torch.allclose = compare  # type: ignore[assignment]
    torch.testing.assert_close = lambda actual, expected, **keywords: compare(actual, expected, **keywords)  # type: ignore[assignment]
    with contextlib.suppress(ImportError):
        import golden

        golden.run_jit = run_jit  # type: ignore[attr-defined]
        golden.run = run_jit  # type: ignore[attr-defined]
    sys.argv = [str(SCRIPT), "-p", PLATFORM] if "golden" in sys.modules else [str(SCRIPT)]
    try:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    except SystemExit:
        pass
    except Exception as error:
        print("SCRIPT", type(error).__name__, " ".join(str(error).split())[:300], flush=True)
    for case in _pending:
        if case["inputs"]:
            save(case["build"], case["inputs"], case["expected"], case["rtol"], case["atol"])


if __name__ == "__main__":
    main()
