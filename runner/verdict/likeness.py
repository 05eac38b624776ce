"""Estimates how probable it is that a run fails for the same reason as the failing end of the range.

Two runs of one fault mostly print the same error: the same test fails, or the same exception is raised with the same
message. If only one of them gets as far as the check, because of an import error for instance, their failures differ.
In between, `likeness` gives a probability. It is a prior: how often two failures that differ in this way are one fault.
`benchmarks/kinds` measures the results. What passing runs print as well is no evidence.
"""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

from .symptoms import (
    UNITTEST_NAME,
    Family,
    Symptom,
    Symptoms,
    all_errors,
    all_last_lines,
    exception_family,
)

SURE_LIKENESS = 0.99
"""A failure with at least this likeness counts as the failing end's. With 1 - SURE_LIKENESS or less it is another."""

_SAME = 0.999
"""Two failures without a difference are this likely the same. By chance, two faults may print the same."""

_OTHER_TEST = 0.005
"""Failures of different tests are this likely the same."""

_NOT_CHECKED = 0.003
"""Two failures are this likely the same if only one run got as far as the check."""

_OTHER_EXCEPTION_OF_TEST = 0.5
"""Two failures of one test are this likely the same if they raise different exceptions."""
_OTHER_ASSERTION_OF_TEST = 0.7
"""Two failures of one test are this likely the same if they raise one exception with different messages.

Another assertion of the test failed, or one fault shows in two ways. Of other parameters of the test, each may fail by
a fault of its own, or a commit has given them other names."""
_OTHER_TYPE = 0.15
"""Two failures are this likely the same if their errors have different types of one family."""
_OTHER_FAMILY = 0.15
"""Two failures are this likely the same if their errors are of different families."""
_OTHER_BREAKAGE = 0.02
"""Two failures are this likely the same if neither run got as far as the check, and their errors differ."""

_MIN_LIKENESS, _MAX_LIKENESS = 0.3, 0.98
"""The likeness of two messages of one type grows from the first number to the second with the words they share."""

_UNKNOWN_ERROR = 0.3
"""Two failures are this likely the same if one of them prints no known error."""

_OTHER_PLACE = 0.7
"""Two failures are this likely the same if one message is raised at two source lines.

It is another fault, or a commit has changed the line."""
_OTHER_PROGRESS = 0.7
"""Two failures with one message are this likely the same if the runs differ in the lines that passing runs print."""
_OTHER_CODE = 0.5
"""Two failures are this likely the same if they differ in their exit codes alone."""

_WORD = re.compile(r"[A-Za-z_]\w+")
_TOKEN = re.compile(r"[^\s/'\":,;()\[\]{}<>]+")
"""A part of a text that varies as a whole, such as the name of a temporary file."""


def likeness(run: Symptoms, failing_runs: Sequence[Symptoms], passing_runs: Sequence[Symptoms]) -> float:
    """Return the probability that a failed run shows the failure of the failing end.

    `failing_runs` are what that end's failing runs showed, at least one. `passing_runs` are what passing runs showed.
    """
    usual_errors, usual_lines = all_errors(passing_runs), all_last_lines(passing_runs)
    run, *failing_runs = _mask_random_tokens(run, failing_runs)
    return max(_run_likeness(run, end, usual_errors, usual_lines) for end in failing_runs)


def _mask_random_tokens(run: Symptoms, failing_runs: Sequence[Symptoms]) -> Iterator[Symptoms]:
    """Yield a run, and then the failing end's runs, without what varies between these, such as temporary names.

    A text is masked if all runs of the end print it, but for a minority of its tokens.
    """
    tokens = [{*_TOKEN.findall(" ".join(_texts(end)))} for end in failing_runs]
    constant = tokens[0].intersection(*tokens)

    def mask(text: str) -> str:
        return _TOKEN.sub(lambda token: token[0] if token[0] in constant else "*", text)

    def is_mostly_constant(text: str) -> bool:
        found = _TOKEN.findall(text)
        return 2 * sum(token in constant for token in found) > len(found)

    masked = [{mask(text) for text in _texts(end) if is_mostly_constant(text)} for end in failing_runs]
    common = masked[0].intersection(*masked)
    for each in (run, *failing_runs):
        new = {text: mask(text) for text in _texts(each) if mask(text) in common}
        yield replace(
            each,
            shown=tuple(replace(symptom, text=new.get(symptom.text, symptom.text)) for symptom in each.shown),
            last_lines=tuple(new.get(line, line) for line in each.last_lines),
        )


def _texts(run: Symptoms) -> Iterator[str]:
    yield from (symptom.text for symptom in run.shown)
    yield from run.last_lines


def differ_in_code_alone(run: Symptoms, failing_runs: Sequence[Symptoms]) -> bool:
    """Return whether a failed run differs from each of the failing end's in its exit code, and in nothing else."""
    return all(
        run.exit_code != end.exit_code and (run.shown, run.last_lines) == (end.shown, end.last_lines)
        for end in failing_runs
    )


def passes_failing_test(
    run: Symptoms, failing_runs: Sequence[Symptoms], passing_runs: Sequence[Symptoms]
) -> bool:
    """Return whether the test that fails at the failing end ran in a failed run, and passed there.

    This is known if as many tests ran as at both ends, each got as far as its check, and only other tests failed. A
    test that fails with the end's own message may be the same test by another name. Then the answer is False.
    """
    counts = {(each.tests, each.skipped_tests) for each in (*failing_runs, *passing_runs)}
    if not passing_runs or run.tests is None or counts != {(run.tests, run.skipped_tests)}:
        return False
    details = failing_tests(run.causes)
    families = [each.family for each in run.causes]
    families += [_exception_of_test(detail)[1] for detail in details.values()]
    if any(family.prevents_check for family in families):
        return False
    here = {*map(strip_parameters, details)}
    there = [{*map(strip_parameters, failing_tests(end.causes))} for end in failing_runs]
    if not here or not all(there) or any(here & tests for tests in there):
        return False
    messages = _messages(run)
    return bool(messages) and not any(messages & _messages(end) for end in failing_runs)


def _messages(run: Symptoms) -> set[str]:
    """Return the messages of a run's errors, with their numbers and without the names of tests."""
    return {
        value.replace(error.name, "")
        for error, value in run.unusual_values(()).items()
        if isinstance(error, Symptom) and (error.family is not Family.TEST or error.text)
    }


def _run_likeness(run: Symptoms, end: Symptoms, usual_errors: Set[Symptom], usual_lines: Set[str]) -> float:
    alike = _errors_likeness(run, end, usual_errors, usual_lines)
    if alike >= SURE_LIKENESS and run.places and end.places and not {*run.places} & {*end.places}:
        return _OTHER_PLACE
    return alike


def _errors_likeness(
    run: Symptoms, end: Symptoms, usual_errors: Set[Symptom], usual_lines: Set[str]
) -> float:
    here, there = ([each for each in side.causes if each not in usual_errors] for side in (run, end))
    if any(each.family is not Family.ERROR for each in (*here, *there)):
        # A line such as "FAILED" adds nothing to an error that has a name.
        here, there = ([each for each in side if each.family is not Family.ERROR] for side in (here, there))
    tests_here, tests_there = failing_tests(here), failing_tests(there)
    if tests_here and tests_there:
        others = [[each for each in side if each.family is not Family.TEST] for side in (here, there)]
        other_likeness = _symptoms_likeness(*others)
        if not any(others):
            other_likeness = _lines_likeness(run, end, usual_lines, _SAME)
        return _tests_likeness(tests_here, tests_there, other_likeness)
    if (alike := _symptoms_likeness(here, there)) is not None:
        if alike == _SAME and _is_cut_short(_progress(run, usual_lines), _progress(end, usual_lines)):
            return _OTHER_PROGRESS
        return alike
    if not here and not there:
        return _lines_likeness(run, end, usual_lines, _OTHER_CODE)
    if all(symptom.family.prevents_check for symptom in (here or there)):
        return _NOT_CHECKED
    return _lines_likeness(run, end, usual_lines, _UNKNOWN_ERROR)


def failing_tests(symptoms: Iterable[Symptom]) -> dict[str, str]:
    """Return the names of the failing tests, each with its message."""
    tests: dict[str, str] = {}
    for symptom in symptoms:
        if symptom.family is Family.TEST:
            tests[symptom.name] = symptom.text or tests.get(symptom.name, "")
    return tests


def _tests_likeness(here: dict[str, str], there: dict[str, str], other_likeness: float | None) -> float:
    """Return the likeness of two runs by their failing tests.

    `other_likeness` is that of their other errors; None if one side has none.
    """
    common = here.keys() & there.keys()
    if common:
        return max(_details_likeness(here[test], there[test], other_likeness) for test in common)
    is_one_test = bool({*map(strip_parameters, here)} & {*map(strip_parameters, there)})
    return _OTHER_ASSERTION_OF_TEST if is_one_test else _OTHER_TEST


def _details_likeness(here: str, there: str, other_likeness: float | None) -> float:
    """Return the likeness of two failures of one test by their messages."""
    if not here or not there:
        if other_likeness is None or other_likeness >= _SAME:
            return _SAME
        if other_likeness >= _MIN_LIKENESS:
            return _OTHER_ASSERTION_OF_TEST
        return _NOT_CHECKED if other_likeness <= _NOT_CHECKED else _OTHER_EXCEPTION_OF_TEST
    (type_here, family_here), (type_there, family_there) = _exception_of_test(here), _exception_of_test(there)
    if family_here.prevents_check != family_there.prevents_check:
        return _NOT_CHECKED
    if type_here != type_there:
        return _OTHER_EXCEPTION_OF_TEST
    messages = here.removeprefix(type_here).strip(": "), there.removeprefix(type_there).strip(": ")
    return _SAME if not all(messages) or _word_overlap(*messages) == 1 else _OTHER_ASSERTION_OF_TEST


def strip_parameters(test: str) -> str:
    """Return the name of a test without the parameters of pytest, or of a failed subtest of unittest.

    A commit may give the parameters of one test other names.
    """
    if "::" in test and test.endswith("]"):
        return test.partition("[")[0]
    match = UNITTEST_NAME.fullmatch(test)
    return test if match is None else match["test"]


_CTEST_FAMILIES = {
    **dict.fromkeys(("SEGFAULT", "ILLEGAL", "Exception", "OTHER_FAULT", "NUMERICAL"), Family.SIGNAL),
    "Subprocess aborted": Family.SIGNAL,
    "Timeout": Family.TIMEOUT,
    "Not Run": Family.BUILD,
}
"""The family of each reason that ctest prints for a test that did not get as far as its check."""


def _exception_of_test(detail: str) -> tuple[str, Family]:
    """Return the type and family of the exception in a test's message. A quoted assertion is an `AssertionError`."""
    name, _, message = detail.partition(": ")
    if name in _CTEST_FAMILIES:
        return name, _CTEST_FAMILIES[name]
    if not re.fullmatch(r"[A-Za-z][\w.]*", name) or name in ("assert", "Failed"):
        return "AssertionError", Family.ASSERTION
    return name, exception_family(name, message)


def _symptoms_likeness(here: Sequence[Symptom], there: Sequence[Symptom]) -> float | None:
    return max((_pair_likeness(one, other) for one in here for other in there), default=None)


def _pair_likeness(one: Symptom, other: Symptom) -> float:
    if one == other:
        return _SAME
    prevented = one.family.prevents_check
    if prevented != other.family.prevents_check:
        return _NOT_CHECKED
    if one.family is not other.family:
        return _OTHER_BREAKAGE if prevented else _OTHER_FAMILY
    if one.family is Family.SIGNAL or one.name != other.name:
        return _OTHER_BREAKAGE if prevented else _OTHER_TYPE
    overlap = _word_overlap(one.text, other.text)
    if overlap == 1:
        return _SAME
    if prevented:
        return _OTHER_BREAKAGE + overlap * (_MIN_LIKENESS - _OTHER_BREAKAGE)
    return _MIN_LIKENESS + overlap * (_MAX_LIKENESS - _MIN_LIKENESS)


def _lines_likeness(run: Symptoms, end: Symptoms, usual_lines: Set[str], other_code: float) -> float:
    """Return the likeness of two runs by the last lines that no passing run prints.

    `other_code` is the likeness of two runs whose lines are equal, but not their exit codes. With `_SAME`, the exit
    codes do not matter.
    """
    here, there = (
        " ".join(line for line in each.last_lines if line not in usual_lines) for each in (run, end)
    )
    same_code = other_code == _SAME or run.exit_code == end.exit_code
    if here == there:
        if _progress(run, usual_lines) != _progress(end, usual_lines):
            return _OTHER_PROGRESS
        return _SAME if same_code else other_code
    overlap = _word_overlap(here, there)
    if overlap == 1 and same_code:
        return _SAME
    return (_MIN_LIKENESS if same_code else other_code / 2) + overlap * (_MAX_LIKENESS - _MIN_LIKENESS)


def _progress(run: Symptoms, usual_lines: Set[str]) -> list[str]:
    """Return the last lines that passing runs print as well. They show how far the run got."""
    return [line for line in run.last_lines if line in usual_lines]


def _is_cut_short(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether one run prints only the beginning of what the other one prints.

    Runs that differ in another way prove nothing, because incremental builds print different lines.
    """
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) < len(longer) and list(longer[: len(shorter)]) == list(shorter)


def _word_overlap(one: str, other: str) -> float:
    """Return the share of all words of two texts that both have (Jaccard, 1901).

    Two texts without words share all or nothing.
    """
    words_one, words_other = {*_WORD.findall(one)}, {*_WORD.findall(other)}
    union = words_one | words_other
    return len(words_one & words_other) / len(union) if union else float(one == other)
