"""Where the tool keeps what is its own: clones, slots, build cache, golden data, logs, locks."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from ...store.files import make_own_folder

HOME_VARIABLE = "PRECISION_BISECT_HOME"
_COMPARED = "compared.json"


@dataclass(frozen=True)
class Home:
    """Two roots: `cache` may be deleted whenever nothing runs, `state` is what must be kept."""

    cache: Path
    state: Path

    def make(self) -> None:
        """Make both roots, such that a checkout around them stays clean. Raises `OSError`."""
        self.make_cache()
        make_own_folder(self.state)

    def make_cache(self) -> None:
        """Make that root alone, for what is no result yet. Raises `OSError`."""
        make_own_folder(self.cache)

    @property
    def clones(self) -> Path:
        """Private bare repositories that borrow the objects of the user's checkouts."""
        return self.cache / "clones"

    @property
    def mirrors(self) -> Path:
        """Repositories of what drivers on other machines have sent here."""
        return self.cache / "mirrors"

    @property
    def objects(self) -> Path:
        """Files that drivers on other machines have sent here, by the SHA-256 of what is in them."""
        return self.cache / "objects"

    @property
    def made(self) -> Path:
        """What came of probes for drivers on other machines, one folder a probe, until they have fetched it."""
        return self.cache / "made"

    @property
    def slots(self) -> Path:
        """Worktrees and virtual environments, one set a slot."""
        return self.cache / "slots"

    @property
    def builds(self) -> Path:
        """Outputs of build steps, by content key."""
        return self.cache / "builds"

    @property
    def options(self) -> Path:
        """What cases said of their options, by content key."""
        return self.cache / "options"

    @property
    def golden(self) -> Path:
        """Frozen golden data, by manifest digest."""
        return self.state / "golden"

    @property
    def releases(self) -> Path:
        """Histories that are made of the releases of tools."""
        return self.state / "releases"

    @property
    def bisections(self) -> Path:
        """Logs and build directories of probes, one folder a bisection."""
        return self.state / "bisections"

    def compared_builds(self, bisection: str) -> Path:
        """The file that says which builds a bisection's answer rests on."""
        return self.bisections / bisection / _COMPARED

    def with_compared_builds(self) -> list[str]:
        """The bisections that have such a file, the newest first. Raises `OSError`."""
        files = sorted(
            self.bisections.glob(f"*/{_COMPARED}"), key=lambda file: file.stat().st_mtime, reverse=True
        )
        return [file.parent.name for file in files]

    @property
    def store(self) -> Path:
        """The file of the default store."""
        return self.state / "store.sqlite"


def user_home() -> Home:
    """The invoking user's: platform folders, or all below `$PRECISION_BISECT_HOME` where that is set."""
    root = os.environ.get(HOME_VARIABLE)
    if root:
        base = Path(root).absolute()
        return Home(cache=base / "cache", state=base / "state")
    return Home(
        cache=platformdirs.user_cache_path("precision-bisect"),
        state=platformdirs.user_state_path("precision-bisect"),
    )


def command_line(words: Sequence[str]) -> str:
    """A command of the tool as it is printed to be typed: in any shell it finds the home that this process uses."""
    root = os.environ.get(HOME_VARIABLE)
    home = f"{HOME_VARIABLE}={shlex.quote(str(Path(root).absolute()))} " if root else ""
    return home + shlex.join(to_be_found(words))


def to_be_found(words: Sequence[str]) -> list[str]:
    """The words of a command of the tool; its program, where it is not on PATH, by its full path."""
    program, *rest = words
    installed = Path(sys.executable).with_name(program)
    is_away = shutil.which(program) is None and installed.is_file()
    return [str(installed) if is_away else program, *rest]


def device_locks() -> Path:
    """Locks of boards: one folder a machine, whatever TMPDIR is, since a board is shared by all its users."""
    return Path("/tmp/precision-bisect-devices")
