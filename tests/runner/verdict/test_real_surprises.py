"""What the real repositories were found to do and the runner must stand: see docs/real-stack.md."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.runner.stack.file import load_stack
from precision_bisect.runner.stack.templates import fill
from precision_bisect.runner.verdict.ending import Ending
from precision_bisect.runner.verdict.verdict import Classifier
from precision_bisect.runner.workspace.content import ContentKeys
from precision_bisect.store.vocabulary import BuildSource, Verdict
from tests.runner.small_stack import SmallStack

PIN = "0123456789abcdef0123456789abcdef01234567"

TAKES_A_COMMIT = """
def ensure_pto_isa_root(commit=None, clone_protocol="ssh", update_if_exists=False, verbose=False):
    return f"{commit} over {clone_protocol}"
"""
READS_THE_PIN = """
def ensure_pto_isa_root(verbose=False):
    return "the pin"
"""


def checkout_pto_isa(folder: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the stack file's step in a checkout that holds these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    step = load_stack("simpler").steps["pto-isa"]
    argv = [fill(word, {"python": sys.executable}) for word in step.command]
    return subprocess.run(
        argv, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"simpler_setup/pto_isa.py": READS_THE_PIN, "pto_isa.pin": f"{PIN}\n"}, "the pin"),
        ({"simpler_setup/pto_isa.py": TAKES_A_COMMIT, "pto_isa.pin": f"{PIN}\n"}, f"{PIN} over https"),
        (
            {
                "simpler_setup/pto_isa.py": TAKES_A_COMMIT,
                ".github/workflows/ci.yml": f"env:\n  PTO_ISA_COMMIT: {PIN}\n",
            },
            f"{PIN} over https",
        ),
    ],
    ids=["pin", "pin that is handed over", "literal of CI"],
)
def test_pto_isa_is_the_commit_s_own_in_every_era(tmp_path: Path, files: dict[str, str], said: str) -> None:
    done = checkout_pto_isa(tmp_path, files)
    assert (done.returncode, done.stdout.strip()) == (0, said), done.stderr


def test_a_commit_that_names_no_pto_isa_fails_to_build(tmp_path: Path) -> None:
    files = {"simpler_setup/pto_isa.py": TAKES_A_COMMIT, ".github/workflows/ci.yml": "env:\n"}
    done = checkout_pto_isa(tmp_path, files)
    assert done.returncode != 0
    assert "expected the commit of pto-isa" in done.stderr


@pytest.mark.parametrize(
    ("setting", "asked"), [('cmake.minimum-version = "3.15"', True), ('cmake.version = ">=3.15"', False)]
)
def test_the_compiler_is_built_as_its_own_revision_asks(tmp_path: Path, setting: str, asked: bool) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.scikit-build]\n{setting}\n")
    command = load_stack("pypto").steps["compiler"].command
    argv = [fill(word, {"python": "echo", "slot": "/slot", "pypto": "/slot/pypto"}) for word in command]
    said = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert ("--target /slot/compiler /slot/pypto" in said, "-Cminimum-version" in said) == (True, asked)


@pytest.mark.parametrize(("stack", "repository"), [("simpler", "simpler"), ("pypto", "runtime")])
def test_no_input_of_a_step_is_ignored(stack: str, repository: str) -> None:
    """CI's workflow pins pto-isa in old revisions: to ignore it would join commits that differ."""
    loaded = load_stack(stack)
    keys = ContentKeys(loaded.repositories[repository].ignore)
    inputs = [entry.partition(":") for step in loaded.steps.values() for entry in step.inputs]
    paths = [path for name, _, path in inputs if name == repository and path]
    assert ".github/workflows/ci.yml" in paths
    assert all(keys.counts(path) for path in paths)
    assert not keys.counts("docs/guide.md")


def test_a_step_for_one_platform_is_built_for_each(small: SmallStack) -> None:
    log = small.folder / "builds.log"
    small.platforms = {"a": {}, "b": {}}
    small.steps = {
        "rt": {
            "command": ["sh", "-ec", f"echo {{platform}} >> {log}; echo {{platform}} > lib"],
            "cwd": "{rt}",
            "inputs": ["rt"],
            "outputs": ["tool/rt/lib"],
        }
    }
    small.case = {"command": ["sh", "-c", "cat {rt}/lib; echo RIGHT"]}
    with small.prober() as prober:
        sources = [small.probe(prober, platform=name).build_source for name in ("a", "b", "a")]
        assert sources == [BuildSource.BUILT, BuildSource.BUILT, BuildSource.CACHED]
        assert (prober.slot.path("rt") / "lib").read_text() == "a\n"
    assert log.read_text() == "a\nb\n"


@pytest.mark.parametrize(
    ("program", "expected"), [("sh", Verdict.PASS), ("no-such-ccache", Verdict.MISMATCH)]
)
def test_a_tool_s_variables_are_set_where_it_is_found(
    small: SmallStack, program: str, expected: Verdict
) -> None:
    tool = {"command": [program, "-c", "echo 1"], "required": False, "variables": {"LAUNCHER": "{slot}/x"}}
    small.environment = {"tools": {"ccache": tool}}
    small.steps = {
        "rt": {
            "command": ["sh", "-ec", 'echo "$LAUNCHER" > {rt}/launcher'],
            "inputs": ["rt"],
            "outputs": ["tool/rt/launcher"],
        }
    }
    script = (
        '[ "$LAUNCHER" = {slot}/x ] && [ "$(cat {rt}/launcher)" = {slot}/x ] && echo RIGHT || echo WRONG y'
    )
    small.case = {"command": ["sh", "-c", script]}
    with small.prober() as prober:
        assert small.probe(prober).classification.verdict is expected


IMPORTED_BY_SCENE_TESTS = ("torch", "pytest", "cloudpickle")
"""What the scene tests of 300 commits up to August 2026 import, and what these import of the checkout, beyond the
standard library and the checkout itself."""


@pytest.mark.parametrize("module", IMPORTED_BY_SCENE_TESTS)
def test_a_module_that_scene_tests_import_is_watched_and_its_lack_is_the_machine_s(module: str) -> None:
    stack = load_stack("simpler")
    assert module in stack.environment.packages
    classifier = Classifier(stack.verdicts)
    classifier.feed("stderr", f"ModuleNotFoundError: No module named '{module}'")
    ending = Ending(exit_code=1, signal=None, timed_out=False, cancelled=False)
    classification = classifier.finish(ending, None)
    assert classification.verdict is Verdict.ENVIRONMENT_ERROR
    assert classification.signature == f"no module {module}"
