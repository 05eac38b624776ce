"""Templates to pages. Whatever others wrote is escaped by Jinja; a page's policy allows one script: its own, for arrow
keys in grids, or on the queue's page for what its server tells."""

import base64
import hashlib
import posixpath
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, cast
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ...runner.compare.report import design
from ...runner.compare.report.heat_svg import HeatPicture, heat_svg
from ...runner.localization.tensors import ErrorMap
from ...store.clock import now
from ...store.vocabulary import CaseStatus, Judgement
from ...store.words import duration, percent, plural, verdict_words
from ..report import phrases
from ..report.phrases import day, evidence_texts, pin_state, side_verdict
from ..report.plain_text import LONGEST_OF_OURS, one_line, shortened
from . import addresses, plots
from .views.queue import command_text, state_text, submission_tone

_PACKAGE = "precision_bisect.bisect.site"
GLYPHS: Mapping[str, str] = {"good": "✓", "bad": "✕", "skip": "?"}
_STATUS_GLYPHS: Mapping[str, str] = {
    "passed": "✓",
    "flaky": "~",
    "new": "+",
    "regressed": "✕",
    "known": "✕",
    "infrastructure": "!",
    "untested": "?",
}
_STATUS_TONES: Mapping[str, str] = {
    "passed": "good",
    "flaky": "skip",
    "new": "bad",
    "regressed": "bad",
    "known": "bad",
    "infrastructure": "none",
    "untested": "none",
}
_JUDGED: Mapping[str, str] = {"good": "passed", "bad": "failed as asked", "skip": "could not be judged"}
_TONES: Mapping[str, str] = {"culprit": "good", "suspect": "skip", "unfinished": "none", "error": "skip"}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words: dict[str, Any] = {
        "addresses": addresses,
        "breakable": _breakable,
        "day": day,
        "duration": duration,
        "evidence_texts": evidence_texts,
        "glyphs": GLYPHS,
        "heat_svg": _heat_svg,
        "host": _host,
        "live_policy": policy(live=True),
        "longest_of_ours": LONGEST_OF_OURS,
        "live_script": Markup(_script("queue.js")),
        "judged": _judged,
        "number": _number,
        "percent": percent,
        "phrases": phrases,
        "pin_state": pin_state,
        "plots": plots,
        "plural": plural,
        "policy": policy(),
        "script": Markup(_script("grid.js")),
        "range_of": range,
        "short": _short,
        "side_verdict": side_verdict,
        "command_text": command_text,
        "state_text": state_text,
        "submission_tone": submission_tone,
        "shown": shortened,
        "status_glyph": _STATUS_GLYPHS,
        "status_tone": _STATUS_TONES,
        "statuses": [each.value for each in CaseStatus],
        "style": Markup(_style()),
        "tone": _tone,
        "verdict_words": verdict_words,
    }
    cast(dict[str, Any], environment.globals).update(words)
    return environment


def policy(*, live: bool = False) -> str:
    """The content security policy of a page: its own style and script, pictures of this site, and nothing else; of a
    `live` one also what its server tells."""
    script = _digest(_script("queue.js" if live else "grid.js"))
    connect = "connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; style-src '{_digest(_style())}'; script-src '{script}'; "
        f"img-src 'self' data:; {connect}base-uri 'none'; form-action 'none'"
    )


def render(template: str, here: str, sections: tuple[tuple[str, str], ...], **values: Any) -> bytes:
    """The page at address `here`."""
    text = render_part(template, here, sections=sections, generated=now(), **values)
    return text.encode("utf-8", "backslashreplace")


def render_part(template: str, here: str, **values: Any) -> str:
    """A template alone, as it stands on the page at address `here`."""
    above = posixpath.dirname(here)

    def link(place: str) -> str:
        return posixpath.relpath(place, above or ".")

    return _environment().get_template(template).render(here=here, link=link, **values)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _style() -> str:
    own = resources.files(_PACKAGE).joinpath("static", "style.css").read_text(encoding="utf-8").strip()
    return f"{design.style()}\n{own}"


@cache
def _script(name: str) -> str:
    return resources.files(_PACKAGE).joinpath("static", name).read_text(encoding="utf-8").strip()


def _breakable(text: str, most: int) -> Markup:
    """A path or a name, at most `most` characters of it, that a narrow place breaks behind "/" and "_" first."""
    return Markup("<wbr>").join(re.split(r"(?<=[/_])", shortened(text, most)))


def _heat_svg(heat: ErrorMap, name: str) -> Markup:
    """A map as the picture of `diff-tensors` draws it; the name is escaped there."""
    picture = HeatPicture(
        rows=heat.rows,
        columns=heat.columns,
        row_step=heat.row_step,
        column_step=heat.column_step,
        share=heat.wrong,
        wild=heat.wild,
    )
    return Markup(heat_svg(name, picture))


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _short(sha: str) -> str:
    return one_line(sha)[:10]


def _number(value: float) -> str:
    return f"{value:.4g}"


def _judged(judgement: Judgement) -> str:
    return _JUDGED[judgement.value]


def _tone(outcome: str) -> str:
    return _TONES.get(outcome, "none")
