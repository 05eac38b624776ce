"""The commit that renamed an argument, where a call with it was refused."""

import pytest

from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.renames import RefusedArgument, find_explaining_renames, refused_argument
from tests.conftest import TestRepository
from tests.support.quick import quick_first

NAMES = ["rows", "rows", "lines", "lines", "records", "records", "lines"]


@pytest.mark.parametrize(
    ("line", "function", "keyword"),
    quick_first(
        [
            ("TypeError: load() got an unexpected keyword argument 'rows'", "load", "rows"),
            ("TypeError: f.<locals>.load() got an unexpected keyword argument 'x'. Did you mean 'y'?", "load", "x"),
            ("TypeError: Config.__init__() got an unexpected keyword argument 'level'", "Config", "level"),
            ("Error: pl operation 'load': load() got an unexpected keyword argument 'rows'", "load", "rows"),
        ],
        2,
    ),
)  # fmt: skip
def test_the_message_of_python(line: str, function: str, keyword: str) -> None:
    assert refused_argument(line) == RefusedArgument(function, keyword)


@pytest.mark.parametrize("line", ["", "TypeError: load() missing 1 required argument", "load(rows=1)"])
def test_other_messages(line: str) -> None:
    assert refused_argument(line) is None


@pytest.mark.parametrize(
    ("keyword", "at", "renamed"),
    quick_first(
        [
            ("lines", 0, [2]),
            ("rows", 4, [2]),
            ("lines", 5, [4, 6]),
            ("records", 2, [4]),
            ("rows", 2, [2]),
            ("records", 0, [4]),
            ("columns", 0, []),
            ("place", 0, []),
        ],
        3,
    ),
)
def test_the_one_that_explains_the_refusal(
    repository: TestRepository, keyword: str, at: int, renamed: list[int]
) -> None:
    """Other functions have such arguments too, and other commits add and remove calls."""
    commits = [
        repository.commit(
            f"commit {place}",
            {
                "lib.py": f"def load(x, {name}): ...\n\n\ndef slice(x, records): ...\n",
                "use.py": f"load(1, {name}=2)\nslice(1, records=2)\n"
                + f"\nload(3, {name}=4)\n" * (place % 2),
                "place.py": f"place = {place}",
            },
        )
        for place, name in enumerate(NAMES)
    ]
    git = GitRepository(repository.path)
    found = find_explaining_renames(
        git, "tool", RefusedArgument("load", keyword), at=commits[at], later=["HEAD"]
    )
    assert [each.rename.commit for each in found] == [commits[place] for place in renamed]
