"""How probable it is that a run failed for the reason for which the failing end does.

Two runs of one fault mostly print the same error: the same test fails, or the same exception is raised with the same
message. A run may not get as far as the check: it has an import error, a compiler's error, or a signal. That is another
failure, unless the failing end does the same. In between it cannot be told for sure, and the answer is a probability.
The numbers are priors: how often two failures that differ so are one fault. `benchmarks/kinds` measures what becomes of
them.

What passing runs print too says nothing of a failure.
"""

import re
from collections.abc import Iterable, Sequence, Set

from .symptoms import Family, Symptom, Symptoms, errors_of, family_of_exception, lines_of

SURELY = 0.99
"""A failure that is the failing end's with this probability counts as it; with 1 - SURELY or less it is another."""

_SAME = 0.999
"""Two failures with nothing different are this likely the same. Chance may make two faults look alike."""

_OTHER_TEST = 0.005
"""Failures of different tests are this likely the same one."""

_NOT_CHECKED = 0.003
"""Two failures are this likely the same if only one of them got as far as the check."""

_OTHER_EXCEPTION_OF_TEST = 0.5
"""Two failures of one test are this likely the same if they raise different exceptions."""
_OTHER_ASSERTION_OF_TEST = 0.7
"""The same test fails with another message: another assertion of it failed, or the fault shows in another way."""
_OTHER_TYPE = 0.15
"""Two failures are this likely the same if their errors have different types of one family."""
_OTHER_FAMILY = 0.15
"""Two failures are this likely the same if their errors are of different families."""
_OTHER_BREAKAGE = 0.02
"""Two failures are this likely the same if neither got as far as the check, and their errors are of two sorts."""

_LEAST_LIKE, _MOST_LIKE = 0.3, 0.98
"""Errors of one type are the same with a chance between these two. Their messages have no word in common, or all words
but one."""

_UNKNOWN_ERROR = 0.3
"""Two failures are this likely the same if one of them prints no known error."""

_OTHER_PLACE = 0.7
"""The same message is raised at another line of the source. It is another fault, or a commit has changed the line."""
_OTHER_PROGRESS = 0.7
"""The failure's message is the same. Before it, the run prints other lines that passing runs print too."""
_OTHER_CODE = 0.5
"""Two failures are this likely the same if only their exit codes differ, and nothing else tells them apart."""

_WORD = re.compile(r"[A-Za-z_]\w+")


def likeness(run: Symptoms, at_end: Sequence[Symptoms], passing: Sequence[Symptoms]) -> float:
    """The chance that a failed run shows the failure of the failing end.

    at_end: what failing runs of that end showed; not empty. passing: what passing runs showed.
    """
    noise, usual = errors_of(passing), lines_of(passing)
    return max(_likeness(run, end, noise, usual) for end in at_end)


def differ_in_code_alone(run: Symptoms, at_end: Sequence[Symptoms]) -> bool:
    """Return whether nothing but its exit code tells a failed run from each one of the failing end."""
    return all(
        run.exit_code != end.exit_code and (run.shown, run.last_lines) == (end.shown, end.last_lines)
        for end in at_end
    )


def passes_failing_test(run: Symptoms, at_end: Sequence[Symptoms], passing_end: Sequence[Symptoms]) -> bool:
    """Return whether the test that fails at the failing end ran in a failed run, and passed there.

    As many tests ran as at both ends, each of them got as far as its check, and others of them fail. Where one fails
    with the end's own message, it may be the same test by another name.
    """
    ends = (*at_end, *passing_end)
    counts = {(each.tests, each.skipped_tests) for each in ends}
    if not passing_end or run.tests is None or counts != {(run.tests, run.skipped_tests)}:
        return False
    families = [each.family for each in run.causes]
    families += [_type(detail)[1] for detail in _tests(run.causes).values()]
    if any(family.prevents_check for family in families):
        return False
    here = {*map(_test_name, _tests(run.causes))}
    there = [{*map(_test_name, _tests(end.causes))} for end in at_end]
    if not here or not all(there) or any(here & tests for tests in there):
        return False
    said = _messages(run)
    return bool(said) and not any(said & _messages(end) for end in at_end)


def _messages(run: Symptoms) -> set[str]:
    """Return what is said of a run's errors, numbers included, without the names of tests."""
    return {
        value.replace(error.name, "")
        for error, value in run.values_without(()).items()
        if isinstance(error, Symptom) and (error.family is not Family.TEST or error.text)
    }


def _likeness(run: Symptoms, end: Symptoms, noise: Set[Symptom], usual: Set[str]) -> float:
    alike = _errors_likeness(run, end, noise, usual)
    if alike >= SURELY and run.places and end.places and not {*run.places} & {*end.places}:
        return _OTHER_PLACE
    return alike


def _errors_likeness(run: Symptoms, end: Symptoms, noise: Set[Symptom], usual: Set[str]) -> float:
    here, there = ([each for each in side.causes if each not in noise] for side in (run, end))
    if any(each.family is not Family.ERROR for each in (*here, *there)):
        # A line such as "FAILED" says nothing beside an error that has a name.
        here, there = ([each for each in side if each.family is not Family.ERROR] for side in (here, there))
    tests = _tests(here), _tests(there)
    others = [[each for each in side if each.family is not Family.TEST] for side in (here, there)]
    if all(tests):
        of_others = _symptoms_likeness(*others) if any(others) else _texts_likeness(run, end, usual, _SAME)
        return _tests_likeness(*tests, of_others)
    if (alike := _symptoms_likeness(here, there)) is not None:
        return (
            _OTHER_PROGRESS
            if alike == _SAME and _stops_short(_progress(run, usual), _progress(end, usual))
            else alike
        )
    if here or there:
        prevented = all(symptom.family.prevents_check for symptom in (here or there))
        return _NOT_CHECKED if prevented else _texts_likeness(run, end, usual, _UNKNOWN_ERROR)
    return _texts_likeness(run, end, usual, _OTHER_CODE)


def _tests(symptoms: Iterable[Symptom]) -> dict[str, str]:
    """The failing tests, and what is said of each."""
    tests: dict[str, str] = {}
    for symptom in symptoms:
        if symptom.family is Family.TEST:
            tests[symptom.name] = symptom.text or tests.get(symptom.name, "")
    return tests


def _tests_likeness(here: dict[str, str], there: dict[str, str], of_others: float | None) -> float:
    """of_others: the likeness of what is printed beside the tests; None where one side prints nothing."""
    both = here.keys() & there.keys()
    if not both:
        one_test = {*map(_test_name, here)} & {*map(_test_name, there)}
        return _OTHER_ASSERTION_OF_TEST if one_test else _OTHER_TEST
    return max(_details_likeness(here[test], there[test], of_others) for test in both)


def _details_likeness(here: str, there: str, of_others: float | None) -> float:
    """Of what is said of one test that fails in both runs."""
    if not here or not there:
        if of_others is None or of_others >= _SAME:
            return _SAME
        if of_others >= _LEAST_LIKE:
            return _OTHER_ASSERTION_OF_TEST
        return _NOT_CHECKED if of_others <= _NOT_CHECKED else _OTHER_EXCEPTION_OF_TEST
    (type_here, family_here), (type_there, family_there) = _type(here), _type(there)
    if family_here.prevents_check != family_there.prevents_check:
        return _NOT_CHECKED
    if type_here != type_there:
        return _OTHER_EXCEPTION_OF_TEST
    said = here.removeprefix(type_here).strip(": "), there.removeprefix(type_there).strip(": ")
    return _SAME if not all(said) or _share_of_words(*said) == 1 else _OTHER_ASSERTION_OF_TEST


def _test_name(test: str) -> str:
    """Return a test of unittest without the parameters of its part that failed."""
    name, parenthesis, _ = test.partition(") ")
    return name + parenthesis.rstrip()


_CTEST_FAMILIES = {
    **dict.fromkeys(("SEGFAULT", "ILLEGAL", "Exception", "OTHER_FAULT", "NUMERICAL"), Family.SIGNAL),
    "Subprocess aborted": Family.SIGNAL,
    "Timeout": Family.TIMEOUT,
    "Not Run": Family.BUILD,
}
"""The families of what ctest prints about a test that it could not judge."""


def _type(detail: str) -> tuple[str, Family]:
    """The exception's type and its family; an assertion that is quoted has none of its own."""
    name, _, message = detail.partition(": ")
    if name in _CTEST_FAMILIES:
        return name, _CTEST_FAMILIES[name]
    if not re.fullmatch(r"[A-Za-z][\w.]*", name) or name in ("assert", "Failed"):
        return "AssertionError", Family.ASSERTION
    return name, family_of_exception(name, message)


def _symptoms_likeness(here: Sequence[Symptom], there: Sequence[Symptom]) -> float | None:
    return max((_pair_likeness(one, other) for one in here for other in there), default=None)


def _pair_likeness(one: Symptom, other: Symptom) -> float:
    if one == other:
        return _SAME
    prevented = one.family.prevents_check, other.family.prevents_check
    if prevented[0] != prevented[1]:
        return _NOT_CHECKED
    if one.family is not other.family:
        return _OTHER_BREAKAGE if all(prevented) else _OTHER_FAMILY
    if one.family is Family.SIGNAL or one.name != other.name:
        return _OTHER_BREAKAGE if all(prevented) else _OTHER_TYPE
    alike = _share_of_words(one.text, other.text)
    if alike == 1:
        return _SAME
    if all(prevented):
        return _OTHER_BREAKAGE + alike * (_LEAST_LIKE - _OTHER_BREAKAGE)
    return _LEAST_LIKE + alike * (_MOST_LIKE - _LEAST_LIKE)


def _texts_likeness(run: Symptoms, end: Symptoms, usual: Set[str], otherwise: float) -> float:
    """By the last lines that no passing run prints; `otherwise`, where these say nothing."""
    here, there = (" ".join(line for line in each.last_lines if line not in usual) for each in (run, end))
    same_code = run.exit_code == end.exit_code
    if here == there:
        if _progress(run, usual) != _progress(end, usual):
            return _OTHER_PROGRESS
        return _SAME if same_code else otherwise
    alike = _share_of_words(here, there)
    if alike == 1 and same_code:
        return _SAME
    return (_LEAST_LIKE if same_code else otherwise / 2) + alike * (_MOST_LIKE - _LEAST_LIKE)


def _progress(run: Symptoms, usual: Set[str]) -> list[str]:
    """Return the last lines that passing runs print too: how far the run got."""
    return [line for line in run.last_lines if line in usual]


def _stops_short(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether one run prints what the other does, and then stops. What an incremental build prints differs
    otherwise."""
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) < len(longer) and list(longer[: len(shorter)]) == list(shorter)


def _share_of_words(one: str, other: str) -> float:
    """The share of the words of both texts that stand in each (Jaccard, 1901)."""
    words = {*_WORD.findall(one)}, {*_WORD.findall(other)}
    every = words[0] | words[1]
    return len(words[0] & words[1]) / len(every) if every else float(one == other)
