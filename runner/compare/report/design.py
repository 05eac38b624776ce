"""The look of all pages and pictures: one style sheet with the colours of both modes."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_PACKAGE = "precision_bisect.runner.compare.report"
_COLOUR = re.compile(r"--([a-z-]+):#([0-9a-f]{3}(?:[0-9a-f]{3})?)\b")


@cache
def style() -> str:
    """The style sheet; a page may add rules of its own behind it."""
    return resources.files(_PACKAGE).joinpath("design.css").read_text(encoding="utf-8").strip()


def light_colour(name: str) -> tuple[int, int, int]:
    """A colour of the light mode, for a picture that can have one mode alone. Raises `KeyError` where there is none.

    >>> light_colour("card")
    (255, 255, 255)
    """
    light, _, _ = style().partition("@media")
    text = dict(_COLOUR.findall(light))[name]
    digits = text if len(text) == 6 else "".join(digit * 2 for digit in text)
    return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
