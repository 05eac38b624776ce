"""The files of a report and the texts in them: report.md, the text of an issue, and a `git bisect log`.

`open_report_folder` makes and checks the folder before the first run, so that the result can be written. Git ignores
it, so that it is no change of the checkout around it. `report_folder` owns it: one bisection at a time writes there.
`write_report` writes the files. `record_report` also stores the caveats, which the lists of bisections show.

`render_markdown` returns the report, and `issue_text` a text for the author of the change, without terms of this tool.
Text that other people wrote is escaped, so that it is only ever shown as text. `bisect_log` returns the log of a
searched range. It leads `git bisect replay` to the same answer.
"""

import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from sqlalchemy.orm import Session

from ...runner.errors import UserError
from ...runner.localization import DIVERGENCE, TASK_GRAPH
from ...runner.settings import named_stacks
from ...runner.stack import PLACEHOLDER_COMMAND, stack_text
from ...runner.workspace.home import sole_user
from ...store.bisections import BisectionJournal
from ...store.durable_files import (
    IGNORE,
    is_writable,
    make_ignored_folder,
    make_own_folder,
    nearest_existing,
    read_text_file,
    replace_file,
    write_whole,
)
from ...store.tables import ProbeRow
from ...store.vocabulary import (
    Judgement,
    Seeks,
    build_phrase,
    cut,
    duration,
    indented_line,
    one_line,
    percent,
    plural,
    shorten,
    verdict_phrase,
)
from ..ask.predicate import AS_BAD_END
from ..ask.question import DEFAULT_STACK_FILE, NEWEST_LINK, REPORTS_FOLDER, BisectRequest
from ..history.range import search_outcome
from ..search.belief import Outcome
from . import phrases
from .basis import Rows, SearchedRange, load_rows
from .model import EXPLANATION, AnswerCommit, Report
from .phrases import MAX_OWN_SENTENCE, explanation_lines, localization_lines
from .report_builder import make_report

MIN_FREE_BYTES = 64 << 20
"""This many bytes must be free on the disk before anything is run, so that the result can be stored."""


BAD_SCRIPT, GOOD_SCRIPT = "reproduce-bad.sh", "reproduce-good.sh"
_REPORT = "report.json"
"""This file of a report is written before all others."""
_LOG = "bisect.log"
_LOCALIZATION = (DIVERGENCE, TASK_GRAPH, EXPLANATION)
"""A localization leaves these files beside a report."""
_FOREIGN_NAMES = ("report.md", _LOG, BAD_SCRIPT, GOOD_SCRIPT)


def open_report_folder(directory: Path) -> None:
    """Make the folder of a report. Git ignores the folder, unless it already holds files.

    Raises:
        UserError: the folder cannot be written or has files of others, or the disk has no room.
    """
    foreign = next((name for name in _FOREIGN_NAMES if (directory / name).exists()), None)
    if foreign is not None and not (directory / _REPORT).exists():
        raise UserError(
            f"{directory}: expected an empty folder, or one with a report, found {foreign} without {_REPORT}, which "
            "the report would replace; name another one with -o"
        )
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
    check_room(directory, remedy="name another folder with -o")


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
    """Remove a folder to which nothing was written."""
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


def check_place(
    directory: Path, *, what: str = "the report", remedy: str = "name another one with -o"
) -> None:
    """Check that a folder for a report can be made, without making it. Raises `UserError`."""
    there = nearest_existing(directory)
    if not is_writable(there):
        raise UserError(
            f"{directory}: expected a place for {what}, found {there}, which is no folder that can be written; {remedy}"
        )


def check_room(folder: Path, *, remedy: str) -> None:
    """Check that the disk of a folder has room. The folder need not exist yet. Raises `UserError`."""
    there = nearest_existing(folder)
    free = shutil.disk_usage(there).free
    if free < MIN_FREE_BYTES:
        raise UserError(
            f"{there}: expected {MIN_FREE_BYTES >> 20} MiB of room, found {free >> 20} MiB; free some, or {remedy}"
        )


def write_report(rows: Rows, directory: Path) -> tuple[Report, tuple[Path, ...]]:
    """Write all files of a bisection's report, each as a whole or not at all. Return the report and their paths.

    The files are report.json, report.md, bisect.log, reproduce-good.sh and reproduce-bad.sh. Each further range has its
    own bisect-REPOSITORY.log.

    Raises:
        UserError: the folder cannot be written.
    """
    report = make_report(rows)
    return report, _write_files(report, rows, directory)


def record_report(rows: Rows, journal: BisectionJournal) -> Report:
    """Write the report of a bisection that has ended into its own folder, and store its caveats first.

    Lists of bisections read the caveats from the store. Raises `UserError` where the folder cannot be written.
    """
    report = make_report(rows)
    journal.note_caveats(report.caveats)
    _write_files(report, rows, rows.request.output)
    return report


def _write_files(report: Report, rows: Rows, directory: Path) -> tuple[Path, ...]:
    files = {
        _REPORT: report.model_dump_json(indent=2) + "\n",
        "report.md": render_markdown(report),
        **_logs(rows),
        **_scripts(report),
    }
    try:
        if not directory.exists():
            open_report_folder(directory)
        _remove_leftovers(directory, report.name, files)
        for file, text in files.items():
            write_whole(directory / file, text)
    except OSError as error:
        raise UserError(
            f"{directory}: expected a folder to write the report to: {error.strerror}; "
            f"fix it and run bisect-precision report {report.name}, or name another folder with -o"
        ) from error
    return tuple(directory / file for file in files)


def _remove_leftovers(directory: Path, name: str, files: Collection[str]) -> None:
    """Remove what an earlier report left in the folder and the report of this name does not have.

    A localization is kept where the earlier report was of the same bisection. Raises `OSError`.
    """
    try:
        earlier = json.loads((directory / _REPORT).read_bytes())
        logs = {f"bisect-{each['repository']}.log" for each in earlier["ranges"][1:]}
        localization = () if earlier["name"] == name else _LOCALIZATION
    except (OSError, ValueError, LookupError, TypeError):
        return  # there is none, or what there is was not written by this tool
    for file in {BAD_SCRIPT, GOOD_SCRIPT, _LOG, *logs, *localization} - {*files}:
        (directory / file).unlink(missing_ok=True)


def _logs(rows: Rows) -> dict[str, str]:
    logs: dict[str, str] = {}
    suspects = rows.conclusion.suspects if rows.conclusion else ()
    for index, searched in enumerate(rows.ranges):
        repository = searched.stage.repository
        subjects = {candidate.sha: candidate.subject for candidate in searched}
        subjects |= {
            sha: commit.subject for (name, sha), commit in rows.commits.items() if name == repository
        }
        logs[f"bisect-{repository}.log" if index else _LOG] = bisect_log(
            searched,
            subjects=subjects,
            culprit=_culprit(rows, index),
            first_parent=rows.request.first_parent and not index,
            also_old=() if index else rows.request.also_old,
            paths=() if index else rows.request.paths,
            judgement=rows.judgement,
            suspects=[each.commit for each in suspects if each.repository == repository],
        )
    return logs


def _culprit(rows: Rows, index: int) -> str | None:
    """Return the culprit of one range: the commit under which the next range was searched, or else the answer."""
    repository = rows.ranges[index].stage.repository
    if index + 1 < len(rows.ranges):
        return rows.ranges[index + 1].stage.held.get(repository)
    if rows.conclusion is None:
        return None
    named = (*rows.conclusion.culprits, *filter(None, (rows.conclusion.lost,)))
    return next((each.commit for each in named if each.repository == repository), None)


def _scripts(report: Report) -> dict[str, str]:
    sides = {BAD_SCRIPT: report.reproduce.bad, GOOD_SCRIPT: report.reproduce.good}
    return {file: side.script for file, side in sides.items() if side is not None}


_PACKAGE = "precision_bisect.bisect.report"

_SPECIAL = re.compile(
    r"""
    \\(?=[!-/:-@\[-`{-~]|$)                # an escape, or the end, where the page goes on
    | [`|~$]                               # code, a cell, struck text, a formula
    | \*(?!(?<=\s\*)\s)                    # emphasis: not between blanks
    | (?<!\w)_++ | (?<!_)_++(?!\w)         # emphasis: not within a word
    | \](?=[(\[:]|$) | \[(?=\^)            # a link, its address, a footnote
    | <(?=[a-z/!?]) | &(?=[\#a-z])         # HTML
    | :(?=//) | (?<=www)\. | @(?=\w)     # an address
    | \#+$                                 # the end of a heading
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""GitHub's Markdown gives these characters a meaning."""

_BLOCK_START = re.compile(r"[#>*\[]|[-+](?=\s|$)|-(?=[-\s]*$)|=(?==*\s*$)|\d{1,9}(?=[.)](?:\s|$))")
"""At the beginning of a line, these characters start a list, a quote, a rule, a heading or a link's address."""

_REFERENCE = re.compile(r"@(?=\w)|#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
"""GitHub turns such text into a mention or a link to an issue. It reads rendered text, so a backslash does not help."""

_MENTION = re.compile(r"@(?=\w)")
"""In a file or a title, GitHub links no number. A mention is guarded there too, because reports are pasted."""

_ZERO_WIDTH_SPACE = "&#8203;"

_PLAIN_ADDRESS = re.compile(r"https://[\w./~-]+")

_MAX_LINE_LENGTH = 300
"""A line shows this many characters at most, so that a page stays readable. report.json has the whole line."""

_DIFFSTAT_WIDTH = 100
"""A diffstat has this many columns. A wider block scrolls sideways on a code host's page."""

_MAX_ENTRIES = 50
"""A list shows this many entries at most, so that a page stays readable. report.json has all of them."""


class Markdown(str):
    """Text that is Markdown already. Templates escape all other text."""

    __slots__ = ()


def render_markdown(report: Report) -> str:
    """Return the whole report as Markdown. Its template is templates/report.md.j2."""
    return render("report.md.j2", report, guarded=_MENTION, as_bad_end=AS_BAD_END)


def render(
    template: str,
    report: Report,
    *,
    reword: Callable[[str], str] = str,
    guarded: re.Pattern[str] = _REFERENCE,
    **values: str | Mapping[str, Sequence[str]],
) -> str:
    """Fill a template of this package with a report.

    reword: changes each text that is shown, before it is escaped.
    guarded: what GitHub must not link.
    values: further texts for the template, or lists of lines by name.
    """

    def finalize(value: object) -> str:
        return value if isinstance(value, Markdown) else escape(reword(str(value)), guarded=guarded)

    def reworded_block(
        lines: Iterable[str], *, longest: int = _MAX_LINE_LENGTH, language: str = "text"
    ) -> Markdown:
        return block(map(reword, lines), longest=longest, language=language)

    def own_sentence(text: str) -> Markdown:
        return Markdown(escape(reword(text), longest=MAX_OWN_SENTENCE, guarded=guarded))

    environment = Environment(
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # It would escape for HTML. `finalize` escapes for Markdown, including HTML's characters.
    )
    source = resources.files(_PACKAGE).joinpath("templates", template).read_text(encoding="utf-8")
    return environment.from_string(source).render(
        report=report,
        block=reworded_block,
        diffstat=partial(phrases.diffstat, width=_DIFFSTAT_WIDTH, most=_MAX_ENTRIES),
        duration=duration,
        id=_id,
        linked=_commit_link,
        explanation_lines=explanation_lines,
        localization_lines=localization_lines,
        max_own_sentence=MAX_OWN_SENTENCE,
        percent=percent,
        phrases=phrases,
        plural=plural,
        some=_first_items,
        stack_text=stack_text,
        unshown=_hidden_count,
        verdict_phrase=verdict_phrase,
        own_sentence=own_sentence,
        build_phrase=build_phrase,
        **values,
    )


def escape(text: str, *, longest: int = _MAX_LINE_LENGTH, guarded: re.Pattern[str] = _REFERENCE) -> str:
    r"""Return one line of at most `longest` characters that Markdown shows unchanged.

    It may stand in a paragraph, a list item or a table cell.

    >>> print(escape("<b>fix</b> [docs](https://x) `a` | b_c, *all* of 3.5 %"))
    \<b>fix\</b> [docs\](https\://x) \`a\` \| b_c, \*all\* of 3.5 %
    """
    line = shorten(text, longest)
    escaped = _SPECIAL.sub(lambda found: "".join(f"\\{letter}" for letter in found[0]), line)
    begins = _BLOCK_START.match(line)
    if begins is not None:
        place = begins.end() if begins[0].isdigit() else 0
        if escaped[place] != "\\":
            escaped = f"{escaped[:place]}\\{escaped[place:]}"
    return guarded.sub(rf"\g<0>{_ZERO_WIDTH_SPACE}", escaped)


def block(lines: Iterable[str], *, longest: int = _MAX_LINE_LENGTH, language: str = "text") -> Markdown:
    """Return lines of output as a code block, each cut to `longest` characters.

    The fence is longer than any run of backticks in the lines, so that no line can end the block.
    """
    shown = [cut(indented_line(line), longest) for line in lines]
    ticks = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, ticks + 1)
    return Markdown("\n".join((f"{fence}{language}", *shown, fence)))


def _id(sha: str) -> Markdown:
    """Return a commit's short id."""
    return Markdown(f"`{one_line(sha)[:12]}`" if sha.isalnum() else escape(sha[:12]))


def _commit_link(commit: AnswerCommit) -> Markdown:
    """Return a commit's whole id, as a link where its page is known."""
    if commit.url is None or not _PLAIN_ADDRESS.fullmatch(commit.url):
        return Markdown(escape(commit.commit))
    return Markdown(f"[{escape(commit.commit)}]({commit.url})")


def _first_items(items: Sequence[object]) -> Sequence[object]:
    """Return the items that a list shows; report.json has all of them."""
    return items[: len(items) - _hidden_count(items)]


def _hidden_count(items: Sequence[object]) -> int:
    # A line that says "and one more" would take the place of that one.
    return len(items) - _MAX_ENTRIES if len(items) > _MAX_ENTRIES + 1 else 0


_OWN_FOLDERS = (
    re.compile(r"(?<![\w.-])/[^\s'\",:()]*/slots/[^\s/]+/\d+/"),
    re.compile(r"(?<![\w.-])/[^\s'\",:()]*/bisections/[^\s/]+/"),
)
"""The tool's own folders on any machine: the slot of a worker, and the folder of a bisection."""

_MAX_SCRIPT_BYTES = 4000
"""An issue shows a script of at most this many bytes. A larger one is left out, because issues have a limit."""


def issue_text(session: Session, name: str) -> str:
    """Return the text of an issue as Markdown, whose heading is the issue's title.

    Its template is templates/issue.md.j2. Raises `UserError` where there is no such bisection.
    """
    rows = load_rows(session, name)
    report, files = make_report(rows), rows.request.own_files
    text = render(
        "issue.md.j2",
        report,
        reword=lambda text: _remove_local_paths(_relocate_files(text, files, ""), rows.request),
        title=_relocate_files(report.case, files, ""),
        search=_relocate_files(search_command(rows.request), files, "../"),
        scripts={file.name: _script_lines(file) for file in files},
        own_stack=_own_stack(rows.request) or "",
    )
    heading, _, body = text.partition("\n")
    return f"{heading.replace(f'#{_ZERO_WIDTH_SPACE}', '#')}\n{body}"


def search_command(request: BisectRequest) -> str:
    """Return the command that asks the same question again, in a checkout of the searched repository."""
    words = ["bisect-precision"]
    command_alone = request.case is None and request.runtime_dir is None
    if not command_alone:
        words += ["--stack", _own_stack(request) or request.stack.name]
    if request.repository != request.stack.searched:
        words += ["--repo", request.repository]
    words += [*_end_options(request), "--bad", request.bad]
    if request.seeks is Seeks.FIX:
        words.append("--find-fix")
    if request.first_parent:
        words.append("--first-parent")
    picks = [f"{pick.commit}@{pick.old}..{pick.new}" for pick in request.cherry_picks]
    paths = [path or "." for path in request.paths]
    for option, values in (("--skip", request.skip), ("--path", paths), ("--cherry-pick", picks)):
        words += [word for value in values for word in (option, value)]
    if request.interactive:
        words.append("--interactive")
    words += _judging_options(request)
    if command_alone:
        judged_alone = request.interactive and request.stack.case.command == PLACEHOLDER_COMMAND
        return shlex.join(words) + ("" if judged_alone else f" -- {request.case_text}")
    if request.case is not None:
        words += ["--case", request.case]
    if request.runtime_dir is not None:
        words += ["--runtime-dir", str(request.runtime_dir)]
    words += ["--platform", request.platform]
    return shlex.join(words)


def _end_options(request: BisectRequest) -> list[str]:
    """Return the options that name the good ends. There are none where a good end was searched for."""
    if request.gallop:
        return []
    also_good = request.also_old if request.seeks is Seeks.REGRESSION else ()
    return [word for sha in (request.good, *also_good) for word in ("--good", sha)]


def _judging_options(request: BisectRequest) -> list[str]:
    """Return the options that say what is bad and what is good."""
    given = {
        "--bad-when": request.bad_when,
        "--good-when": request.good_when,
        "--crash": None if request.crash == "skip" else request.crash,
    }
    return [word for name, value in given.items() if value is not None for word in (name, value)]


def _own_stack(request: BisectRequest) -> str | None:
    """Return the name of the user's own stack file. None where the stack comes with the tool, or none is needed."""
    alone = request.case is None and request.runtime_dir is None
    if alone or request.stack.name in named_stacks():
        return None
    typed = dict(pairwise(word for each in request.typed for word in each.split("=", 1)))
    return Path(typed.get("--stack", DEFAULT_STACK_FILE)).name


def _relocate_files(text: str, files: Iterable[Path], folder: str) -> str:
    """Return a text in which the paths of `files` are replaced by their names in `folder`."""
    for file in files:
        text = text.replace(str(file), f"{folder}{file.name}")
    return text


def _remove_local_paths(text: str, request: BisectRequest) -> str:
    """Return a text without paths that exist only on this machine.

    A path in the slot of a run, in a bisection's folder or in a repository becomes relative to it.
    """
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


def _script_lines(file: Path) -> list[str]:
    """Return the lines of a script; empty where it is long, gone or no text."""
    try:
        return read_text_file(file).splitlines() if file.stat().st_size <= _MAX_SCRIPT_BYTES else []
    except (OSError, UnicodeDecodeError):
        return []


_TERMS = {Seeks.REGRESSION: ("good", "bad"), Seeks.FIX: ("broken", "fixed")}
"""The terms of `git bisect` for commits like the old end, and for commits like the new one."""


def bisect_log(
    searched: SearchedRange,
    *,
    subjects: Mapping[str, str],
    culprit: str | None,
    suspects: Sequence[str],
    first_parent: bool,
    also_old: Sequence[str] = (),
    paths: Sequence[str] = (),
    judgement: Callable[[ProbeRow], Judgement | None] = attrgetter("judgement"),
) -> str:
    """Return the log of one range.

    subjects: the subjects of its commits, by id.
    also_old: the commits that were named in addition to the old end.
    paths: the paths to which the search was limited.
    judgement: returns what a probe counts as.

    Git takes one verdict for each commit as certain, and does not know that commits have equal content. So a commit
    that sometimes fails is marked by the answer. Runs that contradict the answer become comments. A commit of equal
    content that git would ask for is marked too.
    """
    stage = searched.stage
    good, bad = _TERMS[stage.seeks]
    follow = "'--first-parent' " if first_parent else ""
    terms = "" if stage.seeks is Seeks.REGRESSION else f"'--term-old={good}' '--term-new={bad}' "
    log = _Log(subjects)
    log.comment(bad, stage.new)
    for sha in (stage.old, *also_old):
        log.comment(good, sha)
    ends = " ".join(f"'{sha}'" for sha in (stage.new, stage.old, *also_old))
    words = ["--", *(path or "." for path in paths)] if paths else []
    limit = "".join(f" {_quote(word)}" for word in words)
    log.lines.append(f"git bisect start {terms}{follow}{ends}{limit}")
    verdicts = _verdicts(searched, culprit, judgement)
    cleared = _cleared_commits(searched, verdicts)
    for sha, members in searched.members.items():
        if paths and sha not in searched:
            # It was assumed to be good, not run. Git does not ask for commits that touch none of the paths.
            continue
        if verdicts.get(sha) is not Outcome.GOOD and (sha in cleared or sha not in searched):
            log.mark(good, _heads(searched, [member for member in members if member not in cleared]))
    _add_verdicts(log, searched, verdicts, cleared)
    if culprit is not None:
        log.comment(f"first {bad} commit", culprit)
    for sha in suspects:
        log.comment(f"possible first {bad} commit", sha)
    return "\n".join(log.lines) + "\n"


def _quote(word: str) -> str:
    """Return a word in single quotes, as git reads it back. `shlex` omits them where a shell needs none."""
    return "'" + word.replace("'", "'\\''") + "'"


@dataclass
class _Log:
    """The lines of a log. Git is given each commit at most once."""

    subjects: Mapping[str, str]
    lines: list[str] = field(default_factory=list[str])
    _marked: set[str] = field(default_factory=set[str])

    def describe_commit(self, sha: str) -> str:
        """Return a commit's id with its subject."""
        return f"[{sha}] {one_line(self.subjects.get(sha, ''))}".rstrip()

    def comment(self, what: str, sha: str) -> None:
        """Add a line that git ignores."""
        self.lines.append(f"# {what}: {self.describe_commit(sha)}")

    def mark(self, word: str, shas: Iterable[str]) -> None:
        """Add the commands that mark commits with a word such as `good`."""
        for sha in shas:
            if sha not in self._marked:
                self._marked.add(sha)
                self.comment(word, sha)
                self.lines.append(f"git bisect {word} {sha}")


def _add_verdicts(
    log: "_Log", searched: SearchedRange, verdicts: Mapping[str, Outcome | None], cleared: Collection[str]
) -> None:
    """Add the commits that were run, in order. A bad commit is added only where it narrows the range further."""
    good, bad = _TERMS[searched.stage.seeks]
    newest = searched.stage.new
    for sha, verdict in verdicts.items():
        match verdict:
            case None:
                log.comment("contradicts the answer", sha)
            case Outcome.BAD if sha in cleared:
                log.comment(f"{bad}, but a later commit is {good}", sha)
            case Outcome.BAD if sha != newest and searched.is_ancestor(sha, newest):
                log.mark(bad, [sha])
                newest = sha
            case Outcome.GOOD:
                log.mark(good, _heads(searched, searched.members[sha]))
            case Outcome.SKIP:
                log.mark("skip", searched.members[sha])
            case _:
                pass


def _verdicts(
    searched: SearchedRange, culprit: str | None, judgement: Callable[[ProbeRow], Judgement | None]
) -> dict[str, Outcome | None]:
    """Return the verdict of each representative that was run, in the order of the first runs.

    `BAD` means that the commit behaves like the new end. None means that no run of it agrees with the answer. Without
    an answer, one run like the new end's makes a commit `BAD`.
    """
    verdicts: dict[str, Outcome | None] = dict.fromkeys(searched.untestable, Outcome.SKIP)
    seeks = searched.stage.seeks
    for sha in sorted(searched.runs, key=lambda sha: searched.runs[sha][0].ordinal):
        found = {
            search_outcome(judged, seeks)
            for probe in searched.runs[sha]
            if (judged := judgement(probe)) is not None
        }
        if sha not in searched:
            continue
        if found == {Outcome.SKIP}:
            verdicts[sha] = Outcome.SKIP
        elif culprit is None:
            verdicts[sha] = Outcome.BAD if Outcome.BAD in found else Outcome.GOOD
        else:
            answer = Outcome.BAD if searched.is_ancestor(culprit, sha) else Outcome.GOOD
            verdicts[sha] = answer if answer in found else None
    return verdicts


def _cleared_commits(searched: SearchedRange, verdicts: Mapping[str, Outcome | None]) -> set[str]:
    """Return the commits that a good commit builds on, and the good commits."""
    passing = [sha for sha, verdict in verdicts.items() if verdict is Outcome.GOOD]
    return searched.ancestors(*(head for sha in passing for head in _heads(searched, searched.members[sha])))


def _heads(searched: SearchedRange, members: Sequence[str]) -> list[str]:
    """Return those of several commits of equal content on which no other one builds.

    A pass of them clears all others.
    """
    below = {parent for member in members for parent in searched.parents(member)}
    return [member for member in members if member not in below]
