"""A build directory that every probe runs in place of compiling the case, or that is itself the case: `--runtime-dir`.

Its sources are frozen. What was compiled of them is left out, for the revision of the runtime that is tested brings
headers of its own: a binary of another revision would hide what they change.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from ...store.files import making_folder
from ..build_output.build_directory import BuildDirectory
from ..build_output.files.errors import BuildOutputError
from ..build_output.golden_data import GoldenData
from ..errors import UsageError
from .case import CaseName
from .entry_arguments import entry_arguments, write_specs

REPLAY_CASE = Path(__file__).parent / "replay" / "replay_case.py"
"""The script that runs a build directory without the one that it was compiled from."""
_SPECS = "specs.json"

COMPILED = frozenset({".so", ".o", ".bin"})
"""Suffixes of what runtimes compile of a build's sources."""
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


def check_replayable(path: Path, data: Path) -> None:
    """Whether a build directory can be run on frozen data without its script. Raises `UserError` where it cannot."""
    try:
        entry_arguments(BuildDirectory.open(path), GoldenData.open(data))
    except (BuildOutputError, OSError) as error:
        raise UsageError(
            f"--runtime-dir {path}: expected a build directory that can be run on its data: {error}"
        ) from error


def freeze_runtime_dir(source: Path, target: Path, *, replayed_on: Path | None) -> Path:
    """Copy a build directory once, so that later changes of the original change nothing. Links stay links.

    `replayed_on` is the frozen data, where the build directory is itself the case.
    """
    if not target.is_dir():
        with making_folder(target) as partial:
            shutil.copytree(source, partial, symlinks=True, ignore=_left_out(source))
            if replayed_on is not None:
                arguments = entry_arguments(BuildDirectory.open(source), GoldenData.open(replayed_on))
                write_specs(arguments, partial / _SPECS)
    return target


def replay_of(frozen: Path) -> CaseName:
    """The case that runs a build directory as it was frozen."""
    return CaseName(path=PurePosixPath(REPLAY_CASE), arguments=("--specs", str(frozen / _SPECS)))


def _left_out(root: Path) -> Callable[[str, list[str]], Sequence[str]]:
    def of(folder: str, names: list[str]) -> Sequence[str]:
        at_root = Path(folder) == root
        return [
            name
            for name in names
            if Path(name).suffix in COMPILED or name in _CACHES or (at_root and name in _OF_RUNS)
        ]

    return of
