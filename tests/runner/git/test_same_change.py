"""A change that was made twice is known by its lines, wherever they stand."""

from precision_bisect.runner.commit_diff import commits_with_same_change
from precision_bisect.runner.git import GitRepository
from tests.conftest import TestRepository

TEXT = "".join(f"line {number}\n" for number in range(40))


def test_a_cherry_pick_is_known_where_the_file_is_another_by_then(repository: TestRepository) -> None:
    root = repository.commit("root", {"a": TEXT, "b": TEXT, "ü": "1\n"})
    change = TEXT.replace("line 20", "wrong")
    made = repository.commit("made", {"a": change})
    other = repository.commit("other", {"b": change})
    merged_twice = repository.commit("both", {"a": change + "end\n", "b": change + "end\n"})
    repository.git("checkout", "--quiet", "-b", "side", root)
    repository.commit("before", {"a": "first\n" + TEXT, "ü": "2\n"})
    repository.git("cherry-pick", made)
    picked = repository.git("rev-parse", "HEAD")
    back = repository.commit("back", {"a": "first\n" + TEXT})
    git = GitRepository(repository.path)
    assert commits_with_same_change(git, made, [picked, other, merged_twice, back, root]) == (picked,)
    assert commits_with_same_change(git, made, []) == ()


def test_binary_files_are_alike_where_they_became_the_same(repository: TestRepository) -> None:
    root = repository.commit("root", {"a": "\0old", "t": "x"})
    made = repository.commit("made", {"a": "\0new"})
    commits: list[str] = []
    for branch, text in (("same", "\0new"), ("differs", "\0not"), ("mode", "\0old")):
        repository.git("checkout", "--quiet", "-B", branch, root)
        repository.commit("t", {"t": branch})
        if branch == "mode":
            (repository.path / "a").chmod(0o755)
        commits.append(repository.commit(branch, {"a": text}))
    git = GitRepository(repository.path)
    assert commits_with_same_change(git, made, commits) == (commits[0],)
    assert commits_with_same_change(git, commits[2], [made]) == ()
