"""Pixels and their file: a heat map in the colours of the light mode, with the numbers of its axes."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from ..kernels.elements import Array
from .design import light_colour
from .heat_svg import BLOCK, HeatPicture, opacity

LEFT, TOP, BELOW = 52, 20, 26
"""Pixels around the map, for numbers and the scale."""

# Three by five pixels each, a row in three bits.
_GLYPHS = {
    "0": (7, 5, 5, 5, 7), "1": (2, 6, 2, 2, 7), "2": (7, 1, 7, 4, 7), "3": (7, 1, 7, 1, 7), "4": (5, 5, 7, 1, 1),
    "5": (7, 4, 7, 1, 7), "6": (7, 4, 7, 5, 7), "7": (7, 1, 1, 1, 1), "8": (7, 5, 7, 5, 7), "9": (7, 5, 7, 1, 7),
    "%": (5, 1, 2, 4, 5), "N": (7, 5, 5, 5, 5), "a": (0, 7, 1, 7, 7),
}  # fmt: skip
_ZOOM = 2
_GLYPH_WIDTH, _GLYPH_HEIGHT = 4 * _ZOOM, 5 * _ZOOM
_SCALE = (0.0, 0.25, 1.0)
_SCALE_STEP = 58


def block_colours(picture: HeatPicture) -> Array:
    """(block rows, block columns, 3) bytes: from clean to wrong by the share of wrong elements; NaN or Inf apart."""
    clean, wrong = np.array(light_colour("none")), np.array(light_colour("bad"))
    depth = np.array([[opacity(share) for share in row] for row in picture.share])
    mixed = clean + depth.reshape(picture.height, picture.width, 1) * (wrong - clean)
    wild = np.array(picture.wild).reshape(picture.height, picture.width, 1) > 0
    return np.where(wild, light_colour("focus"), np.rint(mixed)).astype(np.uint8)


def heat_pixels(picture: HeatPicture) -> Array:
    """(height, width, 3) bytes: the map with `BLOCK` pixels a block, numbers of rows and columns, and a scale below."""
    height = TOP + picture.height * BLOCK + BELOW
    width = LEFT + max(picture.width * BLOCK, 4 * _SCALE_STEP) + BLOCK
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[...] = light_colour("card")
    blocks = np.repeat(np.repeat(block_colours(picture), BLOCK, axis=0), BLOCK, axis=1)
    pixels[TOP : TOP + blocks.shape[0], LEFT : LEFT + blocks.shape[1]] = blocks
    for block, number in picture.ticks(down=False):
        _write(pixels, str(number), LEFT + block * BLOCK, TOP - _GLYPH_HEIGHT - 4)
    for block, number in picture.ticks(down=True):
        text = str(number)
        _write(pixels, text, LEFT - 4 - len(text) * _GLYPH_WIDTH, TOP + block * BLOCK + 1)
    _draw_scale(pixels, TOP + picture.height * BLOCK + 8)
    return pixels


def png(pixels: Array) -> bytes:
    """An RGB image (PNG specification, W3C 2003) of (height, width, 3) bytes."""
    height, width = pixels.shape[:2]
    unfiltered = np.zeros((height, 1 + 3 * width), np.uint8)
    unfiltered[:, 1:] = pixels.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(unfiltered.tobytes())), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _draw_scale(pixels: Array, top: int) -> None:
    shown = HeatPicture(
        rows=1,
        columns=len(_SCALE) + 1,
        row_step=1,
        column_step=1,
        share=[[*_SCALE, 0.0]],
        wild=[[0] * len(_SCALE) + [1]],
    )
    for place, (colour, words) in enumerate(
        zip(block_colours(shown)[0], (*(f"{share:.0%}" for share in _SCALE), "NaN"), strict=True)
    ):
        x = LEFT + place * _SCALE_STEP
        pixels[top : top + BLOCK, x : x + BLOCK] = colour
        _write(pixels, words, x + BLOCK + 4, top + 1)


def _write(pixels: Array, text: str, x: int, y: int) -> None:
    """Text in small pixels, its upper left corner at x, y; what lies outside of the picture is cut off."""
    ink = light_colour("soft")
    for place, character in enumerate(text):
        rows = np.array([[row >> 2 & 1, row >> 1 & 1, row & 1] for row in _GLYPHS[character]], bool)
        mask = np.repeat(np.repeat(rows, _ZOOM, axis=0), _ZOOM, axis=1)
        left = x + place * _GLYPH_WIDTH
        if left < 0:
            continue
        part = pixels[y : y + mask.shape[0], left : left + mask.shape[1]]
        part[mask[: part.shape[0], : part.shape[1]]] = ink
