"""Changes of a source: which there are, and the source with some of them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.reduce.localize.changes import apply_changes, group_changes, source_lines, text_changes
from tests.support.quick import examples

LINES = st.lists(st.sampled_from(["a;\n", "b;\n", "c(1);\n", "\n", "// note\n"]), max_size=12).map(
    lambda lines: "".join(lines).encode()
)


def code(text: bytes) -> list[bytes]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith(b"//")]


@given(reference=LINES, failing=LINES)
@settings(max_examples=examples(300), deadline=None)
def test_all_changes_make_the_failing_code(reference: bytes, failing: bytes) -> None:
    changes = text_changes(reference, source_lines(failing))
    assert code(apply_changes(reference, changes)) == code(failing)
    assert apply_changes(reference, ()) == reference


def test_a_comment_is_no_change_and_a_string_is_none() -> None:
    assert text_changes(b"a; // one\n/* x */ b;\n", source_lines(b"a;\n  b; // two\n")) == ()
    (change,) = text_changes(b'f("// a");\n', source_lines(b'f("// b");\n'))
    assert change.lines() == ('- f("// a");', '+ f("// b");')


def test_values_that_two_names_exchange_are_one_change() -> None:
    old = b"const uint64_t a = scalar(0);\nconst uint64_t b = scalar(1);\nconst uint64_t c = scalar(2);\n"
    new = b"const uint64_t a = scalar(1);\nconst uint64_t b = scalar(0);\nconst uint64_t c = scalar(3);\n"
    exchanged, other = group_changes(text_changes(old, source_lines(new)))
    assert [change.first_line for change in exchanged] == [1, 2]
    assert [change.first_line for change in other] == [3]


def test_the_shape_and_the_offsets_of_a_view_are_one_change() -> None:
    old = b"uint32_t v_shapes[2] = {8, 8};\nuint32_t v_offsets[2] = {0, 0};\n"
    new = b"uint32_t v_shapes[2] = {4, 8};\nuint32_t v_offsets[2] = {4, 0};\n"
    ((change,),) = group_changes(text_changes(old, source_lines(new)))
    assert len(change.old) == 2
