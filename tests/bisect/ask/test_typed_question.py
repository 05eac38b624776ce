"""From typed options to a question: which stack it is about, and which options contradict each other."""

import re
from pathlib import Path

import pytest

from precision_bisect.bisect.ask.prepare import prepare
from precision_bisect.bisect.ask.typed_question import check_name, question_of
from precision_bisect.bisect.cli import main
from precision_bisect.bisect.options import BisectOptions
from precision_bisect.runner.errors import UsageError, UserError
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.vocabulary import Seeks
from tests.conftest import TestRepository
from tests.support.trusted import write_trusted

STACK = """
    name = "small"
    searched = "tool"
    [repositories.tool]
    path = "tool"
    [case]
    repository = "tool"
    command = ["{case}"]
    cwd = "{slot}"
    [platforms.sim]
"""


def options(*words: str, predicate: tuple[str, ...] | None = None) -> BisectOptions:
    params = main.make_context("bisect-precision", list(words)).params
    return BisectOptions(**params, predicate=predicate, typed=words)


@pytest.fixture
def tool(tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> TestRepository:
    """A repository with a stack file beside it, in the current folder."""
    repository = TestRepository(tmp_path / "tool")
    repository.commit("good", {"case.sh": "exit 0\n"})
    repository.commit("bad", {"case.sh": "exit 1\n"})
    write_trusted(tmp_path / "stack.toml", STACK)
    monkeypatch.chdir(tmp_path)
    return repository


def test_a_question_with_the_stack_of_the_current_folder(tool: TestRepository) -> None:
    question = question_of(options("--good", "a", "--bad", "b", "--case", "case.sh"))
    assert (question.stack.name, question.repository) == ("small", "tool")
    assert question.stack.repositories["tool"].path == tool.path
    assert (question.good, question.bad, question.case) == (("a",), "b", "case.sh")
    assert (question.bad_when, question.seeks) == ("mismatch", Seeks.REGRESSION)


@pytest.mark.parametrize("option", ["--case", "--after"])
def test_a_secret_among_the_arguments_of_a_case_is_refused(
    tool: TestRepository, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_PAT", "ghp_hush1")
    words = ("--good", "a", "--bad", "b", "--case", "case.sh", option, "case.sh --token=ghp_hush1")
    with pytest.raises(UsageError, match=f"{option}: expected no secret, found the value of GITHUB_PAT"):
        question_of(options(*words))


def test_a_question_of_a_fix(tool: TestRepository) -> None:
    question = question_of(options("--good", "b", "--bad", "a", "--case", "case.sh", "--find-fix"))
    assert question.seeks is Seeks.FIX


def test_a_predicate_asks_of_the_checkout_that_it_is_called_in(
    tool: TestRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tool.path)
    question = question_of(options("--good", "a", "--bad", "b", predicate=("sh", "case.sh")))
    assert question.stack.repositories["tool"].path == tool.path
    assert question.stack.case.command == ("sh", "case.sh")
    (tool.path / "sub").mkdir()
    monkeypatch.chdir(tool.path / "sub")
    question = question_of(options("--good", "a", "--bad", "b", predicate=("true",)))
    assert question.stack.case.cwd == "{tool}/sub"
    assert (question.case, question.bad_when) == (None, None)


def test_a_script_that_git_does_not_track_is_named_by_its_full_path(
    tool: TestRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tool.path)
    (tool.path / "mine.sh").write_text("#!/bin/sh\nexit 0\n")
    (tool.path / "mine.sh").chmod(0o755)
    own = question_of(options("--bad", "b", predicate=("./mine.sh", "word"))).stack.case.command
    assert own == (str(tool.path / "mine.sh"), "word")
    tracked = question_of(options("--bad", "b", predicate=("./case.sh",))).stack.case.command
    assert tracked == ("./case.sh",)


@pytest.mark.parametrize(
    ("words", "predicate", "message"),
    [
        (["--good", "a", "--case", "case.sh"], None, "found no --bad"),
        (["--bad", "b", "--find-fix", "--case", "case.sh"], None, "expected both ends"),
        (["--good", "a", "--bad", "b"], None, "expected a case, found none"),
        (["--good", "a", "--bad", "b"], (), "expected a command behind --"),
        (["--good", "a", "--bad", "b"], ("",), "expected a command behind --"),
        (["--good", "a", "--bad", "b", "--case", "case.sh"], ("true",), "found both"),
        (["--bad", "b", "--golden-data", "d"], ("true",), "either --golden-data or a command behind --"),
        (["--bad", "b", "--reduce"], ("true",), "either --reduce or a command behind --"),
        (["--bad", "b", "--runtime-dir", "d"], ("true",), "either --runtime-dir or a command behind --"),
        (["--bad", "b", "--repo", "zz"], ("true",), "--repo zz: expected one of tool"),
        (["--bad", "b", "--repo", "zz", "--case", "case.sh"], None, "--repo zz: expected one of tool"),
        (["--good", "a", "--bad", "b", "--freeze", "moon"], None, "--freeze moon"),
    ],
)
def test_what_does_not_go_together(
    tool: TestRepository, words: list[str], predicate: tuple[str, ...] | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        question_of(options(*words, predicate=predicate))


def test_a_folder_without_a_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="name one with --stack"):
        question_of(options("--bad", "b", "--case", "case.sh"))


def test_a_predicate_of_a_repository_that_is_named(
    tool: TestRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is the user's; without it, one has to be in a checkout."""
    outside = tmp_path / "outside"
    outside.mkdir()
    monkeypatch.chdir(outside)
    words = ["--bad", "b", "--repository", f"mine={tool.path}"]
    question = question_of(options(*words, predicate=("true",)))
    assert question.stack.repositories["mine"].path == tool.path
    assert question.stack.case.cwd == "{mine}"
    for more, message in (
        ([], "expected a git checkout, found none around .*outside"),
        (["--repository", f"a b={tool.path}"], "expected a name of letters"),
        (["--repository", f"mine={outside}"], "expected a git checkout at"),
        (["--repository", "a=x", "--repository", "b=y"], "expected one .* found a, b"),
    ):
        with pytest.raises(UserError, match=message):
            question_of(options("--bad", "b", *more, predicate=("true",)))
    monkeypatch.chdir(tool.path)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UserError, match=r"safe\.directory"):
        question_of(options("--bad", "b", predicate=("true",)))
    monkeypatch.delenv("GIT_TEST_ASSUME_DIFFERENT_OWNER")
    monkeypatch.chdir(tool.path / ".git" / "refs")
    inside = f"expected a git checkout, found the inside of {tool.path}/.git: begin in {tool.path}"
    with pytest.raises(UserError, match=f"{re.escape(inside)}$"):
        question_of(options("--bad", "b", predicate=("true",)))


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("words", "predicate", "found"),
    [
        (["--case", "case.sh", "--runtime-dir", "build"], None, "--runtime-dir"),
        (["--interactive"], None, "no --case"),
        ([], ("true",), "a command behind --"),
    ],
)
def test_what_comes_before_a_case_needs_a_case(
    words: list[str], predicate: tuple[str, ...] | None, found: str
) -> None:
    ends = ("--good", "a", "--bad", "b", "--after", "other.sh")
    with pytest.raises(UsageError, match=r"--after other\.sh: expected a script with --case alone") as error:
        question_of(options(*ends, *words, predicate=predicate))
    assert f"found {found};" in str(error.value)


def test_no_bisection_gets_the_name_of_the_link_to_the_newest_report() -> None:
    check_name("newest-but-one")
    with pytest.raises(UsageError, match="--name newest: expected another name"):
        check_name("newest")


def test_a_case_that_an_end_lacks_is_refused_with_what_helps(tool: TestRepository, home: Home) -> None:
    tool.git("tag", "old")
    tool.commit("a second case", {"second.sh": "exit 1\n"})

    def refused(case: str, *words: str) -> str:
        asked = options("--good", "old", "--bad", "HEAD", "--case", case, *words)
        with pytest.raises(UsageError) as error:
            prepare(question_of(asked), home)
        return str(error.value)

    assert refused("cse.sh").endswith("found none: did you mean case.sh?")
    assert refused("second.sh").endswith("; name another end"), "nothing else would be left to be searched"
    sha = tool.commit("a change", {"f": "1"})
    advised = f"--overlay second.sh@{sha[:12]}"
    assert refused("second.sh").endswith(f"; lay it over every commit with {advised}")
    assert refused("case.sh", "--after", "second.sh").startswith("--after second.sh: ")
    words = ("--good", "old", "--bad", "HEAD", "--case", "second.sh", *advised.split())
    assert prepare(question_of(options(*words)), home).request.case == "second.sh"


def test_variables_of_a_question_are_said(tool: TestRepository, home: Home) -> None:
    words = ("--good", "HEAD~1", "--bad", "HEAD", "--case", "case.sh", "--env", "A={1}", "--env", "B=")
    plan = prepare(question_of(options(*words)), home)
    assert "every run of the case has A={1}, B=" in plan.notices
    command = question_of(options("--good", "a", "--bad", "b", "--env", "A=1", predicate=("true",)))
    assert command.stack.case.variables == {"A": "1"}


def test_changes_of_what_comes_before_a_case_are_seen_by_no_probe(tool: TestRepository, home: Home) -> None:
    tool.commit("other", {"other.sh": "exit 0\n"})
    (tool.path / "other.sh").write_text("exit 1\n")
    words = ("--good", "HEAD~2", "--bad", "HEAD", "--case", "case.sh", "--after", "other.sh")
    with pytest.raises(UserError, match=r"other\.sh: expected the case as committed, found changes"):
        prepare(question_of(options(*words)), home)
