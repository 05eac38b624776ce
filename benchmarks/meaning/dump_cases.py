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

OPINION_SECONDS = 10
SCRIPT, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
PLATFORM = sys.argv[3] if len(sys.argv) > 3 else "a2a3sim"

os.environ["PYPTO_PROG_BUILD_DIR"] = str(FOLDER / "builds")
torch.manual_seed(0)
torch.set_num_threads(1)

from pypto.jit.decorator import JITFunction  # noqa: E402
from pypto.runtime import RunConfig  # noqa: E402

_LOWERS = "lower" if hasattr(JITFunction, "lower") else "compile_for_test"
"""The name of the method that returns the IR after the passes; until July 2026 it was another."""
_compile, _lower = JITFunction.compile, getattr(JITFunction, _LOWERS)
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
    answers: list[Any] = []
    known: dict[str, tuple[str, str]] = {}
    started = time.process_time()
    for dump in sorted((build / "passes_dump").glob("*.py")):
        began = time.perf_counter()
        text = dump.read_text()
        if time.process_time() - started > OPINION_SECONDS:
            answers.append([dump.name, "not executed", f"did not end in {OPINION_SECONDS} s of a core", 0.0])
            continue
        if text in known:
            answers.append([dump.name, *known[text], 0.0])
            continue
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
        known[text] = state, " ".join(reason.split())[:200]
        answers.append([dump.name, *known[text], round(time.perf_counter() - began, 3)])
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


def lower(self: Any, *arguments: Any, **keywords: Any) -> Any:
    call(self, *arguments, **keywords)
    return _lower(self, *arguments, **keywords)


def run_program(program: Any, *arguments: Any, **_: Any) -> None:
    """A whole program in place of a kernel."""
    from pypto import ir

    folder = FOLDER / "builds" / f"{SCRIPT.stem}_{len(_pending)}"
    try:
        ir.compile(program, output_dir=str(folder), dump_passes=True, platform=PLATFORM)
    except Exception as error:
        print("COMPILE", type(error).__name__, " ".join(str(error).split())[:300], flush=True)
    if (folder / "passes_dump").is_dir():
        entry = next(each for each in program.functions.values() if each.func_type.name == "Orchestration")
        inputs = dict(zip((each.name_hint for each in entry.params), arguments, strict=False))
        cloned = {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        _pending.append(
            {"build": folder, "inputs": cloned, "live": inputs, "expected": {}, "rtol": 1e-5, "atol": 1e-5}
        )


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
    setattr(JITFunction, _LOWERS, lower)
    sys.modules["pypto.ir.compile"].generate = lambda *_, **__: {}  # type: ignore[attr-defined]
    sys.modules["pypto.runtime"].run = run_program  # type: ignore[attr-defined]
    torch.allclose = compare  # type: ignore[assignment]
    torch.testing.assert_close = lambda actual, expected, **keywords: compare(actual, expected, **keywords)  # type: ignore[assignment]
    with contextlib.suppress(ImportError):
        import golden

        golden.run_jit = run_jit  # type: ignore[attr-defined]
        golden.run = run_jit  # type: ignore[attr-defined]
    sys.argv = [str(SCRIPT), "-p", PLATFORM] if "from golden" in SCRIPT.read_text() else [str(SCRIPT)]
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
