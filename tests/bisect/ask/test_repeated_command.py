"""The command that repeats a search."""

import pytest

from precision_bisect.bisect.ask.question import repeat_command, replace_commit_names

ENDS = {"main": "b" * 40, "@{2 weeks ago}": "a" * 40}
HELD = {"--good": ENDS, "--bad": ENDS, "--skip": {"main~3..main": f"{'c' * 40}..{'b' * 40}"}}


def test_ends_are_held_and_the_rest_is_as_it_was_typed() -> None:
    words = ("--good", "@{2 weeks ago}", "--bad=main", "--case", "main", "--", "sh", "--bad", "main")
    assert replace_commit_names(words, HELD) == (
        "--good", "a" * 40, f"--bad={'b' * 40}", "--case", "main", "--", "sh", "--bad", "main",
    )  # fmt: skip


def test_what_is_skipped_is_held_too() -> None:
    words = ("--skip", "main~3..main", "--skip=main~3..main", "--path", "main~3..main")
    held = f"{'c' * 40}..{'b' * 40}"
    assert replace_commit_names(words, HELD) == ("--skip", held, f"--skip={held}", "--path", "main~3..main")


def test_the_name_is_not_given_twice() -> None:
    words = ("--name", "mine", "--bad", "b", "--name=other", "--", "sh", "--name", "x")
    assert replace_commit_names(words, {}) == ("--bad", "b", "--", "sh", "--name", "x")


def test_a_password_is_not_kept() -> None:
    words = ("--store", "postgresql://me:secret@host/db", "--store=sqlite:///x", "--store", "what")
    assert replace_commit_names(words, {}) == (
        "--store", "postgresql://me:***@host/db", "--store=sqlite:///x", "--store", "what",
    )  # fmt: skip


def test_a_line_for_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRECISION_BISECT_HOME", raising=False)
    line = repeat_command("/a folder", ("--bad", "b", "--", "sh", "-c", "exit $X"))
    assert line == "cd '/a folder' && bisect-precision --bad b -- sh -c 'exit $X'"


def test_a_line_for_a_shell_names_the_home_that_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECISION_BISECT_HOME", "/a home")
    assert repeat_command("/a", ("--bad", "b")) == (
        "cd /a && PRECISION_BISECT_HOME='/a home' bisect-precision --bad b"
    )
