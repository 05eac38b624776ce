"""Where a command's Python takes modules from: each commit's worktree, wherever the user's takes the checkout's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.bisect.ask.predicate import predicate_stack, redirect_pythonpath
from precision_bisect.runner.workspace.home import Home
from tests.conftest import TestRepository
from tests.support.program import run_program

PYTHON_FOLDER = f"python{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def library(tmp_path: Path) -> TestRepository:
    """Nine commits of a package below `src`; from the sixth on it returns another number."""
    repository = TestRepository(tmp_path / "library")
    repository.commit("check", {"check.py": "from mylib import number\nassert number() == 1, number()\n"})
    for place in range(9):
        text = f"def number():\n    return {1 if place < 5 else 2}  # {place}\n"
        repository.commit(f"change {place}", {"src/mylib/__init__.py": text})
    (repository.path / "build").mkdir()
    return repository


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """The folder of programs of a virtual environment without packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    return tmp_path / "venv" / "bin"


def install_editable(interpreter: Path, file: str, text: str) -> None:
    (interpreter.parent / "lib" / PYTHON_FOLDER / "site-packages" / file).write_text(text)


def check_reproduction(library: TestRepository, environment: dict[str, str]) -> None:
    """The script of the report fails as the culprit does."""
    script = next(library.path.glob("bisect-precision-reports/*/reproduce-bad.sh"))
    again = subprocess.run(["sh", script], env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "AssertionError: 2" in again.stderr


def import_path(library: TestRepository, program: str = "python3", **variables: str) -> str | None:
    stack = redirect_pythonpath(
        predicate_stack(library.path, name="library"),
        "library",
        [program, "check.py"],
        {"PATH": "/nowhere", **variables},
    )
    return stack.environment.variables.get("PYTHONPATH")


def test_tracked_folders_on_pythonpath_become_those_of_the_worktree(library: TestRepository) -> None:
    root = str(library.path)
    assert import_path(library) is None
    assert import_path(library, PYTHONPATH="/elsewhere:lib") is None
    assert import_path(library, PYTHONPATH=f"{root}/build") is None
    assert import_path(library, PYTHONPATH=root) == "{library}"
    assert import_path(library, PYTHONPATH=f"/a{{b}}:{root}/src:{root}/build") == (
        f"/a{{{{b}}}}:{{library}}/src:{root}/build"
    )


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("_mylib.pth", "{root}/src\n"),
        ("__editable___mylib_1_finder.py", "MAPPING: dict[str, str] = {{'mylib': '{root}/src/mylib'}}\n"),
    ],
)
def test_editable_installs_of_the_checkout_are_found(
    library: TestRepository, interpreter: Path, file: str, text: str
) -> None:
    install_editable(interpreter, file, text.format(root=library.path))
    assert import_path(library, PATH=str(interpreter)) == "{library}/src"
    install_editable(interpreter, file, text.format(root="/elsewhere"))
    assert import_path(library, PATH=str(interpreter)) is None


def test_an_editable_install_of_a_submodule_s_folder_is_found(
    library: TestRepository, interpreter: Path, tmp_path: Path
) -> None:
    outer = TestRepository(tmp_path / "outer")
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.path), "inner")
    outer.commit("inner", {"a": "1"})
    install_editable(interpreter, "_mylib.pth", f"{outer.path}/inner/src\n")
    assert import_path(outer, PATH=str(interpreter)) == "{library}/inner/src"


def test_editable_installs_outside_of_the_prefix_of_a_program_are_found(
    library: TestRepository, interpreter: Path, tmp_path: Path
) -> None:
    """For the user alone, beside a program that a link leads to, and below a version of pyenv."""
    install_editable(interpreter, "_mylib.pth", f"{library.path}/src\n")
    environment = interpreter.parent
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".local").symlink_to(environment)
    shims, versions = (tmp_path / "pyenv" / name for name in ("shims", "versions"))
    for folder in (shims, versions):
        folder.mkdir(parents=True)
    (versions / "3.x").symlink_to(environment)
    (shims / "python3").write_text("#!/bin/sh\n")
    (environment / "bin" / "check").write_text("#!/bin/sh\n")
    (tmp_path / "check").symlink_to(environment / "bin" / "check")
    for program in (shims / "python3", environment / "bin" / "check"):
        program.chmod(0o755)
    assert import_path(library, HOME=str(tmp_path / "home")) == "{library}/src"
    assert import_path(library, PYTHONUSERBASE=str(environment)) == "{library}/src"
    assert import_path(library, "check", PATH=str(tmp_path)) == "{library}/src"
    assert import_path(library, PATH=str(shims)) == "{library}/src"
    assert import_path(library, "sh", PATH=str(tmp_path)) is None


@pytest.mark.parametrize("text", ["MAPPING = {[]: 1}", "MAPPING = {'a'}", "MAPPING = {" + "[" * 10_000 + "}"])
def test_a_mapping_that_is_none_is_passed_over(library: TestRepository, interpreter: Path, text: str) -> None:
    install_editable(interpreter, "__editable___mylib_1_finder.py", text)
    assert import_path(library, PATH=str(interpreter)) is None


def test_a_package_that_is_installed_in_editable_mode_is_each_commit_s_own(
    library: TestRepository, interpreter: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_editable(interpreter, "_mylib.pth", f"{library.path}/src\n")
    monkeypatch.chdir(library.path)
    environment = {
        **os.environ,
        "PATH": f"{interpreter}{os.pathsep}{os.environ['PATH']}",
        "PRECISION_BISECT_HOME": str(home.state.parent),
    }
    ends = ("--good", "main~8", "--bad", "main")
    found = run_program(*ends, "--", "python3", "check.py", environment=environment)
    assert found.returncode == 0, found.stderr
    assert "change 5" in found.stdout.splitlines()[-1]
    assert "PYTHONPATH={library}/src" in found.stderr + found.stdout
    check_reproduction(library, environment)


def test_a_pythonpath_of_env_leads_to_each_commit_s_own_modules(
    library: TestRepository, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(library.path)
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(home.state.parent), "PYTHONPATH": "/nowhere"}
    words = ("--env", f"PYTHONPATH={library.path}/src:/a{{b}}", "--good", "main~8", "--bad", "main")
    found = run_program(*words, "--", "python3", "check.py", environment=environment)
    assert found.returncode == 0, found.stderr
    assert "change 5" in found.stdout.splitlines()[-1]
    assert "PYTHONPATH={library}/src:/a{{b}}" in found.stderr + found.stdout
    check_reproduction(library, environment)


def test_a_module_that_no_end_can_import_is_said(
    library: TestRepository, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(library.path)
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(home.state.parent)}
    refused = run_program(
        *("--good", "main~8", "--bad", "main", "--", "python3", "check.py"), environment=environment
    )
    assert refused.returncode == 4
    assert "both ends end with ModuleNotFoundError: No module named 'mylib'" in refused.stderr
    assert "python3 -m pytest" in refused.stderr
