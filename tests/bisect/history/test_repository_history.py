"""Questions of a bisection, answered from real repositories."""

from precision_bisect.bisect.ask.ends import content_and_revisions
from precision_bisect.bisect.history.loader import HistoryReader, first_parents
from precision_bisect.bisect.history.questions import (
    AskApplies,
    AskBlamedFile,
    AskFirstParents,
    AskMergeBase,
    AskMovedPins,
    AskPatches,
    AskPins,
    AskRange,
    AskSameChange,
    AskTarget,
    FirstParents,
    MovedPin,
)
from precision_bisect.bisect.history.range import LoadedRange, Range, Target
from precision_bisect.bisect.search.testability import BlamedFile
from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.verdict.rules import CompilerError
from tests.bisect.drive.small_request import small_request
from tests.conftest import TestRepository
from tests.runner.small_stack import SmallStack

DAY = 24 * 3600


def head(repository: TestRepository) -> str:
    return repository.git("rev-parse", "HEAD")


def reader(small: SmallStack, good: str, bad: str) -> HistoryReader:
    workspace = small.workspace()
    request = small_request(small, workspace, good, bad)
    content, revisions = content_and_revisions(request, workspace)
    return HistoryReader(request, workspace=workspace, content=content, revisions=revisions)


def target(reads: HistoryReader, commit: str, **held: str) -> Target | None:
    answer = reads.answer(AskTarget(repository="tool", commit=commit, held=held))
    assert answer is None or isinstance(answer, Target)
    return answer


def test_first_parents_may_end_where_a_shallow_clone_does(repository: TestRepository) -> None:
    line = [repository.commit(f"commit {n}", {"n": str(n)}) for n in range(3)]
    (repository.path / ".git" / "shallow").write_text(f"{line[1]}\n")
    found = first_parents(GitRepository(repository.path), line[2])
    assert (found.commits, found.is_whole) == ((line[2], line[1]), False)


def test_merged_branches_are_not_among_the_first_parents(repository: TestRepository) -> None:
    root = repository.commit("root", {})
    repository.git("checkout", "--quiet", "-b", "side")
    side = repository.commit("side", {"side": "1"})
    repository.git("checkout", "--quiet", "main")
    trunk = repository.commit("trunk", {"trunk": "1"})
    repository.git("merge", "--quiet", "--no-edit", "side")
    commits = first_parents(GitRepository(repository.path), head(repository)).commits
    assert commits == (head(repository), trunk, root)
    assert side not in commits


def test_a_range_a_moved_pin_and_where_its_ends_parted(small: SmallStack) -> None:
    good, rt_old = head(small.tool), head(small.rt)
    edited = small.tool.commit("edit", {"tool.txt": "good 2\n"})
    moved = small.move_runtime("rt 2\n")
    rt_new = head(small.rt)
    reads = reader(small, good, moved)
    where = Range(repository="tool", old=good, new=moved, held={})
    loaded = reads.answer(AskRange(ordinal=1, range=where))
    assert isinstance(loaded, LoadedRange)
    assert loaded.candidates == (edited, moved)
    assert len({loaded.old_content, *loaded.contents.values()}) == 3
    assert (
        reads.answer(AskRange(ordinal=1, range=Range(repository="tool", old=good, new=good, held={}))) is None
    )
    assert reads.answer(AskMovedPins(repository="tool", old=edited, new=moved)) == (
        MovedPin(path="rt", held_name="rt", old=rt_old, new=rt_new),
    )
    assert reads.answer(AskMovedPins(repository="tool", old=good, new=edited)) == ()
    assert reads.answer(AskMergeBase(repository="rt", one=rt_new, other=rt_old)) == rt_old
    line = reads.answer(AskFirstParents(repository="tool", commit=moved))
    assert isinstance(line, FirstParents)
    assert line.commits[:3] == (moved, edited, good)
    assert reads.answer(AskPatches(repository="tool", commit=moved)) == ()
    applies = AskApplies(repository="tool", change=edited, commits=(good, moved))
    assert reads.answer(applies) == (good, moved)
    alike = AskSameChange(repository="tool", commit=edited, among=(moved,))
    assert reads.answer(alike) == ()


def test_what_an_error_blames_is_read_from_the_range_that_was_asked_about(small: SmallStack) -> None:
    good = head(small.tool)
    broken = small.tool.commit("breaks", {"tool.txt": "good 1\nbroken line\n"})
    mended = small.tool.commit("mends", {"tool.txt": "good 1\nmended line\n"})
    reads = reader(small, good, mended)
    loaded = reads.answer(AskRange(ordinal=1, range=Range(repository="tool", old=good, new=mended, held={})))
    assert isinstance(loaded, LoadedRange)
    error = CompilerError(path="/slot/tool/tool.txt", line=2, message="broken")
    asked = AskBlamedFile(ordinal=1, candidates=loaded.candidates, commit=broken, error=error)
    blamed = reads.answer(asked)
    assert isinstance(blamed, BlamedFile)
    assert blamed.fails is not None
    assert blamed.fails.tolist() == [True, False, False]


def test_a_target_by_what_is_held_and_none_where_it_cannot_be_had(small: SmallStack) -> None:
    good, rt_old = head(small.tool), head(small.rt)
    moved = small.move_runtime("rt 2\n")
    rt_new = head(small.rt)
    small.tool.git("update-index", "--cacheinfo", f"160000,{'ab' * 20},rt")
    small.tool.git("commit", "--quiet", "--message", "a pin of nothing")
    broken = head(small.tool)
    reads = reader(small, good, moved)
    old, new, mixed = target(reads, good), target(reads, moved), target(reads, moved, rt=rt_old)
    assert old is not None
    assert new is not None
    assert mixed is not None
    # The commit that only moves the pin does as its parent, once the pin is held.
    assert mixed.content == old.content != new.content
    assert reads.revisions_of(mixed)["rt"] == rt_old
    assert reads.revisions_of(new)["rt"] == rt_new
    assert target(reads, broken) is None
    answer = reads.answer(AskPins(good=old, bad=new))
    assert [(pin.name, pin.value_good, pin.value_bad) for pin in answer] == [("rt", rt_old, rt_new)]  # type: ignore[union-attr]
