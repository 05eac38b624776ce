"""The loop over all kinds of edits: 1-minimal across kinds, in few tests, whatever the oracle and however stopped."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from precision_bisect.reduce.shrink.minimize import Answer, DependencyGraph
from precision_bisect.reduce.shrink.program import Candidate
from tests.reduce.shrink.small_programs import (
    PureOracle,
    SmallProgram,
    lawless,
    random_program,
    shrinker,
)


def test_no_single_edit_of_any_kind_makes_the_result_smaller_whatever_the_oracle(tmp_path: Path) -> None:
    """By listing all single edits of the result."""
    for seed in range(60):
        program = random_program(random.Random(seed))
        oracle = PureOracle(lawless(seed, program.order.whole))
        written: list[Candidate] = []
        loop = shrinker(program, oracle, tmp_path / str(seed), written=written)
        loop.shrink(program.kinds())
        assert oracle.rule(loop.best) is Answer.INTERESTING
        assert [
            one for one in program.smaller_by_one(loop.best) if oracle.rule(one) is Answer.INTERESTING
        ] == []
        assert len(oracle.asked) == len(set(oracle.asked)) == loop.calls
        assert len(oracle.asked) <= 4 * len(program.smaller_by_one(program.order.whole))
        sizes = [program.order.size(one) for one in (program.order.whole, *written)]
        assert sizes == sorted(set(sizes), reverse=True)
        assert loop.best == (written or [program.order.whole])[-1]


def needed(candidate: Candidate) -> bool:
    """What is wrong shows in task 0 with the failing build's kernel."""
    return 0 in candidate.tasks and "k0" not in candidate.collapsed


def test_a_later_kind_lets_an_earlier_one_try_again(tmp_path: Path) -> None:
    """Task 1 may go once sizes are small, and sizes get that small once the input holds zeros."""
    program = SmallProgram(DependencyGraph.edgeless(2))

    def rule(candidate: Candidate) -> Answer:
        plain, extents = dict(candidate.plain), dict(candidate.extents)
        if extents.get(64) == 1 and plain.get("x0") != "zeros":
            return Answer.PASSED
        if 1 not in candidate.tasks and extents.get(64) != 1:
            return Answer.PASSED
        return Answer.INTERESTING if needed(candidate) else Answer.PASSED

    oracle = PureOracle(rule)
    loop = shrinker(program, oracle, tmp_path)
    loop.shrink(program.kinds())
    assert (loop.best.tasks, dict(loop.best.extents)[64]) == ((0,), 1)
    assert len(oracle.asked) <= 45


def test_a_round_that_finds_nothing_new_costs_one_test_for_each_single_edit_at_most(tmp_path: Path) -> None:
    """All that was needed is found in the first round; what a later one asks again, the memory answers."""
    program = SmallProgram(DependencyGraph.edgeless(16))
    oracle = PureOracle(lambda one: Answer.INTERESTING if needed(one) else Answer.PASSED)
    loop = shrinker(program, oracle, tmp_path)
    loop.shrink(program.kinds())
    assert program.smaller_by_one(loop.best) == [replace(loop.best, collapsed=("k0",))]
    assert len(oracle.asked) <= 18


def test_a_program_that_needs_everything_costs_its_single_edits_and_few_more(tmp_path: Path) -> None:
    for tasks in (1, 2, 4):
        program = SmallProgram(DependencyGraph.edgeless(tasks))
        whole = program.order.whole
        oracle = PureOracle(lambda one, whole=whole: Answer.INTERESTING if one == whole else Answer.PASSED)
        loop = shrinker(program, oracle, tmp_path / str(tasks))
        loop.shrink(program.kinds())
        assert loop.best == whole
        assert len(oracle.asked) <= 1.6 * len(program.smaller_by_one(whole))


@pytest.mark.long
def test_workers_change_nothing(tmp_path: Path) -> None:
    for seed in range(10):
        program = random_program(random.Random(seed))
        results: set[Candidate] = set()
        for jobs in (1, 2, 3):
            oracle = PureOracle(lawless(seed, program.order.whole))
            loop = shrinker(program, oracle, tmp_path / f"{seed} {jobs}", jobs=jobs)
            loop.shrink(program.kinds())
            assert len(oracle.asked) == len(set(oracle.asked))
            results.add(loop.best)
        assert len(results) == 1


@pytest.mark.parametrize("seed", range(5))
def test_what_was_stopped_goes_on_and_repeats_no_test(seed: int, tmp_path: Path) -> None:
    """Stopped by a budget, and killed at any byte of the journal."""
    program = random_program(random.Random(seed))
    whole = PureOracle(lawless(seed, program.order.whole))
    loop = shrinker(program, whole, tmp_path / "whole")
    loop.shrink(program.kinds())
    journal = (tmp_path / "whole" / "tests.jsonl").read_bytes()
    rng = random.Random(seed)
    for number in range(4):
        first = PureOracle(whole.rule)
        folder = tmp_path / f"stopped {number}"
        most = rng.randint(1, len(whole.asked))
        stopped = shrinker(program, first, folder)

        def judge(
            candidate: Candidate, *, first: PureOracle = first, most: int = most, stopped=stopped
        ) -> Answer:
            if len(first.asked) == most:
                stopped.budget = 0.0
            return whole.rule(candidate)

        first.rule = judge
        stopped.shrink(program.kinds())
        assert (stopped.budget_spent, len(first.asked)) == (True, most)
        assert whole.rule(stopped.best) is Answer.INTERESTING
        second = PureOracle(whole.rule)
        resumed = shrinker(program, second, folder)
        resumed.shrink(program.kinds())
        assert resumed.best == loop.best
        assert first.asked + second.asked == whole.asked
        assert resumed.cached == len(first.asked)
        killed = tmp_path / f"killed {number}"
        killed.mkdir()
        end = rng.randrange(len(journal) + 1)
        (killed / "tests.jsonl").write_bytes(journal[:end])
        third = PureOracle(whole.rule)
        again = shrinker(program, third, killed)
        again.shrink(program.kinds())
        assert again.best == loop.best
        assert third.asked == whole.asked[journal[:end].count(b"\n") :]
