"""A command ends as ever where nobody reads what it prints any more."""

import os
import subprocess
import sys

import pytest

_COMMAND = """
import sys
from precision_bisect.runner.process.signals import outlive_readers

outlive_readers()
for stream in (sys.stdout, sys.stderr):
    for number in range(20_000):
        print("a line", number, file=stream)
    stream.flush()
sys.exit(7)
"""


@pytest.mark.parametrize("streams", [("stdout",), ("stderr",), ("stdout", "stderr")])
def test_no_reader_no_difference(streams: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND],
        stdout=writer if "stdout" in streams else subprocess.PIPE,
        stderr=writer if "stderr" in streams else subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 7
    for name, printed in (("stdout", done.stdout), ("stderr", done.stderr)):
        if name not in streams:
            assert printed.splitlines()[-1] == "a line 19999"


def test_what_is_read_is_as_it_was_written() -> None:
    script = _COMMAND.replace("20_000", "1").replace("a line", "é ⅔\\n")
    done = subprocess.run([sys.executable, "-X", "utf8", "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (7, "é ⅔\n 0\n", "é ⅔\n 0\n")
