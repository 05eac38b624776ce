"""The names that a file of Python has, and files that are written with others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.runner import spellings
from precision_bisect.runner.spellings import Respelling, respell_files, respell_source

KEYWORD = Respelling("valid_shape", "valid_shapes", ("load",))
NAME = Respelling("foo", "bar")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pl.load(x, valid_shape=[1])", "pl.load(x, valid_shapes=[1])"),
        ("load(\n    x,\n    valid_shape = valid_shape)", "load(\n    x,\n    valid_shapes = valid_shape)"),
        (
            "é = 1; pl.load(pl.slice(valid_shape=1), valid_shape=2)",
            "é = 1; pl.load(pl.slice(valid_shape=1), valid_shapes=2)",
        ),
        ("pl.slice(x, valid_shape=1)", None),
        ('"""load(valid_shape=1)"""  # load(valid_shape=1)', None),
        ('f"{load(valid_shape=1)}"', None),
        ("def load(valid_shape): ...\nload(valid_shape=1)", None),
        ("def load(valid_shape): ...\npl.load(valid_shape=1)", "def load(valid_shape): ...\npl.load(valid_shapes=1)"),
        ("valid_shape = 1; valid_shape.load = {'valid_shape': 1}", None),
        ("load(**{'valid_shape': 1})", None),
        ("load(valid_shape=", None),
    ],
)  # fmt: skip
def test_a_keyword_of_a_function(before: str, after: str | None) -> None:
    places = 0 if after is None else 1
    assert respell_source(before.encode(), KEYWORD) == ((after or before).encode(), places)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = pl.foo(pl.x.foo.y)", "x = pl.bar(pl.x.bar.y)"),
        ("from a import foo\nfoo()", "from a import bar as foo\nfoo()"),
        ("from a import (b, foo as f)\nf()", "from a import (b, bar as f)\nf()"),
        ("from .a import foo", None),
        ("foo = 1; print(foo, 'foo')  # foo", None),
        ("f(foo=1)", None),
        ("class A:\n    def foo(self): return self.foo", None),
        ("self.foo = 1; print(self.foo)", None),
    ],
)
def test_attributes_and_imported_names(before: str, after: str | None) -> None:
    assert respell_source(before.encode(), NAME)[0] == (after or before).encode()


def test_back_and_forth_is_the_same_file() -> None:
    source = b"import pl\r\ny = pl.load(a,\r\n  valid_shape=1)\r\nz = pl.load(b, valid_shape=2) # x\r\n"
    there, places = respell_source(source, KEYWORD)
    assert places == 2
    assert respell_source(there, Respelling("valid_shapes", "valid_shape", ("load",))) == (source, 2)


def test_the_files_of_a_folder_as_a_module_and_as_a_program(tmp_path: Path) -> None:
    """Scripts run the text of the module by itself."""
    program = tmp_path / "program.py"
    program.write_text(Path(spellings.__file__).read_text())
    for name in ("module", "script"):
        folder = tmp_path / name
        (folder / "a b").mkdir(parents=True)
        (folder / "a b" / "x.py").write_text("pl.load(valid_shape=pl.foo)")
        (folder / "y.txt").write_text("load(valid_shape=1)")
        (folder / "link.py").symlink_to("y.txt")
    paths = ["a b/x.py", "y.txt", "link.py", "gone.py", ""]
    respell_files(tmp_path / "module", paths, [KEYWORD, NAME])
    both = json.dumps([["valid_shape", "valid_shapes", ["load"]], ["foo", "bar", []]])
    subprocess.run(
        [sys.executable, "-I", str(program), str(tmp_path / "script"), both],
        input="\0".join(paths),
        text=True,
        check=True,
    )
    for name in ("module", "script"):
        assert (tmp_path / name / "a b" / "x.py").read_text() == "pl.load(valid_shapes=pl.bar)"
        assert (tmp_path / name / "y.txt").read_text() == "load(valid_shape=1)"
