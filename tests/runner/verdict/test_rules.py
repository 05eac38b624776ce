"""Stack-file tables that cannot work are refused when they are read, with a message that shows what is wrong."""

import pytest
from pydantic import ValidationError

from precision_bisect.runner.verdict.rules import VerdictRule


def read(**table: object) -> VerdictRule:
    return VerdictRule.model_validate({"verdict": "stall", "pattern": "x", **table})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"pattern": "("}, r"expected a regular expression, found '\('.*position 0"),
        ({"pattern": 7}, "pattern"),
        ({"pattern": "a*"}, "matches an empty line"),
        ({"requires": "["}, "expected a regular expression"),
        ({"verdict": "bad"}, "'pass', 'mismatch'"),
        ({"stream": "log"}, "'any', 'stdout' or 'stderr'"),
        ({"endings": []}, "at least 1"),
        ({"endings": ["crash"]}, "'exit', 'signal' or 'timeout'"),
        ({"endings": ["timeout"], "verdict": "pass"}, "always needs exit code 0"),
        ({"signature": "{code}"}, r"named groups of the pattern, which has none, found \{code\}"),
        ({"pattern": "(?P<a>x)", "signature": "{a.__class__}"}, "plain group name"),
        ({"pattern": "(?P<a>x)", "signature": "{a!r}"}, "plain group name"),
        ({"signature": "{"}, "expected"),
        ({"details": ["x"], "verdict": "crash"}, "details belong to mismatch and stall rules"),
        ({"pattern": "(?P<exception>x)"}, "expected another name for the group exception"),
        ({"patern": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_a_table_that_cannot_work_is_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        read(**table)


def test_a_signature_is_filled_from_the_match() -> None:
    rule = read(pattern=r"at (?P<file>\w+)(?: in (?P<task>.+))?", signature="{file} {task}")
    match = rule.pattern.search("at cat in  a   b ")
    assert match is not None
    assert rule.signature_of(match) == "cat a b"
    match = rule.pattern.search("at cat")
    assert match is not None
    assert rule.signature_of(match) == "cat"


def test_rules_are_values() -> None:
    assert read() == read()
    assert read() != read(stream="stderr")
