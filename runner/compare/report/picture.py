"""Heat maps as PNG, SVG or HTML, written here: no plotting library, and nothing in a name can break out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from ....store.words import plural
from ..statistics.rows import HeatMap
from .design import style
from .diff_text import printable
from .heat_svg import HeatPicture, heat_svg
from .png import heat_pixels, png

SUFFIXES = (".png", ".svg", ".html")


def write_picture(path: Path, maps: Sequence[tuple[str, HeatMap]]) -> None:
    """Write named maps to `path`: a page of all as .html, the first alone as .png or .svg.

    Raises:
        ValueError: another suffix.
        OSError: the file cannot be written.
    """
    name, first = maps[0]
    if path.suffix == ".html":
        path.write_text(_page(maps, generated=datetime.now(UTC)), encoding="utf-8")
    elif path.suffix == ".svg":
        path.write_text(heat_svg(name, picture_of(first), style=style()) + "\n", encoding="utf-8")
    elif path.suffix == ".png":
        path.write_bytes(png(heat_pixels(picture_of(first))))
    else:
        raise ValueError(f"expected a picture named *{', *'.join(SUFFIXES)}, found {path.name}")


def picture_of(heat: HeatMap) -> HeatPicture:
    """A heat map as it is drawn."""
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
        f'<figure><div class="scroll">{heat_svg(name, picture_of(heat))}</div></figure>'
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
