"""Searches for a smallest interesting subset of elements, by asking an oracle for runs.

A search is a chain of immutable states (`MinimizerState`): a state asks one query, and each answer gives the next
state. `minimize` makes the first state of a search that has several phases. `Minimizer` walks the chain, and proposes
the runs that the next queries will probably need. The caller makes the runs, and may report them in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from heapq import heappop, heappush
from itertools import count, pairwise
from math import ceil, log, sqrt
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

C = TypeVar("C", bound=Hashable)
"""A candidate is a subset of elements that are kept, or a reduced program."""


Subset = frozenset[int]
"""A subset is the elements that a candidate keeps, by their numbers."""


class Answer(Enum):
    """The answer of a run of a candidate.

    - INTERESTING: the failure that is looked for.
    - PASSED: no failure.
    - SLIPPED: another failure.
    - INVALID: the candidate does not build or run, or cannot be judged.

    Journals hold the values.
    """

    INTERESTING = "interesting"
    PASSED = "not"
    SLIPPED = "slipped"
    INVALID = "invalid"


@dataclass(frozen=True)
class Query(Generic[C]):
    """The question whether one of the first `runs` runs of a candidate is interesting."""

    candidate: C
    runs: int = 1


@dataclass(frozen=True)
class Trial(Generic[C]):
    """One run of a candidate for the caller to make. `number` counts a candidate's runs from 0."""

    candidate: C
    number: int


class MinimizerState(Protocol[C]):
    """An immutable state of a search."""

    @property
    def best(self) -> C:
        """Return the smallest candidate that was found interesting."""
        ...

    @property
    def query(self) -> Query[C] | None:
        """Return the query to answer next, or None at the end of the search."""
        ...

    @property
    def chance(self) -> float:
        """Return the estimated chance that the answer is INTERESTING.

        The estimate orders the runs that are made ahead. It never changes the result.
        """
        ...

    def next_state(self, answer: Answer) -> MinimizerState[C]:
        """Return the state after the query got this answer."""
        ...


@dataclass(frozen=True)
class DependencyGraph:
    """Elements 0 ... n - 1 in dependency order, and for each the elements that it needs.

    A set of elements is closed if it has all predecessors of its elements. In dependency order every prefix is closed.

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
    def edgeless(n: int) -> DependencyGraph:
        """Return n elements that do not need each other."""
        return DependencyGraph(((),) * n)

    def __len__(self) -> int:
        return len(self.predecessors)

    @cached_property
    def all_elements(self) -> Subset:
        """Return the set of all elements."""
        return frozenset(range(len(self)))

    @cached_property
    def _has_edges(self) -> bool:
        return any(self.predecessors)

    def closed_subset(self, kept: Iterable[int]) -> Subset:
        """Return the largest closed subset of `kept`.

        >>> sorted(DependencyGraph(((), (0,), (), (1, 2))).closed_subset({0, 2, 3}))
        [0, 2]
        """
        if not self._has_edges:
            return frozenset(kept)
        closed = set[int]()
        for element in sorted(kept):
            if closed.issuperset(self.predecessors[element]):
                closed.add(element)
        return frozenset(closed)

    def with_ancestors(self, elements: Iterable[int]) -> Subset:
        """Return the smallest closed set that has these elements.

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
        """Return the elements of `kept` that no other element of `kept` needs, in dependency order.

        >>> DependencyGraph(((), (0,), (), (1, 2))).sinks(frozenset({0, 1, 2}))
        (1, 2)
        """
        needed = {above for element in kept for above in self.predecessors[element]}
        return tuple(sorted(kept - needed))


REJECTION_ERROR = 0.01
"""A rejected candidate is interesting with at most this chance."""


CHUNK_ROUNDS = 2
"""A search has this many rounds of chunks, each followed by a sweep. A round repeats no run."""


def minimize(
    graph: DependencyGraph,
    *,
    best: Subset | None = None,
    targets: Subset | None = None,
    rate: float = 1.0,
    error: float = REJECTION_ERROR,
) -> MinimizerState[Subset]:
    """Return the first state of the whole search.

    Each phase starts from the best candidate of the phase before:

    1. `Ancestors` asks whether the ancestors of the failing output suffice.
    2. `Cuts` bisects for the needed elements.
    3. `Sweep` tries to drop each element, until no element can be dropped alone.
    4. `Chunks` tries larger steps, if failures are sure. Another sweep follows each round.

    Args:
        best: the interesting candidate to start from. All elements if not given.
        targets: the elements that write the failing output, if known.
        rate: how often an interesting candidate fails (`cautious_rate`).
        error: the largest chance that a rejected candidate is interesting.
    """
    runs = passes_to_reject(rate, error)
    best = graph.all_elements if best is None else best

    def start_sweep(best: Subset, _monotone: bool) -> Sweep:
        return Sweep.start(graph, best, runs=runs)

    def start_chunks(best: Subset, monotone: bool) -> Chunks:
        return Chunks.start(graph, best, runs=runs, monotone=monotone)

    return Phases.start(
        Ancestors.start(graph, best, best if targets is None else targets, runs=runs),
        lambda best, _monotone: Cuts.start(graph, best, rate=rate),
        start_sweep,
        # A run in which a flaky failure does not show looks as if the oracle were not monotone.
        *((start_chunks, start_sweep) * CHUNK_ROUNDS if rate == 1 else ()),
    )


def sweep(
    graph: DependencyGraph, best: Subset, *, rate: float = 1.0, error: float = REJECTION_ERROR
) -> Sweep:
    """Return a sweep alone, for a candidate that was 1-minimal before another edit. Arguments as for `minimize`."""
    return Sweep.start(graph, best, runs=passes_to_reject(rate, error))


Phase = Callable[[Subset, bool], MinimizerState[Subset]]
"""Starts a search from the best candidate so far. The flag says whether the oracle is monotone as far as known."""


@dataclass(frozen=True, kw_only=True)
class _SearchOfSearches:
    """A search that consists of others. `state` is the state of the current one."""

    state: MinimizerState[Subset]

    @property
    def best(self) -> Subset:
        """Return the best candidate of the current search."""
        return self.state.best

    @property
    def query(self) -> Query[Subset] | None:
        """Return the query of the current search."""
        return self.state.query

    @property
    def chance(self) -> float:
        """Return the estimate of the current search."""
        return self.state.chance


@dataclass(frozen=True, kw_only=True)
class Phases(_SearchOfSearches):
    """Several searches, each from the best candidate of the one before.

    An oracle is monotone if an interesting candidate stays interesting when more elements are kept. `rejected` are
    candidates without the failure. `monotone` is false once an interesting candidate was found inside one of them.
    """

    following: tuple[Phase, ...]
    rejected: frozenset[Subset] = frozenset()
    monotone: bool = True

    @staticmethod
    def start(first: MinimizerState[Subset], *following: Phase) -> Phases:
        """Begin with the state `first`. Each following phase starts when the one before it ends."""
        return Phases(state=first, following=following)._skip_ended_phases()

    def next_state(self, answer: Answer) -> Phases:
        """Return the phase's next state, or the start of the next phase."""
        query = self.query
        rejected, monotone = self.rejected, self.monotone
        if query is not None and answer is Answer.PASSED:
            rejected |= {query.candidate}
        if query is not None and answer is Answer.INTERESTING:
            monotone = monotone and not any(query.candidate < candidate for candidate in rejected)
        state = self.state.next_state(answer)
        return replace(self, state=state, rejected=rejected, monotone=monotone)._skip_ended_phases()

    def _skip_ended_phases(self) -> Phases:
        state, following = self.state, self.following
        while state.query is None and following:
            state, following = following[0](state.best, self.monotone), following[1:]
        return replace(self, state=state, following=following)


@dataclass(frozen=True, kw_only=True)
class Ancestors:
    """Asks once whether the elements that the failing output depends on suffice."""

    best: Subset
    candidate: Subset
    runs: int
    asked: bool = False

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, targets: Subset, *, runs: int = 1) -> Ancestors:
        """Return the first state. `targets` are the elements that write the failing output."""
        candidate = graph.with_ancestors(targets) & best
        return Ancestors(best=best, candidate=candidate, runs=runs, asked=candidate == best)

    @property
    def query(self) -> Query[Subset] | None:
        """Return the query for the ancestors. None if it was asked."""
        return None if self.asked else Query(self.candidate, self.runs)

    @property
    def chance(self) -> float:
        """Return 0.95: the ancestors of a failing output nearly always suffice."""
        return 0.95

    def next_state(self, answer: Answer) -> Ancestors:
        """Return the end of the search. The ancestors are the best candidate if they suffice."""
        best = self.candidate if answer is Answer.INTERESTING else self.best
        return replace(self, best=best, asked=True)


@dataclass(frozen=True, kw_only=True)
class Cuts(_SearchOfSearches):
    """A bisection that a search for a lone task may interrupt once.

    The first cut that fails in another way starts that search. Afterwards a new bisection starts from its best, and
    treats such cuts as passing. If failures are rare, or a needed element is known, there is only bisection.
    """

    state: CutBisection | LoneTask
    may_seek_lone_task: bool

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, *, rate: float = 1.0) -> Cuts:
        """Return the first state. `best` is interesting and closed, and fails at `rate`."""
        return Cuts(state=CutBisection.start(graph, best, rate=rate), may_seek_lone_task=rate == 1)

    def next_state(self, answer: Answer) -> Cuts:
        """Return the current search's next state, or the start of the next search."""
        state = self.state
        if isinstance(state, LoneTask):
            return replace(self, state=state.next_state(answer))._skip_ended_search()
        suspects_lone_task = self.may_seek_lone_task and not state.found_count and answer is Answer.SLIPPED
        if not suspects_lone_task:
            return replace(self, state=state.next_state(answer))
        # The prefix of a cut that was rejected does not hold the task at fault.
        cleared = max((cut for cut, _ in state.rejections), default=0)
        search = LoneTask.start(state.graph, state.best, frozenset(state.undecided[cleared:]))
        return replace(self, state=search, may_seek_lone_task=False)._skip_ended_search()

    def _skip_ended_search(self) -> Cuts:
        if isinstance(self.state, LoneTask) and self.state.query is None:
            return replace(self, state=CutBisection.start(self.state.graph, self.state.best))
        return self


Floats = npt.NDArray[np.float64]


CUT_ERROR = 0.05
"""If failures are rare, an unneeded element is kept with this chance. The sweep drops it later."""


@dataclass(frozen=True, kw_only=True)
class CutBisection:
    """Bisects for the needed elements, the last one first.

    The last needed element ends the shortest interesting prefix. It is kept with its ancestors, and the next one is
    sought before it. For k needed elements of n this takes about k log2(n / k) answers, which is optimal for small k.

    Each cut has the largest expected information, as in group testing (Hwang 1972 for the geometric prior). This choice
    assumes a monotone oracle. With another oracle, the result is interesting but may be larger than necessary.

    Attributes:
        base: the elements that are kept for good: the needed elements found so far, with their ancestors.
        undecided: the other elements of `best`, in dependency order.
        belief: for i = 0 ... len(undecided), the probability that `base` needs exactly the first i of `undecided` to be
            interesting.
        rejections: pairs of a number i and the number of runs with the first i elements that were not interesting.
        rate: how often an interesting candidate fails.
        total: the number of elements at the start.
        found_count: the number of needed elements found so far.
    """

    graph: DependencyGraph
    best: Subset
    rate: float
    total: int
    base: Subset
    undecided: tuple[int, ...]
    found_count: int
    belief: Floats
    rejections: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def start(graph: DependencyGraph, best: Subset | None = None, *, rate: float = 1.0) -> CutBisection:
        """Return the first state. `best` is interesting and closed; all elements if not given."""
        best = graph.all_elements if best is None else best
        return _start_bisection(
            graph=graph, best=best, base=frozenset(), found_count=0, total=max(1, len(best)), rate=rate
        )

    @cached_property
    def cut(self) -> int | None:
        """Return how many undecided elements to keep in the next query. None if the place is known."""
        last = len(self.undecided)
        if last == 0 or self.belief[last] >= 1 - CUT_ERROR:
            return None
        can_ask = np.ones(last, np.bool_)
        if self.rate == 1:
            can_ask[[cut for cut, _ in self.rejections]] = False
        if not can_ask.any():
            return None
        likeliest = int(self.belief[:last].argmax())
        # The place is nearly certain, but no run has shown it yet.
        if self.belief[likeliest] >= 1 - CUT_ERROR and can_ask[likeliest]:
            return likeliest
        below = np.cumsum(self.belief)[:-1]
        gain = np.where(can_ask, _information(below, self.rate), -1.0)
        return int(gain.argmax())

    @property
    def query(self) -> Query[Subset] | None:
        """Return the query for one more run of the base with `cut` undecided elements."""
        if self.cut is None:
            return None
        kept = self.base.union(self.undecided[: self.cut])
        return Query(kept, dict(self.rejections).get(self.cut, 0) + 1)

    @property
    def chance(self) -> float:
        """Return the chance that the candidate has the last needed element, and that the run then fails."""
        return self.rate * float(self.belief[: self.cut + 1].sum()) if self.cut is not None else 0.0

    def next_state(self, answer: Answer) -> CutBisection:
        """Update the belief by Bayes' rule. Once the last needed element is known, it goes to the base."""
        cut = self.cut
        assert cut is not None
        if answer is Answer.INTERESTING:
            state = replace(
                self,
                best=self.base.union(self.undecided[:cut]),
                undecided=self.undecided[:cut],
                belief=_normalize(self.belief[: cut + 1]),
                rejections=tuple((place, runs) for place, runs in self.rejections if place < cut),
            )
        else:
            belief = self.belief.copy()
            belief[: cut + 1] *= 0 if answer is Answer.INVALID else 1 - self.rate
            rejections = dict(self.rejections)
            rejections[cut] = rejections.get(cut, 0) + 1
            state = replace(self, belief=_normalize(belief), rejections=tuple(rejections.items()))
        if state.cut is not None or not state.undecided:
            return state
        last_needed = state.undecided[-1]
        return _start_bisection(
            graph=state.graph,
            best=state.best,
            base=state.base | state.graph.with_ancestors({last_needed}),
            found_count=state.found_count + 1,
            total=state.total,
            rate=state.rate,
        )


def _start_bisection(
    *, graph: DependencyGraph, best: Subset, base: Subset, found_count: int, total: int, rate: float
) -> CutBisection:
    """Return the search for the next needed element. The prior's density is that of the needed elements so far."""
    undecided = tuple(sorted(best - base))
    density = (found_count + 1) / (total - len(undecided) + total / 2)
    distances = np.arange(len(undecided), -1, -1.0)
    belief = np.exp(distances * np.log1p(-min(0.5, density)))
    # At least one element is needed. That no further one is needed gets less likely with each one found.
    none_needed = 1 / (found_count + 1) if found_count else 0.0
    belief[0] = 0.0
    others = belief.sum()
    if others:
        belief *= (1 - none_needed) / others
    belief[0] = none_needed if others else 1.0
    return CutBisection(
        graph=graph,
        best=best,
        rate=rate,
        total=total,
        base=base,
        undecided=undecided,
        found_count=found_count,
        belief=belief,
    )


def _normalize(belief: Floats) -> Floats:
    total = belief.sum()
    if total > 0:
        return belief / total
    # An answer had probability 0. All that is still known is that the whole candidate is interesting.
    whole = np.zeros_like(belief)
    whole[-1] = 1.0
    return whole


def _information(share: Floats, rate: float) -> Floats:
    """Return the expected information, in bits, of a run of a candidate.

    `share` is the probability that the candidate is interesting. An interesting candidate fails at `rate`.
    """
    return _entropy(rate * share) - share * _entropy(np.array(rate))


def _entropy(p: Floats) -> Floats:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return -p * np.log2(p) - (1 - p) * np.log2(1 - p)


GROUP_COUNT = 4
"""The suspects are split into this many groups. More groups take more runs, of smaller candidates."""


MIN_SUSPECT_SHARE = 0.2
"""If less than this share of the suspects is left, the fault is probably in no single chain, and the search ends."""


Group = tuple[int, ...]
"""A group is a set of ends of chains. An end is tested with its ancestors."""


@dataclass(frozen=True, kw_only=True)
class LoneTask:
    """Searches for one chain that fails alone, by group testing (Dorfman 1943).

    A cut that fails in another way does not show where the fault is, and neither do most cuts near it. A few whole
    chains are less likely to fail in another way. So groups of chains are tested, and a group that fails is halved. The
    search ends when one chain is left, or no group fails.

    Attributes:
        suspects: elements of `best`. If a single element is at fault, it is one of them.
        initial_count: the number of suspects at the start.
        groups: the groups to test, the next one first.
        slipped: the groups that failed in another way. Their halves are tested when all other groups were.
        slipped_candidates: the candidates of such groups.
        confirmed: whether a group has failed alone.
    """

    graph: DependencyGraph
    best: Subset
    suspects: Subset
    initial_count: int
    groups: tuple[Group, ...]
    slipped: tuple[Group, ...] = ()
    slipped_candidates: frozenset[Subset] = frozenset()
    confirmed: bool = False

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, suspects: Subset) -> LoneTask:
        """Return the first state. `best` is interesting and closed, and always fails."""
        groups = _split(graph.sinks(suspects), GROUP_COUNT)
        state = LoneTask(
            graph=graph, best=best, suspects=suspects, initial_count=len(suspects), groups=groups
        )
        return state._skip_to_test()

    @property
    def query(self) -> Query[Subset] | None:
        """Return the query for the chains of the next group."""
        return Query(self.graph.with_ancestors(self.groups[0])) if self.groups else None

    @property
    def chance(self) -> float:
        """Return the share of the suspects that the next group has."""
        query = self.query
        return len(query.candidate & self.suspects) / len(self.suspects) if query is not None else 0.0

    def next_state(self, answer: Answer) -> LoneTask:
        """Halve a group that fails, drop a group that passes, and put off a group that fails in another way.

        INVALID ends the search: the chains then need elements that the graph does not know.
        """
        query, group, others = self.query, self.groups[0], self.groups[1:]
        assert query is not None
        kept = query.candidate
        match answer:
            case Answer.INTERESTING:
                state = replace(
                    self,
                    best=kept,
                    suspects=self.suspects & kept,
                    groups=_split(group, 2) if len(group) > 1 else (),
                    slipped=(),
                    confirmed=True,
                )
            case Answer.PASSED:
                state = replace(self, suspects=self.suspects - kept, groups=others)
            case Answer.SLIPPED:
                state = replace(
                    self,
                    groups=others,
                    slipped=(*self.slipped, group),
                    slipped_candidates=self.slipped_candidates | {kept},
                )
            case Answer.INVALID:
                return replace(self, groups=(), slipped=())
        return state._skip_to_test()

    def _skip_to_test(self) -> LoneTask:
        """Skip groups that need no test. Returns a state whose first group needs one, or a state without groups."""
        state = self
        while True:
            if not state.confirmed and len(state.suspects) < MIN_SUSPECT_SHARE * state.initial_count:
                return replace(state, groups=())
            if not state.groups:
                groups = tuple(half for group in state.slipped for half in state._halve(group))
                if not groups:
                    return state
                state = replace(state, groups=groups, slipped=())
            group, others = state.groups[0], state.groups[1:]
            kept = state.graph.with_ancestors(group)
            is_known = kept == state.best or kept in state.slipped_candidates
            # A group failed, and all of it but this part passes.
            is_implied = state.confirmed and len(group) > 1 and not others and not state.slipped
            if not kept & state.suspects:
                state = replace(state, groups=others)
            elif is_known or is_implied:
                state = replace(state, groups=state._halve(group) + others)
            else:
                return state

    def _halve(self, group: Group) -> tuple[Group, ...]:
        """Return the halves of a group, or the lower half of a single chain."""
        if len(group) > 1:
            return _split(group, 2)
        chain = sorted(self.graph.with_ancestors(group) & self.suspects)
        return (self.graph.sinks(frozenset(chain[: len(chain) // 2])),) if len(chain) > 1 else ()


def _split(ends: Sequence[int], most: int) -> tuple[Group, ...]:
    """Split ends of chains into at most `most` groups of about equal size."""
    count = min(most, len(ends))
    bounds = [len(ends) * group // count for group in range(count + 1)] if count else []
    return tuple(tuple(ends[low:high]) for low, high in pairwise(bounds))


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Tries to drop each element until the result is 1-minimal.

    1-minimal means that each closed candidate with one element less than `best` was tested and rejected (Zeller and
    Hildebrandt 2002, definition 10, among closed candidates).

    A sink is an element that no other element of `best` needs. Only a sink can be dropped alone. If the failure is gone
    without a sink, then dropping an ancestor, and the sink with it, is not tried. If the program without some sinks is
    invalid or fails in another way, the ancestors are tried.

    Attributes:
        todo: elements to drop with their dependents, the next one last.
        unclear: the sinks without which the program was invalid or failed in another way.
        group: a smaller candidate to try before the elements of `todo`.
    """

    graph: DependencyGraph
    best: Subset
    runs: int
    todo: tuple[int, ...]
    unclear: Subset = frozenset()
    group: Subset | None = None

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, *, runs: int = 1) -> Sweep:
        """Return the first state. `runs` passes reject a candidate."""
        return Sweep(graph=graph, best=best, runs=runs, todo=graph.sinks(best))

    @property
    def query(self) -> Query[Subset] | None:
        """Return the query for the group, or for the best candidate without the next element."""
        if self.group is not None:
            return Query(self.group, self.runs)
        if not self.todo:
            return None
        return Query(self.graph.closed_subset(self.best - {self.todo[-1]}), self.runs)

    @property
    def chance(self) -> float:
        """Return a low chance: earlier phases rarely leave elements to drop. A group has a better one."""
        return 0.05 if self.group is None else 0.5

    def next_state(self, answer: Answer) -> Sweep:
        """Drop the element, or go on with the next one."""
        if answer is Answer.INTERESTING:
            return self._restart_after_success()
        if self.group is not None:
            return replace(self, group=None)
        element, todo = self.todo[-1], self.todo[:-1]
        is_sink = element in self.graph.sinks(self.best)
        unclear = self.unclear | {element} if is_sink and answer is not Answer.PASSED else self.unclear
        if todo or not unclear:
            return replace(self, todo=todo, unclear=unclear)
        # The unclear sinks may need each other. Drop all of them with their own ancestors, then these ancestors alone.
        group = self._drop_sinks(unclear)
        return replace(
            self, todo=tuple(sorted(self.best - group - unclear)), unclear=frozenset(), group=group
        )

    def _restart_after_success(self) -> Sweep:
        """Return the state for a smaller best candidate.

        Earlier rejections do not hold for it. So all sinks are tried again, those not tested yet first. Before them,
        the ancestors that only the dropped element needs are tried as a group. They are probably not needed either.
        """
        query = self.query
        assert query is not None
        best, old_sinks = query.candidate, self.graph.sinks(self.best)
        group = self._drop_sinks(frozenset(old_sinks) - best) if self.group is None else None
        tested = set(old_sinks) - set(self.todo)
        # The last element of `todo` is tried first.
        todo = sorted(self.graph.sinks(best), key=lambda element: (element not in tested, element))
        return replace(
            self, best=best, todo=tuple(todo), unclear=frozenset(), group=None if group == best else group
        )

    def _drop_sinks(self, dropped: Subset) -> Subset:
        """Return the best candidate without these sinks and the ancestors that only they need."""
        return self.graph.with_ancestors(set(self.graph.sinks(self.best)) - dropped)


MAX_PARTS = 16
"""The elements are divided into at most this many parts. A search without success takes 2 (2 + 4 + 8 + 16) queries."""


PARTS_IF_MONOTONE = 4
"""The sinks are divided into this many parts if the oracle is monotone as far as known. A search takes 4 queries."""


@dataclass(frozen=True, kw_only=True)
class Chunks:
    """Tries larger steps than a sweep, by the parts and complements of ddmin (Zeller and Hildebrandt 2002).

    The steps are for oracles that are not monotone. Two elements may undo each other, such as two changes of a sign.
    Dropping one of them ends the failure, and dropping both brings it back.

    The elements of `best` are divided into `parts` equal parts in dependency order. Each part is tried alone with its
    ancestors, and then left out with its dependents. This repeats with smaller parts, down to single elements.

    If the oracle is monotone as far as known, only the sinks are divided, once. Each part is only tried alone, because
    the sweep has tried to drop it.

    `step` counts the steps with this number of parts.
    """

    graph: DependencyGraph
    best: Subset
    runs: int
    monotone: bool
    parts: int
    step: int = 0

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, *, runs: int = 1, monotone: bool) -> Chunks:
        """Return the first state. `best` is the result of a sweep."""
        parts = min(PARTS_IF_MONOTONE, len(graph.sinks(best))) if monotone else 2
        return Chunks(graph=graph, best=best, runs=runs, monotone=monotone, parts=parts)._skip_trivial_steps()

    @property
    def query(self) -> Query[Subset] | None:
        """Return the query for a part, or for all elements but a part."""
        candidate = None if self._is_done else self._candidate
        return None if candidate is None else Query(candidate, self.runs)

    @property
    def chance(self) -> float:
        """Return 0.1: a larger step rarely helps where single elements did not."""
        return 0.1

    def next_state(self, answer: Answer) -> Chunks:
        """Start again with a smaller candidate, or go to the next step."""
        if answer is Answer.INTERESTING:
            assert self._candidate is not None
            return Chunks.start(self.graph, self._candidate, runs=self.runs, monotone=False)
        return replace(self, step=self.step + 1)._skip_trivial_steps()

    @property
    def _divided_elements(self) -> tuple[int, ...]:
        return self.graph.sinks(self.best) if self.monotone else tuple(sorted(self.best))

    @property
    def _is_done(self) -> bool:
        if self.monotone:
            # Each of two parts is the complement of the other, which the sweep has tried.
            return self.parts < 3 or self.step >= self.parts
        return self.parts > min(MAX_PARTS, len(self.best))

    @property
    def _candidate(self) -> Subset | None:
        """Return the candidate of the current step. None if the step would leave nothing or everything."""
        elements = self._divided_elements
        part = self.step % self.parts
        low, high = (len(elements) * end // self.parts for end in (part, part + 1))
        if self.step < self.parts:
            kept = self.graph.with_ancestors(elements[low:high])
        else:
            kept = self.graph.closed_subset(self.best.difference(elements[low:high]))
        return kept if kept and kept < self.best else None

    def _skip_trivial_steps(self) -> Chunks:
        """Skip steps that would leave nothing or everything."""
        state = self
        while not state._is_done:
            if state.step >= 2 * state.parts:
                state = replace(state, parts=state._next_part_count, step=0)
            elif state._candidate is None:
                state = replace(state, step=state.step + 1)
            else:
                break
        return state

    @property
    def _next_part_count(self) -> int:
        """Return twice as many parts, up to one for each element. More parts than elements end the search."""
        elements = len(self.best)
        return min(2 * self.parts, elements) if self.parts < elements else elements + 1


def passes_to_reject(rate: float, error: float) -> int:
    """Return the least m for which a candidate that fails at `rate` passes m runs with a chance of at most `error`.

    Raises:
        ValueError: `rate` is not in (0, 1], or `error` not in (0, 1).

    >>> passes_to_reject(1, 0.01), passes_to_reject(0.3, 0.01)
    (1, 13)
    """
    if not 0 < rate <= 1 or not 0 < error < 1:
        raise ValueError(f"expected a rate in (0, 1] and an error in (0, 1), found {rate} and {error}")
    return 1 if rate == 1 else max(1, ceil(log(error) / log(1 - rate)))


def cautious_rate(failures: int, runs: int) -> float:
    """Return the rate of failure to plan with: 1 if all runs failed, else a lower bound of the rate.

    Raises:
        ValueError: no run failed.
    """
    if not 0 < failures <= runs:
        raise ValueError(f"expected at least one failure, found {failures} in {runs} runs")
    return 1.0 if failures == runs else lower_bound_of_rate(failures, runs)


def lower_bound_of_rate(failures: int, runs: int) -> float:
    """Return Wilson's lower bound of a rate of failure, at 90 % (E. B. Wilson, 1927)."""
    share, z2 = failures / runs, _Z * _Z / runs
    half = _Z * sqrt((share * (1 - share) + z2 / 4) / runs)
    return (share + z2 / 2 - half) / (1 + z2)


_Z = 1.2816
"""The standard normal distribution has 90 % of its mass below this quantile."""


MAX_STATES = 64
"""`Minimizer.ask` examines at most this many states for each run, so that it returns soon."""


MIN_CHANCE = 0.01
"""A run is made ahead if it will be needed with at least this chance."""


class Minimizer(Generic[C]):
    """Walks a chain of states: `ask` proposes runs, and `tell` takes their answers.

    The walk depends on nothing but the answers. The number of runs at once, and the order of their answers, make no
    difference. The walk may stop at any time: `best` is interesting.

    >>> minimizer = Minimizer(minimize(DependencyGraph.edgeless(16)))
    >>> while runs := minimizer.ask(1):
    ...     interesting = {3, 12} <= runs[0].candidate
    ...     minimizer.tell(runs[0], Answer.INTERESTING if interesting else Answer.PASSED)
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
        """Return the smallest candidate that was found interesting."""
        return self._state.best

    @property
    def is_done(self) -> bool:
        """Return whether the search has ended. It needs no answers of pending runs then."""
        return self._state.query is None

    def ask(self, most: int) -> list[Trial[C]]:
        """Return up to `most` new runs to make, those most likely to be needed first.

        A run is pending until `tell` gets its answer. The list is empty at the end of the search, or if all runs worth
        making are pending.
        """
        asked: list[Trial[C]] = []
        order = count()
        # An entry: the negative chance to be needed, a tie-breaker, a state, an assumed answer to its query, and the
        # number of its query's next run.
        queue: list[tuple[float, int, MinimizerState[C], Answer | None, int]] = [
            (-1.0, next(order), self._state, None, 0)
        ]

        def push(priority: float, state: MinimizerState[C], answer: Answer | None, number: int = 0) -> None:
            heappush(queue, (priority, next(order), state, answer, number))

        for _ in range(MAX_STATES * most):
            if not queue or len(asked) >= most or -queue[0][0] < MIN_CHANCE:
                break
            priority, _, state, answer, number = heappop(queue)
            state = state if answer is None else state.next_state(answer)
            query = state.query
            if query is None:
                continue
            known = self.memory.answer(query)
            if known is not None:
                push(priority, state, known)
                continue
            while (run := Trial(query.candidate, number)) in self.memory:
                number += 1
            if number >= query.runs:
                # All missing runs are pending.
                push(priority, state, Answer.PASSED)
                continue
            if run not in self._pending:
                asked.append(run)
                self._pending.add(run)
            failure_chance = state.chance / query.runs
            push(priority * failure_chance, state, Answer.INTERESTING)
            if number + 1 < query.runs:
                push(priority * (1 - failure_chance), state, None, number + 1)
            else:
                push(priority * (1 - failure_chance), state, Answer.PASSED)
        return asked

    def tell(self, run: Trial[C], answer: Answer) -> None:
        """Record the answer of a pending run.

        Raises:
            ValueError: the run is not pending.
        """
        if run not in self._pending:
            raise ValueError(f"expected a run that was asked for, found run {run.number} of {run.candidate}")
        self._pending.discard(run)
        self.memory.record(run, answer)
        self._walk()

    def _walk(self) -> None:
        while (query := self._state.query) is not None and (answer := self.memory.answer(query)) is not None:
            self._state = self._state.next_state(answer)


class Memory(Generic[C]):
    """The answers of all runs so far. A search repeats no run that its memory has."""

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
        """Record the answer of a run.

        Raises:
            ValueError: the memory has this run.
        """
        if run in self:
            raise ValueError(f"expected a new run, found run {run.number} of {run.candidate} again")
        self._runs.setdefault(run.candidate, {})[run.number] = answer

    def answer(self, query: Query[C]) -> Answer | None:
        """Return the answer to a query, or None while runs are missing.

        One interesting run is enough. The first run of a candidate decides whether it is valid. An empty candidate is
        never interesting.
        """
        if not query.candidate:
            return Answer.PASSED
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
        return Answer.SLIPPED if Answer.SLIPPED in answers else Answer.PASSED
