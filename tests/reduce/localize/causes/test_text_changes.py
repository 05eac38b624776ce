"""Changes of a source: which there are, and the source with some of them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.reduce.rewrite.text_changes import text_changes, with_changes
from tests.support.quick import examples

LINES = st.lists(st.sampled_from(["a;\n", "b;\n", "c(1);\n", "\n", "// note\n"]), max_size=12).map(
    lambda lines: "".join(lines).encode()
)


def code(text: bytes) -> list[bytes]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith(b"//")]


@given(reference=LINES, failing=LINES)
@settings(max_examples=examples(300), deadline=None)
def test_all_changes_make_the_failing_code(reference: bytes, failing: bytes) -> None:
    changes = text_changes(reference, failing)
    assert code(with_changes(reference, changes)) == code(failing)
    assert with_changes(reference, ()) == reference


def test_a_comment_is_no_change_and_a_string_is_none() -> None:
    assert text_changes(b"a; // one\n/* x */ b;\n", b"a;\n  b; // two\n") == ()
    (change,) = text_changes(b'f("// a");\n', b'f("// b");\n')
    assert change.lines() == ('- f("// a");', '+ f("// b");')
