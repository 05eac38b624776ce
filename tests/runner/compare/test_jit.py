"""Where machine code is kept."""

import io
from pathlib import Path

import pytest

from precision_bisect.runner.compare import loops


def test_a_cache_that_cannot_be_written_is_a_note_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """/proc lets root write, and has no files."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("PRECISION_BISECT_HOME", "/proc/none")
    loops._set_up_cache.cache_clear()
    try:
        assert not loops._set_up_cache()
    finally:
        loops._set_up_cache.cache_clear()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("note: expected to keep compiled kernels in /proc/none/cache/kernels-")
    assert line.endswith("; set PRECISION_BISECT_HOME to a folder that can be written")


class Terminal(io.StringIO):
    """A stream that somebody watches."""

    def isatty(self) -> bool:
        return True


def test_who_waits_for_the_first_compilation_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and only at a terminal."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    told: list[str] = []
    for stream in (io.StringIO(), Terminal(), Terminal()):
        monkeypatch.setattr("sys.stderr", stream)
        loops._set_up_cache.cache_clear()
        assert loops._set_up_cache()
        told.append(stream.getvalue())
        if isinstance(stream, Terminal):
            (tmp_path / "one.nbi").touch()
    assert told == ["", "compiling what compares for this machine, once: this takes a while\n", ""]
