"""Clones that have not all that their commits are made of, or show another history: each with git itself.

The planted fault is a file that appears with the seventh of twelve commits.
"""

import shutil
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from precision_bisect.runner.git import GitError, GitRepository
from precision_bisect.runner.workspace.home import Home
from tests.conftest import TestRepository
from tests.support.program import kill_driver, run_program
from tests.support.quick import quick_first

COMMITS, FAULT = 12, 7
CHECK = ("--", "sh", "-c", "cat number && ! test -e fault")


@pytest.fixture
def origin(tmp_path: Path) -> TestRepository:
    """It gives any object that is asked for, and its clones may be partial."""
    made = TestRepository(tmp_path / "origin")
    for option in ("allowFilter", "allowAnySHA1InWant"):
        made.git("config", f"uploadpack.{option}", "true")
    for number in range(1, COMMITS + 1):
        files: dict[str, str | None] = {"number": f"{number}\n", "folder/same": f"{number % 3}\n"}
        made.commit(f"c{number}", files | ({"fault": "1\n"} if number >= FAULT else {}))
    return made


def clone(origin: TestRepository, *options: str) -> Path:
    """A clone with all its objects in files of their own."""
    path = origin.path.with_name("clone")
    origin.git("clone", "--quiet", *options, f"file://{origin.path}", str(path))
    for pack in path.glob(".git/objects/pack/*.pack"):
        if not pack.with_suffix(".promisor").exists():
            moved = pack.rename(origin.path.with_name("moved.pack"))
            pack.with_suffix(".idx").unlink()
            with moved.open("rb") as source:
                subprocess.run(["git", "-C", path, "unpack-objects", "-q"], stdin=source, check=True)
    return path


def of(origin: TestRepository, number: int, path: str = "") -> str:
    return origin.git("rev-parse", f"main~{COMMITS - number}{path}")


def lose(path: Path, name: str) -> None:
    file = path / ".git" / "objects" / name[:2] / name[2:]
    file.chmod(stat.S_IWUSR | stat.S_IRUSR)
    file.unlink()


def search(path: Path, home: Home, *words: str, code: int = 0, good: str = f"main~{COMMITS - 1}") -> str:
    done = run_program("--good", good, "--bad", "main", *words, *CHECK, cwd=path)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("left_out", quick_first(["blob:none", "tree:0"]))
def test_what_a_partial_clone_was_not_given_is_fetched_before_the_first_run(
    left_out: str, origin: TestRepository, home: Home
) -> None:
    path = clone(origin, f"--filter={left_out}", "--no-checkout")
    planned = run_program("--good", f"main~{COMMITS - 1}", "--bad", "main", "--dry-run", *CHECK, cwd=path)
    assert planned.returncode == 0, planned.stderr
    if left_out == "blob:none":  # git itself fetches trees to list a history
        assert "is a partial clone: " in planned.stdout + planned.stderr
    shutil.rmtree(origin.path)  # all that runs need is here
    said = search(path, home)
    assert f"culprit    clone {git(path, 'rev-parse', f'main~{COMMITS - FAULT}')[:12]}" in said


def git(path: Path, *words: str) -> str:
    """What git prints; nothing where it fails."""
    return subprocess.run(["git", "-C", path, *words], capture_output=True, text=True).stdout.strip()


@pytest.mark.long
def test_a_commit_whose_objects_nobody_has_is_skipped_with_its_reason(
    origin: TestRepository, home: Home
) -> None:
    path = clone(origin, "--filter=blob:none", "--no-checkout")
    away = origin.path.rename(origin.path.with_name("away"))
    said = search(path, home, code=1)
    assert "does not give what is missing: a commit that needs one is skipped" in said
    assert "skip: unknown (clone " in said
    away.rename(origin.path)
    fault = origin.git("rev-parse", f"main~{COMMITS - FAULT}")
    name = next(home.bisections.iterdir()).name
    resumed = run_program("--resume", name, cwd=path)
    assert f"culprit    clone {fault[:12]}" in resumed.stdout, resumed.stderr


def test_a_commit_with_a_name_that_the_disk_does_not_allow_is_skipped(
    origin: TestRepository, home: Home
) -> None:
    name = 300 * "n"
    blob = origin.git("rev-parse", "main:number")
    origin.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    long = origin.git("commit-tree", origin.git("write-tree"), "-p", "main", "-m", "long")
    again = origin.git("commit-tree", "main^{tree}", "-p", long, "-m", "again")
    origin.git("update-ref", "refs/heads/main", again)
    done = run_program("--good", long, "--bad", "main", *CHECK, cwd=origin.path)
    assert done.returncode == 1
    assert "skip: unknown" in done.stderr
    assert "whose name takes 300 bytes (nnnnnnnnnnnnnnnnnnnn...), and the disk allows 255" in done.stderr


@pytest.mark.parametrize("left_out", ["blob:none", "tree:0"])
def test_no_program_that_the_settings_name_for_a_fetch_is_run(
    left_out: str, origin: TestRepository, home: Home, tmp_path: Path
) -> None:
    path = clone(origin, f"--filter={left_out}", "--no-checkout")
    witness = tmp_path / "witness"
    program = tmp_path / "upload-pack.sh"
    program.write_text(f'#!/bin/sh\ntouch {witness}\nexec git-upload-pack "$@"\n')
    program.chmod(0o700)
    git(path, "config", "remote.origin.uploadpack", str(program))
    search(path, home)
    assert not witness.exists()
    with suppress(GitError):  # the clone without trees has none to list
        list(GitRepository(path).tree("main", ("fetch",)))
    assert not witness.exists()


def test_an_address_that_reads_as_an_option_is_none(
    origin: TestRepository, home: Home, tmp_path: Path
) -> None:
    path = clone(origin, "--filter=blob:none", "--no-checkout")
    witness = tmp_path / "witness"
    git(path, "config", "remote.origin.url", f"--upload-pack=touch {witness};:")
    search(path, home, code=1)
    assert not witness.exists()


def test_no_password_of_a_remote_that_lacks_objects_is_kept(origin: TestRepository, home: Home) -> None:
    path = clone(origin, "--filter=blob:none", "--no-checkout")
    subprocess.run(
        ["git", "-C", path, "remote", "set-url", "origin", "https://bob:hush-hush@127.0.0.1:9/x.git"],
        check=True,
    )
    said = search(path, home, code=1)
    assert "https://bob:***@127.0.0.1:9/x.git does not give what is missing" in said
    kept = [file for root in (home.state, path) for file in root.rglob("*") if file.is_file()]
    assert kept
    assert [file.name for file in kept if b"hush-hush" in file.read_bytes()] == ["config"]


@pytest.mark.parametrize("words", quick_first([((),), (("--skip", f"main~{COMMITS - 6}"),)]))
def test_a_lost_file_of_a_commit_is_a_skip(
    words: tuple[str, ...], origin: TestRepository, home: Home
) -> None:
    path = clone(origin)
    git(path, "remote", "remove", "origin")
    lose(path, of(origin, 6, ":number"))
    said = search(path, home, *words, code=3)
    assert "the runs do not tell the commits left apart" in said
    assert (f"lacks 1 object of its files ({of(origin, 6, ':number')[:12]})" in said) is not bool(words)
    assert of(origin, FAULT)[:12] in said


@pytest.mark.long
def test_a_lost_file_is_fetched_where_there_is_a_remote(origin: TestRepository, home: Home) -> None:
    path = clone(origin)
    lose(path, of(origin, 6, ":number"))
    assert f"culprit    clone {of(origin, FAULT)[:12]}" in search(path, home)
    assert git(path, "cat-file", "-t", of(origin, 6, ":number")) == ""  # the checkout is left as it was


@pytest.mark.parametrize("lost", quick_first(["^{tree}", ""]))
def test_a_lost_tree_or_commit_is_told_with_what_mends_it(
    lost: str, origin: TestRepository, home: Home
) -> None:
    path, good = clone(origin), of(origin, 1)
    lose(path, of(origin, 6, lost))
    for words in ((), ("--skip", of(origin, 6))):
        said = search(path, home, *words, code=1, good=good)
        (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
        assert "git fetch --refetch fetches them" in line
    git(path, "fetch", "--quiet", "--refetch")
    assert f"culprit    clone {of(origin, FAULT)[:12]}" in search(path, home)


@pytest.mark.parametrize("lost", quick_first(["", "^{tree}"]))
def test_a_search_in_which_a_commit_or_tree_was_lost_goes_on_once_it_is_back(
    lost: str, origin: TestRepository, home: Home
) -> None:
    path, good, name = clone(origin), of(origin, 1), of(origin, 6, lost)
    count = path.with_name("count")
    interrupted = (  # in its third run
        f"echo >> {count}; if [ $(wc -l < {count}) = 3 ]; then "
        f"{kill_driver('INT')}; exec sleep 600; fi; cat number && ! test -e fault"
    )
    begun = run_program("--good", good, "--bad", "main", "--", "sh", "-c", interrupted, cwd=path)
    assert begun.returncode == 130, begun.stderr
    bisection = next(home.bisections.iterdir()).name
    lose(path, name)
    stopped = run_program("--resume", bisection, cwd=path)
    *hint, line = stopped.stderr.splitlines()
    assert (stopped.returncode, line[:7], hint[0]) == (1, "error: ", "to go on after fixing it:")
    assert name in line
    assert "git fetch --refetch fetches them" in line
    git(path, "fetch", "--quiet", "--refetch")
    resumed = run_program("--resume", bisection, cwd=path)
    assert f"culprit    clone {of(origin, FAULT)[:12]}" in resumed.stdout, resumed.stderr


@pytest.mark.long
def test_a_shallow_clone_is_searched_as_far_as_it_goes(origin: TestRepository, home: Home) -> None:
    path = clone(origin, "--depth=9")
    assert f"culprit    clone {of(origin, FAULT)[:12]}" in search(path, home, good="main~8")
    assert "it is a shallow clone" in search(path, home, code=2)


@pytest.mark.long
def test_a_shallow_partial_clone(origin: TestRepository, home: Home) -> None:
    path = clone(origin, "--depth=9", "--filter=blob:none", "--no-checkout")
    assert f"culprit    clone {of(origin, FAULT)[:12]}" in search(path, home, good="main~8")


def test_an_alternate_that_vanished_is_told(origin: TestRepository, home: Home) -> None:
    path = origin.path.with_name("clone")
    origin.git("clone", "--quiet", "--shared", str(origin.path), str(path))
    origin.path.rename(origin.path.with_name("away"))
    said = search(path, home, code=2)
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert f"points to {origin.path}/.git/objects, which no longer exists" in line


@pytest.mark.parametrize("kind", quick_first(["graft", "replace"]))
def test_another_history_is_not_followed_and_told(kind: str, origin: TestRepository, home: Home) -> None:
    """The fault's commit is said to follow the first one, and so to be the only one in the range."""
    path = clone(origin)
    fault, first = of(origin, FAULT), of(origin, 1)
    if kind == "graft":
        (path / ".git" / "info" / "grafts").write_text(f"{of(origin, COMMITS)} {first}\n")
    else:
        git(path, "replace", "--graft", of(origin, COMMITS), first)
    said = search(path, home)
    assert "has grafts or replace refs, which are not followed" in said
    assert f"culprit    clone {fault[:12]}" in said


def test_pointers_of_lfs_are_told(
    origin: TestRepository, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    origin.commit("large", {".gitattributes": "*.bin filter=lfs -text\n", "x.bin": pointer})
    path = clone(origin)
    said = search(path, home, good=f"main~{COMMITS}")
    assert "has files in Git LFS, but git is not set up for it" in said
    (tmp_path / "settings").write_text('[filter "lfs"]\n\tsmudge = cat\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "settings"))
    assert "Git LFS" not in search(path, home, good=f"main~{COMMITS}")
