"""The report as Markdown, for people and for issues. Whatever others wrote is shown as text, and nothing else."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources

from jinja2 import Environment, StrictUndefined

from ...store.words import build_words, duration, percent, plural, verdict_words
from . import phrases
from .first_divergence import localization_lines
from .model.model import AnswerCommit, Report
from .plain_text import LONGEST_OF_OURS, one_line, shortened

_PACKAGE = "precision_bisect.bisect.report"
_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$#]|:(?=//)|(?<=\bwww)\.|@")
_BEGINNING = re.compile(r"[-+=]|\d+(?=[.)])")
"""What begins a list, a rule or a heading where it is a line's first."""
_REFERENCE = re.compile(r"@(?=\w)|\\#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
"""What GitHub makes a mention or a link to an issue of. It looks at the finished text, so a backslash is not enough."""
_ZERO_WIDTH_SPACE = "&#8203;"
_PLAIN_ADDRESS = re.compile(r"https://[\w./~-]+")
_LONGEST = 300
"""Characters of one line that is shown; report.json has all of it."""
_MOST = 50
"""Entries of one list."""


class Markdown(str):
    """Text that is Markdown already. Any other text is escaped wherever the template puts it."""

    __slots__ = ()


def render_markdown(report: Report) -> str:
    """The whole report. Template: templates/report.md.j2."""
    return render("report.md.j2", report)


def render(
    template: str,
    report: Report,
    *,
    reword: Callable[[str], str] = str,
    **values: str | Mapping[str, Sequence[str]],
) -> str:
    """A text about a report by a template of this room; `values` are lines of ours or of others, or such by name.
    `reword` is given whatever of the report is shown, before it is escaped."""

    def finalize(value: object) -> str:
        return value if isinstance(value, Markdown) else escape(reword(str(value)))

    def reworded_block(lines: Iterable[str], *, longest: int = _LONGEST) -> Markdown:
        return block(map(reword, lines), longest=longest)

    def whole(text: str) -> Markdown:
        return Markdown(escape(reword(text), longest=LONGEST_OF_OURS))

    environment = Environment(
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # of HTML; `finalize` escapes for Markdown, HTML's characters included
    )
    source = resources.files(_PACKAGE).joinpath("templates", template).read_text(encoding="utf-8")
    return environment.from_string(source).render(
        report=report,
        block=reworded_block,
        confidence=phrases.confidence,
        day=phrases.day,
        duration=duration,
        evidence_texts=phrases.evidence_texts,
        id=_id,
        linked=_linked,
        localization_lines=localization_lines,
        longest_of_ours=LONGEST_OF_OURS,
        percent=percent,
        phrases=phrases,
        pin_state=phrases.pin_state,
        plural=plural,
        shown_run=phrases.shown_run,
        side_verdict=phrases.side_verdict,
        some=_some,
        unshown=_unshown,
        verdict_words=verdict_words,
        whole=whole,
        build_words=build_words,
        **values,
    )


def escape(text: str, *, longest: int = _LONGEST) -> str:
    """Text, cut to so many characters, that Markdown shows as it is, in a paragraph, a list item or a table cell.

    >>> print(escape("<b>fix</b> [docs](https://x) `a` | b_c"))
    \\<b\\>fix\\</b\\> \\[docs\\](https\\://x) \\`a\\` \\| b\\_c
    """
    escaped = _SPECIAL.sub(r"\\\g<0>", shortened(text, longest))
    begins = _BEGINNING.match(escaped)
    if begins is not None:
        place = begins.end() if begins[0].isdigit() else 0
        escaped = f"{escaped[:place]}\\{escaped[place:]}"
    return _REFERENCE.sub(rf"\g<0>{_ZERO_WIDTH_SPACE}", escaped)


def block(lines: Iterable[str], *, longest: int = _LONGEST) -> Markdown:
    """Lines of output, cut to so many characters, as a code block, whose fence is longer than any that they hold."""
    shown = [shortened(line, longest) for line in lines]
    ticks = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, ticks + 1)
    return Markdown("\n".join((f"{fence}text", *shown, fence)))


def _id(sha: str) -> Markdown:
    """A commit id, short."""
    return Markdown(f"`{one_line(sha)[:12]}`" if sha.isalnum() else escape(sha[:12]))


def _linked(commit: AnswerCommit) -> Markdown:
    """A commit's whole id, as a link where it can be looked at. What the link is made of has no mark of Markdown's."""
    if commit.url is None or not _PLAIN_ADDRESS.fullmatch(commit.url):
        return Markdown(escape(commit.commit))
    return Markdown(f"[{escape(commit.commit)}]({commit.url})")


def _some(items: Sequence[object]) -> Sequence[object]:
    """As many as one reads; report.json has all."""
    return items[: len(items) - _unshown(items)]


def _unshown(items: Sequence[object]) -> int:
    return len(items) - _MOST if len(items) > _MOST + 1 else 0  # a line for one more could be that one
