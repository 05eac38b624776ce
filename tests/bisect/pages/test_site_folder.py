"""The site as files: complete links, nothing injected, the same bytes again, old pages left alone."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import delete

from precision_bisect.bisect.cli import main
from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.bisect.pages.site import write_site
from precision_bisect.runner.commit_diff import CommitDiff, FileStat, Hunk
from precision_bisect.store.tables import CommitRow
from precision_bisect.store.vocabulary import BisectionOutcome, Evidence, Phase, Verdict
from tests.bisect.drive.test_reducible import with_builds
from tests.bisect.report.conftest import (  # noqa: F401
    any_kind,
    culprit,
    ends_do_not_differ,
    interrupted,
    named,
    nothing_run,
    only_skipped,
    submodule_culprit,
)
from tests.bisect.report.stored_bisection import StoredBisection, described, sha
from tests.support.quick import quick_first

EVIL = (
    "</title></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>"
    "<a href=javascript:alert(4)> {{7*7}} {% x %} \x1b[31m \u202e"
)
_ELEMENTS = """
html head meta title link style body a header strong nav main p span h1 h2 h3 dl div dt dd b details summary ul ol li
pre code figure figcaption abbr svg g line rect path circle polyline text script table thead tbody tr th td footer
wbr label input
"""
ELEMENTS = frozenset(_ELEMENTS.split())


class Seen(HTMLParser):
    """What a page holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]


def written(directory: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


def check_pages(directory: Path) -> None:
    """Every page has only elements that the templates write, and links that lead to pages of the folder; but for task
    graphs, which `reduce` has drawn."""
    for file in sorted({*directory.rglob("*.html")} - {*directory.glob("bisections/*-tasks.html")}):
        seen = Seen(file.read_text(encoding="utf-8"))
        assert seen.tags <= ELEMENTS, file
        assert not [name for name in seen.attributes if name.startswith("on") or name == "style"], file
        assert len(seen.ids) == len(set(seen.ids)), file
        for link in seen.links:
            if link == "data:,":
                continue
            place, _, part = link.partition("#")
            assert ":" not in place, (file, link)
            target = (file.parent / place) if place else file
            assert target.resolve().is_relative_to(directory.resolve()), (file, link)
            assert target.is_file(), (file, link)
            if part:
                assert f'id="{part}"' in target.read_text(encoding="utf-8"), (file, link)


def test_every_kind_of_bisection_has_its_page(any_kind: StoredBisection, tmp_path: Path) -> None:  # noqa: F811
    site = tmp_path / "site"
    done = write_site(any_kind.sessions, site)
    files = written(site)
    assert done.pages == done.changed == len(files)
    check_pages(site)
    before = {name: (site / name).stat().st_mtime_ns for name in files}
    again = write_site(any_kind.sessions, site)
    assert again.changed == 0
    assert written(site) == files
    assert {name: (site / name).stat().st_mtime_ns for name in files} == before


def test_a_commit_without_a_page_is_named_and_not_linked(
    only_skipped: StoredBisection,  # noqa: F811
    tmp_path: Path,
) -> None:
    """A search lists each commit of its range, and the store describes only those that were run or named."""
    with only_skipped.sessions.begin() as session:
        session.execute(delete(CommitRow))
    write_site(only_skipped.sessions, tmp_path / "site")
    check_pages(tmp_path / "site")
    (page,) = (tmp_path / "site/bisections").glob("*.html")
    assert re.search(r'<span class="mono">[0-9a-f]+</span>', page.read_text(encoding="utf-8"))


def test_the_page_says_what_broke_and_how_sure(culprit: StoredBisection, tmp_path: Path) -> None:  # noqa: F811
    write_site(culprit.sessions, tmp_path / "site")
    page = next((tmp_path / "site/bisections").glob("*.html")).read_text(encoding="utf-8")
    assert re.search(r"<h1>Subject of c5</h1>", page)
    assert "at <b>99.93 %</b> confidence" in page
    # One commit has nearly all of it: a list says so, a chart would be a single bar.
    assert "How probable each commit is" in page
    assert page.count('class="bar"') == 0
    assert "runtime: no rule to make target" in page


def test_the_page_says_on_what_the_answer_rests(culprit: StoredBisection, tmp_path: Path) -> None:  # noqa: F811
    write_site(culprit.sessions, tmp_path / "site")
    page = next((tmp_path / "site/bisections").glob("*.html")).read_text(encoding="utf-8")
    basis = culprit.report().confidence_basis
    assert basis is not None
    assert f"What the answer rests on: {basis.text.partition('.')[0]}" in page


def test_a_narrow_screen_shows_how_probable_suspects_are(
    only_skipped: StoredBisection,  # noqa: F811
    tmp_path: Path,
) -> None:
    """It stands beside the commit, before what may be long."""
    write_site(only_skipped.sessions, tmp_path / "site")
    page = next((tmp_path / "site/bisections").glob("*.html")).read_text(encoding="utf-8")
    suspects = page[page.index('aria-label="Suspects"') :]
    assert re.findall(r"<th scope=.col.[^>]*>(\w+)</th>", suspects)[:4] == [
        "Commit",
        "Probability",
        "Subject",
        "Date",
    ]


def test_the_answer_comes_first_and_charts_behind_it(culprit: StoredBisection, tmp_path: Path) -> None:  # noqa: F811
    report = culprit.request.output
    report.mkdir()
    (report / "divergence.json").write_text(DIVERGENCE_OF_EVIL, encoding="utf-8")
    with_builds(culprit, tmp_path)
    write_site(culprit.sessions, tmp_path / "site")
    page = next((tmp_path / "site/bisections").glob("*.html")).read_text(encoding="utf-8")
    order = [
        "<h1>",
        "First divergent tensor",
        'class="heat"',
        "See it again",
        "<h2>Reduce it</h2>",
        f"reduce --bisection {culprit.name} ",
        "<h3>How probable",
        "<h2>Runs</h2>",
    ]
    places = [page.index(part) for part in order]
    assert places == sorted(places)
    assert re.search(r'<span class="generated">Generated \d{4}-\d\d-\d\d \d\d:\d\d UTC</span>', page)
    listed = (tmp_path / "site/bisections.html").read_text(encoding="utf-8")
    assert "by Ada Example" in listed


def test_of_ends_that_do_not_differ_the_page_says_what_they_showed_and_what_to_check(
    ends_do_not_differ: StoredBisection,  # noqa: F811
    tmp_path: Path,
) -> None:
    """And not how probable each commit is, of which none was searched."""
    write_site(ends_do_not_differ.sessions, tmp_path / "site")
    (page,) = (tmp_path / "site" / "bisections").glob("*.html")
    text = page.read_text()
    assert f"bad {sha('c1')[:12]}: pass in 8 runs" in text
    assert "the bad end passes on a2a3sim, device 0" in text
    assert text.index("What to check") < text.index("Every run of every tested commit")
    assert "How probable each commit is" not in text


def test_a_range_in_which_several_may_be_has_a_chart(tmp_path: Path) -> None:
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c4"))
    stage = stored.stage(
        [(described(f"c{place}", [f"c{place - 1}"]), sha(f"c{place}")) for place in range(1, 5)],
        good=sha("c0"),
        bad=sha("c4"),
    )
    for name, verdict in {"c0": Verdict.PASS, "c4": Verdict.MISMATCH}.items():
        stored.probe(stage, sha(name), verdict, phase=Phase.ENDPOINT)
    write_site(stored.sessions, tmp_path / "site")
    page = next((tmp_path / "site/bisections").glob("*.html")).read_text(encoding="utf-8")
    assert page.count('class="bar"') == 4
    assert page.count("<title>Probability") == 1


def test_text_of_others_injects_nothing(tmp_path: Path) -> None:
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c1"), case="examples/<b>x</b>.py")
    stage = stored.stage(
        [(described("c1", ["c0"], subject=EVIL, author=EVIL, files=(EVIL,)), sha("c1"))],
        good=sha("c0"),
        bad=sha("c1"),
    )
    changes: dict[str, Any] = {
        "signature": EVIL,
        "metrics": {EVIL: {EVIL: 3.0, "nan": float("nan"), "inf": float("inf")}},
        "evidence": [Evidence(stream="stdout", line=7, text=EVIL, why=EVIL)],
        "environment": {EVIL: EVIL},
        "host": EVIL,
        "command": (EVIL,),
        "artifacts": {"build_directory": (EVIL, 1)},
    }
    for _ in range(3):
        stored.probe(stage, sha("c0"), Verdict.PASS, phase=Phase.ENDPOINT)
        stored.probe(stage, sha("c1"), Verdict.MISMATCH, phase=Phase.ENDPOINT, **changes)
    stored.journal.add_notice(EVIL)
    diff = CommitDiff(
        commit=sha("c1"),
        parent=sha("c0"),
        files=(FileStat(path=EVIL, added=1, removed=0),),
        changed_files=1,
        added=1,
        removed=0,
        hunks=(Hunk(path=EVIL, header=f"@@ -1 +1 @@ {EVIL}", lines=(f"+    {EVIL}",)),),
    )
    stored.conclude(
        Conclusion(
            outcome=BisectionOutcome.CULPRIT, message=EVIL, culprits=(named("c1", "c0"),), diffs=(diff,)
        )
    )
    report = stored.request.output
    report.mkdir()
    (report / "divergence.json").write_text(DIVERGENCE_OF_EVIL, encoding="utf-8")
    write_site(stored.sessions, tmp_path / "site")
    check_pages(tmp_path / "site")
    page = next((tmp_path / "site/bisections").glob("*.html")).read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in page
    assert "{{7*7}}" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "First divergent tensor" in page
    assert "+    &lt;/title&gt;" in page
    assert "Against its parent." in page
    assert page.count('class="wrong"') == page.count('class="wild"') == 1


def _divergence_of_evil() -> str:
    import json

    tensor = dict.fromkeys(("task_id", "kernel", "orchestration_source", "tensor", "reason"), EVIL)
    statistics = {
        "dtype": EVIL, "shape": [2, 3], "elements": 6, "different": 2, "max_error": 1.0, "max_ulps": 9, "nan": 1,
        "inf": 0, "rows": 2, "rows_different": 1, "first_rows_different": [1],
        "heat": {"rows": 2, "columns": 3, "row_step": 1, "column_step": 1, "wrong": [[0, 0.5, 0], [0, 0, 1]],
                 "wild": [[0, 0, 0], [0, 0, 2]]},
    }  # fmt: skip
    pattern = {"name": EVIL, "confidence": 0.9, "evidence": EVIL}
    more = {"kernel_sources": [EVIL], "orchestration_lines": [3], "argument": 1}
    found = tensor | more | {"pattern": pattern, "statistics": statistics}
    return json.dumps({"failing_build": EVIL, "first_divergent": [found]})


DIVERGENCE_OF_EVIL = _divergence_of_evil()


HUGE_MAP = DIVERGENCE_OF_EVIL.replace("[[0, 0.5, 0]", "[" + "[0], " * 100 + "[0]")


@pytest.mark.parametrize("text", quick_first(["{", "[]", '{"first_divergent": 3}', "[" * 100_000, HUGE_MAP]))
def test_a_broken_divergence_takes_no_page_away(text: str, culprit: StoredBisection, tmp_path: Path) -> None:  # noqa: F811
    culprit.request.output.mkdir()
    (culprit.request.output / "divergence.json").write_text(text)
    write_site(culprit.sessions, tmp_path / "site")
    assert "First divergent" not in next((tmp_path / "site/bisections").glob("*.html")).read_text()


def test_the_command_writes_the_site_and_reads_only(culprit: StoredBisection, tmp_path: Path) -> None:  # noqa: F811
    site = tmp_path / "site"
    done = CliRunner().invoke(main, ["report", "--html", str(site), "--store", culprit.url])
    assert done.exit_code == 0, done.output
    assert (site / "index.html").is_file()
    both = CliRunner().invoke(main, ["report", culprit.name, "--html", str(site), "--store", culprit.url])
    assert both.exit_code == 2
    nowhere = CliRunner().invoke(main, ["report", "--html", "/dev/null/x", "--store", culprit.url])
    assert nowhere.exit_code == 1
    assert "expected a folder" in nowhere.output
