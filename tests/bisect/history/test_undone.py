"""Commits that undo what an earlier one has changed, found by their files alone."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.bisect.history.range import MAX_DEPARTURES, find_reverts
from precision_bisect.runner.git import GitRepository
from precision_bisect.store.vocabulary import Commit, TreeChange
from tests.conftest import TestRepository


def pairs(repository: TestRepository, first: str) -> list[tuple[str, str]]:
    git = GitRepository(repository.path)
    commits = git.commits(good=first, bad=git.resolve("main", option="--bad"))
    subjects = {commit.sha: commit.subject for commit in commits}
    return [(subjects[pair.change], subjects[pair.revert]) for pair in find_reverts(commits)]


def test_a_revert_and_a_hand_made_undoing_are_seen(repository: TestRepository) -> None:
    first = repository.commit("first", {"a": "1", "b": "1"})
    broken = repository.commit("breaks", {"a": "2"})
    repository.commit("between", {"b": "2"})
    repository.git("revert", "--no-edit", broken)
    repository.commit("adds", {"c": "1"})
    repository.commit("removes", {"c": None})
    assert pairs(repository, first) == [("breaks", 'Revert "breaks"'), ("adds", "removes")]


def test_a_reapplied_change_is_undone_once(repository: TestRepository) -> None:
    first = repository.commit("first", {"a": "1"})
    repository.commit("breaks", {"a": "2"})
    repository.commit("mends", {"a": "1"})
    repository.commit("breaks again", {"a": "2"})
    assert pairs(repository, first) == [("breaks", "mends"), ("mends", "breaks again")]


def test_changes_that_stay_are_no_pair(repository: TestRepository) -> None:
    first = repository.commit("first", {"a": "1"})
    for number in range(2, 6):
        repository.commit(f"change {number}", {"a": str(number)})
    assert pairs(repository, first) == []


def test_a_revert_in_a_file_that_changed_meanwhile_is_told_by_its_subject(repository: TestRepository) -> None:
    text = [f"line {number}\n" for number in range(20)]
    first = repository.commit("first", {"a": "".join(text)})
    repository.commit("breaks (#12)", {"a": "".join(["broken\n", *text[1:]])})
    broken = repository.git("rev-parse", "HEAD")
    repository.commit("between", {"a": "".join(["broken\n", *text[1:], "more\n"])})
    repository.git("revert", "--no-edit", broken)
    repository.git("commit", "--quiet", "--amend", "--message", 'Revert "breaks (#12)" (#15)')
    assert pairs(repository, first) == [("breaks (#12)", 'Revert "breaks (#12)" (#15)')]


@st.composite
def edited_lines(draw: st.DrawFn) -> list[Commit]:
    """Commits with up to two parents near them, of which each changes some of two files.

    The old content need not be that of the parent.
    """
    commits: list[Commit] = []
    for place in range(draw(st.integers(1, 40))):
        near = [commit.sha for commit in commits[-3:]]
        parents = draw(st.lists(st.sampled_from(near), max_size=2, unique=True)) if near else []
        changes = [
            TreeChange(path, "100644", draw(st.sampled_from("abc")), "100644", draw(st.sampled_from("abc")))
            for path in draw(st.lists(st.sampled_from(["one", "other"]), unique=True))
        ]
        commits.append(
            Commit(
                sha=str(place),
                parents=tuple(parents),
                author="",
                email="",
                date=datetime(2026, 1, 1, tzinfo=UTC),
                subject="",
                changes=tuple(changes),
            )
        )
    return commits


@given(edited_lines())
def test_a_return_is_paired_with_the_last_change_on_each_line_that_left_its_content(
    commits: list[Commit],
) -> None:
    below: dict[str, set[str]] = {}
    for commit in commits:
        below[commit.sha] = {commit.sha}.union(*(below[parent] for parent in commit.parents))
    expected: list[tuple[str, str]] = []
    for place, undoing in enumerate(commits):
        for restored in undoing.changes:
            leaving = [
                earlier.sha
                for earlier in commits[:place]
                for change in earlier.changes
                if (change.path, change.old_object) == (restored.path, restored.new_object)
            ][-MAX_DEPARTURES:]
            on_lines = [sha for sha in leaving if sha in below[undoing.sha]]
            expected += [
                (sha, undoing.sha)
                for sha in on_lines
                if not any(sha in below[later] for later in on_lines if later != sha)
            ]
    found = [(pair.change, pair.revert) for pair in find_reverts(commits)]
    assert found == [*dict.fromkeys(expected)]


def test_a_file_that_comes_and_goes_is_undone_by_each_return_once(repository: TestRepository) -> None:
    first = repository.commit("first", {"a": "1"})
    for turn in range(3):
        repository.commit(f"away {turn}", {"a": f"other {turn}"})
        repository.commit(f"back {turn}", {"a": "1"})
    assert pairs(repository, first) == [(f"away {turn}", f"back {turn}") for turn in range(3)]
