"""Python files of literals, which are read and never run."""

from pathlib import Path, PurePosixPath

import pytest

from precision_bisect.runner.build_output.files import (
    FolderPath,
    LiteralValue,
    Member,
    NotUnderstoodError,
    assigned_literals,
)


def value_of(expression: str, before: str = "") -> LiteralValue:
    source = f"{before}\nA = {expression}\n".encode()
    return assigned_literals(source, Path("kernel_config.py"), ["A"])["A"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("{'a': [1, -2.5], 3: None}", {"a": [1, -2.5], 3: None}),
        ("('x', True)", ["x", True]),
        ("Direction.IN", Member("IN")),
        ("Path(__file__).parent / 'k' / 'a.cpp'", FolderPath(PurePosixPath("k/a.cpp"))),
        ("str(Path(__file__).resolve().parent)", FolderPath(PurePosixPath("."))),
        ("os.path.join(os.path.dirname(__file__), 'k', 'a')", FolderPath(PurePosixPath("k/a"))),
    ],
)
def test_what_generated_files_hold_is_understood(expression: str, value: LiteralValue) -> None:
    assert value_of(expression) == value


def test_names_that_were_assigned_before_stand_for_their_values() -> None:
    assert value_of("_ROOT / 'x'", "_ROOT = Path(__file__).parent") == FolderPath(PurePosixPath("x"))
    assert value_of("B", "B: int = 4") == 4


def test_a_name_that_is_never_assigned_is_left_out() -> None:
    assert assigned_literals(b"A = 1", Path("x.py"), ["A", "B"]) == {"A": 1}


@pytest.mark.parametrize(
    "expression",
    ["open('x')", "1 + 1", "Path('/etc') / 'x' / 3", "-'x'", "{(1, 2): 3}", "[" * 80 + "]" * 80, "A.b", "x"],
)
def test_what_would_have_to_be_run_is_refused(expression: str) -> None:
    with pytest.raises(NotUnderstoodError):
        value_of(expression)


def test_text_that_is_no_python_is_refused() -> None:
    with pytest.raises(NotUnderstoodError, match="not valid Python"):
        assigned_literals(b"A = (", Path("x.py"), ["A"])
