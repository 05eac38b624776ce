"""The text of an issue, of every kind of bisection, and the command that repeats a search."""

import shlex

import pytest

from precision_bisect.bisect.commands.history import print_issue
from precision_bisect.bisect.report.issue import issue_text, search_command
from precision_bisect.store.vocabulary import Seeks
from tests.bisect.report.stored_bisection import StoredBisection, sha


def test_an_issue_has_a_title_a_culprit_what_is_seen_and_the_search(
    culprit: StoredBisection, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_issue(culprit.name, store=culprit.url) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == "# examples/softmax.py fails on a2a3sim since Subject of c5"
    assert lines[2] == f"Culprit: compiler {sha('c5')} by Ada Example, 2026-03-04"
    assert lines[4] == "Confidence: 99.93 % (99 % was asked)"
    assert text.index("## What is seen: mismatch") < text.index("## What is expected: pass")
    assert f"bisect-precision --stack example --good {sha('c0')} --bad {sha('c6')}" in text
    assert f"| bad | runtime | {sha('pinned')} |" in lines


def test_every_kind_of_bisection_has_one(any_kind: StoredBisection) -> None:
    with any_kind.sessions() as session:
        text = issue_text(session, any_kind.name)
    assert text.startswith("# ")
    assert "bisect-precision --stack example --" in text
    assert "\n\n\n\n" not in text


def test_a_name_that_is_not_there_is_an_error_line(
    culprit: StoredBisection, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_issue("gone", store=culprit.url) == 1
    assert "found none by the name gone" in capsys.readouterr().err


def test_the_search_is_repeated_as_it_was_asked(culprit: StoredBisection) -> None:
    request = culprit.request.model_copy(
        update={"seeks": Seeks.FIX, "first_parent": True, "repository": "runtime", "case": "a.py --rows 2"}
    )
    words = shlex.split(search_command(request))
    assert words[:5] == ["bisect-precision", "--stack", "example", "--repo", "runtime"]
    assert {"--find-fix", "--first-parent"} <= {*words}
    assert words[words.index("--case") + 1] == "a.py --rows 2"


def test_a_search_that_a_person_judges_is_repeated_with_one(culprit: StoredBisection) -> None:
    case = culprit.request.model_copy(update={"interactive": True, "bad_when": None, "case": "a.py"})
    words = shlex.split(search_command(case))
    assert words[-5:] == ["--interactive", "--case", "a.py", "--platform", case.platform]
    nothing = case.stack.case.model_copy(update={"command": ("true",)})
    alone = case.model_copy(
        update={"case": None, "runtime_dir": None, "stack": case.stack.model_copy(update={"case": nothing})}
    )
    assert shlex.split(search_command(alone))[-1] == "--interactive"
    assert alone.case_text == "what a person runs"
