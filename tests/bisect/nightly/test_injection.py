"""What commits, logs and cases say goes into Markdown, JUnit and hooks as text and as nothing else."""

import json
import re
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options

from precision_bisect.bisect.drive.hand_over import call_hook
from precision_bisect.bisect.nightly.night_report import (
    CaseReport,
    HookReport,
    IncidentCase,
    IncidentReport,
    NightReport,
    junit_text,
    markdown_text,
)
from precision_bisect.store.vocabulary import CaseStatus, Verdict

HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=y>",
    "[link](https://evil.example) ![image](https://evil.example/x.png)",
    "https://evil.example www.evil.example ada@evil.example",
    "@everyone @org/team fixes #1, GH-2 and owner/repo#3",
    "| cell | ``` ~~~ </details> <!-- --> ***x*** $(reboot) `reboot`; && ' \" \\",
    "first\n\n# second\n\n- third\r\n```\n</code></pre>",
    "]]></failure><testcase name='x'/> &amp; &#x0; \x00\x08\x1b[2J \u202e \ufffe",
    "- [ ] task\t1. one",
]


@pytest.fixture(params=HOSTILE, ids=range(len(HOSTILE)))
def hostile(request: pytest.FixtureRequest) -> str:
    return request.param


def report(text: str) -> NightReport:
    """A night in which every word that others can choose is this one."""
    case = CaseReport(
        case=text, platform=text, tolerance=text, branch=text, commit="a" * 40, status=CaseStatus.REGRESSED,
        verdict=Verdict.MISMATCH, signature=text, message=text, runs=3, failures=3, seconds=1.0, incident=1,
        culprit=f"{text} {'b' * 40}", log=text,
    )  # fmt: skip
    incident = IncidentReport(
        number=1, event="opened", open=True, repository=text, culprit="b" * 40, subject=text, confidence=0.99,
        bisection="20260101-000000-abcd", opened_night=1, closed_night=None, fixed_by=None,
        cases=(IncidentCase(
            case=text, platform=text, tolerance=text, branch=text, last_good="c" * 40, first_bad="d" * 40,
            passes_again=False,
        ),),
    )  # fmt: skip
    return NightReport(
        job="job", night=1, started=datetime(2026, 1, 1, tzinfo=UTC), finished=None, attempts=1,
        heads={"main": "a" * 40}, cases=(case,), incidents=(incident,), notes=(text,),
    )  # fmt: skip


class Page(HTMLParser):
    """What GitHub's own renderer makes of Markdown."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.prose: list[str] = []
        self.code: list[str] = []
        self._within: list[str] = []
        # GitHub allows some HTML, and then removes scripts and handlers: ours must not rely on that.
        extensions = ["table", "strikethrough", "autolink", "tasklist"]
        self.feed(
            cmarkgfm.markdown_to_html_with_extensions(
                markdown, options=Options.CMARK_OPT_UNSAFE, extensions=extensions
            )
        )

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        (self.code if {"code", "pre"} & set(self._within) else self.prose).append(data)


def test_markdown_gets_no_element_from_text(hostile: str) -> None:
    page, plain = Page(markdown_text(report(hostile))), Page(markdown_text(report("plain")))
    assert page.tags == plain.tags
    assert not {"a", "img", "script", "input"} & set(page.tags)


def test_markdown_mentions_nobody_and_refers_to_nothing(hostile: str) -> None:
    prose = "".join(Page(markdown_text(report(hostile))).prose)
    assert not re.search(r"(?<!\w)@\w|#\d|\bGH-\d", prose)
    assert re.search(r"(?<!\w)@\w", "see @everyone")


def test_the_machine_readable_block_stays_one(hostile: str) -> None:
    blocks = [text for text in Page(markdown_text(report(hostile))).code if text.startswith("{")]
    assert len(blocks) == 1
    said = json.loads(blocks[0])
    assert said["incidents"][0]["subject"] == hostile


def test_junit_is_well_formed_and_has_no_more_cases(hostile: str) -> None:
    text = junit_text(report(hostile))
    root = ElementTree.fromstring(text.encode("utf-8"))
    assert [element.tag for element in root.iter()] == ["testsuites", "testsuite", "testcase", "failure"]
    kept = "".join(
        each if each in "\t\n" or each >= " " else "\ufffd" for each in hostile.replace("\r\n", "\n")
    )
    kept = kept.replace("\ufffe", "\ufffd")
    failure = root.find(".//failure")
    assert failure is not None
    assert kept in (failure.text or "").replace("\r\n", "\n")
    assert "b" * 40 in (failure.text or "")


RECORD = """
import json, os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(json.dumps([sys.argv[1:], sys.stdin.read(), dict(os.environ)]))
"""


def test_a_hook_s_command_line_is_the_file_s(hostile: str, tmp_path: Path) -> None:
    told = HookReport(job="job", night=1, incident=report(hostile).incidents[0])
    words = [str(tmp_path / "told"), "it's one; $(word)"]
    assert call_hook([sys.executable, "-c", RECORD, *words], told.model_dump_json(), {"EVENT": "opened"}) == 0
    arguments, given, environment = json.loads((tmp_path / "told").read_text())
    assert arguments == words
    assert json.loads(given)["incident"]["number"] == 1
    assert environment["PRECISION_BISECT_EVENT"] == "opened"
    assert not [name for name, value in environment.items() if hostile in value]


def test_a_hook_that_reads_nothing_harms_nothing() -> None:
    text = HookReport(job="job", night=1, incident=report("x" * 200_000).incidents[0]).model_dump_json()
    assert call_hook([sys.executable, "-c", "raise SystemExit(3)"], text, {}) == 3
    assert call_hook(["/nowhere/at/all"], text, {}) == 127
