"""Which remotes show a commit in a browser, and where."""

import pytest

from precision_bisect.runner.git import commit_page_prefix


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("https://github.com/hw/pypto.git", "https://github.com/hw/pypto/commit/"),
        ("https://github.com/hw/pypto/", "https://github.com/hw/pypto/commit/"),
        ("git@github.com:hw/pypto.git", "https://github.com/hw/pypto/commit/"),
        ("ssh://git@GitHub.com:22/hw/pypto", "https://github.com/hw/pypto/commit/"),
        ("https://github.corp.example/hw/pypto", "https://github.corp.example/hw/pypto/commit/"),
        ("https://me:secret@gitlab.com/a/b/c.git", "https://gitlab.com/a/b/c/-/commit/"),
        ("git@gitlab.example.org:a/b.git", "https://gitlab.example.org/a/b/-/commit/"),
        ("https://gitcode.com/cann/pypto.git", "https://gitcode.com/cann/pypto/commits/detail/"),
        ("git@gitcode.com:cann/pypto.git", "https://gitcode.com/cann/pypto/commits/detail/"),
        ("/srv/git/pypto.git", None),
        ("../pypto", None),
        ("file:///srv/github.com/a/b", None),
        ("https://example.org/a/b.git", None),
        ("https://notgithub.com/a/b.git", None),
        ("https://github.com/a/b%22%3E.git", None),
        ("https://github.com/only", None),
        ("", None),
    ],
)
def test_pages_of_commits(remote: str, page: str | None) -> None:
    assert commit_page_prefix(remote) == page
