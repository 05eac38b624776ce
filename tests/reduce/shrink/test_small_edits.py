"""What single edits make of a program, without running it."""

from __future__ import annotations

import pytest

from precision_bisect.reduce.shrink.edits import DropStatements, droppable_statements, smaller_sizes
from precision_bisect.reduce.shrink.minimize import Answer, Minimizer
from precision_bisect.reduce.shrink.program import Candidate
from precision_bisect.reduce.shrink.program_text import (
    KernelText,
    StatementName,
    list_statements,
    remove_statements,
)

KERNEL = b"""
const int table[2] = {1, 2};
extern "C" void kernel_entry(const KernelArgs& args) {
    const int unused = 3;
    int a = table[0];
    for (int i = 0; i < 4; ++i) {
        a += i;
        a += i;
    }
    if (a > 2) store(a);
}
"""


def test_statements_are_named_by_text_and_need_what_may_have_set_their_variables() -> None:
    found = [
        (one.name.text.partition("{")[0], one.name.occurrence, one.needs) for one in list_statements(KERNEL)
    ]
    assert found == [
        ("const int unused = 3;", 0, frozenset()),
        ("int a = table[0];", 0, frozenset()),
        ("for (int i = 0; i < 4; ++i) ", 0, frozenset({1})),
        ("a += i;", 0, frozenset({1, 2})),
        ("a += i;", 1, frozenset({1, 2, 3})),
        ("if (a > 2) store(a);", 0, frozenset({1, 2, 3, 4})),
        ("store(a);", 0, frozenset({1, 2, 3, 4, 5})),
    ]


def test_a_statement_that_is_a_body_leaves_an_empty_one() -> None:
    left = remove_statements(KERNEL, {StatementName("a += i;", 1), StatementName("store(a);", 0)})
    assert left.count(b"a += i;") == 1
    assert b"if (a > 2) ;" in left
    loop = next(one.name for one in list_statements(KERNEL) if one.name.text.startswith("for"))
    assert b"a += i" not in remove_statements(KERNEL, {loop, StatementName("a += i;", 0)})


def test_only_shared_statements_go_and_none_that_a_kept_one_needs() -> None:
    texts = (KernelText("k", KERNEL, KERNEL.replace(b"table[0]", b"table[1]")),)
    search = DropStatements(lambda _: texts).search(Candidate((0,)), rate=1.0, again=False)
    minimizer = Minimizer(search)
    while runs := minimizer.ask(1):
        dropped = {text for _, text, _ in runs[0].candidate.statements}
        assert "int a = table[0];" not in dropped
        minimizer.tell(runs[0], Answer.PASSED if "store(a);" in dropped else Answer.INTERESTING)
    assert minimizer.best.statements == (("k", "const int unused = 3;", 0),)
    other = KERNEL.replace(b"store(a)", b"keep(a)")
    assert len(droppable_statements([KernelText("k", KERNEL, other)])[0]) == 1


def test_a_value_that_is_returned_stays_with_what_it_needs() -> None:
    """A function that ends without its value may run for ever."""
    source = (
        b"int f(int x) { int a = x; a += 1; g(x); if (x) { return 3; } return a; } void h() { i(); return; }"
    )
    statements, _ = droppable_statements([KernelText("k", source, source)])
    assert {text for _, text, _ in statements} == {"g(x);", "i();", "return;"}


@pytest.mark.parametrize("size", [2, 7, 8, 64, 72, 100, 256])
def test_smaller_sizes_are_smaller_and_keep_the_rest_of_a_tile(size: int) -> None:
    sizes = smaller_sizes(size)
    assert sizes[0] == 1
    assert list(sizes) == sorted(set(sizes))
    assert max(sizes) < size
    assert all(one == 1 or any((one - size) % tile == 0 for tile in (8, 16, 32, 64)) for one in sizes)
