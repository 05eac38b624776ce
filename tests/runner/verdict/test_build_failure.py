"""A failed build step blames the commit, unless the machine is plainly at fault."""

import pytest

from precision_bisect.runner.verdict.classify import classify_build_failure
from precision_bisect.store.vocabulary import Verdict
from tests.runner.verdict.recorded_output import read_ending

MACHINE = {
    "disk full": "/tmp/ccX.s: fatal error: error writing to /tmp/ccX.s: No space left on device",
    "out of memory": "c++: fatal error: Killed signal terminated program cc1plus",
    "network": "fatal: unable to access 'https://example.invalid/x.git/': Could not resolve host",
    "missing package nanobind": "ERROR: No matching distribution found for nanobind>=2",
    "missing tool ninja": "/bin/sh: 1: ninja: not found",
    "missing tool python3.10": "/bin/sh: 1: python3.10: not found",
    "missing tool clang-15": "bash: line 1: /opt/llvm/bin/clang-15: command not found",
    "missing tool cmake": "FileNotFoundError: [Errno 2] No such file or directory: 'cmake'",
    "missing tool g++-15": "make[2]: g++-15: No such file or directory",
    "missing build backend": "ModuleNotFoundError: No module named 'scikit_build_core'",
    "file system": "error: could not create 'build': Read-only file system",
}

COMMIT = {
    "tensor.cpp: no matching function for call to 'view'": (
        "/slots/0/pypto/src/tensor.cpp:77:26: error: no matching function for call to 'view'"
    ),
    "types.h: nlohmann/json.hpp: No such file or directory": (
        "include/types.h:3:10: fatal error: nlohmann/json.hpp: No such file or directory"
    ),
    None: "ninja: build stopped: subcommand failed.",
}


@pytest.mark.parametrize(("signature", "line"), MACHINE.items())
def test_the_machine_is_at_fault(signature: str, line: str) -> None:
    found = classify_build_failure(
        [(3, "cc -c a.c"), (4, line), (5, "make: *** Error 1")], read_ending("exit 2")
    )
    assert (found.verdict, found.signature) == (Verdict.ENVIRONMENT_ERROR, signature)
    assert (found.evidence[0].stream, found.evidence[0].line, found.evidence[0].text) == ("build", 4, line)


@pytest.mark.parametrize(("signature", "line"), COMMIT.items())
def test_the_commit_is_at_fault(signature: str | None, line: str) -> None:
    found = classify_build_failure([(1, line)], read_ending("exit 1"))
    assert (found.verdict, found.signature) == (Verdict.BUILD_ERROR, signature)
    assert line in [evidence.text for evidence in found.evidence]


@pytest.mark.parametrize(("signature", "line"), (MACHINE | COMMIT).items())
def test_what_pip_shows_of_a_failed_build_is_indented(signature: str | None, line: str) -> None:
    found = classify_build_failure([(1, f"      {line}")], read_ending("exit 1"))
    assert found.signature == signature


@pytest.mark.parametrize(
    "warning",
    [
        "WARNING: Retrying after connection broken by 'Failed to establish a new connection'",
        "FileNotFoundError: [Errno 2] No such file or directory: 'README.md'",
        "-- Looking for sgemm_ - not found",
        "Could NOT find ccache (missing: CCACHE_PROGRAM)",
        "-- checking for network: ok, timeout=3000 error=0",
    ],
)
def test_words_of_a_working_machine_do_not_blame_it(warning: str) -> None:
    lines = [(1, warning), (2, "a.cpp:1:1: error: expected ';'")]
    assert classify_build_failure(lines, read_ending("exit 1")).verdict is Verdict.BUILD_ERROR


@pytest.mark.parametrize(
    ("ending", "verdict"),
    [
        ("exit 0", Verdict.BUILD_ERROR),
        ("exit 1", Verdict.BUILD_ERROR),
        ("signal SIGSEGV", Verdict.BUILD_ERROR),
        ("signal SIGKILL", Verdict.ENVIRONMENT_ERROR),
        ("timeout", Verdict.BUILD_ERROR),
    ],
)
def test_without_a_telling_line_the_ending_decides(ending: str, verdict: Verdict) -> None:
    found = classify_build_failure([(0, "step build ended well but left no lib")], read_ending(ending))
    assert found.verdict is verdict
    assert found.evidence
