"""minirt end to end: results, failures, stale binaries. Every build directory is compiled and run for real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.demo.minirt_support import (
    ACCUMULATE,
    SCALE,
    built_tree,
    elementwise,
    execute,
    kernel,
    minirt,
    orchestration,
    refresh,
    run_process,
    write_build,
)

CHAIN = """
    PTO2_SCOPE() {
        CoreTaskArgs params_t0;
        params_t0.add_input(x0);
        params_t0.add_output(x1);
        rt_submit_aiv_task(0, params_t0);
    }
"""


def scale_build(folder: Path) -> Path:
    return write_build(folder, orchestration(CHAIN, 2), {"scale": elementwise(SCALE)})


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def test_external_output_is_written_in_place(tmp_path: Path) -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((3, 4), np.float32)
    execute(refresh(scale_build(tmp_path / "b")), x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_runtime_allocates_outputs_and_scopes_nest(tmp_path: Path) -> None:
    body = """
        PTO2_SCOPE() {
            uint32_t shapes[1] = {8};
            TensorCreateInfo ci(shapes, 1, DataType::FLOAT32);
            CoreTaskArgs first;
            first.add_input(x0);
            first.add_output(ci);
            TaskOutputTensors outs = rt_submit_aiv_task(0, first);
            for (int64_t n = 0; n < 8; n += 4) { PTO2_SCOPE() {
                uint32_t part[1] = {4};
                uint32_t offset[1] = {static_cast<uint32_t>(n)};
                Tensor from = outs.get_ref(0).view(part, offset);
                Tensor to = x1.view(part, offset);
                Arg second;
                second.add_input(from);
                second.add_output(to);
                rt_submit_aiv_task(0, second);
            } }
        }
    """
    build = write_build(tmp_path / "b", orchestration(body, 2), {"scale": elementwise(SCALE)})
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    execute(refresh(build), x, y)
    np.testing.assert_array_equal(y, 4 * x)


def test_mixed_kernels_blocks_and_scalars_reach_the_kernels(tmp_path: Path) -> None:
    body = """
        CoreTaskArgs params;
        params.add_inout(x0);
        params.add_scalar(int64_t{-3}, 0.5f, to_u64(2.0f));
        params.launch_spec.set_block_num(4);
        rt_submit_task(MixedKernels{0, 1, 0}, params);
    """
    by_block = kernel("store(0, args.block_idx, load(0, args.block_idx) + args.block_num);")
    by_scalar = kernel(
        "store(0, args.block_idx, load(0, args.block_idx) * scalar<int64_t>(args, 0) * scalar<float>(args, 1)"
        " * scalar<float>(args, 2));"
    )
    build = write_build(tmp_path / "b", orchestration(body, 1), {"block": by_block, "scalars": by_scalar})
    x = np.arange(5, dtype=np.float32)
    execute(refresh(build), x)
    # Kernel 0, 1, 0: ((x + 4) * -3 + 4) for the four blocks; the fifth element belongs to none.
    np.testing.assert_array_equal(x, [-8.0, -11.0, -14.0, -17.0, 4.0])


def test_entry_scalars_count_as_arguments(tmp_path: Path) -> None:
    source = orchestration("", 1).replace(".expected_arg_count = 1", ".expected_arg_count = 2")
    source = source.replace(
        "ref();",
        """ref();
        CoreTaskArgs params;
        params.add_inout(x0);
        params.add_scalar(orch_args.scalar(0));
        rt_submit_aiv_task(0, params);""",
    )
    build = write_build(
        tmp_path / "b", source, {"add": elementwise("store(0, i, load(0, i) + scalar<int64_t>(args, 0));")}
    )
    refresh(build)
    x = ones(3)
    executor = minirt().executor
    arguments = [
        executor.TensorArgument("x", x.ctypes.data, "float32", x.shape),
        executor.ScalarArgument("n", 41),
    ]
    executor.execute(build, arguments, platform="a5sim", device_id=0)
    np.testing.assert_array_equal(x, [42.0] * 3)


def edit(source: Path, old: str, new: str) -> None:
    """Edit a built source; file systems with coarse clocks must see it as newer than its binary."""
    source.write_text(source.read_text().replace(old, new))
    newer = source.with_suffix(".so").stat().st_mtime_ns + 1
    os.utime(source, ns=(newer, newer))


def break_symbol(build: Path) -> None:
    path = build / "orchestration" / "main.cpp"
    path.write_text(
        'extern "C" void nobody_has_this();\n' + path.read_text() + "void f() { nobody_has_this(); }\n"
    )


def expect_three_arguments(build: Path) -> None:
    path = build / "orchestration" / "main.cpp"
    path.write_text(path.read_text().replace(".expected_arg_count = 2", ".expected_arg_count = 3"))


def submit_unknown_kernel(build: Path) -> None:
    path = build / "orchestration" / "main.cpp"
    path.write_text(path.read_text().replace("rt_submit_aiv_task(0", "rt_submit_aiv_task(7"))


def dump_foreign_tensor(build: Path) -> None:
    path = build / "orchestration" / "main.cpp"
    mark = "uint32_t n[1] = {1}; TensorCreateInfo other(n, 1); params_t0.dump(other); rt_submit"
    path.write_text(path.read_text().replace("rt_submit", mark, 1))


@pytest.mark.parametrize(
    ("sabotage", "reason"),
    [
        (break_symbol, "undefined symbol: nobody_has_this"),
        (expect_three_arguments, "expected_arg_count is 3, but 2 arguments were given"),
        (submit_unknown_kernel, "no kernel has func_id 7"),
        (dump_foreign_tensor, "dump: not an argument of this task"),
    ],
)
def test_orchestration_failures_are_code_minus_5(
    sabotage: Callable[[Path], None], reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    build = scale_build(tmp_path / "b")
    sabotage(build)
    refresh(build)
    with pytest.raises(RuntimeError, match=r"^run failed with code -5$"):
        execute(build, ones(2), ones(2))
    assert reason in capfd.readouterr().err


def test_kernel_compile_error_prints_the_compilers_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    build = scale_build(tmp_path / "b")
    refresh(build)
    source = build / "kernels" / "aiv" / "scale.cpp"
    edit(source, "2.0f", "no_such_name")
    with pytest.raises(RuntimeError, match=r"kernels/aiv/scale\.cpp"):
        refresh(build)
    lines = capfd.readouterr().err.splitlines()
    assert any(line.startswith(f"{source.resolve()}:") and " error: " in line for line in lines)
    assert not source.with_suffix(".so").exists()


def test_one_stale_file_rebuilds_all_and_a_replay_sees_the_edit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    build = scale_build(tmp_path / "b")
    refresh(build)
    assert capfd.readouterr().out.splitlines() == [
        "[cpp->.so] cpp edits or missing binaries detected (2 file(s)): "
        "orchestration/main.cpp, kernels/aiv/scale.cpp; rebuilding"
    ]
    x, y = ones(2), ones(2)
    execute(build, x, y)
    np.testing.assert_array_equal(y, [2.0, 2.0])

    capfd.readouterr()
    refresh(build)
    assert capfd.readouterr().out == "[cpp->.so] no cpp edits since last build; reusing cached binaries\n"

    edit(build / "kernels" / "aiv" / "scale.cpp", "2.0f", "3.0f")
    refresh(build)
    assert capfd.readouterr().out.splitlines() == [
        "[cpp->.so] cpp edits or missing binaries detected (1 file(s)): kernels/aiv/scale.cpp; rebuilding",
        "[cpp->.so] invalidated 2 cached binary file(s); cpp will rebuild",
    ]
    execute(build, x, y)
    np.testing.assert_array_equal(y, [3.0, 3.0])


def test_a_crash_in_a_kernel_kills_the_process_by_signal(tmp_path: Path) -> None:
    build = write_build(
        tmp_path / "b",
        orchestration(CHAIN, 2),
        {"scale": kernel("*static_cast<volatile int*>(nullptr) = 1;")},
    )
    finished = subprocess.run(run_process(build, shapes=[(2,), (2,)]), capture_output=True, text=True)
    assert finished.returncode < 0
    assert "Traceback" not in finished.stderr


def test_a_dependency_on_no_task_is_declared_a_stall(tmp_path: Path) -> None:
    body = """
        CoreTaskArgs first;
        first.add_input(x0);
        first.add_output(x1);
        rt_submit_aiv_task(0, first);
        CoreTaskArgs second;
        second.add_inout(x0);
        PTO2TaskId never[1] = {PTO2TaskId{(9ull << 32) | 7}};
        second.set_dependencies(never, 1);
        rt_submit_aiv_task(0, second);
    """
    build = write_build(tmp_path / "b", orchestration(body, 2), {"scale": elementwise(SCALE)})
    finished = subprocess.run(
        run_process(build, shapes=[(2,), (2,)], options="dump_args=2, dep_gen=True"),
        capture_output=True,
        text=True,
        env={**os.environ, "SIMPLER_SCHEDULER_TIMEOUT_MS": "50"},
    )
    assert finished.returncode == 1
    for expected in (
        "[STALL thread=0 idle_iterations=",
        "SUMMARY completed=1/2",
        "[SHUTDOWN_SNAPSHOT trigger_thread=0 reason=scheduler_timeout idle_iterations=",
        "Thread 0: Scheduler failed with rc=-100",
        "PTO2 runtime failed with rc=-100",
        "RuntimeError: run failed with code -100",
    ):
        assert expected in finished.stderr
    assert "did not acknowledge exit" not in finished.stderr
    assert (build / "dfx_outputs" / "deps.json").exists()
    assert '"total_args": 2,' in (build / "dfx_outputs" / "args_dump" / "args_dump.json").read_text()


def test_a_kernel_that_never_returns_keeps_the_process_alive(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    source = "#include <unistd.h>\n" + kernel(f'while (access("{gate}", F_OK) != 0) {{ }}')
    build = write_build(tmp_path / "b", orchestration(CHAIN, 2), {"scale": source})
    with subprocess.Popen(
        run_process(build, shapes=[(2,), (2,)]),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "SIMPLER_SCHEDULER_TIMEOUT_MS": "50"},
    ) as process:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("RuntimeError: run failed with code -100"):
                break
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        gate.touch()
        assert process.wait() == 1
    assert any("Emergency shutdown: 1 cores did not acknowledge exit" in line for line in lines)


@pytest.mark.parametrize("platform", ["a2a3", "a5"])
def test_device_platforms_need_the_sdk(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    with pytest.raises(OSError, match=r"^Environment variable 'ASCEND_HOME_PATH' is not set\.$"):
        minirt().executor.execute(tmp_path, [], platform=platform, device_id=0)


def test_kernel_config_is_read_and_never_executed(tmp_path: Path) -> None:
    build = scale_build(tmp_path / "b")
    config = build / "kernel_config.py"
    text = config.read_text()
    witness = tmp_path / "executed"
    config.write_text(f"open({str(witness)!r}, 'w')\n" + text)
    refresh(build)
    assert not witness.exists()

    config.write_text(text.replace('"aicpu_orchestration_entry"', "print('executed')"))
    with pytest.raises(ValueError, match="expected plain data, found print"):
        refresh(build)
    config.write_text(text.replace('"kernels" / "aiv"', '".." / "aiv"'))
    with pytest.raises(ValueError, match="expected a source inside the build directory"):
        refresh(build)


def test_a_wrong_order_variable_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    build = refresh(scale_build(tmp_path / "b"))
    monkeypatch.setenv("MINIRT_ORDER", "random:")
    with pytest.raises(RuntimeError, match="code -1"):
        execute(build, ones(2), ones(2))
    assert "MINIRT_ORDER: expected serial, reverse or random:SEED, found 'random:'" in capfd.readouterr().err


def test_accumulating_tasks_share_a_buffer(tmp_path: Path) -> None:
    body = """
        for (int k = 0; k < 5; ++k) {
            CoreTaskArgs params;
            params.add_input(x0);
            params.add_inout(x1);
            rt_submit_aic_task(0, params);
        }
    """
    build = write_build(tmp_path / "b", orchestration(body, 2), {"accumulate": elementwise(ACCUMULATE)})
    x, y = np.full(4, 3, np.float32), ones(4)
    execute(refresh(build), x, y)
    np.testing.assert_array_equal(y, [16.0] * 4)


def test_the_trees_own_tests_pass() -> None:
    command = [sys.executable, "-m", "unittest", "discover", "tests"]
    finished = subprocess.run(command, cwd=built_tree(), capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert "Ran 1 test" in finished.stderr
