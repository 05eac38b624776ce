"""The folders of the tool's own data: clones, slots, build cache, golden data, logs, locks."""

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from ...store.durable_files import make_own_folder, read_or_draw_key
from ..errors import UserError

HOME_VARIABLE = "PRECISION_BISECT_HOME"
_COMPARED_BUILDS = "compared.json"


@dataclass(frozen=True)
class Home:
    """Two root folders. `cache` may be deleted whenever nothing runs; `state` must be kept."""

    cache: Path
    state: Path

    def make(self) -> None:
        """Make both roots, without dirtying a checkout around them. Raises `OSError`."""
        self.make_cache()
        make_own_folder(self.state)

    def make_cache(self) -> None:
        """Make the root for the cache alone, for data that is no result yet. Raises `OSError`."""
        make_own_folder(self.cache)

    def key(self) -> bytes:
        """Return the key for digests of values that are not kept. No store or report has it. Raises `OSError`."""
        make_own_folder(self.state)
        return read_or_draw_key(self.state / "key").encode()

    @property
    def clones(self) -> Path:
        """Return private bare repositories that borrow the objects of the user's checkouts."""
        return self.cache / "clones"

    @property
    def mirrors(self) -> Path:
        """Return repositories of what drivers on other machines have sent here."""
        return self.cache / "mirrors"

    @property
    def objects(self) -> Path:
        """Return files that drivers on other machines have sent here, by the SHA-256 of their contents."""
        return self.cache / "objects"

    @property
    def probe_results(self) -> Path:
        """Return the results of probes for drivers on other machines, one folder for each probe, until these fetch
        them."""
        return self.cache / "made"

    @property
    def slots(self) -> Path:
        """Return worktrees and virtual environments, one set for each slot."""
        return self.cache / "slots"

    @property
    def builds(self) -> Path:
        """Return the outputs of build steps, by content key."""
        return self.cache / "builds"

    @property
    def options(self) -> Path:
        """Return the options that cases offer, by content key."""
        return self.cache / "options"

    @property
    def golden(self) -> Path:
        """Frozen golden data, by manifest digest."""
        return self.state / "golden"

    @property
    def releases(self) -> Path:
        """Return histories that are made from the releases of tools."""
        return self.state / "releases"

    @property
    def trust_marks(self) -> Path:
        """Return marks of files that were found, not typed, and that a person has trusted."""
        return self.state / "trusted"

    @property
    def bisections(self) -> Path:
        """Return logs and build directories of probes, one folder for each bisection."""
        return self.state / "bisections"

    def compared_builds_file(self, bisection: str) -> Path:
        """Return the file that describes the builds behind a bisection's answer."""
        return self.bisections / bisection / _COMPARED_BUILDS

    def bisections_with_builds(self) -> list[str]:
        """Return the names of the bisections that have such a file, the newest first. Raises `OSError`."""
        files = sorted(
            self.bisections.glob(f"*/{_COMPARED_BUILDS}"), key=lambda file: file.stat().st_mtime, reverse=True
        )
        return [file.parent.name for file in files]

    @property
    def store(self) -> Path:
        """Return the file of the default store."""
        return self.state / "store.sqlite"


def user_home() -> Home:
    """Return the invoking user's home: platform folders, or all below `$PRECISION_BISECT_HOME` where that is set.

    Raises `UserError` where another user could write there, and so decide what the tool trusts and runs.
    """
    root = os.environ.get(HOME_VARIABLE)
    parents: list[Path] = []
    if root:
        base = Path(root).absolute()
        home = Home(cache=base / "cache", state=base / "state")
        # Whoever may write there could put other folders in the place of both.
        parents = [base]
    else:
        home = Home(
            cache=platformdirs.user_cache_path("precision-bisect"),
            state=platformdirs.user_state_path("precision-bisect"),
        )
    for folder in (*parents, home.cache, home.state):
        _check_owned(folder)
    return home


def _check_owned(folder: Path) -> None:
    """Refuse a folder, or a link in its place, of another user, and a folder in which everybody may write."""
    try:
        statuses = (folder.lstat(), folder.stat())
    except OSError:
        return  # What is not there is made; what cannot be read is told by whoever reads it.
    owner = next((status.st_uid for status in statuses if status.st_uid != os.getuid()), None)
    if owner is not None or statuses[1].st_mode & stat.S_IWOTH:
        found = "everybody may write there" if owner is None else f"it is user {owner}'s"
        raise UserError(
            f"{folder}: expected a folder in which you alone may write, found that {found}; name another home with "
            f"{HOME_VARIABLE}, or mend this one with chown and chmod"
        )


def command_line(words: Sequence[str]) -> str:
    """Return a command of the tool as text for any shell. It uses the same home as this process."""
    root = os.environ.get(HOME_VARIABLE)
    home = f"{HOME_VARIABLE}={shlex.quote(str(Path(root).absolute()))} " if root else ""
    return home + shlex.join(locate_program(words))


def locate_program(words: Sequence[str]) -> list[str]:
    """Return the words of a command of the tool. A program that is not on PATH gets its full path."""
    program, *rest = words
    installed = Path(sys.executable).with_name(program)
    is_away = shutil.which(program) is None and installed.is_file()
    return [str(installed) if is_away else program, *rest]


def device_locks() -> Path:
    """Return the folder for locks of boards, which all users of a machine share, whatever their TMPDIR is."""
    return Path("/tmp")
