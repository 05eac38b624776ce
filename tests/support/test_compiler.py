"""The compiler that all tests share: what is equal is compiled once, and nothing else is taken for it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.compiler import compile_once

Compile = Callable[[], subprocess.CompletedProcess[str]]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store of compiled objects, in use."""
    plain = [folder for folder in os.environ["PATH"].split(os.pathsep) if "compiled" not in folder]
    monkeypatch.setenv("PATH", os.pathsep.join(plain))
    compile_once(tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def compile_source(tmp_path: Path, kept: Path) -> Compile:
    """Compile `a folder/source.cpp`, which includes `header.h` of another folder."""
    source, include = tmp_path / "a folder" / "source.cpp", tmp_path / "include"
    for folder in (source.parent, include):
        folder.mkdir()
    source.write_text('#include "header.h"\nint f() { return VALUE; }\n')
    (include / "header.h").write_text("#define VALUE 1\n")
    words = ["c++", "-c", "-I", str(include), str(source), "-o", str(tmp_path / "out.o")]
    return lambda: subprocess.run(words, capture_output=True, text=True, check=False)


def objects(kept: Path) -> list[bytes]:
    return [path.read_bytes() for path in kept.glob("*/*") if path.is_file()]


def test_equal_sources_are_compiled_once(tmp_path: Path, kept: Path, compile_source: Compile) -> None:
    for _ in range(2):
        assert compile_source().returncode == 0
        assert objects(kept) == [(tmp_path / "out.o").read_bytes()]
        (tmp_path / "out.o").unlink()


def test_a_changed_header_is_another_compilation(tmp_path: Path, kept: Path, compile_source: Compile) -> None:
    compile_source()
    (tmp_path / "include" / "header.h").write_text("#define VALUE 2\n")
    compile_source()
    assert len(set(objects(kept))) == 2


def test_what_does_not_compile_says_so_each_time(tmp_path: Path, kept: Path, compile_source: Compile) -> None:
    (tmp_path / "include" / "header.h").write_text("#define VALUE undeclared\n")
    for _ in range(2):
        done = compile_source()
        assert done.returncode == 1
        assert "undeclared" in done.stderr
    assert objects(kept) == []
