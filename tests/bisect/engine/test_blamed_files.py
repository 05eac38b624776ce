"""A bisection asks what the errors of untestable commits blame, and tries no more of those that hold the same."""

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np
import pytest

from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.history.questions import AskApplies, AskBlamedFile
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.testability import BlamedFile
from precision_bisect.runner.verdict.rules import CompilerError
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, TreeChange
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask, loaded_range
from tests.bisect.search.search_histories import line

WALL = range(20, 90)
"""Of 120 commits on a line; from 20 on a file has a line that does not compile, and other commits change it too."""
ERROR = CompilerError(path="src/a.hpp", line=7, message="ambiguous")


def searched(
    culprit: int,
    *,
    named: bool,
    earlier: Collection[int] = (),
    wall: Collection[int] = WALL,
    applies: Callable[[AskApplies], tuple[str, ...] | None] = lambda question: question.commits,
    mends: str = "src/a.hpp",
    mode: str = "100644",
    others: str = "src/x.cpp",
) -> tuple[SimulatedTask, list[int], list[AskBlamedFile]]:
    """The search, the untestable commits that were tried, and what was asked about their errors. `earlier` are those
    that other bisections could not build; `applies` says at which commits the change behind the wall can be made, which
    is one of the file `mends`, and leaves it with a mode; those in the wall change the file `others`."""
    loaded = loaded_range([*map(str, range(120))], CommitGraph(line(120)), "good")
    nodes = [*loaded.commit_range.nodes]
    for place in (*WALL, WALL.stop):
        path, new_mode = (others, "100644") if place in WALL else (mends, mode)
        change = TreeChange(path, old_mode="100644", old_object="1", new_mode=new_mode, new_object="2")
        nodes[place] = replace(nodes[place], members=(replace(nodes[place].commit, changes=(change,)),))
    loaded = replace(loaded, commit_range=replace(loaded.commit_range, nodes=nodes))
    asked: list[AskBlamedFile] = []
    tried: list[int] = []

    def outcome(content: str) -> Judgement:
        if content != "good" and int(content) in wall:
            tried.append(int(content))
            return Judgement.SKIP
        return Judgement.BAD if content != "good" and int(content) >= culprit else Judgement.GOOD

    def blamed(question: AskBlamedFile) -> BlamedFile | None:
        asked.append(question)
        versions = np.array([*(commit // 6 for commit in range(120)), -1])
        return BlamedFile("src/a.hpp", versions, np.array([*(c in WALL for c in range(120)), False]))

    task = SimulatedTask(
        simulated=SimulatedBisection(
            loaded=replace(loaded, earlier_skips={str(commit): (ERROR,) for commit in earlier}),
            outcome=outcome,
            machine=Machine(),
            errors=lambda content: (ERROR,) if named else (),
            answers={AskBlamedFile: blamed, AskApplies: applies},
        )
    )
    Loop(task.simulated.machine).run([task])
    return task, tried, asked


@pytest.mark.parametrize("culprit", [5, 19, 91, 110])
def test_one_commit_of_a_wall_is_met_where_its_error_names_a_line(culprit: int) -> None:
    task, tried, asked = searched(culprit, named=True)
    assert task.culprit == str(culprit)
    # Beside the one that the search met, at most the commit next to the culprit.
    assert len(tried) <= 2
    assert (str(tried[0]), ERROR) in [(question.commit, question.error) for question in asked]
    assert len(searched(culprit, named=False)[1]) >= 3


@pytest.mark.parametrize("culprit", [21, 50, 88])
def test_a_wall_that_holds_the_culprit_is_told_and_not_tried_to_its_end(culprit: int) -> None:
    task, tried, _ = searched(culprit, named=True)
    assert len(tried) == 3
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.ONLY_SKIPPED
    assert [int(suspect.commit) for suspect in task.conclusion.suspects] == [*WALL, 90]
    assert task.conclusion.message == (
        "the culprit is one of 71 commits of line, 20 to 90, whose runs do not tell them apart: 70 of them hold what "
        "the 3 that were tried do not compile for (src/a.hpp:7: ambiguous), which 90 fixes; to test them with its "
        "change, add --cherry-pick 90@19..89"
    )


@pytest.mark.parametrize(
    ("applies", "mends", "advice"),
    [
        (None, "src/a.hpp", "; to test them with its change where that applies, add --cherry-pick 90@19..89"),
        (
            ("88", "89"),
            "src/a.hpp",
            ", whose change does not apply to 68 of these 70; to test them with that file as it is there, add "
            "--overlay src/a.hpp@90",
        ),
        (
            ("88", "89"),
            "src/b.hpp",
            ", whose change does not apply to 68 of these 70; to test the others with it, add --cherry-pick 90@19..89",
        ),
        ((), "src/b.hpp", ", whose change does not apply to 70 of these 70"),
    ],
)
def test_what_does_not_apply_is_not_advised(applies: tuple[str, ...] | None, mends: str, advice: str) -> None:
    asked: list[AskApplies] = []

    def at(question: AskApplies) -> tuple[str, ...] | None:
        asked.append(question)
        return applies

    task, _, _ = searched(50, named=True, applies=at, mends=mends)
    assert task.conclusion is not None
    assert task.conclusion.message.endswith(f", which 90 fixes{advice}")
    assert asked == [
        AskApplies(repository="line", change="90", commits=tuple(str(commit) for commit in WALL))
    ]


@pytest.mark.parametrize(
    ("others", "mode"),
    [("src/a.hpp", "100644"), ("src/x.cpp", "000000"), ("src/x.cpp", "160000")],
    ids=["nothing else would be left to search", "the file is removed", "a submodule takes its place"],
)
def test_a_file_that_cannot_be_laid_over_is_not_advised(others: str, mode: str) -> None:
    task, _, _ = searched(50, named=True, applies=lambda _: (), others=others, mode=mode)
    assert task.conclusion is not None
    assert task.conclusion.message.endswith(", which 90 fixes, whose change does not apply to 70 of these 70")


@pytest.mark.parametrize("culprit", [5, 91])
def test_what_others_could_not_build_is_not_tried_again(culprit: int) -> None:
    task, tried, asked = searched(culprit, named=True, earlier=(55, 70))
    assert task.culprit == str(culprit)
    assert not tried
    assert len(asked) == 1, "equal errors blame alike"


def test_where_nothing_else_is_left_it_is_tried_after_all() -> None:
    """The compiler was mended meanwhile."""
    task, tried, _ = searched(56, named=True, earlier=WALL, wall=())
    assert task.culprit == "56"
    assert not tried


@pytest.mark.parametrize(
    ("applies", "advice"),
    [
        (
            lambda question: question.commits,
            "; the first that can be tested behind them is 90; to test them with its change, add --cherry-pick "
            "90@19..89; --overlay and --adapt make commits testable too",
        ),
        (lambda _: (), "; --cherry-pick, --overlay and --adapt make commits testable"),
    ],
)
def test_without_a_name_every_commit_of_a_wall_is_tried(
    applies: Callable[[AskApplies], tuple[str, ...] | None], advice: str
) -> None:
    task, tried, _ = searched(50, named=False, applies=applies)
    assert sorted(tried) == [*WALL]
    assert task.conclusion is not None
    assert task.conclusion.message.endswith(f"whose runs do not tell them apart{advice}")
