"""Commits that undo what an earlier one has changed, found by their files alone."""

from precision_bisect.bisect.commits.collapse import undone
from precision_bisect.runner.git.repository import GitRepository
from tests.conftest import TestRepository


def pairs(repository: TestRepository, first: str) -> list[tuple[str, str]]:
    git = GitRepository(repository.path)
    commits = git.commits(good=first, bad=git.resolve("main", option="--bad"))
    subjects = {commit.sha: commit.subject for commit in commits}
    return [(subjects[pair.changing], subjects[pair.undoing]) for pair in undone(commits)]


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
