"""A slot's virtual environment: the base interpreter's packages are seen behind its own, its editable installs not."""

import json
import shutil
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from typing import cast

from ..errors import UserError

# A plain path line adds the folder without running the .pth files in it: the user's own editable installs of the
# stack stay out of the slot. It is read last, so that what a step installs by a .pth file comes first.
_BASE_PATHS = "zzz-base.pth"
_DESCRIBE = (
    "import json, site, sys; "
    "found = [p for p in site.getsitepackages() + [site.getusersitepackages()] if p in sys.path]; "
    "print(json.dumps({'executable': sys.executable, 'version': sys.version, 'packages': found}))"
)


def describe_base(python: str | None) -> dict[str, object]:
    """Executable, version and package folders (`packages`) of an interpreter, by default of the one that runs this.

    Raises `UserError`.
    """
    base = python or sys.executable
    try:
        printed = subprocess.run([base, "-c", _DESCRIBE], check=True, capture_output=True, text=True).stdout
        return cast(dict[str, object], json.loads(printed))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise UserError(
            f"environment.python: expected a Python interpreter, found {base}: {error}"
        ) from error


def base_packages(python: str | None) -> list[str]:
    """The folders in which an interpreter finds installed packages. Raises `UserError`."""
    return cast(list[str], describe_base(python)["packages"])


class VirtualEnvironment:
    """One environment in one folder."""

    def __init__(self, directory: Path, base: str | None) -> None:
        self.directory = directory
        self._base = base
        self._complete = directory / "complete"

    @property
    def python(self) -> Path:
        """The interpreter of this environment."""
        return self.directory / "bin" / "python"

    @cached_property
    def _description(self) -> dict[str, object]:
        return describe_base(self._base)

    def is_current(self) -> bool:
        """Whether it was made to its end, from the base interpreter as it is now. Raises `UserError`."""
        try:
            return json.loads(self._complete.read_text()) == self._description
        except (OSError, ValueError):
            return False

    def make(self) -> None:
        """Make it anew. Raises `UserError`."""
        shutil.rmtree(self.directory, ignore_errors=True)
        base = cast(str, self._description["executable"])
        try:
            subprocess.run(
                [base, "-m", "venv", "--without-pip", str(self.directory)], check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(
                f"environment.python: expected an interpreter with the venv module, found {base}: {error}"
            ) from error
        packages = cast(list[str], self._description["packages"])
        (self._site_packages() / _BASE_PATHS).write_text("".join(f"{path}\n" for path in packages))
        self._complete.write_text(json.dumps(self._description))

    def packages_path(self) -> list[str]:
        """The folders in which it finds distributions, in its order; none before it was made."""
        if not self._complete.is_file():
            return []
        site_packages = self._site_packages()
        return [str(site_packages), *(site_packages / _BASE_PATHS).read_text().splitlines()]

    def _site_packages(self) -> Path:
        return next((self.directory / "lib").glob("python*")) / "site-packages"
