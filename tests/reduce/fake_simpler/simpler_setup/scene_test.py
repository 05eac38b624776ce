# ruff: noqa: RUF012
"""A class of cases, and its command line. Of an orchestration, the comments `// y = x * N` and `// stall` are run."""

import argparse
import copy
import inspect
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple


class TensorArg(NamedTuple):
    name: str
    value: Any


class Scalar(NamedTuple):
    name: str
    value: Any


class TaskArgsBuilder:
    def __init__(self, *specs):
        self.specs = list(specs)

    def __getattr__(self, name):
        return next(one.value for one in self.specs if one.name == name)

    def clone(self):
        return TaskArgsBuilder(*(type(one)(one.name, copy.deepcopy(one.value)) for one in self.specs))


LOG_LEVEL_CHOICES = ["info", "timing"]
STUCK = "[STALL thread=0 idle_iterations=9] TASK ring=0 task_id=1 state=WAIT    fanin_refcount=0/1"


def _build_output_prefix(case_label):
    raise AssertionError(f"a run of ours writes {case_label} into the user's checkout")


class SceneTestCase:
    CALLABLE: dict = {}
    CASES: list = []
    RUNTIME_ENV: dict = {}

    @staticmethod
    def run_module(module_name):
        parser = argparse.ArgumentParser()
        parser.add_argument("-p", "--platform", required=True)
        parser.add_argument("-d", "--device")
        parser.add_argument("--skip-golden", action="store_true")
        parser.add_argument("--dump-args", type=int, default=0)
        parser.add_argument("--enable-dep-gen", action="store_true")
        parser.add_argument("--log-level", choices=LOG_LEVEL_CHOICES, default="timing")
        args = parser.parse_args()
        ok = True
        for scene in list(vars(sys.modules[module_name]).values()):
            if isinstance(scene, type) and issubclass(scene, SceneTestCase) and scene is not SceneTestCase:
                case = next(one for one in scene.CASES if args.platform in one["platforms"])
                try:
                    _run(scene(), case, args)
                    print(f"  {scene.__name__}::{case['name']} PASSED")
                except Exception as error:
                    print(f"  {scene.__name__}::{case['name']} FAILED: {error}")
                    ok = False
        sys.exit(0 if ok else 1)


def _run(scene, case, args):
    assert args.skip_golden
    assert case["config"].keys() <= {"aicpu_thread_num", "runtime_env"}
    if args.enable_dep_gen:
        (_build_output_prefix("label") / "deps.json").write_text("{}")
    given = scene.generate_args(case["params"])
    text = Path(scene.CALLABLE["orchestration"]["source"]).read_text()
    if "// stall" in text:
        if args.log_level == "info":
            print(STUCK)
        raise RuntimeError("run failed with code -100")
    factor = re.search(r"// y = x \* (\d+)", text)
    given.y[:] = given.x * int(factor[1]) + given.offset.value


def scene_test(level, runtime):
    def decorator(cls):
        cls._st_level, cls._st_runtime = level, runtime
        folder = Path(inspect.getfile(cls)).parent
        for one in (cls.CALLABLE["orchestration"], *cls.CALLABLE["incores"]):
            one["source"] = str(folder / one["source"])
        return cls

    return decorator
