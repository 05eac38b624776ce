"""Files of other times in a slot: which they are, what they get, and which commits are told apart by it."""

from pathlib import Path

import pytest

from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.overlays import OverlayReader
from precision_bisect.runner.pins import Revisions, fixed_revisions
from precision_bisect.runner.renames import (
    AdaptedFile,
    RenameTracker,
    adapted_files,
    add_renames,
    describe_rename,
    is_rename_applied,
)
from precision_bisect.runner.stack import Stack
from precision_bisect.runner.workspace.content import StackContent
from precision_bisect.runner.workspace.slot import Workspace
from tests.runner.small_stack import SmallStack
from tests.support.quick import quick_first

OLD, NEW = "load(1, rows=2)\n", "load(1, lines=2)\n"


def table(commit: str, *, old: str = "rows", new: str = "lines", repository: str = "tool") -> str:
    return (
        f'[[rename]]\nrepository = "{repository}"\ncommit = "{commit}"\nold = "{old}"\nnew = "{new}"\n'
        'keyword_of = ["load"]\n'
    )


def with_rules(small: SmallStack, *tables: str, overlay: str | None = None) -> Stack:
    """The stack with some renames, and perhaps an overlay."""
    workspace = small.workspace()
    stack = workspace.stack
    if overlay is not None:
        reader = OverlayReader(
            stack, workspace.repositories, workspace.clones, small.cases.path, stack.searched
        )
        stack = reader.apply_overlays([overlay])
    file = small.folder / "renames.toml"
    file.write_text("".join(tables))
    return add_renames(stack, [file], workspace.repositories)


def revisions(small: SmallStack, stack: Stack, **chosen: str) -> dict[str, str]:
    workspace = Workspace(stack, small.home)
    fixed = fixed_revisions(stack, workspace.repositories, searched="tool")
    return Revisions(stack, workspace.clones, fixed).complete(chosen)


def in_slot(small: SmallStack, stack: Stack, path: str, **chosen: str) -> str:
    """A file as a run at some commits has it."""
    slot = Workspace(stack, small.home).acquire()
    slot.check_out(revisions(small, stack, **chosen))
    slot.release()
    name, _, file = path.partition("/")
    return (slot.path(name) / file).read_text()


def test_the_case_has_the_names_of_the_commit_at_hand(small: SmallStack) -> None:
    before = small.tool.commit("before", {"lib.py": "def load(x, rows): ...\n"})
    commit = small.tool.commit("rename", {"lib.py": "def load(x, lines): ...\n"})
    after = small.tool.commit("after", {"tool.txt": "good 2\n"})
    own = small.cases.commit("cases", {"old.py": OLD, "sub/new.py": NEW, "other.py": "slice(lines=1)\n"})
    stack = with_rules(small, table(commit[:12]))
    assert stack.renames[0].commit == commit
    for sha, text in ((before, OLD), (commit, NEW), (after, NEW), (before, OLD)):
        assert in_slot(small, stack, "cases/old.py", tool=sha) == text
        assert in_slot(small, stack, "cases/sub/new.py", tool=sha) == text
        assert in_slot(small, stack, "cases/other.py", tool=sha) == "slice(lines=1)\n"
    assert in_slot(small, small.stack(), "cases/old.py", tool=after) == OLD
    assert small.cases.git("rev-parse", "HEAD") == own
    assert small.cases.git("status", "--porcelain") == ""

    workspace = Workspace(stack, small.home)

    def told(sha: str) -> list[AdaptedFile]:
        return [*adapted_files(workspace.clones, stack, stack.renames[0], revisions(small, stack, tool=sha))]

    assert told(before) == [AdaptedFile(repository="cases", path="sub/new.py", places=1)]
    assert told(after) == [AdaptedFile(repository="cases", path="old.py", places=1)]
    assert [*describe_rename(stack.renames[0], "rename", {"good": told(before), "bad": told(after)})] == [
        f"rows of load became lines with {commit[:12]} of tool (rename): files of another time get the name of the "
        "commit at hand",
        "at the good end, 1 place of cases/sub/new.py",
        "at the bad end, 1 place of cases/old.py",
    ]


def test_of_the_repository_that_renamed_only_what_is_laid_over_it(small: SmallStack) -> None:
    before = small.tool.commit("before", {"use.py": OLD, "check.py": OLD})
    commit = small.tool.commit("rename", {"use.py": NEW, "check.py": NEW})
    stack = with_rules(small, table(commit), overlay=f"../tool/check.py@{commit}")
    assert in_slot(small, stack, "tool/check.py", tool=before) == OLD
    assert in_slot(small, stack, "tool/check.py", tool=commit) == NEW
    of_use = small.tool.commit("use in its own way", {"use.py": OLD})
    assert in_slot(small, stack, "tool/use.py", tool=of_use) == OLD


def test_renames_follow_each_other(small: SmallStack) -> None:
    """A name that changes twice, and one that is taken back."""
    shas = [small.tool.commit(f"commit {n}", {"n": str(n)}) for n in range(4)]
    names = ["rows", "lines", "rows", "records"]
    tables = [table(shas[n], old=names[n - 1], new=names[n]) for n in (1, 2, 3)]
    stack = with_rules(small, *tables)
    small.cases.commit("cases", {f"{name}.py": f"load({name}=1)\n" for name in ("rows", "lines", "records")})
    for sha, name in zip(shas, names, strict=True):
        assert in_slot(small, stack, "cases/records.py", tool=sha) == f"load({name}=1)\n"
        assert in_slot(small, stack, "cases/rows.py", tool=sha) == f"load({name}=1)\n"


def test_what_is_written_otherwise_tells_contents_apart(small: SmallStack) -> None:
    before = small.tool.commit("before", {"n": "1"})
    commit = small.tool.commit("rename", {"n": "2"})
    back = small.tool.commit("back to the same files", {"n": "1"})
    small.tool.commit("elsewhere", {"n": "3"})
    plain, stack = small.stack(), with_rules(small, table(commit))

    def key(stack: Stack, sha: str, entry: str | None = None) -> str:
        content = StackContent(stack, Workspace(stack, small.home))
        held = revisions(small, stack, tool=sha)
        return content.revisions_key(held) if entry is None else content.input_key(held, entry)

    assert key(plain, before) == key(plain, back)
    assert len({key(plain, before), key(stack, before), key(stack, back)}) == 3
    assert key(stack, before, "tool") == key(plain, before, "tool") == key(stack, back, "tool")
    assert len({key(plain, before, "cases"), key(stack, before, "cases"), key(stack, back, "cases")}) == 3


def test_a_history_is_followed_as_git_tells_it(small: SmallStack) -> None:
    base = small.tool.commit("base", {"n": "1"})
    small.tool.git("checkout", "--quiet", "-b", "side")
    small.tool.commit("beside", {"side": "1"})
    small.tool.git("checkout", "--quiet", "main")
    commit = small.tool.commit("rename", {"n": "2"})
    small.tool.git("merge", "--quiet", "--no-edit", "side")
    last = small.tool.commit("last", {"n": "3"})
    stack = with_rules(small, table(commit))
    clone = Workspace(stack, small.home).clones["tool"]
    made = RenameTracker(stack.renames, {"tool": clone})
    history = clone.commits(good=base, bad=last)
    made.learn("tool", history)
    for each in history:
        revisions = {"tool": each.sha}
        assert is_rename_applied(
            stack.renames[0], made.revisions_with_renames(revisions)
        ) == clone.is_ancestor(commit, each.sha)


def test_a_rule_that_changes_nothing_is_told(small: SmallStack) -> None:
    stack = with_rules(small, table(small.tool.commit("rename", {"n": "1"})))
    (told,) = describe_rename(stack.renames[0], "rename", {"good": [], "bad": []})
    assert "the rule changes nothing at the ends" in told


@pytest.mark.parametrize(
    ("text", "says"),
    quick_first(
        [
            ("", "rename: this key is required"),
            ("rename = 1", "rename: expected a list"),
            ("[[rename", "expected TOML"),
            (table("0" * 40), "rename.commit 0000000000000000000000000000000000000000: expected a revision of"),
            (table("not hex"), "rename.0.commit: expected a text of the form"),
            (table("0" * 40, repository="toll"), "rename.repository: expected one of cases, rt, tool, found toll"),
            (table("0" * 40, new="rows"), "expected old and new to differ"),
            (table("0" * 40, new="a.b"), "rename.0.new: expected a text of the form"),
            (f'{table("0" * 40)}keywords_of = []', "did you mean keyword_of?"),
        ],
        3,
    ),
)  # fmt: skip
def test_what_is_no_file_of_renames(small: SmallStack, text: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        with_rules(small, text)
    assert "--adapt" in str(raised.value)
    assert says in str(raised.value)


def test_a_file_that_is_not_there(small: SmallStack) -> None:
    with pytest.raises(UsageError, match=r"--adapt no-such.toml: expected a file to read"):
        add_renames(small.stack(), [Path("no-such.toml")], small.workspace().repositories)
