"""The shim in real processes: nothing changes for the case, and what the harness says is written down."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from precision_bisect.runner.case import shim
from precision_bisect.runner.verdict.classify import HarnessCall, HarnessOutcome, read_harness_outcome
from tests.runner.case.fake_golden import RUNNERS, write_golden
from tests.support.quick import quick_first

SHIM = Path(shim.__file__)
NOTHING_THERE = "at this revision"


def _interpreters() -> list[str]:
    """This interpreter, and others on the machine (as pyenv lays them out) that the shim must run under."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    others = {
        int(path.parts[-3].split(".")[1]): str(path) for path in sorted(versions.glob("3.*/bin/python3"))
    }
    return [sys.executable, *(others[minor] for minor in sorted(others) if 9 <= minor != sys.version_info[1])]


@dataclass(frozen=True, kw_only=True)
class Ran:
    returncode: int
    stdout: str
    stderr: str
    outcome: HarnessOutcome | None

    @property
    def calls(self) -> tuple[HarnessCall, ...]:
        assert self.outcome is not None
        return self.outcome.calls


def _run(
    folder: Path, *command: str, python: str = sys.executable, outcome: HarnessOutcome | None = None
) -> Ran:
    environment = {**os.environ, "PYTHONPATH": str(folder / "lib"), "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONSAFEPATH", None)
    process = subprocess.run(
        [python, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(returncode=process.returncode, stdout=process.stdout, stderr=process.stderr, outcome=outcome)


def run_directly(folder: Path, case: str, *arguments: str, python: str = sys.executable) -> Ran:
    return _run(folder, case, *arguments, python=python)


def run_shimmed(
    folder: Path, case: str, *arguments: str, options: tuple[str, ...] = (), python: str = sys.executable
) -> Ran:
    path = folder / "outcome.json"
    path.unlink(missing_ok=True)
    ran = _run(folder, str(SHIM), "--outcome", str(path), *options, "--", case, *arguments, python=python)
    return Ran(
        returncode=ran.returncode, stdout=ran.stdout, stderr=ran.stderr, outcome=read_harness_outcome(path)
    )


def write_case(folder: Path, source: str, era: str | None = "newest") -> None:
    if era is not None:
        write_golden(folder / "lib", era)
    (folder / "case.py").write_text(source)


def received(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "received.json").read_text())


CALL = "from golden import {function}\nresult = {function}(None, [], golden_fn=print{more})\n"


# --- What the case sees ------------------------------------------------------------------------------------

SURROUNDINGS = """
import sys, os, pickle, inspect
class Thing: pass
print(__name__, __file__, __spec__, __package__, __doc__, type(__loader__).__name__, sorted(globals()))
print(sys.argv, sys.path, sys.modules["__main__"] is sys.modules[Thing.__module__], os.getcwd())
print(pickle.loads(pickle.dumps(Thing())).__class__ is Thing, inspect.getsource(Thing))
import neighbour
print(neighbour.__file__)
print("to stderr", file=sys.stderr)
"""


@pytest.mark.parametrize("python", _interpreters())
@pytest.mark.parametrize(
    "case", quick_first(["cases/case.py", "./cases/case.py", "link.py", "{folder}/cases/case.py"])
)
def test_a_script_cannot_tell_the_shim_from_the_interpreter(tmp_path: Path, python: str, case: str) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases/case.py").write_text(SURROUNDINGS)
    (tmp_path / "cases/neighbour.py").write_text("")
    (tmp_path / "link.py").symlink_to("cases/case.py")
    case = case.format(folder=tmp_path)
    arguments = ["-p", "a2a3sim", "--", "x y"]
    direct = run_directly(tmp_path, case, *arguments, python=python)
    shimmed = run_shimmed(tmp_path, case, *arguments, python=python)
    assert (shimmed.returncode, shimmed.stdout, shimmed.stderr) == (0, direct.stdout, direct.stderr)
    assert shimmed.calls == ()


ENDINGS = {
    "falls off the end": "print('done')",
    "exit code": "import sys; print('x'); sys.exit(3)",
    "exit message": "import sys; sys.exit('no board')",
    "os._exit": "import os; os._exit(7)",
    "exception": "def f():\n    raise ValueError('bad')\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
    "group of causes": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise OSError(2, 'missing')",
    "syntax error": "x = = 1",
    "missing module": "import no_such_module",
    "module that fails to import": "import breaks",
    "harness that fails to import": "import golden",
    "own excepthook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0])\nraise ValueError",
    "atexit": "import atexit; atexit.register(print, 'bye'); raise RuntimeError('x')",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "interrupt": "raise KeyboardInterrupt",
    "thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='t')\nt.start(); t.join()",
    "spawned child": (
        "import multiprocessing\n"
        "def f(x):\n    return x + 1\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n        print(pool.map(f, [1]))"
    ),
    "encoding": "# -*- coding: latin-1 -*-\nprint(len('é'))",
}


@pytest.mark.parametrize("python", quick_first(_interpreters()))
def test_output_and_exit_code_are_those_of_a_direct_run(tmp_path: Path, python: str) -> None:
    (tmp_path / "lib/golden").mkdir(parents=True)
    (tmp_path / "lib/golden/__init__.py").write_text("from .runner import run\n")
    (tmp_path / "lib/golden/runner.py").write_text("raise RuntimeError('harness is broken')\n")
    (tmp_path / "lib/breaks.py").write_text("1 / 0\n")
    for name, source in ENDINGS.items():
        case = f"{re.sub(r'[^a-z]', '_', name)}.py"
        (tmp_path / case).write_text(source + "\n")
        direct = run_directly(tmp_path, case, python=python)
        shimmed = run_shimmed(tmp_path, case, python=python)
        assert shimmed.returncode == direct.returncode, name
        assert shimmed.stdout == direct.stdout, name
        assert shimmed.stderr == direct.stderr, name
    assert run_directly(tmp_path, "killed.py").returncode == -signal.SIGSEGV


def test_a_missing_case_is_reported_as_the_interpreter_does(tmp_path: Path) -> None:
    direct = run_directly(tmp_path, "gone.py")
    shimmed = run_shimmed(tmp_path, "gone.py")
    assert (shimmed.returncode, shimmed.stderr) == (2, direct.stderr)


def test_the_tracebacks_of_a_failing_harness_show_no_frame_of_the_shim(tmp_path: Path) -> None:
    write_case(tmp_path, "import golden\ngolden.PLAN.append({'raises': 'boom'})\ngolden.run_jit(None, [])\n")
    direct = run_directly(tmp_path, "case.py")
    shimmed = run_shimmed(tmp_path, "case.py")
    assert "boom" in direct.stderr
    assert (shimmed.returncode, shimmed.stderr) == (direct.returncode, direct.stderr)


def test_the_shim_s_neighbours_do_not_shadow_modules(tmp_path: Path) -> None:
    write_case(tmp_path, "import stack", era=None)
    assert "No module named 'stack'" in run_shimmed(tmp_path, "case.py").stderr


def test_the_source_is_python_3_9() -> None:
    ast.parse(SHIM.read_text(), feature_version=(3, 9))


# --- What is written down ----------------------------------------------------------------------------------


@pytest.mark.parametrize("python", _interpreters())
def test_each_call_is_recorded(tmp_path: Path, python: str) -> None:
    write_case(
        tmp_path,
        "import golden\n"
        "golden.PLAN += [dict(passed=True, execution_time=1.5), dict(passed=False, error='Output(s)\\nno'),"
        " dict(raises='run failed with code -5')]\n"
        "golden.run(None, [], golden_data='d')\n"
        "golden.run_jit(None, [])\n"
        "golden.run(None, [], print, compile_only=True)\n",
    )
    ran = run_shimmed(tmp_path, "case.py", python=python)
    first, second, third = ran.calls
    assert (first.function, first.finished, first.passed, first.validated) == ("run", True, True, True)
    assert (first.execution_time, first.work_dir) == (1.5, str(tmp_path / "build_output/_jit_case"))
    assert (second.function, second.passed, second.validated) == ("run_jit", False, False)
    assert second.error == "Output(s)\nno"
    assert (third.finished, third.passed, third.validated) == (True, None, False)
    assert third.exception is not None
    assert (third.exception.type, third.exception.message) == ("RuntimeError", "run failed with code -5")
    assert ran.outcome is not None
    assert ran.outcome.interpreter.implementation == "CPython"
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize(
    "statement",
    ["from golden import run", "from golden.runner import run", "import golden.runner as R; run = R.run"],
)
def test_it_does_not_matter_how_the_case_imports_the_harness(tmp_path: Path, statement: str) -> None:
    write_case(tmp_path, f"def main():\n    {statement}\n    run(None, [])\nmain()\n")
    assert [call.function for call in run_shimmed(tmp_path, "case.py").calls] == ["run"]


def test_a_harness_that_is_one_file_is_wrapped_too(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/golden.py").write_text(RUNNERS["newest"])
    write_case(tmp_path, CALL.format(function="run", more=""), era=None)
    assert [call.passed for call in run_shimmed(tmp_path, "case.py").calls] == [True]


def test_only_the_outer_of_two_nested_calls_is_recorded(tmp_path: Path) -> None:
    write_case(tmp_path, CALL.format(function="run_jit", more=""), era="config")
    assert [call.function for call in run_shimmed(tmp_path, "case.py").calls] == ["run_jit"]


def test_a_call_in_which_the_process_died_is_left_unfinished(tmp_path: Path) -> None:
    write_case(
        tmp_path,
        "import golden, os\ngolden.run(None, [])\n"
        "class Plan(list):\n    def pop(self, i):\n        os._exit(9)\n"
        "golden.runner.PLAN = Plan([1])\ngolden.run(None, [])\n",
    )
    ran = run_shimmed(tmp_path, "case.py")
    assert ran.returncode == 9
    assert [call.finished for call in ran.calls] == [True, False]


def test_a_forked_child_leaves_the_outcome_alone(tmp_path: Path) -> None:
    write_case(
        tmp_path,
        "import golden, os\nif os.fork() == 0:\n    golden.run(None, [])\n    os._exit(0)\nos.wait()\n"
        "golden.run_jit(None, [])\n",
    )
    assert [call.function for call in run_shimmed(tmp_path, "case.py").calls] == ["run_jit"]


def test_a_result_of_strange_values_is_still_written(tmp_path: Path) -> None:
    write_case(
        tmp_path,
        "import golden\n"
        "class Odd:\n    def __str__(self):\n        raise ValueError\n"
        "golden.PLAN += [dict(passed=False, error='x' * 10**6 + '\\ud800', execution_time=float('nan')),"
        " dict(passed=False, error='\\ud800'), dict(passed=False, error=Odd(), work_dir=None)]\n"
        "for _ in range(3):\n    golden.run(None, [])\n",
    )
    long, surrogate, odd = run_shimmed(tmp_path, "case.py").calls
    assert long.error == "x" * shim.MAX_TEXT
    assert long.execution_time is None
    assert surrogate.error == "?"
    assert odd.error == "<Odd that cannot be printed: ValueError>"


def test_a_full_disk_during_the_run_changes_nothing_for_the_case(tmp_path: Path) -> None:
    write_case(
        tmp_path,
        "import golden, resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "golden.runner.answer = lambda **k: golden.RunResult()\n"
        "print(golden.run(None, []).passed)\n",
    )
    ran = run_shimmed(tmp_path, "case.py")
    assert (ran.returncode, ran.stdout, ran.stderr, ran.calls) == (0, "True\n", "", ())
    assert not list(tmp_path.glob("*.partial"))


def test_an_outcome_that_cannot_be_written_stops_before_the_case(tmp_path: Path) -> None:
    write_case(tmp_path, "print('ran')", era=None)
    ran = _run(tmp_path, str(SHIM), "--outcome", "no/such/folder.json", "--", "case.py")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--outcome no/such/folder.json: No such file or directory" in ran.stderr


# --- What is put into the calls ----------------------------------------------------------------------------

ALL = ("--golden-data", "/frozen", "--save-data", "--dump-args", "2", "--dep-gen", "--dump-passes")


@pytest.mark.parametrize("function", ["run", "run_jit"])
def test_settings_reach_the_newest_harness(tmp_path: Path, function: str) -> None:
    write_case(tmp_path, CALL.format(function=function, more=", runtime_cfg={'platform': 'a2a3sim'}"))
    (call,) = run_shimmed(tmp_path, "case.py", options=(*ALL, "--runtime-dir", "/build")).calls
    (got,) = received(tmp_path)
    assert (got["golden_data"], got["save_data"], got["runtime_dir"]) == ("/frozen", True, "/build")
    assert got["runtime_cfg"] == {"platform": "a2a3sim", "enable_dump_args": 2, "enable_dep_gen": True}
    assert got["compile_cfg"] == {"dump_passes": True}
    assert call.applied == {
        "golden_data": "/frozen",
        "save_data": True,
        "dump_args": 2,
        "dep_gen": True,
        "runtime_dir": "/build",
        "dump_passes": True,
    }
    assert call.replaced == {}
    assert call.not_applied == {}


def test_without_options_the_arguments_are_the_case_s_own(tmp_path: Path) -> None:
    write_case(tmp_path, CALL.format(function="run", more=", runtime_cfg={'platform': 'a5'}"))
    run_directly(tmp_path, "case.py")
    direct = received(tmp_path)
    (call,) = run_shimmed(tmp_path, "case.py").calls
    assert received(tmp_path) == direct
    assert call.applied == {}


def test_the_older_spelling_is_used_where_the_harness_has_it(tmp_path: Path) -> None:
    write_case(tmp_path, CALL.format(function="run", more=""), era="save")
    (call,) = run_shimmed(tmp_path, "case.py", options=("--dump-args", "1")).calls
    assert received(tmp_path)[0]["runtime_cfg"] == {"enable_dump_tensor": 1}
    assert call.applied == {"dump_args": 1}


def test_the_case_s_own_spelling_comes_first(tmp_path: Path) -> None:
    more = ", runtime_cfg={'enable_dump_tensor': 0}"
    write_case(tmp_path, CALL.format(function="run", more=more))
    (call,) = run_shimmed(tmp_path, "case.py", options=("--dump-args", "1")).calls
    assert received(tmp_path)[0]["runtime_cfg"] == {"enable_dump_tensor": 1}
    assert call.replaced == {"dump_args": "0"}


def test_a_parameter_that_the_revision_lacks_is_reported(tmp_path: Path) -> None:
    write_case(tmp_path, CALL.format(function="run", more=""), era="flat")
    (call,) = run_shimmed(tmp_path, "case.py", options=("--save-data", "--golden-data", "/frozen")).calls
    assert received(tmp_path)[0]["golden_data"] == "/frozen"
    assert call.applied == {"golden_data": "/frozen"}
    assert call.not_applied == {"save_data": f"golden.run has no parameter 'save_data' {NOTHING_THERE}"}


def test_settings_go_into_the_config_object_of_older_harnesses(tmp_path: Path) -> None:
    (tmp_path / "lib/pypto").mkdir(parents=True)
    (tmp_path / "lib/pypto/__init__.py").write_text("")
    (tmp_path / "lib/pypto/runtime.py").write_text(
        "def execute_compiled(work_dir, args, *, platform, enable_dump_tensor=0): pass\n"
    )
    write_case(
        tmp_path,
        "import golden\nfrom golden.runner import RunConfig\n"
        "mine = RunConfig(runtime={'platform': 'a2a3sim'})\n"
        "golden.run_jit(None, [], mine, print)\n"
        "golden.run(None, [])\n"
        "print(mine)\n",
        era="config",
    )
    ran = run_shimmed(tmp_path, "case.py", options=ALL)
    with_config, without = ran.calls
    first, second = received(tmp_path)
    assert first["config"]["runtime"] == {"platform": "a2a3sim", "enable_dump_tensor": 2}
    assert first["config"]["compile"] == {"dump_passes": True}
    assert second["config"]["runtime"] == {"enable_dump_tensor": 2}
    assert "enable_dump_tensor" not in ran.stdout, "the case's own object must stay as it is"
    assert set(with_config.applied) == {"golden_data", "dump_args", "dump_passes"}
    assert set(without.not_applied) == {"save_data", "dep_gen"}


def test_the_runtime_s_spelling_comes_before_the_harness_s(tmp_path: Path) -> None:
    write_case(
        tmp_path,
        "import golden.runner\n"
        "def execute_compiled(work_dir, args, *, platform, enable_dump_tensor=0): pass\n"
        "golden.runner.execute_compiled = execute_compiled\n"
        "golden.run(None, [])\n",
    )
    run_shimmed(tmp_path, "case.py", options=("--dump-args", "1"))
    assert received(tmp_path)[0]["runtime_cfg"] == {"enable_dump_tensor": 1}


def test_the_first_harness_takes_next_to_nothing_and_says_so(tmp_path: Path) -> None:
    write_case(tmp_path, CALL.format(function="run", more=""), era="first")
    (call,) = run_shimmed(tmp_path, "case.py", options=ALL).calls
    assert call.applied == {"dump_passes": True}
    assert set(call.not_applied) == {"golden_data", "save_data", "dump_args", "dep_gen"}
    assert all(reason.endswith(NOTHING_THERE) for reason in call.not_applied.values())


def test_frozen_data_win_over_the_case_s_own_and_are_reported(tmp_path: Path) -> None:
    more = ", golden_data='/rolled', save_data=False"
    write_case(tmp_path, CALL.format(function="run", more=more))
    (call,) = run_shimmed(tmp_path, "case.py", options=("--golden-data", "/frozen", "--save-data")).calls
    assert received(tmp_path)[0]["golden_data"] == "/frozen"
    assert call.replaced == {"golden_data": "/rolled", "save_data": "False"}


def test_the_same_value_from_the_case_replaces_nothing(tmp_path: Path) -> None:
    more = ", golden_data=__import__('pathlib').PurePosixPath('/frozen')"
    write_case(tmp_path, CALL.format(function="run", more=more))
    (call,) = run_shimmed(tmp_path, "case.py", options=("--golden-data", "/frozen")).calls
    assert call.replaced == {}


def test_positional_arguments_are_understood(tmp_path: Path) -> None:
    source = "from golden import run\nrun(None, [], print, '/rolled', {'a': 1}, {'platform': 'a5'}, 0.5)\n"
    write_case(tmp_path, source)
    (call,) = run_shimmed(tmp_path, "case.py", options=ALL).calls
    (got,) = received(tmp_path)
    assert (got["golden_data"], got["rtol"]) == ("/frozen", 0.5)
    assert got["compile_cfg"] == {"a": 1, "dump_passes": True}
    assert call.replaced == {"golden_data": "/rolled"}


def test_a_dataclass_for_the_runtime_configuration_is_copied(tmp_path: Path) -> None:
    write_case(
        tmp_path,
        "import dataclasses, golden\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Runtime:\n    platform: str\n    enable_dump_args: int = 0\n"
        "golden.run(None, [], runtime_cfg=Runtime('a2a3sim'))\n",
    )
    (call,) = run_shimmed(tmp_path, "case.py", options=("--dump-args", "3", "--dep-gen")).calls
    assert received(tmp_path)[0]["runtime_cfg"] == {"platform": "a2a3sim", "enable_dump_args": 3}
    assert call.applied == {"dump_args": 3}
    assert "enable_dep_gen" in call.not_applied["dep_gen"]


def test_arguments_that_do_not_fit_raise_the_function_s_own_error(tmp_path: Path) -> None:
    write_case(tmp_path, "from golden import run\nrun(None, [], no_such_parameter=1)\n")
    direct = run_directly(tmp_path, "case.py")
    shimmed = run_shimmed(tmp_path, "case.py", options=ALL)
    assert "no_such_parameter" in direct.stderr
    assert (shimmed.returncode, shimmed.stderr, shimmed.calls) == (1, direct.stderr, ())


def test_frozen_data_make_a_call_validated(tmp_path: Path) -> None:
    write_case(tmp_path, "from golden import run\nrun(None, [])\n")
    assert [call.validated for call in run_shimmed(tmp_path, "case.py").calls] == [False]
    options = ("--golden-data", "/frozen")
    assert [call.validated for call in run_shimmed(tmp_path, "case.py", options=options).calls] == [True]


def test_a_command_without_a_case_is_a_usage_error(tmp_path: Path) -> None:
    ran = _run(tmp_path, str(SHIM), "--outcome", "o.json", "case.py")
    assert ran.returncode == 2
    assert "case.py" in ran.stderr
