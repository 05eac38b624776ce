"""How long an end is waited for is what the engine then does."""

import pytest

from precision_bisect.bisect.engine.bisection import Bisection
from precision_bisect.bisect.engine.known import BisectionQuestion
from precision_bisect.bisect.run.view.ends_in_vain import describe_wait, describe_waits, runs_in_vain
from precision_bisect.bisect.run.view.estimate import opened
from precision_bisect.store.vocabulary import Judgement, Seeks
from tests.bisect.engine.planted import PlantedStack, bisect, question

GOOD, BAD = Judgement.GOOD, Judgement.BAD


def before_its_first_run(stack: PlantedStack, asked: BisectionQuestion) -> Bisection:
    loaded = stack.load(asked.range)
    assert loaded is not None
    before = opened(asked, loaded)
    assert before is not None
    return before


@pytest.mark.parametrize("end_runs", [None, 6])
@pytest.mark.parametrize(
    ("wanted", "seeks"), [(BAD, Seeks.REGRESSION), (GOOD, Seeks.REGRESSION), (BAD, Seeks.FIX)]
)
def test_as_many_runs_are_told_as_are_made(wanted: Judgement, seeks: Seeks, end_runs: int | None) -> None:
    stack = PlantedStack(outcome=lambda line, lib: GOOD if wanted is BAD else BAD, pins=["lib-0"] * 9)
    asked = question(stack, range=stack.range(seeks=seeks), end_runs=end_runs)
    task = bisect(stack, asked)
    before = before_its_first_run(stack, asked)
    end = "8 lib-0" if (wanted is BAD) == (seeks is Seeks.REGRESSION) else "0 lib-0"
    assert runs_in_vain(before, wanted) == task.simulated.started.count(end)


def test_the_wait_is_told_with_what_it_excludes_and_the_option_that_decides() -> None:
    stack = PlantedStack(outcome=lambda line, lib: GOOD, pins=["lib-0"] * 9)
    asked = question(stack)
    before = before_its_first_run(stack, asked)
    most = runs_in_vain(before, BAD)
    assert most is not None
    assert most > 20
    assert describe_wait(before, BAD) == (
        f"is run until it fails, at most {most} times, if the good end passes (--end-runs N: at most N): 7 passes in a "
        f"row show that it fails in fewer than 50% of its runs, {most} in fewer than 17% (99 %)"
    )
    assert describe_wait(before, GOOD) == (
        "is run until it passes, at most 3 times, if the bad end fails (--end-runs N: at most N): 3 failures in a "
        "row show that it passes in fewer than 78% of its runs (99 %)"
    )
    waits = f"a good end that fails is run up to 3 times, a bad one that passes {most} (--end-runs)"
    assert describe_waits(before) == waits


def test_nothing_is_said_of_an_end_that_is_run_once() -> None:
    stack = PlantedStack(outcome=lambda line, lib: GOOD, pins=["lib-0"] * 9)
    asked = question(stack, end_runs=1)
    before = before_its_first_run(stack, asked)
    assert describe_wait(before, BAD) is None
