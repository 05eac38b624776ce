"""Draws heat maps as SVG or HTML, without a plotting library, and so that no tensor's name can inject markup.

`heat_svg` draws a map with axes and a scale: for a page of the site, for a picture's page, or alone. `style` returns
the one style sheet of all pages and pictures, with the colours of both modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path

from ...store.vocabulary import plural
from .diff_report import printable
from .statistics import HeatMap

_PACKAGE = "precision_bisect.runner.compare"


@cache
def style() -> str:
    """Return the style sheet. A page may add rules of its own after it."""
    return resources.files(_PACKAGE).joinpath("design.css").read_text(encoding="utf-8").strip()


BLOCK = 12
"""A block of the map has sides of this many pixels."""
LEFT, TOP = 68, 40
"""The map begins at this place, in pixels. The numbers of its axes stand left of it and above."""

_SCALE_HEIGHT = 52
"""The scale below the map takes this height, in pixels."""
_SCALE_STEP = 92
"""The entries of the scale stand this far apart, in pixels, so that their labels do not touch."""
_SCALE = (0.0, 0.25, 1.0)
"""The scale shows these shares of wrong elements: none, a quarter, and all."""
_ROW_GAP, _COLUMN_GAP = 36, 72
"""Two numbers of an axis are at least this far apart, in pixels."""
_FAINTEST = 0.18
"""A wrong block has at least this opacity. A block with a single wrong element has to be visible."""


@dataclass(frozen=True, kw_only=True)
class HeatPicture:
    """Says where a matrix is wrong, by blocks of `row_step` x `column_step` elements.

    `share` and `wild` have one entry a block, row by row. `share` is the share of wrong elements (0 to 1), and `wild`
    the number of pairs that hold NaN or Inf. `error` has the largest errors where they are known.
    """

    rows: int
    columns: int
    row_step: int
    column_step: int
    share: Sequence[Sequence[float]]
    wild: Sequence[Sequence[int]]
    error: Sequence[Sequence[float]] | None = None

    @property
    def height(self) -> int:
        """Return the number of block rows."""
        return len(self.share)

    @property
    def width(self) -> int:
        """Return the number of block columns."""
        return len(self.share[0]) if self.share else 0

    def ticks(self, *, down: bool) -> list[tuple[int, int]]:
        """Return the blocks that get a number, and the number: of the first row (or column) of the block."""
        blocks, step = (self.height, self.row_step) if down else (self.width, self.column_step)
        every = 1
        while every * BLOCK < (_ROW_GAP if down else _COLUMN_GAP):
            every *= 2
        return [(block, block * step) for block in range(0, blocks, every)]


def opacity(share: float) -> float:
    """Return how strongly a block is painted. The square root keeps a single wrong element visible."""
    return 0.0 if share <= 0 else max(_FAINTEST, min(share, 1.0) ** 0.5)


def heat_svg(name: str, picture: HeatPicture, *, style: str = "") -> str:
    """Return the map as an `svg` element of class `heat`. Every wrong block shows its place and errors when pointed at.

    The page's style sheet colours it. A map that stands alone brings the style sheet as `style`.
    """
    width = max(LEFT + picture.width * BLOCK + BLOCK, LEFT + (len(_SCALE) + 1) * _SCALE_STEP)
    height = TOP + picture.height * BLOCK + _SCALE_HEIGHT
    sheet = f"<style>{escape(style, quote=False)}</style>\n" if style else ""
    paper = f'<rect class="paper" width="{width}" height="{height}"/>\n' if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="heat" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{_text(name)}">\n{sheet}<title>{_text(name)}</title>\n'
        f"{paper}{_axes(picture)}\n{_blocks(picture)}\n{_scale(picture)}\n</svg>"
    )


def _axes(picture: HeatPicture) -> str:
    right, bottom = LEFT + picture.width * BLOCK, TOP + picture.height * BLOCK
    parts = [
        f'<text x="{LEFT}" y="13">column</text>',
        f'<text x="12" y="{TOP}" text-anchor="end" transform="rotate(-90 12 {TOP})">row</text>',
        f'<path class="mark" fill="none" d="M{LEFT - 0.5} {bottom}V{TOP - 0.5}H{right}"/>',
    ]
    for block, number in picture.ticks(down=False):
        x = LEFT + block * BLOCK + BLOCK // 2
        parts.append(f'<path class="mark" d="M{x} {TOP - 4}v4"/>')
        anchor = "start" if block == 0 else "middle"
        parts.append(f'<text x="{x if block else LEFT}" y="{TOP - 7}" text-anchor="{anchor}">{number}</text>')
    for block, number in picture.ticks(down=True):
        y = TOP + block * BLOCK + BLOCK // 2
        parts.append(f'<path class="mark" d="M{LEFT - 4} {y}h4"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 4}" text-anchor="end">{number}</text>')
    return "<g>" + "\n".join(parts) + "</g>"


def _blocks(picture: HeatPicture) -> str:
    clean = (
        f'<rect class="clean" x="{LEFT}" y="{TOP}" width="{picture.width * BLOCK}" '
        f'height="{picture.height * BLOCK}"/>'
    )
    cells = [
        _cell(picture, i, j, share=share, wild=wild)
        for i, (shares, wilds) in enumerate(zip(picture.share, picture.wild, strict=False))
        for j, (share, wild) in enumerate(zip(shares, wilds, strict=False))
        if share > 0 or wild > 0
    ]
    return "\n".join(("<g>", clean, *cells, "</g>"))


def _cell(picture: HeatPicture, i: int, j: int, *, share: float, wild: int) -> str:
    top, left = i * picture.row_step, j * picture.column_step
    last_row = min(top + picture.row_step, picture.rows) - 1
    last_column = min(left + picture.column_step, picture.columns) - 1
    words = f"rows {top} to {last_row}, columns {left} to {last_column}: {share:.1%} wrong"
    if picture.error is not None:
        words += f", largest error {picture.error[i][j]:.3g}"
    if wild:
        words += f", {wild} NaN or Inf"
    kind, strength = ("wild", 1.0) if wild else ("wrong", opacity(share))
    return (
        f'<rect class="{kind}" x="{LEFT + j * BLOCK}" y="{TOP + i * BLOCK}" width="{BLOCK - 1}" '
        f'height="{BLOCK - 1}" fill-opacity="{strength:.2f}"><title>{words}</title></rect>'
    )


def _scale(picture: HeatPicture) -> str:
    top = TOP + picture.height * BLOCK + 22
    words = f"share of wrong elements, by {picture.row_step} x {picture.column_step}"
    parts = [f'<text x="{LEFT}" y="{top - 4}">{words}</text>']
    for place, share in enumerate(_SCALE):
        x = LEFT + place * _SCALE_STEP
        parts.append(f'<path class="clean key" d="M{x} {top + 4}h14v14h-14z"/>')
        parts.append(
            f'<path class="wrong key" d="M{x} {top + 4}h14v14h-14z" fill-opacity="{opacity(share):.2f}"/>'
        )
        parts.append(f'<text x="{x + 19}" y="{top + 16}">{share:.0%}</text>')
    x = LEFT + len(_SCALE) * _SCALE_STEP
    parts.append(f'<path class="wild key" d="M{x} {top + 4}h14v14h-14z"/>')
    parts.append(f'<text x="{x + 19}" y="{top + 16}">NaN, Inf</text>')
    return "<g>" + "\n".join(parts) + "</g>"


def _text(name: str) -> str:
    """Return `name` as text. XML has no place for control characters, escaped or not."""
    return escape("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in name))


SUFFIXES = (".svg", ".html")


def write_picture(path: Path, maps: Sequence[tuple[str, HeatMap]]) -> None:
    """Write named maps to `path`: a page of all as .html, the first alone as .svg.

    Raises:
        ValueError: another suffix.
        OSError: the file cannot be written.
    """
    name, first = maps[0]
    if path.suffix == ".html":
        path.write_text(_page(maps, generated=datetime.now(UTC)), encoding="utf-8")
    elif path.suffix == ".svg":
        path.write_text(heat_svg(name, draw_picture(first), style=style()) + "\n", encoding="utf-8")
    else:
        raise ValueError(f"expected a picture named *{', *'.join(SUFFIXES)}, found {path.name}")


def draw_picture(heat: HeatMap) -> HeatPicture:
    """Return a heat map as it is drawn."""
    return HeatPicture(
        rows=heat.rows,
        columns=heat.columns,
        row_step=heat.row_step,
        column_step=heat.column_step,
        share=heat.share_over.tolist(),
        wild=heat.wild.tolist(),
        error=heat.max_error.tolist(),
    )


def _shape(heat: HeatMap) -> str:
    return f"{plural(heat.rows, 'row')}, {plural(heat.columns, 'column')}"


def _page(maps: Sequence[tuple[str, HeatMap]], *, generated: datetime) -> str:
    parts = "\n".join(
        f'<h2>{escape(printable(name))}</h2>\n<p class="soft">{_shape(heat)}</p>\n'
        f'<figure><div class="scroll">{heat_svg(name, draw_picture(heat))}</div></figure>'
        for name, heat in maps
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<title>diff-tensors · precision-bisect</title>\n"
        f"<style>{style()}</style>\n</head>\n<body>\n"
        "<header><strong>precision-bisect</strong> diff-tensors</header>\n"
        f"<main>\n<h1>Where the tensors differ</h1>\n{parts}\n</main>\n"
        f"<footer>Generated {generated:%Y-%m-%d %H:%M} UTC.</footer>\n</body>\n</html>\n"
    )
