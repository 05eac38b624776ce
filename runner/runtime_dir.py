"""A build directory that every probe runs in place of compiling the case: `--runtime-dir`.

Its sources are frozen. What was compiled of them is left out, for the revision of the runtime that is tested brings
headers of its own: a binary of another revision would hide what they change.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from .build_output.build_directory import BuildDirectory
from .build_output.errors import BuildOutputError
from .errors import UsageError

_COMPILED = frozenset({".so", ".o", ".bin"})
_CACHES = frozenset({"cache", "build_cache"})
_OF_RUNS = frozenset({"data", "dfx_outputs"})


def check_runtime_dir(path: Path) -> Path:
    """The absolute path of a build directory. Raises `UsageError` where it is none."""
    try:
        BuildDirectory.open(path).kernel_config()
    except (BuildOutputError, OSError) as error:
        raise UsageError(
            f"--runtime-dir {path}: expected a build directory that a run of the case left: {error}"
        ) from error
    return path.resolve()


def data_of(path: Path) -> Path | None:
    """The frozen data that a build directory brings with it, if it does."""
    data = path / "data"
    return data if (data / "in").is_dir() and (data / "out").is_dir() else None


def freeze_runtime_dir(source: Path, target: Path) -> Path:
    """Copy a build directory once, so that later changes of the original change nothing. Links stay links."""
    if not target.is_dir():
        partial = target.with_name(f"{target.name}.new")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(source, partial, symlinks=True, ignore=_left_out(source))
        partial.replace(target)
    return target


def _left_out(root: Path) -> Callable[[str, list[str]], Sequence[str]]:
    def of(folder: str, names: list[str]) -> Sequence[str]:
        at_root = Path(folder) == root
        return [
            name
            for name in names
            if Path(name).suffix in _COMPILED or name in _CACHES or (at_root and name in _OF_RUNS)
        ]

    return of
