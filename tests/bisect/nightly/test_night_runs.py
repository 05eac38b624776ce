"""What a night says of a run that no rule of the stack explains."""

import pytest

from precision_bisect.bisect.nightly.matrix import evidence_texts
from precision_bisect.runner.verdict.classify import Classification, Classifier
from tests.runner.verdict.recorded_output import read_ending

BEFORE = (
    "  error: subprocess-exited-with-error",
    "  x Preparing editable metadata (pyproject.toml) did not run successfully.",
    "  ╰─> [9 lines of output]",
)
TRACEBACK = (
    "      Traceback (most recent call last):",
    '        File "/slot/minipto/setup.py", line 3, in <module>',
    "          import no_such_module",
    "      ModuleNotFoundError: No module named 'no_such_module'",
    "      [end of output]",
)
AFTER = (
    "  note: This error originates from a subprocess, and is likely not a problem with pip.",
    "error: metadata-generation-failed",
    "x Encountered error while generating package metadata.",
    "╰─> See above for output.",
    "note: This is an issue with the package mentioned above, not pip.",
    "hint: See above for details.",
)
COMPILER = "ld: warning: x", "src/a.cpp:3:1: error: expected ';'", "src/a.cpp:4:1: error: another"


def read(lines: tuple[str, ...]) -> Classification:
    classifier = Classifier(())
    for line in lines:
        classifier.feed("build", line)
    return classifier.finish(read_ending("exit 1"), None)


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ((*BEFORE, *TRACEBACK, *AFTER), "ModuleNotFoundError: No module named 'no_such_module'"),
        ((*BEFORE, *TRACEBACK, *COMPILER, *AFTER), "src/a.cpp:3:1: error: expected ';'"),
        ((*BEFORE, *AFTER), "x Encountered error while generating package metadata."),
        (("making", "cannot make it"), "cannot make it"),
        (("hint: See above for details.",), "hint: See above for details."),
    ],
)
def test_the_cause_in_a_log_is_told_and_not_what_points_to_it(lines: tuple[str, ...], cause: str) -> None:
    found = read(lines)
    texts = evidence_texts(found.evidence)
    assert texts[0] == f"exit code 1, it printed: {cause}"
    assert len(set(texts[1:])) == len(texts[1:])
