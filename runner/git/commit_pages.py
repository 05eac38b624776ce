"""Where a commit can be looked at in a browser, by the address of the repository's remote."""

import re

_HTTP = re.compile(r"https?://(?:[^/@]*@)?(?P<host>[\w.-]+)(?::\d+)?/(?P<path>.+)")
_SSH = re.compile(r"(?:ssh|git)://(?:[^/@]*@)?(?P<host>[\w.-]+)(?::\d+)?/(?P<path>.+)")
_SCP = re.compile(r"(?:[^/@:]+@)?(?P<host>[\w.-]+\.[\w.-]+):(?P<path>[^/].*)")
_PATH = re.compile(r"[\w.~-]+(?:/[\w.~-]+)+")
_COMMITS = {"github": "commit", "gitlab": "-/commit", "gitcode": "commits/detail"}
"""By a word of the host's name: what stands between the repository and the commit."""


def commit_page_prefix(remote: str) -> str | None:
    """What the id of a commit is put behind; None for a remote that is none of GitHub, GitLab and GitCode.

    A name or token in the remote's address is left out.

    >>> commit_page_prefix("git@github.com:hw/pypto.git")
    'https://github.com/hw/pypto/commit/'
    >>> commit_page_prefix("https://user:token@gitlab.example.org/group/tools/pypto")
    'https://gitlab.example.org/group/tools/pypto/-/commit/'
    """
    found = _HTTP.fullmatch(remote) or _SSH.fullmatch(remote) or _SCP.fullmatch(remote)
    if found is None:
        return None
    path = found["path"].rstrip("/").removesuffix(".git")
    words = re.split(r"[.-]", found["host"].lower())
    kind = next((kind for kind in _COMMITS if kind in words), None)
    if kind is None or not _PATH.fullmatch(path):
        return None
    return f"https://{found['host'].lower()}/{path}/{_COMMITS[kind]}/"
