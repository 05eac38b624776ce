"""The renames of a commit, found in its diff, and those that cannot be told."""

from collections.abc import Mapping

import pytest

from precision_bisect.runner.git import GitRepository
from precision_bisect.runner.renames import format_toml, proposed_renames
from tests.conftest import TestRepository

LIBRARY = """\
def load(x, shapes=None, *, valid_shapes=None):
    '''valid_shapes: what counts.'''
    return x, valid_shapes


def slice(x, valid_shape=None):
    return x, valid_shape
"""
USE = """\
from lib import load, slice

slice(1, valid_shape=2)
y = load(1, valid_shapes=[1, 2])
z = load(y, valid_shapes=3)
"""
REFUSED = "import pytest\nfrom lib import load\nwith pytest.raises(TypeError):\n    load(1, valid_shapes=2)\n"


def found(
    repository: TestRepository, before: Mapping[str, str], after: Mapping[str, str | None]
) -> tuple[list[tuple[str, str, tuple[str, ...], int]], list[str]]:
    """What a commit's renames are, with their places; and the doubts."""
    repository.commit("first", before)
    sha = repository.commit("second", after)
    proposed, doubtful = proposed_renames(GitRepository(repository.path), "lib", sha)
    assert all((each.rename.repository, each.rename.commit) == ("lib", sha) for each in proposed)
    names = [(each.rename.old, each.rename.new, each.rename.keyword_of, each.places) for each in proposed]
    return names, [f"{doubt.description}: {doubt.why}" for doubt in doubtful]


def renamed(text: str, old: str = "valid_shapes", new: str = "valid_shape") -> str:
    return text.replace(old, new)


def test_a_keyword_that_another_function_has_already(repository: TestRepository) -> None:
    """The call may be written anew around it, and a test that expects it to be refused is no use of it."""
    use = renamed(USE).replace("load(1, valid_shape=[1, 2])", "load(\n    1,\n    valid_shape=[1, 2],\n)")
    before = {"lib.py": LIBRARY, "use.py": USE, "note.txt": "valid_shapes"}
    after: dict[str, str | None] = {"lib.py": renamed(LIBRARY), "use.py": use, "test_it.py": REFUSED}
    names, doubts = found(repository, before, after)
    assert names == [("valid_shapes", "valid_shape", ("load",), 3)]
    assert doubts == []


def test_as_a_file_of_renames(repository: TestRepository) -> None:
    repository.commit("first", {"use.py": USE})
    sha = repository.commit("second", {"use.py": renamed(USE)})
    ((proposed,), _) = proposed_renames(GitRepository(repository.path), "lib", sha)
    assert proposed.first == "use.py:4"
    assert format_toml(proposed.rename) == (
        f'[[rename]]\nrepository = "lib"\ncommit = "{sha}"\nold = "valid_shapes"\nnew = "valid_shape"\n'
        'keyword_of = ["load"]'
    )


def test_a_function_and_an_attribute(repository: TestRepository) -> None:
    before = {"lib.py": "def load(x):\n    return x\n", "use.py": "import lib\nlib.load(1)\nlib.kept(2)\n"}
    after: dict[str, str | None] = {path: renamed(text, "load", "read") for path, text in before.items()}
    assert found(repository, before, after) == ([("load", "read", (), 2)], [])


@pytest.mark.parametrize(
    ("before", "after", "doubt"),
    [
        (
            {"use.py": USE, "other.py": "from lib import load\n\nload(0, valid_shapes=1)\n"},
            {"use.py": renamed(USE)},
            "valid_shapes of load is still there after it, at other.py:3",
        ),
        (
            {"use.py": USE, "other.py": "from lib import load\nload(0, valid_shape=1)\n"},
            {"use.py": renamed(USE)},
            "valid_shape of load was there before it, at other.py:2",
        ),
        (
            {"use.py": "load(a=1)\nload(a=2)\n"},
            {"use.py": "load(b=1)\nload(c=2)\n"},
            "in other places a of load became c",
        ),
        (
            {"use.py": "load(a=1)\nload(b=2)\n"},
            {"use.py": "load(c=1)\nload(c=2)\n"},
            "c of load took the place of a too",
        ),
    ],
)  # fmt: skip
def test_what_is_not_consistent_is_said(
    repository: TestRepository, before: Mapping[str, str], after: Mapping[str, str | None], doubt: str
) -> None:
    names, doubts = found(repository, before, after)
    assert names == []
    assert any(doubt in each for each in doubts), doubts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def _load(a): ...\n_load(a=1)\n", "def _load(b): ...\n_load(b=1)\n"),
        ("def f(a): return a\n", "def f(a, b): return a + b\n"),
        ("x = 1\n", "y = 1\n"),
        ("load(a=1)\n", "load(1)\n"),
        ("load(a=1)\n", "load(b=\n"),
    ],
)
def test_what_is_no_rename(repository: TestRepository, before: str, after: str) -> None:
    assert found(repository, {"a.py": before}, {"a.py": after}) == ([], [])
