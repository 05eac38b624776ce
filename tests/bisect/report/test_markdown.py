"""Any text stands in Markdown as it is, as GitHub's own parser reads it, and ordinary text without a backslash."""

from html.parser import HTMLParser
from itertools import pairwise

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import example, given
from hypothesis import strategies as st

from precision_bisect.bisect.report.report_files import block, escape
from precision_bisect.store.vocabulary import one_line

MARKS = "\\`*_[]<>&|~$#:@!()-+=.'\"/?{}^;%,"
WORDS = ("a", "b1", "7", "42", "é", "—", " ", "  ", "www", "https://", "x.y", "GH-")
TOGETHER = ("**", "__", "~~", "```", "---", "](", "]:", "[^1]", "<b>", "</p>", "<!--", "&amp;", "&#35;", "$$")
PIECES = st.sampled_from([*MARKS, *WORDS, *TOGETHER])
TEXTS = st.lists(PIECES, min_size=1, max_size=12).map("".join).filter(str.strip)
PLACES = [
    "{}", "{} and more", "- {}", "- label: {}", "# {}", "# title {}", "1. {}", "| a | b |\n| --- | --- |\n| {} | c |",
    "before {} (99 %)", "> {}",
]  # fmt: skip


class Page(HTMLParser):
    """What GitHub's parser makes of Markdown: its elements, and all its text."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        extensions = ["table", "strikethrough", "autolink", "tasklist"]
        options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES
        self.feed(cmarkgfm.markdown_to_html_with_extensions(markdown, options=options, extensions=extensions))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")


def without_space(text: str) -> str:
    """Markdown folds and trims blanks, and a zero-width one keeps GitHub from looking for names."""
    return "".join(text.replace("\u200b", "").split())


@pytest.mark.parametrize("place", PLACES)
@given(text=TEXTS)
@example(text="__init__ and a__b")
@example(text="*")
@example(text="# a #")
@example(text="- - -")
def test_any_text_is_shown_as_it_is(place: str, text: str) -> None:
    page, plain = Page(place.format(escape(text))), Page(place.format("plain"))
    assert page.tags == plain.tags
    assert without_space(page.text) == without_space(plain.text.replace("plain", one_line(text)))


@given(first=TEXTS, second=TEXTS)
@example(first="\\", second="_www.")
def test_two_texts_on_a_line_make_nothing_together(first: str, second: str) -> None:
    page = Page(f"Culprit: {escape(first)} by {escape(second)}, 2026-03-04")
    assert page.tags == ["p"]
    told = f"Culprit: {one_line(first)} by {one_line(second)}, 2026-03-04"
    assert without_space(page.text) == without_space(told)


@given(text=TEXTS)
def test_no_formula_mention_or_reference_is_left(text: str) -> None:
    """GitHub looks for these in the finished text, of which no parser at hand is a model."""
    escaped = escape(text)
    for found in range(len(escaped)):
        assert escaped[found] != "$" or escaped[found - 1] == "\\"
    for mark, after in pairwise(Page(escaped).text):
        assert not (mark == "@" and after.isalnum())
        assert not (mark == "#" and after.isdigit())


@given(lines=st.lists(TEXTS, min_size=1, max_size=5))
def test_lines_of_a_block_are_shown_as_they_are(lines: list[str]) -> None:
    page = Page(block(lines))
    assert page.tags == ["pre", "code"]
    assert page.text.rstrip("\n").split("\n") == [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    "text",
    [
        "99.03 % (99 % was asked)",
        "2.6 s",
        "2.13.0+cpu",
        "compile_error (AttributeError: 'function' object has no attribute 'label')",
        "machine x86_64, src/my_file_2.c:12",
        "const uint32_t half = 1u << (dropped - 1); a > b && c < d",
        "error 0.03125 at [0, 12]; 2 * half",
        "C:\\Users\\me",
        "-5.3 %, - and + between",
        "#include <= 3",
        "Fix: take it, see docs/guide.md!",
    ],
)
def test_ordinary_text_has_no_backslash_more(text: str) -> None:
    start = "\\" if text.startswith("#") else ""
    assert escape(text) == f"{start}{text}"
