"""What is refused of a question before anything is built."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precision_bisect.bisect.ask.ends import files_of_command
from precision_bisect.bisect.ask.prepare import check_histories
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.git import GitRepository
from tests.conftest import TestRepository


def test_a_text_too_long_for_a_path_is_no_file_of_a_command(tmp_path: Path) -> None:
    script = tmp_path / "check.sh"
    script.touch()
    case = SimpleNamespace(command=["sh", "-c", f"{script} && echo /{'x' * 300}"], after=[])
    request: Any = SimpleNamespace(stack=SimpleNamespace(case=case, steps={}), case_text="")
    assert {*files_of_command(request)} == {script}


def workspace(**repositories: GitRepository) -> Any:
    """Of a stack whose pin of `lib` is searched, and that of `tool` is not."""
    pins = {"lib": SimpleNamespace(search=True), "tool": SimpleNamespace(search=False)}
    stack = SimpleNamespace(pins=pins, revision_key=lambda name: name)
    return SimpleNamespace(stack=stack, repositories=repositories)


@pytest.fixture
def shallow(tmp_path: Path) -> GitRepository:
    """A clone of the newest of two commits."""
    whole = TestRepository(tmp_path / "whole")
    for number in range(2):
        whole.commit(f"commit {number}", {"n": str(number)})
    whole.git("clone", "--quiet", "--depth=1", whole.path.as_uri(), str(tmp_path / "shallow"))
    return GitRepository(tmp_path / "shallow")


def test_a_shallow_clone_that_a_pin_leads_into_is_refused(shallow: GitRepository) -> None:
    with pytest.raises(UserError, match=r"expected a whole history of lib .* fetch --unshallow"):
        check_histories(workspace(lib=shallow), searched="main")


def test_a_shallow_clone_will_do_where_no_line_of_it_is_followed(
    shallow: GitRepository, tmp_path: Path
) -> None:
    check_histories(workspace(lib=shallow), searched="lib")
    check_histories(workspace(tool=shallow), searched="main")
    check_histories(workspace(lib=GitRepository(tmp_path / "whole")), searched="main")
