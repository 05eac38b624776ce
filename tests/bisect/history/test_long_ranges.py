"""A range too long to be read at once: it is read in parts, and the answer is that of the range as a whole."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import pytest

import precision_bisect.bisect.history.range as range_module
from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.engine.answer import budget_conclusion
from precision_bisect.bisect.history.questions import AskRange, AskTarget, HistoryAnswer, HistoryQuestion
from precision_bisect.bisect.history.range import LoadedRange, Range, Target
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates
from precision_bisect.store.vocabulary import Judgement
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask
from tests.bisect.history.test_repository_history import head, reader
from tests.conftest import TestRepository
from tests.runner.small_stack import SmallStack

COMMITS, AT_ONCE = 40, 5


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of more than a few commits is too long."""
    monkeypatch.setattr(range_module, "MAX_COMMITS", AT_ONCE)


def make_history(tool: TestRepository, seed: int) -> list[str]:
    """Commits on the present one, of which each adds a file, on lines that are merged. The last one is a merge."""
    chance, lines = random.Random(seed), [[head(tool)]]
    made: list[str] = []
    for place in range(COMMITS):
        if len(lines) > 1 and chance.random() < 0.3:
            other = lines.pop(chance.randrange(1, len(lines)))
            tool.git("checkout", "--quiet", "--detach", lines[0][-1])
            tool.git("merge", "--quiet", "--no-ff", "-m", f"merge {place}", other[-1])
            lines[0].append(head(tool))
            continue
        if chance.random() < 0.15:
            lines.append([lines[0][-1]])
        line = chance.choice(lines)
        tool.git("checkout", "--quiet", "--detach", line[-1])
        line.append(tool.commit(f"change {place}", {f"file {place}": "1"}))
        made.append(head(tool))
    tool.git("checkout", "--quiet", "--detach", lines[0][-1])
    for line in lines[1:]:
        tool.git("merge", "--quiet", "--no-ff", "-m", "last merge", line[-1])
    return [*made, head(tool)]


@dataclass
class Search:
    """What a search of planted results named, and what it asked about its range."""

    culprit: str | None
    ranges: list[AskRange]
    runs: int
    read: int
    """The number of commits whose changes were read for the answer."""


def search(
    small: SmallStack,
    good: str,
    bad: str,
    outcome: Callable[[str], Judgement],
    *,
    whole: bool = False,
    jobs: int = 1,
) -> Search:
    """Search a range whose runs show what `outcome` says of their commits, in parts or as a whole."""
    reads = reader(small, good, bad)
    where = Range(repository="tool", old=good, new=bad, held={})
    loaded = reads.answer(AskRange(ordinal=1, range=where, whole=True))
    assert isinstance(loaded, LoadedRange)
    commits: dict[str, str] = {}
    for sha in small.tool.git("rev-list", "--all", "HEAD").split():
        target = reads.answer(AskTarget(repository="tool", commit=sha, held={}))
        assert isinstance(target, Target)
        commits[target.content] = sha
    asked: list[AskRange] = []
    read: list[int] = []

    def answer(question: HistoryQuestion) -> HistoryAnswer:
        if isinstance(question, AskRange):
            asked.append(question)
            part = loaded if whole else reads.answer(question)
            assert isinstance(part, LoadedRange)
            read.append(len(part.commits))
            return part
        return reads.answer(question)

    machine = Machine(jobs=jobs)
    simulated = SimulatedBisection(
        loaded=loaded,
        outcome=lambda content: outcome(commits[content]),
        machine=machine,
        answers=dict.fromkeys(get_args(HistoryQuestion), answer),
    )
    task = SimulatedTask(simulated=simulated)
    Loop(machine).run([task])
    assert task.error is None, task.error
    return Search(task.culprit, asked, machine.runs, read[-1])


def with_change(tool: TestRepository, culprit: str) -> Callable[[str], bool]:
    """Return whether a commit has the change of the culprit."""
    changed = {*tool.git("rev-list", "--ancestry-path", f"{culprit}..HEAD").split(), culprit}
    return lambda sha: sha in changed


def judged(fails: bool) -> Judgement:
    return Judgement.BAD if fails else Judgement.GOOD


def always(fails: Callable[[str], bool]) -> Callable[[str], Judgement]:
    """Return runs that fail where there is the change."""
    return lambda sha: judged(fails(sha))


def flaky(fails: Callable[[str], bool], chance: random.Random) -> Callable[[str], Judgement]:
    """Return runs that fail six times in ten where there is the change."""
    return lambda sha: judged(fails(sha) and chance.random() < 0.6)


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_answer_and_the_runs_are_those_of_the_whole_range(
    small: SmallStack, seed: int, jobs: int
) -> None:
    good = head(small.tool)
    made = make_history(small.tool, seed)
    for culprit in random.Random(seed).sample(made[:-1], 4):
        fails = with_change(small.tool, culprit)
        parts = search(small, good, made[-1], always(fails), jobs=jobs)
        assert parts.culprit == culprit
        assert len(parts.ranges) > 2
        assert parts.read <= AT_ONCE + len(parts.ranges)
        assert not any(each.whole for each in parts.ranges)
        whole = search(small, good, made[-1], always(fails), jobs=jobs, whole=True)
        assert parts.runs <= whole.runs + 2 + 2 * jobs


def test_a_flaky_failure_is_searched_in_the_whole_range(small: SmallStack) -> None:
    good = head(small.tool)
    made = make_history(small.tool, 1)
    named = list[bool]()
    for seed in range(6):
        chance = random.Random(seed)
        culprit = chance.choice(made[:-1])
        fails = with_change(small.tool, culprit)
        found = search(small, good, made[-1], flaky(fails, chance))
        named.append(found.culprit == culprit)
        assert found.ranges[-1].whole
    assert sum(named) >= 5


def test_a_commit_that_cannot_be_judged_may_divide_a_range(small: SmallStack) -> None:
    good = head(small.tool)
    made = make_history(small.tool, 2)
    fails = with_change(small.tool, made[20])
    where = Range(repository="tool", old=good, new=made[-1], held={})
    cut = reader(small, good, made[-1]).answer(AskRange(ordinal=1, range=where))
    assert isinstance(cut, LoadedRange)
    middle = cut.candidates[0]

    def outcome(sha: str) -> Judgement:
        return Judgement.SKIP if sha == middle else judged(fails(sha))

    found = search(small, good, made[-1], outcome)
    assert found.culprit == made[20]
    assert found.ranges[-1].whole


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("also", [{}, {"beside": "1"}])
def test_a_change_that_was_undone_later_is_not_the_last_one(
    small: SmallStack, declared: bool, also: dict[str, str]
) -> None:
    """What it changed beside that may stay."""
    tool = small.tool
    good = head(tool)
    line = [tool.commit(f"change {place}", {f"file {place}": "1"}) for place in range(3)]
    first = tool.commit("break it", {"file 0": "2", **also})
    tool.commit("more", {"file more": "1"})
    line += [tool.commit(f"late change {place}", {f"late {place}": "1"}) for place in range(8)]
    # The file changes after that, so that only the subject tells.
    tool.commit('Revert "break it"' if declared else "restore", {"file 0": "1"})
    second = tool.commit("break it again", {"file 0": "3"} if declared else {"file 1": "2"})
    line += [tool.commit(f"last change {place}", {f"last {place}": "1"}) for place in range(12)]
    in_first = {*tool.git("rev-list", f"{first}~1..HEAD").split()} - {
        *tool.git("rev-list", f"{second}~1..HEAD").split(),
        tool.git("rev-parse", f"{second}~1"),
    }
    again = with_change(tool, second)
    found = search(small, good, line[-1], lambda sha: judged(sha in in_first or again(sha)))
    assert found.culprit == second


@pytest.mark.parametrize("long", [True, False])
@pytest.mark.parametrize("has_topic", [True, False])
def test_a_line_from_before_the_range_that_lacks_a_fix_is_left_out(
    small: SmallStack, monkeypatch: pytest.MonkeyPatch, long: bool, has_topic: bool
) -> None:
    """A topic that only this line merged is left out with it."""
    if not long:
        monkeypatch.setattr(range_module, "MAX_COMMITS", 1000)
    tool = small.tool
    fork = head(tool)
    good = tool.commit("the fix", {"fix": "1"})
    before = [tool.commit(f"change {place}", {f"file {place}": "1"}) for place in range(16)]
    tool.git("checkout", "--quiet", "--detach", before[3])
    topic = tool.commit("topic", {"topic": "1"})
    tool.git("checkout", "--quiet", "--detach", fork)
    for place in range(16):
        tool.commit(f"side {place}", {f"side {place}": "1"})
        if has_topic and place == 8:
            tool.git("merge", "--quiet", "--no-ff", "-m", "merge the topic", topic)
    side = head(tool)
    tool.git("checkout", "--quiet", "--detach", before[-1])
    tool.git("merge", "--quiet", "--no-ff", "-m", "merge", side)
    after = [tool.commit(f"late {place}", {f"late {place}": "1"}) for place in range(16)]
    lacks = {*tool.git("rev-list", "--first-parent", f"{fork}..{side}").split(), fork}
    fails = with_change(tool, after[9])
    found = search(small, good, after[-1], lambda sha: judged(sha in lacks or fails(sha)))
    assert found.culprit == after[9]


def test_suspects_that_were_not_read_are_counted(small: SmallStack) -> None:
    good = head(small.tool)
    line = [small.tool.commit(f"change {place}", {f"file {place}": "1"}) for place in range(12)]
    loaded = reader(small, good, line[-1]).answer(
        AskRange(ordinal=1, range=Range(repository="tool", old=good, new=line[-1], held={}))
    )
    assert isinstance(loaded, LoadedRange)
    assert (loaded.commit_count, loaded.candidate_count) == (12, 12)
    posterior = Posterior.start(loaded.graph, Rates.unknown(), prior=loaded.prior)
    found = budget_conclusion(loaded, posterior, confidence=0.99, why="time is up")
    assert [each.commit for each in found.suspects] == [line[5], line[-1]]
    assert found.message.startswith(
        f"12 commits of tool are left; {line[5][:12]} stands for itself and the 5 commits before it; "
        f"{line[-1][:12]} stands for itself and the 5 commits before it"
    )
