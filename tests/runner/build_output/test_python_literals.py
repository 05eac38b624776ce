"""Python files of literals, which are read and never run."""

from pathlib import Path, PurePosixPath

import pytest

from precision_bisect.runner.build_output.files import (
    FileRelativePath,
    LiteralValue,
    Member,
    NotUnderstoodError,
    read_literals,
)


def value_of(expression: str, before: str = "") -> LiteralValue:
    source = f"{before}\nA = {expression}\n".encode()
    return read_literals(source, Path("kernel_config.py"), ["A"])["A"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("{'a': [1, -2.5], 3: None}", {"a": [1, -2.5], 3: None}),
        ("('x', True)", ["x", True]),
        ("[-9223372036854775808, 9223372036854775807]", [-(2**63), 2**63 - 1]),
        ("Path(__file__).parent / 'k' / 'a.cpp'", FileRelativePath(PurePosixPath("k/a.cpp"))),
        ("str(Path(__file__).resolve().parent)", FileRelativePath(PurePosixPath("."))),
        ("os.path.join(os.path.dirname(__file__), 'k', 'a')", FileRelativePath(PurePosixPath("k/a"))),
    ],
)
def test_what_generated_files_hold_is_understood(expression: str, value: LiteralValue) -> None:
    assert value_of(expression) == value


def test_names_that_were_assigned_before_stand_for_their_values() -> None:
    assert value_of("_ROOT / 'x'", "_ROOT = Path(__file__).parent") == FileRelativePath(PurePosixPath("x"))
    assert value_of("B", "B: int = 4") == 4
    assert value_of("-B", "B = C = -4") == 4


def test_only_what_a_name_was_imported_for_has_members() -> None:
    assert value_of("_D.IN", "from task_interface import ArgDirection as _D") == Member("IN")
    for before in (
        "import os",
        "from os import path as x",
        "from os import _D\n_D = 3",
        "from os import _D\ndel _D",
    ):
        with pytest.raises(NotUnderstoodError):
            value_of("os.EX_OK" if before == "import os" else "_D.IN", before)


@pytest.mark.parametrize(
    "statement",
    [
        "X += [2]",
        "X.append(3)",
        "X[0] = 3",
        "if 1:\n    X = [9]",
        "for X in []: pass",
        "a, X = 1, 2",
        "del X",
        "import os as X",
        "from os import *",
        "def X(): pass",
    ],
)
def test_a_name_that_another_statement_may_change_is_not_understood(statement: str) -> None:
    for source in (f"X = [1]\n{statement}", f"Y = X = [1]\n{statement}"):
        with pytest.raises(
            NotUnderstoodError, match=r"^line 2: X is read only from plain assignments, found: "
        ):
            read_literals(source.encode(), Path("x.py"), ["X"])
    with pytest.raises(NotUnderstoodError, match="this expression is not read: X"):
        value_of("X", f"X = [1]\n{statement}")
    assert value_of("[1]", f"X = [1]\n{statement}") == [1]


def test_the_last_of_several_assignments_counts() -> None:
    assert read_literals(b"X = 1\nA = X = 2\n", Path("x.py"), ["X", "A"]) == {"X": 2, "A": 2}


@pytest.mark.parametrize(
    ("line", "says"),
    [("B = [B]", "nesting this deep"), ("B = [B, B]", "parts"), ("B = B / 'x'", "nesting this deep")],
)
def test_names_that_contain_themselves_are_bounded(line: str, says: str) -> None:
    start = "B = Path(__file__).parent" if "/" in line else "B = [1]"
    assert read_literals("\n".join([start, *[line] * 9]).encode(), Path("x.py"), ["B"])
    with pytest.raises(NotUnderstoodError, match=says):
        read_literals("\n".join([start, *[line] * 5000]).encode(), Path("x.py"), ["B"])


def test_a_name_that_is_never_assigned_is_left_out() -> None:
    assert read_literals(b"A = 1", Path("x.py"), ["A", "B"]) == {"A": 1}


@pytest.mark.parametrize(
    "expression",
    [
        "open('x')",
        "1 + 1",
        "Path('/etc') / 'x' / 3",
        "-'x'",
        "str(1)",
        "Path(None)",
        str(2**63),
        f"-{2**63 + 1}",
        "{(1, 2): 3}",
        "[" * 80 + "]" * 80,
        "A.b",
        "x",
    ],
)
def test_what_would_have_to_be_run_is_refused(expression: str) -> None:
    with pytest.raises(NotUnderstoodError):
        value_of(expression)


def test_text_that_is_no_python_is_refused() -> None:
    with pytest.raises(NotUnderstoodError, match="not valid Python"):
        read_literals(b"A = (", Path("x.py"), ["A"])
