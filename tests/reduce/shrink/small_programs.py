"""Programs of which all edits can be listed, reduced with made-up outcomes instead of runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from precision_bisect.reduce.shrink.edits import (
    CollapseKernels,
    DropStatements,
    DropTasks,
    EditKind,
    FewerBlocks,
    KeepSuspects,
    PlainData,
    SmallerShapes,
    droppable_statements,
    smaller_counts,
    smaller_sizes,
)
from precision_bisect.reduce.shrink.minimize import Answer, DependencyGraph
from precision_bisect.reduce.shrink.program import Candidate, CandidateOrder, PlainValue, TaskSize
from precision_bisect.reduce.shrink.program_text import KernelText
from precision_bisect.reduce.shrink.shrinker import Gate, Shrinker, TrialJournal

Rule = Callable[[Candidate], Answer]
SOURCE = b"void kernel() { a(); int x = b(); c(x); x = d(); }"
"""Two of its statements need that x is declared, the last one that it was used before."""


@dataclass(frozen=True)
class SmallProgram:
    """Task i uses kernel i, reads the input of that number, and runs in several blocks if i is even."""

    graph: DependencyGraph

    @property
    def order(self) -> CandidateOrder:
        return CandidateOrder(
            tasks=tuple(
                TaskSize(
                    kernels=(f"k{task}",),
                    blocks=self.blocks.get(task, 1),
                    shapes=((64, 8), (2,)) if task % 3 else ((64, 2),),
                    inputs=frozenset({f"x{task}"}),
                )
                for task in range(len(self.graph))
            ),
        )

    @property
    def blocks(self) -> dict[int, int]:
        return dict.fromkeys(range(0, len(self.graph), 2), 4)

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(f"k{task}" for task in range(len(self.graph)))

    def inputs(self, candidate: Candidate) -> list[str]:
        return [f"x{task}" for task in candidate.tasks]

    def texts(self, candidate: Candidate) -> list[KernelText]:
        return [KernelText(f"k{task}", SOURCE, SOURCE) for task in candidate.tasks]

    def kinds(self) -> list[EditKind]:
        """All of them, in the product's order."""
        return [
            KeepSuspects(((len(self.graph) - 1,),)),
            DropTasks(self.graph),
            CollapseKernels(self.kernels, self.order.kernels),
            FewerBlocks(self.blocks),
            SmallerShapes(self.order.extents),
            PlainData(self.inputs),
            DropStatements(self.texts),
        ]

    def single_edits(self, best: Candidate) -> Iterator[Candidate]:
        """All that one edit of any kind makes of a program, by listing them."""
        for task in self.graph.sinks(frozenset(best.tasks)):
            yield replace(best, tasks=tuple(one for one in best.tasks if one != task))
        for name in self.order.kernels(best).difference(best.collapsed):
            yield replace(best, collapsed=(*best.collapsed, name))
        for task in set(best.tasks) & self.blocks.keys():
            for count in smaller_counts(self.blocks[task]):
                yield replace(best, blocks=tuple({**dict(best.blocks), task: count}.items()))
        for size in self.order.extents(best):
            for smaller in smaller_sizes(size):
                yield replace(best, extents=tuple({**dict(best.extents), size: smaller}.items()))
        for name in self.inputs(best):
            for kind in PlainValue:
                yield replace(best, plain=tuple({**dict(best.plain), name: kind.value}.items()))
        statements, needs = droppable_statements(self.texts(best))
        left = frozenset(place for place, one in enumerate(statements) if one not in best.statements)
        for place in needs.sinks(left):
            yield replace(best, statements=(*best.statements, statements[place]))

    def smaller_by_one(self, best: Candidate) -> list[Candidate]:
        """Single edits that make a smaller program with tasks in it."""
        order = self.order
        edits = map(order.canonical, self.single_edits(best))
        return [one for one in edits if one.tasks and order.is_smaller(one, best)]


def random_program(rng: random.Random) -> SmallProgram:
    """Up to four tasks, some of which need earlier ones."""
    needs = (
        tuple(sorted(rng.sample(range(task), min(task, rng.choice((0, 0, 1))))))
        for task in range(rng.randint(1, 4))
    )
    return SmallProgram(DependencyGraph(tuple(needs)))


def lawless(seed: int, whole: Candidate, share: float = 0.2) -> Rule:
    """The whole is interesting, anything else is what a die says, yet always the same."""

    def rule(candidate: Candidate) -> Answer:
        if candidate == whole:
            return Answer.INTERESTING
        chances = [share, 0.8 - share, 0.1, 0.1]
        return random.Random(f"{seed} {candidate!r}").choices(list(Answer), chances)[0]

    return rule


@dataclass
class PureOracle:
    """Notes what it is asked."""

    rule: Rule
    asked: list[Candidate] = field(default_factory=list[Candidate])

    def judge(self, candidate: Candidate, folder: Path) -> Answer:
        self.asked.append(candidate)
        return self.rule(candidate)


def shrinker(
    program: SmallProgram,
    oracle: PureOracle,
    folder: Path,
    *,
    jobs: int = 1,
    written: list[Candidate] | None = None,
) -> Shrinker:
    """Begins with the whole program, or goes on with the journal in `folder`; `written` is what is put on disk."""
    folder.mkdir(parents=True, exist_ok=True)
    order = program.order
    return Shrinker(
        oracle=oracle,
        journal=TrialJournal.open(folder / "tests.jsonl"),
        gate=Gate(order=order, best=order.whole, on_better=(written if written is not None else []).append),
        folder=folder,
        jobs=jobs,
        budget=None,
        on_progress=lambda _: None,
    )
