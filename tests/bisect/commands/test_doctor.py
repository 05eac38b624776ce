"""`doctor` as a command, and what it foretells of a bisection."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from click.testing import CliRunner, Result

from precision_bisect.bisect.ask.prepare import prepare
from precision_bisect.bisect.ask.question import Question
from precision_bisect.bisect.cli import main
from precision_bisect.bisect.commands import examine
from precision_bisect.bisect.options import DoctorOptions
from precision_bisect.runner.workspace.environment import examine_machine
from precision_bisect.runner.workspace.slot import MissingCommitError
from tests.conftest import TestRepository
from tests.runner.small_stack import SmallStack
from tests.support.trusted import write_trusted


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

    def options(*repositories: str) -> DoctorOptions:
        return DoctorOptions(
            stack=str(file), repository=repositories, case=None, at=(), quiet=False, as_json=False
        )

    assert examine(options()) == 0
    assert examine(options("tool=/nowhere")) == 1
    shown = capsys.readouterr().out
    assert "missing  repository tool  /nowhere  " in shown
    assert all(line == line.rstrip() for line in shown.splitlines())
    empty = TestRepository(tmp_path / "empty").path
    assert examine(options(f"tool={empty}")) == 1
    assert f"missing  repository tool  {empty}  it has no commit yet\n" in capsys.readouterr().out
    assert examine(options("nonsense")) == 2
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


STACK = """
name = "small"
searched = "tool"
[repositories.tool]
path = "tool"
[steps.{step}]
command = {command}
inputs = ["tool"]
[environment.tools]
shell = {{ command = ["sh", "-c", "echo 1"] }}
{tools}
[case]
repository = "tool"
command = ["{{python}}", "{{case}}"]
cwd = "{{slot}}"
[platforms.sim]
"""


def commits(
    folder: Path,
    *,
    step: str = '["{python}", "build.py"]',
    tools: str = "",
    more: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, str]:
    """A good commit and a bad one, whose case imports what nobody has, with `more` files; the stack file lies beside
    them."""
    repository = TestRepository(folder / "tool")
    good = repository.commit("good", {"case.py": "import json\n"})
    bad = repository.commit("bad", {"case.py": "import json\nimport no_such_module\n", **more})
    write_trusted(
        folder / "stack.toml", STACK.format(step="build", command=step, tools=tools), folder / "home"
    )
    return good, bad


def typed(folder: Path, *words: str) -> Result:
    """What the command says to these words, where nothing was built before."""
    return CliRunner(env={"PRECISION_BISECT_HOME": str(folder / "home")}).invoke(main, [*words])


def test_an_end_that_lacks_a_module_says_so_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = commits(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = typed(tmp_path, "--good", good, "--bad", bad, "--case", "case.py", "-o", "report")
    assert done.exit_code == 1
    assert done.stderr == (
        f"error: bad {bad[:12]}: case.py imports what the environment lacks: no_such_module (case.py:2); install "
        "no_such_module for the interpreter that runs this tool (environment.python names another)\n"
    )
    assert not (tmp_path / "report").exists()
    assert not (tmp_path / "home" / "state" / "store.sqlite").exists()


def test_where_a_step_may_install_it_the_lack_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = commits(tmp_path, step='["sh", "install-all.sh"]')
    monkeypatch.chdir(tmp_path)
    done = typed(tmp_path, "--good", good, "--bad", bad, "--case", "case.py", "--dry-run")
    assert done.exit_code == 0
    assert "note: bad" in done.stdout
    assert "no_such_module (case.py:2)" in done.stdout
    assert "unless a step does" in done.stdout


def test_a_tool_that_is_missing_is_named_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = 'weaver = { command = ["no-such-weaver", "--version"], hint = "apt-get install weaver" }'
    good, bad = commits(tmp_path, tools=tools)
    monkeypatch.chdir(tmp_path)
    done = typed(tmp_path, "--good", good, "--bad", bad, "--case", "case.py")
    assert done.exit_code == 1
    assert "tool weaver: expected no-such-weaver --version to print a version" in done.stderr
    assert "apt-get install weaver" in done.stderr


def test_doctor_looks_for_what_a_case_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = commits(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ["doctor", "--stack", "stack.toml", "--case", "case.py"]
    assert typed(tmp_path, *words, "--at", good).exit_code == 0
    done = typed(tmp_path, *words, "--at", good, "--at", bad)
    assert done.exit_code == 1
    assert "no_such_module" in done.stdout
    assert typed(tmp_path, *words).exit_code == 1
    gone = typed(tmp_path, "doctor", "--stack", "stack.toml", "--case", "gone.py", "--at", good)
    assert gone.exit_code == 1
    assert (
        f"missing  case at {good[:12]}  gone.py  expected a file of tool at {good[:12]}, found none"
        in gone.stdout
    )
    alone = typed(tmp_path, "doctor", "--stack", "stack.toml", "--at", good)
    assert alone.exit_code == 2
    assert alone.stderr == f"error: --at {good}: expected a --case to look for at that commit, found none\n"


def test_a_misspelt_case_is_told_with_the_one_that_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name in another folder, or by a name like it."""
    good, bad = commits(tmp_path, more={"models/decode.py": "import json\n", "models/notes.md": "decode"})
    monkeypatch.chdir(tmp_path)
    for typed_as, meant in (
        ("decode.py", "models/decode.py"),
        ("models/decod.py", "models/decode.py"),
        ("cse.py", "case.py"),
    ):
        for words in (["--good", good, "--bad", bad, "--case", typed_as], ["doctor", "--case", typed_as]):
            done = typed(tmp_path, *words, "--stack", "stack.toml")
            assert f"found none: did you mean {meant}?\n" in done.output
    assert "found none\n" in typed(tmp_path, "doctor", "--case", "other.sh", "--stack", "stack.toml").output


def test_what_a_platform_needs_is_said_before_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = commits(tmp_path, step='["pip", "install", "."]')
    monkeypatch.chdir(tmp_path)
    text = Path("stack.toml").read_text() + '\n[platforms.board]\nneeds = ["OF_A_BOARD"]\n'
    write_trusted(Path("stack.toml"), text, tmp_path / "home")
    words = ["--good", good, "--bad", bad, "--case", "case.py", "--platform", "board", "--dry-run"]
    note = "note: platform board needs OF_A_BOARD, which is not set here"
    monkeypatch.setenv("OF_A_BOARD", "1")
    assert note not in typed(tmp_path, *words).stdout
    monkeypatch.delenv("OF_A_BOARD")
    assert note in typed(tmp_path, *words).stdout
