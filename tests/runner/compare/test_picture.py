"""Pictures are well-formed whatever the names, and show what the map holds."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.runner.compare.diff_report import (
    BLOCK,
    LEFT,
    TOP,
    HeatPicture,
    draw_picture,
    heat_svg,
    write_picture,
)
from precision_bisect.runner.compare.statistics import HeatMap, Tolerance, heat_map
from tests.runner.compare.tensor_makers import view_of
from tests.support.quick import examples

HOSTILE = [
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<![CDATA[x]]>",
    "&lt;&#60;",
    "\x00\x1b[31m\ud800",
    "]]><!--",
]


def spoiled_map() -> HeatMap:
    expected = torch.randn(32, 48)
    actual = expected.clone()
    actual[0:8, 0:8] += 1.0
    actual[31, 47] = float("nan")
    return heat_map(view_of(actual), view_of(expected), Tolerance(), height=4, width=6)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, [name for name, _ in attrs]))


def tags(page: str) -> list[tuple[str, list[str]]]:
    parser = Tags()
    parser.feed(page)
    return parser.seen


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_break_out(tmp_path: Path, name: str) -> None:
    heat = spoiled_map()
    harmless = {}
    for label, suffix in ((name, ".html"), (name, ".svg"), ("x", ".html"), ("x", ".svg")):
        path = tmp_path / f"map{suffix}"
        write_picture(path, [(label, heat)])
        text = path.read_text(encoding="utf-8")
        harmless.setdefault(suffix, []).append(tags(text))
        if suffix == ".svg":
            ET.fromstring(text)
    for hostile, plain in harmless.values():
        assert hostile == plain


@settings(max_examples=examples(100), deadline=None)
@given(st.text())
def test_any_name_leaves_well_formed_xml(name: str) -> None:
    root = ET.fromstring(heat_svg(name, draw_picture(spoiled_map())))
    classes = [element.get("class") for element in root.iter() if element.tag.endswith("rect")]
    assert sorted(filter(None, classes)) == ["clean", "wild", "wrong"]


def texts(picture: HeatPicture) -> list[str]:
    root = ET.fromstring(heat_svg("map", picture))
    return [element.text or "" for element in root.iter() if element.tag.endswith("text")]


def test_axes_have_numbers_and_the_scale_says_what_it_shows() -> None:
    blocks = [[0.0] * 20 for _ in range(9)]
    found = texts(
        HeatPicture(rows=70, columns=2500, row_step=8, column_step=128, share=blocks, wild=[[0] * 20] * 9)
    )
    assert found[:2] == ["column", "row"]
    columns, rows = ["0", "1024", "2048"], ["0", "32", "64"]
    assert found[2:8] == [*columns, *rows]
    assert found[8:] == ["share of wrong elements, by 8 x 128", "0%", "25%", "100%", "NaN, Inf"]


def test_a_block_says_its_place_and_errors_where_it_stands() -> None:
    picture = HeatPicture(
        rows=5, columns=7, row_step=4, column_step=4, share=[[0, 0], [0, 0.5]], wild=[[0, 0], [0, 2]],
        error=[[0, 0], [0, 1.25]],
    )  # fmt: skip
    root = ET.fromstring(heat_svg("map", picture))
    (wild,) = (each for each in root.iter() if each.get("class") == "wild")
    assert (wild.get("x"), wild.get("y")) == (str(LEFT + BLOCK), str(TOP + BLOCK))
    assert wild[0].text == "rows 4 to 4, columns 4 to 6: 50.0% wrong, largest error 1.25, 2 NaN or Inf"


def test_pictures_have_both_modes_and_say_when_they_were_made(tmp_path: Path) -> None:
    for suffix in (".html", ".svg"):
        path = tmp_path / f"map{suffix}"
        write_picture(path, [("y", spoiled_map())])
        assert "prefers-color-scheme:dark" in path.read_text(encoding="utf-8")
    assert "Generated 20" in (tmp_path / "map.html").read_text(encoding="utf-8")


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.svg"):
        write_picture(tmp_path / "map.png", [("x", spoiled_map())])
