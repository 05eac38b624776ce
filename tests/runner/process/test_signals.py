"""SIGINT in a program that is at work: it is raised where it can be, and it is never lost."""

import subprocess
import sys

import pytest

from precision_bisect.runner.process.entry import INTERRUPTED

PROGRAM = """
import os, signal, sys, types
from precision_bisect.runner.process.signals import (
    OutOfTimeInterrupt, defer_interrupt, interruptible_work, run_program, time_limit
)

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

class SlowFinalizer:
    def __del__(self):
        while True: pass

def main():
    with interruptible_work():
        {body}

sys.modules["program"] = types.SimpleNamespace(main=main)
run_program("program", handles_interrupts=True)
"""


def run(body: str) -> "subprocess.CompletedProcess[str]":
    indented = body.replace("\n", "\n        ")
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=indented)], capture_output=True, text=True, check=False
    )


def test_an_interrupt_that_became_another_error_is_an_interrupt() -> None:
    # numpy's comparison of structured arrays does this to an exception that reaches it.
    done = run("try:\n    interrupt()\nexcept KeyboardInterrupt:\n    raise TypeError('no common type')")
    assert (done.returncode, done.stderr) == (INTERRUPTED, "")


def test_an_error_without_an_interrupt_is_an_error() -> None:
    done = run("raise TypeError('no common type')")
    assert done.returncode == 1
    assert "TypeError: no common type" in done.stderr


@pytest.mark.parametrize("times", [1, 2])
def test_a_deferred_interrupt_is_raised_at_the_end_of_the_block(times: int) -> None:
    done = run(
        f"with defer_interrupt():\n    for _ in range({times}): interrupt()\n    print('kept')\nprint('too far')"
    )
    assert (done.returncode, done.stdout) == (INTERRUPTED, "kept\n")


def test_an_interrupt_is_raised_once_where_its_end_is_recorded() -> None:
    done = run(
        "try:\n    interrupt()\nfinally:\n    with defer_interrupt():\n        print('recorded')\n    print('closed')"
    )
    assert (done.returncode, done.stdout) == (INTERRUPTED, "recorded\nclosed\n")


def test_a_time_limit_that_a_finalizer_swallows_is_no_interrupt() -> None:
    done = run(
        "try:\n    with time_limit(0.02):\n        SlowFinalizer()\n        while True: pass\n"
        "except OutOfTimeInterrupt:\n    print('out of time')"
    )
    assert (done.returncode, done.stdout) == (0, "out of time\n")
