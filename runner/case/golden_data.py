"""Golden data, frozen: the same inputs and expected outputs for every probe of a bisection.

The data is kept by content: a folder is named by the SHA-256 of its manifest, and is checked before every use.
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

from ...store.durable_files import make_folder, sync, sync_tree
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
    """Start to load the reader of tensors, which takes a second, while the caller does other work before it freezes.

    The thread must be joined before the process ends: torch cannot be imported while Python shuts down.
    """

    def load() -> None:
        # An error is reported where the reader is needed.
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module("torch")

    reader = threading.Thread(target=load)
    reader.start()
    return reader


def freeze(source: Path, store: Path) -> FrozenGolden:
    """Copy a golden folder into the store. Raises `UserError` where it is incomplete or cannot be read safely.

    Every tensor is loaded once, before any run may see it. Only weights are loaded, so nothing in a file is executed.
    Links that lead out of the folder are refused.
    """
    tensors = _check_tensors(source)
    try:
        make_folder(store)
        with FileLock(store / "freeze.lock"):
            digest, files = _copy_in(tensors, store)
    except OSError as error:
        raise UserError(f"{store}: expected room to freeze the golden data: {error}") from error
    frozen = FrozenGolden(digest=digest, directory=store / digest, files=files)
    frozen.verify()
    return frozen


def _copy_in(tensors: Mapping[str, Path], store: Path) -> tuple[str, dict[str, str]]:
    """Copy the tensors by way of a temporary folder. A killed call leaves it only until the next call."""
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
            sync_tree(temporary)
            temporary.replace(store / digest)
            sync(store)
        return digest, files
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def digest_of(source: Path) -> str:
    """Return the digest that the data of a golden folder will have once it is frozen."""
    return _digest(
        {
            f"{folder}/{file.name}": _hash_file(file.resolve())
            for folder in _FOLDERS
            if (source / folder).is_dir()
            for file in sorted((source / folder).iterdir())
            if file.name.endswith(_SUFFIX)
        }
    )


def load_frozen(digest: str, store: Path) -> FrozenGolden:
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


def _check_tensors(source: Path) -> dict[str, Path]:
    """Return the tensor files by their names in frozen data, with links resolved.

    Each file was found to hold a tensor and nothing else.
    """
    # The import is late because it loads torch, which a command that freezes nothing need not wait for.
    from ..build_output.directory import GoldenData
    from ..build_output.files import BuildOutputError, Folder
    from ..build_output.tensor_files import load_tensor

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
    """Return the SHA-256 of a regular file. Anything else, a pipe for instance, is not opened."""
    if not stat.S_ISREG(file.lstat().st_mode):
        return "no regular file"
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
