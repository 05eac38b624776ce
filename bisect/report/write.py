"""Writes the report of a bisection as files in a folder.

The folder is made and checked before the first run, so that the result can be written. Git ignores it, so that it is
no change of the checkout around it. One bisection at a time owns the folder.
"""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError
from ...runner.workspace.slot import sole_user
from ...store.durable_files import (
    IGNORE,
    is_writable,
    make_ignored_folder,
    make_own_folder,
    nearest_existing,
    replace_file,
    write_whole,
)
from ..ask.question import REPORTS_FOLDER
from ..engine.answer import NamedCommit
from .basis import Rows, load_rows
from .markdown import bisect_log, render_markdown
from .model import Report
from .report_builder import report_of_rows

NEWEST_LINK = "newest"
"""The name of the link in `REPORTS_FOLDER` to the report that a bisection wrote last."""
MIN_FREE_BYTES = 64 << 20
"""This many bytes must be free on the disk before anything is run, so that the result can be stored."""


def open_report_folder(directory: Path) -> None:
    """Make the folder of a report. Git ignores the folder, unless it already holds files.

    Raises:
        UserError: the folder cannot be written, or the disk has no room.
    """
    try:
        if directory.parent.name == REPORTS_FOLDER:
            make_own_folder(directory.parent)
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
    """Own the folder of a report, made as by `open_report_folder`, while the block runs.

    A new folder is removed at the end if nothing was written to it. Raises `UserError`.
    """
    is_new = not directory.exists()
    try:
        open_report_folder(directory)
        with _lock_folder(directory):
            yield
    finally:
        if is_new:
            _remove_unwritten(directory)
            if directory.parent.name == REPORTS_FOLDER:
                _remove_unwritten(directory.parent)


def link_newest(directory: Path) -> None:
    """Point the link to the newest report at this one, unless the user named its folder. Raises `OSError`."""
    if directory.parent.name == REPORTS_FOLDER:
        with replace_file(directory.parent / NEWEST_LINK) as link:
            link.symlink_to(directory.name)


def _remove_unwritten(directory: Path) -> None:
    """Remove a folder that nothing was written to."""
    ignore = directory / IGNORE
    if directory.is_dir() and [*directory.iterdir()] == [ignore]:
        ignore.unlink()
        directory.rmdir()


@contextmanager
def _lock_folder(directory: Path) -> Generator[None]:
    """Lock the folder while the block runs, because two bisections would overwrite each other's report."""
    with sole_user(directory) as alone:
        if not alone:
            raise UserError(
                f"{directory}: expected a folder for this report alone, found a bisection at work that will write its "
                "own there; name another one with -o"
            )
        yield


def check_place(directory: Path, *, what: str = "the report", mend: str = "name another one with -o") -> None:
    """Check, without making it, that a folder for a report can be made. Raises `UserError`."""
    there = nearest_existing(directory)
    if not is_writable(there):
        raise UserError(
            f"{directory}: expected a place for {what}, found {there}, which is no folder that can be written; {mend}"
        )


def check_room(folder: Path, *, mend: str) -> None:
    """Check that the disk of a folder has room. The folder need not exist yet. Raises `UserError`."""
    there = nearest_existing(folder)
    free = shutil.disk_usage(there).free
    if free < MIN_FREE_BYTES:
        raise UserError(
            f"{there}: expected {MIN_FREE_BYTES >> 20} MiB of room, found {free >> 20} MiB; free some, or {mend}"
        )


BAD_SCRIPT, GOOD_SCRIPT = "reproduce-bad.sh", "reproduce-good.sh"


def write_report(
    sessions: sessionmaker[Session], name: str, directory: Path
) -> tuple[Report, tuple[Path, ...]]:
    """Write all files of the report, each as a whole or not at all. Return the report and their paths.

    The files are report.json, report.md, bisect.log, reproduce-good.sh and reproduce-bad.sh. Each further range has
    its own bisect-REPOSITORY.log. Raises `UserError` where there is no such bisection, or where the folder cannot be
    written.
    """
    with sessions() as session:
        rows = load_rows(session, name)
        report = report_of_rows(rows)
        files = {
            "report.json": report.model_dump_json(indent=2) + "\n",
            "report.md": render_markdown(report),
            **_logs(rows),
            **_scripts(report),
        }
    try:
        if not directory.exists():
            open_report_folder(directory)
        return report, tuple(_write(directory / file, text) for file, text in files.items())
    except OSError as error:
        raise UserError(
            f"{directory}: expected a folder to write the report to: {error.strerror}; "
            f"mend it and run bisect-precision report {name}, or name another folder with -o"
        ) from error


def _logs(rows: Rows) -> dict[str, str]:
    logs: dict[str, str] = {}
    for index, standing in enumerate(rows.ranges):
        repository = standing.stage.repository
        subjects = {candidate.sha: candidate.subject for candidate in standing}
        subjects |= {sha: commit.subject for (of, sha), commit in rows.commits.items() if of == repository}
        logs[f"bisect-{repository}.log" if index else "bisect.log"] = bisect_log(
            standing,
            subjects=subjects,
            culprit=_culprit(rows, index),
            first_parent=rows.request.first_parent and not index,
            also_old=() if index else rows.request.also_old,
            paths=() if index else rows.request.paths,
            judgement=rows.judgement,
            suspects=[each.commit for each in _suspects(rows) if each.repository == repository],
        )
    return logs


def _culprit(rows: Rows, index: int) -> str | None:
    """Return the culprit of one range: the commit that the next range was searched under, or else the answer."""
    repository = rows.ranges[index].stage.repository
    if index + 1 < len(rows.ranges):
        return rows.ranges[index + 1].stage.held.get(repository)
    if rows.conclusion is None:
        return None
    named = (*rows.conclusion.culprits, *filter(None, (rows.conclusion.lost,)))
    return next((each.commit for each in named if each.repository == repository), None)


def _suspects(rows: Rows) -> tuple[NamedCommit, ...]:
    return rows.conclusion.suspects if rows.conclusion else ()


def _scripts(report: Report) -> dict[str, str]:
    sides = {BAD_SCRIPT: report.reproduce.bad, GOOD_SCRIPT: report.reproduce.good}
    return {file: side.script for file, side in sides.items() if side is not None}


def _write(file: Path, text: str) -> Path:
    write_whole(file, text)
    return file
