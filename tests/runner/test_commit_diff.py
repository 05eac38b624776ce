"""What a commit changes, beside what git itself says of it."""

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from precision_bisect.runner.commit_diff import CommitDiff, Hunk, nearest_hunks, read_diff
from precision_bisect.runner.git import GitError, GitRepository
from tests.conftest import TestRepository


def diff_of(repository: TestRepository, commit: str, names: Sequence[str] = ()) -> CommitDiff:
    """Against its first parent, as git names it."""
    parents = repository.git("rev-list", "--parents", "-n1", commit).split()[1:]
    return read_diff(GitRepository(repository.path), commit, parents[0] if parents else None, names)


def stat(diff: CommitDiff) -> dict[str, tuple[int | None, int | None]]:
    return {file.path: (file.added, file.removed) for file in diff.files}


def numbered(count: int, **changed: str) -> str:
    """Lines by number, some of them others: `line_7="text"`."""
    return "".join(f"{changed.get(f'line_{number}', f'line {number}')}\n" for number in range(count))


def test_every_hunk_is_as_git_shows_it(repository: TestRepository) -> None:
    """Of histories that are drawn, all hunks together are git's own patch."""
    chance = random.Random(5)
    files = {f"folder {n}/file_{n}.txt": [f"{n} {line}" for line in range(60)] for n in range(5)}
    repository.commit("first", {name: "\n".join(lines) for name, lines in files.items()})
    for number in range(8):
        for name in chance.sample(sorted(files), 3):
            for _ in range(chance.randint(1, 4)):
                place = chance.randrange(len(files[name]))
                files[name][place : place + chance.randint(0, 2)] = [f"changed in {number} {chance.random()}"]
        sha = repository.commit(f"{number}", {name: "\n".join(lines) for name, lines in files.items()})
        diff = diff_of(repository, sha)
        patch = repository.git("diff", f"{sha}~", sha)
        whole = [
            line for line in patch.split("\n") if line[:1] in "+-@ \\" and line[:3] not in ("+++", "---")
        ]
        ours = [line for hunk in diff.hunks for line in (hunk.header, *hunk.lines)]
        assert sorted(ours) == sorted(whole)
        printed = repository.git("diff", "--numstat", f"{sha}~", sha).split("\n")
        assert stat(diff) == {
            path: (int(added), int(removed))
            for added, removed, path in (line.split("\t") for line in printed)
        }
        assert (
            f"{diff.added} insertion" in repository.git("diff", "--shortstat", f"{sha}~", sha)
            or not diff.added
        )


def test_a_merge_is_read_against_its_first_parent_and_a_root_against_nothing(
    repository: TestRepository,
) -> None:
    root = repository.commit("base", {"a": "1\n"})
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit("side", {"b": "1\n2\n"})
    repository.git("checkout", "--quiet", "main")
    repository.commit("main", {"a": "2\n"})
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    assert stat(diff_of(repository, "HEAD")) == {"b": (2, 0)}
    first = diff_of(repository, root)
    assert (stat(first), first.parent, first.hunks[0].lines) == ({"a": (1, 0)}, None, ("+1",))


def test_renamed_binary_and_large_files(repository: TestRepository) -> None:
    repository.commit("first", {"old.c": numbered(50), "picture": "\0" * 10, "large": "x" * 600_000})
    (repository.path / "old.c").unlink()
    sha = repository.commit(
        "second", {"new.c": numbered(50, line_20="other"), "picture": "\0" * 20, "large": "y" * 600_000}
    )
    diff = diff_of(repository, sha)
    assert stat(diff) == {"new.c": (1, 1), "picture": (None, None), "large": (None, None)}
    assert [(hunk.path, hunk.changed_lines) for hunk in diff.hunks] == [("new.c", 2)]


def test_a_submodule_s_move_is_a_hunk(repository: TestRepository, tmp_path: Path) -> None:
    inner = TestRepository(tmp_path / "inner")
    pins = [inner.commit("one", {"x": "1"}), inner.commit("two", {"x": "2"})]
    for pin in pins:
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{pin},sub")
        repository.git("commit", "--quiet", "--message", pin)
    (hunk,) = diff_of(repository, repository.git("rev-parse", "HEAD")).hunks
    assert hunk.lines == (f"-Subproject commit {pins[0]}", f"+Subproject commit {pins[1]}")


def test_any_path_and_any_byte_can_be_kept(repository: TestRepository) -> None:
    """Names of files may hold any byte but NUL, and lines any at all."""
    paths = [b'quote " and \\', b"new\nline", b"bytes \xff\xfe", b":(top)magic*", "\u202eevil".encode()]
    repository.commit("first", {"a": "1"})
    for path in paths:
        (repository.path / os.fsdecode(path)).write_bytes(
            b"\xff line\r\n\x1b[31m\tred\n" + b"x" * 9000 + b"\n\0\n"
        )
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", "second")
    diff = diff_of(repository, repository.git("rev-parse", "HEAD"))
    assert len(stat(diff)) == len(paths)
    assert {hunk.path for hunk in diff.hunks} == {*stat(diff)}
    assert CommitDiff.model_validate_json(diff.model_dump_json()) == diff
    assert "\0" not in diff.model_dump_json()
    assert "\\u0000" not in diff.model_dump_json()


def test_no_program_of_the_repository_is_run(repository: TestRepository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    repository.git("config", "diff.external", f"touch {ran}; true")
    repository.git("config", "diff.own.textconv", f"touch {ran}; cat")
    repository.commit("first", {".gitattributes": "*.c diff=own\n", "a.c": "1\n"})
    diff = diff_of(repository, repository.commit("second", {"a.c": "2\n"}))
    assert stat(diff) == {"a.c": (1, 1)}
    assert diff.hunks[0].lines == ("-1", "+2")
    assert not ran.exists()


def test_a_large_commit_is_bounded_and_what_is_named_is_kept(repository: TestRepository) -> None:
    names = [f"src/module_{n}.py" for n in range(150)]
    repository.commit("first", {name: numbered(200) for name in names})
    changed = {f"line_{line}": "changed" for line in range(0, 200, 2)}
    contents = {name: numbered(200, **changed) for name in names}
    contents[names[140]] = numbered(200, line_100="softmax")
    diff = diff_of(repository, repository.commit("second", contents), ["File src/module_140.py, line 100"])
    assert (diff.changed_files, diff.added) == (150, 149 * 100 + 1)
    assert len(diff.files) == 100
    assert len(diff.model_dump_json()) < 300_000
    assert "+softmax" in nearest_hunks(diff.hunks, ["File src/module_140.py"], most=1)[0].lines


def test_what_cannot_be_read_is_an_error(repository: TestRepository) -> None:
    repository.commit("first", {"a": "1"})
    with pytest.raises(GitError):
        read_diff(GitRepository(repository.path), "1" * 40, "2" * 40, ())


def hunk(path: str, *lines: str) -> Hunk:
    return Hunk(path=path, header="@@ -1 +1 @@", lines=lines)


@pytest.mark.parametrize("seed", range(20))
def test_the_hunk_that_a_failure_names_is_nearest(seed: int) -> None:
    """A planted one among larger ones, wherever it stands."""
    chance = random.Random(seed)
    words = ("alpha", "bravo", "charlie", "delta", "echoes", "foxtrot")
    others = [
        hunk(f"src/{chance.choice(words)}_{n}.py", *(f"+{chance.choice(words)} = {n}" for _ in range(9)))
        for n in range(12)
    ]
    by_word = hunk("src/other.py", "+    factor = rowwise_softmax(x)")
    by_path = hunk("lib/scaling.cpp", "+1")
    for planted, evidence in (
        (by_word, "AssertionError: rowwise_softmax differs"),
        (by_path, 'File "/slots/3/repo/lib/scaling.cpp", line 3, in alpha'),
    ):
        every = [*others]
        every.insert(chance.randrange(len(every) + 1), planted)
        assert nearest_hunks(every, ["cases/alpha.py", evidence], most=1) == (planted,)


def test_without_a_word_in_common_the_largest_hunks_come_first_and_documentation_last() -> None:
    small, large, prose = hunk("a.py", "+1"), hunk("b.py", "+1", "+2", "-3"), hunk("c.md", *["+"] * 9)
    assert nearest_hunks([small, large, small], ["nothing"], most=1) == (large,)
    assert nearest_hunks([prose, small, large], [], most=5) == (large, small, prose)
    assert nearest_hunks([prose, small, large], ["make docs/c.md"], most=1) == (prose,)


def test_a_changed_value_comes_before_other_code_and_notes_and_logging_come_last() -> None:
    mode = hunk("passes/casts.py", "-DEFAULT_MODE = Mode.RINT", "+DEFAULT_MODE = Mode.ROUND")
    number = hunk("kernels/norm.py", "-    eps=1e-5,", "+    eps=1e-2,")
    renamed = hunk("index.py", "-    return name + name", "+    return label + label")
    helper = hunk("integers.py", "+", "+def round_up(value):", "+    return -(-value // 8) * 8")
    logged = hunk("listing.py", "+import logging", '-    _log.debug("cast_route")', "+# the mode")
    notes = hunk("NOTES", *["+softmax line 19"] * 9)
    printed = ["cases/softmax.py", "cast_route: mode, line 3"]
    order = (mode, renamed, helper, logged, notes)
    assert nearest_hunks(order[::-1], printed, most=9) == order
    assert nearest_hunks([notes, number], printed, most=1) == (number,)
