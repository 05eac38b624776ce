"""`--skip REV` and `--skip A..B`: commits that are never run."""

from ....runner.errors import UsageError
from ....runner.git.repository import GitRepository
from ..request import BisectRequest


def parse_skips(texts: tuple[str, ...], git: GitRepository) -> tuple[str, ...]:
    """The commits that `REV` and `A..B` name, each once. Raises `UserError`."""
    return tuple(dict.fromkeys(sha for text in texts for sha in _parse(text, git)))


def _parse(text: str, git: GitRepository) -> list[str]:
    option = "--skip"
    old, dots, new = text.partition("..")
    if not dots:
        return [git.resolve(text, option=option)]
    if not (old and new):
        raise UsageError(f"{option} {text}: expected REV, or A..B for the commits of B that A has not")
    ends = git.resolve(old, option=option), git.resolve(new, option=option)
    commits = git.run("rev-list", f"{ends[0]}..{ends[1]}", "--").splitlines()
    if not commits:
        raise UsageError(f"{option} {text}: expected commits in it, found none: the older end comes first")
    return commits


def told_of_skips(request: BisectRequest) -> list[str]:
    """What is worth saying of what is skipped: an end is run all the same, as in git."""
    ends = (request.good, request.bad) if request.gallop is None else (request.bad,)
    return [
        f"--skip {sha[:12]}: it is an end of the range, which is run all the same"
        for sha in ends
        if sha in request.skip
    ]
