"""Texts that are made from a report: report.md, the text of an issue, and a `git bisect log`.

The report and the issue are Markdown. Text that other people wrote is escaped, so that it is only ever shown as text.
The issue is for the author of the change, so it uses none of this tool's terms. The log of a searched range leads
`git bisect replay` to the same answer.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from operator import attrgetter
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from sqlalchemy.orm import Session

from ...runner.settings import named_stacks
from ...store.durable_files import read_text_file
from ...store.tables import ProbeRow
from ...store.vocabulary import Judgement, Seeks, build_words, duration, percent, plural, verdict_words
from ..ask.predicate import PLACEHOLDER_COMMAND
from ..ask.question import BisectRequest
from ..history.range import search_outcome
from ..search.belief import Outcome
from . import phrases
from .basis import SearchedRange, load_rows
from .model import AnswerCommit, Report
from .phrases import MAX_OWN_SENTENCE, cut, indented_line, localization_lines, one_line, shorten
from .report_builder import report_of_rows

_TERMS = {Seeks.REGRESSION: ("good", "bad"), Seeks.FIX: ("broken", "fixed")}
"""`git bisect` has these terms for commits like the old end, and for commits like the new one."""


@dataclass
class _Log:
    """The lines of a log. Git is given each commit at most once."""

    subjects: Mapping[str, str]
    lines: list[str] = field(default_factory=list[str])
    _told: set[str] = field(default_factory=set[str])

    def describe_commit(self, sha: str) -> str:
        """Return a commit's id with its subject."""
        return f"[{sha}] {one_line(self.subjects.get(sha, ''))}".rstrip()

    def comment(self, what: str, sha: str) -> None:
        """Add a line that git ignores."""
        self.lines.append(f"# {what}: {self.describe_commit(sha)}")

    def mark(self, word: str, shas: Iterable[str]) -> None:
        """Add the commands that mark commits with a word such as `good`."""
        for sha in (sha for sha in shas if sha not in self._told):
            self._told.add(sha)
            self.comment(word, sha)
            self.lines.append(f"git bisect {word} {sha}")


def bisect_log(
    standing: SearchedRange,
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
    also_old: the commits that were named beside the old end.
    paths: what the search was limited to.
    judgement: returns what a probe counts as.

    Git takes one verdict for each commit as certain, and it does not know that commits have equal content. So a commit
    that sometimes fails is marked as the answer has it. Runs that contradict the answer become comments. A commit of
    equal content that git would ask for is marked too.
    """
    stage = standing.stage
    good, bad = _TERMS[stage.seeks]
    follow = "'--first-parent' " if first_parent else ""
    terms = "" if stage.seeks is Seeks.REGRESSION else f"'--term-old={good}' '--term-new={bad}' "
    log = _Log(subjects)
    log.comment(bad, stage.new)
    for sha in (stage.old, *also_old):
        log.comment(good, sha)
    ends = " ".join(f"'{sha}'" for sha in (stage.new, stage.old, *also_old))
    limit = "".join(f" {_quote(word)}" for word in ("--", *(path or "." for path in paths))) if paths else ""
    log.lines.append(f"git bisect start {terms}{follow}{ends}{limit}")
    verdicts = _verdicts(standing, culprit, judgement)
    cleared = _cleared_commits(standing, verdicts)
    for sha, members in standing.members.items():
        if paths and sha not in standing:
            # It was assumed to be good, not run. Git does not ask for commits that touch none of the paths.
            continue
        if verdicts.get(sha) is not Outcome.GOOD and (sha in cleared or sha not in standing):
            log.mark(good, _heads(standing, [member for member in members if member not in cleared]))
    _add_verdicts(log, standing, verdicts, cleared)
    if culprit is not None:
        log.comment(f"first {bad} commit", culprit)
    for sha in suspects:
        log.comment(f"possible first {bad} commit", sha)
    return "\n".join(log.lines) + "\n"


def _quote(word: str) -> str:
    """Return a word in single quotes, as git reads it back. `shlex` leaves them out where a shell needs none."""
    return "'" + word.replace("'", "'\\''") + "'"


def _add_verdicts(
    log: _Log, standing: SearchedRange, verdicts: Mapping[str, Outcome | None], cleared: Collection[str]
) -> None:
    """Add the commits that were run, in order. A bad commit is added only where it narrows the range further."""
    good, bad = _TERMS[standing.stage.seeks]
    newest = standing.stage.new
    for sha, verdict in verdicts.items():
        match verdict:
            case None:
                log.comment("contradicts the answer", sha)
            case Outcome.BAD if sha in cleared:
                log.comment(f"{bad}, but a later commit is {good}", sha)
            case Outcome.BAD if sha != newest and standing.is_ancestor(sha, newest):
                log.mark(bad, [sha])
                newest = sha
            case Outcome.GOOD:
                log.mark(good, _heads(standing, standing.members[sha]))
            case Outcome.SKIP:
                log.mark("skip", standing.members[sha])
            case _:
                pass


def _verdicts(
    standing: SearchedRange, culprit: str | None, judgement: Callable[[ProbeRow], Judgement | None]
) -> dict[str, Outcome | None]:
    """Return the verdict of each representative that was run, in the order of the first runs.

    `BAD` means that the commit is like the new end. None means that no run of it agrees with the answer. Where there
    is no answer, one run like the new end's makes a commit `BAD`.
    """
    verdicts: dict[str, Outcome | None] = dict.fromkeys(standing.untestable, Outcome.SKIP)
    seeks = standing.stage.seeks
    for sha in sorted(standing.runs, key=lambda sha: standing.runs[sha][0].ordinal):
        found = {
            search_outcome(judged, seeks)
            for probe in standing.runs[sha]
            if (judged := judgement(probe)) is not None
        }
        if sha not in standing:
            continue
        if found == {Outcome.SKIP}:
            verdicts[sha] = Outcome.SKIP
        elif culprit is None:
            verdicts[sha] = Outcome.BAD if Outcome.BAD in found else Outcome.GOOD
        else:
            answer = Outcome.BAD if standing.is_ancestor(culprit, sha) else Outcome.GOOD
            verdicts[sha] = answer if answer in found else None
    return verdicts


def _cleared_commits(standing: SearchedRange, verdicts: Mapping[str, Outcome | None]) -> set[str]:
    """Return the commits that a good commit builds on, and the good commits."""
    passing = [sha for sha, verdict in verdicts.items() if verdict is Outcome.GOOD]
    return standing.ancestors(*(head for sha in passing for head in _heads(standing, standing.members[sha])))


def _heads(standing: SearchedRange, members: Sequence[str]) -> list[str]:
    """Return those of several commits of equal content that no other one builds on. A pass of them clears the rest."""
    below = {parent for member in members for parent in standing.parents(member)}
    return [member for member in members if member not in below]


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
"""GitHub's Markdown reads these characters as more than text."""
_BLOCK_START = re.compile(r"[#>*\[]|[-+](?=\s|$)|-(?=[-\s]*$)|=(?==*\s*$)|\d{1,9}(?=[.)](?:\s|$))")
"""These characters begin a list, a quote, a rule, a heading or a link's address where they begin a line."""
_REFERENCE = re.compile(r"@(?=\w)|#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
"""GitHub turns such text into a mention or a link to an issue. It reads rendered text, so a backslash does not help."""
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
    return render("report.md.j2", report)


def render(
    template: str,
    report: Report,
    *,
    reword: Callable[[str], str] = str,
    **values: str | Mapping[str, Sequence[str]],
) -> str:
    """Fill a template of this package with a report.

    reword: changes each text that is shown, before it is escaped.
    values: further texts for the template, single ones or lists of lines by name.
    """

    def finalize(value: object) -> str:
        return value if isinstance(value, Markdown) else escape(reword(str(value)))

    def reworded_block(
        lines: Iterable[str], *, longest: int = _MAX_LINE_LENGTH, language: str = "text"
    ) -> Markdown:
        return block(map(reword, lines), longest=longest, language=language)

    def whole(text: str) -> Markdown:
        return Markdown(escape(reword(text), longest=MAX_OWN_SENTENCE))

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
        confidence=phrases.confidence,
        day=phrases.day,
        diffstat=partial(phrases.diffstat, width=_DIFFSTAT_WIDTH, most=_MAX_ENTRIES),
        duration=duration,
        evidence_texts=phrases.evidence_texts,
        id=_id,
        linked=_commit_link,
        localization_lines=localization_lines,
        longest_of_ours=MAX_OWN_SENTENCE,
        percent=percent,
        phrases=phrases,
        pin_state=phrases.pin_state,
        plural=plural,
        shown_run=phrases.shown_run,
        side_verdict=phrases.side_verdict,
        some=_first_items,
        unshown=_hidden_count,
        verdict_words=verdict_words,
        whole=whole,
        build_words=build_words,
        **values,
    )


def escape(text: str, *, longest: int = _MAX_LINE_LENGTH) -> str:
    r"""Return one line of at most `longest` characters that Markdown shows as it is.

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
    return _REFERENCE.sub(rf"\g<0>{_ZERO_WIDTH_SPACE}", escaped)


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
    """Return a commit's whole id, as a link where its page is known. The address has no character of Markdown's."""
    if commit.url is None or not _PLAIN_ADDRESS.fullmatch(commit.url):
        return Markdown(escape(commit.commit))
    return Markdown(f"[{escape(commit.commit)}]({commit.url})")


def _first_items(items: Sequence[object]) -> Sequence[object]:
    """Return the first items of a list; report.json has all of them."""
    return items[: len(items) - _hidden_count(items)]


def _hidden_count(items: Sequence[object]) -> int:
    # A line that says "and one more" would take the place of that one.
    return len(items) - _MAX_ENTRIES if len(items) > _MAX_ENTRIES + 1 else 0


_OWN_FOLDERS = (
    re.compile(r"(?<![\w.-])/[^\s'\",:()]*/slots/[^\s/]+/\d+/"),
    re.compile(r"(?<![\w.-])/[^\s'\",:()]*/bisections/[^\s/]+/"),
)
"""This tool has these folders on any machine: the slot of a worker, and the folder of a bisection."""
_MAX_SCRIPT_BYTES = 4000
"""An issue shows a script of at most this many bytes. A larger one is left out, because issues have a limit."""


def issue_text(session: Session, name: str) -> str:
    """Return the text of an issue as Markdown, whose heading is the issue's title.

    Its template is templates/issue.md.j2.

    Raises `UserError` where there is no such bisection.
    """
    rows = load_rows(session, name)
    report, files = report_of_rows(rows), rows.request.own_files
    return render(
        "issue.md.j2",
        report,
        reword=lambda text: _remove_local_paths(_relocate_files(text, files, ""), rows.request),
        title=_relocate_files(report.case, files, ""),
        search=_relocate_files(search_command(rows.request), files, "../"),
        scripts={file.name: _script_lines(file) for file in files},
        own_stack=_own_stack(rows.request) or "",
    )


def _own_stack(request: BisectRequest) -> str | None:
    """Return the name of the user's own stack file. None: the stack comes with the tool, or none is needed."""
    alone = request.case is None and request.runtime_dir is None
    return None if alone or request.stack.name in named_stacks() else f"{request.stack.name}.toml"


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
        lines = read_text_file(file).splitlines() if file.stat().st_size <= _MAX_SCRIPT_BYTES else []
    except (OSError, UnicodeDecodeError):
        return []
    return lines


def search_command(request: BisectRequest) -> str:
    """Return the command that asks the same question again, in a checkout of the searched repository."""
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


def _judging_options(request: BisectRequest) -> list[str]:
    """Return the options that say what is bad and what is good."""
    given = {
        "--bad-when": request.bad_when,
        "--good-when": request.good_when,
        "--crash": None if request.crash == "skip" else request.crash,
    }
    return [word for name, value in given.items() if value is not None for word in (name, value)]
