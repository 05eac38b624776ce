"""Reading real repositories, odd ones included, without leaving a trace in them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.git import GitError, GitRepository
from tests.conftest import TestRepository
from tests.runner.small_stack import snapshot


def test_ancestry(repository: TestRepository) -> None:
    base = repository.commit("base", {"a": "1"})
    one = repository.commit("one", {"a": "2"})
    repository.git("checkout", "--quiet", "-b", "side", base)
    two = repository.commit("two", {"b": "1"})
    repository.git("checkout", "--quiet", "--orphan", "other")
    unrelated = repository.commit("unrelated", {"c": "1"})
    git = GitRepository(repository.path)
    assert git.is_ancestor(base, one)
    assert git.is_ancestor(one, one)
    assert not git.is_ancestor(one, base)
    assert not git.is_ancestor(one, two)
    assert git.merge_base(one, two) == base
    assert git.merge_base(one, unrelated) is None
    with pytest.raises(GitError, match="Not a valid"):
        git.is_ancestor("1" * 40, base)


def test_a_merge_is_read_against_its_first_parent(repository: TestRepository) -> None:
    good = repository.commit("base", {"a": "1", "old": "x"})
    repository.git("checkout", "--quiet", "-b", "side")
    side = repository.commit("side", {"b": "1", "old": None})
    repository.git("checkout", "--quiet", "main")
    main = repository.commit("main", {"a": "2"})
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    merge = repository.git("rev-parse", "HEAD")
    git = GitRepository(repository.path)
    found = {commit.sha: commit for commit in git.commits(good=good, bad=merge)}
    assert set(found) == {side, main, merge}
    assert found[merge].parents == (main, side)
    assert sorted(found[merge].files) == ["b", "old"]
    assert list(found)[-1] == merge


def test_subjects_come_in_the_order_asked(repository: TestRepository) -> None:
    one, two = repository.commit("one: é", {"a": "1"}), repository.commit("two\nlines", {"a": "2"})
    git = GitRepository(repository.path)
    assert git.subjects([one, two]) == ["one: é", "two lines"]
    assert git.subjects([two, one]) == ["two lines", "one: é"]
    assert git.subjects([]) == []


@pytest.mark.parametrize("suffix", ["", "~1", "^{commit}"])
def test_a_name_of_a_branch_and_a_tag_at_different_commits_is_refused(
    repository: TestRepository, suffix: str
) -> None:
    commits = [repository.commit(subject, {"a": subject}) for subject in ("one", "two", "three")]
    git = GitRepository(repository.path)
    repository.git("tag", "main", commits[2])
    assert git.resolve(f"main{suffix}", option="--bad") in commits
    repository.git("tag", "--force", "main", commits[1])
    with pytest.raises(
        UserError, match=f"the branch main at {commits[2][:12]} and the tag main at"
    ) as refused:
        git.resolve(f"main{suffix}", option="--bad")
    for name in (f"heads/main{suffix}", f"tags/main{suffix}"):
        assert name in str(refused.value)
        assert git.resolve(name, option="--bad") in commits


def test_a_checkout_whose_path_has_a_newline_is_refused(tmp_path: Path) -> None:
    # git would read such a path as two in the file that names where objects are.
    made = TestRepository(tmp_path / "new\nline")
    made.commit("one", {"a": "1"})
    with pytest.raises(UserError, match="expected the path of a checkout without a newline"):
        GitRepository.open_root(made.path, name="clone")


@pytest.mark.parametrize(("seconds", "year"), [("99999999999999", 9999), ("0", 1970)])
def test_a_date_that_no_calendar_has(repository: TestRepository, seconds: str, year: int) -> None:
    good = repository.commit("one", {"a": "1"})
    raw = f"tree {repository.git('rev-parse', 'HEAD^{tree}')}\nparent {good}\n"
    raw += f"author A <a@b> {seconds} +0000\ncommitter A <a@b> {seconds} +0000\n\nodd\n"
    file = repository.path / "raw"
    file.write_text(raw)
    odd = repository.git("hash-object", "-t", "commit", "-w", str(file))
    (commit,) = GitRepository(repository.path).commits(good=good, bad=odd)
    assert commit.date.year == year


def test_words_that_stand_by_themselves_in_any_file_of_a_commit_are_told(repository: TestRepository) -> None:
    first = repository.commit("first", {"sub/a.sh": "echo $DEPTH ${LEVEL_}x", "b": "DEPTHS"})
    second = repository.commit("second", {"sub/a.sh": None, "c": "a\0WIDTH", "d": "-e LEVEL_"})
    git = GitRepository(repository.path)
    words = ["DEPTH", "LEVEL_", "LEVEL", "WIDTH"]
    assert git.grep_words(first, words) == {"DEPTH", "LEVEL_"}
    assert git.grep_words(second, words) == {"LEVEL_"}
    assert git.grep_words(second, ["DEPTH"]) == frozenset()
    assert git.grep_words(second, []) == frozenset()
    with pytest.raises(GitError):
        git.grep_words("1" * 40, words)


def test_settings_of_the_user_change_nothing_of_what_is_found(
    repository: TestRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = repository.commit("first", {"a.sh": "echo $DEPTH\n"})
    (tmp_path / "gitconfig").write_text(
        "[color]\n\tui = always\n[grep]\n\tlineNumber = true\n\tcolumn = true\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    git = GitRepository(repository.path)
    assert git.grep_words(first, ["DEPTH"]) == {"DEPTH"}
    assert [*git.grep_lines(first, "DEPTH")] == [("a.sh", "echo $DEPTH")]


@pytest.mark.parametrize(
    "url", ["../origin", "origin.git", "/srv/origin", "git@host:x/y", "ssh://host/x", "https://host/x"]
)
def test_the_address_of_a_remote_holds_in_any_folder(repository: TestRepository, url: str) -> None:
    repository.commit("first", {"a": "1"})
    repository.git("remote", "add", "origin", url)
    meant = str(repository.path / url) if url in ("../origin", "origin.git") else url
    assert GitRepository(repository.path).remote_url() == meant


def test_gitlinks_and_texts(repository: TestRepository) -> None:
    texts = {"sub/file": "x", "big": "x" * 100, "bytes": "x", "lines": "x\n\n"}
    none = repository.commit("none", texts)
    repository.git("rm", "-r", "--quiet", "sub")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{none},sub")
    repository.git("commit", "--quiet", "-m", "link")
    linked = repository.git("rev-parse", "HEAD")
    git = GitRepository(repository.path)
    assert git.gitlink(none, "sub") is None
    assert git.gitlink(linked, "sub") == none
    assert git.gitlink(linked, "nowhere") is None
    assert git.read_text(none, "sub/file") == "x"
    assert git.read_text(none, "lines") == "x\n\n"
    assert git.read_text(none, "sub") is None, "a folder"
    assert git.read_text(none, "nowhere") is None
    assert git.read_text(none, "big", limit=99) is None


@pytest.mark.parametrize(
    ("revision", "found"),
    [
        *(("HEAD", True), ("main", True), ("-x", True), ("HEAD~9", False), ("", False), ("--all", False)),
        *(
            ("HEAD:a", False),
            ("^HEAD", False),
            ("HEAD..HEAD", False),
            ("@{upstream}", False),
            ("a\nb", False),
        ),
    ],
)
def test_revisions(repository: TestRepository, revision: str, found: bool) -> None:
    sha = repository.commit("a", {"a": "1"})
    repository.git("update-ref", "refs/heads/-x", sha)
    git = GitRepository(repository.path)
    if found:
        assert git.resolve(revision, option="--good") == sha
    else:
        with pytest.raises(UserError, match="--good"):
            git.resolve(revision, option="--good")


def test_a_misspelt_name_gets_the_nearest_one(repository: TestRepository) -> None:
    repository.commit("a", {"a": "1"})
    repository.git("tag", "release-1.2")
    git = GitRepository(repository.path)
    for misspelt, hint in (("relaese-1.2~0", "did you mean release-1.2?"), ("zz", "see git log there")):
        with pytest.raises(UserError, match=re.escape(hint)):
            git.resolve(misspelt, option="--good")


def test_an_annotated_tag_is_its_commit(repository: TestRepository) -> None:
    sha = repository.commit("a", {"a": "1"})
    repository.git("tag", "--annotate", "-m", "tag", "v1")
    assert GitRepository(repository.path).resolve("v1", option="--good") == sha


def test_a_replaced_commit_is_the_one_its_id_names(repository: TestRepository) -> None:
    first = repository.commit("first", {"a": "1"})
    second = repository.commit("second", {"a": "2"})
    repository.git("replace", second, first)
    assert GitRepository(repository.path).commit(second).subject == "second"


def test_subjects_in_another_encoding(repository: TestRepository) -> None:
    repository.commit("root", {"a": "1"})
    repository.git("config", "i18n.logOutputEncoding", "latin1")
    sha = repository.commit("größer", {"a": "2"})
    assert GitRepository(repository.path).commit(sha).subject == "größer"


def test_a_folder_that_is_gone_is_an_error_and_not_the_current_one(
    repository: TestRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit("a", {"a": "1"})
    monkeypatch.chdir(repository.path)
    with pytest.raises(GitError, match="gone"):
        GitRepository(tmp_path / "gone").run("rev-parse", "HEAD")


def test_what_is_no_checkout(repository: TestRepository, tmp_path: Path) -> None:
    repository.commit("a", {"a": "1", "folder/b": "1"})
    with pytest.raises(UserError, match="no such folder"):
        GitRepository.open_root(tmp_path / "none", name="x")
    (tmp_path / "plain").mkdir()
    with pytest.raises(UserError, match="not a git repository"):
        GitRepository.open_root(tmp_path / "plain", name="x")
    with pytest.raises(UserError, match="inside of"):
        GitRepository.open_root(repository.path / "folder", name="x")
    assert (
        GitRepository.open(repository.path / "folder", name="x").run("rev-parse", "--show-prefix")
        == "folder/"
    )
    repository.git("clone", "--quiet", "--bare", str(repository.path), str(tmp_path / "bare"))
    bare = GitRepository.open_root(tmp_path / "bare", name="x")
    assert bare.is_bare
    assert bare.changed_files() == []
    assert GitRepository(tmp_path / "bare" / "objects").root == tmp_path / "bare"
    (tmp_path / "around").mkdir()
    (tmp_path / "around" / ".git").write_text(f"gitdir: {tmp_path / 'bare'}\n")
    GitRepository.open_root(tmp_path / "around", name="x")
    with pytest.raises(UserError, match="found its git directory; name the checkout"):
        GitRepository.open_root(repository.path / ".git", name="x")
    repository.git("clone", "--quiet", "--depth=1", repository.path.as_uri(), str(tmp_path / "shallow"))
    with pytest.raises(UserError, match=r"a shallow clone: git -C .* --unshallow"):
        GitRepository.open_root(tmp_path / "shallow", name="x").resolve("HEAD~1", option="--good")
    (tmp_path / "link").symlink_to(repository.path)
    GitRepository.open_root(tmp_path / "link", name="x")


def test_a_checkout_of_another_user_is_said_to_be_one(
    repository: TestRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit("a", {"a": "1"})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UserError, match="dubious ownership"):
        GitRepository.open_root(repository.path, name="x")


def test_changed_files(repository: TestRepository) -> None:
    repository.commit("a", {"a": "1", "b": "1", "c d": "1"})
    (repository.path / "a").unlink()
    repository.git("mv", "b", "renamed")
    (repository.path / "ü \n").write_text("x")
    assert sorted(GitRepository(repository.path).changed_files()) == ["a", "b", "renamed", "ü \n"]


def test_a_monitored_checkout_is_only_read(repository: TestRepository, tmp_path: Path) -> None:
    """A status there would ask, and perhaps start, the user's file system monitor."""
    repository.commit("a", {"a": "1"})
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    monitor.chmod(0o755)
    repository.git("config", "core.fsmonitor", str(monitor))
    before = snapshot(repository.path)
    assert GitRepository(repository.path).changed_files() == []
    assert snapshot(repository.path) == before
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("name", ["evil", "a=b", "a.b", "\N{SNOWMAN}"])
@pytest.mark.parametrize("kind", ["clean", "process"])
def test_no_filter_of_a_checkout_is_run(
    name: str, kind: str, repository: TestRepository, tmp_path: Path
) -> None:
    repository.commit("a", {"a": "1", "b": "1", ".gitattributes": f"* filter={name}\n"})
    attack(repository, name, kind, tmp_path / "ran")
    before = snapshot(repository.path)
    assert GitRepository(repository.path).changed_files() == ["b"]
    assert snapshot(repository.path) == before
    assert not (tmp_path / "ran").exists()


def attack(repository: TestRepository, name: str, kind: str, mark: Path, within: str = ".") -> None:
    """A filter that leaves a mark, for files that git has to look at: `a` was touched, `b` changed."""
    repository.git("-C", within, "config", f"filter.{name}.{kind}", f"touch {shlex.quote(str(mark))}; cat")
    repository.git("-C", within, "config", f"filter.{name}.required", "true")
    os.utime(repository.path / within / "a", (1, 1))
    (repository.path / within / "b").write_text("2")


def test_no_filter_of_a_submodule_is_run(repository: TestRepository, tmp_path: Path) -> None:
    inner = TestRepository(tmp_path / "inner")
    inner.commit("i", {"a": "1", "b": "1", ".gitattributes": "* filter=evil\n"})
    repository.commit("o", {"file": "1"})
    repository.git("-c", "protocol.file.allow=always", "submodule", "add", str(inner.path), "sub")
    repository.git("commit", "-m", "sub")
    assert GitRepository(repository.path).changed_files() == []
    attack(repository, "evil", "clean", tmp_path / "ran", within="sub")
    assert GitRepository(repository.path).changed_files() == ["sub"]
    assert not (tmp_path / "ran").exists()
    # One that leads back here is not asked at all.
    shutil.rmtree(repository.path / "sub")
    (repository.path / "sub" / ".git").mkdir(parents=True)
    assert "sub" not in GitRepository(repository.path).changed_files()


def test_no_checker_of_signatures_of_a_checkout_is_run(repository: TestRepository, tmp_path: Path) -> None:
    sha = repository.commit("a", {"a": "1"})
    signed = repository.git("cat-file", "commit", sha).replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n\n", 1
    )
    (tmp_path / "commit").write_text(signed)
    checked = repository.git("hash-object", "-t", "commit", "-w", str(tmp_path / "commit")).strip()
    checker = tmp_path / "gpg"
    checker.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    checker.chmod(0o755)
    repository.git("config", "gpg.program", str(checker))
    repository.git("config", "log.showSignature", "true")
    git = GitRepository(repository.path)
    assert git.commit(checked).sha == checked
    assert "+1" in git.patches([checked])[checked]
    assert not (tmp_path / "ran").exists()


def test_a_machine_without_git(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "env").symlink_to("/usr/bin/env")
    code = (
        "from pathlib import Path\n"
        "from precision_bisect.runner.git import GitRepository\n"
        "GitRepository.open(Path('.'), name='x')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.endswith("expected git on PATH, found none; install it\n"), done.stderr


def test_lines_are_found_in_the_text_files_of_a_commit(repository: TestRepository) -> None:
    first = repository.commit("first", {"a b:c.h": "#include <x>\nint y;\n# include <z>\n", "d": "include\n"})
    repository.commit("second", {"a b:c.h": "\n"})
    git = GitRepository(repository.path)
    assert [*git.grep_lines(first, "^# *include")] == [
        ("a b:c.h", "#include <x>"),
        ("a b:c.h", "# include <z>"),
    ]
    assert [*git.grep_lines(first, "nothing")] == []
    with pytest.raises(GitError):
        list(git.grep_lines("1" * 40, "x"))


def test_the_branch_that_is_checked_out(repository: TestRepository) -> None:
    repository.commit("first", {"f": "1"})
    repository.git("checkout", "--quiet", "-b", "topic/one")
    git = GitRepository(repository.path)
    assert git.branch == "topic/one"
    repository.git("checkout", "--quiet", "--detach")
    assert git.branch is None
