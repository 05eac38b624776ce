"""What a `git bisect log` says, written by git itself and by hand."""

from pathlib import Path

import pytest

from precision_bisect.bisect.ask.question import BisectLog
from precision_bisect.runner.errors import UsageError
from tests.conftest import TestRepository


def read(folder: Path, text: str) -> BisectLog:
    file = folder / "log"
    file.write_text(text)
    return BisectLog.read(file)


def test_a_log_as_git_writes_it(repository: TestRepository, tmp_path: Path) -> None:
    commits = [repository.commit(str(n), {"a dir/file": str(n)}) for n in range(9)]
    repository.git("bisect", "start", "--first-parent", commits[8], commits[0], "--", "a dir")
    repository.git("bisect", "good", commits[2])
    repository.git("bisect", "skip", f"{commits[3]}..{commits[5]}")
    repository.git("bisect", "bad", commits[7])
    log = read(tmp_path, repository.git("bisect", "log"))
    assert (log.olds, log.news) == ([commits[0], commits[2]], [commits[8], commits[7]])
    assert sorted(log.skip) == sorted(commits[4:6])
    assert (log.paths, log.first_parent) == (["a dir"], True)


def test_terms_of_a_log(repository: TestRepository, tmp_path: Path) -> None:
    commits = [repository.commit(str(n), {"file": str(n)}) for n in range(5)]
    repository.git("bisect", "start", "--term-old", "slow", "--term-new=fast")
    repository.git("bisect", "fast", commits[4])
    repository.git("bisect", "slow", commits[0])
    log = read(tmp_path, repository.git("bisect", "log"))
    assert (log.olds, log.news) == ([commits[0]], [commits[4]])


def test_a_log_that_somebody_wrote(tmp_path: Path) -> None:
    """With the ends of lines of another system, without comments, and with git's old spelling."""
    log = read(tmp_path, "git bisect start\r\n\r\ngit-bisect new b\r\ngit bisect old a c\r\n  # told\r\n")
    assert (log.olds, log.news) == (["a", "c"], ["b"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "git bisect start\ngit bisect good a\n",
            "expected a log of git bisect that names a bad end, found none in it",
        ),
        ("git bisect bad a\nrm -rf x\n", "found in line 2: rm -rf x"),
        ("git bisect bad\n", "found in line 1: git bisect bad"),
        ("git bisect fast a\n", "found in line 1: git bisect fast a"),
        ("git bisect bad 'a\n", "found in line 1: git bisect bad 'a"),
    ],
)
def test_what_is_no_log(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match="--replay") as raised:
        read(tmp_path, text)
    assert says in str(raised.value)


def test_a_log_without_end_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--replay /dev/zero: .*more than 4 MiB"):
        BisectLog.read(Path("/dev/zero"))
