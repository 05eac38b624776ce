"""What is foreseen is what the engine then asks for, where every run tells the truth."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.engine.estimate import (
    Estimate,
    describe_estimate,
    describe_remaining,
    estimate_rest,
    initial_bisection,
)
from precision_bisect.bisect.engine.runs import (
    BisectionQuestion,
    ConfirmationProgress,
    Needs,
    ProbeTimes,
    SearchProgress,
)
from precision_bisect.bisect.history.questions import AskBlamedFile
from precision_bisect.bisect.history.range import SlotBuild, describe_stage
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.verdict.rules import CompilerError
from precision_bisect.store.vocabulary import BuildSource, Judgement, Phase
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask, loaded_range
from tests.bisect.search.search_histories import broken_header, line


@pytest.mark.parametrize("commits", [1, 2, 7, 40])
def test_the_foreseen_runs_are_those_that_are_made(commits: int) -> None:
    names = [f"c{place}" for place in range(commits)]
    graph = CommitGraph([[place - 1] if place else [] for place in range(commits)])
    loaded = loaded_range(names, graph, "good")
    question = BisectionQuestion(range=loaded.range, confidence=0.99, repositories=frozenset({"line"}))
    before = initial_bisection(question, loaded)
    assert before is not None
    foreseen = estimate_rest(before)
    assert foreseen is not None
    assert foreseen.seconds is None

    made: Counter[Phase] = Counter()

    def count(needs: Needs) -> None:
        made.update(wanted.phase for wanted in needs.start)

    culprit = (commits - 1) // 2

    def outcome(content: str) -> Judgement:
        fails = content != "good" and int(content[1:]) >= culprit
        return Judgement.BAD if fails else Judgement.GOOD

    simulated = SimulatedBisection(
        loaded=loaded, outcome=outcome, machine=(machine := Machine()), on_needs=count, question=question
    )
    Loop(machine).run([SimulatedTask(simulated=simulated)])
    assert abs(foreseen.runs - made.total()) <= 2
    assert abs(foreseen.ends - made[Phase.ENDPOINT]) <= 1


def test_the_time_left_counts_builds_ends_and_confirmation() -> None:
    names = [f"c{place}" for place in range(16)]
    graph = CommitGraph([[place - 1] if place else [] for place in range(16)])
    loaded = loaded_range(names, graph, "good")
    told: list[Estimate] = []

    def look(needs: Needs) -> None:
        foreseen = estimate_rest(simulated.bisection)
        if foreseen is not None and simulated.bisection.known.log.ended:
            told.append(foreseen)

    simulated = SimulatedBisection(
        loaded=loaded,
        outcome=lambda content: (
            Judgement.BAD if content != "good" and int(content[1:]) >= 9 else Judgement.GOOD
        ),
        machine=(machine := Machine()),
        on_needs=look,
        times=lambda content: ProbeTimes(
            build_source=BuildSource.BUILT, build_seconds=100.0, run_seconds=3.0
        ),
    )
    Loop(machine).run([SimulatedTask(simulated=simulated)])
    first, last = told[0], told[-1]
    assert first.seconds == pytest.approx(3.0 * first.runs + 100.0 * first.builds)
    assert first.ends > 0
    assert first.confirm > 0
    assert first.builds > last.builds == 0
    assert last.runs <= 1


def test_a_build_that_serves_several_commits_is_foreseen_once() -> None:
    names = [f"c{place}" for place in range(16)]
    graph = CommitGraph([[place - 1] if place else [] for place in range(16)])
    loaded = loaded_range(names, graph, "good")
    question = BisectionQuestion(range=loaded.range, confidence=0.99, repositories=frozenset({"line"}))
    builds = {content: "old" if content in ("good", "c0", "c1") else "new" for content in ("good", *names)}
    apart, together = (initial_bisection(question, each) for each in (loaded, replace(loaded, builds=builds)))
    assert apart is not None
    assert together is not None
    one_each, shared = estimate_rest(apart), estimate_rest(together)
    assert one_each is not None
    assert shared is not None
    assert one_each.builds > shared.builds == 2


def test_what_earlier_bisections_have_built_is_not_foreseen_as_a_build() -> None:
    names = [f"c{place}" for place in range(16)]
    graph = CommitGraph([[place - 1] if place else [] for place in range(16)])
    loaded = loaded_range(names, graph, "good")
    question = BisectionQuestion(range=loaded.range, confidence=0.99, repositories=frozenset({"line"}))
    built = tuple(SlotBuild(content, "x", 100.0) for content in ("good", *names[8:]))
    apart, earlier = (
        initial_bisection(question, each) for each in (loaded, replace(loaded, earlier_builds=(built,)))
    )
    assert apart is not None
    assert earlier is not None
    all_of_them, left = estimate_rest(apart), estimate_rest(earlier)
    assert all_of_them is not None
    assert left is not None
    assert all_of_them.builds > left.builds > 0


def test_nothing_is_foreseen_where_runs_contradict_each_other() -> None:
    """Neither runs nor steps: what the search then takes depends on rates that nobody knows."""
    names = [f"c{place}" for place in range(16)]
    graph = CommitGraph([[place - 1] if place else [] for place in range(16)])
    loaded = loaded_range(names, graph, "good")
    runs: Counter[str] = Counter()
    steps: list[tuple[bool, float | None]] = []

    def look(needs: Needs) -> None:
        foreseen = estimate_rest(simulated.bisection) is not None
        steps.extend(
            (foreseen, note.expected_steps) for note in needs.notes if isinstance(note, SearchProgress)
        )

    def outcome(content: str) -> Judgement:
        runs[content] += 1
        # Every commit from the culprit on passes in its second run.
        fails = content != "good" and int(content[1:]) >= 9 and runs[content] != 2
        return Judgement.BAD if fails else Judgement.GOOD

    simulated = SimulatedBisection(
        loaded=loaded, outcome=outcome, machine=(machine := Machine()), on_needs=look
    )
    Loop(machine).run([SimulatedTask(simulated=simulated)])
    told, untold = [each for each in steps if each[0]], [each for each in steps if not each[0]]
    assert told
    assert untold
    assert all(expected is not None and expected <= 4 for _, expected in told)
    assert all(expected is None for _, expected in untold)


def test_what_is_foreseen_beside_a_wall_is_a_commit_that_no_run_speaks_against() -> None:
    """Half of the belief may lie in what the runs so far would have to be wrong for."""
    wall = range(100, 285)
    error = CompilerError(path="a.hpp", line=1, message="ambiguous")
    file = broken_header(300, wall)
    told: list[Estimate | None] = []

    def outcome(content: str) -> Judgement:
        if content != "good" and int(content) in wall:
            return Judgement.SKIP
        return Judgement.BAD if content != "good" and int(content) >= 292 else Judgement.GOOD

    simulated = SimulatedBisection(
        loaded=loaded_range([*map(str, range(300))], CommitGraph(line(300)), "good"),
        outcome=outcome,
        machine=(machine := Machine()),
        on_needs=lambda needs: told.append(estimate_rest(simulated.bisection)),
        errors=lambda content: (error,),
        answers={AskBlamedFile: lambda question: file},
    )
    Loop(machine).run([SimulatedTask(simulated=simulated)])
    foreseen = [each.runs for each in told if each is not None]
    assert len(foreseen) >= 6
    assert max(foreseen) <= 18
    assert 0 not in foreseen[:-2]  # while git is asked what the error blames


@pytest.mark.parametrize(("good", "bad"), [(0.0, 0.5), (0.1, 0.9)])
def test_a_search_whose_runs_contradict_each_other_mostly_ends_between_the_numbers_told(
    good: float, bad: float
) -> None:
    held = [
        least <= left <= most for seed in range(4) for left, (least, most) in told_of_a_line(good, bad, seed)
    ]
    assert len(held) >= 40
    assert sum(held) >= 0.7 * len(held)


def told_of_a_line(good: float, bad: float, seed: int) -> list[tuple[int, tuple[int, int]]]:
    """Of a line of 16 commits with these fail rates: runs that were still made, and what was told of them then."""
    chance = Random(seed)
    culprit = chance.randrange(16)
    told: list[tuple[int, tuple[int, int]]] = []

    def outcome(content: str) -> Judgement:
        rate = bad if content != "good" and int(content[1:]) >= culprit else good
        return Judgement.BAD if chance.random() < rate else Judgement.GOOD

    def look(needs: Needs) -> None:
        ran = len(simulated.bisection.known.log.ended)
        notes = [note for note in needs.notes if isinstance(note, SearchProgress | ConfirmationProgress)]
        told.extend((ran, note.runs) for note in notes if note.runs is not None)

    graph = CommitGraph([[place - 1] if place else [] for place in range(16)])
    simulated = SimulatedBisection(
        loaded=loaded_range([f"c{place}" for place in range(16)], graph, "good"),
        outcome=outcome,
        machine=(machine := Machine()),
        on_needs=look,
    )
    Loop(machine).run([SimulatedTask(simulated=simulated)])
    made = len(simulated.bisection.known.log.ended)
    return [(made - ran, runs) for ran, runs in told]


def test_counts_are_told_in_words() -> None:
    assert describe_stage("tool", commits=1, candidates=1) == "tool: 1 commit in the range"
    assert describe_stage("tool", commits=9, candidates=4) == (
        "tool: 9 commits in the range, 4 that can change the result"
    )
    assert describe_remaining(SearchProgress(1, 0.2)) == "1 commit left, about 1 step"
    assert describe_remaining(SearchProgress(4, 2.0)) == "4 commits left, about 2 steps"
    assert describe_remaining(SearchProgress(9, None)) == "9 commits left"
    assert (
        describe_remaining(SearchProgress(9, None, (12, 60))) == "9 commits left, probably 12 to 60 more runs"
    )
    assert describe_remaining(SearchProgress(9, None, (1, 1))) == "9 commits left, probably 1 more run"
    estimate = Estimate(ends=0, search=3, confirm=5, builds=0, seconds=4.0)
    assert describe_remaining(SearchProgress(9, 3.0), estimate) == (
        "9 commits left, about 8 runs to come (3 to search, 5 to confirm): 4 s"
    )


def test_what_is_to_come_names_ends_search_confirmation_builds_and_time() -> None:
    estimate = Estimate(ends=4, search=1, confirm=0, builds=2, seconds=75.0)
    assert (
        describe_estimate(estimate)
        == "about 5 runs to come (4 of the ends, 1 to search), 2 builds: 1 min 15 s"
    )
    untimed = Estimate(ends=0, search=0, confirm=1, builds=0, seconds=None)
    assert describe_estimate(untimed) == "about 1 run to come (1 to confirm)"
