"""The checks of the corpus of natural regressions, each in trees made for it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.natural.regression import CHECKS, Regression, read_corpus
from tests.support.quick import quick_first

HOLDS, FAILS, UNTOLD = 0, 1, 125

SMOKE = """\
jobs:
  smoke:
    run: |
      COMBO_DEFS=(
        "-DPROFILE=0"
        "-DPROFILE=1 -DDEEP=1"
      )
"""
SPECIALIZER = """\
from dataclasses import dataclass
from typing import Any
from pypto.pypto_core import DataType
NAMES = {{DataType.FP32: "pl.FP32"}}
@dataclass
class TensorMeta:
    shape: tuple[int, ...]
    dtype: Any
def _infer_return_type(function, metas, outputs):
    return {answer!r}
"""
CONVERTER = """\
import json
def generate_chrome_trace_json(tasks, page, *, deps_edges):
    ends = {{task["task_id"]: task["{begin}"] for task in tasks}}
    flows = [
        {{"name": "dependency", "id": 7, "ph": "s", "ts": ends[1]}},
        {{"name": "dependency", "id": 7, "ph": "f", "ts": ends[2]}},
    ]
    with open(page, "w") as file:
        json.dump({{"traceEvents": flows if deps_edges else []}}, file)
"""
EXAMPLE = "def BuildBatchPagedAttentionProgram():\n    pl.move(tile, transpose=True)\n"
TARGETS = (
    "cmake_minimum_required(VERSION 3.10)\nproject(t CXX)\nadd_library(one t.cpp)\nadd_library({} t.cpp)\n"
)
GRAPH_CACHE = "#include <gtest/gtest.h>\nint main() { return {}; }\n"
PMU = "src/a2a3/platform/host/pmu_collector.cpp"
GRAPH = "tests/ut/cpp/test_hbg_graph_cache.cpp"
GRAPH_LIST = (
    "cmake_minimum_required(VERSION 3.10)\nproject(t CXX)\ninclude_directories(stub)\nadd_library(t {})\n"
)

TREES = [
    ("zip_without_strict", HOLDS, {"python/simpler/a.py": "zip(a, b); path.resolve(strict=True)"}),
    ("zip_without_strict", FAILS, {"python/simpler/b/a.py": "for x in zip(a, b, strict=True): pass"}),
    ("zip_without_strict", UNTOLD, {"README.md": ""}),
    ("zip_without_strict", UNTOLD, {"python/simpler/a.py": "this is no Python"}),
    (
        "profiling_macros",
        HOLDS,
        {".github/workflows/ci.yml": SMOKE, "src/a.h": "#if PROFILE\n#elif defined(DEEP)\n#endif\n"},
    ),
    ("profiling_macros", FAILS, {".github/workflows/ci.yml": SMOKE, "src/a.h": "#if PROFILE // not DEP\n"}),
    ("profiling_macros", UNTOLD, {".github/workflows/ci.yml": "jobs:\n", "src/a.h": "#if PROFILE\n"}),
    ("profiling_macros", UNTOLD, {"src/a.h": "#if PROFILE\n"}),
    ("names_listed_once", HOLDS, {"python/pypto/language/op/__init__.py": '__all__ = ["a", "b"]'}),
    ("names_listed_once", FAILS, {"python/pypto/language/op/__init__.py": '__all__ = ["a", "b", "a"]'}),
    ("names_listed_once", UNTOLD, {"python/pypto/language/op/__init__.py": "a = 1"}),
    (
        "example_arguments",
        HOLDS,
        {
            "examples/x/y.py": EXAMPLE,
            "python/pypto/language/op/a.py": "def move(tile, *, transpose=False): ...",
        },
    ),
    (
        "example_arguments",
        FAILS,
        {"examples/x/y.py": EXAMPLE, "python/pypto/language/op/a.py": "def move(tile, target): ..."},
    ),
    ("example_arguments", UNTOLD, {"examples/x/y.py": EXAMPLE}),
    (
        "bare_return_type",
        HOLDS,
        {"python/pypto/jit/specializer.py": SPECIALIZER.format(answer="tuple[pl.Tensor[[8]], X]")},
    ),
    ("bare_return_type", HOLDS, {"python/pypto/jit/specializer.py": SPECIALIZER.format(answer=None)}),
    (
        "bare_return_type",
        FAILS,
        {"python/pypto/jit/specializer.py": SPECIALIZER.format(answer="tuple[pl.Tensor, X]")},
    ),
    ("bare_return_type", UNTOLD, {"README.md": ""}),
    (
        "arrows_forwards",
        HOLDS,
        {"simpler_setup/tools/swimlane_converter.py": CONVERTER.format(begin="dispatch_time_us")},
    ),
    (
        "arrows_forwards",
        UNTOLD,
        {"simpler_setup/tools/swimlane_converter.py": "def generate_chrome_trace_json(tasks): ..."},
    ),
    ("collector_compiles", HOLDS, {PMU: '#include "a.h"\nint a = A;\n', "src/common/x/a.h": "#define A 1"}),
    ("collector_compiles", FAILS, {PMU: "int a = A;\n"}),
    ("collector_compiles", UNTOLD, {PMU: '#include "a.h"\n'}),
    ("collector_compiles", UNTOLD, {"README.md": ""}),
]
CMAKE_TREES = [
    ("test_targets_differ", HOLDS, {"tests/ut/cpp/CMakeLists.txt": TARGETS.format("two")}),
    ("test_targets_differ", FAILS, {"tests/ut/cpp/CMakeLists.txt": TARGETS.format("one")}),
    ("test_targets_differ", UNTOLD, {"tests/ut/cpp/CMakeLists.txt": "no_such_command()"}),
    *(
        ("graph_cache_test_compiles", told, {
            "tests/ut/cpp/CMakeLists.txt": GRAPH_LIST.format(Path(GRAPH).name),
            "tests/ut/cpp/stub/gtest/gtest.h": "#define ZERO 0",
            GRAPH: GRAPH_CACHE.replace("{}", value),
        })
        for told, value in ((HOLDS, "ZERO"), (FAILS, "NOTHING"))
    ),
    ("graph_cache_test_compiles", UNTOLD, {"tests/ut/cpp/CMakeLists.txt": TARGETS.format("two")}),
]  # fmt: skip


def told_of(check: str, tree: Path, files: dict[str, str]) -> int:
    """The exit code of the check in a tree of these files."""
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tree / "tests/ut/cpp").mkdir(parents=True, exist_ok=True)
    (tree / "tests/ut/cpp/t.cpp").write_text("")
    facts = next(each for each in read_corpus().values() if each.check == check)
    return subprocess.run(facts.check_command([]), cwd=tree, check=False, capture_output=True).returncode


@pytest.mark.parametrize(("check", "told", "files"), quick_first(TREES, 8))
def test_a_check_tells_what_is_in_the_tree(
    check: str, told: int, files: dict[str, str], tmp_path: Path
) -> None:
    assert told_of(check, tmp_path, files) == told
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
@pytest.mark.parametrize(("check", "told", "files"), quick_first(CMAKE_TREES))
def test_a_check_of_cmake_tells_what_is_in_the_tree(
    check: str, told: int, files: dict[str, str], tmp_path: Path
) -> None:
    assert told_of(check, tmp_path, files) == told


def test_an_arrow_that_goes_back_is_seen(tmp_path: Path) -> None:
    backwards = CONVERTER.format(begin="dispatch_time_us").replace("ends[1]", "ends[2] + 1")
    files = {"simpler_setup/tools/swimlane_converter.py": backwards}
    assert told_of("arrows_forwards", tmp_path, files) == FAILS


def test_each_check_is_of_a_regression() -> None:
    checks = {path.stem for path in CHECKS.glob("*.py")} - {"__init__", "__main__"}
    assert {each.check for each in read_corpus().values()} - {None} == checks


def test_a_check_that_is_brought_takes_the_place_of_ours() -> None:
    facts: dict[str, str] = dict.fromkeys(
        ("name", "repository", "case", "good", "bad", "culprit", "known"), "x"
    )
    ours = Regression.read({**facts, "seeks": "fix", "check": "zip_without_strict"})
    assert ours.check_command(["./own.sh"]) == ["./own.sh"]
    assert ours.check_command([])[-2:] == [str(CHECKS), "zip_without_strict"]
    assert Regression.read({**facts, "seeks": "fix"}).check_command([]) == []
