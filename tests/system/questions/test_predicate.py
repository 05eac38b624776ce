"""A predicate command on any repository, with git's own convention; and the demo command."""

import html
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.store.vocabulary import percent
from tests.conftest import TestRepository
from tests.support.program import PROGRAM, run_program
from tests.support.quick import quick_first

COMMITS = 20
BROKEN_FROM = 13


def run(folder: Path, home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run_program(*arguments, cwd=folder, environment={**os.environ, "PRECISION_BISECT_HOME": str(home)})


@pytest.fixture
def history(repository: TestRepository) -> list[str]:
    """A line of commits; a file says `broken` from one of them on, and some commits cannot be tested."""
    commits: list[str] = []
    for number in range(COMMITS):
        state = "broken" if number >= BROKEN_FROM else "fine"
        state = "untestable" if number in (10, 11) else state
        commits.append(repository.commit(f"commit {number}", {"state": state, "number": str(number)}))
    return commits


CHECK = 'case "$(cat state)" in fine) exit 0;; untestable) exit 125;; *) exit 1;; esac'


def found(output: Path) -> str:
    (culprit,) = json.loads((output / "report.json").read_text())["culprits"]
    return culprit["commit"]


def test_it_finds_what_git_bisect_run_finds(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    done = run(
        repository.path, tmp_path / "home", "--good", history[0], "--bad", "main", "-o", str(tmp_path / "out"),
        "--", "sh", "-c", CHECK,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == history[BROKEN_FROM]
    assert "bad: exit code 1, run " in done.stderr
    for text in (done.stderr, done.stdout, (tmp_path / "out" / "report.md").read_text()):
        assert "mismatch" not in text
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    diff = report["culprits"][0]["diff"]
    numstat = repository.git("show", "--format=", "--numstat", history[BROKEN_FROM]).splitlines()
    assert [f"{file['added']}\t{file['removed']}\t{file['path']}" for file in diff["files"]] == numstat
    assert diff["hunks"]
    assert done.stdout.splitlines()[-1].startswith(f"culprit    repository {history[BROKEN_FROM][:12]} (")
    # What is assumed stands last, and is not cut.
    written = (tmp_path / "out" / "report.md").read_text().replace("\\", "")
    assert f"| it rests on | {report['confidence_basis']['text']} |" in written
    assert repository.git("status", "--porcelain") == ""
    repository.git("bisect", "start", "main", history[0])
    output = repository.git("bisect", "run", "sh", "-c", CHECK)
    assert f"{history[BROKEN_FROM]} is the first bad commit" in output


def test_a_tool_that_goes_away_ends_the_search_and_a_resume_runs_again_what_it_spoilt(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    tool, runs, home, output = (tmp_path / name for name in ("tool", "runs", "home", "out"))
    tool.touch()
    runs.write_text("")
    check = f"echo >>{runs}; [ $(wc -l <{runs}) != 5 ] || rm {tool}; [ -e {tool} ] || exit 127; {CHECK}"
    options = ("--good", history[0], "--bad", "main", "--name", "gone", "-o", str(output))
    done = run(repository.path, home, *options, "--", "sh", "-c", check)
    assert done.returncode == 1, done.stderr
    assert "runs 5 to " in done.stderr
    assert "something besides the commits changed; fix it, then resume" in done.stderr
    assert len(runs.read_text()) <= 16
    tool.touch()
    done = run(repository.path, home, "--resume", "gone")
    assert done.returncode == 0, done.stderr
    assert found(output) == history[BROKEN_FROM]


@pytest.mark.parametrize("words", quick_first([["--json"], []]))
def test_a_reader_that_has_seen_enough_costs_no_answer(
    repository: TestRepository, history: list[str], tmp_path: Path, words: list[str]
) -> None:
    """As `| head -1` closes the pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    told = script(tmp_path / "tell.sh", f'echo "$PRECISION_BISECT_CULPRIT" > {tmp_path}/told')
    done = subprocess.run(
        [*PROGRAM, "--good", history[12], "--bad", history[13], "-q", *words, "--notify", str(told),
         "--", "sh", "-c", CHECK],
        cwd=repository.path,
        env={**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "told").read_text() == f"{history[13]}\n"


@pytest.mark.long
def test_a_script_that_git_does_not_track_is_found(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    script = repository.path / "check.sh"
    script.write_text(f"#!/bin/sh\n# braces {{}} and {{slot}} are the user's own\n{CHECK}\n")
    script.chmod(0o755)
    done = run(
        repository.path, tmp_path / "home", "--good", history[0], "--bad", "main", "-o", str(tmp_path / "out"),
        "--", "./check.sh", "{slot}", "{}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == history[BROKEN_FROM]


@pytest.mark.long
def test_the_end_is_told_and_the_commit_is_linked(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    """--notify at the end, the address of the commit in all that is written, and an issue that is ready to be sent."""
    repository.git("remote", "add", "origin", "git@github.com:hw/tool.git")
    told = script(
        tmp_path / "tell.sh", f'echo "$PRECISION_BISECT_OUTCOME $PRECISION_BISECT_CULPRIT" > {tmp_path}/told'
    )
    home, out = tmp_path / "home", tmp_path / "out"
    done = run(
        repository.path, home, "--good", history[0], "--bad", "main", "-o", str(out), "--notify", str(told),
        "--", "sh", "-c", CHECK,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    culprit = history[BROKEN_FROM]
    assert (tmp_path / "told").read_text() == f"culprit {culprit}\n"
    url = f"https://github.com/hw/tool/commit/{culprit}"
    assert f"look at    {url}" in done.stdout
    report = json.loads((out / "report.json").read_text())
    assert report["culprits"][0]["url"] == url
    assert f"[{culprit}]({url})" in (out / "report.md").read_text()
    issue = run(repository.path, home, "report", report["name"], "--issue")
    assert issue.returncode == 0, issue.stderr
    assert issue.stdout.splitlines()[0].endswith(f"since commit {BROKEN_FROM}")
    assert f"[{culprit}]({url})" in issue.stdout
    assert f"bisect-precision --good {history[0]} --bad {history[-1]} -- sh -c" in issue.stdout
    assert run(repository.path, home, "report", "--html", str(tmp_path / "site")).returncode == 0
    (page,) = (tmp_path / "site" / "bisections").glob("*.html")
    assert f'<a class="small" href="{url}" rel="noreferrer">github.com</a>' in page.read_text()
    (commit,) = (tmp_path / "site" / "commits").glob(f"*/*{culprit[:10]}*.html")
    assert url in commit.read_text()
    wrong = run(repository.path, home, "report", report["name"], "--issue", "-o", str(out))
    assert wrong.returncode == 2
    assert "expected one of --issue, --json and -o DIR" in wrong.stderr
    printed = json.loads(run(repository.path, home, "report", report["name"], "--json").stdout)
    # The hook that is told of the end is waited for after the report is written.
    assert printed["timing"].pop("waited") >= report["timing"].pop("waited")
    assert printed == report


def script(file: Path, text: str) -> Path:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


@pytest.mark.long
def test_a_script_outside_of_the_repository(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    """As git's users do, for a script inside changes with the commits; and what was run is told everywhere."""
    own = script(tmp_path / "check.sh", CHECK)
    home, words = tmp_path / "home", ["--good", history[0], "--bad", "main", "-o", str(tmp_path / "out")]
    done = run(repository.path, home, *words, "--", "../check.sh", "{slot}")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == history[BROKEN_FROM]
    command = f"{own} '{{slot}}'"
    assert json.loads((tmp_path / "out" / "report.json").read_text())["case"] == command
    assert f"| case | {command} |" in (tmp_path / "out" / "report.md").read_text().replace("\\", "")
    assert command in run(tmp_path, home, "history").stdout
    planned = run(repository.path, home, *words, "--dry-run", "--", str(own), "{slot}").stdout
    assert f"case:      {command}" in planned.splitlines()
    assert run(tmp_path, home, "report", "--html", str(tmp_path / "pages")).returncode == 0
    pages = [page.read_text() for page in (tmp_path / "pages").rglob("*.html")]
    assert all("stack's command" not in html.unescape(page) for page in pages)
    assert sum(str(own) in page for page in pages) > 1


@pytest.mark.long
def test_a_tracked_script_of_a_folder(repository: TestRepository, tmp_path: Path) -> None:
    """It runs in that folder of each commit; an end that has no such script, or one that cannot be run, is refused."""
    commits = [repository.commit("before", {"state": "fine"})]
    check = "#!/bin/sh\ngrep -q fine ../state\n"
    commits.append(repository.commit("script", {"tools/check.sh": check}))
    (repository.path / "tools" / "check.sh").chmod(0o755)
    commits += [repository.commit(f"commit {n}", {"n": str(n)}) for n in range(4)]
    commits.append(repository.commit("broken", {"state": "broken"}))
    tools, home = repository.path / "tools", tmp_path / "home"
    words = ["--bad", "main", "-o", str(tmp_path / "out")]
    done = run(tools, home, "--good", commits[2], *words, "--", "./check.sh")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == commits[-1]
    for good, says in (
        (commits[0], "found none at good"),
        (commits[1], "found one that may not at good"),
    ):
        done = run(tools, home, "--good", good, *words, "--", "./check.sh")
        assert done.returncode == 2
        assert f"{says} {good[:12]}" in done.stderr


@pytest.mark.long
def test_a_script_outside_of_the_repository_can_be_mended_after_the_start(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    """What is to be run must be there; what it is given may come later, before a resume."""
    home = tmp_path / "home"
    words = ("--good", history[0], "--bad", "main", "-o", str(tmp_path / "out"))
    for more in (("--dry-run",), ()):
        done = run(repository.path, home, *words, *more, "--", "../gone.sh")
        assert done.returncode == 2
        assert done.stderr == (
            f"error: -- {tmp_path / 'gone.sh'}: expected a file to run, found none; name one that is there\n"
        )
    done = run(repository.path, home, "--good", "nope", "--bad", "main", "--", "true")
    assert (done.returncode, "--good nope: expected a revision of" in done.stderr) == (2, True)
    gone = tmp_path / "gone.sh"
    done = run(repository.path, home, *words, "--", "sh", "-c", f"exec {gone}")
    assert (done.returncode, "exit code 127" in done.stderr) == (1, True), done.stderr
    gone.write_text(f"#!/bin/sh\n{CHECK}\n")
    gone.chmod(0o755)
    assert not (tmp_path / "out").exists(), "nothing was written to it"
    (resume,) = [line for line in done.stderr.splitlines() if "--resume" in line]
    elsewhere = {name: value for name, value in os.environ.items() if name != "PRECISION_BISECT_HOME"}
    elsewhere["PATH"] = f"{Path(sys.executable).parent}:{elsewhere['PATH']}"
    done = subprocess.run(resume, shell=True, env=elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == history[BROKEN_FROM]


@pytest.mark.long
def test_commits_without_the_command_are_skipped(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    """A shell's 126 and 127 are nothing that the commit did; git bisect run takes them for bad."""
    missing = 'n=$(cat number); [ "$n" -gt 5 ] && [ "$n" -lt 15 ] && exec no-such-program; [ "$n" -lt 10 ]'
    done = run(
        repository.path, tmp_path / "home", "--good", history[0], "--bad", "main", "-o", str(tmp_path / "out"),
        "--", "sh", "-c", missing,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    skipped = json.loads((tmp_path / "out" / "report.json").read_text())["skipped"]
    reasons = {each["reason"] for each in skipped}
    assert reasons == {"exit code 127: the command was not found at this commit"}


@pytest.mark.long
def test_128_stops_the_bisection_without_a_verdict(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    done = run(
        repository.path, tmp_path / "home", "--good", history[0], "--bad", "main", "--crash", "stop",
        "--", "sh", "-c", "exit 200",
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "200" in line
    listed = run(repository.path, tmp_path / "home", "history")
    assert "not finished" in listed.stdout


@pytest.mark.long
def test_only_skipped_commits_left(repository: TestRepository, history: list[str], tmp_path: Path) -> None:
    hidden = 'n=$(cat number); [ "$n" -gt 5 ] && [ "$n" -lt 15 ] && exit 125; [ "$n" -lt 10 ]'
    done = run(
        repository.path, tmp_path / "home", "--good", history[0], "--bad", "main", "-o", str(tmp_path / "out"),
        "--", "sh", "-c", hidden,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["outcome"] == "only_skipped"
    listed = run(repository.path, tmp_path / "home", "history").stdout
    assert f"{report['name']}  the runs do not tell the commits left apart" in listed
    assert {suspect["commit"] for suspect in report["suspects"]} == set(history[6:16])


@pytest.mark.long
def test_a_failure_that_comes_and_goes_is_not_pinned_on_the_wrong_commit(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    """It fails in a reproducible half of the runs: each run draws the next bit of a fixed sequence."""
    counter = tmp_path / "counter"
    flaky = (
        f'[ "$(cat state)" = untestable ] && exit 125; [ "$(cat state)" = fine ] && exit 0; '
        f"{sys.executable} -c \"import random, pathlib; p = pathlib.Path('{counter}'); "
        "n = int(p.read_text()) if p.exists() else 0; p.write_text(str(n + 1)); "
        'raise SystemExit(random.Random(n).random() < 0.5)"'
    )
    done = run(
        repository.path, tmp_path / "home", "--good", history[0], "--bad", "main", "-o", str(tmp_path / "out"),
        "--", "sh", "-c", flaky,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == history[BROKEN_FROM]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["culprits"][0]["confidence"] >= 0.99
    (bad_rate,) = [rate for rate in report["rates"] if rate["end"] == "bad"]
    assert 0 < bad_rate["failures"] < bad_rate["runs"]


@pytest.mark.long
def test_a_dry_run_writes_nothing_for_the_user(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    done = run(
        repository.path, tmp_path / "home", "--good", history[0], "--bad", "main", "--dry-run", "--", "true"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "19 commits in the range" in done.stdout
    assert not (tmp_path / "home" / "state").exists()
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    "store", quick_first(["mysq://x", "sqlite:////dev/null/deep/store.db", "postgresql://localhost:1/none"])
)
def test_a_dry_run_ends_as_the_run_would_where_the_store_cannot_be_opened(
    repository: TestRepository, history: list[str], tmp_path: Path, store: str
) -> None:
    for more in (["--dry-run"], []):
        words = ["--good", history[0], "--bad", "main", "--store", store, *more, "--", "true"]
        done = run(repository.path, tmp_path / "home", *words)
        assert done.returncode == 1
        assert done.stderr.startswith("error: expected a ")
        assert "store" in done.stderr or "database URL" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--scenario", "nonsense"], 2, "--scenario nonsense"),
        (["--commits", "3"], 2, "x>=24"),
    ],
)
def test_the_demo_command_refuses(tmp_path: Path, arguments: list[str], code: int, says: str) -> None:
    done = run(tmp_path, tmp_path / "home", "demo", str(tmp_path / "demo"), *arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert not (tmp_path / "demo").exists()


@pytest.mark.long
def test_what_the_demo_command_made_for_machines(tmp_path: Path) -> None:
    done = run(tmp_path, tmp_path / "home", "demo", "demo", "--commits", "24", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["directory"] == str(tmp_path / "demo")
    planned = run(tmp_path, tmp_path / "home", *made["command"][1:], "--dry-run", "--json")
    assert json.loads(planned.stdout)["stack"] == "demo", planned.stderr


def test_the_demo_command_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(tmp_path, tmp_path / "home", "demo", "file/demo")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr == (
        "error: file/demo: expected a place for the stack, found file, which is no folder that can be written; "
        "name another folder\n"
    )


def test_the_demo_command_does_not_write_into_a_used_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = run(tmp_path, tmp_path / "home", "demo", str(tmp_path))
    assert done.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


BY_TURNS = 'n=$(cat "{count}"); echo $((n + 1)) >"{count}"; [ "$(printf %s {turns} | cut -c$((n % {length}+1)))" = o ]'
"""A command that passes (o) and fails (x) by turns, whatever commit it is run at."""


def by_turns(folder: Path, turns: str) -> str:
    """The command, from its first turn on."""
    (folder / "count").write_text("0")
    return BY_TURNS.format(count=folder / "count", turns=turns, length=len(turns))


def test_where_probably_no_commit_is_to_blame_that_is_the_headline(
    repository: TestRepository, tmp_path: Path
) -> None:
    commits = [repository.commit(f"commit {number}", {"number": str(number)}) for number in range(41)]
    done = run(
        repository.path, tmp_path / "home", "--good", commits[0], "--bad", "main", "-o", str(tmp_path / "out"),
        "--", "sh", "-c", by_turns(tmp_path, "xoooxooooxoooooxoooxxooooooxxoooxo"),
    )  # fmt: skip
    assert done.returncode == 6, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    suspected = sum(each["confidence"] for each in report["suspects"])
    shares = report["no_commit"]
    assert suspected < 0.5
    assert suspected + shares["chance"] + shares["environment"] == pytest.approx(1, abs=0.02)
    headline, told = (
        "not known whether a commit is to blame",
        f"it is not known whether a commit is to blame at all: with {percent(shares['chance'])} none of repository is, "
        f"with {percent(shares['environment'])} the environment moved, with {percent(suspected)} it is one of",
    )
    assert report["message"].startswith(told)
    markdown = (tmp_path / "out" / "report.md").read_text().replace("\\", "")
    for text in (done.stdout, markdown, shown_page(repository, tmp_path)):
        assert "the culprit is probably" not in text
        assert headline in text
        assert told in text
    assert "If a commit made the change, it is probably one of these:" in markdown
    assert headline in run(repository.path, tmp_path / "home", "history").stdout
    (listed,) = json.loads(run(repository.path, tmp_path / "home", "history", "--json").stdout)
    assert (listed["outcome"], listed["ended"]) == ("suspect", headline)


@pytest.mark.long
def test_one_suspect_is_named_as_one(repository: TestRepository, tmp_path: Path) -> None:
    commits = [repository.commit(f"commit {number}", {"number": str(number)}) for number in range(2)]
    done = run(
        repository.path, tmp_path / "home", "--good", commits[0], "--bad", "main", "-o", str(tmp_path / "out"),
        "--", "sh", "-c", by_turns(tmp_path, "ooxoxxoo"),
    )  # fmt: skip
    assert done.returncode == 6, done.stderr
    written = (tmp_path / "out" / "report.md").read_text()
    for text in (done.stdout, written):
        assert "one of 1" not in text
        assert f"it is repository {commits[1][:12]}: " in text
    assert "If a commit made the change, it is probably this one:" in written


def test_a_program_that_is_nowhere_is_refused_before_the_first_run(
    repository: TestRepository, tmp_path: Path
) -> None:
    commits = [repository.commit(f"commit {number}", {"number": str(number)}) for number in range(2)]
    ends = ("--good", commits[0], "--bad", "main")
    done = run(repository.path, tmp_path / "home", *ends, "--", "nosuchprogram", "x")
    assert (done.returncode, done.stdout) == (2, "")
    says = "expected a program in one of the folders of PATH, found none"
    assert (
        done.stderr == f"error: -- nosuchprogram: {says}; name one that is there, or a file with its folder\n"
    )
    (repository.path / "check.sh").write_text("#!/bin/sh\n")
    done = run(repository.path, tmp_path / "home", *ends, "--", "check.sh")
    assert done.stderr == f"error: -- check.sh: {says}; did you mean -- ./check.sh\n"
    # Of a PATH of its own it is not said.
    path = f"PATH={tmp_path}"
    done = run(repository.path, tmp_path / "home", *ends, "--env", path, "--dry-run", "--", "nosuchprogram")
    assert done.returncode == 0, done.stderr


def shown_page(repository: TestRepository, folder: Path) -> str:
    """The page of the one bisection of a home."""
    pages = folder / "pages"
    assert run(repository.path, folder / "home", "report", "--html", str(pages)).returncode == 0
    (page,) = (pages / "bisections").rglob("*.html")
    return html.unescape(page.read_text())
