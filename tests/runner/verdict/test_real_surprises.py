"""What the real repositories were found to do and the runner must stand: see benchmarks/natural/measurements.md."""

import os
import subprocess
from pathlib import Path

import pytest

from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.pins import PinReader
from precision_bisect.runner.releases import list_releases
from precision_bisect.runner.settings import load_stack
from precision_bisect.runner.stack import fill
from precision_bisect.runner.verdict.classify import Classifier
from precision_bisect.runner.verdict.rules import Ending
from precision_bisect.runner.workspace.content import ContentKeys
from precision_bisect.store.vocabulary import BuildSource, Verdict
from tests.conftest import TestRepository
from tests.runner.small_stack import SmallStack

PIN = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "files",
    [
        {"pto_isa.pin": f"{PIN}\n", ".github/workflows/ci.yml": f"env:\n  PTO_ISA_COMMIT: {PIN[::-1]}\n"},
        {".github/workflows/ci.yml": f"env:\n  # as the scene tests\n  PTO_ISA_COMMIT: {PIN}\n"},
    ],
    ids=["pin", "literal of CI"],
)
@pytest.mark.parametrize(("stack", "holder"), [("simpler", "simpler"), ("pypto", "runtime")])
def test_pto_isa_is_the_commit_s_own_in_every_era(
    repository: TestRepository, files: dict[str, str], stack: str, holder: str
) -> None:
    loaded = load_stack(stack)
    reader = PinReader(loaded, {holder: GitRepository(repository.path)})
    assert loaded.links["pto-isa"] == "pto-isa"
    assert reader.value("pto-isa", repository.commit("pin", files)) == PIN
    assert reader.value("pto-isa", repository.commit("none", dict.fromkeys(files))) is None


@pytest.mark.parametrize("stack", ["simpler", "pypto"])
def test_kernels_are_compiled_against_a_repository_at_the_very_commit(
    repository: TestRepository, tmp_path: Path, stack: str
) -> None:
    """The runtime asks its HEAD, and whether it is changed; what another commit left there is replaced."""
    old = repository.commit("old", {"include/isa.hpp": "old"})
    repository.commit("new", {"include/isa.hpp": "new"})
    repository.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "slot"), old)
    left = tmp_path / "runtime/build/pto-isa/include/left.hpp"
    left.parent.mkdir(parents=True)
    left.write_text("left")
    argv = [
        fill(word, {"pto-isa": str(tmp_path / "slot")}) for word in load_stack(stack).steps["pto-isa"].command
    ]
    subprocess.run(argv, cwd=tmp_path / "runtime", check=True)
    made = GitRepository(tmp_path / "runtime/build/pto-isa")
    assert made.run("rev-parse", "HEAD").strip() == old
    assert made.run("status", "--porcelain") == ""
    assert (made.path / "include/isa.hpp").read_text() == "old"


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
    assert all(keys.is_relevant(path) for path in paths)
    assert not keys.is_relevant("docs/guide.md")


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
    ending = Ending(exit_code=1)
    classification = classifier.finish(ending, None)
    assert classification.verdict is Verdict.ENVIRONMENT_ERROR
    assert classification.signature == f"no module {module}"


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("toolchain/versions.env", "PTOAS_VERSION=v0.57"),
        (".github/workflows/ci.yml", "  PTOAS_VERSION: v0.57"),
    ],
)
def test_ptoas_is_the_release_that_a_commit_of_each_era_asks_for(
    repository: TestRepository, file: str, line: str
) -> None:
    stack = load_stack("pypto-ptoas")
    ptoas = stack.repositories["ptoas"]
    assert ptoas.releases is not None
    known = ptoas.model_copy(
        update={"releases": ptoas.releases.model_copy(update={"commits": {"v0.57": PIN}})}
    )
    stack = stack.model_copy(update={"repositories": {**stack.repositories, "ptoas": known}})
    reader = PinReader(stack, {"pypto": GitRepository(repository.path)})
    assert reader.value("ptoas", repository.commit("pin", {file: f"env:\n{line}\n"})) == PIN


def test_releases_of_ptoas_are_listed_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With git and curl as they answer for its repository."""
    programs = tmp_path / "programs"
    programs.mkdir()
    asset = f"PTOAS/releases/download/v0.57/ptoas-bin-{os.uname().machine}.tar.gz"
    archive = tmp_path / "archive.tar.gz"
    (tmp_path / "ptoas").write_text("the assembler")
    subprocess.run(["tar", "-C", tmp_path, "-czf", archive, "ptoas"], check=True)
    answers = {
        "git": "printf '1\\trefs/tags/v0.9\\n2\\trefs/tags/v0.57\\n3\\trefs/tags/vmi-v0.1\\n'",
        "curl": f'case "$*" in *{asset}) cp {archive} ptoas.tar.gz;; *) exit 22;; esac',
    }
    for name, answer in answers.items():
        (programs / name).write_text(f"#!/bin/sh\n{answer}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    stack = load_stack("pypto-ptoas")
    assert list_releases(stack, "ptoas") == ("v0.9", "v0.57")
    slot = tmp_path / "slot"
    slot.mkdir()
    (slot / "VERSION").write_text("v0.57\n")
    subprocess.run(stack.steps["ptoas"].command, cwd=slot, check=True)
    assert (slot / "unpacked" / "ptoas").read_text() == "the assembler"
    (slot / "VERSION").write_text("v0.9\n")
    assert subprocess.run(stack.steps["ptoas"].command, cwd=slot, check=False).returncode == 22
