"""The demo compiler and its cases end to end. Every case is traced, compiled and run for real."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.demo.minipto_support import CASES, environment, load, only_build, run_case, trees
from tests.support.quick import quick_first

SHARED_OPTIONS = (
    "--golden-data",
    "--save-data",
    "--runtime-dir",
    "--dump-args",
    "--enable-dep-gen",
    "--dump-passes",
)


def edit(path: Path, old: str, new: str) -> None:
    """A hand edit, an hour later than the binaries."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    later = path.stat().st_mtime + 3600
    os.utime(path, (later, later))


@pytest.mark.parametrize("case", quick_first(CASES))
def test_a_case_passes_and_leaves_a_complete_build(case: str, tmp_path: Path) -> None:
    finished = run_case(case, cwd=tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.search(r"^\[RUN\] PASS \(\d+\.\d\ds\)$", finished.stdout, re.MULTILINE)
    build = only_build(tmp_path)
    assert re.fullmatch(rf"_jit_{case}_\d{{8}}_\d{{6}}", build.name)
    assert (build / "orchestration" / f"{case}.so").is_file()
    assert (build / "debug" / "run.py").is_file()
    kernels = sorted(path.stem for path in (build / "kernels").glob("*/*.cpp"))
    assert len(kernels) >= 3
    assert sorted(path.stem for path in (build / "kernels").glob("*/*.so")) == kernels
    assert sorted(path.stem for path in (build / "ptoas").glob("*.pto")) == kernels


@pytest.mark.parametrize("case", CASES)
def test_a_case_passes_on_any_data_in_any_order(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    golden, module = load("golden"), load(case)
    build = None
    for order, seed in itertools.product(("", "serial", "reverse", "random:1"), range(4)):
        if order:
            monkeypatch.setenv("MINIRT_ORDER", order)
        torch.manual_seed(seed)
        result = golden.run_jit(
            getattr(module, case),
            module.specs(),
            golden_fn=module.expected,
            runtime_cfg={"platform": "a2a3sim"},
            runtime_dir=build,
            rtol=2e-3,
            atol=1e-3,
        )
        assert result.passed, result.error
        build = str(result.work_dir)


@pytest.mark.parametrize("case", quick_first(CASES))
def test_help_names_the_options_without_importing_torch(case: str) -> None:
    script = trees() / "minilib" / "cases" / f"{case}.py"
    program = (
        "import runpy, sys; sys.argv = [sys.argv[1], '--help']\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit: print('torch' in sys.modules)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program, str(script)],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    offered = {option for option in SHARED_OPTIONS if option in finished.stdout}
    assert offered == (set() if case == "rms_norm" else set(SHARED_OPTIONS))
    assert finished.stdout.splitlines()[-1] == "False"


def test_two_compilations_write_the_same_bytes(tmp_path: Path) -> None:
    minipto, runner = load("minipto"), load("golden.runner")
    module = load("attention_decode")
    builds: list[Path] = []
    for name in ("first", "second"):
        program = module.attention_decode.trace([runner._parameter(spec) for spec in module.specs()])
        builds.append(minipto.compile(program, work_dir=tmp_path / name, dump_passes=True))
    first, second = (
        {path.relative_to(build): path.read_bytes() for path in build.rglob("*") if path.is_file()}
        for build in builds
    )
    assert first == second


@pytest.mark.long
def test_passes_are_dumped_in_order(tmp_path: Path) -> None:
    assert run_case("softmax", "--dump-passes", cwd=tmp_path).returncode == 0
    dumps = sorted(path.name for path in (only_build(tmp_path) / "passes_dump").iterdir())
    assert dumps == [
        "00_frontend.py",
        "01_after_EliminateDeadCode.py",
        "02_after_LegalizeCasts.py",
        "03_after_FuseElementwise.py",
        "04_after_TileLoops.py",
        "05_after_PlaceScopes.py",
        "06_after_ReuseMemory.py",
        "07_after_AllocateMemoryAddr.py",
        "08_after_GenerateCode.txt",
    ]


@pytest.mark.long
def test_attention_records_at_least_twenty_tasks(tmp_path: Path) -> None:
    finished = run_case("attention_decode", "--dump-args", "2", "--enable-dep-gen", cwd=tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    outputs = only_build(tmp_path) / "dfx_outputs"
    tasks = json.loads((outputs / "deps.json").read_text())["tasks"]
    assert sum(max(task["kernel_ids"]) >= 0 for task in tasks) == 36
    records = json.loads((outputs / "args_dump" / "args_dump.json").read_text())["args"]
    assert {record["role"] for record in records} == {"input", "output", "inout"}


@pytest.mark.long
def test_saved_data_replays_bit_for_bit(tmp_path: Path) -> None:
    assert run_case("matmul_splitk", "--save-data", cwd=tmp_path).returncode == 0
    build = only_build(tmp_path)
    assert sorted(path.name for path in (build / "data" / "in").iterdir()) == ["a.pt", "b.pt", "bias.pt"]
    assert sorted(path.name for path in (build / "data" / "out").iterdir()) == ["y.pt"]

    finished = run_case(
        "matmul_splitk", "--golden-data", str(build / "data"), "--runtime-dir", str(build), cwd=tmp_path
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = finished.stdout.splitlines()
    assert lines[0] == f"[RUN] runtime_only: skipping JIT compile, using {build}"
    assert lines[1] == "[cpp->.so] no cpp edits since last build; reusing cached binaries"
    assert f"[RUN]   cache hit: {build / 'data' / 'in'}" in lines
    assert f"[RUN]   cache hit: {build / 'data' / 'out'}" in lines
    assert "[RUN]   'y' PASS  shape=(64, 64) dtype=torch.float32" in lines

    replayed = subprocess.run(
        [sys.executable, str(build / "debug" / "run.py"), "--validate"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "'y' PASS" in replayed.stdout


@pytest.mark.long
def test_missing_data_is_an_error_that_names_the_files(tmp_path: Path) -> None:
    (tmp_path / "frozen" / "in").mkdir(parents=True)
    finished = run_case("softmax", "--golden-data", str(tmp_path / "frozen"), cwd=tmp_path)
    assert finished.returncode == 1
    expected = [str(tmp_path / "frozen" / name) for name in ("in/x.pt", "out/y.pt")]
    assert finished.stdout.splitlines()[-1] == f"golden_data is missing files: {expected}"


@pytest.mark.long
def test_a_hand_edit_is_rebuilt_and_its_mismatch_described(tmp_path: Path) -> None:
    assert run_case("rms_norm", cwd=tmp_path).returncode == 0
    build = only_build(tmp_path)
    kernel = build / "kernels" / "aiv" / "inverse.cpp"
    edit(kernel, "scalar_2 / rms_value", "-scalar_2 / rms_value")

    program = (
        "import sys, rms_norm as case; from golden import run_jit\n"
        "result = run_jit(case.rms_norm, case.specs(), golden_fn=case.expected,\n"
        "    runtime_cfg={'platform': 'a2a3sim'}, runtime_dir=sys.argv[1])\n"
        "print(result.error)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program, str(build)],
        cwd=trees() / "minilib" / "cases",
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        "[cpp->.so] cpp edits or missing binaries detected (1 file(s)): kernels/aiv/inverse.cpp"
        in finished.stdout
    )
    assert re.search(
        r"^\[RUN\]   'y' FAIL  shape=\(64, 200\) dtype=torch.float32\n"
        r"Output\(s\) does not match golden: \['y'\]\n"
        r"  'y' FAIL  shape=\(64, 200\) dtype=torch.float32\n"
        r"    Mismatched elements: \d+/12800  rtol=1e-05 atol=1e-05\n"
        r"    first 20 mismatches:\n"
        r"    \[\d+\] actual=\S+, expected=\S+$",
        finished.stdout,
        re.MULTILINE,
    )


@pytest.mark.long
def test_a_kernel_that_does_not_compile_ends_the_case(tmp_path: Path) -> None:
    assert run_case("softmax", cwd=tmp_path).returncode == 0
    build = only_build(tmp_path)
    edit(build / "kernels" / "aiv" / "total.cpp", "accumulator = 0.0f", "accumulator = undeclared")
    finished = run_case("softmax", "--runtime-dir", str(build), cwd=tmp_path)
    assert finished.returncode == 1
    assert re.search(r"kernels/aiv/total\.cpp:\d+:\d+: error: ", finished.stderr)
    assert "RuntimeError" in finished.stderr


def test_a_run_with_nothing_to_compare_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    golden, module = load("golden"), load("softmax")
    result = golden.run_jit(module.softmax, module.specs(), runtime_cfg={"platform": "a2a3sim"})
    assert result.passed
    assert "s, validation skipped: no golden_fn or golden_data)" in capsys.readouterr().out


def test_compile_only_needs_no_platform_and_excludes_a_runtime_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    golden, module = load("golden"), load("softmax")
    compiled = golden.run_jit(module.softmax, module.specs(), compile_only=True)
    assert compiled.passed
    refused = golden.run_jit(
        module.softmax, module.specs(), compile_only=True, runtime_dir=str(compiled.work_dir)
    )
    assert refused.error == "runtime_dir is incompatible with compile_only"


def test_a_program_that_cannot_be_compiled_leaves_its_reason(tmp_path: Path) -> None:
    minipto = load("minipto")
    shape, int8 = (4, 4), minipto.DType.INT8
    program = minipto.jit(lambda x, y: minipto.add(x, x, out=y)).trace(
        [
            minipto.TensorParameter(name="x", shape=shape, dtype=int8, role=minipto.Role.INPUT),
            minipto.TensorParameter(name="y", shape=shape, dtype=int8, role=minipto.Role.OUTPUT),
        ]
    )
    with pytest.raises(minipto.CompileError, match="add to y: not offered on int8"):
        minipto.compile(program, work_dir=tmp_path)
    assert "not offered on int8" in (tmp_path / "report" / "codegen_errors.txt").read_text()


@pytest.mark.long
@pytest.mark.parametrize("tree", ["minipto", "minilib"])
def test_the_own_tests_of_a_tree_pass(tree: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=trees() / tree,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout
