"""Stacks of planted truths: a repository `line` whose commits pin commits of `lib`, and what a case does with each.

All that a bisection asks of their histories is answered from memory.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from precision_bisect.bisect.drive.loop import BudgetSpentError, Loop
from precision_bisect.bisect.engine.runs import BisectionQuestion, ProbeLog
from precision_bisect.bisect.history.questions import (
    AskFirstParents,
    AskMergeBase,
    AskMovedPins,
    AskRange,
    AskTarget,
    FirstParents,
    HistoryAnswer,
    MovedPin,
)
from precision_bisect.bisect.history.range import LoadedRange, Range, Target
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.store.vocabulary import Judgement, Seeks
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask, loaded_range

MAX_PROBES = 400


@dataclass(frozen=True, kw_only=True)
class PlantedStack:
    """Commits `0`, `1`, ... of `line`, the last of which is the new end.

    outcome: what the case does with a commit of `line` and one of `lib`. pins: the commit of `lib` that each commit of
    `line` pins. parents: that of each commit of `lib`. unbuildable: commits of `line` that pin nothing that can be had.
    """

    outcome: Callable[[int, str], Judgement]
    pins: Sequence[str]
    parents: Mapping[str, str] = field(default_factory=dict[str, str])
    unbuildable: Collection[int] = ()

    def range(self, *, old: int = 0, new: int | None = None, seeks: Seeks = Seeks.REGRESSION) -> Range:
        """A range of `line`; up to its last commit, where no other is named."""
        last = len(self.pins) - 1 if new is None else new
        return Range(repository="line", old=str(old), new=str(last), held={}, seeks=seeks)

    def judge(self, content: str) -> Judgement:
        """What a run of some content shows."""
        line, lib = content.split()
        return self.outcome(int(line), lib)

    @cached_property
    def answers(self) -> dict[type, Callable[..., HistoryAnswer]]:
        """How each question to the histories is answered."""
        return {
            AskRange: lambda asked: self.load(asked.range),
            AskTarget: self._target,
            AskMovedPins: self._moved_pins,
            AskMergeBase: lambda asked: self._merge_base(asked.one, asked.other),
            AskFirstParents: self._first_parents,
        }

    def content(self, repository: str, commit: str, held: Mapping[str, str]) -> str | None:
        """The content of a commit; None where it pins nothing that can be had."""
        line = commit if repository == "line" else held["line"]
        if int(line) in self.unbuildable:
            return None
        lib = commit if repository == "lib" else held.get("lib", self.pins[int(line)])
        return f"{line} {lib}"

    def load(self, where: Range) -> LoadedRange | None:
        """The commits of a range, on a line."""
        names = self._between(where)
        if not names:
            return None
        parents = [[place - 1] if place else [] for place in range(len(names))]
        loaded = loaded_range(names, CommitGraph(parents), where.old)
        contents = {name: self.content(where.repository, name, where.held) for name in names}
        old, new = self.content(where.repository, where.old, where.held), contents[where.new]
        assert old is not None
        assert new is not None
        return replace(loaded, range=where, contents=contents, old_content=old, new_content=new)

    def _between(self, where: Range) -> list[str]:
        if where.repository == "line":
            return [str(commit) for commit in range(int(where.old) + 1, int(where.new) + 1)]
        lineage = self._lineage(where.new)
        return lineage[: lineage.index(where.old)][::-1]

    def _lineage(self, lib: str) -> list[str]:
        lineage = [lib]
        while lineage[-1] in self.parents:
            lineage.append(self.parents[lineage[-1]])
        return lineage

    def _target(self, asked: AskTarget) -> Target | None:
        content = self.content(asked.repository, asked.commit, asked.held)
        if content is None:
            return None
        return Target(repository=asked.repository, commit=asked.commit, held=asked.held, content=content)

    def _moved_pins(self, asked: AskMovedPins) -> tuple[MovedPin, ...]:
        if asked.repository != "line":
            return ()
        old, new = self.pins[int(asked.old)], self.pins[int(asked.new)]
        return (MovedPin(path="lib", held_name="lib", old=old, new=new),) if old != new else ()

    def _merge_base(self, one: str, other: str) -> str | None:
        return next((commit for commit in self._lineage(one) if commit in self._lineage(other)), None)

    def _first_parents(self, asked: AskFirstParents) -> FirstParents:
        commits = [str(commit) for commit in range(int(asked.commit), -1, -1)]
        return FirstParents(commits=tuple(commits))


def broken_line(size: int, culprit: int, *, skips: Collection[int] = (), lib: str = "lib-0") -> PlantedStack:
    """A stack whose commits of `line` fail from `culprit` on, whatever they pin."""

    def outcome(line: int, pinned: str) -> Judgement:
        if line in skips:
            return Judgement.SKIP
        return Judgement.BAD if line >= culprit else Judgement.GOOD

    return PlantedStack(outcome=outcome, pins=[lib] * size)


def question(stack: PlantedStack, **changes: object) -> BisectionQuestion:
    """About the whole of a stack's line, where nothing else is said."""
    plain = BisectionQuestion(range=stack.range(), confidence=0.99, repositories=frozenset({"line", "lib"}))
    return replace(plain, **changes)  # type: ignore[arg-type]


def planted_task(
    stack: PlantedStack,
    asked: BisectionQuestion | None = None,
    *,
    jobs: int = 1,
    seed: int = 0,
    most: int = MAX_PROBES,
    log: ProbeLog | None = None,
    frozen: bool = False,
) -> SimulatedTask:
    """A bisection of a stack. Its budget is spent after `most` probes were started; `seed` draws which of several
    running probes ends first."""
    machine = Machine(jobs=jobs)
    machine.chance.seed(seed)
    about = asked or question(stack)
    loaded = stack.load(stack.range())
    assert loaded is not None
    simulated = SimulatedBisection(
        loaded=loaded,
        question=about,
        outcome=stack.judge,
        machine=machine,
        answers=stack.answers,
        log=log or ProbeLog(),
        frozen=frozen,
    )

    def check_budget() -> None:
        if len(simulated.started) >= most:
            raise BudgetSpentError("enough")

    return SimulatedTask(simulated=simulated, on_check_budget=check_budget)


def drive(task: SimulatedTask) -> SimulatedTask:
    """Drive a bisection to its end."""
    machine = task.simulated.machine
    Loop(machine).run([task])
    assert not machine.flying
    return task


def bisect(
    stack: PlantedStack, asked: BisectionQuestion | None = None, *, jobs: int = 1, seed: int = 0
) -> SimulatedTask:
    """Drive a bisection of a stack to its end, on workers whose probes end in any order."""
    return drive(planted_task(stack, asked, jobs=jobs, seed=seed))
