"""Runs the scene tests of one module: build, execute, compare, print."""

from __future__ import annotations

import argparse
import inspect
import shutil
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minirt import binaries, executor


@dataclass(frozen=True)
class TensorArg:
    """A torch tensor; an output is written in place."""

    name: str
    value: Any


@dataclass(frozen=True)
class Scalar:
    """A number, passed as binary32 if it is a float."""

    name: str
    value: int | float

    @property
    def bits(self) -> int:
        if isinstance(self.value, int):
            return self.value & (2**64 - 1)
        return struct.unpack("<I", struct.pack("<f", self.value))[0]


class TaskArgsBuilder:
    """The arguments of a run in the order of the signature, tensors first; each is an attribute by its name."""

    def __init__(self, *arguments: TensorArg | Scalar) -> None:
        self.arguments = arguments
        for argument in arguments:
            setattr(self, argument.name, argument.value)


def scene_test(*, level: int, runtime: str) -> Callable[[type], type]:
    """Marks a class as a scene test."""

    def mark(cls: type) -> type:
        cls.scene = {"level": level, "runtime": runtime}
        return cls

    return mark


class SceneTestCase:
    """Subclasses give CALLABLE, CASES, `generate_args(params)` and `compute_golden(args, params)`."""

    RTOL = 1e-5
    ATOL = 1e-5

    @classmethod
    def run_module(cls, name: str) -> None:
        """Run all cases of the module's scene tests and exit: 0 all passed, 1 some failed."""
        parser = argparse.ArgumentParser()
        parser.add_argument("-p", "--platform", required=True)
        parser.add_argument("-d", "--device", type=int, default=0)
        parser.add_argument("--case")
        parser.add_argument("--dump-args", type=int, default=0, choices=executor.DUMP_LEVELS)
        parser.add_argument("--enable-dep-gen", action="store_true")
        parser.add_argument("--skip-golden", action="store_true")
        options = parser.parse_args()
        found = vars(sys.modules[name]).values()
        tests = [
            one for one in found if inspect.isclass(one) and issubclass(one, cls) and hasattr(one, "scene")
        ]
        failed = 0
        for test in tests:
            print(f"=== Runtime: {test.scene['runtime']}  Level: {test.scene['level']} ===", flush=True)
            for case in test.CASES:
                if options.platform in case["platforms"] and options.case in (None, case["name"]):
                    failed += not test()._passes(case, options)
        sys.exit(1 if failed else 0)

    def _passes(self, case: dict[str, Any], options: argparse.Namespace) -> bool:
        import torch

        label = f"{type(self).__name__}::{case['name']}"
        print(f"  {label} ...", flush=True)
        args = self.generate_args(case["params"])
        before = {one.name: one.value.clone() for one in args.arguments if isinstance(one, TensorArg)}
        build = Path("outputs") / f"{type(self).__name__}_{case['name']}_{time.strftime('%Y%m%d_%H%M%S')}"
        self._write_build(build)
        binaries.refresh(build)
        executor.execute(
            build,
            [_argument(one) for one in args.arguments],
            platform=options.platform,
            device_id=options.device,
            dump_args=options.dump_args,
            dep_gen=options.enable_dep_gen,
        )
        if not options.skip_golden:
            actual = {name: getattr(args, name).clone() for name in before}
            for name, value in before.items():
                getattr(args, name).copy_(value)
            self.compute_golden(args, case["params"])
            for name, value in actual.items():
                expected = getattr(args, name)
                written = not torch.equal(expected, before[name]) or self._is_output(name, args)
                if written and not torch.allclose(value, expected, rtol=self.RTOL, atol=self.ATOL):
                    difference = (value.double() - expected.double()).abs().max().item()
                    print(
                        f"  {label} FAILED: Golden mismatch on '{name}': max_diff={difference}, "
                        f"rtol={self.RTOL}, atol={self.ATOL}",
                        flush=True,
                    )
                    return False
        print(f"  {label} PASSED", flush=True)
        return True

    def _is_output(self, name: str, args: TaskArgsBuilder) -> bool:
        tensors = [one.name for one in args.arguments if isinstance(one, TensorArg)]
        return self.CALLABLE["orchestration"]["signature"][tensors.index(name)].name == "OUT"

    def _write_build(self, build: Path) -> None:
        """The callable's sources as a build directory."""
        root = Path(inspect.getfile(type(self))).resolve().parent
        described, kernels = self.CALLABLE["orchestration"], []
        for incore in self.CALLABLE["incores"]:
            source = _copied(root / incore["source"], build / "kernels" / incore["core_type"])
            kernels.append({**incore, "name": source.stem, "source": str(source.resolve())})
        main = _copied(root / described["source"], build / "orchestration")
        entry = {"source": str(main.resolve()), "function_name": described["function_name"]}
        for kernel in kernels:
            kernel["signature"] = [one.name for one in kernel["signature"]]
        (build / "kernel_config.py").write_text(f"ORCHESTRATION = {entry!r}\nKERNELS = {kernels!r}\n")


def _copied(source: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(source, folder))


def _argument(argument: TensorArg | Scalar) -> executor.TensorArgument | executor.ScalarArgument:
    if isinstance(argument, Scalar):
        return executor.ScalarArgument(name=argument.name, bits=argument.bits)
    value = argument.value
    dtype = str(value.dtype).removeprefix("torch.")
    return executor.TensorArgument(
        name=argument.name, address=value.data_ptr(), dtype=dtype, shape=tuple(value.shape)
    )
