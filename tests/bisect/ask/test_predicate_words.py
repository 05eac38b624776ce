"""A command as it was typed in a checkout, and what a worktree of another commit runs for it."""

import sys
from pathlib import Path, PurePosixPath

import pytest

from precision_bisect.bisect.ask.predicate import Predicate, predicate_stack
from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.stack import fill
from tests.conftest import TestRepository


@pytest.fixture
def checkout(tmp_path: Path) -> TestRepository:
    """A checkout with tracked scripts, scripts of the user's, and a script beside it."""
    repository = TestRepository(tmp_path / "checkout")
    repository.commit("scripts", {"check.sh": "exit 0\n", "sub/own.sh": "exit 0\n", "sub/data/x": "1\n"})
    (repository.path / "mine.sh").write_text("exit 0\n")
    (repository.path / "sub" / "mine.sh").write_text("exit 0\n")
    (repository.path / "build").mkdir()
    (repository.path / "build" / "made").write_text("")
    (tmp_path / "beside.sh").write_text("exit 0\n")
    return repository


def typed(checkout: TestRepository, folder: str, *words: str) -> tuple[tuple[str, ...], str]:
    predicate = Predicate.from_words(words, here=checkout.path / folder, checkout=checkout.path)
    return predicate.words, str(predicate.folder)


def test_what_git_tracks_is_the_commit_s_own(checkout: TestRepository) -> None:
    """In the folder where it was typed, by a relative path, whatever was typed."""
    root = str(checkout.path)
    assert typed(checkout, ".", "./check.sh", "a/b") == (("./check.sh", "a/b"), ".")
    assert typed(checkout, "sub", "./own.sh") == (("./own.sh",), "sub")
    assert typed(checkout, "sub", "../check.sh") == (("../check.sh",), "sub")
    assert typed(checkout, ".", f"{root}/check.sh") == (("./check.sh",), ".")
    assert typed(checkout, "sub", f"{root}/check.sh") == (("../check.sh",), "sub")
    assert typed(checkout, ".", "make", "-C", f"{root}/sub") == (("make", "-C", "sub"), ".")
    assert typed(checkout, "sub", "sh", "own.sh") == (("sh", "own.sh"), "sub")


def test_the_user_s_own_scripts_are_named_in_full(checkout: TestRepository) -> None:
    root, beside = str(checkout.path), str(checkout.path.parent / "beside.sh")
    assert typed(checkout, ".", "./mine.sh", "x") == ((f"{root}/mine.sh", "x"), ".")
    assert typed(checkout, "sub", "./mine.sh") == ((f"{root}/sub/mine.sh",), "sub")
    assert typed(checkout, ".", "sh", "-e", "mine.sh") == (("sh", "-e", f"{root}/mine.sh"), ".")
    assert typed(checkout, ".", "sh", "-c", "./mine.sh") == (("sh", "-c", f"{root}/mine.sh"), ".")
    assert typed(checkout, ".", "../beside.sh") == ((beside,), ".")
    assert typed(checkout, ".", beside) == ((beside,), ".")
    assert typed(checkout, ".", "python3", "../beside.sh", "s/x/y") == (("python3", beside, "s/x/y"), ".")


def test_what_leads_out_of_the_repository_is_the_user_s_own_before_it_is_there(
    checkout: TestRepository,
) -> None:
    gone = str(checkout.path.parent / "gone.sh")
    assert typed(checkout, ".", "../gone.sh") == ((gone,), ".")
    assert typed(checkout, "sub", "env", "A=1", "../../gone.sh") == (("env", "A=1", gone), "sub")
    for code in (("sh", "-ec", "../gone.sh 1"), ("perl", "-e", "/x/"), ("python3", "-c", "a/b")):
        assert typed(checkout, ".", *code) == (code, ".")
        Predicate(words=code, folder=PurePosixPath()).check_runnable()


def test_a_file_of_the_user_s_that_cannot_be_run_is_refused(checkout: TestRepository) -> None:
    """An interpreter's script needs no x bit."""
    beside, gone = str(checkout.path.parent / "beside.sh"), str(checkout.path.parent / "gone.sh")
    for words, message in (
        ((gone,), f"-- {gone}: expected a file to run, found none"),
        (("sh", "-e", gone), f"-- {gone}: expected a file to run, found none"),
        ((beside,), f"-- {beside}: expected a file that may be executed"),
        ((str(checkout.path.parent),), "expected a file to run, found a folder"),
    ):
        with pytest.raises(UsageError, match=message):
            Predicate(words=words, folder=PurePosixPath()).check_runnable()
    Predicate(words=("sh", beside), folder=PurePosixPath()).check_runnable()
    Predicate(words=(sys.executable,), folder=PurePosixPath()).check_runnable()
    Predicate(words=("./gone.sh",), folder=PurePosixPath()).check_runnable()


def test_a_misspelt_program_or_script_is_told_with_the_nearest_name(
    checkout: TestRepository, tmp_path: Path
) -> None:
    """Behind a program that runs it, too; what another PATH has is not known."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("timeout", "env", "cargo"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)

    def check(*words: str) -> None:
        Predicate(words=words, folder=PurePosixPath()).check_runnable(search_path=str(programs))

    for words in (("crgo", "test"), ("timeout", "-s", "INT", "9", "crgo"), ("env", "-u", "A", "B=1", "crgo")):
        with pytest.raises(UsageError, match=r"^-- crgo: .* found none; did you mean cargo\?$"):
            check(*words)
    with pytest.raises(UsageError, match="found none; did you mean timeout"):
        check("timout", "9", "cargo")
    check("env", "PATH=/elsewhere", "crgo")
    beside = checkout.path.parent / "beside.sh"
    with pytest.raises(UsageError, match=rf"found none; did you mean {beside}\?$"):
        check("timeout", "9", str(beside.with_name("besyde.sh")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "exit 0\n",
            "a script whose first line is #! and its interpreter, found neither; name the interpreter: -- sh",
        ),
        ("", "found neither"),
        ("#!\n", "found neither"),
        ("#!/bin/sh\r\nexit 0\r\n", "expected lines that end as on this system, found CRLF line endings"),
        ("é = 1\n", "found neither"),
        ("\N{GRINNING FACE}" * 200, "found neither"),
        (
            "#!/nowhere/python3 -u\n",
            "expected the interpreter /nowhere/python3 that its first line names, found none",
        ),
        ("#!/bin/sh -e\n", None),
        ("#! /usr/bin/env python3\n", None),
        ("#!/bin/sh -e # é\n", None),
        ("\x7fELF\2\1\1\0\0", None),
    ],
)
def test_a_script_that_no_system_starts_is_refused(tmp_path: Path, text: str, message: str | None) -> None:
    script = tmp_path / "check.sh"
    script.write_bytes(text.encode())
    script.chmod(0o755)
    command = Predicate(words=(str(script),), folder=PurePosixPath())
    if message is None:
        command.check_runnable()
        return
    with pytest.raises(UsageError, match=message):
        command.check_runnable()


def run_words(checkout: TestRepository, *words: str) -> list[str]:
    """What is run of words that were typed in the root: the commits' own files, as a tree names them."""
    command = Predicate.from_words(words, here=checkout.path, checkout=checkout.path)
    command.check_runnable()
    return [str(file.path) for file in command.commit_files()]


@pytest.mark.parametrize(
    "words",
    [
        ("timeout", "--signal", "KILL", "10", "./check.sh"),
        ("timeout", "--sig=KILL", "-k5", "10", "./check.sh"),
        ("nice", "--adjustment", "5", "./check.sh"),
        ("nice", "-5", "./check.sh"),
        ("stdbuf", "--output", "L", "-eL", "./check.sh"),
        ("env", "-", "A=1", "./check.sh"),
        ("env", "-iu", "A", "--", "./check.sh"),
        ("perl", "-MCGI", "check.sh"),
        ("perl", "-p", "check.sh"),
        ("perl", "-I", "lib", "-i.bak", "check.sh"),
        ("ruby", "-rlogger", "-E", "UTF-8", "check.sh"),
        ("ruby", "--encoding", "UTF-8", "check.sh"),
        ("node", "--require", "x", "check.sh"),
        ("python3", "-Wc", "-X", "dev", "check.sh"),
        ("bash", "-eo", "pipefail", "+x", "check.sh"),
    ],
)
def test_the_script_behind_options_is_found(checkout: TestRepository, words: tuple[str, ...]) -> None:
    assert run_words(checkout, *words) == ["check.sh"]


@pytest.mark.parametrize(
    "words",
    [
        ("perl", "-lane", "print", "check.sh"),
        ("perl", "-MCGI", "-E", "check.sh"),
        ("ruby", "-ne", "check.sh"),
        ("node", "-pe", "check.sh"),
        ("node", "--eval=1", "check.sh"),
        ("python3", "-c1", "check.sh"),
        ("sh", "-ec", "./check.sh"),
        ("sh", "-", "check.sh"),
    ],
)
def test_code_is_no_script(checkout: TestRepository, words: tuple[str, ...]) -> None:
    assert run_words(checkout, *words) == []


def test_a_module_or_code_is_not_named_by_its_path(checkout: TestRepository) -> None:
    """Though a file has that name. A path alone is the same to a shell by its full name."""
    (checkout.path / "check").write_text("")
    spaced = checkout.path / "a b"
    spaced.mkdir()
    (spaced / "mine.sh").write_text("")
    for words in (("python3", "-m", "check"), ("perl", "-e", "../beside.sh"), ("sh", "-c", "check")):
        assert typed(checkout, ".", *words)[0] == words
    assert typed(checkout, ".", "sh", "-c", "a b/mine.sh")[0] == ("sh", "-c", f"'{spaced}/mine.sh'")


def test_env_changes_the_folder_of_what_it_runs(checkout: TestRepository) -> None:
    root, beside = str(checkout.path), str(checkout.path.parent / "beside.sh")
    for option in (("-C", "sub"), ("-Csub",), ("--chdir", "sub"), ("--chdir=sub",)):
        assert run_words(checkout, "env", *option, "sh", "own.sh") == ["sub/own.sh"]
    assert run_words(checkout, "env", "-C", "sub", "env", "-C", "..", "./check.sh") == ["check.sh"]
    assert typed(checkout, ".", "env", "-C", "sub", "./mine.sh", "../../beside.sh")[0] == (
        *("env", "-C", "sub", f"{root}/sub/mine.sh", beside),
    )
    assert typed(checkout, ".", "env", "-C", "sub", f"{root}/check.sh")[0][-1] == "../check.sh"


def test_a_test_of_a_file_is_named_with_its_file(checkout: TestRepository, tmp_path: Path) -> None:
    test = tmp_path / "test_x.py"
    test.write_text("")
    checkout.commit("test", {"test_y.py": ""})
    for runner in (("pytest",), ("python3", "-m", "pytest"), ("python3", "-mpytest")):
        command = Predicate(words=(*runner, f"{test}::test_a[1]"), folder=PurePosixPath())
        command.check_runnable()
        words = (*runner, "-q", "../test_x.py::test_a[a::b]", f"{checkout.path}/test_y.py::test_b")
        assert typed(checkout, ".", *words)[0][-2:] == (f"{test}::test_a[a::b]", "./test_y.py::test_b")
        assert run_words(checkout, *words) == ["test_y.py"]


def test_a_folder_that_cannot_be_listed_has_no_nearest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(folder)

    monkeypatch.setattr(Path, "iterdir", refuse)
    command = Predicate(words=("nosuchprogram",), folder=PurePosixPath())
    with pytest.raises(UsageError, match="expected a program in one of the folders of PATH, found none"):
        command.check_runnable(search_path=str(tmp_path))
    with pytest.raises(UsageError, match="expected a file to run, found none"):
        Predicate(words=(f"{tmp_path}/check.sh",), folder=PurePosixPath()).check_runnable()


def test_other_words_stay_as_they_were_typed(checkout: TestRepository) -> None:
    for words in (("make", "build/made"), ("sh", "-c", "make && ./mine.sh"), ("make", "mine.sh")):
        assert typed(checkout, ".", *words) == (words, ".")


def test_a_script_that_is_too_long_for_a_path_stays_as_it_was_typed(checkout: TestRepository) -> None:
    words = ("sh", "-c", "env | sort; " * 30)
    assert Predicate.from_words(words, here=checkout.path, checkout=checkout.path).words == words


def test_from_outside_of_the_checkout_it_runs_in_its_root(checkout: TestRepository) -> None:
    beside = str(checkout.path.parent / "beside.sh")
    assert typed(checkout, "..", "./beside.sh") == ((beside,), ".")
    inner = TestRepository(checkout.path / "sub" / "module")
    inner.commit("inner", {"a": "1"})
    assert typed(checkout, "sub/module", "true") == (("true",), ".")


def test_braces_are_no_placeholders(checkout: TestRepository) -> None:
    stack = predicate_stack(checkout.path)
    command = Predicate(words=("grep", "{python}"), folder=PurePosixPath("a{b}"))
    case = command.replace_case(stack, "checkout").case
    assert [fill(word, {}) for word in case.command] == ["grep", "{python}"]
    assert fill(case.cwd, {"checkout": "/slot/checkout"}) == "/slot/checkout/a{b}"


def test_a_name_of_one_s_own(checkout: TestRepository) -> None:
    assert list(predicate_stack(checkout.path).repositories) == ["checkout"]
    assert list(predicate_stack(checkout.path, name="other").repositories) == ["other"]


@pytest.mark.parametrize(
    ("folder", "name"),
    [("my repo", "my-repo"), ("tool.git", "tool"), ("проект", "repository"), ("python", "repository")],
)
def test_a_checkout_s_name_becomes_a_plain_one(tmp_path: Path, folder: str, name: str) -> None:
    """Not one that means something else in a stack file."""
    assert list(predicate_stack(tmp_path / folder).repositories) == [name]
