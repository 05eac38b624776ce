"""The order on candidates: total, and smaller means smaller in the first thing that people look at."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.reduce.shrink.minimize import DependencyGraph
from precision_bisect.reduce.shrink.program import (
    Candidate,
    CandidateOrder,
    CandidateSize,
    PlainValue,
    TaskSize,
)
from tests.reduce.shrink.small_programs import SmallProgram

PROGRAM = SmallProgram(DependencyGraph.edgeless(4))
ORDER = PROGRAM.order
TASKS = range(4)


K = TypeVar("K")
V = TypeVar("V")


def mapping(
    keys: st.SearchStrategy[K], values: st.SearchStrategy[V]
) -> st.SearchStrategy[tuple[tuple[K, V], ...]]:
    return st.dictionaries(keys, values, max_size=3).map(lambda pairs: tuple(pairs.items()))


KERNELS = st.sampled_from(PROGRAM.kernels)
# No edit makes anything larger than it was in the whole program.
CANDIDATES = st.builds(
    Candidate,
    tasks=st.sets(st.sampled_from(TASKS)).map(tuple),
    collapsed=st.sets(KERNELS).map(tuple),
    extents=mapping(st.sampled_from((2, 8, 64)), st.sampled_from((1, 2, 8))).map(
        lambda extents: tuple((before, after) for before, after in extents if after <= before)
    ),
    plain=mapping(
        st.sampled_from([f"x{task}" for task in TASKS]), st.sampled_from([kind.value for kind in PlainValue])
    ),
    statements=st.lists(st.tuples(KERNELS, st.sampled_from(("a();", "d();")), st.integers(0, 1))).map(tuple),
    blocks=mapping(st.sampled_from(TASKS), st.sampled_from((1, 2, 4))).map(
        lambda blocks: tuple((task, count) for task, count in blocks if count <= ORDER.tasks[task].blocks)
    ),
)


@given(CANDIDATES, CANDIDATES)
def test_of_two_candidates_one_is_smaller_or_they_are_one(first: Candidate, second: Candidate) -> None:
    first, second = ORDER.canonical(first), ORDER.canonical(second)
    relations = [first == second, ORDER.is_smaller(first, second), ORDER.is_smaller(second, first)]
    assert relations.count(True) == 1
    assert (ORDER.size(first) == ORDER.size(second)) == (first == second) == (first.key == second.key)


@given(CANDIDATES, CANDIDATES, CANDIDATES)
def test_smaller_than_a_smaller_one_is_smaller(first: Candidate, second: Candidate, third: Candidate) -> None:
    first, second, third = sorted(map(ORDER.canonical, (first, second, third)), key=ORDER.size)
    if first != third:
        assert ORDER.is_smaller(first, third)


@given(CANDIDATES)
def test_the_canonical_form_is_one_and_says_all_that_tells_builds_apart(candidate: Candidate) -> None:
    canonical = ORDER.canonical(candidate)
    assert ORDER.canonical(canonical) == canonical
    shuffled = Candidate(
        *(tuple(reversed(getattr(candidate, name))) for name in candidate.__dataclass_fields__)
    )
    assert ORDER.canonical(shuffled) == canonical
    kernels = ORDER.kernels(canonical)
    names = {
        *canonical.collapsed,
        *(kernel for kernel, *_ in canonical.statements),
    }
    assert names <= kernels
    assert {task for task, _ in canonical.blocks} <= set(canonical.tasks)
    assert set(dict(canonical.extents)) <= set(ORDER.extents(canonical))


@given(CANDIDATES)
def test_nothing_is_larger_than_the_whole_and_no_single_edit_is_as_large(candidate: Candidate) -> None:
    canonical = ORDER.canonical(candidate)
    assert canonical == ORDER.whole or ORDER.is_smaller(canonical, ORDER.whole)
    for edit in PROGRAM.smaller_by_one(canonical):
        assert ORDER.size(edit) < ORDER.size(canonical)


def test_what_counts_first() -> None:
    """Each candidate is smaller than the one before it, though some are larger in what counts after that."""
    reduced = Candidate((0,), collapsed=("k0",), blocks=((0, 1),), extents=((64, 1),))
    sizes = [
        ORDER.size(ORDER.canonical(one))
        for one in (
            Candidate((0, 1), collapsed=("k0", "k1"), plain=(("x0", "zeros"),)),
            Candidate((0,)),
            Candidate((0,), collapsed=("k0",)),
            Candidate((0,), collapsed=("k0",), blocks=((0, 1),)),
            reduced,
            replace(reduced, plain=(("x0", "its first value"),)),
            replace(reduced, plain=(("x0", "zeros"),)),
        )
    ]
    assert sizes == sorted(sizes, reverse=True)
    fields = list(CandidateSize.__dataclass_fields__)
    first = [
        next(name for name in fields if getattr(larger, name) != getattr(smaller, name))
        for larger, smaller in pairwise(sizes)
    ]
    assert first == ["tasks", "failing_kernels", "blocks", "elements", "plainness", "plainness"]


def test_fewer_kernels_are_smaller() -> None:
    task = TaskSize(kernels=("a",), blocks=1, shapes=((4,),), inputs=frozenset())
    other = replace(task, kernels=("a", "b"))
    order = CandidateOrder(tasks=(other, task, task))
    assert order.is_smaller(Candidate((1, 2)), Candidate((0, 1)))
