"""Times as people write them, on command lines and in configuration files."""

import re

_TEXT = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """Seconds of a text such as `90s`, `20m`, `6h` or `1.5d`; without a unit it is seconds. Raises `ValueError`.

    >>> parse_duration("1.5h"), parse_duration("90")
    (5400.0, 90.0)
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise ValueError(f"expected a time such as 20m or 6h, found {text!r}")
    return float(found[1]) * _SECONDS[found[2]]
