"""Golden data, frozen: the same inputs and expected outputs for every probe of a bisection.

Kept by content: a folder is named by the SHA-256 of its manifest, and is checked before every use.
"""

import contextlib
import hashlib
import importlib
import json
import shutil
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ..errors import UserError

_FOLDERS = ("in", "out")
_SUFFIX = ".pt"


@dataclass(frozen=True)
class FrozenGolden:
    """Frozen data: `directory` holds `in/*.pt` and `out/*.pt`; `files` gives the SHA-256 of each."""

    digest: str
    directory: Path
    files: Mapping[str, str]

    def verify(self) -> None:
        """Check every file.

        Raises:
            UserError: a file is no longer what was frozen.
        """
        found = _hash_files(self.directory)
        for name in sorted(found.keys() | self.files.keys()):
            if found.get(name) != self.files.get(name):
                raise UserError(
                    f"{self.directory / name}: expected the frozen file with SHA-256 "
                    f"{self.files.get(name, 'none')[:16]}, found {found.get(name, 'no file')[:16]}; "
                    "remove this folder and start again with the original data (--golden-data)"
                )


def load_reader() -> threading.Thread:
    """Begin to load what reads tensors, which takes a second, beside what the caller does before it freezes.

    The thread is to be joined before the process ends: torch cannot be imported while Python shuts down.
    """

    def load() -> None:
        # What is wrong with it is said where it is needed.
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module("torch")

    reader = threading.Thread(target=load)
    reader.start()
    return reader


def freeze(source: Path, store: Path) -> FrozenGolden:
    """Copy a golden folder into the store. Raises `UserError` where it is incomplete or cannot be read safely.

    Every tensor is loaded once (weights only, so nothing in a file is executed) before any run may see it. Links that
    lead out of the folder are refused.
    """
    tensors = _checked_tensors(source)
    try:
        store.mkdir(parents=True, exist_ok=True)
        with FileLock(store / "freeze.lock"):
            digest, files = _copy_in(tensors, store)
    except OSError as error:
        raise UserError(f"{store}: expected room to freeze the golden data: {error}") from error
    frozen = FrozenGolden(digest=digest, directory=store / digest, files=files)
    frozen.verify()
    return frozen


def _copy_in(tensors: Mapping[str, Path], store: Path) -> tuple[str, dict[str, str]]:
    """Copy under a name that a kill can leave behind only until the next call."""
    temporary = store / "incoming"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        for folder in _FOLDERS:
            (temporary / folder).mkdir(parents=True)
        for name, file in tensors.items():
            shutil.copyfile(file, temporary / name)
            (temporary / name).chmod(0o444)
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


def _checked_tensors(source: Path) -> dict[str, Path]:
    """The tensor files by their name in frozen data, links resolved, each found to hold a tensor and nothing else."""
    # Reading tensors imports torch, which a command line that freezes nothing need not wait for.
    from ..build_output.files.errors import BuildOutputError
    from ..build_output.files.folder import Folder
    from ..build_output.files.torch_file import load_tensor
    from ..build_output.golden_data import GoldenData

    checked: dict[str, Path] = {}
    try:
        folder = Folder.open(source, expected="a folder of golden data")
        for kind in _FOLDERS:
            for entry in folder.names(kind) if folder.has_folder(kind) else ():
                name = f"{kind}/{entry}"
                if entry.endswith(_SUFFIX):
                    load_tensor(folder, name)
                    checked[name] = folder.locate(name)
        GoldenData.open(source)
    except BuildOutputError as error:
        raise UserError(f"golden data: {error}") from error
    return checked


def _hash_files(directory: Path) -> dict[str, str]:
    hashes: dict[str, str] = {}
    for folder in _FOLDERS:
        for file in sorted((directory / folder).iterdir()) if (directory / folder).is_dir() else ():
            hashes[f"{folder}/{file.name}"] = _hash_file(file)
    return hashes


def _hash_file(file: Path) -> str:
    """SHA-256 of a regular file. Whatever else stands there now, a pipe for instance, is not opened."""
    if not stat.S_ISREG(file.lstat().st_mode):
        return "no regular file"
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
