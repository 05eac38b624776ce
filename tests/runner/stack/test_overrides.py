"""`--repository NAME=PATH`, which all programs read alike."""

from pathlib import Path

import pytest

from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.stack.file import load_stack
from precision_bisect.runner.stack.overrides import read_overrides
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
    stack = load_stack("../stack/stack.toml", overrides=overrides)
    assert stack.repositories["tool"].path == tmp_path / "elsewhere" / "r"


@pytest.mark.parametrize("text", ["rt", "rt=", "=x", "=", ""])
def test_a_name_and_a_path_are_needed(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=PATH"):
        read_overrides([text])
