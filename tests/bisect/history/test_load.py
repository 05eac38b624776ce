"""A range as it is read from git: what is a candidate, what is run, where a shallow clone ends."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from precision_bisect.bisect.ask.ends import path_notices
from precision_bisect.bisect.ask.predicate import predicate_stack
from precision_bisect.bisect.history.loader import load_range, read_history
from precision_bisect.bisect.history.range import LoadedRange, Range
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.pins import Revisions
from precision_bisect.runner.stack import Step
from precision_bisect.runner.workspace.content import StackContent
from precision_bisect.runner.workspace.home import Home
from precision_bisect.runner.workspace.slot import Workspace
from tests.conftest import TestRepository


def load(
    repository: TestRepository, home: Home, where: Range, *, steps: Mapping[str, Step] | None = None
) -> LoadedRange | None:
    stack = predicate_stack(repository.path).model_copy(update={"steps": steps or {}})
    workspace = Workspace(stack, home)
    clone = workspace.clones[where.repository]
    return load_range(
        where,
        read_history(where, clone),
        content=StackContent(workspace.stack, workspace),
        revisions=Revisions(workspace.stack, workspace.clones, {}),
    )


def members(loaded: LoadedRange | None) -> list[list[str]]:
    """The subjects of each node's commits."""
    assert loaded is not None
    return [[commit.subject for commit in node.members] for node in loaded.commit_range.nodes]


@pytest.fixture
def where(repository: TestRepository) -> Range:
    """`a` and `c` touch src/, on a side branch `side` does, and the rest, the bad end among it, touches docs/."""
    old = repository.commit("old", {"src/a": "0"})
    repository.commit("a", {"src/a": "1"})
    repository.commit("b", {"docs/b": "1"})
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit("side", {"docs/side": "1"})
    repository.git("checkout", "--quiet", "main")
    repository.commit("c", {"src/c": "1"})
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    new = repository.commit("new", {"docs/new": "1"})
    return Range(repository="repository", old=old, new=new, held={})


def test_all_commits_are_candidates(repository: TestRepository, home: Home, where: Range) -> None:
    assert len(members(load(repository, home, where))) == 6


def test_a_merge_keeps_its_parents_where_only_the_first_one_counts(
    repository: TestRepository, home: Home, where: Range
) -> None:
    loaded = load(repository, home, replace(where, first_parent=True))
    assert members(loaded) == [["a"], ["b"], ["c"], ["merge"], ["new"]]
    assert loaded is not None
    merge = loaded.commit_range.nodes[3].commit
    assert merge.parents == tuple(repository.git("rev-parse", "main~1^1", "main~1^2").split())
    assert loaded.joined == {merge.sha: merge.parents[:1]}


def test_only_what_touches_the_paths_is_a_candidate_beside_the_bad_end(
    repository: TestRepository, home: Home, where: Range
) -> None:
    loaded = load(repository, home, replace(where, paths=("src",)))
    assert members(loaded) == [["a", "b", "side"], ["c", "merge"], ["new"]]
    assert loaded is not None
    assert len(loaded.unrelated) == 4
    assert loaded.graph.parents == ((), (0,), (1,))


def test_a_commit_on_one_that_is_never_run_is_no_merge(
    repository: TestRepository, home: Home, where: Range
) -> None:
    skipped = repository.git("rev-parse", "main~4")
    loaded = load(repository, home, replace(where, paths=("src",), skip=(skipped,)))
    assert members(loaded) == [["a"], ["b", "side"], ["c", "merge"], ["new"]]
    assert path_notices(("src",), loaded) == [
        f"--path src: only commits that touch it are searched, 2 of 6 commits, and the end {where.new[:12]} and "
        "1 other that cannot be left out"
    ]


def test_a_merge_of_two_lines_of_candidates_stays_one(
    repository: TestRepository, home: Home, where: Range
) -> None:
    loaded = load(repository, home, replace(where, paths=("src/c", "docs/side", "docs/new")))
    assert sorted(members(loaded)[:2]) == [["c"], ["side"]]
    assert members(loaded)[2:] == [["merge"], ["new"]]


def test_candidates_share_a_build_where_no_step_depends_on_what_they_change(
    repository: TestRepository, home: Home, where: Range
) -> None:
    step = Step(command=("make",), inputs=("repository:src",))
    loaded = load(repository, home, where, steps={"make": step})
    assert loaded is not None
    subjects = {loaded.contents[each.commit.sha]: each.commit.subject for each in loaded.commit_range.nodes}
    shared: dict[str, list[str]] = {}
    for content, subject in subjects.items():
        assert content is not None
        shared.setdefault(loaded.build_of(content), []).append(subject)
    assert sorted(map(sorted, shared.values())) == [["a", "b", "side"], ["c", "merge", "new"]]
    assert loaded.build_of(loaded.old_content) not in shared
    assert loaded.build_of("elsewhere") == "elsewhere"


def test_what_builds_make_of_files_follows_from_what_they_include(
    repository: TestRepository, home: Home
) -> None:
    old = repository.commit(
        "old", {"src/a.c": '#include "core.h"\n', "src/core.h": "0", "docs/x.h": "0", "pin": "1"}
    )
    repository.commit("b", {"src/b.c": "  # include <core.h> // both\n", "src/gone.c": "1"})
    new = repository.commit("new", {"src/core.h": "1", "src/gone.c": None})
    where = Range(repository="repository", old=old, new=new, held={})
    step = Step(command=("make",), inputs=("repository:src",))
    loaded = load(repository, home, where, steps={"make": step})
    assert loaded is not None
    assert {file: made.bit_count() for file, made in loaded.objects.items()} == {
        "src/a.c": 1,
        "src/b.c": 1,
        "src/core.h": 2,
        "src/gone.c": 1,
    }
    assert loaded.recompiled_objects is not None
    assert loaded.recompiled_objects.objects_from(-1).tolist() == [2, 3, 0]
    without_steps = load(repository, home, where)
    assert without_steps is not None
    assert without_steps.recompiled_objects is None


def test_nothing_touches_the_paths(repository: TestRepository, home: Home, where: Range) -> None:
    assert load(repository, home, replace(where, paths=("sr",))) is None


def test_what_is_skipped_has_no_content_to_run(repository: TestRepository, home: Home, where: Range) -> None:
    skipped = repository.git("rev-parse", "main~3")
    loaded = load(repository, home, replace(where, skip=(skipped,)))
    assert loaded is not None
    assert [sha for sha, content in loaded.contents.items() if content is None] == [skipped]


def test_also_old_ends_take_what_they_build_on(repository: TestRepository, home: Home, where: Range) -> None:
    side = repository.git("rev-parse", "side")
    assert members(load(repository, home, replace(where, also_old=(side,)))) == [["c"], ["merge"], ["new"]]


def test_a_shallow_clone_that_ends_within(repository: TestRepository, home: Home, where: Range) -> None:
    (repository.path / ".git" / "shallow").write_text(repository.git("rev-parse", "main~3") + "\n")
    with pytest.raises(UserError, match="a shallow clone that ends at"):
        load(repository, home, where)
