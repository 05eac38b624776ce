"""The folder that a report is written to: made before the first run, and no change of the checkout around it."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ...runner.errors import UserError
from ...store.files import IGNORE, is_writable, make_ignored_folder, nearest_existing

LEAST_ROOM = 64 << 20
"""Bytes that are free before anything is run, so that its result can be kept."""


def open_report_folder(directory: Path) -> None:
    """Make the folder of a report, which git ignores unless there are files in it already.

    Raises:
        UserError: it cannot be written, or there is no room.
    """
    try:
        make_ignored_folder(directory)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UserError(
            f"{directory}: expected a folder to write the report to: {error.strerror}; name another one with -o"
        ) from error
    check_room(directory, mend="name another folder with -o")


@contextmanager
def report_folder(directory: Path) -> Generator[None]:
    """The folder of a report as of `open_report_folder`, for one bisection at a time; one that was made for it and not
    written to is removed at the end. Raises `UserError`."""
    is_new = not directory.exists()
    try:
        open_report_folder(directory)
        with _held(directory):
            yield
    finally:
        ignore = directory / IGNORE
        if is_new and directory.is_dir() and [*directory.iterdir()] == [ignore]:
            ignore.unlink()
            directory.rmdir()


@contextmanager
def _held(directory: Path) -> Generator[None]:
    """Nobody else may have the folder meanwhile: the later report would take the place of the other. A file system that
    knows no locks of folders cannot tell."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{directory}: expected a folder for this report alone, found a bisection at work that will write its "
                "own there; name another one with -o"
            ) from None
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


def check_place(directory: Path, *, what: str = "the report", mend: str = "name another one with -o") -> None:
    """Raises `UserError` where no folder can be made for a report; none is made to find out."""
    there = nearest_existing(directory)
    if not is_writable(there):
        raise UserError(
            f"{directory}: expected a place for {what}, found {there}, which is no folder that can be written; {mend}"
        )


def check_room(folder: Path, *, mend: str) -> None:
    """Raises `UserError` where there is no room on the disk of a folder, which need not be there yet."""
    there = nearest_existing(folder)
    free = shutil.disk_usage(there).free
    if free < LEAST_ROOM:
        raise UserError(
            f"{there}: expected {LEAST_ROOM >> 20} MiB of room, found {free >> 20} MiB; free some, or {mend}"
        )
