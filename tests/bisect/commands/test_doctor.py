"""`doctor` as a command, and what it foretells of a bisection."""

from pathlib import Path

import pytest

from precision_bisect.bisect.commands.doctor import examine
from precision_bisect.bisect.plan.prepare import prepare
from precision_bisect.bisect.plan.question import Question
from precision_bisect.runner.workspace.machine import examine_machine
from precision_bisect.runner.workspace.workspace import MissingCommitError
from tests.runner.small_stack import SmallStack


def test_the_exit_code(small: SmallStack, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "stack.toml"
    text = """
        name = "small"
        searched = "tool"
        [repositories.tool]
        path = "stack/tool"
        [case]
        repository = "tool"
        command = ["{case}"]
        cwd = "{slot}"
        [platforms.sim]
    """
    file.write_text(text)
    assert examine(str(file), repositories=()) == 0
    assert examine(str(file), repositories=("tool=/nowhere",)) == 1
    assert "/nowhere" in capsys.readouterr().out
    assert examine(str(file), repositories=("nonsense",)) == 2
    assert "NAME=PATH" in capsys.readouterr().err


def test_a_pinned_commit_that_no_checkout_holds(small: SmallStack) -> None:
    gone = "1234567890" * 4
    small.tool.git("update-index", "--cacheinfo", f"160000,{gone},rt")
    small.tool.git("commit", "--quiet", "-m", "pin a commit that was never pushed")
    submodule = next(
        finding for finding in examine_machine(small.stack(), small.home) if finding.subject == "submodule rt"
    )
    assert submodule.state == "missing"
    assert submodule.hint == f"git -C {small.tool.path / 'rt'} fetch origin {gone}"
    with pytest.raises(MissingCommitError, match=gone):
        prepare(
            Question(
                stack=small.stack(),
                repository="tool",
                good=("HEAD~1",),
                bad="HEAD",
                runtime_dir=None,
                first_parent=False,
                case="case.sh",
                platform="sim",
                device=0,
                bad_when="mismatch",
                golden_data=None,
                timeout=None,
                confidence=0.99,
                output=None,
            ),
            small.home,
        )
