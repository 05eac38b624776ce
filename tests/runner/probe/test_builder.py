"""Builds by content: what makes one necessary, where it comes from, and what a failure says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.runner.probe.builder import BuiltToolchain, FailedBuild
from precision_bisect.runner.workspace.slot import Slot, Workspace
from precision_bisect.store.vocabulary import BuildSource, Verdict
from tests.runner.small_stack import SmallStack
from tests.support.quick import quick_first

BUILD = "echo rt >> {{log}}; mkdir -p build && cp rt.txt build/lib && ln -sf lib build/link"


def with_build(small: SmallStack, script: str = BUILD, **changes: object) -> Path:
    """Give the stack one step that builds the runtime; the file in which each real build leaves a line."""
    log = small.folder / "builds.log"
    log.touch()
    step = {
        "command": ["sh", "-ec", script.replace("{{log}}", str(log))],
        "cwd": "{rt}",
        "inputs": ["rt"],
        "outputs": ["tool/rt/build"],
        **changes,
    }
    small.steps = {"rt": step}
    return log


def built(small: SmallStack, workspace: Workspace, slot: Slot, **options: object) -> BuiltToolchain:
    made = small.build(workspace, slot, **options)  # type: ignore[arg-type]
    assert isinstance(made, BuiltToolchain), made
    return made


def failed(small: SmallStack) -> FailedBuild:
    workspace = small.workspace()
    slot = workspace.acquire()
    made = small.build(workspace, slot)
    slot.release()
    assert isinstance(made, FailedBuild), made
    return made


def count(log: Path) -> int:
    return len(log.read_text().splitlines())


def test_built_then_present_then_cached(small: SmallStack) -> None:
    log = with_build(small)
    workspace = small.workspace()
    slot = workspace.acquire()
    first = built(small, workspace, slot)
    assert first.source is BuildSource.BUILT
    assert set(first.step_seconds) == {"rt"}
    again = built(small, workspace, slot)
    assert (again.source, again.key, again.step_seconds) == (BuildSource.PRESENT, first.key, {})

    other_slot = workspace.acquire()
    cached = built(small, workspace, other_slot)
    assert (cached.source, cached.key) == (BuildSource.CACHED, first.key)
    assert (other_slot.path("rt") / "build" / "lib").read_text() == "rt 1\n"
    assert (other_slot.path("rt") / "build" / "link").readlink() == Path("lib")

    small.move_runtime("rt 2")
    assert built(small, workspace, slot).source is BuildSource.BUILT
    assert (slot.path("rt") / "build" / "lib").read_text() == "rt 2"
    assert (
        built(small, workspace, slot, tool=small.tool.git("rev-parse", "HEAD~")).source is BuildSource.CACHED
    )
    assert (slot.path("rt") / "build" / "lib").read_text() == "rt 1\n"
    assert count(log) == 2


def test_without_steps_there_is_nothing_to_build(small: SmallStack) -> None:
    workspace = small.workspace()
    assert built(small, workspace, workspace.acquire()).source is BuildSource.NONE


def test_restored_outputs_are_newer_than_the_sources(small: SmallStack) -> None:
    """And equally old among themselves: the stack's own make must see nothing to do."""
    with_build(small)
    workspace = small.workspace()
    slot, other = workspace.acquire(), workspace.acquire()
    built(small, workspace, slot)
    built(small, workspace, other)
    times = {path.lstat().st_mtime_ns for path in (other.path("rt") / "build").iterdir()}
    assert len(times) == 1
    assert times.pop() >= (other.path("rt") / "rt.txt").stat().st_mtime_ns


def test_what_changes_a_key_and_what_does_not(small: SmallStack, monkeypatch: pytest.MonkeyPatch) -> None:
    small.repositories = {"rt": {"ignore": ["docs/"]}}
    with_build(small)

    def key(surroundings: dict[str, str] | None = None, **chosen: str) -> str:
        workspace = small.workspace()
        slot = workspace.acquire()
        made = built(small, workspace, slot, surroundings=surroundings, **chosen)
        slot.release()
        return made.key

    first = key()
    step = dict(small.steps["rt"])

    small.tool.commit("the tool is no input of this step", {"tool.txt": "good 2\n"})
    assert key() == first
    docs = small.rt.commit("docs only", {"docs/a": "x"})
    assert key(rt=docs) == first
    small.steps = {"rt": {**step, "timeout": 99}}
    assert key() == first
    monkeypatch.setenv("SOMETHING", "else")
    assert key() == first
    small.steps = {"rt": step}
    workspace = small.workspace()
    workspace.acquire()
    assert key() == first, "the slot does not matter"

    different = [
        key(rt=small.rt.commit("content", {"rt.txt": "x"})),
        key(surroundings={"tool cxx": "13"}),
        key(surroundings={"tool cxx": "14"}),
    ]
    (small.rt.path / "rt.txt").chmod(0o755)
    different.append(key(rt=small.rt.commit("mode", {})))
    small.environment = {"variables": {"FLAG": "1"}}
    different.append(key())
    small.environment = {}
    for change in ({"command": [*step["command"], "x"]}, {"inputs": ["rt", "tool"]}, {"cwd": "{rt}/."}):
        small.steps = {"rt": {**step, **change}}
        different.append(key())
    small.steps = {"renamed": step}
    different.append(key())
    assert len({first, *different}) == 1 + len(different)


def test_inputs_can_be_paths(small: SmallStack) -> None:
    log = with_build(small, inputs=["rt:rt.txt"])
    workspace = small.workspace()
    slot = workspace.acquire()
    built(small, workspace, slot)
    elsewhere = small.rt.commit("elsewhere", {"other.txt": "x"})
    assert built(small, workspace, slot, rt=elsewhere).source is BuildSource.PRESENT
    there = small.rt.commit("there", {"rt.txt": "x"})
    assert built(small, workspace, slot, rt=there).source is BuildSource.BUILT
    assert count(log) == 2


def test_a_step_without_outputs_is_skipped_but_never_cached(small: SmallStack) -> None:
    log = with_build(small, outputs=[])
    workspace = small.workspace()
    slot = workspace.acquire()
    assert built(small, workspace, slot).source is BuildSource.BUILT
    assert built(small, workspace, slot).source is BuildSource.PRESENT
    assert built(small, workspace, workspace.acquire()).source is BuildSource.BUILT
    assert count(log) == 2


def test_an_output_that_was_removed_is_restored(small: SmallStack) -> None:
    log = with_build(small)
    workspace = small.workspace()
    slot = workspace.acquire()
    built(small, workspace, slot)
    shutil.rmtree(slot.path("rt") / "build")
    assert built(small, workspace, slot).source is BuildSource.CACHED
    assert count(log) == 1


def test_a_step_that_leaves_nothing_has_failed(small: SmallStack) -> None:
    """Also where outputs of another commit stand there: they are not taken for its own."""
    with_build(small, "grep -q 'rt 1' rt.txt || exit 0; mkdir -p build; cp rt.txt build/lib")
    workspace = small.workspace()
    slot = workspace.acquire()
    good = small.tool.git("rev-parse", "HEAD")
    built(small, workspace, slot)
    small.move_runtime("rt 2")
    for _ in range(2):
        made = small.build(workspace, slot)
        assert isinstance(made, FailedBuild)
        assert made.classification.verdict is Verdict.BUILD_ERROR
        assert any("ended well but left no" in line.text for line in made.classification.evidence)
    assert built(small, workspace, slot, tool=good).source is BuildSource.CACHED


@pytest.mark.parametrize(
    ("script", "verdict", "evidence"),
    quick_first(
        [
            ("echo 'src/a.cpp:3:1: error: no such thing' >&2; exit 2", Verdict.BUILD_ERROR, "no such thing"),
            ("for i in $(seq 3000); do echo line $i; done; exit 1", Verdict.BUILD_ERROR, "line 3000"),
            (
                "echo 'a.cpp:1:1: error: first'; for i in $(seq 3000); do echo $i; done; exit 1",
                Verdict.BUILD_ERROR,
                "first",
            ),
            ("echo 'ld: No space left on device' >&2; exit 1", Verdict.ENVIRONMENT_ERROR, "No space left"),
            ("kill -SEGV $$", Verdict.BUILD_ERROR, "SIGSEGV"),
            ("kill -KILL $$", Verdict.ENVIRONMENT_ERROR, "SIGKILL"),
            ("exit 3", Verdict.BUILD_ERROR, "exit code 3"),
        ],
        2,
    ),
)
def test_a_failed_build_says_why(small: SmallStack, script: str, verdict: Verdict, evidence: str) -> None:
    with_build(small, script)
    made = failed(small)
    assert made.step == "rt"
    assert made.classification.verdict is verdict
    assert any(evidence in line.text for line in made.classification.evidence)
    assert (small.folder / "logs" / "build-rt.log.gz").is_file()


def test_a_program_or_folder_that_is_missing_at_a_commit_is_a_failed_build(small: SmallStack) -> None:
    with_build(small, cwd="{rt}/not-yet")
    made = failed(small)
    assert made.classification.verdict is Verdict.BUILD_ERROR
    assert any("not-yet: No such file" in line.text for line in made.classification.evidence)
    small.steps = {"rt": {"command": ["./build.sh"], "cwd": "{rt}", "inputs": ["rt"]}}
    assert any("build.sh: No such file" in line.text for line in failed(small).classification.evidence)


def test_a_relative_folder_is_one_of_the_slot(small: SmallStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not one of the user's, who may stand beside checkouts of the same names."""
    with_build(small, "mkdir -p build; pwd > build/where", cwd="tool/rt")
    monkeypatch.chdir(small.folder)
    workspace = small.workspace()
    slot = workspace.acquire()
    built(small, workspace, slot)
    assert (slot.path("rt") / "build" / "where").read_text().strip() == str(slot.path("rt"))
    assert not (small.tool.path / "rt" / "build").exists()


def test_a_build_that_runs_out_of_time(small: SmallStack) -> None:
    with_build(small, "mkdir build; echo half > build/lib; sleep 600", timeout=1)
    found = failed(small).classification
    assert (found.verdict, found.signature) == (Verdict.BUILD_ERROR, "time limit")
    workspace = small.workspace()
    slot = workspace.acquire()
    slot.check_out(small.revisions(workspace))
    assert not (slot.path("rt") / "build").exists()


def test_a_failed_build_is_tried_again_and_keeps_the_slot(small: SmallStack) -> None:
    log = with_build(small, BUILD + "; test -e {slot}/allowed")
    workspace = small.workspace()
    slot = workspace.acquire()
    assert isinstance(small.build(workspace, slot), FailedBuild)
    (slot.directory / "allowed").touch()
    assert built(small, workspace, slot).source is BuildSource.BUILT
    assert count(log) == 2


BUILD_IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
from precision_bisect.runner.workspace.home import user_home
from precision_bisect.runner.probe.builder import Builder
from precision_bisect.runner.workspace.content import StackContent
from precision_bisect.runner.stack import Stack
from precision_bisect.runner.workspace.slot import Workspace
import json, os
request = json.load(open(sys.argv[1]))
stack = Stack.model_validate(request["stack"])
workspace = Workspace(stack, user_home())
slot = workspace.acquire()
slot.check_out(request["revisions"])
values = {"slot": str(slot.directory), **{name: str(slot.path(name)) for name in stack.repositories}}
builder = Builder(stack, StackContent(stack, workspace), user_home().builds)
made = builder.build(slot, request["revisions"], surroundings={}, environment=dict(os.environ), values=values,
                     logs=Path(sys.argv[2]), on_step=lambda name: print("at", name, flush=True))
print(made.source.value)
"""


def start_building(request: Path, tmp_path: Path) -> "subprocess.Popen[str]":
    """A process that builds in a slot of its own; it stands before the build or waits for another's."""
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD_IN_ANOTHER_PROCESS, str(request), str(tmp_path / "logs")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "at rt\n"
    return process


def written_request(small: SmallStack, tmp_path: Path) -> Path:
    request = tmp_path / "request.json"
    revisions = small.revisions(small.workspace())
    request.write_text(json.dumps({"stack": small.stack().model_dump(mode="json"), "revisions": revisions}))
    return request


def test_a_build_is_never_made_twice_at_once(small: SmallStack, tmp_path: Path) -> None:
    """Whoever comes second waits for the first, and takes its build. The build lasts until both are at it."""
    log = with_build(small, BUILD + f"; while ! test -e {tmp_path}/go; do sleep 0.05; done")
    request = written_request(small, tmp_path)
    started = [start_building(request, tmp_path) for _ in range(2)]
    (tmp_path / "go").touch()
    assert sorted(process.communicate()[0].strip() for process in started) == ["built", "cached"]
    assert count(log) == 1


def test_a_killed_build_leaves_nothing_that_counts(small: SmallStack, tmp_path: Path) -> None:
    half = f"test -e {tmp_path}/go || {{ echo half > build/lib; touch {tmp_path}/half; sleep 600; }}"
    log = with_build(small, f"{BUILD}; {half}")
    driver = start_building(written_request(small, tmp_path), tmp_path)
    while not (tmp_path / "half").exists():
        os.sched_yield()
    driver.kill()
    driver.communicate()
    (tmp_path / "go").touch()
    workspace = small.workspace()
    slot = workspace.acquire()
    assert slot.index == 0
    assert built(small, workspace, slot).source is BuildSource.BUILT
    assert (slot.path("rt") / "build" / "lib").read_text() == "rt 1\n"
    assert count(log) == 2


def test_a_full_disk_costs_the_copy_and_not_the_build(
    small: SmallStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_build(small)
    workspace = small.workspace()
    slot = workspace.acquire()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("precision_bisect.runner.probe.build_cache.shutil.copytree", full)
        assert built(small, workspace, slot).source is BuildSource.BUILT
    assert not [path for path in small.home.builds.iterdir() if path.name != "locks"]
    assert built(small, workspace, slot).source is BuildSource.PRESENT
    assert built(small, workspace, workspace.acquire()).source is BuildSource.BUILT
