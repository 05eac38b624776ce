"""Golden data, frozen: the same inputs and expected outputs for every probe of a bisection.

Kept by content: a folder is named by the SHA-256 of its manifest, and is checked before every use.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from .errors import UserError

_FOLDERS = ("in", "out")


@dataclass(frozen=True)
class FrozenGolden:
    """Frozen data: `directory` holds `in/*.pt` and `out/*.pt`; `files` gives the SHA-256 of each."""

    digest: str
    directory: Path
    files: Mapping[str, str]

    def verify(self) -> None:
        """Raises `UserError` where a file is no longer what was frozen."""
        found = _hash_files(self.directory)
        for name in sorted(found.keys() | self.files.keys()):
            if found.get(name) != self.files.get(name):
                raise UserError(
                    f"{self.directory / name}: expected the frozen file with SHA-256 "
                    f"{self.files.get(name, 'none')[:16]}, found {found.get(name, 'no file')[:16]}; "
                    "remove this folder and start again with the original data (--golden-data)"
                )


def freeze(source: Path, store: Path) -> FrozenGolden:
    """Copy a golden folder into the store. Raises `UserError` where it is incomplete or cannot be read safely.

    Every tensor is loaded once (weights only, so nothing in a file is executed) before any run may see it.
    """
    _check_tensors(source)
    try:
        store.mkdir(parents=True, exist_ok=True)
        with FileLock(store / "freeze.lock"):
            digest, files = _copy_in(source, store)
    except OSError as error:
        raise UserError(f"{store}: expected room to freeze the golden data: {error}") from error
    frozen = FrozenGolden(digest=digest, directory=store / digest, files=files)
    frozen.verify()
    return frozen


def _copy_in(source: Path, store: Path) -> tuple[str, dict[str, str]]:
    """Copy under a name that a kill can leave behind only until the next call."""
    temporary = store / "incoming"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        for folder in _FOLDERS:
            (temporary / folder).mkdir(parents=True)
            for file in sorted((source / folder).glob("*.pt")):
                shutil.copyfile(file, temporary / folder / file.name)
                (temporary / folder / file.name).chmod(0o444)
        files = _hash_files(temporary)
        digest = _digest(files)
        if not (store / digest).exists():
            temporary.replace(store / digest)
        return digest, files
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def thaw(digest: str, store: Path) -> FrozenGolden:
    """Find frozen data again. Raises `UserError` where it is gone or changed."""
    directory = store / digest
    if not directory.is_dir():
        raise UserError(
            f"{directory}: expected the golden data this bisection was started with, found none; start a new one"
        )
    files = _hash_files(directory)
    if _digest(files) != digest:
        raise UserError(
            f"{directory}: the frozen golden data was changed; remove it and start a new bisection"
        )
    return FrozenGolden(digest=digest, directory=directory, files=files)


def _check_tensors(source: Path) -> None:
    # Reading tensors imports torch, which a command line that freezes nothing need not wait for.
    from .build_output.errors import BuildOutputError
    from .build_output.golden_data import GoldenData

    try:
        data = GoldenData.open(source)
        for tensors in (data.inputs, data.outputs):
            for name in tensors.names:
                tensors.tensor(name)
    except BuildOutputError as error:
        raise UserError(f"golden data: {error}") from error


def _hash_files(directory: Path) -> dict[str, str]:
    hashes: dict[str, str] = {}
    for folder in _FOLDERS:
        for file in sorted((directory / folder).iterdir()) if (directory / folder).is_dir() else ():
            with file.open("rb") as stream:
                hashes[f"{folder}/{file.name}"] = hashlib.file_digest(stream, "sha256").hexdigest()
    return hashes


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
