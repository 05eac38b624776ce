"""Gathers, line by line, which kernels a runtime that gave up was waiting for, and how."""

import re
from collections.abc import Mapping

STATES = ("running", "ready", "waiting")
"""Groups of a stall's patterns, each a state in which tasks were left. The first that was seen tells the kind of wait:
what is ready may wait for what runs, and what waits for what is ready."""

_MOST_KERNELS = 64
_MOST_SHOWN = 4
_FUNCTION_ID = re.compile(r"(?<![\w-])\d+")


class StallReport:
    """The tasks that were left, as told by matches of stall rules and their details.

    A match tells a state by which of the groups in `STATES` took part; `kernels` holds the function ids of a task in
    that state (`aic:-1 aiv0:3`, where -1 is none), and `round` what the runtime's diagnoses are told apart by: only the
    last one counts.
    """

    def __init__(self) -> None:
        self._states: set[str] = set()
        self._kernels: dict[str, list[int]] = {}
        self._round: str | None = None

    def add(self, match: re.Match[str]) -> None:
        """Take in a match."""
        groups = match.groupdict()
        state = next((name for name in STATES if groups.get(name) is not None), None)
        if state is None:
            return
        number = groups.get("round")
        if number is not None and number != self._round:
            self._round = number
            self._states.clear()
            self._kernels.clear()
        self._states.add(state)
        known = self._kernels.setdefault(state, [])
        found = [int(text) for text in _FUNCTION_ID.findall(groups.get("kernels") or "")]
        if len(known) < _MOST_KERNELS:
            known += [kernel for kernel in found if kernel not in known]

    def text(self, names: Mapping[int, str]) -> str | None:
        """The kind of wait and the kernels it is about, `running in softmax`; None where no state was told. `names` are
        those of the kernels by function id.

        What runs is stuck, each of it; of what is ready or waits only the first in order of submission is told, for the
        others may wait for that one.
        """
        state = next((name for name in STATES if name in self._states), None)
        if state is None:
            return None
        kernels = self._kernels.get(state, [])
        if state != "running":
            kernels = kernels[:1]
        shown = sorted({names.get(kernel, f"kernel {kernel}") for kernel in kernels})
        if len(shown) > _MOST_SHOWN:
            shown = [*shown[:_MOST_SHOWN], f"{len(shown) - _MOST_SHOWN} more"]
        return f"{state} in {', '.join(shown)}" if shown else state
