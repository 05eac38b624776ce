"""Content keys: equal where and only where what counts is equal."""

import random
from pathlib import Path

import pytest

from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.stack import Stack
from precision_bisect.runner.workspace.content import ContentKeys, StackContent
from precision_bisect.runner.workspace.slot import Workspace
from tests.conftest import TestRepository
from tests.runner.small_stack import SmallStack


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("docs/", "docs/a/b.txt", True),
        ("docs/", "src/docs/a", True),
        ("/docs/", "src/docs/a", False),
        ("docs/**", "docs/a/b", True),
        ("*.md", "a/b.md", True),
        ("a/*.c", "a/b/c.c", False),
        ("a/**/c.c", "a/c.c", True),
        ("a/**/c.c", "a/x/y/c.c", True),
        ("a?c", "abc", True),
        ("a.c", "abc", False),
        ("runtime", "runtime", True),
        ("/runtime", "runtime", True),
        ("docs", "docsx", False),
        ("docs", "docs/a", True),
        ("/docs", "docs/a", True),
        ("*.[ch]", "src/a.h", True),
    ],
)
def test_globs(glob: str, path: str, matches: bool) -> None:
    assert ContentKeys([glob]).is_relevant(path) is not matches


def test_a_pin_does_not_count_whatever_characters_its_path_has() -> None:
    keys = ContentKeys([], pins=["pins/[ab]*.txt"])
    assert not keys.is_relevant("pins/[ab]*.txt")
    assert keys.is_relevant("pins/a.txt")


def test_a_history_keyed_by_its_changes_has_the_keys_of_its_trees(repository: TestRepository) -> None:
    rng = random.Random(7)
    commits = [repository.commit("root", {"kept": "0", "docs/x": "0"})]
    for number in range(30):
        name = rng.choice(["a", "b/c", "docs/x", "e.md", "weird\tname", "ümlaut"])
        exists = (repository.path / name).exists()
        files: dict[str, str | None] = {name: None if exists and rng.random() < 0.4 else str(rng.random())}
        if number % 10 == 5:
            repository.git("checkout", "--quiet", "-b", f"side{number}", commits[-3])
            repository.commit(f"side {number}", {f"side/{number}": "x"})
            repository.git("checkout", "--quiet", "main")
            repository.git("merge", "--quiet", "--no-ff", "-m", f"merge {number}", f"side{number}")
            commits.append(repository.git("rev-parse", "HEAD"))
        commits.append(repository.commit(f"commit {number}", files))
    git = GitRepository(repository.path)
    keys = ContentKeys(["docs/", "*.md"])
    by_change = {commits[0]: keys.tree_key(git.tree(commits[0]))}
    for commit in git.commits(good=commits[0], bad=commits[-1]):
        by_change[commit.sha] = keys.child_key(by_change[commit.parents[0]], commit.changes)
    assert len(by_change) > 30
    for sha, key in by_change.items():
        assert key == keys.tree_key(git.tree(sha)), git.commit(sha).subject


def test_a_revert_has_the_key_of_what_it_returns_to(repository: TestRepository) -> None:
    first = repository.commit("first", {"a": "1"})
    changed = repository.commit("changed", {"a": "2"})
    repository.git("revert", "--no-edit", changed)
    reverted = repository.git("rev-parse", "HEAD")
    git, keys = GitRepository(repository.path), ContentKeys([])
    assert (
        keys.tree_key(git.tree(first))
        == keys.tree_key(git.tree(reverted))
        != keys.tree_key(git.tree(changed))
    )


def test_the_mode_of_a_file_counts(repository: TestRepository) -> None:
    plain = repository.commit("plain", {"run.sh": "x"})
    (repository.path / "run.sh").chmod(0o755)
    executable = repository.commit("executable", {})
    git, keys = GitRepository(repository.path), ContentKeys([])
    assert keys.tree_key(git.tree(plain)) != keys.tree_key(git.tree(executable))


def test_odd_subjects_and_paths_do_not_break_the_log(repository: TestRepository) -> None:
    repository.commit("root", {"a": "1"})
    good = repository.git("rev-parse", "HEAD")
    subjects = ["\x01 control", "a\tb", "'quote' \"double\" \\", "%H %x00", "ünïcode ✓"]
    for number, subject in enumerate(subjects):
        repository.commit(subject, {f"odd \x01{number}\n.txt": subject})
    git = GitRepository(repository.path)
    found = git.commits(good=good, bad=git.resolve("HEAD", option="--bad"))
    assert [commit.subject for commit in found] == subjects
    assert [commit.files for commit in found] == [[f"odd \x01{n}\n.txt"] for n in range(len(subjects))]


def test_reading_does_not_write(repository: TestRepository) -> None:
    sha = repository.commit("root", {"a": "1"})
    (repository.path / "a").write_text("changed")
    index = repository.path / ".git" / "index"
    before = (index.stat().st_mtime_ns, index.read_bytes())
    git = GitRepository.open(repository.path, name="x")
    assert git.changed_files() == ["a"]
    assert git.commit(sha).subject == "root"
    assert (index.stat().st_mtime_ns, index.read_bytes()) == before
    assert Path(repository.path, "a").read_text() == "changed"


def test_variables_of_the_case_are_another_content_and_none_changes_no_key(small: SmallStack) -> None:
    def key(**variables: str) -> str:
        small.case = {"variables": variables}
        workspace = small.workspace()
        return StackContent(workspace.stack, workspace).revisions_key(small.revisions(workspace))

    keys = [key(), key(A="1"), key(A="2"), key(B="1"), key(A="1", B="1")]
    assert len(set(keys)) == len(keys)
    assert key(B="1", A="1") == keys[-1]


def test_what_runs_before_the_case_and_in_which_order_is_another_content(small: SmallStack) -> None:
    def key(*after: str) -> str:
        small.case = {"command": ["sh", "{case}"], "harness": True, "after": after}
        workspace = small.workspace()
        return StackContent(workspace.stack, workspace).revisions_key(small.revisions(workspace))

    keys = [key(), key("a.py"), key("b.py"), key("a.py", "b.py"), key("b.py", "a.py"), key("a.py b.py")]
    assert len(set(keys)) == len(keys)
    small.case = {}
    workspace = small.workspace()
    plain = StackContent(workspace.stack, workspace).revisions_key(small.revisions(workspace))
    assert keys[0] == plain


def test_commits_share_a_build_where_nothing_changes_that_a_step_depends_on(small: SmallStack) -> None:
    small.steps = {
        "core": {"command": ["make"], "inputs": ["tool:src/", "rt"]},
        "rest": {"command": ["make"], "inputs": ["tool:./version.txt"]},
    }
    small.tool.commit("root", {"src/a.c": "1", "srcs": "1", "version.txt": "1"})
    good = small.tool.git("rev-parse", "HEAD")
    for subject, files in {
        "a case": {"srcs": "2", "cases/x.py": "2"},
        "a source": {"src/deep/b.c": "2"},
        "a document": {"src.md": "2"},
        "a source goes": {"src/deep/b.c": None},
        "a file of the other step": {"version.txt": "2"},
    }.items():
        small.tool.commit(subject, files)
    small.move_runtime("rt 2")
    workspace = small.workspace()
    learnt, listed = (StackContent(workspace.stack, workspace) for _ in range(2))
    commits = workspace.clones["tool"].commits(good=good, bad=small.tool.git("rev-parse", "HEAD"))
    learnt.learn("tool", commits)
    builds: list[str] = []
    for sha in (good, *(commit.sha for commit in commits)):
        revisions = small.revisions(workspace, tool=sha)
        builds.append(learnt.build_key(revisions))
        assert builds[-1] == listed.build_key(revisions)
    first, case, source, document, gone, other, runtime = builds
    assert first == case == gone
    assert source == document
    assert len({first, source, other, runtime}) == 4


def test_a_commit_without_an_optional_submodule_has_keys_of_its_own(small: SmallStack) -> None:
    """Also where steps depend on the submodule, and where it pins something itself."""
    small.steps = {"rt": {"command": ["make"], "inputs": ["rt"]}}
    document = small.stack().model_dump()
    document["pins"]["rt"]["optional"] = True
    document["pins"]["tools"] = {"kind": "version-file", "holder": "rt", "path": "env.sh", "key": "TOOLS"}
    workspace = Workspace(Stack.model_validate(document), small.home)
    content = StackContent(workspace.stack, workspace)
    keys: list[tuple[str, str]] = []
    for gone in (False, True):
        if gone:
            small.tool.git("rm", "--quiet", "-f", "rt")
            small.tool.git("commit", "--quiet", "-m", "no submodule")
        revisions = small.revisions(workspace)
        assert ("rt" in revisions) is not gone
        keys.append((content.revisions_key(revisions), content.build_key(revisions)))
    assert keys[0][0] != keys[1][0]
    assert keys[0][1] != keys[1][1]
