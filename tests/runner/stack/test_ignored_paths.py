"""`ignore` of a stack file: what it matches is what `git check-ignore` says."""

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.settings import parse_stack
from precision_bisect.runner.stack import IgnoredPaths
from tests.runner.stack.test_stack import SOUND

NAMES = [
    "a",
    "b",
    "docs",
    "docsx",
    "a.c",
    "a.h",
    "b.md",
    "x y",
    " s",
    "t ",
    "#h",
    "!n",
    "[",
    "a\nb",
    "a\\b",
    "ü",
]
PATTERNS = [
    *(
        "a",
        "/a/b",
        "a/",
        "a/*",
        "a/**",
        "a/**/b",
        "**/b",
        "a?b",
        "[a-c]/",
        "[!b]*.c",
        "x*y",
        "a**b",
        "ü",
        "***",
    ),
    *("docs", "/docs", "docs/", "/docs/", "docs/*", "docs/**", "**/docs/**/a", "*.[ch]", "*.md", "*.c"),
    *(
        "!b",
        "!a.c",
        "!docs/",
        "!docs/a",
        "!/docs/a/",
        "!*/",
        "",
        "#c",
        "\\#h",
        "\\!n",
        " s",
        "t ",
        "t\\ ",
        "\\a",
    ),
    *("*", "**", "/", "//", "a//b", "[", "a[", "[]a]", "[\\]]", "a\\\\b"),
]


@pytest.fixture(name="git_folder")
def make_git_folder(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def ignored_by_git(folder: Path, patterns: Sequence[str], paths: Sequence[str]) -> set[str]:
    (folder / ".git" / "info" / "exclude").write_text("".join(f"{pattern}\n" for pattern in patterns))
    done = subprocess.run(
        ["git", "-C", folder, "check-ignore", "--no-index", "--stdin", "-z"],
        input="".join(f"{path}\0" for path in paths),
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return {path for path in done.stdout.split("\0") if path}


@pytest.mark.parametrize(
    ("patterns", "path", "matches"),
    [
        (["docs"], "docs/a/b.txt", True),
        (["docs"], "src/docs/a", True),
        (["docs"], "docsx", False),
        (["/docs"], "docs/a", True),
        (["/docs"], "src/docs/a", False),
        (["*.[ch]"], "src/a.h", True),
        (["*.[ch]"], "src/a.cpp", False),
        (["docs/"], "docs", False),
        (["*.md", "!README.md"], "README.md", False),
        (["docs/", "!docs/kept"], "docs/kept", True),
        (["docs/*", "!docs/kept"], "docs/kept", False),
    ],
)
def test_a_path_is_ignored_as_git_ignores_it(
    patterns: list[str], path: str, matches: bool, git_folder: Path
) -> None:
    assert (path in IgnoredPaths(patterns)) is matches
    assert (ignored_by_git(git_folder, patterns, [path]) == {path}) is matches


def test_random_patterns_match_what_git_matches(git_folder: Path) -> None:
    rng = random.Random(14)
    for _ in range(120):
        patterns = rng.choices(PATTERNS, k=rng.randint(1, 4))
        paths = sorted({"/".join(rng.choices(NAMES, k=rng.randint(1, 4))) for _ in range(40)})
        ignored = IgnoredPaths(patterns)
        found = {path for path in paths if path in ignored}
        assert found == ignored_by_git(git_folder, patterns, paths), patterns


@pytest.mark.parametrize("pattern", ["!", "a\\", "[[:alpha:]]"])
def test_what_is_no_pattern_is_refused_by_its_place_in_the_file(pattern: str) -> None:
    text = SOUND.replace('path = "tool/rt"', f"path = 'tool/rt'\nignore = ['{pattern}']", 1)
    with pytest.raises(UsageError, match=r"stack\.toml: repositories\.rt\.ignore: expected"):
        parse_stack(text, where="stack.toml")
