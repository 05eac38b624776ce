"""Which commit of every repository belongs to a probe."""

from collections.abc import Mapping, Sequence

from ...store.commit import Commit
from ..errors import UserError
from ..stack.parts import CommitFilePin, GitlinkPin, Pin, VersionFilePin
from ..stack.stack import Stack
from .cherry_picks import CherryPicks, patch_name
from .pin_files import PinReader
from .renames.made import MadeRenames
from .repository import GitError, GitRepository


class NoPinError(UserError):
    """A commit pins no commit of a submodule that the stack expects there."""


class Revisions:
    """Extends a commit of one repository to commits of all."""

    def __init__(
        self,
        stack: Stack,
        repositories: Mapping[str, GitRepository],
        fixed: Mapping[str, str],
        *,
        picks: CherryPicks | None = None,
    ) -> None:
        """`fixed` gives the commits of repositories that are neither searched nor pinned."""
        self._stack = stack
        self._fixed = fixed
        self._picks = picks
        self._renames = MadeRenames(stack.renames, repositories)
        self.pins = PinReader(stack, repositories)

    def complete(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """The commit of every repository: the chosen one, else what its holder pins, else the fixed one; and of the
        other pins the values that are chosen. Patches of a commit come with it, and the renames that it has made. What
        an optional pin would name is left out where the holder's commit has no such submodule.

        Raises `NoPinError`.
        """
        revisions: dict[str, str] = dict(chosen)

        def revision(name: str) -> str | None:
            if name not in revisions:
                pin_name = self._stack.links.get(name)
                if pin_name is None:
                    revisions[name] = self._fixed[name]
                else:
                    holder = revision(self._stack.pins[pin_name].holder)
                    pinned = None if holder is None else self._pinned(pin_name, holder)
                    if pinned is None:
                        return None
                    revisions[name] = pinned
            return revisions[name]

        for name in self._stack.repositories:
            revision(name)
        if self._picks is not None:
            patches = self._picks.at(revisions[self._picks.repository])
            revisions |= {patch_name(self._picks.repository): " ".join(patches)} if patches else {}
        return revisions | self._renames.of(revisions)

    def _pinned(self, name: str, holder: str) -> str | None:
        """What a pin names at a commit of its holder; None where an optional one is missing. Raises `NoPinError`, also
        where that commit is not at hand."""
        pin = self._stack.pins[name]
        try:
            pinned = self.pins.value(name, holder)
        except GitError as error:
            raise NoPinError(
                f"{pin.holder}: expected commit {holder}, which says what {pin.path} is pinned at, found none "
                f"({error}); fetch it there first"
            ) from error
        if pinned is None and not (isinstance(pin, GitlinkPin) and pin.optional):
            raise NoPinError(
                f"{pin.holder} {holder[:12]}: expected {self._kind(pin)} at {pin.path}, found "
                f"{self.pins.told(name, holder) or 'none'}"
            )
        return pinned

    def _kind(self, pin: Pin) -> str:
        """What a pin has to say."""
        match pin:
            case GitlinkPin():
                return "a submodule"
            case CommitFilePin():
                return "a commit's full id"
            case VersionFilePin():
                releases = None if pin.target is None else self._stack.repositories[pin.target].releases
                versions = [] if releases is None else list(releases.commits)
                return (
                    f"one of the {len(versions)} releases of {pin.target} ({versions[0]} to {versions[-1]})"
                )

    def learn(self, repository: str, history: Sequence[Commit]) -> None:
        """Follow the pins and renames of a history, parents first, without asking git for each commit."""
        self.pins.learn(repository, history)
        self._renames.learn(repository, history)


def fixed_revisions(
    stack: Stack, repositories: Mapping[str, GitRepository], *, searched: str
) -> dict[str, str]:
    """The commits, by the stack file's `revision`, of what is neither searched nor pinned. Raises `UserError`."""
    return {
        name: repositories[name].resolve(repository.revision, option=f"repositories.{name}.revision")
        for name, repository in stack.repositories.items()
        if name != searched and name not in stack.links
    }
