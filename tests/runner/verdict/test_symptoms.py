"""What a run of any command shows of its failure."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precision_bisect.runner.verdict import symptoms
from precision_bisect.runner.verdict.rules import Ending
from precision_bisect.runner.verdict.symptoms import (
    Family,
    Symptom,
    SymptomReader,
    Symptoms,
    mask_variable_parts,
    recognize,
)

F = Family


def ended(code: int = 1, *, signal: int | None = None, timed_out: bool = False) -> Ending:
    return Ending(exit_code=None if signal else code, signal=signal, timed_out=timed_out)


def shown(*lines: str, code: int = 1, signal: int | None = None) -> Symptoms:
    reader = SymptomReader()
    for number, line in enumerate(lines, 1):
        reader.feed("stdout", number, line)
    return reader.finish(ended(code, signal=signal))


@pytest.mark.parametrize(
    ("line", "family", "name"),
    [
        (
            "FAILED tests/test_x.py::test_y[1-a] - AssertionError: assert 1 == 2",
            F.TEST,
            "tests/test_x.py::test_y[1-a]",
        ),
        ("tests/test_x.py::test_y FAILED                       [ 50%]", F.TEST, "tests/test_x.py::test_y"),
        ("ERROR tests/test_x.py - ModuleNotFoundError: No module named 'y'", F.COLLECTION, "pytest"),
        ("FAIL: test_y (test_x.TestX)", F.TEST, "test_y (test_x.TestX)"),
        ("[  FAILED  ] Suite.Name (3 ms)", F.TEST, "Suite.Name"),
        ("\t  3 - kernel_check (Failed)", F.TEST, "kernel_check"),
        ("test tests::adds ... FAILED", F.TEST, "tests::adds"),
        ("---- tests::adds stdout ----", F.TEST, "tests::adds"),
        ("--- FAIL: TestAdd (0.00s)", F.TEST, "TestAdd"),
        ("not ok 2 - adds numbers", F.TEST, "adds numbers"),
        ("//pkg:adds_test                    FAILED in 0.3s", F.TEST, "//pkg:adds_test"),
        ("src/a.cpp:3:10: fatal error: b.h: No such file or directory", F.COMPILE, "compiler"),
        ("error[E0425]: cannot find value `x` in this scope", F.COMPILE, "rustc"),
        ("./add.go:7:2: undefined: sum", F.COMPILE, "go"),
        ("/usr/bin/ld: a.o: in function `main': a.c:(.text+0x5): undefined reference to `f'", F.LINK, "ld"),
        ("CMake Error at CMakeLists.txt:4 (find_package):", F.BUILD, "cmake"),
        ("make: *** No rule to make target 'x.o', needed by 'all'.  Stop.", F.BUILD, "make"),
        ("make: *** [Makefile:3: test] Error 1", F.CONSEQUENCE, "make"),
        ("npm ERR! code ENOENT", F.BUILD, "npm"),
        ("Error: Cannot find module './x'", F.IMPORT, "node"),
        ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", F.MEMORY, "accelerator"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", F.MEMORY, "allocator"),
        ("OSError: [Errno 28] No space left on device", F.DISK, "file system"),
        ("curl: (6) Could not resolve host: example.org", F.NETWORK, "network"),
        ("lmgrd: License checkout failed for feature X", F.LICENSE, "license"),
        ("./run.sh: line 3: nosuch: command not found", F.COMMAND, "shell"),
        ("sh: 1: nosuch: not found", F.COMMAND, "shell"),
        ("a.out: a.c:3: main: Assertion `x == 1' failed.", F.ASSERTION, "assert"),
        ("panic: runtime error: index out of range [3] with length 3", F.EXCEPTION, "panic"),
        ("Segmentation fault (core dumped)", F.SIGNAL, "signal"),
        ("FAIL: max error 0.5", F.ERROR, "FAIL"),
    ],
)
def test_a_line_of_a_tool_is_recognized(line: str, family: Family, name: str) -> None:
    found = recognize(line)
    assert found is not None
    assert (found.family, found.name) == (family, name)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "all fine",
        "[100%] Built target x",
        "PASSED tests/test_x.py::test_y",
        "ok 1 - adds",
        "0.5",
        "error_rate 0.1 ok",
        "\u2716 failing tests:",
    ],
)
def test_other_lines_tell_nothing(line: str) -> None:
    assert recognize(line) is None


def test_an_exception_is_read_at_the_end_of_its_traceback() -> None:
    found = shown(
        "Traceback (most recent call last):",
        '  File "main.py", line 1, in <module>',
        "    from lib import cosine",
        "ImportError: cannot import name 'cosine' from 'lib' (/w/slot-3/lib.py)",
    )
    (symptom,) = found.shown
    assert symptom == Symptom(F.IMPORT, "ImportError", "cannot import name 'cosine' from 'lib' (lib.py)")


def test_the_message_of_a_panic_stands_below_its_place() -> None:
    assert shown("thread 'main' panicked at src/main.rs:3:5:", "error 0.5").shown == (
        Symptom(F.ASSERTION, "panic", "error #"),
    )


@pytest.mark.parametrize(
    ("code", "signal", "name"), [(0, 11, "SIGSEGV"), (139, None, "SIGSEGV"), (134, None, "SIGABRT")]
)
def test_a_signal_is_the_first_symptom(code: int, signal: int | None, name: str) -> None:
    assert shown("error: 3", code=code, signal=signal).shown[0] == Symptom(F.SIGNAL, name)


@pytest.mark.parametrize(
    "lines",
    [
        ("running 0 tests", "test result: ok. 0 passed; 0 failed; 0 ignored"),
        ("running 1 test", "test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured"),
        ("[==========] Running 0 tests from 0 test suites.",),
        ("[==========] Running 2 tests from 1 test suite.", "[  SKIPPED ] 2 tests, listed below:"),
        ("no tests ran in 0.01s",),
        ("1 xfailed in 0.01s",),
        ("1 test collected in 0.01s",),
        ("Ran 1 test in 0.000s", "OK (expected failures=1)"),
        (
            "1/1 Test #1: sum ...***Not Run (Disabled)   0.00 sec",
            "100% tests passed, 0 tests failed out of 0",
        ),
        ("ran 0 checks, 0 failed",),
        ("s                [100%]", "1 skipped in 0.01s"),
        ("========= 2 skipped, 3 deselected in 0.01s =========",),
        ("Ran 0 tests in 0.000s", "OK"),
        ("Ran 2 tests in 0.000s", "OK (skipped=2)"),
        ("1/1 Test #1: t ......***Skipped   0.00 sec", "100% tests passed, 0 tests failed out of 1"),
        ("No tests were found!!!",),
        ("--- SKIP: TestA (0.00s)", "--- SKIP: TestB (0.00s)", "PASS", "ok  \texample\t0.002s"),
        ("ok  \texample\t0.002s [no tests to run]",),
        ("ok 1 # skip no device", "1..1"),
        ("t/a.t .. skipped: no device", "Result: NOTESTS"),
        ("\u2139 tests 1", "\u2139 pass 0", "\u2139 skipped 1"),
        ("  0 passing (2ms)", "  1 pending"),
        ("Tests:       1 skipped, 1 total",),
        ("[WARNING] Tests run: 1, Failures: 0, Errors: 0, Skipped: 1",),
    ],
)
def test_a_runner_that_ran_no_test_is_seen(lines: Sequence[str]) -> None:
    assert shown(*lines, code=0).ran_no_test


@pytest.mark.parametrize(
    ("skipped", "lines"),
    [
        (0, ("test result: ok. 0 passed; 0 failed; 0 ignored", "test result: ok. 3 passed; 0 failed")),
        (0, ("3 passed in 0.1s",)),
        (1, ("2 passed, 1 skipped in 0.1s",)),
        (1, ("Tests:       1 skipped, 2 passed, 3 total",)),
        (4, ("test result: ok. 2 passed; 0 failed; 4 ignored; 0 measured",)),
        (1, ("Ran 2 tests in 0.000s", "OK (skipped=1)")),
        (2, ("--- PASS: TestA (0.00s)", "--- SKIP: TestB", "--- SKIP: TestC", "ok  \texample\t0.002s")),
        (0, ("ok  \texample\t(cached)",)),
        (1, ("ok 1 - a", "ok 2 # SKIP no device", "1..2")),
        (0, ("compiled 3 files", "done")),
    ],
)
def test_a_runner_that_ran_a_test_is_seen(skipped: int, lines: Sequence[str]) -> None:
    found = shown(*lines, code=0)
    assert not found.ran_no_test
    assert found.skipped_tests == skipped


@pytest.mark.parametrize(
    ("tests", "lines"),
    [
        (3, ("1 failed, 2 passed, 1 skipped in 0.1s",)),
        (2, ("Ran 3 tests in 0.1s", "FAILED (failures=1, skipped=1)")),
        (3, ("ok 1 - a", "not ok 2 - b", "ok 3", "1..3")),
        (4, ("test result: FAILED. 3 passed; 1 failed; 2 ignored",)),
        (None, ("calc: ok",)),
    ],
)
def test_tests_that_ran_are_counted(tests: int | None, lines: Sequence[str]) -> None:
    assert shown(*lines, code=0).tests == tests


def test_what_was_run_may_say_that_it_checked_nothing() -> None:
    usual = shown("calc: ok", code=0)
    assert shown("checks disabled by check.conf", code=0).leaves_out_checks(usual)
    assert not shown("calc: fine", code=0).leaves_out_checks(usual)
    assert not shown("calc: ok", "checks disabled", code=0).leaves_out_checks(usual)


def test_what_a_protocol_says_of_a_failed_assertion_tells_one_from_another() -> None:
    first, second = (
        shown("not ok 1 - invoice", "  ---", f"  expected: {value}", "  actual: 3")
        for value in ("'EUR'", "30")
    )
    assert first.shown != second.shown


def test_an_assertion_without_a_message_is_told_by_its_line() -> None:
    found = shown(
        "Traceback (most recent call last):",
        '  File "/w/main.py", line 2, in <module>',
        "    assert m.config_ok()",
        "           ^^^^^^^^^^^^^",
        "AssertionError",
    )
    assert found.shown == (Symptom(F.ASSERTION, "AssertionError", "assert m.config_ok()"),)


def test_a_part_of_a_test_is_named_with_its_parameters() -> None:
    (found,) = shown("FAIL: test_units (test_c.Conv.test_units) (unit='km')").shown
    assert found.name == "test_units (test_c.Conv.test_units) (unit='km')"


def test_where_no_test_ran_a_failure_is_of_collection() -> None:
    assert shown("no tests ran in 0.01s", code=5).causes[0].family is F.COLLECTION


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("error 0.5 > 0.002", "error 1.25e-3 > 0.002"),
        ("at 0x7f00 in /w/1/a.py", "at 0x0001 in /other/place/a.py"),
        ("commit 3f2a9c1d", "commit 00a9c1de77"),
        ("value nan", "value -inf"),
    ],
)
def test_a_template_has_nothing_that_moves(one: str, other: str) -> None:
    assert mask_variable_parts(one) == mask_variable_parts(other)


def test_templates_of_other_messages_differ() -> None:
    assert mask_variable_parts("cannot open a.txt") != mask_variable_parts("cannot open b.txt")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("see /tmp/blk_4zdyfe3g.log please", "see #.log please"),
        ("(in test file tmp.XrxinYILe7/t.bats)", "(in test file #/t.bats)"),
        ("open '/tmp/tmpab12cd34/f.py'", "open 'f.py'"),
        ("report on https://github.com/psf/black/issues", "report on https://github.com/psf/black/issues"),
        ("file:///home/x/y.py", "y.py"),
    ],
)
def test_temporary_names_are_masked_and_addresses_stay(text: str, masked: str) -> None:
    assert mask_variable_parts(text) == masked


_LINES = st.lists(
    st.sampled_from(
        (
            *(
                "",
                "plain",
                "error: 3",
                "Traceback (most recent call last):",
                '  File "a.py", line 1',
                "KeyError: 3",
            ),
            *(
                "thread 'x' panicked at a.rs:1:1:",
                "FAILED t.py::test_x - E",
                "\x1b[31mFAILED\x1b[0m",
                "3 passed",
            ),
        )
    ),
    max_size=300,
)


@given(_LINES, st.integers(1, 50))
def test_many_lines_at_once_count_as_one_by_one(lines: list[str], size: int) -> None:
    one, other = SymptomReader(), SymptomReader()
    for number, line in enumerate(lines, 1):
        one.feed("stdout", number, line)
    for start in range(0, len(lines), size):
        block = "".join(f"{line}\n" for line in lines[start : start + size])
        other.skim("stdout", start + 1, block.encode())
    assert one.finish(ended()) == other.finish(ended())
    assert one.cause_line == other.cause_line


@given(_LINES)
def test_symptoms_come_back_from_json(lines: list[str]) -> None:
    found = shown(*lines)
    assert Symptoms.from_json(found.to_json()) == found


@pytest.mark.parametrize("stamp", ["2026-11-27 03:00:01,123 ", "[03:00:01] ", "2026-11-27T03:00:01Z "])
def test_the_time_before_a_line_hides_no_error(stamp: str) -> None:
    assert shown(f"{stamp}FAIL: error 3").shown == shown("FAIL: error 3").shown != ()
    raised = ("Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "KeyError: 3")
    assert shown(*(stamp + line for line in raised)).shown == shown(*raised).shown


def test_the_end_of_each_stream_is_kept() -> None:
    reader = SymptomReader()
    reader.feed("stderr", 1, "all is lost")
    for number in range(1000):
        reader.feed("stdout", number + 2, f"epoch {number}")
    assert {"all is lost", "epoch #"} == {*reader.finish(ended()).last_lines}


_ROWS = symptoms._PATTERNS  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("row", _ROWS, ids=range(len(_ROWS)))
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_each_line_that_a_pattern_matches_is_read(row: symptoms._Pattern, data: st.DataObject) -> None:  # pyright: ignore[reportPrivateUsage]
    """A line with none of the marks is passed over. Lines are drawn from the pattern, in the case it is written in."""
    written = re.compile(row.pattern.pattern.replace("(?i)", ""))
    text = data.draw(st.from_regex(written)).partition("\n")[0]
    marks = symptoms._MARKS  # pyright: ignore[reportPrivateUsage]
    assert written.search(text) is None or any(mark in text for mark in marks)


def test_a_long_output_is_read_at_its_begin_and_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As lines, and as blocks of them."""
    monkeypatch.setattr(symptoms, "_TAIL_BYTES", 1 << 16)
    plain = [f"step {number} of the build went well\n" for number in range(500)]

    def output(place: int) -> list[list[str]]:
        blocks = [plain] * 20
        return [*blocks[:place], ["AssertionError: thing is lost\n"], *blocks[place:]]

    for place, is_read in ((0, True), (3, True), (10, False), (19, True), (20, True)):
        one, other = SymptomReader(_head_bytes_left=1 << 16), SymptomReader(_head_bytes_left=1 << 16)
        lines = 0
        for block in output(place):
            other.skim("stdout", lines + 1, "".join(block).encode())
            for line in block:
                lines += 1
                one.feed("stdout", lines, line)
        for found in (one.finish(ended()), other.finish(ended())):
            assert bool(found.shown) is is_read
        cause = ("stdout", 500 * place + 1, "AssertionError: thing is lost") if is_read else None
        assert one.cause_line == other.cause_line == cause


@pytest.mark.parametrize("as_blocks", [False, True])
def test_the_tests_of_an_endless_output_are_counted_once(as_blocks: bool) -> None:
    """The last lines of the other stream are read again at the end."""
    reader = SymptomReader()
    output: list[tuple[symptoms.OutputStream, list[str]]] = [
        ("stdout", ["== 7 passed, 2 skipped in 0.10s ==\n"]),
        ("stderr", ["error: a thing is lost\n"] * 21_000),
        ("stderr", ["== 5 passed in 0.20s ==\n"]),
    ]
    first = 1
    for stream, lines in output:
        if as_blocks:
            reader.skim(stream, first, "".join(lines).encode())
        else:
            for number, line in enumerate(lines, first):
                reader.feed(stream, number, line)
        first += len(lines)
    found = reader.finish(ended())
    assert (found.tests, found.skipped_tests) == (12, 2)


def test_an_endless_output_is_read_in_bounded_memory() -> None:
    reader = SymptomReader()
    for number in range(100_000):
        reader.feed("stdout", number + 1, f"error: thing {chr(97 + number % 26)}{number % 977} failed")
    reader.feed("stdout", 100_001, "FAILED t/test_x.py::test_last - AssertionError")
    found = reader.finish(ended())
    assert len(found.shown) < 200
    assert Symptom(F.TEST, "t/test_x.py::test_last", "AssertionError") in found.shown
