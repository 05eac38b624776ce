"""A bisection's report as files in a folder."""

from pathlib import Path

from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError
from ...store.files import write_whole
from ..result import NamedCommit
from .bisect_log import bisect_log
from .folder import open_report_folder
from .markdown import render_markdown
from .model.build import report_of_rows
from .model.model import Report
from .model.rows import Rows, load_rows

BAD_SCRIPT, GOOD_SCRIPT = "reproduce-bad.sh", "reproduce-good.sh"


def write_report(sessions: sessionmaker[Session], name: str, directory: Path) -> tuple[Path, ...]:
    """Write all files of the report, each wholly or not at all; their paths.

    report.json, report.md, bisect.log (and bisect-REPOSITORY.log for each further range), reproduce-good.sh and
    reproduce-bad.sh. Raises `UserError` where there is no such bisection, or the folder cannot be written.
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
        return tuple(_write(directory / file, text) for file, text in files.items())
    except OSError as error:
        raise UserError(
            f"{directory}: expected a folder to write the report to: {error.strerror}; "
            f"mend it and run bisect-precision report {name}, or name another folder with -o"
        ) from error


def _logs(rows: Rows) -> dict[str, str]:
    logs: dict[str, str] = {}
    for index, standing in enumerate(rows.ranges):
        repository = standing.stage.repository
        logs[f"bisect-{repository}.log" if index else "bisect.log"] = bisect_log(
            standing,
            subjects={sha: commit.subject for (of, sha), commit in rows.commits.items() if of == repository},
            culprit=_culprit(rows, index),
            first_parent=rows.request.first_parent and not index,
            also_old=() if index else rows.request.also_old,
            paths=() if index else rows.request.paths,
            judgement=rows.judgement,
            suspects=[each.commit for each in _suspects(rows) if each.repository == repository],
        )
    return logs


def _culprit(rows: Rows, index: int) -> str | None:
    """The culprit of one range: what the next range was searched under, or the answer where there is no next one."""
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
