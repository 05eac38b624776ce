"""One run of a case: compile, make inputs, compute the expected outputs, execute, compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import minipto
import torch
from minipto.runtime import ScalarArgument, TensorArgument, build_binaries, execute_compiled

from . import data
from .comparators import Comparator
from .spec import ScalarSpec, Spec
from .validation import validate_golden

GoldenFunction = Callable[[dict[str, Any]], None]

_DTYPES = {
    torch.float32: minipto.DType.FP32,
    torch.float16: minipto.DType.FP16,
    torch.bfloat16: minipto.DType.BF16,
    torch.int32: minipto.DType.INT32,
    torch.int8: minipto.DType.INT8,
}


@dataclass
class RunResult:
    """How a run ended; `error` says why it did not pass, times are in seconds."""

    passed: bool
    error: str | None = None
    execution_time: float | None = None
    work_dir: Path | None = None
    bench: None = None  # filled by the device harness only


def run(
    program: minipto.Program,
    specs: Sequence[Spec],
    golden_fn: GoldenFunction | None = None,
    golden_data: str | None = None,
    compile_cfg: Mapping[str, Any] | None = None,
    runtime_cfg: Mapping[str, Any] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    compare_fn: Mapping[str, Comparator] | None = None,
    compile_only: bool = False,
    runtime_dir: str | None = None,
    save_data: bool = False,
) -> RunResult:
    """Run `program` once and compare its outputs.

    Expected outputs come from `golden_data`/out (and inputs from `golden_data`/in) if given, else from
    `golden_fn(values)`, which fills the outputs of `values` in place; with neither, nothing is compared.
    `compile_cfg` goes to minipto.compile, `runtime_cfg` to minipto.runtime.execute_compiled. `runtime_dir` is a
    build to use instead of compiling. `save_data` keeps inputs and expected outputs in the build's data/.

    Mismatches and bad data come back as a RunResult that has not passed. What compilation and the runtime raise
    passes through.
    """
    return _Run(
        compile=lambda: minipto.compile(program, **(compile_cfg or {})),
        specs=specs,
        golden_fn=golden_fn,
        golden_data=Path(golden_data) if golden_data is not None else None,
        runtime_cfg=runtime_cfg or {},
        rtol=rtol,
        atol=atol,
        compare_fn=compare_fn or {},
        compile_only=compile_only,
        runtime_dir=Path(runtime_dir) if runtime_dir is not None else None,
        save_data=save_data,
    ).result()


def run_jit(
    fn: minipto.JitFunction,
    specs: Sequence[Spec],
    golden_fn: GoldenFunction | None = None,
    golden_data: str | None = None,
    compile_cfg: Mapping[str, Any] | None = None,
    runtime_cfg: Mapping[str, Any] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    compare_fn: Mapping[str, Comparator] | None = None,
    compile_only: bool = False,
    runtime_dir: str | None = None,
    save_data: bool = False,
) -> RunResult:
    """As `run`, with `fn` specialized for the shapes and types of `specs`."""

    def compile_program() -> Path:
        program = fn.trace([_parameter(spec) for spec in specs])
        return minipto.compile(program, **(compile_cfg or {}))

    return _Run(
        compile=compile_program,
        specs=specs,
        golden_fn=golden_fn,
        golden_data=Path(golden_data) if golden_data is not None else None,
        runtime_cfg=runtime_cfg or {},
        rtol=rtol,
        atol=atol,
        compare_fn=compare_fn or {},
        compile_only=compile_only,
        runtime_dir=Path(runtime_dir) if runtime_dir is not None else None,
        save_data=save_data,
    ).result()


@dataclass(frozen=True, kw_only=True)
class _Run:
    """The arguments of `run`, with the program as a function that compiles it to a build directory."""

    compile: Callable[[], Path]
    specs: Sequence[Spec]
    golden_fn: GoldenFunction | None
    golden_data: Path | None
    runtime_cfg: Mapping[str, Any]
    rtol: float
    atol: float
    compare_fn: Mapping[str, Comparator]
    compile_only: bool
    runtime_dir: Path | None
    save_data: bool

    def result(self) -> RunResult:
        start = time.perf_counter()
        build_dir, error, validated = self.runtime_dir, None, False
        try:
            build_dir = self._build()
            if not self.compile_only:
                validated = self._execute(build_dir)
        except (_ArgumentError, data.GoldenDataError, AssertionError) as failure:
            error = str(failure)
        seconds = time.perf_counter() - start
        if error is None:
            skipped = (
                "" if validated or self.compile_only else ", validation skipped: no golden_fn or golden_data"
            )
            print(f"[RUN] PASS ({seconds:.2f}s{skipped})", flush=True)
        return RunResult(passed=error is None, error=error, execution_time=seconds, work_dir=build_dir)

    def _build(self) -> Path:
        if self.runtime_dir is None:
            with _phase("compile"):
                build_dir = self.compile()
                build_binaries(build_dir)
                return build_dir
        if self.compile_only:
            raise _ArgumentError("runtime_dir is incompatible with compile_only")
        if not self.runtime_dir.is_dir():
            raise _ArgumentError(f"runtime_dir does not exist: {self.runtime_dir}")
        print(f"[RUN] runtime_only: skipping JIT compile, using {self.runtime_dir}", flush=True)
        build_binaries(self.runtime_dir)
        return self.runtime_dir

    def _execute(self, build_dir: Path) -> bool:
        """Run and compare; False if there was nothing to compare with. Raises AssertionError on a mismatch."""
        save_dir = build_dir / "data" if self.save_data and self.golden_data is None else None
        with _phase("generate inputs"):
            values = self._make_inputs(save_dir)
        inputs = {name: values[name].clone() for name in data.input_names(self.specs)}
        expected = None
        if self.golden_data is not None or self.golden_fn is not None:
            with _phase("compute golden"):
                expected = self._expected_outputs(values, save_dir)
        with _phase("runtime"):
            arguments = [_argument(spec, values[spec.name]) for spec in self.specs]
            execute_compiled(build_dir, arguments, **self.runtime_cfg)
        if expected is None:
            return False
        validate_golden(
            {name: values[name] for name in data.output_names(self.specs)},
            expected,
            inputs=inputs,
            rtol=self.rtol,
            atol=self.atol,
            compare_fn=self.compare_fn,
        )
        return True

    def _make_inputs(self, save_dir: Path | None) -> dict[str, torch.Tensor]:
        """A value for every parameter; outputs without an initial value are zeros."""
        names = data.input_names(self.specs)
        if self.golden_data is None:
            values = {spec.name: spec.create() for spec in self.specs}
            if save_dir is not None:
                data.save(save_dir / "in", {name: values[name] for name in names})
            return values
        data.check_complete(self.golden_data, self.specs)
        print(f"[RUN]   cache hit: {self.golden_data / 'in'}", flush=True)
        frozen = data.load(self.golden_data / "in", self.specs, names)
        return {spec.name: frozen[spec.name] if spec.name in frozen else spec.create() for spec in self.specs}

    def _expected_outputs(
        self, values: Mapping[str, torch.Tensor], save_dir: Path | None
    ) -> dict[str, torch.Tensor]:
        outputs = data.output_names(self.specs)
        if self.golden_data is not None:
            print(f"[RUN]   cache hit: {self.golden_data / 'out'}", flush=True)
            return data.load(self.golden_data / "out", self.specs, outputs)
        assert self.golden_fn is not None
        copies: dict[str, Any] = {
            spec.name: values[spec.name].item() if isinstance(spec, ScalarSpec) else values[spec.name].clone()
            for spec in self.specs
        }
        self.golden_fn(copies)
        expected = {name: copies[name] for name in outputs}
        if save_dir is not None:
            data.save(save_dir / "out", expected)
        return expected


class _ArgumentError(Exception):
    """The arguments of `run` contradict each other or name what does not exist."""


@contextmanager
def _phase(name: str) -> Generator[None]:
    """Prints when a phase begins and ends, even if it raised."""
    print(f"[RUN] {name} ...", flush=True)
    start = time.perf_counter()
    try:
        yield
    finally:
        print(f"[RUN] {name} done ({time.perf_counter() - start:.2f}s)", flush=True)


def _parameter(spec: Spec) -> minipto.TensorParameter | minipto.ScalarParameter:
    if isinstance(spec, ScalarSpec):
        return minipto.ScalarParameter(name=spec.name)
    role = minipto.Role.OUTPUT if spec.is_output else minipto.Role.INPUT
    return minipto.TensorParameter(
        name=spec.name, shape=tuple(spec.shape), dtype=_DTYPES[spec.dtype], role=role
    )


def _argument(spec: Spec, value: torch.Tensor) -> TensorArgument | ScalarArgument:
    if isinstance(spec, ScalarSpec):
        return ScalarArgument(name=spec.name, bits=int(value.view(torch.int32)) & 0xFFFFFFFF)
    dtype = str(spec.dtype).removeprefix("torch.")
    return TensorArgument(name=spec.name, address=value.data_ptr(), dtype=dtype, shape=tuple(value.shape))
