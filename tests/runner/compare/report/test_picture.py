"""Pictures are well-formed whatever the names, and show what the map holds."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.runner.compare.report.picture import CELL, colours, png, svg, write_picture
from precision_bisect.runner.compare.statistics.rows import HeatMap, heat_map
from precision_bisect.runner.compare.statistics.statistics import Tolerance
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
    root = ET.fromstring(svg(name, spoiled_map()))
    assert len(root) == 1 + 4 * 6


def read_png(data: bytes) -> np.ndarray:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        at += 12 + length
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, colour) == (8, 2)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_png_holds_the_colours() -> None:
    heat = spoiled_map()
    pixels = read_png(png(heat))
    assert pixels.shape == (4 * CELL, 6 * CELL, 3)
    assert (pixels[CELL // 2 :: CELL, CELL // 2 :: CELL] == colours(heat)).all()
    clean, wrong, wild = colours(heat)[1, 1], colours(heat)[0, 0], colours(heat)[3, 5]
    assert clean[0] == clean[1] == clean[2]
    assert wrong[0] > 2 * wrong[1]
    assert wild[2] > wild[1]


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.png"):
        write_picture(tmp_path / "map.gif", [("x", spoiled_map())])
