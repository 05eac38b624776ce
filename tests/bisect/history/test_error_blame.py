"""What an error blames, read from real repositories."""

import pytest

from precision_bisect.bisect.history.loader import blamed_file, match_path
from precision_bisect.bisect.history.range import LoadedRange, Range, collapse
from precision_bisect.bisect.search.graph import NO_WINDOWS, CommitGraph
from precision_bisect.bisect.search.testability import BlamedFile
from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.verdict.rules import CompilerError
from tests.conftest import TestRepository


def loaded(git: GitRepository, good: str, bad: str) -> LoadedRange:
    commits = git.commits(good=good, bad=bad)
    collapsed = collapse(commits, lambda sha: sha)
    assert collapsed is not None
    return LoadedRange(
        range=Range(repository="line", old=good, new=bad, held={}),
        commits=tuple(commits),
        contents={commit.sha: commit.sha for commit in commits},
        old_content=good,
        new_content=bad,
        commit_range=collapsed,
        graph=CommitGraph(collapsed.parents),
        windows=NO_WINDOWS,
    )


def blamed(
    repository: TestRepository, good: str, bad: str, at: str, error: CompilerError
) -> BlamedFile | None:
    git = GitRepository(repository.path)
    known = loaded(git, good, bad)
    return blamed_file(known, git, candidates=known.candidates, commit=at, error=error)


def test_commits_that_hold_the_line_fail_alike(repository: TestRepository) -> None:
    good = repository.commit("good", {"src/a.hpp": "int a();\n", "other": "1"})
    commits = [
        repository.commit("breaks", {"src/a.hpp": "int a();\n  half b = exp(c);\n"}),
        repository.commit("elsewhere", {"other": "2"}),
        repository.commit("moves it", {"src/a.hpp": "// a\nint a();\nhalf b =  exp(c);\n"}),
        repository.commit("mends", {"src/a.hpp": "// a\nint a();\nhalf b = exp(float(c));\n"}),
    ]
    error = CompilerError(path="/slots/1/line/src/a.hpp", line=2, message="ambiguous")
    found = blamed(repository, good, commits[-1], commits[0], error)
    assert found is not None
    assert found.path == "src/a.hpp"
    assert found.fails is not None
    assert found.fails.tolist() == [True, True, True, False, False]
    versions = found.versions.tolist()
    assert versions[0] == versions[1]
    assert len({*versions}) == 4


def test_a_header_that_is_missing_until_it_comes(repository: TestRepository) -> None:
    good = repository.commit("good", {"a.hpp": "int a();\n"})
    commits = [
        repository.commit("includes", {"a.hpp": '#include "cpu/b.hpp"\nint a();\n'}),
        repository.commit("more", {"a.hpp": '#include "cpu/b.hpp"\nint a(int);\n'}),
        repository.commit("adds", {"include/cpu/b.hpp": "int b();\n"}),
    ]
    error = CompilerError(path="a.hpp", line=1, message="...", missing="cpu/b.hpp")
    found = blamed(repository, good, commits[-1], commits[0], error)
    assert found is not None
    assert found.fails is not None
    assert found.fails.tolist() == [True, True, False, False]
    assert len({*found.versions.tolist()}) == 4


def test_a_line_behind_a_fork_from_before_the_range_is_read_too(repository: TestRepository) -> None:
    base = repository.commit("base", {"a.hpp": "broken line\n"})
    repository.git("checkout", "--quiet", "-b", "side")
    side = repository.commit("side", {"b": "1"})
    repository.git("checkout", "--quiet", "main")
    good = repository.commit("good", {"a.hpp": "mended line\n"})
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    merge = repository.git("rev-parse", "HEAD")
    last = repository.commit("touches it", {"a.hpp": "mended line\nmore\n"})
    error = CompilerError(path="a.hpp", line=1, message="...")
    found = blamed(repository, good, last, side, error)
    assert base != good
    assert found is not None
    assert found.fails is not None
    assert merge != last
    assert found.fails.tolist() == [True, False, False, False]


def test_a_brace_tells_no_versions_apart(repository: TestRepository) -> None:
    good = repository.commit("good", {"a.hpp": "int a() {\n}\n"})
    bad = repository.commit("bad", {"a.hpp": "int b() {\n}\n"})
    found = blamed(repository, good, bad, bad, CompilerError(path="a.hpp", line=2, message="expected ;"))
    assert found is not None
    assert found.fails is None


@pytest.mark.parametrize("text", ["int good();\nint last();", None])
def test_an_error_without_a_line_tells_no_versions_apart(
    repository: TestRepository, text: str | None
) -> None:
    """Some compilers print line 0 for an error of a whole file. The file may be missing at that commit."""
    good = repository.commit("good", {"a.hpp": "int good();\n"})
    bad = repository.commit("bad", {"a.hpp": text})
    found = blamed(repository, good, bad, bad, CompilerError(path="a.hpp", line=0, message="x"))
    assert found is not None
    assert found.fails is None


def test_what_the_range_never_changes_is_not_blamed(repository: TestRepository) -> None:
    good = repository.commit("good", {"a.hpp": "1\n", "b": "1"})
    bad = repository.commit("bad", {"b": "2"})
    assert blamed(repository, good, bad, bad, CompilerError(path="a.hpp", line=1, message="x")) is None


@pytest.mark.parametrize(
    ("printed", "path"),
    [
        ("../src/a.cpp", "src/a.cpp"),
        ("a.cpp", None),
        ("codegen/b.cpp", "src/codegen/b.cpp"),
        ("/usr/include/stdio.h", None),
    ],
)
def test_a_printed_path_means_the_one_that_shares_most_of_its_end(printed: str, path: str | None) -> None:
    assert match_path(printed, ["src/a.cpp", "test/a.cpp", "src/codegen/b.cpp"]) == path
