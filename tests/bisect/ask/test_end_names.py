"""Names of ends become commits, of which one builds on the others."""

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from precision_bisect.bisect.ask.ends import Ends, check_command, find_ends, tree_paths
from precision_bisect.bisect.ask.predicate import Predicate, predicate_stack
from precision_bisect.bisect.ask.question import Question
from precision_bisect.runner.errors import EndsError, UsageError
from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.stack import Overlay, Step
from precision_bisect.store.vocabulary import Seeks
from tests.conftest import TestRepository


def asking(
    repository: TestRepository, good: tuple[str, ...], bad: str, seeks: Seeks = Seeks.REGRESSION
) -> Question:
    return Question(
        stack=predicate_stack(repository.path), repository=None, good=good, bad=bad, case=None, platform=None,
        device=0, bad_when=None, golden_data=None, runtime_dir=None, first_parent=False, timeout=None,
        confidence=0.99, output=None, seeks=seeks,
    )  # fmt: skip


def ends(
    repository: TestRepository, good: tuple[str, ...], bad: str, *, seeks: Seeks = Seeks.REGRESSION
) -> Ends:
    return find_ends(asking(repository, good, bad, seeks), GitRepository(repository.path))


@pytest.fixture
def commits(repository: TestRepository) -> dict[str, str]:
    """base - one - two (main), and base - beside; root of another history."""
    made = {"base": repository.commit("base", {"f": "0"})}
    repository.git("checkout", "--quiet", "-b", "beside")
    made["beside"] = repository.commit("beside", {"f": "1"})
    repository.git("checkout", "--quiet", "main")
    made["one"] = repository.commit("one", {"g": "1"})
    made["two"] = repository.commit("two", {"g": "2"})
    repository.git("checkout", "--quiet", "--orphan", "alien")
    made["alien"] = repository.commit("alien", {"h": "1"})
    return made


def test_the_nearest_of_several_ends_is_run(repository: TestRepository, commits: dict[str, str]) -> None:
    found = ends(repository, (commits["base"], "main~1"), "main")
    assert (found.good, found.bad, found.also_old, found.parted) == (
        commits["one"], commits["two"], (commits["base"],), (),
    )  # fmt: skip
    assert found.commit_names == {
        commits["base"]: commits["base"],
        "main~1": commits["one"],
        "main": commits["two"],
    }


def test_of_ends_on_other_branches_the_best_common_ancestor_is_run(
    repository: TestRepository, commits: dict[str, str]
) -> None:
    alone = ends(repository, ("beside",), "main")
    assert (alone.good, alone.also_old, alone.parted) == (
        commits["base"], (commits["beside"],), (commits["beside"],),
    )  # fmt: skip
    beside_one_that_is_an_ancestor = ends(repository, ("beside", "main~1"), "main")
    assert (beside_one_that_is_an_ancestor.good, beside_one_that_is_an_ancestor.parted) == (
        commits["one"],
        (),
    )


def test_a_fix_turns_the_ends_about(repository: TestRepository, commits: dict[str, str]) -> None:
    found = ends(repository, ("main",), "beside", seeks=Seeks.FIX)
    assert (found.good, found.bad, found.parted) == (commits["two"], commits["base"], (commits["beside"],))


def test_without_a_good_end_the_root_is_the_last_to_look_at(
    repository: TestRepository, commits: dict[str, str]
) -> None:
    assert ends(repository, (), "main").good == commits["base"]


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("main", "main", "expected two different ends, found --good main and --bad main to name one commit"),
        ("2099-01-01", "main", "found --good 2099-01-01 and --bad main to name one commit"),
        (
            "main",
            "main~1",
            r"the ends are swapped; did you mean --good \w{12} --bad \w{12}\? To find what fixed it, add --find-fix$",
        ),
        ("alien", "main", "without a common ancestor"),
        ("", "alien", "it is a root"),
    ],
)
def test_ends_that_span_no_range(
    repository: TestRepository, commits: dict[str, str], good: str, bad: str, says: str
) -> None:
    with pytest.raises(EndsError, match=says):
        ends(repository, (good,) if good else (), bad)


def test_a_further_old_end_that_is_the_new_end_is_named(
    repository: TestRepository, commits: dict[str, str]
) -> None:
    """A replayed log may have it beside the old end that the option names."""
    asked = asking(repository, ("main",), "main~2", Seeks.FIX)
    with pytest.raises(EndsError, match=f"--good main and --bad {commits['two']} to name one commit"):
        find_ends(replace(asked, also_old=(commits["two"],)), GitRepository(repository.path))


def test_where_a_shallow_clone_ends_nothing_is_said_of_a_root(
    repository: TestRepository, commits: dict[str, str]
) -> None:
    (repository.path / ".git" / "shallow").write_text(f"{commits['two']}\n")
    with pytest.raises(
        EndsError, match=r"found none: a shallow clone ends there; run: git -C .* --deepen=200"
    ):
        ends(repository, (), commits["two"])


def test_where_a_good_end_is_looked_for_the_end_of_a_shallow_clone_is_said(
    repository: TestRepository, commits: dict[str, str]
) -> None:
    assert not ends(repository, (), commits["two"]).notices
    (repository.path / ".git" / "shallow").write_text(f"{commits['one']}\n")
    (notice,) = ends(repository, (), commits["two"]).notices
    assert notice.startswith(f"a good end is looked for back to {commits['one'][:12]} of ")
    assert notice.endswith(f"for more: git -C {repository.path} fetch --deepen=200, or --unshallow")


@pytest.mark.parametrize(
    ("words", "folder", "lacking"),
    [
        (("./check.sh",), "tools", "good"),
        (("sh", "-e", "tools/check.sh"), ".", "good"),
        (("./gone.sh",), ".", "bad"),
        (("sh", "-c", "./check.sh"), ".", None),
        (("make", "check"), ".", None),
    ],
)
def test_a_script_that_git_tracks_is_at_both_ends(
    repository: TestRepository, words: tuple[str, ...], folder: str, lacking: str | None
) -> None:
    good = repository.commit("before", {"gone.sh": "exit 0\n"})
    repository.git("rm", "--quiet", "gone.sh")
    bad = repository.commit("with a script", {"tools/check.sh": "exit 1\n"})
    asked = replace(
        asking(repository, (good,), bad), command=Predicate(words=words, folder=PurePosixPath(folder))
    )
    git = GitRepository(repository.path)
    if lacking is None:
        assert check_command(asked, find_ends(asked, git), git, ()) == []
        return
    sha = {"good": good, "bad": bad}[lacking][:12]
    with pytest.raises(
        UsageError, match=f"each commit runs its own, found none at {lacking} {sha}; lay it over"
    ):
        check_command(asked, find_ends(asked, git), git, ())
    file = next(str(file.path) for file in asked.command.commit_files()) if asked.command else ""
    laid_over = Overlay(path=file, commit=good, object=good, revision="main")
    check_command(asked, find_ends(asked, git), git, (laid_over,))


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("./chek.sh",), "check.sh"),
        (("sh", "-e", "chek.sh"), "check.sh"),
        (("python3", "-W", "ignore", "tools/chek.py"), "tools/check.py"),
        (("python3", "check.py"), "tools/check.py"),
        (("timeout", "-k", "5", "60", "./chek.sh"), "check.sh"),
        (("env", "A=1", "nice", "-n5", "bash", "-euo", "pipefail", "chek.sh"), "check.sh"),
        (("pytest", "-x", "tests/tst_x.py::test_y"), "tests/test_x.py"),
        (("python3", "-m", "pytest", "tests/tst_x.py"), "tests/test_x.py"),
        (("./zzz",), None),
    ],
)
def test_a_script_that_is_nowhere_is_refused_with_the_nearest_name(
    repository: TestRepository, words: tuple[str, ...], near: str | None
) -> None:
    files = ("check.sh", "tools/check.py", "tests/test_x.py")
    good = repository.commit("before", dict.fromkeys(files, "1"))
    for file in files:
        (repository.path / file).chmod(0o755)
    good = repository.commit("executable", {"f": "1"})
    bad = repository.commit("after", {"f": "2"})
    git, plain = GitRepository(repository.path), asking(repository, (good,), bad)

    def told(words: tuple[str, ...]) -> list[str]:
        asked = replace(plain, command=Predicate(words=words, folder=PurePosixPath()))
        return check_command(asked, find_ends(asked, git), git, ())

    with pytest.raises(UsageError, match="found none at either end, nor in the checkout") as refused:
        told(words)
    if near is None:
        assert str(refused.value).endswith("; name one that is there")
        return
    assert str(refused.value).endswith(f": did you mean {near}?")
    (wrong,) = (word for word in words if "::" in word or ".sh" in word or ".py" in word)
    assert told(tuple(near if word == wrong else word for word in words)) == []


def test_a_script_that_a_build_step_has_to_make_is_minded(repository: TestRepository) -> None:
    good = repository.commit("before", {"f": "1"})
    bad = repository.commit("after", {"f": "2"})
    git, plain = GitRepository(repository.path), asking(repository, (good,), bad)
    step = Step(command=("make",), inputs=("repository",))
    asked = replace(
        plain,
        stack=plain.stack.model_copy(update={"steps": {"make": step}}),
        command=Predicate(words=("./made",), folder=PurePosixPath()),
    )
    (note,) = check_command(asked, find_ends(asked, git), git, ())
    assert note == "-- ./made: neither an end nor the checkout has it; a build step has to make it"


def test_a_script_that_may_not_be_executed_is_refused(repository: TestRepository) -> None:
    good = repository.commit("before", {"check.sh": "exit 0"})
    bad = repository.commit("after", {"f": "2"})
    git, plain = GitRepository(repository.path), asking(repository, (good,), bad)
    asked = replace(plain, command=Predicate(words=("./check.sh",), folder=PurePosixPath()))
    with pytest.raises(
        UsageError, match=rf"may not at good {good[:12]}; name its interpreter: -- sh ./check.sh"
    ):
        check_command(asked, find_ends(asked, git), git, ())
    asked = replace(plain, command=Predicate(words=("sh", "./check.sh"), folder=PurePosixPath()))
    assert check_command(asked, find_ends(asked, git), git, ()) == []


def test_a_script_of_a_submodule_is_taken_as_it_is(repository: TestRepository, tmp_path: Path) -> None:
    tools = TestRepository(tmp_path / "tools")
    tools.commit("tools", {"check.sh": "exit 0"})
    repository.git("submodule", "--quiet", "add", str(tools.path), "tools")
    good = repository.commit("before", {"f": "1"})
    bad = repository.commit("after", {"f": "2"})
    git, plain = GitRepository(repository.path), asking(repository, (good,), bad)
    asked = replace(plain, command=Predicate(words=("sh", "tools/check.sh"), folder=PurePosixPath()))
    assert check_command(asked, find_ends(asked, git), git, ()) == []


def test_a_test_that_one_end_lacks_is_told_with_what_lays_it_over_every_commit(
    repository: TestRepository,
) -> None:
    good = repository.commit("before", {"sub/f": "1"})
    bad = repository.commit("with its test", {"tests/test_n.py": "1", "sub/f": "2"})
    git = GitRepository(repository.path)

    def told(*words: str, folder: str = ".", overlays: tuple[Overlay, ...] = ()) -> list[str]:
        command = Predicate(words=words, folder=PurePosixPath(folder))
        asked = replace(asking(repository, (good,), bad), command=command)
        return check_command(asked, find_ends(asked, git), git, overlays)

    told_of = f"is not at the good end; lay the bad end's over every commit with --overlay tests/test_n.py@{bad[:12]}"
    (note,) = told("ctest", "tests/test_n.py")
    assert note.startswith(f"tests/test_n.py {told_of}")
    (note,) = told("make", "../tests/test_n.py", folder="sub")
    assert note.startswith(f"../tests/test_n.py {told_of}")
    laid_over = Overlay(path="tests/test_n.py", commit=bad, object=bad, revision="main")
    assert not told("make", "tests/test_n.py", overlays=(laid_over,))
    assert not told("make", "sub/f", "gone/f", "--x=tests/test_n.py", "../tests/test_n.py")


@pytest.mark.parametrize("line", ["../check.sh --x", "make && ./check"])
def test_one_word_that_a_shell_would_take_apart_is_refused(repository: TestRepository, line: str) -> None:
    repository.commit("script", {"with a blank.sh": "exit 0"})
    (repository.path / "with a blank.sh").chmod(0o755)
    good = repository.commit("before", {"f": "1"})
    bad = repository.commit("after", {"f": "2"})
    git = GitRepository(repository.path)
    plain = asking(repository, (good,), bad)
    asked = replace(plain, command=Predicate(words=(line,), folder=PurePosixPath()))
    with pytest.raises(
        UsageError, match="each argument as separate words, found one word; remove the quotes"
    ):
        check_command(asked, find_ends(asked, git), git, ())
    asked = replace(plain, command=Predicate(words=("./with a blank.sh",), folder=PurePosixPath()))
    assert not check_command(asked, find_ends(asked, git), git, ())


def test_a_folder_is_no_command(repository: TestRepository) -> None:
    """An interpreter may be given one: `python3 package`."""
    good = repository.commit("before", {"package/__main__.py": "1"})
    bad = repository.commit("after", {"package/__main__.py": "2"})
    git = GitRepository(repository.path)
    plain = asking(repository, (good,), bad)
    asked = replace(plain, command=Predicate(words=("../package",), folder=PurePosixPath("package")))
    with pytest.raises(UsageError, match=r"-- ../package: expected a file to run, found a folder"):
        check_command(asked, find_ends(asked, git), git, ())
    asked = replace(plain, command=Predicate(words=("python3", "package"), folder=PurePosixPath()))
    assert not check_command(asked, find_ends(asked, git), git, ())


def test_dates_that_stand_for_one_commit_say_which_one(
    repository: TestRepository, commits: dict[str, str]
) -> None:
    repository.git("checkout", "--quiet", "main")
    with pytest.raises(EndsError, match="name one commit") as raised:
        ends(repository, ("2091-01-01",), "2090-01-01")
    for option in ("--good 2091-01-01", "--bad 2090-01-01"):
        assert f"; {option}: {commits['two'][:12]} of " in str(raised.value)


def test_the_folder_that_a_command_runs_in_is_at_both_ends(repository: TestRepository) -> None:
    """Refused before anything is run: in a folder that is not there no command is found."""
    good = repository.commit("before", {"f": "1"})
    bad = repository.commit("with a folder", {"sub/deep/f": "1"})
    git = GitRepository(repository.path)

    def check(good: str, bad: str, folder: str, *overlays: Overlay, steps: bool = False) -> list[str]:
        asked = asking(repository, (good,), bad)
        if steps:
            step = Step(command=("true",), cwd="{slot}", inputs=("made",), outputs=("made",))
            asked = replace(asked, stack=asked.stack.model_copy(update={"steps": {"make": step}}))
        asked = replace(asked, command=Predicate(words=("/check.sh",), folder=PurePosixPath(folder)))
        return check_command(asked, find_ends(asked, git), git, overlays)

    says = rf"expected the folder sub/deep, .* found none at good {good[:12]}; type it in a folder that"
    with pytest.raises(UsageError, match=says):
        check(good, bad, "sub/deep")
    assert check(good, bad, ".") == []
    assert (
        check(good, bad, "sub/deep", Overlay(path="sub/deep/g", commit=bad, object=bad, revision="main"))
        == []
    )
    assert check(bad, repository.commit("after", {"f": "2"}), "sub/deep") == []
    # One that git does not track is there only where a step makes it.
    with pytest.raises(UsageError, match="found none at good"):
        check(good, bad, "build")
    assert check(good, bad, "build", steps=True) == []


def test_paths_as_a_tree_has_them(tmp_path: Path) -> None:
    (tmp_path / "repository" / "src").mkdir(parents=True)
    (tmp_path / "repository" / "src" / "link").symlink_to(tmp_path)
    (tmp_path / "repository" / "self").symlink_to(".")
    root, linked = tmp_path / "repository", tmp_path / "linked"
    linked.symlink_to("repository")
    for here, text, expected in (
        (root, "src/a.c", "src/a.c"),
        (root / "src", "../lib", "lib"),
        (root / "src", "link", "src/link"),
        (root / "src", "..", ""),
        (tmp_path, "src", "src"),
        (root, str(root / "src"), "src"),
        (root, str(linked / "src" / "link"), "src/link"),
        (root, str(linked), ""),
        (linked, "self", "self"),
    ):
        assert tree_paths([text], checkout=root, here=here) == (expected,)
    with pytest.raises(UsageError, match="found one outside"):
        tree_paths(["../.."], checkout=root, here=root / "src")


def test_an_end_by_date_says_on_which_branch_it_was_taken(
    repository: TestRepository, commits: dict[str, str]
) -> None:
    repository.git("checkout", "--quiet", "main")
    asked = ends(repository, (commits["base"],), "2090-01-01")
    assert asked.notices[0].startswith(f"--bad 2090-01-01: {commits['two'][:12]} of ")
    assert " UTC on main, which is checked out, " in asked.notices[0]
    repository.git("checkout", "--quiet", "--detach", commits["one"])
    asked = ends(repository, (commits["base"],), "2090-01-01")
    assert f": {commits['one'][:12]} of " in asked.notices[0]
    assert " UTC on HEAD, which is checked out, " in asked.notices[0]
