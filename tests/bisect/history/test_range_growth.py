"""The bookkeeping of a range grows like the number of its commits.

Each job runs on 1,009 and on 4,033 commits. What is counted are the executed lines of Python in `bisect/`, and the
bytes that are held at once. Four times the commits may take six times as much, where a quadratic loop takes sixteen.
A bisection reads its range once from git, and once from the store. What is counted are the calls of git, and the
queries.
"""

import json
import sys
import tracemalloc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import Engine, event

import precision_bisect.bisect.history.range as range_module
from precision_bisect.bisect.bisect_command import bisect
from precision_bisect.bisect.cli import SlowStart, parse_words
from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.drive.progress import PlainProgress
from precision_bisect.bisect.engine.runs import Needs, SearchProgress
from precision_bisect.bisect.history.loader import find_windows
from precision_bisect.bisect.history.range import CommitRange, Node, RecompiledObjects, collapse
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.vocabulary import Commit, Judgement, TreeChange
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask, loaded_range
from tests.conftest import TestRepository

SMALL, LARGE = 1009, 4033
"""Both are larger than what a dry run is made of, and end with a merge where there are any."""
MOST = 6.0
START = datetime(2026, 1, 1, tzinfo=UTC)
ROOM = str(Path(range_module.__file__).parents[1])

Change = Callable[[int, int], tuple[str, str, str]]
"""The path, and the old and the new content, that a commit of so many gives it."""


def hot_file(place: int, commits: int) -> tuple[str, str, str]:
    return "hot", str(place - 1), str(place)


def toggled_file(place: int, commits: int) -> tuple[str, str, str]:
    return "toggled", str((place - 1) % 3), str(place % 3)


def nested_reverts(place: int, commits: int) -> tuple[str, str, str]:
    """The second half undoes the first, the last change first."""
    first = place < commits // 2
    number = place if first else commits - 1 - place
    return (f"file {number}", "old", "new") if first else (f"file {number}", "new", "old")


def line_parents(place: int) -> list[int]:
    return [place - 1] if place else []


def merged_parents(place: int) -> list[int]:
    """Each seventh commit merges a branch of two."""
    match place % 7:
        case 0 if place:
            return [place - 3, place - 1]
        case 5:
            return [place - 4]
        case _:
            return line_parents(place)


def old_branch_parents(place: int) -> list[int]:
    """Each second commit is a branch off the commit before the range, which the next one merges."""
    if place % 2:
        return []
    return [place - 2, place - 1] if place else []


def commits_of(parents: Callable[[int], list[int]], commits: int, change: Change) -> list[Commit]:
    made: list[Commit] = []
    for place in range(commits):
        path, old, new = change(place, commits)
        above = parents(place)
        made.append(
            Commit(
                sha=f"c{place}",
                parents=tuple(f"c{parent}" for parent in above) or (f"good {place}",),
                author="",
                email="",
                date=START + timedelta(minutes=place),
                subject=f"change {place}",
                changes=(TreeChange(path, "100644", old, "100644", new),),
            )
        )
    return made


def graph_of(parents: Callable[[int], list[int]], commits: int) -> CommitGraph:
    return CommitGraph([parents(place) for place in range(commits)])


def uncollapsed(commits: Sequence[Commit], graph: CommitGraph) -> CommitRange:
    return CommitRange(
        nodes=tuple(Node(members=(each,)) for each in commits),
        parents=graph.parents,
        bad=graph.bad,
        good_side=(),
    )


def fold(parents: Callable[[int], list[int]], commits: int) -> None:
    made = commits_of(parents, commits, hot_file)
    contents = {each.sha: each.sha for each in made}
    assert collapse(made, lambda sha: contents.get(sha, "good")) is not None


def look_for_windows(change: Change, commits: int) -> None:
    made, graph = commits_of(line_parents, commits, change), graph_of(line_parents, commits)
    found = find_windows(made, uncollapsed(made, graph), graph)
    assert bool(found) == (change is not hot_file)


def count_objects(commits: int) -> None:
    made, graph = commits_of(merged_parents, commits, hot_file), graph_of(merged_parents, commits)
    again = RecompiledObjects(uncollapsed(made, graph), {"hot": 1})
    assert again.objects_from(commits // 2).max() == 1


def search(parents: Callable[[int], list[int]], change: Change, commits: int) -> None:
    """A whole bisection, with what is shown of it."""
    graph = graph_of(parents, commits)
    made = commits_of(parents, commits, change)
    windows = find_windows(made, uncollapsed(made, graph), graph)
    names = [each.sha for each in made]
    culprit = 5 * commits // 7
    changed = {f"c{place}" for place in range(commits) if graph.is_ancestor(culprit, place)}
    screen = StringIO()
    progress = PlainProgress(Console(file=screen))

    def show(needs: Needs) -> None:
        progress.show_state(simulated.bisection)
        for note in needs.notes:
            if isinstance(note, SearchProgress):
                progress.show_remaining(note)

    simulated = SimulatedBisection(
        loaded=replace(loaded_range(names, graph, "good"), windows=windows),
        outcome=lambda content: Judgement.BAD if content in changed else Judgement.GOOD,
        machine=(machine := Machine()),
        on_needs=show,
    )
    task = SimulatedTask(simulated=simulated)
    Loop(machine).run([task])
    assert task.culprit == f"c{culprit}"
    assert "runs to come" in screen.getvalue()


def lines_and_bytes(job: Callable[[int], None], commits: int) -> tuple[int, int]:
    """The executed lines of a job, those of each turn of a loop included, and the most bytes that it holds."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(ROOM):
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        job(commits)
    finally:
        sys.settrace(before)
    tracemalloc.start()
    try:
        job(commits)
        return lines, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(lambda commits: fold(line_parents, commits), id="fold a line"),
        pytest.param(lambda commits: fold(merged_parents, commits), id="fold merges"),
        pytest.param(lambda commits: fold(old_branch_parents, commits), id="fold old branches"),
        pytest.param(lambda commits: look_for_windows(hot_file, commits), id="changes of one file"),
        pytest.param(lambda commits: look_for_windows(toggled_file, commits), id="a toggled file"),
        pytest.param(lambda commits: look_for_windows(nested_reverts, commits), id="nested reverts"),
        pytest.param(count_objects, id="objects"),
        pytest.param(lambda commits: search(line_parents, hot_file, commits), id="search a line"),
        pytest.param(lambda commits: search(merged_parents, hot_file, commits), id="search merges"),
        pytest.param(lambda commits: search(line_parents, nested_reverts, commits), id="search reverts"),
    ],
)
def test_four_times_the_commits_take_at_most_six_times_as_much(job: Callable[[int], None]) -> None:
    small, large = lines_and_bytes(job, SMALL), lines_and_bytes(job, LARGE)
    assert small[0] > SMALL
    assert large[0] <= MOST * small[0]
    assert large[1] <= MOST * small[1]


@contextmanager
def count_range_queries() -> Generator[list[str]]:
    """Collect the queries that read the commits of a stored range, whichever store they are for."""
    queries: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("SELECT stages.candidates"):
            queries.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield queries
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def range_walks(trace: Path) -> list[list[str]]:
    """The calls of git that list the commits of a range, in a trace of git."""
    starts = (json.loads(line) for line in trace.read_text().splitlines() if '"event":"start"' in line)
    calls = [start["argv"] for start in starts]
    return [call for call in calls if "--topo-order" in call and any(".." in word for word in call)]


def test_a_bisection_reads_its_range_once(
    repository: TestRepository, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        repository.commit(f"commit {number}", {"n": f"{number}\n"})
    monkeypatch.chdir(repository.path)
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(trace))
    words = ("--quiet", "--notify", "true", "--good", "main~11", "--bad", "main", "--")
    options = parse_words([*words, "sh", "-c", "test $(cat n) -lt 7"]).options
    with count_range_queries() as queries:
        assert bisect(options, SlowStart(quiet=True)) == 0
    assert len(range_walks(trace)) == 1
    assert len(queries) == 1
