"""`--cherry-pick REV@A..B`: what is said on the command line, and what it did."""

from ...runner.errors import UsageError
from ...runner.git.cherry_picks import CherryPick
from ...runner.git.repository import GitRepository
from ...runner.stack.stack import Stack


def parse_cherry_picks(
    texts: tuple[str, ...], stack: Stack, repository: str, git: GitRepository
) -> tuple[CherryPick, ...]:
    """Read `REV@A..B` options. Raises `UserError`."""
    return tuple(_parse(text, stack, repository, git) for text in texts)


def held_cherry_picks(texts: tuple[str, ...], picks: tuple[CherryPick, ...]) -> dict[str, str]:
    """What each `REV@A..B` stands for, in commit ids."""
    return {text: f"{pick.commit}@{pick.old}..{pick.new}" for text, pick in zip(texts, picks, strict=True)}


def _parse(text: str, stack: Stack, repository: str, git: GitRepository) -> CherryPick:
    option = f"--cherry-pick {text}"
    revision, _, stretch = text.rpartition("@")
    old, dots, new = stretch.partition("..")
    if not (revision and old and dots and new):
        raise UsageError(
            f"{option}: expected REV@A..B: the change of REV is made on top of the commits of A..B"
        )
    pick = CherryPick(
        commit=git.resolve(revision, option=option),
        old=git.resolve(old, option=option),
        new=git.resolve(new, option=option),
    )
    picked = git.commit(pick.commit)
    if len(picked.parents) != 1:
        raise UsageError(
            f"{option}: expected a commit with one parent, found {len(picked.parents)}: pick its parts"
        )
    pins = {path for pin in stack.pins.values() if pin.holder == repository for path in pin.paths}
    moved = sorted(pins.intersection(picked.files))
    if moved:
        raise UsageError(
            f"{option}: expected a commit that moves no pin, found {moved[0]} in it; hold the pin with --freeze"
        )
    if not git.run("rev-list", "--max-count=1", f"{pick.old}..{pick.new}", "--"):
        raise UsageError(f"{option}: expected commits in {old}..{new}, found none: the older end comes first")
    if git.is_ancestor(pick.commit, pick.new):
        raise UsageError(
            f"{option}: expected commits without the change of {revision}, found {new} to follow it"
        )
    return pick
