"""Commits that are named by dates, in a history with a commit each noon of June 2026."""

import pytest

from precision_bisect.bisect.ask.ends import commit_before_date
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.git import GitRepository
from tests.conftest import TestRepository
from tests.support.quick import quick_first

JUNE_14_AT_ONE = "1781442000"


@pytest.fixture
def june(repository: TestRepository, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Twelve commits, from the first of June on; now is two days after the last one."""
    monkeypatch.setenv("TZ", "UTC")
    commits: list[str] = []
    for day in range(1, 13):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-06-{day:02d}T12:00:00Z")
        commits.append(repository.commit(f"day {day}", {}))
    monkeypatch.setenv("GIT_TEST_DATE_NOW", JUNE_14_AT_ONE)
    return commits


@pytest.mark.parametrize(
    ("text", "day"),
    quick_first(
        [
            ("2026-06-05", 4),
            ("2026-06-05 12:00", 5),
            ("2026-06-05T12:00:00Z", 5),
            ("@{2026-06-05}", 4),
            ("main@{2026-06-05 11:59}", 4),
            ("@{10 days ago}", 4),
            ("@{last week}", 7),
            ("main@{3.days.ago}", 11),
            ("@{yesterday}", 12),
        ],
        3,
    ),
)
def test_the_last_commit_before(repository: TestRepository, june: list[str], text: str, day: int) -> None:
    dated = commit_before_date(
        GitRepository(repository.path), text, option="--good", tip="main", where="on main"
    )
    assert dated is not None
    assert june.index(dated.commit) + 1 == day
    assert (
        dated.notice
        == f"--good {text}: {dated.commit[:12]} of 2026-06-{day:02d} 12:00 UTC on main, day {day}"
    )


def test_only_first_parents_are_looked_at(
    repository: TestRepository, june: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-06-13T10:00:00Z")
    repository.git("checkout", "--quiet", "-b", "side", june[2])
    repository.commit("on the side", {"side": "1"})
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-06-14T10:00:00Z")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    dated = commit_before_date(
        GitRepository(repository.path), "@{yesterday}", option="--good", tip="main", where="on main"
    )
    assert dated is not None
    assert dated.commit == june[11]


@pytest.mark.parametrize("text", ["main", "main~2", "HEAD@{1}", "@{-1}", "@{upstream}", "2026-06"])
def test_what_is_a_revision_as_git_has_them(repository: TestRepository, june: list[str], text: str) -> None:
    assert (
        commit_before_date(GitRepository(repository.path), text, option="--good", tip="main", where="on main")
        is None
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("@{nonsense}", "expected a date like 2026-06-01, yesterday or 2 weeks ago, found 'nonsense'"),
        ("2026-13-01", "expected a date like 2026-06-01, found 2026-13-01"),
        ("2020-01-01", "expected a commit before that among the first parents of main, found none"),
        ("no-such-branch@{yesterday}", "expected a revision of"),
        (
            "2 weeks ago",
            "--good 2 weeks ago: expected a date as '@{2 weeks ago}', found no revision of that name",
        ),
    ],
)
def test_a_date_that_names_no_commit(
    repository: TestRepository, june: list[str], text: str, says: str
) -> None:
    with pytest.raises(UserError) as raised:
        commit_before_date(GitRepository(repository.path), text, option="--good", tip="main", where="on main")
    assert says in str(raised.value)


def test_a_date_before_the_end_of_a_shallow_clone(repository: TestRepository, june: list[str]) -> None:
    (repository.path / ".git" / "shallow").write_text(f"{june[4]}\n")
    with pytest.raises(UserError) as raised:
        commit_before_date(
            GitRepository(repository.path), "2026-06-03", option="--good", tip="main", where="on main"
        )
    assert str(raised.value).endswith(
        f"found none; a shallow clone ends there; run: git -C {repository.path} fetch --unshallow, or "
        "--shallow-since=DATE with an older date"
    )


def test_a_tag_that_looks_like_a_date_is_a_tag(repository: TestRepository, june: list[str]) -> None:
    repository.git("tag", "2026-06-05", june[6])
    assert (
        commit_before_date(
            GitRepository(repository.path), "2026-06-05", option="--good", tip="main", where="on main"
        )
        is None
    )
