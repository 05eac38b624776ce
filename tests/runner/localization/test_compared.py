"""The builds that a bisection leaves for a reduction, read as a stranger's."""

from pathlib import Path

import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.localization_job import read_compared_builds
from precision_bisect.runner.workspace.home import Home


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 1}', '{"schema_version": 99}'])
def test_what_is_damaged_is_said_with_its_file(tmp_path: Path, text: str) -> None:
    home = Home(cache=tmp_path / "cache", state=tmp_path / "state")
    file = home.bisections / "one" / "compared.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(UserError, match=str(file)):
        read_compared_builds("one", home)


def test_a_name_that_is_not_known_says_so(tmp_path: Path) -> None:
    home = Home(cache=tmp_path / "cache", state=tmp_path / "state")
    with pytest.raises(UserError, match="no bisection of that name"):
        read_compared_builds("gone", home)
