"""What the command prints and where it writes, typed as a user does in a repository of his own."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from precision_bisect.bisect.cli import main
from precision_bisect.bisect.report.report_files import check_room, open_report_folder, report_folder
from precision_bisect.reduce.reduce_cli import main as reduce
from precision_bisect.runner.cli_options import GroupedCommand, OptionGroup, option_group
from precision_bisect.runner.compare.diff_cli import main as diff_tensors
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.bisections import BisectionJournal
from precision_bisect.store.database import migrate_and_read, sqlite_url
from precision_bisect.store.vocabulary import BisectionOutcome
from tests.conftest import TestRepository
from tests.support.program import PROGRAM, run_program
from tests.support.stores import new_store
from tests.support.trusted import write_trusted

ROOT = Path(__file__).parents[3]
CHECK = ("sh", "-c", "grep -q fine state")
ENDS = ("--good", "main~2", "--bad", "main")


@pytest.fixture
def repository(repository: TestRepository, monkeypatch: pytest.MonkeyPatch) -> TestRepository:
    """Three commits, of which the last is broken; the current folder is there."""
    for number, state in enumerate(("fine", "fine", "broken")):
        repository.commit(f"commit {number}", {"state": state, "n": str(number)})
    monkeypatch.chdir(repository.path)
    return repository


def environment(home: Home, **variables: str) -> dict[str, str]:
    return {**os.environ, "PRECISION_BISECT_HOME": str(home.state.parent), **variables}


def run(*words: str, home: Home, **variables: str) -> "subprocess.CompletedProcess[str]":
    return run_program(*words, environment=environment(home, **variables))


def run_anew(*words: str, home: Home, **variables: str) -> "subprocess.CompletedProcess[str]":
    """For variables that are read while modules are imported."""
    return subprocess.run(
        [*PROGRAM, *words], env=environment(home, **variables), capture_output=True, text=True, check=False
    )


def bisect(*words: str, home: Home, command: tuple[str, ...] = CHECK) -> "subprocess.CompletedProcess[str]":
    return run(*ENDS, *words, "--", *command, home=home)


@pytest.mark.parametrize(
    ("name", "program"), [("bisect-precision", main), ("reduce", reduce), ("diff-tensors", diff_tensors)]
)
def test_each_program_tells_its_version(name: str, program: Any) -> None:
    """Its subcommands too."""
    result = CliRunner().invoke(program, ["--version"], prog_name=name)
    assert result.output.startswith(f"{name}, version ")
    assert result.exit_code == 0
    for subcommand in getattr(program, "commands", ()):
        assert ", version " in CliRunner().invoke(program, [subcommand, "--version"]).output


@pytest.mark.parametrize(
    ("name", "program", "typed", "completed"),
    [
        ("bisect-precision", main, "--good", {"--good", "--good-when"}),
        ("bisect-precision", main, "ni", {"nightly"}),
        ("reduce", reduce, "--reference-", {"--reference-data", "--reference-python", "--reference-stack"}),
        ("diff-tensors", diff_tensors, "--comparator ratio-", {"ratio-allclose", "ratio-reldiff"}),
    ],
)
def test_a_shell_completes_what_is_typed(name: str, program: Any, typed: str, completed: set[str]) -> None:
    """By the variables that the documents name: the first is evaluated once, the second asked at each tab."""
    variable = f"_{name.upper().replace('-', '_')}_COMPLETE"
    assert variable in (ROOT / "docs/how-to/settings.md").read_text(encoding="utf-8")
    source = CliRunner().invoke(program, prog_name=name, env={variable: "bash_source"})
    assert f"complete -o nosort -F _{name.replace('-', '_')}_completion {name}" in source.output
    words = [name, *typed.split()]
    asked = {variable: "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    answers = CliRunner().invoke(program, prog_name=name, env=asked).output.splitlines()
    assert {answer.rpartition(",")[2] for answer in answers} == completed


def completed(program: Any, *words: str, **variables: str) -> list[str]:
    """What a shell is answered that asks to complete the last word."""
    name = {main: "bisect-precision", reduce: "reduce"}[program]
    asked = {
        f"_{name.upper().replace('-', '_')}_COMPLETE": "bash_complete",
        "COMP_WORDS": shlex.join([name, *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = CliRunner().invoke(program, prog_name=name, env={**asked, **variables})
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def names(home: Home, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A store of bisections that found one, and were stopped; both left builds to compare. The newest is first."""
    monkeypatch.setenv("PRECISION_BISECT_HOME", str(home.state.parent))
    sessions = new_store(home.store)
    for age, (name, outcome) in enumerate([("early", "culprit"), ("stopped", "budget"), ("late", None)]):
        journal = BisectionJournal.begin(
            sessions, name=name, repository="tool", good="a", bad="b", request={}
        )
        if outcome is not None:
            journal.conclude(BisectionOutcome(outcome), {})
        file = home.compared_builds_file(name)
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (age, age))
    return ["late", "stopped", "early"]


def test_a_shell_completes_the_names_of_bisections_the_newest_first(
    names: list[str], home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = [f"plain,{name}" for name in names]
    for words in (["history"], ["report"], ["report", "--issue"], ["--store", "x", "report"]):
        assert completed(main, *words, "") == everything
    assert completed(main, "report", "st") == ["plain,stopped"]
    assert completed(main, "--resume", "") == ["plain,late", "plain,stopped"]
    assert completed(reduce, "--bisection", "") == everything
    elsewhere = tmp_path / "elsewhere"
    kept = {"PRECISION_BISECT_STORE": sqlite_url(home.store), "PRECISION_BISECT_HOME": str(elsewhere)}
    assert completed(main, "history", "", **kept) == everything
    assert (
        completed(main, "history", "--store", sqlite_url(home.store), "", PRECISION_BISECT_HOME="")
        == everything
    )
    write_trusted(tmp_path / "precision-bisect.toml", f"store = '{sqlite_url(home.store)}'\n", elsewhere)
    monkeypatch.chdir(tmp_path)
    assert completed(main, "history", "", PRECISION_BISECT_HOME=str(elsewhere)) == everything
    assert not (elsewhere / "state" / "store.sqlite").exists()


@pytest.mark.parametrize("url", ["postgresql://host/name", "nonsense", "sqlite:////proc/none.db"])
def test_a_shell_is_not_disturbed_where_no_name_can_be_had(names: list[str], home: Home, url: str) -> None:
    assert completed(main, "history", "", PRECISION_BISECT_STORE=url) == []
    home.store.write_text("no database")
    assert completed(main, "history", "") == []
    assert completed(reduce, "--bisection", "", PRECISION_BISECT_HOME="/proc") == []


@pytest.mark.parametrize("program", [main, reduce])
def test_a_shell_completes_stacks_by_name_and_files(program: Any) -> None:
    assert completed(program, "--stack", "py") == ["plain,pypto", "plain,pypto-ptoas"]
    assert completed(program, "--stack", "./s") == ["file,./s"]


@pytest.mark.parametrize("program", [main, reduce])
def test_every_option_stands_in_a_group(program: GroupedCommand) -> None:
    ungrouped = [each.name for each in program.params if option_group(each) is OptionGroup.OTHER]  # pyright: ignore[reportArgumentType]
    assert set(ungrouped) <= {"version", "failing_build"}
    lines = CliRunner().invoke(program, ["-h"]).output.splitlines()
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles[:6] == ["Question:", "Stack:", "Search:", "Resources:", "Output:", "Other options:"]


@pytest.mark.long
def test_json_and_nothing_else_on_standard_output(repository: TestRepository, home: Home) -> None:
    done = bisect("--json", "-q", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    (culprit,) = report["culprits"]
    assert culprit["commit"] == repository.git("rev-parse", "main")
    (listed,) = json.loads(run("history", "--json", home=home).stdout)
    assert (listed["outcome"], listed["case"]) == ("culprit", "sh -c 'grep -q fine state'")
    assert json.loads(run("history", "--json", report["name"], home=home).stdout) == report
    plan = json.loads(bisect("--json", "--dry-run", home=home).stdout)
    assert (plan["commits"], plan["case"]) == (2, "sh -c 'grep -q fine state'")


def test_an_output_that_cannot_hold_a_letter_gets_it_escaped(repository: TestRepository, home: Home) -> None:
    subject = "größer 😀"
    repository.commit(subject, {"state": "worse"})
    program = Path(sys.executable).with_name("bisect-precision")
    words = ("--good", "main~2", "--bad", "main", "--json", "--", "sh", "-c", "! grep -q worse state")
    shell = environment(home, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    done = subprocess.run([program, *words], env=shell, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["culprits"][0]["subject"] == subject


@pytest.mark.long
def test_ends_that_do_not_differ_are_json_too(repository: TestRepository, home: Home) -> None:
    done = bisect("--json", home=home, command=("true",))
    assert done.returncode == 4
    assert json.loads(done.stdout)["outcome"] == "ends_do_not_differ"


def test_quiet_prints_the_answer_in_one_line(repository: TestRepository, home: Home) -> None:
    done = bisect("-q", "-o", "out", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    found, place = done.stdout.rstrip("\n").split(" (", 1)
    culprit = f"repository {repository.git('rev-parse', 'main')} commit 2"
    assert found == f"culprit found, with a caveat: {culprit}"
    report = re.escape(str(repository.path / "out" / "report.md"))
    assert re.search(rf" %\); \d+ runs of \d+ commits in \d+ s; see {report}$", place)
    assert (
        "| but | its output does not distinguish this failure"
        in (repository.path / "out" / "report.md").read_text()
    )
    assert "culprit found, with a caveat: repository" in run("history", home=home).stdout


def test_an_empty_history_is_an_empty_list(home: Home) -> None:
    assert json.loads(run("history", "--json", home=home).stdout) == []


@pytest.mark.parametrize("words", [["history"], ["history", "--json"], ["report", "some"]])
def test_a_home_that_is_no_folder_has_no_history(home: Home, tmp_path: Path, words: list[str]) -> None:
    """Nothing was ever kept there, nor can be."""
    (tmp_path / "file").touch()
    inside = tmp_path / "file"
    done = run(*words, home=Home(cache=inside / "cache", state=inside / "state"))
    (line,) = done.stderr.splitlines()
    printed = json.loads(done.stdout)["error"]["message"] if "--json" in words else done.stdout
    assert (done.returncode, printed) == (1, line.removeprefix("error: ") if "--json" in words else "")
    assert line.startswith("error: expected a place for a store at ")
    assert f"found {inside}, which is not a folder; " in line


@pytest.mark.long
def test_doctor_looks_at_the_checkout_it_is_in(
    repository: TestRepository, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.path / "sub").mkdir()
    monkeypatch.chdir(repository.path / "sub")
    found = json.loads(run("doctor", "--json", home=home).stdout)
    assert {"state": "ok", "subject": "git"}.items() <= found[0].items()
    (checkout,) = [each for each in found if each["subject"] == "repository repository"]
    assert str(repository.path) in checkout["found"]
    assert run("doctor", "-q", home=home).stdout.strip() == ""
    monkeypatch.chdir(home.state.parent.parent)
    outside = run("doctor", home=home)
    assert outside.returncode == 2
    assert "found none around" in outside.stderr


@pytest.mark.long
def test_a_machine_without_git(repository: TestRepository, home: Home) -> None:
    """Neither with no program at all on PATH, nor with all but git."""
    programs = home.state.parent / "bin"
    programs.mkdir(parents=True)
    (programs / "env").symlink_to(shutil.which("env") or "")
    for path in (str(programs), "/nonexistent"):
        for words in (["doctor"], ["--good", "main~2", "--bad", "main", "--", *CHECK]):
            done = run_anew(*words, home=home, PATH=path)
            assert done.returncode == 1
            assert done.stderr == "error: expected git on PATH, found none; install it\n"


def test_reports_lie_in_one_folder_and_do_not_change_the_checkout(
    repository: TestRepository, home: Home
) -> None:
    """Of one that was refused nothing is left."""
    before = {*repository.path.iterdir()}
    (home.state / "store.sqlite").mkdir(parents=True)
    assert bisect(home=home).returncode == 1
    assert {*repository.path.iterdir()} == before
    (home.state / "store.sqlite").rmdir()
    reports = repository.path / "bisect-precision-reports"
    for name in ("first", "second"):
        done = bisect("--name", name, home=home)
        assert done.returncode == 0, done.stderr
        assert "uncommitted" not in done.stderr + done.stdout
        assert (reports / "newest").readlink() == Path(name)
        assert json.loads((reports / name / "report.json").read_text())["name"] == name
    assert {*repository.path.iterdir()} == {*before, reports}
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.long
def test_a_home_inside_of_the_checkout_does_not_change_it(
    repository: TestRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that was there, with files of the user's."""
    inside = repository.path / "tools"
    repository.commit("tools", {"tools/own": "mine"})
    monkeypatch.setenv("PRECISION_BISECT_HOME", str(inside))
    for _ in range(2):
        done = bisect(home=Home(cache=inside / "cache", state=inside / "state"))
        assert done.returncode == 0
        assert "uncommitted" not in done.stderr
    assert (inside / "state" / "store.sqlite").is_file()
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.long
def test_a_folder_of_the_user_s_stays_as_it_is_to_git(repository: TestRepository, home: Home) -> None:
    (repository.path / "notes").mkdir()
    (repository.path / "notes" / "own.txt").write_text("mine")
    assert bisect("-o", "notes", home=home).returncode == 0
    assert repository.git("status", "--porcelain") == "?? notes/"


@pytest.mark.long
def test_where_nothing_can_be_written_is_said_before_the_first_run(
    repository: TestRepository, home: Home
) -> None:
    (repository.path / "taken").write_text("a file")
    for output in ("taken", "taken/below"):
        done = bisect("-o", output, home=home, command=("touch", str(home.state.parent / "ran")))
        assert done.returncode == 1
        assert "name another one with -o" in done.stderr
        assert "run 1" not in done.stderr
        planned = bisect("-o", output, "--dry-run", home=home)
        assert (planned.returncode, planned.stdout) == (1, "")
        assert "name another one with -o" in planned.stderr
    assert not (home.state.parent / "ran").exists()
    assert not home.store.exists()


def test_a_full_disk_is_said_before_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precision_bisect.bisect.report.report_files.MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(UserError, match=r"MiB of room, found .* name another folder with -o"):
        open_report_folder(tmp_path / "new" / "folder")
    with pytest.raises(UserError, match=rf"{tmp_path}: expected .* free some, or else"):
        check_room(tmp_path / "none" / "yet", remedy="else")


def test_a_folder_in_which_no_file_can_be_made_is_told_by_a_plan_too(
    repository: TestRepository, home: Home
) -> None:
    """/proc lets root write, and has no files."""
    for words in (["-o", "/proc/report"], ["--store", "sqlite:////proc/x.sqlite"]):
        for more in (["--dry-run"], []):
            done = bisect(*words, *more, home=home)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith("error: ")
            assert f"name another one with {words[0]}" in done.stderr


def no_room_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of this folder alone is full."""
    usage = shutil.disk_usage

    def told(path: Path) -> Any:
        found = usage(path)
        return found._replace(free=0) if path.is_relative_to(folder) else found

    monkeypatch.setattr("precision_bisect.bisect.report.report_files.shutil.disk_usage", told)


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
@pytest.mark.parametrize("full", ["report", "store", "home"])
def test_no_room_for_a_result_is_said_before_the_first_run(
    repository: TestRepository,
    home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    full: str,
    more: list[str],
) -> None:
    for name in ("report", "store", "home"):
        (tmp_path / name).mkdir(exist_ok=True)
    monkeypatch.setenv("PRECISION_BISECT_HOME", str(tmp_path / "home"))
    no_room_at(tmp_path / full, monkeypatch)
    places = ["-o", str(tmp_path / "report"), "--store", sqlite_url(tmp_path / "store" / "x.sqlite")]
    ran = ["touch", str(tmp_path / "ran")]
    done = CliRunner().invoke(main, [*ENDS, *places, *more, "--", *ran])
    mend = {"report": "with -o", "store": "with --store", "home": "set PRECISION_BISECT_HOME"}[full]
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {tmp_path / full}")
    assert ": expected 64 MiB of room, found 0 MiB; free some, or " in done.stderr
    assert mend in done.stderr
    assert not (tmp_path / "ran").exists()


def test_two_bisections_at_once_do_not_write_to_one_folder(repository: TestRepository, home: Home) -> None:
    with report_folder(repository.path / "out"):
        refused = bisect("-o", "out", home=home)
    assert refused.returncode == 1
    assert (
        "found a bisection at work that will write its own there; name another one with -o" in refused.stderr
    )
    assert "run 1" not in refused.stderr
    assert bisect("-o", "out", home=home).returncode == 0


def test_the_culprit_is_printed_whatever_happens_to_the_report(
    repository: TestRepository, home: Home, tmp_path: Path
) -> None:
    """The command itself puts a file in the report's place."""
    output = tmp_path / "out"
    spoiled = ("sh", "-c", f"rm -rf {output}; touch {output}; grep -q fine state")
    done = bisect("-o", str(output), home=home, command=spoiled)
    assert done.returncode == 1
    assert f"error: {output}: " in done.stderr
    assert repository.git("rev-parse", "main") in done.stdout
    with migrate_and_read(sqlite_url(home.store))() as session:
        assert session.connection().exec_driver_sql("SELECT outcome FROM bisections").scalar() == "culprit"


@pytest.mark.long
def test_the_culprit_is_printed_where_the_store_does_not_take_it(
    repository: TestRepository, home: Home, tmp_path: Path
) -> None:
    """From some run on the store can be read and not written: a trigger stands for a full disk."""
    trigger = "CREATE TRIGGER full BEFORE UPDATE OF outcome ON bisections BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    script = tmp_path / "fill.py"
    script.write_text(
        f"import sqlite3\nwith sqlite3.connect({str(home.store)!r}) as store:\n"
        f"    store.execute({trigger.replace('TRIGGER', 'TRIGGER IF NOT EXISTS')!r})\n"
    )
    spoiled = ("sh", "-c", f"{sys.executable} {script}; grep -q fine state")
    done = bisect(home=home, command=spoiled)
    assert done.returncode == 1
    assert f"culprit repository {repository.git('rev-parse', 'main')}" in done.stdout
    assert "disk full" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("instead", [None, "another store"])
def test_the_culprit_is_printed_where_the_store_is_removed(
    repository: TestRepository, home: Home, tmp_path: Path, instead: str | None
) -> None:
    """SQLite goes on with a file that has no name any more, and nobody would read it again."""
    put = "" if instead is None else f"echo {instead} > {home.store};"
    spoiled = ("sh", "-c", f"rm -f {home.store}; {put} grep -q fine state")
    done = bisect("-q", home=home, command=spoiled)
    assert done.returncode == 1
    assert f"repository {repository.git('rev-parse', 'main')}" in done.stdout
    (line,) = done.stderr.splitlines()
    found = "none" if instead is None else "another one"
    assert line.startswith(f"error: {home.store}: expected the store that was opened there, found {found}: ")


def test_the_history_says_why_a_bisection_has_not_ended(repository: TestRepository, home: Home) -> None:
    done = bisect("--name", "stopped", "--crash", "stop", home=home, command=("sh", "-c", "exit 200"))
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    (listed,) = run("history", home=home).stdout.splitlines()[1::2]
    assert listed == f"stopped  not finished: {error.removeprefix('error: ')}"
    assert (
        f"{error.removeprefix('error: ')}; 0 runs so far; go on with "
        in run("history", "stopped", home=home).stdout
    )


def test_no_line_goes_on_with_a_bisection_whose_store_is_removed(
    repository: TestRepository, home: Home
) -> None:
    spoiled = ("sh", "-c", f"rm -f {home.store}; grep -q fine state")
    done = bisect(home=home, command=spoiled)
    assert done.returncode == 1
    assert "--resume" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert line.startswith(f"error: {home.store}: expected the store that was opened there, found none: ")


@pytest.mark.long
def test_the_line_that_repeats_a_search_does_so_from_anywhere(
    repository: TestRepository, home: Home, tmp_path: Path
) -> None:
    """With the ends as they were, and no variable of this shell."""
    assert bisect("-q", "--json", home=home).returncode == 0
    (listed,) = json.loads(run("history", "--json", home=home).stdout)
    report = json.loads(run("report", listed["name"], "--json", home=home).stdout)
    shown = run("history", listed["name"], home=home).stdout.splitlines()
    line = shown[shown.index("to search again") + 1]
    assert line == report["repeat"]
    culprit = repository.git("rev-parse", "main")
    repository.commit("mended", {"state": "fine"})
    bare = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        line, shell=True, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["culprits"][0]["commit"] == culprit
    assert len(json.loads(run("history", "--json", home=home).stdout)) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([*ENDS, "--repo", "zz", "--", "true"], "error: --repo zz: expected one of repository"),
        ([*ENDS, "--stack", "demo", "--case", "a.py"], "make it with: bisect-precision demo DIR, then name --stack"),
        (["doctor", "--stack", "demo"], "make it with: bisect-precision demo DIR, then name --stack"),
        ([*ENDS, "--stack", "wrong.toml", "--case", "a.py"], "wrong.toml: serched: unknown key: did you mean"),
        ([*ENDS, "--stack", "typed.toml", "--case", "a.py"], "typed.toml: searched: expected a text, found 3"),
        (["nightly", "wrong.toml"], "wrong.toml: serched: unknown key"),
        (["nightly", "gone.toml"], "gone.toml: expected a readable nightly file: No such file"),
        (["--resume", "gone"], "--resume gone: expected a bisection in the store, found none"),
        (["report", "gone", "--issue"], "expected a store at sqlite:///"),
        (["report", "--html", "/proc/pages"], "expected a "),
        (["demo", "/proc/stack"], "error: /proc/stack: expected a place for the stack, found /proc, "),
        ([*ENDS, "--store", "x.db", "--dry-run", "--", "true"], "found 'x.db'; for a file write sqlite:////"),
        ([*ENDS, "--store", "mysql://host", "--dry-run", "--", "true"], "SQLite or PostgreSQL, "),
        ([*ENDS, "--store", "postgresql://host:port", "--dry-run", "--", "true"], "'port'"),
        ([*ENDS, "--env", "A", "--", "true"], "--env A: expected NAME=VALUE"),
        ([*ENDS, "--notify", " ", "--", "true"], "--notify: expected a command, found nothing"),
        (["--replay", "gone.log", "--", "true"], "--replay gone.log: expected a file of git bisect log"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_in_words(
    repository: TestRepository, home: Home, words: list[str], says: str
) -> None:
    Path("wrong.toml").write_text('serched = "tool"\n')
    Path("typed.toml").write_text('name = "x"\nsearched = 3\n')
    done = run(*words, home=home)
    assert done.returncode in (1, 2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert says in line
    assert not [
        foreign
        for foreign in ("Traceback", "validation error", "Input should", "{", "pydantic")
        if foreign in line
    ]


def test_an_empty_variable_is_told_as_an_option_without_a_value(
    repository: TestRepository, home: Home
) -> None:
    for typed, found in (
        ("--good $EMPTY --bad main", "the option --bad in its place"),
        ('--good "$EMPTY" --bad main', "nothing"),
    ):
        line = f"{shlex.join(PROGRAM)} {typed} -- true"
        done = subprocess.run(
            ["sh", "-c", line], env=environment(home), capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (
            2,
            f"error: --good is empty: expected REV|DATE behind it, found {found}\n",
        )


@pytest.mark.long
def test_nothing_is_written_outside_of_the_home(
    repository: TestRepository, home: Home, tmp_path: Path
) -> None:
    """Neither by a bisection nor by the compiled loops of a comparison."""
    user, cache = tmp_path / "user", home.state.parent
    user.mkdir()
    variables = {"HOME": str(user), "XDG_CACHE_HOME": "", "XDG_STATE_HOME": "", "NUMBA_CACHE_DIR": ""}
    words = ("--good", "main~2", "--bad", "main", "-o", str(tmp_path / "out"), "--", *CHECK)
    assert run_anew(*words, home=home, **variables).returncode == 0
    loop = (
        "import numpy as np\n"
        "from precision_bisect.runner.compare.statistics import Tolerance, measure\n"
        "from precision_bisect.runner.tensor import DType, TensorView\n"
        "view = TensorView.from_contiguous('t', DType.FLOAT32, (3,), np.ones(3, np.float32))\n"
        "measure(view, view, Tolerance())"
    )
    subprocess.run([sys.executable, "-c", loop], env=environment(home, **variables), check=True)
    assert list(user.rglob("*")) == []
    assert list(cache.glob("cache/kernels-*"))


def test_a_link_in_place_of_the_reports_folder_is_refused(
    repository: TestRepository, home: Home, tmp_path: Path
) -> None:
    """A commit can hold one, so that a checkout leads reports to any place."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (repository.path / "bisect-precision-reports").symlink_to(elsewhere)
    refused = bisect(home=home)
    assert refused.returncode == 2
    assert "expected a folder for reports, found a link to" in refused.stderr
    assert not list(elsewhere.iterdir())
    assert bisect("--output", str(tmp_path / "report"), home=home).returncode == 0


@pytest.mark.parametrize("name", ["report.md", "bisect.log"])
def test_files_of_others_are_not_replaced_by_a_report(
    repository: TestRepository, home: Home, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / name).write_text("precious")
    refused = bisect("-o", str(folder), home=home)
    assert refused.returncode == 1
    assert f"found {name} without report.json" in refused.stderr
    assert (folder / name).read_text() == "precious"
    (folder / name).unlink()
    assert bisect("-o", str(folder), home=home).returncode == 0
    assert bisect("-o", str(folder), home=home).returncode == 0


@pytest.mark.parametrize("empty", [True, False])
def test_a_parent_that_changes_nothing_is_a_caveat(
    repository: TestRepository, home: Home, *, empty: bool
) -> None:
    """The command may ask git at which commit it is, and was run at the first commit of that content alone."""
    for number in range(6):
        changes = {} if empty and number == 2 else {"n": f"later {number}"}
        repository.commit(f"later {number}", changes)
    check = ("sh", "-c", "[ $(git rev-list --count HEAD) -lt 7 ] || { echo too new; exit 1; }")
    found = run("-q", "-o", "out", "--good", "main~6", "--bad", "main", "--", *check, home=home)
    assert found.returncode == 0, found.stderr
    report = (repository.path / "out" / "report.md").read_text()
    assert ("changes no file that counts and was not run" in report) == empty


def test_a_parent_that_was_run_is_no_caveat(repository: TestRepository, home: Home) -> None:
    """It touches none of the searched paths, so that another commit stands for it in the search."""
    good = repository.commit("good", {"src": "0", "docs": "0"})
    repository.commit("parent", {"docs": "1"})
    culprit = repository.commit("breaks", {"src": "1"})
    check = ("sh", "-c", "grep 0 src || { echo no zero; exit 1; }")
    found = run("-q", "-o", "out", "--good", good, "--bad", "main", "--path", "src", "--", *check, home=home)
    assert found.returncode == 0, found.stderr
    report = (repository.path / "out" / "report.md").read_text()
    assert f"| commit | {culprit} |" in report
    assert "was not run, because it equals" not in report
