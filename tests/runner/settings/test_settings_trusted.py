"""What is trusted of a settings file is what it says, at its place."""

from pathlib import Path

import pytest

from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.settings import read_defaults, trust_file
from precision_bisect.runner.workspace.home import Home


@pytest.mark.parametrize(
    ("name", "table"), [("precision-bisect.toml", ""), ("pyproject.toml", "[tool.precision-bisect]\n")]
)
def test_a_file_counts_as_long_as_it_says_the_same(tmp_path: Path, home: Home, name: str, table: str) -> None:
    file = tmp_path / name
    file.write_text(f"{table}jobs = 3\n")
    with pytest.raises(UsageError, match=r"or changed since. Read it, then run: .*bisect-precision trust"):
        read_defaults(tmp_path)
    assert not home.trust_marks.exists()
    trust_file(file)
    assert read_defaults(tmp_path).jobs == 3
    file.write_text(f"# more workers\n{table}jobs = 3\n")
    assert read_defaults(tmp_path).jobs == 3
    file.write_text(f"{table}jobs = 4\n")
    with pytest.raises(UsageError, match="is not trusted yet, or changed since"):
        read_defaults(tmp_path)


def test_what_a_table_does_not_say_changes_nothing(tmp_path: Path, home: Home) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.precision-bisect]\njobs = 3\n")
    trust_file(file)
    file.write_text('[project]\nname = "x"\n[tool.precision-bisect]\njobs = 3\n')
    assert read_defaults(tmp_path).jobs == 3


def test_a_copy_elsewhere_is_not_trusted(tmp_path: Path, home: Home) -> None:
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "precision-bisect.toml").write_text("jobs = 3\n")
    trust_file(tmp_path / "here" / "precision-bisect.toml")
    assert read_defaults(tmp_path / "here").jobs == 3
    with pytest.raises(UsageError, match="is not trusted yet, or changed since"):
        read_defaults(tmp_path / "there")
