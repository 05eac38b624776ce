"""How long an end is waited for is what the engine then does."""

import pytest

from precision_bisect.bisect.engine.bisection import Bisection
from precision_bisect.bisect.engine.estimate import (
    describe_wait,
    describe_waits,
    initial_bisection,
    wait_limit,
)
from precision_bisect.bisect.engine.runs import BisectionQuestion
from precision_bisect.store.vocabulary import Judgement, Seeks
from tests.bisect.engine.planted import PlantedStack, bisect, question

GOOD, BAD = Judgement.GOOD, Judgement.BAD


def before_its_first_run(stack: PlantedStack, asked: BisectionQuestion) -> Bisection:
    loaded = stack.load(asked.range)
    assert loaded is not None
    before = initial_bisection(asked, loaded)
    assert before is not None
    return before


@pytest.mark.parametrize(
    ("wanted", "seeks"), [(BAD, Seeks.REGRESSION), (GOOD, Seeks.REGRESSION), (BAD, Seeks.FIX)]
)
def test_as_many_runs_are_told_as_are_made(wanted: Judgement, seeks: Seeks) -> None:
    stack = PlantedStack(outcome=lambda line, lib: GOOD if wanted is BAD else BAD, pins=["lib-0"] * 9)
    asked = question(stack, range=stack.range(seeks=seeks))
    task = bisect(stack, asked)
    before = before_its_first_run(stack, asked)
    end = "8 lib-0" if (wanted is BAD) == (seeks is Seeks.REGRESSION) else "0 lib-0"
    assert wait_limit(before, wanted) == task.simulated.started.count(end)


def test_the_wait_is_told_with_what_it_excludes() -> None:
    stack = PlantedStack(outcome=lambda line, lib: GOOD, pins=["lib-0"] * 9)
    asked = question(stack)
    before = before_its_first_run(stack, asked)
    most = wait_limit(before, BAD)
    assert most is not None
    assert most > 20
    assert describe_wait(before, BAD) == (
        f"is run until it fails, at most {most} times, if the good end passes: 7 passes in a "
        f"row show that it fails in fewer than 50 % of its runs, {most} in fewer than 17 % (99 %)"
    )
    assert describe_wait(before, GOOD) == (
        "is run until it passes, at most 3 times, if the bad end fails: 3 failures in a "
        "row show that it passes in fewer than 78 % of its runs (99 %)"
    )
    waits = f"a good end that fails is run up to 3 times, a bad one that passes {most}"
    assert describe_waits(before) == waits
