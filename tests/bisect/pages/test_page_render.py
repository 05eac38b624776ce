"""A template's page: text of others is escaped in it, its policy fits it, and its links lead to where it is told."""

import base64
import hashlib
import re

import pytest
from jinja2 import UndefinedError

from precision_bisect.bisect.nightly.night_report import result_line, severity
from precision_bisect.bisect.pages.render import GLYPHS, STATUS_GLYPHS, STATUS_TONES, render, security_policy
from precision_bisect.store.vocabulary import CaseStatus, Judgement
from tests.bisect.pages.test_site_folder import ELEMENTS, EVIL, Seen

HERE = "bisections/x.html"


def page(*, name: str = "name", problem: str = "problem", sections: tuple[tuple[str, str], ...] = ()) -> str:
    return render("unreadable.html.j2", HERE, sections, name=name, problem=problem).decode()


def test_a_page_has_the_title_of_what_it_shows() -> None:
    assert "<title>Bisection 20260304 · precision-bisect</title>" in page(name="20260304")
    assert "<h1>Bisection 20260304 cannot be shown</h1>" in page(name="20260304")


def test_hostile_text_adds_no_element_and_no_attribute() -> None:
    plain, hostile = (
        Seen(page(name=text, problem=text, sections=((text, "index.html"),))) for text in ("name", EVIL)
    )
    assert hostile.tags == plain.tags
    assert hostile.tags <= ELEMENTS
    assert hostile.attributes == plain.attributes
    assert hostile.links == plain.links


def test_hostile_text_is_shown_as_it_is_written() -> None:
    text = page(problem=EVIL)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{7*7}} {% x %} \\x1b[31m \\u202e" in text
    assert "\x1b" not in text


def test_a_page_can_hold_text_that_is_no_unicode() -> None:
    assert b">\\udcff</a>" in render(
        "unreadable.html.j2", HERE, (("\udcff", "index.html"),), name="", problem=""
    )


def test_sections_are_linked_from_where_the_page_lies() -> None:
    text = page(sections=(("Overview", "index.html"), ("This", HERE), ("Job", "jobs/nightly.html")))
    assert [*re.findall(r'<a href="([^"]+)"( aria-current="page")?>(\w+)</a>', text)] == [
        ("../index.html", "", "Overview"),
        ("x.html", ' aria-current="page"', "This"),
        ("../jobs/nightly.html", "", "Job"),
    ]


@pytest.mark.parametrize("element", ["style", "script"])
def test_the_policy_allows_a_page_s_own_style_and_script(element: str) -> None:
    text = page()
    (content,) = re.findall(f"<{element}>(.*?)</{element}>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    assert f"{element}-src 'sha256-{digest}'" in security_policy()
    assert security_policy().startswith("default-src 'none'; ")


def test_a_value_that_a_template_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'problem' is undefined"):
        render("unreadable.html.j2", HERE, (), name="name")


def test_each_judgement_has_a_sign() -> None:
    assert set(GLYPHS) == set(Judgement)


@pytest.mark.parametrize("status", CaseStatus)
def test_each_status_of_a_night_s_case_has_a_sign_a_colour_and_a_place(status: CaseStatus) -> None:
    assert STATUS_GLYPHS[status]
    assert STATUS_TONES[status]
    assert f".cell.{status}" in page()
    assert severity(status) in range(len(CaseStatus))
    assert result_line("case", "a2a3sim", "rest", status).spans
