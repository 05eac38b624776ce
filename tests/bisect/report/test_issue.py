"""The text of an issue, of every kind of bisection, and the command that repeats a search."""

import shlex
from pathlib import Path

import pytest
from sqlalchemy import select

from precision_bisect.bisect.commands import print_issue
from precision_bisect.bisect.report.basis import load_rows
from precision_bisect.bisect.report.report_builder import make_report
from precision_bisect.bisect.report.report_files import issue_text, render_markdown, search_command
from precision_bisect.runner.overlays import CherryPick
from precision_bisect.runner.stack import Case
from precision_bisect.store.durable_files import write_document
from precision_bisect.store.tables import BisectionRow
from precision_bisect.store.vocabulary import Seeks
from tests.bisect.report.stored_bisection import StoredBisection, sha


def test_an_issue_has_a_title_a_culprit_what_is_seen_and_the_search(
    culprit: StoredBisection, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_issue(culprit.name, store=culprit.url) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == "# examples/softmax.py fails on a2a3sim since Subject of c5"
    assert lines[2] == f"Culprit: compiler {sha('c5')} by Ada Example, committed 2026-03-04"
    assert lines[4] == "Confidence: 99.93 % (99 % was asked)"
    assert text.index("## What is seen: mismatch") < text.index("## What is expected: pass")
    assert f"bisect-precision --stack stack.toml --good {sha('c0')} --bad {sha('c6')}" in text
    assert f"| bad | runtime | {sha('pinned')} |" in lines


def test_every_kind_of_bisection_has_one(any_kind: StoredBisection) -> None:
    with any_kind.sessions() as session:
        text = issue_text(session, any_kind.name)
    assert text.startswith("# ")
    assert "bisect-precision --stack stack.toml --" in text
    assert "\nThe search needs stack.toml. Only you have it: paste its text here.\n" in text
    assert "\n\n\n\n" not in text


def test_a_name_that_is_not_there_is_an_error_line(
    culprit: StoredBisection, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_issue("gone", store=culprit.url) == 1
    assert "found none by the name gone; see bisect-precision history" in capsys.readouterr().err
    assert print_issue(culprit.name[:-2], store=culprit.url) == 1
    assert f"by the name {culprit.name[:-2]}: did you mean {culprit.name}?" in capsys.readouterr().err
    assert print_issue(f"x{culprit.name[1:]}", store=culprit.url) == 1
    assert f"by the name x{culprit.name[1:]}: did you mean {culprit.name}?" in capsys.readouterr().err


def test_the_search_is_repeated_as_it_was_asked(culprit: StoredBisection) -> None:
    request = culprit.request.model_copy(
        update={"seeks": Seeks.FIX, "first_parent": True, "repository": "runtime", "case": "a.py --rows 2"}
    )
    words = shlex.split(search_command(request))
    assert words[:5] == ["bisect-precision", "--stack", "stack.toml", "--repo", "runtime"]
    assert {"--find-fix", "--first-parent"} <= {*words}
    for typed in (("--stack", "/home/me/own.toml", "--bad", "a=b"), ("-q", "--stack=../own.toml")):
        named = request.model_copy(update={"typed": typed})
        assert shlex.split(search_command(named))[1:3] == ["--stack", "own.toml"]
    assert words[words.index("--case") + 1] == "a.py --rows 2"
    limited = request.model_copy(
        update={
            "seeks": Seeks.REGRESSION,
            "also_old": (sha("also"),),
            "skip": (sha("c3"),),
            "paths": ("src", ""),
            "cherry_picks": (CherryPick(commit=sha("pick"), old=sha("c1"), new=sha("c2")),),
        }
    )
    text = search_command(limited)
    assert f"--good {sha('c0')} --good {sha('also')} --bad {sha('c6')}" in text
    assert f"--skip {sha('c3')} --path src --path . " in text
    assert f"--cherry-pick {sha('pick')}@{sha('c1')}..{sha('c2')}" in text
    assert "--good" not in search_command(request.model_copy(update={"gallop": True}))
    shipped = request.model_copy(update={"stack": request.stack.model_copy(update={"name": "pypto"})})
    assert shlex.split(search_command(shipped))[:3] == ["bisect-precision", "--stack", "pypto"]


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


def test_no_folder_of_this_machine_is_in_an_issue(culprit: StoredBisection) -> None:
    checkout = culprit.request.stack.repositories["compiler"].path
    kept = "/var/lib/me/state/bisections/20261124-0a1b/probes/0003/build"
    code = f"cat /var/me/slots/example-0a1b/0/compiler/a {kept}/b {Path.home()}/c {checkout}/d {checkout}-other/e"
    case = Case(repository="compiler", command=("sh", "-c", code), cwd="{compiler}", harness=False)
    stack = culprit.request.stack.model_copy(update={"case": case})
    request = culprit.request.model_copy(update={"stack": stack, "case": None, "runtime_dir": None})
    with culprit.sessions.begin() as session:
        session.scalars(select(BisectionRow)).one().request = write_document(request)
    with culprit.sessions() as session:
        text = issue_text(session, culprit.name)
    told = f"cat compiler/a probes/0003/build/b ~/c compiler/d {checkout}-other/e"
    assert text.count(told) == 1, text  # in the search; the title escapes what Markdown reads
    for private in ("/var/me", "/var/lib/me", f"{checkout}/"):
        assert private not in text


def test_a_script_of_one_s_own_is_shown_and_no_folder_of_one_s_own(
    culprit: StoredBisection, tmp_path: Path
) -> None:
    """Short ones whole; of a long one, and one that is gone, that it is to be put there."""
    short, long, gone = tmp_path / "check.sh", tmp_path / "long.sh", tmp_path / "gone.sh"
    short.write_text("test -f broken && exit 1\nexit 0\n")
    long.write_text("true\n" * 2000)
    command = ("/bin/sh", str(short), str(long), str(gone))
    case = Case(repository="compiler", command=command, cwd="{compiler}", harness=False)
    stack = culprit.request.stack.model_copy(update={"case": case})
    request = culprit.request.model_copy(update={"stack": stack, "case": None})
    with culprit.sessions.begin() as session:
        row = session.scalars(select(BisectionRow)).one()
        row.request = write_document(request)
    with culprit.sessions() as session:
        text = issue_text(session, culprit.name)
    assert text.startswith("# /bin/sh check.sh long.sh gone.sh fails on ")
    assert "-- /bin/sh ../check.sh ../long.sh ../gone.sh\n" in text
    assert (
        "check.sh, in the folder above the checkout, is:\n\n```text\ntest -f broken && exit 1\nexit 0\n```\n"
        in text
    )
    for name in ("long.sh", "gone.sh"):
        assert (
            f"The search needs {name} in the folder above the checkout. Only you have it: paste its text here."
            in text
        )
    assert text.count(", is:\n") == 1
    assert "\n\n\n\n" not in text


def test_what_is_to_be_copied_from_an_issue_is_whole(culprit: StoredBisection, tmp_path: Path) -> None:
    script, argument = tmp_path / "check.sh", "x" * 500
    script.write_text(f"test {argument} = y\n")
    case = Case(
        repository="compiler", command=("/bin/sh", str(script), argument), cwd="{compiler}", harness=False
    )
    stack = culprit.request.stack.model_copy(update={"case": case})
    request = culprit.request.model_copy(update={"stack": stack, "case": None})
    with culprit.sessions.begin() as session:
        session.scalars(select(BisectionRow)).one().request = write_document(request)
    with culprit.sessions() as session:
        text = issue_text(session, culprit.name)
    assert f"-- /bin/sh ../check.sh {argument}\n" in text
    assert f"\ntest {argument} = y\n" in text


def test_the_heading_can_be_pasted_as_a_title_and_the_body_links_no_number(culprit: StoredBisection) -> None:
    case = culprit.request.model_copy(update={"case": "a.py #30 @me"})
    with culprit.sessions.begin() as session:
        session.scalars(select(BisectionRow)).one().request = write_document(case)
    with culprit.sessions() as session:
        heading, _, body = issue_text(session, culprit.name).partition("\n")
        written = render_markdown(make_report(load_rows(session, culprit.name)))
    assert heading.startswith("# a.py #30 \\@&#8203;me fails on ")
    assert "#30" not in body.replace("'a.py #30 @me'", "")
    assert "| case | a.py #30 \\@&#8203;me |" in written
