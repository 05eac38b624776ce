"""Where machine code is kept."""

import pytest

from precision_bisect.runner.compare.kernels import jit


def test_a_cache_that_cannot_be_written_is_a_note_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """/proc lets root write, and has no files."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("PRECISION_BISECT_HOME", "/proc/none")
    jit._keeps_machine_code.cache_clear()
    try:
        assert not jit._keeps_machine_code()
    finally:
        jit._keeps_machine_code.cache_clear()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("note: expected to keep compiled kernels in /proc/none/cache/kernels-")
    assert line.endswith("; set PRECISION_BISECT_HOME to a folder that can be written")
