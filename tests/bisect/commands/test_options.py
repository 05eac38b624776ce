"""Each option reaches its field, and no field is without an option."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from precision_bisect.bisect.bisect_command import resume_command
from precision_bisect.bisect.cli import (
    adapt,
    cancel,
    demo,
    doctor,
    explain,
    history,
    main,
    nightly,
    report,
    serve,
    status,
    submit,
    token,
    worker,
)
from precision_bisect.bisect.options import (
    AdaptOptions,
    BisectOptions,
    CancelOptions,
    DemoOptions,
    DoctorOptions,
    ExplainOptions,
    HistoryOptions,
    NightlyOptions,
    ReportOptions,
    ServeOptions,
    StatusOptions,
    SubmitOptions,
    TokenOptions,
    WorkerOptions,
)
from precision_bisect.demo.scenarios import Scenario
from precision_bisect.reduce.reduce_cli import main as reduce
from precision_bisect.runner.cli_options import STORE_VARIABLE
from precision_bisect.runner.compare.diff_cli import main as diff_tensors

OF_BISECT: list[tuple[str, list[str], Any]] = [
    ("good", ["--good", "v1", "--good", "v2"], ("v1", "v2")),
    ("interactive", ["--interactive"], True),
    ("path", ["--path", "src", "--path", "lib/a.c"], ("src", "lib/a.c")),
    ("replay", ["--replay", "bisect.log"], Path("bisect.log")),
    ("skip", ["--skip", "x", "--skip", "a..b"], ("x", "a..b")),
    ("bad", ["--bad", "main"], "main"),
    ("stack", ["--stack", "pypto"], "pypto"),
    ("repository", ["--repository", "a=x", "--repository", "b=y"], ("a=x", "b=y")),
    ("repo", ["--repo", "runtime"], "runtime"),
    ("freeze", ["--freeze", "ptoas"], ("ptoas",)),
    ("search", ["--search", "isa", "--search", "rt"], ("isa", "rt")),
    ("case", ["--case", "models/decode.py --rows 2"], "models/decode.py --rows 2"),
    ("overlay", ["--overlay", "a.py@main", "--overlay", "lib"], ("a.py@main", "lib")),
    ("adapt", ["--adapt", "a.toml", "--adapt", "b.toml"], (Path("a.toml"), Path("b.toml"))),
    ("env", ["--env", "A=1", "--env", "B="], ("A=1", "B=")),
    ("after", ["--after", "b.py", "--after", "a.py -x"], ("b.py", "a.py -x")),
    ("platform", ["-p", "a2a3"], "a2a3"),
    ("platform", ["--platform", "a5"], "a5"),
    ("device", ["-d", "3"], 3),
    ("device", ["--device", "4"], 4),
    ("bad_when", ["--bad-when", "stall"], "stall"),
    ("good_when", ["--good-when", "regex:ok"], "regex:ok"),
    ("crash", ["--crash", "bad"], "bad"),
    ("golden_data", ["--golden-data", "data"], Path("data")),
    ("runtime_dir", ["--runtime-dir", "build"], Path("build")),
    ("find_fix", ["--find-fix"], True),
    ("cherry_pick", ["--cherry-pick", "x@a..b"], ("x@a..b",)),
    ("first_parent", ["--first-parent"], True),
    ("timeout", ["--timeout", "2.5"], 2.5),
    ("timeout", ["--timeout", "5m"], 300.0),
    ("confidence", ["--confidence", "0.9"], 0.9),
    ("output", ["-o", "out"], Path("out")),
    ("output", ["--output", "out"], Path("out")),
    ("name", ["--name", "mine"], "mine"),
    ("store", ["--store", "sqlite:///x"], "sqlite:///x"),
    ("resume", ["--resume"], ""),
    ("resume", ["--resume", "a-name"], "a-name"),
    ("fresh", ["--fresh"], True),
    ("jobs", ["-j", "3"], 3),
    ("jobs", ["--jobs", "4"], 4),
    ("backend", ["--backend", "dask"], "dask"),
    ("build_store", ["--build-store", "s3://team/builds"], "s3://team/builds"),
    ("budget", ["--budget", "1.5h"], 5400.0),
    ("no_localize", ["--no-localize"], True),
    ("reduce", ["--reduce"], True),
    ("quiet", ["-q"], True),
    ("quiet", ["--quiet"], True),
    ("as_json", ["--json"], True),
    ("notify", ["--notify", "tell.sh now"], "tell.sh now"),
    ("dry_run", ["--dry-run"], True),
]
OF_SUBCOMMANDS: list[tuple[click.Command, type[Any], str, list[str], Any]] = [
    (demo, DemoOptions, "directory", ["d"], Path("d")),
    (demo, DemoOptions, "scenario", ["d", "--scenario", "tail"], "tail"),
    (demo, DemoOptions, "commits", ["d", "--commits", "25"], 25),
    (demo, DemoOptions, "seed", ["d", "--seed", "7"], 7),
    (demo, DemoOptions, "as_json", ["d", "--json"], True),
    (history, HistoryOptions, "as_json", ["--json"], True),
    (history, HistoryOptions, "name", ["x"], "x"),
    (history, HistoryOptions, "name", [], None),
    (history, HistoryOptions, "store", ["--store", "sqlite:///x"], "sqlite:///x"),
    (report, ReportOptions, "name", ["x"], "x"),
    (report, ReportOptions, "output", ["x", "-o", "out"], Path("out")),
    (report, ReportOptions, "html", ["--html", "pages"], Path("pages")),
    (report, ReportOptions, "issue", ["x", "--issue"], True),
    (report, ReportOptions, "as_json", ["x", "--json"], True),
    (report, ReportOptions, "store", ["x", "--store", "sqlite:///x"], "sqlite:///x"),
    (serve, ServeOptions, "host", ["--host", "::1"], "::1"),
    (serve, ServeOptions, "port", ["--port", "0"], 0),
    (serve, ServeOptions, "store", ["--store", "sqlite:///x"], "sqlite:///x"),
    (serve, ServeOptions, "work", ["--work"], True),
    (adapt, AdaptOptions, "revision", ["x"], "x"),
    (adapt, AdaptOptions, "repo", ["x", "--repo", "tool"], "tool"),
    (adapt, AdaptOptions, "stack", ["x", "--stack", "pypto"], "pypto"),
    (adapt, AdaptOptions, "repository", ["x", "--repository", "a=y"], ("a=y",)),
    (explain, ExplainOptions, "build", ["b"], Path("b")),
    (explain, ExplainOptions, "inputs", ["b", "--inputs", "in"], Path("in")),
    (explain, ExplainOptions, "expected", ["b", "--expected", "out"], Path("out")),
    (explain, ExplainOptions, "rtol", ["b", "--rtol", "0.01"], 0.01),
    (explain, ExplainOptions, "atol", ["b", "--atol", "0.02"], 0.02),
    (explain, ExplainOptions, "as_json", ["b", "--json"], True),
    (explain, ExplainOptions, "check", ["b", "--check"], True),
    (doctor, DoctorOptions, "stack", ["--stack", "pypto"], "pypto"),
    (doctor, DoctorOptions, "repository", ["--stack", "demo", "--repository", "a=x"], ("a=x",)),
    (doctor, DoctorOptions, "case", ["--stack", "demo", "--case", "a.py"], "a.py"),
    (doctor, DoctorOptions, "at", ["--stack", "demo", "--at", "v1", "--at", "main"], ("v1", "main")),
    (doctor, DoctorOptions, "quiet", ["-q"], True),
    (doctor, DoctorOptions, "as_json", ["--json"], True),
    (nightly, NightlyOptions, "quiet", ["n", "-q"], True),
    (nightly, NightlyOptions, "as_json", ["n", "--json"], True),
    (nightly, NightlyOptions, "file", ["night.toml"], Path("night.toml")),
    (nightly, NightlyOptions, "store", ["n", "--store", "sqlite:///x"], "sqlite:///x"),
    (nightly, NightlyOptions, "budget", ["n", "--budget", "90m"], 5400.0),
    (nightly, NightlyOptions, "jobs", ["n", "--jobs", "2"], 2),
    (nightly, NightlyOptions, "submit", ["n", "--submit"], True),
    (nightly, NightlyOptions, "keep", ["n", "--keep"], True),
    (nightly, NightlyOptions, "fail_on", ["n", "--fail-on", "new"], "new"),
    (submit, SubmitOptions, "words", ["--bad", "b", "-p", "x", "-j2"], ("--bad", "b", "-p", "x", "-j2")),
    (submit, SubmitOptions, "words", ["--bad=b", "--", "sh", "--json"], ("--bad=b", "--", "sh", "--json")),
    (submit, SubmitOptions, "priority", ["--bad", "b", "--priority", "3"], 3),
    (submit, SubmitOptions, "store", ["--store", "sqlite:///x"], "sqlite:///x"),
    (submit, SubmitOptions, "as_json", ["--bad", "b", "--json"], True),
    (status, StatusOptions, "number", ["7"], 7),
    (status, StatusOptions, "store", ["--store", "sqlite:///x"], "sqlite:///x"),
    (status, StatusOptions, "as_json", ["--json"], True),
    (cancel, CancelOptions, "number", ["7"], 7),
    (cancel, CancelOptions, "store", ["7", "--store", "sqlite:///x"], "sqlite:///x"),
    (status, StatusOptions, "follow", ["7", "-f"], True),
    (status, StatusOptions, "follow", ["7", "--follow"], True),
    (submit, SubmitOptions, "service", ["--service", "http://h", "--bad", "b"], "http://h"),
    (status, StatusOptions, "service", ["--service", "http://h"], "http://h"),
    (cancel, CancelOptions, "service", ["7", "--service", "http://h"], "http://h"),
    (token, TokenOptions, "user", ["ada"], "ada"),
    (token, TokenOptions, "revoke", ["ada", "--revoke"], True),
    (token, TokenOptions, "store", ["ada", "--store", "sqlite:///x"], "sqlite:///x"),
    (worker, WorkerOptions, "board", ["--board", "a2a3=0", "--board", "a2a3=1"], ("a2a3=0", "a2a3=1")),
    (worker, WorkerOptions, "quota", ["--quota", "2"], 2),
    (worker, WorkerOptions, "store", ["--store", "sqlite:///x"], "sqlite:///x"),
]


def parsed(command: click.Command, model: type[Any], words: list[str]) -> Any:
    return model(**command.make_context("command", list(words)).params)


@pytest.mark.parametrize(("field", "words", "value"), OF_BISECT)
def test_options_of_bisect(field: str, words: list[str], value: Any) -> None:
    assert getattr(parsed(main, BisectOptions, words), field) == value


@pytest.mark.parametrize(("command", "model", "field", "words", "value"), OF_SUBCOMMANDS)
def test_options_of_subcommands(
    command: click.Command, model: type[Any], field: str, words: list[str], value: Any
) -> None:
    assert getattr(parsed(command, model, words), field) == value


@pytest.mark.parametrize(
    "words",
    [
        ["--timeout", "nan"],
        ["--timeout", "inf"],
        ["--confidence", "nan"],
        ["--device", "-1"],
        ["--jobs", "0"],
        ["--jobs", "257"],
    ],
)
def test_what_is_no_number_of_the_range(words: list[str]) -> None:
    refusals = "|".join(
        ("expected a number", "expected a time such as 20m", "expected at most 256", "not in the range")
    )
    with pytest.raises(click.BadParameter, match=refusals):
        parsed(main, BisectOptions, words)


@pytest.mark.parametrize(
    "command",
    [main, *(each for each in main.commands.values() if each.name != "trust"), reduce, diff_tensors],
    ids=lambda each: each.name,
)
def test_an_option_whose_value_is_an_empty_variable_is_named(command: click.Command) -> None:
    """A shell leaves nothing of `--good $EMPTY`, and an empty word of `--good "$EMPTY"`."""
    asked = [
        name
        for each in command.params
        if isinstance(each, click.Option) and not each.is_flag and each.name not in ("resume", "version")
        for name in each.opts
    ]
    assert asked
    for name in asked:
        for words in ([name], [name, ""], [f"{name}="], [name, "--version", "x"], [name, asked[-1], "x"]):
            with pytest.raises(click.UsageError, match=f"^{re.escape(name)} is empty: expected "):
                command.make_context("command", words)


def test_every_field_is_covered() -> None:
    assert {field for field, *_ in OF_BISECT} | {"predicate", "typed", "start_time"} == {
        each.name for each in fields(BisectOptions)
    }
    for _, model, *_ in OF_SUBCOMMANDS:
        covered = {field for _, other, field, *_ in OF_SUBCOMMANDS if other is model}
        assert covered == {each.name for each in fields(model)}, model


def test_the_store_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORE_VARIABLE, "sqlite:///from-there")
    assert parsed(main, BisectOptions, ["--bad", "x"]).store == "sqlite:///from-there"


def test_the_words_behind_two_dashes_are_the_predicate(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[BisectOptions] = []

    def bisect(options: BisectOptions, _: object) -> int:
        seen.append(options)
        return 5

    monkeypatch.setattr("precision_bisect.bisect.bisect_command.bisect", bisect)
    words = ["--good", "a", "--bad", "b", "--", "./check.sh", "--bad", "-p"]
    assert CliRunner().invoke(main, words).exit_code == 5
    assert seen[0].predicate == ("./check.sh", "--bad", "-p")
    assert (seen[0].good, seen[0].bad, seen[0].platform) == (("a",), "b", None)
    named_like_a_subcommand = ["--good", "a", "--bad", "b", "--path", "status", "--", "./check.sh"]
    assert CliRunner().invoke(main, named_like_a_subcommand).exit_code == 5
    assert seen.pop().predicate == ("./check.sh",)
    assert CliRunner().invoke(main, ["--bad", "b"]).exit_code == 5
    assert seen[1].predicate is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--good", "a", "--bad", "b", "./check.sh", "a b"], "stands behind --: -- ./check.sh 'a b'"),
        (["sh"], "stands behind --: -- sh"),
        (["histroy"], "did you mean history?"),
        (["zzz"], "expected a subcommand (adapt, cancel, demo, doctor,"),
    ],
)
def test_a_word_that_is_no_subcommand(words: list[str], says: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert says in result.output


def test_no_question_at_all_prints_the_help() -> None:
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 2
    assert "--bad REV" in result.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "bisect-precision --resume x"),
        (["--jobs", "2", "--backend", "dask"], "bisect-precision --jobs 2 --backend dask --resume x"),
        (["--build-store", "/shared"], "bisect-precision --build-store /shared --resume x"),
        (["--no-localize"], "bisect-precision --no-localize --resume x"),
        (["--reduce"], "bisect-precision --reduce --resume x"),
        (["--quiet"], "bisect-precision --quiet --resume x"),
        (["--budget", "1.5h"], "bisect-precision --budget 5400s --resume x"),
        (
            ["--store", "postgresql://me:secret@host/db"],
            "bisect-precision --store 'postgresql://me:***@host/db' --resume x",
        ),
    ],
)
def test_the_command_that_goes_on(words: list[str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    monkeypatch.delenv("PRECISION_BISECT_HOME", raising=False)
    assert resume_command(parsed(main, BisectOptions, ["--bad", "b", *words]), "x") == expected


def test_a_store_of_the_environment_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORE_VARIABLE, "sqlite:///from-there")
    monkeypatch.delenv("PRECISION_BISECT_HOME", raising=False)
    assert resume_command(parsed(main, BisectOptions, ["--bad", "b"]), "x") == "bisect-precision --resume x"


def test_the_help_of_the_demo_lists_its_regressions() -> None:
    text = " ".join(CliRunner().invoke(demo, ["--help"], terminal_width=1000).output.split())
    assert f"{', '.join(list(Scenario)[:-1])} or {list(Scenario)[-1]}" in text
