"""A stand-in for a runtime whose cases are scene tests: it dumps as the real one does, and lists no tasks.

`y = x * factor + 1` by two tasks; the factor is a line of the kernel's file. It reads as `simpler_setup` of August 2026
does from outside, needs no compiler, and cannot be written as a build directory (`RUNTIME_ENV`).
"""

from collections.abc import Mapping

SETUP = """
import argparse, ctypes, json, struct, sys, time
from pathlib import Path

import torch


class TensorArg:
    def __init__(self, name, value):
        self.name, self.value = name, value


class TaskArgsBuilder:
    def __init__(self, *specs):
        self.specs = list(specs)

    def __getattr__(self, name):
        return next(one.value for one in self.specs if one.name == name)


def record(task, argument, role, stage, tensor, data):
    raw = tensor.numpy().tobytes()
    data += [raw]
    return {
        "task_id": f"0x{task:016x}", "func_id": [-1], "arg_index": argument, "role": role, "stage": stage,
        "kind": "tensor", "dtype": "FLOAT32", "shape": list(tensor.shape), "strides": [1], "start_offset": 0,
        "numel": tensor.numel(), "bin_offset": sum(map(len, data[:-1])), "bin_size": len(raw),
    }


def dump(label, x, scaled, y):
    folder = Path("outputs") / f"{label}_{time.strftime('%Y%m%d_%H%M%S')}"
    (folder / "args_dump").mkdir(parents=True)
    data = []
    args = [
        record(1, 0, "input", "before_dispatch", x, data), record(1, 1, "output", "after_completion", scaled, data),
        record(2, 0, "input", "before_dispatch", scaled, data), record(2, 1, "output", "after_completion", y, data),
    ]
    (folder / "args_dump" / "args.bin").write_bytes(b"".join(data))
    head = {
        "bin_format": {"type": "logical_contiguous", "byte_order": "little_endian"}, "bin_file": "args.bin",
        "dropped_records": 0, "dropped_overwrite": 0, "dump_args_level": 2, "total_args": 4, "before_dispatch": 2,
        "after_completion": 2, "input_args": 2, "output_args": 2, "inout_args": 0, "truncated_args": 0,
    }
    (folder / "args_dump" / "args_dump.json").write_text(json.dumps({**head, "args": args}))
    (folder / "deps.json").write_text('{"edges": [], "tasks": []}')


class SceneTestCase:
    RUNTIME_ENV = {"ring": "1"}
    _st_level, SKIP_GOLDEN = 2, False

    @staticmethod
    def run_module(name):
        parser = argparse.ArgumentParser()
        parser.add_argument("-p")
        parser.add_argument("--case")
        parser.add_argument("--dump-args", nargs="?", type=int, default=0, const=1)
        options = parser.parse_args()
        ok = True
        for made in [one for one in vars(sys.modules[name]).values() if isinstance(one, type)]:
            if made is SceneTestCase or not issubclass(made, SceneTestCase):
                continue
            for case in made.CASES:
                label = f"{made.__name__}::{case['name']}"
                if options.case not in (None, label):
                    continue
                given = made().generate_args(case["params"])
                factor = float((Path(__file__).parent.parent / "kernels" / "scale.txt").read_text())
                scaled = given.x * (factor if case["name"] == "wrong" else 2.0)
                y = scaled + 1
                if options.dump_args == 2:
                    dump(label.replace("::", "_"), given.x, scaled, y)
                print(f"  {label} ...", flush=True)
                if torch.allclose(y, given.x * 2 + 1):
                    print(f"  {label} PASSED")
                else:
                    worst = float((y - given.x * 2 - 1).abs().max())
                    print(f"  {label} FAILED: Golden mismatch on 'y': max_diff={worst}, rtol=1e-05, atol=1e-05")
                    ok = False
        sys.exit(0 if ok else 1)
"""
SCRIPT = """
import torch
from simpler_setup import SceneTestCase, TaskArgsBuilder, TensorArg


class TestScale(SceneTestCase):
    CASES = [
        {"name": "fine", "platforms": ["sim"], "params": {}},
        {"name": "wrong", "platforms": ["sim"], "params": {}},
    ]

    def generate_args(self, params):
        return TaskArgsBuilder(TensorArg("x", torch.rand(64) + 1))


if __name__ == "__main__":
    SceneTestCase.run_module(__name__)
"""
STACK = """
name = "scenes"
searched = "runtime"
[repositories.runtime]
path = "runtime"
[environment.variables]
PYTHONPATH = "{runtime}"
[case]
repository = "runtime"
command = ["{python}", "{case}", "-p", "{platform}"]
help = ["{python}", "{case}", "--help"]
cwd = "{runtime}"
harness = false
scene_tests = true
build_output = "runtime/outputs"
[case.flags]
dump = ["--dump-args", "--dump-tensor"]
[platforms.sim]
[[verdicts]]
verdict = "mismatch"
pattern = '''Golden mismatch on '(?P<output>\\w+)': max_diff=(?P<max_diff>.+), rtol=(?P<rtol>\\S+), atol=(?P<atol>.+)'''
[[verdicts]]
verdict = "pass"
pattern = '''^\\s+[\\w.]+::\\S+ PASSED$'''
stream = "stdout"
"""


def scene_files(factor: float, script: str = SCRIPT) -> Mapping[str, str]:
    """The files of a revision whose kernel multiplies by `factor`; 2 is right."""
    return {
        "simpler_setup/__init__.py": SETUP,
        "tests/test_scale.py": script,
        "kernels/scale.txt": f"{factor}\n",
    }
