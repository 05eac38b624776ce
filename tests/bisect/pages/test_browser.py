"""The pages in Chromium: quiet, readable in light and dark, on a phone, by keyboard; text of others stays text."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.site.browser import DESKTOP, PHONE, Browser
from precision_bisect.bisect.pages.serve import SiteServer
from precision_bisect.bisect.pages.site import write_site
from precision_bisect.reduce.localize.localization_text import page as graph_page
from precision_bisect.runner.compare.diff_report import write_picture
from precision_bisect.runner.compare.statistics import Tolerance, heat_map
from precision_bisect.store.database import open_read_only
from tests.bisect.pages.test_night_pages import fill_with_incident
from tests.bisect.pages.test_site_folder import DIVERGENCE_OF_EVIL, ELEMENTS
from tests.bisect.report.conftest import culprit  # noqa: F401
from tests.bisect.report.stored_bisection import StoredBisection
from tests.runner.compare.tensor_makers import view_of
from tests.support.quick import quick_first

Keys = pytest.importorskip("selenium.webdriver.common.keys", reason="selenium is not installed").Keys
PAGES = {
    "overview": "index.html",
    "bisections": "bisections.html",
    "bisection": "bisections/*.html",
    "job": "jobs/nightly-??????????.html",
    "month": "jobs/nightly-*-2025-01.html",
    "case": "jobs/*/case-1.html",
    "open incident": "jobs/*/incident-3.html",
    "closed incident": "jobs/*/incident-1.html",
    "commit": "commits/*/*.html",
}
# The ratio of WCAG 2.1, section 1.4.3, between each text and what is painted behind it.
CONTRAST = """
const channels = (css) => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  canvas.fillStyle = css;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
  .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const known = new Map();
const lightOf = (css) => known.get(css) ?? (known.set(css, light(channels(css))), known.get(css));
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let worst = [99, ""];
while (walker.nextNode()) {
  const text = walker.currentNode, element = text.parentElement;
  if (!text.data.trim() || !element.checkVisibility() || element.closest("script,title")) continue;
  let behind = element;
  while (behind && getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const style = getComputedStyle(element);
  const ink = lightOf(element.closest("svg") ? style.fill : style.color);
  const paper = lightOf(getComputedStyle(behind ?? document.body).backgroundColor);
  const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  if (ratio < worst[0]) worst = [ratio, text.data.trim().slice(0, 60)];
}
return worst;
"""
FOCUSED = "const e = document.activeElement; return [e.tagName, e.getAttribute('href') ?? '', e.className]"


@pytest.mark.parametrize("kind", quick_first(PAGES))
def test_every_kind_of_page(kind: str, browser: Browser, site: Path) -> None:
    page = max(site.glob(PAGES[kind]), key=lambda file: file.stat().st_size)
    browser.complaints()
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        browser.size(DESKTOP)
        browser.open(page)
        ratio, text = browser.ask(CONTRAST)
        assert ratio >= 4.5, (scheme, text)
    browser.size(PHONE)
    assert browser.ask("return document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
    # All of it is in the file: nothing was asked of any network.
    assert browser.ask("return performance.getEntriesByType('resource').map((each) => each.name)") == []
    assert browser.complaints() == []
    browser.size(DESKTOP)


def a_picture(folder: Path) -> Path:
    """The page of two heat maps, one of them with NaN."""
    expected, actual = torch.zeros(64, 640), torch.zeros(64, 640)
    actual[3:9, 100:400] = 1
    spoiled = actual.clone()
    spoiled[40] = float("nan")
    maps = [
        (name, heat_map(view_of(tensor), view_of(expected), Tolerance(), height=24, width=64))
        for name, tensor in (
            ("out/y", actual),
            ("a name of no mean length that has to break somewhere", spoiled),
        )
    ]
    write_picture(folder / "map.html", maps)
    return folder / "map.html"


def a_task_graph(folder: Path) -> Path:
    """A chain of tasks, the second of which is the first divergent one."""
    tasks: Any = SimpleNamespace(
        tasks=[
            SimpleNamespace(ordinal=number, name=f"kernel_{number}", task=SimpleNamespace(task_id=number))
            for number in range(5)
        ],
        predecessors=[{number - 1} if number else set() for number in range(5)],
    )
    text = graph_page(tasks, firsts={1}, seen={0: 0.0, 1: 0.5, 2: 0.01}, compared=range(5))
    (folder / "task_graph.html").write_text(text, encoding="utf-8")
    return folder / "task_graph.html"


DESIGN = """
const style = getComputedStyle(document.body);
const heading = getComputedStyle(document.querySelector("h1"));
const drawn = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
return [style.backgroundColor, style.color, style.fontFamily, heading.fontFamily, heading.color,
        ...["--bad", "--good", "--focus", "--card", "--none"].map(drawn)];
"""


def test_pictures_and_task_graphs_have_the_design_of_the_site(
    browser: Browser, site: Path, tmp_path: Path
) -> None:
    pages = [site / "index.html", a_picture(tmp_path), a_task_graph(tmp_path)]
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        designs: list[list[str]] = []
        for page in pages:
            browser.open(page)
            designs.append(browser.ask(DESIGN))
        assert all(designs[0]), designs[0]
        assert designs[1] == designs[0]
        assert designs[2] == designs[0]


@pytest.mark.parametrize("make", [a_picture, a_task_graph])
def test_pictures_and_task_graphs_are_pages_like_the_others(
    make: Callable[[Path], Path], browser: Browser, tmp_path: Path
) -> None:
    page = make(tmp_path)
    browser.complaints()
    papers: list[str] = []
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        for size in (DESKTOP, PHONE):
            browser.size(size)
            browser.open(page)
            ratio, text = browser.ask(CONTRAST)
            assert ratio >= 4.5, (scheme, text)
            assert browser.ask("return document.documentElement.scrollWidth <= innerWidth"), (
                "it scrolls sideways"
            )
        papers.append(browser.ask("return getComputedStyle(document.body).backgroundColor"))
    assert papers[0] != papers[1]
    assert browser.complaints() == []
    browser.size(DESKTOP)


def test_a_task_graph_is_zoomed_without_a_wheel_or_keys(browser: Browser, tmp_path: Path) -> None:
    browser.size(PHONE)
    browser.open(a_task_graph(tmp_path))
    press = "document.getElementById(arguments[0]).click(); return scale"
    first = browser.ask("return scale")
    assert browser.ask(press, "closer") > first
    assert browser.ask(press, "farther") == pytest.approx(first)
    browser.ask(press, "farther")
    assert browser.ask(press, "all") == pytest.approx(first)
    browser.size(DESKTOP)


@pytest.mark.long
def test_the_keyboard_reaches_everything_in_a_sensible_order(browser: Browser, site: Path) -> None:
    browser.open(site / "index.html")
    browser.press(Keys.TAB)
    assert browser.ask(FOCUSED)[1:] == ["#content", "jump"]
    browser.press(Keys.ENTER, Keys.TAB)
    assert browser.ask(FOCUSED)[1].startswith("jobs/")  # behind the navigation
    # The focus never goes back up the page, and shows.
    seen: list[float] = []
    while browser.ask("return document.activeElement !== document.body") and len(seen) < 60:
        top, visible = browser.ask(
            "const e = document.activeElement; return [e.getBoundingClientRect().top + scrollY,"
            " getComputedStyle(e).outlineStyle !== 'none']"
        )
        assert visible
        seen.append(top)
        browser.press(Keys.TAB)
    assert seen == sorted(seen)
    assert len(seen) < 20  # the grid's 180 cells are one stop


def test_arrow_keys_move_in_the_grid_and_enter_opens(browser: Browser, site: Path) -> None:
    browser.open(site / "index.html")
    browser.ask("document.querySelector('table.grid tbody a').focus()")
    place = "const c = document.activeElement.closest('th,td'); return [c.parentElement.sectionRowIndex, c.cellIndex]"
    steps = [
        (Keys.ARROW_RIGHT, [0, 1]),
        (Keys.ARROW_DOWN, [1, 1]),
        (Keys.END, [1, 30]),
        (Keys.ARROW_RIGHT, [1, 30]),  # the edge
        (Keys.HOME, [1, 0]),
        (Keys.ARROW_UP, [0, 0]),
        (Keys.ARROW_UP, [0, 0]),
        (Keys.ARROW_RIGHT, [0, 1]),
    ]
    for key, wanted in steps:
        browser.press(key)
        assert browser.ask(place) == wanted, key
    assert browser.ask("return document.querySelectorAll('table.grid a[tabindex=\"0\"]').length") == 1
    wanted = browser.ask("return document.activeElement.href")
    browser.press(Keys.ENTER)
    assert browser.driver.current_url == wanted


NEWEST = """
const newest = document.querySelector("[data-newest]").getBoundingClientRect();
const name = document.querySelector("table.grid tbody th").getBoundingClientRect();
return [name.right, newest.left, newest.right, innerWidth, document.documentElement.scrollTop];
"""


@pytest.mark.parametrize("size", [PHONE, (390, 844), DESKTOP])
def test_the_newest_night_of_a_calendar_is_in_sight(
    browser: Browser, site: Path, size: tuple[int, int]
) -> None:
    """Whatever its day, and how narrow the window; the first night of that month is where the Home key leads."""
    browser.size(size)
    browser.open(next(site.glob(PAGES["case"])))
    name, left, right, width, down = browser.ask(NEWEST)
    assert name <= left < right <= width
    assert down == 0
    browser.ask("document.querySelector('table.grid [tabindex=\"0\"]').focus()")
    assert browser.ask("return document.activeElement.matches('[data-newest]')")
    browser.press(Keys.HOME)
    assert browser.ask("return document.activeElement.getAttribute('href')") == "#night-31"
    browser.size(DESKTOP)


def test_a_filter_leaves_the_bisections_that_have_its_text(browser: Browser, site: Path) -> None:
    browser.open(site / "bisections.html")
    shown = "return [...document.querySelectorAll('.list > li')].filter((e) => e.checkVisibility()).length"
    every = browser.ask(shown)
    browser.ask("document.getElementById('filter').focus()")
    browser.press("No such text")
    assert (every > 0, browser.ask(shown)) == (True, 0)
    browser.press(*[Keys.BACKSPACE] * len("No such text"))
    assert browser.ask(shown) == every


def test_text_of_others_runs_nothing(browser: Browser, culprit: StoredBisection, tmp_path: Path) -> None:  # noqa: F811
    fill_with_incident(culprit)
    report = culprit.request.output
    report.mkdir()
    (report / "divergence.json").write_text(DIVERGENCE_OF_EVIL, encoding="utf-8")
    write_site(culprit.sessions, tmp_path / "site")
    browser.complaints()
    hostile = 0
    for page in sorted((tmp_path / "site").rglob("*.html")):
        browser.open(page)  # an open alert makes every later command fail
        tags, handlers, text = browser.ask(
            "const all = [...document.querySelectorAll('*')];"
            "return [all.map((e) => e.localName), all.flatMap((e) => [...e.attributes])"
            ".filter((a) => a.name.startsWith('on') || a.value.trim().startsWith('javascript:')).length,"
            " document.documentElement.textContent]"
        )
        assert set(tags) <= ELEMENTS | {"title"}, page
        assert tags.count("script") == 1, page
        assert handlers == 0, page
        hostile += "<script>alert(1)</script>" in text
    assert hostile > 4  # the text was there, as text
    assert browser.complaints() == []


def test_the_policy_stops_what_escaping_would_have_missed(
    browser: Browser,
    culprit: StoredBisection,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Also the proof that these tests would see an injection: without the policy it happens."""
    write_site(culprit.sessions, tmp_path / "site")
    page = tmp_path / "site" / "index.html"
    injected = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script></body>"
    page.write_text(page.read_text().replace("</body>", injected))
    browser.open(page)
    assert browser.driver.title != "owned"
    assert any("Content Security Policy" in complaint for complaint in browser.complaints())
    page.write_text(page.read_text().replace("Content-Security-Policy", "x-nothing"))
    browser.open(page)
    assert browser.driver.title == "owned"
    browser.complaints()


def test_served_pages_are_the_same(browser: Browser, culprit: StoredBisection) -> None:  # noqa: F811
    browser.complaints()
    with SiteServer(open_read_only(culprit.url), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            browser.open(f"http://127.0.0.1:{server.server_port}/")
            assert "Subject of c5" in browser.ask("return document.body.textContent")
            browser.ask("document.querySelector('.list a').click()")
            assert "Subject of c5" in browser.driver.title or "softmax" in browser.driver.title
            assert browser.complaints() == []
        finally:
            server.shutdown()
            thread.join()
