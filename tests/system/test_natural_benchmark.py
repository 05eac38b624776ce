"""The runner of the corpus of natural regressions, on a tiny made repository."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.natural.answer import Answer
from benchmarks.natural.git import ask_git
from benchmarks.natural.product import command, read_report
from benchmarks.natural.regression import CHECKS, Regression, StackCase, read_corpus
from benchmarks.natural.table import Row, keep, markdown, read_rows
from tests.conftest import TestRepository

CHECK = 'case "$(cat state)" in fine) exit 0;; untestable) exit 125;; *) exit 1;; esac'
ANSWER = Answer(
    named=("c" * 40,), left=0, runs=9, untestable=1, builds=3, minutes=1.5, layers=("a", "b"), commits=20
)


def regression(**fields: str) -> Regression:
    facts = {
        "name": "tiny", "repository": "nobody/tiny", "case": "The state is fine", "seeks": "regression",
        "good": "a" * 40, "bad": "b" * 40, "culprit": "c" * 40, "known": "It was made so",
    }  # fmt: skip
    return Regression.read(facts | fields)


def history(repository: TestRepository, states: str) -> list[str]:
    """A commit for each letter: (f)ine, (b)roken or (u)ntestable."""
    names = {"f": "fine", "b": "broken", "u": "untestable"}
    return [
        repository.commit(f"commit {number}", {"state": names[state], "number": str(number)})
        for number, state in enumerate(states)
    ]


@pytest.mark.long
def test_one_command_asks_both_and_keeps_a_row(repository: TestRepository, tmp_path: Path) -> None:
    commits = history(repository, "ffffufbbbb")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    facts = regression(good=commits[0], bad=commits[-1], culprit=commits[6])
    lines = [f"{name} = {json.dumps(value)}" for name, value in vars(facts).items() if value is not None]
    (corpus / "tiny.toml").write_text("[[regressions]]\n" + "\n".join(lines))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.natural", "tiny", str(repository.path)),
            *("--corpus", str(corpus), "--results", str(tmp_path / "results"), "--home", str(tmp_path / "home")),
            *("--", "sh", "-c", CHECK),
        ],
        cwd=Path(__file__).parents[2],
        env=os.environ,
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "tiny: named" in done.stdout
    (row,) = read_rows(tmp_path / "results" / "rows.jsonl")
    assert row.product.named == row.git.named == (commits[6],)
    assert (row.product.commits, row.git.commits, row.product.builds) == (9, 9, None)
    assert row.product.runs > row.git.runs > 2
    assert "| `tiny` | tiny | regression | 9 |" in (tmp_path / "results" / "results.md").read_text()
    assert repository.git("status", "--porcelain") == ""
    assert repository.git("rev-parse", "HEAD").strip() == commits[-1]


def test_git_finds_a_fix_and_says_what_it_cannot_tell(repository: TestRepository) -> None:
    commits = history(repository, "bbbfff")
    fix = regression(seeks="fix", bad=commits[0], good=commits[-1], culprit=commits[3])
    answer = ask_git(fix, repository.path, ["sh", "-c", CHECK])
    assert answer.named == (commits[3],)
    assert answer.verdict(fix.culprit) == "named"
    commits = history(repository, "fuub")
    hidden = regression(good=commits[0], bad=commits[-1], culprit=commits[1])
    answer = ask_git(hidden, repository.path, ["sh", "-c", CHECK])
    assert (answer.named, answer.left, answer.untestable) == ((), 3, 2)
    assert answer.verdict(hidden.culprit) == "left open among 3"


def test_git_stops_with_an_error_where_the_check_does(repository: TestRepository) -> None:
    commits = history(repository, "fffb")
    asked = regression(good=commits[0], bad=commits[-1])
    with pytest.raises(RuntimeError, match="tiny: expected an answer of git bisect"):
        ask_git(asked, repository.path, ["sh", "-c", "exit 255"])


def test_the_command_is_of_the_check_or_of_the_stack_file() -> None:
    plain = regression(seeks="fix")
    ends = ["--good", plain.good, "--bad", plain.bad]
    assert command(plain, ["./check.sh", "x"], None) == [*ends, "--find-fix", "--", "./check.sh", "x"]
    with pytest.raises(ValueError, match="tiny: expected a check behind `--`"):
        command(plain, [], None)
    stack = StackCase(stack="simpler", case="a.py", platform="a2a3sim", bad_when="stall")
    facts = {**vars(regression()), "stack_case": vars(stack)}
    assert command(Regression.read(facts), ["./for-git.sh"], None) == [
        *ends, "--stack", "simpler", "--case", "a.py", "--platform", "a2a3sim", "--bad-when", "stall",
        "--no-localize",
    ]  # fmt: skip


def test_a_stack_file_is_the_user_s_where_the_regression_names_none() -> None:
    stack = {"case": "a.py", "platform": "sim", "bad_when": "mismatch"}
    own = Regression.read({**vars(regression()), "stack_case": stack})
    assert command(own, [], Path("own.toml"))[4:6] == ["--stack", "own.toml"]
    with pytest.raises(ValueError, match="tiny: expected a stack file"):
        command(own, [], None)


def test_a_stack_file_of_ours_is_told_where_its_repositories_lie() -> None:
    stack = {
        "stack": "ours.toml", "case": "a.py", "platform": "sim", "bad_when": "mismatch",
        "repositories": {"tiny": ".", "part": "parts/part"},
    }  # fmt: skip
    asked = command(Regression.read({**vars(regression()), "stack_case": stack}), [], Path("own.toml"))
    assert asked[4:6] == ["--stack", str(CHECKS / "ours.toml")]
    assert asked[10:14] == ["--repository", "tiny=.", "--repository", "part=parts/part"]


def test_a_report_is_counted() -> None:
    run = {"judgement": "good", "build": "cached"}
    report = {
        "culprits": [{"commit": "c" * 40}],
        "suspects": [],
        "probes": [{"runs": [run, {**run, "build": "built"}]}, {"runs": [{**run, "judgement": "skip"}]}],
        "ranges": [{"repository": "a", "commits": 7}, {"repository": "b", "commits": 5}],
        "timing": {"elapsed": 90.0},
    }
    assert read_report(report) == Answer(
        named=("c" * 40,), left=0, runs=3, untestable=1, builds=1, minutes=1.5, layers=("a", "b"), commits=12
    )


def test_an_answer_is_held_against_the_truth() -> None:
    assert ANSWER.verdict("c" * 40) == "named"
    assert ANSWER.verdict("d" * 40) == "WRONG"


def test_a_row_is_kept_once_and_read_as_it_was(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    keep(Row(name="tiny", product=ANSWER, git=None), rows)
    keep(Row(name="other", product=ANSWER, git=ANSWER), rows)
    keep(Row(name="tiny", product=ANSWER, git=ANSWER), rows)
    assert [row.name for row in read_rows(rows)] == ["other", "tiny"]
    assert all(row.git == row.product == ANSWER for row in read_rows(rows))
    page = markdown(read_rows(rows)[1:], {"tiny": regression()})
    cells = "| `tiny` | tiny | regression | 20 | a, b | named | 9 | 1 | 3 | 1.5 | named | 9 | 1 | 1.5 |"
    assert cells in page


def test_the_corpus_is_whole() -> None:
    corpus = read_corpus()
    for each in corpus.values():
        assert all(len(commit) == 40 for commit in (each.good, each.bad, each.culprit)), each.name
        assert each.seeks in ("regression", "fix"), each.name


def test_a_name_is_given_once(tmp_path: Path) -> None:
    fields = "\n".join(f"{name} = {json.dumps(value)}" for name, value in vars(regression()).items() if value)
    (tmp_path / "twice.toml").write_text(f"[[regressions]]\n{fields}\n" * 2)
    with pytest.raises(ValueError, match="expected names that differ, found tiny twice"):
        read_corpus(tmp_path)
