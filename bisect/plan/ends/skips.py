"""`--skip REV` and `--skip A..B`: commits that are never run."""

from collections.abc import Mapping

from ....runner.errors import UsageError
from ....runner.git.repository import GitRepository
from ..request import BisectRequest

_OPTION = "--skip"


def held_skips(texts: tuple[str, ...], git: GitRepository) -> dict[str, str]:
    """What each `REV` or `A..B` stands for now, in commit ids. Raises `UserError`."""
    return {text: _held(text, git) for text in texts}


def skipped_commits(held: Mapping[str, str], git: GitRepository) -> tuple[str, ...]:
    """The commits of what `held_skips` tells, each once. Raises `UsageError` where an `A..B` has none."""
    return tuple(dict.fromkeys(sha for text, ids in held.items() for sha in _commits(text, ids, git)))


def _held(text: str, git: GitRepository) -> str:
    old, dots, new = text.partition("..")
    if not dots:
        return git.resolve(text, option=_OPTION)
    if not (old and new):
        raise UsageError(f"{_OPTION} {text}: expected REV, or A..B for the commits of B that A has not")
    return f"{git.resolve(old, option=_OPTION)}..{git.resolve(new, option=_OPTION)}"


def _commits(text: str, ids: str, git: GitRepository) -> list[str]:
    if ".." not in ids:
        return [ids]
    commits = git.run("rev-list", ids, "--").splitlines()
    if not commits:
        raise UsageError(f"{_OPTION} {text}: expected commits in it, found none: the older end comes first")
    return commits


def told_of_skips(request: BisectRequest) -> list[str]:
    """What is worth saying of what is skipped: an end is run all the same, as in git."""
    ends = (request.good, request.bad) if request.gallop is None else (request.bad,)
    return [
        f"{_OPTION} {sha[:12]}: it is an end of the range, which is run all the same"
        for sha in ends
        if sha in request.skip
    ]
