"""Gathers, line by line, which outputs failed the comparison with golden, and by how much."""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_OUTPUTS = 64
MAX_SIGNATURE = 160
"""Characters of output names in a signature; what is beyond them is counted and hashed."""

_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


@dataclass
class _Output:
    measures: dict[str, float] = field(default_factory=dict[str, float])
    marks: set[str] = field(default_factory=set[str])


class MismatchReport:
    """The failing outputs as named by matches of mismatch rules and their details.

    Group names are those of `VerdictRule`. The first value of a measure stands. At most `MAX_OUTPUTS`
    outputs are kept.
    """

    def __init__(self) -> None:
        self._outputs: dict[str, _Output] = {}
        self._current: str | None = None

    def add(self, match: re.Match[str]) -> None:
        """Take in a match of a rule's pattern."""
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        for single, double in _QUOTED.findall(groups.pop("outputs", "")):
            self._open(single or double)
        if "output" in groups:
            name = groups.pop("output")
            self._open(name)
            self._current = name
        self._measure(groups)

    def add_detail(self, match: re.Match[str]) -> None:
        """Take in a match of one of a rule's details, which tells about the output named last."""
        self._measure({name: value for name, value in match.groupdict().items() if value is not None})

    @property
    def signature(self) -> str | None:
        """The failing outputs, sorted, with NaN and infinity marked: `out`, `k[nan],out`; None if unnamed.

        >>> report = MismatchReport()
        >>> report.add(re.match("'(?P<output>.*)' FAIL (?P<actual>.*)", "'out' FAIL -inf"))
        >>> report.signature
        'out[inf]'
        """
        names: list[str] = []
        for name, output in sorted(self._outputs.items()):
            marks = ",".join(sorted(output.marks, reverse=True))
            names.append(f"{name}[{marks}]" if marks else name)
        return _joined(names) or None

    @property
    def metrics(self) -> Mapping[str, Mapping[str, float]]:
        """Finite numbers by output and measure; `mismatched_fraction` is `mismatched / total`, and `not_finite` is 1
        where NaN or infinity was told of."""
        result: dict[str, dict[str, float]] = {}
        for name, output in self._outputs.items():
            measures = dict(output.measures)
            if measures.get("total") and "mismatched" in measures:
                measures["mismatched_fraction"] = measures["mismatched"] / measures["total"]
            if output.marks:
                measures["not_finite"] = 1.0
            if measures:
                result[name] = measures
        return result

    def _open(self, name: str) -> None:
        if len(self._outputs) < MAX_OUTPUTS:
            self._outputs.setdefault(name, _Output())

    def _measure(self, groups: Mapping[str, str]) -> None:
        output = self._outputs.get(self._current) if self._current is not None else None
        if output is None:
            return
        for name, text in groups.items():
            value = _number(text)
            if value is None:
                continue
            if not math.isfinite(value):
                output.marks.add("nan" if math.isnan(value) else "inf")
            elif name in ("nan", "inf"):
                output.marks |= {name} if value > 0 else set()
            elif name != "actual":
                output.measures.setdefault(name, value)


def _joined(names: list[str]) -> str:
    """The names behind commas; where they are too many, the first ones, how many more, and a hash of all."""
    whole = ",".join(names)
    if len(whole) <= MAX_SIGNATURE:
        return whole
    shown = whole[:MAX_SIGNATURE].rpartition(",")[0] or whole[:MAX_SIGNATURE]
    more = len(names) - shown.count(",") - 1
    return f"{shown},+{more} #{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
