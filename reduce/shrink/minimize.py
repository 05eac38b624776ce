"""Searches for a smallest interesting subset of elements, by asking an oracle for runs.

A minimizer is a chain of states that never change. A state knows its best candidate so far and what it asks next, and
the answer gives the next state. As nothing changes in place, the questions that follow either answer can be known
before it comes (`Minimizer.ask`). The caller owns processes and budgets, and may report runs in any order.

`minimize` runs these searches one after another, each from what the last one left:

1. `Ancestors` asks once whether the ancestors of the failing output suffice.
2. `CutBisection` finds the needed elements one by one, last first. In dependency order every prefix is closed. The last
   needed element ends the shortest interesting prefix. It is kept with its ancestors, and the next one is sought among
   what is left before it. With k elements needed that takes about k log2(n / k) answers. For small k that is what the
   number of choices requires.
3. `LoneTask` interrupts the bisection when a cut fails in another way. Such a cut tells nothing of where the task at
   fault is, and neither do most cuts near it. A few chains alone are less likely to hold a task that needs another one,
   and to lack the other one. So ends of chains are tested in groups (Dorfman 1943), which are halved where one fails.
4. `Sweep` tries each element alone until no element can be dropped alone.
5. `Chunks` tries larger steps, each round followed by a sweep.

Where to cut is the Bayesian choice of largest expected information (as in group testing; Hwang 1972 for the prior's
geometric form). The choice assumes that what is interesting stays so when more is kept. Where that fails, the result is
still interesting but may be larger than necessary. The sweep finds that out.

The larger steps are for oracles that break this assumption. Some elements undo each other: a sign that is changed
twice, or a value that is computed in two ways. Dropping one of them alone ends the failure, and dropping a second one
brings it back. ddmin (Zeller and Hildebrandt 2002) finds such steps by its parts and their complements. Here they are
tried in that order, up to a bound, on what the sweep has left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from math import ceil, log, sqrt
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

C = TypeVar("C", bound=Hashable)
"""A candidate is a subset of elements that are kept, or a reduced program."""

Subset = frozenset[int]
"""A subset is the elements that a candidate keeps, by their numbers."""


class Answer(Enum):
    """What a run of a candidate showed.

    INTERESTING is the failure looked for. With NOT the failure is gone, and SLIPPED is another failure. INVALID does
    not build or run, or cannot be judged.
    """

    INTERESTING = "interesting"
    NOT = "not"
    SLIPPED = "slipped"
    INVALID = "invalid"


@dataclass(frozen=True)
class Query(Generic[C]):
    """Is one of the first `runs` runs of the candidate interesting?"""

    candidate: C
    runs: int = 1


@dataclass(frozen=True)
class Trial(Generic[C]):
    """One run of a candidate for the caller to make. `number` counts a candidate's runs from 0."""

    candidate: C
    number: int


@dataclass(frozen=True)
class DependencyGraph:
    """Elements 0 ... n - 1 in dependency order. Each has the elements that it needs, which all have smaller numbers.

    An element whose inputs may be replaced by recorded values has no predecessors here.

    Raises:
        ValueError: a predecessor does not come before its element.
    """

    predecessors: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for element, above in enumerate(self.predecessors):
            if any(not 0 <= needed < element for needed in above):
                raise ValueError(
                    f"expected predecessors of element {element} among those before it, found {above}"
                )

    @staticmethod
    def without_edges(n: int) -> DependencyGraph:
        """n elements, each of which can be dropped alone."""
        return DependencyGraph(((),) * n)

    def __len__(self) -> int:
        return len(self.predecessors)

    @cached_property
    def all_elements(self) -> Subset:
        """Return the set of all elements."""
        return frozenset(range(len(self)))

    @cached_property
    def _is_free(self) -> bool:
        return not any(self.predecessors)

    def closed_subset(self, kept: Iterable[int]) -> Subset:
        """The largest closed part, which leaves out the elements that depend on one that is not kept.

        >>> sorted(DependencyGraph(((), (0,), (), (1, 2))).closed_subset({0, 2, 3}))
        [0, 2]
        """
        if self._is_free:
            return frozenset(kept)
        closed = set[int]()
        for element in sorted(kept):
            if closed.issuperset(self.predecessors[element]):
                closed.add(element)
        return frozenset(closed)

    def with_ancestors(self, elements: Iterable[int]) -> Subset:
        """The smallest closed set that has these elements.

        >>> sorted(DependencyGraph(((), (0,), (), (1, 2))).with_ancestors({1, 2}))
        [0, 1, 2]
        """
        closed, todo = set[int](), list(elements)
        while todo:
            element = todo.pop()
            if element not in closed:
                closed.add(element)
                todo.extend(self.predecessors[element])
        return frozenset(closed)

    def sinks(self, kept: Subset) -> tuple[int, ...]:
        """The elements of `kept` that no other one of them depends on, in dependency order.

        >>> DependencyGraph(((), (0,), (), (1, 2))).sinks(frozenset({0, 1, 2}))
        (1, 2)
        """
        needed = {above for element in kept for above in self.predecessors[element]}
        return tuple(sorted(kept - needed))


@dataclass(frozen=True, kw_only=True)
class Ancestors:
    """Asks one question: do the elements that the failing output depends on suffice?"""

    best: Subset
    candidate: Subset
    runs: int
    asked: bool = False

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, targets: Subset, *, runs: int = 1) -> Ancestors:
        """Begin with `best`. `targets` are the elements that write the failing output."""
        candidate = graph.with_ancestors(targets) & best
        return Ancestors(best=best, candidate=candidate, runs=runs, asked=candidate == best)

    @property
    def query(self) -> Query[Subset] | None:
        """Asks for the ancestors, once."""
        return None if self.asked else Query(self.candidate, self.runs)

    @property
    def chance(self) -> float:
        """The ancestors of a failing output nearly always suffice."""
        return 0.95

    def next_state(self, answer: Answer) -> Ancestors:
        """The end of the search. The ancestors are the best if they suffice."""
        best = self.candidate if answer is Answer.INTERESTING else self.best
        return replace(self, best=best, asked=True)


MAX_PARTS = 16
"""A step tries at most this many parts. A search that finds nothing costs at most 2 (2 + 4 + 8 + 16) tests with it."""
PARTS_IF_MONOTONE = 4
"""A search has this many parts where no result so far shows that keeping more is worse. One round costs as many
tests."""


@dataclass(frozen=True, kw_only=True)
class Chunks:
    """Tries `parts` equal parts of `best` in dependency order.

    Each part is tried alone with its ancestors. Then each part is left out with its dependents. This repeats with
    smaller parts, down to one for each element.

    `seen` says whether an interesting candidate was found inside one that is not interesting. If none was, only the
    elements that nothing depends on are divided, once, and each part is tried alone. The sweep has tried to drop those
    parts already.
    """

    graph: DependencyGraph
    best: Subset
    runs: int
    seen: bool
    parts: int
    place: int = 0

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, *, runs: int = 1, seen: bool) -> Chunks:
        """Begin with what a sweep has left."""
        parts = 2 if seen else min(PARTS_IF_MONOTONE, len(graph.sinks(best)))
        return Chunks(graph=graph, best=best, runs=runs, seen=seen, parts=parts)._skip_trivial_steps()

    @property
    def query(self) -> Query[Subset] | None:
        """Asks for the next part, or for all but the next part."""
        candidate = None if self._is_done else self._candidate
        return None if candidate is None else Query(candidate, self.runs)

    @property
    def chance(self) -> float:
        """A larger step rarely helps where a small one does not."""
        return 0.1

    def next_state(self, answer: Answer) -> Chunks:
        """Start again with a smaller candidate, or go on."""
        if answer is Answer.INTERESTING:
            assert self._candidate is not None
            return Chunks.start(self.graph, self._candidate, runs=self.runs, seen=True)
        return replace(self, place=self.place + 1)._skip_trivial_steps()

    @property
    def _elements(self) -> tuple[int, ...]:
        return tuple(sorted(self.best)) if self.seen else self.graph.sinks(self.best)

    @property
    def _is_done(self) -> bool:
        if self.seen:
            return self.parts > min(MAX_PARTS, len(self.best))
        # With two parts, the sweep has tried each as the rest of the other.
        return self.parts < 3 or self.place >= self.parts

    @property
    def _candidate(self) -> Subset | None:
        """Return the candidate of the current step. None if the step would leave nothing or everything."""
        elements = self._elements
        part = self.place % self.parts
        low, high = (len(elements) * end // self.parts for end in (part, part + 1))
        if self.place < self.parts:
            kept = self.graph.with_ancestors(elements[low:high])
        else:
            kept = self.graph.closed_subset(self.best.difference(elements[low:high]))
        return kept if kept and kept < self.best else None

    def _skip_trivial_steps(self) -> Chunks:
        """Skip steps that would leave nothing or everything."""
        state = self
        while not state._is_done:
            if state.place >= 2 * state.parts:
                state = replace(state, parts=state._next_part_count, place=0)
            elif state._candidate is None:
                state = replace(state, place=state.place + 1)
            else:
                break
        return state

    @property
    def _next_part_count(self) -> int:
        """Return twice as many parts, up to one for each element."""
        elements = len(self.best)
        return min(2 * self.parts, elements) if self.parts < elements else elements + 1


Floats = npt.NDArray[np.float64]

CUT_ERROR = 0.05
"""An unneeded element is kept with this chance when failures are rare. The sweep finds such elements."""


@dataclass(frozen=True, kw_only=True)
class CutBisection:
    """Bisection for the last needed element. `base` is closed and kept. `open` are the other elements of `best`, in
    dependency order.

    belief: for i = 0 ... len(open), the probability that `base` with the first i of `open` is interesting, and with
    fewer is not.
    seen: pairs of i and the number of runs of that candidate that were not interesting.
    rate: how often an interesting candidate fails.
    """

    graph: DependencyGraph
    best: Subset
    rate: float
    total: int
    base: Subset
    open: tuple[int, ...]
    found: int
    belief: Floats
    seen: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def start(graph: DependencyGraph, best: Subset | None = None, *, rate: float = 1.0) -> CutBisection:
        """Begin with `best`, by default with all elements."""
        best = graph.all_elements if best is None else best
        return _seek(graph=graph, best=best, base=frozenset(), found=0, total=max(1, len(best)), rate=rate)

    @cached_property
    def cut(self) -> int | None:
        """Return how many of `open` to keep next. None if none can be dropped."""
        last = len(self.open)
        if last == 0 or self.belief[last] >= 1 - CUT_ERROR:
            return None
        seen = dict(self.seen)
        can_ask = np.ones(last, np.bool_)
        if self.rate == 1:
            can_ask[list(seen)] = False
        if not can_ask.any():
            return None
        likeliest = int(self.belief[:last].argmax())
        # The place is nearly certain, and only a run that shows it is missing.
        if self.belief[likeliest] >= 1 - CUT_ERROR and can_ask[likeliest]:
            return likeliest
        below = np.cumsum(self.belief)[:-1]
        gain = np.where(can_ask, _information(below, self.rate), -1.0)
        return int(gain.argmax())

    @property
    def query(self) -> Query[Subset] | None:
        """Asks for a further run of the base with `cut` other elements."""
        if self.cut is None:
            return None
        kept = self.base.union(self.open[: self.cut])
        return Query(kept, dict(self.seen).get(self.cut, 0) + 1)

    @property
    def chance(self) -> float:
        """Return the chance that the last needed element is kept and the run then fails."""
        return self.rate * float(self.belief[: self.cut + 1].sum()) if self.cut is not None else 0.0

    def next_state(self, answer: Answer) -> CutBisection:
        """Update the belief by Bayes' rule. Once the last needed element is known, it goes to the base."""
        cut = self.cut
        assert cut is not None
        if answer is Answer.INTERESTING:
            belief = self.belief[: cut + 1]
            state = replace(
                self,
                best=self.base.union(self.open[:cut]),
                open=self.open[:cut],
                belief=_normalize(belief),
                seen=tuple((at, runs) for at, runs in self.seen if at < cut),
            )
        else:
            belief = self.belief.copy()
            belief[: cut + 1] *= 0 if answer is Answer.INVALID else 1 - self.rate
            seen = dict(self.seen)
            state = replace(
                self, belief=_normalize(belief), seen=tuple({**seen, cut: seen.get(cut, 0) + 1}.items())
            )
        if state.cut is not None or not state.open:
            return state
        last = state.open[-1]
        return _seek(
            graph=state.graph,
            best=state.best,
            base=state.base | state.graph.with_ancestors({last}),
            found=state.found + 1,
            total=state.total,
            rate=state.rate,
        )


def _seek(
    *, graph: DependencyGraph, best: Subset, base: Subset, found: int, total: int, rate: float
) -> CutBisection:
    """The search for the next needed element. It assumes that needed elements are as dense as they were above."""
    left = tuple(sorted(best - base))
    density = (found + 1) / (total - len(left) + total / 2)
    places = np.arange(len(left), -1, -1.0)
    belief = np.exp(places * np.log1p(-min(0.5, density)))
    belief[0] = 0.0
    # The empty candidate is never interesting. After the first needed element, each one found makes further ones
    # likelier.
    none = 1 / (found + 1) if found else 0.0
    others = belief.sum()
    belief = belief * ((1 - none) / others) if others else belief
    belief[0] = none if others else 1.0
    return CutBisection(
        graph=graph,
        best=best,
        rate=rate,
        total=total,
        base=base,
        open=left,
        found=found,
        belief=belief,
    )


def _normalize(belief: Floats) -> Floats:
    total = belief.sum()
    if total > 0:
        return belief / total
    # A result has occurred that had probability 0. Only that the whole is interesting is still known.
    last = np.zeros_like(belief)
    last[-1] = 1.0
    return last


def _information(share: Floats, rate: float) -> Floats:
    """Bits of information in a run that fails with probability `rate * share` and otherwise passes.

    `share` is the probability that the candidate is interesting, and `rate` how often it fails then.
    """
    return _entropy(rate * share) - share * _entropy(np.array(rate))


def _entropy(p: Floats) -> Floats:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return -p * np.log2(p) - (1 - p) * np.log2(1 - p)


GROUP_COUNT = 4
"""The suspects are split in this many groups. A larger number finds a lone task in smaller candidates but more runs."""
MIN_SUSPECT_SHARE = 0.2
"""At least this share of the suspects must be left. Below it, the search no longer assumes that a lone task is at
fault."""

Group = tuple[int, ...]
"""A group is the ends of chains. These elements are kept with their ancestors."""


@dataclass(frozen=True, kw_only=True)
class LoneTask:
    """Searches for one chain that fails alone, by group testing. Ends when a single chain is left, or no group failed
    alone.

    suspects: elements of `best`. If only one element is at fault, it is among them. `at_first` is how many there were.
    groups: the groups to be tested, next one first. `doubtful` are groups that failed in another way.
    refused: candidates of the doubtful groups.
    confirmed: whether a group has failed alone.
    """

    graph: DependencyGraph
    best: Subset
    suspects: Subset
    at_first: int
    groups: tuple[Group, ...]
    doubtful: tuple[Group, ...] = ()
    refused: frozenset[Subset] = frozenset()
    confirmed: bool = False

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, suspects: Subset) -> LoneTask:
        """Begin with an interesting candidate that is closed and always fails."""
        groups = _parts(graph.sinks(suspects), GROUP_COUNT)
        state = LoneTask(graph=graph, best=best, suspects=suspects, at_first=len(suspects), groups=groups)
        return state._skip_to_test()

    @property
    def query(self) -> Query[Subset] | None:
        """Asks for the chains of the next group."""
        return Query(self.graph.with_ancestors(self.groups[0])) if self.groups else None

    @property
    def chance(self) -> float:
        """Return the share of the suspects that is in the next group."""
        query = self.query
        return len(query.candidate & self.suspects) / len(self.suspects) if query is not None else 0.0

    def next_state(self, answer: Answer) -> LoneTask:
        """Go into the group, drop it, or put it off. INVALID ends the search, because elements then need others
        that are unknown."""
        query, group, others = self.query, self.groups[0], self.groups[1:]
        assert query is not None
        kept = query.candidate
        if answer is Answer.INTERESTING:
            groups = _parts(group, 2) if len(group) > 1 else ()
            state = replace(self, best=kept, suspects=self.suspects & kept, groups=groups, doubtful=())
            return replace(state, confirmed=True)._skip_to_test()
        if answer is Answer.INVALID:
            return replace(self, groups=(), doubtful=())
        if answer is Answer.NOT:
            return replace(self, suspects=self.suspects - kept, groups=others)._skip_to_test()
        doubtful, refused = (*self.doubtful, group), self.refused | {kept}
        return replace(self, groups=others, doubtful=doubtful, refused=refused)._skip_to_test()

    def _skip_to_test(self) -> LoneTask:
        """Skip groups that need no test. The result has a group worth testing first, or no groups."""
        state = self
        while True:
            if not state.confirmed and len(state.suspects) < MIN_SUSPECT_SHARE * state.at_first:
                return replace(state, groups=())
            if not state.groups:
                groups = tuple(part for group in state.doubtful for part in state._halves(group))
                if not groups:
                    return state
                state = replace(state, groups=groups, doubtful=())
            group, others = state.groups[0], state.groups[1:]
            kept = state.graph.with_ancestors(group)
            is_known = kept == state.best or kept in state.refused
            is_implied = state.confirmed and len(group) > 1 and not others and not state.doubtful
            if not kept & state.suspects:
                state = replace(state, groups=others)
            elif is_known or is_implied:
                state = replace(state, groups=state._halves(group) + others)
            else:
                return state

    def _halves(self, group: Group) -> tuple[Group, ...]:
        """The halves of a group. For one chain, its lower half."""
        if len(group) > 1:
            return _parts(group, 2)
        chain = sorted(self.graph.with_ancestors(group) & self.suspects)
        return (self.graph.sinks(frozenset(chain[: len(chain) // 2])),) if len(chain) > 1 else ()


def _parts(ends: Sequence[int], most: int) -> tuple[Group, ...]:
    count = min(most, len(ends))
    places = [len(ends) * part // count for part in range(count)] if count else []
    return tuple(tuple(ends[low:high]) for low, high in zip(places, [*places[1:], len(ends)], strict=True))


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """Bisection, interrupted once by a search for a lone task at fault.

    The search begins at the first cut that fails in another way. Afterwards bisection goes on with what it left, and
    treats such cuts as passing. If failures are rare, or a needed element is known already, there is only bisection.
    """

    state: CutBisection | LoneTask
    may_be_lone: bool

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, *, rate: float = 1.0) -> Cuts:
        """Begin with an interesting candidate that is closed and fails at `rate`."""
        return Cuts(state=CutBisection.start(graph, best, rate=rate), may_be_lone=rate == 1)

    @property
    def best(self) -> Subset:
        """Return the smallest candidate of the current search."""
        return self.state.best

    @property
    def query(self) -> Query[Subset] | None:
        """Return what the current search asks next."""
        return self.state.query

    @property
    def chance(self) -> float:
        """Return the chance that the current search estimates."""
        return self.state.chance

    def next_state(self, answer: Answer) -> Cuts:
        """The current search's next state, or the next search."""
        state = self.state
        if not (isinstance(state, CutBisection) and self._suspects_lone_task(state, answer)):
            return replace(self, state=state.next_state(answer))._next_search()
        cleared = max((cut for cut, _ in state.seen), default=0)
        search = LoneTask.start(state.graph, state.best, frozenset(state.open[cleared:]))
        return replace(self, state=search, may_be_lone=False)._next_search()

    def _suspects_lone_task(self, state: CutBisection, answer: Answer) -> bool:
        return self.may_be_lone and state.found == 0 and answer is Answer.SLIPPED

    def _next_search(self) -> Cuts:
        if isinstance(self.state, LoneTask) and self.state.query is None:
            return replace(self, state=CutBisection.start(self.state.graph, self.state.best))
        return self


class Memory(Generic[C]):
    """What all runs so far showed: answers by candidate and number of the run.

    A subset without elements is not interesting, and is never asked. Record the runs of an earlier session in it, and
    the search repeats none of them.
    """

    def __init__(self, runs: Iterable[tuple[Trial[C], Answer]] = ()) -> None:
        self._runs: dict[C, dict[int, Answer]] = {}
        for run, answer in runs:
            self.record(run, answer)

    def __iter__(self) -> Iterator[tuple[Trial[C], Answer]]:
        for candidate, answers in self._runs.items():
            for number, answer in answers.items():
                yield Trial(candidate, number), answer

    def __contains__(self, run: Trial[C]) -> bool:
        return run.number in self._runs.get(run.candidate, {})

    def record(self, run: Trial[C], answer: Answer) -> None:
        """Record what a run showed.

        Raises:
            ValueError: this run is known already.
        """
        if run in self:
            raise ValueError(f"expected a new run, found run {run.number} of {run.candidate} again")
        self._runs.setdefault(run.candidate, {})[run.number] = answer

    def answer(self, query: Query[C]) -> Answer | None:
        """The answer to a query. None while runs are missing.

        The answer depends on the runs' numbers, not on the order in which they came. One interesting run is enough. The
        first run of a candidate decides whether it is valid.
        """
        if not query.candidate:
            return Answer.NOT
        runs = self._runs.get(query.candidate, {})
        if 0 not in runs:
            return None
        if runs[0] is Answer.INVALID:
            return Answer.INVALID
        answers = [runs.get(number) for number in range(query.runs)]
        if Answer.INTERESTING in answers:
            return Answer.INTERESTING
        if None in answers:
            return None
        return Answer.SLIPPED if Answer.SLIPPED in answers else Answer.NOT


class MinimizerState(Protocol[C]):
    """One point of a search among candidates of one type."""

    @property
    def best(self) -> C:
        """Return the smallest candidate found interesting."""
        ...

    @property
    def query(self) -> Query[C] | None:
        """Return the question to ask. None at the end."""
        ...

    @property
    def chance(self) -> float:
        """Return the estimated chance that the answer is INTERESTING. It orders speculation and never changes the
        result."""
        ...

    def next_state(self, answer: Answer) -> MinimizerState[C]:
        """The state that an answer leads to."""
        ...


MAX_STATES = 64
"""At most this many states are examined for each requested run, so that the choice ends soon."""

MIN_CHANCE = 0.01
"""A run is worth making if a part is needed with at least this chance."""


class Minimizer(Generic[C]):
    """Walks a chain of states.

    The walk depends on the answers only: neither on how many runs are asked for at once nor on the order in which
    they return. Stop at any time; `best` is interesting.

    >>> minimizer = Minimizer(minimize(DependencyGraph.without_edges(16)))
    >>> while runs := minimizer.ask(1):
    ...     interesting = {3, 12} <= runs[0].candidate
    ...     minimizer.tell(runs[0], Answer.INTERESTING if interesting else Answer.NOT)
    >>> sorted(minimizer.best)
    [3, 12]
    """

    def __init__(self, start: MinimizerState[C], memory: Memory[C] | None = None) -> None:
        self.memory = Memory[C]() if memory is None else memory
        self._pending: set[Trial[C]] = set()
        self._state = start
        self._walk()

    @property
    def best(self) -> C:
        """Return the smallest candidate found interesting."""
        return self._state.best

    @property
    def is_done(self) -> bool:
        """Return whether nothing is left to ask. Runs still under way have lost their value then."""
        return self._state.query is None

    def ask(self, most: int) -> list[Trial[C]]:
        """Up to `most` further runs, those most likely to be needed first.

        The list is empty at the end, or if only runs under way are worth making. Each run is under way until `tell`
        gets its answer.
        """
        asked: list[Trial[C]] = []
        order = count()
        # The heap's entries: the negative chance to be needed, a tie-breaker, a state, the answer to it, and the number
        # of the next run of its query.
        queue: list[tuple[float, int, MinimizerState[C], Answer | None, int]] = [
            (-1.0, next(order), self._state, None, 0)
        ]

        def push(needed: float, state: MinimizerState[C], answer: Answer | None, number: int = 0) -> None:
            heappush(queue, (needed, next(order), state, answer, number))

        for _ in range(MAX_STATES * most):
            if not queue or len(asked) >= most or -queue[0][0] < MIN_CHANCE:
                break
            needed, _, state, answer, number = heappop(queue)
            state = state if answer is None else state.next_state(answer)
            query = state.query
            if query is None:
                continue
            known = self.memory.answer(query)
            if known is not None:
                push(needed, state, known)
                continue
            while (run := Trial(query.candidate, number)) in self.memory:
                number += 1
            if number >= query.runs:  # All missing runs are under way.
                push(needed, state, Answer.NOT)
                continue
            if run not in self._pending:
                asked.append(run)
                self._pending.add(run)
            fails = state.chance / query.runs
            push(needed * fails, state, Answer.INTERESTING)
            if number + 1 < query.runs:
                push(needed * (1 - fails), state, None, number + 1)
            else:
                push(needed * (1 - fails), state, Answer.NOT)
        return asked

    def tell(self, run: Trial[C], answer: Answer) -> None:
        """Record the answer of a run that was asked for.

        Raises:
            ValueError: it was not asked for, or was answered before.
        """
        if run not in self._pending:
            raise ValueError(f"expected a run that was asked for, found run {run.number} of {run.candidate}")
        self._pending.discard(run)
        self.memory.record(run, answer)
        self._walk()

    def _walk(self) -> None:
        while (query := self._state.query) is not None and (answer := self.memory.answer(query)) is not None:
            self._state = self._state.next_state(answer)


def passes_to_reject(rate: float, error: float) -> int:
    """The least m for which a candidate that fails at `rate` passes m runs in a row with a chance of at most `error`.

    Raises:
        ValueError: `rate` is not in (0, 1], or `error` not in (0, 1).

    >>> passes_to_reject(1, 0.01), passes_to_reject(0.3, 0.01)
    (1, 13)
    """
    if not 0 < rate <= 1 or not 0 < error < 1:
        raise ValueError(f"expected a rate in (0, 1] and an error in (0, 1), found {rate} and {error}")
    return 1 if rate == 1 else max(1, ceil(log(error) / log(1 - rate)))


def cautious_rate(failures: int, runs: int) -> float:
    """The rate of failure to plan with: 1 if all runs of the baseline failed, else Wilson's lower bound at 90 %.

    Raises:
        ValueError: no run failed.
    """
    if not 0 < failures <= runs:
        raise ValueError(f"expected at least one failure, found {failures} in {runs} runs")
    if failures == runs:
        return 1.0
    z, share = 1.2816, failures / runs
    middle = share + z * z / (2 * runs)
    half = z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    return (middle - half) / (1 + z * z / runs)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Tries to drop each element alone. The result is 1-minimal: each closed candidate with one element less than
    `best` was tested and rejected.

    That is definition 10 of Zeller and Hildebrandt (2002) among closed candidates. Only an element that nothing left
    depends on can be dropped alone. Dropping another element with its dependents also drops one of those. It is skipped
    if the failure was gone without that one. It is tried if the program without that one failed in another way or was
    invalid.

    todo: elements left to drop from `best` with their dependents, next one last.
    unclear: elements that nothing depends on, and whose test was INVALID or SLIPPED.
    group: a smaller candidate that is tried before these.
    """

    graph: DependencyGraph
    best: Subset
    runs: int
    todo: tuple[int, ...]
    unclear: Subset = frozenset()
    group: Subset | None = None

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, *, runs: int = 1) -> Sweep:
        """Begin with an interesting candidate. Others are rejected after `runs` passes."""
        return Sweep(graph=graph, best=best, runs=runs, todo=graph.sinks(best))

    @property
    def query(self) -> Query[Subset] | None:
        """Asks for the best candidate without an element, or for the group."""
        if self.group is not None:
            return Query(self.group, self.runs)
        if not self.todo:
            return None
        return Query(self.graph.closed_subset(self.best - {self.todo[-1]}), self.runs)

    @property
    def chance(self) -> float:
        """The earlier searches rarely leave anything to drop. If they do, it is rarely one element alone."""
        return 0.05 if self.group is None else 0.5

    def next_state(self, answer: Answer) -> Sweep:
        """Drop the element, or go on with the next one."""
        if answer is Answer.INTERESTING:
            return self._restart_after_success()
        if self.group is not None:
            return replace(self, group=None)
        element, todo = self.todo[-1], self.todo[:-1]
        is_last = element in self.graph.sinks(self.best)
        unclear = self.unclear | {element} if is_last and answer is not Answer.NOT else self.unclear
        if todo or not unclear:
            return replace(self, todo=todo, unclear=unclear)
        # The unclear elements may need each other. Try without all of them and what only they need, then without parts.
        group = self._drop_elements(unclear)
        return replace(
            self, todo=tuple(sorted(self.best - group - unclear)), unclear=frozenset(), group=group
        )

    def _restart_after_success(self) -> Sweep:
        """The state after a success. Earlier rejections were those of another candidate, so that all are asked again,
        untested elements first.

        The ancestors of an element that was kept without need were kept without need too. Those that nothing else needs
        are tried next, together.
        """
        query = self.query
        assert query is not None
        best, before = query.candidate, self.graph.sinks(self.best)
        group = self._drop_elements(frozenset(before) - best) if self.group is None else None
        tested = set(before) - set(self.todo)
        last = sorted(self.graph.sinks(best), key=lambda element: (element not in tested, element))
        return replace(
            self, best=best, todo=tuple(last), unclear=frozenset(), group=None if group == best else group
        )

    def _drop_elements(self, dropped: Subset) -> Subset:
        """The best candidate without these elements and the ancestors that only they need."""
        return self.graph.with_ancestors(set(self.graph.sinks(self.best)) - dropped)


Phase = Callable[[Subset, bool], MinimizerState[Subset]]
"""Starts a search from the best candidate so far. The flag says whether an interesting candidate was found inside one
that is not."""


@dataclass(frozen=True, kw_only=True)
class Phases:
    """Several searches, each from what the last one left. Holds the current phase and those that follow it.

    `rejected` are candidates without the failure. `seen` says that one of them holds an interesting one, so that
    keeping more is not always as good.
    """

    state: MinimizerState[Subset]
    following: tuple[Phase, ...]
    rejected: frozenset[Subset] = frozenset()
    seen: bool = False

    @staticmethod
    def start(first: MinimizerState[Subset], *following: Phase) -> Phases:
        """Begin with a state. Each phase makes one from the best candidate so far."""
        return Phases(state=first, following=following)._next_phase()

    @property
    def best(self) -> Subset:
        """Return the smallest candidate of the current phase."""
        return self.state.best

    @property
    def query(self) -> Query[Subset] | None:
        """Return what the current phase asks next."""
        return self.state.query

    @property
    def chance(self) -> float:
        """Return the chance that the current phase estimates."""
        return self.state.chance

    def next_state(self, answer: Answer) -> Phases:
        """The phase's next state, or the next phase."""
        query = self.query
        rejected, seen = self.rejected, self.seen
        if query is not None and answer is Answer.NOT:
            rejected |= {query.candidate}
        if query is not None and answer is Answer.INTERESTING:
            seen = seen or any(query.candidate < candidate for candidate in rejected)
        return replace(self, state=self.state.next_state(answer), rejected=rejected, seen=seen)._next_phase()

    def _next_phase(self) -> Phases:
        state, following = self.state, self.following
        while state.query is None and following:
            state, following = following[0](state.best, self.seen), following[1:]
        return replace(self, state=state, following=following)


REJECTION_ERROR = 0.01
"""A rejected candidate may be interesting nevertheless with this chance, at most."""


CHUNK_ROUNDS = 2
"""This many rounds of larger steps are made, each followed by a sweep. A round repeats no test, because answers are
remembered."""


def minimize(
    graph: DependencyGraph,
    *,
    best: Subset | None = None,
    targets: Subset | None = None,
    rate: float = 1.0,
    error: float = REJECTION_ERROR,
) -> MinimizerState[Subset]:
    """The whole search.

    It asks for the ancestors of the failing output, bisects closed cuts, and sweeps to 1-minimality. Where a failure is
    sure, it also tries larger steps, each with another sweep.

    Args:
        best: the interesting candidate to start from. All elements if not given.
        targets: the elements that write the failing output, if known.
        rate: how often an interesting candidate fails (`cautious_rate`).
        error: the chance that a rejected candidate is interesting nevertheless.
    """
    runs = passes_to_reject(rate, error)
    best = graph.all_elements if best is None else best

    def start_sweep(left: Subset, _seen: bool) -> Sweep:
        return Sweep.start(graph, left, runs=runs)

    def start_chunks(left: Subset, seen: bool) -> Chunks:
        return Chunks.start(graph, left, runs=runs, seen=seen)

    return Phases.start(
        Ancestors.start(graph, best, best if targets is None else targets, runs=runs),
        lambda left, _seen: Cuts.start(graph, left, rate=rate),
        start_sweep,
        # If a flaky failure does not show, it looks like a failure that keeping more has ended.
        *((start_chunks, start_sweep) * CHUNK_ROUNDS if rate == 1 else ()),
    )


def sweep(
    graph: DependencyGraph, best: Subset, *, rate: float = 1.0, error: float = REJECTION_ERROR
) -> Sweep:
    """The sweep alone, for what was 1-minimal before something else changed. The arguments are those of `minimize`."""
    return Sweep.start(graph, best, runs=passes_to_reject(rate, error))
