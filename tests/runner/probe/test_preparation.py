"""A slot is brought to a commit: what commands are given there, and a patch that does not apply."""

import os
from pathlib import Path

import pytest

from precision_bisect.runner.overlays import patch_name
from precision_bisect.runner.probe.builder import Builder, BuiltToolchain, FailedBuild
from precision_bisect.runner.probe.probe import NOT_STARTED, Preparation
from precision_bisect.runner.workspace.content import StackContent
from precision_bisect.runner.workspace.environment import EnvironmentReader
from precision_bisect.store.vocabulary import Verdict, VerdictSource
from tests.runner.small_stack import SmallStack

HIDDEN = {"GIT_DIR", "PYTHONPYCACHEPREFIX", "PRECISION_BISECT_STORE"}


@pytest.fixture(name="prepared")
def make_preparation(small: SmallStack) -> tuple[Preparation, list[str]]:
    """A preparation in a slot of its own, and what it says."""
    said: list[str] = []
    workspace = small.workspace()
    variables = {**os.environ, **dict.fromkeys(HIDDEN, "/elsewhere")}
    preparation = Preparation(
        workspace,
        workspace.acquire(),
        Builder(workspace.stack, StackContent(workspace.stack, workspace), small.home.builds),
        EnvironmentReader(workspace.stack, variables),
        variables=variables,
        cores=3,
        on_activity=said.append,
    )
    return preparation, said


def test_commands_get_the_slot_and_no_variables_of_another_repository(
    small: SmallStack, prepared: tuple[Preparation, list[str]]
) -> None:
    preparation, said = prepared
    request = small.request()
    request.directory.mkdir()
    ready = preparation.prepare(request)
    assert isinstance(ready.built, BuiltToolchain)
    assert said == ["checking out"]
    assert (Path(ready.values["tool"]) / "tool.txt").read_text() == "good 1\n"
    assert ready.values["jobs"] == "3"
    assert ready.values["case"] == str(Path(ready.values["cases"]) / "case.sh")
    assert not HIDDEN & ready.environment.keys()
    assert ready.environment["PATH"] == os.environ["PATH"]


def test_a_patch_that_does_not_apply_is_a_failed_build(
    small: SmallStack, prepared: tuple[Preparation, list[str]]
) -> None:
    small.tool.commit("second", {"tool.txt": "good 2\n"})
    patch = small.tool.commit("third", {"tool.txt": "good 3\n"})
    first = small.tool.git("rev-parse", "HEAD~2")
    request = small.request(chosen={"tool": first})
    revisions = {**request.revisions, patch_name("tool"): patch}
    ready = prepared[0].prepare(small.request(chosen={"tool": first}, revisions=revisions))
    assert isinstance(ready.built, FailedBuild)
    assert ready.built.ending == NOT_STARTED
    assert ready.built.classification.source is VerdictSource.PATCH_CONFLICT


def test_variables_of_the_case_reach_its_run_and_no_step(small: SmallStack) -> None:
    step = {
        "command": ["sh", "-ec", 'echo "$MODE" > {rt}/mode'],
        "inputs": ["rt"],
        "outputs": ["tool/rt/mode"],
    }
    small.environment = {"variables": {"MODE": "of all"}}
    small.steps = {"rt": step}
    script = '[ "$(cat {rt}/mode)" = "of all" ] && [ "$MODE" = "{tool}" ] && echo RIGHT || echo WRONG y'
    small.case = {"command": ["sh", "-c", script], "variables": {"MODE": "{tool}"}}
    with small.prober() as prober:
        assert small.probe(prober).classification.verdict is Verdict.PASS
