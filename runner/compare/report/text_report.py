"""A comparison of two sources on a terminal: first the answer, then what is behind it.

Records that differ come in execution order, one line each, as they are found; then what only one side has, what could
not be compared, what is equal by tolerance alone, doubts about the comparison itself, and the counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ..difference import Difference, Equality, is_divergent
from ..preflight import Remark, Severity
from .diff_text import printable, show_difference, show_remarks


class TextReport:
    """Prints differences as they are added. `limit` is the most lines of one kind, 0 for all."""

    def __init__(self, console: Console, remarks: Sequence[Remark], *, limit: int, in_detail: bool) -> None:
        self._console = console
        self._remarks = remarks
        self._limit = limit
        self._in_detail = in_detail
        self._divergent = 0

    def begin(self) -> None:
        """What makes the comparison say nothing."""
        errors = [remark for remark in self._remarks if remark.severity is Severity.ERROR]
        show_remarks(self._console, errors)

    def add(self, difference: Difference) -> None:
        """The line of a record that differs, at once."""
        if not is_divergent(difference):
            return
        self._divergent += 1
        if not self._limit or self._divergent <= self._limit:
            show_difference(self._console, difference, in_detail=self._in_detail)

    def end(self, differences: Sequence[Difference], *, stopped: bool) -> None:
        """Everything else, once all records are known; with `stopped` those behind the first were not looked at."""
        self._tell_more(self._divergent)
        for place in dict.fromkeys(each.only_in for each in differences if each.only_in):
            self._group(f"only in {place}", [each for each in differences if each.only_in == place])
        unknown = [each for each in differences if each.outcome is Equality.UNKNOWN and not each.only_in]
        for each in unknown[: self._limit or None]:
            show_difference(self._console, each, in_detail=False)
        self._tell_more(len(unknown))
        close = [each for each in differences if each.outcome is Equality.EQUAL and not each.identical]
        self._group("equal within tolerance, not identical", close)
        self._group(
            "equal, with NaN in the same places", [each for each in differences if _equal_with_nan(each)]
        )
        show_remarks(
            self._console, [remark for remark in self._remarks if remark.severity is not Severity.ERROR]
        )
        counts = [
            f"{sum(each.outcome is outcome for each in differences)} {outcome.value}" for outcome in Equality
        ]
        rest = "; stopped at the first that differs" if stopped else ""
        self._console.print(f"{', '.join(counts)}{rest}", markup=False)

    def brief(self, differences: Sequence[Difference]) -> None:
        """Whether they differ, and where first, in one line."""
        different = [each for each in differences if each.outcome is Equality.DIFFERENT]
        unknown = sum(each.outcome is Equality.UNKNOWN for each in differences)
        if not different and unknown == len(differences):
            self._console.print(f"not compared: {unknown} of {unknown}")
            return
        if not different:
            nan = sum(map(_equal_with_nan, differences))
            rest = f", {nan} with NaN in the same places" if nan else ""
            rest += f", {unknown} not compared" if unknown else ""
            self._console.print(f"equal: {len(differences) - unknown} of {len(differences)}{rest}")
            return
        self._console.print(f"different: {len(different)} of {len(differences)}, first ", end="")
        show_difference(self._console, next(filter(is_divergent, different), different[0]), in_detail=False)

    def _group(self, title: str, group: Sequence[Difference]) -> None:
        """Names that share one thing, below it."""
        if not group:
            return
        self._console.print(Text(printable(f"{title}: {len(group)}"), style="bold"))
        for each in group[: self._limit or None]:
            self._console.print(f"  {printable(each.label)}", markup=False)
        self._tell_more(len(group), indent="  ")

    def _tell_more(self, count: int, *, indent: str = "") -> None:
        if self._limit and count > self._limit:
            self._console.print(f"{indent}... {count - self._limit} more; --limit 0 prints all")


def _equal_with_nan(difference: Difference) -> bool:
    """Whether both sides agree, and hold NaN: a reader of "equal" may not expect any."""
    statistics = difference.statistics
    return difference.outcome is Equality.EQUAL and statistics is not None and statistics.actual_nan.count > 0
