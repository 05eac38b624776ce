"""The text of an issue about what a bisection found: for the one who wrote the change, without this tool's terms."""

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy.orm import Session

from ...runner.stack.file import named_stacks
from ...store.vocabulary import Seeks
from ..plan.predicate import NOTHING_TO_RUN
from ..plan.request import BisectRequest
from .markdown import render
from .model.build import report_of_rows
from .model.rows import load_rows

_OWN_FOLDERS = (
    re.compile(r"(?<![\w.-])/[^\s'\",:()]*/slots/[^\s/]+/\d+/"),
    re.compile(r"(?<![\w.-])/[^\s'\",:()]*/bisections/[^\s/]+/"),
)
"""Folders of this tool, on whichever machine: a slot of a worker, and what a bisection keeps."""
_MOST_BYTES = 4000
"""Of a script that is shown whole."""


def issue_text(session: Session, name: str) -> str:
    """Markdown whose heading is the issue's title. Template: templates/issue.md.j2.

    Raises `UserError` where there is no such bisection.
    """
    rows = load_rows(session, name)
    report, files = report_of_rows(rows), rows.request.own_files
    return render(
        "issue.md.j2",
        report,
        reword=lambda text: _without_places(_with_files_in(text, files, ""), rows.request),
        title=_with_files_in(report.case, files, ""),
        search=_with_files_in(search_command(rows.request), files, "../"),
        scripts={file.name: _lines_of(file) for file in files},
        own_stack=_own_stack(rows.request) or "",
    )


def _own_stack(request: BisectRequest) -> str | None:
    """The stack file, where it is the asker's own; None where others have the stack too, or it takes none."""
    alone = request.case is None and request.runtime_dir is None
    return None if alone or request.stack.name in named_stacks() else f"{request.stack.name}.toml"


def _with_files_in(text: str, files: Iterable[Path], folder: str) -> str:
    """A text in which such files lie in a folder that others have too."""
    for file in files:
        text = text.replace(str(file), f"{folder}{file.name}")
    return text


def _without_places(text: str, request: BisectRequest) -> str:
    """A text with paths as they are at others too: from the slot in which it ran, the bisection or a repository on."""
    for place in _OWN_FOLDERS:
        text = place.sub("", text)
    folders = {
        **({} if request.folder is None else {request.folder: "."}),
        **{repository.path: name for name, repository in request.stack.repositories.items()},
        request.output: request.output.name,
        Path.home(): "~",
    }
    for folder, name in sorted(folders.items(), key=lambda each: -len(str(each[0]))):
        if folder == Path(folder.anchor):
            continue
        text = re.sub(rf"(?<![\w.-]){re.escape(str(folder))}(?![\w.-])", lambda _, name=name: name, text)
    return text


def _lines_of(file: Path) -> list[str]:
    """What a script holds; nothing of one that is long, gone or no text."""
    try:
        lines = file.read_text("utf-8").splitlines() if file.stat().st_size <= _MOST_BYTES else []
    except (OSError, UnicodeDecodeError):
        return []
    return lines


def search_command(request: BisectRequest) -> str:
    """The command that asks the same question again, in a checkout of the searched repository."""
    words = ["bisect-precision"]
    command_alone = request.case is None and request.runtime_dir is None
    if not command_alone:
        words += ["--stack", _own_stack(request) or request.stack.name]
    if request.repository != request.stack.searched:
        words += ["--repo", request.repository]
    words += ["--good", request.good, "--bad", request.bad]
    if request.seeks is Seeks.FIX:
        words.append("--find-fix")
    if request.first_parent:
        words.append("--first-parent")
    if request.interactive:
        words.append("--interactive")
    if command_alone:
        judged_alone = request.interactive and request.stack.case.command == NOTHING_TO_RUN
        return shlex.join(words) + ("" if judged_alone else f" -- {request.case_text}")
    if request.case is not None:
        words += ["--case", request.case]
    if request.runtime_dir is not None:
        words += ["--runtime-dir", str(request.runtime_dir)]
    words += ["--platform", request.platform]
    if request.bad_when is not None:
        words += ["--bad-when", request.bad_when]
    return shlex.join(words)
