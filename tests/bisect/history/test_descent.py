"""Which range of a pinned repository a pin's move makes suspect: every pair of pins of random graphs with a truth."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.bisect.history.questions import Descent, descent, has_diverged
from precision_bisect.runner.git import GitRepository
from precision_bisect.store.vocabulary import Judgement, Seeks
from tests.conftest import TestRepository


def never(_: str) -> Judgement:
    raise AssertionError("nothing has to be run")


def ask(
    repository: TestRepository,
    old: str,
    new: str,
    *,
    judge: Callable[[str], Judgement] = never,
    seeks: Seeks = Seeks.REGRESSION,
) -> Descent | str:
    base = GitRepository(repository.path).merge_base(old, new)
    base_judgement = judge(base) if base is not None and has_diverged(base, old=old, new=new) else None
    return descent(
        base, target="inner", old=old, new=new, held={"outer": "x"}, seeks=seeks, base_judgement=base_judgement
    )  # fmt: skip


@pytest.mark.parametrize("seeks", Seeks)
def test_forwards_and_backwards_need_no_run(repository: TestRepository, seeks: Seeks) -> None:
    first, last = repository.commit("first", {}), repository.commit("last", {})
    forwards, backwards = ask(repository, first, last, seeks=seeks), ask(repository, last, first, seeks=seeks)
    assert isinstance(forwards, Descent)
    assert (forwards.range.old, forwards.range.new, forwards.range.seeks) == (first, last, seeks)
    assert isinstance(backwards, Descent)
    assert (backwards.range.old, backwards.range.new) == (first, last)
    assert backwards.range.seeks is seeks.opposite
    assert backwards.range.held == {"outer": "x"}


def test_histories_that_share_nothing(repository: TestRepository) -> None:
    first = repository.commit("first", {})
    repository.git("checkout", "--quiet", "--orphan", "other")
    other = repository.commit("other", {})
    assert ask(repository, first, other) == "which share no history"


def test_a_merge_base_that_cannot_be_judged(repository: TestRepository) -> None:
    repository.commit("base", {})
    left = repository.commit("left", {})
    repository.git("checkout", "--quiet", "-b", "side", "HEAD~1")
    right = repository.commit("right", {"r": "1"})
    assert "cannot be judged" in str(ask(repository, left, right, judge=lambda _: Judgement.SKIP))


@pytest.mark.parametrize("seeks", Seeks)
def test_the_ends_of_the_range_are_what_they_are_said_to_be(
    repository: TestRepository, seeks: Seeks, tmp_path: Path
) -> None:
    """Commits on lines that fork at random fail or pass by what they and their ancestors did. Whatever two pins do
    differently, the range's old end does as one that a search for what it seeks starts from, and its new end not."""
    rng = random.Random(7)
    fails: dict[str, bool] = {repository.commit("root", {"n": "0"}): False}
    for number in range(1, 14):
        parent = rng.choice([*fails])
        repository.git("checkout", "--quiet", "--detach", parent)
        changes = rng.random() < 0.4
        fails[repository.commit(f"commit {number}", {"n": str(number)})] = fails[parent] ^ changes
    asked = 0
    for old in fails:
        for new in fails:
            if fails[old] != (seeks is Seeks.FIX) or fails[new] != (seeks is Seeks.REGRESSION):
                continue
            asked += 1
            found = ask(
                repository, old, new, seeks=seeks,
                judge=lambda sha: Judgement.BAD if fails[sha] else Judgement.GOOD,
            )  # fmt: skip
            assert isinstance(found, Descent)
            where = found.range
            assert fails[where.old] == (where.seeks is Seeks.FIX)
            assert fails[where.new] == (where.seeks is Seeks.REGRESSION)
            assert GitRepository(repository.path).is_ancestor(where.old, where.new)
            assert where.new == (new if where.seeks is seeks else old)
    assert asked > 20
