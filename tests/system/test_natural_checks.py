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
    ("simpler/zip_without_strict", HOLDS, {"python/simpler/a.py": "zip(a, b); path.resolve(strict=True)"}),
    ("simpler/zip_without_strict", FAILS, {"python/simpler/b/a.py": "for x in zip(a, b, strict=True): pass"}),
    ("simpler/zip_without_strict", UNTOLD, {"README.md": ""}),
    ("simpler/zip_without_strict", UNTOLD, {"python/simpler/a.py": "this is no Python"}),
    (
        "simpler/profiling_macros",
        HOLDS,
        {".github/workflows/ci.yml": SMOKE, "src/a.h": "#if PROFILE\n#elif defined(DEEP)\n#endif\n"},
    ),
    (
        "simpler/profiling_macros",
        FAILS,
        {".github/workflows/ci.yml": SMOKE, "src/a.h": "#if PROFILE // not DEP\n"},
    ),
    ("simpler/profiling_macros", UNTOLD, {".github/workflows/ci.yml": "jobs:\n", "src/a.h": "#if PROFILE\n"}),
    ("simpler/profiling_macros", UNTOLD, {"src/a.h": "#if PROFILE\n"}),
    ("pypto/names_listed_once", HOLDS, {"python/pypto/language/op/__init__.py": '__all__ = ["a", "b"]'}),
    ("pypto/names_listed_once", FAILS, {"python/pypto/language/op/__init__.py": '__all__ = ["a", "b", "a"]'}),
    ("pypto/names_listed_once", UNTOLD, {"python/pypto/language/op/__init__.py": "a = 1"}),
    (
        "pypto/example_arguments",
        HOLDS,
        {
            "examples/x/y.py": EXAMPLE,
            "python/pypto/language/op/a.py": "def move(tile, *, transpose=False): ...",
        },
    ),
    (
        "pypto/example_arguments",
        FAILS,
        {"examples/x/y.py": EXAMPLE, "python/pypto/language/op/a.py": "def move(tile, target): ..."},
    ),
    ("pypto/example_arguments", UNTOLD, {"examples/x/y.py": EXAMPLE}),
    (
        "pypto/bare_return_type",
        HOLDS,
        {"python/pypto/jit/specializer.py": SPECIALIZER.format(answer="tuple[pl.Tensor[[8]], X]")},
    ),
    ("pypto/bare_return_type", HOLDS, {"python/pypto/jit/specializer.py": SPECIALIZER.format(answer=None)}),
    (
        "pypto/bare_return_type",
        FAILS,
        {"python/pypto/jit/specializer.py": SPECIALIZER.format(answer="tuple[pl.Tensor, X]")},
    ),
    ("pypto/bare_return_type", UNTOLD, {"README.md": ""}),
    (
        "simpler/arrows_forwards",
        HOLDS,
        {"simpler_setup/tools/swimlane_converter.py": CONVERTER.format(begin="dispatch_time_us")},
    ),
    (
        "simpler/arrows_forwards",
        UNTOLD,
        {"simpler_setup/tools/swimlane_converter.py": "def generate_chrome_trace_json(tasks): ..."},
    ),
    (
        "simpler/collector_compiles",
        HOLDS,
        {PMU: '#include "a.h"\nint a = A;\n', "src/common/x/a.h": "#define A 1"},
    ),
    ("simpler/collector_compiles", FAILS, {PMU: "int a = A;\n"}),
    ("simpler/collector_compiles", UNTOLD, {PMU: '#include "a.h"\n'}),
    ("simpler/collector_compiles", UNTOLD, {"README.md": ""}),
]
GENERATORS, PIPES = "tests/cpu/st/testcase/{}/gen_data.py", "include/pto/{}/TPush.hpp"
SIMULATED, REAL = PIPES.format("cpu"), PIPES.format("npu/a2a3")
INST, PUSH = "include/pto/pto-inst.hpp", "#include <format>\n"
TILES = """namespace pto {
enum class TileType { Vec };
enum class BLayout { RowMajor };
enum class MaskPattern { P0101 };
template <TileType, class, int, int, BLayout, int, int> struct Tile {};
template <class T> void TSCATTER(T &, T &) {}
"""
BY_MASK = "template <MaskPattern, class T> void TSCATTER(T &, T &) {}\n"
URMA = "tests/cpu/comm/st/testcase/tget_async_urma/tget_async_urma_kernel.cpp"
MEMBERS = "struct UrmaTestContext {{ int a; int {}; }};\n"
PTO, OPS = "lib/PTO/IR/PTO.cpp", "include/PTO/IR/PTOOps.td"
HELPER = "static LogicalResult verifyTileBufA(int a) { return 0; }\n"
VALIDATION = "test/npu_validation/scripts/run_remote_npu_validation.sh"
LOOKING = """SIM_SOC_VERSION="${SOC_VERSION}"
for each in "$ASCEND_HOME_PATH"/*/simulator/*; do
  %s="$(basename "$each")"
done
log "SIM_SOC_VERSION=$SIM_SOC_VERSION"
"""
KINDS = "include/pypto/ir/{}.h"
TRAITS = "struct KindTrait<Expr> {{\n  static constexpr kinds[] = {{ObjectKind::Var{}}};\n}};\n"
CLASSES = """class Var : public Expr {
  Kind kind() const { return ObjectKind::Var; }
};
class IterArg final : public Var {
  Kind kind() const { return ObjectKind::IterArg; }
};
class Stmt : public Node {
  Kind kind() const { return ObjectKind::Stmt; }
};
"""
SWA = "models/deepseek/v4/decode_sparse_attn_swa.py"
ROOM = "ATTN_K_TILE = 128\nSPARSE_BLOCKS = {}\nbias = mtp_kv_overlay[0 : ATTN_K_TILE, 0:8]\n"
ROUNDED = "rounded = (bits + {}) & -0x10000\n"
RUNNER = "src/a5/platform/sim/host/device_runner.cpp"
LOADS = 'set_log = load_sym("set_log");\n'

OF_OTHERS = [
    ("pto_isa/golden_generators_parse", HOLDS, {GENERATORS.format("a"): "a = 1\n"}),
    ("pto_isa/golden_generators_parse", FAILS, {GENERATORS.format(each): f"a = {each}\n" for each in "1)"}),
    ("pto_isa/golden_generators_parse", UNTOLD, {"README.md": ""}),
    ("pto_isa/pipe_setters", HOLDS, {SIMULATED: "void setA(int a);", REAL: "void setA(int a); void setB();"}),
    ("pto_isa/pipe_setters", FAILS, {SIMULATED: "void seta(int a);", REAL: "void setA(int a);"}),
    ("pto_isa/pipe_setters", UNTOLD, {SIMULATED: "void setA(int a);"}),
    ("pto_isa/scatter_by_mask_compiles", HOLDS, {INST: f"{TILES}{BY_MASK}}}"}),
    ("pto_isa/scatter_by_mask_compiles", FAILS, {INST: f"{TILES}}}"}),
    ("pto_isa/scatter_by_mask_compiles", UNTOLD, {INST: f"#include <no_such_header>\n{TILES}{BY_MASK}}}"}),
    ("pto_isa/scatter_by_mask_compiles_with_format", HOLDS, {INST: f"{PUSH}{TILES}{BY_MASK}}}"}),
    ("pto_isa/scatter_by_mask_compiles_with_format", FAILS, {INST: f"{PUSH}{TILES}}}"}),
    ("pto_isa/scatter_by_mask_compiles_with_format", UNTOLD, {"README.md": ""}),
    ("pto_isa/urma_context_compiles", HOLDS, {URMA: MEMBERS.format("b")}),
    ("pto_isa/urma_context_compiles", FAILS, {URMA: MEMBERS.format("a")}),
    ("pto_isa/urma_context_compiles", UNTOLD, {URMA: '#include "no_such.hpp"\n' + MEMBERS.format("a")}),
    ("ptoas/tile_helpers_defined", HOLDS, {PTO: f"{HELPER}auto a = verifyTileBufA(1);\n"}),
    ("ptoas/tile_helpers_defined", FAILS, {PTO: f"{HELPER}auto a = verifyTileBufB(1);\n"}),
    ("ptoas/tile_helpers_defined", UNTOLD, {PTO: "int a;\n"}),
    ("ptoas/valid_shape_operation", HOLDS, {OPS: 'def A : Op<"set_validshape">;'}),
    ("ptoas/valid_shape_operation", FAILS, {OPS: 'def A : Op<"set_shape">;'}),
    ("ptoas/valid_shape_operation", UNTOLD, {"README.md": ""}),
    ("ptoas/chip_stays_default", HOLDS, {VALIDATION: LOOKING % "SIM_SOC_VERSION"}),
    ("ptoas/chip_stays_default", FAILS, {VALIDATION: LOOKING % "SOC_VERSION"}),
    ("ptoas/chip_stays_default", UNTOLD, {VALIDATION: "echo\n"}),
    (
        "pypto/kinds_of_expressions",
        HOLDS,
        {KINDS.format("kind_traits"): TRAITS.format(", ObjectKind::IterArg"), KINDS.format("expr"): CLASSES},
    ),
    (
        "pypto/kinds_of_expressions",
        FAILS,
        {KINDS.format("kind_traits"): TRAITS.format(""), KINDS.format("expr"): CLASSES},
    ),
    ("pypto/kinds_of_expressions", UNTOLD, {KINDS.format("expr"): CLASSES}),
    (
        "pypto_lib/overlay_has_room",
        HOLDS,
        {SWA: ROOM.format("max(2, (TOPK + ATTN_K_TILE - 1) // ATTN_K_TILE)")},
    ),
    ("pypto_lib/overlay_has_room", FAILS, {SWA: ROOM.format(1)}),
    ("pypto_lib/overlay_has_room", UNTOLD, {SWA: ROOM.format("blocks()")}),
    ("pypto_lib/ties_to_even", HOLDS, {"models/a.py": ROUNDED.format("0x7FFF")}),
    ("pypto_lib/ties_to_even", FAILS, {"models/a.py": ROUNDED.format("0x8000")}),
    ("pypto_lib/ties_to_even", UNTOLD, {"README.md": ""}),
    ("simpler/loaded_symbols_declared", HOLDS, {RUNNER: LOADS, "src/a.h": "void set_log(int level);"}),
    ("simpler/loaded_symbols_declared", FAILS, {RUNNER: LOADS, "src/a.h": "void set_logs(int level);"}),
    ("simpler/loaded_symbols_declared", UNTOLD, {RUNNER: ""}),
]
CMAKE_TREES = [
    ("simpler/test_targets_differ", HOLDS, {"tests/ut/cpp/CMakeLists.txt": TARGETS.format("two")}),
    ("simpler/test_targets_differ", FAILS, {"tests/ut/cpp/CMakeLists.txt": TARGETS.format("one")}),
    ("simpler/test_targets_differ", UNTOLD, {"tests/ut/cpp/CMakeLists.txt": "no_such_command()"}),
    *(
        ("simpler/graph_cache_test_compiles", told, {
            "tests/ut/cpp/CMakeLists.txt": GRAPH_LIST.format(Path(GRAPH).name),
            "tests/ut/cpp/stub/gtest/gtest.h": "#define ZERO 0",
            GRAPH: GRAPH_CACHE.replace("{}", value),
        })
        for told, value in ((HOLDS, "ZERO"), (FAILS, "NOTHING"))
    ),
    ("simpler/graph_cache_test_compiles", UNTOLD, {"tests/ut/cpp/CMakeLists.txt": TARGETS.format("two")}),
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


@pytest.mark.parametrize(("check", "told", "files"), quick_first([*TREES, *OF_OTHERS], 8))
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
    assert told_of("simpler/arrows_forwards", tmp_path, files) == FAILS


def test_each_check_is_of_a_regression() -> None:
    checks = {
        path.relative_to(CHECKS).with_suffix("").as_posix()
        for path in CHECKS.glob("*/*.py")
        if path.name != "__init__.py"
    }
    assert {each.check for each in read_corpus().values()} - {None} == checks


def test_a_check_that_is_brought_takes_the_place_of_ours() -> None:
    facts: dict[str, str] = dict.fromkeys(
        ("name", "repository", "case", "good", "bad", "culprit", "known"), "x"
    )
    ours = Regression.read({**facts, "seeks": "fix", "check": "simpler/zip_without_strict"})
    assert ours.check_command(["./own.sh"]) == ["./own.sh"]
    assert ours.check_command([])[-2:] == [str(CHECKS), "simpler/zip_without_strict"]
    assert Regression.read({**facts, "seeks": "fix"}).check_command([]) == []
