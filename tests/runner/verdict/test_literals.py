"""A pattern is tried on those lines alone that have what it needs, and nothing is lost by that."""

import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from precision_bisect.runner.verdict import classify
from precision_bisect.runner.verdict.classify import Classification, Classifier
from precision_bisect.runner.verdict.output_lines import find_line_starts, find_required_texts, search
from precision_bisect.runner.verdict.rules import BUILD_RULES, VerdictRule
from precision_bisect.store.vocabulary import Stream
from tests.runner.verdict.recorded_output import read_ending
from tests.runner.verdict.test_corpus import NOISE, RECORDED, STACKS, rules_of


def patterns_of(rules: tuple[VerdictRule, ...]) -> set[re.Pattern[str]]:
    fields = [(rule.pattern, rule.requires, rule.unless, *rule.details) for rule in rules]
    return {pattern for each in fields for pattern in each if pattern is not None}


PATTERNS = sorted(
    patterns_of((*rules_of("pypto"), *rules_of("simpler"), *BUILD_RULES)), key=lambda each: each.pattern
)
LINES: list[tuple[Stream, str]] = [*NOISE, *(line for recorded in RECORDED for line in recorded.lines)]


@pytest.mark.parametrize("stack", STACKS)
def test_every_pattern_of_a_shipped_stack_needs_some_text(stack: str) -> None:
    """One that needs none has every line tried on all rules: 100 MB of output then cost half a minute."""
    assert [each.pattern for each in patterns_of(rules_of(stack)) if not find_required_texts(each)] == []


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("(?i)never", ()),
        ("a(?i:never)bc", ("bc",)),
        ("(?:short|(?P<name>longer) one)", ("longer", "short")),
        ("(?:abc)?de", ("de",)),
        ("(?:abc)+de", ("abc",)),
        ("(?:abc){2,}?de", ("abc",)),
        ("(?>abc)de", ("abc",)),
        ("(?!abc)de", ("de",)),
        ("(?<=abc)de", ("de",)),
        ("[a]bc", ("abc",)),
        ("[ab]|c", ()),
        ("\ufffdcd", ()),
        ("(?x) a b # cdef\n", ("ab",)),
    ],
)
def test_what_a_pattern_needs(pattern: str, texts: tuple[str, ...]) -> None:
    assert find_required_texts(re.compile(pattern)) == texts


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.pattern[:40])
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_what_matches_has_what_is_needed(pattern: re.Pattern[str], data: st.DataObject) -> None:
    text = data.draw(st.from_regex(pattern))
    texts = find_required_texts(pattern)
    assert not texts or any(each in text for each in texts)


def test_recorded_lines_match_as_they_would_without_it() -> None:
    for pattern in PATTERNS:
        for _, line in LINES:
            found, expected = search(pattern, line), pattern.search(line)
            assert (found and found.span()) == (expected and expected.span())


@given(
    st.binary(max_size=60), st.sets(st.binary(min_size=1, max_size=2).filter(lambda text: b"\n" not in text))
)
@example(b"ab\nb\n\nab\n", {b"a", b"ab"})
def test_lines_with_a_text(data: bytes, texts: set[bytes]) -> None:
    expected, begin = list[int](), 0
    for line in data.split(b"\n"):
        if any(text in line for text in texts):
            expected.append(begin)
        begin += len(line) + 1
    assert find_line_starts(texts, data) == expected


def classified(rules: tuple[VerdictRule, ...], pieces: list[list[tuple[Stream, str]]]) -> Classification:
    """Taken by the piece, as a run's output is read."""
    classifier, number = Classifier(rules), 0
    for piece in pieces:
        stream = piece[0][0]
        lines = "".join(f"{line}\n" for _, line in piece).encode("utf-8", "surrogatepass")
        if not classifier.skim(stream, number + 1, lines):
            for place, line in enumerate(lines.split(b"\n")[:-1], number + 1):
                classifier.feed_numbered(stream, place, line.decode("utf-8", "replace"))
        number += len(piece)
    return classifier.finish(read_ending("exit 1"), None)


def changed(line: str, how: str) -> str:
    """A recorded line as it may also arrive: coloured within a word, drawn over, blank, with control characters."""
    half = len(line) // 2
    return {
        "as it is": line,
        "coloured": f"{line[:half]}\x1b[31m{line[half:]}\x1b[0m",
        "redrawn": f"45%\r{line}\r",
        "torn": f"{line[:half]}\x07{line[half:]}",
        "blank": " ",
        "cut": line[:half],
    }[how]


HOW = st.sampled_from(["as it is"] * 5 + ["coloured", "redrawn", "torn", "blank", "cut"])
LINE = st.builds(lambda line, how: (line[0], changed(line[1], how)), st.sampled_from(LINES), HOW)
RUN = st.sampled_from(RECORDED).map(lambda recorded: [*recorded.lines])


@pytest.mark.parametrize("stack", STACKS)
@settings(max_examples=60)
@given(
    mixed=st.lists(st.one_of(LINE.map(lambda line: [line]), RUN), max_size=6),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=8),
)
def test_a_run_is_classified_as_it_would_be_with_all_rules_tried_on_each_line(
    stack: str, mixed: list[list[tuple[Stream, str]]], cuts: list[int]
) -> None:
    rules = rules_of(stack)
    lines = [line for piece in mixed for line in piece]
    pieces: list[list[tuple[Stream, str]]] = []
    for place, line in enumerate(lines):
        cut = place % cuts[len(pieces) % len(cuts)] == 0
        if not pieces or cut or pieces[-1][0][0] != line[0]:
            pieces.append([])
        pieces[-1].append(line)
    found = classified(rules, pieces)
    with pytest.MonkeyPatch.context() as patch:
        # As for patterns of which nothing is known.
        patch.setattr(classify, "find_required_texts", lambda _: ())
        patch.setattr(classify, "search", lambda pattern, text: pattern.search(text))
        plain = Classifier(rules)
        assert not plain.skim("stdout", 1, b"nothing\n")
        assert found == classified(rules, pieces)


def test_a_rule_that_may_ask_for_any_line_has_all_lines_tried() -> None:
    rules = (VerdictRule.model_validate({"verdict": "mismatch", "pattern": r"^\d+$"}),)
    classifier = Classifier(rules)
    assert not classifier.skim("stdout", 1, b"34\n")
    classifier.feed_numbered("stdout", 1, "34")
    assert classifier.finish(read_ending("exit 1"), None).verdict == "mismatch"
