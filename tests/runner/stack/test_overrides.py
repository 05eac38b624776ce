"""`--repository NAME=PATH`, which all programs read alike."""

from pathlib import Path

import pytest

from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.settings import load_stack, read_overrides, read_variables
from tests.runner.stack.test_stack import SOUND


def test_relative_paths_count_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stack" / "here").mkdir(parents=True)
    (tmp_path / "stack" / "stack.toml").write_text(SOUND)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    overrides = read_overrides(["tool=./r", "rt=/absolute", "cases=~/a=b"])
    assert overrides == {
        "tool": tmp_path / "elsewhere" / "r",
        "rt": Path("/absolute"),
        "cases": Path.home() / "a=b",
    }
    for told in (overrides, {"tool": Path("r")}):
        stack = load_stack("../stack/stack.toml", overrides=told)
        assert stack.repositories["tool"].path == tmp_path / "elsewhere" / "r"


@pytest.mark.parametrize("text", ["rt", "rt=", "=x", "=", ""])
def test_a_name_and_a_path_are_needed(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=PATH"):
        read_overrides([text])


def test_variables_have_any_value() -> None:
    assert read_variables(["A=1", "_b2=x=y z", "C="]) == {"A": "1", "_b2": "x=y z", "C": ""}


@pytest.mark.parametrize("text", ["A", "=1", "A-B=1", "1A=x", ""])
def test_a_variable_needs_a_name_and_a_value(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=VALUE"):
        read_variables([text])


def test_a_variable_is_given_once() -> None:
    with pytest.raises(UsageError, match="found A twice"):
        read_variables(["A=1", "A=1"])
