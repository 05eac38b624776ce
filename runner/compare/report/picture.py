"""A heat map as PNG, SVG or HTML, written here: no plotting library, and nothing in a name can break out."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from ..kernels.elements import Array
from ..statistics.rows import HeatMap

CELL = 12
"""Side of a block in the picture, in pixels."""

_CLEAN = np.array([247, 247, 247])
_WRONG = np.array([178, 24, 43])
_WILD = np.array([118, 42, 131])

SUFFIXES = (".png", ".svg", ".html")


def write_picture(path: Path, maps: Sequence[tuple[str, HeatMap]]) -> None:
    """Write named maps to `path`: a page of all as .html, the first alone as .png or .svg.

    Raises:
        ValueError: another suffix.
    """
    name, first = maps[0]
    if path.suffix == ".html":
        path.write_text(_page(maps), encoding="utf-8")
    elif path.suffix == ".svg":
        path.write_text(svg(name, first), encoding="utf-8")
    elif path.suffix == ".png":
        path.write_bytes(png(first))
    else:
        raise ValueError(f"expected a picture named *{', *'.join(SUFFIXES)}, found {path.name}")


def colours(heat: HeatMap) -> Array:
    """(block rows, block columns, 3) bytes: from grey to red by the share of wrong elements, violet for NaN or Inf."""
    # The square root keeps a single wrong element of a block visible.
    depth = np.sqrt(heat.share_over)[..., None]
    mixed = _CLEAN + depth * (_WRONG - _CLEAN)
    return np.where((heat.wild > 0)[..., None], _WILD, np.rint(mixed)).astype(np.uint8)


def png(heat: HeatMap) -> bytes:
    """The map as an RGB image of `CELL` pixels a block (PNG specification, W3C 2003)."""
    pixels = np.repeat(np.repeat(colours(heat), CELL, axis=0), CELL, axis=1)
    height, width = pixels.shape[:2]
    unfiltered = np.zeros((height, 1 + 3 * width), np.uint8)
    unfiltered[:, 1:] = pixels.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(unfiltered.tobytes())), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, body) for kind, body in chunks)


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def svg(name: str, heat: HeatMap) -> str:
    """The map as an SVG image; every block says its rows, columns and errors when pointed at."""
    height, width = heat.share_over.shape
    shades = colours(heat)
    cells = "\n".join(_cell(heat, shades, i, j) for i in range(height) for j in range(width))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * CELL}" height="{height * CELL}" role="img">\n'
        f"<title>{_text(name)}</title>\n{cells}\n</svg>\n"
    )


def _cell(heat: HeatMap, shades: Array, i: int, j: int) -> str:
    red, green, blue = (int(part) for part in shades[i, j])
    top, left = i * heat.row_step, j * heat.column_step
    words = (
        f"rows {top}:{min(top + heat.row_step, heat.rows)}, "
        f"columns {left}:{min(left + heat.column_step, heat.columns)}: {heat.share_over[i, j]:.1%} wrong, "
        f"largest error {heat.max_error[i, j]:.3g}, {int(heat.wild[i, j])} NaN or Inf"
    )
    return (
        f'<rect x="{j * CELL}" y="{i * CELL}" width="{CELL}" height="{CELL}" fill="#{red:02x}{green:02x}{blue:02x}">'
        f"<title>{words}</title></rect>"
    )


def _page(maps: Sequence[tuple[str, HeatMap]]) -> str:
    parts = "\n".join(
        f"<h2>{_text(name)}</h2>\n<p>{heat.rows} rows, {heat.columns} columns; "
        f"a block is {heat.row_step} x {heat.column_step}</p>\n{svg(name, heat)}"
        for name, heat in maps
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>diff-tensors</title>'
        "<style>body{font-family:sans-serif;margin:2em}</style></head>\n<body>\n"
        "<p>Share of wrong elements by block: grey none, red all; violet holds NaN or Inf.</p>\n"
        f"{parts}\n</body>\n</html>\n"
    )


def _text(name: str) -> str:
    """`name` as the text of an element. XML has no place for control characters, escaped or not."""
    return escape("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in name))
